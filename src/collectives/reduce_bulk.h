/* reduce_bulk.h - all-reduce, reduce and reduce-scatter of large messages.
 *
 * Round t: push chunk t of every owner's block into its staging; add chunk t - lag of my block, in rank order, and push the result into
 * everybody's second staging (all_reduce) or put it into the root's (reduce), or straight into their output where they said so (device/window.h); copy
 * out chunk t - 2 lag of the others' blocks (everybody, or the root). A reduce over two ranks is one exchange: the root owns everything. Compiled once per type. */
#ifndef MRW_REDUCE_BULK_H
#define MRW_REDUCE_BULK_H

#include "add.h"
#include "schedule.h"
#include "device/window.h"

/* Has no use for the result itself. */
MRW_DEV bool mrw_is_sender(const struct mrw_args *a)
{
	return a->call.func == MRW_FUNC_REDUCE && a->rank != a->call.root;
}

/* Chunk index of my block: its pieces have been staged lag rounds ago. */
MRW_DEV struct mrw_sum mrw_sum_of(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t index)
{
	struct mrw_span block = mrw_block_at(a, a->rank);
	struct mrw_chunk chunk = mrw_chunk(block.bytes, a->call.chunk_bytes, a->call.channels, channel, index);
	struct mrw_sum s;
	s.forward = a->call.func == MRW_FUNC_ALL_REDUCE;
	s.bytes = chunk.bytes;
	s.own = a->in + block.offset + chunk.offset;
	s.staged = a->arena[a->rank] + mrw_staging_offset(&a->layout, 0, channel, 0, round - a->call.lag);
	s.result = mrw_staging_offset(&a->layout, 1, channel, 0, round);
	s.stride = mrw_staging_stride(&a->layout, false);
	s.rank = a->rank;
	s.nranks = s.divisor = a->nranks;
	s.first = NULL;
	s.direct = mrw_has_windows(a) ? mrw_team_direct(team) : NULL;
	s.out = a->out + (mrw_has_shares(a->call.func) ? block.offset : 0) + chunk.offset;
	if (mrw_is_sender(a))
		s.out = mrw_sum_slot(a, s, (a->call.root + a->nranks - a->rank) % a->nranks);
	s.own_alignment = mrw_alignment(s.own);
	s.out_alignment = mrw_alignment(s.out);
	s.average = a->average != 0;
	s.scaled = a->scaled != 0;
	s.scalar = mrw_scalar(a);
	return s;
}

/* From byte at on. A kernel keeps the sum in registers; on the host one copy of the arithmetic does. */
MRW_DEV_CALL void mrw_bulk_sum(const struct mrw_team *team, uint32_t at, uint32_t step, uint32_t channel, const struct mrw_args *a, uint64_t round,
			       uint64_t index)
{
	struct mrw_sum s = mrw_sum_of(team, channel, a, round, index);
	if (MRW_ON_CUDA)
		mrw_sum_switch(at, step, a, s);
	else
		mrw_sum_any(at, step, a, &s);
}

MRW_DEV void mrw_bulk_push(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t index,
			   mrw_acc scalar)
{
	for (uint32_t q = 1; q < a->nranks; q++) {
		uint32_t p = mrw_peer(a, q);
		struct mrw_span block = mrw_block_at(a, p);
		struct mrw_chunk chunk = mrw_chunk(block.bytes, a->call.chunk_bytes, a->call.channels, channel, index);
		uint8_t *slot = mrw_staging_to(a, 0, channel, p, round);
		mrw_stage_note(team, a, 0, channel, p, round, chunk.bytes);
		if (a->scaled)
			mrw_push_scaled(team, slot, a->in + block.offset + chunk.offset, chunk.bytes, scalar);
		else
			mrw_copy(team, slot, a->in + block.offset + chunk.offset, chunk.bytes);
	}
}

