/* graphs.c - captured collectives: all modes, many a graph, many replays with eager calls between, several streams in one capture,
 * conditional nodes; what was captured is kernels only and totally ordered; a replay that races an eager call is reported.
 *
 * Two ranks as processes: capture in global mode concerns every thread of a process. */
#include "cuda_helpers.h"
#include "fleet.h"
#include "support/call.h"
#include "support/device_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 2, LIMIT_S = 200, WAIT_MS = 30000, ROUNDS = 10, REPLAYS = 100, MAX_CALLS = 64 };
enum { MAIN_COMM, RACE_COMM, COMMS };

static uint64_t seed;

/* Calls of one graph with their buffers. */
struct set {
	struct call calls[MAX_CALLS];
	struct call_buffers buffers[MAX_CALLS];
	uint32_t count;
};

static bool add(struct world_rank *self, struct set *set, enum mrw_func func, size_t bytes, int32_t algo, uint32_t channels, uint64_t *s)
{
	struct call *c = &set->calls[set->count];
	if (set->count == MAX_CALLS)
		abort();
	memset(c, 0, sizeof *c);
	c->func = func;
	c->type = fleet_draw_type(s);
	c->op = (uint32_t)(world_random(s) % 5);
	c->count = (bytes + reference_type_bytes(c->type) - 1) / reference_type_bytes(c->type);
	c->root = (uint32_t)(world_random(s) % RANKS);
	c->algo = algo;
	c->channels = channels;
	c->misaligned = world_random(s) % 3 ? 0 : (uint32_t)(world_random(s) % 16);
	/* Replays repeat: only what reads no result of its own may be in place. */
	if (func == MRW_FUNC_ALL_GATHER || func == MRW_FUNC_BROADCAST)
		c->in_place = (uint32_t)(world_random(s) % 4);
	c->comm = MAIN_COMM;
	c->shape = world_random(s) | 1; /* the data change from replay to replay, counts do not */
	if (call_buffers_make(self, &set->buffers[set->count], 2 * bytes + 64) != 0)
		return false;
	set->count++;
	return true;
}

/* Every function in sizes of every algorithm. */
static bool fill_set(struct world_rank *self, struct set *set, uint64_t *s)
{
	static const size_t sizes[] = {8, 4096, 100000, 400000, 800000, 2 << 20};
	set->count = 0;
	for (uint32_t f = 0; f < MRW_FUNC_BARRIER; f++)
		for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
			if (!add(self, set, (enum mrw_func)f, sizes[i], -1, 0, s))
				return false;
	for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) /* in turn: sends and recvs of one group would be one node */
		for (uint32_t f = MRW_FUNC_COUNT; f < CALL_FUNCS; f++)
			if (!add(self, set, call_func(f), sizes[i], -1, 0, s))
				return false;
	for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i += 2)
		if (!add(self, set, MRW_FUNC_REDUCE, sizes[i], -1, 0, s) || !add(self, set, MRW_FUNC_REDUCE_SCATTER_V, sizes[i + 1], -1, 0, s))
			return false;
	return add(self, set, MRW_FUNC_BARRIER, 0, -1, 0, s) && add(self, set, MRW_FUNC_ALL_REDUCE, 30000, MRW_ALGO_BULK, 3, s) &&
		add(self, set, MRW_FUNC_ALL_GATHER, 30000, MRW_ALGO_BULK, 5, s) && add(self, set, MRW_FUNC_ALL_REDUCE, 0, -1, 0, s) &&
		add(self, set, MRW_FUNC_REDUCE_SCATTER, 5000, MRW_ALGO_ONESHOT, 7, s);
}

static void free_set(struct world_rank *self, struct set *set)
{
	for (uint32_t i = 0; i < set->count; i++)
		call_buffers_free(self, &set->buffers[i]);
	set->count = 0;
}

static void prepare_set(struct world_rank *self, struct set *set, uint64_t *s)
{
	for (uint32_t i = 0; i < set->count; i++) {
		set->calls[i].seed = world_random(s);
		set->calls[i].style = world_random(s) % 4 ? FILL_MIXED : FILL_SPECIAL;
		call_prepare(self, &set->buffers[i], &set->calls[i]);
	}
}

static void check_set(struct world_rank *self, struct set *set)
{
	for (uint32_t i = 0; i < set->count && !self->failed; i++)
		call_check(self, &set->buffers[i], &set->calls[i]);
}

static void order(struct world_rank *self, uint32_t from, uint32_t to)
{
	if (gpu_order(self->streams[from], self->streams[to]) != 0)
		world_fail(self, "ordering streams: %s", gpu_error());
}

