/* launch.c - from a public call to a launch: check, plan, describe, go. */
#include "choice.h"

#include "base/log.h"
#include "collectives/schedule.h"
#include "collectives/tree.h"

#include <stdio.h>

/* Of what is made of transfers; the others' are in tables, too (tuning.h). */
static const char *const transfers_names[MRW_FUNC_END - MRW_FUNC_COUNT] = {
	[MRW_FUNC_SEND - MRW_FUNC_COUNT] = "send",
	[MRW_FUNC_RECV - MRW_FUNC_COUNT] = "recv",
	[MRW_FUNC_TRANSFERS - MRW_FUNC_COUNT] = "sends and recvs",
	[MRW_FUNC_ALL_TO_ALL - MRW_FUNC_COUNT] = "all_to_all",
	[MRW_FUNC_ALL_TO_ALL_V - MRW_FUNC_COUNT] = "all_to_all_v",
	[MRW_FUNC_GATHER - MRW_FUNC_COUNT] = "gather",
	[MRW_FUNC_SCATTER - MRW_FUNC_COUNT] = "scatter",
	[MRW_FUNC_ALL_GATHER_V - MRW_FUNC_COUNT] = "all_gather_v",
};
static const char *const op_names[] = {"sum", "prod", "max", "min", "avg"};

const char *mrw_func_name(uint32_t func)
{
	return func < MRW_FUNC_COUNT || func >= MRW_FUNC_END ? mrw_tuning_func_name((enum mrw_func)func) : transfers_names[func - MRW_FUNC_COUNT];
}

const char *mrw_type_name(uint32_t type)
{
	switch (type) {
#define MRW_X(suffix, name) \
	case MARROW_##name: \
		return #suffix;
		MRW_TYPES(MRW_X)
#undef MRW_X
	default:
		return "?";
	}
}

uint32_t mrw_type_bytes(uint32_t type)
{
	switch (type) {
#define MRW_X(name, value, bytes) \
	case MARROW_##name: \
		return bytes;
		MARROW_TYPE_LIST(MRW_X)
#undef MRW_X
	default:
		return 0;
	}
}

static bool is_float(uint32_t type)
{
	return type >= MARROW_FLOAT16; /* and all behind it */
}

static const char *op_name(uint32_t op)
{
	return op < sizeof op_names / sizeof op_names[0] ? op_names[op] : "premulsum";
}

/* Of calls that are made of transfers. One transfer's count is in bytes. */
static void exchange_text(const struct mrw_call *call, char *text, size_t bytes)
{
	const char *name = mrw_func_name(call->func), *type = mrw_type_name(call->type);
	unsigned long long count = call->count, elem = mrw_type_bytes(call->type);
	if (call->op != 0)
		snprintf(text, bytes, "%s(count %llu, %s, %s rank %u)", name, elem ? count / elem : count, type, call->op == 1 ? "to" : "from",
			 call->root);
	else if (call->func == MRW_FUNC_TRANSFERS)
		snprintf(text, bytes, "a group of %llu sends and recvs", count);
	else if (call->func == MRW_FUNC_ALL_TO_ALL)
		snprintf(text, bytes, "%s(count %llu, %s)", name, count, type);
	else if (call->func == MRW_FUNC_GATHER || call->func == MRW_FUNC_SCATTER)
		snprintf(text, bytes, "%s(count %llu, %s, root %u)", name, count, type, call->root);
	else
		snprintf(text, bytes, "%s(%s)", name, type);
}

void mrw_call_text(const struct mrw_call *call, char *text, size_t bytes)
{
	if (mrw_is_transfers(call->func)) {
		exchange_text(call, text, bytes);
		return;
	}
	char how[64];
	snprintf(how, sizeof how, "[%s, %u channel%s%s]", mrw_algo_name((enum mrw_algo)call->algo), call->channels, call->channels == 1 ? "" : "s",
		 call->windows ? ", windows" : "");
	int n = snprintf(text, bytes, "%s(", mrw_func_name(call->func));
	size_t at = n < 0 ? 0 : (size_t)n < bytes ? (size_t)n : bytes - 1;
	if (call->func == MRW_FUNC_BARRIER)
		n = snprintf(text + at, bytes - at, ")");
	else if (call->func == MRW_FUNC_BROADCAST)
		n = snprintf(text + at, bytes - at, "count %llu, %s, root %u) %s", (unsigned long long)call->count, mrw_type_name(call->type),
			     call->root, how);
	else if (call->func == MRW_FUNC_REDUCE)
		n = snprintf(text + at, bytes - at, "count %llu, %s, %s, root %u) %s", (unsigned long long)call->count,
			     mrw_type_name(call->type), op_name(call->op), call->root, how);
	else if (call->func == MRW_FUNC_REDUCE_SCATTER_V)
		n = snprintf(text + at, bytes - at, "counts of sum %llu and digest %08x, %s, %s) %s", (unsigned long long)call->count,
			     (uint32_t)(call->blocks ^ call->blocks >> 32), mrw_type_name(call->type), op_name(call->op), how);
	else if (call->func == MRW_FUNC_ALL_GATHER)
		n = snprintf(text + at, bytes - at, "count %llu, %s) %s", (unsigned long long)call->count, mrw_type_name(call->type), how);
	else
		n = snprintf(text + at, bytes - at, "count %llu, %s, %s) %s", (unsigned long long)call->count, mrw_type_name(call->type),
			     op_name(call->op), how);
	(void)n;
}

