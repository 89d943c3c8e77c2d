#include "support/call.h"
#include "support/device_memory.h"
#include "support/hosts.h"

#include "comm.h"

#include <stdio.h>
#include <stdlib.h>

enum { GUARD = 64, SLACK = 64, GUARD_BYTE = 0xa5 };

/* memory: guard | send area | guard | recv area | guard, each area as large as the call needs, and SLACK bytes. */
static size_t area(const struct call_buffers *b)
{
	return b->used + SLACK;
}

static size_t total(const struct call_buffers *b)
{
	return 3 * GUARD + 2 * area(b);
}

static bool on_cuda(const struct world_rank *self)
{
	return self->world->target == MARROW_TARGET_CUDA;
}

int call_buffers_make(struct world_rank *self, struct call_buffers *b, size_t room)
{
	void *memory = NULL, *scalar = NULL;
	memset(b, 0, sizeof *b);
	b->room = b->used = room = (room + 63) / 64 * 64;
	b->shadow = malloc(total(b));
	b->expected = malloc(room);
	for (uint32_t r = 0; r < self->nranks; r++)
		b->inputs[r] = malloc(room);
	uint32_t partial = world_tree(self->world) ? REFERENCE_TREE_ROOM : world_sparse(self->world) ? hosts_count(self->nranks) : 0;
	for (uint32_t h = 0; h < partial; h++)
		b->partial[h] = malloc(room);
	if (self->world->windows && marrow_mem_alloc(&memory, total(b), self->world->target) != MARROW_SUCCESS) {
		world_fail(self, "cannot allocate: %s", marrow_last_error(NULL));
		return -1;
	}
	if (on_cuda(self)) {
		if ((!memory && device_alloc(&memory, total(b)) != 0) || device_alloc(&scalar, 8) != 0) {
			world_fail(self, "cannot allocate: %s", device_error());
			return -1;
		}
	} else {
		memory = memory ? memory : malloc(total(b));
		scalar = malloc(8);
	}
	b->memory = memory;
	b->scalar = scalar;
	if (!b->shadow || !b->expected || !b->memory || !b->scalar)
		abort();
	return 0;
}

void call_buffers_free(struct world_rank *self, struct call_buffers *b)
{
	for (uint32_t c = 0; c < self->world->ncomms; c++)
		if (b->windows[c] && !self->failed && marrow_window_deregister(self->comms[c], b->windows[c]) != MARROW_SUCCESS)
			world_fail(self, "deregister: %s", marrow_last_error(self->comms[c]));
	if (self->world->windows && marrow_mem_free(b->memory) != MARROW_SUCCESS && !self->failed)
		world_fail(self, "free: %s", marrow_last_error(NULL));
	if (on_cuda(self)) {
		if (!self->world->windows)
			device_free(b->memory);
		device_free(b->scalar);
	} else {
		if (!self->world->windows)
			free(b->memory);
		free(b->scalar);
	}
	free(b->shadow);
	free(b->expected);
	for (uint32_t r = 0; r < self->nranks; r++)
		free(b->inputs[r]);
	for (uint32_t h = 0; h < WORLD_MAX_RANKS; h++)
		free(b->partial[h]);
}

void call_buffers_toggle(struct world_rank *self, struct call_buffers *b, uint32_t comm, uint64_t *s)
{
	size_t all = total(b), from = world_random(s) % 3 ? 0 : world_random(s) % (all / 4), bytes = all - from;
	if (world_random(s) % 3 == 0)
		bytes -= world_random(s) % (all / 4);
	mrw_comm_set_places(self->comms[comm]);
	if (!b->windows[comm]) {
		if (marrow_window_register(self->comms[comm], b->memory + from, bytes, &b->windows[comm]) != MARROW_SUCCESS)
			world_fail(self, "register: %s", marrow_last_error(self->comms[comm]));
		return;
	}
	if (marrow_window_deregister(self->comms[comm], b->windows[comm]) != MARROW_SUCCESS)
		world_fail(self, "deregister: %s", marrow_last_error(self->comms[comm]));
	b->windows[comm] = NULL;
}

