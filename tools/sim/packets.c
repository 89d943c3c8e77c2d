/* packets.c - everybody to everybody in packets: reduce_packets.h and move_packets.h. Phases: what is sent; what is done when that has come, and
 * sent again in a two-shot; what is done with that. */
#include "vocabulary.h"
#include "collectives/move_packets.h"
#include "collectives/reduce_packets.h"
#include "schedules.h"

static bool has(uint32_t func)
{
	return func == MRW_FUNC_ALL_REDUCE || func == MRW_FUNC_ALL_GATHER || func == MRW_FUNC_REDUCE_SCATTER ||
	       func == MRW_FUNC_REDUCE_SCATTER_V || func == MRW_FUNC_BROADCAST || func == MRW_FUNC_REDUCE || func == MRW_FUNC_BARRIER;
}

static bool has_second(uint32_t func)
{
	return func == MRW_FUNC_ALL_REDUCE;
}

static void begin(const struct mrw_args *a, uint32_t channel, struct sim_cursor *c)
{
	(void)channel;
	c->chunks = 0;
	c->rounds = a->call.algo == MRW_ALGO_TWOSHOT ? 3 : a->call.func == MRW_FUNC_BARRIER ? 0 : 2; /* greetings are all of a barrier */
}

static void reduce(const struct mrw_team *team, const struct mrw_args *a, uint32_t channel, uint64_t t)
{
	struct mrw_units u = mrw_units_of(a, channel);
	if (t == 0) {
		mrw_units_send(0, 1, channel, a, 0);
		(void)mrw_units_push(team, 0, channel, a, 0, u);
	} else if (t == 1) {
		(void)mrw_units_own_any(1, channel, a, 0, u, 0);
		if (a->call.algo == MRW_ALGO_TWOSHOT)
			(void)mrw_units_push(team, 1, channel, a, 0, u);
	} else
		(void)mrw_units_collect(0, 1, channel, a, 0, u);
}

static void round_of(const struct mrw_team *team, const struct mrw_args *a, uint32_t channel, uint64_t t, struct sim_cursor *c)
{
	uint32_t first = channel * a->units, count = (uint32_t)mrw_units_in(a->bytes, first, a->units);
	(void)c;
	if (mrw_reduces(a->call.func))
		reduce(team, a, channel, t);
	else if (t == 0) {
		mrw_units_offer(team, channel, a, 0, first, count);
		(void)mrw_units_post(team, channel, a, 0, count, true);
	} else
		(void)mrw_units_take(team, channel, a, 0, first, count);
}

const struct sim_schedule sim_oneshot = {"oneshot", MRW_ALGO_ONESHOT, false, true, has, begin, round_of, NULL, NULL, false};
const struct sim_schedule sim_twoshot = {"twoshot", MRW_ALGO_TWOSHOT, false, true, has_second, begin, round_of, NULL, NULL, false};
