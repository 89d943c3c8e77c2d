/* reference.h - the arithmetic contract of <marrow/types.h> written a second time, to compare bits with, and the inputs to do
 * so on. Shares no code with the library. Compile with -ffp-contract=off.
 *
 * Buffers may have any alignment. An element is fixed by (seed, rank, index, style) alone, so that any part of any rank's
 * input can be computed anywhere. */
#ifndef TEST_REFERENCE_H
#define TEST_REFERENCE_H

#include <marrow/types.h>

enum { REFERENCE_TYPES = 12 };

/* 0 and NULL for what is not a type. */
size_t reference_type_bytes(enum marrow_type type);
const char *reference_type_name(enum marrow_type type);
/* "sum" ... "avg", "premulsum" from MARROW_OP_DYNAMIC up, NULL for what is neither. */
const char *reference_op_name(enum marrow_op op);
int reference_type_is_float(enum marrow_type type);
/* Bits of the one NaN a reduction may give; type is a float type. */
uint64_t reference_canonical_nan(enum marrow_type type);

/* Round to nearest, ties to even; NaN becomes the canonical one. */
float reference_f16_to_f32(uint16_t half);
uint16_t reference_f32_to_f16(float value);
float reference_bf16_to_f32(uint16_t bfloat);
/* type: one of the 8-bit floats. Their values come from a table of doubles; the nearest one is searched for there, so that nothing here is like the
 * library's arithmetic on bits. Beyond the largest, infinity included: the largest. */
double reference_f8_to_f64(enum marrow_type type, uint8_t code);
uint8_t reference_f64_to_f8(enum marrow_type type, double value);
uint16_t reference_f32_to_bf16(float value);

/* out[i] = inputs[0][i] op inputs[1][i] op ... for i < count, in rank order; nranks >= 1. NaN results are canonical for one
 * rank too. With op >= MARROW_OP_DYNAMIC scalars holds nranks elements of the type, rank r's at r; else it is unused. out may
 * be one of the inputs. */
void reference_all_reduce(void *out, const void *const *inputs, uint32_t nranks, size_t count, enum marrow_type type,
			  enum marrow_op op, const void *scalars);

/* The order along rails: the same over the ranks of each host, rounded to the type, then over the hosts' results. host: of each rank, numbered
 * from 0 by first ranks. partial: room for count elements for each host. */
void reference_rails(void *out, void *const *partial, const void *const *inputs, uint32_t nranks, const uint32_t *host, size_t count,
		     enum marrow_type type, enum marrow_op op, const void *scalars);

/* One block in a ring: in the order of inputs, rounded to the type after each; the average divides last. partial, scaled: room for count
 * elements. scalars[r]: of inputs[r], with MARROW_OP_DYNAMIC. */
void reference_ring(void *out, void *partial, void *scaled, const void *const *inputs, uint32_t nranks, size_t count, enum marrow_type type,
		    enum marrow_op op, const void *const *scalars);

/* One part in a tree over so many places: an inner place's sum is (the sum of what is below it, its own, the sum of what is above), rounded to
 * the type. inputs, scalars: by place. room: 2 + the tree's depth buffers of count elements. */
enum { REFERENCE_TREE_ROOM = 10 };
void reference_tree(void *out, void *const *room, const void *const *inputs, uint32_t places, size_t count, enum marrow_type type,
		    enum marrow_op op, const void *const *scalars);

enum fill_style {
	FILL_MIXED,  /* random mantissas and signs; exponents spread over 2^+-12 (f32, bf16), 2^+-8 (f16, f8e5m2), 2^+-4 (f8e4m3),
			2^+-24 (f64) */
	FILL_SPECIAL /* half of the indices as FILL_MIXED, the others zeros of both signs, denormals, infinities, values near the
			largest, values near the smallest normal, NaNs (any sign and payload), or a mix of all over the ranks */
};

/* count elements; integers are uniform over their full range in both styles. */
void fill_random(void *buffer, enum marrow_type type, size_t count, uint64_t seed, uint32_t rank, enum fill_style style);
/* The elements with indices first ... first + count - 1. */
void fill_random_at(void *buffer, enum marrow_type type, uint64_t first, size_t count, uint64_t seed, uint32_t rank,
		    enum fill_style style);
/* One premulsum scalar: floats in +-[0.5, 2), integers over their full range. */
void fill_scalar(void *scalar, enum marrow_type type, uint64_t seed, uint32_t rank);

#endif
