/* data.c - every operation on data through NCCL's interface, its bits against the reference. */
#include "ranks.h"
#include "support/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COUNT = 6007, TYPES = ncclNumTypes, OPS = 7 };

static const size_t counts[] = {0, 1, 1000, MOST_COUNT};

struct room {
	size_t elem;
	unsigned char *send, *recv, *wanted, *inputs[RANKS_MOST];
	const void *views[RANKS_MOST];
};

static bool has_type(int type)
{
	return reference_type_bytes((enum marrow_type)type) > 0;
}

/* blocks: how many times count elements each rank's input has. */
static void fill(struct room *room, const struct rank *self, int type, size_t elems, uint64_t seed)
{
	for (int r = 0; r < self->nranks; r++) {
		fill_random(room->inputs[r], (enum marrow_type)type, elems, seed, (uint32_t)r, FILL_MIXED);
		room->views[r] = room->inputs[r];
	}
	memcpy(room->send, room->inputs[self->rank], elems * room->elem);
	memset(room->recv, 0xa5, (size_t)MOST_COUNT * RANKS_MOST * 8);
}

static void same(const struct rank *self, const void *got, const void *wanted, size_t bytes, const char *what, int type, int op, size_t count)
{
	CHECK(memcmp(got, wanted, bytes) == 0, "%s: rank %d of %d, type %d, op %d, count %zu: other bits", what, self->rank, self->nranks, type,
	      op, count);
}

/* Operation number op of OPS; the last two are premulsums, scalar on the host and in memory. */
static ncclRedOp_t make_op(const struct rank *self, int op, int type, uint64_t seed, unsigned char *scalars, size_t elem)
{
	ncclRedOp_t made = (ncclRedOp_t)op;
	if (op < ncclNumOps)
		return made;
	for (int r = 0; r < self->nranks; r++)
		fill_scalar(scalars + (size_t)r * elem, (enum marrow_type)type, seed, (uint32_t)r);
	OK(ncclRedOpCreatePreMulSum(&made, scalars + (size_t)self->rank * elem, (ncclDataType_t)type,
				    op == ncclNumOps ? ncclScalarHostImmediate : ncclScalarDevice, self->comm));
	CHECK((int)made >= ncclNumOps, "a made operation has value %d", (int)made);
	return made;
}

static void reductions(struct rank *self, struct room *room, int type, int op, size_t count, uint64_t seed)
{
	unsigned char scalars[RANKS_MOST * 8];
	enum marrow_type t = (enum marrow_type)type;
	enum marrow_op reference_op = op < ncclNumOps ? (enum marrow_op)op : MARROW_OP_DYNAMIC;
	ncclDataType_t nt = (ncclDataType_t)type;
	size_t bytes = count * room->elem;
	int root = (int)(seed % (uint64_t)self->nranks);
	fill(room, self, type, count * (size_t)self->nranks, seed);
	ncclRedOp_t made = make_op(self, op, type, seed, scalars, room->elem);

	reference_all_reduce(room->wanted, room->views, (uint32_t)self->nranks, count * (size_t)self->nranks, t, reference_op, scalars);
	OK(ncclAllReduce(room->send, room->recv, count, nt, made, self->comm, NULL));
	same(self, room->recv, room->wanted, bytes, "all_reduce", type, op, count);
	OK(ncclReduceScatter(room->send, room->recv, count, nt, made, self->comm, NULL));
	same(self, room->recv, room->wanted + (size_t)self->rank * bytes, bytes, "reduce_scatter", type, op, count);
	memset(room->recv, 0xa5, bytes);
	OK(ncclReduce(room->send, self->rank == root ? room->recv : NULL, count, nt, made, root, self->comm, NULL));
	if (self->rank == root)
		same(self, room->recv, room->wanted, bytes, "reduce", type, op, count);
	OK(ncclAllReduce(room->send, room->send, count, nt, made, self->comm, NULL));
	same(self, room->send, room->wanted, bytes, "all_reduce in place", type, op, count);
	if (op >= ncclNumOps)
		OK(ncclRedOpDestroy(made, self->comm));
}

