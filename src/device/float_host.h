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

MRW_DEV float mrw_f32_from_f16(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 0x1fu, mantissa = half & 0x3ffu;
	if (exponent == 0x1f)
		return mrw_f32_from_bits(sign | 0x7f800000u | mantissa << 13);
	if (exponent != 0)
		return mrw_f32_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
	/* zero or denormal: mantissa * 2^-24, exact */
	float x = (float)mantissa * 5.9604644775390625e-8f;
	return mrw_f32_from_bits(sign | mrw_bits_from_f32(x));
}

/* x is not NaN. */
MRW_DEV uint32_t mrw_f16_from_f32(float x)
{
	uint32_t bits = mrw_bits_from_f32(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
	if (magnitude >= 0x477ff000u) /* 65520 and more round to infinity */
		return sign | 0x7c00u;
	if (magnitude >= 0x38800000u) /* normal: drop 13 bits */
		return sign | ((magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13);
	if (magnitude < 0x33000000u) /* below half of the smallest denormal */
		return sign;
	uint32_t shift = 126 - (magnitude >> 23), mantissa = (magnitude & 0x7fffffu) | 0x800000u;
	uint32_t kept = mantissa >> shift, rest = mantissa & ((1u << shift) - 1), half = 1u << (shift - 1);
	return sign | (kept + (rest > half || (rest == half && (kept & 1))));
}

/* x is not NaN. */
MRW_DEV uint32_t mrw_bf16_from_f32(float x)
{
	uint32_t bits = mrw_bits_from_f32(x);
	return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

#endif
