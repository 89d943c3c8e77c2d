/* test_reference.c - the reference itself, against values worked out by hand and properties that need no reference. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/reference.h"

static uint32_t bits32(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static float float32(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

static uint64_t bits64(double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits;
}

/* Reduces one element a rank; elements and result travel as bits. */
static uint64_t reduce(enum marrow_type type, enum marrow_op op, uint32_t nranks, const uint64_t *elements, const uint64_t *scalars)
{
	size_t bytes = reference_type_bytes(type);
	unsigned char packed[16 * 8] = { 0 };
	const void *inputs[16];
	uint64_t result = 0;

	for (uint32_t r = 0; r < nranks; r++) {
		inputs[r] = &elements[r];
		if (scalars)
			memcpy(packed + r * bytes, &scalars[r], bytes);
	}
	reference_all_reduce(&result, inputs, nranks, 1, type, op, packed);
	return result;
}

static uint64_t reduce2(enum marrow_type type, enum marrow_op op, uint64_t x0, uint64_t x1)
{
	return reduce(type, op, 2, (const uint64_t[]){ x0, x1 }, NULL);
}

static void names_and_sizes(void **state)
{
	(void)state;
#define MARROW_X(name, value, bytes) assert_int_equal(reference_type_bytes(MARROW_##name), bytes);
	MARROW_TYPE_LIST(MARROW_X)
#undef MARROW_X
	assert_string_equal(reference_type_name(MARROW_INT8), "int8");
	assert_string_equal(reference_type_name(MARROW_UINT64), "uint64");
	assert_string_equal(reference_type_name(MARROW_BFLOAT16), "bfloat16");
	assert_null(reference_type_name((enum marrow_type)12));
	assert_string_equal(reference_op_name(MARROW_MIN), "min");
	assert_string_equal(reference_op_name((enum marrow_op)17), "premulsum");
	assert_null(reference_op_name((enum marrow_op)7));
	assert_int_equal(reference_type_bytes((enum marrow_type)12), 0);
}

static void f16_values(void **state)
{
	(void)state;
	for (uint32_t h = 0; h < 0x10000; h++) {
		float value = reference_f16_to_f32((uint16_t)h);
		int exponent = h >> 10 & 31, mantissa = h & 0x3ff;
		double want = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
		if (exponent == 31) {
			assert_true(mantissa ? isnan(value) : isinf(value));
			assert_int_equal(reference_f32_to_f16(value), mantissa ? 0x7e00 : h);
			continue;
		}
		assert_true(bits64(value) == bits64(h & 0x8000 ? -want : want));
		assert_int_equal(reference_f32_to_f16(value), h);
	}
	assert_int_equal(reference_f32_to_f16(1.0f), 0x3c00);
	assert_int_equal(reference_f32_to_f16(-0.1f), 0xae66);
	assert_int_equal(reference_f32_to_f16(65519.99f), 0x7bff);
	assert_int_equal(reference_f32_to_f16(65520.0f), 0x7c00);
	assert_int_equal(reference_f32_to_f16(-1e30f), 0xfc00);
	assert_int_equal(reference_f32_to_f16(0x1p-25f), 0);
	assert_int_equal(reference_f32_to_f16(-0x1.000002p-25f), 0x8001);
	assert_int_equal(reference_f32_to_f16(-0x1p-149f), 0x8000);
	assert_int_equal(reference_f32_to_f16(float32(0xff800001)), 0x7e00);
}

/* Between every two neighbours: the middle goes to the even one, its own neighbours to the nearer one. */
static void f16_ties(void **state)
{
	(void)state;
	for (uint16_t h = 0; h < 0x7bff; h++) {
		float low = reference_f16_to_f32(h), high = reference_f16_to_f32((uint16_t)(h + 1)), middle = low + (high - low) / 2;
		assert_int_equal(reference_f32_to_f16(middle), h + (h & 1));
		assert_int_equal(reference_f32_to_f16(nextafterf(middle, low)), h);
		assert_int_equal(reference_f32_to_f16(-nextafterf(middle, high)), 0x8000 | (h + 1));
	}
}

