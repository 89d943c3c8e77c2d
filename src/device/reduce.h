/* reduce.h - arithmetic of one element type, chosen with -DMRW_TYPE_<type>; compiled once a type.
 *
 * Reductions run on accumulators: float for 8- and 16-bit floats, the type itself for the rest (small integers in 32 bits: only the
 * low bits count). Host and CUDA bits are equal: no contraction, round to nearest even, one NaN. */
#ifndef MRW_REDUCE_H
#define MRW_REDUCE_H

#include "args.h"
#include "copy.h"

#define MRW_PASTE_(a, b) a##b
#define MRW_PASTE(a, b) MRW_PASTE_(a, b)
/* name_f32 and so on */
#define MRW_TYPED(name) MRW_PASTE(name, MRW_SUFFIX)

#if defined(MRW_TYPE_i8)
#define MRW_SUFFIX _i8
#define MRW_ELEM_BYTES 1u
typedef int32_t mrw_acc;
typedef uint32_t mrw_wrap;
#elif defined(MRW_TYPE_u8)
#define MRW_SUFFIX _u8
#define MRW_ELEM_BYTES 1u
typedef uint32_t mrw_acc;
typedef uint32_t mrw_wrap;
#elif defined(MRW_TYPE_i32)
#define MRW_SUFFIX _i32
#define MRW_ELEM_BYTES 4u
typedef int32_t mrw_acc;
typedef uint32_t mrw_wrap;
#elif defined(MRW_TYPE_u32)
#define MRW_SUFFIX _u32
#define MRW_ELEM_BYTES 4u
typedef uint32_t mrw_acc;
typedef uint32_t mrw_wrap;
#elif defined(MRW_TYPE_i64)
#define MRW_SUFFIX _i64
#define MRW_ELEM_BYTES 8u
typedef int64_t mrw_acc;
typedef uint64_t mrw_wrap;
#elif defined(MRW_TYPE_u64)
#define MRW_SUFFIX _u64
#define MRW_ELEM_BYTES 8u
typedef uint64_t mrw_acc;
typedef uint64_t mrw_wrap;
#elif defined(MRW_TYPE_f16)
#define MRW_SUFFIX _f16
#define MRW_ELEM_BYTES 2u
#define MRW_IS_NAN(x) ((x) != (x))
typedef float mrw_acc;
typedef float mrw_wrap;
#elif defined(MRW_TYPE_bf16)
#define MRW_SUFFIX _bf16
#define MRW_ELEM_BYTES 2u
#define MRW_IS_NAN(x) ((x) != (x))
typedef float mrw_acc;
typedef float mrw_wrap;
#elif defined(MRW_TYPE_f8e4m3)
#define MRW_SUFFIX _f8e4m3
#define MRW_ELEM_BYTES 1u
#define MRW_IS_NAN(x) ((x) != (x))
typedef float mrw_acc;
typedef float mrw_wrap;
#elif defined(MRW_TYPE_f8e5m2)
#define MRW_SUFFIX _f8e5m2
#define MRW_ELEM_BYTES 1u
#define MRW_IS_NAN(x) ((x) != (x))
typedef float mrw_acc;
typedef float mrw_wrap;
#elif defined(MRW_TYPE_f32)
#define MRW_SUFFIX _f32
#define MRW_ELEM_BYTES 4u
#define MRW_IS_NAN(x) ((x) != (x))
typedef float mrw_acc;
typedef float mrw_wrap;
#elif defined(MRW_TYPE_f64)
#define MRW_SUFFIX _f64
#define MRW_ELEM_BYTES 8u
#define MRW_IS_NAN(x) ((x) != (x))
typedef double mrw_acc;
typedef double mrw_wrap;
#else
#error "define one MRW_TYPE_..."
#endif

#if !defined(MRW_IS_NAN)
#define MRW_IS_NAN(x) false
#endif

#if MRW_ON_CUDA
#include "float_cuda.h"
#else
#include "float_host.h"
#endif
#include "float8.h"

/* Element number i of the words as an accumulator. i is a constant after unrolling. */
MRW_DEV mrw_acc mrw_widen(const uint32_t *w, uint32_t i)
{
#if defined(MRW_TYPE_i8)
	return (int32_t)(int8_t)(w[i / 4] >> i % 4 * 8);
#elif defined(MRW_TYPE_u8)
	return w[i / 4] >> i % 4 * 8 & 0xff;
#elif defined(MRW_TYPE_i32)
	return (int32_t)w[i];
#elif defined(MRW_TYPE_u32)
	return w[i];
#elif defined(MRW_TYPE_i64)
	return (int64_t)((uint64_t)w[2 * i] | (uint64_t)w[2 * i + 1] << 32);
#elif defined(MRW_TYPE_u64)
	return (uint64_t)w[2 * i] | (uint64_t)w[2 * i + 1] << 32;
#elif defined(MRW_TYPE_f16)
	return mrw_f32_from_f16((uint16_t)(w[i / 2] >> i % 2 * 16));
#elif defined(MRW_TYPE_bf16)
	return mrw_f32_from_bits(i % 2 ? w[i / 2] & 0xffff0000u : w[i / 2] << 16);
#elif defined(MRW_TYPE_f8e4m3)
	return mrw_f32_from_f8e4m3(w[i / 4] >> i % 4 * 8);
#elif defined(MRW_TYPE_f8e5m2)
	return mrw_f32_from_f8e5m2(w[i / 4] >> i % 4 * 8);
#elif defined(MRW_TYPE_f32)
	return mrw_f32_from_bits(w[i]);
#else
	return mrw_f64_from_bits((uint64_t)w[2 * i] | (uint64_t)w[2 * i + 1] << 32);
#endif
}

