/* engine.h - runs a call on a cluster by discrete events: a rank begins a round when what it waits for has come (counters of all its peers, its
 * own requests of two rounds ago), its body says whom it sends what, the fabric says when that is there. */
#ifndef SIM_ENGINE_H
#define SIM_ENGINE_H

#include "fabric.h"
#include "plan.h"

struct sim_answer {
	struct sim_plan plan;
	uint32_t channels, chunk_bytes;
	uint64_t rounds, steps;      /* of a rank at most; of all ranks */
	double us, first_us;         /* when the last and the first rank are done */
	uint64_t bytes[SIM_CLASSES], messages[SIM_CLASSES];
	double load[SIM_CLASSES];    /* of the busiest link, 0 to 1 */
	char fault[240];             /* empty: complete, and free of deadlock */
};

/* Messages from a rank to another, by NIC: called for each round's, and for greetings. */
typedef void (*sim_listener)(void *arg, uint32_t src, uint32_t dst, uint32_t nic, uint64_t bytes, uint32_t requests);

/* check: proves that every rank ends with what it must have. False: answer->fault says what is wrong. */
bool sim_run(const struct sim_cluster *c, const struct sim_call *call, bool check, sim_listener listener, void *arg, struct sim_answer *answer);

#endif