static void replay(struct world_rank *self, void *exec, uint32_t times)
{
	for (uint32_t i = 0; i < times && !self->failed; i++)
		if (device_graph_launch(exec, self->streams[0]) != 0)
			world_fail(self, "replay: %s", device_error());
}

static void wait_streams(struct world_rank *self)
{
	for (int i = 0; i < WORLD_STREAMS; i++)
		if (gpu_stream_wait(self->streams[i], WAIT_MS) != 0)
			world_fail(self, "%s", gpu_error());
}

static bool end_capture(struct world_rank *self, void **graph, void **exec, size_t kernels, const char *what)
{
	struct gpu_graph_shape shape;
	if (gpu_capture_end(self->streams[0], graph, exec) != 0 || gpu_graph_look(*graph, &shape) != 0) {
		world_fail(self, "%s: %s", what, gpu_error());
		return false;
	}
	if (shape.nodes != kernels || shape.kernels != kernels)
		world_fail(self, "%s: %zu calls made %zu nodes, %zu of them kernels", what, kernels, shape.nodes, shape.kernels);
	if (!shape.total_order)
		world_fail(self, "%s: the nodes are not totally ordered: call order is lost", what);
	return !self->failed;
}

/* 1,000 replays in rounds; eager calls on both streams between them, ordered as the user must. */
static void replay_rounds(struct world_rank *self, struct set *set, struct set *eager, void *exec, uint32_t rounds, uint64_t *s)
{
	for (uint32_t round = 0; round < rounds && !self->failed; round++) {
		prepare_set(self, set, s);
		prepare_set(self, eager, s);
		for (uint32_t i = 0; i < eager->count; i++) {
			struct call *c = &eager->calls[i];
			replay(self, exec, REPLAYS / eager->count);
			c->stream = (round + i) % WORLD_STREAMS;
			if (c->stream != 0)
				order(self, 0, c->stream);
			call_issue(self, &eager->buffers[i], c);
			if (c->stream != 0)
				order(self, c->stream, 0);
		}
		replay(self, exec, REPLAYS % eager->count);
		wait_streams(self);
		check_set(self, set);
		check_set(self, eager);
	}
}

static bool make_eager(struct world_rank *self, struct set *eager, uint64_t *s)
{
	eager->count = 0;
	return add(self, eager, MRW_FUNC_ALL_REDUCE, 1000, -1, 0, s) && add(self, eager, MRW_FUNC_REDUCE_SCATTER, 700000, -1, 0, s) &&
		add(self, eager, MRW_FUNC_BROADCAST, 20000, -1, 0, s) && add(self, eager, MRW_FUNC_ALL_GATHER, 64, -1, 0, s);
}

static void capture_mode(struct world_rank *self, struct set *set, struct set *eager, enum device_capture mode, const char *name, uint64_t *s)
{
	void *graph = NULL, *exec = NULL;
	if (!fill_set(self, set, s))
		return;
	prepare_set(self, set, s);
	if (device_capture_begin(self->streams[0], mode) != 0)
		world_fail(self, "%s capture: %s", name, device_error());
	for (uint32_t i = 0; i < set->count && !self->failed; i++)
		call_issue(self, &set->buffers[i], &set->calls[i]);
	if (end_capture(self, &graph, &exec, set->count, name))
		replay_rounds(self, set, eager, exec, ROUNDS, s);
	if (self->rank == 0)
		fleet_say("%s capture: %u calls a graph, %d replays: %s", name, set->count, ROUNDS * REPLAYS, self->failed ? "FAILED" : "ok");
	gpu_graph_destroy(graph, exec);
	free_set(self, set);
}

/* Fork, calls on both streams, join: edges only, and in call order. grouped: in groups of two calls on different streams. */
static void two_streams(struct world_rank *self, struct set *set, struct set *eager, bool grouped, uint64_t *s)
{
	const char *name = grouped ? "two streams, groups" : "two streams";
	void *graph = NULL, *exec = NULL;
	if (!fill_set(self, set, s))
		return;
	prepare_set(self, set, s);
	if (device_capture_begin(self->streams[0], DEVICE_CAPTURE_THREAD_LOCAL) != 0)
		world_fail(self, "%s: %s", name, device_error());
	order(self, 0, 1);
	for (uint32_t i = 0; i < set->count && !self->failed; i++) {
		if (grouped && i % 2 == 0)
			marrow_group_start();
		set->calls[i].stream = grouped ? i % 2 : (uint32_t)(world_random(s) % WORLD_STREAMS);
		call_issue(self, &set->buffers[i], &set->calls[i]);
		if (grouped && (i % 2 == 1 || i + 1 == set->count) && marrow_group_end() != MARROW_SUCCESS)
			world_fail(self, "%s: group end: %s", name, marrow_last_error(NULL));
	}
	order(self, 1, 0);
	if (end_capture(self, &graph, &exec, set->count, name))
		replay_rounds(self, set, eager, exec, 2, s);
	if (self->rank == 0)
		fleet_say("%s in one capture: %u calls: %s", name, set->count, self->failed ? "FAILED" : "ok");
	gpu_graph_destroy(graph, exec);
	free_set(self, set);
}

