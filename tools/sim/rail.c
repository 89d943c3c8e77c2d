/* rail.c - along rails in chunks: reduce_rail.h and move_rail.h. */
#include "vocabulary.h"
#include "collectives/move_rail.h"
#include "collectives/reduce_rail.h"
#include "schedules.h"

static bool has(uint32_t func)
{
	return func == MRW_FUNC_ALL_REDUCE || func == MRW_FUNC_ALL_GATHER || func == MRW_FUNC_REDUCE_SCATTER ||
	       func == MRW_FUNC_REDUCE_SCATTER_V || func == MRW_FUNC_BROADCAST || func == MRW_FUNC_REDUCE;
}

static void begin(const struct mrw_args *a, uint32_t channel, struct sim_cursor *c)
{
	c->chunks = mrw_rail_chunks(a, channel);
	c->rounds = mrw_rail_rounds(a->call.func, c->chunks, a->call.lag);
	c->place = mrw_rail_home(a);
}

static void round_of(const struct mrw_team *team, const struct mrw_args *a, uint32_t channel, uint64_t t, struct sim_cursor *c)
{
	if (mrw_reduces(a->call.func))
		mrw_reduce_rail_round(team, channel, a, t, t, c->chunks, c->place, 0);
	else
		mrw_move_rail_round(team, channel, a, t, t, c->chunks, c->place);
}

const struct sim_schedule sim_rail = {"rail", MRW_ALGO_RAIL, true, false, has, begin, round_of, NULL, NULL, false};