/* Copies out what the owners sent. */
MRW_DEV void mrw_bulk_collect(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round,
			      uint64_t index)
{
	for (uint32_t q = 1; q < a->nranks; q++) {
		uint32_t p = mrw_peer(a, q);
		struct mrw_span block = mrw_block_at(a, p);
		struct mrw_chunk chunk = mrw_chunk(block.bytes, a->call.chunk_bytes, a->call.channels, channel, index);
		mrw_copy(team, a->out + block.offset + chunk.offset,
			 mrw_staging_from(a, 1, channel, p, round - a->call.lag), chunk.bytes);
	}
}

MRW_DEV void mrw_bulk_add(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round,
			 uint64_t index)
{
	struct mrw_sum s = mrw_sum_of(team, channel, a, round, index);
	uint32_t at = team->index * MRW_VEC_BYTES, step = team->size * MRW_VEC_BYTES;
	if (a->nranks == 2 && team->size > 1 && !a->scaled && s.own_alignment == MRW_VEC_BYTES && s.out_alignment == MRW_VEC_BYTES)
		at = mrw_sum_pair_any(a->reduction, at, step, a->rank == 0 ? s.own : s.staged, a->rank == 0 ? s.staged : s.own, s.out,
				      s.forward ? mrw_sum_slot(a, s, 1) : NULL, s.bytes, s.average);
	if (at < s.bytes)
		mrw_bulk_sum(team, at, step, channel, a, round, index);
	for (uint32_t q = 1; mrw_spans(a) && s.forward && q < a->nranks; q++)
		mrw_stage_note(team, a, 1, channel, mrw_peer(a, q), round, s.bytes);
	if (mrw_is_sender(a))
		mrw_stage_note(team, a, 1, channel, a->call.root, round, s.bytes);
}

/* collects: this rank has use for the results of others. */
MRW_DEV void mrw_reduce_bulk_round(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t t,
				   uint64_t chunks, uint32_t lag, bool collects, mrw_acc scalar)
{
	if (t < chunks)
		mrw_bulk_push(team, channel, a, round, t, scalar);
	if (t >= lag && t - lag < chunks)
		mrw_bulk_add(team, channel, a, round, t - lag);
	if (collects && t >= 2 * lag && t - 2 * lag < chunks && !mrw_direct(team, a, a->rank))
		mrw_bulk_collect(team, channel, a, round, t - 2 * lag);
}

MRW_DEV void mrw_reduce_bulk(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_op op;
	bool second = mrw_exchanges(a->call.func, a->nranks) == 2, collects = second && !mrw_is_sender(a);
	uint64_t chunks = mrw_chunks(mrw_largest_block(a), a->call.chunk_bytes, a->call.channels, channel);
	uint32_t lag = a->call.lag;
	uint64_t rounds = mrw_rounds(chunks, second ? 2 : 1, lag);
	if (mrw_team_is_signal(team)) {
		mrw_rounds_signal(team, channel, a, rounds);
		return;
	}
	bool ok = mrw_op_begin_rounds(team, channel, a, &op);
	mrw_acc scalar = mrw_scalar(a);
	if (mrw_has_windows(a) && channel == 0 && ok)
		mrw_places_say(team, a, op.seq);
	for (uint64_t t = 0; t < rounds; t++) {
		uint64_t round = op.round + t;
		ok = mrw_rounds_wait(team, channel, a, op.seq, round, lag, ok);
		if (t == lag) /* results from here on */
			ok = mrw_places_heard(team, channel, a, op.seq, ok);
		if (!ok)
			break;
		mrw_reduce_bulk_round(team, channel, a, round, t, chunks, lag, collects, scalar);
		mrw_rounds_publish(team, channel, a, round);
	}
	ok = mrw_rounds_drain(team, channel, a, op.seq, op.round + rounds, ok);
	mrw_rounds_keep(team, channel, a, op.round + rounds);
	mrw_op_end(team, channel, a, &op, ok);
}

#endif
