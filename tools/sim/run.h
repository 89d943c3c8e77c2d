/* run.h - one run of the engine: ranks, what their NICs still have to send, and where they are. */
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include "clock.h"
#include "engine.h"
#include "step.h"

/* A rank's progress. What comes of round t is counted at t modulo KEPT. In chunks no peer is two rounds ahead of one that it waits for, and
 * what is behind is cleared; packets have no more phases than that. */
enum { KEPT = 4 };

/* What a rank sends to other hosts at once: the messages of a round, or its greetings. Its NIC sends one after the other, each when
 * its port is free, so that links which many share are taken in the order of time. */
struct batch {
	bool active, greeting;
	uint64_t round;
	double from;             /* when the first one is posted */
	double last;             /* when what has been sent so far is there */
	double quantum;          /* so much of it is sent in one event */
	uint32_t next;           /* slot - near slots, in the order of the posts */
	uint32_t counters[MRW_MAX_NICS];
};

enum { GREETING = KEPT, BATCHES };

struct rank {
	uint64_t round, rounds;  /* to begin next; of the call */
	uint32_t got_near[KEPT], got_far[KEPT]; /* peers whose counter or packets of a round are known */
	uint32_t need_near, need_far;           /* before the next round */
	double at[KEPT];         /* when the last of them is here */
	double settled[KEPT];    /* when the NIC has executed what was sent in a round, once that is known */
	bool sending;            /* an event of the NIC is pending */
	double greeted, end;     /* when all greetings are here; when its last round was over */
	double times;            /* a straggler's steps */
	uint32_t near_count, far_count; /* peers on its host and beyond */
};

struct run {
	const struct sim_cluster *cluster;
	const struct sim_call *call;
	struct sim_fabric fabric;
	struct sim_clock clock;
	struct rank *ranks;
	struct batch *batches;      /* [rank * BATCHES]; those of rounds by their bits in kept */
	uint32_t kept;              /* 1 or KEPT - 1: of so many rounds + 1 a rank's NIC may still send */
	uint32_t most_near;         /* ranks of a host, at most */
	uint8_t *near;              /* [rank * most_near] peers on its host, by their numbers there */
	struct sim_cursor *cursors; /* [rank * channels + channel] */
	uint32_t n, peers, nics, far_slots;
	/* What rounds send to whom: [round & kept][rank][far slot][nic] number of a kind of message. */
	uint16_t *sends;
	struct sim_note *kinds;
	uint32_t nkinds, last_kind;
	sim_listener listener;
	void *arg;
	struct sim_answer *answer;
};

/* All that a rank waits for of round t is known. */
static inline bool sim_has_come(const struct rank *k, uint64_t t)
{
	return k->got_near[t % KEPT] >= k->need_near && k->got_far[t % KEPT] >= k->need_far;
}

/* verdict.c. Nothing is left to happen: if some wait, who for whom. */
void sim_name_the_stuck(const struct run *run);
/* Whether every rank has all that it must have, and nothing else. */
void sim_check_outputs(const struct run *run);
/* In a barrier: what rank r knows as it enters round t; in chunks by its peers' counters of the round before. */
void sim_call_the_roll(const struct run *run, uint32_t r, uint64_t t);
/* Of a barrier: whether nobody has left before all had entered. */
void sim_check_roll(const struct run *run);
/* Times and bytes into the answer. */
void sim_tell(const struct run *run);

#endif
