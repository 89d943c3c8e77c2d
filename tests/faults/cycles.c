/* cycles.c - communicators made, used and destroyed a hundred times: descriptors, threads, mappings and memory do not grow.
 *
 * cycles [--target host|cuda] */
#include "act.h"
#include "census.h"
#include "patience.h"

#include "support/device_memory.h"
#include "support/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, WARM_UP = 20, CYCLES = 100, SANITIZED_CYCLES = 30 };

/* Noise of allocator and stacks; a forgotten arena is 2 MiB and more, a forgotten bootstrap 3 KiB. */
#define GROWTH_MAX (4ull << 20)
#define HEAP_GROWTH_MAX (64ull << 10)
#define DEVICE_GROWTH_MAX (8ull << 20)

static struct meeting meeting;
static int failed;

static void fail(const char *how, const char *what)
{
	fprintf(stderr, "%s: %s\n", how, what);
	failed = 1;
}

static const struct act acts[] = {
	{MRW_FUNC_ALL_REDUCE, 16, MARROW_FLOAT32, MARROW_SUM, 0},
	{MRW_FUNC_ALL_GATHER, 30000, MARROW_FLOAT32, MARROW_SUM, 0},
	{MRW_FUNC_BARRIER, 0, MARROW_FLOAT32, MARROW_SUM, 0},
};
enum { ACTS = sizeof acts / sizeof acts[0], BYTES = 30000 * 4 * RANKS };

/* A cycle of ranks as threads. Every tenth ends with a fault, every tenth with an abort. */
static uint64_t cycle;

/* Communicators out of this one: a split, a shrunk one, and one that is refused. */
static void offspring(struct world_rank *self, struct ground *g)
{
	struct marrow_comm *children[2] = {NULL, NULL}, *none = NULL;
	uint32_t last = RANKS - 1;
	if (marrow_comm_split(self->comms[0], (int32_t)self->rank % 2, -(int32_t)self->rank, &children[0], NULL) != MARROW_SUCCESS)
		world_fail(self, "split: %s", marrow_last_error(self->comms[0]));
	if (self->rank != last && marrow_comm_shrink(self->comms[0], &last, 1, MARROW_SHRINK_DEFAULT, &children[1], NULL) != MARROW_SUCCESS)
		world_fail(self, "shrink: %s", marrow_last_error(NULL));
	if (marrow_comm_split(self->comms[0], self->rank == 1 ? -3 : 0, 0, &none, NULL) == MARROW_SUCCESS)
		world_fail(self, "a wrong split succeeds");
	for (int i = 0; i < 2; i++)
		if (children[i] && act_done(&acts[0], g, children[i]) != MARROW_SUCCESS)
			world_fail(self, "%s", marrow_last_error(children[i]));
	if (ground_settle(g) != 0)
		world_fail(self, "the stream fails");
	for (int i = 0; i < 2; i++)
		if (marrow_comm_destroy(children[i]) != MARROW_SUCCESS)
			world_fail(self, "destroy: %s", marrow_last_error(NULL));
}

static void use(struct world_rank *self)
{
	struct ground g;
	if (ground_make(&g, self->world->target, self->rank, BYTES) != 0) {
		world_fail(self, "no ground");
		return;
	}
	for (int i = 0; i < ACTS; i++)
		if (act_done(&acts[i], &g, self->comms[0]) != MARROW_SUCCESS)
			world_fail(self, "%s", marrow_last_error(self->comms[0]));
	if (cycle % 2 == 0)
		offspring(self, &g);
	meet(&meeting, self->nranks);
	if (cycle % 10 == 3 && act_learn(&acts[self->rank == 1], &g, self->comms[0], 5000) == MARROW_SUCCESS)
		world_fail(self, "a mismatch was not noticed");
	if (cycle % 10 == 7 && self->rank == 2 && marrow_comm_abort(self->comms[0]) != MARROW_SUCCESS)
		world_fail(self, "abort: %s", marrow_last_error(NULL));
	if (ground_leave(&g, self->comms, 1) != MARROW_SUCCESS)
		world_fail(self, "destroy: %s", marrow_last_error(NULL));
}

