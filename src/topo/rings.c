/* Rings within a host by NVLink alone: over NVSwitches, in complete meshes by construction, in any other mesh by search. */
#include "topo/rings.h"

#include <stdlib.h>
#include <string.h>

enum {
	STEPS = 500000, /* of a search */
	MESH_GPUS = 32  /* larger meshes are not searched: nobody builds them */
};

bool mrw_topo_add_ring(const struct mrw_topo *topo, struct mrw_topo_rings *rings, const uint8_t *order, uint32_t mb_s)
{
	struct mrw_topo_ring *ring = &rings->rings[rings->nrings];

	if (rings->nrings == MRW_TOPO_RINGS)
		return false;
	memset(ring, 0, sizeof *ring);
	memcpy(ring->order, order, rings->ngpus);
	ring->mb_s = mb_s;
	for (uint32_t i = 0; i < rings->ngpus; i++) {
		uint32_t a = topo->gpus[order[i]].node, b = topo->gpus[order[(i + 1) % rings->ngpus]].node;
		struct mrw_topo_path path = mrw_topo_path(topo, a, b);
		if (path.class > ring->worst)
			ring->worst = path.class;
	}
	rings->nrings++;
	rings->mb_s += mb_s;
	return true;
}

/* A cycle in both directions, unless they are one and the same. */
static bool add_both(const struct mrw_topo *topo, struct mrw_topo_rings *rings, const uint8_t *order, uint32_t mb_s)
{
	uint8_t back[MRW_TOPO_GPUS];
	uint32_t n = rings->ngpus;

	if (n == 2)
		return mrw_topo_add_ring(topo, rings, order, 2 * mb_s);
	for (uint32_t i = 0; i < n; i++)
		back[i] = order[(n - i) % n];
	return mrw_topo_add_ring(topo, rings, order, mb_s) && mrw_topo_add_ring(topo, rings, back, mb_s);
}

/* Do all GPUs reach each other by NVSwitch? Then any order does, and what leaves the poorest GPU is the bound and reached. */
static bool over_nvswitch(const struct mrw_topo *topo, struct mrw_topo_rings *rings)
{
	uint8_t order[MRW_TOPO_GPUS];
	uint32_t least = UINT32_MAX;

	for (uint32_t i = 0; i < rings->ngpus; i++)
		for (uint32_t j = 0; j < i; j++) {
			struct mrw_topo_path path = mrw_topo_path(topo, topo->gpus[i].node, topo->gpus[j].node);
			if (path.class != MRW_PATH_NVSWITCH)
				return false;
			if (path.mb_s < least)
				least = path.mb_s;
		}
	/* By place first: neighbours share a CPU. */
	uint32_t count = 0;
	for (int32_t cpu = -1; cpu < (int32_t)topo->nnodes; cpu++)
		for (uint32_t g = 0; g < rings->ngpus && (cpu < 0 || topo->nodes[cpu].kind == MRW_TOPO_CPU); g++)
			if (mrw_topo_cpu_of(topo, topo->gpus[g].node) == cpu)
				order[count++] = (uint8_t)g;
	rings->best = true;
	return add_both(topo, rings, order, least / 2);
}

/* ---- A mesh: NVLinks between pairs. Cycles are undirected: each takes a unit of both directions of its links. ---- */

struct mesh {
	uint32_t n, lane_mb_s;
	uint32_t degree; /* lanes of the poorest GPU */
	uint8_t lanes[MRW_TOPO_GPUS][MRW_TOPO_GPUS];
};

