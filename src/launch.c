/* launch.c - from a public call to a launch: check, plan, describe, go. */
#include "comm.h"

#include "base/log.h"
#include "collectives/schedule.h"

#include <stdio.h>

static const char *const func_names[MRW_FUNC_COUNT] = {"all_reduce", "broadcast", "all_gather", "reduce_scatter", "barrier"};
static const char *const op_names[] = {"sum", "prod", "max", "min", "avg"};

const char *mrw_func_name(uint32_t func)
{
	return func < MRW_FUNC_COUNT ? func_names[func] : "?";
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
	return type == MARROW_FLOAT16 || type == MARROW_BFLOAT16 || type == MARROW_FLOAT32 || type == MARROW_FLOAT64;
}

static const char *op_name(uint32_t op)
{
	return op < sizeof op_names / sizeof op_names[0] ? op_names[op] : "premulsum";
}

void mrw_call_text(const struct mrw_call *call, char *text, size_t bytes)
{
	const char *algo = mrw_algo_name((enum mrw_algo)call->algo);
	int n = snprintf(text, bytes, "%s(", mrw_func_name(call->func));
	size_t at = n < 0 ? 0 : (size_t)n < bytes ? (size_t)n : bytes - 1;
	if (call->func == MRW_FUNC_BARRIER)
		n = snprintf(text + at, bytes - at, ")");
	else if (call->func == MRW_FUNC_BROADCAST)
		n = snprintf(text + at, bytes - at, "count %llu, %s, root %u) [%s, %u channels]", (unsigned long long)call->count,
			     mrw_type_name(call->type), call->root, algo, call->channels);
	else if (call->func == MRW_FUNC_ALL_GATHER)
		n = snprintf(text + at, bytes - at, "count %llu, %s) [%s, %u channels]", (unsigned long long)call->count,
			     mrw_type_name(call->type), algo, call->channels);
	else
		n = snprintf(text + at, bytes - at, "count %llu, %s, %s) [%s, %u channels]", (unsigned long long)call->count,
			     mrw_type_name(call->type), op_name(call->op), algo, call->channels);
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

static enum marrow_status check_buffer(struct marrow_comm *comm, enum mrw_func func, const char *role, const void *buffer, uint64_t bytes)
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
	if (func != MRW_FUNC_ALL_REDUCE && func != MRW_FUNC_REDUCE_SCATTER)
		return MARROW_SUCCESS;
	if (op >= MARROW_SUM && op <= MARROW_AVG)
		return MARROW_SUCCESS;
	int64_t index = (int64_t)op - MARROW_OP_DYNAMIC;
	if (index < 0 || index >= MRW_MAX_DYNAMIC_OPS || !comm->ops[index].used)
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
	const struct mrw_dynamic_op *d = &comm->ops[op - MARROW_OP_DYNAMIC];
	args->reduction = MRW_RED_SUM;
	args->scaled = d->residence == MARROW_SCALAR_DEVICE ? 2 : 1;
	args->scalar = d->scalar;
	args->scalar_memory = d->memory;
}

/* Stands for a NULL buffer, of which no byte is touched: kernels add offsets to it. */
static _Alignas(16) uint8_t nowhere[16];

enum marrow_status mrw_plan_call(struct marrow_comm *comm, enum mrw_func func, const void *send, void *recv, size_t count,
				 enum marrow_type type, enum marrow_op op, uint32_t root, void *stream, struct mrw_task *task)
{
	uint64_t block, send_bytes, recv_bytes;
	uint32_t elem = mrw_type_bytes((uint32_t)type);
	if (elem == 0)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s: %d is no element type: use enum marrow_type", mrw_func_name(func), (int)type);
	if (!sizes(func, count, elem, comm->nranks, &block, &send_bytes, &recv_bytes))
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s: count %zu of %s over %u ranks overflows (a negative count?)", mrw_func_name(func),
				count, mrw_type_name(type), comm->nranks);
	if (func == MRW_FUNC_BROADCAST && root >= comm->nranks)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "broadcast: root %u, but the communicator has ranks 0 to %u", root, comm->nranks - 1);
	MRW_TRY(check_op(comm, func, type, op));
	if (func != MRW_FUNC_BROADCAST || root == comm->rank)
		MRW_TRY(check_buffer(comm, func, "send", send, send_bytes));
	MRW_TRY(check_buffer(comm, func, "recv", recv, recv_bytes));

	struct mrw_select_input in = {func, comm->device.runtime->target, block, comm->nranks, comm->args.layout,
				      comm->args.far ? comm->args.far->nics : 0, comm->channel_cap, comm->forced_algo, comm->forced_channels};
	struct mrw_plan plan = mrw_select(&in);
	if (mrw_log_topic_enabled(MRW_TOPIC_SELECT))
		mrw_log_note(MRW_TOPIC_SELECT, "select: %s %llu bytes: %s, %u channels, chunk %u, lag %u (%s)", mrw_func_name(func),
			(unsigned long long)block, mrw_algo_name(plan.algo), plan.channels, plan.chunk_bytes, plan.lag, plan.reason);
	task->comm = comm;
	task->generation = comm->generation;
	task->stream = stream;
	task->kernel = plan.kernel;
	task->type = type;
	task->threads = plan.threads;
	task->args = comm->args;
	struct mrw_args *a = &task->args;
	a->in = send ? send : nowhere;
	a->out = recv ? recv : nowhere;
	a->bytes = block;
	a->share_bytes = mrw_has_shares(func) ? mrw_share_bytes(block, comm->nranks) : 0;
	bool whole = plan.algo != MRW_ALGO_TWOSHOT || a->share_bytes == 0; /* packets: blocks are shares in a two-shot only */
	a->units = (uint32_t)mrw_units_per_channel(whole ? block : a->share_bytes, plan.channels);
	bool reduces = func == MRW_FUNC_ALL_REDUCE || func == MRW_FUNC_REDUCE_SCATTER;
	if (reduces)
		describe_op(comm, op, a);
	struct mrw_call *c = &a->call;
	c->func = (uint8_t)func;
	c->type = (uint8_t)type;
	c->op = (uint8_t)(a->scaled ? MARROW_OP_DYNAMIC : reduces ? op : 0);
	c->algo = (uint8_t)plan.algo;
	c->root = root;
	c->channels = plan.channels;
	c->count = count;
	c->chunk_bytes = plan.chunk_bytes;
	c->lag = plan.lag;
	c->hash = mrw_call_hash(c);
	/* A reduction of floats makes NaNs canonical even if it has nothing to add. */
	task->copy = plan.algo == MRW_ALGO_LOCAL && !a->scaled && !(reduces && is_float((uint32_t)type));
	return MARROW_SUCCESS;
}

enum marrow_status mrw_issue(struct mrw_task *task)
{
	struct marrow_comm *comm = task->comm;
	struct mrw_device *d = &comm->device;
	const struct mrw_args *a = &task->args;
	if (task->generation != comm->generation)
		return mrw_fail(MARROW_INVALID_USAGE, "%s: its communicator was destroyed before the group end", mrw_func_name(a->call.func));
	MRW_TRY(mrw_comm_look(comm, false));
	for (uint32_t r = 0; r < comm->nranks && comm->nranks > 1; r++)
		if (__atomic_load_n(&comm->gone[r], __ATOMIC_RELAXED))
			return mrw_fail(MARROW_REMOTE_ERROR, "%s: %s has left the communicator (finalized or destroyed it); no further operation can "
					"complete", mrw_func_name(a->call.func), mrw_boot_name(comm->boot, r));
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
