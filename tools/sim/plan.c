#include "plan.h"
#include "pairs.h"
#include "step.h"
#include "collectives/routes.h"
#include "collectives/select.h"
#include "collectives/tree.h"

#include <stdio.h>

enum { LIBRARY_RANKS = 64, CHUNK_WANTED = 64 << 10, SMALLEST_CHUNK = 512, SMALLEST_UNITS = 32 };

/* As network_view.c fills it. */
static void fill_far(uint32_t nics)
{
	const struct mrw_reach *r = &sim.reach;
	sim.far.nics = nics;
	sim.far.hosts = sim.far.per_host = 0;
	if (r->ring || r->tree) {
		sim.far.hosts = r->nranks;
		sim.far.per_host = 1;
		for (uint32_t p = 0; p < r->nranks; p++)
			sim.far.at[r->position[p]] = p;
	}
	if (r->rails) {
		sim.far.hosts = r->hosts;
		sim.far.per_host = r->per_host;
		for (uint32_t p = 0; p < r->nranks; p++)
			sim.far.at[r->host[p] * r->per_host + r->local[p]] = p;
	}
}

/* A neighbour of rank in trees or in their ring: where its slots say. */
static void place(uint32_t rank, uint32_t position)
{
	if (position == MRW_TREE_NONE)
		return;
	uint32_t slot = mrw_reach_slot(&sim.reach, rank, sim.reach.at[position]);
	if (slot < MRW_TREE_PEERS) /* not of itself */
		sim.tree_peers[rank][slot] = sim.reach.at[position];
}

static void fill_trees(void)
{
	const struct mrw_reach *r = &sim.reach;
	memset(sim.tree_peers, 0xff, r->nranks * sizeof sim.tree_peers[0]);
	for (uint32_t p = 0; p < r->nranks; p++) {
		uint32_t position = r->position[p];
		place(p, (position + 1) % r->nranks);
		place(p, (position + r->nranks - 1) % r->nranks);
		for (uint32_t k = 0; k < MRW_TREES; k++) {
			struct mrw_tree t = mrw_tree_at(r->nranks, k, position);
			sim.trees[p][k].level = t.level;
			for (uint32_t i = 0; i < MRW_TREE_NEIGHBOURS; i++) {
				place(p, t.neighbour[i]);
				sim.trees[p][k].neighbour[i] = t.neighbour[i] == MRW_TREE_NONE ? MRW_TREE_NONE : r->at[t.neighbour[i]];
			}
		}
	}
}

/* The same as mrw_reach_layout(), with budgets of our own; slots: what that has. */
static struct mrw_layout roomy(uint32_t channels, uint32_t slots, uint64_t times)
{
	const struct mrw_reach *r = &sim.reach;
	struct mrw_spread s = {r->nranks, channels, r->rails, r->hosts, r->per_host, r->hosts > 1, r->ring, r->tree ? slots : 0};
	return mrw_layout_of(&s, MRW_PACKETS_BUDGET * times, r->hosts > 1 ? 0 : MRW_LINES_BUDGET, MRW_STAGING_BUDGET * times);
}

static bool is_fine(const struct mrw_layout *l, uint64_t chunk, uint64_t units)
{
	return l->units >= SMALLEST_UNITS && l->units >= 4 * l->cells && l->units >= units && l->chunk_bytes >= chunk;
}

/* Packets that a slot must hold for a call by one channel, as far as any does. */
static uint64_t units_wanted(const struct sim_call *call, uint64_t block)
{
	bool differ = !mrw_has_shares(call->func) && call->func != MRW_FUNC_BARRIER;
	uint64_t bytes = call->schedule->algo == MRW_ALGO_TWOSHOT || sim.reach.tree ? block : sim.args.bytes;
	uint64_t units = (bytes + MRW_UNIT_BYTES - 1) / MRW_UNIT_BYTES;
	if (!call->schedule->packets)
		return 0;
	if (call->schedule->algo == MRW_ALGO_RAILSHOT && differ)
		units *= sim.reach.hosts;
	return units < MRW_MAX_UNITS ? units : MRW_MAX_UNITS;
}