static void by_threads(enum marrow_target target)
{
	struct world w = {.target = target, .nranks = RANKS, .ncomms = 1};
	memset(&meeting, 0, sizeof meeting);
	if (world_run(&w, use) != 0)
		failed = 1;
}

/* A cycle of one thread that holds all ranks in groups. */
static void by_groups(enum marrow_target target)
{
	struct marrow_config config = MARROW_CONFIG_INIT;
	struct marrow_unique_id id;
	struct marrow_comm *comms[RANKS];
	struct ground g[RANKS];
	config.target = target;
	config.timeout_ms = 60000;
	if (marrow_get_unique_id(&id) != MARROW_SUCCESS)
		fail("unique id", marrow_last_error(NULL));
	marrow_group_start();
	for (uint32_t r = 0; r < RANKS; r++)
		if (ground_make(&g[r], target, r, BYTES) != 0 || marrow_comm_init(&comms[r], RANKS, &id, r, &config) != MARROW_SUCCESS)
			fail("init", marrow_last_error(NULL));
	if (marrow_group_end() != MARROW_SUCCESS)
		fail("group of inits", marrow_last_error(NULL));
	for (int i = 0; i < ACTS; i++) {
		marrow_group_start();
		for (uint32_t r = 0; r < RANKS; r++)
			act_call(&acts[i], &g[r], comms[r]);
		if (marrow_group_end() != MARROW_SUCCESS)
			fail("group", marrow_last_error(NULL));
	}
	for (uint32_t r = 0; r < RANKS; r++) {
		if (ground_settle(&g[r]) != 0 || await_error(comms[r], 0) != MARROW_SUCCESS || ground_leave(&g[r], &comms[r], 1) != MARROW_SUCCESS)
			fail("destroy", marrow_last_error(NULL));
	}
}

static uint64_t grown(uint64_t before, uint64_t after)
{
	return after > before ? after - before : 0;
}

static void check(const char *how, enum marrow_target target, void (*body)(enum marrow_target target))
{
	struct census before = {0}, after;
	size_t free_before = 0, free_after = 0;
	int cycles = sanitized ? SANITIZED_CYCLES : CYCLES;
	watchdog(120, how);
	for (cycle = 0; cycle < (uint64_t)(WARM_UP + cycles) && !failed; cycle++) {
		if (cycle == WARM_UP) {
			before = census_take();
			if (target == MARROW_TARGET_CUDA)
				device_free_bytes(&free_before);
		}
		body(target);
	}
	after = census_take();
	if (target == MARROW_TARGET_CUDA)
		device_free_bytes(&free_after);
	uint64_t resident = grown(before.resident_bytes, after.resident_bytes), heap = grown(before.heap_bytes, after.heap_bytes);
	printf("%s: %d cycles: %llu KiB resident more, %llu KiB of heap more\n", how, cycles, (unsigned long long)resident >> 10,
	       (unsigned long long)heap >> 10);
	if (census_growth(&before, &after))
		fail(how, census_growth(&before, &after));
	/* Sanitizers keep freed memory and shadows; they look for leaks themselves. */
	if (!sanitized && resident > GROWTH_MAX)
		fail(how, "resident memory grows");
	if (heap > HEAP_GROWTH_MAX)
		fail(how, "the heap grows");
	if (grown(free_after, free_before) > DEVICE_GROWTH_MAX)
		fail(how, "device memory shrinks");
	watchdog(0, "");
}

int main(int argc, char **argv)
{
	enum marrow_target target = target_option(argc, argv);
	check("ranks as threads", target, by_threads);
	check("ranks of one thread", target, by_groups);
	printf("cycles: %s\n", failed ? "FAILED" : "ok");
	return failed;
}
