/* repeat.c - 100,000 launches in a row of each size class, every result checked on the device; seqs and rounds wrap on the way.
 *
 * repeat [--launches N] [--only threads|processes]. Each launch: fill the input, one collective (the functions in turn), compare. */
#include "cuda_helpers.h"
#include "fleet.h"
#include "support/device_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 2, LIMIT_S = 150, SYNC_EVERY = 2000, WAIT_MS = 30000 };

static struct {
	uint32_t launches;
	struct meet *meet;
} repeat;

static const struct size_class {
	const char *name;
	uint32_t bytes; /* of an all-reduce */
} classes[] = {{"small", 1000}, {"middle", 100000}, {"bulk", 2 << 20}};
enum { CLASSES = sizeof classes / sizeof classes[0] };

struct areas {
	uint32_t *send, *recv;
	struct gpu_wrong *wrong;
};

static enum marrow_type type_here(void)
{
	return fleet_type_built(MARROW_INT32) ? MARROW_INT32 : MARROW_UINT32;
}

static enum marrow_status one(struct world_rank *self, const struct areas *a, uint32_t i, uint32_t count, struct gpu_expect *e)
{
	struct marrow_comm *comm = self->comms[0];
	void *stream = self->streams[0];
	*e = (struct gpu_expect){.count = count, .seed = i, .rank = self->rank, .nranks = self->nranks, .root = i / 8 % self->nranks};
	switch (i % 8) {
	case 5:
		e->result = GPU_COPY_OF_ROOT;
		return marrow_broadcast(a->send, a->recv, count, MARROW_INT32, e->root, comm, stream);
	case 6:
		e->result = GPU_GATHER;
		e->count = count / self->nranks;
		return marrow_all_gather(a->send, a->recv, e->count, MARROW_INT32, comm, stream);
	case 7:
		e->result = GPU_SCATTERED_SUM;
		e->count = count / self->nranks;
		return marrow_reduce_scatter(a->send, a->recv, e->count, type_here(), MARROW_SUM, comm, stream);
	default:
		e->result = GPU_SUM;
		return marrow_all_reduce(a->send, a->recv, count, type_here(), MARROW_SUM, comm, stream);
	}
}

/* What the device found so far. */
static bool look(struct world_rank *self, const struct areas *a, const char *name, uint32_t i)
{
	struct gpu_wrong w;
	enum marrow_status error;
	if (gpu_stream_wait(self->streams[0], WAIT_MS) != 0)
		world_fail(self, "%s, launch %u: %s", name, i, gpu_error());
	if (marrow_comm_async_error(self->comms[0], &error) != MARROW_SUCCESS || error != MARROW_SUCCESS)
		world_fail(self, "%s, launch %u: %s", name, i, marrow_last_error(self->comms[0]));
	else if (device_copy(&w, a->wrong, sizeof w) != 0)
		world_fail(self, "%s: %s", name, device_error());
	else if (w.wrong != 0)
		world_fail(self, "%s: %u wrong elements so far; first: launch %u element %u is %x, not %x", name, w.wrong, w.seed, w.index,
			   w.have, w.want);
	return !self->failed;
}

static void run_class(struct world_rank *self, const struct areas *a, const struct size_class *class)
{
	uint32_t count = class->bytes / 4;
	uint64_t start = fleet_now_ms();
	for (uint32_t i = 0; i < repeat.launches && !self->failed; i++) {
		struct gpu_expect e;
		if (gpu_fill(self->streams[0], a->send, count, i, self->rank) != 0)
			world_fail(self, "fill: %s", gpu_error());
		if (one(self, a, i, count, &e) != MARROW_SUCCESS)
			world_fail(self, "%s, launch %u: %s", class->name, i, marrow_last_error(self->comms[0]));
		if (gpu_verify(self->streams[0], a->recv, &e, a->wrong) != 0)
			world_fail(self, "verify: %s", gpu_error());
		if (i % SYNC_EVERY == SYNC_EVERY - 1 && !look(self, a, class->name, i))
			return;
	}
	if (!self->failed && look(self, a, class->name, repeat.launches) && self->rank == 0)
		fleet_say("%s (%u bytes): %u launches, every result checked, %.1f s: ok", class->name, class->bytes, repeat.launches,
			 (double)(fleet_now_ms() - start) / 1e3);
}

static void run(struct world_rank *self)
{
	struct areas a;
	uint32_t most = classes[CLASSES - 1].bytes;
	memset(&a, 0, sizeof a);
	if (device_alloc((void **)&a.send, most) != 0 || device_alloc((void **)&a.recv, most) != 0 ||
	    device_alloc((void **)&a.wrong, sizeof *a.wrong) != 0 || device_fill_bytes(a.wrong, 0, sizeof *a.wrong) != 0)
		world_fail(self, "cannot allocate: %s", device_error());
	if (gpu_load_kernels() != 0)
		world_fail(self, "cannot load the test's kernels: %s", gpu_error());
	if (!meet_wait(repeat.meet, RANKS, 60))
		world_fail(self, "the other rank did not get ready");
	for (uint32_t i = 0; i < CLASSES && !self->failed; i++)
		run_class(self, &a, &classes[i]);
	device_free(a.send);
	device_free(a.recv);
	device_free(a.wrong);
}

int main(int argc, char **v)
{
	struct world w = {.target = MARROW_TARGET_CUDA, .nranks = RANKS, .ncomms = 1, .timeout_ms = 20000, .set_seq = true};
	const char *only = NULL, *why;
	int failed = 0;
	repeat.launches = 100000;
	for (int i = 1; i < argc; i++) {
		if (strcmp(v[i], "--launches") == 0 && i + 1 < argc)
			repeat.launches = (uint32_t)strtoul(v[++i], NULL, 0);
		else if (strcmp(v[i], "--only") == 0 && i + 1 < argc)
			only = v[++i];
		else {
			fprintf(stderr, "usage: repeat [--launches N] [--only threads|processes]\n");
			return 2;
		}
	}
	if (fleet_gpus(&why) == 0 || !fleet_type_built(type_here())) {
		printf("skipped: %s\n", why[0] ? why : "this build reduces neither int32 nor uint32");
		return 77;
	}
	uint64_t seed = world_seed();
	/* The first class wraps. */
	w.seq = 0u - 1 - (uint32_t)(seed % (repeat.launches / 2 + 1));
	w.round = UINT64_MAX - seed % (repeat.launches / 2 + 1);
	repeat.meet = fleet_share(sizeof *repeat.meet);
	if (!only || strcmp(only, "processes") == 0) {
		fleet_say("two processes, first operation %u:", w.seq);
		failed += fleet_run(&w, LIMIT_S, run);
	}
	if (!only || strcmp(only, "threads") == 0) {
		memset(repeat.meet, 0, sizeof *repeat.meet);
		fleet_say("two threads, first operation %u:", w.seq);
		failed += fleet_run_threads(&w, LIMIT_S, run);
	}
	printf("repeat: %s\n", failed ? "FAILED" : "ok");
	return failed ? 1 : 0;
}
