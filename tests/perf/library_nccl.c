/* library_nccl.c - another libnccl.so.2, found by path. Its interface is declared here: nothing of NCCL is needed to build. */
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct nccl_id {
	unsigned char bytes[LIBRARY_ID_BYTES];
};

enum { NCCL_SUCCESS = 0, NCCL_SCALAR_HOST_IMMEDIATE = 1, NCCL_WINDOW_SYMMETRIC = 1 };

static struct {
	int (*get_version)(int *version);
	const char *(*get_error_string)(int result);
	int (*get_unique_id)(struct nccl_id *id);
	int (*comm_init_rank)(void **comm, int nranks, struct nccl_id id, int rank);
	int (*comm_destroy)(void *comm);
	int (*comm_abort)(void *comm);
	int (*comm_get_async_error)(void *comm, int *error);
	int (*group_start)(void);
	int (*group_end)(void);
	int (*all_reduce)(const void *send, void *recv, size_t count, int type, int op, void *comm, void *stream);
	int (*all_gather)(const void *send, void *recv, size_t count, int type, void *comm, void *stream);
	int (*broadcast)(const void *send, void *recv, size_t count, int type, int root, void *comm, void *stream);
	int (*reduce_scatter)(const void *send, void *recv, size_t count, int type, int op, void *comm, void *stream);
	int (*reduce)(const void *send, void *recv, size_t count, int type, int op, int root, void *comm, void *stream);
	int (*send)(const void *send, size_t count, int type, int peer, void *comm, void *stream);
	int (*recv)(void *recv, size_t count, int type, int peer, void *comm, void *stream);
	int (*create_premulsum)(int *op, void *scalar, int type, int residence, void *comm);
	int (*op_destroy)(int op, void *comm);
	/* Since 2.19 and 2.27; NULL before. */
	int (*comm_register)(void *comm, void *memory, size_t bytes, void **handle);
	int (*comm_deregister)(void *comm, void *handle);
	int (*window_register)(void *comm, void *memory, size_t bytes, void **window, int flags);
	int (*window_deregister)(void *comm, void *window);
} nccl;

static bool good(int result, const char *call)
{
	if (result == NCCL_SUCCESS)
		return true;
	fprintf(stderr, "%s (compared library): %s\n", call, nccl.get_error_string(result));
	return false;
}

static bool make_id(unsigned char *id)
{
	struct nccl_id unique;
	if (!good(nccl.get_unique_id(&unique), "ncclGetUniqueId"))
		return false;
	memcpy(id, unique.bytes, sizeof unique.bytes);
	return true;
}

static bool init_rank(const struct perf_library *self, void **comm, uint32_t nranks, const unsigned char *id, uint32_t rank)
{
	struct nccl_id unique;
	(void)self;
	memcpy(unique.bytes, id, sizeof unique.bytes);
	return good(nccl.comm_init_rank(comm, (int)nranks, unique, (int)rank), "ncclCommInitRank");
}

static bool group_start(void)
{
	return good(nccl.group_start(), "ncclGroupStart");
}

static bool group_end(void)
{
	return good(nccl.group_end(), "ncclGroupEnd");
}

/* What rank p gets from this one, and gives to it. */
static bool exchange_with(const struct perf_call *c, uint32_t p)
{
	static const size_t element_bytes[] = {
#define MARROW_X(name, value, bytes) [MARROW_##name] = bytes,
		MARROW_TYPE_LIST(MARROW_X)
#undef MARROW_X
	};
	size_t block = c->count * element_bytes[c->type];
	bool all = c->kind == PERF_ALL_TO_ALL, from_root = c->kind == PERF_SCATTER, to_root = c->kind == PERF_GATHER;
	bool ring = c->kind == PERF_SENDRECV, sends = all || (from_root && c->rank == c->root) || (to_root && p == c->root) ||
						      (ring && p == (c->rank + 1) % c->nranks);
	bool receives = all || (from_root && p == c->root) || (to_root && c->rank == c->root) || (ring && c->rank == (p + 1) % c->nranks);
	const char *from = (const char *)c->send + (all || from_root ? p * block : 0);
	char *to = (char *)c->recv + (all || to_root ? p * block : 0);

	return (!sends || good(nccl.send(from, c->count, (int)c->type, (int)p, c->comm, c->stream), "ncclSend")) &&
	       (!receives || good(nccl.recv(to, c->count, (int)c->type, (int)p, c->comm, c->stream), "ncclRecv"));
}

/* By sends and recvs in a group, as nccl-tests does it. */
static bool exchange(const struct perf_call *c)
{
	bool posted = true;

	if (!group_start())
		return false;
	for (uint32_t p = 0; posted && p < c->nranks; p++)
		posted = exchange_with(c, p);
	return group_end() && posted;
}

static bool call(const struct perf_call *c)
{
	int type = (int)c->type;

	switch (c->kind) {
	case PERF_ALL_REDUCE:
		return good(nccl.all_reduce(c->send, c->recv, c->count, type, c->op, c->comm, c->stream), "ncclAllReduce");
	case PERF_ALL_GATHER:
		return good(nccl.all_gather(c->send, c->recv, c->count, type, c->comm, c->stream), "ncclAllGather");
	case PERF_BROADCAST:
		return good(nccl.broadcast(c->send, c->recv, c->count, type, (int)c->root, c->comm, c->stream),
			    "ncclBroadcast");
	case PERF_REDUCE_SCATTER:
		return good(nccl.reduce_scatter(c->send, c->recv, c->count, type, c->op, c->comm, c->stream),
			    "ncclReduceScatter");
	case PERF_REDUCE:
		return good(nccl.reduce(c->send, c->recv, c->count, type, c->op, (int)c->root, c->comm, c->stream), "ncclReduce");
	case PERF_ALL_TO_ALL:
	case PERF_GATHER:
	case PERF_SCATTER:
	case PERF_SENDRECV:
		return exchange(c);
	}
	return false;
}

