/* reduce_tree.h - all-reduce and reduce of large messages in trees: chunks of sums up, chunks of results down, those of both trees in the same
 * rounds. Compiled once per type. */
#ifndef MRW_REDUCE_TREE_H
#define MRW_REDUCE_TREE_H

#include "branch.h"
#include "reduce_rail.h"

/* Chunk c: the children's sums and my input, to where it goes. An inner node's children have slots 0 and 1 (reach.c). */
MRW_DEV struct mrw_sum mrw_tree_sum(uint32_t which, uint32_t channel, const struct mrw_args *a, uint64_t round, struct mrw_chunk c, uint8_t *out)
{
	struct mrw_sum s;
	memset(&s, 0, sizeof s);
	s.own = a->in + c.offset;
	s.staged = mrw_branch_came(a, which, channel, MRW_TREE_FIRST, round);
	s.out = out;
	s.stride = mrw_staging_stride(&a->layout, false);
	s.bytes = c.bytes;
	s.rank = 1; /* of the two or three that are added */
	s.nranks = mrw_branch_rank(a, which, MRW_TREE_SECOND) == MRW_TREE_NONE ? 2 : 3;
	s.divisor = a->nranks;
	s.average = a->average != 0 && a->far->tree[which].level == 0;
	s.own_alignment = mrw_alignment(s.own);
	s.out_alignment = mrw_alignment(s.out);
	s.scaled = a->scaled != 0;
	s.scalar = mrw_scalar(a);
	return s;
}

/* Chunk index of this node's sum: up, or, the root's, to the output and down. */
MRW_DEV_CALL void mrw_tree_add(const struct mrw_team *team, uint32_t which, uint32_t channel, const struct mrw_args *a, uint64_t round,
			       struct mrw_tree_flow flow, uint64_t index)
{
	struct mrw_chunk c = mrw_branch_chunk(a, which, channel, index);
	bool root = a->far->tree[which].level == 0, keeps = root && flow.takes;
	uint32_t to = root ? mrw_branch_rank(a, which, flow.to & 1u << MRW_TREE_FIRST ? MRW_TREE_FIRST : MRW_TREE_SECOND)
			   : mrw_branch_rank(a, which, MRW_TREE_PARENT);
	struct mrw_sum s = mrw_tree_sum(which, channel, a, round, c, keeps ? a->out + c.offset : mrw_staging_to(a, which, channel, to, round));
	mrw_sum_any(team->index * MRW_VEC_BYTES, team->size * MRW_VEC_BYTES, a, &s);
	if (!keeps) {
		mrw_stage_note(team, a, which, channel, to, round, c.bytes);
	} else if (flow.to != 0) {
		/* Each thread copies what it has added: both deal out the vectors of a chunk in turns. */
		mrw_branch_stage(team, which, channel, a, round, flow.to, a->out + c.offset, c.bytes);
	}
}

/* A leaf's own input. */
MRW_DEV_CALL void mrw_tree_push(const struct mrw_team *team, uint32_t which, uint32_t channel, const struct mrw_args *a, uint64_t round,
				uint64_t index, mrw_acc scalar)
{
	struct mrw_chunk c = mrw_branch_chunk(a, which, channel, index);
	uint32_t parent = mrw_branch_rank(a, which, MRW_TREE_PARENT);
	uint8_t *slot = mrw_staging_to(a, which, channel, parent, round);
	if (a->scaled)
		mrw_push_scaled(team, slot, a->in + c.offset, c.bytes, scalar);
	else
		mrw_copy(team, slot, a->in + c.offset, c.bytes);
	mrw_stage_note(team, a, which, channel, parent, round, c.bytes);
}

MRW_DEV void mrw_reduce_tree_round(const struct mrw_team *team, uint32_t which, uint32_t channel, const struct mrw_args *a, uint64_t round,
				   struct mrw_tree_flow flow, uint64_t t, mrw_acc scalar)
{
	uint64_t chunks = mrw_branch_chunks(a, which, channel), rising = mrw_tree_rising(a->nranks, a->far->tree[which].level, t);
	uint64_t passing = mrw_tree_passing(a->call.func, a->nranks, flow.hops, t);
	if (rising < chunks && mrw_branch_is_leaf(a, which))
		mrw_tree_push(team, which, channel, a, round, rising, scalar);
	else if (rising < chunks)
		mrw_tree_add(team, which, channel, a, round, flow, rising);
	if (passing < chunks && flow.from != MRW_TREE_NONE)
		mrw_branch_pass(team, which, channel, a, round, flow, passing);
}

MRW_DEV void mrw_reduce_tree(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_op op;
	uint64_t rounds = mrw_branch_rounds(a, channel);
	if (mrw_team_is_signal(team)) {
		mrw_rounds_signal(team, channel, a, rounds);
		return;
	}
	bool ok = mrw_op_begin_rounds(team, channel, a, &op);
	struct mrw_flows flows = mrw_branch_flows(a);
	mrw_acc scalar = mrw_scalar(a);
	for (uint64_t t = 0; t < rounds; t++) {
		uint64_t round = op.round + t;
		ok = mrw_rounds_wait(team, channel, a, op.seq, round, a->call.lag, ok);
		if (!ok)
			break;
		for (uint32_t k = 0; k < mrw_tree_parts(a->bytes); k++)
			mrw_reduce_tree_round(team, k, channel, a, round, flows.in[k], t, scalar);
		mrw_rounds_publish(team, channel, a, round);
	}
	ok = mrw_rounds_drain(team, channel, a, op.seq, op.round + rounds, ok);
	mrw_rounds_keep(team, channel, a, op.round + rounds);
	mrw_op_end(team, channel, a, &op, ok);
}

#endif
