/* exchanges.c - random programs of sends, recvs and what is made of them: every byte of every rank's memory is compared, also those around
 * and between buffers.
 *
 * exchanges [--target host|cuda] [--ranks N] [--steps N] [--team T] [--parallel] [--ctas N] [--near-wrap] [--room BYTES] [--large BYTES]
 * [--timeout-ms N] [--listed N]
 * All ranks draw the same program from the seed. A step is a group of transfers between any ranks, themselves included, that every rank writes in
 * an order of its own, with collectives in between; or lone calls of two ranks; or calls that both ends group differently; or
 * all_to_all(_v), gather, scatter, all_gather_v. --large: instead, everybody sends everybody so much at once, then an all_reduce. */
#include "support/device_memory.h"
#include "support/world.h"

#include "comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_ITEMS = 400, MAX_CALLS = 2 * MAX_ITEMS + 8, GAP = 48, UNTOUCHED = 0xa5 };

static struct {
	uint64_t steps, seed;
	size_t room, large;
	uint32_t listed;
} program;

/* One transfer of the program. */
struct item {
	uint32_t src, dst;
	size_t count;
	enum marrow_type type;
	uint64_t seed;
	uint8_t *from, *to;       /* on the rank that looks at it */
};

/* What a rank has: memory of the target, what it shall hold before a step, and after. */
struct desk {
	uint8_t *memory, *before, *after, *got;
	size_t used;
	struct item items[MAX_ITEMS];
	uint32_t count;
};

static bool on_cuda(const struct world_rank *self)
{
	return self->world->target == MARROW_TARGET_CUDA;
}

static void pattern(uint8_t *to, uint64_t seed, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t x = (seed + i) * 0x9e3779b97f4a7c15u;
		x ^= x >> 31;
		memcpy(to + i, &x, bytes - i < 8 ? bytes - i : 8);
	}
}

static void desk_clear(struct desk *d)
{
	memset(d->before, UNTOUCHED, program.room);
	memset(d->after, UNTOUCHED, program.room);
	d->used = GAP;
	d->count = 0;
}

/* A place for bytes, of any alignment; offset within the images. */
static size_t place(struct world_rank *self, struct desk *d, uint64_t *s, size_t bytes)
{
	size_t at = d->used + world_random(s) % 2 * (world_random(s) % 16);
	if (world_random(s) % 2)
		at = (at + 15) / 16 * 16;
	d->used = at + bytes + GAP;
	if (d->used > program.room) {
		world_fail(self, "the test's room is too small: %zu bytes", d->used);
		abort();
	}
	return at;
}

static size_t place_filled(struct world_rank *self, struct desk *d, uint64_t *s, size_t bytes, uint64_t seed)
{
	size_t at = place(self, d, s, bytes);
	pattern(d->before + at, seed, bytes);
	pattern(d->after + at, seed, bytes);
	return at;
}

static void desk_load(struct world_rank *self, struct desk *d)
{
	if (!on_cuda(self))
		memcpy(d->memory, d->before, d->used);
	else if (device_copy(d->memory, d->before, d->used) != 0)
		world_fail(self, "copy in: %s", device_error());
}

static void desk_check(struct world_rank *self, struct desk *d, const char *what)
{
	if (on_cuda(self)) {
		enum marrow_status async;
		for (int i = 0; i < WORLD_STREAMS; i++)
			if (device_stream_synchronize(self->streams[i]) != 0)
				world_fail(self, "%s: %s", what, device_error());
		if (marrow_comm_async_error(self->comms[0], &async) != MARROW_SUCCESS || async != MARROW_SUCCESS)
			world_fail(self, "%s: %s", what, marrow_last_error(self->comms[0]));
		if (device_copy(d->got, d->memory, d->used) != 0)
			world_fail(self, "copy out: %s", device_error());
	} else {
		memcpy(d->got, d->memory, d->used);
	}
	for (size_t i = 0; i < d->used && !self->failed; i++)
		if (d->got[i] != d->after[i])
			world_fail(self, "%s: byte %zu of %zu is %02x, not %02x (%s)", what, i, d->used, d->got[i], d->after[i],
				   d->after[i] == UNTOUCHED ? "between buffers?" : "in a buffer");
}

