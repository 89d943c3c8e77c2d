/* reached.c - along rails, in a ring and in trees a rank's peers in collectives are some others only. Transfers with all of them work, also
 * between two ranks alone while the others are elsewhere; so do collectives before and after.
 *
 * reached RANKS: on MARROW_TEST_HOSTS hosts, as threads, under marrow-softnic, with MARROW_ALGO rail, ring or tree, or so many ranks that rails are
 * chosen. */
#include "support/hosts.h"
#include "support/world.h"

#include "comm.h"

#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 30000, TURNS = 20 };

/* To and from every rank in one group, of sizes that packets and chunks carry. */
static void exchange(struct world_rank *self, int32_t *send, int32_t *recv, uint32_t turn)
{
	size_t count = turn % 2 ? COUNT : turn;
	for (uint32_t p = 0; p < self->nranks; p++)
		for (size_t i = 0; i < count; i++)
			send[p * COUNT + i] = (int32_t)(self->rank * 1000003 + p * 1009 + turn * 31 + i);
	marrow_group_start();
	for (uint32_t p = 0; p < self->nranks; p++)
		if (p != self->rank &&
		    (marrow_send(send + p * COUNT, count, MARROW_INT32, p, self->comms[0], NULL) != MARROW_SUCCESS ||
		     marrow_recv(recv + p * COUNT, count, MARROW_INT32, p, self->comms[0], NULL) != MARROW_SUCCESS))
			world_fail(self, "with rank %u: %s", p, marrow_last_error(NULL));
	if (marrow_group_end() != MARROW_SUCCESS)
		world_fail(self, "group end: %s", marrow_last_error(NULL));
	for (uint32_t p = 0; p < self->nranks && !self->failed; p++)
		for (size_t i = 0; i < count && p != self->rank; i++)
			if (recv[p * COUNT + i] != (int32_t)(p * 1000003 + self->rank * 1009 + turn * 31 + i)) {
				world_fail(self, "turn %u: element %zu from rank %u is wrong", turn, i, p);
				break;
			}
}

/* Two ranks that are no peers, and nobody else: a large transfer each way, one after the other. */
static void alone(struct world_rank *self, int32_t *send, int32_t *recv)
{
	const struct marrow_comm *comm = self->comms[0];
	uint32_t a = 0, b = 1;
	while (b < self->nranks && mrw_reach_is_peer(&comm->reach, a, b))
		b++;
	if (self->rank != a && self->rank != b)
		return;
	uint32_t other = self->rank == a ? b : a;
	for (uint32_t turn = 0; turn < 2; turn++) {
		bool sends = (self->rank == a) == (turn == 0);
		for (size_t i = 0; i < COUNT; i++) {
			send[i] = (int32_t)(self->rank * 77 + i);
			recv[i] = -1;
		}
		enum marrow_status status = sends ? marrow_send(send, COUNT, MARROW_INT32, other, self->comms[0], NULL)
						  : marrow_recv(recv, COUNT, MARROW_INT32, other, self->comms[0], NULL);
		if (status != MARROW_SUCCESS)
			world_fail(self, "alone with rank %u: %s", other, marrow_last_error(NULL));
		for (size_t i = 0; i < COUNT && !sends && !self->failed; i++)
			if (recv[i] != (int32_t)(other * 77 + i))
				world_fail(self, "alone: element %zu from rank %u is wrong", i, other);
	}
}

static void run(struct world_rank *self)
{
	struct marrow_comm *comm = self->comms[0];
	size_t bytes = (size_t)self->nranks * COUNT * sizeof(int32_t), *counts = calloc(self->nranks, sizeof *counts);
	int32_t *send = calloc(1, bytes), *recv = calloc(1, bytes);
	if (!send || !recv || !counts)
		abort();
	uint32_t peers = 0;
	for (uint32_t p = 0; p < self->nranks; p++)
		peers += mrw_reach_is_peer(&comm->reach, self->rank, p);
	if (peers == 0 || peers == self->nranks - 1)
		world_fail(self, "reaches %u ranks: this world tests nothing", peers);
	for (uint32_t turn = 0; turn < TURNS && !self->failed; turn++) {
		exchange(self, send, recv, turn);
		if (marrow_reduce_scatter_v(send, recv, counts, MARROW_INT32, MARROW_SUM, comm, NULL) != MARROW_SUCCESS)
			world_fail(self, "reduce_scatter_v of nothing: %s", marrow_last_error(NULL));
		alone(self, send, recv);
		for (uint32_t p = 0; p < self->nranks; p++)
			send[p] = (int32_t)(self->rank * 100 + p);
		if (marrow_all_to_all(send, recv, 1, MARROW_INT32, comm, NULL) != MARROW_SUCCESS)
			world_fail(self, "all_to_all: %s", marrow_last_error(NULL));
		for (uint32_t p = 0; p < self->nranks && !self->failed; p++)
			if (recv[p] != (int32_t)(p * 100 + self->rank))
				world_fail(self, "all_to_all: %d from rank %u", recv[p], p);
		send[0] = 1;
		if (marrow_all_reduce(send, recv, 1, MARROW_INT32, MARROW_SUM, comm, NULL) != MARROW_SUCCESS || recv[0] != (int32_t)self->nranks)
			world_fail(self, "all_reduce: %d (%s)", recv[0], marrow_last_error(NULL));
	}
	free(send);
	free(recv);
	free(counts);
}

int main(int argc, char **v)
{
	struct world w = {.target = MARROW_TARGET_HOST, .nranks = argc > 1 ? (uint32_t)atoi(v[1]) : 4, .ncomms = 1};
	if (hosts_count(w.nranks) < 2) {
		printf("skipped: wants MARROW_TEST_HOSTS under marrow-softnic\n");
		return 77;
	}
	return world_run(&w, run) ? 1 : 0;
}