static void lay_out(const struct sim_cluster *c, const struct sim_call *call, struct sim_plan *plan, uint64_t block, uint32_t *cap)
{
	uint64_t budget = c->cuda ? MRW_STAGING_BUDGET : MRW_HOST_STAGING_BUDGET;
	*cap = call->channels ? call->channels : (uint32_t)c->channels;
	sim.args.layout = call->channels ? mrw_reach_layout(&sim.reach, *cap, budget) : mrw_reach_fit(&sim.reach, cap, budget);
	while (*cap > 1 && !is_fine(&sim.args.layout, SMALLEST_CHUNK, 0))
		sim.args.layout = mrw_reach_layout(&sim.reach, *cap /= 2, budget);
	if (sim.reach.nranks > LIBRARY_RANKS)
		plan->why = "more ranks than the library takes";
	else if (!is_fine(&sim.args.layout, SMALLEST_CHUNK, 0))
		plan->why = "the arena would be cut too fine";
	plan->paper = plan->why != NULL;
	if (!plan->paper)
		return;
	uint64_t wanted = call->chunk_bytes ? call->chunk_bytes : CHUNK_WANTED, times = 1;
	uint64_t units = units_wanted(call, block);
	*cap = call->channels ? call->channels : 1;
	wanted = call->schedule->packets ? SMALLEST_CHUNK : wanted;
	wanted = wanted < MRW_MAX_CHUNK_BYTES ? wanted : MRW_MAX_CHUNK_BYTES;
	wanted = wanted < block ? wanted : block;
	wanted = (wanted + SMALLEST_CHUNK - 1) / SMALLEST_CHUNK * SMALLEST_CHUNK;
	uint32_t slots = sim.args.layout.slots;
	do
		sim.args.layout = roomy(*cap, slots, times);
	while (!is_fine(&sim.args.layout, wanted, units) && (times *= 2) < 1ull << 40);
	/* No more than was asked for. */
	uint64_t least = times / 2, most = times;
	while (most - least > 1 && most - least > most / 64) {
		struct mrw_layout l = roomy(*cap, slots, (least + most) / 2);
		if (is_fine(&l, wanted, units)) {
			most = (least + most) / 2;
			sim.args.layout = l;
		} else
			least = (least + most) / 2;
	}
}

static bool plan_bootstrap(const struct sim_cluster *c, struct sim_plan *plan, uint32_t nics)
{
	const struct mrw_args *a = &sim.args;
	plan->arena_bytes = a->layout.bytes;
	uint32_t links = a->nranks <= SIM_LIBRARY_RANKS ? a->nranks - 1 : a->layout.slots - a->layout.near_slots;
	sim_bootstrap_run(c, links * nics, &plan->bootstrap);
	if (plan->bootstrap.fault[0])
		sim_fault("bootstrap: %s", plan->bootstrap.fault);
	return !plan->bootstrap.fault[0];
}

/* The blocks of all ranks: of equal size, or as the call's weights say. False: sim.fault says what is wrong. */
static bool cut(const struct sim_call *call, uint32_t n)
{
	struct mrw_args *a = &sim.args;
	uint64_t all = 0, sum = 0, before = 0;
	static const uint32_t alike = 1;
	const uint32_t *weight = call->weights ? call->weight : &alike, weights = call->weights ? call->weights : 1;
	if (!sim_func_has_counts(call->func)) {
		bool whole = mrw_has_shares(call->func) || call->func == MRW_FUNC_TRANSFERS;
		a->bytes = whole ? call->bytes : (call->bytes + n - 1) / n;
		return true;
	}
	for (uint32_t r = 0; r < n; r++)
		all += weight[r % weights];
	if (all == 0) {
		sim_fault("the counts of all %u ranks are 0", n);
		return false;
	}
	a->uneven = 1;
	for (uint32_t r = 0; r < n; before = a->ends[r++]) {
		sum += weight[r % weights];
		a->ends[r] = call->bytes / all * sum + call->bytes % all * sum / all;
		a->bytes = a->ends[r] - before > a->bytes ? a->ends[r] - before : a->bytes;
	}
	return true;
}

