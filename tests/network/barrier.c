/* barrier.c - no rank leaves a barrier before all have entered it, whoever its peers are.
 *
 * barrier [--ranks N] [--algo NAME]: on MARROW_TEST_HOSTS hosts, as threads, under marrow-softnic. */
#include "support/hosts.h"
#include "support/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BARRIERS = 200 };

static uint32_t entered[WORLD_MAX_RANKS];

static void run(struct world_rank *self)
{
	uint64_t s = world_seed() + self->rank;
	for (uint32_t i = 1; i <= BARRIERS && !self->failed; i++) {
		if (world_random(&s) % self->nranks == 0)
			usleep((useconds_t)(world_random(&s) % 1000));
		__atomic_store_n(&entered[self->rank], i, __ATOMIC_SEQ_CST);
		if (marrow_barrier(self->comms[0], NULL) != MARROW_SUCCESS)
			world_fail(self, "barrier %u: %s", i, marrow_last_error(NULL));
		for (uint32_t r = 0; r < self->nranks; r++)
			if (__atomic_load_n(&entered[r], __ATOMIC_SEQ_CST) < i)
				world_fail(self, "left barrier %u before rank %u entered it", i, r);
	}
}

int main(int argc, char **v)
{
	struct world w = {.target = MARROW_TARGET_HOST, .nranks = 4, .ncomms = 1};
	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(v[i], "--ranks") == 0)
			w.nranks = (uint32_t)atoi(v[i + 1]);
		else if (strcmp(v[i], "--algo") == 0)
			w.algo = v[i + 1];
	}
	if (w.nranks < 2 || w.nranks > WORLD_MAX_RANKS)
		return 2;
	if (hosts_count(w.nranks) < 2) {
		printf("skipped: wants MARROW_TEST_HOSTS under marrow-softnic\n");
		return 77;
	}
	(void)world_seed(); /* before there are threads */
	int failed = world_run(&w, run);
	printf("%u barriers of %u ranks: %s\n", BARRIERS, w.nranks, failed ? "FAILED" : "ok");
	return failed ? 1 : 0;
}
