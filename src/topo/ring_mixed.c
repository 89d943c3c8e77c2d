/* Rings over PCIe, with NVLinks where two GPUs have some. Each direction of each link has a capacity; a step takes some of all on
 * its way. A nearest-neighbour ring is in the order of the PCIe tree, which crosses every link once each way: without NVLinks
 * nothing is better. With them several rings that leave an island by different GPUs can be: a search over (how many, how wide). */
#include "topo/rings.h"

#include <stdlib.h>
#include <string.h>

enum {
	MOST_CYCLES = 8,
	TRY_STEPS = 20000,
	ALL_STEPS = 2000000,
	MAX_WIDTHS = 64,
	MOST_PARTS = 4,
	MAX_WAY = 2 * MRW_TOPO_DEPTH + 2
};

/* Links by number: 2 i and 2 i + 1 are up and down of node i's PCIe link (of a CPU's: to the others), then NVLinks. */
enum { FIRST_NVLINK = 2 * MRW_TOPO_NODES, NLINKS = FIRST_NVLINK + 2 * MRW_TOPO_LINKS };

struct way {
	bool exists;
	uint8_t count;
	uint16_t links[MAX_WAY];
};

struct mixed {
	const struct mrw_topo *topo;
	uint32_t n, bound, steps, all_steps;
	uint32_t cycles, mb_s; /* looked for */
	bool turned; /* each ring begins elsewhere, else all at GPU 0 */
	uint32_t capacity[NLINKS], left[NLINKS];
	struct way ways[MRW_TOPO_GPUS][MRW_TOPO_GPUS];
	uint8_t near[MRW_TOPO_GPUS][MRW_TOPO_GPUS]; /* row i: the others, the nearest first */
	bool used[MRW_TOPO_GPUS];
	uint8_t orders[MOST_CYCLES][MRW_TOPO_GPUS];
};

static uint32_t known(uint32_t mb_s)
{
	return mb_s != 0 ? mb_s : MRW_TOPO_GUESS_MB_S;
}

/* Ports and slices of one device have one PCIe link. */
static uint32_t link_owner(const struct mrw_topo *topo, uint32_t node)
{
	const struct mrw_topo_node *mine = &topo->nodes[node];

	for (uint32_t i = 0; i < node && mine->bus[0] != '\0'; i++)
		if (topo->nodes[i].parent == mine->parent && strcmp(topo->nodes[i].bus, mine->bus) == 0)
			return i;
	return node;
}

static void set_capacities(struct mixed *m)
{
	const struct mrw_topo *topo = m->topo;

	for (uint32_t i = 0; i < topo->nnodes; i++) {
		bool cpu = topo->nodes[i].kind == MRW_TOPO_CPU;
		m->capacity[2 * i] = m->capacity[2 * i + 1] =
			known(cpu ? topo->between_cpus_mb_s : topo->nodes[i].up_mb_s);
	}
	for (uint32_t i = 0; i < topo->nlinks; i++)
		m->capacity[FIRST_NVLINK + 2 * i] = m->capacity[FIRST_NVLINK + 2 * i + 1] =
			topo->links[i].lanes * known(topo->links[i].lane_mb_s);
}

/* Up from node (one direction) or down to it, as far as top. */
static void climb(const struct mixed *m, struct way *way, int32_t node, int32_t top, uint32_t down)
{
	for (; node != top && node >= 0 && m->topo->nodes[node].kind != MRW_TOPO_CPU;
	     node = m->topo->nodes[node].parent)
		way->links[way->count++] = (uint16_t)(2 * link_owner(m->topo, (uint32_t)node) + down);
}