static bool make_mesh(const struct mrw_topo *topo, struct mesh *mesh)
{
	memset(mesh, 0, sizeof *mesh);
	mesh->n = topo->ngpus;
	mesh->degree = UINT32_MAX;
	for (uint32_t i = 0; i < topo->nlinks; i++) {
		const struct mrw_topo_link *link = &topo->links[i];
		const struct mrw_topo_node *a = &topo->nodes[link->a], *b = &topo->nodes[link->b];
		if (a->kind != MRW_TOPO_GPU || b->kind != MRW_TOPO_GPU || topo->p2p[a->index][b->index] == MRW_NO ||
		    topo->p2p[b->index][a->index] == MRW_NO)
			continue;
		mesh->lanes[a->index][b->index] = mesh->lanes[b->index][a->index] = (uint8_t)link->lanes;
		uint32_t mb_s = link->lane_mb_s != 0 ? link->lane_mb_s : MRW_TOPO_GUESS_MB_S;
		if (mesh->lane_mb_s == 0 || mb_s < mesh->lane_mb_s)
			mesh->lane_mb_s = mb_s;
	}
	for (uint32_t i = 0; i < mesh->n; i++) {
		uint32_t degree = 0;
		for (uint32_t j = 0; j < mesh->n; j++)
			degree += mesh->lanes[i][j];
		if (degree < mesh->degree)
			mesh->degree = degree;
	}
	return mesh->degree > 0;
}

/* Walecki: a zigzag through n - 1 GPUs on a circle, closed through the last one, and its rotations. For odd n half the rotations
 * take each pair once; for even n all take each pair twice, so each gets half a link. */
static bool complete_mesh(const struct mrw_topo *topo, const struct mesh *mesh, struct mrw_topo_rings *rings)
{
	uint32_t n = mesh->n, circle = n - 1, lanes = mesh->lanes[0][1];
	uint32_t cycles = n % 2 == 0 ? n - 1 : (n - 1) / 2, mb_s = lanes * mesh->lane_mb_s / (n % 2 == 0 ? 2 : 1);

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < i; j++)
			if (mesh->lanes[i][j] != lanes)
				return false;
	if (2 * cycles > MRW_TOPO_RINGS)
		return false;
	for (uint32_t c = 0; c < cycles; c++) {
		uint8_t order[MRW_TOPO_GPUS];
		for (uint32_t i = 0; i < circle; i++) {
			uint32_t step = (i + 1) / 2;
			order[i] = (uint8_t)((c + (i % 2 == 1 ? step : circle - step)) % circle);
		}
		order[circle] = (uint8_t)circle;
		if (!add_both(topo, rings, order, mb_s))
			return false;
	}
	rings->best = true;
	return true;
}

struct search {
	const struct mesh *mesh;
	uint32_t cycles, steps;
	uint16_t left[MRW_TOPO_GPUS][MRW_TOPO_GPUS]; /* units */
	uint16_t degree[MRW_TOPO_GPUS];              /* their sums */
	bool used[MRW_TOPO_GPUS];
	uint8_t orders[MRW_TOPO_RINGS][MRW_TOPO_GPUS];
};

static void take(struct search *s, uint32_t a, uint32_t b, int32_t units)
{
	s->left[a][b] = s->left[b][a] = (uint16_t)(s->left[a][b] - units);
	s->degree[a] = (uint16_t)(s->degree[a] - units);
	s->degree[b] = (uint16_t)(s->degree[b] - units);
}

/* Place place of cycle cycle and all that follow. */
static bool extend(struct search *s, uint32_t cycle, uint32_t place)
{
	uint8_t *order = s->orders[cycle];
	uint32_t n = s->mesh->n, at = order[place - 1];
	bool tried[MRW_TOPO_GPUS] = {false};

	if (s->steps++ > STEPS)
		return false;
	if (place == n) {
		if (s->left[at][order[0]] == 0)
			return false;
		take(s, at, order[0], 1);
		if (cycle + 1 == s->cycles)
			return true;
		bool used[MRW_TOPO_GPUS];
		memcpy(used, s->used, sizeof used);
		memset(s->used, 0, sizeof s->used);
		s->used[0] = true;
		s->orders[cycle + 1][0] = 0;
		if (extend(s, cycle + 1, 1))
			return true;
		memcpy(s->used, used, sizeof used);
		take(s, at, order[0], -1);
		return false;
	}
	/* Widest links first: they have to be used more often. */
	for (;;) {
		uint32_t next = n;
		for (uint32_t j = 0; j < n; j++)
			if (!s->used[j] && !tried[j] && s->left[at][j] > 0 &&
			    (next == n || s->left[at][j] > s->left[at][next]))
				next = j;
		if (next == n)
			return false;
		tried[next] = true;
		take(s, at, next, 1);
		s->used[next] = true;
		order[place] = (uint8_t)next;
		/* Every later cycle, and the rest of this one, needs two units of a GPU not yet passed, one of the last. */
		if (s->degree[at] >= 2 * (s->cycles - cycle - 1) + (place == 1) && extend(s, cycle, place + 1))
			return true;
		take(s, at, next, -1);
		s->used[next] = false;
	}
}

