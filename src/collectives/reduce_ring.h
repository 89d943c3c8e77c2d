/* reduce_ring.h - all-reduce, reduce and reduce-scatter in a ring: the sum of a block begins at the position after its owner's and grows by one
 * rank's input a step, rounded to the type each time. A reduce's finished blocks go on to the root. Compiled once per type. */
#ifndef MRW_REDUCE_RING_H
#define MRW_REDUCE_RING_H

#include "ring.h"
#include "reduce_rail.h"

/* Chunk index of owner's block: what came so far, and my input. last: the owner is this rank. */
MRW_DEV struct mrw_sum mrw_ring_sum(uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t index, uint32_t owner, bool last)
{
	struct mrw_chunk c = mrw_ring_chunk(a, channel, owner, index);
	uint32_t right = mrw_ring_right(a);
	struct mrw_sum s;
	memset(&s, 0, sizeof s);
	s.own = a->in + c.offset;
	s.staged = mrw_ring_came(a, 0, channel, round);
	s.out = mrw_staging_to(a, 0, channel, right, round);
	if (last) {
		uint64_t mine = mrw_has_shares(a->call.func) ? 0 : mrw_block_at(a, owner).offset;
		s.first = mrw_staging_to(a, 1, channel, right, round);
		s.out = mrw_is_sender(a) ? s.first : a->out + (c.offset - mine);
		s.forward = a->call.func == MRW_FUNC_ALL_REDUCE;
		s.average = a->average != 0;
	}
	s.bytes = c.bytes;
	s.rank = 1; /* of the two that are added */
	s.nranks = 2;
	s.divisor = a->nranks;
	s.own_alignment = mrw_alignment(s.own);
	s.out_alignment = mrw_alignment(s.out);
	s.scaled = a->scaled != 0;
	s.scalar = mrw_scalar(a);
	return s;
}

MRW_DEV_CALL void mrw_ring_add(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t index,
			       uint32_t owner, bool last)
{
	struct mrw_sum s = mrw_ring_sum(channel, a, round, index, owner, last);
	mrw_sum_any(team->index * MRW_VEC_BYTES, team->size * MRW_VEC_BYTES, a, &s);
	if (!last || s.forward || mrw_is_sender(a))
		mrw_stage_note(team, a, last ? 1 : 0, channel, mrw_ring_right(a), round, s.bytes);
}

/* The first input of the left neighbour's block. */
MRW_DEV_CALL void mrw_ring_push(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t index,
				mrw_acc scalar)
{
	struct mrw_chunk c = mrw_ring_chunk(a, channel, mrw_ring_rank(a, 1), index);
	if (a->scaled) {
		mrw_push_scaled(team, mrw_staging_to(a, 0, channel, mrw_ring_right(a), round), a->in + c.offset, c.bytes, scalar);
		mrw_stage_note(team, a, 0, channel, mrw_ring_right(a), round, c.bytes);
	} else {
		mrw_ring_stage(team, 0, channel, a, round, a->in + c.offset, c.bytes);
	}
}

MRW_DEV void mrw_reduce_ring_round(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t set,
				   uint32_t step, uint32_t distance, uint64_t chunks, mrw_acc scalar)
{
	bool gathers = mrw_has_shares(a->call.func), keeps = !mrw_is_sender(a), passes = distance > step;
	/* The set before goes round finished, as far as the root if there is one; the one before that comes home. */
	if (gathers && step > 0 && set > 0 && set - 1 < chunks && (keeps || passes))
		mrw_ring_forward(team, channel, a, round, set - 1, step, keeps, passes);
	if (gathers && step == 0 && set > 1 && keeps)
		mrw_ring_forward(team, channel, a, round, set - 2, a->nranks - 1, true, false);
	if (step == 0 && set > 0 && set - 1 < chunks)
		mrw_ring_add(team, channel, a, round, set - 1, a->rank, true);
	if (step == 0 && set < chunks)
		mrw_ring_push(team, channel, a, round, set, scalar);
	if (step > 0 && set < chunks)
		mrw_ring_add(team, channel, a, round, set, mrw_ring_rank(a, step + 1), false);
}

MRW_DEV void mrw_reduce_ring(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_op op;
	uint64_t chunks = mrw_ring_chunks(a, channel), rounds = mrw_ring_rounds(a->call.func, chunks, a->nranks), set = 0;
	uint32_t step = 0, distance;
	if (mrw_team_is_signal(team)) {
		mrw_rounds_signal(team, channel, a, rounds);
		return;
	}
	bool ok = mrw_op_begin_rounds(team, channel, a, &op);
	distance = mrw_ring_distance(a);
	mrw_acc scalar = mrw_scalar(a);
	for (uint64_t t = 0; t < rounds; t++) {
		uint64_t round = op.round + t;
		ok = mrw_rounds_wait(team, channel, a, op.seq, round, a->call.lag, ok);
		if (!ok)
			break;
		mrw_reduce_ring_round(team, channel, a, round, set, step, distance, chunks, scalar);
		mrw_rounds_publish(team, channel, a, round);
		mrw_ring_next(&set, &step, a->nranks);
	}
	ok = mrw_rounds_drain(team, channel, a, op.seq, op.round + rounds, ok);
	mrw_rounds_keep(team, channel, a, op.round + rounds);
	mrw_op_end(team, channel, a, &op, ok);
}

#endif