enum mrw_func call_func(uint32_t index)
{
	return index < MRW_FUNC_COUNT ? (enum mrw_func)index : index == MRW_FUNC_COUNT ? MRW_FUNC_ALL_TO_ALL : MRW_FUNC_TRANSFERS;
}

static bool exchanges(const struct call *call)
{
	return call->func == MRW_FUNC_ALL_TO_ALL || call->func == MRW_FUNC_TRANSFERS;
}

static bool reduces(const struct call *call)
{
	return call->func == MRW_FUNC_ALL_REDUCE || call->func == MRW_FUNC_REDUCE_SCATTER || call->func == MRW_FUNC_REDUCE ||
	       call->func == MRW_FUNC_REDUCE_SCATTER_V;
}

size_t call_count_of(const struct call *call, uint32_t rank)
{
	uint64_t s = (call->shape ? call->shape : call->seed) * 31 + rank, kind = world_random(&s) % 4;
	if (call->func != MRW_FUNC_REDUCE_SCATTER_V || kind == 0)
		return call->count;
	return kind == 1 ? 0 : world_random(&s) % (call->count + 1);
}

static bool scatters(const struct call *call)
{
	return call->func == MRW_FUNC_REDUCE_SCATTER || call->func == MRW_FUNC_REDUCE_SCATTER_V;
}

/* Elements before rank's block. */
static size_t count_before(const struct call *call, uint32_t rank)
{
	size_t before = 0;
	for (uint32_t r = 0; r < rank; r++)
		before += call_count_of(call, r);
	return before;
}

/* Sends, and has no use for recv. */
static bool only_sends(const struct world_rank *self, const struct call *call)
{
	return call->func == MRW_FUNC_REDUCE && self->rank != call->root;
}

size_t call_count_limit(const struct call *call, uint32_t nranks, size_t room)
{
	bool wide = call->func == MRW_FUNC_ALL_GATHER || call->func == MRW_FUNC_REDUCE_SCATTER || call->func == MRW_FUNC_REDUCE_SCATTER_V ||
		    call->func == MRW_FUNC_ALL_TO_ALL;
	return room / reference_type_bytes(call->type) / (wide ? nranks : 1);
}

static size_t send_bytes(const struct world_rank *self, const struct call *call)
{
	bool wide = call->func == MRW_FUNC_REDUCE_SCATTER || call->func == MRW_FUNC_ALL_TO_ALL;
	if (call->func == MRW_FUNC_REDUCE_SCATTER_V)
		return count_before(call, self->nranks) * reference_type_bytes(call->type);
	return call->count * reference_type_bytes(call->type) * (wide ? self->nranks : 1);
}

static size_t recv_bytes(const struct world_rank *self, const struct call *call)
{
	bool wide = call->func == MRW_FUNC_ALL_GATHER || call->func == MRW_FUNC_ALL_TO_ALL;
	if (only_sends(self, call))
		return 0;
	return call_count_of(call, self->rank) * reference_type_bytes(call->type) * (wide ? self->nranks : 1);
}

static bool is_in_place(const struct world_rank *self, const struct call *call)
{
	return !exchanges(call) && (call->in_place >> self->rank % 16 & 1);
}

/* Where this rank's buffers lie within its areas. */
static void place(const struct world_rank *self, const struct call *call, struct call_buffers *b)
{
	size_t elem = reference_type_bytes(call->type), block = call->count * elem;
	size_t sent = send_bytes(self, call), received = recv_bytes(self, call);
	b->used = ((sent > received ? sent : received) + 63) / 64 * 64;
	if (b->used > b->room)
		abort(); /* a call too large for its buffers */
	uint32_t how = call->misaligned >> 2 * (self->rank % 16) & 3;
	size_t send_off = how == 1 ? elem : how == 2 ? 1 : 0, recv_off = how == 3 ? elem : send_off;
	b->send = b->memory + GUARD + send_off;
	b->recv = b->memory + GUARD + area(b) + GUARD + recv_off;
	if (!is_in_place(self, call))
		return;
	if (call->func == MRW_FUNC_ALL_GATHER)
		b->send = b->recv + self->rank * block;
	else if (call->func == MRW_FUNC_REDUCE_SCATTER)
		b->recv = b->send + self->rank * block;
	else if (call->func == MRW_FUNC_REDUCE_SCATTER_V)
		b->recv = b->send + count_before(call, self->rank) * elem;
	else
		b->recv = b->send;
}

