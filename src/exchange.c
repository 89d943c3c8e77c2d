/* exchange.c - sends, recvs and the collectives that are made of transfers: check, list, launch. */
#include "comm.h"

#include "collectives/routes.h"

#include <stdlib.h>

void mrw_task_drop(struct mrw_task *task)
{
	free(task->list);
	task->list = NULL;
}

/* One line of a list while it is made. */
static enum marrow_status put(struct marrow_comm *comm, struct mrw_task *task, const void *base, uint64_t offset, uint64_t bytes, uint32_t peer,
			      enum mrw_way way)
{
	const struct mrw_call *c = &task->args.call;
	MRW_TRY(mrw_check_buffer(comm, c->func, way == MRW_WAY_OUT ? "send" : "recv", base, bytes));
	struct mrw_transfer *t = task->list ? &task->list[task->listed] : &task->one;
	task->listed++;
	memset(t, 0, sizeof *t);
	t->buffer = bytes ? (uint8_t *)(uintptr_t)base + offset : NULL; /* a sender's is only read */
	t->bytes = bytes;
	t->peer = (uint8_t)peer;
	t->way = (uint8_t)way;
	t->func = c->func;
	t->type = c->type;
	return MARROW_SUCCESS;
}

/* Elements of rank r's block and where it begins, in bytes; false: overflow. */
static bool block(size_t count, const size_t *counts, const size_t *displs, uint32_t r, uint32_t elem, uint64_t *offset, uint64_t *bytes)
{
	const uint64_t limit = INT64_MAX / elem;
	uint64_t n = counts ? counts[r] : count, at;
	if (n > limit)
		return false;
	if (displs)
		at = displs[r];
	else if (r > 0 && count > limit / r)
		return false;
	else
		at = (uint64_t)count * r;
	*offset = at * elem;
	*bytes = n * elem;
	return at <= limit && n <= limit - at;
}

/* What this rank sends to, or receives from, peer p; a self block is both. Nothing: listed stays as it is. */
static enum marrow_status put_block(struct marrow_comm *comm, const struct mrw_exchange *x, struct mrw_task *task, uint32_t p, enum mrw_way way)
{
	uint32_t elem = mrw_type_bytes((uint32_t)x->type), me = comm->rank;
	bool sends = way == MRW_WAY_OUT, whole = false;
	const size_t *counts = sends ? x->send_counts : x->recv_counts, *displs = sends ? x->send_displs : x->recv_displs;
	const void *base = sends ? x->send : x->recv;
	uint32_t r = p;
	switch (x->func) {
	case MRW_FUNC_GATHER:
		if ((sends ? p : me) != x->root)
			return MARROW_SUCCESS;
		whole = sends;
		break;
	case MRW_FUNC_SCATTER:
		if ((sends ? me : p) != x->root)
			return MARROW_SUCCESS;
		whole = !sends;
		break;
	case MRW_FUNC_ALL_GATHER_V:
		counts = x->recv_counts;
		whole = sends;
		r = sends ? me : p;
		break;
	default:
		break;
	}
	uint64_t offset, bytes;
	if (!block(x->count, counts, whole ? NULL : displs, r, elem, &offset, &bytes))
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s: the block of rank %u overflows (a negative count or displacement?)",
				mrw_func_name(x->func), r);
	return put(comm, task, base, whole ? 0 : offset, bytes, p, way);
}

/* The right neighbour first, so that no one is hit by all. */
static enum marrow_status list_blocks(struct marrow_comm *comm, const struct mrw_exchange *x, struct mrw_task *task)
{
	uint32_t n = comm->nranks;
	task->list = malloc(2 * n * sizeof *task->list);
	if (!task->list)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "%s: out of memory for a list of %u transfers", mrw_func_name(x->func), 2 * n);
	for (uint32_t q = 0; q < n; q++) {
		MRW_TRY(put_block(comm, x, task, (comm->rank + q) % n, MRW_WAY_OUT));
		MRW_TRY(put_block(comm, x, task, (comm->rank + n - q) % n, MRW_WAY_IN));
	}
	return MARROW_SUCCESS;
}

