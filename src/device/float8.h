/* float8.h - 8-bit floats: by instructions where the GPU has them (sm_89 and later: float8_cuda.h), else by their bits.
 *
 * e4m3: 4 bits of exponent (bias 7), no infinity, 0x7f is NaN, largest 448 (0x7e). e5m2: the upper half of a float16, largest 57344 (0x7b).
 * Widening is exact: the bits become a float whose exponent is too small by the difference of the biases, denormals too, and a power of two puts
 * that right. Narrowing rounds to nearest even and saturates; denormals are rounded by an addition whose last place is their step. */
#ifndef MRW_FLOAT8_H
#define MRW_FLOAT8_H

#include "args.h"

#if MRW_ON_CUDA
#include "float_cuda.h"
#else
#include "float_host.h"
#endif

#if MRW_ON_CUDA && __CUDA_ARCH__ >= 890
#include "float8_cuda.h"
#else

MRW_DEV float mrw_f32_from_f8e4m3(uint32_t bits)
{
	uint32_t sign = (bits & 0x80u) << 24, magnitude = bits & 0x7fu;
	float x = mrw_f32_from_bits(magnitude << 20) * 1.329227995784915872903807060280344576e36f; /* 2^120 */
	return mrw_f32_from_bits(sign | (magnitude == 0x7fu ? 0x7fc00000u : mrw_bits_from_f32(x)));
}

MRW_DEV float mrw_f32_from_f8e5m2(uint32_t bits)
{
	uint32_t sign = (bits & 0x80u) << 24, magnitude = bits & 0x7fu;
	float x = mrw_f32_from_bits(magnitude << 21) * 5.192296858534827628530496329220096e33f; /* 2^112 */
	return mrw_f32_from_bits(sign | (magnitude >= 0x7cu ? 0x7f800000u | (magnitude & 3u) << 21 : mrw_bits_from_f32(x)));
}

/* magnitude: of a float, not NaN. mantissa: the format's bits of it; smallest: bits of its smallest normal; step: 2^23 times the step of its
 * denormals; largest: bits of its largest; most: its code. */
MRW_DEV uint32_t mrw_f8_round(uint32_t magnitude, const uint32_t mantissa, const uint32_t smallest, const float step, const uint32_t largest,
			      const uint32_t most)
{
	uint32_t shift = 23 - mantissa, odd = magnitude >> shift & 1;
	uint32_t normal = (magnitude - smallest + (1u << mantissa << shift) + (1u << (shift - 1)) - 1 + odd) >> shift;
	uint32_t denormal = mrw_bits_from_f32(mrw_f32_from_bits(magnitude) + step) - mrw_bits_from_f32(step);
	return magnitude >= largest ? most : magnitude >= smallest ? normal : denormal;
}

/* x is not NaN. */
MRW_DEV uint32_t mrw_f8e4m3_from_f32(float x)
{
	uint32_t bits = mrw_bits_from_f32(x);
	return (bits >> 24 & 0x80u) | mrw_f8_round(bits & 0x7fffffffu, 3, 0x3c800000u, 16384.0f, 0x43e00000u, 0x7eu);
}

/* x is not NaN. */
MRW_DEV uint32_t mrw_f8e5m2_from_f32(float x)
{
	uint32_t bits = mrw_bits_from_f32(x);
	return (bits >> 24 & 0x80u) | mrw_f8_round(bits & 0x7fffffffu, 2, 0x38800000u, 128.0f, 0x47600000u, 0x7bu);
}

#endif
#endif