/* Teams as exchange.c takes them. */
static bool plan_transfers(const struct sim_cluster *c, const struct sim_call *call, struct sim_plan *plan, uint32_t cap, uint32_t nics)
{
	struct mrw_args *a = &sim.args;
	if (plan->paper) {
		plan->refused = true;
		sim_fault("%s: %s", call->schedule->name, plan->why);
		return false;
	}
	uint32_t shift = call->shift ? call->shift : 1;
	if (call->func == MRW_FUNC_TRANSFERS && shift >= a->nranks) {
		sim_fault("a shift of %u among %u ranks: from 1 to %u", shift, a->nranks, a->nranks - 1);
		return false;
	}
	a->call.func = (uint8_t)call->func;
	a->call.algo = MRW_ALGO_TRANSFERS;
	a->call.root = call->func == MRW_FUNC_TRANSFERS ? shift : call->root;
	a->call.chunk_bytes = mrw_transfer_width(&a->layout, a->bytes, c->cuda) > 0 ? mrw_transfer_chunk_bytes(&a->layout, a->bytes) : 0;
	a->call.count = a->bytes;
	a->call.channels = 1;
	for (uint32_t r = 0; r < a->nranks; r++) {
		sim.teams[r] = c->cuda ? sim_move_teams(a, r, cap) : 1; /* as on a host whose channels run in turn */
		a->call.channels = sim.teams[r] > a->call.channels ? sim.teams[r] : a->call.channels;
	}
	plan->peers = a->nranks - 1;
	plan->far_peers = a->nranks - sim_cluster_fewest_gpus(c);
	plan->queue_pairs = plan->far_peers * nics;
	return plan_bootstrap(c, plan, nics);
}

/* Of a ring or trees: neighbours on other hosts, the most a rank has. */
static uint32_t far_neighbours(uint32_t n)
{
	uint32_t most = 0;
	for (uint32_t r = 0; r < n; r++) {
		uint32_t far = 0;
		for (uint32_t s = 0; s < sim.args.layout.slots; s++) {
			uint32_t p = sim_peer(&sim.reach, r, s);
			far += p != MRW_TREE_NONE && !sim_same_host(p, r);
		}
		most = far > most ? far : most;
	}
	return most;
}

