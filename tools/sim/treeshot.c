/* treeshot.c - in two trees in packets: reduce_treeshot.h and move_treeshot.h. Phases, in the order in which the bodies go through them: what a
 * leaf, or a broadcast's root, sends at once; sums of an inner node; results that come to it; results that come to a leaf. Of a barrier a leaf has
 * nothing to do between. */
#include "vocabulary.h"
#include "collectives/move_treeshot.h"
#include "collectives/reduce_treeshot.h"
#include "schedules.h"

enum { OFFER, RISE, PASS, TAKE, PHASES };

static bool has(uint32_t func)
{
	return func == MRW_FUNC_ALL_REDUCE || func == MRW_FUNC_BROADCAST || func == MRW_FUNC_REDUCE || func == MRW_FUNC_BARRIER;
}

static void begin(const struct mrw_args *a, uint32_t channel, struct sim_cursor *c)
{
	struct mrw_flows flows = mrw_branch_flows(a);
	(void)channel;
	memcpy(c->flow, flows.in, sizeof c->flow);
	c->rounds = PHASES;
}

static uint32_t arrives(const struct mrw_args *a, uint32_t format, uint32_t p)
{
	bool leaf = mrw_tree_place(a->nranks, format, sim.reach.position[p]) % 2 == 0;
	if (mrw_tree_rises(a->call.func) && p == mrw_branch_rank(a, format, MRW_TREE_PARENT))
		return RISE - 1;
	return !leaf ? PASS - 1 : a->call.func == MRW_FUNC_BARRIER ? OFFER : TAKE - 1;
}

static void round_of(const struct mrw_team *team, const struct mrw_args *a, uint32_t channel, uint64_t t, struct sim_cursor *c)
{
	bool rises = mrw_tree_rises(a->call.func);
	if (a->call.func == MRW_FUNC_BARRIER) {
		sim_replay();
		(void)mrw_treeshot_barrier(team, channel, a, 0, c->flow[0]);
		return;
	}
	if (!rises && a->rank == a->call.root) {
		struct mrw_flows flows;
		memcpy(flows.in, c->flow, sizeof flows.in);
		if (t == OFFER)
			(void)mrw_treeshot_begin(team, channel, a, 0, &flows);
		return;
	}
	for (uint32_t k = 0; k < mrw_tree_parts(a->bytes); k++) {
		bool leaf = mrw_branch_is_leaf(a, k);
		if (t == OFFER && rises && leaf) {
			mrw_treeshot_offer(team, k, channel, a, 0);
			(void)mrw_twigs_post(team, k, channel, a, 0, 1u << MRW_TREE_PARENT, mrw_twigs_of(a, k, channel).count);
		} else if (t == RISE && rises && !leaf)
			(void)mrw_treeshot_rise(team, k, channel, a, 0, c->flow[k], true);
		else if (t == (leaf ? TAKE : PASS))
			(void)mrw_twigs_pass(team, k, channel, a, 0, c->flow[k], true);
	}
}

const struct sim_schedule sim_treeshot = {"treeshot", MRW_ALGO_TREESHOT, true, true, has, begin, round_of, arrives, NULL, false};
