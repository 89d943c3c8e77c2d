#include "reference.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { BLOCK = 256 };

size_t reference_type_bytes(enum marrow_type type)
{
	switch (type) {
#define MARROW_X(name, value, bytes) case MARROW_##name: return bytes;
	MARROW_TYPE_LIST(MARROW_X)
#undef MARROW_X
	}
	return 0;
}

const char *reference_type_name(enum marrow_type type)
{
	static const char *const names[REFERENCE_TYPES] = { "int8", "uint8", "int32", "uint32", "int64",
							    "uint64", "float16", "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2" };
	return (unsigned)type < REFERENCE_TYPES ? names[type] : NULL;
}

const char *reference_op_name(enum marrow_op op)
{
	static const char *const names[] = { "sum", "prod", "max", "min", "avg" };
	if (op >= MARROW_OP_DYNAMIC)
		return "premulsum";
	return (unsigned)op <= MARROW_AVG ? names[op] : NULL;
}

int reference_type_is_float(enum marrow_type type)
{
	return type == MARROW_FLOAT16 || type == MARROW_FLOAT32 || type == MARROW_FLOAT64 || type == MARROW_BFLOAT16 ||
	       type == MARROW_FLOAT8E4M3 || type == MARROW_FLOAT8E5M2;
}

uint64_t reference_canonical_nan(enum marrow_type type)
{
	switch (type) {
	case MARROW_FLOAT16: return 0x7e00;
	case MARROW_BFLOAT16: return 0x7fc0;
	case MARROW_FLOAT32: return 0x7fc00000;
	case MARROW_FLOAT8E4M3:
	case MARROW_FLOAT8E5M2: return 0x7f;
	default: return 0x7ff8000000000000;
	}
}

