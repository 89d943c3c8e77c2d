/* railshot.c - along rails in packets: reduce_railshot.h and move_railshot.h. */
#include "vocabulary.h"
#include "collectives/reduce_railshot.h"
#include "schedules.h"

static bool has(uint32_t func)
{
	return func == MRW_FUNC_ALL_REDUCE || func == MRW_FUNC_ALL_GATHER || func == MRW_FUNC_REDUCE_SCATTER ||
	       func == MRW_FUNC_REDUCE_SCATTER_V || func == MRW_FUNC_BROADCAST || func == MRW_FUNC_REDUCE || func == MRW_FUNC_BARRIER;
}

/* place: in how many messages a broadcast comes to this rank. */
static void begin(const struct mrw_args *a, uint32_t channel, struct sim_cursor *c)
{
	(void)channel;
	c->chunks = 0;
	c->place = 0;
	c->rounds = 3;
	if (a->call.func != MRW_FUNC_BROADCAST)
		return;
	bool relayed = mrw_rail_home(a) != a->far->host && mrw_rail_rank(a, mrw_rail_home(a), a->far->local) != a->call.root;
	c->place = mrw_rail_is_root(a) ? 0 : relayed ? 2 : 1;
	c->rounds = c->place + 1;
}

static void reduce(const struct mrw_team *team, const struct mrw_args *a, uint32_t channel, uint64_t t, uint32_t first)
{
	if (t == 0)
		mrw_railshot_send(team, channel, a, 0, first);
	else if (t == 1) {
		if (mrw_railshot_adds(a, a->rank))
			(void)mrw_railshot_add(false, team, channel, a, 0, first);
		(void)mrw_railshot_post_sums(0, 1, channel, a, 0, first);
	} else if (mrw_owns(a, a->rank))
		(void)mrw_railshot_add(true, team, channel, a, 0, first);
}

static void round_of(const struct mrw_team *team, const struct mrw_args *a, uint32_t channel, uint64_t t, struct sim_cursor *c)
{
	struct mrw_range r;
	r.first = channel * a->units;
	r.count = (uint32_t)mrw_units_in(a->bytes, r.first, a->units);
	if (mrw_reduces(a->call.func))
		reduce(team, a, channel, t, r.first);
	else if (a->call.func == MRW_FUNC_BARRIER) {
		sim_replay();
		(void)mrw_railshot_barrier(team, channel, a, 0);
	} else if (a->call.func == MRW_FUNC_BROADCAST) {
		if (t == c->place)
			(void)mrw_railshot_broadcast(team, channel, a, 0, r);
	} else if (t == 0)
		(void)mrw_railshot_offer(team, channel, a, 0, r);
	else if (t == 1)
		(void)mrw_railshot_relay(team, channel, a, 0, r);
	else
		(void)mrw_railshot_gather(team, channel, a, 0, r);
}

const struct sim_schedule sim_railshot = {"railshot", MRW_ALGO_RAILSHOT, true, true, has, begin, round_of, NULL, NULL, false};
