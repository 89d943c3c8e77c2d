#include "topo/topo.h"

const char *mrw_path_name(enum mrw_path_class class)
{
	static const char *const names[] = {
#define MRW_X(id, name, text) name,
		MRW_PATH_LIST(MRW_X)
#undef MRW_X
	};
	return names[class];
}

const char *mrw_path_text(enum mrw_path_class class)
{
	static const char *const texts[] = {
#define MRW_X(id, name, text) text,
		MRW_PATH_LIST(MRW_X)
#undef MRW_X
	};
	return texts[class];
}

static const struct mrw_topo_link *link_between(const struct mrw_topo *topo, uint32_t a, uint32_t b)
{
	for (uint32_t i = 0; i < topo->nlinks; i++)
		if ((topo->links[i].a == a && topo->links[i].b == b) ||
		    (topo->links[i].a == b && topo->links[i].b == a))
			return &topo->links[i];
	return NULL;
}

static struct mrw_topo_path over_link(const struct mrw_topo_link *link)
{
	enum mrw_path_class class = link->kind == MRW_LINK_C2C ? MRW_PATH_C2C : MRW_PATH_NVLINK;
	return (struct mrw_topo_path){
		.class = class, .hops = 1, .mb_s = link->lanes * link->lane_mb_s, .guessed = link->lane_mb_s == 0};
}

/* All NVSwitches that both reach, together. hops 0: none. */
static struct mrw_topo_path over_nvswitches(const struct mrw_topo *topo, uint32_t a, uint32_t b)
{
	struct mrw_topo_path path = {.class = MRW_PATH_NVSWITCH};

	for (uint32_t i = 0; i < topo->nlinks; i++) {
		const struct mrw_topo_link *near_end = &topo->links[i], *far_end;
		uint32_t other = near_end->a == a ? near_end->b : near_end->a;
		if ((near_end->a != a && near_end->b != a) || topo->nodes[other].kind != MRW_TOPO_NVSWITCH)
			continue;
		far_end = link_between(topo, other, b);
		if (far_end == NULL)
			continue;
		uint32_t one = near_end->lanes * near_end->lane_mb_s, two = far_end->lanes * far_end->lane_mb_s;
		path.hops = 2;
		path.mb_s += one < two ? one : two;
		path.guessed = path.guessed || one == 0 || two == 0;
	}
	return path;
}

/* Steps up from a node, its narrowest link on the way, until ancestor. */
static void climb(const struct mrw_topo *topo, int32_t from, int32_t ancestor, struct mrw_topo_path *path)
{
	for (; from != ancestor; from = topo->nodes[from].parent) {
		uint32_t mb_s = topo->nodes[from].up_mb_s;
		path->hops++;
		if (mb_s == 0)
			path->guessed = true;
		else if (path->mb_s == 0 || mb_s < path->mb_s)
			path->mb_s = mb_s;
	}
}

static int32_t common_ancestor(const struct mrw_topo *topo, int32_t a, int32_t b)
{
	/* Parents have smaller numbers: whoever is higher is the larger. */
	while (a != b && a >= 0 && b >= 0) {
		if (a > b)
			a = topo->nodes[a].parent;
		else
			b = topo->nodes[b].parent;
	}
	return a == b ? a : -1;
}

static uint32_t host_of(const struct mrw_topo *topo, int32_t cpu)
{
	return cpu < 0 ? UINT32_MAX : topo->cpus[topo->nodes[cpu].index].host;
}

/* staged: by way of host memory in any case. */
static struct mrw_topo_path over_pcie(const struct mrw_topo *topo, int32_t a, int32_t b, bool staged)
{
	struct mrw_topo_path path = {.class = MRW_PATH_NONE};
	int32_t top = common_ancestor(topo, a, b), cpu_a = mrw_topo_cpu_of(topo, (uint32_t)a),
		cpu_b = mrw_topo_cpu_of(topo, (uint32_t)b);

	if (topo->nodes[a].kind == MRW_TOPO_NVSWITCH || topo->nodes[b].kind == MRW_TOPO_NVSWITCH)
		return path;
	if (top >= 0 && topo->nodes[top].kind == MRW_TOPO_BRIDGE && top != a && top != b) {
		climb(topo, a, top, &path);
		climb(topo, b, top, &path);
		path.class = path.hops == 2 ? MRW_PATH_SWITCH : MRW_PATH_SWITCHES;
		if (staged || topo->bridges[topo->nodes[top].index].acs == MRW_YES) {
			/* Up to the CPU and down again. Both directions of the switch's own link are in use. */
			struct mrw_topo_path up = path;
			climb(topo, top, mrw_topo_cpu_of(topo, (uint32_t)top), &up);
			path.mb_s = up.mb_s;
			path.hops = up.hops + (up.hops - path.hops);
			path.guessed = up.guessed;
			path.class = MRW_PATH_HOST;
			path.redirected = true;
		}
		return path;
	}
	if (top >= 0) {
		climb(topo, a, top, &path);
		climb(topo, b, top, &path);
		path.class = MRW_PATH_HOST;
		path.redirected = staged;
		return path;
	}
	if (cpu_a >= 0 && cpu_b >= 0 && host_of(topo, cpu_a) != host_of(topo, cpu_b))
		return path;
	climb(topo, a, cpu_a, &path);
	climb(topo, b, cpu_b, &path);
	path.class = MRW_PATH_CPUS;
	path.redirected = staged;
	path.hops++;
	/* Devices of unknown place: nothing better is certain. */
	path.guessed = path.guessed || cpu_a < 0 || cpu_b < 0 || topo->between_cpus_mb_s == 0;
	if (topo->between_cpus_mb_s != 0 && cpu_a >= 0 && cpu_b >= 0 &&
	    (path.mb_s == 0 || topo->between_cpus_mb_s < path.mb_s))
		path.mb_s = topo->between_cpus_mb_s;
	return path;
}

/* MIG slices, and GPUs found to have no peer access, exchange through host memory. */
static bool no_peers(const struct mrw_topo *topo, uint32_t a, uint32_t b)
{
	const struct mrw_topo_node *na = &topo->nodes[a], *nb = &topo->nodes[b];

	if (na->kind != MRW_TOPO_GPU || nb->kind != MRW_TOPO_GPU)
		return false;
	return topo->gpus[na->index].mig >= 0 || topo->gpus[nb->index].mig >= 0 ||
	       topo->p2p[na->index][nb->index] == MRW_NO || topo->p2p[nb->index][na->index] == MRW_NO;
}

struct mrw_topo_path mrw_topo_path(const struct mrw_topo *topo, uint32_t a, uint32_t b)
{
	struct mrw_topo_path path = {.class = MRW_PATH_SELF};
	const struct mrw_topo_link *link;

	if (a == b)
		return path;
	if (no_peers(topo, a, b))
		return over_pcie(topo, (int32_t)a, (int32_t)b, true);
	link = link_between(topo, a, b);
	if (link != NULL)
		return over_link(link);
	if (topo->nodes[a].kind == MRW_TOPO_GPU && topo->nodes[b].kind == MRW_TOPO_GPU) {
		path = over_nvswitches(topo, a, b);
		if (path.hops > 0)
			return path;
	}
	return over_pcie(topo, (int32_t)a, (int32_t)b, false);
}
