/* test_reduce.c - arithmetic of every type and operation: bits against the reference, floats also against a wider computation with
 * an error bound; and what one rank's communicator does with floats. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/reference.h"
#include "reduce_body.h"

#include <marrow/marrow.h>

enum { MAX_RANKS = 16, MAX_COUNT = 1031, ROOM = MAX_COUNT * 8 + 64, OPS = 7 };

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const uint32_t ranks[] = {1, 2, 3, 4, 8, 16};
static const size_t counts[] = {0, 1, 2, 3, 7, 15, 16, 17, 33, 129, MAX_COUNT};
static uint64_t seed;

/* One reduction: inputs at odd places, what the body makes of them, what the reference does. */
static struct {
	uint8_t input[MAX_RANKS][ROOM], out[ROOM], expected[ROOM], scalars[MAX_RANKS * 8];
	const uint8_t *inputs[MAX_RANKS];
	size_t bytes, elem;
} r;

static reduce_body *body_of(enum marrow_type type)
{
	switch (type) {
#define MRW_X(suffix, name) \
	case MARROW_##name: \
		return reduce_body_##suffix;
		MRW_TYPES(MRW_X)
#undef MRW_X
	}
	return NULL;
}

/* Ops as in tests/support/call.h: 5 and 6 are premulsum with the scalar by value and in memory. */
static enum marrow_op public_op(uint32_t op)
{
	return op >= 5 ? MARROW_OP_DYNAMIC : (enum marrow_op)op;
}

static void run(enum marrow_type type, uint32_t op, uint32_t n, size_t count, enum fill_style style)
{
	static const uint32_t reductions[OPS] = {MRW_RED_SUM, MRW_RED_PROD, MRW_RED_MAX, MRW_RED_MIN, MRW_RED_SUM, MRW_RED_SUM, MRW_RED_SUM};
	struct mrw_args a;
	memset(&a, 0, sizeof a);
	a.nranks = n;
	a.reduction = reductions[op];
	a.average = op == MARROW_AVG;
	a.scaled = op == 5 ? 1 : op == 6 ? 2 : 0;
	r.elem = reference_type_bytes(type);
	r.bytes = count * r.elem;
	seed++;
	for (uint32_t k = 0; k < n; k++) {
		r.inputs[k] = r.input[k] + (seed + 5 * k) % 19; /* any alignment */
		fill_random((void *)(uintptr_t)r.inputs[k], type, count, seed, k, style);
		fill_scalar(r.scalars + k * r.elem, type, seed, k);
	}
	memset(r.out, 0xa5, sizeof r.out);
	uint8_t *out = r.out + 1 + seed % 17;
	body_of(type)(&a, out, r.inputs, r.bytes, r.scalars);
	for (size_t i = 0; i < sizeof r.out; i++)
		if (r.out + i < out || r.out + i >= out + r.bytes)
			assert_int_equal(r.out[i], 0xa5);
	memmove(r.out, out, r.bytes);
	reference_all_reduce(r.expected, (const void *const *)r.inputs, n, count, type, public_op(op), r.scalars);
}

static uint64_t bits_at(const uint8_t *buffer, size_t i, size_t elem)
{
	uint64_t bits = 0;
	memcpy(&bits, buffer + i * elem, elem);
	return bits;
}

static void bits_equal_the_reference(void **state)
{
	(void)state;
	for (uint32_t type = 0; type < REFERENCE_TYPES; type++)
		for (uint32_t op = 0; op < OPS; op++)
			for (size_t n = 0; n < COUNT(ranks); n++)
				for (size_t c = 0; c < COUNT(counts); c++)
					for (uint32_t style = FILL_MIXED; style <= FILL_SPECIAL; style++) {
						run((enum marrow_type)type, op, ranks[n], counts[c], (enum fill_style)style);
						for (size_t i = 0; i < counts[c]; i++)
							if (bits_at(r.out, i, r.elem) != bits_at(r.expected, i, r.elem))
								fail_msg("%s op %u, %u ranks, seed %llu, element %zu: %llx, not %llx",
									 reference_type_name((enum marrow_type)type), op, ranks[n],
									 (unsigned long long)seed, i,
									 (unsigned long long)bits_at(r.out, i, r.elem),
									 (unsigned long long)bits_at(r.expected, i, r.elem));
					}
}