/* The links from GPU a to GPU b. False: there is no way. */
static bool find_way(const struct mixed *m, uint32_t a, uint32_t b, struct way *way)
{
	const struct mrw_topo *topo = m->topo;
	int32_t from = topo->gpus[a].node, to = topo->gpus[b].node, top = from, other = to;
	struct mrw_topo_path path = mrw_topo_path(topo, (uint32_t)from, (uint32_t)to);

	way->count = 0;
	if (path.class == MRW_PATH_NONE)
		return false;
	if (path.class == MRW_PATH_NVLINK || path.class == MRW_PATH_NVSWITCH) {
		/* Of several NVSwitches the first will do: they are alike. */
		for (uint32_t i = 0; i < topo->nlinks; i++) {
			const struct mrw_topo_link *one = &topo->links[i];
			if (one->a != from && one->b != from)
				continue;
			uint32_t end = one->a == from ? one->b : one->a;
			uint32_t leave = FIRST_NVLINK + 2 * i + (one->b == from);
			if (end == (uint32_t)to) {
				way->links[way->count++] = (uint16_t)leave;
				return true;
			}
			for (uint32_t j = 0; j < topo->nlinks && topo->nodes[end].kind == MRW_TOPO_NVSWITCH; j++) {
				const struct mrw_topo_link *two = &topo->links[j];
				if ((two->a == end && two->b == to) || (two->b == end && two->a == to)) {
					way->links[way->count++] = (uint16_t)leave;
					way->links[way->count++] = (uint16_t)(FIRST_NVLINK + 2 * j + (two->b == end));
					return true;
				}
			}
		}
		return false;
	}
	while (top != other && top >= 0 && other >= 0) {
		if (top > other)
			top = topo->nodes[top].parent;
		else
			other = topo->nodes[other].parent;
	}
	if (top != other || path.redirected)
		top = -1; /* up to the CPUs */
	climb(m, way, from, top, 0);
	int32_t cpu_a = mrw_topo_cpu_of(topo, (uint32_t)from), cpu_b = mrw_topo_cpu_of(topo, (uint32_t)to);
	if (cpu_a >= 0 && cpu_b >= 0 && cpu_a != cpu_b) {
		way->links[way->count++] = (uint16_t)(2 * cpu_a);
		way->links[way->count++] = (uint16_t)(2 * cpu_b + 1);
	}
	climb(m, way, to, top, 1);
	return true;
}

/* How near, for sorting: NVLinks, then by the depth of what joins both. */
static uint32_t distance(const struct mixed *m, uint32_t a, uint32_t b)
{
	struct mrw_topo_path path = mrw_topo_path(m->topo, m->topo->gpus[a].node, m->topo->gpus[b].node);
	int32_t one = m->topo->gpus[a].node, two = m->topo->gpus[b].node;
	uint32_t depth = 0;

	if (path.class <= MRW_PATH_C2C || path.class == MRW_PATH_NONE)
		return path.class == MRW_PATH_NONE ? UINT32_MAX : path.class;
	while (one != two && one >= 0 && two >= 0) {
		if (one > two)
			one = m->topo->nodes[one].parent;
		else
			two = m->topo->nodes[two].parent;
	}
	for (; one == two && one >= 0; one = two = m->topo->nodes[one].parent)
		depth++;
	/* Slices of one device before others at its bridge. */
	bool same = link_owner(m->topo, m->topo->gpus[a].node) == link_owner(m->topo, m->topo->gpus[b].node);
	return 100 - 2 * depth - same;
}

static void sort_neighbours(struct mixed *m)
{
	for (uint32_t i = 0; i < m->n; i++) {
		uint32_t far[MRW_TOPO_GPUS];
		/* Turned: of those equally far the next in number first, so that rings that begin elsewhere leave islands elsewhere. */
		for (uint32_t k = 0; k < m->n; k++) {
			uint32_t j = m->turned ? (i + 1 + k) % m->n : k, at = k, d = distance(m, i, j);
			for (; at > 0 && far[at - 1] > d; at--) {
				far[at] = far[at - 1];
				m->near[i][at] = m->near[i][at - 1];
			}
			far[at] = d;
			m->near[i][at] = (uint8_t)j;
		}
	}
}

/* Steps of a ring that no way joins. */
static uint32_t gaps(const struct mixed *m, const uint8_t *order)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < m->n; i++)
		count += !m->ways[order[i]][order[(i + 1) % m->n]].exists;
	return count;
}

