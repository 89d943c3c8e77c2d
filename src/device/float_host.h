/* float_host.h - float conversions in integers, round to nearest even, denormals kept. Only reduce.h and float8.h include this. */
#ifndef MRW_FLOAT_HOST_H
#define MRW_FLOAT_HOST_H

MRW_DEV float mrw_f32_from_bits(uint32_t bits)
{
	float x;
	memcpy(&x, &bits, sizeof x);
	return x;
}

MRW_DEV uint32_t mrw_bits_from_f32(float x)
{
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	return bits;
}

MRW_DEV double mrw_f64_from_bits(uint64_t bits)
{
	double x;
	memcpy(&x, &bits, sizeof x);
	return x;
}

MRW_DEV uint64_t mrw_bits_from_f64(double x)
{
	uint64_t bits;
	memcpy(&bits, &x, sizeof bits);
	return bits;
}

/* Both ways are computed and one taken: so loops of these become vector code. */
MRW_DEV float mrw_f32_from_f16(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000u) << 16, magnitude = half & 0x7fffu;
	uint32_t normal = (magnitude << 13) + (magnitude >= 0x7c00u ? 224u << 23 : 112u << 23);
	uint32_t denormal = mrw_bits_from_f32((float)(int32_t)magnitude * 5.9604644775390625e-8f); /* 2^-24: exact */
	return mrw_f32_from_bits(sign | (magnitude >= 0x400u ? normal : denormal));
}

/* x is not NaN. Denormals are rounded by an addition whose last place is their step. */
MRW_DEV uint32_t mrw_f16_from_f32(float x)
{
	uint32_t bits = mrw_bits_from_f32(x), magnitude = bits & 0x7fffffffu;
	uint32_t normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13;
	uint32_t denormal = mrw_bits_from_f32(mrw_f32_from_bits(magnitude) + 0.5f) - mrw_bits_from_f32(0.5f);
	/* 65520 and more round to infinity */
	return (bits >> 16 & 0x8000u) | (magnitude >= 0x477ff000u ? 0x7c00u : magnitude >= 0x38800000u ? normal : denormal);
}

/* x is not NaN. */
MRW_DEV uint32_t mrw_bf16_from_f32(float x)
{
	uint32_t bits = mrw_bits_from_f32(x);
	return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

#endif
