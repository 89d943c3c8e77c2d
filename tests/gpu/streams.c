/* streams.c - whatever the streams, and even if they are gone, call order is execution order; groups join their streams; one thread drives
 * two GPUs; four communicators at once, called in another order on each rank, with memory allocated and freed in between; the library's memory
 * serves both devices. */
#include "cuda_helpers.h"
#include "fleet.h"
#include "support/call.h"
#include "support/device_memory.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 2, LIMIT_S = 150, WAIT_MS = 30000, CHAIN = 25000, CHAIN_CALLS = 6, CHAIN_SAMPLES = 40 };
enum { ITERATIONS = 10000, BLOCK = 100, COMMS = 4 };

static struct {
	uint64_t seed;
	struct meet *meet;
} shared;

static bool i32_built(void)
{
	return fleet_type_built(MARROW_INT32);
}

static void pass(struct world_rank *self, const char *what)
{
	if (self->rank == 0)
		fleet_say("%s: %s", what, self->failed ? "FAILED" : "ok");
}

/* Buffers of a chain: each call reads what the call before wrote. */
struct chain {
	uint32_t *x[4];
	uint32_t *host;
};

static bool chain_make(struct world_rank *self, struct chain *c)
{
	memset(c, 0, sizeof *c);
	c->host = malloc(CHAIN * 4);
	for (int i = 0; i < 4; i++)
		if (device_alloc((void **)&c->x[i], CHAIN * 4) != 0)
			world_fail(self, "cannot allocate: %s", device_error());
	return !self->failed && c->host;
}

static void chain_free(struct chain *c)
{
	for (int i = 0; i < 4; i++)
		device_free(c->x[i]);
	free(c->host);
}

static uint32_t chain_value(uint32_t sample, uint32_t rank, uint32_t i)
{
	return (sample * 2654435761u + rank * 40503u + i * 7919u) | 1u;
}

static void chain_reset(struct world_rank *self, struct chain *c, uint32_t sample)
{
	for (uint32_t i = 0; i < CHAIN; i++)
		c->host[i] = chain_value(sample, self->rank, i);
	if (device_copy(c->x[0], c->host, CHAIN * 4) != 0)
		world_fail(self, "copy: %s", device_error());
}

/* x0 -> x1 -> x2 -> x3 -> x0: multiplies by nranks, summed over the ranks. count: bulk or packets. */
static void chain_call(struct world_rank *self, struct chain *c, uint32_t step, uint32_t count, void *stream)
{
	struct marrow_comm *comm = self->comms[0];
	uint32_t half = count / RANKS;
	enum marrow_status status;
	switch (step % 4) {
	case 0:
		status = marrow_all_reduce(c->x[0], c->x[1], count, MARROW_INT32, MARROW_SUM, comm, stream);
		break;
	case 1:
		status = marrow_broadcast(c->x[1], c->x[2], count, MARROW_INT32, step / 4 % RANKS, comm, stream);
		break;
	case 2:
		status = marrow_reduce_scatter(c->x[2], c->x[3], half, MARROW_INT32, MARROW_SUM, comm, stream);
		break;
	default:
		status = marrow_all_gather(c->x[3], c->x[0], half, MARROW_INT32, comm, stream);
	}
	if (status != MARROW_SUCCESS)
		world_fail(self, "chain: %s", marrow_last_error(comm));
}

/* x0 after cycles of four calls. */
static void chain_compare(struct world_rank *self, struct chain *c, uint32_t sample, uint32_t count, uint32_t cycles, const char *what)
{
	if (device_copy(c->host, c->x[0], count * 4) != 0)
		world_fail(self, "copy: %s", device_error());
	for (uint32_t i = 0; i < count && !self->failed; i++) {
		uint32_t want = RANKS * (chain_value(sample, 0, i) + chain_value(sample, 1, i));
		for (uint32_t k = 1; k < cycles; k++)
			want *= RANKS * RANKS;
		if (c->host[i] != want)
			world_fail(self, "%s, sample %u: element %u is %x, not %x", what, sample, i, c->host[i], want);
	}
}

static void wait_all(struct world_rank *self, void *const *streams, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (gpu_stream_wait(streams[i], WAIT_MS) != 0)
			world_fail(self, "%s", gpu_error());
}