/* units: into how many a lane is cut. */
static bool search(struct search *s, uint32_t cycles, uint32_t units)
{
	if (cycles == 0 || 2 * cycles > MRW_TOPO_RINGS)
		return false;
	memset(s->used, 0, sizeof s->used);
	memset(s->degree, 0, sizeof s->degree);
	s->cycles = cycles;
	s->steps = 0;
	for (uint32_t i = 0; i < s->mesh->n; i++)
		for (uint32_t j = 0; j < s->mesh->n; j++) {
			s->left[i][j] = (uint16_t)(s->mesh->lanes[i][j] * units);
			s->degree[i] = (uint16_t)(s->degree[i] + s->left[i][j]);
		}
	s->used[0] = true;
	s->orders[0][0] = 0;
	return extend(s, 0, 1);
}

static bool any_mesh(const struct mrw_topo *topo, const struct mesh *mesh, struct mrw_topo_rings *rings)
{
	struct search *s = calloc(1, sizeof *s);
	bool found = false;

	if (s == NULL)
		return false;
	s->mesh = mesh;
	/* Lanes that all rings take from each GPU: whole lanes first, fewer rings. */
	for (uint32_t lanes = mesh->degree; lanes > 0 && !found; lanes--) {
		uint32_t units = 1, cycles = lanes / 2;
		found = lanes % 2 == 0 && search(s, cycles, units);
		if (!found) {
			units = 2;
			cycles = lanes;
			found = search(s, cycles, units);
		}
		for (uint32_t c = 0; c < cycles && found; c++)
			add_both(topo, rings, s->orders[c], mesh->lane_mb_s / units);
		rings->best = found && lanes == mesh->degree;
	}
	free(s);
	return found;
}

static bool over_mesh(const struct mrw_topo *topo, struct mrw_topo_rings *rings)
{
	struct mesh *mesh = malloc(sizeof *mesh);
	bool found = false;

	if (mesh == NULL)
		return false;
	if (topo->ngpus <= MESH_GPUS && make_mesh(topo, mesh)) {
		if (mesh->n == 2) {
			static const uint8_t order[] = {0, 1};
			rings->best = found = mrw_topo_add_ring(topo, rings, order, mesh->degree * mesh->lane_mb_s);
		} else {
			found = complete_mesh(topo, mesh, rings) || any_mesh(topo, mesh, rings);
		}
	}
	free(mesh);
	return found;
}

void mrw_topo_find_rings(const struct mrw_topo *topo, struct mrw_topo_rings *rings)
{
	memset(rings, 0, sizeof *rings);
	rings->ngpus = topo->ngpus;
	if (topo->ngpus < 2 || over_nvswitch(topo, rings) || over_mesh(topo, rings))
		return;
	mrw_topo_mixed_rings(topo, rings);
}

uint32_t mrw_topo_rail_host(uint32_t hosts, uint32_t rails, uint32_t rail, uint32_t place)
{
	uint32_t first = (uint32_t)((uint64_t)rail * hosts / rails), p = place % hosts;

	return (first + (rail % 2 == 0 ? p : hosts - p)) % hosts;
}
