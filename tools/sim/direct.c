/* direct.c - everybody to everybody in chunks: reduce_bulk.h and move_bulk.h. */
#include "vocabulary.h"
#include "collectives/move_bulk.h"
#include "collectives/reduce_bulk.h"
#include "schedules.h"

static bool has(uint32_t func)
{
	return func == MRW_FUNC_ALL_REDUCE || func == MRW_FUNC_ALL_GATHER || func == MRW_FUNC_REDUCE_SCATTER ||
	       func == MRW_FUNC_REDUCE_SCATTER_V || func == MRW_FUNC_BROADCAST || func == MRW_FUNC_REDUCE;
}

static void begin(const struct mrw_args *a, uint32_t channel, struct sim_cursor *c)
{
	uint32_t exchanges = mrw_exchanges(a->call.func, a->nranks);
	uint64_t largest = mrw_reduces(a->call.func) || exchanges == 2 ? mrw_largest_block(a) : a->bytes;
	c->chunks = mrw_chunks(largest, a->call.chunk_bytes, a->call.channels, channel);
	c->rounds = mrw_rounds(c->chunks, exchanges, a->call.lag);
	c->place = exchanges == 2 && !mrw_is_sender(a);
}

static void round_of(const struct mrw_team *team, const struct mrw_args *a, uint32_t channel, uint64_t t, struct sim_cursor *c)
{
	if (mrw_reduces(a->call.func))
		mrw_reduce_bulk_round(team, channel, a, t, t, c->chunks, a->call.lag, c->place != 0, 0);
	else
		mrw_move_bulk_round(team, channel, a, t, t, c->chunks, mrw_exchanges(a->call.func, a->nranks));
}

const struct sim_schedule sim_direct = {"direct", MRW_ALGO_BULK, false, false, has, begin, round_of, NULL, NULL, false};
