/* group.c - groups through NCCL's interface: operations of all kinds together, several communicators of one thread, nesting, misuse. */
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 3000, RANKS = 4 };

/* Two communicators, three operations, three types; counts of 0; in a nested group. */
static void mixed(struct rank *self, ncclUniqueId id)
{
	float in[COUNT], out[COUNT];
	int64_t wide[COUNT], wider[COUNT];
	uint8_t bytes[64];
	ncclComm_t comm = NULL, other = NULL;
	OK(ncclCommInitRank(&comm, self->nranks, id, self->rank));
	ncclUniqueId *second = self->arg;
	OK(ncclCommInitRank(&other, self->nranks, *second, self->nranks - 1 - self->rank));
	for (int i = 0; i < COUNT; i++) {
		in[i] = (float)(i % 100 + self->rank);
		wide[i] = (int64_t)i << 33 | self->rank;
	}
	memset(bytes, self->rank == 1 ? 7 : 0, sizeof bytes);
	OK(ncclGroupStart());
	OK(ncclAllReduce(in, out, COUNT, ncclFloat32, ncclSum, comm, NULL));
	OK(ncclGroupStart());
	OK(ncclAllReduce(wide, wider, COUNT, ncclInt64, ncclMax, other, NULL));
	OK(ncclAllReduce(NULL, NULL, 0, ncclInt8, ncclMin, comm, NULL));
	OK(ncclGroupEnd());
	OK(ncclBcast(bytes, sizeof bytes, ncclUint8, 1, comm, NULL));
	OK(ncclGroupEnd());
	for (int i = 0; i < COUNT; i++) {
		float sum = (float)(self->nranks * (i % 100) + self->nranks * (self->nranks - 1) / 2);
		if (!CHECK(out[i] == sum, "sum %d is %g", i, (double)out[i]) ||
		    !CHECK(wider[i] == ((int64_t)i << 33 | (self->nranks - 1)), "max %d is %lld", i, (long long)wider[i]))
			break;
	}
	CHECK(bytes[0] == 7 && bytes[63] == 7, "broadcast in a group");
	OK(ncclGroupStart());
	OK(ncclCommDestroy(other));
	OK(ncclCommFinalize(comm));
	OK(ncclCommDestroy(comm));
	OK(ncclGroupEnd());
	EXPECT(ncclInvalidArgument, ncclCommDestroy(comm));
}

/* One thread has all ranks. */
static void alone(void)
{
	ncclComm_t comms[RANKS];
	int devices[] = {0, 1, 2, 3}, twice[] = {0, 1, 0}, count = 0, rank = -1, device = 0;
	float data[RANKS][COUNT];
	EXPECT(ncclInvalidUsage, ncclCommInitAll(comms, 3, twice));
	EXPECT(ncclInvalidArgument, ncclCommInitAll(comms, 0, NULL));
	EXPECT(ncclInvalidArgument, ncclCommInitAll(NULL, 2, NULL));
	if (!OK(ncclCommInitAll(comms, RANKS, devices)))
		return;
	for (int r = 0; r < RANKS; r++) {
		OK(ncclCommCount(comms[r], &count));
		OK(ncclCommUserRank(comms[r], &rank));
		OK(ncclCommCuDevice(comms[r], &device));
		CHECK(count == RANKS && rank == r && device == -1, "rank %d of %d on %d", rank, count, device);
		for (int i = 0; i < COUNT; i++)
			data[r][i] = (float)r;
	}
	for (int round = 0; round < 3; round++) {
		OK(ncclGroupStart());
		for (int r = 0; r < RANKS; r++)
			OK(ncclAllReduce(data[r], data[r], COUNT, ncclFloat32, ncclMax, comms[r], NULL));
		OK(ncclGroupEnd());
	}
	for (int r = 0; r < RANKS; r++)
		CHECK(data[r][COUNT - 1] == RANKS - 1, "rank %d has %g", r, (double)data[r][COUNT - 1]);
	{
		float ring[RANKS][16];
		OK(ncclGroupStart());
		for (int r = 0; r < RANKS; r++) {
			data[r][0] = (float)(10 + r);
			OK(ncclSend(data[r], 16, ncclFloat32, (r + 1) % RANKS, comms[r], NULL));
			OK(ncclRecv(ring[r], 16, ncclFloat32, (r + RANKS - 1) % RANKS, comms[r], NULL));
		}
		OK(ncclGroupEnd());
		for (int r = 0; r < RANKS; r++)
			CHECK(ring[r][0] == (float)(10 + (r + RANKS - 1) % RANKS), "ring: rank %d has %g", r, (double)ring[r][0]);
	}
	for (int r = 0; r < RANKS; r++)
		OK(ncclCommDestroy(comms[r]));
}