static size_t draw_bytes(uint64_t *s, size_t limit)
{
	static const size_t edges[] = {8, 512, 4096, 8192, 16384, 49152, 65536, 98304, 131072, 262144, 393216};
	uint64_t kind = world_random(s) % 16;
	size_t bytes;
	if (kind == 0)
		bytes = 0;
	else if (kind < 6)
		bytes = 1 + world_random(s) % 64;
	else if (kind < 9)
		bytes = world_random(s) % 5000;
	else if (kind < 14) /* around an edge */
		bytes = edges[world_random(s) % (sizeof edges / sizeof edges[0])] - 16 + world_random(s) % 32;
	else
		bytes = world_random(s) % (limit + 1);
	return bytes < limit ? bytes : limit;
}

static enum marrow_type draw_type(uint64_t *s)
{
	static const enum marrow_type types[] = {MARROW_UINT8, MARROW_FLOAT16, MARROW_INT32, MARROW_FLOAT64, MARROW_BFLOAT16, MARROW_INT8};
	return types[world_random(s) % (sizeof types / sizeof types[0])];
}

static uint32_t draw_rank(uint64_t *s, uint32_t n)
{
	return (uint32_t)(world_random(s) % n);
}

/* Places of an item on this rank; s: its own, for alignment. */
static void add_item(struct world_rank *self, struct desk *d, uint64_t *s, struct item it)
{
	size_t bytes = it.count * mrw_type_bytes((uint32_t)it.type);
	if (it.src == self->rank)
		it.from = d->memory + place_filled(self, d, s, bytes, it.seed);
	if (it.dst == self->rank) {
		size_t at = place(self, d, s, bytes);
		it.to = d->memory + at;
		pattern(d->after + at, it.seed, bytes);
	}
	d->items[d->count++] = it;
}

static struct item draw_item(uint64_t *s, uint32_t src, uint32_t dst, size_t limit)
{
	struct item it = {.src = src, .dst = dst, .type = draw_type(s), .seed = world_random(s)};
	it.count = draw_bytes(s, limit) / mrw_type_bytes((uint32_t)it.type);
	return it;
}

static void expect(struct world_rank *self, enum marrow_status status, const char *call)
{
	if (status != MARROW_SUCCESS)
		world_fail(self, "%s: %s", call, marrow_last_error(self->comms[0]));
}

static void *any_stream(struct world_rank *self, uint64_t *s)
{
	return self->streams[world_random(s) % WORLD_STREAMS];
}

static void call_item(struct world_rank *self, const struct item *it, bool sends, void *stream)
{
	if (sends)
		expect(self, marrow_send(it->from, it->count, it->type, it->dst, self->comms[0], stream), "send");
	else
		expect(self, marrow_recv(it->to, it->count, it->type, it->src, self->comms[0], stream), "recv");
}

/* A collective in the midst of a group: sums of integers that wrap, out of place. */
struct sum {
	uint8_t *send, *recv;
	size_t count;
};

static struct sum draw_sum(struct world_rank *self, struct desk *d, uint64_t *s, uint64_t *own)
{
	struct sum c = {.count = world_random(s) % 3 ? world_random(s) % 100 : world_random(s) % 6000};
	uint64_t seed = world_random(s);
	uint8_t *sums = calloc(c.count + 1, 1), *one = calloc(c.count + 1, 1);
	if (!sums || !one)
		abort();
	c.send = d->memory + place_filled(self, d, own, c.count, seed + self->rank * 1000003);
	for (uint32_t r = 0; r < self->nranks; r++) {
		pattern(one, seed + r * 1000003, c.count);
		for (size_t i = 0; i < c.count; i++)
			sums[i] = (uint8_t)(sums[i] + one[i]);
	}
	size_t at = place(self, d, own, c.count);
	memcpy(d->after + at, sums, c.count);
	c.recv = d->memory + at;
	free(sums);
	free(one);
	return c;
}

/* Makes this rank's calls of a group: sends to one peer, recvs from one peer and collectives each in order, all else as it likes. */
static void call_group(struct world_rank *self, struct desk *d, const struct sum *sums, uint32_t nsums, uint64_t *own)
{
	uint32_t ways = 2 * self->nranks + 1, next[2 * WORLD_MAX_RANKS + 1] = {0}, open = ways;
	bool done[2 * WORLD_MAX_RANKS + 1] = {false};
	void *stream = any_stream(self, own);
	while (open > 0) {
		uint32_t way = (uint32_t)(world_random(own) % ways), peer = way / 2, i = next[way];
		if (done[way])
			continue;
		if (world_random(own) % 4 == 0)
			stream = any_stream(self, own);
		if (way == ways - 1) {
			if (i < nsums)
				expect(self, marrow_all_reduce(sums[i].send, sums[i].recv, sums[i].count, MARROW_INT8, MARROW_SUM, self->comms[0],
							       stream), "all_reduce");
			next[way] = i + 1;
			done[way] = i + 1 >= nsums;
			open -= done[way];
			continue;
		}
		bool sends = way % 2;
		while (i < d->count && !(sends ? d->items[i].src == self->rank && d->items[i].dst == peer
						: d->items[i].dst == self->rank && d->items[i].src == peer))
			i++;
		if (i < d->count)
			call_item(self, &d->items[i], sends, stream);
		next[way] = i + 1;
		done[way] = i >= d->count;
		open -= done[way];
	}
}

