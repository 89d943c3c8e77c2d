/* network_kernel.h - one kernel that uses a queue pair by itself, step by step, for network_smoke. */
#ifndef TEST_NETWORK_KERNEL_H
#define TEST_NETWORK_KERNEL_H

#include <stdint.h>

struct mrw_far;

/* How far a kernel came. */
enum network_step {
	NETWORK_NOTHING,     /* it did not run */
	NETWORK_RUNS,
	NETWORK_POSTED,      /* requests, record and doorbell are stored */
	NETWORK_FLAG,        /* the flag is in GPU memory */
	NETWORK_DATA,        /* and behind it the data */
	NETWORK_COMPLETE     /* the completion was seen, without an error */
};

struct network_report {
	uint64_t step;
	uint64_t rounds;     /* done */
	uint64_t wrong;      /* word that was not right, + 1 */
	uint64_t failed;     /* the queue's word */
	uint64_t ns;         /* from the first post to the end */
};

/* peer: whose queue in far. from, to, flag: offsets in the arena; bytes: a multiple of 8. report: memory that kernel and host see.
 * One round writes round numbers to `from`, posts the write and a flag, waits for the flag, compares, waits for the completion. */
struct network_job {
	const struct mrw_far *far;
	uint64_t *arena;
	uint32_t peer, bytes, rounds;
	uint64_t from, to, flag;
	uint64_t limit_ns;   /* of a wait */
	struct network_report *report;
};

#ifdef __cplusplus
extern "C" {
#endif
/* 0, or -1 with the reason in gpu_error(). */
int network_kernel(void *stream, const struct network_job *job);
#ifdef __cplusplus
}
#endif
#endif