/* 64-bit FNV-1a over the call without seq and hash, then mixed. Never 0. */
uint64_t mrw_call_hash(const struct mrw_call *call)
{
	struct mrw_call c = *call;
	uint64_t h = 0xcbf29ce484222325u;
	const uint8_t *bytes = (const uint8_t *)&c;
	c.seq = 0;
	c.hash = 0;
	if (mrw_is_transfers(c.func)) /* a rank's own affair */
		c.channels = 0;
	for (size_t i = 0; i < sizeof c; i++)
		h = (h ^ bytes[i]) * 0x100000001b3u;
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93u;
	h ^= h >> 29;
	return h ? h : 1;
}

/* Bytes of one element block and of the whole of send and recv; false on overflow. */
static bool sizes(enum mrw_func func, size_t count, uint32_t elem, uint32_t nranks, uint64_t *block, uint64_t *send, uint64_t *recv)
{
	const uint64_t limit = INT64_MAX;
	if (count > limit / elem / nranks)
		return false;
	*block = (uint64_t)count * elem;
	*send = func == MRW_FUNC_REDUCE_SCATTER ? *block * nranks : *block;
	*recv = func == MRW_FUNC_ALL_GATHER ? *block * nranks : *block;
	return true;
}

enum marrow_status mrw_check_buffer(struct marrow_comm *comm, uint32_t func, const char *role, const void *buffer, uint64_t bytes)
{
	if (bytes == 0)
		return MARROW_SUCCESS;
	if (!buffer)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s: rank %u passed NULL as %s buffer of %llu bytes", mrw_func_name(func), comm->rank,
				role, (unsigned long long)bytes);
	const char *fault = comm->device.runtime->buffer_fault(&comm->device, buffer);
	if (fault)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s: the %s buffer of rank %u (device %d) %s", mrw_func_name(func), role, comm->rank,
				comm->device.info.ordinal, fault);
	return MARROW_SUCCESS;
}

static enum marrow_status check_op(struct marrow_comm *comm, enum mrw_func func, enum marrow_type type, enum marrow_op op)
{
	if (!mrw_reduces(func))
		return MARROW_SUCCESS;
	if (op >= MARROW_SUM && op <= MARROW_AVG)
		return MARROW_SUCCESS;
	int32_t index = mrw_op_index(comm, op);
	if (index < 0)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s: %d is no operation of this communicator: use marrow_op or "
				"marrow_op_create_premulsum() of the same communicator", mrw_func_name(func), (int)op);
	if (comm->ops[index].type != type)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s: the premulsum operation was made for type %s, the call is for %s",
				mrw_func_name(func), mrw_type_name(comm->ops[index].type), mrw_type_name(type));
	return MARROW_SUCCESS;
}

/* The reduction as kernels know it. */
static void describe_op(const struct marrow_comm *comm, enum marrow_op op, struct mrw_args *args)
{
	static const uint32_t reductions[] = {MRW_RED_SUM, MRW_RED_PROD, MRW_RED_MAX, MRW_RED_MIN, MRW_RED_SUM};
	args->average = op == MARROW_AVG;
	args->scaled = 0;
	if (op < MARROW_OP_DYNAMIC) {
		args->reduction = reductions[op];
		return;
	}
	const struct mrw_dynamic_op *d = &comm->ops[mrw_op_index(comm, op)];
	args->reduction = MRW_RED_SUM;
	args->scaled = d->residence == MARROW_SCALAR_DEVICE ? 2 : 1;
	args->scalar = d->scalar;
	args->scalar_memory = d->memory;
}

/* Stands for a NULL buffer, of which no byte is touched: kernels add offsets to it. */
static _Alignas(16) uint8_t nowhere[16];

