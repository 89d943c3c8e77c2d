/* plan.h - what the library would choose and lay out for a call on a cluster: its own reach.c, wire.h and select.c. Beyond the ranks that it takes
 * (and where its arena would be cut too fine) on paper: budgets grow until chunks have the size asked for. */
#ifndef SIM_PLAN_H
#define SIM_PLAN_H

#include "bootstrap.h"
#include "schedules.h"

struct sim_call {
	const struct sim_schedule *schedule;
	uint32_t func, root;
	uint64_t bytes;          /* of the whole buffer: of all ranks' blocks */
	uint32_t channels;       /* 0: what the library would take, on paper one */
	uint32_t chunk_bytes;    /* on paper: at least so many, or a whole block; 0: 64 KiB */
	/* Where ranks' blocks may differ: that of rank r is as large as weight[r % weights] says beside the others; 0: all alike. */
	const uint32_t *weight;
	uint32_t weights;
	uint32_t shift;          /* sends and recvs: to the rank so many places on; 0: 1 */
};

struct sim_plan {
	bool refused;            /* the library would not take this schedule for the call */
	bool paper;              /* no library has such a communicator */
	const char *why;         /* that is so */
	uint32_t peers, far_peers, queue_pairs; /* the most a rank has */
	uint64_t arena_bytes;    /* of a rank */
	struct sim_bootstrap bootstrap;
};

/* Fills sim.args, sim.far and sim.reach. False: sim.fault says why there is no such call. */
bool sim_plan_make(const struct sim_cluster *c, const struct sim_call *call, struct sim_plan *plan);

#endif
