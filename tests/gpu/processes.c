/* processes.c - two ranks as processes: every function, type, size, alignment and in place, bits checked; buffers from every kind
 * of memory; buffers that cannot work refused with words. */
#include "cuda_helpers.h"
#include "fleet.h"
#include "support/call.h"
#include "support/device_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 2, LIMIT_S = 120 };

static uint64_t seed;

/* Bytes of the buffer (all_gather, reduce_scatter: of a block); around every switch of algorithm and chunk. */
static const size_t small_sizes[] = {0, 1, 4, 8, 12, 24, 100, 512, 1000, 4096, 4100, 16384, 30000};
static const size_t large_sizes[] = {65536, 100004, 262144, 524288, 524296, 700000, 1048576, 1048588, 3000000, 4194304};
enum { SMALL_ROOM = 64 << 10, LARGE_ROOM = 9 << 20, VARIANTS = 6 };

static bool reduces(enum mrw_func func)
{
	return func == MRW_FUNC_ALL_REDUCE || func == MRW_FUNC_REDUCE_SCATTER || func == MRW_FUNC_REDUCE || func == MRW_FUNC_REDUCE_SCATTER_V;
}

/* Variants: plain, rank 0 in place, both in place, rank 1 misaligned, all odd, in place and odd. */
static void apply_variant(struct call *c, uint32_t variant)
{
	static const uint32_t in_place[VARIANTS] = {0, 1, 3, 0, 0, 2}, misaligned[VARIANTS] = {0, 0, 0, 1 << 2, 2 | 3 << 2, 2 | 1 << 2};
	c->in_place = in_place[variant];
	c->misaligned = misaligned[variant];
}

static void one(struct world_rank *self, struct call_buffers *b, const struct call *c)
{
	call_prepare(self, b, c);
	call_issue(self, b, c);
	call_check(self, b, c);
}

static struct call make(enum mrw_func func, enum marrow_type type, size_t bytes, uint64_t *s)
{
	struct call c;
	memset(&c, 0, sizeof c);
	c.func = func;
	c.type = type;
	c.op = (uint32_t)(world_random(s) % 7);
	c.count = bytes / reference_type_bytes(type) + (bytes != 0 && bytes < reference_type_bytes(type));
	c.root = (uint32_t)(world_random(s) % RANKS);
	c.algo = -1;
	c.style = world_random(s) % 2 ? FILL_MIXED : FILL_SPECIAL;
	c.seed = world_random(s);
	c.stream = (uint32_t)(world_random(s) % WORLD_STREAMS);
	return c;
}

static void matrix(struct world_rank *self)
{
	struct call_buffers small, large;
	uint64_t s = seed;
	uint32_t calls = 0;
	if (call_buffers_make(self, &small, SMALL_ROOM) != 0 || call_buffers_make(self, &large, LARGE_ROOM) != 0)
		return;
	for (uint32_t f = 0; f < CALL_FUNCS; f++) {
		for (uint32_t t = 0; t < REFERENCE_TYPES && !self->failed; t++) {
			enum mrw_func func = call_func(f);
			enum marrow_type type = (enum marrow_type)t;
			if (reduces(func) && !fleet_type_built(type))
				continue;
			for (uint32_t i = 0; i < sizeof small_sizes / sizeof small_sizes[0] && !self->failed; i++)
				for (uint32_t v = 0; v < VARIANTS && !self->failed; v++) {
					struct call c = make(func, type, small_sizes[i], &s);
					apply_variant(&c, v);
					one(self, &small, &c);
					calls++;
				}
			/* Large ones in turn through the variants: each (function, size, variant) comes up with some types. */
			for (uint32_t i = 0; i < sizeof large_sizes / sizeof large_sizes[0] && !self->failed; i++) {
				struct call c = make(func, type, large_sizes[i], &s);
				apply_variant(&c, (i + t + f) % VARIANTS);
				one(self, &large, &c);
				calls++;
			}
		}
	}
	call_buffers_free(self, &small);
	call_buffers_free(self, &large);
	if (self->rank == 0)
		fleet_say("matrix: %u calls: %s", calls, self->failed ? "FAILED" : "ok");
}

