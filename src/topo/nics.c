/* NICs for GPUs: groups that share a CPU one after the other, then GPUs whose CPU has none. In a group first the greatest
 * bandwidth that every GPU can have, by matching under a threshold; then the cheapest assignment that keeps it. */
#include "topo/topo.h"

#include <stdlib.h>
#include <string.h>

struct group {
	const struct mrw_topo *topo;
	uint32_t ngpus, nnics;
	uint16_t gpus[MRW_TOPO_GPUS], nics[MRW_TOPO_NICS];        /* indices in the machine */
	struct mrw_topo_path paths[MRW_TOPO_GPUS][MRW_TOPO_NICS]; /* by place in the group */
	uint32_t before[MRW_TOPO_NICS];                           /* GPUs of earlier groups on a NIC */
	uint32_t room[MRW_TOPO_NICS], load[MRW_TOPO_NICS];        /* this group's */
	uint32_t least_mb_s;                                      /* every GPU gets this */
	enum mrw_path_class farthest[MRW_TOPO_GPUS];              /* that a GPU may choose */
	int32_t choice[MRW_TOPO_GPUS];                            /* place of the NIC, -1 none yet */
};

/* Costs of one step in each concern; a step of one outweighs all that later ones can sum up to. */
static const int64_t cost_distance = (int64_t)1 << 40, cost_sharing = (int64_t)1 << 24;

static uint32_t known(uint32_t mb_s)
{
	return mb_s != 0 ? mb_s : MRW_TOPO_GUESS_MB_S;
}

static uint32_t rate(const struct group *g, uint32_t n)
{
	return known(g->topo->nics[g->nics[n]].rate_mb_s);
}

/* May GPU u use NIC n? */
static bool allowed(const struct group *g, uint32_t u, uint32_t n)
{
	return g->paths[u][n].class <= g->farthest[u] && known(g->paths[u][n].mb_s) >= g->least_mb_s;
}

static int64_t cost(const struct group *g, uint32_t u, uint32_t n)
{
	/* Equal ones go by order: the first GPUs to the first NICs. */
	int64_t out_of_order = (int64_t)(2 * u + 1) * g->nnics - (int64_t)(2 * n + 1) * g->ngpus;
	int64_t distance = (int64_t)g->paths[u][n].class * 64 + g->paths[u][n].hops;
	return distance * cost_distance + (out_of_order < 0 ? -out_of_order : out_of_order);
}

/* One more GPU gets a NIC, by the cheapest chain of changes (Bellman and Ford over GPUs and NICs). */
static bool assign(struct group *g, uint32_t first)
{
	int64_t best[MRW_TOPO_NICS];
	int32_t from[MRW_TOPO_NICS]; /* GPU that takes the NIC */
	int32_t end = -1;
	bool changed = true;

	for (uint32_t n = 0; n < g->nnics; n++) {
		best[n] = allowed(g, first, n) ? cost(g, first, n) : INT64_MAX;
		from[n] = (int32_t)first;
	}
	while (changed) {
		changed = false;
		for (uint32_t u = 0; u < g->ngpus; u++) {
			int32_t mine = g->choice[u];
			if (mine < 0 || best[mine] == INT64_MAX)
				continue;
			int64_t freed = best[mine] - cost(g, u, (uint32_t)mine);
			for (uint32_t n = 0; n < g->nnics; n++)
				if ((int32_t)n != mine && allowed(g, u, n) && freed + cost(g, u, n) < best[n]) {
					best[n] = freed + cost(g, u, n);
					from[n] = (int32_t)u;
					changed = true;
				}
		}
	}
	for (uint32_t n = 0; n < g->nnics; n++) {
		if (best[n] == INT64_MAX || g->load[n] >= g->room[n])
			continue;
		best[n] += (int64_t)(g->before[n] + g->load[n]) * cost_sharing;
		if (end < 0 || best[n] < best[end])
			end = (int32_t)n;
	}
	if (end < 0)
		return false;
	g->load[end]++;
	for (;;) {
		int32_t u = from[end], left = g->choice[u];
		g->choice[u] = end;
		if (u == (int32_t)first)
			return true;
		end = left;
	}
}

/* Assigns all, nobody with less than mb_s. */
static bool assign_all(struct group *g, uint32_t mb_s)
{
	g->least_mb_s = mb_s;
	for (uint32_t n = 0; n < g->nnics; n++) {
		uint32_t most = mb_s == 0 ? MRW_TOPO_GPUS : rate(g, n) / mb_s;
		g->room[n] = most > g->before[n] ? most - g->before[n] : 0;
		g->load[n] = 0;
	}
	for (uint32_t u = 0; u < g->ngpus; u++)
		g->choice[u] = -1;
	for (uint32_t u = 0; u < g->ngpus; u++)
		if (!assign(g, u))
			return false;
	return true;
}