struct capture_job {
	struct world_rank *self;
	struct set *set;
};

static int capture_job(void *arg)
{
	struct capture_job *job = arg;
	for (uint32_t i = 0; i < job->set->count; i++)
		call_issue(job->self, &job->set->buffers[i], &job->set->calls[i]);
	return job->self->failed ? -1 : 0;
}

static void read_outputs(struct world_rank *self, const struct set *set, uint8_t *to)
{
	for (uint32_t i = 0; i < set->count; i++) {
		size_t bytes = set->buffers[i].room;
		if (device_copy(to, set->buffers[i].recv, bytes) != 0)
			world_fail(self, "copy: %s", device_error());
		to += bytes;
	}
}

/* Replays with the condition off must leave the outputs alone, with it on fill them, in any sequence. */
static void run_conditional(struct world_rank *self, struct set *set, void *exec, uint32_t *word, uint64_t *s)
{
	size_t room = 0;
	for (uint32_t i = 0; i < set->count; i++)
		room += set->buffers[i].room;
	uint8_t *before = malloc(room), *after = malloc(room);
	if (!before || !after)
		abort();
	for (uint32_t round = 0; round < 20 && !self->failed; round++) {
		prepare_set(self, set, s);
		read_outputs(self, set, before);
		for (uint32_t i = 0; i < 10; i++)
			if (gpu_mark(self->streams[0], word, 0) != 0 || device_graph_launch(exec, self->streams[0]) != 0)
				world_fail(self, "conditional replay: %s%s", gpu_error(), device_error());
		wait_streams(self);
		read_outputs(self, set, after);
		if (memcmp(before, after, room) != 0)
			world_fail(self, "a graph whose condition is off wrote results");
		for (uint32_t i = 0; i < 20; i++) {
			uint32_t on = i == 10 || world_random(s) % 2; /* the same on both ranks */
			if (gpu_mark(self->streams[0], word, on) != 0 || device_graph_launch(exec, self->streams[0]) != 0)
				world_fail(self, "conditional replay: %s%s", gpu_error(), device_error());
		}
		wait_streams(self);
		check_set(self, set);
	}
	free(before);
	free(after);
}

static void conditional(struct world_rank *self, struct set *set, uint64_t *s)
{
	struct capture_job job = {self, set};
	struct gpu_graph_shape body;
	void *graph = NULL, *exec = NULL, *word = NULL;
	set->count = 0;
	if (!add(self, set, MRW_FUNC_ALL_REDUCE, 1000, -1, 0, s) || !add(self, set, MRW_FUNC_ALL_GATHER, 900000, -1, 0, s) ||
	    !add(self, set, MRW_FUNC_REDUCE_SCATTER, 900000, -1, 0, s) || !add(self, set, MRW_FUNC_BROADCAST, 50000, -1, 0, s))
		return;
	for (uint32_t i = 0; i < set->count; i++)
		set->calls[i].in_place = 0;
	prepare_set(self, set, s);
	if (device_alloc(&word, 4) != 0)
		world_fail(self, "cannot allocate: %s", device_error());
	int made = gpu_conditional_graph(self->streams[0], word, capture_job, &job, &graph, &exec, &body);
	if (made == 1) {
		if (self->rank == 0)
			fleet_say("conditional node: not run: this toolkit or driver has none (CUDA 12.4 is needed)");
	} else if (made != 0) {
		world_fail(self, "conditional graph: %s", gpu_error());
	} else {
		if (body.nodes != set->count || body.kernels != set->count || !body.total_order)
			world_fail(self, "conditional body: %u calls made %zu nodes, %zu of them kernels, in %s order", set->count, body.nodes,
				   body.kernels, body.total_order ? "total" : "no total");
		run_conditional(self, set, exec, word, s);
		if (self->rank == 0)
			fleet_say("conditional node: 600 replays: %s", self->failed ? "FAILED" : "ok");
	}
	gpu_graph_destroy(graph, exec);
	device_free(word);
	free_set(self, set);
}