/* Both ranks with memory of that kind, or rank 0 alone. False: this machine has none. */
static bool memory_kind(struct world_rank *self, enum gpu_memory_kind kind, bool both)
{
	static const size_t sizes[] = {8, 4096, 100000, 1 << 20, 3 << 20};
	struct call_buffers b;
	struct gpu_memory memory;
	uint64_t s = seed + kind;
	size_t room = 6 << 20;
	if (call_buffers_make(self, &b, room) != 0)
		return false;
	uint8_t *own = b.memory;
	int made = gpu_memory_make(&memory, both || self->rank == 0 ? kind : GPU_MALLOC, 2 * room + 8192);
	if (made != 0) {
		if (made < 0)
			world_fail(self, "%s: %s", gpu_memory_name(kind), gpu_error());
		else if (self->rank == 0)
			fleet_say("memory of %s: not run: this machine has none", gpu_memory_name(kind));
		goto done;
	}
	b.memory = memory.base;
	for (uint32_t f = 0; f < CALL_FUNCS; f++)
		for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0] && !self->failed; i++) {
			struct call c = make(call_func(f), reduces(call_func(f)) ? fleet_draw_type(&s) : MARROW_UINT8, sizes[i], &s);
			apply_variant(&c, (i + f) % VARIANTS);
			one(self, &b, &c);
		}
	b.memory = own;
	if (self->rank == 0)
		fleet_say("memory of %s on %s: %s", gpu_memory_name(kind), both ? "both ranks" : "one rank", self->failed ? "FAILED" : "ok");
	gpu_memory_free(&memory);
done:
	call_buffers_free(self, &b);
	return made == 0;
}

static void expect_refused(struct world_rank *self, const char *what, const void *send, void *recv, const char *const *words)
{
	enum marrow_status status = marrow_all_gather(send, recv, 1000, MARROW_UINT8, self->comms[0], self->streams[0]);
	const char *text = marrow_last_error(self->comms[0]);
	if (status != MARROW_INVALID_ARGUMENT) {
		world_fail(self, "%s: status %d (%s), not MARROW_INVALID_ARGUMENT", what, (int)status, marrow_status_string(status));
		return;
	}
	for (; *words; words++)
		if (!strstr(text, *words))
			world_fail(self, "%s: the text lacks \"%s\": %s", what, *words, text);
	if (self->rank == 0)
		fleet_say("%s: refused: %s", what, text);
}

static void refusals(struct world_rank *self)
{
	static const char *const other[] = {"all_gather", "send", "another device", NULL};
	static const char *const plain[] = {"all_gather", "recv", "ordinary host memory", "cudaMalloc", NULL};
	static const char *const null[] = {"all_gather", "recv", "NULL", NULL};
	void *good = NULL, *wrong = NULL, *heap = malloc(4096);
	struct call_buffers b;
	uint64_t s = seed;
	if (device_alloc(&good, 4096) != 0 || device_set((int)(self->rank + 1) % 2) != 0 || device_alloc(&wrong, 4096) != 0 ||
	    device_set((int)self->rank) != 0) {
		world_fail(self, "cannot allocate: %s", device_error());
		return;
	}
	expect_refused(self, "buffer of another device", wrong, good, other);
	expect_refused(self, "buffer of malloc", good, heap, plain);
	expect_refused(self, "no buffer", good, NULL, null);
	/* Nothing was started: the next call works. */
	if (call_buffers_make(self, &b, SMALL_ROOM) == 0) {
		struct call c = make(MRW_FUNC_ALL_GATHER, MARROW_UINT8, 1000, &s);
		one(self, &b, &c);
		call_buffers_free(self, &b);
	}
	int device = -1;
	if (gpu_current_device(&device) != 0 || device != (int)self->rank)
		world_fail(self, "calls left device %d current instead of %u", device, self->rank);
	device_free(good);
	device_free(wrong);
	free(heap);
}

static void run(struct world_rank *self)
{
	matrix(self);
	for (int kind = 0; kind < GPU_MEMORY_KINDS && !self->failed; kind++) {
		if (memory_kind(self, (enum gpu_memory_kind)kind, true) && kind != GPU_MALLOC && !self->failed)
			memory_kind(self, (enum gpu_memory_kind)kind, false);
	}
	if (!self->failed)
		refusals(self);
}

int main(void)
{
	struct world w = {.target = MARROW_TARGET_CUDA, .nranks = RANKS, .ncomms = 1};
	const char *why;
	if (fleet_gpus(&why) == 0) {
		printf("skipped: %s\n", why);
		return 77;
	}
	seed = world_seed();
	int failed = fleet_run(&w, LIMIT_S, run);
	printf("processes: %s\n", failed ? "FAILED" : "ok");
	return failed ? 1 : 0;
}
