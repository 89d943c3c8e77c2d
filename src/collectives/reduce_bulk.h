/* reduce_bulk.h - all-reduce, reduce and reduce-scatter of large messages.
 *
 * Round t: push chunk t of every owner's block into its staging; add chunk t - lag of my block, in rank order, and push the result into
 * everybody's second staging (all_reduce) or put it into the root's (reduce); copy out chunk t - 2 lag of the others' blocks (everybody, or the
 * root). A reduce over two ranks is one exchange: the root owns everything. Compiled once per type. */
#ifndef MRW_REDUCE_BULK_H
#define MRW_REDUCE_BULK_H

#include "peer.h"
#include "schedule.h"
#include "device/reduce.h"

#define MRW_VEC_ELEMS (MRW_VEC_BYTES / MRW_ELEM_BYTES)
/* Vectors a thread adds at once: 16 accumulators. */
#define MRW_REDUCE_BATCH (MRW_VEC_ELEMS >= 16 ? 1u : 16u / MRW_VEC_ELEMS > 4 ? 4u : 16u / MRW_VEC_ELEMS)

/* One chunk of my block: where its pieces are and where the sum goes. Passed by value: inner loops keep it in registers. */
struct mrw_sum {
	const uint8_t *own;    /* any alignment */
	const uint8_t *staged; /* first peer's piece; the others' follow at stride */
	uint8_t *out;          /* any alignment */
	uint64_t result;       /* offset in a peer's arena of the first writer's slot of the second staging */
	uint64_t stride;       /* from one writer's slot to the next one's */
	uint32_t bytes;
	uint32_t rank, nranks; /* whose pieces: all ranks'; along rails numbers of ranks within the host, or of hosts */
	uint32_t divisor;      /* ranks whose sum this completes */
	uint32_t own_alignment, out_alignment;
	bool forward, average, scaled;
	uint8_t *first;        /* not NULL: forward goes here and, at stride, for nranks - 2 more */
	mrw_acc scalar;
};

MRW_DEV void mrw_acc_add(const uint32_t reduction, mrw_acc *acc, const uint32_t *w, bool first)
{
	MRW_UNROLL
	for (uint32_t e = 0; e < MRW_VEC_ELEMS; e++) {
		mrw_acc x = mrw_widen(w, e);
		acc[e] = first ? x : mrw_combine(reduction, acc[e], x);
	}
}

/* Narrows batch sums into v and stores them. */
MRW_DEV void mrw_acc_store(const uint32_t batch, mrw_acc acc[][MRW_VEC_ELEMS], struct mrw_vec *v, uint8_t *out, uint32_t step,
			   bool average, uint32_t nranks)
{
	MRW_UNROLL
	for (uint32_t k = 0; k < batch; k++) {
		v[k].w[0] = v[k].w[1] = v[k].w[2] = v[k].w[3] = 0;
		MRW_UNROLL
		for (uint32_t e = 0; e < MRW_VEC_ELEMS; e++)
			mrw_narrow(v[k].w, e, average ? mrw_divide(acc[k][e], nranks) : acc[k][e]);
		mrw_store_vec(out + k * step, v[k], MRW_VEC_BYTES);
	}
}

