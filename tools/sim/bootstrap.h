/* bootstrap.h - how ranks meet, simulated: all call at the root, which sends them to places in a tree (src/boot_tree.h); down that goes the table
 * of all; each connects to its neighbours at distances 1, 2, 4, ..., and the tree lets them go; then init's exchanges, in rounds over those
 * (src/bootstrap.c: Bruck's). Messages have the sizes of the library's structs as of its 64 ranks. */
#ifndef SIM_BOOTSTRAP_H
#define SIM_BOOTSTRAP_H

#include "cluster.h"

/* Exchanges of an init after all have met; tests/network/messages counts the library's. */
enum { SIM_EXCHANGES_NEAR = 7, SIM_EXCHANGES_SPANNING = 13, SIM_EXCHANGES_CUDA = 2 /* more, across hosts */ };

struct sim_bootstrap {
	uint32_t rounds;         /* of an exchange */
	uint32_t exchanges;      /* of init */
	uint32_t sockets, root_sockets; /* at a rank; at the root at most, while ranks join */
	uint64_t messages;       /* in all */
	uint64_t rank_messages;  /* sent at most by a rank other than the root */
	uint64_t root_bytes, rank_bytes; /* sent by the root while ranks join; by a rank in all exchanges */
	double join_us, links_us, exchanges_us, us;
	char fault[160];         /* empty: every rank had every block of every exchange */
};

/* links: queue pairs of a rank, whose addresses it tells all. Stragglers come late. */
void sim_bootstrap_run(const struct sim_cluster *c, uint32_t links, struct sim_bootstrap *b);

#endif