/* A failed call: the end says so and does nothing. */
static void misuse(void)
{
	ncclComm_t comm = NULL, made = NULL;
	ncclUniqueId id;
	ncclSimInfo_t sim = NCCL_SIM_INFO_INITIALIZER, bad = NCCL_SIM_INFO_INITIALIZER;
	float in = 3, out = 0;
	EXPECT(ncclInvalidUsage, ncclGroupEnd());
	EXPECT(ncclInvalidUsage, ncclGroupSimulateEnd(&sim));
	OK(ncclGetUniqueId(&id));
	OK(ncclCommInitRank(&comm, 1, id, 0));
	OK(ncclGroupStart());
	OK(ncclAllReduce(&in, &out, 1, ncclFloat32, ncclSum, comm, NULL));
	EXPECT(ncclInvalidArgument, ncclBcast(&in, 1, ncclFloat32, 5, comm, NULL));
	SAYS("ranks 0 to 0");
	EXPECT(ncclInvalidArgument, ncclGroupEnd());
	CHECK(out == 0, "a failed group wrote %g", (double)out);
	OK(ncclGroupStart());
	EXPECT(ncclInvalidArgument, ncclAllReduce(&in, &out, 1, (ncclDataType_t)99, ncclSum, comm, NULL));
	EXPECT(ncclInvalidArgument, ncclGroupEnd());
	/* The group after it is sound. */
	OK(ncclGroupStart());
	OK(ncclAllReduce(&in, &out, 1, ncclFloat32, ncclSum, comm, NULL));
	OK(ncclGroupEnd());
	CHECK(out == 3, "%g", (double)out);
	/* Simulated: nothing happens. */
	out = 0;
	OK(ncclGroupStart());
	OK(ncclAllReduce(&in, &out, 1, ncclFloat32, ncclSum, comm, NULL));
	OK(ncclGroupSimulateEnd(&sim));
	CHECK(out == 0 && sim.estimatedTime == NCCL_UNDEF_FLOAT, "simulated: %g, %g", (double)out, (double)sim.estimatedTime);
	bad.magic = 1;
	OK(ncclGroupStart());
	EXPECT(ncclInvalidArgument, ncclGroupSimulateEnd(&bad));
	EXPECT(ncclInvalidArgument, ncclGroupSimulateEnd(NULL)); /* the failure before; it ends the group all the same */
	/* A communicator of a group that fails is gone, before that it cannot be used. */
	OK(ncclGetUniqueId(&id));
	OK(ncclGroupStart());
	OK(ncclCommInitRank(&made, 1, id, 0));
	CHECK(made != NULL, "no handle in the group");
	EXPECT(ncclInvalidArgument, ncclAllReduce(&in, &out, 1, ncclFloat32, ncclSum, made, NULL));
	SAYS("end of the group");
	EXPECT(ncclInvalidArgument, ncclGroupEnd());
	CHECK(made == NULL, "a handle after a failed group");
	/* Ends within a group: after its operations. */
	OK(ncclGroupStart());
	OK(ncclAllReduce(&in, &out, 1, ncclFloat32, ncclSum, comm, NULL));
	OK(ncclCommDestroy(comm));
	OK(ncclGroupEnd());
	CHECK(out == 3, "%g", (double)out);
}

enum { CROSS_COUNT = 300000 };

/* Everybody to everybody, itself too, each rank in an order of its own, with a collective among the calls; then one alone. */
static void crossed(struct rank *self)
{
	int n = self->nranks, sum = self->rank, total = -1;
	int *out = malloc((size_t)n * CROSS_COUNT * sizeof *out), *in = malloc((size_t)n * CROSS_COUNT * sizeof *in);
	for (int to = 0; to < n; to++)
		for (int i = 0; i < CROSS_COUNT; i++)
			out[to * CROSS_COUNT + i] = (self->rank * n + to) * CROSS_COUNT + i;
	OK(ncclGroupStart());
	for (int k = 0; k < n; k++) {
		int to = (self->rank + k) % n, from = (self->rank * 2 + n - k) % n;
		size_t count = CROSS_COUNT - (size_t)(self->rank + to), expected = CROSS_COUNT - (size_t)(self->rank + from);
		if (self->rank % 2)
			OK(ncclRecv(in + from * CROSS_COUNT, expected, ncclInt32, from, self->comm, NULL));
		OK(ncclSend(out + to * CROSS_COUNT, count, ncclInt32, to, self->comm, NULL));
		if (self->rank % 2 == 0)
			OK(ncclRecv(in + from * CROSS_COUNT, expected, ncclInt32, from, self->comm, NULL));
		if (k == self->rank)
			OK(ncclAllReduce(&sum, &sum, 1, ncclInt32, ncclSum, self->comm, NULL));
	}
	OK(ncclGroupEnd());
	CHECK(sum == n * (n - 1) / 2, "sum in the group: %d", sum);
	for (int from = 0; from < n; from++) {
		size_t last = CROSS_COUNT - (size_t)(self->rank + from) - 1;
		int first_value = (from * n + self->rank) * CROSS_COUNT;
		CHECK(in[from * CROSS_COUNT] == first_value && in[(size_t)from * CROSS_COUNT + last] == first_value + (int)last,
		      "rank %d from %d: %d ... %d", self->rank, from, in[from * CROSS_COUNT], in[(size_t)from * CROSS_COUNT + last]);
	}
	OK(ncclAllReduce(&self->rank, &total, 1, ncclInt32, ncclSum, self->comm, NULL));
	CHECK(total == n * (n - 1) / 2, "sum after the group: %d", total);
	free(out);
	free(in);
}

int main(void)
{
	ncclUniqueId second;
	ranks_environment();
	misuse();
	alone();
	ranks_run(3, crossed, NULL);
	if (OK(ncclGetUniqueId(&second)))
		ranks_run_bare(3, mixed, &second);
	return ranks_verdict();
}
