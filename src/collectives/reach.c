/* reach.c - peers and slots. */
#include "reach.h"

#include "device/args.h"

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
	} else if (r->per_host == 0)
		r->reason = "hosts with different numbers of ranks have no rails";
	else if (r->per_host == 1)
		r->reason = "one rank a host";
	else if (forced_algo >= 0 && !along_rails((enum mrw_algo)forced_algo))
		r->reason = "the algorithm asked for exchanges with every rank";
	else if (forced_algo < 0 && r->nranks <= MRW_MAX_WHOLE)
		r->reason = "few ranks: every call is possible";
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
	choose(&r, forced_algo);
	return r;
}

struct mrw_layout mrw_reach_layout(const struct mrw_reach *reach, uint32_t channels, uint64_t staging_budget)
{
	if (reach->hosts == 1)
		return mrw_layout_make(reach->nranks, channels, staging_budget);
	if (reach->ring)
		return mrw_layout_ring(reach->nranks, channels, staging_budget);
	if (!reach->rails)
		return mrw_layout_spanning(reach->nranks, channels, staging_budget);
	return mrw_layout_rails(reach->hosts, reach->per_host, channels, staging_budget);
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
	return !reach->rails || reach->host[rank] == reach->host[peer] || reach->local[rank] == reach->local[peer];
}

uint32_t mrw_reach_slot(const struct mrw_reach *reach, uint32_t rank, uint32_t peer)
{
	if (reach->ring)
		return follows(reach, peer, rank) ? 0 : 1;
	if (!reach->rails)
		return mrw_writer_slot(rank, peer);
	if (reach->host[rank] == reach->host[peer])
		return mrw_writer_slot(reach->local[rank], reach->local[peer]);
	return reach->per_host - 1 + mrw_writer_slot(reach->host[rank], reach->host[peer]);
}