static long double value_at(const uint8_t *buffer, size_t i, enum marrow_type type)
{
	uint64_t bits = bits_at(buffer, i, reference_type_bytes(type));
	uint32_t low = (uint32_t)bits;
	float single;
	double twice;
	switch (type) {
	case MARROW_FLOAT8E4M3:
	case MARROW_FLOAT8E5M2:
		return reference_f8_to_f64(type, (uint8_t)bits);
	case MARROW_FLOAT16:
		return reference_f16_to_f32((uint16_t)bits);
	case MARROW_BFLOAT16:
		return reference_bf16_to_f32((uint16_t)bits);
	case MARROW_FLOAT32:
		memcpy(&single, &low, sizeof single);
		return single;
	default:
		memcpy(&twice, &bits, sizeof twice);
		return twice;
	}
}

/* Unit roundoff of the accumulator and of the type, and the type's smallest denormal. */
static void precision(enum marrow_type type, long double *acc, long double *own, long double *tiny)
{
	*acc = type == MARROW_FLOAT64 ? 0x1p-53L : 0x1p-24L;
	*own = type == MARROW_FLOAT8E4M3 ? 0x1p-4L : type == MARROW_FLOAT8E5M2 ? 0x1p-3L : type == MARROW_FLOAT64 ? 0x1p-53L : type == MARROW_FLOAT32 ? 0x1p-24L : type == MARROW_FLOAT16 ? 0x1p-11L : 0x1p-8L;
	*tiny = type == MARROW_FLOAT8E4M3 ? 0x1p-9L : type == MARROW_FLOAT8E5M2 ? 0x1p-16L : type == MARROW_FLOAT64 ? 0x1p-1074L : type == MARROW_FLOAT16 ? 0x1p-24L : type == MARROW_BFLOAT16 ? 0x1p-133L : 0x1p-149L;
}

/* The exact result (nearly: long double, double for products' sake) and the largest error that the contract allows. */
static void exact(enum marrow_type type, uint32_t op, uint32_t n, size_t i, long double *result, long double *error)
{
	long double acc, own, tiny, sum = 0, magnitude = 0, product = 1, largest = -INFINITY, smallest = INFINITY, scaling = 0;
	precision(type, &acc, &own, &tiny);
	for (uint32_t k = 0; k < n; k++) {
		long double x = value_at(r.inputs[k], i, type);
		if (op >= 5) {
			x *= value_at(r.scalars, k, type);
			scaling += own * fabsl(x) + tiny;
		}
		sum += x;
		magnitude += fabsl(x);
		product *= x;
		largest = x > largest ? x : largest;
		smallest = x < smallest ? x : smallest;
	}
	*error = 0;
	switch (op) {
	case MARROW_MAX:
		*result = largest;
		return;
	case MARROW_MIN:
		*result = smallest;
		return;
	case MARROW_PROD:
		*result = product;
		*error = (n + 1) * (acc + 0x1p-60L) * fabsl(product);
		break;
	default:
		*result = op == MARROW_AVG ? sum / n : sum;
		*error = (n * (acc + 0x1p-60L) * magnitude + 2 * scaling) / (op == MARROW_AVG ? n : 1) + acc * fabsl(*result);
	}
	*error += own * fabsl(*result) * 1.001L + own * *error + tiny;
}

static long double largest_f8(enum marrow_type type)
{
	return type == MARROW_FLOAT8E4M3 ? 448 : 57344;
}

static void floats_are_near_the_exact_result(void **state)
{
	static const enum marrow_type types[] = {MARROW_FLOAT16, MARROW_BFLOAT16, MARROW_FLOAT32, MARROW_FLOAT64, MARROW_FLOAT8E4M3,
						 MARROW_FLOAT8E5M2};
	(void)state;
	for (size_t t = 0; t < COUNT(types); t++)
		for (uint32_t op = 0; op < OPS; op++)
			for (size_t n = 0; n < COUNT(ranks); n++) {
				if (op == MARROW_PROD && ranks[n] > 4)
					continue; /* leaves the range of the type */
				run(types[t], op, ranks[n], MAX_COUNT, FILL_MIXED);
				for (size_t i = 0; i < MAX_COUNT; i++) {
					long double want, error, got = value_at(r.out, i, types[t]);
					exact(types[t], op, ranks[n], i, &want, &error);
					if (isinf(got) && fabsl(want) > 65000 && types[t] == MARROW_FLOAT16)
						continue;
					if (types[t] >= MARROW_FLOAT8E4M3 && fabsl(got) == largest_f8(types[t]) && got * want > 0 &&
					    fabsl(want) >= fabsl(got))
						continue;
					if (!(fabsl(got - want) <= error))
						fail_msg("%s op %u, %u ranks, element %zu: %Lg, but %Lg +- %Lg", reference_type_name(types[t]), op,
							 ranks[n], i, got, want, error);
				}
			}
}