static void step_group(struct world_rank *self, struct desk *d, uint64_t *s, uint64_t *own)
{
	uint32_t n = self->nranks, count = 1 + (uint32_t)(world_random(s) % (world_random(s) % 8 ? 4 * n : MAX_ITEMS / 2)), nsums = 0;
	size_t limit = program.room / 4 / count;
	struct sum sums[2];
	for (uint32_t i = 0; i < count; i++) {
		uint32_t src = draw_rank(s, n), dst = draw_rank(s, n);
		struct item it = draw_item(s, src, dst, count > 4 * n && limit > 2000 ? 2000 : limit);
		add_item(self, d, own, it);
	}
	if (world_random(s) % 3 == 0)
		for (nsums = 0; nsums < 1 + (count & 1); nsums++)
			sums[nsums] = draw_sum(self, d, s, own);
	desk_load(self, d);
	uint32_t replays = world_random(s) % 4 ? 0 : 1 + (uint32_t)(world_random(s) % 3);
	void *graph = NULL, *stream = self->streams[0];
	if (!on_cuda(self) || replays == 0) {
		marrow_group_start();
		call_group(self, d, sums, nsums, own);
		expect(self, marrow_group_end(), "group end");
		desk_check(self, d, "a group");
		return;
	}
	/* Captured: on one stream. */
	void *streams[WORLD_STREAMS];
	memcpy(streams, self->streams, sizeof streams);
	for (int i = 0; i < WORLD_STREAMS; i++)
		self->streams[i] = stream;
	if (device_capture_begin(stream, DEVICE_CAPTURE_THREAD_LOCAL) != 0)
		world_fail(self, "capture: %s", device_error());
	marrow_group_start();
	call_group(self, d, sums, nsums, own);
	expect(self, marrow_group_end(), "captured group");
	memcpy(self->streams, streams, sizeof streams);
	if (device_capture_end(stream, &graph) != 0) {
		world_fail(self, "end of capture: %s", device_error());
		return;
	}
	for (uint32_t i = 0; i < replays; i++)
		if (device_graph_launch(graph, stream) != 0)
			world_fail(self, "replay: %s", device_error());
	desk_check(self, d, "a replayed group");
	device_graph_destroy(graph);
}

/* Two ranks, no group; the others know nothing of it. Both ways one after the other. */
static void step_lone(struct world_rank *self, struct desk *d, uint64_t *s, uint64_t *own)
{
	uint32_t n = self->nranks, a = draw_rank(s, n), b = draw_rank(s, n), count = 1 + (uint32_t)(world_random(s) % 6);
	if (a == b)
		b = (a + 1) % n;
	for (uint32_t i = 0; i < count; i++) {
		bool back = world_random(s) % 2;
		add_item(self, d, own, draw_item(s, back ? b : a, back ? a : b, program.room / 16));
	}
	desk_load(self, d);
	for (uint32_t i = 0; i < count; i++)
		if (self->rank == a || self->rank == b)
			call_item(self, &d->items[i], d->items[i].src == self->rank, any_stream(self, own));
	desk_check(self, d, "lone calls");
}

/* One way, in groups that both ends cut differently. */
static void step_split(struct world_rank *self, struct desk *d, uint64_t *s, uint64_t *own)
{
	uint32_t n = self->nranks, a = draw_rank(s, n), b = (a + 1 + draw_rank(s, n - 1)) % n;
	uint32_t count = 2 + (uint32_t)(world_random(s) % (world_random(s) % 4 ? 12 : MAX_ITEMS / 2));
	for (uint32_t i = 0; i < count; i++)
		add_item(self, d, own, draw_item(s, a, b, program.room / 2 / count));
	desk_load(self, d);
	for (uint32_t i = 0; i < count && (self->rank == a || self->rank == b);) {
		uint32_t many = 1 + (uint32_t)(world_random(own) % count);
		marrow_group_start();
		for (; many > 0 && i < count; many--, i++)
			call_item(self, &d->items[i], self->rank == a, any_stream(self, own));
		expect(self, marrow_group_end(), "group end");
	}
	desk_check(self, d, "groups cut differently");
}

