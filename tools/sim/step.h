/* step.h - one rank's round under way: what the bodies' vocabulary (vocabulary.h) notes and the engine turns into time. There is one, for
 * inner loops are short and there are many. */
#ifndef SIM_STEP_H
#define SIM_STEP_H

#include "cluster.h"
#include "ledger.h"
#include "roll.h"
#include "collectives/reach.h"

/* far.h's, as far as schedules look: whom the rank of the moment is among. */
struct mrw_far_tree {
	uint32_t neighbour[3];
	uint32_t level;
};

struct mrw_far {
	uint32_t nics, hosts, per_host, host, local;
	uint32_t at[MRW_MAX_RANKS];
	struct mrw_far_tree tree[2];
};

/* Messages to one peer on another host, by one NIC. */
struct sim_note {
	uint64_t bytes;
	uint32_t requests;
	uint32_t phases;               /* packets: bit i: the peer waits for some of them before its phase i + 1 */
};

struct sim_step {
	struct mrw_args args;          /* of all ranks; rank is changed for each */
	struct mrw_far far;
	struct mrw_reach reach;
	struct sim_ledger ledger;
	struct sim_roll roll;          /* of a barrier */
	/* In trees, of each rank: its place in both, and its peers by slot (MRW_TREE_NONE: none). */
	struct mrw_far_tree trees[MRW_MAX_RANKS][2];
	uint32_t tree_peers[MRW_MAX_RANKS][MRW_TREE_PEERS];
	uint32_t teams[SIM_LIBRARY_RANKS]; /* of what is made of transfers: those of each rank's launch */
	uint32_t gpus_of[MRW_MAX_RANKS];   /* [host] its ranks, which have numbers in a row */
	uint32_t channel, host, first, gpus; /* of the moment: channel, host, its first rank, its ranks */
	/* Since the round began: */
	uint64_t loaded, stored;       /* bytes, of this rank's own memory */
	uint64_t staged, noted;        /* bytes for other hosts, put into the outbox and noted */
	uint64_t near[64];             /* bytes stored at the host's rank with this number */
	struct sim_note *notes;        /* [slot * nics + nic] */
	/* Phases in packets: dry is a run that only notes whom it waits for. arrives: as the schedule says, NULL: all wait in step. */
	bool dry;
	uint32_t phase;
	uint32_t near_phases[64];      /* as in struct sim_note, for the host's rank with this number */
	uint32_t (*arrives)(const struct mrw_args *a, uint32_t format, uint32_t p);
	/* Bodies that are run from their beginning in every phase: what they do is numbered by phases, of which a new one begins with a wait after
	 * what was sent, and counts in its phase only. */
	bool replays, sent;
	uint32_t replayed;
	uint32_t *awaited;             /* [slot] the last phase (stamp) that waited for it */
	uint32_t stamp, await_near, await_far;
	char fault[240];               /* the first thing that is wrong; empty: none */
};

extern struct sim_step sim;

/* Notes what is wrong, if nothing was yet. */
void sim_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The peer of rank with this slot; mrw_reach_slot()'s inverse. MRW_TREE_NONE: that slot is empty. */
uint32_t sim_peer(const struct mrw_reach *reach, uint32_t rank, uint32_t slot);
uint32_t sim_tree_slot(uint32_t rank, uint32_t peer);
/* The address lies in the outbox of its arena: what is put there goes to another host. */
bool sim_is_outbox(const uint8_t *at);
/* Contents of a place, of a chunk of bytes bytes; at: an address that the vocabulary made up. */
uint32_t sim_load(const uint8_t *at, uint64_t bytes);
void sim_store(uint8_t *at, uint64_t bytes, uint32_t value);
/* Number of the staging chunk at an offset of an arena, as wire.h lays them out. */
uint64_t sim_staging_index(uint64_t offset, uint32_t *format, bool *near);
/* Where the ledger has that of a rank. Chunks of ranks on other hosts lie by parity there: few rounds touch half of the memory only. */
uint32_t *sim_staged(uint64_t rank, uint64_t index, uint32_t format, bool near);

/* The ledger's place of a packet: in a slot of my arena (what came), of a rank of my host, or in my outbox (then of the peer that it goes to). */
uint32_t *sim_packet(const uint8_t *at);
/* What the phase sends p is for p's phase after this one (bit). */
uint32_t sim_arrives(const struct mrw_args *a, uint32_t format, uint32_t p);
/* The phase waits for the peer with this slot. */
void sim_await(uint32_t slot, bool far);

/* Of an address of a line: the slot of the peer that writes there, and the ledger's places of its units. */
uint32_t sim_line_slot(const uint8_t *at);
uint32_t *sim_line(const uint8_t *at);

/* Addresses: the rank + 1 above bit 40, an offset in its arena below; or a buffer of the rank of the moment. */
#define SIM_ARENA(rank) ((uint8_t *)(((uint64_t)(rank) + 1) << 40))
#define SIM_IN ((uint8_t *)(1ull << 60))
#define SIM_OUT ((uint8_t *)(1ull << 61))

/* mrw_reach_slot(), of peers; that goes down both trees for each of a rank's. */
static inline uint32_t sim_slot(uint32_t rank, uint32_t peer)
{
	return sim.reach.tree ? sim_tree_slot(rank, peer) : mrw_reach_slot(&sim.reach, rank, peer);
}

/* rank's host is that of the moment. */
static inline void sim_enter_host(uint32_t rank)
{
	sim.host = sim.reach.host[rank];
	sim.first = rank - sim.reach.local[rank];
	sim.gpus = sim.gpus_of[sim.host];
}

static inline bool sim_same_host(uint32_t p, uint32_t q)
{
	return sim.reach.host[p] == sim.reach.host[q];
}

static inline uint32_t sim_rank_of(const uint8_t *at)
{
	return (uint32_t)((uint64_t)at >> 40) - 1;
}

#endif
