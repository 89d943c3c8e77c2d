/* abort.c - marrow_comm_abort(): from any thread, at any time, once or often. Calls that wait return and streams drain within a
 * second, peers learn who it was, and nothing but destroy works afterwards.
 *
 * abort [--target host|cuda] */
#include "act.h"
#include "patience.h"

#include "support/device_memory.h"
#include "support/hosts.h"
#include "support/world.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAVE_MS = 1000, LEARN_MS = 2000, AT_ONCE_MS = 200, BYTES = 4 << 20, QUEUED = 1000, ABORTERS = 4, BEFORE_MS = 100, COME_MS = 10000 };

static struct shared {
	struct meeting meeting;
	uint64_t aborted_ms;
	uint64_t done;
} shared;

static const struct act small = {MRW_FUNC_ALL_REDUCE, 16, MARROW_FLOAT32, MARROW_SUM, 0};
static const struct act large = {MRW_FUNC_ALL_REDUCE, 500000, MARROW_FLOAT32, MARROW_SUM, 0};

static void *abort_soon(void *comm)
{
	sleep_ms(BEFORE_MS);
	mark_time(&shared.aborted_ms);
	if (marrow_comm_abort(comm) != MARROW_SUCCESS)
		fprintf(stderr, "abort: %s\n", marrow_last_error(NULL));
	return NULL;
}

static void begin_abort(pthread_t *thread, struct marrow_comm *comm)
{
	if (pthread_create(thread, NULL, abort_soon, comm) != 0)
		abort();
}

static bool begin(struct world_rank *self, struct ground *g)
{
	if (ground_make(g, self->world->target, self->rank, BYTES) != 0) {
		world_fail(self, "no ground");
		return false;
	}
	if (act_done(&small, g, self->comms[0]) != MARROW_SUCCESS)
		world_fail(self, "before the abort: %s", marrow_last_error(self->comms[0]));
	meet(&shared.meeting, self->nranks);
	return true;
}

/* The call returned, or was enqueued: the rest drains, and rank 0 is named. */
static void check_left(struct world_rank *self, struct ground *g, enum marrow_status want, uint64_t ms)
{
	struct marrow_comm *comm = self->comms[0];
	/* First the question: it is how kernels hear of a peer that had none of its own running. */
	enum marrow_status status = await_error(comm, limit_ms(ms) * 2);
	if (ground_settle(g) != 0)
		world_fail(self, "the stream failed");
	uint64_t took = now_ms() - __atomic_load_n(&shared.aborted_ms, __ATOMIC_ACQUIRE);
	const char *text = marrow_last_error(comm);
	if (took > limit_ms(ms))
		world_fail(self, "it took %llu ms to leave", (unsigned long long)took);
	if (status != want)
		world_fail(self, "status \"%s\", not \"%s\": %s", marrow_status_string(status), marrow_status_string(want), text);
	if (!strstr(text, "rank 0") || !strstr(text, "abort"))
		world_fail(self, "does not say that rank 0 aborted: %s", text);
}

static void check_dead(struct world_rank *self, struct ground *g, enum marrow_status want)
{
	struct marrow_comm *comm = self->comms[0];
	uint64_t start = now_ms();
	enum marrow_status status;
	if (act_call(&small, g, comm) != want || act_call(&large, g, comm) != want)
		world_fail(self, "a call after the abort does not fail alike");
	marrow_group_start();
	(void)act_call(&small, g, comm);
	status = marrow_group_end();
	if (status != want)
		world_fail(self, "a group after the abort gives \"%s\"", marrow_status_string(status));
	if (now_ms() - start > limit_ms(AT_ONCE_MS))
		world_fail(self, "later calls took %llu ms", (unsigned long long)(now_ms() - start));
}

static void destroy(struct world_rank *self)
{
	uint64_t start = now_ms();
	if (marrow_comm_destroy(self->comms[0]) != MARROW_SUCCESS)
		world_fail(self, "destroy: %s", marrow_last_error(NULL));
	self->comms[0] = NULL;
	if (now_ms() - start > limit_ms(LEAVE_MS))
		world_fail(self, "destroy took %llu ms", (unsigned long long)(now_ms() - start));
}