static enum marrow_status check_counts(const struct mrw_exchange *x)
{
	const char *missing = NULL;
	if (x->func == MRW_FUNC_ALL_TO_ALL_V && !x->send_counts)
		missing = "send_counts";
	else if (x->func == MRW_FUNC_ALL_TO_ALL_V && !x->send_displs)
		missing = "send_displs";
	else if ((x->func == MRW_FUNC_ALL_TO_ALL_V || x->func == MRW_FUNC_ALL_GATHER_V) && !x->recv_counts)
		missing = x->func == MRW_FUNC_ALL_TO_ALL_V ? "recv_counts" : "counts";
	else if ((x->func == MRW_FUNC_ALL_TO_ALL_V || x->func == MRW_FUNC_ALL_GATHER_V) && !x->recv_displs)
		missing = x->func == MRW_FUNC_ALL_TO_ALL_V ? "recv_displs" : "displs";
	if (missing)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s: %s is NULL; it has an entry for each rank", mrw_func_name(x->func), missing);
	return MARROW_SUCCESS;
}

/* Every pair of ranks has lanes; but the routes of a launch travel in a CUDA kernel's parameters. */
static enum marrow_status check_routes(const struct marrow_comm *comm, const struct mrw_exchange *x)
{
	if (comm->device.runtime->target == MARROW_TARGET_CUDA && 2 * (comm->nranks - 1) > MRW_MAX_ROUTES)
		return mrw_fail(MARROW_UNSUPPORTED, "%s: of %u ranks there are no transfers on GPUs, of %u at most: make a smaller communicator "
				"(marrow_comm_split)", mrw_func_name(x->func), comm->nranks, MRW_MAX_ROUTES / 2 + 1);
	return MARROW_SUCCESS;
}

static enum marrow_status check(struct marrow_comm *comm, const struct mrw_exchange *x)
{
	const char *name = mrw_func_name(x->func);
	bool pair = mrw_is_pairwise(x->func);
	if (mrw_type_bytes((uint32_t)x->type) == 0)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s: %d is no element type: use enum marrow_type", name, (int)x->type);
	if (x->root >= comm->nranks)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s: %s %u, but the communicator has ranks 0 to %u", name, pair ? "peer" : "root", x->root,
				comm->nranks - 1);
	if (x->count > INT64_MAX / mrw_type_bytes((uint32_t)x->type) / (pair ? 1 : comm->nranks))
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s: count %zu of %s overflows (a negative count?)", name, x->count,
				mrw_type_name((uint32_t)x->type));
	if (pair && x->root == comm->rank && !mrw_group_active())
		return mrw_fail(MARROW_INVALID_USAGE, "%s: rank %u is its own peer outside of a group and would wait for itself; put send and recv "
				"between marrow_group_start() and marrow_group_end()", name, comm->rank);
	MRW_TRY(check_routes(comm, x));
	return check_counts(x);
}

/* Counts that must be equal on all ranks. */
static uint64_t counts_hash(const size_t *counts, uint32_t n)
{
	uint64_t h = 0xcbf29ce484222325u;
	for (uint32_t r = 0; r < n; r++)
		h = (h ^ counts[r]) * 0x9e3779b97f4a7c15u, h ^= h >> 32;
	return h;
}

enum marrow_status mrw_plan_exchange(struct marrow_comm *comm, const struct mrw_exchange *x, struct mrw_task *task)
{
	enum marrow_status status;
	memset(task, 0, sizeof *task);
	MRW_TRY(check(comm, x));
	task->comm = comm;
	task->generation = comm->generation;
	task->stream = x->stream;
	task->kernel = MRW_KERNEL_TRANSFERS;
	task->type = x->type;
	task->args = comm->args;
	struct mrw_call *c = &task->args.call;
	c->func = (uint8_t)x->func;
	c->type = (uint8_t)x->type;
	c->algo = MRW_ALGO_TRANSFERS;
	c->root = x->root;
	c->count = x->count;
	if (mrw_is_pairwise(x->func)) {
		bool sends = x->func == MRW_FUNC_SEND;
		c->op = sends ? 1 : 2;
		c->hash = 1; /* nobody compares it */
		c->count *= mrw_type_bytes((uint32_t)x->type);
		return put(comm, task, sends ? x->send : x->recv, 0, c->count, x->root, sends ? MRW_WAY_OUT : MRW_WAY_IN);
	}
	if (x->func == MRW_FUNC_ALL_GATHER_V)
		c->blocks = counts_hash(x->recv_counts, comm->nranks);
	c->hash = mrw_call_hash(c);
	MRW_TRY_GOTO(list_blocks(comm, x, task));
	return MARROW_SUCCESS;
fail:
	mrw_task_drop(task);
	return status;
}

