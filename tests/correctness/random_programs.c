/* random_programs.c - long sequences of random collectives, bits checked each time.
 *
 * random_programs [--target host|cuda] [--ranks N] [--ops N] [--team T] [--parallel] [--comms N] [--near-wrap] [--windows] [--room BYTES]
 * [--types f32,i8] [--timeout-ms N]: all ranks draw the same program from the seed: functions, roots, types, sizes across every
 * switch, channel counts, algorithms, groups, communicators, streams, replays, registrations, and per rank alignment, in-place, what is registered and
 * random stalls. */
#include "support/call.h"
#include "support/device_memory.h"

#include "comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SLOTS = 4 };

static struct {
	uint64_t ops;
	uint64_t seed;
	size_t room;
	uint32_t channels_max;
	enum marrow_type types[REFERENCE_TYPES];
	uint32_t ntypes;
} program;

static size_t draw_count(uint64_t *s, const struct call *call, uint32_t nranks)
{
	size_t limit = call_count_limit(call, nranks, program.room), elem = reference_type_bytes(call->type), count;
	static const size_t edges[] = {8, 16, 512, 2048, 4096, 8192, 16384, 32768, 65536, 131072};
	uint64_t kind = world_random(s) % 16;
	if (kind == 0)
		count = 0;
	else if (kind < 6)
		count = 1 + world_random(s) % 64;
	else if (kind < 10)
		count = 1 + world_random(s) % 2048;
	else if (kind < 14) /* around an edge, in bytes */
		count = (edges[world_random(s) % (sizeof edges / sizeof edges[0])] + world_random(s) % 64) / elem;
	else
		count = world_random(s) % (limit + 1);
	return count < limit ? count : limit;
}

static struct call draw(uint64_t *s, const struct world *w)
{
	struct call c;
	memset(&c, 0, sizeof c);
	uint32_t func = (uint32_t)(world_random(s) % (CALL_FUNCS + 2));
	c.func = func < CALL_FUNCS ? call_func(func) : MRW_FUNC_ALL_REDUCE;
	c.type = program.types[world_random(s) % program.ntypes];
	c.op = (uint32_t)(world_random(s) % 7);
	c.root = (uint32_t)(world_random(s) % w->nranks);
	c.channels = world_random(s) % 3 ? 0 : 1 + (uint32_t)(world_random(s) % program.channels_max);
	c.algo = world_ring(w) || world_random(s) % 2 ? -1
		 : world_rails(w) ? (int32_t)(MRW_ALGO_RAILSHOT + world_random(s) % 2)
		 : world_tree(w)  ? (int32_t)(MRW_ALGO_TREESHOT + world_random(s) % 2)
				  : (int32_t)(MRW_ALGO_ONESHOT + world_random(s) % (MRW_ALGO_RAILSHOT - MRW_ALGO_ONESHOT));
	c.in_place = world_random(s) % 2 ? 0 : (uint32_t)world_random(s);
	c.misaligned = world_random(s) % 2 ? 0 : (uint32_t)world_random(s);
	c.style = world_random(s) % 4 ? FILL_MIXED : FILL_SPECIAL;
	c.seed = world_random(s);
	c.comm = (uint32_t)(world_random(s) % w->ncomms);
	c.stream = (uint32_t)(world_random(s) % WORLD_STREAMS);
	c.count = draw_count(s, &c, w->nranks);
	return c;
}

static void run(struct world_rank *self)
{
	const struct world *w = self->world;
	uint64_t s = program.seed, stalls = program.seed * 31 + self->rank;
	struct call_buffers buffers[SLOTS];
	struct call calls[SLOTS];
	for (int i = 0; i < SLOTS; i++)
		if (call_buffers_make(self, &buffers[i], program.room) != 0)
			return;
	for (uint64_t done = 0; done < program.ops && !self->failed;) {
		if (w->windows && world_random(&s) % 8 == 0) {
			uint32_t slot = (uint32_t)(world_random(&s) % SLOTS);
			call_buffers_toggle(self, &buffers[slot], (uint32_t)(world_random(&s) % w->ncomms), &stalls);
		}
		uint32_t n = world_random(&s) % 4 ? 1 : 2 + (uint32_t)(world_random(&s) % (SLOTS - 1));
		for (uint32_t i = 0; i < n; i++) {
			calls[i] = draw(&s, w);
			calls[i].replays = n == 1 && world_random(&s) % 6 == 0 ? 1 + (uint32_t)(world_random(&s) % 5) : 0;
			if (calls[i].replays && w->target == MARROW_TARGET_CUDA)
				calls[i].in_place = 0; /* a replay would reduce its own result */
			call_prepare(self, &buffers[i], &calls[i]);
		}
		if (world_random(&stalls) % 16 == 0)
			usleep((useconds_t)(world_random(&stalls) % 300));
		if (n > 1)
			marrow_group_start();
		for (uint32_t i = 0; i < n; i++)
			call_issue(self, &buffers[i], &calls[i]);
		if (n > 1 && marrow_group_end() != MARROW_SUCCESS)
			world_fail(self, "group end: %s", marrow_last_error(NULL));
		for (uint32_t i = 0; i < n; i++)
			call_check(self, &buffers[i], &calls[i]);
		done += n;
		if (self->failed)
			world_fail(self, "at operation %llu of the program", (unsigned long long)done);
	}
	world_meet(self);
	for (int i = 0; i < SLOTS; i++)
		call_buffers_free(self, &buffers[i]);
}