/* Rank 0 waits for ranks that call nothing, another of its threads aborts it. */
static void alone(struct world_rank *self)
{
	struct ground g;
	pthread_t thread;
	if (!begin(self, &g))
		return;
	if (self->rank == 0) {
		begin_abort(&thread, self->comms[0]);
		enum marrow_status status = act_call(&large, &g, self->comms[0]);
		if (g.target == MARROW_TARGET_HOST && status != MARROW_ABORTED)
			world_fail(self, "the call returned \"%s\"", marrow_status_string(status));
		check_left(self, &g, MARROW_ABORTED, LEAVE_MS);
		pthread_join(thread, NULL);
		check_dead(self, &g, MARROW_ABORTED);
	} else {
		await_word(&shared.aborted_ms, 1, COME_MS);
		check_left(self, &g, MARROW_REMOTE_ERROR, LEARN_MS);
		check_dead(self, &g, MARROW_REMOTE_ERROR);
	}
	destroy(self);
	ground_free(&g);
}

/* Asks for the communicator's state while others use and abort it. */
static void *ask(void *comm)
{
	while (__atomic_load_n(&shared.done, __ATOMIC_ACQUIRE) == 0) {
		enum marrow_status error;
		if (marrow_comm_async_error(comm, &error) != MARROW_SUCCESS)
			fprintf(stderr, "async error: %s\n", marrow_last_error(NULL));
		(void)marrow_last_error(comm);
		sleep_ms(1);
	}
	return NULL;
}

/* All ranks but the last wait for it; rank 0 is aborted by several threads at once. */
static void together(struct world_rank *self)
{
	struct ground g;
	pthread_t aborters[ABORTERS], asker;
	bool last = self->rank == self->nranks - 1;
	enum marrow_status want = self->rank == 0 ? MARROW_ABORTED : MARROW_REMOTE_ERROR;
	if (!begin(self, &g))
		return;
	if (self->rank == 0) {
		if (pthread_create(&asker, NULL, ask, self->comms[0]) != 0)
			abort();
		for (int i = 0; i < ABORTERS; i++)
			begin_abort(&aborters[i], self->comms[0]);
	}
	if (last)
		await_word(&shared.aborted_ms, 1, COME_MS);
	else
		(void)act_call(&large, &g, self->comms[0]);
	check_left(self, &g, want, last || self->world->target == MARROW_TARGET_CUDA ? LEARN_MS : LEAVE_MS);
	if (self->rank == 0) {
		for (int i = 0; i < ABORTERS; i++)
			pthread_join(aborters[i], NULL);
		__atomic_store_n(&shared.done, 1, __ATOMIC_RELEASE);
		pthread_join(asker, NULL);
	}
	check_dead(self, &g, want);
	destroy(self);
	ground_free(&g);
}

/* Rank 0 waits in a group end. */
static void in_group(struct world_rank *self)
{
	struct ground g;
	pthread_t thread;
	if (!begin(self, &g))
		return;
	if (self->rank == 0) {
		begin_abort(&thread, self->comms[0]);
		marrow_group_start();
		if (act_call(&small, &g, self->comms[0]) != MARROW_SUCCESS || act_call(&large, &g, self->comms[0]) != MARROW_SUCCESS)
			world_fail(self, "in a group: %s", marrow_last_error(NULL));
		enum marrow_status status = marrow_group_end();
		if (g.target == MARROW_TARGET_HOST && status != MARROW_ABORTED)
			world_fail(self, "the group end returned \"%s\"", marrow_status_string(status));
		check_left(self, &g, MARROW_ABORTED, LEAVE_MS);
		pthread_join(thread, NULL);
	} else {
		await_word(&shared.aborted_ms, 1, COME_MS);
		check_left(self, &g, MARROW_REMOTE_ERROR, LEARN_MS);
	}
	destroy(self);
	ground_free(&g);
}

