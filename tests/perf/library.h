/* library.h - the library under test, and another one to compare it with, behind one face. Functions return false after saying
 * on stderr what failed. */
#ifndef PERF_LIBRARY_H
#define PERF_LIBRARY_H

#include <marrow/marrow.h>
#include <stdbool.h>

struct perf_library;
enum { LIBRARY_ID_BYTES = 128 };

/* PERF_SENDRECV: to the next rank, from the one before. */
enum perf_kind { PERF_ALL_REDUCE, PERF_ALL_GATHER, PERF_BROADCAST, PERF_REDUCE_SCATTER, PERF_REDUCE, PERF_ALL_TO_ALL, PERF_GATHER, PERF_SCATTER, PERF_SENDRECV };

struct perf_call {
	enum perf_kind kind;
	const void *send;
	void *recv;
	size_t count;
	enum marrow_type type; /* NCCL's numbers are the same */
	int op;
	uint32_t root, rank, nranks;
	void *comm, *stream;
};

struct perf_library {
	char name[64];
	const char *algo;      /* forced by its communicators; NULL: none */
	bool (*make_id)(unsigned char *id);
	/* Within a group *comm is ready at its end. id NULL: from the launcher's variables. */
	bool (*init_rank)(const struct perf_library *self, void **comm, uint32_t nranks, const unsigned char *id, uint32_t rank);
	bool (*group_start)(void);
	bool (*group_end)(void);
	bool (*call)(const struct perf_call *call);
	bool (*make_premulsum)(int *op, void *scalar, enum marrow_type type, void *comm);
	void (*drop_op)(int op, void *comm);
	/* Ranks of each host if sums are made host by host (<marrow/types.h>), 0: in rank order. */
	uint32_t (*ranks_a_host)(void *comm);
	/* Sums are made in another order, that of a ring or of trees. NULL: never. count as in the call. */
	bool (*other_order)(void *comm, enum perf_kind kind, size_t count, enum marrow_type type);
	/* Can algo carry the call? NULL: unknown. count as in the call. */
	bool (*carries)(const struct perf_library *self, void *comm, enum perf_kind kind, size_t count, enum marrow_type type);
	/* Registers a rank's buffer, which is memory of marrow_mem_alloc(); all ranks do. symmetric: as a window. withdraw: before the communicator goes. */
	bool (*enroll)(void *comm, void *memory, size_t bytes, bool symmetric, void **handle);
	void (*withdraw)(void *comm, bool symmetric, void *handle);
	bool (*healthy)(void *comm);
	void (*abort)(void *comm); /* destroys too */
	void (*destroy)(void *comm);
};

/* algo: NULL, or forced; static text. */
void library_open_marrow(struct perf_library *library, enum marrow_target target, uint32_t timeout_s, const char *algo);
bool library_open_nccl(struct perf_library *library, const char *path);

#endif