/* Moves single GPUs to where they fit, as long as gaps become fewer: GPUs that only a few others reach come last otherwise. */
static void close_gaps(const struct mixed *m, uint8_t *order)
{
	uint32_t left = gaps(m, order);
	uint8_t trial[MRW_TOPO_GPUS];
	bool better = true;

	while (left > 0 && better) {
		better = false;
		for (uint32_t from = 0; from < m->n && !better; from++) {
			if (m->ways[order[from]][order[(from + 1) % m->n]].exists &&
			    m->ways[order[(from + m->n - 1) % m->n]][order[from]].exists)
				continue;
			for (uint32_t to = 0; to < m->n && !better; to++) {
				memcpy(trial, order, m->n);
				if (to > from)
					memmove(trial + from, trial + from + 1, to - from);
				else
					memmove(trial + to + 1, trial + to, from - to);
				trial[to] = order[from];
				uint32_t now = gaps(m, trial);
				better = now < left;
				if (better) {
					memcpy(order, trial, m->n);
					left = now;
				}
			}
		}
	}
}

/* The ring of nearest neighbours; what the fullest link leaves for each of its steps. 0: no ring. */
static uint32_t nearest_ring(struct mixed *m, uint8_t *order)
{
	uint32_t *load = calloc(NLINKS, sizeof *load), mb_s = UINT32_MAX;
	bool used[MRW_TOPO_GPUS] = {true};

	if (load == NULL)
		return 0;
	order[0] = 0;
	for (uint32_t place = 1; place < m->n; place++) {
		uint32_t k = 0;
		while (used[m->near[order[place - 1]][k]])
			k++;
		order[place] = m->near[order[place - 1]][k];
		used[order[place]] = true;
	}
	close_gaps(m, order);
	for (uint32_t i = 0; i < m->n; i++) {
		const struct way *way = &m->ways[order[i]][order[(i + 1) % m->n]];
		if (!way->exists) {
			mb_s = 0;
			goto done;
		}
		for (uint32_t l = 0; l < way->count; l++)
			load[way->links[l]]++;
	}
	for (uint32_t l = 0; l < NLINKS; l++)
		if (load[l] > 0 && m->capacity[l] / load[l] < mb_s)
			mb_s = m->capacity[l] / load[l];
done:
	free(load);
	return mb_s;
}

static uint32_t gpus_below(const struct mrw_topo *topo, uint32_t node, bool *below)
{
	uint32_t count = 0;

	for (uint32_t g = 0; g < topo->ngpus; g++) {
		int32_t n = topo->gpus[g].node;
		while (n >= 0 && n != (int32_t)node && link_owner(topo, (uint32_t)n) != node)
			n = topo->nodes[n].parent;
		below[g] = n >= 0;
		count += below[g];
	}
	return count;
}

/* What no set of rings exceeds: each crosses the border of what is below a PCIe link, and that of a GPU. Where devices below
 * send through the link even to each other (ACS, slices), each of them does. */
static uint32_t find_bound(const struct mixed *m)
{
	const struct mrw_topo *topo = m->topo;
	uint64_t bound = UINT32_MAX;

	for (uint32_t i = 0; i < topo->nnodes; i++) {
		bool below[MRW_TOPO_GPUS], linked = false;
		uint32_t count = gpus_below(topo, i, below), senders = 1;
		uint64_t capacity = m->capacity[2 * i];
		if (count == 0 ||
		    (count == m->n && topo->nodes[i].kind != MRW_TOPO_GPU && topo->nodes[i].kind != MRW_TOPO_BRIDGE))
			continue;
		for (uint32_t l = 0; l < topo->nlinks; l++) {
			const struct mrw_topo_node *a = &topo->nodes[topo->links[l].a],
						   *b = &topo->nodes[topo->links[l].b];
			bool in_a = a->kind == MRW_TOPO_GPU && below[a->index],
			     in_b = b->kind == MRW_TOPO_GPU && below[b->index];
			if (topo->links[l].kind == MRW_LINK_NVLINK && in_a != in_b)
				capacity += m->capacity[FIRST_NVLINK + 2 * l];
			linked = linked || in_a || in_b;
		}
		bool slices = topo->nodes[i].kind == MRW_TOPO_GPU && count > 1;
		bool acs = topo->nodes[i].kind == MRW_TOPO_BRIDGE && topo->bridges[topo->nodes[i].index].acs == MRW_YES;
		if ((slices || acs) && !linked)
			senders = count;
		else if (count == m->n)
			continue;
		if (capacity / senders < bound)
			bound = capacity / senders;
	}
	return (uint32_t)bound;
}