/* Of this rank alone: the same messages by fewer instructions. */
static enum mrw_kernel special(const struct marrow_comm *comm, enum mrw_func func, const struct mrw_plan *plan, const struct mrw_args *a)
{
	bool plain = ((uintptr_t)a->in | (uintptr_t)a->out | a->bytes) % MRW_UNIT_BYTES == 0 && !a->scaled;
	bool pair = a->nranks == 2 && a->reduction == MRW_RED_SUM && !a->average;
	if ((func != MRW_FUNC_ALL_REDUCE && func != MRW_FUNC_REDUCE_SCATTER) || comm->hosts > 1 || !plain)
		return plan->kernel;
	if (plan->algo == MRW_ALGO_ONESHOT)
		return pair ? MRW_KERNEL_REDUCE_PAIR : MRW_KERNEL_REDUCE_QUICK;
	return plan->algo == MRW_ALGO_LINES && pair ? MRW_KERNEL_REDUCE_LINES_PAIR : plan->kernel;
}

/* Where the blocks end, in bytes; *most: the largest one. False on overflow. */
static bool place_blocks(const size_t *counts, uint32_t nranks, uint32_t elem, uint64_t *ends, uint64_t *most)
{
	uint64_t end = 0;
	*most = 0;
	for (uint32_t r = 0; r < nranks; r++) {
		if (counts[r] > (INT64_MAX - end) / elem)
			return false;
		uint64_t bytes = (uint64_t)counts[r] * elem;
		*most = bytes > *most ? bytes : *most;
		ends[r] = end += bytes;
	}
	return true;
}

/* 64 bits over the ends of the blocks; never 0. */
static uint64_t blocks_digest(const uint64_t *ends, uint32_t nranks)
{
	uint64_t h = 0xcbf29ce484222325u;
	for (uint32_t r = 0; r < nranks; r++) {
		h = (h ^ ends[r]) * 0xd6e8feb86659fd93u;
		h ^= h >> 32;
	}
	return h ? h : 1;
}

/* counts: reduce_scatter_v only. */
static enum marrow_status plan(struct marrow_comm *comm, enum mrw_func func, const void *send, void *recv, size_t count, const size_t *counts,
			       enum marrow_type type, enum marrow_op op, uint32_t root, void *stream, struct mrw_task *task)
{
	uint64_t block, send_bytes, recv_bytes, ends[MRW_MAX_RANKS] = {0};
	uint32_t elem = mrw_type_bytes((uint32_t)type);
	bool straight = func == MRW_FUNC_REDUCE && comm->nranks == 2 && !comm->reach.ring;
	if (elem == 0)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s: %d is no element type: use enum marrow_type", mrw_func_name(func), (int)type);
	if (counts) {
		if (!place_blocks(counts, comm->nranks, elem, ends, &block))
			return mrw_fail(MARROW_INVALID_ARGUMENT, "%s: the counts of %s overflow (a negative count?)", mrw_func_name(func),
					mrw_type_name(type));
		send_bytes = ends[comm->nranks - 1];
		recv_bytes = (uint64_t)counts[comm->rank] * elem;
		count = send_bytes / elem;
	} else if (!sizes(func, count, elem, comm->nranks, &block, &send_bytes, &recv_bytes))
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s: count %zu of %s over %u ranks overflows (a negative count?)", mrw_func_name(func),
				count, mrw_type_name(type), comm->nranks);
	if (mrw_has_root(func) && root >= comm->nranks)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s: root %u, but the communicator has ranks 0 to %u", mrw_func_name(func), root,
				comm->nranks - 1);
	MRW_TRY(check_op(comm, func, type, op));
	if (func != MRW_FUNC_BROADCAST || root == comm->rank)
		MRW_TRY(mrw_check_buffer(comm, func, "send", send, send_bytes));
	if (func != MRW_FUNC_REDUCE || root == comm->rank)
		MRW_TRY(mrw_check_buffer(comm, func, "recv", recv, recv_bytes));

	struct mrw_plan chosen = mrw_comm_choose(comm, func, block);
	if (comm->tells)
		mrw_choice_tell(comm, func, block, &chosen);
	memset(task, 0, offsetof(struct mrw_task, args));
	task->list = NULL;
	task->listed = 0;
	task->comm = comm;
	task->generation = comm->generation;
	task->stream = stream;
	task->kernel = chosen.kernel;
	task->type = type;
	task->threads = chosen.threads;
	task->args = comm->args;
	struct mrw_args *a = &task->args;
	a->in = send ? send : nowhere;
	a->out = recv ? recv : nowhere;
	a->bytes = block;
	a->share_bytes = mrw_has_shares(func) && !straight ? mrw_share_bytes(block, comm->nranks) : 0;
	a->uneven = straight || counts != NULL;
	if (straight) { /* the root owns everything */
		ends[0] = root == 0 ? block : 0;
		ends[1] = block;
	}
	memcpy(a->ends, ends, sizeof a->ends);
	bool whole = chosen.algo != MRW_ALGO_TWOSHOT || a->share_bytes == 0; /* packets: blocks are shares in a two-shot only */
	a->units = (uint32_t)mrw_units_per_channel(whole ? block : a->share_bytes, chosen.channels);
	if (chosen.algo == MRW_ALGO_TREESHOT)
		a->units = (uint32_t)mrw_units_per_channel(mrw_tree_part(block, 0).bytes, chosen.channels);
	if (chosen.algo == MRW_ALGO_LINES)
		a->units = (a->units + MRW_LINE_UNITS - 1) / MRW_LINE_UNITS * MRW_LINE_UNITS;
	bool reduces = mrw_reduces(func);
	if (reduces)
		describe_op(comm, op, a);
	if (reduces)
		task->kernel = special(comm, func, &chosen, a);
	struct mrw_call *c = &a->call;
	c->func = (uint8_t)func;
	c->type = (uint8_t)type;
	c->op = (uint8_t)(a->scaled ? MARROW_OP_DYNAMIC : reduces ? op : 0);
	c->algo = (uint8_t)chosen.algo;
	c->root = root;
	c->channels = chosen.channels;
	c->count = count;
	c->chunk_bytes = chosen.chunk_bytes;
	c->lag = chosen.lag;
	c->blocks = counts ? blocks_digest(ends, comm->nranks) : 0;
	mrw_window_place(comm, a, recv_bytes);
	if (c->windows)
		task->kernel = reduces ? MRW_KERNEL_REDUCE_BULK_DIRECT : MRW_KERNEL_MOVE_BULK_DIRECT;
	c->hash = mrw_call_hash(c);
	/* A reduction of floats makes NaNs canonical even if it has nothing to add. */
	task->copy = chosen.algo == MRW_ALGO_LOCAL && !a->scaled && !(reduces && is_float((uint32_t)type));
	return MARROW_SUCCESS;
}

