/* weigh.c - the ways that ranks may have, each with its own arena, and what all-reduces take there. */
#include "weigh.h"
#include "select.h"

#include <stdio.h>

const uint64_t mrw_weigh_bytes[MRW_WEIGH_SIZES] = {8, 64 << 10, 1 << 20, 64 << 20};

/* An algorithm that makes such peers where it is asked for. */
static const enum mrw_algo asks[MRW_PEERS_COUNT] = {[MRW_PEERS_ALL] = MRW_ALGO_BULK, [MRW_PEERS_RAILS] = MRW_ALGO_RAIL,
						    [MRW_PEERS_RING] = MRW_ALGO_RING, [MRW_PEERS_TREE] = MRW_ALGO_TREE};

const char *mrw_peers_name(enum mrw_peers peers)
{
	static const char *const names[MRW_PEERS_COUNT] = {"all", "rails", "ring", "trees"};
	return (uint32_t)peers < MRW_PEERS_COUNT ? names[peers] : "?";
}

enum mrw_peers mrw_peers_of(const struct mrw_reach *reach)
{
	return reach->rails ? MRW_PEERS_RAILS : reach->ring ? MRW_PEERS_RING : reach->tree ? MRW_PEERS_TREE : MRW_PEERS_ALL;
}

static uint32_t fullest(const struct mrw_reach *reach)
{
	uint32_t most = 0;
	for (uint32_t r = 0; r < reach->nranks; r++)
		most = reach->local[r] + 1 > most ? reach->local[r] + 1 : most;
	return most;
}

static void predict(const struct mrw_reach *reach, const struct mrw_weigh_machine *m, double ns[MRW_WEIGH_SIZES])
{
	struct mrw_cost_shape shape = {.target = m->target, .nranks = reach->nranks, .hosts = reach->hosts, .per_host = fullest(reach),
				       .nics = m->nics, .channels = m->channels, .cores = m->cores, .rails = reach->rails, .ring = reach->ring, .sharers = m->sharers};
	struct mrw_select_input in = {.func = MRW_FUNC_ALL_REDUCE, .target = m->target, .nranks = reach->nranks, .nics = m->nics, .forced_algo = -1};
	in.layout = mrw_reach_fit(reach, &shape.channels, m->target == MARROW_TARGET_HOST ? MRW_HOST_STAGING_BUDGET : MRW_STAGING_BUDGET);
	in.channel_cap = shape.channels;
	shape.chunk_bytes = mrw_chunk_room(&in.layout, m->target);
	if (reach->tree)
		mrw_cost_plant(&shape);
	for (uint32_t i = 0; i < MRW_WEIGH_SIZES; i++) {
		in.bytes = mrw_weigh_bytes[i];
		ns[i] = mrw_cost_ns(m->figures, &shape, in.func, in.bytes, mrw_select_quickest(&in, &shape, m->figures));
	}
}

static void compare(struct mrw_weights *w)
{
	for (uint32_t i = 0; i < MRW_WEIGH_SIZES; i++) {
		double least = w->ns[w->rule][i];
		for (uint32_t k = 0; k < MRW_PEERS_COUNT; k++)
			if (w->has[k] && w->ns[k][i] < least)
				least = w->ns[k][i];
		for (uint32_t k = 0; k < MRW_PEERS_COUNT; k++)
			if (w->has[k] && w->ns[k][i] / least > w->worst[k])
				w->worst[k] = w->ns[k][i] / least;
	}
	w->best = w->rule;
	for (uint32_t k = 0; k < MRW_PEERS_COUNT; k++)
		if (w->has[k] && w->worst[k] < w->worst[w->best])
			w->best = (enum mrw_peers)k;
}

struct mrw_reach mrw_weigh(uint32_t nranks, const uint32_t *host, int32_t forced_algo, const struct mrw_weigh_machine *m, struct mrw_weights *w)
{
	struct mrw_reach reach = mrw_reach_of(nranks, host, forced_algo);
	memset(w, 0, sizeof *w);
	w->rule = w->best = w->taken = mrw_peers_of(&reach);
	if (reach.hosts == 1 || forced_algo >= 0)
		return reach;
	w->weighed = true;
	for (uint32_t k = 0; k < MRW_PEERS_COUNT; k++) {
		struct mrw_reach other = mrw_reach_of(nranks, host, (int32_t)asks[k]);
		w->has[k] = mrw_peers_of(&other) == k;
		if (w->has[k])
			predict(&other, m, w->ns[k]);
	}
	compare(w);
	if (nranks <= MRW_MAX_WHOLE || m->target != MARROW_TARGET_HOST || w->worst[w->rule] <= MRW_WEIGH_CLEAR * w->worst[w->best])
		return reach;
	w->taken = w->best;
	reach = mrw_reach_of(nranks, host, (int32_t)asks[w->best]);
	reach.reason = "clearly the quickest by the cost model";
	return reach;
}

void mrw_weigh_text(const struct mrw_weights *w, char *text, size_t bytes)
{
	size_t used = 0;
	text[0] = 0;
	for (uint32_t k = 0; k < MRW_PEERS_COUNT; k++)
		for (uint32_t i = 0; w->has[k] && i < MRW_WEIGH_SIZES && used < bytes; i++) {
			const char *before = i > 0 ? ", " : used > 0 ? " us; " : "", *name = i > 0 ? "" : mrw_peers_name((enum mrw_peers)k);
			int n = snprintf(text + used, bytes - used, "%s%s%s%.*f", before, name, i > 0 ? "" : " ", w->ns[k][i] < 1e5 ? 1 : 0,
					 w->ns[k][i] / 1e3);
			used += n > 0 ? (size_t)n : 0;
		}
	if (used > 0 && used < bytes)
		snprintf(text + used, bytes - used, " us");
}