/* Blocks with gaps: bytes of each at displs. */
static void step_all_to_all(struct world_rank *self, struct desk *d, uint64_t *s, uint64_t *own)
{
	uint32_t n = self->nranks, me = self->rank;
	bool equal = world_random(s) % 2;
	enum marrow_type type = draw_type(s);
	size_t elem = mrw_type_bytes((uint32_t)type), limit = program.room / 4 / n / elem, count = draw_bytes(s, limit * elem) / elem;
	size_t counts[WORLD_MAX_RANKS][WORLD_MAX_RANKS], send_displs[WORLD_MAX_RANKS], recv_displs[WORLD_MAX_RANKS], recv_counts[WORLD_MAX_RANKS];
	size_t sent = 0, received = 0;
	uint64_t seed = world_random(s);
	for (uint32_t a = 0; a < n; a++)
		for (uint32_t b = 0; b < n; b++)
			counts[a][b] = equal ? count : draw_bytes(s, limit * elem) / elem;
	for (uint32_t p = 0; p < n; p++) {
		size_t gap = equal ? 0 : world_random(own) % 5;
		send_displs[p] = sent + gap;
		sent = send_displs[p] + counts[me][p];
		recv_counts[p] = counts[p][me];
		recv_displs[p] = received + gap;
		received = recv_displs[p] + counts[p][me];
	}
	size_t from = place(self, d, own, sent * elem), to = place(self, d, own, received * elem);
	for (uint32_t p = 0; p < n; p++) {
		pattern(d->before + from + send_displs[p] * elem, seed + me * 100 + p, counts[me][p] * elem);
		pattern(d->after + from + send_displs[p] * elem, seed + me * 100 + p, counts[me][p] * elem);
		pattern(d->after + to + recv_displs[p] * elem, seed + p * 100 + me, counts[p][me] * elem);
	}
	desk_load(self, d);
	if (equal)
		expect(self, marrow_all_to_all(d->memory + from, d->memory + to, count, type, self->comms[0], any_stream(self, own)), "all_to_all");
	else
		expect(self, marrow_all_to_all_v(d->memory + from, counts[me], send_displs, d->memory + to, recv_counts, recv_displs, type,
						 self->comms[0], any_stream(self, own)), "all_to_all_v");
	desk_check(self, d, equal ? "all_to_all" : "all_to_all_v");
}

static void step_rooted(struct world_rank *self, struct desk *d, uint64_t *s, uint64_t *own)
{
	uint32_t n = self->nranks, me = self->rank, root = draw_rank(s, n);
	bool gathers = world_random(s) % 2, in_place = world_random(s) % 2;
	enum marrow_type type = draw_type(s);
	size_t elem = mrw_type_bytes((uint32_t)type), count = draw_bytes(s, program.room / 4 / n) / elem, bytes = count * elem;
	uint64_t seed = world_random(s);
	size_t whole = 0, part = 0;
	if (me == root)
		whole = gathers ? place(self, d, own, n * bytes) : place(self, d, own, n * bytes);
	if (me != root || !in_place)
		part = place(self, d, own, bytes);
	else
		part = whole + me * bytes;
	for (uint32_t r = 0; r < n && me == root; r++) {
		if (!gathers)
			pattern(d->before + whole + r * bytes, seed + r, bytes);
		pattern(d->after + whole + r * bytes, seed + r, bytes);
	}
	if (gathers)
		pattern(d->before + part, seed + me, bytes);
	pattern(d->after + part, seed + me, bytes);
	desk_load(self, d);
	void *stream = any_stream(self, own), *all = me == root ? d->memory + whole : NULL;
	if (gathers)
		expect(self, marrow_gather(d->memory + part, all, count, type, root, self->comms[0], stream), "gather");
	else
		expect(self, marrow_scatter(all, d->memory + part, count, type, root, self->comms[0], stream), "scatter");
	desk_check(self, d, gathers ? "gather" : "scatter");
}