static uint8_t *shadow_of(const struct call_buffers *b, const uint8_t *p)
{
	return b->shadow + (p - b->memory);
}

void call_prepare(struct world_rank *self, struct call_buffers *b, const struct call *call)
{
	size_t elems = send_bytes(self, call) / reference_type_bytes(call->type);
	place(self, call, b);
	memset(b->shadow, GUARD_BYTE, total(b));
	if (call->func != MRW_FUNC_BROADCAST || self->rank == call->root)
		fill_random(shadow_of(b, b->send), call->type, elems, call->seed, self->rank, call->style);
	if (on_cuda(self)) {
		if (device_copy(b->memory, b->shadow, total(b)) != 0)
			world_fail(self, "copy in: %s", device_error());
	} else {
		memcpy(b->memory, b->shadow, total(b));
	}
	b->dynamic = MARROW_OP_MAX;
	if (reduces(call) && call->op >= 5) {
		uint8_t scalar[8] = {0};
		bool device = call->op == 6;
		fill_scalar(scalar, call->type, call->seed, self->rank);
		if (on_cuda(self) ? device_copy(b->scalar, scalar, 8) != 0 : !memcpy(b->scalar, scalar, 8))
			world_fail(self, "copy of the scalar: %s", device_error());
		if (marrow_op_create_premulsum(&b->dynamic, device ? b->scalar : scalar, call->type,
					       device ? MARROW_SCALAR_DEVICE : MARROW_SCALAR_HOST, self->comms[call->comm]) != MARROW_SUCCESS)
			world_fail(self, "premulsum: %s", marrow_last_error(self->comms[call->comm]));
	}
}

static enum marrow_status shift(struct world_rank *self, struct call_buffers *b, const struct call *call)
{
	struct marrow_comm *comm = self->comms[call->comm];
	void *stream = self->streams[call->stream];
	uint32_t n = self->nranks;
	marrow_group_start();
	enum marrow_status status = marrow_send(b->send, call->count, call->type, (self->rank + 1) % n, comm, stream);
	if (status == MARROW_SUCCESS)
		status = marrow_recv(b->recv, call->count, call->type, (self->rank + n - 1) % n, comm, stream);
	enum marrow_status end = marrow_group_end();
	return status == MARROW_SUCCESS ? end : status;
}

static enum marrow_status make_call(struct world_rank *self, struct call_buffers *b, const struct call *call)
{
	struct marrow_comm *comm = self->comms[call->comm];
	void *stream = self->streams[call->stream];
	enum marrow_op op = call->op >= 5 ? b->dynamic : (enum marrow_op)call->op;
	size_t counts[WORLD_MAX_RANKS];
	for (uint32_t r = 0; r < self->nranks; r++)
		counts[r] = call_count_of(call, r);
	if (self->nranks > 1) {
		mrw_comm_set_channels(comm, call->channels);
		mrw_comm_set_algo(comm, call->algo);
	}
	switch (call->func) {
	case MRW_FUNC_ALL_REDUCE:
		return marrow_all_reduce(b->send, b->recv, call->count, call->type, op, comm, stream);
	case MRW_FUNC_BROADCAST:
		return marrow_broadcast(b->send, b->recv, call->count, call->type, call->root, comm, stream);
	case MRW_FUNC_ALL_GATHER:
		return marrow_all_gather(b->send, b->recv, call->count, call->type, comm, stream);
	case MRW_FUNC_REDUCE_SCATTER:
		return marrow_reduce_scatter(b->send, b->recv, call->count, call->type, op, comm, stream);
	case MRW_FUNC_REDUCE:
		return marrow_reduce(b->send, only_sends(self, call) && is_in_place(self, call) ? NULL : b->recv, call->count, call->type, op,
				     call->root, comm, stream);
	case MRW_FUNC_REDUCE_SCATTER_V:
		return marrow_reduce_scatter_v(b->send, b->recv, counts, call->type, op, comm, stream);
	case MRW_FUNC_ALL_TO_ALL:
		return marrow_all_to_all(b->send, b->recv, call->count, call->type, comm, stream);
	case MRW_FUNC_TRANSFERS:
		return shift(self, b, call);
	default:
		return marrow_barrier(comm, stream);
	}
}

