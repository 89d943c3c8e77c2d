/* float8_cuda.h - 8-bit floats by instructions (sm_89 and later); float8.h says what they give. Only float8.h includes this. */
#ifndef MRW_FLOAT8_CUDA_H
#define MRW_FLOAT8_CUDA_H

/* Exact: every value of e4m3 is a float16; the pair's other half is zero. */
MRW_DEV float mrw_f32_from_f8e4m3(uint32_t bits)
{
	uint32_t pair;
	asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((uint16_t)(bits & 0xffu)));
	return mrw_f32_from_f16((uint16_t)pair);
}

MRW_DEV float mrw_f32_from_f8e5m2(uint32_t bits) { return mrw_f32_from_f16((uint16_t)(bits << 8)); }

/* x is not NaN. */
MRW_DEV uint32_t mrw_f8e4m3_from_f32(float x)
{
	uint16_t pair;
	asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
	return pair & 0xffu;
}

/* x is not NaN. */
MRW_DEV uint32_t mrw_f8e5m2_from_f32(float x)
{
	uint16_t pair;
	asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
	return pair & 0xffu;
}

#endif
