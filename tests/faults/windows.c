/* windows.c - registered receive buffers: that results go there directly, what else may be said of a window and what may not, and ranks that fail or
 * disagree meanwhile.
 *
 * windows [--target host|cuda] */
#include "crew.h"
#include "verdict.h"

#include "comm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { BYTES = 4 << 20, COUNT = 200000, INIT_MS = 60000, LEARN_MS = 2000, FEW = 64 };

/* What a rank works with: memory that may be registered, as send and recv of its ground. */
struct land {
	struct ground ground;
	uint8_t *memory;
};

static void want(struct crew_member *self, const char *what, enum marrow_status got, enum marrow_status status, const char *words)
{
	const char *text = marrow_last_error(NULL);
	if (got != status)
		crew_fail(self, "%s: %s, not %s: %s", what, marrow_status_string(got), marrow_status_string(status), got ? text : "");
	char copy[512], *rest = copy;
	snprintf(copy, sizeof copy, "%s", words);
	for (char *word; got != MARROW_SUCCESS && (word = strtok_r(rest, "|", &rest));)
		if (!strstr(text, word))
			crew_fail(self, "%s: no \"%s\" in: %s", what, word, text);
}

static void good(struct crew_member *self, const char *what, enum marrow_status got)
{
	want(self, what, got, MARROW_SUCCESS, "");
}

/* The ground's recv is now memory of marrow_mem_alloc(). */
static void settle(struct crew_member *self, struct land *land)
{
	void *memory = NULL;
	good(self, "memory", marrow_mem_alloc(&memory, BYTES, self->target));
	mrw_comm_set_places(self->comm);
	land->ground = self->ground;
	land->memory = memory;
	land->ground.recv = memory;
	if (!memory)
		exit(1);
}

static void forsake(struct crew_member *self, struct land *land)
{
	if (ground_settle(&land->ground) != 0)
		crew_fail(self, "the stream does not end");
	meet(&self->board->meeting, self->size); /* GPUs that ranks share: freeing waits for all kernels */
	good(self, "free", marrow_mem_free(land->memory));
}

/* 64 bits over each format of this rank's staging. */
static void look(struct crew_member *self, uint64_t digest[MRW_FORMATS])
{
	struct marrow_comm *comm = self->comm;
	const struct mrw_layout *l = &comm->args.layout;
	for (uint32_t f = 0; f < MRW_FORMATS; f++) {
		uint64_t from = l->staging_offset[f], bytes = (f + 1 < MRW_FORMATS ? l->staging_offset[f + 1] : l->lanes_offset) - from;
		uint64_t h = 0xcbf29ce484222325u, *copy = malloc(bytes);
		if (!copy || comm->device.runtime->poke(&comm->device, copy, comm->arena.base + from, bytes) != MARROW_SUCCESS)
			exit(1);
		for (uint64_t i = 0; i < bytes / 8; i++) {
			h = (h ^ copy[i]) * 0x100000001b3u;
			h ^= h >> 32;
		}
		free(copy);
		digest[f] = h;
	}
}

static const struct act acts[] = {
	{MRW_FUNC_ALL_REDUCE, COUNT, MARROW_FLOAT32, MARROW_SUM, 0},
	{MRW_FUNC_ALL_GATHER, COUNT, MARROW_FLOAT32, MARROW_SUM, 0},
	{MRW_FUNC_BROADCAST, COUNT, MARROW_FLOAT32, MARROW_SUM, 1},
	{MRW_FUNC_REDUCE, COUNT, MARROW_FLOAT32, MARROW_SUM, 1},
	{MRW_FUNC_ALL_GATHER, COUNT - 1, MARROW_FLOAT32, MARROW_SUM, 0}, /* blocks at odd addresses */
};