/* What leaves an island by PCIe, where below a link there are no GPUs but its own by that link: to others it may be nearer. */
static uint64_t way_out(const struct mixed *m, const uint16_t *island, uint16_t which)
{
	const struct mrw_topo *topo = m->topo;
	uint64_t out[MRW_TOPO_NODES] = {0}, all = 0;
	bool shared[MRW_TOPO_NODES] = {false};

	for (uint32_t i = topo->nnodes; i-- > 0;) {
		const struct mrw_topo_node *node = &topo->nodes[i];
		if (node->kind == MRW_TOPO_GPU && island[i] == which)
			out[i] = m->capacity[2 * i];
		else if (node->kind == MRW_TOPO_GPU)
			shared[i] = true;
		else if (!shared[i] && out[i] > m->capacity[2 * i])
			out[i] = m->capacity[2 * i];
		if (node->parent < 0) {
			all += out[i];
			continue;
		}
		out[node->parent] += out[i];
		shared[node->parent] = shared[node->parent] || shared[i];
	}
	return all;
}

/* The same for what NVLinks join: all that leaves it leaves by PCIe. */
static uint32_t bound_of_islands(const struct mixed *m, uint32_t bound)
{
	const struct mrw_topo *topo = m->topo;
	uint16_t island[MRW_TOPO_NODES];
	bool changed = true;

	for (uint32_t i = 0; i < topo->nnodes; i++)
		island[i] = (uint16_t)i;
	while (changed) {
		changed = false;
		for (uint32_t l = 0; l < topo->nlinks; l++) {
			uint16_t *a = &island[topo->links[l].a], *b = &island[topo->links[l].b];
			if (topo->links[l].kind != MRW_LINK_NVLINK || *a == *b)
				continue;
			*a = *b = *a < *b ? *a : *b;
			changed = true;
		}
	}
	for (uint16_t i = 0; i < topo->nnodes; i++) {
		uint32_t count = 0;
		for (uint32_t g = 0; g < m->n; g++)
			count += island[topo->gpus[g].node] == i;
		uint64_t capacity = count > 0 && count < m->n ? way_out(m, island, i) : bound;
		if (capacity < bound)
			bound = (uint32_t)capacity;
	}
	return bound;
}

static bool take_way(struct mixed *m, const struct way *way)
{
	if (!way->exists)
		return false;
	for (uint32_t l = 0; l < way->count; l++) {
		uint32_t *left = &m->left[way->links[l]];
		if (*left < m->mb_s) {
			while (l-- > 0)
				m->left[way->links[l]] += m->mb_s;
			return false;
		}
		*left -= m->mb_s;
	}
	return true;
}

static void give_way(struct mixed *m, const struct way *way)
{
	for (uint32_t l = 0; l < way->count; l++)
		m->left[way->links[l]] += m->mb_s;
}

/* A ring may start anywhere: it does where most is left of the way in from elsewhere, since it has to come back there. */
static void start(struct mixed *m, uint32_t cycle)
{
	uint32_t first = 0, most = 0;

	for (uint32_t g = 0; g < m->n && m->turned; g++) {
		uint32_t left = UINT32_MAX;
		for (int32_t n = m->topo->gpus[g].node; n >= 0 && m->topo->nodes[n].kind != MRW_TOPO_CPU; n = m->topo->nodes[n].parent) {
			uint32_t link = m->left[2 * link_owner(m->topo, (uint32_t)n) + 1];
			left = link < left ? link : left;
		}
		if (left > most) {
			most = left;
			first = g;
		}
	}
	memset(m->used, 0, sizeof m->used);
	m->used[first] = true;
	m->orders[cycle][0] = (uint8_t)first;
}

static bool extend(struct mixed *m, uint32_t cycle, uint32_t place)
{
	uint8_t *order = m->orders[cycle];
	uint32_t at = order[place - 1];

	if (m->steps++ > TRY_STEPS)
		return false;
	if (place == m->n) {
		const struct way *home = &m->ways[at][order[0]];
		if (!take_way(m, home))
			return false;
		if (cycle + 1 == m->cycles)
			return true;
		start(m, cycle + 1);
		if (extend(m, cycle + 1, 1))
			return true;
		memset(m->used, true, sizeof m->used);
		give_way(m, home);
		return false;
	}
	for (uint32_t k = 0; k < m->n; k++) {
		uint32_t next = m->near[at][k];
		if (m->used[next] || !take_way(m, &m->ways[at][next]))
			continue;
		m->used[next] = true;
		order[place] = (uint8_t)next;
		if (extend(m, cycle, place + 1))
			return true;
		m->used[next] = false;
		give_way(m, &m->ways[at][next]);
	}
	return false;
}

