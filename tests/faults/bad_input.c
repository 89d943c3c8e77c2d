/* bad_input.c - wrong calls on communicators: each gets its status and a text that says who, what and what to do, issues nothing,
 * breaks nothing, and leaves nothing behind.
 *
 * bad_input [--target host|cuda] */
#include "act.h"
#include "patience.h"
#include "verdict.h"

#include "support/device_memory.h"
#include "support/world.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 20 };
#define BAD_TYPE ((enum marrow_type)99)
#define BAD_OP ((enum marrow_op)7)

static const struct act good = {MRW_FUNC_ALL_REDUCE, 16, MARROW_FLOAT32, MARROW_SUM, 0};
static struct meeting meeting;

/* Calls on communicator c; its message, which is read after the call. */
#define EXPECT(call, want, words) \
	do { \
		enum marrow_status status_ = (call); \
		expect_status(#call, status_, want, marrow_last_error(c), words); \
	} while (0)
#define BAD(call, words) EXPECT(call, MARROW_INVALID_ARGUMENT, words)
#define FINE(call) EXPECT(call, MARROW_SUCCESS, "")

/* A right call after wrong ones is right. */
static void still_works(struct marrow_comm *c, struct ground *g, uint32_t ranks)
{
	enum marrow_status error;
	ground_fill(g, 2, good.count);
	FINE(act_done(&good, g, c));
	expect_true("the result after wrong calls", ground_result(g, 15) == (float)(2 * ranks));
	expect_status("async error", marrow_comm_async_error(c, &error), MARROW_SUCCESS, NULL, "");
	expect_true("wrong calls do not fail the communicator", error == MARROW_SUCCESS);
}

static void wrong_buffers(struct marrow_comm *c, const struct ground *g, uint32_t rank)
{
	uint8_t *s = g->send, *r = g->recv;
	void *st = g->stream;
	BAD(marrow_all_reduce(NULL, r, 1, MARROW_FLOAT32, MARROW_SUM, c, st), "all_reduce|rank|NULL|send|4 bytes");
	BAD(marrow_all_reduce(s, NULL, 1, MARROW_FLOAT32, MARROW_SUM, c, st), "all_reduce|rank|NULL|recv|4 bytes");
	BAD(marrow_reduce_scatter(NULL, r, 1, MARROW_FLOAT64, MARROW_SUM, c, st), "reduce_scatter|NULL|send");
	BAD(marrow_reduce_scatter(s, NULL, 1, MARROW_FLOAT64, MARROW_SUM, c, st), "reduce_scatter|NULL|recv");
	BAD(marrow_all_gather(NULL, r, 1, MARROW_INT8, c, st), "all_gather|NULL|send");
	BAD(marrow_all_gather(s, NULL, 1, MARROW_INT8, c, st), "all_gather|NULL|recv");
	BAD(marrow_broadcast(s, NULL, 1, MARROW_INT8, 0, c, st), "broadcast|NULL|recv");
	if (rank == 0)
		BAD(marrow_broadcast(NULL, r, 1, MARROW_INT8, 0, c, st), "broadcast|NULL|send");
	BAD(marrow_reduce(NULL, r, 1, MARROW_FLOAT32, MARROW_SUM, 0, c, st), "reduce|NULL|send");
	if (rank == 0)
		BAD(marrow_reduce(s, NULL, 1, MARROW_FLOAT32, MARROW_SUM, 0, c, st), "reduce|NULL|recv");
	size_t counts[4] = {1, 1, 1, 1}, none[4] = {0, 0, 0, 0};
	BAD(marrow_reduce_scatter_v(s, r, NULL, MARROW_FLOAT32, MARROW_SUM, c, st), "reduce_scatter_v|counts|NULL");
	BAD(marrow_reduce_scatter_v(NULL, r, counts, MARROW_FLOAT32, MARROW_SUM, c, st), "reduce_scatter_v|NULL|send");
	BAD(marrow_reduce_scatter_v(s, NULL, counts, MARROW_FLOAT32, MARROW_SUM, c, st), "reduce_scatter_v|NULL|recv");
	FINE(marrow_reduce_scatter_v(NULL, NULL, none, MARROW_FLOAT32, MARROW_SUM, c, st));
	FINE(marrow_reduce(s, rank == 0 ? r : NULL, 1, MARROW_FLOAT32, MARROW_SUM, 0, c, st));
	FINE(marrow_reduce(NULL, NULL, 0, MARROW_FLOAT32, MARROW_SUM, 0, c, st));
	FINE(marrow_all_reduce(NULL, NULL, 0, MARROW_FLOAT32, MARROW_SUM, c, st));
	FINE(marrow_all_gather(NULL, NULL, 0, MARROW_FLOAT32, c, st));
	FINE(marrow_broadcast(rank == 0 ? s : NULL, r, 1, MARROW_FLOAT32, 0, c, st));
}

static void wrong_values(struct marrow_comm *c, const struct ground *g, uint32_t ranks)
{
	uint8_t *s = g->send, *r = g->recv;
	void *st = g->stream;
	BAD(marrow_all_reduce(s, r, 1, BAD_TYPE, MARROW_SUM, c, st), "all_reduce|99|type");
	BAD(marrow_all_gather(s, r, 1, (enum marrow_type)-1, c, st), "all_gather|-1|type");
	BAD(marrow_broadcast(s, r, 0, BAD_TYPE, 0, c, st), "broadcast|99|type");
	BAD(marrow_all_reduce(s, r, 1, MARROW_FLOAT32, BAD_OP, c, st), "all_reduce|7|marrow_op");
	BAD(marrow_reduce_scatter(s, r, 1, MARROW_FLOAT32, (enum marrow_op)-1, c, st), "reduce_scatter|-1|marrow_op");
	BAD(marrow_all_reduce(s, r, 1, MARROW_FLOAT32, MARROW_OP_DYNAMIC, c, st), "16|marrow_op_create_premulsum");
	BAD(marrow_all_reduce(s, r, 1, MARROW_FLOAT32, MARROW_OP_MAX, c, st), "2147483647");
	BAD(marrow_broadcast(s, r, 1, MARROW_FLOAT32, ranks, c, st), ranks == 1 ? "root 1|0 to 0" : "root 2|0 to 1");
	BAD(marrow_broadcast(s, r, 1, MARROW_FLOAT32, UINT32_MAX, c, st), "root 4294967295");
	size_t counts[4] = {1, 1, 1, 1}, huge[4] = {SIZE_MAX / 4, SIZE_MAX / 4, SIZE_MAX / 4, SIZE_MAX / 4};
	BAD(marrow_reduce(s, r, 1, MARROW_FLOAT32, MARROW_SUM, ranks, c, st), ranks == 1 ? "reduce: root 1|0 to 0" : "reduce: root 2|0 to 1");
	BAD(marrow_reduce(s, r, 1, BAD_TYPE, MARROW_SUM, 0, c, st), "reduce|99|type");
	BAD(marrow_reduce(s, r, 1, MARROW_FLOAT32, BAD_OP, 0, c, st), "reduce|7|marrow_op");
	BAD(marrow_reduce(s, r, SIZE_MAX / 4, MARROW_FLOAT32, MARROW_SUM, 0, c, st), "reduce|overflows");
	BAD(marrow_reduce_scatter_v(s, r, counts, BAD_TYPE, MARROW_SUM, c, st), "reduce_scatter_v|99|type");
	BAD(marrow_reduce_scatter_v(s, r, counts, MARROW_FLOAT32, BAD_OP, c, st), "reduce_scatter_v|7|marrow_op");
	BAD(marrow_reduce_scatter_v(s, r, huge, MARROW_FLOAT32, MARROW_SUM, c, st), "reduce_scatter_v|overflow");
	BAD(marrow_all_reduce(s, r, (size_t)-1, MARROW_INT8, MARROW_SUM, c, st), "18446744073709551615|overflows|negative");
	BAD(marrow_all_reduce(s, r, (size_t)-5, MARROW_FLOAT64, MARROW_SUM, c, st), "overflows|f64");
	BAD(marrow_all_gather(s, r, (size_t)1 << 61, MARROW_FLOAT64, c, st), "all_gather|overflows");
	BAD(marrow_reduce_scatter(s, r, SIZE_MAX / 2 / ranks + 1, MARROW_INT8, MARROW_SUM, c, st), "reduce_scatter|overflows");
	BAD(marrow_broadcast(s, r, SIZE_MAX / 4, MARROW_FLOAT32, 0, c, st), "broadcast|overflows");
}

static void wrong_exchanges(struct marrow_comm *c, const struct ground *g, uint32_t rank, uint32_t ranks)
{
	uint8_t *s = g->send, *r = g->recv;
	void *st = g->stream;
	size_t n[2] = {1, 1}, d[2] = {0, 1}, huge[2] = {SIZE_MAX / 2, SIZE_MAX / 2};
	uint32_t other = (rank + 1) % ranks;
	BAD(marrow_send(s, 1, BAD_TYPE, other, c, st), "send|99|type");
	BAD(marrow_send(s, 1, MARROW_FLOAT32, ranks, c, st), ranks == 1 ? "send: peer 1|0 to 0" : "send: peer 2|0 to 1");
	BAD(marrow_recv(r, 1, MARROW_FLOAT32, UINT32_MAX, c, st), "recv: peer 4294967295");
	BAD(marrow_recv(r, (size_t)-1, MARROW_FLOAT64, 0, c, st), "recv|overflows|negative");
	if (ranks > 1) {
		BAD(marrow_send(NULL, 1, MARROW_FLOAT32, other, c, st), "send|rank|NULL|4 bytes");
		BAD(marrow_recv(NULL, 1, MARROW_FLOAT32, other, c, st), "recv|rank|NULL|4 bytes");
	}
	EXPECT(marrow_send(s, 1, MARROW_FLOAT32, rank, c, st), MARROW_INVALID_USAGE, "send|its own peer|marrow_group_start");
	EXPECT(marrow_recv(r, 1, MARROW_FLOAT32, rank, c, st), MARROW_INVALID_USAGE, "recv|its own peer|marrow_group_start");
	BAD(marrow_all_to_all(s, r, SIZE_MAX / ranks, MARROW_INT8, c, st), "all_to_all|overflows");
	BAD(marrow_all_to_all(NULL, r, 1, MARROW_INT8, c, st), "all_to_all|NULL|send");
	BAD(marrow_all_to_all(s, NULL, 1, MARROW_INT8, c, st), "all_to_all|NULL|recv");
	BAD(marrow_gather(s, r, 1, MARROW_INT8, ranks, c, st), "gather: root");
	BAD(marrow_gather(NULL, r, 1, MARROW_INT8, 0, c, st), "gather|NULL|send");
	BAD(marrow_scatter(s, NULL, 1, MARROW_INT8, 0, c, st), "scatter|NULL|recv");
	if (rank == 0) {
		BAD(marrow_gather(s, NULL, 1, MARROW_INT8, 0, c, st), "gather|NULL|recv");
		BAD(marrow_scatter(NULL, r, 1, MARROW_INT8, 0, c, st), "scatter|NULL|send");
	}
	BAD(marrow_all_to_all_v(s, NULL, d, r, n, d, MARROW_INT8, c, st), "all_to_all_v: send_counts is NULL");
	BAD(marrow_all_to_all_v(s, n, NULL, r, n, d, MARROW_INT8, c, st), "all_to_all_v: send_displs is NULL");
	BAD(marrow_all_to_all_v(s, n, d, r, NULL, d, MARROW_INT8, c, st), "all_to_all_v: recv_counts is NULL");
	BAD(marrow_all_to_all_v(s, n, d, r, n, NULL, MARROW_INT8, c, st), "all_to_all_v: recv_displs is NULL");
	BAD(marrow_all_to_all_v(s, huge, d, r, n, d, MARROW_INT32, c, st), "all_to_all_v|overflows");
	BAD(marrow_all_to_all_v(s, n, d, r, n, huge, MARROW_INT32, c, st), "all_to_all_v|overflows");
	BAD(marrow_all_gather_v(s, r, NULL, d, MARROW_INT8, c, st), "all_gather_v: counts is NULL");
	BAD(marrow_all_gather_v(s, r, n, NULL, MARROW_INT8, c, st), "all_gather_v: displs is NULL");
	BAD(marrow_all_gather_v(NULL, r, n, d, MARROW_INT8, c, st), "all_gather_v|NULL|send");
	/* Nothing of a group with a lone transfer to oneself goes out. */
	FINE(marrow_group_start());
	FINE(marrow_send(s, 1, MARROW_FLOAT32, rank, c, st));
	FINE(marrow_barrier(c, st));
	expect_status("a send to oneself alone", marrow_group_end(), MARROW_INVALID_USAGE, NULL, "send|with itself|no recv");
	FINE(marrow_group_start());
	FINE(marrow_send(s, 1, MARROW_FLOAT32, rank, c, st));
	FINE(marrow_recv(r, 2, MARROW_FLOAT32, rank, c, st));
	expect_status("a pair that differs", marrow_group_end(), MARROW_MISMATCH, NULL, "sends itself 4 bytes|receives 8");
	FINE(marrow_all_to_all(NULL, NULL, 0, MARROW_FLOAT32, c, st));
}

static void wrong_ops(struct marrow_comm *c, const struct ground *g)
{
	enum marrow_op op = MARROW_SUM, more[70];
	uint8_t *s = g->send, *r = g->recv;
	float scalar = 1;
	int n = 0;
	BAD(marrow_op_create_premulsum(NULL, &scalar, MARROW_FLOAT32, MARROW_SCALAR_HOST, c), "op is NULL");
	BAD(marrow_op_create_premulsum(&op, NULL, MARROW_FLOAT32, MARROW_SCALAR_HOST, c), "scalar is NULL");
	BAD(marrow_op_create_premulsum(&op, &scalar, BAD_TYPE, MARROW_SCALAR_HOST, c), "99|type");
	BAD(marrow_op_create_premulsum(&op, &scalar, MARROW_FLOAT32, (enum marrow_scalar_residence)2, c), "2|residence");
	BAD(marrow_op_destroy(MARROW_SUM, c), "0|premulsum");
	BAD(marrow_op_destroy(BAD_OP, c), "7|premulsum");
	BAD(marrow_op_destroy((enum marrow_op)(MARROW_OP_DYNAMIC + 64), c), "80|premulsum");
	BAD(marrow_op_destroy((enum marrow_op)-1, c), "-1|premulsum");
	FINE(marrow_op_create_premulsum(&op, &scalar, MARROW_FLOAT32, MARROW_SCALAR_HOST, c));
	BAD(marrow_all_reduce(s, r, 1, MARROW_INT32, op, c, g->stream), "f32|i32");
	FINE(marrow_op_destroy(op, c));
	BAD(marrow_all_reduce(s, r, 1, MARROW_FLOAT32, op, c, g->stream), "no operation of this communicator");
	BAD(marrow_op_destroy(op, c), "no premulsum");
	while (n < 70 && marrow_op_create_premulsum(&more[n], &scalar, MARROW_FLOAT32, MARROW_SCALAR_HOST, c) == MARROW_SUCCESS)
		n++;
	expect_true("64 premulsum operations fit", n == 64);
	expect_status("one operation too many", marrow_op_create_premulsum(&op, &scalar, MARROW_FLOAT32, MARROW_SCALAR_HOST, c),
		      MARROW_INVALID_USAGE, NULL, "64|destroy some");
	while (n > 0)
		FINE(marrow_op_destroy(more[--n], c));
}

static void wrong_queries(struct marrow_comm *c)
{
	struct marrow_comm_properties p = {.size = 0};
	expect_status("rank", marrow_comm_rank(c, NULL), MARROW_INVALID_ARGUMENT, NULL, "marrow_comm_rank|NULL");
	expect_status("count", marrow_comm_count(c, NULL), MARROW_INVALID_ARGUMENT, NULL, "marrow_comm_count|NULL");
	expect_status("device", marrow_comm_device(c, NULL), MARROW_INVALID_ARGUMENT, NULL, "marrow_comm_device|NULL");
	expect_status("properties", marrow_comm_get_properties(c, NULL), MARROW_INVALID_ARGUMENT, NULL, "marrow_comm_get_properties|NULL");
	expect_status("async error", marrow_comm_async_error(c, NULL), MARROW_INVALID_ARGUMENT, NULL, "marrow_comm_async_error|NULL");
	expect_status("properties of size 0", marrow_comm_get_properties(c, &p), MARROW_INVALID_ARGUMENT, NULL, "properties->size");
	p.size = sizeof p + 1;
	expect_status("properties too large", marrow_comm_get_properties(c, &p), MARROW_INVALID_ARGUMENT, NULL, "properties->size");
	p.size = sizeof p;
	FINE(marrow_comm_get_properties(c, &p));
	expect_true("the machine has a name", p.machine[0] && strlen(p.machine) < sizeof p.machine);

	struct marrow_choice choice = {.size = sizeof choice};
	expect_status("explain", marrow_comm_explain(c, "all_reduce", 1, MARROW_FLOAT32, NULL), MARROW_INVALID_ARGUMENT, NULL, "marrow_comm_explain|NULL");
	expect_status("explain", marrow_comm_explain(c, "send", 1, MARROW_FLOAT32, &choice), MARROW_INVALID_ARGUMENT, NULL, "\"send\"|all_reduce|transfers");
	expect_status("explain", marrow_comm_explain(c, NULL, 1, MARROW_FLOAT32, &choice), MARROW_INVALID_ARGUMENT, NULL, "all_reduce");
	expect_status("explain", marrow_comm_explain(c, "reduce", 1, (enum marrow_type)99, &choice), MARROW_INVALID_ARGUMENT, NULL, "type 99");
	expect_status("explain", marrow_comm_explain(c, "reduce", SIZE_MAX, MARROW_INT8, &choice), MARROW_INVALID_ARGUMENT, NULL, "2^63");
	choice.size++;
	expect_status("explain", marrow_comm_explain(c, "reduce", 1, MARROW_INT8, &choice), MARROW_INVALID_ARGUMENT, NULL, "choice->size");
	choice.size = sizeof choice;
	for (size_t count = 0; count < (size_t)1 << 40; count = count * 5 + 1) {
		FINE(marrow_comm_explain(c, "all_gather", count, MARROW_INT8, &choice));
		bool chunks = strcmp(choice.algo, "bulk") == 0 || strcmp(choice.algo, "rail") == 0 || strcmp(choice.algo, "ring") == 0;
		expect_true("explained", choice.algo[0] && choice.reason[0] && choice.channels >= 1 && choice.channels <= p.channel_cap &&
			    (choice.predicted_ns > 0) == (p.nranks > 1) && chunks == (choice.chunk_bytes > 0));
	}
}

/* Buffers that the target cannot reach. */
static void wrong_memory(struct marrow_comm *c, struct ground *g, uint32_t rank, uint32_t ranks)
{
	float here[4] = {0};
	void *there = NULL;
	if (g->target != MARROW_TARGET_CUDA)
		return;
	BAD(marrow_all_reduce(here, g->recv, 4, MARROW_FLOAT32, MARROW_SUM, c, g->stream), "send|rank|host memory|cudaMalloc");
	BAD(marrow_all_reduce(g->send, here, 4, MARROW_FLOAT32, MARROW_SUM, c, g->stream), "recv|rank|host memory|cudaMalloc");
	/* Freeing waits for the kernels of that device: none may be waiting for this rank. */
	expect_true("the stream is empty", ground_settle(g) == 0);
	meet(&meeting, ranks);
	device_set((int)(rank + 1) % 2);
	expect_true("memory on the other device", device_alloc(&there, 4096) == 0);
	device_set((int)rank % 2);
	BAD(marrow_all_reduce(there, g->recv, 4, MARROW_FLOAT32, MARROW_SUM, c, g->stream), "send|another device");
	BAD(marrow_all_gather(g->send, there, 4, MARROW_FLOAT32, c, g->stream), "recv|another device");
	device_free(there);
	meet(&meeting, ranks);
}

/* Of no communicator. */
#define REFUSED(call, words) expect_status(#call, call, MARROW_INVALID_ARGUMENT, NULL, words)

/* Buffers of the library: page-aligned, good for calls, given back once and whole. */
static void own_memory(struct marrow_comm *c, const struct ground *g, uint32_t ranks)
{
	enum marrow_target target = g->target;
	static const size_t sizes[] = {1, 4095, 4096, 4097, 3 << 20};
	void *memory[5], *stray = memory;
	float value = 3, sum = 0;
	REFUSED(marrow_mem_alloc(NULL, 1, target), "memory is NULL");
	REFUSED(marrow_mem_alloc(&stray, 0, target), "0 bytes");
	expect_true("nothing was given", !stray);
	REFUSED(marrow_mem_alloc(&stray, SIZE_MAX, target), "negative");
	REFUSED(marrow_mem_alloc(&stray, 1, (enum marrow_target)3), "target 3");
	expect_status("more than there is", marrow_mem_alloc(&stray, (size_t)1 << 60, target), MARROW_OUT_OF_MEMORY, NULL, "");
	FINE(marrow_mem_free(NULL));
	REFUSED(marrow_mem_free(&value), "nothing that marrow_mem_alloc() gave");
	for (int i = 0; i < 5; i++) {
		FINE(marrow_mem_alloc(&memory[i], sizes[i], target));
		expect_true("page-aligned", memory[i] && (uintptr_t)memory[i] % 4096 == 0);
		if (target == MARROW_TARGET_HOST)
			memset(memory[i], 7, sizes[i]);
	}
	REFUSED(marrow_mem_free((uint8_t *)memory[4] + 4096), "the middle of a buffer");
	if (target == MARROW_TARGET_HOST)
		memcpy(memory[4], &value, sizeof value);
	else
		expect_true("copy in", device_copy(memory[4], &value, sizeof value) == 0);
	FINE(marrow_all_reduce(memory[4], memory[3], 1, MARROW_FLOAT32, MARROW_SUM, c, g->stream));
	if (target == MARROW_TARGET_HOST)
		memcpy(&sum, memory[3], sizeof sum);
	else
		expect_true("copy out", device_stream_synchronize(g->stream) == 0 && device_copy(&sum, memory[3], sizeof sum) == 0);
	expect_true("a call on it", sum == value * (float)ranks);
	for (int i = 0; i < 5; i++)
		FINE(marrow_mem_free(memory[(i + 2) % 5]));
	REFUSED(marrow_mem_free(memory[0]), "freed twice");
}

static void wrong_calls(struct world_rank *self)
{
	struct marrow_comm *c = self->comms[0];
	struct ground g;
	if (ground_make(&g, self->world->target, self->rank, BYTES) != 0) {
		world_fail(self, "no ground");
		return;
	}
	wrong_buffers(c, &g, self->rank);
	wrong_values(c, &g, self->nranks);
	wrong_exchanges(c, &g, self->rank, self->nranks);
	wrong_ops(c, &g);
	wrong_queries(c);
	wrong_memory(c, &g, self->rank, self->nranks);
	own_memory(c, &g, self->nranks);
	still_works(c, &g, self->nranks);
	expect_status("destroy", ground_leave(&g, self->comms, 1), MARROW_SUCCESS, NULL, "");
}

/* A failing call inside a group: the end says so and issues nothing, not even the right ones. */
static void wrong_groups(struct world_rank *self)
{
	struct marrow_comm *c = self->comms[0];
	struct ground g;
	if (ground_make(&g, self->world->target, self->rank, BYTES) != 0) {
		world_fail(self, "no ground");
		return;
	}
	expect_status("end without start", marrow_group_end(), MARROW_INVALID_USAGE, NULL, "marrow_group_end()|without|marrow_group_start()");
	ground_fill(&g, 1, good.count);
	FINE(act_done(&good, &g, c));
	ground_fill(&g, 5, good.count);
	FINE(marrow_group_start());
	FINE(act_call(&good, &g, c));
	BAD(marrow_all_reduce(NULL, g.recv, 1, MARROW_FLOAT32, MARROW_SUM, c, g.stream), "NULL");
	FINE(act_call(&good, &g, c));
	expect_status("group with a wrong call", marrow_group_end(), MARROW_INVALID_ARGUMENT, NULL, "all_reduce|NULL|send");
	expect_true("a failed group issues nothing", ground_settle(&g) == 0 && ground_result(&g, 0) == (float)self->nranks);
	FINE(marrow_group_start());
	FINE(marrow_group_start());
	BAD(marrow_broadcast(g.send, g.recv, 1, BAD_TYPE, 0, c, g.stream), "99");
	FINE(marrow_group_end());
	expect_status("outer end", marrow_group_end(), MARROW_INVALID_ARGUMENT, NULL, "99");
	expect_status("NULL in a group", (marrow_group_start(), marrow_barrier(NULL, NULL)), MARROW_INVALID_ARGUMENT, NULL, "marrow_barrier|NULL");
	expect_status("its end", marrow_group_end(), MARROW_INVALID_ARGUMENT, NULL, "NULL");
	FINE(marrow_group_start());
	FINE(marrow_group_end());
	expect_status("one end too many", marrow_group_end(), MARROW_INVALID_USAGE, NULL, "without");
	still_works(c, &g, self->nranks);
	expect_status("destroy", ground_leave(&g, self->comms, 1), MARROW_SUCCESS, NULL, "");
}

/* Everything on a handle that is no communicator. */
static void all_calls(struct marrow_comm *c, const struct ground *g, enum marrow_status want, const char *words)
{
	enum marrow_op op;
	float scalar = 1;
	void *st = g->stream;
	expect_status("all_reduce", marrow_all_reduce(g->send, g->recv, 1, MARROW_FLOAT32, MARROW_SUM, c, st), want, NULL, words);
	expect_status("broadcast", marrow_broadcast(g->send, g->recv, 1, MARROW_FLOAT32, 0, c, st), want, NULL, words);
	expect_status("all_gather", marrow_all_gather(g->send, g->recv, 1, MARROW_FLOAT32, c, st), want, NULL, words);
	expect_status("reduce_scatter", marrow_reduce_scatter(g->send, g->recv, 1, MARROW_FLOAT32, MARROW_SUM, c, st), want, NULL, words);
	expect_status("reduce", marrow_reduce(g->send, g->recv, 1, MARROW_FLOAT32, MARROW_SUM, 0, c, st), want, NULL, words);
	size_t counts[2] = {1, 1};
	struct marrow_comm *child = NULL;
	expect_status("reduce_scatter_v", marrow_reduce_scatter_v(g->send, g->recv, counts, MARROW_FLOAT32, MARROW_SUM, c, st), want, NULL, words);
	expect_status("split", marrow_comm_split(c, 0, 0, &child, NULL), want, NULL, words);
	expect_status("barrier", marrow_barrier(c, st), want, NULL, words);
	expect_status("premulsum", marrow_op_create_premulsum(&op, &scalar, MARROW_FLOAT32, MARROW_SCALAR_HOST, c), want, NULL, words);
	expect_status("op destroy", marrow_op_destroy(MARROW_OP_DYNAMIC, c), want, NULL, words);
	expect_status("finalize", marrow_comm_finalize(c), want, NULL, words);
}

static void all_queries(struct marrow_comm *c, enum marrow_status want, const char *words)
{
	struct marrow_comm_properties p = {.size = sizeof p};
	enum marrow_status error;
	uint32_t number;
	int32_t device;
	expect_status("rank", marrow_comm_rank(c, &number), want, NULL, words);
	expect_status("count", marrow_comm_count(c, &number), want, NULL, words);
	expect_status("device", marrow_comm_device(c, &device), want, NULL, words);
	expect_status("properties", marrow_comm_get_properties(c, &p), want, NULL, words);
	expect_status("async error", marrow_comm_async_error(c, &error), want, NULL, words);
}

static void wrong_handles(struct world_rank *self)
{
	struct marrow_comm *c = self->comms[0];
	struct ground g;
	if (ground_make(&g, self->world->target, self->rank, BYTES) != 0) {
		world_fail(self, "no ground");
		return;
	}
	FINE(act_done(&good, &g, c));
	all_calls(NULL, &g, MARROW_INVALID_ARGUMENT, "NULL");
	all_queries(NULL, MARROW_INVALID_ARGUMENT, "NULL");
	expect_status("destroy of NULL", marrow_comm_destroy(NULL), MARROW_SUCCESS, NULL, "");
	meet(&meeting, self->nranks);
	FINE(marrow_comm_finalize(c));
	all_calls(c, &g, MARROW_INVALID_USAGE, "rank|finalized|marrow_comm_destroy");
	all_queries(c, MARROW_SUCCESS, "");
	meet(&meeting, self->nranks);
	FINE(marrow_comm_destroy(c));
	self->comms[0] = NULL;
	meet(&meeting, self->nranks);
	all_calls(c, &g, MARROW_INVALID_ARGUMENT, "not a live communicator");
	all_queries(c, MARROW_INVALID_ARGUMENT, "not a live communicator");
	expect_status("destroyed twice", marrow_comm_destroy(c), MARROW_INVALID_ARGUMENT, NULL, "destroyed twice");
	expect_true("last error of a dead handle", strcmp(marrow_last_error(c), "not a live communicator") == 0);
	ground_free(&g);
}

/* A second thread while the first one waits (host target). */
static struct {
	struct marrow_comm *comm;
	uint64_t come;
} second;

static void *intrude(void *p)
{
	struct ground *g = p;
	struct marrow_comm *c = second.comm;
	sleep_ms(100);
	all_calls(c, g, MARROW_INVALID_USAGE, "another thread|rank 0|one thread at a time");
	expect_status("destroy beside a call", marrow_comm_destroy(c), MARROW_INVALID_USAGE, NULL, "another thread|rank 0|abort first");
	marrow_group_start();
	(void)act_call(&good, g, c);
	expect_status("group beside a call", marrow_group_end(), MARROW_INVALID_USAGE, NULL, "another thread");
	all_queries(c, MARROW_SUCCESS, "");
	__atomic_store_n(&second.come, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void two_threads(struct world_rank *self)
{
	struct marrow_comm *c = self->comms[0];
	struct ground g, other;
	pthread_t thread;
	if (ground_make(&g, self->world->target, self->rank, BYTES) != 0 || ground_make(&other, self->world->target, self->rank, BYTES) != 0) {
		world_fail(self, "no ground");
		return;
	}
	ground_fill(&g, 2, good.count);
	if (self->rank == 0) {
		second.comm = c;
		if (pthread_create(&thread, NULL, intrude, &other) != 0)
			abort();
		FINE(act_done(&good, &g, c));
		pthread_join(thread, NULL);
	} else {
		await_word(&second.come, 1, 20000);
		FINE(act_done(&good, &g, c));
	}
	expect_true("the call that was disturbed", ground_result(&g, 0) == (float)(2 * self->nranks));
	still_works(c, &g, self->nranks);
	ground_free(&g);
	ground_free(&other);
}

/* Free bytes of the devices that two ranks use. */
struct devices {
	size_t free[2];
};

/* The allocator's own pages come and go; an arena is more. */
enum { DEVICE_GROWTH_MAX = 8 << 20 };

static struct devices devices_take(enum marrow_target target)
{
	struct devices d = {{0, 0}};
	for (int i = 0; target == MARROW_TARGET_CUDA && i < 2; i++)
		expect_true("free device memory", device_set(i) == 0 && device_synchronize() == 0 && device_free_bytes(&d.free[i]) == 0);
	return d;
}

static void expect_same_devices(const struct devices *before, enum marrow_target target)
{
	struct devices after = devices_take(target);
	for (int i = 0; i < 2; i++)
		expect_true("device memory is given back", before->free[i] < after.free[i] + DEVICE_GROWTH_MAX);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*body)(struct world_rank *self);
		uint32_t min_ranks;
		bool host_only;
	} tests[] = {
		{"wrong calls", wrong_calls, 1, false},
		{"wrong groups", wrong_groups, 1, false},
		{"wrong handles", wrong_handles, 1, false},
		{"two threads", two_threads, 2, true},
	};
	enum marrow_target target = target_option(argc, argv);
	int failed = 0;
	for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
		for (uint32_t ranks = tests[i].min_ranks; ranks <= 2; ranks++) {
			struct world w = {.target = target, .nranks = ranks, .ncomms = 1};
			if (tests[i].host_only && target != MARROW_TARGET_HOST)
				continue;
			/* The first run of CUDA leaves the driver's own threads and descriptors. */
			memset(&meeting, 0, sizeof meeting);
			if (target == MARROW_TARGET_CUDA && world_run(&w, tests[i].body) != 0)
				failed++;
			struct census before = census_take();
			int already = failures();
			struct devices devices = devices_take(target);
			watchdog(60, tests[i].name);
			memset(&second, 0, sizeof second);
			memset(&meeting, 0, sizeof meeting);
			int wrong = world_run(&w, tests[i].body);
			expect_nothing_left(tests[i].name, &before);
			expect_same_devices(&devices, target);
			watchdog(0, "");
			wrong += failures() - already;
			printf("%s, %u ranks: %s\n", tests[i].name, ranks, wrong ? "FAILED" : "ok");
			failed += wrong;
		}
	}
	return failed ? 1 : 0;
}