static int by_value(const void *a, const void *b)
{
	uint32_t one = *(const uint32_t *)a, two = *(const uint32_t *)b;
	return (one > two) - (one < two);
}

/* The greatest of the bandwidths that a path or a shared NIC can have under which all are served. False: they cannot be. */
static bool choose(struct group *g)
{
	size_t count = 0, low = 0, high;
	uint32_t *values = malloc(sizeof *values * (2 * (size_t)MRW_TOPO_GPUS * MRW_TOPO_NICS + 1));

	if (values == NULL)
		return assign_all(g, 0);
	values[count++] = 0;
	for (uint32_t n = 0; n < g->nnics; n++)
		for (uint32_t u = 0; u < g->ngpus; u++) {
			values[count++] = known(g->paths[u][n].mb_s);
			values[count++] = rate(g, n) / (g->before[n] + u + 1);
		}
	qsort(values, count, sizeof *values, by_value);
	high = count;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		if (assign_all(g, values[middle]))
			low = middle;
		else
			high = middle;
	}
	uint32_t most = values[low];
	free(values);
	return assign_all(g, most);
}

static void keep(const struct group *g, struct mrw_topo_pairing *pairing)
{
	for (uint32_t u = 0; u < g->ngpus; u++) {
		if (g->choice[u] < 0 || pairing->npairs == MRW_TOPO_PAIRS)
			continue;
		pairing->pairs[pairing->npairs++] = (struct mrw_topo_pair){
			.gpu = g->gpus[u], .nic = g->nics[g->choice[u]], .path = g->paths[u][g->choice[u]]};
	}
}

static void find_paths(struct group *g)
{
	for (uint32_t u = 0; u < g->ngpus; u++)
		for (uint32_t n = 0; n < g->nnics; n++)
			g->paths[u][n] =
				mrw_topo_path(g->topo, g->topo->gpus[g->gpus[u]].node, g->topo->nics[g->nics[n]].node);
}

/* NICs that nobody has yet and that are not much slower than the others. */
static void keep_free_nics(struct group *g, const uint32_t *load)
{
	uint32_t kept = 0, fastest = 0;

	for (uint32_t n = 0; n < g->nnics; n++)
		if (rate(g, n) > fastest)
			fastest = rate(g, n);
	for (uint32_t n = 0; n < g->nnics; n++)
		if (load[g->nics[n]] == 0 && rate(g, n) >= fastest / 2)
			g->nics[kept++] = g->nics[n];
	g->nnics = kept;
}

static void serve(struct group *g, uint32_t *load, struct mrw_topo_pairing *pairing)
{
	if (g->ngpus == 0 || g->nnics == 0)
		return;
	for (uint32_t u = 0; u < g->ngpus; u++)
		g->farthest[u] = MRW_PATH_CPUS;
	do {
		find_paths(g);
		for (uint32_t n = 0; n < g->nnics; n++)
			g->before[n] = load[g->nics[n]];
		if (!choose(g))
			return;
		keep(g, pairing);
		for (uint32_t u = 0; u < g->ngpus; u++) {
			load[g->nics[g->choice[u]]]++;
			g->farthest[u] = g->paths[u][g->choice[u]].class;
		}
		keep_free_nics(g, load);
	} while (g->nnics >= g->ngpus);
}

static bool has_part(const struct mrw_topo *topo, uint32_t nic)
{
	return topo->nics[nic].up != MRW_NO;
}

static int by_gpu(const void *a, const void *b)
{
	const struct mrw_topo_pair *one = a, *two = b;
	/* sharers hold the order of choice for the while: qsort is not stable. */
	if (one->gpu != two->gpu)
		return one->gpu < two->gpu ? -1 : 1;
	return (one->sharers > two->sharers) - (one->sharers < two->sharers);
}

static void give_reason(const struct mrw_topo *topo, struct mrw_topo_pair *pair, bool local)
{
	const struct mrw_topo_node *nearer = NULL;
	char rest[32];

	for (uint32_t n = 0; n < topo->nnics && nearer == NULL; n++) {
		struct mrw_topo_path path = mrw_topo_path(topo, topo->gpus[pair->gpu].node, topo->nics[n].node);
		if (has_part(topo, n) && path.class < pair->path.class)
			nearer = &topo->nodes[topo->nics[n].node];
	}
	if (pair->sharers == 1)
		snprintf(rest, sizeof rest, "its own");
	else
		snprintf(rest, sizeof rest, "shared by %u GPUs", pair->sharers);
	if (nearer != NULL)
		snprintf(pair->reason, sizeof pair->reason, "over %s, %s: %s is nearer but would give less",
			 mrw_path_text(pair->path.class), rest, nearer->name);
	else
		snprintf(pair->reason, sizeof pair->reason, "nearest, over %s, %s%s", mrw_path_text(pair->path.class),
			 rest, local ? "" : "; no NIC at its CPU");
}

