/* move_tree.h - broadcast of large messages in trees, a chunk of each part a round. Moves bytes: compiled once. */
#ifndef MRW_MOVE_TREE_H
#define MRW_MOVE_TREE_H

#include "branch.h"

MRW_DEV_CALL void mrw_move_tree_round(const struct mrw_team *team, uint32_t which, uint32_t channel, const struct mrw_args *a, uint64_t round,
				      struct mrw_tree_flow flow, uint64_t t)
{
	uint64_t index = mrw_tree_passing(a->call.func, a->nranks, flow.hops, t);
	if (index >= mrw_branch_chunks(a, which, channel))
		return;
	if (flow.from != MRW_TREE_NONE) {
		mrw_branch_pass(team, which, channel, a, round, flow, index);
		return;
	}
	struct mrw_chunk c = mrw_branch_chunk(a, which, channel, index);
	mrw_branch_stage(team, which, channel, a, round, flow.to, a->in + c.offset, c.bytes);
	if (a->out != a->in)
		mrw_copy(team, a->out + c.offset, a->in + c.offset, c.bytes);
}

MRW_DEV void mrw_move_tree(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_op op;
	uint64_t rounds = mrw_branch_rounds(a, channel);
	if (mrw_team_is_signal(team)) {
		mrw_rounds_signal(team, channel, a, rounds);
		return;
	}
	bool ok = mrw_op_begin_rounds(team, channel, a, &op);
	struct mrw_flows flows = mrw_branch_flows(a);
	for (uint64_t t = 0; t < rounds; t++) {
		uint64_t round = op.round + t;
		ok = mrw_rounds_wait(team, channel, a, op.seq, round, a->call.lag, ok);
		if (!ok)
			break;
		for (uint32_t k = 0; k < mrw_tree_parts(a->bytes); k++)
			mrw_move_tree_round(team, k, channel, a, round, flows.in[k], t);
		mrw_rounds_publish(team, channel, a, round);
	}
	ok = mrw_rounds_drain(team, channel, a, op.seq, op.round + rounds, ok);
	mrw_rounds_keep(team, channel, a, op.round + rounds);
	mrw_op_end(team, channel, a, &op, ok);
}

#endif