/* Rounds once, makes NaN canonical, puts the element at place i; words start zeroed. */
MRW_DEV void mrw_narrow(uint32_t *w, uint32_t i, mrw_acc x)
{
#if defined(MRW_TYPE_i8) || defined(MRW_TYPE_u8)
	w[i / 4] |= ((uint32_t)x & 0xff) << i % 4 * 8;
#elif defined(MRW_TYPE_i32) || defined(MRW_TYPE_u32)
	w[i] = (uint32_t)x;
#elif defined(MRW_TYPE_i64) || defined(MRW_TYPE_u64)
	w[2 * i] = (uint32_t)(uint64_t)x;
	w[2 * i + 1] = (uint32_t)((uint64_t)x >> 32);
#elif defined(MRW_TYPE_f16)
	w[i / 2] |= (uint32_t)(MRW_IS_NAN(x) ? 0x7e00u : mrw_f16_from_f32(x)) << i % 2 * 16;
#elif defined(MRW_TYPE_bf16)
	w[i / 2] |= (uint32_t)(MRW_IS_NAN(x) ? 0x7fc0u : mrw_bf16_from_f32(x)) << i % 2 * 16;
#elif defined(MRW_TYPE_f8e4m3)
	w[i / 4] |= (MRW_IS_NAN(x) ? 0x7fu : mrw_f8e4m3_from_f32(x)) << i % 4 * 8;
#elif defined(MRW_TYPE_f8e5m2)
	w[i / 4] |= (MRW_IS_NAN(x) ? 0x7fu : mrw_f8e5m2_from_f32(x)) << i % 4 * 8;
#elif defined(MRW_TYPE_f32)
	w[i] = MRW_IS_NAN(x) ? 0x7fc00000u : mrw_bits_from_f32(x);
#else
	uint64_t bits = MRW_IS_NAN(x) ? 0x7ff8000000000000ull : mrw_bits_from_f64(x);
	w[2 * i] = (uint32_t)bits;
	w[2 * i + 1] = (uint32_t)(bits >> 32);
#endif
}

/* r and then x, in rank order. */
MRW_DEV mrw_acc mrw_combine(const uint32_t reduction, mrw_acc r, mrw_acc x)
{
	switch (reduction) {
	case MRW_RED_SUM:
		return (mrw_acc)((mrw_wrap)r + (mrw_wrap)x);
	case MRW_RED_PROD:
		return (mrw_acc)((mrw_wrap)r * (mrw_wrap)x);
	case MRW_RED_MAX:
		return x > r || MRW_IS_NAN(x) ? x : r;
	default:
		return x < r || MRW_IS_NAN(x) ? x : r;
	}
}

/* The wrapped sum of small integers, then one division towards zero; floats divide before the one rounding. */
MRW_DEV mrw_acc mrw_divide(mrw_acc x, uint32_t nranks)
{
#if defined(MRW_TYPE_i8)
	return (int32_t)(int8_t)x / (int32_t)nranks;
#elif defined(MRW_TYPE_u8)
	return (x & 0xff) / nranks;
#else
	return x / (mrw_acc)nranks;
#endif
}

/* elems elements of words times scalar, each rounded to the type. */
MRW_DEV void mrw_scale(uint32_t *w, const uint32_t words, mrw_acc scalar)
{
	uint32_t out[4] = {0, 0, 0, 0};
	MRW_UNROLL
	for (uint32_t i = 0; i < words * 4 / MRW_ELEM_BYTES; i++)
		mrw_narrow(out, i, (mrw_acc)((mrw_wrap)mrw_widen(w, i) * (mrw_wrap)scalar));
	MRW_UNROLL
	for (uint32_t i = 0; i < words; i++)
		w[i] = out[i];
}

/* The scalar of a premulsum; 0 where a->scaled is 0. */
MRW_DEV mrw_acc mrw_scalar(const struct mrw_args *a)
{
	uint32_t w[2] = {(uint32_t)a->scalar, (uint32_t)(a->scalar >> 32)};
	if (a->scaled == 2) {
		struct mrw_vec v = mrw_load_part((const uint8_t *)a->scalar_memory, MRW_ELEM_BYTES);
		w[0] = v.w[0];
		w[1] = v.w[1];
	}
	return mrw_widen(w, 0);
}

#endif
