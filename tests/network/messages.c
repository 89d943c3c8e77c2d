/* messages.c - what collectives across hosts put on the wire, as the schedule predicts it: for each queue pair of each rank the number of
 * work requests and bytes. Prints "expect QPN REQUESTS BYTES" for each; messages.py compares that with what the model of the NIC counted.
 * The program compares the requests with the queue's own counter. It prints what each rank sent each other one in a call, "sent FUNC BYTES
 * ROOT ALGO CAP CHANNELS CHUNK RANK PEER NIC REQUESTS BYTES", BYTES of the whole buffer: messages.py has marrow-sim say the same.
 *
 * messages [RANKS [ALGO]]: four ranks, or so many, on MARROW_TEST_HOSTS hosts, as threads, under marrow-softnic. */
#include "support/hosts.h"
#include "support/world.h"

#include "collectives/schedule.h"
#include "collectives/select.h"
#include "collectives/tree.h"
#include "boot.h"
#include "comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 4 << 20, ROOM = 4 * BYTES };

struct traffic {
	uint64_t requests, bytes;
};

/* One call: bytes as of struct mrw_args, of a reduce_scatter_v (counts_of()) of the largest block. Along rails and in trees ONESHOT and BULK stand
 * for what is their like there. */
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
	{MRW_FUNC_REDUCE_SCATTER_V, 400, 0, MRW_ALGO_ONESHOT}, {MRW_FUNC_REDUCE_SCATTER_V, 300000, 0, MRW_ALGO_BULK},
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
	return mrw_block_at(a, owner).bytes;
}

