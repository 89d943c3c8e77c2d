/* exchange.h - runs a call that is made of transfers. */
#ifndef SIM_EXCHANGE_H
#define SIM_EXCHANGE_H

#include "engine.h"

/* What sim_run() does after the plan. sim.fault says what is wrong. */
void sim_exchange_run(const struct sim_cluster *c, const struct sim_call *call, bool check, sim_listener listener, void *arg,
		      struct sim_answer *answer);

#endif