/* Two ranks, aligned, not scaled: all vectors of a thread in flight at once. Returns the byte where this thread stopped. */
MRW_DEV uint32_t mrw_sum_pair(const uint32_t reduction, uint32_t at, uint32_t step, const uint8_t *p0, const uint8_t *p1, uint8_t *out,
			      uint8_t *slot, uint32_t bytes, bool average)
{
	for (; at + (MRW_REDUCE_BATCH - 1) * step + MRW_VEC_BYTES <= bytes; at += MRW_REDUCE_BATCH * step) {
		mrw_acc acc[MRW_REDUCE_BATCH][MRW_VEC_ELEMS] = {{0}};
		struct mrw_vec x[MRW_REDUCE_BATCH], y[MRW_REDUCE_BATCH];
		MRW_UNROLL
		for (uint32_t k = 0; k < MRW_REDUCE_BATCH; k++)
			x[k] = mrw_load_vec(p0 + at + k * step, MRW_VEC_BYTES);
		MRW_UNROLL
		for (uint32_t k = 0; k < MRW_REDUCE_BATCH; k++)
			y[k] = mrw_load_vec(p1 + at + k * step, MRW_VEC_BYTES);
		MRW_UNROLL
		for (uint32_t k = 0; k < MRW_REDUCE_BATCH; k++) {
			mrw_acc_add(reduction, acc[k], x[k].w, true);
			mrw_acc_add(reduction, acc[k], y[k].w, false);
		}
		mrw_acc_store(MRW_REDUCE_BATCH, acc, x, out + at, step, average, 2);
		MRW_UNROLL
		for (uint32_t k = 0; slot && k < MRW_REDUCE_BATCH; k++)
			mrw_store_vec(slot + at + k * step, x[k], MRW_VEC_BYTES);
	}
	for (; at + MRW_VEC_BYTES <= bytes; at += step) {
		mrw_acc acc[1][MRW_VEC_ELEMS] = {{0}};
		struct mrw_vec x[1] = {mrw_load_vec(p0 + at, MRW_VEC_BYTES)}, y = mrw_load_vec(p1 + at, MRW_VEC_BYTES);
		mrw_acc_add(reduction, acc[0], x[0].w, true);
		mrw_acc_add(reduction, acc[0], y.w, false);
		mrw_acc_store(1, acc, x, out + at, step, average, 2);
		if (slot)
			mrw_store_vec(slot + at, x[0], MRW_VEC_BYTES);
	}
	return at;
}

MRW_DEV_CALL uint32_t mrw_sum_pair_any(uint32_t reduction, uint32_t at, uint32_t step, const uint8_t *p0, const uint8_t *p1, uint8_t *out,
				       uint8_t *slot, uint32_t bytes, bool average)
{
	switch (reduction) {
	case MRW_RED_SUM:
		return mrw_sum_pair(MRW_RED_SUM, at, step, p0, p1, out, slot, bytes, average);
	case MRW_RED_PROD:
		return mrw_sum_pair(MRW_RED_PROD, at, step, p0, p1, out, slot, bytes, average);
	case MRW_RED_MAX:
		return mrw_sum_pair(MRW_RED_MAX, at, step, p0, p1, out, slot, bytes, average);
	default:
		return mrw_sum_pair(MRW_RED_MIN, at, step, p0, p1, out, slot, bytes, average);
	}
}

/* Where the sum also goes: peer number q's second staging. */
MRW_DEV uint8_t *mrw_sum_slot(const struct mrw_args *a, const struct mrw_sum s, uint32_t q)
{
	if (MRW_FAR && s.first)
		return s.first + (q - 1) * s.stride;
	uint32_t p = mrw_peer(a, q);
	if (mrw_is_far(a, p))
		return a->arena[s.rank] + a->layout.outbox + s.result + mrw_writer_slot(s.rank, p) * s.stride;
	return a->arena[p] + s.result + mrw_writer_slot(p, s.rank) * s.stride;
}

/* Rank r's piece of the chunk. */
MRW_DEV const uint8_t *mrw_sum_piece(const struct mrw_sum s, uint32_t r)
{
	return r == s.rank ? s.own : s.staged + mrw_writer_slot(s.rank, r) * s.stride;
}

#if MRW_ON_CUDA
#include "run_cuda.h"
#else
#include "run_host.h"
#endif

