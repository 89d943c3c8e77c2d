/* messages.c - what collectives across hosts put on the wire, as the schedule predicts it: for each queue pair of each rank the number of
 * work requests and bytes. Prints "expect QPN REQUESTS BYTES" for each; messages.py compares that with what the model of the NIC counted.
 * The program compares the requests with the queue's own counter.
 *
 * messages: four ranks on MARROW_TEST_HOSTS hosts, as threads, under marrow-softnic. */
#include "support/hosts.h"
#include "support/world.h"

#include "collectives/schedule.h"
#include "comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, BYTES = 4 << 20 };

struct traffic {
	uint64_t requests, bytes;
};

/* One call: bytes as of struct mrw_args. */
struct step {
	enum mrw_func func;
	uint64_t bytes;
	uint32_t root;
	int32_t algo; /* -1: chosen */
};

static const struct step steps[] = {
	{MRW_FUNC_ALL_REDUCE, 4, 0, MRW_ALGO_ONESHOT}, {MRW_FUNC_ALL_REDUCE, 1000, 0, MRW_ALGO_ONESHOT},
	{MRW_FUNC_ALL_REDUCE, 1000, 0, MRW_ALGO_TWOSHOT}, {MRW_FUNC_ALL_REDUCE, 16, 0, MRW_ALGO_TWOSHOT},
	{MRW_FUNC_ALL_REDUCE, 100000, 0, MRW_ALGO_BULK}, {MRW_FUNC_ALL_REDUCE, 20, 0, MRW_ALGO_BULK},
	{MRW_FUNC_ALL_REDUCE, BYTES, 0, -1}, {MRW_FUNC_REDUCE_SCATTER, 400, 0, MRW_ALGO_ONESHOT},
	{MRW_FUNC_REDUCE_SCATTER, 300000, 0, MRW_ALGO_BULK}, {MRW_FUNC_ALL_GATHER, 12, 0, MRW_ALGO_ONESHOT},
	{MRW_FUNC_ALL_GATHER, 700000, 0, MRW_ALGO_BULK}, {MRW_FUNC_BROADCAST, 1, 1, MRW_ALGO_ONESHOT},
	{MRW_FUNC_BROADCAST, 1000000, 3, MRW_ALGO_BULK}, {MRW_FUNC_BARRIER, 0, 0, -1}, {MRW_FUNC_ALL_REDUCE, 0, 0, -1},
	{MRW_FUNC_REDUCE, 100, 2, MRW_ALGO_ONESHOT}, {MRW_FUNC_REDUCE, 300000, 1, MRW_ALGO_BULK},
};
enum { STEPS = sizeof steps / sizeof steps[0] };

static void add(struct traffic *t, uint64_t bytes)
{
	t->requests++;
	t->bytes += bytes;
}

/* Packets of channel's share of a block of bytes, if there are any. */
static void add_packets(struct traffic *t, const struct mrw_args *a, uint32_t channel, uint64_t bytes)
{
	uint64_t units = mrw_units_in(bytes, (uint64_t)channel * a->units, a->units);
	if (units > 0)
		add(t, units * sizeof(struct mrw_packet));
}

static uint64_t block_bytes(const struct mrw_args *a, uint32_t owner)
{
	return mrw_block_of(a->bytes, a->share_bytes, owner).bytes;
}

/* Bytes that rank stages for p in round t: first and second exchange. */
static void staged(const struct mrw_args *a, uint32_t rank, uint32_t p, uint32_t channel, uint64_t t, uint64_t chunks, uint64_t bytes[2])
{
	uint32_t lag = a->call.lag, func = a->call.func, root = a->call.root;
	uint64_t gathered = mrw_chunk(a->bytes, a->call.chunk_bytes, a->call.channels, channel, t).bytes;
	bytes[0] = bytes[1] = 0;
	if (t < chunks) {
		if (func == MRW_FUNC_ALL_GATHER)
			bytes[0] = gathered;
		else if (func != MRW_FUNC_BROADCAST || rank == root)
			bytes[0] = mrw_chunk(block_bytes(a, p), a->call.chunk_bytes, a->call.channels, channel, t).bytes;
	}
	bool second = func == MRW_FUNC_ALL_REDUCE || (func == MRW_FUNC_BROADCAST && p != root) || (func == MRW_FUNC_REDUCE && p == root);
	if (second && t >= lag && t - lag < chunks)
		bytes[1] = mrw_chunk(block_bytes(a, rank), a->call.chunk_bytes, a->call.channels, channel, t - lag).bytes;
}

/* What rank sends p in one call. */
static void predict(const struct mrw_args *a, uint32_t rank, uint32_t p, struct traffic *t)
{
	add(t, sizeof(struct mrw_greeting));
	if (a->call.func == MRW_FUNC_BARRIER || a->call.count == 0)
		return;
	for (uint32_t c = 0; c < a->call.channels; c++) {
		bool whole = mrw_has_shares(a->call.func) && a->call.algo == MRW_ALGO_ONESHOT;
		if (a->call.algo != MRW_ALGO_BULK) {
			bool moves = a->call.func == MRW_FUNC_ALL_GATHER || a->call.func == MRW_FUNC_BROADCAST;
			if (moves || whole) {
				if (!mrw_has_root(a->call.func) || a->call.root == (a->call.func == MRW_FUNC_BROADCAST ? rank : p))
					add_packets(t, a, c, a->bytes);
				continue;
			}
			add_packets(t, a, c, block_bytes(a, p));
			if (a->call.algo == MRW_ALGO_TWOSHOT)
				add_packets(t, a, c, block_bytes(a, rank));
			continue;
		}
		uint32_t exchanges = mrw_exchanges(a->call.func, a->nranks);
		bool gathers = a->call.func == MRW_FUNC_ALL_GATHER;
		uint64_t chunks = mrw_chunks(gathers ? a->bytes : block_bytes(a, 0), a->call.chunk_bytes, a->call.channels, c);
		for (uint64_t round = 0; round < mrw_rounds(chunks, exchanges, a->call.lag); round++) {
			uint64_t bytes[2];
			staged(a, rank, p, c, round, chunks, bytes);
			for (int f = 0; f < 2; f++)
				if (bytes[f] > 0)
					add(t, bytes[f]);
			add(t, 8);
		}
	}
}

