/* float_cuda.h - float conversions of the GPU, round to nearest even. Only reduce.h and float8.h include this. */
#ifndef MRW_FLOAT_CUDA_H
#define MRW_FLOAT_CUDA_H

MRW_DEV float mrw_f32_from_bits(uint32_t bits) { return __uint_as_float(bits); }
MRW_DEV uint32_t mrw_bits_from_f32(float x) { return __float_as_uint(x); }
MRW_DEV double mrw_f64_from_bits(uint64_t bits) { return __longlong_as_double((long long)bits); }
MRW_DEV uint64_t mrw_bits_from_f64(double x) { return (uint64_t)__double_as_longlong(x); }

MRW_DEV float mrw_f32_from_f16(uint16_t bits)
{
	float x;
	asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
	return x;
}

MRW_DEV uint32_t mrw_f16_from_f32(float x)
{
	uint16_t bits;
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
	return bits;
}

MRW_DEV uint32_t mrw_bf16_from_f32(float x)
{
	uint16_t bits;
	asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
	return bits;
}

#endif