/* Any number of ranks, aligned, not scaled. Returns the byte where this thread stopped. */
MRW_DEV uint32_t mrw_sum_aligned(const uint32_t reduction, const struct mrw_args *a, const struct mrw_sum s, uint32_t at, uint32_t step)
{
	at = mrw_sum_run(reduction, a, s, at, step);
	for (; at + (MRW_REDUCE_BATCH - 1) * step + MRW_VEC_BYTES <= s.bytes; at += MRW_REDUCE_BATCH * step) {
		mrw_acc acc[MRW_REDUCE_BATCH][MRW_VEC_ELEMS] = {{0}};
		struct mrw_vec x[MRW_REDUCE_BATCH];
		for (uint32_t r = 0; r < s.nranks; r++) {
			const uint8_t *p = mrw_sum_piece(s, r) + at;
			MRW_UNROLL
			for (uint32_t k = 0; k < MRW_REDUCE_BATCH; k++)
				x[k] = mrw_load_vec(p + k * step, MRW_VEC_BYTES);
			MRW_UNROLL
			for (uint32_t k = 0; k < MRW_REDUCE_BATCH; k++)
				mrw_acc_add(reduction, acc[k], x[k].w, r == 0);
		}
		mrw_acc_store(MRW_REDUCE_BATCH, acc, x, s.out + at, step, s.average, s.divisor);
		for (uint32_t q = 1; s.forward && q < s.nranks; q++) {
			uint8_t *slot = mrw_sum_slot(a, s, q) + at;
			MRW_UNROLL
			for (uint32_t k = 0; k < MRW_REDUCE_BATCH; k++)
				mrw_store_vec(slot + k * step, x[k], MRW_VEC_BYTES);
		}
	}
	return at;
}

/* One vector, any alignment, scaled or not; bytes < 16: the partial last one, zero-filled. */
MRW_DEV void mrw_sum_one(const uint32_t reduction, const struct mrw_args *a, const struct mrw_sum s, uint32_t at, uint32_t bytes)
{
	mrw_acc acc[MRW_VEC_ELEMS] = {0};
	struct mrw_vec v;
	for (uint32_t r = 0; r < s.nranks; r++) {
		if (r != s.rank)
			v = mrw_load_vec(s.staged + mrw_writer_slot(s.rank, r) * s.stride + at, MRW_VEC_BYTES);
		else if (bytes == MRW_VEC_BYTES)
			v = mrw_load_vec(s.own + at, s.own_alignment);
		else
			v = mrw_load_part(s.own + at, bytes);
		if (r == s.rank && s.scaled)
			mrw_scale(v.w, 4, s.scalar);
		mrw_acc_add(reduction, acc, v.w, r == 0);
	}
	v.w[0] = v.w[1] = v.w[2] = v.w[3] = 0;
	MRW_UNROLL
	for (uint32_t e = 0; e < MRW_VEC_ELEMS; e++)
		mrw_narrow(v.w, e, s.average ? mrw_divide(acc[e], s.divisor) : acc[e]);
	for (uint32_t q = 1; s.forward && q < s.nranks; q++)
		mrw_store_vec(mrw_sum_slot(a, s, q) + at, v, MRW_VEC_BYTES);
	if (bytes == MRW_VEC_BYTES)
		mrw_store_vec(s.out + at, v, s.out_alignment);
	else
		mrw_store_part(s.out + at, v, bytes);
}

MRW_DEV void mrw_sum_chunk(const uint32_t reduction, const struct mrw_args *a, const struct mrw_sum s, uint32_t at, uint32_t step)
{
	if (s.own_alignment == MRW_VEC_BYTES && s.out_alignment == MRW_VEC_BYTES && !s.scaled)
		at = mrw_sum_aligned(reduction, a, s, at, step);
	for (; at + MRW_VEC_BYTES <= s.bytes; at += step)
		mrw_sum_one(reduction, a, s, at, MRW_VEC_BYTES);
	if (at < s.bytes)
		mrw_sum_one(reduction, a, s, at, s.bytes - at);
}

/* Has no use for the result itself. */
MRW_DEV bool mrw_is_sender(const struct mrw_args *a)
{
	return a->call.func == MRW_FUNC_REDUCE && a->rank != a->call.root;
}