static void bf16_values_and_ties(void **state)
{
	(void)state;
	for (uint32_t h = 0; h < 0x10000; h++) {
		float value = reference_bf16_to_f32((uint16_t)h);
		assert_int_equal(reference_f32_to_bf16(value), isnan(value) ? 0x7fc0 : h);
		assert_true(isnan(value) || bits32(value) == h << 16);
		if ((h & 0x7fff) >= 0x7f80)
			continue;
		assert_int_equal(reference_f32_to_bf16(float32(h << 16 | 0x8000)), h + (h & 1));
		assert_int_equal(reference_f32_to_bf16(float32(h << 16 | 0x7fff)), h);
		assert_int_equal(reference_f32_to_bf16(float32(h << 16 | 0x8001)), h + 1);
	}
	assert_int_equal(reference_f32_to_bf16(1.0f), 0x3f80);
	assert_int_equal(reference_f32_to_bf16(3.3e38f), 0x7f78);
	assert_int_equal(reference_f32_to_bf16(float32(0x7f7fffff)), 0x7f80);
	assert_int_equal(reference_f32_to_bf16(float32(0x7f800001)), 0x7fc0);
}

static void integers_wrap(void **state)
{
	(void)state;
	assert_int_equal(reduce2(MARROW_INT8, MARROW_SUM, 127, 1), 0x80);
	assert_int_equal(reduce2(MARROW_UINT8, MARROW_SUM, 255, 2), 1);
	assert_int_equal(reduce2(MARROW_INT32, MARROW_PROD, 0x10001, 0x10001), 0x20001);
	assert_int_equal(reduce2(MARROW_INT32, MARROW_SUM, 0x7fffffff, 1), 0x80000000);
	assert_true(reduce2(MARROW_UINT64, MARROW_PROD, UINT64_MAX, UINT64_MAX) == 1);
	assert_true(reduce2(MARROW_INT64, MARROW_SUM, INT64_MAX, 1) == (uint64_t)INT64_MIN);
	assert_int_equal(reduce(MARROW_INT8, MARROW_OP_DYNAMIC, 2, (const uint64_t[]){ 100, 1 }, (const uint64_t[]){ 3, 0xff }), 43);
}

static void integers_compare_by_sign(void **state)
{
	(void)state;
	assert_int_equal(reduce2(MARROW_INT8, MARROW_MIN, 1, 0xff), 0xff);
	assert_int_equal(reduce2(MARROW_UINT8, MARROW_MIN, 1, 0xff), 1);
	assert_int_equal(reduce2(MARROW_INT32, MARROW_MAX, 0x80000000, 5), 5);
	assert_int_equal(reduce2(MARROW_UINT32, MARROW_MAX, 0x80000000, 5), 0x80000000);
	assert_true(reduce2(MARROW_INT64, MARROW_MAX, (uint64_t)INT64_MIN, (uint64_t)-1) == UINT64_MAX);
	assert_true(reduce2(MARROW_UINT64, MARROW_MIN, UINT64_MAX, 7) == 7);
}

static void integer_avg_truncates_the_wrapped_sum(void **state)
{
	(void)state;
	assert_int_equal(reduce2(MARROW_INT32, MARROW_AVG, (uint32_t)-4, (uint32_t)-3), (uint32_t)-3);
	assert_int_equal(reduce2(MARROW_INT8, MARROW_AVG, 127, 1), 0xc0);
	assert_int_equal(reduce2(MARROW_UINT8, MARROW_AVG, 255, 3), 1);
	assert_int_equal(reduce2(MARROW_UINT32, MARROW_AVG, 7, 8), 7);
	assert_true(reduce2(MARROW_INT64, MARROW_AVG, (uint64_t)-9, 2) == (uint64_t)-3);
	assert_true(reduce2(MARROW_UINT64, MARROW_AVG, (uint64_t)-9, 2) == (uint64_t)-7 / 2);
}

