/* pairs.h - what a call that is made of transfers moves from one rank to another, itself among them: as exchange.c lists it. Blocks lie in buffers
 * without gaps. Sends and recvs (MRW_FUNC_TRANSFERS) are one of each a rank: to the rank call.root places on, from the one as many places back. */
#ifndef SIM_PAIRS_H
#define SIM_PAIRS_H

#include "device/args.h"

struct sim_move {
	bool is;           /* there is such a transfer; it may be of no bytes */
	uint64_t from, to; /* offsets in the sender's input and in the receiver's output */
	uint64_t bytes;
};

struct sim_move sim_move_of(const struct mrw_args *a, uint32_t src, uint32_t dst);
/* Teams that a rank's launch takes for them on GPUs. */
uint32_t sim_move_teams(const struct mrw_args *a, uint32_t rank, uint32_t cap);
/* Bytes that come to a rank. */
uint64_t sim_move_comes(const struct mrw_args *a, uint32_t rank);

#endif