static void step_all_gather_v(struct world_rank *self, struct desk *d, uint64_t *s, uint64_t *own)
{
	uint32_t n = self->nranks, me = self->rank;
	bool in_place = world_random(s) % 2;
	enum marrow_type type = draw_type(s);
	size_t elem = mrw_type_bytes((uint32_t)type), counts[WORLD_MAX_RANKS], displs[WORLD_MAX_RANKS], all = 0;
	uint64_t seed = world_random(s);
	for (uint32_t r = 0; r < n; r++) {
		counts[r] = draw_bytes(s, program.room / 4 / n) / elem;
		displs[r] = all + world_random(s) % 7;
		all = displs[r] + counts[r];
	}
	size_t to = place(self, d, own, all * elem), from = in_place ? to + displs[me] * elem : place(self, d, own, counts[me] * elem);
	for (uint32_t r = 0; r < n; r++)
		pattern(d->after + to + displs[r] * elem, seed + r, counts[r] * elem);
	pattern(d->before + from, seed + me, counts[me] * elem);
	pattern(d->after + from, seed + me, counts[me] * elem);
	desk_load(self, d);
	expect(self, marrow_all_gather_v(d->memory + from, d->memory + to, counts, displs, type, self->comms[0], any_stream(self, own)),
	       "all_gather_v");
	desk_check(self, d, "all_gather_v");
}

static void *memory_new(struct world_rank *self, size_t bytes)
{
	void *memory = NULL;
	if (!on_cuda(self))
		memory = malloc(bytes);
	else if (device_alloc(&memory, bytes) != 0)
		world_fail(self, "cannot allocate: %s", device_error());
	return memory;
}

static void memory_free(struct world_rank *self, void *memory)
{
	if (on_cuda(self))
		device_free(memory);
	else
		free(memory);
}

/* Everybody and everybody, at once, then an all_reduce. Without images of all memory: it is large. */
static void large(struct world_rank *self, struct desk *d, uint64_t *s, uint64_t *own)
{
	enum { PIECE = 1 << 16 };
	uint32_t n = self->nranks, me = self->rank;
	uint8_t *out[WORLD_MAX_RANKS] = {NULL}, *in[WORLD_MAX_RANKS] = {NULL}, piece[PIECE], got[PIECE];
	struct sum sum = draw_sum(self, d, s, own);
	desk_load(self, d);
	for (uint32_t p = 0; p < n && !self->failed; p++) {
		if (p == me)
			continue;
		out[p] = memory_new(self, program.large);
		in[p] = memory_new(self, program.large);
		for (size_t at = 0; at < program.large && !self->failed; at += PIECE) {
			pattern(piece, program.seed + me * 16 + p + at, PIECE);
			size_t bytes = program.large - at < PIECE ? program.large - at : PIECE;
			if (!on_cuda(self))
				memcpy(out[p] + at, piece, bytes);
			else if (device_copy(out[p] + at, piece, bytes) != 0)
				world_fail(self, "copy in: %s", device_error());
		}
	}
	/* Nobody allocates on while a kernel waits for it. */
	world_meet(self);
	expect(self, marrow_barrier(self->comms[0], self->streams[0]), "barrier");
	if (on_cuda(self) && device_stream_synchronize(self->streams[0]) != 0)
		world_fail(self, "barrier: %s", device_error());
	marrow_group_start();
	for (uint32_t q = 0; q < n && !self->failed; q++) {
		uint32_t p = me % 2 ? n - 1 - q : q;
		if (p == me)
			continue;
		expect(self, marrow_send(out[p], program.large - me, MARROW_UINT8, p, self->comms[0], self->streams[0]), "send");
		expect(self, marrow_recv(in[p], program.large - p, MARROW_UINT8, p, self->comms[0], self->streams[0]), "recv");
	}
	expect(self, marrow_group_end(), "group end");
	expect(self, marrow_all_reduce(sum.send, sum.recv, sum.count, MARROW_INT8, MARROW_SUM, self->comms[0], self->streams[0]), "all_reduce");
	desk_check(self, d, "an all_reduce after a large exchange");
	for (uint32_t p = 0; p < n; p++) {
		for (size_t at = 0; p != me && at < program.large - p && !self->failed; at += PIECE) {
			size_t left = program.large - p - at, bytes = left < PIECE ? left : PIECE;
			pattern(piece, program.seed + p * 16 + me + at, PIECE);
			if (!on_cuda(self))
				memcpy(got, in[p] + at, bytes);
			else if (device_copy(got, in[p] + at, bytes) != 0)
				world_fail(self, "copy out: %s", device_error());
			if (memcmp(got, piece, bytes) != 0)
				world_fail(self, "a large exchange: wrong bytes from rank %u behind %zu", p, at);
		}
	}
	world_meet(self);
	for (uint32_t p = 0; p < n; p++) {
		memory_free(self, out[p]);
		memory_free(self, in[p]);
	}
	world_meet(self);
}