static void floats_add_in_rank_order(void **state)
{
	(void)state;
	uint64_t large = bits32(1e8f), minus = bits32(-1e8f), one = bits32(1);
	assert_int_equal(reduce(MARROW_FLOAT32, MARROW_SUM, 3, (const uint64_t[]){ large, one, minus }, NULL), 0);
	assert_int_equal(reduce(MARROW_FLOAT32, MARROW_SUM, 3, (const uint64_t[]){ large, minus, one }, NULL), one);
	assert_true(reduce(MARROW_FLOAT64, MARROW_SUM, 3, (const uint64_t[]){ bits64(1e17), bits64(1), bits64(-1e17) }, NULL) == 0);
}

/* Numbers worked out by hand from the formats' definition. */
static void f8_values_and_ties(void **state)
{
	static const struct {
		uint8_t code;
		double e4m3, e5m2;
	} values[] = {{0x00, 0, 0}, {0x01, 0x1p-9, 0x1p-16}, {0x03, 0x3p-9, 0x3p-16}, {0x08, 0x1p-6, 0x1p-13}, {0x38, 1, 0.5}, {0x3c, 1.5, 1},
		      {0x7b, 352, 57344}, {0x7e, 448, NAN}, {0x7f, NAN, NAN}, {0xbc, -1.5, -1}};
	(void)state;
	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		double a = reference_f8_to_f64(MARROW_FLOAT8E4M3, values[i].code), b = reference_f8_to_f64(MARROW_FLOAT8E5M2, values[i].code);
		assert_true(a == values[i].e4m3 || (isnan(a) && isnan(values[i].e4m3)));
		assert_true(b == values[i].e5m2 || (isnan(b) && isnan(values[i].e5m2)));
	}
	assert_true(isinf(reference_f8_to_f64(MARROW_FLOAT8E5M2, 0xfc)));
	for (enum marrow_type type = MARROW_FLOAT8E4M3; type <= MARROW_FLOAT8E5M2; type++)
		for (int code = 0; code < 256; code++) {
			double value = reference_f8_to_f64(type, (uint8_t)code), next;
			if (!isfinite(value))
				continue;
			assert_int_equal(reference_f64_to_f8(type, value), code);
			next = reference_f8_to_f64(type, (uint8_t)(code + 1));
			if (code % 128 == 127 || !isfinite(next))
				continue;
			assert_int_equal(reference_f64_to_f8(type, (value + next) / 2), code + code % 2);
			assert_int_equal(reference_f64_to_f8(type, nextafter((value + next) / 2, value)), code);
			assert_int_equal(reference_f64_to_f8(type, nextafter((value + next) / 2, next)), code + 1);
		}
	assert_int_equal(reference_f64_to_f8(MARROW_FLOAT8E4M3, 449), 0x7e);
	assert_int_equal(reference_f64_to_f8(MARROW_FLOAT8E4M3, -INFINITY), 0xfe);
	assert_int_equal(reference_f64_to_f8(MARROW_FLOAT8E5M2, 65536), 0x7b);
	assert_int_equal(reference_f64_to_f8(MARROW_FLOAT8E5M2, -INFINITY), 0xfb);
	assert_int_equal(reference_f64_to_f8(MARROW_FLOAT8E5M2, -NAN), 0x7f);
	/* One rounding of a float32 sum: 16 + 1 + 1 is 18 in e4m3 (step 2), and 16 with rounding in between. */
	assert_int_equal(reduce(MARROW_FLOAT8E4M3, MARROW_SUM, 3, (const uint64_t[]){0x58, 0x38, 0x38}, NULL), 0x59);
	assert_int_equal(reduce(MARROW_FLOAT8E5M2, MARROW_PROD, 2, (const uint64_t[]){0x7b, 0xc0}, NULL), 0xfb);
}

