/* footprint.c - what a communicator costs: device memory as the difference of free memory over init and the first call of every
 * function, algorithm and type, with context and code loaded by an earlier communicator; init time; host threads; and that all
 * of it comes back.
 *
 * Two ranks are processes, each measuring its own device; four and eight are threads over two devices, which rank 0 and 1
 * measure for all. Other programs on the devices disturb the figures. */
#include "cuda_helpers.h"
#include "fleet.h"
#include "support/call.h"
#include "support/device_memory.h"

#include "comm.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 2, WAIT_MS = 30000, LIMIT_S = 60, CYCLES = 4 };
#define LIMIT_BYTES (32ull << 20)
#define SMALL 4096u
#define LARGE (2u << 20)

static struct share {
	struct meet meet;
	struct marrow_unique_id id;
	uint64_t used[DEVICES], left[DEVICES]; /* bytes of the communicators on a device; still gone after they were destroyed */
	double init_s[WORLD_MAX_RANKS], first_init_s[WORLD_MAX_RANKS];
	int threads_added, fds_added;          /* rank 0's process */
	uint64_t arena_bytes;
} *share;

static bool gather_here(struct world_rank *self)
{
	if (meet_wait(&share->meet, self->nranks, LIMIT_S))
		return true;
	world_fail(self, "the other ranks did not come so far");
	return false;
}

static int entries(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;
	for (struct dirent *d; dir && (d = readdir(dir)) != NULL;)
		n += d->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return n;
}

/* Rank 0 makes the id, all join. */
static struct marrow_comm *join(struct world_rank *self, double *seconds)
{
	struct marrow_config config = MARROW_CONFIG_INIT;
	struct marrow_comm *comm = NULL;
	config.target = MARROW_TARGET_CUDA;
	config.timeout_ms = 20000;
	if (!gather_here(self))
		return NULL;
	if (self->rank == 0 && marrow_get_unique_id(&share->id) != MARROW_SUCCESS)
		world_fail(self, "unique id: %s", marrow_last_error(NULL));
	if (!gather_here(self))
		return NULL;
	uint64_t start = fleet_now_ms();
	if (marrow_comm_init(&comm, self->nranks, &share->id, self->rank, &config) != MARROW_SUCCESS)
		world_fail(self, "init: %s", marrow_last_error(NULL));
	*seconds = (double)(fleet_now_ms() - start) / 1e3;
	return comm;
}

static void check(struct world_rank *self, struct marrow_comm *comm, enum marrow_status status)
{
	if (status != MARROW_SUCCESS)
		world_fail(self, "call: %s", marrow_last_error(comm));
}

static void settle(struct world_rank *self)
{
	if (!self->failed && gpu_stream_wait(self->streams[0], WAIT_MS) != 0)
		world_fail(self, "%s", gpu_error());
}

/* Everything once: functions x algorithms x types. */
static void call_all(struct world_rank *self, struct marrow_comm *comm, void *send, void *recv)
{
	void *stream = self->streams[0];
	enum marrow_status async;
	for (int32_t algo = -1; algo < MRW_ALGO_COUNT && !self->failed; algo++) {
		if (self->nranks > 1)
			mrw_comm_set_algo(comm, algo);
		for (uint32_t t = 0; t < REFERENCE_TYPES && !self->failed; t++) {
			enum marrow_type type = (enum marrow_type)t;
			for (uint32_t large = 0; large < 2; large++) {
				size_t count = (large ? LARGE : SMALL) / reference_type_bytes(type);
				check(self, comm, marrow_broadcast(send, recv, count, type, 0, comm, stream));
				check(self, comm, marrow_all_gather(send, recv, count / self->nranks, type, comm, stream));
				if (!fleet_type_built(type))
					continue;
				check(self, comm, marrow_all_reduce(send, recv, count, type, MARROW_SUM, comm, stream));
				check(self, comm, marrow_reduce_scatter(send, recv, count / self->nranks, type, MARROW_AVG, comm, stream));
			}
			settle(self);
		}
		check(self, comm, marrow_all_to_all(send, recv, LARGE / self->nranks, MARROW_UINT8, comm, stream));
		check(self, comm, marrow_barrier(comm, stream));
	}
	settle(self);
	if (comm && (marrow_comm_async_error(comm, &async) != MARROW_SUCCESS || async != MARROW_SUCCESS))
		world_fail(self, "%s", marrow_last_error(comm));
}