/* What rank sends p when all send each other bytes: for what it sends, and for what it receives. */
static void predict_exchange(const struct mrw_layout *l, uint64_t bytes, struct traffic *t)
{
	uint64_t size = mrw_transfer_chunk_bytes(l, bytes);
	add(t, sizeof(struct mrw_greeting));
	add(t, sizeof(struct mrw_line));
	add(t, sizeof(struct mrw_line));
	if (bytes <= mrw_transfer_small(l, false)) {
		if (bytes > 0)
			add(t, (bytes + MRW_UNIT_BYTES - 1) / MRW_UNIT_BYTES * sizeof(struct mrw_packet));
		return;
	}
	for (uint64_t at = 0; at < bytes; at += size) {
		add(t, bytes - at < size ? bytes - at : size);
		add(t, 8); /* the count behind it */
		add(t, 8); /* the credit for one that came */
	}
}

/* Whether the queues took as many requests as predicted. */
static void count(struct world_rank *self, const char *what, uint64_t bytes, uint64_t *before, struct traffic *expected, uint32_t p,
		  const struct traffic *t)
{
	const struct mrw_queue *q = self->comms[0]->args.far->peer[p].queue;
	if (q->reserved - before[p] != t->requests)
		world_fail(self, "%s of %llu bytes: %llu requests to rank %u, not %llu", what, (unsigned long long)bytes,
			   (unsigned long long)(q->reserved - before[p]), p, (unsigned long long)t->requests);
	before[p] = q->reserved;
	expected[p].requests += t->requests;
	expected[p].bytes += t->bytes;
}

static void run(struct world_rank *self)
{
	struct marrow_comm *comm = self->comms[0];
	uint8_t *send = calloc(1, BYTES * RANKS), *recv = calloc(1, BYTES * RANKS);
	struct traffic expected[RANKS] = {{0, 0}};
	uint64_t before[RANKS] = {0};
	if (!send || !recv)
		abort();
	for (uint32_t p = 0; p < RANKS; p++) /* init proved the path: one chunk and a word */
		if (comm->args.far->peer[p].queue) {
			before[p] = comm->args.far->peer[p].queue->reserved;
			add(&expected[p], comm->args.layout.chunk_bytes);
			add(&expected[p], 8);
		}
	for (size_t i = 0; i < STEPS; i++) {
		const struct step *s = &steps[i];
		struct mrw_task task;
		uint64_t blocks = s->func == MRW_FUNC_REDUCE_SCATTER ? RANKS : 1;
		mrw_comm_set_algo(comm, s->algo);
		if (s->bytes * blocks > (uint64_t)BYTES * RANKS)
			abort();
		if (mrw_plan_call(comm, s->func, send, recv, s->bytes, MARROW_INT8, MARROW_MAX, s->root, NULL, &task) != MARROW_SUCCESS ||
		    mrw_issue(&task) != MARROW_SUCCESS) {
			world_fail(self, "step %zu: %s", i, mrw_error_text());
			return;
		}
		for (uint32_t p = 0; p < RANKS; p++) {
			struct mrw_queue *q = comm->args.far->peer[p].queue;
			struct traffic t = {0, 0};
			if (!q)
				continue;
			predict(&task.args, self->rank, p, &t);
			count(self, mrw_func_name(s->func), s->bytes, before, expected, p, &t);
		}
	}
	static const uint64_t exchanges[] = {0, 1, 100, 512, 513, 100000, 1 << 20};
	for (size_t i = 0; i < sizeof exchanges / sizeof exchanges[0]; i++) {
		struct traffic t = {0, 0};
		if (marrow_all_to_all(send, recv, exchanges[i], MARROW_INT8, comm, NULL) != MARROW_SUCCESS)
			world_fail(self, "all_to_all: %s", marrow_last_error(comm));
		predict_exchange(&comm->args.layout, exchanges[i], &t);
		for (uint32_t p = 0; p < RANKS; p++)
			if (comm->args.far->peer[p].queue)
				count(self, "all_to_all", exchanges[i], before, expected, p, &t);
	}
	for (uint32_t p = 0; p < RANKS; p++)
		if (comm->args.far->peer[p].queue)
			printf("expect %u %llu %llu\n", comm->args.far->peer[p].queue->qpn, (unsigned long long)expected[p].requests,
			       (unsigned long long)expected[p].bytes);
	free(send);
	free(recv);
}

int main(void)
{
	struct world w = {.target = MARROW_TARGET_HOST, .nranks = RANKS, .ncomms = 1};
	if (hosts_count(RANKS) < 2) {
		printf("skipped: wants MARROW_TEST_HOSTS under marrow-softnic\n");
		return 77;
	}
	return world_run(&w, run) ? 1 : 0;
}