static bool scatters(uint32_t func)
{
	return func == MRW_FUNC_REDUCE_SCATTER || func == MRW_FUNC_REDUCE_SCATTER_V;
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

/* Along rails: bytes that rank stages for p in round t, first and second exchange along the rail. */
static void railed(const struct mrw_args *a, uint32_t rank, uint32_t p, uint32_t channel, uint64_t t, uint64_t chunks, uint64_t bytes[2])
{
	uint32_t func = a->call.func, lag = a->call.lag, nranks = a->nranks;
	uint64_t first = mrw_rail_index(func, 1, t, lag), second = mrw_rail_index(func, 2, t, lag);
	bool moves = func == MRW_FUNC_BROADCAST;
	bool at_root = mrw_has_root(func) && hosts_of(p, nranks) == hosts_of(a->call.root, nranks);
	bytes[0] = bytes[1] = 0;
	if (first < chunks && (!moves || hosts_of(rank, nranks) == hosts_of(a->call.root, nranks)))
		bytes[0] = mrw_chunk(block_bytes(a, p), a->call.chunk_bytes, a->call.channels, channel, first).bytes;
	if (second < chunks && !scatters(func) && (!mrw_has_root(func) || at_root == (func == MRW_FUNC_REDUCE)))
		bytes[1] = mrw_chunk(block_bytes(a, rank), a->call.chunk_bytes, a->call.channels, channel, second).bytes;
}

/* In a ring: bytes that rank sends p in round t, unfinished and finished. blocks are ranks', ranks their positions: hosts are filled in
 * blocks. */
static void ringed(const struct mrw_args *a, uint32_t rank, uint32_t p, uint32_t channel, uint64_t t, uint64_t chunks, uint64_t bytes[2])
{
	uint32_t func = a->call.func, n = a->nranks, chunk = a->call.chunk_bytes, channels = a->call.channels;
	uint64_t set = t / (n - 1), step = t % (n - 1);
	bytes[0] = bytes[1] = 0;
	if (p != (rank + 1) % n)
		return;
	if (func == MRW_FUNC_BROADCAST) {
		uint64_t distance = (rank + n - a->call.root) % n;
		if (distance + 1 < n && t >= distance && t - distance < chunks)
			bytes[0] = mrw_chunk(a->bytes, chunk, channels, channel, t - distance).bytes;
		return;
	}
	uint64_t gathered = func == MRW_FUNC_ALL_REDUCE ? set - 1 : set; /* wraps: none */
	if (func != MRW_FUNC_ALL_GATHER && set < chunks)
		bytes[0] = mrw_chunk(block_bytes(a, (uint32_t)(rank + 2 * n - 1 - step) % n), chunk, channels, channel, set).bytes;
	bool passes = func != MRW_FUNC_REDUCE || (rank + n - a->call.root) % n > step; /* a reduce's end at the root */
	if (!scatters(func) && passes && gathered < chunks)
		bytes[1] = mrw_chunk(block_bytes(a, (uint32_t)(rank + n - step) % n), chunk, channels, channel, gathered).bytes;
}

/* In trees: bytes that rank sends p in round t, by each. Ranks are positions. */
static void treed(const struct mrw_args *a, uint32_t rank, uint32_t p, uint32_t channel, uint64_t t, uint64_t chunks, uint64_t bytes[2])
{
	uint32_t func = a->call.func, n = a->nranks;
	(void)chunks;
	for (uint32_t k = 0; k < 2; k++) {
		uint64_t part = mrw_tree_part(a->bytes, k).bytes, of_part = mrw_chunks(part, a->call.chunk_bytes, a->call.channels, channel);
		struct mrw_tree tree = mrw_tree_at(n, k, rank);
		struct mrw_tree_flow flow = mrw_tree_flow_of(func, n, k, rank, a->call.root);
		uint64_t up = mrw_tree_rising(n, tree.level, t), down = mrw_tree_passing(func, n, flow.hops, t), index = UINT64_MAX;
		if (func != MRW_FUNC_BROADCAST && tree.neighbour[MRW_TREE_PARENT] == p)
			index = up;
		for (uint32_t i = 0; i < MRW_TREE_NEIGHBOURS; i++)
			if ((flow.to >> i & 1) && tree.neighbour[i] == p)
				index = down;
		bytes[k] = index < of_part ? mrw_chunk(part, a->call.chunk_bytes, a->call.channels, channel, index).bytes : 0;
	}
}

/* The same of packets: a message an edge and direction that the call goes over, by each tree. */
static void predict_twigs(const struct mrw_args *a, uint32_t rank, uint32_t p, uint32_t channel, struct traffic *t)
{
	for (uint32_t k = 0; k < 2; k++) {
		struct mrw_tree tree = mrw_tree_at(a->nranks, k, rank);
		struct mrw_tree_flow flow = mrw_tree_flow_of(a->call.func, a->nranks, k, rank, a->call.root);
		if (a->call.func != MRW_FUNC_BROADCAST && tree.neighbour[MRW_TREE_PARENT] == p)
			add_packets(t, a, channel, mrw_tree_part(a->bytes, k).bytes);
		for (uint32_t i = 0; i < MRW_TREE_NEIGHBOURS; i++)
			if ((flow.to >> i & 1) && tree.neighbour[i] == p)
				add_packets(t, a, channel, mrw_tree_part(a->bytes, k).bytes);
	}
}

/* Packets that rank sends p on channel, in all exchanges. */
static void predict_packets(const struct mrw_args *a, uint32_t rank, uint32_t p, uint32_t channel, struct traffic *t)
{
	bool whole = mrw_has_shares(a->call.func) && a->call.algo == MRW_ALGO_ONESHOT;
	bool moves = a->call.func == MRW_FUNC_ALL_GATHER || a->call.func == MRW_FUNC_BROADCAST;
	if (a->call.algo == MRW_ALGO_TREESHOT) {
		predict_twigs(a, rank, p, channel, t);
		return;
	}
	if (moves || whole || a->call.algo == MRW_ALGO_RAILSHOT) {
		if (!mrw_has_root(a->call.func) || a->call.root == (a->call.func == MRW_FUNC_BROADCAST ? rank : p))
			add_packets(t, a, channel, scatters(a->call.func) ? block_bytes(a, p) : a->bytes);
		return;
	}
	add_packets(t, a, channel, block_bytes(a, p));
	if (a->call.algo == MRW_ALGO_TWOSHOT)
		add_packets(t, a, channel, block_bytes(a, rank));
}

/* What rank sends p in one call, over each of its NICs. */
static void predict(const struct mrw_args *a, uint32_t rank, uint32_t p, struct traffic *nics)
{
	bool rails = a->call.algo == MRW_ALGO_RAILSHOT || a->call.algo == MRW_ALGO_RAIL, ring = a->call.algo == MRW_ALGO_RING;
	bool tree = a->call.algo == MRW_ALGO_TREE;
	struct mrw_tree mine = mrw_tree_at(a->nranks, 0, rank);
	add(&nics[0], sizeof(struct mrw_greeting));
	if (a->call.func == MRW_FUNC_BARRIER && rails)
		add(&nics[0], sizeof(struct mrw_packet));
	for (uint32_t i = 0; a->call.func == MRW_FUNC_BARRIER && a->call.algo == MRW_ALGO_TREESHOT && i < MRW_TREE_NEIGHBOURS; i++)
		if (mine.neighbour[i] == p) /* up or down tree 0 */
			add(&nics[0], sizeof(struct mrw_packet));
	for (uint32_t i = 0; a->call.func == MRW_FUNC_BARRIER && ring && i < a->nranks / 2; i++)
		add(&nics[0], 8);
	if (a->call.func == MRW_FUNC_BARRIER || a->call.count == 0)
		return;
	for (uint32_t c = 0; c < a->call.channels; c++) {
		struct traffic *t = &nics[c % a->far->nics];
		if (a->call.algo != MRW_ALGO_BULK && a->call.algo != MRW_ALGO_RAIL && !ring && !tree) {
			predict_packets(a, rank, p, c, t);
			continue;
		}
		bool gathers = a->call.func == MRW_FUNC_ALL_GATHER || (ring && a->call.func == MRW_FUNC_BROADCAST);
		uint64_t chunks = mrw_chunks(gathers ? a->bytes : mrw_largest_block(a), a->call.chunk_bytes, a->call.channels, c);
		if (tree)
			chunks = mrw_chunks(mrw_tree_part(a->bytes, 0).bytes, a->call.chunk_bytes, a->call.channels, c);
		uint64_t rounds = tree    ? mrw_tree_rounds(a->call.func, a->nranks, a->call.root, mrw_tree_parts(a->bytes), chunks)
				  : ring  ? mrw_ring_rounds(a->call.func, chunks, a->nranks)
				  : rails ? mrw_rail_rounds(a->call.func, chunks, a->call.lag)
					  : mrw_rounds(chunks, mrw_exchanges(a->call.func, a->nranks), a->call.lag);
		for (uint64_t round = 0; round < rounds; round++) {
			uint64_t bytes[2];
			(tree ? treed : ring ? ringed : rails ? railed : staged)(a, rank, p, c, round, chunks, bytes);
			for (int f = 0; f < 2; f++)
				if (bytes[f] > 0)
					add(t, bytes[f]);
			add(t, 8);
		}
	}
}

/* A transfer of an ordered pair: its number there, which counts from init on. */
struct passage {
	bool is;
	uint64_t number, bytes;
};

/* What rank sends p over each of its NICs in a call that is made of transfers: for what it sends, and for what it receives. greets: peers do. */
static void predict_exchange(const struct mrw_layout *l, bool greets, struct passage out, struct passage in, uint32_t count, struct traffic *nics)
{
	if (greets)
		add(&nics[0], sizeof(struct mrw_greeting));
	for (int way = 0; way < 2; way++) {
		struct passage x = way == 0 ? out : in;
		uint64_t size = mrw_transfer_chunk_bytes(l, x.bytes);
		struct traffic *home = &nics[(x.number & (l->lanes - 1)) % count];
		if (x.is)
			add(home, sizeof(struct mrw_line));
		if (x.is && x.bytes <= mrw_transfer_small(l, false)) {
			if (way == 0 && x.bytes > 0)
				add(home, (x.bytes + MRW_UNIT_BYTES - 1) / MRW_UNIT_BYTES * sizeof(struct mrw_packet));
			continue;
		}
		for (uint64_t at = 0; x.is && at < x.bytes; at += size) {
			struct traffic *t = &nics[((x.number + at / size) & (l->lanes - 1)) % count];
			if (way == 0)
				add(t, x.bytes - at < size ? x.bytes - at : size);
			add(t, 8); /* the count behind it, or the credit for one that came */
		}
	}
}

static int32_t algo_of(const struct world_rank *self, int32_t algo)
{
	if (world_ring(self->world))
		return -1;
	if (world_tree(self->world))
		return algo == MRW_ALGO_ONESHOT ? MRW_ALGO_TREESHOT : algo == MRW_ALGO_BULK ? MRW_ALGO_TREE : -1;
	if (!world_rails(self->world))
		return algo;
	return algo == MRW_ALGO_ONESHOT ? MRW_ALGO_RAILSHOT : algo == MRW_ALGO_BULK ? MRW_ALGO_RAIL : -1;
}

/* Whether the queues to p took as many requests as predicted. before and expected are kept for each queue pair. */
static void count(struct world_rank *self, const char *what, uint64_t bytes, uint64_t (*before)[MRW_MAX_NICS],
		  struct traffic (*expected)[MRW_MAX_NICS], uint32_t p, const struct traffic *t)
{
	const struct mrw_far *far = self->comms[0]->args.far;
	for (uint32_t n = 0; n < far->nics; n++) {
		const struct mrw_queue *q = far->peer[p].queue[n];
		if (q->reserved - before[p][n] != t[n].requests)
			world_fail(self, "%s of %llu bytes: %llu requests to rank %u on NIC %u, not %llu", what, (unsigned long long)bytes,
				   (unsigned long long)(q->reserved - before[p][n]), p, n, (unsigned long long)t[n].requests);
		before[p][n] = q->reserved;
		expected[p][n].requests += t[n].requests;
		expected[p][n].bytes += t[n].bytes;
	}
}

/* What went to p in a call, for the simulator to compare. */
static void tell(const struct world_rank *self, const struct mrw_args *a, uint32_t p, const struct traffic *t)
{
	uint64_t all = a->uneven ? a->ends[a->nranks - 1] : mrw_has_shares(a->call.func) ? a->bytes : a->bytes * a->nranks;
	for (uint32_t n = 0; (a->bytes > 0 || a->call.func == MRW_FUNC_BARRIER) && n < a->far->nics; n++)
		if (t[n].requests > 0)
			printf("sent %s %llu %u %s %u %u %u %u %u %u %llu %llu\n", mrw_func_name(a->call.func),
			       (unsigned long long)all, a->call.root,
			       mrw_algo_name((enum mrw_algo)a->call.algo), self->comms[0]->channel_cap, a->call.channels, a->call.chunk_bytes,
			       self->rank, p, n, (unsigned long long)t[n].requests, (unsigned long long)t[n].bytes);
}

/* Blocks that differ, as messages.py tells the simulator: nothing for rank 1, the largest for rank 2, less for the others. Returns their sum. */
static uint64_t counts_of(const struct world_rank *self, uint64_t most, size_t *counts)
{
	static const uint32_t parts[] = {3, 0, 8, 1, 1};
	uint64_t all = 0;
	for (uint32_t r = 0; r < self->nranks; r++)
		all += counts[r] = most / 8 * parts[r % 5];
	return all;
}

static bool make_call(struct world_rank *self, const struct step *s, const uint8_t *send, uint8_t *recv, uint64_t (*before)[MRW_MAX_NICS],
		      struct traffic (*expected)[MRW_MAX_NICS])
{
	struct marrow_comm *comm = self->comms[0];
	struct mrw_task task;
	bool wide = scatters(s->func) || s->func == MRW_FUNC_ALL_GATHER;
	size_t counts[WORLD_MAX_RANKS];
	counts_of(self, s->bytes, counts);
	mrw_comm_set_algo(comm, algo_of(self, s->algo));
	if (s->bytes * (wide ? self->nranks : 1) > ROOM)
		abort();
	enum marrow_status planned = s->func == MRW_FUNC_REDUCE_SCATTER_V
					     ? mrw_plan_call_v(comm, send, recv, counts, MARROW_INT8, MARROW_MAX, NULL, &task)
					     : mrw_plan_call(comm, s->func, send, recv, s->bytes, MARROW_INT8, MARROW_MAX, s->root, NULL, &task);
	if (planned != MARROW_SUCCESS || mrw_issue(&task) != MARROW_SUCCESS) {
		world_fail(self, "%s: %s", mrw_func_name(s->func), mrw_error_text());
		return false;
	}
	for (uint32_t p = 0; p < self->nranks; p++) {
		struct traffic t[MRW_MAX_NICS] = {{0, 0}};
		if (!comm->args.far->peer[p].queue[0])
			continue;
		if (comm->args.far->peer[p].path == MRW_PATH_FAR) /* others: nothing */
			predict(&task.args, self->rank, p, t);
		count(self, mrw_func_name(s->func), s->bytes, before, expected, p, t);
		tell(self, &task.args, p, t);
	}
	return true;
}

/* Calls that are made of transfers; bytes: of the largest block. MRW_FUNC_TRANSFERS: a send to the right, a recv from the left. */
struct exchange {
	enum mrw_func func;
	uint64_t bytes;
	uint32_t root;
};

static const struct exchange exchanges[] = {
	{MRW_FUNC_ALL_TO_ALL, 0, 0}, {MRW_FUNC_ALL_TO_ALL, 1, 0}, {MRW_FUNC_ALL_TO_ALL, 100, 0}, {MRW_FUNC_ALL_TO_ALL, 512, 0},
	{MRW_FUNC_ALL_TO_ALL, 513, 0}, {MRW_FUNC_ALL_TO_ALL, 100000, 0}, {MRW_FUNC_ALL_TO_ALL, 1 << 20, 0},
	{MRW_FUNC_GATHER, 100, 1}, {MRW_FUNC_GATHER, 300000, 2}, {MRW_FUNC_SCATTER, 100, 3}, {MRW_FUNC_SCATTER, 300000, 0},
	{MRW_FUNC_ALL_GATHER_V, 80, 0}, {MRW_FUNC_ALL_GATHER_V, 800000, 0}, {MRW_FUNC_ALL_TO_ALL_V, 80, 0}, {MRW_FUNC_ALL_TO_ALL_V, 800000, 0},
	{MRW_FUNC_TRANSFERS, 400, 0}, {MRW_FUNC_TRANSFERS, 1000000, 0},
};
enum { EXCHANGES = sizeof exchanges / sizeof exchanges[0] };

/* What src sends dst. */
static struct passage passage_of(const struct exchange *x, const size_t *counts, uint32_t n, uint32_t src, uint32_t dst)
{
	struct passage p = {true, 0, x->bytes};
	if (x->func == MRW_FUNC_GATHER)
		p.is = dst == x->root;
	else if (x->func == MRW_FUNC_SCATTER)
		p.is = src == x->root;
	else if (x->func == MRW_FUNC_TRANSFERS)
		p.is = (src + 1) % n == dst;
	else if (x->func != MRW_FUNC_ALL_TO_ALL)
		p.bytes = counts[x->func == MRW_FUNC_ALL_GATHER_V ? src : dst];
	return p;
}

static enum marrow_status send_recv(struct marrow_comm *comm, const uint8_t *send, uint8_t *recv, uint64_t bytes, uint32_t rank, uint32_t n)
{
	enum marrow_status sent, received, ended;
	if (marrow_group_start() != MARROW_SUCCESS)
		return MARROW_INTERNAL_ERROR;
	sent = marrow_send(send, bytes, MARROW_INT8, (rank + 1) % n, comm, NULL);
	received = marrow_recv(recv, bytes, MARROW_INT8, (rank + n - 1) % n, comm, NULL);
	ended = marrow_group_end();
	return sent != MARROW_SUCCESS ? sent : received != MARROW_SUCCESS ? received : ended;
}

static enum marrow_status exchange(struct world_rank *self, const struct exchange *x, const size_t *counts, const uint8_t *send, uint8_t *recv)
{
	struct marrow_comm *comm = self->comms[0];
	size_t displs[WORLD_MAX_RANKS], mine[WORLD_MAX_RANKS], theirs[WORLD_MAX_RANKS], at = 0;
	for (uint32_t r = 0; r < self->nranks; at += counts[r++]) {
		displs[r] = at;
		mine[r] = counts[self->rank];
		theirs[r] = r * counts[self->rank];
	}
	switch (x->func) {
	case MRW_FUNC_GATHER:
		return marrow_gather(send, recv, x->bytes, MARROW_INT8, x->root, comm, NULL);
	case MRW_FUNC_SCATTER:
		return marrow_scatter(send, recv, x->bytes, MARROW_INT8, x->root, comm, NULL);
	case MRW_FUNC_ALL_GATHER_V:
		return marrow_all_gather_v(send, recv, counts, displs, MARROW_INT8, comm, NULL);
	case MRW_FUNC_ALL_TO_ALL_V:
		return marrow_all_to_all_v(send, counts, displs, recv, mine, theirs, MARROW_INT8, comm, NULL);
	case MRW_FUNC_TRANSFERS:
		return send_recv(comm, send, recv, x->bytes, self->rank, self->nranks);
	default:
		return marrow_all_to_all(send, recv, x->bytes, MARROW_INT8, comm, NULL);
	}
}

/* For the simulator. Its pairs have made no transfer yet: by one NIC that does not matter. */
static void tell_exchange(const struct world_rank *self, const struct exchange *x, uint64_t all, struct passage out, struct passage in, uint32_t p,
			  const struct traffic *t)
{
	const struct marrow_comm *comm = self->comms[0];
	const struct mrw_layout *l = &comm->args.layout;
	uint32_t nics = comm->args.far->nics, chunk = x->bytes <= mrw_transfer_small(l, false) ? 0 : mrw_transfer_chunk_bytes(l, x->bytes);
	bool begins = out.number % l->lanes == 0 && in.number % l->lanes == 0;
	for (uint32_t n = 0; all > 0 && (nics == 1 || begins) && n < nics; n++)
		if (t[n].requests > 0)
			printf("sent %s %llu %u transfers %u 1 %u %u %u %u %llu %llu\n", x->func == MRW_FUNC_TRANSFERS ? "send_recv" : mrw_func_name(x->func),
			       (unsigned long long)all, x->root, comm->channel_cap, chunk, self->rank, p, n, (unsigned long long)t[n].requests,
			       (unsigned long long)t[n].bytes);
}

static void make_exchanges(struct world_rank *self, const uint8_t *send, uint8_t *recv, uint64_t (*before)[MRW_MAX_NICS],
			   struct traffic (*expected)[MRW_MAX_NICS])
{
	uint64_t number[WORLD_MAX_RANKS][2] = {{0}};
	struct marrow_comm *comm = self->comms[0];
	const struct mrw_far *far = comm->args.far;
	uint32_t rank = self->rank, n = self->nranks;
	for (const struct exchange *x = exchanges; x < exchanges + EXCHANGES; x++) {
		size_t counts[WORLD_MAX_RANKS];
		uint64_t all = counts_of(self, x->bytes, counts);
		if (x->func == MRW_FUNC_TRANSFERS)
			all = x->bytes;
		else if (x->func != MRW_FUNC_ALL_GATHER_V && x->func != MRW_FUNC_ALL_TO_ALL_V)
			all = x->bytes * n;
		if (x->bytes * n > ROOM)
			abort();
		if (exchange(self, x, counts, send, recv) != MARROW_SUCCESS)
			world_fail(self, "%s: %s", mrw_func_name(x->func), marrow_last_error(comm));
		for (uint32_t p = 0; p < n; p++) {
			struct traffic t[MRW_MAX_NICS] = {{0, 0}};
			struct passage out = passage_of(x, counts, n, rank, p), in = passage_of(x, counts, n, p, rank);
			if (!far->peer[p].queue[0])
				continue;
			out.number = number[p][0];
			in.number = number[p][1];
			predict_exchange(&comm->args.layout, far->peer[p].path == MRW_PATH_FAR && x->func != MRW_FUNC_TRANSFERS, out, in, far->nics, t);
			number[p][0] += out.is;
			number[p][1] += in.is;
			count(self, mrw_func_name(x->func), x->bytes, before, expected, p, t);
			tell_exchange(self, x, all, out, in, p, t);
		}
	}
}

/* Ranks on other hosts that are a neighbour in a tree or in the ring. */
static uint32_t tree_peers(const struct world_rank *self)
{
	uint32_t n = self->nranks, rank = self->rank, peers = 0;
	for (uint32_t p = 0; p < n; p++) {
		bool joined = (p + 1) % n == rank || (rank + 1) % n == p;
		for (uint32_t k = 0; k < MRW_TREES; k++)
			for (uint32_t i = 0; i < MRW_TREE_NEIGHBOURS; i++)
				joined = joined || mrw_tree_at(n, k, rank).neighbour[i] == p;
		peers += joined && hosts_of(p, n) != hosts_of(rank, n);
	}
	return peers;
}

static void run(struct world_rank *self)
{
	struct marrow_comm *comm = self->comms[0];
	const struct mrw_far *far = comm->args.far;
	uint8_t *send = calloc(1, ROOM), *recv = calloc(1, ROOM);
	struct traffic expected[WORLD_MAX_RANKS][MRW_MAX_NICS] = {{{0, 0}}};
	uint64_t before[WORLD_MAX_RANKS][MRW_MAX_NICS] = {{0}};
	uint32_t queues = 0, linked = 0;
	if (!send || !recv)
		abort();
	for (uint32_t p = 0; p < self->nranks; p++) { /* init proved the path: one chunk, or a grain by a lane, and a word */
		bool peer = far->peer[p].path == MRW_PATH_FAR;
		linked += peer;
		for (uint32_t n = 0; n < far->nics && far->peer[p].queue[0]; n++) {
			before[p][n] = far->peer[p].queue[n]->reserved;
			add(&expected[p][n], peer ? comm->args.layout.chunk_bytes : MRW_TRANSFER_GRAIN);
			add(&expected[p][n], 8);
			queues++;
		}
	}
	if (self->rank == 0)
		printf("exchanges %llu\n", (unsigned long long)comm->boot->exchanges);
	uint32_t hosts = hosts_count(self->nranks), others = 0;
	for (uint32_t p = 0; p < self->nranks; p++)
		others += hosts_of(p, self->nranks) != hosts_of(self->rank, self->nranks);
	uint32_t peers = world_rails(self->world) ? hosts - 1 : others;
	if (world_ring(self->world)) {
		uint32_t ranks = self->nranks, mine = hosts_of(self->rank, ranks), right = (self->rank + 1) % ranks, left = (self->rank + ranks - 1) % ranks;
		peers = (hosts_of(right, ranks) != mine ? 1u : 0u) + (hosts_of(left, ranks) != mine ? 1u : 0u);
	}
	if (world_tree(self->world))
		peers = tree_peers(self);
	struct marrow_comm_properties properties = {.size = sizeof properties};
	if (linked != peers || queues != others * far->nics || marrow_comm_get_properties(comm, &properties) != MARROW_SUCCESS || properties.queue_pairs != queues)
		world_fail(self, "%u queue pairs to %u ranks, %u reported; of them %u peers, not %u", queues, others, properties.queue_pairs, linked,
			   peers);
	for (size_t i = 0; i < STEPS && !self->failed; i++)
		(void)make_call(self, &steps[i], send, recv, before, expected);
	if (!self->failed)
		make_exchanges(self, send, recv, before, expected);
	for (uint32_t p = 0; p < self->nranks; p++)
		for (uint32_t n = 0; n < far->nics && far->peer[p].queue[0]; n++)
			printf("expect %u %llu %llu\n", far->peer[p].queue[n]->qpn, (unsigned long long)expected[p][n].requests,
			       (unsigned long long)expected[p][n].bytes);
	free(send);
	free(recv);
}

int main(int argc, char **v)
{
	struct world w = {.target = MARROW_TARGET_HOST, .nranks = argc > 1 ? (uint32_t)atoi(v[1]) : 4, .ncomms = 1, .algo = argc > 2 ? v[2] : NULL};
	if (w.nranks < 4 || w.nranks > WORLD_MAX_RANKS)
		return 2;
	if (hosts_count(w.nranks) < 2) {
		printf("skipped: wants MARROW_TEST_HOSTS under marrow-softnic\n");
		return 77;
	}
	return world_run(&w, run) ? 1 : 0;
}
