/* run.h - what the parts of the perf driver share.
 *
 * A run has processes, a process has threads ("participants"), a thread has ranks. All participants walk through the same
 * sizes, types and operations; participant 0 prints. */
#ifndef PERF_RUN_H
#define PERF_RUN_H

#include "library.h"
#include "meeting.h"
#include "options.h"

enum { GUARD_BYTES = 4096, MAX_LIBRARIES = 11, MAX_RANKS = 4096 };

/* In elements. The in-place factors are the distance per rank of send and recv from the start of the one buffer. */
struct perf_layout {
	size_t count, send, recv, send_in_place, recv_in_place;
};

struct perf_collective {
	const char *name;
	enum perf_kind kind;
	bool reduces, rooted;
	bool apart;                  /* cannot work in place */
	/* elements: those that fit into the size asked for. */
	struct perf_layout (*layout)(size_t elements, size_t element_bytes, uint32_t nranks);
	/* Bus bandwidth over algorithm bandwidth. */
	double (*bus_factor)(uint32_t nranks);
};

/* One line of the table, or half of it. */
struct perf_test {
	enum marrow_type type;
	size_t element_bytes, bytes; /* bytes: of the larger buffer */
	uint32_t op;                 /* index of perf_op_name() */
	int root;                    /* -1: none */
	bool in_place;
	struct perf_layout layout;
};

struct perf_rank {
	uint32_t rank;
	int device; /* -1: host */
	void *stream;
	unsigned char *send_area, *recv_area;
	void *comms[MAX_LIBRARIES], *graphs[MAX_LIBRARIES];
	void *registered[MAX_LIBRARIES][2]; /* send, recv */
	int ops[MAX_LIBRARIES]; /* op of the current test as each library numbers it */
	void **events;          /* SAMPLES_MAX + 1 */
};

/* What the inputs must become: vectors of period elements that repeat; made by all threads of a process together. */
struct perf_expected {
	unsigned char *elements;
	size_t capacity_bytes, period;
	uint32_t vectors;
};

struct perf_run {
	struct perf_options options;
	const struct perf_collective *collective;
	const char *program;
	bool cuda, launched; /* launched: this process is one rank of a launcher's */
	uint32_t process, nranks;
	struct meeting meeting; /* of a launched run: opened by its only worker */
	struct perf_library libraries[MAX_LIBRARIES];
	uint32_t nlibraries;
	struct perf_expected expected;
};

struct perf_worker {
	struct perf_run *run;
	uint32_t thread, participant, nranks; /* nranks: of this thread */
	struct perf_rank *ranks;
	void *scratch;                        /* host memory, SCRATCH_BYTES */
	uint64_t checks;                      /* made so far; varies the inputs */
};

/* worker.c: communicators, buffers, streams. */
bool worker_open(struct perf_worker *worker);
void worker_close(struct perf_worker *worker, bool failed);
size_t worker_area_bytes(const struct perf_run *run);
bool worker_begin_op(struct perf_worker *worker, const struct perf_test *test);
void worker_end_op(struct perf_worker *worker, const struct perf_test *test);
/* Buffers of the iteration: its place in the areas moves from one to the next. */
void worker_buffers(const struct perf_worker *worker, const struct perf_rank *rank, const struct perf_test *test,
		    uint64_t iteration, const unsigned char **send, unsigned char **recv);
/* Enqueues the operation on all ranks of this thread. */
bool worker_call(struct perf_worker *worker, uint32_t library, const struct perf_test *test, uint64_t iteration);
/* Waits for them and looks at their health. */
bool worker_wait(struct perf_worker *worker, uint32_t library);
/* Target memory. */
bool memory_copy(const struct perf_run *run, void *to, const void *from, size_t bytes);
bool memory_fill(const struct perf_run *run, void *memory, int byte, size_t bytes);

/* timing.c */
struct perf_time {
	double us, p50, p99; /* an operation, over all ranks; < 0: not measured */
};
bool timing_measure(struct perf_worker *worker, const struct perf_test *test, struct perf_time *times);

/* check.c */
bool check_fill_inputs(struct perf_worker *worker, const struct perf_test *test, uint64_t iteration);
/* Runs the operation through library 0 and counts wrong elements over all ranks, and guard bytes. */
bool check_run(struct perf_worker *worker, const struct perf_test *test, uint64_t *wrong);
/* Whether it knows what must come out: of sums of floats in the order of a ring or of trees it does not. */
bool check_knows(const struct perf_worker *worker, const struct perf_test *test);
bool check_open(struct perf_run *run);
void check_close(struct perf_run *run);

/* report.c: called by all, printed by participant 0. */
struct perf_report;
struct perf_half {
	bool skipped, unchecked;
	struct perf_time times[MAX_LIBRARIES];
	uint64_t wrong;
};
struct perf_report *report_open(struct perf_worker *worker);
bool report_row(struct perf_report *report, const struct perf_test *test, const struct perf_half halves[2]);
/* Returns whether all was right; finished: no call failed. */
bool report_close(struct perf_report *report, bool finished);

enum { SAMPLES_MAX = 100, SCRATCH_BYTES = 4 << 20 };

/* Runs the program of a collective; the exit status. */
int perf_main(int argc, char **argv, const struct perf_collective *collective);

#endif