/* Calls jump between two streams that are held up at random: only the library can keep them in order. */
static void alternate(struct world_rank *self)
{
	struct chain c;
	uint64_t s = shared.seed * 7 + self->rank;
	if (!chain_make(self, &c))
		return;
	for (uint32_t sample = 0; sample < CHAIN_SAMPLES && !self->failed; sample++) {
		uint32_t count = sample % 2 ? CHAIN : 2000;
		chain_reset(self, &c, sample);
		for (uint32_t step = 0; step < 4 * CHAIN_CALLS && !self->failed; step++) {
			void *stream = self->streams[world_random(&s) % WORLD_STREAMS];
			if (world_random(&s) % 4 == 0 && gpu_delay(stream, world_random(&s) % 300000) != 0)
				world_fail(self, "delay: %s", gpu_error());
			chain_call(self, &c, step, count, stream);
		}
		wait_all(self, self->streams, WORLD_STREAMS);
		chain_compare(self, &c, sample, count, CHAIN_CALLS, "alternating streams");
	}
	chain_free(&c);
	pass(self, "alternating streams");
}

/* A group over both streams waits for the work on both, and both wait for it: copies around it show. */
static void grouped(struct world_rank *self)
{
	struct chain c;
	uint32_t *input = NULL;
	uint64_t s = shared.seed * 11 + self->rank;
	if (!chain_make(self, &c) || device_alloc((void **)&input, CHAIN * 4) != 0)
		return;
	for (uint32_t sample = 0; sample < CHAIN_SAMPLES && !self->failed; sample++) {
		void *late = self->streams[sample % WORLD_STREAMS], *other = self->streams[(sample + 1) % WORLD_STREAMS];
		chain_reset(self, &c, sample);
		if (device_copy(input, c.x[0], CHAIN * 4) != 0 || device_fill_bytes(c.x[0], 0, CHAIN * 4) != 0)
			world_fail(self, "copy: %s", device_error());
		/* The input arrives late, on one of the two streams. */
		if (gpu_delay(late, world_random(&s) % 500000) != 0 || gpu_copy_async(c.x[0], input, CHAIN * 4, late) != 0)
			world_fail(self, "delay: %s", gpu_error());
		marrow_group_start();
		chain_call(self, &c, 0, CHAIN, sample % 3 ? other : late);
		marrow_group_start();
		chain_call(self, &c, 1, CHAIN, late);
		marrow_group_end();
		chain_call(self, &c, 2, CHAIN, other);
		chain_call(self, &c, 3, CHAIN, late);
		if (marrow_group_end() != MARROW_SUCCESS)
			world_fail(self, "group end: %s", marrow_last_error(NULL));
		/* Whichever stream: its next work comes after the whole group. */
		if (gpu_copy_async(input, c.x[0], CHAIN * 4, world_random(&s) % 2 ? late : other) != 0)
			world_fail(self, "copy: %s", gpu_error());
		wait_all(self, self->streams, WORLD_STREAMS);
		uint32_t *output = c.x[0];
		c.x[0] = input;
		chain_compare(self, &c, sample, CHAIN, 1, "group over two streams");
		c.x[0] = output;
	}
	device_free(input);
	chain_free(&c);
	pass(self, "groups over two streams");
}

/* Each call on a stream that is made for it and destroyed behind it, with the call still under way; the next may get its handle. */
static void fleeting(struct world_rank *self)
{
	struct chain c;
	uint64_t s = shared.seed * 17 + self->rank;
	if (!chain_make(self, &c))
		return;
	for (uint32_t sample = 0; sample < CHAIN_SAMPLES && !self->failed; sample++) {
		uint32_t count = sample % 2 ? CHAIN : 2000;
		void *last = NULL;
		chain_reset(self, &c, sample);
		for (uint32_t step = 0; step < 4 * CHAIN_CALLS && !self->failed; step++) {
			void *stream = NULL;
			if (device_stream_create(&stream) != 0)
				world_fail(self, "cannot make a stream: %s", device_error());
			if (world_random(&s) % 4 == 0 && gpu_delay(stream, world_random(&s) % 300000) != 0)
				world_fail(self, "delay: %s", gpu_error());
			chain_call(self, &c, step, count, stream);
			if (last)
				device_stream_destroy(last);
			last = stream;
		}
		wait_all(self, &last, 1);
		device_stream_destroy(last);
		chain_compare(self, &c, sample, count, CHAIN_CALLS, "fleeting streams");
	}
	chain_free(&c);
	pass(self, "fleeting streams");
}

