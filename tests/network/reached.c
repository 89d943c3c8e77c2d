/* reached.c - along rails, in a ring and in trees a rank reaches some others only: transfers with those work, all that would need the others is
 * refused with words, and the communicator goes on.
 *
 * reached RANKS: on MARROW_TEST_HOSTS hosts, as threads, under marrow-softnic, with MARROW_ALGO rail, ring or tree, or so many ranks that rails are
 * chosen. */
#include "support/hosts.h"
#include "support/world.h"

#include "comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 30000, TURNS = 20 };

static void refused(struct world_rank *self, const char *what, enum marrow_status status)
{
	if (status != MARROW_UNSUPPORTED || !strstr(marrow_last_error(NULL), "does not reach"))
		world_fail(self, "%s: %s (%s)", what, marrow_status_string(status), marrow_last_error(NULL));
}

/* To and from every peer in one group, of sizes that packets and chunks carry. */
static void exchange(struct world_rank *self, int32_t *send, int32_t *recv, uint32_t turn)
{
	const struct marrow_comm *comm = self->comms[0];
	size_t count = turn % 2 ? COUNT : turn;
	for (uint32_t p = 0; p < self->nranks; p++)
		for (size_t i = 0; i < count; i++)
			send[p * COUNT + i] = (int32_t)(self->rank * 1000003 + p * 1009 + turn * 31 + i);
	marrow_group_start();
	for (uint32_t p = 0; p < self->nranks; p++)
		if (mrw_reach_is_peer(&comm->reach, self->rank, p) &&
		    (marrow_send(send + p * COUNT, count, MARROW_INT32, p, self->comms[0], NULL) != MARROW_SUCCESS ||
		     marrow_recv(recv + p * COUNT, count, MARROW_INT32, p, self->comms[0], NULL) != MARROW_SUCCESS))
			world_fail(self, "with rank %u: %s", p, marrow_last_error(NULL));
	if (marrow_group_end() != MARROW_SUCCESS)
		world_fail(self, "group end: %s", marrow_last_error(NULL));
	for (uint32_t p = 0; p < self->nranks && !self->failed; p++)
		for (size_t i = 0; i < count && mrw_reach_is_peer(&comm->reach, self->rank, p); i++)
			if (recv[p * COUNT + i] != (int32_t)(p * 1000003 + self->rank * 1009 + turn * 31 + i)) {
				world_fail(self, "turn %u: element %zu from rank %u is wrong", turn, i, p);
				break;
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
		if (!world_can(self->world, MRW_FUNC_REDUCE))
			refused(self, "reduce", marrow_reduce(send, recv, 1, MARROW_INT32, MARROW_SUM, 0, comm, NULL));
		refused(self, "reduce_scatter_v", marrow_reduce_scatter_v(send, recv, counts, MARROW_INT32, MARROW_SUM, comm, NULL));
		refused(self, "all_to_all", marrow_all_to_all(send, recv, 1, MARROW_INT32, comm, NULL));
		for (uint32_t p = 0; p < self->nranks; p++)
			if (p != self->rank && !mrw_reach_is_peer(&comm->reach, self->rank, p))
				refused(self, "send", marrow_send(send, 1, MARROW_INT32, p, comm, NULL));
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