/* 2048 + 1 + 1 is 2050 with float32 in between and 2048 without; bf16 256 + 1 + 1 likewise. */
static void short_floats_round_once(void **state)
{
	(void)state;
	assert_int_equal(reduce(MARROW_FLOAT16, MARROW_SUM, 3, (const uint64_t[]){ 0x6800, 0x3c00, 0x3c00 }, NULL), 0x6801);
	assert_int_equal(reduce(MARROW_BFLOAT16, MARROW_SUM, 3, (const uint64_t[]){ 0x4380, 0x3f80, 0x3f80 }, NULL), 0x4381);
	/* 65504 + 65504 passes through float32: the average exists, the sum does not. */
	assert_int_equal(reduce2(MARROW_FLOAT16, MARROW_AVG, 0x7bff, 0x7bff), 0x7bff);
	assert_int_equal(reduce2(MARROW_FLOAT16, MARROW_SUM, 0x7bff, 0x7bff), 0x7c00);
	/* Subnormal float16 results: 2^-24 / 2 ties to zero, 3 * 2^-24 / 2 to 2 * 2^-24. */
	assert_int_equal(reduce2(MARROW_FLOAT16, MARROW_AVG, 1, 0), 0);
	assert_int_equal(reduce2(MARROW_FLOAT16, MARROW_AVG, 1, 2), 2);
}

static void float_avg_divides(void **state)
{
	(void)state;
	const uint64_t x[] = { bits32(1), bits32(0), bits32(0) }, d[] = { bits64(10), bits64(0), bits64(0) };
	assert_int_equal(reduce(MARROW_FLOAT32, MARROW_AVG, 3, x, NULL), bits32(1.0f / 3.0f));
	assert_true(reduce(MARROW_FLOAT64, MARROW_AVG, 3, d, NULL) == bits64(10.0 / 3.0));
	/* Times a rounded 1/3 would give another float. */
	assert_int_not_equal(bits32(5.0f / 3.0f), bits32(5.0f * (1.0f / 3.0f)));
	assert_int_equal(reduce(MARROW_FLOAT32, MARROW_AVG, 3, (const uint64_t[]){ bits32(5), 0, 0 }, NULL), bits32(5.0f / 3.0f));
}

/* (1 + e)^2 - 1 - 2e is e^2 when fused and 0 when the product is rounded first. */
static void premulsum_rounds_each_product(void **state)
{
	(void)state;
	float e = 0x1p-12f, sum = -(1 + 2 * e);
	const uint64_t f[] = { bits32(sum), bits32(1 + e) }, fs[] = { bits32(1), bits32(1 + e) };
	assert_int_equal(reduce(MARROW_FLOAT32, MARROW_OP_DYNAMIC, 2, f, fs), 0);

	double de = 0x1p-27, dsum = -(1 + 2 * de);
	const uint64_t d[] = { bits64(dsum), bits64(1 + de) }, ds[] = { bits64(1), bits64(1 + de) };
	assert_true(reduce(MARROW_FLOAT64, MARROW_OP_DYNAMIC, 2, d, ds) == 0);

	/* float16: (1 + 2^-6)^2 = 1 + 2^-5 + 2^-12 loses its last bit before the sum takes 1 + 2^-5 away. */
	const uint64_t h[] = { 0xbc20, 0x3c10 }, hs[] = { 0x3c00, 0x3c10 };
	assert_int_equal(reduce(MARROW_FLOAT16, MARROW_OP_DYNAMIC, 2, h, hs), 0);
	/* A product beyond the largest float16 is infinite although float32 holds it. */
	const uint64_t big[] = { 0x7bff, 0xfbff }, bigs[] = { 0x4000, 0x3c00 };
	assert_int_equal(reduce(MARROW_FLOAT16, MARROW_OP_DYNAMIC, 2, big, bigs), 0x7c00);
}