static bool look_for(struct mixed *m, uint32_t cycles, uint32_t mb_s)
{
	bool found;

	m->cycles = cycles;
	m->mb_s = mb_s;
	m->steps = 0;
	memcpy(m->left, m->capacity, sizeof m->left);
	start(m, 0);
	found = extend(m, 0, 1);
	m->all_steps += m->steps;
	return found;
}

/* Widths worth trying: what links carry, and parts of it. Sorted, the widest first. */
static uint32_t find_widths(const struct mixed *m, uint32_t *widths)
{
	uint32_t count = 0;

	for (uint32_t l = 0; l < NLINKS; l += 2)
		for (uint32_t parts = 1; parts <= MOST_PARTS && m->capacity[l] >= parts; parts++) {
			uint32_t width = m->capacity[l] / parts, at = 0;
			while (at < count && widths[at] > width)
				at++;
			if ((at < count && widths[at] == width) || count == MAX_WIDTHS)
				continue;
			memmove(widths + at + 1, widths + at, (count - at) * sizeof *widths);
			widths[at] = width;
			count++;
		}
	return count;
}

/* The widest total that is found, below the bound and above what is there already. */
static bool improve(struct mixed *m, uint32_t reached)
{
	uint32_t widths[MAX_WIDTHS + 1], count = find_widths(m, widths), last = UINT32_MAX, last_cycles = 0;

	while (m->all_steps < ALL_STEPS) {
		uint32_t best = 0, cycles = 0, mb_s = 0;
		/* The next smaller total; of one total the fewest rings first. */
		for (uint32_t w = 0; w < count; w++)
			for (uint32_t c = 1; c <= MOST_CYCLES; c++) {
				uint64_t total = (uint64_t)widths[w] * c;
				if (total > m->bound || total <= reached || total > last || (total == last && c <= last_cycles) ||
				    total < best || (total == best && c >= cycles))
					continue;
				best = (uint32_t)total;
				cycles = c;
				mb_s = widths[w];
			}
		if (cycles == 0)
			return false;
		if (look_for(m, cycles, mb_s))
			return true;
		last = best;
		last_cycles = cycles;
	}
	return false;
}

void mrw_topo_mixed_rings(const struct mrw_topo *topo, struct mrw_topo_rings *rings)
{
	struct mixed *m = calloc(1, sizeof *m);
	uint8_t order[MRW_TOPO_GPUS];
	uint32_t mb_s;

	if (m == NULL)
		return;
	m->topo = topo;
	m->n = topo->ngpus;
	set_capacities(m);
	for (uint32_t a = 0; a < m->n; a++)
		for (uint32_t b = 0; b < m->n; b++)
			m->ways[a][b].exists = a != b && find_way(m, a, b, &m->ways[a][b]);
	m->bound = bound_of_islands(m, find_bound(m));
	/* Neither order of search finds all that the other does. */
	for (uint32_t search = 0; search < 2 && !rings->best; search++) {
		m->turned = search == 0;
		m->all_steps = 0;
		sort_neighbours(m);
		mb_s = nearest_ring(m, order);
		uint32_t reached = mb_s > rings->mb_s ? mb_s : rings->mb_s;
		bool improved = reached < m->bound && improve(m, reached);
		if (!improved && mb_s <= rings->mb_s)
			continue;
		rings->nrings = rings->mb_s = 0;
		for (uint32_t c = 0; improved && c < m->cycles; c++)
			mrw_topo_add_ring(topo, rings, m->orders[c], m->mb_s);
		if (!improved)
			mrw_topo_add_ring(topo, rings, order, mb_s);
		/* Widths are whole MB/s: a part of one is lost to each ring. */
		rings->best = rings->nrings > 0 && rings->mb_s + rings->nrings > m->bound;
	}
	free(m);
}