static bool make_premulsum(int *op, void *scalar, enum marrow_type type, void *comm)
{
	return good(nccl.create_premulsum(op, scalar, (int)type, NCCL_SCALAR_HOST_IMMEDIATE, comm), "ncclRedOpCreatePreMulSum");
}

static void drop_op(int op, void *comm)
{
	good(nccl.op_destroy(op, comm), "ncclRedOpDestroy");
}

static uint32_t ranks_a_host(void *comm)
{
	(void)comm;
	return 0;
}

static bool enroll(void *comm, void *memory, size_t bytes, bool symmetric, void **handle)
{
	*handle = NULL;
	if (symmetric ? !nccl.window_register : !nccl.comm_register) {
		fprintf(stderr, "the compared library has no %s: leave -R %d out\n", symmetric ? "ncclCommWindowRegister" : "ncclCommRegister", symmetric + 1);
		return false;
	}
	return symmetric ? good(nccl.window_register(comm, memory, bytes, handle, NCCL_WINDOW_SYMMETRIC), "ncclCommWindowRegister")
			 : good(nccl.comm_register(comm, memory, bytes, handle), "ncclCommRegister");
}

static void withdraw(void *comm, bool symmetric, void *handle)
{
	if (handle && symmetric)
		good(nccl.window_deregister(comm, handle), "ncclCommWindowDeregister");
	else if (handle)
		good(nccl.comm_deregister(comm, handle), "ncclCommDeregister");
}

static bool healthy(void *comm)
{
	int error = NCCL_SUCCESS;
	return good(nccl.comm_get_async_error(comm, &error), "ncclCommGetAsyncError") && good(error, "asynchronous error");
}

static void abort_comm(void *comm)
{
	good(nccl.comm_abort(comm), "ncclCommAbort");
}

static void destroy(void *comm)
{
	good(nccl.comm_destroy(comm), "ncclCommDestroy");
}

static bool find_any(void *handle, const char *name, void *function, size_t size)
{
	void *symbol = dlsym(handle, name);
	if (symbol)
		memcpy(function, &symbol, size);
	return symbol != NULL;
}

static bool find(void *handle, const char *path, const char *name, void *function, size_t size)
{
	bool found = find_any(handle, name, function, size);
	if (!found)
		fprintf(stderr, "%s has no %s\n", path, name);
	return found;
}

bool library_open_nccl(struct perf_library *library, const char *path)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	int version = 0, major;

	if (!handle) {
		fprintf(stderr, "--compare: %s\n", dlerror());
		return false;
	}
#define FIND(member, name) find(handle, path, name, &nccl.member, sizeof nccl.member)
	if (!FIND(get_version, "ncclGetVersion") || !FIND(get_error_string, "ncclGetErrorString") ||
	    !FIND(get_unique_id, "ncclGetUniqueId") || !FIND(comm_init_rank, "ncclCommInitRank") ||
	    !FIND(comm_destroy, "ncclCommDestroy") || !FIND(comm_abort, "ncclCommAbort") ||
	    !FIND(comm_get_async_error, "ncclCommGetAsyncError") || !FIND(group_start, "ncclGroupStart") ||
	    !FIND(group_end, "ncclGroupEnd") || !FIND(all_reduce, "ncclAllReduce") || !FIND(all_gather, "ncclAllGather") ||
	    !FIND(broadcast, "ncclBroadcast") || !FIND(reduce_scatter, "ncclReduceScatter") || !FIND(reduce, "ncclReduce") ||
	    !FIND(send, "ncclSend") || !FIND(recv, "ncclRecv") ||
	    !FIND(create_premulsum, "ncclRedOpCreatePreMulSum") || !FIND(op_destroy, "ncclRedOpDestroy"))
		return false;
#undef FIND
#define FIND_ANY(member, name) find_any(handle, name, &nccl.member, sizeof nccl.member)
	if (!FIND_ANY(comm_register, "ncclCommRegister") || !FIND_ANY(comm_deregister, "ncclCommDeregister"))
		nccl.comm_register = NULL;
	if (!FIND_ANY(window_register, "ncclCommWindowRegister") || !FIND_ANY(window_deregister, "ncclCommWindowDeregister"))
		nccl.window_register = NULL;
#undef FIND_ANY
	if (!good(nccl.get_version(&version), "ncclGetVersion"))
		return false;
	*library = (struct perf_library){ .make_id = make_id, .init_rank = init_rank, .group_start = group_start, .group_end = group_end,
					  .call = call, .make_premulsum = make_premulsum, .drop_op = drop_op, .ranks_a_host = ranks_a_host,
					  .enroll = enroll, .withdraw = withdraw, .healthy = healthy, .abort = abort_comm, .destroy = destroy };
	/* 2.8 and before: XYZZ, later XYYZZ. */
	major = version >= 10000 ? version / 10000 : version / 1000;
	snprintf(library->name, sizeof library->name, "nccl %d.%d.%d", major,
		 version >= 10000 ? version / 100 % 100 : version / 100 % 10, version % 100);
	return true;
}