static void nans_are_canonical(void **state)
{
	static const struct {
		enum marrow_type type;
		uint64_t nan, one, infinity, sign;
	} rows[] = {
		{ MARROW_FLOAT16, 0xfd23, 0x3c00, 0x7c00, 0x8000 },
		{ MARROW_BFLOAT16, 0xff81, 0x3f80, 0x7f80, 0x8000 },
		{ MARROW_FLOAT32, 0xff812345, 0x3f800000, 0x7f800000, 0x80000000 },
		{ MARROW_FLOAT64, 0xfff0000000000001, 0x3ff0000000000000, 0x7ff0000000000000, 0x8000000000000000 },
	};
	static const enum marrow_op ops[] = { MARROW_SUM, MARROW_PROD, MARROW_MAX, MARROW_MIN, MARROW_AVG, MARROW_OP_DYNAMIC };
	(void)state;

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		uint64_t nan = rows[i].nan, one = rows[i].one, canonical = reference_canonical_nan(rows[i].type);
		const uint64_t ones[] = { one, one, one };
		for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
			assert_true(reduce(rows[i].type, ops[o], 1, (const uint64_t[]){ nan }, ones) == canonical);
			for (uint32_t at = 0; at < 3; at++) {
				uint64_t x[] = { one, one, one };
				x[at] = nan;
				assert_true(reduce(rows[i].type, ops[o], 3, x, ones) == canonical);
			}
		}
		assert_true(reduce2(rows[i].type, MARROW_SUM, rows[i].infinity, rows[i].infinity | rows[i].sign) == canonical);
		assert_true(reduce2(rows[i].type, MARROW_PROD, rows[i].infinity, rows[i].sign) == canonical);
		assert_true(reduce2(rows[i].type, MARROW_MAX, rows[i].infinity, one) == rows[i].infinity);
	}
}

/* Zeros compare equal: the first one stays. */
static void zeros_keep_rank_order(void **state)
{
	(void)state;
	const uint64_t minus = 0x80000000;
	assert_int_equal(reduce2(MARROW_FLOAT32, MARROW_MIN, 0, minus), 0);
	assert_int_equal(reduce2(MARROW_FLOAT32, MARROW_MIN, minus, 0), minus);
	assert_int_equal(reduce2(MARROW_FLOAT32, MARROW_MAX, minus, 0), minus);
	assert_int_equal(reduce2(MARROW_FLOAT16, MARROW_MAX, 0x8000, 0), 0x8000);
	assert_int_equal(reduce2(MARROW_FLOAT32, MARROW_SUM, minus, minus), minus);
	assert_int_equal(reduce2(MARROW_FLOAT32, MARROW_SUM, minus, 0), 0);
}

static void denormals_survive(void **state)
{
	(void)state;
	assert_int_equal(reduce2(MARROW_FLOAT32, MARROW_SUM, 1, 2), 3);
	assert_int_equal(reduce2(MARROW_FLOAT16, MARROW_SUM, 1, 0x3ff), 0x400);
	assert_int_equal(reduce2(MARROW_BFLOAT16, MARROW_SUM, 0x7f, 1), 0x80);
	assert_true(reduce2(MARROW_FLOAT64, MARROW_SUM, 1, 2) == 3);
	assert_int_equal(reduce2(MARROW_BFLOAT16, MARROW_MIN, 2, 1), 1);
}

/* Odd counts, misaligned buffers, out over an input: the same bits. */
static void buffers_are_free(void **state)
{
	enum { COUNT = 701, RANKS = 3 };
	static unsigned char aligned[RANKS][COUNT * 8], shifted[RANKS][COUNT * 8 + 1], want[COUNT * 8];
	(void)state;

	for (int type = 0; type < REFERENCE_TYPES; type++) {
		const void *straight[RANKS], *crooked[RANKS];
		size_t bytes = COUNT * reference_type_bytes((enum marrow_type)type);
		for (uint32_t r = 0; r < RANKS; r++) {
			fill_random(aligned[r], (enum marrow_type)type, COUNT, 7, r, FILL_SPECIAL);
			fill_random(shifted[r] + 1, (enum marrow_type)type, COUNT, 7, r, FILL_SPECIAL);
			assert_memory_equal(aligned[r], shifted[r] + 1, bytes);
			straight[r] = aligned[r];
			crooked[r] = shifted[r] + 1;
		}
		reference_all_reduce(want, straight, RANKS, COUNT, (enum marrow_type)type, MARROW_AVG, NULL);
		reference_all_reduce(shifted[1] + 1, crooked, RANKS, COUNT, (enum marrow_type)type, MARROW_AVG, NULL);
		assert_memory_equal(want, shifted[1] + 1, bytes);
	}
}

