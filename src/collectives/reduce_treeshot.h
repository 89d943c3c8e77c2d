/* reduce_treeshot.h - all-reduce and reduce of small messages in trees, as packets: a message for each edge and direction. Compiled once per
 * type. */
#ifndef MRW_REDUCE_TREESHOT_H
#define MRW_REDUCE_TREESHOT_H

#include "branch.h"
#include "reduce_packets.h"

/* A leaf's units to its parent's place in the outbox. */
MRW_DEV_CALL void mrw_treeshot_offer(const struct mrw_team *team, uint32_t which, uint32_t channel, const struct mrw_args *a, uint32_t seq)
{
	struct mrw_twigs t = mrw_twigs_of(a, which, channel);
	mrw_acc scalar = mrw_scalar(a);
	for (uint32_t i = team->index; i < t.count; i += team->size) {
		uint32_t payload[2];
		mrw_own_unit(a, t.part, (uint64_t)t.first + i, scalar, payload);
		mrw_twig_put(which, channel, a, seq, 1u << MRW_TREE_PARENT, i, payload);
	}
}

/* First child's sum, own, second child's sum. */
MRW_DEV bool mrw_treeshot_sum(const uint32_t reduction, uint32_t which, uint32_t channel, const struct mrw_args *a, uint32_t seq, struct mrw_twigs t,
			      uint32_t i, mrw_acc *acc)
{
	uint32_t payload[2];
	if (!mrw_twig_take(which, channel, a, seq, MRW_TREE_FIRST, i, payload))
		return false;
	mrw_unit_combine(reduction, acc, payload, true);
	mrw_own_unit(a, t.part, (uint64_t)t.first + i, mrw_scalar(a), payload);
	mrw_unit_combine(reduction, acc, payload, false);
	if (mrw_branch_rank(a, which, MRW_TREE_SECOND) == MRW_TREE_NONE)
		return true;
	if (!mrw_twig_take(which, channel, a, seq, MRW_TREE_SECOND, i, payload))
		return false;
	mrw_unit_combine(reduction, acc, payload, false);
	return true;
}

/* An inner node's units: up, or, the root's, on their way down. Each thread finishes the units that it began. */
MRW_DEV bool mrw_treeshot_add(const uint32_t reduction, const struct mrw_team *team, uint32_t which, uint32_t channel, const struct mrw_args *a,
			      uint32_t seq, uint32_t to, bool root, bool takes)
{
	struct mrw_twigs t = mrw_twigs_of(a, which, channel);
	for (uint32_t i = team->index; i < t.count; i += team->size) {
		mrw_acc acc[MRW_UNIT_ELEMS] = {0};
		uint32_t sum[2];
		if (!mrw_treeshot_sum(reduction, which, channel, a, seq, t, i, acc))
			return false;
		mrw_unit_narrow(acc, root && a->average, a->nranks, sum);
		mrw_twig_put(which, channel, a, seq, to, i, sum);
		if (takes)
			mrw_unit_store(a->out + t.part.offset, (uint64_t)t.first + i, t.part.bytes, sum);
	}
	return true;
}

MRW_DEV bool mrw_treeshot_add_any(const struct mrw_team *team, uint32_t which, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t to,
				  bool root, bool takes)
{
	return MRW_BY_REDUCTION(a->reduction, mrw_treeshot_add, team, which, channel, a, seq, to, root, takes);
}

/* The same, posted. ok: of this thread; every thread comes here. */
MRW_DEV_CALL bool mrw_treeshot_rise(const struct mrw_team *team, uint32_t which, uint32_t channel, const struct mrw_args *a, uint32_t seq,
				    struct mrw_tree_flow flow, bool ok)
{
	bool root = a->far->tree[which].level == 0, takes = root && flow.takes;
	uint32_t to = root ? flow.to : 1u << MRW_TREE_PARENT;
	ok = ok && mrw_treeshot_add_any(team, which, channel, a, seq, to, root, takes);
	if (mrw_team_any(team, !ok)) /* the outbox is full */
		return false;
	return mrw_twigs_post(team, which, channel, a, seq, to, mrw_twigs_of(a, which, channel).count);
}

/* As a leaf first: nothing is waited for. Then as an inner node, up and down; what a leaf gets is waited for last. */
MRW_DEV_CALL bool mrw_treeshot(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq)
{
	struct mrw_flows flows = mrw_branch_flows(a);
	uint32_t parts = mrw_tree_parts(a->bytes);
	bool ok = true;
	for (uint32_t k = 0; k < parts; k++)
		if (mrw_branch_is_leaf(a, k))
			mrw_treeshot_offer(team, k, channel, a, seq);
	mrw_team_sync(team);
	for (uint32_t k = 0; k < parts; k++)
		if (mrw_branch_is_leaf(a, k))
			ok = ok && mrw_twigs_post(team, k, channel, a, seq, 1u << MRW_TREE_PARENT, mrw_twigs_of(a, k, channel).count);
	for (uint32_t k = 0; k < parts; k++)
		if (!mrw_branch_is_leaf(a, k))
			ok = mrw_treeshot_rise(team, k, channel, a, seq, flows.in[k], ok);
	return mrw_twigs_pass_all(team, channel, a, seq, &flows, ok);
}

MRW_DEV void mrw_reduce_treeshot(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_op op;
	bool ok = mrw_op_begin(team, channel, a, &op);
	ok = mrw_packets_settled(team, channel, a, op.seq, ok);
	if (ok)
		ok = mrw_treeshot(team, channel, a, op.seq);
	mrw_op_end(team, channel, a, &op, ok);
}

#endif
