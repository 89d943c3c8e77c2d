/* cost.h - how long a collective takes by each algorithm: predicted from a machine's figures and the shape of a communicator. Pure.
 *
 * Times are nanoseconds in doubles, made of sums, products, quotients and whole parts only, and nothing is contracted (meson.build): all ranks
 * come to the same bits, and init compares what follows from them (terms.h).
 *
 * A prediction is of calls in a row, all ranks in step. Where it was measured up to where an algorithm is best, that stands above what the
 * figures say: mrw_cost_most(). A new algorithm is a row in cost.c's table. */
#ifndef MRW_COST_H
#define MRW_COST_H

#include "device/args.h"

#include <marrow/types.h>
#include <stdbool.h>

/* Hops between two ranks of a tree. */
struct mrw_cost_hops {
	uint32_t far, near;    /* between hosts, within one */
	uint32_t queued;       /* messages that far ones wait for at a node, their own among them: it has so many children on other hosts */
};

/* What counts of two trees (tree.h). Roots of calls are not known: the rank at position 0 stands for them. */
struct mrw_cost_branches {
	struct mrw_cost_hops deepest, top; /* between a root and whoever is furthest; and position 0 */
	struct mrw_cost_hops from_first;   /* between position 0 and whoever is furthest */
	/* Edges between hosts, both trees together: */
	uint32_t edges;                    /* of the rank that has most */
	uint32_t nic_edges, nic_children;  /* of the NIC that carries most; of these those to children */
	uint32_t near_edges;               /* within the host, of the rank that has most */
	uint32_t fan;                      /* most children on other hosts that a rank has in a tree */
	uint32_t far_peers;                /* most of a rank, its neighbours in the ring among them */
};

/* Who takes part. */
struct mrw_cost_shape {
	enum marrow_target target;
	uint32_t nranks, hosts;
	uint32_t per_host;     /* ranks of the fullest host */
	uint32_t nics;         /* that a rank uses for other hosts; 0 counts as 1 */
	uint32_t channels;     /* most that a call uses: blocks of a GPU */
	uint32_t cores;        /* host target: of a host, the least of all; 0: a core for every rank */
	bool lines;            /* lines arrive whole */
	bool rails;            /* ranks have the ranks of their host and their rail as peers, nobody else */
	bool ring;             /* their two neighbours, nobody else */
	bool tree;             /* their neighbours in two trees and a ring: by mrw_cost_plant() */
	uint32_t sharers;      /* ranks of a host that have a NIC together; 0 counts as 1 */
	uint32_t chunk_bytes;  /* room for a round's chunk, in rings and trees: mrw_chunk_room() of select.h; 0: for all of it */
	struct mrw_cost_branches branches; /* with tree */
};

/* A machine. Bytes are payload: what it costs to carry a byte by this format, its flags included. */
struct mrw_cost_figures {
	const char *name;
	const char *source;            /* where the figures come from */
	double call_ns;                /* launch, opening lines, end */
	/* packets within a host: an exchange costs packet_ns, and a byte less at first, while more of it is latency than width */
	double packet_ns, packet_near_ns, packet_far_ns; /* the latter two a byte, below and above the knee */
	double packet_knee_bytes;
	double turn_ns;                /* from sums to results within one kernel: the second exchange of a two-shot */
	double line_ns, line_byte_ns;  /* lines */
	/* chunks within a host */
	double chunk_ns;               /* an exchange of rounds: first chunk out to first chunk in, drained at the end */
	double chunk_byte_ns;          /* of the link, with as many channels as there may be */
	double channel_byte_ns;        /* and of one channel */
	/* ranks that share cores */
	double swap_ns;                /* an exchange of packets, for each rank of a host, and the more the more of them share a core */
	double chunk_swaps, chunk_swaps_each; /* such rounds of turns of a call in chunks: to begin with, and an exchange */
	/* another host: through one NIC, one way */
	double net_ns;                 /* request written to data seen */
	double net_post_ns;            /* each further request */
	double net_byte_ns;
};

/* GPUs joined by NVLink: two H200s, measured. NICs are assumed: none was at hand. */
extern const struct mrw_cost_figures mrw_cost_nvlink;
/* Processes of one machine, by shared memory: two cores, measured. Between hosts: the model of a NIC, *emulated*. */
extern const struct mrw_cost_figures mrw_cost_host;
const struct mrw_cost_figures *mrw_cost_figures_of(enum marrow_target target);

/* Makes a shape's ranks neighbours in trees. As nranks, per_host and sharers are: before it, hosts are as if each had per_host. */
void mrw_cost_plant(struct mrw_cost_shape *s);

/* Nanoseconds of a call; bytes as in struct mrw_args. INFINITY where ranks of this shape do not have the algorithm, or the call does not. Whether the
 * arena has room is not asked: mrw_select_can(). */
double mrw_cost_ns(const struct mrw_cost_figures *f, const struct mrw_cost_shape *s, enum mrw_func func, uint64_t bytes, enum mrw_algo algo);
/* Up to so many bytes the algorithm was measured to be better than those behind it in enum mrw_algo, and beyond not. UINT64_MAX: nothing was
 * measured, or the figures say the same. */
uint64_t mrw_cost_most(const struct mrw_cost_shape *s, enum mrw_func func, enum mrw_algo algo);

#endif