static void fill_is_a_function_of_the_index(void **state)
{
	enum { COUNT = 1000 };
	static unsigned char whole[COUNT * 8], part[COUNT * 8], other[COUNT * 8];
	(void)state;

	for (int type = 0; type < REFERENCE_TYPES; type++)
		for (int style = FILL_MIXED; style <= FILL_SPECIAL; style++) {
			enum marrow_type t = (enum marrow_type)type;
			size_t bytes = reference_type_bytes(t);
			fill_random(whole, t, COUNT, 42, 5, (enum fill_style)style);
			for (size_t at = 0; at < COUNT; at += 77) {
				size_t n = COUNT - at < 77 ? COUNT - at : 77;
				fill_random_at(part + at * bytes, t, at, n, 42, 5, (enum fill_style)style);
			}
			assert_memory_equal(whole, part, COUNT * bytes);
			fill_random(other, t, COUNT, 42, 6, (enum fill_style)style);
			assert_memory_not_equal(whole, other, COUNT * bytes);
			fill_random(other, t, COUNT, 43, 5, (enum fill_style)style);
			assert_memory_not_equal(whole, other, COUNT * bytes);
		}
}

static void fill_holds_what_it_says(void **state)
{
	enum { COUNT = 20000 };
	static float values[COUNT];
	int seen_nan = 0, seen_infinity = 0, seen_denormal = 0, seen_minus_zero = 0, seen_plain = 0;
	(void)state;

	fill_random(values, MARROW_FLOAT32, COUNT, 1, 0, FILL_MIXED);
	int low = 0, high = 0, negative = 0;
	for (int i = 0; i < COUNT; i++) {
		int exponent = ilogbf(values[i]);
		assert_true(exponent >= -12 && exponent <= 12);
		low += exponent == -12;
		high += exponent == 12;
		negative += values[i] < 0;
	}
	assert_true(low > COUNT / 50 && high > COUNT / 50 && negative > COUNT * 2 / 5 && negative < COUNT * 3 / 5);

	fill_random(values, MARROW_FLOAT32, COUNT, 1, 0, FILL_SPECIAL);
	for (int i = 0; i < COUNT; i++) {
		seen_nan += isnan(values[i]) != 0;
		seen_infinity += isinf(values[i]) != 0;
		seen_denormal += fpclassify(values[i]) == FP_SUBNORMAL;
		seen_minus_zero += bits32(values[i]) == 0x80000000;
		seen_plain += isnormal(values[i]) && ilogbf(values[i]) >= -12 && ilogbf(values[i]) <= 12;
	}
	assert_true(seen_nan > 100 && seen_infinity > 500 && seen_denormal > 500 && seen_minus_zero > 250);
	assert_true(seen_plain > COUNT * 2 / 5 && seen_plain < COUNT * 4 / 5);

	for (uint32_t rank = 0; rank < 64; rank++) {
		float scalar;
		fill_scalar(&scalar, MARROW_FLOAT32, 1, rank);
		assert_true(fabsf(scalar) >= 0.5f && fabsf(scalar) < 2.0f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_sizes),
		cmocka_unit_test(f16_values),
		cmocka_unit_test(f16_ties),
		cmocka_unit_test(bf16_values_and_ties),
		cmocka_unit_test(f8_values_and_ties),
		cmocka_unit_test(integers_wrap),
		cmocka_unit_test(integers_compare_by_sign),
		cmocka_unit_test(integer_avg_truncates_the_wrapped_sum),
		cmocka_unit_test(floats_add_in_rank_order),
		cmocka_unit_test(short_floats_round_once),
		cmocka_unit_test(float_avg_divides),
		cmocka_unit_test(premulsum_rounds_each_product),
		cmocka_unit_test(nans_are_canonical),
		cmocka_unit_test(zeros_keep_rank_order),
		cmocka_unit_test(denormals_survive),
		cmocka_unit_test(buffers_are_free),
		cmocka_unit_test(fill_is_a_function_of_the_index),
		cmocka_unit_test(fill_holds_what_it_says),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
