/* add.h - the arithmetic of the bulk algorithms: adds the pieces of a sum (sum.h) and stores the result where it goes, and scales what is
 * pushed. Compiled once per type. */
#ifndef MRW_ADD_H
#define MRW_ADD_H

#include "sum.h"

#define MRW_VEC_ELEMS (MRW_VEC_BYTES / MRW_ELEM_BYTES)
/* Vectors a thread adds at once: 16 accumulators. */
#define MRW_REDUCE_BATCH (MRW_VEC_ELEMS >= 16 ? 1u : 16u / MRW_VEC_ELEMS > 4 ? 4u : 16u / MRW_VEC_ELEMS)

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
	return MRW_BY_REDUCTION(reduction, mrw_sum_pair, at, step, p0, p1, out, slot, bytes, average);
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

/* All of v, or its first bytes. */
MRW_DEV void mrw_store_up_to(uint8_t *p, struct mrw_vec v, uint32_t alignment, uint32_t bytes)
{
	if (bytes == MRW_VEC_BYTES)
		mrw_store_vec(p, v, alignment);
	else
		mrw_store_part(p, v, bytes);
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
		mrw_store_up_to(mrw_sum_slot(a, s, q) + at, v, MRW_VEC_BYTES, MRW_WINDOWS ? bytes : MRW_VEC_BYTES);
	mrw_store_up_to(s.out + at, v, s.out_alignment, bytes);
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

/* From byte at on. */
MRW_DEV void mrw_sum_switch(uint32_t at, uint32_t step, const struct mrw_args *a, const struct mrw_sum s)
{
	MRW_BY_REDUCTION(a->reduction, mrw_sum_chunk, a, s, at, step);
}

MRW_DEV_CALL void mrw_sum_any(uint32_t at, uint32_t step, const struct mrw_args *a, const struct mrw_sum *s)
{
	mrw_sum_switch(at, step, a, *s);
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

#endif