/* Which formats of this rank's staging its results come through if it is not in a window: bit f. 0: none come. */
static uint32_t ways(const struct crew_member *self, const struct act *act)
{
	bool two = self->size == 2;
	switch (act->func) {
	case MRW_FUNC_ALL_REDUCE:
		return 2;
	case MRW_FUNC_ALL_GATHER:
		return 1;
	case MRW_FUNC_BROADCAST:
		return self->rank == act->root ? 0 : two ? 1 : 3;
	default: /* over two ranks the root has what it needs */
		return self->rank != act->root || two ? 0 : 2;
	}
}

/* Runs act with a value of its own into recv. The formats of this rank's staging that anything came through. */
static uint32_t through(struct crew_member *self, struct land *land, const struct act *act, uint8_t *recv, float value)
{
	struct ground g = land->ground;
	uint64_t before[MRW_FORMATS], after[MRW_FORMATS];
	uint32_t blocks = act->func == MRW_FUNC_ALL_GATHER ? self->size : 1, came = 0;
	float sum = 0;
	for (uint32_t r = 0; r < self->size; r++)
		sum += value + (float)r;
	g.recv = recv;
	ground_fill(&g, value + (float)self->rank, COUNT);
	meet(&self->board->meeting, self->size); /* staging is looked at while nobody writes there */
	look(self, before);
	meet(&self->board->meeting, self->size);
	good(self, "call", act_done(act, &g, self->comm));
	meet(&self->board->meeting, self->size);
	look(self, after);
	for (uint32_t r = 0; r < blocks && (act->func != MRW_FUNC_REDUCE || self->rank == act->root); r++)
		for (size_t element = 0; element < act->count; element += act->count / 2 - 1) {
			float got = ground_result(&g, r * act->count + element);
			float right = blocks > 1 ? value + (float)r : act->func == MRW_FUNC_BROADCAST ? value + (float)act->root : sum;
			if (got != right)
				crew_fail(self, "%s: element %zu of block %u is %g, not %g", mrw_func_name(act->func), element, r, (double)got, (double)right);
		}
	for (uint32_t f = 0; f < MRW_FORMATS; f++)
		came |= (uint32_t)(before[f] != after[f]) << f;
	return came;
}

/* Results go past the staging of who has its output in a window, and of nobody else. */
static void direct(struct crew_member *self)
{
	static const char *const cases[] = {"registered", "at an odd address", "beyond the window", "registered here and there", "over"};
	struct land land;
	struct marrow_window *window = NULL;
	float value = 1;
	size_t bytes = BYTES - 4096;
	crew_init(self, BYTES, INIT_MS);
	settle(self, &land);
	mrw_comm_set_algo(self->comm, MRW_ALGO_BULK);
	good(self, "register", marrow_window_register(self->comm, land.memory, bytes, &window));
	for (uint32_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
		bool mine = c == 0 || (c == 3 && self->rank % 2);
		if (c == 4)
			good(self, "deregister", marrow_window_deregister(self->comm, window));
		for (uint32_t i = 0; i < sizeof acts / sizeof acts[0]; i++) {
			bool odd = acts[i].func == MRW_FUNC_ALL_GATHER && acts[i].count % 4 != 0;
			size_t out = 4 * acts[i].count * (acts[i].func == MRW_FUNC_ALL_GATHER ? self->size : 1);
			uint8_t *recv = c == 1 ? land.memory + 4 : c == 2 ? land.memory + (bytes - out) / 16 * 16 + 16 : c == 3 && !mine ? self->ground.recv : land.memory;
			uint32_t mask = ways(self, &acts[i]), came = through(self, &land, &acts[i], recv, value) & mask;
			if (came != (mine && !odd ? 0 : mask))
				crew_fail(self, "%s, %s: through formats %x of %x", cases[c], mrw_func_name(acts[i].func), came, mask);
			value += 16;
		}
	}
	forsake(self, &land);
	crew_finish(self);
}

static void run(const char *what, enum marrow_target target, uint32_t size, void (*body)(struct crew_member *), uint32_t killed)
{
	char name[96];
	struct crew crew = {.doing = name, .target = target, .size = size, .seconds = 60};
	snprintf(name, sizeof name, "%s, %u ranks", what, size);
	crew_start(&crew, body);
	expect_true(name, crew_end(&crew, killed) == 0);
}