static const struct mrw_transfer *list_of(const struct mrw_task *task)
{
	return task->list ? task->list : &task->one;
}

/* The n-th transfer of a way with oneself among the tasks of comm, NULL: there are fewer. */
static const struct mrw_transfer *self_transfer(const struct mrw_task *tasks, size_t count, const struct marrow_comm *comm, enum mrw_way way, size_t n)
{
	for (size_t i = 0; i < count; i++) {
		const struct mrw_task *task = &tasks[i];
		if (task->comm == comm && mrw_is_pairwise(task->args.call.func) && task->one.peer == comm->rank && task->one.way == way && n-- == 0)
			return &task->one;
	}
	return NULL;
}

static enum marrow_status check_selves_of(const struct mrw_task *tasks, size_t count, const struct marrow_comm *comm)
{
	for (size_t n = 0;; n++) {
		const struct mrw_transfer *send = self_transfer(tasks, count, comm, MRW_WAY_OUT, n);
		const struct mrw_transfer *recv = self_transfer(tasks, count, comm, MRW_WAY_IN, n);
		if (!send && !recv)
			return MARROW_SUCCESS;
		if (!send || !recv)
			return mrw_fail(MARROW_INVALID_USAGE, "marrow_group_end: the group has a %s of rank %u with itself (number %zu) but no %s to go with "
					"it", send ? "send" : "recv", comm->rank, n, send ? "recv" : "send");
		if (send->bytes != recv->bytes)
			return mrw_fail(MARROW_MISMATCH, "marrow_group_end: rank %u sends itself %llu bytes and receives %llu (number %zu of such pairs)",
					comm->rank, (unsigned long long)send->bytes, (unsigned long long)recv->bytes, n);
	}
}

enum marrow_status mrw_check_selves(const struct mrw_task *tasks, size_t count)
{
	const struct marrow_comm *checked = NULL;
	for (size_t i = 0; i < count; i++) {
		const struct marrow_comm *comm = tasks[i].comm;
		if (comm == checked || !mrw_is_pairwise(tasks[i].args.call.func) || tasks[i].one.peer != comm->rank)
			continue;
		MRW_TRY(check_selves_of(tasks, count, comm));
		checked = comm;
	}
	return MARROW_SUCCESS;
}

/* All transfers of a launch, as they are put together. */
struct launch {
	struct mrw_transfers *m;
	struct mrw_route route[MRW_ALL_ROUTES];
	struct mrw_transfer *list;   /* routes in a row, then pairs of self */
	size_t room;
	uint32_t used;
};

static uint32_t at_most(uint64_t value, uint32_t limit)
{
	return value < limit ? (uint32_t)value : limit;
}

/* Appends the tasks' transfers of one peer and way. */
static uint32_t gather(struct launch *l, struct mrw_task *const *tasks, size_t count, uint32_t peer, enum mrw_way way)
{
	uint32_t first = l->used;
	for (size_t i = 0; i < count; i++) {
		const struct mrw_transfer *list = list_of(tasks[i]);
		for (uint32_t k = 0; k < tasks[i]->listed; k++)
			if (list[k].peer == peer && list[k].way == way)
				l->list[l->used++] = list[k];
	}
	return l->used - first;
}

/* Lanes that the route has something to do for. *wide: some of its transfers travel as chunks, by several lanes. */
static uint32_t width(const struct mrw_layout *layout, const struct mrw_transfer *list, const struct mrw_route *r, bool cuda, bool *wide)
{
	uint32_t lanes = 1;
	for (uint32_t i = 0; i < r->count; i++) {
		uint64_t chunks = mrw_transfer_width(layout, list[r->first + i].bytes, cuda);
		uint32_t own = mrw_route_lanes(layout, i, chunks);
		*wide = *wide || chunks > 0;
		lanes = own > lanes ? own : lanes;
	}
	return lanes;
}

