/* copy.h - moving bytes. Own buffers may have any alignment; arenas are 16-byte aligned.
 *
 * Payload moves by plain vector accesses; whoever needs order publishes afterwards. Nothing here may be cached across an
 * observe: no restrict, no read-only loads. */
#ifndef MRW_COPY_H
#define MRW_COPY_H

#include "team.h"

struct mrw_vec {
	uint32_t w[4];
};
#define MRW_VEC_BYTES 16u

#if MRW_ON_CUDA
#include "copy_cuda.h"
#else
#include "copy_host.h"
#endif

/* Bytes [0, bytes) of p, zero-filled to 16. bytes < 16. */
MRW_DEV struct mrw_vec mrw_load_part(const uint8_t *p, uint32_t bytes)
{
	struct mrw_vec v = {{0, 0, 0, 0}};
	MRW_UNROLL
	for (uint32_t i = 0; i < MRW_VEC_BYTES; i++)
		if (i < bytes)
			v.w[i / 4] |= (uint32_t)p[i] << i % 4 * 8;
	return v;
}

MRW_DEV void mrw_store_part(uint8_t *p, struct mrw_vec v, uint32_t bytes)
{
	MRW_UNROLL
	for (uint32_t i = 0; i < MRW_VEC_BYTES; i++)
		if (i < bytes)
			p[i] = (uint8_t)(v.w[i / 4] >> i % 4 * 8);
}

/* Vectors a thread keeps in flight. */
#define MRW_COPY_BATCH 4u
/* The same where a unit has registers for more: of whole chunks. */
#if !defined(MRW_COPY_LARGE)
#define MRW_COPY_LARGE MRW_COPY_BATCH
#endif

/* Vectors at the start and every step on, batch of them in flight at once. */
MRW_DEV void mrw_copy_batch(const uint32_t batch, uint8_t *dst, const uint8_t *src, uint32_t step, uint32_t from, uint32_t to)
{
	struct mrw_vec v[MRW_COPY_LARGE];
	MRW_UNROLL
	for (uint32_t k = 0; k < batch; k++)
		v[k] = mrw_load_vec(src + k * step, from);
	MRW_UNROLL
	for (uint32_t k = 0; k < batch; k++)
		mrw_store_vec(dst + k * step, v[k], to);
}

/* From byte at on, this thread's share of a chunk; what a batch does not fit goes by single vectors, the tail bytewise. */
MRW_DEV void mrw_copy_rest(uint8_t *dst, const uint8_t *src, uint32_t at, uint32_t step, uint32_t bytes)
{
	uint32_t from = mrw_alignment(src), to = mrw_alignment(dst);
	if (MRW_COPY_LARGE > MRW_COPY_BATCH && from == MRW_VEC_BYTES && to == MRW_VEC_BYTES)
		for (; at + (MRW_COPY_LARGE - 1) * step + MRW_VEC_BYTES <= bytes; at += MRW_COPY_LARGE * step)
			mrw_copy_batch(MRW_COPY_LARGE, dst + at, src + at, step, MRW_VEC_BYTES, MRW_VEC_BYTES);
	if (from == MRW_VEC_BYTES && to == MRW_VEC_BYTES)
		for (; at + (MRW_COPY_BATCH - 1) * step + MRW_VEC_BYTES <= bytes; at += MRW_COPY_BATCH * step)
			mrw_copy_batch(MRW_COPY_BATCH, dst + at, src + at, step, MRW_VEC_BYTES, MRW_VEC_BYTES);
	for (; at + MRW_VEC_BYTES <= bytes; at += step)
		mrw_copy_batch(1, dst + at, src + at, step, from, to);
	if (at < bytes)
		mrw_store_part(dst + at, mrw_load_part(src + at, bytes - at), bytes - at);
}

MRW_DEV_CALL void mrw_copy_strided(uint32_t index, uint32_t size, uint8_t *dst, const uint8_t *src, uint32_t bytes)
{
	if (!mrw_copy_alone(size, dst, src, bytes))
		mrw_copy_rest(dst, src, index * MRW_VEC_BYTES, size * MRW_VEC_BYTES, bytes);
}

/* One chunk: dst and src of any alignment, no overlap unless equal. */
MRW_DEV void mrw_copy(const struct mrw_team *team, uint8_t *dst, const uint8_t *src, uint32_t bytes)
{
	mrw_copy_strided(team->index, team->size, dst, src, bytes);
}

#endif