/* Rank 1 has one left, too few for what it is to receive. */
static void short_of_descriptors(struct crew_member *self, struct land *land)
{
	struct marrow_window *w = NULL;
	struct rlimit limit, fewer;
	bool poor = self->rank == 1;
	int next = dup(STDERR_FILENO);
	close(next);
	getrlimit(RLIMIT_NOFILE, &limit);
	fewer = limit;
	fewer.rlim_cur = (rlim_t)next + 1;
	if (poor && setrlimit(RLIMIT_NOFILE, &fewer) != 0)
		crew_fail(self, "cannot limit descriptors");
	enum marrow_status status = marrow_window_register(self->comm, land->memory, BYTES, &w);
	want(self, "no descriptors", status, poor ? MARROW_SYSTEM_ERROR : MARROW_REMOTE_ERROR, poor ? "descriptor|ulimit -n" : "rank 1|ulimit -n");
	if (poor)
		setrlimit(RLIMIT_NOFILE, &limit);
}

/* Calls that are wrong on one rank fail on all, and what was before goes on. */
static void refused(struct crew_member *self)
{
	struct land land;
	struct marrow_window *w = (struct marrow_window *)(uintptr_t)1, *other = NULL, *many[MRW_MAX_WINDOWS];
	bool odd = self->rank == 1;
	const struct act act = acts[0];
	crew_init(self, BYTES, INIT_MS);
	settle(self, &land);
	good(self, "group", marrow_group_start());
	want(self, "in a group", marrow_window_register(self->comm, land.memory, BYTES, &w), MARROW_INVALID_USAGE, "marrow_window_register|group");
	want(self, "in a group", marrow_window_deregister(self->comm, NULL), MARROW_INVALID_USAGE, "marrow_window_deregister|group");
	good(self, "group", marrow_group_end());
	want(self, "no communicator", marrow_window_register(NULL, land.memory, BYTES, &w), MARROW_INVALID_ARGUMENT, "communicator is NULL");

#define ONE_ODD(what, odds, evens, words) \
	do { \
		want(self, what, odd ? marrow_window_register odds : marrow_window_register evens, odd ? MARROW_INVALID_ARGUMENT : MARROW_REMOTE_ERROR, \
		     odd ? words : "rank 1|" words); \
		if (w != NULL) \
			crew_fail(self, "%s: there is a window", what); \
	} while (0)
	ONE_ODD("no buffer", (self->comm, NULL, BYTES, &w), (self->comm, land.memory, BYTES, &w), "buffer is NULL");
	ONE_ODD("no bytes", (self->comm, land.memory, 0, &w), (self->comm, land.memory, BYTES, &w), "0 bytes");
	ONE_ODD("other memory", (self->comm, self->ground.send, 64, &w), (self->comm, land.memory, BYTES, &w), "no memory of marrow_mem_alloc");
	ONE_ODD("too much", (self->comm, land.memory + 4096, BYTES - 4095, &w), (self->comm, land.memory, BYTES, &w), "more than its buffer has there, 4190208");
	w = NULL;
	ONE_ODD("nowhere to put it", (self->comm, land.memory, BYTES, NULL), (self->comm, land.memory, BYTES, &w), "window is NULL");
#undef ONE_ODD
	short_of_descriptors(self, &land);
	want(self, "one registers, one gives up", odd ? marrow_window_register(self->comm, land.memory, BYTES, &w) : marrow_window_deregister(self->comm, NULL),
	     MARROW_MISMATCH, "the other one of");
	good(self, "after all that", act_done(&act, &land.ground, self->comm));
	good(self, "register", marrow_window_register(self->comm, land.memory, BYTES, &w));
	good(self, "again, a part", marrow_window_register(self->comm, land.memory + 4096, 4096, &other));
	want(self, "it is held", marrow_mem_free(land.memory), MARROW_INVALID_USAGE, "2 windows|marrow_window_deregister() first");
	want(self, "another one", marrow_window_deregister(self->comm, odd ? other : w), MARROW_MISMATCH, "rank 1 |number");
	want(self, "none", marrow_window_deregister(self->comm, odd ? NULL : w), MARROW_MISMATCH, "0: NULL");
	want(self, "not a window", marrow_window_deregister(self->comm, odd ? (struct marrow_window *)(void *)&land : w), odd ? MARROW_INVALID_ARGUMENT : MARROW_REMOTE_ERROR,
	     "no window of this communicator");
	good(self, "nothing", marrow_window_deregister(self->comm, NULL));
	good(self, "deregister", marrow_window_deregister(self->comm, w));
	want(self, "twice", marrow_window_deregister(self->comm, w), MARROW_INVALID_ARGUMENT, "no window of this communicator");
	want(self, "still held", marrow_mem_free(land.memory), MARROW_INVALID_USAGE, "1 window:");
	good(self, "deregister", marrow_window_deregister(self->comm, other));
	for (uint32_t i = 0; i < MRW_MAX_WINDOWS; i++)
		good(self, "one of many", marrow_window_register(self->comm, land.memory + 4096 * i, 4096 * (i + 1), &many[i]));
	want(self, "too many", marrow_window_register(self->comm, land.memory, BYTES, &w), MARROW_UNSUPPORTED, "32 windows");
	good(self, "one less", marrow_window_deregister(self->comm, many[7]));
	good(self, "room again", marrow_window_register(self->comm, land.memory, BYTES, &many[7]));
	good(self, "a call into the newest", act_done(&act, &land.ground, self->comm));
	/* The rest goes with the communicator. */
	if (ground_settle(&land.ground) != 0)
		crew_fail(self, "the stream does not end");
	crew_finish(self);
	meet(&self->board->meeting, self->size);
	good(self, "free", marrow_mem_free(land.memory));
}