static void leave(struct world_rank *self, struct marrow_comm *comm)
{
	(void)gather_here(self);
	if (marrow_comm_destroy(comm) != MARROW_SUCCESS)
		world_fail(self, "destroy: %s", marrow_last_error(NULL));
	(void)gather_here(self); /* memory lives until the last peer lets go */
}

static size_t free_bytes(struct world_rank *self)
{
	size_t bytes = 0;
	if (device_synchronize() != 0 || device_free_bytes(&bytes) != 0)
		world_fail(self, "free memory: %s", device_error());
	return bytes;
}

static uint64_t less(size_t before, size_t after)
{
	return before > after ? before - after : 0;
}

static void run(struct world_rank *self)
{
	bool measures = self->rank < DEVICES;
	void *send = NULL, *recv = NULL;
	double seconds = 0;
	if (device_alloc(&send, LARGE) != 0 || device_alloc(&recv, LARGE) != 0) {
		world_fail(self, "cannot allocate: %s", device_error());
		return;
	}
	struct marrow_comm *comm = join(self, &share->first_init_s[self->rank]);
	if (!comm)
		return;
	call_all(self, comm, send, recv);
	leave(self, comm);

	size_t before = measures ? free_bytes(self) : 0;
	int threads = entries("/proc/self/task"), fds = entries("/proc/self/fd");
	comm = join(self, &share->init_s[self->rank]);
	if (!comm)
		return;
	call_all(self, comm, send, recv);
	(void)gather_here(self);
	if (measures)
		share->used[self->rank] = less(before, free_bytes(self));
	if (self->rank == 0) {
		struct marrow_comm_properties p = {.size = sizeof p};
		share->threads_added = entries("/proc/self/task") - threads;
		if (marrow_comm_get_properties(comm, &p) == MARROW_SUCCESS)
			share->arena_bytes = p.arena_bytes;
	}
	leave(self, comm);
	for (int i = 0; i < CYCLES && !self->failed; i++) {
		comm = join(self, &seconds);
		if (!comm)
			return;
		check(self, comm, marrow_barrier(comm, self->streams[0]));
		leave(self, comm);
	}
	if (measures)
		share->left[self->rank] = less(before, free_bytes(self));
	if (self->rank == 0)
		share->fds_added = entries("/proc/self/fd") - fds;
	(void)gather_here(self);
	device_free(send);
	device_free(recv);
}

static double mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

static int measure(uint32_t nranks, bool processes)
{
	struct world w = {.target = MARROW_TARGET_CUDA, .nranks = nranks, .ncomms = 0, .timeout_ms = 20000};
	double init = 0, first = 0;
	share = fleet_share(sizeof *share);
	int failed = processes ? fleet_run(&w, LIMIT_S, run) : fleet_run_threads(&w, LIMIT_S, run);
	if (failed) {
		fleet_say("n = %u: FAILED", nranks);
		return 1;
	}
	for (uint32_t r = 0; r < nranks; r++) {
		init = share->init_s[r] > init ? share->init_s[r] : init;
		first = share->first_init_s[r] > first ? share->first_init_s[r] : first;
	}
	uint64_t total = share->used[0] + share->used[1], most = (total + nranks - 1) / nranks;
	if (processes)
		most = share->used[0] > share->used[1] ? share->used[0] : share->used[1];
	uint64_t allowed = nranks == 1 ? 2 << 20 : LIMIT_BYTES; /* one rank: no more than the driver's grain for a stream */
	uint64_t left = share->left[0] + share->left[1];
	bool good = most <= allowed && share->threads_added == 0 && share->fds_added <= 0 && left <= 2 << 20;
	fleet_say("n = %u (%s): %.1f MiB device memory a communicator and rank (arena %.1f MiB, allowed %.0f), init %.2f s (first %.2f s), "
		 "host threads added %d; after %d more: %.1f MiB and %d descriptors not returned: %s", nranks, processes ? "processes" : "threads",
		 mib(most), mib(share->arena_bytes), mib(allowed), init, first, share->threads_added, CYCLES, mib(left), share->fds_added,
		 good ? "ok" : "FAILED");
	return !good;
}

int main(void)
{
	const char *why;
	if (fleet_gpus(&why) == 0) {
		printf("skipped: %s\n", why);
		return 77;
	}
	int failed = measure(1, true) + measure(2, true) + measure(4, false) + measure(8, false);
	printf("footprint: %s\n", failed ? "FAILED" : "ok");
	return failed ? 1 : 0;
}
