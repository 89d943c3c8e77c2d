/* roll.h - who knows that whom has come: the proof that a barrier holds. A rank knows of itself; what it sends in a round or phase carries all that
 * it knows by then; who has heard of everybody at its end did not leave before anyone had entered. */
#ifndef SIM_ROLL_H
#define SIM_ROLL_H

#include <stdbool.h>
#include <stdint.h>

enum { SIM_ROLL_ROUNDS = 4 }; /* that are kept: nobody hears of an older one */

struct sim_roll {
	bool on;
	uint32_t nranks;
	uint64_t words;
	uint64_t *known[SIM_ROLL_ROUNDS]; /* [rank * words]: a bit for each rank that it knows of at the end of round % SIM_ROLL_ROUNDS */
	uint64_t *met;                    /* the same: whose greeting has come */
};

/* False: no memory. */
bool sim_roll_open(struct sim_roll *l, uint32_t nranks, bool on);
void sim_roll_close(struct sim_roll *l);
/* rank begins a round. */
void sim_roll_enter(struct sim_roll *l, uint32_t rank, uint64_t round);
/* In a round rank hears what peer knew at the end of one of its own. */
void sim_roll_hear(struct sim_roll *l, uint32_t rank, uint64_t round, uint32_t peer, uint64_t of_round);
/* peer's greeting has come to rank: it is waited for at the end. */
void sim_roll_meet(struct sim_roll *l, uint32_t rank, uint32_t peer);
/* Of whom rank does not know after so many rounds and all greetings; nranks: it knows of all. */
uint32_t sim_roll_missing(const struct sim_roll *l, uint32_t rank, uint64_t rounds);

#endif
