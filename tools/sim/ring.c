/* ring.c - from neighbour to neighbour: reduce_ring.h and move_ring.h; in a ring, and in the one that a communicator in trees has beside them for
 * what trees have not: there a rank hears in each round from its neighbours in trees, too. */
#include "vocabulary.h"
#include "collectives/move_ring.h"
#include "collectives/reduce_ring.h"
#include "schedules.h"

static bool has(uint32_t func)
{
	return func == MRW_FUNC_ALL_REDUCE || func == MRW_FUNC_ALL_GATHER || func == MRW_FUNC_REDUCE_SCATTER ||
	       func == MRW_FUNC_REDUCE_SCATTER_V || func == MRW_FUNC_BROADCAST || func == MRW_FUNC_REDUCE || func == MRW_FUNC_BARRIER;
}

static bool has_blocks(uint32_t func)
{
	return func == MRW_FUNC_ALL_GATHER || func == MRW_FUNC_REDUCE_SCATTER || func == MRW_FUNC_REDUCE_SCATTER_V;
}

static void begin(const struct mrw_args *a, uint32_t channel, struct sim_cursor *c)
{
	c->chunks = mrw_ring_chunks(a, channel);
	c->rounds = mrw_ring_rounds(a->call.func, c->chunks, a->nranks);
	c->set = 0;
	c->step = 0;
	c->place = mrw_ring_distance(a);
}

static void round_of(const struct mrw_team *team, const struct mrw_args *a, uint32_t channel, uint64_t t, struct sim_cursor *c)
{
	if (mrw_reduces(a->call.func))
		mrw_reduce_ring_round(team, channel, a, t, c->set, c->step, c->place, c->chunks, 0);
	else
		mrw_move_ring_round(team, channel, a, t, t, c->set, c->step, c->place, c->chunks);
	mrw_ring_next(&c->set, &c->step, a->nranks);
}

const struct sim_schedule sim_ring = {"ring", MRW_ALGO_RING, true, false, has, begin, round_of, NULL, NULL, false};
const struct sim_schedule sim_treering = {"treering", MRW_ALGO_RING, true, false, has_blocks, begin, round_of, NULL, NULL, true};