static uint64_t number(char **v, int *i)
{
	if (!v[*i + 1]) {
		fprintf(stderr, "%s needs a number\n", v[*i]);
		exit(2);
	}
	return strtoull(v[++*i], NULL, 0);
}

/* Types by the names of messages; all of them if list is NULL. */
static void choose_types(char *list)
{
	for (uint32_t t = 0; t < REFERENCE_TYPES; t++)
		if (!list)
			program.types[program.ntypes++] = (enum marrow_type)t;
	for (char *p = list ? strtok(list, ",") : NULL; p; p = strtok(NULL, ","))
		for (uint32_t t = 0; t < REFERENCE_TYPES; t++)
			if (strcmp(mrw_type_name(t), p) == 0 && program.ntypes < REFERENCE_TYPES)
				program.types[program.ntypes++] = (enum marrow_type)t;
}

int main(int argc, char **v)
{
	char *types = NULL;
	struct world w = {.target = MARROW_TARGET_HOST, .nranks = 4, .ncomms = 2, .team_size = 1};
	program.ops = 1000;
	program.room = 256 << 10;
	for (int i = 1; i < argc; i++) {
		if (strcmp(v[i], "--target") == 0 && i + 1 < argc)
			w.target = strcmp(v[++i], "cuda") == 0 ? MARROW_TARGET_CUDA : MARROW_TARGET_HOST;
		else if (strcmp(v[i], "--ranks") == 0)
			w.nranks = (uint32_t)number(v, &i);
		else if (strcmp(v[i], "--ops") == 0)
			program.ops = number(v, &i);
		else if (strcmp(v[i], "--team") == 0)
			w.team_size = (uint32_t)number(v, &i);
		else if (strcmp(v[i], "--comms") == 0)
			w.ncomms = (uint32_t)number(v, &i);
		else if (strcmp(v[i], "--room") == 0)
			program.room = number(v, &i);
		else if (strcmp(v[i], "--types") == 0 && i + 1 < argc)
			types = v[++i];
		else if (strcmp(v[i], "--algo") == 0 && i + 1 < argc)
			w.algo = v[++i];
		else if (strcmp(v[i], "--timeout-ms") == 0)
			w.timeout_ms = number(v, &i);
		else if (strcmp(v[i], "--parallel") == 0)
			w.parallel_channels = true;
		else if (strcmp(v[i], "--windows") == 0)
			w.windows = true;
		else if (strcmp(v[i], "--near-wrap") == 0)
			w.set_seq = true;
		else {
			fprintf(stderr, "unknown option %s\n", v[i]);
			return 2;
		}
	}
	if (w.target == MARROW_TARGET_CUDA) {
		const char *why;
		if (world_gpus(&why) == 0) {
			printf("skipped: %s\n", why);
			return 77;
		}
	}
	choose_types(types);
	if (program.ntypes == 0 || w.nranks < 1 || w.nranks > WORLD_MAX_RANKS || w.ncomms < 1 || w.ncomms > WORLD_MAX_COMMS)
		return 2;
	program.seed = world_seed();
	program.channels_max = w.target == MARROW_TARGET_CUDA ? 64 : 4;
	if (w.set_seq) {
		/* Wraps within the program; every other time at once. */
		w.seq = 0u - 1 - (uint32_t)(program.seed / 2 % (program.seed % 2 ? 3 : 200));
		w.round = UINT64_MAX - program.seed % 500;
	}
	int failed = world_run(&w, run);
	printf("%llu operations on %u ranks: %s\n", (unsigned long long)program.ops, w.nranks, failed ? "FAILED" : "ok");
	return failed ? 1 : 0;
}
