/* reach.h - which ranks a rank exchanges messages with, decided once at init: a pure function of values that are equal on all ranks.
 *
 * All: every rank with every other one. Rails: ranks of one host are numbered in rank order; a rank's peers are those of its host and
 * those with its number on the other hosts. Ring: the two neighbours, the ranks of a host side by side. Trees: the neighbours in two trees over the
 * positions in that ring (tree.h), and those in the ring, which has what trees have not. Here is the rule: a communicator over several hosts takes
 * rails beyond MRW_MAX_WHOLE ranks, or where it is asked to, if every host has the same number of ranks, more than one; ring and trees where
 * they are asked for. weigh.h has another way taken where the cost model says that it is clearly better. Each way has every collective.
 * Transfers go between any two ranks, peers or not. */
#ifndef MRW_REACH_H
#define MRW_REACH_H

#include "device/wire.h"

#define MRW_MAX_WHOLE 16u /* ranks of a communicator over several hosts that reach each other unless it is told otherwise */

struct mrw_reach {
	bool rails, ring, tree;
	bool whole;                        /* every rank is a peer of every other one */
	uint32_t nranks, hosts, per_host;  /* per_host: 0 unless all hosts have as many ranks */
	uint32_t host[MRW_MAX_RANKS];      /* of a rank; hosts are numbered by their first ranks */
	uint32_t local[MRW_MAX_RANKS];     /* a rank's number within its host, in rank order */
	uint32_t position[MRW_MAX_RANKS];  /* in a ring, and in trees */
	uint32_t at[MRW_MAX_RANKS];        /* rank at a position */
	const char *reason;                /* static text */
};

/* host: of each rank, any numbers that are equal for ranks of one host. forced_algo: enum mrw_algo, -1: none; one that wants all ranks to be
 * peers gets that. */
struct mrw_reach mrw_reach_of(uint32_t nranks, const uint32_t *host, int32_t forced_algo);
struct mrw_layout mrw_reach_layout(const struct mrw_reach *reach, uint32_t channels, uint64_t staging_budget);
/* The same with *channels made fewer until their parts of the arena are not too small to be of use. */
struct mrw_layout mrw_reach_fit(const struct mrw_reach *reach, uint32_t *channels, uint64_t staging_budget);
/* What lies between two ranks, as in far.h. */
bool mrw_reach_is_peer(const struct mrw_reach *reach, uint32_t rank, uint32_t peer);
/* Slot of peer in rank's arena. In trees a rank's children, if it has any, are the first: sums want them side by side. */
uint32_t mrw_reach_slot(const struct mrw_reach *reach, uint32_t rank, uint32_t peer);

#endif