static void moves(struct rank *self, struct room *room, int type, size_t count, uint64_t seed)
{
	ncclDataType_t nt = (ncclDataType_t)type;
	size_t bytes = count * room->elem, n = (size_t)self->nranks;
	int root = (int)(seed % n);
	fill(room, self, type, count * n, seed);

	for (size_t r = 0; r < n; r++)
		memcpy(room->wanted + r * bytes, room->inputs[r], bytes);
	OK(ncclAllGather(room->send, room->recv, count, nt, self->comm, NULL));
	same(self, room->recv, room->wanted, n * bytes, "all_gather", type, 0, count);
	OK(ncclBroadcast(self->rank == root ? room->send : NULL, room->recv, count, nt, root, self->comm, NULL));
	same(self, room->recv, room->inputs[root], bytes, "broadcast", type, 0, count);
	memcpy(room->recv, room->send, bytes);
	OK(ncclBcast(room->recv, count, nt, root, self->comm, NULL));
	same(self, room->recv, room->inputs[root], bytes, "bcast", type, 0, count);
	memset(room->recv, 0xa5, n * bytes);
	OK(ncclGather(room->send, self->rank == root ? room->recv : NULL, count, nt, root, self->comm, NULL));
	if (self->rank == root)
		same(self, room->recv, room->wanted, n * bytes, "gather", type, 0, count);
	OK(ncclScatter(self->rank == root ? room->send : NULL, room->recv, count, nt, root, self->comm, NULL));
	same(self, room->recv, room->inputs[root] + (size_t)self->rank * bytes, bytes, "scatter", type, 0, count);
	for (size_t r = 0; r < n; r++)
		memcpy(room->wanted + r * bytes, room->inputs[r] + (size_t)self->rank * bytes, bytes);
	OK(ncclAlltoAll(room->send, room->recv, count, nt, self->comm, NULL));
	same(self, room->recv, room->wanted, n * bytes, "all_to_all", type, 0, count);
	memset(room->recv, 0xa5, n * bytes);
	OK(ncclGroupStart());
	for (int r = self->nranks - 1; r >= 0; r--) { /* to oneself too */
		OK(ncclRecv(room->recv + (size_t)r * bytes, count, nt, r, self->comm, NULL));
		OK(ncclSend(room->send + (size_t)r * bytes, count, nt, r, self->comm, NULL));
	}
	OK(ncclGroupEnd());
	same(self, room->recv, room->wanted, n * bytes, "send, recv", type, 0, count);
}

static void body(struct rank *self)
{
	struct room room;
	uint64_t before = marrow_nccl_calls(), seed = 17;
	size_t most = (size_t)MOST_COUNT * RANKS_MOST * 8;
	room.send = malloc(most);
	room.recv = malloc(most);
	room.wanted = malloc(most);
	for (int r = 0; r < self->nranks; r++)
		room.inputs[r] = malloc(most);
	for (int type = 0; type < TYPES; type++) {
		if (!has_type(type))
			continue;
		room.elem = reference_type_bytes((enum marrow_type)type);
		for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
			/* The large count for one operation a type: rounds and channels do not depend on it. */
			for (int op = 0; op < OPS; op++)
				if (counts[c] < MOST_COUNT || op == type % OPS)
					reductions(self, &room, type, op, counts[c], seed++);
			moves(self, &room, type, counts[c], seed++);
		}
	}
	CHECK(marrow_nccl_calls() > before, "the counter of calls does not move");
	for (int r = 0; r < self->nranks; r++)
		free(room.inputs[r]);
	free(room.send);
	free(room.recv);
	free(room.wanted);
}

/* A host scalar is taken when the operation is made, one in memory at each call. */
static void residence(struct rank *self)
{
	float scalar = 2, x = 5, y = 0;
	ncclRedOp_t early, late;
	OK(ncclRedOpCreatePreMulSum(&early, &scalar, ncclFloat32, ncclScalarHostImmediate, self->comm));
	OK(ncclRedOpCreatePreMulSum(&late, &scalar, ncclFloat32, ncclScalarDevice, self->comm));
	scalar = 3;
	OK(ncclAllReduce(&x, &y, 1, ncclFloat32, early, self->comm, NULL));
	CHECK(y == 10, "host scalar: %g", (double)y);
	OK(ncclAllReduce(&x, &y, 1, ncclFloat32, late, self->comm, NULL));
	CHECK(y == 15, "scalar in memory: %g", (double)y);
	OK(ncclRedOpDestroy(early, self->comm));
	OK(ncclRedOpDestroy(late, self->comm));
}

int main(void)
{
	ranks_environment();
	ranks_run(1, residence, NULL);
	ranks_run(1, body, NULL);
	ranks_run(2, body, NULL);
	ranks_run(4, body, NULL);
	return ranks_verdict();
}