bool sim_plan_make(const struct sim_cluster *c, const struct sim_call *call, struct sim_plan *plan)
{
	static uint32_t host[SIM_MAX_RANKS];
	uint32_t n = sim_cluster_ranks(c), cap;
	struct mrw_args *a = &sim.args;
	memset(plan, 0, sizeof *plan);
	memset(&sim.args, 0, sizeof sim.args);
	sim.fault[0] = '\0';
	for (uint32_t h = 0, r = 0; h < (uint32_t)c->hosts; h++) {
		sim.gpus_of[h] = sim_cluster_gpus(c, h);
		for (uint32_t l = 0; l < sim.gpus_of[h]; l++)
			host[r++] = h;
	}
	enum mrw_algo algo = call->schedule->algo, asked = call->schedule->beside_trees ? MRW_ALGO_TREE : algo;
	sim.reach = mrw_reach_of(n, host, asked == MRW_ALGO_TRANSFERS ? -1 : (int32_t)asked);
	bool as_wanted = asked == MRW_ALGO_RING				       ? sim.reach.ring
			 : asked == MRW_ALGO_RAIL || asked == MRW_ALGO_RAILSHOT  ? sim.reach.rails
			 : asked == MRW_ALGO_TREE || asked == MRW_ALGO_TREESHOT ? sim.reach.tree
										 : true;
	plan->refused = false;
	if (!call->schedule->has(call->func)) {
		char carried[160];
		sim_schedule_funcs(call->schedule, carried, sizeof carried);
		sim_fault("%s: not for such a call: the library has no such collective there, but %s", call->schedule->name, carried);
		return false;
	}
	bool empty = call->bytes == 0 && call->func != MRW_FUNC_BARRIER;
	if (!as_wanted || empty) {
		bool uneven = sim.reach.hosts > 1 && sim.reach.per_host == 0;
		sim_fault("%s: not for such a call: %s%s", call->schedule->name, empty ? "it has no bytes" : sim.reach.reason,
			  !empty && uneven ? "; direct, ring and tree go there" : "");
		return false;
	}
	if (call->root >= n) {
		sim_fault("root %u of %u ranks", call->root, n);
		return false;
	}
	uint32_t nics = sim.reach.hosts > 1 ? sim_cluster_nics_of_rank(c) : 0;
	fill_far(nics);
	if (sim.reach.tree)
		fill_trees();
	bool shares = mrw_has_shares(call->func), straight = call->func == MRW_FUNC_REDUCE && n == 2 && !sim.reach.ring;
	a->rank = 0;
	a->nranks = n;
	a->far = sim.reach.hosts > 1 ? &sim.far : NULL;
	a->in = SIM_IN;
	a->out = SIM_OUT;
	for (uint32_t r = 0; r < n; r++)
		a->arena[r] = SIM_ARENA(r);
	if (!cut(call, n))
		return false;
	a->share_bytes = shares && !straight ? mrw_share_bytes(a->bytes, n) : 0;
	if (straight) {
		a->uneven = 1;
		a->ends[0] = call->root == 0 ? a->bytes : 0;
		a->ends[1] = a->bytes;
	}
	bool parts = algo == MRW_ALGO_TREE || algo == MRW_ALGO_TREESHOT;
	uint64_t block = parts ? mrw_tree_part(a->bytes, 0).bytes : a->share_bytes ? a->share_bytes : a->bytes;
	lay_out(c, call, plan, block, &cap);
	if (algo == MRW_ALGO_TRANSFERS)
		return plan_transfers(c, call, plan, cap, nics);
	struct mrw_select_input in = {.func = (enum mrw_func)call->func, .target = c->cuda ? MARROW_TARGET_CUDA : MARROW_TARGET_HOST, .bytes = a->bytes,
				      .nranks = n, .layout = a->layout, .nics = nics, .channel_cap = cap, .lines = true,
				      .forced_algo = (int32_t)call->schedule->algo, .forced_channels = call->channels};
	struct mrw_plan chosen = mrw_select(&in);
	if (chosen.algo != call->schedule->algo) {
		plan->refused = true;
		sim_fault("%s: the library takes %s for this call (%s)", call->schedule->name, mrw_algo_name(chosen.algo), chosen.reason);
		return false;
	}
	bool one = chosen.algo != MRW_ALGO_TWOSHOT || a->share_bytes == 0; /* packets: blocks are shares in a two-shot only */
	uint64_t by_channels = parts ? block : one ? a->bytes : a->share_bytes;
	a->units = call->schedule->packets ? (uint32_t)mrw_units_per_channel(by_channels, chosen.channels) : 0;
	if (chosen.algo == MRW_ALGO_LINES)
		a->units = (a->units + MRW_LINE_UNITS - 1) / MRW_LINE_UNITS * MRW_LINE_UNITS;
	a->call.func = (uint8_t)call->func;
	a->call.algo = (uint8_t)chosen.algo;
	a->call.root = call->root;
	a->call.channels = chosen.channels;
	a->call.chunk_bytes = chosen.chunk_bytes;
	a->call.lag = chosen.lag;
	a->call.count = a->bytes;
	plan->peers = a->layout.slots;
	plan->far_peers = sim.reach.rails ? sim.reach.hosts - 1 : n - sim_cluster_fewest_gpus(c);
	if (sim.reach.ring || sim.reach.tree)
		plan->far_peers = far_neighbours(n);
	plan->queue_pairs = plan->far_peers * nics; /* the schedule's; up to the library's ranks it makes those for transfers between all, too */
	return plan_bootstrap(c, plan, nics);
}