static void make_routes(struct launch *l, struct mrw_task *const *tasks, size_t count)
{
	const struct marrow_comm *comm = tasks[0]->comm;
	struct mrw_transfers *m = l->m;
	for (uint32_t q = 1; q < comm->nranks; q++)
		for (uint32_t way = MRW_WAY_OUT; way < MRW_WAYS; way++) {
			uint32_t peer = mrw_route_peer(comm->rank, comm->nranks, q, (enum mrw_way)way), first = l->used;
			uint32_t n = gather(l, tasks, count, peer, (enum mrw_way)way);
			if (n > 0)
				l->route[m->routes++] = (struct mrw_route){first, n, (uint8_t)peer, (uint8_t)way, 0, 0};
		}
	/* Of a rank with itself: sends and recvs alternate. */
	m->first_self = l->used;
	m->selves = gather(l, tasks, count, comm->rank, MRW_WAY_OUT);
	uint32_t middle = l->used;
	gather(l, tasks, count, comm->rank, MRW_WAY_IN);
	struct mrw_transfer *pairs = l->list + l->used, *sends = l->list + m->first_self;
	for (uint32_t i = 0; i < m->selves; i++) {
		pairs[2 * i] = sends[i];
		pairs[2 * i + 1] = l->list[middle + i];
	}
	memmove(sends, pairs, 2 * m->selves * sizeof *pairs);
}

/* Teams, and threads of each. */
static void size_up(struct launch *l, struct mrw_task *task)
{
	struct marrow_comm *comm = task->comm;
	struct mrw_transfers *m = l->m;
	const struct mrw_layout *layout = &m->a.layout;
	bool cuda = comm->device.runtime->target == MARROW_TARGET_CUDA;
	uint32_t cap = comm->forced_channels ? at_most(comm->forced_channels, layout->channels) : comm->channel_cap, lanes = 1;
	uint64_t self_bytes = 0, units = 1;
	bool wide = false;
	for (uint32_t i = 0; i < m->routes; i++) {
		uint32_t own = width(layout, l->list, &l->route[i], cuda, &wide);
		l->route[i].lanes = (uint8_t)own;
		lanes = own > lanes ? own : lanes;
	}
	for (uint32_t i = 0; i < m->selves; i++)
		self_bytes += l->list[m->first_self + 2 * i].bytes;
	for (uint32_t i = 0; i < m->first_self; i++)
		units = l->list[i].bytes / MRW_UNIT_BYTES > units ? l->list[i].bytes / MRW_UNIT_BYTES : units;
	uint32_t teams = mrw_route_teams(m->routes, lanes, self_bytes, cap);
	if (!cuda && !comm->device.parallel_channels)
		teams = 1; /* channels run one after the other there: one team must hold all lanes */
	m->a.call.channels = teams ? teams : 1;
	task->threads = wide || self_bytes > 4096 ? MRW_PACKET_THREADS : at_most((units + 31) / 32 * 32, MRW_PACKET_THREADS);
}

/* One rank: nothing but copies. */
static enum marrow_status copy_selves(struct mrw_task *task, const struct launch *l)
{
	struct mrw_device *d = &task->comm->device;
	for (uint32_t i = 0; i < l->m->selves; i++) {
		const struct mrw_transfer *from = &l->list[2 * i], *to = from + 1;
		if (from->bytes > 0 && from->buffer != to->buffer)
			MRW_TRY(d->runtime->copy(d, to->buffer, from->buffer, from->bytes, task->stream));
	}
	return MARROW_SUCCESS;
}

/* Launches the places [from, from + per) of every route, and of the pairs of self. At most MRW_MAX_ROUTES routes. A lane that is listed has a step to
 * take, or its team would not meet before it is done: lanes are those of the part. */