static void replay(struct world_rank *self, struct call_buffers *b, const struct call *call)
{
	void *stream = self->streams[call->stream], *graph = NULL;
	static const enum device_capture modes[] = {DEVICE_CAPTURE_THREAD_LOCAL, DEVICE_CAPTURE_RELAXED};
	if (device_capture_begin(stream, modes[call->seed & 1]) != 0)
		world_fail(self, "capture: %s", device_error());
	enum marrow_status status = make_call(self, b, call);
	if (status != MARROW_SUCCESS)
		world_fail(self, "captured call: %s", marrow_last_error(self->comms[call->comm]));
	if (device_capture_end(stream, &graph) != 0) {
		world_fail(self, "end of capture: %s", device_error());
		return;
	}
	for (uint32_t i = 0; i < call->replays; i++)
		if (device_graph_launch(graph, stream) != 0)
			world_fail(self, "replay: %s", device_error());
	/* The next eager call may be on another stream: replays are ordered by the user. */
	if (device_stream_synchronize(stream) != 0)
		world_fail(self, "replay: %s", device_error());
	device_graph_destroy(graph);
}

void call_issue(struct world_rank *self, struct call_buffers *b, const struct call *call)
{
	if (call->replays && on_cuda(self)) {
		for (int i = 0; i < WORLD_STREAMS; i++)
			if (device_stream_synchronize(self->streams[i]) != 0)
				world_fail(self, "before a replay: %s", device_error());
		replay(self, b, call);
		return;
	}
	if (make_call(self, b, call) != MARROW_SUCCESS)
		world_fail(self, "call: %s", marrow_last_error(self->comms[call->comm]));
}

/* Ranks host by host. */
static void host_by_host(const struct world_rank *self, uint32_t *ring)
{
	uint32_t n = 0;
	for (uint32_t h = 0; h < hosts_count(self->nranks); h++)
		for (uint32_t r = 0; r < self->nranks; r++)
			if (hosts_of(r, self->nranks) == h)
				ring[n++] = r;
}

/* The order of trees: up to 4096 bytes by the first, else half by each. The second has the ranks backwards, or (an odd number) moved on by one. */
static void expect_tree(struct world_rank *self, struct call_buffers *b, const struct call *call, const void *const *inputs,
			const uint8_t *scalars)
{
	size_t elem = reference_type_bytes(call->type), bytes = call->count * elem, half = bytes > 4096 ? (bytes + 31) / 32 * 16 : bytes;
	uint32_t ring[WORLD_MAX_RANKS], n = self->nranks;
	host_by_host(self, ring);
	for (uint32_t tree = 0; tree < 2; tree++) {
		const void *in[WORLD_MAX_RANKS], *factors[WORLD_MAX_RANKS];
		size_t from = tree == 0 ? 0 : half, size = tree == 0 ? half : bytes - half;
		for (uint32_t place = 0; place < n; place++) {
			uint32_t r = ring[tree == 0 ? place : n % 2 == 0 ? n - 1 - place : (place + 1) % n];
			in[place] = (const uint8_t *)inputs[r] + from;
			factors[place] = scalars + r * elem;
		}
		if (size > 0)
			reference_tree(b->expected + from, b->partial, in, n, size / elem, call->type,
				       call->op >= 5 ? MARROW_OP_DYNAMIC : (enum marrow_op)call->op, factors);
	}
}