/* Half of the smallest denormal and so on: f16 and bf16 round to nearest, ties to even. All 65536 values survive alone. */
static void sixteen_bit_values_survive(void **state)
{
	static const enum marrow_type types[] = {MARROW_FLOAT16, MARROW_BFLOAT16};
	static uint16_t in[65536], out[65536];
	struct mrw_args a;
	const uint8_t *inputs[1] = {(const uint8_t *)in};
	(void)state;
	memset(&a, 0, sizeof a);
	a.nranks = 1;
	for (size_t i = 0; i < 65536; i++)
		in[i] = (uint16_t)i;
	for (size_t t = 0; t < 2; t++) {
		body_of(types[t])(&a, (uint8_t *)out, inputs, sizeof in, NULL);
		for (size_t i = 0; i < 65536; i++) {
			float value = types[t] == MARROW_FLOAT16 ? reference_f16_to_f32((uint16_t)i) : reference_bf16_to_f32((uint16_t)i);
			assert_int_equal(out[i], isnan(value) ? reference_canonical_nan(types[t]) : i);
		}
	}
}

/* All 256 codes alone: kept, but for NaNs and infinities. */
static void eight_bit_values_survive(void **state)
{
	static uint8_t in[256], out[256];
	struct mrw_args a;
	const uint8_t *inputs[1] = {in};
	(void)state;
	memset(&a, 0, sizeof a);
	a.nranks = 1;
	for (size_t i = 0; i < 256; i++)
		in[i] = (uint8_t)i;
	for (enum marrow_type type = MARROW_FLOAT8E4M3; type <= MARROW_FLOAT8E5M2; type++) {
		body_of(type)(&a, out, inputs, sizeof in, NULL);
		for (size_t i = 0; i < 256; i++) {
			double value = reference_f8_to_f64(type, (uint8_t)i);
			assert_int_equal(out[i], isnan(value) ? 0x7f : isinf(value) ? (i & 0x80) | 0x7b : i);
		}
	}
}

/* All pairs of codes by every operation, against doubles: the float32 in between loses nothing that the one rounding would see. */
static void eight_bit_pairs_are_rounded_once(void **state)
{
	static uint8_t in[2][65536], out[65536];
	static const uint32_t reductions[] = {MRW_RED_SUM, MRW_RED_PROD, MRW_RED_MAX, MRW_RED_MIN};
	const uint8_t *inputs[2] = {in[0], in[1]};
	struct mrw_args a;
	(void)state;
	memset(&a, 0, sizeof a);
	a.nranks = 2;
	for (size_t i = 0; i < 65536; i++) {
		in[0][i] = (uint8_t)i;
		in[1][i] = (uint8_t)(i >> 8);
	}
	for (enum marrow_type type = MARROW_FLOAT8E4M3; type <= MARROW_FLOAT8E5M2; type++)
		for (uint32_t op = 0; op <= MARROW_AVG; op++) {
			a.reduction = op == MARROW_AVG ? MRW_RED_SUM : reductions[op];
			a.average = op == MARROW_AVG;
			body_of(type)(&a, out, inputs, sizeof out, NULL);
			for (size_t i = 0; i < 65536; i++) {
				double x = reference_f8_to_f64(type, in[0][i]), y = reference_f8_to_f64(type, in[1][i]);
				double z = op == MARROW_PROD ? x * y : op == MARROW_MAX ? (x > y ? x : y) : op == MARROW_MIN ? (x < y ? x : y) :
					   op == MARROW_AVG ? (x + y) / 2 : x + y;
				if (isnan(x) || isnan(y))
					z = NAN;
				uint8_t want = reference_f64_to_f8(type, z);
				/* Of zeros of both signs the first rank's is as good a minimum or maximum. */
				if (z == 0 && (op == MARROW_MAX || op == MARROW_MIN))
					assert_int_equal(out[i] & 0x7f, 0);
				else if (out[i] != want)
					fail_msg("%s op %u of %02x and %02x: %02x, not %02x", reference_type_name(type), op, in[0][i], in[1][i], out[i], want);
			}
		}
}