static float float_of_bits(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

static uint32_t bits_of_float(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits;
}

float reference_f16_to_f32(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 0x3ff;

	if (exponent == 31)
		return float_of_bits(mantissa ? 0x7fc00000 : sign | 0x7f800000);
	if (exponent == 0) {
		float magnitude = (float)mantissa * 0x1p-24f;
		return sign ? -magnitude : magnitude;
	}
	return float_of_bits(sign | (exponent + 127 - 15) << 23 | mantissa << 13);
}

uint16_t reference_f32_to_f16(float value)
{
	uint32_t bits = bits_of_float(value), magnitude = bits & 0x7fffffff;
	uint32_t sign = bits >> 16 & 0x8000, mantissa = magnitude & 0x7fffff, shift = 13, half, rest, tie;
	int exponent = (int)(magnitude >> 23) - 127 + 15;

	if (magnitude > 0x7f800000)
		return 0x7e00;
	if (exponent > 30)
		return (uint16_t)(sign | 0x7c00);
	if (exponent < -10)
		return (uint16_t)sign;
	if (exponent <= 0) {
		mantissa |= 0x800000;
		shift = (uint32_t)(14 - exponent);
		exponent = 0;
	}
	half = (uint32_t)exponent << 10 | mantissa >> shift;
	rest = mantissa & ((1u << shift) - 1);
	tie = 1u << (shift - 1);
	/* The carry may run into the exponent: to the smallest normal, the next binade, or infinity. */
	if (rest > tie || (rest == tie && (half & 1)))
		half++;
	return (uint16_t)(sign | half);
}

float reference_bf16_to_f32(uint16_t bfloat)
{
	return float_of_bits((bfloat & 0x7fff) > 0x7f80 ? 0x7fc00000 : (uint32_t)bfloat << 16);
}

uint16_t reference_f32_to_bf16(float value)
{
	uint32_t bits = bits_of_float(value);
	if ((bits & 0x7fffffff) > 0x7f800000)
		return 0x7fc0;
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* From the definition of the formats: sign, exponent with its bias, mantissa. */
double reference_f8_to_f64(enum marrow_type type, uint8_t code)
{
	int mantissa_bits = type == MARROW_FLOAT8E4M3 ? 3 : 2, bias = type == MARROW_FLOAT8E4M3 ? 7 : 15;
	int magnitude = code & 0x7f, exponent = magnitude >> mantissa_bits, mantissa = magnitude & ((1 << mantissa_bits) - 1);
	double value = exponent ? ldexp(1 + ldexp(mantissa, -mantissa_bits), exponent - bias) : ldexp(mantissa, 1 - bias - mantissa_bits);

	if (type == MARROW_FLOAT8E4M3 ? magnitude == 0x7f : magnitude > 0x7c)
		return NAN;
	if (type == MARROW_FLOAT8E5M2 && magnitude == 0x7c)
		value = INFINITY;
	return code & 0x80 ? -value : value;
}

static const double *f8_values(enum marrow_type type)
{
	static _Thread_local double values[2][128];
	double *table = values[type == MARROW_FLOAT8E5M2];
	if (table[1] == 0)
		for (int i = 0; i < 128; i++)
			table[i] = reference_f8_to_f64(type, (uint8_t)i);
	return table;
}

uint8_t reference_f64_to_f8(enum marrow_type type, double value)
{
	const double *values = f8_values(type);
	int below = 0, most = type == MARROW_FLOAT8E4M3 ? 0x7e : 0x7b, above = most;
	double magnitude = fabs(value);
	uint8_t sign = signbit(value) ? 0x80 : 0;

	if (isnan(value))
		return 0x7f;
	if (magnitude >= values[most])
		return (uint8_t)(sign | most);
	while (above - below > 1) {
		int middle = (above + below) / 2;
		if (values[middle] <= magnitude)
			below = middle;
		else
			above = middle;
	}
	double down = magnitude - values[below], up = values[above] - magnitude;
	return (uint8_t)(sign | (down < up || (down == up && below % 2 == 0) ? below : above));
}

/* Integers of every width are handled in 64 bits: sums and products are right modulo 2^width, and narrow() brings them back
 * into the type wherever their value counts. */
static uint64_t narrow(uint64_t value, enum marrow_type type)
{
	switch (type) {
	case MARROW_INT8: return (uint64_t)(int64_t)(int8_t)(uint8_t)value;
	case MARROW_UINT8: return (uint8_t)value;
	case MARROW_INT32: return (uint64_t)(int64_t)(int32_t)(uint32_t)value;
	case MARROW_UINT32: return (uint32_t)value;
	default: return value;
	}
}

static bool is_signed(enum marrow_type type)
{
	return type == MARROW_INT8 || type == MARROW_INT32 || type == MARROW_INT64;
}

static uint64_t load_integer(const unsigned char *from, enum marrow_type type, size_t bytes)
{
	uint64_t value = 0;
	for (size_t i = 0; i < bytes; i++)
		value |= (uint64_t)from[i] << 8 * i;
	return narrow(value, type);
}

static uint64_t combine_integer(uint64_t result, uint64_t x, enum marrow_type type, enum marrow_op op)
{
	bool less = is_signed(type) ? (int64_t)x < (int64_t)result : x < result;
	switch (op) {
	case MARROW_PROD: return result * x;
	case MARROW_MIN: return less ? x : result;
	case MARROW_MAX: return !less ? x : result;
	default: return result + x;
	}
}

static void reduce_integers(unsigned char *out, const void *const *inputs, uint32_t nranks, size_t first, size_t count,
			    enum marrow_type type, enum marrow_op op, const unsigned char *scalars, uint32_t divisor)
{
	size_t bytes = reference_type_bytes(type);

	for (size_t i = first; i < first + count; i++) {
		uint64_t result = 0;
		for (uint32_t r = 0; r < nranks; r++) {
			uint64_t x = load_integer((const unsigned char *)inputs[r] + i * bytes, type, bytes);
			if (op >= MARROW_OP_DYNAMIC)
				x = narrow(x * load_integer(scalars + r * bytes, type, bytes), type);
			result = r == 0 ? x : combine_integer(result, x, type, op);
		}
		result = narrow(result, type);
		if (op == MARROW_AVG)
			result = is_signed(type) ? (uint64_t)((int64_t)result / (int64_t)divisor) : result / divisor;
		for (size_t b = 0; b < bytes; b++)
			out[i * bytes + b] = (unsigned char)(result >> 8 * b);
	}
}

/* The 8- and 16-bit formats and float32, as float32. */
static void load_floats(float *to, const unsigned char *from, size_t count, enum marrow_type type)
{
	uint16_t half;

	if (type == MARROW_FLOAT32) {
		memcpy(to, from, count * sizeof *to);
		return;
	}
	if (reference_type_bytes(type) == 1) {
		for (size_t i = 0; i < count; i++)
			to[i] = (float)f8_values(type)[from[i] & 0x7f] * (from[i] & 0x80 ? -1 : 1);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		memcpy(&half, from + 2 * i, sizeof half);
		to[i] = type == MARROW_FLOAT16 ? reference_f16_to_f32(half) : reference_bf16_to_f32(half);
	}
}

static float round_float(float value, enum marrow_type type)
{
	if (type == MARROW_FLOAT16)
		return reference_f16_to_f32(reference_f32_to_f16(value));
	if (type == MARROW_BFLOAT16)
		return reference_bf16_to_f32(reference_f32_to_bf16(value));
	if (reference_type_bytes(type) == 1)
		return (float)reference_f8_to_f64(type, reference_f64_to_f8(type, value));
	return value;
}

static void store_floats(unsigned char *to, const float *from, size_t count, enum marrow_type type)
{
	for (size_t i = 0; i < count && reference_type_bytes(type) == 1; i++)
		to[i] = reference_f64_to_f8(type, from[i]);
	for (size_t i = 0; i < count && reference_type_bytes(type) > 1; i++) {
		uint32_t bits = isnan(from[i]) ? 0x7fc00000 : bits_of_float(from[i]);
		uint16_t half = type == MARROW_FLOAT16 ? reference_f32_to_f16(from[i]) : reference_f32_to_bf16(from[i]);
		if (type == MARROW_FLOAT32)
			memcpy(to + 4 * i, &bits, sizeof bits);
		else
			memcpy(to + 2 * i, &half, sizeof half);
	}
}

static void reduce_floats(unsigned char *out, const void *const *inputs, uint32_t nranks, size_t first, size_t count,
			  enum marrow_type type, enum marrow_op op, const unsigned char *scalars, uint32_t divisor)
{
	size_t bytes = reference_type_bytes(type);
	float result[BLOCK], x[BLOCK], scalar = 1;

	for (uint32_t r = 0; r < nranks; r++) {
		load_floats(x, (const unsigned char *)inputs[r] + first * bytes, count, type);
		if (op >= MARROW_OP_DYNAMIC) {
			load_floats(&scalar, scalars + r * bytes, 1, type);
			for (size_t i = 0; i < count; i++)
				x[i] = round_float(x[i] * scalar, type);
		}
		for (size_t i = 0; i < count; i++) {
			if (r == 0)
				result[i] = x[i];
			else if (op == MARROW_PROD)
				result[i] = result[i] * x[i];
			else if (op != MARROW_MIN && op != MARROW_MAX)
				result[i] = result[i] + x[i];
			else if (isnan(x[i]))
				result[i] = x[i];
			else if (!isnan(result[i]))
				result[i] = (op == MARROW_MIN ? x[i] < result[i] : x[i] > result[i]) ? x[i] : result[i];
		}
	}
	if (op == MARROW_AVG)
		for (size_t i = 0; i < count; i++)
			result[i] = result[i] / (float)divisor;
	store_floats(out + first * bytes, result, count, type);
}

static void reduce_doubles(unsigned char *out, const void *const *inputs, uint32_t nranks, size_t first, size_t count,
			   enum marrow_op op, const unsigned char *scalars, uint32_t divisor)
{
	static const uint64_t nan_bits = 0x7ff8000000000000;

	for (size_t i = first; i < first + count; i++) {
		double result = 0, x, scalar;
		for (uint32_t r = 0; r < nranks; r++) {
			memcpy(&x, (const unsigned char *)inputs[r] + 8 * i, sizeof x);
			if (op >= MARROW_OP_DYNAMIC) {
				memcpy(&scalar, scalars + (size_t)8 * r, sizeof scalar);
				x = x * scalar;
			}
			if (r == 0)
				result = x;
			else if (op == MARROW_PROD)
				result = result * x;
			else if (op != MARROW_MIN && op != MARROW_MAX)
				result = result + x;
			else if (isnan(x))
				result = x;
			else if (!isnan(result))
				result = (op == MARROW_MIN ? x < result : x > result) ? x : result;
		}
		if (op == MARROW_AVG)
			result = result / (double)divisor;
		memcpy(out + 8 * i, isnan(result) ? (const void *)&nan_bits : (const void *)&result, sizeof result);
	}
}

static void reduce(void *out, const void *const *inputs, uint32_t nranks, size_t count, enum marrow_type type, enum marrow_op op,
		   const void *scalars, uint32_t divisor)
{
	for (size_t first = 0; first < count; first += BLOCK) {
		size_t n = count - first < BLOCK ? count - first : BLOCK;
		if (!reference_type_is_float(type))
			reduce_integers(out, inputs, nranks, first, n, type, op, scalars, divisor);
		else if (type == MARROW_FLOAT64)
			reduce_doubles(out, inputs, nranks, first, n, op, scalars, divisor);
		else
			reduce_floats(out, inputs, nranks, first, n, type, op, scalars, divisor);
	}
}

void reference_all_reduce(void *out, const void *const *inputs, uint32_t nranks, size_t count, enum marrow_type type,
			  enum marrow_op op, const void *scalars)
{
	reduce(out, inputs, nranks, count, type, op, scalars, nranks);
}

void reference_rails(void *out, void *const *partial, const void *const *inputs, uint32_t nranks, const uint32_t *host, size_t count,
		     enum marrow_type type, enum marrow_op op, const void *scalars)
{
	size_t bytes = reference_type_bytes(type);
	uint32_t hosts = 0;
	for (;; hosts++) {
		const void *mine[64];
		unsigned char factors[64 * 8];
		uint32_t n = 0;
		for (uint32_t r = 0; r < nranks; r++)
			if (host[r] == hosts) {
				mine[n] = inputs[r];
				if (op >= MARROW_OP_DYNAMIC)
					memcpy(factors + n * bytes, (const unsigned char *)scalars + r * bytes, bytes);
				n++;
			}
		if (n == 0)
			break;
		reduce(partial[hosts], mine, n, count, type, op == MARROW_AVG ? MARROW_SUM : op, factors, 1);
	}
	reduce(out, (const void *const *)partial, hosts, count, type, op >= MARROW_OP_DYNAMIC ? MARROW_SUM : op, NULL, nranks);
}

void reference_ring(void *out, void *partial, void *scaled, const void *const *inputs, uint32_t nranks, size_t count, enum marrow_type type,
		    enum marrow_op op, const void *const *scalars)
{
	enum marrow_op each = op == MARROW_AVG || op >= MARROW_OP_DYNAMIC ? MARROW_SUM : op;
	for (uint32_t r = 0; r < nranks; r++) {
		const void *x = inputs[r];
		if (op >= MARROW_OP_DYNAMIC) {
			reduce(scaled, &x, 1, count, type, op, scalars[r], 1);
			x = scaled;
		}
		const void *pair[] = {partial, x};
		if (r == 0)
			memcpy(partial, x, count * reference_type_bytes(type)); /* as it is: an infinity that the type would not round to */
		else
			reduce(partial, pair, 2, count, type, r + 1 == nranks ? (op == MARROW_AVG ? op : each) : each, NULL, nranks);
	}
	memcpy(out, partial, count * reference_type_bytes(type));
}

/* The places first, first + 2, ... are leaves, those between them inner. sum: the one of places first ... last, raw where that is one leaf. */
static void tree_sum(void *sum, void *const *room, const void *const *inputs, uint32_t first, uint32_t last, bool whole, uint32_t divisor,
		     size_t count, enum marrow_type type, enum marrow_op op, const void *const *scalars)
{
	enum marrow_op each = op == MARROW_AVG || op >= MARROW_OP_DYNAMIC ? MARROW_SUM : op;
	uint32_t inner = (last - first + 1) / 2, middle = first + 1 + inner / 2 * 2, terms = 0;
	const void *own = inputs[inner > 0 ? middle : first], *three[3];
	if (inner > 0) {
		tree_sum(room[0], room + 1, inputs, first, middle - 1, false, divisor, count, type, op, scalars);
		three[terms++] = room[0];
	}
	if (op >= MARROW_OP_DYNAMIC) {
		const void *factor = scalars[inner > 0 ? middle : first];
		reduce(sum, &own, 1, count, type, op, factor, 1);
	} else {
		memcpy(sum, own, count * reference_type_bytes(type));
	}
	if (inner == 0)
		return;
	three[terms++] = sum;
	if (middle < last) {
		tree_sum(room[1], room + 2, inputs, middle + 1, last, false, divisor, count, type, op, scalars);
		three[terms++] = room[1];
	}
	reduce(sum, three, terms, count, type, whole && op == MARROW_AVG ? op : each, NULL, divisor);
}

void reference_tree(void *out, void *const *room, const void *const *inputs, uint32_t places, size_t count, enum marrow_type type,
		    enum marrow_op op, const void *const *scalars)
{
	tree_sum(out, room, inputs, 0, places - 1, true, places, count, type, op, scalars);
}