/* The stream of the last call is captured, for something else, when the next call comes on another one. */
static void captured_meanwhile(struct world_rank *self)
{
	struct chain c;
	void *graph = NULL;
	if (!chain_make(self, &c))
		return;
	chain_reset(self, &c, 1);
	chain_call(self, &c, 0, CHAIN, self->streams[0]);
	if (device_capture_begin(self->streams[0], DEVICE_CAPTURE_THREAD_LOCAL) != 0)
		world_fail(self, "capture: %s", device_error());
	chain_call(self, &c, 1, CHAIN, self->streams[1]);
	chain_call(self, &c, 2, CHAIN, self->streams[1]);
	if (device_capture_end(self->streams[0], &graph) != 0)
		world_fail(self, "capture: %s", device_error());
	device_graph_destroy(graph);
	chain_call(self, &c, 3, CHAIN, self->streams[0]);
	wait_all(self, self->streams, WORLD_STREAMS);
	chain_compare(self, &c, 1, CHAIN, 1, "a stream captured meanwhile");
	chain_free(&c);
	pass(self, "a stream captured meanwhile");
}

/* Four communicators, each on a stream of its own, which is gone before the communicator is. All calls of an iteration are made before
 * anything that may wait for the device (cudaFree does): so far the ranks need not agree on the order between communicators. */
static void many_comms(struct world_rank *self)
{
	struct world_rank on[COMMS];
	struct call_buffers buffers[COMMS];
	struct call calls[COMMS];
	void *streams[COMMS] = {NULL}, *scratch[8] = {NULL};
	uint64_t s = shared.seed, own = shared.seed * 13 + self->rank;
	for (uint32_t c = 0; c < COMMS; c++) {
		if (device_stream_create(&streams[c]) != 0) {
			world_fail(self, "cannot make a stream: %s", device_error());
			return;
		}
		on[c] = *self;
		on[c].streams[0] = streams[c];
		if (call_buffers_make(self, &buffers[c], 3 << 20) != 0)
			return;
	}
	for (uint32_t i = 0; i < ITERATIONS && !self->failed; i++) {
		if (i % BLOCK == 0)
			for (uint32_t c = 0; c < COMMS; c++) {
				memset(&calls[c], 0, sizeof calls[c]);
				calls[c].func = call_func((uint32_t)(world_random(&s) % CALL_FUNCS));
				calls[c].type = fleet_draw_type(&s);
				calls[c].op = (uint32_t)(world_random(&s) % 7);
				calls[c].root = (uint32_t)(world_random(&s) % RANKS);
				calls[c].algo = -1;
				calls[c].comm = c;
				calls[c].misaligned = (uint32_t)(world_random(&s) % 16);
				calls[c].seed = world_random(&s);
				uint64_t most = world_random(&s) % 4 ? 40000 : 1200000;
				calls[c].count = world_random(&s) % most / reference_type_bytes(calls[c].type);
				call_prepare(&on[c], &buffers[c], &calls[c]);
			}
		uint32_t order[COMMS] = {0, 1, 2, 3};
		for (uint32_t k = COMMS - 1; k > 0; k--) {
			uint32_t j = (uint32_t)(world_random(&own) % (k + 1)), swap = order[k];
			order[k] = order[j];
			order[j] = swap;
		}
		for (uint32_t k = 0; k < COMMS; k++)
			call_issue(&on[order[k]], &buffers[order[k]], &calls[order[k]]);
		if (i % 10 == 9) {
			void **slot = &scratch[world_random(&own) % 8];
			device_free(*slot);
			if (device_alloc(slot, 1 + world_random(&own) % (8 << 20)) != 0)
				world_fail(self, "cannot allocate: %s", device_error());
		}
		if (i % BLOCK == BLOCK - 1)
			for (uint32_t c = 0; c < COMMS; c++) {
				if (gpu_stream_wait(streams[c], WAIT_MS) != 0)
					world_fail(self, "communicator %u, iteration %u: %s", c, i, gpu_error());
				call_check(&on[c], &buffers[c], &calls[c]);
			}
		for (uint32_t c = 0; c < COMMS; c++)
			self->failed |= on[c].failed;
	}
	for (uint32_t i = 0; i < 8; i++)
		device_free(scratch[i]);
	for (uint32_t c = 0; c < COMMS; c++)
		call_buffers_free(self, &buffers[c]);
	pass(self, "four communicators, 10000 iterations");
	if (!meet_wait(shared.meet, RANKS, 60))
		world_fail(self, "the other rank did not come so far");
	for (uint32_t c = 0; c < COMMS; c++)
		device_stream_destroy(streams[c]);
}