/* Chunk index of my block: its pieces have been staged lag rounds ago. */
MRW_DEV struct mrw_sum mrw_sum_of(uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t index)
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
	if (mrw_is_sender(a))
		s.out = mrw_sum_slot(a, s, (a->call.root + a->nranks - a->rank) % a->nranks);
	else
		s.out = a->out + (mrw_has_shares(a->call.func) ? block.offset : 0) + chunk.offset;
	s.own_alignment = mrw_alignment(s.own);
	s.out_alignment = mrw_alignment(s.out);
	s.average = a->average != 0;
	s.scaled = a->scaled != 0;
	s.scalar = mrw_scalar(a);
	return s;
}

/* From byte at on; the operation is a switch outside the loop. */
MRW_DEV_CALL void mrw_sum_any(uint32_t at, uint32_t step, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t index)
{
	struct mrw_sum s = mrw_sum_of(channel, a, round, index);
	switch (a->reduction) {
	case MRW_RED_SUM:
		mrw_sum_chunk(MRW_RED_SUM, a, s, at, step);
		break;
	case MRW_RED_PROD:
		mrw_sum_chunk(MRW_RED_PROD, a, s, at, step);
		break;
	case MRW_RED_MAX:
		mrw_sum_chunk(MRW_RED_MAX, a, s, at, step);
		break;
	default:
		mrw_sum_chunk(MRW_RED_MIN, a, s, at, step);
	}
}

/* Pushes one chunk of my input, scaled, into a staging slot. */
MRW_DEV void mrw_push_scaled(const struct mrw_team *team, uint8_t *slot, const uint8_t *src, uint32_t bytes, mrw_acc scalar)
{
	uint32_t alignment = mrw_alignment(src);
	for (uint32_t at = team->index * MRW_VEC_BYTES; at < bytes; at += team->size * MRW_VEC_BYTES) {
		struct mrw_vec v = bytes - at >= MRW_VEC_BYTES ? mrw_load_vec(src + at, alignment)
							       : mrw_load_part(src + at, bytes - at);
		mrw_scale(v.w, 4, scalar);
		mrw_store_vec(slot + at, v, MRW_VEC_BYTES);
	}
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
	struct mrw_sum s = mrw_sum_of(channel, a, round, index);
	uint32_t at = team->index * MRW_VEC_BYTES, step = team->size * MRW_VEC_BYTES;
	if (a->nranks == 2 && team->size > 1 && !a->scaled && s.own_alignment == MRW_VEC_BYTES && s.out_alignment == MRW_VEC_BYTES)
		at = mrw_sum_pair_any(a->reduction, at, step, a->rank == 0 ? s.own : s.staged, a->rank == 0 ? s.staged : s.own, s.out,
				      s.forward ? mrw_sum_slot(a, s, 1) : NULL, s.bytes, s.average);
	if (at < s.bytes)
		mrw_sum_any(at, step, channel, a, round, index);
	for (uint32_t q = 1; mrw_spans(a) && s.forward && q < a->nranks; q++)
		mrw_stage_note(team, a, 1, channel, mrw_peer(a, q), round, s.bytes);
	if (mrw_is_sender(a))
		mrw_stage_note(team, a, 1, channel, a->call.root, round, s.bytes);
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
	bool ok = mrw_op_begin(team, channel, a, &op);
	mrw_acc scalar = mrw_scalar(a);
	for (uint64_t t = 0; t < rounds; t++) {
		uint64_t round = op.round + t;
		ok = mrw_rounds_wait(team, channel, a, op.seq, round, lag, ok);
		if (!ok)
			break;
		if (t < chunks)
			mrw_bulk_push(team, channel, a, round, t, scalar);
		if (t >= lag && t - lag < chunks)
			mrw_bulk_add(team, channel, a, round, t - lag);
		if (collects && t >= 2 * lag && t - 2 * lag < chunks)
			mrw_bulk_collect(team, channel, a, round, t - 2 * lag);
		mrw_rounds_publish(team, channel, a, round);
	}
	ok = mrw_rounds_drain(team, channel, a, op.seq, op.round + rounds, ok);
	mrw_rounds_keep(team, channel, a, op.round + rounds);
	mrw_op_end(team, channel, a, &op, ok);
}

#endif
