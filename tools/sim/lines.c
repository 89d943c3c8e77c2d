/* lines.c - everybody to everybody in lines, within a host: reduce_lines.h. */
#include "vocabulary.h"
#include "collectives/reduce_packets.h"
#include "collectives/reduce_lines.h"
#include "schedules.h"

static bool has(uint32_t func)
{
	return func == MRW_FUNC_ALL_REDUCE;
}

static void begin(const struct mrw_args *a, uint32_t channel, struct sim_cursor *c)
{
	(void)a;
	(void)channel;
	c->rounds = 2;
}

static void round_of(const struct mrw_team *team, const struct mrw_args *a, uint32_t channel, uint64_t t, struct sim_cursor *c)
{
	(void)c;
	if (t == 0)
		mrw_lines_send_any(team, channel, a, 0);
	else
		(void)mrw_lines_reduce_any(team, channel, a, 0, mrw_line_first(team));
}

const struct sim_schedule sim_lines = {"lines", MRW_ALGO_LINES, false, true, has, begin, round_of, NULL, NULL, false};