/* Finalized: a failure that took an operation of this rank is still one, one that this rank only heard of is none (on one host). */
static void check_after_finalize(struct world_rank *self, enum marrow_status want)
{
	enum marrow_status error = MARROW_IN_PROGRESS;
	if (marrow_comm_finalize(self->comms[0]) != MARROW_SUCCESS || marrow_comm_async_error(self->comms[0], &error) != MARROW_SUCCESS)
		world_fail(self, "finalize after another's abort: %s", marrow_last_error(NULL));
	if (error != want)
		world_fail(self, "finalized, the communicator has failure %d, not %d", (int)error, (int)want);
}

/* Aborted between operations by its own thread, twice; the others are in the next operation. */
static void between(struct world_rank *self)
{
	struct ground g;
	if (!begin(self, &g))
		return;
	if (self->rank == 0) {
		sleep_ms(BEFORE_MS);
		mark_time(&shared.aborted_ms);
		for (int i = 0; i < 2; i++)
			if (marrow_comm_abort(self->comms[0]) != MARROW_SUCCESS)
				world_fail(self, "abort %d: %s", i, marrow_last_error(NULL));
		check_left(self, &g, MARROW_ABORTED, LEAVE_MS);
		check_dead(self, &g, MARROW_ABORTED);
		check_after_finalize(self, MARROW_ABORTED);
		if (marrow_comm_abort(self->comms[0]) != MARROW_SUCCESS)
			world_fail(self, "abort after finalize: %s", marrow_last_error(NULL));
	} else {
		(void)act_call(&small, &g, self->comms[0]);
		check_left(self, &g, MARROW_REMOTE_ERROR, LEARN_MS);
		check_dead(self, &g, MARROW_REMOTE_ERROR);
		check_after_finalize(self, MARROW_REMOTE_ERROR);
	}
	destroy(self);
	ground_free(&g);
}

/* Aborted before any operation, and destroyed at once: the others still hear of it. */
static void first_of_all(struct world_rank *self)
{
	struct ground g;
	if (ground_make(&g, self->world->target, self->rank, BYTES) != 0)
		world_fail(self, "no ground");
	meet(&shared.meeting, self->nranks);
	if (self->rank == 0) {
		mark_time(&shared.aborted_ms);
		if (marrow_comm_abort(self->comms[0]) != MARROW_SUCCESS)
			world_fail(self, "abort: %s", marrow_last_error(NULL));
	} else {
		await_word(&shared.aborted_ms, 1, COME_MS);
		check_left(self, &g, MARROW_REMOTE_ERROR, LEARN_MS);
		check_dead(self, &g, MARROW_REMOTE_ERROR);
		check_after_finalize(self, hosts_count(self->nranks) > 1 ? MARROW_REMOTE_ERROR : MARROW_SUCCESS);
	}
	destroy(self);
	ground_free(&g);
}

/* CUDA: a thousand operations and a graph wait behind one that spins. */
static void queued(struct world_rank *self)
{
	struct ground g;
	pthread_t thread;
	void *graph = NULL;
	if (!begin(self, &g))
		return;
	if (device_capture_begin(g.stream, DEVICE_CAPTURE_THREAD_LOCAL) != 0 || act_call(&small, &g, self->comms[0]) != MARROW_SUCCESS ||
	    device_capture_end(g.stream, &graph) != 0)
		world_fail(self, "capture: %s, %s", device_error(), marrow_last_error(self->comms[0]));
	bool comes = self->rank != self->nranks - 1;
	for (int i = 0; comes && i < QUEUED - 1; i++)
		if (act_call(i % 8 ? &small : &large, &g, self->comms[0]) != MARROW_SUCCESS)
			world_fail(self, "operation %d: %s", i, marrow_last_error(self->comms[0]));
	if (comes && graph && device_graph_launch(graph, g.stream) != 0)
		world_fail(self, "graph: %s", device_error());
	meet(&shared.meeting, self->nranks);
	if (self->rank == 0) {
		begin_abort(&thread, self->comms[0]);
		pthread_join(thread, NULL);
	}
	await_word(&shared.aborted_ms, 1, COME_MS);
	if (ground_settle(&g) != 0)
		world_fail(self, "the stream failed");
	uint64_t took = now_ms() - __atomic_load_n(&shared.aborted_ms, __ATOMIC_ACQUIRE);
	if (took > limit_ms(LEAVE_MS))
		world_fail(self, "%d operations took %llu ms to drain", QUEUED, (unsigned long long)took);
	check_left(self, &g, self->rank == 0 ? MARROW_ABORTED : MARROW_REMOTE_ERROR, LEARN_MS);
	/* A replay leaves at once, too. Not before all have heard: who has not might take its greeting for another call. */
	meet(&shared.meeting, self->nranks);
	uint64_t start = now_ms();
	if (graph && (device_graph_launch(graph, g.stream) != 0 || ground_settle(&g) != 0))
		world_fail(self, "replay after the abort: %s", device_error());
	if (now_ms() - start > limit_ms(LEAVE_MS))
		world_fail(self, "a replay after the abort took %llu ms", (unsigned long long)(now_ms() - start));
	device_graph_destroy(graph);
	destroy(self);
	ground_free(&g);
}