static void run(struct world_rank *self)
{
	if (i32_built()) {
		alternate(self);
		if (!self->failed)
			grouped(self);
		if (!self->failed)
			fleeting(self);
		if (!self->failed)
			captured_meanwhile(self);
	} else if (self->rank == 0) {
		fleet_say("chains: not run: this build does not reduce int32");
	}
	if (!self->failed)
		many_comms(self);
}

static struct call draw(uint64_t *s)
{
	struct call c;
	memset(&c, 0, sizeof c);
	c.func = call_func((uint32_t)(world_random(s) % CALL_FUNCS));
	c.type = fleet_draw_type(s);
	c.op = (uint32_t)(world_random(s) % 7);
	c.root = (uint32_t)(world_random(s) % RANKS);
	c.algo = -1;
	c.in_place = (uint32_t)(world_random(s) % 4);
	c.misaligned = (uint32_t)(world_random(s) % 16);
	c.seed = world_random(s);
	c.stream = (uint32_t)(world_random(s) % WORLD_STREAMS);
	c.count = world_random(s) % 200000 / reference_type_bytes(c.type);
	return c;
}

static int on_device(struct world_rank *rank)
{
	return device_set((int)rank->rank);
}

/* One round of a thread that is both ranks: with a group around the calls, or without (they only enqueue). */
static void drive(struct world_rank *ranks, struct call_buffers *buffers, bool group, uint64_t *s)
{
	struct call c = draw(s);
	int device = -1;
	for (uint32_t r = 0; r < RANKS; r++) {
		on_device(&ranks[r]);
		call_prepare(&ranks[r], &buffers[r], &c);
	}
	device_set(0);
	if (group)
		marrow_group_start();
	for (uint32_t r = 0; r < RANKS; r++)
		call_issue(&ranks[r], &buffers[r], &c);
	if (group && marrow_group_end() != MARROW_SUCCESS)
		world_fail(&ranks[0], "group end: %s", marrow_last_error(NULL));
	if (gpu_current_device(&device) != 0 || device != 0)
		world_fail(&ranks[0], "the calls left device %d current instead of 0", device);
	for (uint32_t r = 0; r < RANKS; r++) {
		on_device(&ranks[r]);
		call_check(&ranks[r], &buffers[r], &c);
	}
}