static enum marrow_status poll_error(struct world_rank *self, struct marrow_comm *comm, uint32_t limit_ms)
{
	enum marrow_status error = MARROW_SUCCESS;
	uint64_t until = fleet_now_ms() + limit_ms;
	while (error == MARROW_SUCCESS && fleet_now_ms() < until) {
		if (marrow_comm_async_error(comm, &error) != MARROW_SUCCESS)
			world_fail(self, "async error: %s", marrow_last_error(NULL));
		usleep(1000);
	}
	return error;
}

/* Rank 0 replays on one stream and calls on another without ordering them, while rank 1 is late: both kernels are there at once. */
static void race(struct world_rank *self)
{
	enum { COUNT = 1 << 20 };
	struct marrow_comm *comm = self->comms[RACE_COMM];
	void *send = NULL, *recv = NULL, *graph = NULL, *exec = NULL;
	if (device_alloc(&send, COUNT) != 0 || device_alloc(&recv, COUNT * RANKS) != 0 ||
	    device_capture_begin(self->streams[0], DEVICE_CAPTURE_RELAXED) != 0) {
		world_fail(self, "race: %s", device_error());
		return;
	}
	if (marrow_all_gather(send, recv, COUNT, MARROW_UINT8, comm, self->streams[0]) != MARROW_SUCCESS)
		world_fail(self, "race: %s", marrow_last_error(comm));
	if (gpu_capture_end(self->streams[0], &graph, &exec) != 0) {
		world_fail(self, "race: %s", gpu_error());
		return;
	}
	if (self->rank == 1)
		usleep(500000);
	if (device_graph_launch(exec, self->streams[0]) != 0)
		world_fail(self, "race: %s", device_error());
	/* The call itself may already know of the fault. */
	enum marrow_status status = marrow_all_gather(send, recv, COUNT, MARROW_UINT8, comm, self->streams[1]);
	if (self->rank == 0 && status != MARROW_SUCCESS)
		world_fail(self, "race: the call was refused: %s", marrow_last_error(comm));
	enum marrow_status error = poll_error(self, comm, 10000);
	const char *text = marrow_last_error(comm);
	bool named = error == MARROW_INVALID_USAGE && strstr(text, "at once");
	if (!named && !(self->rank == 1 && error == MARROW_REMOTE_ERROR))
		world_fail(self, "race: async error is %d (%s): %s", (int)error, marrow_status_string(error), text);
	wait_streams(self);
	/* Sticky: a replay leaves at once. */
	if (device_graph_launch(exec, self->streams[0]) != 0 || gpu_stream_wait(self->streams[0], 2000) != 0)
		world_fail(self, "race: a replay after the fault: %s%s", device_error(), gpu_error());
	if (marrow_all_gather(send, recv, COUNT, MARROW_UINT8, comm, self->streams[1]) == MARROW_SUCCESS)
		world_fail(self, "race: a call after the fault succeeded");
	if (self->rank == 0)
		fleet_say("replay against eager call: %s: %s", self->failed ? "FAILED" : "ok", text);
	gpu_graph_destroy(graph, exec);
	device_free(send);
	device_free(recv);
}

static void run(struct world_rank *self)
{
	static struct set set, eager;
	uint64_t s = seed;
	if (!make_eager(self, &eager, &s))
		return;
	capture_mode(self, &set, &eager, DEVICE_CAPTURE_GLOBAL, "global", &s);
	if (!self->failed)
		capture_mode(self, &set, &eager, DEVICE_CAPTURE_THREAD_LOCAL, "thread-local", &s);
	if (!self->failed)
		capture_mode(self, &set, &eager, DEVICE_CAPTURE_RELAXED, "relaxed", &s);
	if (!self->failed)
		two_streams(self, &set, &eager, false, &s);
	if (!self->failed)
		two_streams(self, &set, &eager, true, &s);
	if (!self->failed)
		conditional(self, &set, &s);
	free_set(self, &eager);
	if (!self->failed)
		race(self);
}

int main(void)
{
	struct world w = {.target = MARROW_TARGET_CUDA, .nranks = RANKS, .ncomms = COMMS};
	const char *why;
	if (fleet_gpus(&why) == 0) {
		printf("skipped: %s\n", why);
		return 77;
	}
	seed = world_seed();
	int failed = fleet_run(&w, LIMIT_S, run);
	printf("graphs: %s\n", failed ? "FAILED" : "ok");
	return failed ? 1 : 0;
}