/* A communicator of one rank, and handles that are none. */
static int odd_handles(enum marrow_target target)
{
	struct marrow_config config = MARROW_CONFIG_INIT;
	struct marrow_comm *comm = NULL, *pending = NULL;
	struct world_rank self = {.nranks = 1};
	enum marrow_status error;
	struct ground g;
	config.target = target;
	watchdog(30, "abort of odd handles");
	if (marrow_comm_abort(NULL) != MARROW_INVALID_ARGUMENT)
		world_fail(&self, "abort of NULL is accepted");
	if (ground_make(&g, target, 0, BYTES) != 0 || marrow_comm_init(&comm, 1, NULL, 0, &config) != MARROW_SUCCESS)
		world_fail(&self, "init: %s", marrow_last_error(NULL));
	if (marrow_comm_abort(comm) != MARROW_SUCCESS || marrow_comm_async_error(comm, &error) != MARROW_SUCCESS || error != MARROW_ABORTED)
		world_fail(&self, "abort of one rank: %s", marrow_last_error(NULL));
	if (act_call(&small, &g, comm) != MARROW_ABORTED)
		world_fail(&self, "one rank works after its abort");
	if (marrow_comm_destroy(comm) != MARROW_SUCCESS)
		world_fail(&self, "destroy: %s", marrow_last_error(NULL));
	if (marrow_comm_abort(comm) != MARROW_INVALID_ARGUMENT)
		world_fail(&self, "abort after destroy is accepted");
	marrow_group_start();
	if (marrow_comm_init(&pending, 1, NULL, 0, &config) != MARROW_SUCCESS || marrow_comm_abort(pending) != MARROW_INVALID_ARGUMENT)
		world_fail(&self, "abort before the group end: %s", marrow_last_error(NULL));
	if (marrow_group_end() != MARROW_SUCCESS || marrow_comm_destroy(pending) != MARROW_SUCCESS)
		world_fail(&self, "init in a group: %s", marrow_last_error(NULL));
	ground_free(&g);
	watchdog(0, "");
	return self.failed;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*body)(struct world_rank *self);
		bool cuda_only;
	} tests[] = {
		{"abort of a rank that waits alone", alone, false},
		{"abort of one of several that wait", together, false},
		{"abort in a group end", in_group, false},
		{"abort between operations", between, false},
		{"abort first of all", first_of_all, false},
		{"abort of a thousand queued operations", queued, true},
	};
	enum marrow_target target = target_option(argc, argv);
	int failed = odd_handles(target);
	for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
		for (uint32_t ranks = 2; ranks <= 4; ranks++) {
			struct world w = {.target = target, .nranks = ranks, .ncomms = 1};
			if (tests[i].cuda_only && target != MARROW_TARGET_CUDA)
				continue;
			uint64_t start = now_ms();
			memset(&shared, 0, sizeof shared);
			watchdog(30, tests[i].name);
			int wrong = world_run(&w, tests[i].body);
			watchdog(0, "");
			printf("%s, %u ranks, %.1f s: %s\n", tests[i].name, ranks, (double)(now_ms() - start) / 1e3, wrong ? "FAILED" : "ok");
			failed += wrong;
		}
	}
	return failed ? 1 : 0;
}
