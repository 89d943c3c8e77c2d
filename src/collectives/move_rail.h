/* move_rail.h - all-gather and broadcast of large messages along rails. Moves bytes: compiled once. */
#ifndef MRW_MOVE_RAIL_H
#define MRW_MOVE_RAIL_H

#include "rail.h"

MRW_DEV void mrw_move_rail_round(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t t,
				 uint64_t chunks, uint32_t home)
{
	uint64_t index[5];
	for (uint32_t s = 0; s < 5; s++)
		index[s] = mrw_rail_index(a->call.func, s, t, a->call.lag);
	if (index[0] < chunks && mrw_rail_is_root(a))
		mrw_rail_scatter(team, channel, a, round, index[0]);
	if (index[1] < chunks && home == a->far->host)
		mrw_rail_pass(team, channel, a, round, index[1]);
	if (index[2] < chunks && a->call.func == MRW_FUNC_ALL_GATHER)
		mrw_rail_offer(team, channel, a, round, index[2]);
	if (index[2] < chunks && a->call.func == MRW_FUNC_BROADCAST)
		mrw_rail_share(team, channel, a, round, index[2], home);
	if (index[3] < chunks)
		mrw_rail_spread(team, channel, a, round, index[3], home);
	if (index[4] < chunks)
		mrw_rail_collect(team, channel, a, round, index[4]);
}

MRW_DEV void mrw_move_rail(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_op op;
	uint64_t chunks = mrw_rail_chunks(a, channel), rounds = mrw_rail_rounds(a->call.func, chunks, a->call.lag);
	if (mrw_team_is_signal(team)) {
		mrw_rounds_signal(team, channel, a, rounds);
		return;
	}
	uint32_t home = mrw_rail_home(a);
	bool ok = mrw_op_begin_rounds(team, channel, a, &op);
	for (uint64_t t = 0; t < rounds; t++) {
		uint64_t round = op.round + t;
		ok = mrw_rounds_wait(team, channel, a, op.seq, round, a->call.lag, ok);
		if (!ok)
			break;
		mrw_move_rail_round(team, channel, a, round, t, chunks, home);
		mrw_rounds_publish(team, channel, a, round);
	}
	ok = mrw_rounds_drain(team, channel, a, op.seq, op.round + rounds, ok);
	mrw_rounds_keep(team, channel, a, op.round + rounds);
	mrw_op_end(team, channel, a, &op, ok);
}

#endif
