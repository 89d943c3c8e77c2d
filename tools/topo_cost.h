/* topo_cost.h - how long collectives take on a machine, one rank a GPU: the cost model of the library with the figures of two H200s put in
 * proportion to this machine's links, and what the library would choose by them. */
#ifndef TOOLS_TOPO_COST_H
#define TOOLS_TOPO_COST_H

#include "collectives/weigh.h"
#include "topo_print.h"

enum { TOPO_COST_SIZES = 10, TOPO_COST_FUNCS = 5, TOPO_COST_NOTES = 6 };

struct topo_cost_time {
	enum mrw_algo algo;
	double us;
};

struct topo_costs {
	struct mrw_cost_shape shape;         /* nranks 0: fewer than two ranks, nothing to say */
	struct mrw_cost_figures figures;
	double link_mb_s, nic_mb_s;          /* of one rank: into all others of its host at once; into the network, 0 without hosts */
	uint32_t nnotes;
	const char *notes[TOPO_COST_NOTES];  /* what is assumed */
	uint64_t bytes[TOPO_COST_SIZES];     /* of the larger buffer, as in the perf programs */
	enum mrw_func funcs[TOPO_COST_FUNCS];
	struct mrw_weights weights;          /* of whom ranks may exchange with, over several hosts and as many ranks as the library takes */
	struct topo_cost_time times[TOPO_COST_FUNCS][TOPO_COST_SIZES];
};

void topo_make_costs(const struct topo_answers *answers, struct topo_costs *costs);

#endif