/* The order of a ring: host by host; the sum of a rank's block begins behind that rank and ends with it. */
static void expect_ring(struct world_rank *self, struct call_buffers *b, const struct call *call, const void *const *inputs,
			const uint8_t *scalars)
{
	size_t elem = reference_type_bytes(call->type), bytes = call->count * elem;
	size_t share = ((bytes + 15) / 16 + self->nranks - 1) / self->nranks * 16;
	uint32_t ring[WORLD_MAX_RANKS], n = self->nranks;
	host_by_host(self, ring);
	for (uint32_t i = 0; i < n; i++) { /* the block of ring[i] */
		const void *in[WORLD_MAX_RANKS], *factors[WORLD_MAX_RANKS];
		size_t from = share * ring[i] < bytes ? share * ring[i] : bytes, size = bytes - from < share ? bytes - from : share;
		if (scatters(call)) {
			from = 0;
			size = ring[i] == self->rank ? call_count_of(call, self->rank) * elem : 0;
		}
		for (uint32_t k = 0; k < n; k++) {
			uint32_t r = ring[(i + 1 + k) % n];
			in[k] = (const uint8_t *)inputs[r] + from;
			factors[k] = scalars + r * elem;
		}
		if (size > 0)
			reference_ring(b->expected + from, b->partial[0], b->partial[1], in, n, size / elem, call->type,
				       call->op >= 5 ? MARROW_OP_DYNAMIC : (enum marrow_op)call->op, factors);
	}
}

/* What recv must hold. */
static void expect(struct world_rank *self, struct call_buffers *b, const struct call *call)
{
	size_t elem = reference_type_bytes(call->type), block = call->count * elem, count = call_count_of(call, self->rank);
	uint64_t first = call->func == MRW_FUNC_REDUCE_SCATTER	     ? self->rank * call->count
			 : call->func == MRW_FUNC_REDUCE_SCATTER_V ? count_before(call, self->rank)
								   : 0;
	uint8_t scalars[WORLD_MAX_RANKS * 8];
	const void *inputs[WORLD_MAX_RANKS];
	switch (call->func) {
	case MRW_FUNC_BROADCAST:
		fill_random(b->expected, call->type, call->count, call->seed, call->root, call->style);
		return;
	case MRW_FUNC_ALL_GATHER:
		for (uint32_t r = 0; r < self->nranks; r++)
			fill_random(b->expected + r * block, call->type, call->count, call->seed, r, call->style);
		return;
	case MRW_FUNC_ALL_TO_ALL:
		for (uint32_t r = 0; r < self->nranks; r++)
			fill_random_at(b->expected + r * block, call->type, self->rank * call->count, call->count, call->seed, r, call->style);
		return;
	case MRW_FUNC_TRANSFERS:
		fill_random(b->expected, call->type, call->count, call->seed, (self->rank + self->nranks - 1) % self->nranks, call->style);
		return;
	case MRW_FUNC_ALL_REDUCE:
	case MRW_FUNC_REDUCE_SCATTER:
	case MRW_FUNC_REDUCE_SCATTER_V:
		break;
	case MRW_FUNC_REDUCE: /* who only sends finds its input as it was */
		if (!only_sends(self, call))
			break;
		fill_random(b->expected, call->type, call->count, call->seed, self->rank, call->style);
		return;
	default:
		return;
	}
	for (uint32_t r = 0; r < self->nranks; r++) {
		fill_random_at(b->inputs[r], call->type, first, count, call->seed, r, call->style);
		inputs[r] = b->inputs[r];
		fill_scalar(scalars + r * elem, call->type, call->seed, r);
	}
	enum marrow_op op = call->op >= 5 ? MARROW_OP_DYNAMIC : (enum marrow_op)call->op;
	if (world_tree(self->world) && !scatters(call)) {
		expect_tree(self, b, call, inputs, scalars);
		return;
	}
	if (world_ring(self->world) || world_tree(self->world)) {
		expect_ring(self, b, call, inputs, scalars);
		return;
	}
	if (!world_rails(self->world)) {
		reference_all_reduce(b->expected, inputs, self->nranks, count, call->type, op, scalars);
		return;
	}
	uint32_t host[WORLD_MAX_RANKS];
	for (uint32_t r = 0; r < self->nranks; r++)
		host[r] = hosts_of(r, self->nranks);
	reference_rails(b->expected, b->partial, inputs, self->nranks, host, count, call->type, op, scalars);
}