/* Floats around every value and every middle between two, of both signs, and random ones: rounded as the nearest double would be. */
static void eight_bit_roundings(void **state)
{
	(void)state;
	for (uint32_t n = 0; n < 1u << 20; n++) {
		uint32_t bits = n << 12 | (n & 1 ? 0xfff : n & 2 ? 1 : 0);
		float x;
		memcpy(&x, &bits, sizeof x);
		if (isnan(x))
			continue;
		assert_int_equal(narrow_f8e4m3(x), reference_f64_to_f8(MARROW_FLOAT8E4M3, x));
		assert_int_equal(narrow_f8e5m2(x), reference_f64_to_f8(MARROW_FLOAT8E5M2, x));
	}
}

/* A reduction over one rank is a copy but for NaNs; movers keep them. */
static void one_rank_makes_nans_canonical(void **state)
{
	static const enum marrow_type types[] = {MARROW_FLOAT16, MARROW_BFLOAT16, MARROW_FLOAT32, MARROW_FLOAT64, MARROW_FLOAT8E4M3,
						 MARROW_FLOAT8E5M2};
	struct marrow_config config = MARROW_CONFIG_INIT;
	struct marrow_comm *comm;
	(void)state;
	config.target = MARROW_TARGET_HOST;
	assert_int_equal(marrow_comm_init(&comm, 1, NULL, 0, &config), MARROW_SUCCESS);
	for (size_t t = 0; t < COUNT(types); t++) {
		size_t elem = reference_type_bytes(types[t]), bytes = MAX_COUNT * elem;
		uint8_t *in = r.input[0] + 1, *out = r.out + 3;
		const void *inputs[1] = {in};
		for (uint32_t op = 0; op <= MARROW_AVG; op++) {
			fill_random(in, types[t], MAX_COUNT, ++seed, 0, FILL_SPECIAL);
			reference_all_reduce(r.expected, inputs, 1, MAX_COUNT, types[t], (enum marrow_op)op, NULL);
			assert_memory_not_equal(in, r.expected, bytes);
			assert_int_equal(marrow_all_reduce(in, out, MAX_COUNT, types[t], (enum marrow_op)op, comm, NULL), MARROW_SUCCESS);
			assert_memory_equal(out, r.expected, bytes);
			memset(out, 0, bytes);
			assert_int_equal(marrow_reduce_scatter(in, out, MAX_COUNT, types[t], (enum marrow_op)op, comm, NULL), MARROW_SUCCESS);
			assert_memory_equal(out, r.expected, bytes);
			assert_int_equal(marrow_broadcast(in, out, MAX_COUNT, types[t], 0, comm, NULL), MARROW_SUCCESS);
			assert_memory_equal(out, in, bytes);
			memset(out, 0, bytes);
			assert_int_equal(marrow_all_gather(in, out, MAX_COUNT, types[t], comm, NULL), MARROW_SUCCESS);
			assert_memory_equal(out, in, bytes);
			assert_int_equal(marrow_all_reduce(in, in, MAX_COUNT, types[t], (enum marrow_op)op, comm, NULL), MARROW_SUCCESS);
			assert_memory_equal(in, r.expected, bytes);
		}
	}
	assert_int_equal(marrow_comm_destroy(comm), MARROW_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bits_equal_the_reference),
		cmocka_unit_test(floats_are_near_the_exact_result),
		cmocka_unit_test(sixteen_bit_values_survive),
		cmocka_unit_test(eight_bit_values_survive),
		cmocka_unit_test(eight_bit_pairs_are_rounded_once),
		cmocka_unit_test(eight_bit_roundings),
		cmocka_unit_test(one_rank_makes_nans_canonical),
	};
	const char *text = getenv("MARROW_TEST_SEED");
	seed = text && text[0] ? strtoull(text, NULL, 0) : 1;
	printf("seed: MARROW_TEST_SEED=%llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