static enum marrow_status launch_part(struct mrw_task *task, const struct launch *l, uint32_t from, uint32_t per)
{
	struct mrw_device *d = &task->comm->device;
	struct mrw_transfers part;
	uint32_t used = 0;
	bool wide = false;
	part = *l->m;
	part.routes = 0;
	for (uint32_t i = 0; i < l->m->routes; i++) {
		struct mrw_route r = l->route[i];
		if (r.count <= from)
			continue;
		r.count = at_most(r.count - from, per);
		memcpy(&part.list[used], &l->list[r.first + from], r.count * sizeof *part.list);
		r.first = used;
		r.lanes = (uint8_t)width(&part.a.layout, part.list, &r, d->runtime->target == MARROW_TARGET_CUDA, &wide);
		used += r.count;
		part.route[part.routes++] = r;
	}
	part.selves = l->m->selves > from ? at_most(l->m->selves - from, per) : 0;
	part.first_self = used;
	if (part.selves > 0)
		memcpy(&part.list[used], &l->list[l->m->first_self + 2 * from], 2 * part.selves * sizeof *part.list);
	return d->runtime->launch(d, MRW_KERNEL_TRANSFERS, task->type, &part.a, task->threads, task->stream);
}

static enum marrow_status go(struct mrw_task *task, struct launch *l)
{
	struct mrw_device *d = &task->comm->device;
	struct mrw_transfers *m = l->m;
	bool host = d->runtime->target == MARROW_TARGET_HOST;
	uint32_t most = task->comm->forced_listed ? at_most(task->comm->forced_listed, MRW_LISTED) : MRW_LISTED;
	if (host && (!task->comm->forced_listed || m->routes > MRW_MAX_ROUTES)) {
		struct mrw_lists lists = {l->route, l->list};
		m->more = &lists;
		MRW_TRY(d->runtime->launch(d, MRW_KERNEL_TRANSFERS, task->type, &m->a, task->threads, task->stream));
		return mrw_comm_look(task->comm, false);
	}
	uint32_t longest = m->selves > 1 ? m->selves : 1;
	for (uint32_t i = 0; i < m->routes; i++)
		longest = l->route[i].count > longest ? l->route[i].count : longest;
	/* Ranks may cut at other places: of all places that are not done somewhere the least one is under way at both its ends. */
	uint32_t per = l->used <= most ? longest : most / (m->routes + 2);
	per = per ? per : 1;
	for (uint32_t from = 0; from < longest; from += per) {
		MRW_TRY(launch_part(task, l, from, per));
		if (host)
			MRW_TRY(mrw_comm_look(task->comm, false));
	}
	return MARROW_SUCCESS;
}

enum marrow_status mrw_issue_exchange(struct mrw_task *const *tasks, size_t count)
{
	struct mrw_task *task = tasks[0];
	struct marrow_comm *comm = task->comm;
	struct mrw_transfers m;
	struct launch l;
	uint64_t peers = 0;
	enum marrow_status status;
	if (task->generation != comm->generation)
		return mrw_fail(MARROW_INVALID_USAGE, "%s: its communicator was destroyed before the group end", mrw_func_name(task->args.call.func));
	l.m = &m;
	l.list = NULL;
	l.room = l.used = 0;
	for (size_t i = 0; i < count; i++) {
		l.room += 3 * (size_t)tasks[i]->listed; /* pairs of self are put together behind their parts */
		for (uint32_t k = 0; k < tasks[i]->listed; k++)
			peers |= 1ull << list_of(tasks[i])[k].peer;
	}
	if (!mrw_is_pairwise(task->args.call.func))
		peers = ~0ull;
	MRW_TRY(mrw_check_peers(comm, task->args.call.func, peers));
	l.list = malloc((l.room + 1) * sizeof *l.list);
	if (!l.list)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "%s: out of memory for a list of transfers", mrw_func_name(task->args.call.func));
	memset(&m, 0, offsetof(struct mrw_transfers, list));
	m.a = task->args;
	make_routes(&l, tasks, count);
	if (count > 1) {
		m.a.call.func = MRW_FUNC_TRANSFERS;
		m.a.call.op = 0;
		m.a.call.count = count;
	}
	size_up(&l, task);
	if (comm->nranks == 1)
		status = copy_selves(task, &l);
	else
		status = go(task, &l);
	free(l.list);
	return status;
}
