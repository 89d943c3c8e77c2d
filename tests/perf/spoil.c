/* spoil.c - a library to preload, beside which results are wrong: do the perf programs see it?
 *
 * SPOIL="FUNCTION RANK BYTE" flips a bit of a byte of that rank's output after each call, counted from the output's first one; what is negative or
 * too large lies beside it. Host target, no groups: the call is over when it returns. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <marrow/marrow.h>

static void next(const char *name, void *function, size_t bytes)
{
	void *symbol = dlsym(RTLD_NEXT, name);
	if (!symbol) {
		fprintf(stderr, "spoil: nothing to wrap: %s\n", dlerror());
		abort();
	}
	memcpy(function, &symbol, bytes);
}

static enum marrow_status spoil(enum marrow_status status, const char *name, void *recv, struct marrow_comm *comm)
{
	const char *text = getenv("SPOIL");
	char function[32];
	unsigned want;
	uint32_t rank;
	long byte;

	if (status == MARROW_SUCCESS && text && sscanf(text, "%31s %u %ld", function, &want, &byte) == 3 && strcmp(function, name) == 0 &&
	    marrow_comm_rank(comm, &rank) == MARROW_SUCCESS && rank == want)
		((unsigned char *)recv)[byte] ^= 1;
	return status;
}

enum marrow_status marrow_all_reduce(const void *send, void *recv, size_t count, enum marrow_type type, enum marrow_op op, struct marrow_comm *comm,
				     void *stream)
{
	enum marrow_status (*call)(const void *, void *, size_t, enum marrow_type, enum marrow_op, struct marrow_comm *, void *);
	next(__func__, &call, sizeof call);
	return spoil(call(send, recv, count, type, op, comm, stream), "all_reduce", recv, comm);
}

enum marrow_status marrow_all_gather(const void *send, void *recv, size_t count, enum marrow_type type, struct marrow_comm *comm, void *stream)
{
	enum marrow_status (*call)(const void *, void *, size_t, enum marrow_type, struct marrow_comm *, void *);
	next(__func__, &call, sizeof call);
	return spoil(call(send, recv, count, type, comm, stream), "all_gather", recv, comm);
}

enum marrow_status marrow_broadcast(const void *send, void *recv, size_t count, enum marrow_type type, uint32_t root, struct marrow_comm *comm,
				    void *stream)
{
	enum marrow_status (*call)(const void *, void *, size_t, enum marrow_type, uint32_t, struct marrow_comm *, void *);
	next(__func__, &call, sizeof call);
	return spoil(call(send, recv, count, type, root, comm, stream), "broadcast", recv, comm);
}

enum marrow_status marrow_reduce_scatter(const void *send, void *recv, size_t count, enum marrow_type type, enum marrow_op op,
					 struct marrow_comm *comm, void *stream)
{
	enum marrow_status (*call)(const void *, void *, size_t, enum marrow_type, enum marrow_op, struct marrow_comm *, void *);
	next(__func__, &call, sizeof call);
	return spoil(call(send, recv, count, type, op, comm, stream), "reduce_scatter", recv, comm);
}
