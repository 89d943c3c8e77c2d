/* first_fault.c - the first rank whose deadline passes tells the others: nobody waits for a deadline of its own any more.
 *
 * first_fault [--target host|cuda]. Rank 1 stays away, rank 0 waits for it, the others come shortly before rank 0 gives up. They must
 * leave with it, and rank 1's late call must fail at its begin. */
#include "support/device_memory.h"
#include "support/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DEADLINE_MS = 2000, LATE_MS = 1500, AWAY_MS = 3000, LEARN_MS = 1200 };

static uint32_t learnt; /* ranks that know; nobody goes before all do, or its closed sockets would tell them */

static uint64_t now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* One all-reduce that cannot succeed; returns how long it took to say so. */
static uint64_t call_in_vain(struct world_rank *self, void *buffer)
{
	struct marrow_comm *comm = self->comms[0];
	enum marrow_status status = MARROW_SUCCESS;
	uint64_t start = now_ms();
	enum marrow_status called = marrow_all_reduce(buffer, buffer, 100, MARROW_FLOAT32, MARROW_SUM, comm, self->streams[0]);
	if (called == MARROW_SUCCESS && self->world->target == MARROW_TARGET_HOST)
		world_fail(self, "the call says success, but rank 0 has given up");
	do {
		if (marrow_comm_async_error(comm, &status) != MARROW_SUCCESS)
			break;
	} while (status == MARROW_SUCCESS && now_ms() - start < 10 * DEADLINE_MS && usleep(1000) == 0);
	if (status == MARROW_SUCCESS)
		world_fail(self, "no error came of a call without rank 1");
	return now_ms() - start;
}

static void run(struct world_rank *self)
{
	void *buffer = NULL;
	char text[1024];
	bool cuda = self->world->target == MARROW_TARGET_CUDA;
	if (cuda ? device_alloc(&buffer, 400) != 0 : !(buffer = calloc(100, 4))) {
		world_fail(self, "no memory");
		return;
	}
	if (self->rank > 0)
		usleep((self->rank == 1 ? AWAY_MS : LATE_MS) * 1000);
	uint64_t took = call_in_vain(self, buffer);
	snprintf(text, sizeof text, "%s", marrow_last_error(self->comms[0]));
	if (self->rank > 0 && took > LEARN_MS)
		world_fail(self, "learnt it after %llu ms: %s", (unsigned long long)took, text);
	if (!strstr(text, "rank 0"))
		world_fail(self, "does not name rank 0, who gave up first: %s", text);
	__atomic_fetch_add(&learnt, 1, __ATOMIC_RELAXED);
	while (__atomic_load_n(&learnt, __ATOMIC_RELAXED) < self->nranks)
		usleep(1000);
	if (cuda)
		device_free(buffer);
	else
		free(buffer);
}

int main(int argc, char **v)
{
	struct world w = {.target = MARROW_TARGET_HOST, .nranks = 4, .ncomms = 1, .timeout_ms = DEADLINE_MS};
	if (argc == 3 && strcmp(v[1], "--target") == 0 && strcmp(v[2], "cuda") == 0)
		w.target = MARROW_TARGET_CUDA;
	if (w.target == MARROW_TARGET_CUDA) {
		const char *why;
		if (world_gpus(&why) == 0) {
			printf("skipped: %s\n", why);
			return 77;
		}
	}
	int failed = world_run(&w, run);
	printf("the first fault is everybody's: %s\n", failed ? "FAILED" : "ok");
	return failed ? 1 : 0;
}
