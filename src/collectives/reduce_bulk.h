/* reduce_bulk.h - all-reduce and reduce-scatter of large messages.
 *
 * Round t: push chunk t of every owner's block into its staging; add chunk t - lag of my block, in rank order, and (all_reduce) push
 * the result into everybody's second staging; copy out chunk t - 2 lag of the others' blocks. Compiled once per type. */
#ifndef MRW_REDUCE_BULK_H
#define MRW_REDUCE_BULK_H

#include "rounds.h"
#include "schedule.h"
#include "device/reduce.h"

#define MRW_VEC_ELEMS (MRW_VEC_BYTES / MRW_ELEM_BYTES)
/* Vectors a thread adds at once: 16 accumulators. */
#define MRW_REDUCE_BATCH (MRW_VEC_ELEMS >= 16 ? 1u : 16u / MRW_VEC_ELEMS > 4 ? 4u : 16u / MRW_VEC_ELEMS)

/* One chunk of my block: where its pieces are and where the sum goes. */
struct mrw_sum {
	const uint8_t *own;    /* any alignment */
	const uint8_t *staged; /* first peer's piece; the others' follow at stride */
	uint8_t *out;          /* any alignment */
	uint64_t result;       /* offset in a peer's arena of the first writer's slot of the second staging */
	uint64_t stride;       /* from one writer's slot to the next one's */
	uint32_t bytes;
	uint32_t own_alignment, out_alignment;
	bool forward;
};

MRW_DEV void mrw_acc_add(const uint32_t reduction, mrw_acc *acc, const uint32_t *w, bool first)
{
	MRW_UNROLL
	for (uint32_t e = 0; e < MRW_VEC_ELEMS; e++) {
		mrw_acc x = mrw_widen(w, e);
		acc[e] = first ? x : mrw_combine(reduction, acc[e], x);
	}
}

/* The vector at byte at of a piece; a partial one (bytes < 16) is zero-filled. */
MRW_DEV struct mrw_vec mrw_sum_load(const struct mrw_args *a, const struct mrw_sum *s, uint32_t rank, uint32_t at, uint32_t bytes,
				    mrw_acc scalar)
{
	struct mrw_vec v;
	if (rank != a->rank)
		return mrw_load_vec(s->staged + mrw_writer_slot(a->rank, rank) * s->stride + at, MRW_VEC_BYTES);
	if (bytes == MRW_VEC_BYTES)
		v = mrw_load_vec(s->own + at, s->own_alignment);
	else
		v = mrw_load_part(s->own + at, bytes);
	if (a->scaled)
		mrw_scale(v.w, 4, scalar);
	return v;
}

/* Adds batch vectors, at byte at and every step on, all in flight at once. bytes: of each, < 16 for the partial last one. */
MRW_DEV void mrw_sum_batch(const uint32_t reduction, const uint32_t batch, const struct mrw_args *a, const struct mrw_sum *s,
			   uint32_t at, uint32_t step, uint32_t bytes, mrw_acc scalar)
{
	mrw_acc acc[MRW_REDUCE_BATCH][MRW_VEC_ELEMS];
	struct mrw_vec x[MRW_REDUCE_BATCH], y[MRW_REDUCE_BATCH];
	for (uint32_t r = 0; r < a->nranks; r += 2) {
		bool pair = r + 1 < a->nranks;
		MRW_UNROLL
		for (uint32_t k = 0; k < batch; k++)
			x[k] = mrw_sum_load(a, s, r, at + k * step, bytes, scalar);
		if (pair) {
			MRW_UNROLL
			for (uint32_t k = 0; k < batch; k++)
				y[k] = mrw_sum_load(a, s, r + 1, at + k * step, bytes, scalar);
		}
		MRW_UNROLL
		for (uint32_t k = 0; k < batch; k++) {
			mrw_acc_add(reduction, acc[k], x[k].w, r == 0);
			if (pair)
				mrw_acc_add(reduction, acc[k], y[k].w, false);
		}
	}
	MRW_UNROLL
	for (uint32_t k = 0; k < batch; k++) {
		struct mrw_vec v = {{0, 0, 0, 0}};
		uint32_t here = at + k * step;
		MRW_UNROLL
		for (uint32_t e = 0; e < MRW_VEC_ELEMS; e++)
			mrw_narrow(v.w, e, a->average ? mrw_divide(acc[k][e], a->nranks) : acc[k][e]);
		for (uint32_t q = 1; s->forward && q < a->nranks; q++) {
			uint32_t p = mrw_peer(a, q);
			mrw_store_vec(a->arena[p] + s->result + mrw_writer_slot(p, a->rank) * s->stride + here, v, MRW_VEC_BYTES);
		}
		if (bytes == MRW_VEC_BYTES)
			mrw_store_vec(s->out + here, v, s->out_alignment);
		else
			mrw_store_part(s->out + here, v, bytes);
	}
}