/* A rank dies before, or others abort: nobody waits for it, and the memory can be had back. */
static void bereft(struct crew_member *self)
{
	struct land land;
	struct marrow_window *w = NULL, *late = NULL;
	crew_init(self, BYTES, INIT_MS);
	settle(self, &land);
	good(self, "register", marrow_window_register(self->comm, land.memory, BYTES, &w));
	good(self, "call", act_done(&acts[0], &land.ground, self->comm));
	meet(&self->board->meeting, self->size);
	if (self->rank == self->size - 1)
		kill(getpid(), SIGKILL);
	uint64_t start = now_ms();
	enum marrow_status status = marrow_window_register(self->comm, land.memory, BYTES, &late);
	if (status != MARROW_REMOTE_ERROR || late || now_ms() - start > limit_ms(LEARN_MS))
		crew_fail(self, "a rank is dead: %s after %llu ms", marrow_status_string(status), (unsigned long long)(now_ms() - start));
	status = marrow_window_deregister(self->comm, w);
	if (status != MARROW_REMOTE_ERROR || now_ms() - start > limit_ms(LEARN_MS))
		crew_fail(self, "deregister: %s after %llu ms", marrow_status_string(status), (unsigned long long)(now_ms() - start));
	good(self, "free", marrow_mem_free(land.memory));
	crew_finish(self);
}

