/* weigh.h - whom the ranks of a communicator over several hosts had better exchange with, by what the cost model says: a pure function of values that
 * are equal on all ranks.
 *
 * Each way (all, rails, ring, trees) is predicted for all-reduces of a few sizes, by the algorithm that select.c would choose there. What
 * counts is a way's worst ratio to the best one at a size. The rule of reach.h stands unless another way's worst ratio is smaller by
 * MRW_WEIGH_CLEAR. Up to MRW_MAX_WHOLE ranks it stands anyhow, for sums in rank order are promised (types.h), and on GPUs,
 * where no other way has been shown to work by itself. */
#ifndef MRW_WEIGH_H
#define MRW_WEIGH_H

#include "cost.h"
#include "reach.h"
#include "tuning.h"

#define MRW_WEIGH_SIZES 4u
#define MRW_WEIGH_CLEAR 2.0 /* either prediction may be off by a quarter */

extern const uint64_t mrw_weigh_bytes[MRW_WEIGH_SIZES];

/* What is known of the machine before the NICs are opened. */
struct mrw_weigh_machine {
	const struct mrw_cost_figures *figures;
	enum marrow_target target;
	uint32_t channels, cores, nics, sharers; /* as in struct mrw_cost_shape; channels: before mrw_reach_fit() */
};

struct mrw_weights {
	bool weighed;                        /* false: one host, or an algorithm was asked for */
	bool has[MRW_PEERS_COUNT];           /* ranks may have such peers */
	double ns[MRW_PEERS_COUNT][MRW_WEIGH_SIZES];
	double worst[MRW_PEERS_COUNT];       /* largest ratio to the quickest at that size */
	enum mrw_peers rule, best, taken;    /* best: with the smallest of these */
};

/* As mrw_reach_of(), which has the last word where an algorithm is asked for. */
struct mrw_reach mrw_weigh(uint32_t nranks, const uint32_t *host, int32_t forced_algo, const struct mrw_weigh_machine *m, struct mrw_weights *w);
enum mrw_peers mrw_peers_of(const struct mrw_reach *reach);
const char *mrw_peers_name(enum mrw_peers peers);
/* "all 12.0, 30, 510, 33e3 us; rails ...": predicted times by size, as far as there is room. */
void mrw_weigh_text(const struct mrw_weights *w, char *text, size_t bytes);

#endif
