/* move_treeshot.h - broadcast and barrier of small messages in trees, as packets. Moves bytes: compiled once.
 *
 * A barrier is a packet up and a packet down tree 0: the root's says that all are there. */
#ifndef MRW_MOVE_TREESHOT_H
#define MRW_MOVE_TREESHOT_H

#include "branch.h"

/* The root's units of both parts to its neighbours. */
MRW_DEV_CALL bool mrw_treeshot_begin(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq,
				     const struct mrw_flows *flows)
{
	bool ok = true;
	for (uint32_t k = 0; k < mrw_tree_parts(a->bytes); k++) {
		struct mrw_twigs t = mrw_twigs_of(a, k, channel);
		struct mrw_tree_flow flow = flows->in[k];
		for (uint32_t i = team->index; i < t.count; i += team->size) {
			uint32_t payload[2];
			mrw_unit_load(a->in + t.part.offset, (uint64_t)t.first + i, t.part.bytes, payload);
			mrw_twig_put(k, channel, a, seq, flow.to, i, payload);
			if (a->out != a->in)
				mrw_unit_store(a->out + t.part.offset, (uint64_t)t.first + i, t.part.bytes, payload);
		}
		mrw_team_sync(team);
		ok = ok && mrw_twigs_post(team, k, channel, a, seq, flow.to, t.count);
	}
	return ok;
}

/* All of it by one thread. */
MRW_DEV_CALL bool mrw_treeshot_barrier(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq,
				       struct mrw_tree_flow flow)
{
	uint32_t payload[2] = {0, 0}, got[2];
	uint32_t parent = 1u << MRW_TREE_PARENT;
	if (mrw_team_high(team) != 0)
		return true;
	for (uint32_t k = MRW_TREE_FIRST; k <= MRW_TREE_SECOND; k++)
		if (mrw_branch_rank(a, 0, k) != MRW_TREE_NONE && !mrw_twig_take(0, channel, a, seq, k, 0, got))
			return false;
	if (flow.from != MRW_TREE_NONE) {
		mrw_twig_put(0, channel, a, seq, parent, 0, payload);
		if (!mrw_twigs_post(team, 0, channel, a, seq, parent, 1) || !mrw_twig_take(0, channel, a, seq, MRW_TREE_PARENT, 0, got))
			return false;
	}
	mrw_twig_put(0, channel, a, seq, flow.to, 0, payload);
	return mrw_twigs_post(team, 0, channel, a, seq, flow.to, 1);
}

MRW_DEV void mrw_move_treeshot(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_op op;
	struct mrw_flows flows = mrw_branch_flows(a);
	bool ok = mrw_op_begin(team, channel, a, &op);
	ok = mrw_packets_settled(team, channel, a, op.seq, ok);
	if (ok && a->call.func == MRW_FUNC_BARRIER)
		ok = mrw_treeshot_barrier(team, channel, a, op.seq, flows.in[0]);
	else if (ok && a->rank == a->call.root)
		ok = mrw_treeshot_begin(team, channel, a, op.seq, &flows);
	else if (ok)
		ok = mrw_twigs_pass_all(team, channel, a, op.seq, &flows, ok);
	mrw_op_end(team, channel, a, &op, ok);
}

#endif