static bool guarded(const struct call_buffers *b, const uint8_t *from, const uint8_t *to)
{
	const uint8_t *p = shadow_of(b, from);
	size_t bytes = (size_t)(to - from);
	return bytes == 0 || (p[0] == GUARD_BYTE && memcmp(p, p + 1, bytes - 1) == 0);
}

void call_describe(const struct call *call, char *text, size_t bytes)
{
	snprintf(text, bytes, "%s count %zu %s op %u root %u algo %s channels %u in-place %x misaligned %x style %d comm %u stream %u "
		 "replays %u data seed %llu", mrw_func_name(call->func), call->count, reference_type_name(call->type), call->op, call->root,
		 call->algo < 0 ? "auto" : mrw_algo_name((enum mrw_algo)call->algo), call->channels, call->in_place, call->misaligned,
		 (int)call->style, call->comm, call->stream, call->replays, (unsigned long long)call->seed);
}

void call_check(struct world_rank *self, struct call_buffers *b, const struct call *call)
{
	char what[400];
	size_t bytes = recv_bytes(self, call), elem = reference_type_bytes(call->type);
	call_describe(call, what, sizeof what);
	if (b->dynamic != MARROW_OP_MAX && marrow_op_destroy(b->dynamic, self->comms[call->comm]) != MARROW_SUCCESS)
		world_fail(self, "op destroy: %s", marrow_last_error(self->comms[call->comm]));
	if (on_cuda(self)) {
		enum marrow_status async;
		if (device_stream_synchronize(self->streams[call->stream]) != 0)
			world_fail(self, "%s: %s", what, device_error());
		if (marrow_comm_async_error(self->comms[call->comm], &async) != MARROW_SUCCESS || async != MARROW_SUCCESS)
			world_fail(self, "%s: %s", what, marrow_last_error(self->comms[call->comm]));
		if (device_copy(b->shadow, b->memory, total(b)) != 0)
			world_fail(self, "%s: copy out: %s", what, device_error());
	} else {
		memcpy(b->shadow, b->memory, total(b));
	}
	if (call->func == MRW_FUNC_BARRIER || self->failed)
		return;
	expect(self, b, call);
	const uint8_t *got = shadow_of(b, only_sends(self, call) ? b->send : b->recv);
	size_t checked = only_sends(self, call) ? send_bytes(self, call) : bytes;
	bool equal = memcmp(got, b->expected, checked) == 0; /* at once, for sanitizers look at each byte of a loop */
	for (size_t i = 0; !equal && i < checked; i++) {
		if (got[i] == b->expected[i])
			continue;
		uint64_t have = 0, want = 0;
		memcpy(&have, got + i / elem * elem, elem);
		memcpy(&want, b->expected + i / elem * elem, elem);
		world_fail(self, "%s: element %zu is %llx, not %llx", what, i / elem, (unsigned long long)have, (unsigned long long)want);
		return;
	}
	if (is_in_place(self, call))
		return;
	const uint8_t *recv_area = b->memory + GUARD + area(b);
	if (!guarded(b, recv_area, b->recv) || !guarded(b, b->recv + bytes, recv_area + GUARD + area(b) + GUARD))
		world_fail(self, "%s: wrote outside of recv", what);
	size_t sent = send_bytes(self, call);
	if (call->func == MRW_FUNC_BROADCAST && self->rank != call->root)
		sent = 0;
	if (!guarded(b, b->memory, b->memory + GUARD) || !guarded(b, b->send + sent, recv_area))
		world_fail(self, "%s: wrote around send", what);
}