static int one_thread(void *arg)
{
	struct world w = {.target = MARROW_TARGET_CUDA, .nranks = RANKS, .ncomms = 1, .arg = arg};
	struct world_rank ranks[RANKS];
	struct call_buffers buffers[RANKS];
	struct marrow_unique_id id;
	struct marrow_config config = MARROW_CONFIG_INIT;
	uint64_t s = shared.seed;
	int failed = 0, device = -1;
	config.target = MARROW_TARGET_CUDA;
	config.timeout_ms = 20000;
	memset(ranks, 0, sizeof ranks);
	memset(buffers, 0, sizeof buffers);
	if (marrow_get_unique_id(&id) != MARROW_SUCCESS)
		return 1;
	marrow_group_start();
	for (uint32_t r = 0; r < RANKS; r++) {
		ranks[r].world = &w;
		ranks[r].rank = r;
		ranks[r].nranks = RANKS;
		if (on_device(&ranks[r]) != 0 || marrow_comm_init(&ranks[r].comms[0], RANKS, &id, r, &config) != MARROW_SUCCESS)
			world_fail(&ranks[r], "init in a group: %s", marrow_last_error(NULL));
	}
	if (marrow_group_end() != MARROW_SUCCESS) {
		world_fail(&ranks[0], "group end: %s", marrow_last_error(NULL));
		return 1;
	}
	if (gpu_current_device(&device) != 0 || device != RANKS - 1)
		world_fail(&ranks[0], "init in a group left device %d current", device);
	for (uint32_t r = 0; r < RANKS && !failed; r++) {
		int32_t where = -1;
		on_device(&ranks[r]);
		if (marrow_comm_device(ranks[r].comms[0], &where) != MARROW_SUCCESS || where != (int32_t)r)
			world_fail(&ranks[r], "is on device %d", where);
		for (int i = 0; i < WORLD_STREAMS; i++)
			if (device_stream_create(&ranks[r].streams[i]) != 0)
				world_fail(&ranks[r], "cannot make a stream: %s", device_error());
		failed |= call_buffers_make(&ranks[r], &buffers[r], 1 << 20) != 0;
	}
	for (uint32_t i = 0; i < 400 && !failed; i++) {
		drive(ranks, buffers, i % 2 == 0, &s);
		failed = ranks[0].failed || ranks[1].failed;
	}
	for (uint32_t r = 0; r < RANKS; r++) {
		on_device(&ranks[r]);
		call_buffers_free(&ranks[r], &buffers[r]);
		if (marrow_comm_destroy(ranks[r].comms[0]) != MARROW_SUCCESS)
			world_fail(&ranks[r], "destroy: %s", marrow_last_error(NULL));
		failed |= ranks[r].failed;
	}
	fleet_say("one thread, two devices: %s", failed ? "FAILED" : "ok");
	return failed;
}

/* Another thread's capture in the strictest mode, from before the init until after the destroy. */
struct holder {
	pthread_t thread;
	uint32_t begun, over; /* atomic */
	int failed;
};

static void *hold_capture(void *arg)
{
	struct holder *h = arg;
	void *stream = NULL, *graph = NULL;
	h->failed = device_set(0) != 0 || device_stream_create(&stream) != 0 || device_capture_begin(stream, DEVICE_CAPTURE_GLOBAL) != 0;
	__atomic_store_n(&h->begun, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&h->over, __ATOMIC_ACQUIRE))
		sched_yield();
	if (!h->failed && device_capture_end(stream, &graph) != 0) {
		fleet_say("the capture was broken: %s", device_error());
		h->failed = 1;
	}
	device_graph_destroy(graph);
	return NULL;
}

static int beside_capture(void *arg)
{
	enum { COUNT = 100000 };
	struct holder holder = {0};
	struct marrow_comm *comms[RANKS];
	struct marrow_unique_id id;
	struct marrow_config config = MARROW_CONFIG_INIT;
	void *streams[RANKS], *x[RANKS];
	float *values = malloc(COUNT * sizeof *values);
	int failed = values == NULL || marrow_get_unique_id(&id) != MARROW_SUCCESS;
	(void)arg;
	config.target = MARROW_TARGET_CUDA;
	config.timeout_ms = 20000;
	for (uint32_t r = 0; r < RANKS && !failed; r++) {
		for (uint32_t i = 0; i < COUNT; i++)
			values[i] = (float)(r + 1);
		failed = device_set((int)r) != 0 || device_stream_create(&streams[r]) != 0 || device_alloc(&x[r], COUNT * sizeof *values) != 0 ||
			 device_copy(x[r], values, COUNT * sizeof *values) != 0;
	}
	if (failed || pthread_create(&holder.thread, NULL, hold_capture, &holder) != 0)
		return 1;
	while (!__atomic_load_n(&holder.begun, __ATOMIC_ACQUIRE))
		sched_yield();
	marrow_group_start();
	for (uint32_t r = 0; r < RANKS; r++)
		failed |= device_set((int)r) != 0 || marrow_comm_init(&comms[r], RANKS, &id, r, &config) != MARROW_SUCCESS;
	failed |= marrow_group_end() != MARROW_SUCCESS;
	for (uint32_t r = 0; r < RANKS && !failed; r++)
		failed |= device_set((int)r) != 0 || marrow_all_reduce(x[r], x[r], COUNT, MARROW_FLOAT32, MARROW_SUM, comms[r], streams[r]) != MARROW_SUCCESS;
	if (failed)
		fleet_say("beside a capture: %s", marrow_last_error(NULL));
	for (uint32_t r = 0; r < RANKS && !failed; r++)
		if (marrow_comm_destroy(comms[r]) != MARROW_SUCCESS) {
			fleet_say("destroy beside a capture: %s", marrow_last_error(NULL));
			failed = 1;
		}
	__atomic_store_n(&holder.over, 1, __ATOMIC_RELEASE);
	pthread_join(holder.thread, NULL);
	failed |= holder.failed;
	for (uint32_t r = 0; r < RANKS && !failed; r++) {
		failed |= device_set((int)r) != 0 || device_copy(values, x[r], COUNT * sizeof *values) != 0;
		for (uint32_t i = 0; i < COUNT; i++)
			failed |= values[i] != 3;
	}
	free(values);
	fleet_say("init, calls and destroy beside a global capture: %s", failed ? "FAILED" : "ok");
	return failed;
}

