/* fill.c - the inputs of reference.h. */
#include "reference.h"

#include <string.h>

struct float_format {
	uint32_t mantissa_bits, exponent_bits, spread;
	int finite; /* no infinities: the last mantissa of the last exponent is NaN, the others are numbers */
};

static struct float_format format_of(enum marrow_type type)
{
	switch (type) {
	case MARROW_FLOAT16: return (struct float_format){ 10, 5, 8, 0 };
	case MARROW_BFLOAT16: return (struct float_format){ 7, 8, 12, 0 };
	case MARROW_FLOAT32: return (struct float_format){ 23, 8, 12, 0 };
	case MARROW_FLOAT8E4M3: return (struct float_format){ 3, 4, 4, 1 };
	case MARROW_FLOAT8E5M2: return (struct float_format){ 2, 5, 8, 0 };
	default: return (struct float_format){ 52, 11, 24, 0 };
	}
}

/* The finaliser of SplitMix64. */
static uint64_t scramble(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static uint64_t stream_of(uint64_t seed, uint64_t rank)
{
	return scramble(scramble(seed + 0x9e3779b97f4a7c15) + rank + 1);
}

static uint64_t hash_at(uint64_t stream, uint64_t index)
{
	return scramble(stream + (index + 1) * 0x9e3779b97f4a7c15);
}

/* range values from the bits of hash above bit 48. */
static uint64_t pick(uint64_t hash, uint64_t range)
{
	return (hash >> 48) * range >> 16;
}

static uint64_t join(struct float_format format, uint64_t sign, uint64_t exponent, uint64_t mantissa)
{
	return sign << (format.mantissa_bits + format.exponent_bits) | exponent << format.mantissa_bits |
	       (mantissa & ((1ull << format.mantissa_bits) - 1));
}

/* Mantissa and sign come from one hash, the exponent from another: float64 needs all bits of the first. */
static uint64_t mixed(struct float_format format, uint64_t hash)
{
	uint64_t bias = (1ull << (format.exponent_bits - 1)) - 1, other = format.mantissa_bits > 40 ? scramble(hash) : hash;
	return join(format, hash >> 47 & 1, bias - format.spread + pick(other, 2 * format.spread + 1),
		    format.mantissa_bits > 40 ? other << 16 ^ hash : hash);
}

enum special { ZEROS, DENORMALS, INFINITIES, LARGEST, SMALLEST, NANS, MIX, SPECIALS };

/* column is the same on all ranks, so that equals meet equals; hash is the rank's own. */
static uint64_t special(struct float_format format, uint64_t column, uint64_t hash)
{
	uint64_t top = (1ull << format.exponent_bits) - 1, sign = hash >> 47 & 1, kind = pick(column, 2 * SPECIALS);

	if (kind == MIX) {
		hash = scramble(hash);
		kind = pick(hash, SPECIALS);
	} else if (kind == NANS && pick(hash, 4) != 0) {
		kind = SPECIALS;
	}
	switch (kind) {
	case ZEROS: return join(format, sign, 0, 0);
	case DENORMALS: return join(format, sign, 0, hash);
	case INFINITIES: return join(format, sign, top, format.finite ? 6 : 0);
	case LARGEST: return join(format, column & 1, top - !format.finite, format.finite ? hash % 7 : hash);
	case SMALLEST: return join(format, sign, 1 + (hash >> 46 & 1), hash & 7);
	case NANS: return join(format, sign, top, format.finite ? 7 : hash | 1);
	default: return mixed(format, hash);
	}
}

static void store(unsigned char *to, uint64_t bits, size_t bytes)
{
	uint32_t bits32 = (uint32_t)bits;
	uint16_t bits16 = (uint16_t)bits;

	switch (bytes) {
	case 1: *to = (unsigned char)bits; break;
	case 2: memcpy(to, &bits16, 2); break;
	case 4: memcpy(to, &bits32, 4); break;
	default: memcpy(to, &bits, 8); break;
	}
}

void fill_random_at(void *buffer, enum marrow_type type, uint64_t first, size_t count, uint64_t seed, uint32_t rank,
		    enum fill_style style)
{
	uint64_t mine = stream_of(seed, rank), common = stream_of(seed, UINT64_MAX >> 1);
	struct float_format format = format_of(type);
	size_t bytes = reference_type_bytes(type);
	unsigned char *to = buffer;

	if (!reference_type_is_float(type))
		for (size_t i = 0; i < count; i++)
			store(to + i * bytes, hash_at(mine, first + i), bytes);
	else if (style == FILL_MIXED)
		for (size_t i = 0; i < count; i++)
			store(to + i * bytes, mixed(format, hash_at(mine, first + i)), bytes);
	else
		for (size_t i = 0; i < count; i++)
			store(to + i * bytes, special(format, hash_at(common, first + i), hash_at(mine, first + i)), bytes);
}

void fill_random(void *buffer, enum marrow_type type, size_t count, uint64_t seed, uint32_t rank, enum fill_style style)
{
	fill_random_at(buffer, type, 0, count, seed, rank, style);
}

void fill_scalar(void *scalar, enum marrow_type type, uint64_t seed, uint32_t rank)
{
	uint64_t hash = hash_at(stream_of(~seed, rank), 0);
	struct float_format format = format_of(type);

	if (reference_type_is_float(type))
		hash = join(format, hash >> 63, (1ull << (format.exponent_bits - 1)) - 2 + (hash >> 62 & 1), hash);
	store(scalar, hash, reference_type_bytes(type));
}
