/* tree.c - in two trees in chunks: reduce_tree.h and move_tree.h. */
#include "vocabulary.h"
#include "collectives/move_tree.h"
#include "collectives/reduce_tree.h"
#include "schedules.h"

static bool has(uint32_t func)
{
	return func == MRW_FUNC_ALL_REDUCE || func == MRW_FUNC_BROADCAST || func == MRW_FUNC_REDUCE;
}

static void begin(const struct mrw_args *a, uint32_t channel, struct sim_cursor *c)
{
	struct mrw_flows flows = mrw_branch_flows(a);
	memcpy(c->flow, flows.in, sizeof c->flow);
	c->rounds = mrw_branch_rounds(a, channel);
}

static void round_of(const struct mrw_team *team, const struct mrw_args *a, uint32_t channel, uint64_t t, struct sim_cursor *c)
{
	for (uint32_t k = 0; k < mrw_tree_parts(a->bytes); k++)
		if (mrw_reduces(a->call.func))
			mrw_reduce_tree_round(team, k, channel, a, t, c->flow[k], t, 0);
		else
			mrw_move_tree_round(team, k, channel, a, t, c->flow[k], t);
}

const struct sim_schedule sim_tree = {"tree", MRW_ALGO_TREE, true, false, has, begin, round_of, NULL, NULL, false};