/* Memory of the library's serves the process's other device too: it writes there, and copies go on while it is current. */
static int foreign_buffers(void *arg)
{
	enum { COUNT = 300000, BYTES = COUNT * 4 };
	const struct gpu_expect expect = {.result = GPU_COPY_OF_ROOT, .count = COUNT, .seed = 77, .rank = 0, .nranks = 1, .root = 0};
	struct gpu_wrong *wrong = NULL, host = {1, 0, 0, 0, 0};
	void *streams[RANKS] = {NULL}, *near = NULL, *copy = NULL;
	bool good = true;
	(void)arg;
	for (int i = 0; i < RANKS && good; i++)
		good = device_set(i) == 0 && gpu_load_kernels() == 0 && device_stream_create(&streams[i]) == 0;
	good = good && device_set(0) == 0 && device_alloc((void **)&wrong, sizeof *wrong) == 0 && device_fill_bytes(wrong, 0, sizeof *wrong) == 0;
	if (good && (marrow_mem_alloc(&near, BYTES, MARROW_TARGET_CUDA) != MARROW_SUCCESS ||
		     marrow_mem_alloc(&copy, BYTES, MARROW_TARGET_CUDA) != MARROW_SUCCESS)) {
		fleet_say("foreign buffers: %s", marrow_last_error(NULL));
		return 1;
	}
	good = good && device_set(1) == 0 && gpu_fill(streams[1], near, COUNT, expect.seed, 0) == 0 && gpu_stream_wait(streams[1], WAIT_MS) == 0 &&
	       gpu_copy_async(copy, near, BYTES, streams[0]) == 0 && device_set(0) == 0 && gpu_verify(streams[0], copy, &expect, wrong) == 0 &&
	       gpu_stream_wait(streams[0], WAIT_MS) == 0 && device_copy(&host, wrong, sizeof host) == 0;
	fleet_say("the library's memory used by another device: %s%s", good && host.wrong == 0 ? "ok" : "FAILED ", good ? "" : gpu_error());
	for (int i = 0; i < RANKS; i++)
		device_stream_destroy(streams[i]);
	device_free(wrong);
	return !(marrow_mem_free(near) == MARROW_SUCCESS && marrow_mem_free(copy) == MARROW_SUCCESS && good && host.wrong == 0);
}

int main(void)
{
	struct world w = {.target = MARROW_TARGET_CUDA, .nranks = RANKS, .ncomms = COMMS};
	const char *why;
	if (fleet_gpus(&why) == 0) {
		printf("skipped: %s\n", why);
		return 77;
	}
	shared.seed = world_seed();
	shared.meet = fleet_share(sizeof *shared.meet);
	int failed = fleet_run(&w, LIMIT_S, run);
	failed += fleet_child(60, one_thread, NULL) != 0;
	failed += fleet_child(60, beside_capture, NULL) != 0;
	failed += fleet_child(60, foreign_buffers, NULL) != 0;
	printf("streams: %s\n", failed ? "FAILED" : "ok");
	return failed ? 1 : 0;
}