static void run(struct world_rank *self)
{
	uint64_t s = program.seed, own = program.seed * 31 + self->rank;
	struct desk *d = calloc(1, sizeof *d);
	if (!d)
		abort();
	d->memory = memory_new(self, program.room);
	mrw_comm_set_listed(self->comms[0], program.listed);
	d->before = malloc(program.room);
	d->after = malloc(program.room);
	d->got = malloc(program.room);
	if (!d->memory || !d->before || !d->after || !d->got)
		abort();
	for (uint64_t i = 0; i < program.steps && !self->failed; i++) {
		uint64_t kind = world_random(&s) % 16;
		desk_clear(d);
		if (world_random(&own) % 16 == 0)
			usleep((useconds_t)(world_random(&own) % 300));
		if (program.large)
			large(self, d, &s, &own);
		else if (self->nranks == 1 || kind < 6)
			step_group(self, d, &s, &own);
		else if (kind < 8)
			step_lone(self, d, &s, &own);
		else if (kind < 10)
			step_split(self, d, &s, &own);
		else if (kind < 13)
			step_all_to_all(self, d, &s, &own);
		else if (kind < 15)
			step_rooted(self, d, &s, &own);
		else
			step_all_gather_v(self, d, &s, &own);
		if (self->failed)
			world_fail(self, "at step %llu", (unsigned long long)i);
	}
	/* Nobody leaves before all are done: a rank that the last steps left out would be gone. */
	expect(self, marrow_barrier(self->comms[0], self->streams[0]), "barrier");
	if (on_cuda(self))
		(void)device_stream_synchronize(self->streams[0]);
	enum marrow_status failure = MARROW_SUCCESS;
	expect(self, marrow_comm_async_error(self->comms[0], &failure), "async_error");
	if (failure != MARROW_SUCCESS)
		world_fail(self, "after all: %s", marrow_last_error(self->comms[0]));
	world_meet(self);
	memory_free(self, d->memory);
	free(d->before);
	free(d->after);
	free(d->got);
	free(d);
}

static uint64_t number(char **v, int *i)
{
	if (!v[*i + 1]) {
		fprintf(stderr, "%s needs a number\n", v[*i]);
		exit(2);
	}
	return strtoull(v[++*i], NULL, 0);
}

int main(int argc, char **v)
{
	struct world w = {.target = MARROW_TARGET_HOST, .nranks = 4, .ncomms = 1, .team_size = 1};
	program.steps = 300;
	program.room = 2 << 20;
	for (int i = 1; i < argc; i++) {
		if (strcmp(v[i], "--target") == 0 && i + 1 < argc)
			w.target = strcmp(v[++i], "cuda") == 0 ? MARROW_TARGET_CUDA : MARROW_TARGET_HOST;
		else if (strcmp(v[i], "--ranks") == 0)
			w.nranks = (uint32_t)number(v, &i);
		else if (strcmp(v[i], "--steps") == 0)
			program.steps = number(v, &i);
		else if (strcmp(v[i], "--team") == 0)
			w.team_size = (uint32_t)number(v, &i);
		else if (strcmp(v[i], "--listed") == 0)
			program.listed = (uint32_t)number(v, &i);
		else if (strcmp(v[i], "--timeout-ms") == 0)
			w.timeout_ms = number(v, &i);
		else if (strcmp(v[i], "--ctas") == 0)
			w.max_ctas = (uint32_t)number(v, &i);
		else if (strcmp(v[i], "--room") == 0)
			program.room = number(v, &i);
		else if (strcmp(v[i], "--large") == 0)
			program.large = number(v, &i);
		else if (strcmp(v[i], "--parallel") == 0)
			w.parallel_channels = true;
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
	if (w.nranks < 1 || w.nranks > WORLD_MAX_RANKS)
		return 2;
	if (program.large)
		program.steps = 1;
	program.seed = world_seed();
	if (w.set_seq) {
		/* Wraps within the program; every other time at once. */
		w.seq = 0u - 1 - (uint32_t)(program.seed / 2 % (program.seed % 2 ? 3 : 100));
		w.round = UINT64_MAX - program.seed % 200;
	}
	int failed = world_run(&w, run);
	printf("%llu steps on %u ranks: %s\n", (unsigned long long)program.steps, w.nranks, failed ? "FAILED" : "ok");
	return failed ? 1 : 0;
}