enum marrow_status mrw_plan_call(struct marrow_comm *comm, enum mrw_func func, const void *send, void *recv, size_t count,
				 enum marrow_type type, enum marrow_op op, uint32_t root, void *stream, struct mrw_task *task)
{
	return plan(comm, func, send, recv, count, NULL, type, op, root, stream, task);
}

enum marrow_status mrw_plan_call_v(struct marrow_comm *comm, const void *send, void *recv, const size_t *counts, enum marrow_type type,
				   enum marrow_op op, void *stream, struct mrw_task *task)
{
	if (!counts)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "reduce_scatter_v: rank %u passed NULL as counts", comm->rank);
	return plan(comm, MRW_FUNC_REDUCE_SCATTER_V, send, recv, 0, counts, type, op, 0, stream, task);
}

enum marrow_status mrw_check_peers(struct marrow_comm *comm, uint32_t func, uint64_t peers)
{
	MRW_TRY(mrw_comm_look(comm, false));
	for (uint32_t r = 0; r < comm->nranks && comm->nranks > 1; r++)
		if ((peers >> r & 1) && __atomic_load_n(&comm->gone[r], __ATOMIC_RELAXED))
			return mrw_fail(MARROW_REMOTE_ERROR, "%s: %s has left the communicator (finalized or destroyed it); no further operation can "
					"complete", mrw_func_name(func), mrw_boot_name(comm->boot, r));
	return MARROW_SUCCESS;
}

enum marrow_status mrw_issue(struct mrw_task *task)
{
	struct marrow_comm *comm = task->comm;
	struct mrw_device *d = &comm->device;
	const struct mrw_args *a = &task->args;
	if (mrw_is_transfers(a->call.func))
		return mrw_issue_exchange(&task, 1);
	if (task->generation != comm->generation)
		return mrw_fail(MARROW_INVALID_USAGE, "%s: its communicator was destroyed before the group end", mrw_func_name(a->call.func));
	MRW_TRY(mrw_check_peers(comm, a->call.func, ~0ull));
	if (comm->nranks == 1 && (a->bytes == 0 || a->call.func == MRW_FUNC_BARRIER))
		return MARROW_SUCCESS;
	if (task->copy) {
		if (a->in == a->out)
			return MARROW_SUCCESS;
		return d->runtime->copy(d, a->out, a->in, a->bytes, task->stream);
	}
	MRW_TRY(d->runtime->launch(d, task->kernel, task->type, a, task->threads, task->stream));
	return d->runtime->target == MARROW_TARGET_HOST ? mrw_comm_look(comm, false) : MARROW_SUCCESS;
}
