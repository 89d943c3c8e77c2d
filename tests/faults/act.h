/* act.h - one collective call on scratch buffers, and how a rank learns that it went wrong. */
#ifndef TEST_ACT_H
#define TEST_ACT_H

#include "device/args.h"

#include <marrow/marrow.h>

/* What a rank works with: buffers and a stream of the target. */
struct ground {
	enum marrow_target target;
	size_t bytes;             /* of each buffer */
	uint8_t *send, *recv;
	void *stream;             /* NULL on the host target */
	enum marrow_op premulsum; /* what ACT_PREMULSUM stands for */
};

#define ACT_PREMULSUM MARROW_OP_DYNAMIC

struct act {
	enum mrw_func func;
	size_t count;
	enum marrow_type type;
	enum marrow_op op;
	uint32_t root;
};

/* On the cuda target device rank modulo count becomes current. 0, or -1 with the reason on stderr. */
int ground_make(struct ground *g, enum marrow_target target, uint32_t rank, size_t bytes);
/* Destroys n communicators (NULL is fine) before the ground. Returns the first failure. */
enum marrow_status ground_leave(struct ground *g, struct marrow_comm **comms, uint32_t n);
void ground_free(struct ground *g);
/* Waits until the stream is empty. 0, or -1 with the reason on stderr. */
int ground_settle(struct ground *g);
/* count floats of send = value; element of recv. */
void ground_fill(struct ground *g, float value, size_t count);
float ground_result(struct ground *g, size_t element);

/* The call alone. */
enum marrow_status act_call(const struct act *a, const struct ground *g, struct marrow_comm *comm);
/* The call and its end: on the cuda target waits for the stream, then asks for the error. */
enum marrow_status act_done(const struct act *a, struct ground *g, struct marrow_comm *comm);
/* The call, then polls for an error until ms have passed; MARROW_SUCCESS: none came. */
enum marrow_status act_learn(const struct act *a, const struct ground *g, struct marrow_comm *comm, uint64_t ms);
enum marrow_status await_error(struct marrow_comm *comm, uint64_t ms);

/* --target host|cuda of a test program: the target, or exits: 2 wrong usage, 77 too few GPUs (said on stdout). The GPUs are
 * looked at in a child, so that the caller may still fork. */
enum marrow_target target_option(int argc, char **argv);

#endif
