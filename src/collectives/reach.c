/* reach.c - peers and slots. */
#include "reach.h"

#include "tree.h"

static bool along_rails(enum mrw_algo algo)
{
	return algo == MRW_ALGO_RAILSHOT || algo == MRW_ALGO_RAIL;
}

static void choose(struct mrw_reach *r, int32_t forced_algo)
{
	if (r->hosts == 1)
		r->reason = "one host";
	else if (forced_algo == MRW_ALGO_RING) {
		r->ring = true;
		r->reason = "asked for";
	} else if (forced_algo == MRW_ALGO_TREE || forced_algo == MRW_ALGO_TREESHOT) {
		r->tree = true;
		r->reason = "asked for";
	} else if (r->per_host == 0)
		r->reason = "hosts with different numbers of ranks have no rails";
	else if (r->per_host == 1)
		r->reason = "one rank a host";
	else if (forced_algo >= 0 && !along_rails((enum mrw_algo)forced_algo))
		r->reason = "the algorithm asked for exchanges with every rank";
	else if (forced_algo < 0 && r->nranks <= MRW_MAX_WHOLE)
		r->reason = "few ranks: sums in rank order";
	else {
		r->rails = true;
		r->reason = forced_algo < 0 ? "many ranks, as many on every host" : "asked for";
	}
}

struct mrw_reach mrw_reach_of(uint32_t nranks, const uint32_t *host, int32_t forced_algo)
{
	struct mrw_reach r;
	uint32_t count[MRW_MAX_RANKS] = {0};
	memset(&r, 0, sizeof r);
	r.nranks = nranks;
	for (uint32_t p = 0; p < nranks; p++) {
		uint32_t first = 0;
		while (host[first] != host[p])
			first++;
		r.host[p] = first == p ? r.hosts++ : r.host[first];
		r.local[p] = count[r.host[p]]++;
	}
	r.per_host = count[0];
	for (uint32_t h = 1; h < r.hosts; h++)
		if (count[h] != count[0])
			r.per_host = 0;
	uint32_t before = 0;
	for (uint32_t h = 0; h < r.hosts; before += count[h++])
		for (uint32_t p = 0; p < nranks; p++)
			if (r.host[p] == h)
				r.position[p] = before + r.local[p];
	for (uint32_t p = 0; p < nranks; p++)
		r.at[r.position[p]] = p;
	choose(&r, forced_algo);
	r.whole = !r.rails && !(r.ring && nranks > 3);
	for (uint32_t p = 0; r.tree && p < nranks; p++)
		for (uint32_t q = 0; q < p; q++)
			r.whole = r.whole && mrw_reach_is_peer(&r, p, q);
	return r;
}

/* Adds the rank at a position, unless it is there. */
static uint32_t add(const struct mrw_reach *reach, uint32_t position, uint32_t *list, uint32_t count)
{
	uint32_t i = 0;
	if (position == MRW_TREE_NONE)
		return count;
	while (i < count && list[i] != reach->at[position])
		i++;
	list[i] = reach->at[position];
	return i < count ? count : count + 1;
}

/* Peers of a rank in trees, by slot. Returns how many. */
static uint32_t list_tree(const struct mrw_reach *reach, uint32_t rank, uint32_t list[MRW_TREE_PEERS])
{
	uint32_t n = reach->nranks, position = reach->position[rank], count = 0;
	for (uint32_t i = 0; i < MRW_TREE_NEIGHBOURS; i++)
		for (uint32_t k = 0; k < MRW_TREES; k++)
			count = add(reach, mrw_tree_at(n, k, position).neighbour[i], list, count);
	count = add(reach, (position + n - 1) % n, list, count);
	return add(reach, (position + 1) % n, list, count);
}

static uint32_t tree_peers(const struct mrw_reach *reach)
{
	uint32_t list[MRW_TREE_PEERS], most = 0;
	for (uint32_t r = 0; r < reach->nranks; r++) {
		uint32_t count = list_tree(reach, r, list);
		most = count > most ? count : most;
	}
	return most;
}

struct mrw_layout mrw_reach_layout(const struct mrw_reach *reach, uint32_t channels, uint64_t staging_budget)
{
	if (reach->hosts == 1)
		return mrw_layout_make(reach->nranks, channels, staging_budget);
	if (reach->ring)
		return mrw_layout_ring(reach->nranks, channels, staging_budget);
	if (reach->tree)
		return mrw_layout_tree(reach->nranks, tree_peers(reach), channels, staging_budget);
	if (!reach->rails)
		return mrw_layout_spanning(reach->nranks, channels, staging_budget);
	return mrw_layout_rails(reach->hosts, reach->per_host, channels, staging_budget);
}

/* Along rails near slots have a cell for each host and leave little for a channel; what goes to other hosts should not be as many short messages.
 * But few blocks push little into NVLink: longer chunks than that are not worth it (ARCHITECTURE.md). */
enum { RAIL_CHUNK_BYTES = 1536, RAIL_CHANNELS = 16 };

static bool is_too_fine(const struct mrw_reach *reach, uint32_t channels, const struct mrw_layout *l)
{
	bool short_messages = reach->rails && channels > RAIL_CHANNELS && l->chunk_bytes < RAIL_CHUNK_BYTES;
	return l->units < 32 || l->units < 4 * l->cells || l->chunk_bytes < 512 || short_messages;
}

struct mrw_layout mrw_reach_fit(const struct mrw_reach *reach, uint32_t *channels, uint64_t staging_budget)
{
	struct mrw_layout l = mrw_reach_layout(reach, *channels, staging_budget);
	while (*channels > 1 && is_too_fine(reach, *channels, &l)) {
		*channels /= 2;
		l = mrw_reach_layout(reach, *channels, staging_budget);
	}
	return l;
}

/* b is a's right neighbour. */
static bool follows(const struct mrw_reach *reach, uint32_t a, uint32_t b)
{
	uint32_t next = reach->position[a] + 1;
	return reach->position[b] == (next < reach->nranks ? next : 0);
}

bool mrw_reach_is_peer(const struct mrw_reach *reach, uint32_t rank, uint32_t peer)
{
	if (rank == peer)
		return false;
	if (reach->ring)
		return follows(reach, rank, peer) || follows(reach, peer, rank);
	if (reach->tree)
		return mrw_reach_slot(reach, rank, peer) < MRW_TREE_PEERS;
	return !reach->rails || reach->host[rank] == reach->host[peer] || reach->local[rank] == reach->local[peer];
}

uint32_t mrw_reach_slot(const struct mrw_reach *reach, uint32_t rank, uint32_t peer)
{
	if (reach->ring)
		return follows(reach, peer, rank) ? 0 : 1;
	if (reach->tree) {
		uint32_t list[MRW_TREE_PEERS], count = list_tree(reach, rank, list), slot = 0;
		while (slot < count && list[slot] != peer)
			slot++;
		return slot < count ? slot : MRW_TREE_NONE;
	}
	if (!reach->rails)
		return mrw_writer_slot(rank, peer);
	if (reach->host[rank] == reach->host[peer])
		return mrw_writer_slot(reach->local[rank], reach->local[peer]);
	return reach->per_host - 1 + mrw_writer_slot(reach->host[rank], reach->host[peer]);
}