void mrw_topo_pair_nics(const struct mrw_topo *topo, struct mrw_topo_pairing *pairing)
{
	struct group *g = calloc(1, sizeof *g);
	uint32_t load[MRW_TOPO_NICS] = {0};
	bool local[MRW_TOPO_GPUS] = {false};

	memset(pairing, 0, sizeof *pairing);
	if (g == NULL)
		return;
	g->topo = topo;
	for (uint32_t c = 0; c < topo->ncpus; c++) {
		g->ngpus = g->nnics = 0;
		for (uint32_t n = 0; n < topo->nnics; n++)
			if (has_part(topo, n) && mrw_topo_cpu_of(topo, topo->nics[n].node) == topo->cpus[c].node)
				g->nics[g->nnics++] = (uint16_t)n;
		for (uint32_t u = 0; u < topo->ngpus && g->nnics > 0; u++)
			if (mrw_topo_cpu_of(topo, topo->gpus[u].node) == topo->cpus[c].node) {
				g->gpus[g->ngpus++] = (uint16_t)u;
				local[u] = true;
			}
		serve(g, load, pairing);
	}
	/* The others, one host after the other; devices of unknown place are everybody's. */
	for (uint32_t h = 0; h <= MRW_TOPO_CPUS; h++) {
		g->ngpus = g->nnics = 0;
		for (uint32_t u = 0; u < topo->ngpus; u++) {
			int32_t cpu = mrw_topo_cpu_of(topo, topo->gpus[u].node);
			uint32_t host = cpu < 0 ? 0 : topo->cpus[topo->nodes[cpu].index].host;
			if (!local[u] && host == h)
				g->gpus[g->ngpus++] = (uint16_t)u;
		}
		for (uint32_t n = 0; n < topo->nnics && g->ngpus > 0; n++) {
			int32_t cpu = mrw_topo_cpu_of(topo, topo->nics[n].node);
			if (has_part(topo, n) && (cpu < 0 || topo->cpus[topo->nodes[cpu].index].host == h))
				g->nics[g->nnics++] = (uint16_t)n;
		}
		serve(g, load, pairing);
	}
	free(g);

	for (uint32_t i = 0; i < pairing->npairs; i++)
		pairing->pairs[i].sharers = (uint16_t)i;
	qsort(pairing->pairs, pairing->npairs, sizeof *pairing->pairs, by_gpu);
	for (uint32_t i = 0; i < pairing->npairs; i++) {
		pairing->pairs[i].sharers = (uint16_t)load[pairing->pairs[i].nic];
		give_reason(topo, &pairing->pairs[i], local[pairing->pairs[i].gpu]);
	}
}

void mrw_topo_rails(const struct mrw_topo *topo, const struct mrw_topo_pairing *pairing, struct mrw_topo_rails *rails)
{
	uint16_t rail_of_nic[MRW_TOPO_NICS];

	memset(rails, 0, sizeof *rails);
	memset(rail_of_nic, 0xff, sizeof rail_of_nic);
	for (uint32_t u = 0; u < MRW_TOPO_GPUS; u++)
		rails->rail_of_gpu[u] = UINT16_MAX;
	for (uint32_t i = 0; i < pairing->npairs; i++) {
		const struct mrw_topo_pair *pair = &pairing->pairs[i];
		uint16_t *rail = &rail_of_nic[pair->nic];
		if (*rail == UINT16_MAX) {
			*rail = (uint16_t)rails->nrails++;
			rails->nic[*rail] = pair->nic;
			rails->gpu[*rail] = pair->gpu;
		}
		if (pair->gpu < topo->ngpus && rails->rail_of_gpu[pair->gpu] == UINT16_MAX)
			rails->rail_of_gpu[pair->gpu] = *rail;
	}
}

uint32_t mrw_topo_common_rails(const uint32_t *rails_of_host, uint32_t hosts)
{
	uint32_t most = 0;

	for (uint32_t h = 0; h < hosts; h++)
		if (rails_of_host[h] > most)
			most = rails_of_host[h];
	return most;
}

uint32_t mrw_topo_local_rail(uint32_t rails_of_host, uint32_t rail)
{
	return rail % rails_of_host;
}