MRW_DEV void mrw_sum_chunk(const uint32_t reduction, const struct mrw_team *team, const struct mrw_args *a, const struct mrw_sum *s,
			   mrw_acc scalar)
{
	uint32_t step = team->size * MRW_VEC_BYTES, at = team->index * MRW_VEC_BYTES;
	for (; at + (MRW_REDUCE_BATCH - 1) * step + MRW_VEC_BYTES <= s->bytes; at += MRW_REDUCE_BATCH * step)
		mrw_sum_batch(reduction, MRW_REDUCE_BATCH, a, s, at, step, MRW_VEC_BYTES, scalar);
	for (; at + MRW_VEC_BYTES <= s->bytes; at += step)
		mrw_sum_batch(reduction, 1, a, s, at, 0, MRW_VEC_BYTES, scalar);
	if (at < s->bytes)
		mrw_sum_batch(reduction, 1, a, s, at, 0, s->bytes - at, scalar);
}

/* The operation is a switch outside the loop. */
MRW_DEV_CALL void mrw_sum_chunk_any(const struct mrw_team *team, const struct mrw_args *a, const struct mrw_sum *s, mrw_acc scalar)
{
	switch (a->reduction) {
	case MRW_RED_SUM:
		mrw_sum_chunk(MRW_RED_SUM, team, a, s, scalar);
		break;
	case MRW_RED_PROD:
		mrw_sum_chunk(MRW_RED_PROD, team, a, s, scalar);
		break;
	case MRW_RED_MAX:
		mrw_sum_chunk(MRW_RED_MAX, team, a, s, scalar);
		break;
	default:
		mrw_sum_chunk(MRW_RED_MIN, team, a, s, scalar);
	}
}

/* Pushes one chunk of my input, scaled for premulsum, into a staging slot. */
MRW_DEV void mrw_push_chunk(const struct mrw_team *team, const struct mrw_args *a, uint8_t *slot, const uint8_t *src, uint32_t bytes,
			    mrw_acc scalar)
{
	if (!a->scaled) {
		mrw_copy(team, slot, src, bytes);
		return;
	}
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
		struct mrw_span block = mrw_block(a->call.func, a->bytes, a->nranks, p);
		struct mrw_chunk chunk = mrw_chunk(block.bytes, a->call.chunk_bytes, a->call.channels, channel, index);
		mrw_push_chunk(team, a, mrw_staging_at(&a->layout, a->arena[p], 0, channel, p, a->rank, round),
			       a->in + block.offset + chunk.offset, chunk.bytes, scalar);
	}
}

MRW_DEV void mrw_bulk_add(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round,
			  uint64_t index, mrw_acc scalar)
{
	struct mrw_span block = mrw_block(a->call.func, a->bytes, a->nranks, a->rank);
	struct mrw_chunk chunk = mrw_chunk(block.bytes, a->call.chunk_bytes, a->call.channels, channel, index);
	struct mrw_sum s;
	s.forward = a->call.func == MRW_FUNC_ALL_REDUCE;
	s.bytes = chunk.bytes;
	s.own = a->in + block.offset + chunk.offset;
	s.out = a->out + (s.forward ? block.offset : 0) + chunk.offset;
	s.own_alignment = mrw_alignment(s.own);
	s.out_alignment = mrw_alignment(s.out);
	s.staged = a->arena[a->rank] + mrw_staging_offset(&a->layout, 0, channel, 0, round - a->call.lag);
	s.result = mrw_staging_offset(&a->layout, 1, channel, 0, round);
	s.stride = (uint64_t)MRW_ROUND_SLOTS * a->layout.chunk_bytes;
	mrw_sum_chunk_any(team, a, &s, scalar);
}

/* Copies out what the owners sent. */
MRW_DEV void mrw_bulk_collect(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round,
			      uint64_t index)
{
	for (uint32_t q = 1; q < a->nranks; q++) {
		uint32_t p = mrw_peer(a, q);
		struct mrw_span block = mrw_block(a->call.func, a->bytes, a->nranks, p);
		struct mrw_chunk chunk = mrw_chunk(block.bytes, a->call.chunk_bytes, a->call.channels, channel, index);
		mrw_copy(team, a->out + block.offset + chunk.offset,
			 mrw_staging_at(&a->layout, a->arena[a->rank], 1, channel, a->rank, p, round - a->call.lag), chunk.bytes);
	}
}

MRW_DEV void mrw_reduce_bulk(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_op op;
	bool ok = mrw_op_begin(team, channel, a, &op);
	bool second = a->call.func == MRW_FUNC_ALL_REDUCE;
	uint64_t largest = mrw_block(a->call.func, a->bytes, a->nranks, 0).bytes;
	uint64_t chunks = mrw_chunks(largest, a->call.chunk_bytes, a->call.channels, channel);
	uint32_t lag = a->call.lag;
	uint64_t rounds = mrw_rounds(chunks, second ? 2 : 1, lag);
	mrw_acc scalar = mrw_scalar(a);
	for (uint64_t t = 0; t < rounds; t++) {
		uint64_t round = op.round + t;
		ok = mrw_rounds_wait(team, channel, a, op.seq, round, lag, ok);
		if (!ok)
			break;
		if (t < chunks)
			mrw_bulk_push(team, channel, a, round, t, scalar);
		if (t >= lag && t - lag < chunks)
			mrw_bulk_add(team, channel, a, round, t - lag, scalar);
		if (second && t >= 2 * lag && t - 2 * lag < chunks)
			mrw_bulk_collect(team, channel, a, round, t - 2 * lag);
		mrw_rounds_publish(team, channel, a, round);
	}
	mrw_rounds_keep(team, channel, a, op.round + rounds);
	mrw_op_end(team, channel, a, &op, ok);
}

#endif
