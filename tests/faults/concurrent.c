/* concurrent.c - two operations of a communicator at once, on one rank: only one thread of its team sees it, the whole team leaves, and every rank
 * learns it. Host target: something is said to run already.
 *
 * concurrent [--ranks N] [--algo NAME] [--team T] */
#include "act.h"
#include "patience.h"

#include "support/world.h"

#include "comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEARN_MS = 1000, BYTES = 16 << 20 };

#define FLOATS(func, count) {MRW_FUNC_##func, count, MARROW_FLOAT32, MARROW_SUM, 0}

/* By packets, lines and chunks, and as transfers. */
static const struct act acts[] = {
	FLOATS(ALL_REDUCE, 1), FLOATS(ALL_REDUCE, 3000), FLOATS(ALL_REDUCE, 500000), FLOATS(REDUCE, 100), FLOATS(REDUCE, 500000),
	FLOATS(REDUCE_SCATTER, 100), FLOATS(REDUCE_SCATTER, 500000), FLOATS(REDUCE_SCATTER_V, 100), FLOATS(BROADCAST, 100),
	FLOATS(BROADCAST, 500000), FLOATS(ALL_GATHER, 100), FLOATS(ALL_GATHER, 500000), FLOATS(BARRIER, 0), FLOATS(ALL_TO_ALL, 100),
	FLOATS(ALL_TO_ALL, 300000), FLOATS(GATHER, 100), FLOATS(SEND, 100), FLOATS(SEND, 500000),
};
enum { ACTS = sizeof acts / sizeof acts[0] };

static struct shared {
	struct meeting meeting;
	const struct act *act;
	uint32_t odd;             /* the rank */
} shared;

/* Sends go round. */
static enum marrow_status call(struct world_rank *self, const struct ground *g)
{
	const struct act *a = shared.act;
	struct marrow_comm *c = self->comms[0];
	if (a->func != MRW_FUNC_SEND)
		return act_call(a, g, c);
	marrow_group_start();
	marrow_send(g->send, a->count, a->type, (self->rank + 1) % self->nranks, c, g->stream);
	marrow_recv(g->recv, a->count, a->type, (self->rank + self->nranks - 1) % self->nranks, c, g->stream);
	return marrow_group_end();
}

static void run(struct world_rank *self)
{
	static const struct act first = FLOATS(ALL_REDUCE, 16);
	struct marrow_comm *c = self->comms[0];
	struct ground g;
	char words[40];
	if (ground_make(&g, MARROW_TARGET_HOST, self->rank, BYTES) != 0 || act_done(&first, &g, c) != MARROW_SUCCESS)
		world_fail(self, "before: %s", marrow_last_error(c));
	meet(&shared.meeting, self->nranks);
	if (self->rank == shared.odd)
		((struct mrw_control *)(void *)c->arena.base)->channel[0].word |= MRW_CHANNEL_BUSY;
	uint64_t begin = now_ms();
	enum marrow_status status = call(self, &g);
	if (status == MARROW_SUCCESS)
		status = await_error(c, 2 * limit_ms(LEARN_MS));
	if (status != MARROW_INVALID_USAGE && (self->rank == shared.odd || status != MARROW_REMOTE_ERROR))
		world_fail(self, "status \"%s\": %s", marrow_status_string(status), marrow_last_error(c));
	snprintf(words, sizeof words, "at once on rank %u", shared.odd);
	if (!strstr(marrow_last_error(c), words))
		world_fail(self, "\"%s\" is not in: %s", words, marrow_last_error(c));
	if (now_ms() - begin > limit_ms(LEARN_MS))
		world_fail(self, "learnt it after %llu ms", (unsigned long long)(now_ms() - begin));
	/* A rank that leaves must not look like one that is lost. */
	meet(&shared.meeting, self->nranks);
	if (ground_leave(&g, self->comms, 1) != MARROW_SUCCESS)
		world_fail(self, "destroy: %s", marrow_last_error(NULL));
}

int main(int argc, char **v)
{
	struct world w = {.target = MARROW_TARGET_HOST, .nranks = 3, .ncomms = 1, .team_size = 2};
	char doing[120];
	int failed = 0;
	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(v[i], "--ranks") == 0)
			w.nranks = (uint32_t)strtoul(v[i + 1], NULL, 10);
		else if (strcmp(v[i], "--algo") == 0)
			w.algo = v[i + 1];
		else if (strcmp(v[i], "--team") == 0)
			w.team_size = (uint32_t)strtoul(v[i + 1], NULL, 10);
	}
	for (uint32_t i = 0; i < ACTS && !failed; i++) {
		memset(&shared, 0, sizeof shared);
		shared.act = &acts[i];
		shared.odd = i % w.nranks;
		snprintf(doing, sizeof doing, "two at once: %s of %zu, %u ranks, on rank %u", mrw_func_name(acts[i].func), acts[i].count, w.nranks,
			 shared.odd);
		watchdog(10, doing);
		failed = world_run(&w, run);
		if (failed)
			printf("FAILED: %s\n", doing);
	}
	printf("concurrent: %s\n", failed ? "FAILED" : "ok");
	return failed ? 1 : 0;
}
