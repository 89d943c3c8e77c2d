/* types.h - statuses, element types, operations and small structs of the public API.
 *
 * Numeric values are part of the ABI and never change meaning. */
#ifndef MARROW_TYPES_H
#define MARROW_TYPES_H

#include <stddef.h>
#include <stdint.h>

#define MARROW_VERSION_MAJOR 0
#define MARROW_VERSION_MINOR 1
#define MARROW_VERSION_PATCH 0
/* What marrow_get_version() returns for this header: major * 10000 + minor * 100 + patch. */
#define MARROW_VERSION (MARROW_VERSION_MAJOR * 10000 + MARROW_VERSION_MINOR * 100 + MARROW_VERSION_PATCH)

#if defined(__GNUC__)
#define MARROW_API __attribute__((visibility("default")))
#else
#define MARROW_API
#endif

/* One list makes the enum, the names and the texts: X(name, value, text). */
#define MARROW_STATUS_LIST(X) \
	X(SUCCESS, 0, "success") \
	X(INVALID_ARGUMENT, 1, "an argument is invalid") \
	X(INVALID_USAGE, 2, "the call is not allowed in this state") \
	X(OUT_OF_MEMORY, 3, "memory could not be allocated") \
	X(SYSTEM_ERROR, 4, "a system call failed") \
	X(CUDA_ERROR, 5, "a CUDA call failed") \
	X(TIMEOUT, 6, "a deadline passed while waiting for a rank") \
	X(MISMATCH, 7, "ranks made different calls, or run different versions or configurations") \
	X(REMOTE_ERROR, 8, "another rank failed, left or aborted") \
	X(ABORTED, 9, "the communicator was aborted by this rank") \
	X(UNSUPPORTED, 10, "not supported by this build, machine or target") \
	X(IN_PROGRESS, 11, "an operation is still under way") \
	X(INTERNAL_ERROR, 12, "internal error: please report it")

enum marrow_status {
#define MARROW_X(name, value, text) MARROW_##name = value,
	MARROW_STATUS_LIST(MARROW_X)
#undef MARROW_X
};

/* Element types: X(name, value, bytes). float16 is IEEE binary16, bfloat16 its 8-bit-exponent sibling; the 8-bit floats are OCP's:
 * e4m3 without infinities (largest 448), e5m2 with (largest 57344). */
#define MARROW_TYPE_LIST(X) \
	X(INT8, 0, 1) \
	X(UINT8, 1, 1) \
	X(INT32, 2, 4) \
	X(UINT32, 3, 4) \
	X(INT64, 4, 8) \
	X(UINT64, 5, 8) \
	X(FLOAT16, 6, 2) \
	X(FLOAT32, 7, 4) \
	X(FLOAT64, 8, 8) \
	X(BFLOAT16, 9, 2) \
	X(FLOAT8E4M3, 10, 1) \
	X(FLOAT8E5M2, 11, 1)

enum marrow_type {
#define MARROW_X(name, value, bytes) MARROW_##name = value,
	MARROW_TYPE_LIST(MARROW_X)
#undef MARROW_X
};

/* Reduction operations. The reduction runs in rank order: ((x0 + x1) + x2) + ...
 * 8- and 16-bit floats accumulate in float32, everything else in its own type; integers wrap; the result is rounded once.
 * Along rails (marrow_comm_properties.rails: several hosts with as many ranks each, more than one; more than 16 together, or where the
 * algorithm is asked for) it runs host by host: the ranks of each
 * host in rank order, rounded to the type; then these results, in the order of the hosts' lowest ranks, rounded once more. The order depends on
 * nothing else: not on count, algorithm, channels or NICs.
 * In a ring (several hosts, where algorithm "ring" is asked for) the order of the ring is host by host, within a host by rank. The sum of the
 * block that a rank owns begins with the rank behind it in the ring and ends with itself, rounded to the type after each addition. Of
 * reduce_scatter (_v) rank r owns the block it gets; an all_reduce or reduce is cut into nranks blocks of
 * ceil(ceil(bytes / 16) / nranks) * 16 bytes, the last ones maybe short or empty, and rank r owns block r.
 * In trees (several hosts, where algorithm "tree" or "treeshot" is asked for) positions are those in that ring. Of an all_reduce or reduce of up to
 * 4096 bytes all goes by the first tree; of more the first ceil(bytes / 32) * 16 bytes go by it, the rest by the second. The first tree has position
 * p at place p; the second at place n - 1 - p (n even) or p - 1 modulo n (n odd). Odd places are inner: a search tree over their numbers
 * (place 2 i + 1 is number i), in which numbers low ... high - 1 have the root low + (high - low) / 2 and then the same below and above it; even places are leaves
 * in the gaps. An inner place's sum is (the sum of what is below it + its own) + the sum of what is above it, rounded to the type once; the root's is
 * the result. reduce_scatter (_v) is as in a ring.
 * All ranks get identical bits, run after run.
 * avg divides that sum once by the number of ranks (integers truncate towards zero). min and max: a NaN in any
 * input makes the result NaN. Every NaN result has one bit pattern: positive, quiet, payload zero (0x7fc00000, 0x7e00, ...), of the
 * 8-bit floats 0x7f. A result of these beyond the largest finite value, infinity included, becomes the largest finite value of its sign.
 * premulsum operations are made by marrow_op_create_premulsum() and have values from MARROW_OP_DYNAMIC up, which no two communicators share. */
enum marrow_op {
	MARROW_SUM = 0,
	MARROW_PROD = 1,
	MARROW_MAX = 2,
	MARROW_MIN = 3,
	MARROW_AVG = 4,
	MARROW_OP_DYNAMIC = 16,
	MARROW_OP_MAX = 0x7fffffff
};

/* Where protocol code runs. */
enum marrow_target {
	MARROW_TARGET_AUTO = 0, /* cuda where the build and the machine have it, else host */
	MARROW_TARGET_HOST = 1, /* the CPU: buffers are ordinary memory, streams are ignored, a call returns when done */
	MARROW_TARGET_CUDA = 2  /* the CUDA device current at init */
};

/* Where the scalar of a premulsum operation lives. */
enum marrow_scalar_residence {
	MARROW_SCALAR_HOST = 0,  /* copied when the operation is created */
	MARROW_SCALAR_DEVICE = 1 /* read by the kernel each time: memory the communicator's target can read */
};

/* 128 opaque bytes that name one communicator to be; contains a random key. Plain data: send it by any means. */
struct marrow_unique_id {
	uint8_t bytes[128];
};

struct marrow_comm;

#endif
