/* schedules.h - the library's schedules as the engine runs them.
 *
 * To add one: a file that includes vocabulary.h and the bodies' headers (direct.c, rail.c and ring.c are the examples), with functions that
 * call what those call once before their loop and once a round; its struct sim_schedule here and in sim_schedules[]. Words that the new
 * bodies use and the others do not are added to vocabulary.h. If its ranks have other peers: reach.c decides that, and sim_peer()
 * (step.c) is the inverse of its slots. */
#ifndef SIM_SCHEDULES_H
#define SIM_SCHEDULES_H

#include "collectives/tree.h"

struct mrw_team;
struct sim_parcel;

/* Of a rank and channel: what a body keeps from round to round. */
struct sim_cursor {
	uint64_t rounds, chunks;
	uint64_t set;
	uint32_t step, place; /* place: as the schedule needs it */
	struct mrw_tree_flow flow[MRW_TREES];
};

struct sim_schedule {
	const char *name;
	enum mrw_algo algo;
	bool several_hosts;         /* it exists across hosts only */
	bool packets;               /* round t waits for what was sent for it, as its body says; else for a counter of every peer */
	bool (*has)(uint32_t func); /* whether it carries such calls */
	/* Sets the cursor for the first round. */
	void (*begin)(const struct mrw_args *a, uint32_t channel, struct sim_cursor *c);
	/* Round t, and the cursor for the next one. */
	void (*round)(const struct mrw_team *team, const struct mrw_args *a, uint32_t channel, uint64_t t, struct sim_cursor *c);
	/* Packets: what this rank sends p in a format is for p's round after this one. NULL: after the sender's own. */
	uint32_t (*arrives)(const struct mrw_args *a, uint32_t format, uint32_t p);
	/* Of what is made of transfers, which has neither begin nor round (transfers.c): sees what a step has for a peer before it leaves. NULL:
	 * nobody looks. */
	void (*leaves)(struct sim_parcel *p);
	bool beside_trees;          /* in a communicator in trees, of which its peers are, not in one of its own algorithm */
};

extern const struct sim_schedule sim_oneshot, sim_twoshot, sim_direct, sim_railshot, sim_rail, sim_ring, sim_treering, sim_treeshot, sim_tree,
	sim_lines, sim_transfers;
extern const struct sim_schedule *const sim_schedules[];
extern const uint32_t sim_schedule_count;
/* NULL: no such name. */
const struct sim_schedule *sim_schedule_find(const char *name);
/* Of enum mrw_func. */
const char *sim_func_name(uint32_t func);
/* MRW_FUNC_END: unknown. */
uint32_t sim_func_find(const char *name);
/* Blocks of ranks may differ. */
bool sim_func_has_counts(uint32_t func);
/* Names of what a schedule carries, with commas between, as far as there is room. */
void sim_schedule_funcs(const struct sim_schedule *s, char *text, size_t room);

#endif