/* A call that was captured when its window was there, and is replayed when it is gone: as if it had never been. */
static void replayed(struct crew_member *self)
{
	struct land land;
	struct marrow_window *w = NULL;
	struct mrw_task task;
	uint64_t before[MRW_FORMATS], after[MRW_FORMATS];
	void *out;
	crew_init(self, BYTES, INIT_MS);
	settle(self, &land);
	mrw_comm_set_algo(self->comm, MRW_ALGO_BULK);
	good(self, "register", marrow_window_register(self->comm, land.memory, BYTES, &w));
	ground_fill(&land.ground, (float)(1 + self->rank), COUNT);
	out = land.ground.recv;
	good(self, "plan", mrw_plan_call(self->comm, MRW_FUNC_ALL_GATHER, land.ground.send, out, COUNT, MARROW_FLOAT32, MARROW_SUM, 0, land.ground.stream, &task));
	look(self, before);
	meet(&self->board->meeting, self->size);
	good(self, "issue", mrw_issue(&task));
	if (ground_settle(&land.ground) != 0)
		crew_fail(self, "the stream does not end");
	look(self, after);
	if (before[0] != after[0])
		crew_fail(self, "through staging although it is in a window");
	good(self, "deregister", marrow_window_deregister(self->comm, w));
	good(self, "register another", marrow_window_register(self->comm, land.memory + BYTES - 4096, 4096, &w));
	ground_fill(&land.ground, (float)(7 + self->rank), COUNT);
	meet(&self->board->meeting, self->size);
	good(self, "issue again", mrw_issue(&task));
	if (ground_settle(&land.ground) != 0)
		crew_fail(self, "the stream does not end");
	for (uint32_t r = 0; r < self->size; r++)
		if (ground_result(&land.ground, r * COUNT + COUNT / 2) != (float)(7 + r))
			crew_fail(self, "block %u is wrong", r);
	meet(&self->board->meeting, self->size);
	look(self, after);
	if (before[0] == after[0])
		crew_fail(self, "past staging although its window is gone");
	good(self, "deregister", marrow_window_deregister(self->comm, w));
	forsake(self, &land);
	crew_finish(self);
}

/* Who receives into a window is told at once of another call, and nothing is written. */
static void mismatched(struct crew_member *self)
{
	struct land land;
	struct marrow_window *w = NULL;
	struct act act = acts[1];
	crew_init(self, BYTES, 20000);
	settle(self, &land);
	good(self, "register", marrow_window_register(self->comm, land.memory, 4 * FEW * 1024, &w));
	mrw_comm_set_algo(self->comm, MRW_ALGO_BULK);
	act.count = self->rank == 0 ? FEW : COUNT; /* too much for the window of rank 0 */
	land.ground.recv = self->rank == 0 ? land.memory : self->ground.recv;
	ground_fill(&land.ground, 7, COUNT);
	static uint64_t marks[BYTES / 8], seen[BYTES / 8];
	struct mrw_device *d = &self->comm->device;
	memset(marks, 0x5a, sizeof marks);
	if (d->runtime->poke(d, land.memory, marks, BYTES) != MARROW_SUCCESS)
		crew_fail(self, "cannot mark");
	meet(&self->board->meeting, self->size);
	enum marrow_status status = act_done(&act, &land.ground, self->comm);
	if (status != MARROW_MISMATCH)
		crew_fail(self, "%s, not a mismatch", marrow_status_string(status));
	meet(&self->board->meeting, self->size);
	if (d->runtime->poke(d, seen, land.memory, BYTES) != MARROW_SUCCESS || memcmp(marks + FEW * 64, seen + FEW * 64, BYTES - FEW * 512) != 0)
		crew_fail(self, "something was written");
	if (!strstr(marrow_last_error(self->comm), "windows]"))
		crew_fail(self, "no windows in: %s", marrow_last_error(self->comm));
	good(self, "deregister", marrow_window_deregister(self->comm, w) == MARROW_MISMATCH ? MARROW_SUCCESS : MARROW_INTERNAL_ERROR);
	forsake(self, &land);
	crew_finish(self);
}

int main(int argc, char **argv)
{
	enum marrow_target target = target_option(argc, argv);
	for (uint32_t n = 2; n <= 4; n++)
		run("direct", target, n, direct, 0);
	for (uint32_t n = 2; n <= 3; n++)
		run("refused", target, n, refused, 0);
	run("replayed", target, 3, replayed, 0);
	run("a rank dies", target, 3, bereft, 1u << 2);
	run("another call", target, 2, mismatched, 0);
	return failures() ? 1 : 0;
}
