#include "act.h"
#include "patience.h"

#include "support/device_memory.h"
#include "support/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_SKIP = 77, POLL_MS = 5 };

static int fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, device_error());
	return -1;
}

int ground_make(struct ground *g, enum marrow_target target, uint32_t rank, size_t bytes)
{
	void *send = NULL, *recv = NULL;
	memset(g, 0, sizeof *g);
	g->target = target;
	g->bytes = bytes;
	if (target == MARROW_TARGET_CUDA) {
		if (device_set((int)rank % device_count()) != 0)
			return fail("cannot set the device");
		if (device_alloc(&send, bytes) != 0 || device_alloc(&recv, bytes) != 0 || device_fill_bytes(send, 0, bytes) != 0)
			return fail("cannot allocate");
		if (device_stream_create(&g->stream) != 0)
			return fail("cannot make a stream");
	} else {
		send = calloc(1, bytes);
		recv = calloc(1, bytes);
		if (!send || !recv)
			abort();
	}
	g->send = send;
	g->recv = recv;
	return 0;
}

void ground_free(struct ground *g)
{
	if (g->target == MARROW_TARGET_CUDA) {
		device_free(g->send);
		device_free(g->recv);
		if (g->stream)
			device_stream_destroy(g->stream);
	} else {
		free(g->send);
		free(g->recv);
	}
}

enum marrow_status ground_leave(struct ground *g, struct marrow_comm **comms, uint32_t n)
{
	enum marrow_status first = MARROW_SUCCESS;
	for (uint32_t c = 0; c < n; c++) {
		enum marrow_status status = marrow_comm_destroy(comms[c]);
		comms[c] = NULL;
		if (first == MARROW_SUCCESS)
			first = status;
	}
	ground_free(g);
	return first;
}

int ground_settle(struct ground *g)
{
	if (g->target != MARROW_TARGET_CUDA || device_stream_synchronize(g->stream) == 0)
		return 0;
	return fail("stream");
}

void ground_fill(struct ground *g, float value, size_t count)
{
	float *values = malloc(count * sizeof *values);
	if (!values)
		abort();
	for (size_t i = 0; i < count; i++)
		values[i] = value;
	if (g->target == MARROW_TARGET_CUDA) {
		if (device_copy(g->send, values, count * sizeof *values) != 0)
			abort();
	} else {
		memcpy(g->send, values, count * sizeof *values);
	}
	free(values);
}

float ground_result(struct ground *g, size_t element)
{
	float value;
	const uint8_t *from = g->recv + element * sizeof value;
	if (g->target != MARROW_TARGET_CUDA)
		memcpy(&value, from, sizeof value);
	else if (device_copy(&value, from, sizeof value) != 0)
		abort();
	return value;
}

/* Blocks of count elements, one behind the other. */
static enum marrow_status act_call_v(const struct act *a, const struct ground *g, struct marrow_comm *comm)
{
	size_t counts[WORLD_MAX_RANKS], displs[WORLD_MAX_RANKS];
	for (uint32_t r = 0; r < WORLD_MAX_RANKS; r++) {
		counts[r] = a->count;
		displs[r] = r * a->count;
	}
	if (a->func == MRW_FUNC_ALL_GATHER_V)
		return marrow_all_gather_v(g->send, g->recv, counts, displs, a->type, comm, g->stream);
	return marrow_all_to_all_v(g->send, counts, displs, g->recv, counts, displs, a->type, comm, g->stream);
}

enum marrow_status act_call(const struct act *a, const struct ground *g, struct marrow_comm *comm)
{
	enum marrow_op op = a->op == ACT_PREMULSUM ? g->premulsum : a->op;
	switch (a->func) {
	case MRW_FUNC_ALL_REDUCE:
		return marrow_all_reduce(g->send, g->recv, a->count, a->type, op, comm, g->stream);
	case MRW_FUNC_BROADCAST:
		return marrow_broadcast(g->send, g->recv, a->count, a->type, a->root, comm, g->stream);
	case MRW_FUNC_ALL_GATHER:
		return marrow_all_gather(g->send, g->recv, a->count, a->type, comm, g->stream);
	case MRW_FUNC_REDUCE_SCATTER:
		return marrow_reduce_scatter(g->send, g->recv, a->count, a->type, op, comm, g->stream);
	case MRW_FUNC_REDUCE:
		return marrow_reduce(g->send, g->recv, a->count, a->type, op, a->root, comm, g->stream);
	case MRW_FUNC_REDUCE_SCATTER_V: {
		/* Rank root's block is the one that differs from the others'. */
		size_t counts[MRW_MAX_RANKS];
		for (uint32_t r = 0; r < MRW_MAX_RANKS; r++)
			counts[r] = a->count + (r == a->root);
		return marrow_reduce_scatter_v(g->send, g->recv, counts, a->type, op, comm, g->stream);
	}
	case MRW_FUNC_ALL_TO_ALL:
		return marrow_all_to_all(g->send, g->recv, a->count, a->type, comm, g->stream);
	case MRW_FUNC_GATHER:
		return marrow_gather(g->send, g->recv, a->count, a->type, a->root, comm, g->stream);
	case MRW_FUNC_SCATTER:
		return marrow_scatter(g->send, g->recv, a->count, a->type, a->root, comm, g->stream);
	case MRW_FUNC_ALL_TO_ALL_V:
	case MRW_FUNC_ALL_GATHER_V:
		return act_call_v(a, g, comm);
	default:
		return marrow_barrier(comm, g->stream);
	}
}

enum marrow_status await_error(struct marrow_comm *comm, uint64_t ms)
{
	uint64_t until = now_ms() + ms;
	for (;;) {
		enum marrow_status error = MARROW_SUCCESS, status = marrow_comm_async_error(comm, &error);
		if (status != MARROW_SUCCESS)
			return status;
		if (error != MARROW_SUCCESS || now_ms() >= until)
			return error;
		sleep_ms(POLL_MS);
	}
}

enum marrow_status act_done(const struct act *a, struct ground *g, struct marrow_comm *comm)
{
	enum marrow_status status = act_call(a, g, comm);
	if (status != MARROW_SUCCESS)
		return status;
	if (ground_settle(g) != 0)
		return MARROW_CUDA_ERROR;
	return await_error(comm, 0);
}

enum marrow_status act_learn(const struct act *a, const struct ground *g, struct marrow_comm *comm, uint64_t ms)
{
	enum marrow_status status = act_call(a, g, comm);
	return status == MARROW_SUCCESS ? await_error(comm, ms) : status;
}

/* 0, or exit status 77 after the reason was printed. */
static int gpus_missing(void)
{
	int status = 0;
	fflush(NULL);
	pid_t child = fork();
	if (child < 0)
		abort();
	if (child == 0) {
		const char *why;
		int skip = world_gpus(&why) == 0;
		if (skip)
			printf("skipped: %s\n", why);
		fflush(stdout);
		_exit(skip ? EXIT_SKIP : 0);
	}
	while (waitpid(child, &status, 0) != child)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

enum marrow_target target_option(int argc, char **argv)
{
	int missing;
	if (argc == 1)
		return MARROW_TARGET_HOST;
	if (argc != 3 || strcmp(argv[1], "--target") != 0 || (strcmp(argv[2], "host") != 0 && strcmp(argv[2], "cuda") != 0)) {
		fprintf(stderr, "usage: %s [--target host|cuda]\n", argv[0]);
		exit(2);
	}
	if (strcmp(argv[2], "host") == 0)
		return MARROW_TARGET_HOST;
	missing = gpus_missing();
	if (missing)
		exit(missing);
	return MARROW_TARGET_CUDA;
}
