/* test_sim.c - the simulator: its clock and links count right, every schedule is complete over many shapes, and broken ones are found out. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agenda.h"
#include "clock.h"
#include "engine.h"
#include "parcel.h"
#include "step.h"
#include "collectives/schedule.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct sim_cluster cluster_of(uint32_t hosts, uint32_t gpus, uint32_t nics)
{
	struct sim_cluster c = {.cuda = true, .hosts = hosts, .gpus = gpus, .nics = nics, .nvlink_gb_s = 100, .nvlink_us = 1, .nic_gb_s = 10, .nic_us = 2,
				.memory_gb_s = 1000, .round_us = 1, .channels = 64};
	return c;
}

static void events_leave_in_the_order_of_time(void **state)
{
	(void)state;
	enum { RANKS = 500 };
	static struct sim_clock clock;
	uint32_t rank, seen = 0;
	double at, last = 0;
	assert_true(sim_clock_open(&clock, RANKS, 10));
	for (uint32_t r = 0; r < RANKS; r++) /* most of them far beyond the ring's end */
		sim_clock_put(&clock, r, (double)(r * 7919 % RANKS) * 54321.5);
	while (sim_clock_take(&clock, &rank, &at)) {
		assert_true(at >= last - 10);
		last = at > last ? at : last;
		if (++seen < 3 * RANKS)
			sim_clock_put(&clock, rank, at + (rank % 3 ? 25 : 1e6));
	}
	assert_int_equal(seen, 3 * RANKS + RANKS - 1);
	sim_clock_close(&clock);
}

static void links_serve_one_after_the_other(void **state)
{
	(void)state;
	struct sim_cluster c = cluster_of(4, 1, 1);
	struct sim_fabric f;
	c.nlevels = 1;
	c.level[0] = (struct sim_level){"leaf", 2, 4, 3};
	assert_true(sim_fabric_open(&f, &c));
	/* 10 GB/s are 10 bytes a ns; 2 us on the way. */
	assert_true(fabs(sim_fabric_send(&f, 0, 1, 0, 10000, 1, 0) - 3000) < 1);
	assert_true(fabs(sim_fabric_send(&f, 0, 1, 0, 10000, 1, 0) - 4000) < 1);
	assert_true(fabs(sim_fabric_send(&f, 1, 0, 0, 10000, 1, 0) - 3000) < 1); /* the other way is free */
	sim_fabric_clear(&f);
	/* Up and down: 2 * 3 us more; two hosts share 2 * 10 / 4 GB/s, so the second comes after 2000 ns of the first. */
	assert_true(fabs(sim_fabric_send(&f, 0, 2, 0, 10000, 1, 0) - 10000) < 1);
	assert_true(fabs(sim_fabric_send(&f, 1, 3, 0, 10000, 1, 0) - 12000) < 1);
	assert_int_equal(f.bytes[SIM_UP], 20000);
	assert_true(fabs(sim_fabric_load(&f, SIM_UP, 4000) - 1) < 0.01);
	sim_fabric_close(&f);
}

/* NICs of different numbers have no leaf in common. */
static void rails_meet_above_the_leaves(void **state)
{
	(void)state;
	struct sim_cluster c = cluster_of(2, 2, 2);
	struct sim_fabric f;
	c.rails = 1;
	c.nlevels = 1;
	c.level[0] = (struct sim_level){"leaf", 2, 1, 3};
	assert_true(sim_fabric_open(&f, &c));
	assert_true(fabs(sim_fabric_send(&f, 0, 2, 0, 0, 1, 0) - 2000) < 1);
	assert_true(fabs(sim_fabric_send(&f, 0, 3, 0, 0, 1, 0) - 8000) < 1);
	sim_fabric_close(&f);
}

static void slots_are_inverted(void **state)
{
	(void)state;
	static const struct sim_schedule *const some[] = {&sim_direct, &sim_rail, &sim_ring, &sim_tree, &sim_treering};
	for (size_t i = 0; i < COUNT(some); i++) {
		struct sim_cluster c = cluster_of(5, 3, 3);
		struct sim_call call = {.schedule = some[i], .func = some[i] == &sim_treering ? MRW_FUNC_ALL_GATHER : MRW_FUNC_ALL_REDUCE, .bytes = 1000};
		struct sim_plan plan;
		uint32_t seen = 0, peers = 0;
		assert_true(sim_plan_make(&c, &call, &plan));
		for (uint32_t r = 0; r < 15; r++)
			for (uint32_t s = 0; s < plan.peers; s++) {
				uint32_t p = sim_peer(&sim.reach, r, s);
				if (p == MRW_TREE_NONE) /* in trees some have fewer */
					continue;
				assert_true(mrw_reach_is_peer(&sim.reach, r, p));
				assert_int_equal(mrw_reach_slot(&sim.reach, r, p), s);
				assert_int_equal(sim_slot(r, p), s);
				seen++;
			}
		for (uint32_t r = 0; r < 15 * 15; r++)
			peers += mrw_reach_is_peer(&sim.reach, r / 15, r % 15);
		assert_int_equal(seen, peers);
	}
}

static const uint32_t funcs[] = {MRW_FUNC_ALL_REDUCE, MRW_FUNC_ALL_GATHER, MRW_FUNC_REDUCE_SCATTER, MRW_FUNC_BROADCAST, MRW_FUNC_REDUCE,
				 MRW_FUNC_REDUCE_SCATTER_V, MRW_FUNC_ALL_TO_ALL};
static const uint32_t differ[] = {3, 0, 1, 8, 1}; /* blocks of the calls whose blocks may differ */

static void schedules_are_complete(void **state)
{
	(void)state;
	static const uint32_t shapes[][3] = {{1, 2, 1}, {1, 3, 1}, {1, 8, 1}, {2, 1, 1}, {3, 1, 2}, {2, 2, 4}, {3, 4, 2}, {5, 3, 3}, {16, 8, 8}};
	static const uint64_t sizes[] = {1, 17, 4096, 99991, 3000001};
	uint32_t ran = 0;
	for (size_t k = 0; k < COUNT(shapes); k++)
		for (size_t f = 0; f < COUNT(funcs); f++)
			for (size_t b = 0; b < COUNT(sizes); b++)
				for (uint32_t s = 0; s < sim_schedule_count; s++) {
					struct sim_cluster c = cluster_of(shapes[k][0], shapes[k][1], shapes[k][2]);
					struct sim_call call = {sim_schedules[s], funcs[f], 0, sizes[b], 0, 0, differ, COUNT(differ), 0};
					struct sim_answer a;
					call.root = (uint32_t)(shapes[k][0] * shapes[k][1] - 1 - b % 2);
					if (!call.schedule->has(call.func) || (call.schedule->several_hosts && c.hosts == 1) ||
					    ((call.schedule->algo == MRW_ALGO_RAIL || call.schedule->algo == MRW_ALGO_RAILSHOT) && c.gpus == 1))
						continue;
					bool ok = sim_run(&c, &call, true, NULL, NULL, &a);
					if (!ok && a.plan.refused)
						continue;
					if (!ok)
						fail_msg("%s %u of %llu bytes on %u x %u: %s", call.schedule->name, call.func, (unsigned long long)sizes[b],
							 shapes[k][0], shapes[k][1], a.fault);
					assert_true(a.us >= a.first_us && a.first_us > 0);
					ran++;
				}
	assert_true(ran > 1060);
}

/* Hosts of 1 to 6 ranks, of which some share a NIC. */
static struct sim_cluster uneven_cluster(void)
{
	struct sim_cluster c = cluster_of(6, 3, 3);
	c.nothers = 3;
	c.other[0] = (struct sim_other){1, 1, 1, -1};
	c.other[1] = (struct sim_other){3, 4, 5, 2};
	c.other[2] = (struct sim_other){5, 5, 6, -1};
	return c;
}

static void hosts_may_differ(void **state)
{
	(void)state;
	static const uint32_t more[] = {MRW_FUNC_BARRIER, MRW_FUNC_ALL_GATHER_V, MRW_FUNC_TRANSFERS};
	static const uint64_t sizes[] = {1, 4096, 300007};
	uint32_t ran = 0;
	for (size_t f = 0; f < COUNT(funcs) + COUNT(more); f++)
		for (size_t b = 0; b < COUNT(sizes); b++)
			for (uint32_t s = 0; s < sim_schedule_count; s++) {
				struct sim_cluster c = uneven_cluster();
				struct sim_call call = {sim_schedules[s], f < COUNT(funcs) ? funcs[f] : more[f - COUNT(funcs)], 16, sizes[b], 0, 0, differ,
							COUNT(differ), 0};
				struct sim_answer a;
				if (!call.schedule->has(call.func))
					continue;
				bool ok = sim_run(&c, &call, true, NULL, NULL, &a);
				if (call.schedule->algo == MRW_ALGO_RAIL || call.schedule->algo == MRW_ALGO_RAILSHOT) {
					assert_false(ok);
					assert_non_null(strstr(a.fault, "hosts with different numbers of ranks have no rails; direct, ring and tree go there"));
					continue;
				}
				if (!ok && a.plan.refused)
					continue;
				if (!ok)
					fail_msg("%s %u of %llu bytes: %s", call.schedule->name, call.func, (unsigned long long)sizes[b], a.fault);
				ran++;
			}
	assert_true(ran > 90);
}

/* Whoever is broken is found out wherever it is. */
static void loses(const struct mrw_team *team, const struct mrw_args *a, uint32_t channel, uint64_t t, struct sim_cursor *c);
static uint32_t at_rank, at_round;

static void broken_ones_on_uneven_hosts_are_found_out(void **state)
{
	(void)state;
	struct sim_schedule broken = sim_ring;
	struct sim_cluster c = uneven_cluster();
	struct sim_call call = {.schedule = &broken, .func = MRW_FUNC_ALL_REDUCE, .bytes = 65536, .channels = 1};
	struct sim_answer a;
	broken.round = loses;
	for (at_rank = 0; at_rank < sim_cluster_ranks(&c); at_rank++) {
		at_round = at_rank % 20;
		assert_false(sim_run(&c, &call, true, NULL, NULL, &a));
		assert_non_null(strstr(a.fault, "result"));
	}
}

/* Every rank uses as many NICs as one has where there are fewest; who shares one waits for the other. */
static void nics_are_shared_by_number(void **state)
{
	(void)state;
	struct sim_cluster c = cluster_of(3, 2, 4);
	struct sim_fabric f;
	assert_int_equal(sim_cluster_nics_of_rank(&c), 2);
	c.nothers = 2;
	c.other[0] = (struct sim_other){1, 1, 3, 8};
	c.other[1] = (struct sim_other){2, 2, 4, 2};
	assert_int_equal(sim_cluster_nics_of_rank(&c), 1);
	assert_int_equal(sim_cluster_ranks(&c), 9);
	assert_true(sim_fabric_open(&f, &c));
	/* 10 GB/s, 2 us: ranks 5 and 6 are on one port, 7 on the other; 2, 3 and 4 have two each and use one. */
	assert_true(fabs(sim_fabric_send(&f, 5, 0, 0, 10000, 1, 0) - 3000) < 1);
	assert_true(fabs(sim_fabric_send(&f, 6, 1, 0, 10000, 1, 0) - 4000) < 1);
	assert_true(fabs(sim_fabric_send(&f, 7, 2, 0, 10000, 1, 0) - 3000) < 1);
	assert_true(fabs(sim_fabric_send(&f, 2, 5, 0, 10000, 1, 0) - 3000) < 1);
	assert_true(fabs(sim_fabric_send(&f, 3, 7, 0, 10000, 1, 0) - 3000) < 1);
	assert_true(fabs(sim_fabric_send(&f, 4, 6, 0, 10000, 1, 0) - 4000) < 1); /* where 2 sent, too */
	assert_int_equal(f.port[4] - f.port[3], 2);
	sim_fabric_close(&f);
}

/* Barriers: by greetings alone, along rails, in a ring, in a tree; from two ranks on, odd numbers too. */
static void barriers_hold(void **state)
{
	(void)state;
	static const uint32_t shapes[][3] = {{1, 2, 1}, {1, 8, 1}, {2, 1, 1}, {3, 1, 2}, {2, 2, 4},
					     {3, 4, 2}, {5, 3, 3}, {7, 1, 1}, {16, 8, 8}, {33, 5, 5}};
	uint32_t ran = 0;
	for (size_t k = 0; k < COUNT(shapes); k++)
		for (uint32_t s = 0; s < sim_schedule_count; s++) {
			struct sim_cluster c = cluster_of(shapes[k][0], shapes[k][1], shapes[k][2]);
			struct sim_call call = {.schedule = sim_schedules[s], .func = MRW_FUNC_BARRIER};
			struct sim_answer a;
			bool rails = call.schedule->algo == MRW_ALGO_RAILSHOT && c.gpus == 1;
			if (!call.schedule->has(call.func) || (call.schedule->several_hosts && c.hosts == 1) || rails)
				continue;
			if (!sim_run(&c, &call, true, NULL, NULL, &a))
				fail_msg("%s on %u x %u: %s", call.schedule->name, shapes[k][0], shapes[k][1], a.fault);
			/* Nobody leaves before the last one has come. */
			c.nlates = 1;
			c.late[0] = (struct sim_late){(double)(ran % (shapes[k][0] * shapes[k][1])), 1, 5000};
			assert_true(sim_run(&c, &call, true, NULL, NULL, &a));
			assert_true(a.first_us >= 5000);
			ran++;
		}
	assert_int_equal(ran, 10 + 8 + 8 + 5);
}

/* Broken schedules: one rank does one thing wrong. */
static void loses(const struct mrw_team *team, const struct mrw_args *a, uint32_t channel, uint64_t t, struct sim_cursor *c)
{
	struct sim_cursor kept = *c;
	if (a->rank == at_rank && t == at_round)
		kept.chunks = 0;
	sim_ring.round(team, a, channel, t, &kept);
	kept.chunks = c->chunks;
	*c = kept;
}

static void repeats(const struct mrw_team *team, const struct mrw_args *a, uint32_t channel, uint64_t t, struct sim_cursor *c)
{
	if (a->rank == at_rank && t == at_round)
		c->step--;
	sim_ring.round(team, a, channel, t, c);
}

static void begins_short(const struct mrw_args *a, uint32_t channel, struct sim_cursor *c)
{
	sim_direct.begin(a, channel, c);
	c->rounds -= a->rank == at_rank;
}

static void forgets_to_note(const struct mrw_team *team, const struct mrw_args *a, uint32_t channel, uint64_t t, struct sim_cursor *c)
{
	sim_rail.round(team, a, channel, t, c);
	if (a->rank == at_rank && t == at_round)
		sim.noted -= 1;
}

static void sends_nothing(const struct mrw_team *team, const struct mrw_args *a, uint32_t channel, uint64_t t, struct sim_cursor *c)
{
	if (a->rank != at_rank || t != at_round)
		sim_railshot.round(team, a, channel, t, c);
}

static void broken_packets_are_found_out(void **state)
{
	(void)state;
	struct sim_schedule broken = sim_railshot;
	struct sim_cluster c = cluster_of(4, 2, 2);
	struct sim_call call = {.schedule = &broken, .func = MRW_FUNC_ALL_REDUCE, .bytes = 64};
	struct sim_answer a;
	static const char *const words[] = {"deadlock: 4 of 8", "rank 3 reads chunk 0 of block 0 of its output, which nobody wrote", "rank 3 ends without the result of chunk 0 of block 0"};
	broken.round = sends_nothing;
	at_rank = 3;
	for (at_round = 0; at_round < 3; at_round++) {
		assert_false(sim_run(&c, &call, true, NULL, NULL, &a));
		assert_non_null(strstr(a.fault, words[at_round]));
	}
}

static void sends_no_lines(const struct mrw_team *team, const struct mrw_args *a, uint32_t channel, uint64_t t, struct sim_cursor *c)
{
	if (a->rank != at_rank || t != at_round || sim.dry)
		sim_lines.round(team, a, channel, t, c);
}

static void sends_a_line_less(const struct mrw_team *team, const struct mrw_args *a, uint32_t channel, uint64_t t, struct sim_cursor *c)
{
	struct mrw_args fewer = *a;
	if (a->rank == at_rank && t == 0)
		fewer.units -= MRW_LINE_UNITS;
	sim_lines.round(team, &fewer, channel, t, c);
}

static void broken_lines_are_found_out(void **state)
{
	(void)state;
	struct sim_schedule broken = sim_lines;
	struct sim_cluster c = cluster_of(1, 4, 0);
	struct sim_call call = {.schedule = &broken, .func = MRW_FUNC_ALL_REDUCE, .bytes = 1000, .channels = 1};
	struct sim_answer a;
	static const char *const words[] = {"deadlock: 3 of 4", "rank 2 ends without the result of chunk 0 of block 0"};
	broken.round = sends_no_lines;
	at_rank = 2;
	for (at_round = 0; at_round < 2; at_round++) {
		assert_false(sim_run(&c, &call, true, NULL, NULL, &a));
		assert_non_null(strstr(a.fault, words[at_round]));
	}
	broken.round = sends_a_line_less;
	assert_false(sim_run(&c, &call, true, NULL, NULL, &a));
	assert_non_null(strstr(a.fault, "waits for a line of rank 2, which never comes"));
}

static void broken_schedules_are_found_out(void **state)
{
	(void)state;
	struct sim_schedule broken;
	struct sim_cluster c = cluster_of(4, 2, 2);
	struct sim_call call = {.schedule = &broken, .func = MRW_FUNC_ALL_REDUCE, .bytes = 65536};
	struct sim_answer a;
	for (at_round = 0; at_round < 12; at_round++) {
		at_rank = at_round % 8;
		broken = sim_ring;
		broken.round = loses;
		assert_false(sim_run(&c, &call, true, NULL, NULL, &a));
		assert_non_null(strstr(a.fault, "result"));
	}
	for (at_round = 1; at_round < 6; at_round++) {
		broken = sim_ring;
		broken.round = repeats;
		assert_false(sim_run(&c, &call, true, NULL, NULL, &a));
	}
	at_rank = 5;
	broken = sim_direct;
	broken.begin = begins_short;
	assert_false(sim_run(&c, &call, true, NULL, NULL, &a));
	assert_non_null(strstr(a.fault, "deadlock: "));
	assert_non_null(strstr(a.fault, "for rank 5, which has done all of its 2"));
	at_round = 1;
	broken = sim_rail;
	broken.round = forgets_to_note;
	assert_false(sim_run(&c, &call, true, NULL, NULL, &a));
	assert_non_null(strstr(a.fault, "rank 5 staged"));
}

/* In trees: what a rank does in one round changes no number; worked: it had something to do there. */
static bool worked;

static void idles(const struct mrw_team *team, const struct mrw_args *a, uint32_t channel, uint64_t t, struct sim_cursor *c)
{
	bool here = a->rank == at_rank && t == at_round && !sim.dry, kept = sim.ledger.on;
	sim.ledger.on = kept && !here;
	sim_tree.round(team, a, channel, t, c);
	sim.ledger.on = kept;
	worked = worked || (here && sim.loaded > 0);
}

/* The chunks of the round before once more, in place of its own. */
static void lags(const struct mrw_team *team, const struct mrw_args *a, uint32_t channel, uint64_t t, struct sim_cursor *c)
{
	sim_tree.round(team, a, channel, a->rank == at_rank && t == at_round ? t - 1 : t, c);
}

/* A tree with one edge less for the results. */
static void cuts(const struct mrw_args *a, uint32_t channel, struct sim_cursor *c)
{
	sim_tree.begin(a, channel, c);
	if (a->rank == at_rank && c->flow[0].to)
		c->flow[0].to &= c->flow[0].to - 1;
}

static void cuts_packets(const struct mrw_args *a, uint32_t channel, struct sim_cursor *c)
{
	sim_treeshot.begin(a, channel, c);
	if (a->rank == at_rank && c->flow[0].to)
		c->flow[0].to &= c->flow[0].to - 1;
}

static void ends_early(const struct mrw_args *a, uint32_t channel, struct sim_cursor *c)
{
	sim_tree.begin(a, channel, c);
	c->rounds -= a->rank == at_rank;
}

static void sends_no_twigs(const struct mrw_team *team, const struct mrw_args *a, uint32_t channel, uint64_t t, struct sim_cursor *c)
{
	bool here = a->rank == at_rank && t == at_round;
	if (!here || sim.dry)
		sim_treeshot.round(team, a, channel, t, c);
}

/* Every rank in every round of a call that each tree carries half of. */
static void broken_trees_are_found_out(void **state)
{
	(void)state;
	struct sim_schedule broken = sim_tree;
	struct sim_cluster c = cluster_of(5, 2, 2);
	struct sim_call call = {.schedule = &broken, .func = MRW_FUNC_ALL_REDUCE, .bytes = 400000, .channels = 1};
	struct sim_answer a;
	uint32_t failed = 0;
	assert_true(sim_run(&c, &call, true, NULL, NULL, &a));
	uint64_t rounds = a.rounds;
	assert_int_equal(rounds, 4 + 2 * mrw_tree_depth(10));
	for (at_rank = 0; at_rank < 10; at_rank++)
		for (at_round = 0; at_round < rounds; at_round++) {
			broken.round = idles;
			worked = false;
			bool ok = sim_run(&c, &call, true, NULL, NULL, &a);
			assert_int_equal(ok, !worked);
			failed += !ok;
			broken.round = lags;
			if (worked && at_round > 0)
				assert_false(sim_run(&c, &call, true, NULL, NULL, &a));
		}
	assert_true(failed >= 4 * 10); /* who rises once and passes once in each tree */
	broken = sim_tree;
	broken.begin = cuts;
	for (at_rank = failed = 0; at_rank < 10; at_rank++) {
		failed += !sim_run(&c, &call, true, NULL, NULL, &a);
		if (a.fault[0])
			assert_non_null(strstr(a.fault, "result"));
	}
	assert_int_equal(failed, 5); /* inner nodes of one tree */
	broken.begin = ends_early;
	for (at_rank = 0; at_rank < 10; at_rank++) {
		char words[40];
		snprintf(words, sizeof words, "for rank %u, which has done all of its", at_rank);
		assert_false(sim_run(&c, &call, true, NULL, NULL, &a));
		assert_non_null(strstr(a.fault, "deadlock: "));
		assert_non_null(strstr(a.fault, words));
	}
}

static void broken_twigs_are_found_out(void **state)
{
	(void)state;
	struct sim_schedule broken = sim_treeshot;
	struct sim_cluster c = cluster_of(5, 2, 2);
	struct sim_call call = {.schedule = &broken, .func = MRW_FUNC_ALL_REDUCE, .bytes = 5000};
	struct sim_answer a;
	uint32_t failed = 0;
	assert_true(sim_run(&c, &call, true, NULL, NULL, &a));
	broken.begin = cuts_packets;
	for (at_rank = 0; at_rank < 10; at_rank++) {
		failed += !sim_run(&c, &call, true, NULL, NULL, &a);
		if (a.fault[0])
			assert_non_null(strstr(a.fault, "deadlock: "));
	}
	assert_int_equal(failed, 5);
	broken = sim_treeshot;
	broken.round = sends_no_twigs;
	for (at_rank = failed = 0; at_rank < 10; at_rank++)
		for (at_round = 0; at_round < 4; at_round++)
			failed += !sim_run(&c, &call, true, NULL, NULL, &a);
	/* Leaf in one tree, inner in the other; but roots wait for no result there. */
	assert_int_equal(failed, 4 * 10 - 2);
}

/* Each tree carries half, and a leaf hears of it after 2 * depth hops. */
static void trees_have_their_bounds(void **state)
{
	(void)state;
	struct sim_cluster c = cluster_of(64, 1, 1);
	struct sim_call call = {.schedule = &sim_treeshot, .func = MRW_FUNC_ALL_REDUCE, .bytes = 8};
	struct sim_answer a;
	assert_true(sim_run(&c, &call, true, NULL, NULL, &a));
	double hops = 2 * mrw_tree_depth(64);
	assert_true(a.us > hops * 2 && a.us < hops * 2.1);
	call = (struct sim_call){.schedule = &sim_tree, .func = MRW_FUNC_ALL_REDUCE, .bytes = 64 << 20};
	c.round_us = 0;
	assert_true(sim_run(&c, &call, false, NULL, NULL, &a));
	/* An inner node sends its half up and twice down, and the other half up as a leaf. */
	double wire_us = (64 << 20) / 10. / 1000 * (.5 + 2 * .5 + .5);
	assert_true(a.us > wire_us && a.us < 1.4 * wire_us); /* 12 of 98 rounds fill and drain, and each has its latency */
}

/* From a host to 4096 of them, shapes that are not powers of two between. */
static void trees_are_complete_at_scale(void **state)
{
	(void)state;
	static const uint32_t shapes[][2] = {{8, 1}, {8, 8}, {100, 5}, {512, 8}, {4095, 1}};
	for (size_t k = 0; k < COUNT(shapes); k++)
		for (uint32_t s = 0; s < 2; s++) {
			struct sim_cluster c = cluster_of(shapes[k][0], shapes[k][1], shapes[k][1]);
			struct sim_call call = {.schedule = s ? &sim_tree : &sim_treeshot, .func = MRW_FUNC_ALL_REDUCE, .bytes = s ? 200000 : 1000};
			struct sim_answer a;
			if (!sim_run(&c, &call, true, NULL, NULL, &a))
				fail_msg("%s, %u x %u: %s", call.schedule->name, shapes[k][0], shapes[k][1], a.fault);
		}
}

static const struct sim_schedule *sound;

static void leaves_soon(const struct mrw_args *a, uint32_t channel, struct sim_cursor *c)
{
	sound->begin(a, channel, c);
	c->rounds--;
}

/* A rank that does nothing in a phase of a barrier. */
static void sleeps(const struct mrw_team *team, const struct mrw_args *a, uint32_t channel, uint64_t t, struct sim_cursor *c)
{
	if (a->rank != at_rank || t != at_round)
		sound->round(team, a, channel, t, c);
}

/* One that does not wait for what it takes. */
static void rushes(const struct mrw_team *team, const struct mrw_args *a, uint32_t channel, uint64_t t, struct sim_cursor *c)
{
	if (a->rank != at_rank || !sim.dry)
		sound->round(team, a, channel, t, c);
}

static void broken_barriers_are_found_out(void **state)
{
	(void)state;
	static const struct sim_schedule *const some[] = {&sim_railshot, &sim_treeshot};
	struct sim_schedule broken = sim_ring;
	struct sim_cluster c = cluster_of(5, 2, 2);
	struct sim_call call = {.schedule = &broken, .func = MRW_FUNC_BARRIER};
	struct sim_answer a;
	sound = &sim_ring;
	broken.begin = leaves_soon; /* all of them: nobody waits for ever, and nobody knows of the one opposite */
	assert_false(sim_run(&c, &call, true, NULL, NULL, &a));
	assert_non_null(strstr(a.fault, "rank 0 leaves the barrier without knowing that rank 5 has entered it"));
	for (size_t i = 0; i < COUNT(some); i++) {
		uint32_t failed = 0;
		sound = some[i];
		broken = *sound;
		broken.round = sleeps;
		for (at_rank = 0; at_rank < 10; at_rank++)
			for (at_round = 0; at_round < 3; at_round++)
				failed += !sim_run(&c, &call, true, NULL, NULL, &a);
		/* Along rails nobody may miss anything. Of tree 0 each of five leaves sends and takes, four inner nodes do both twice, the root once. */
		assert_int_equal(failed, i == 0 ? 3 * 10 : 2 * 5 + 2 * 4 + 1);
		broken.round = rushes;
		c.late[0] = (struct sim_late){0, 1, 5000}; /* who does not wait does not hear of it */
		c.nlates = 1;
		for (at_rank = 1; at_rank < 10; at_rank++) {
			assert_false(sim_run(&c, &call, true, NULL, NULL, &a));
			assert_non_null(strstr(a.fault, "which never comes"));
		}
		c.nlates = 0;
	}
}

/* Transfers: one step's stores are lost (not a receiver's: the next credit makes up for one), or the first of them. */
static uint32_t at_parcel, parcels;

static void loses_all(struct sim_parcel *p)
{
	if (p->puts > 0 && p->way == MRW_WAY_OUT && parcels++ == at_parcel)
		p->puts = 0;
}

static void loses_first(struct sim_parcel *p)
{
	if (p->puts > 1 && parcels++ == at_parcel)
		memmove(&p->put[0], &p->put[1], --p->puts * sizeof p->put[0]);
}

static void broken_transfers_are_found_out(void **state)
{
	(void)state;
	struct sim_schedule broken = sim_transfers;
	struct sim_cluster c = cluster_of(2, 2, 2);
	struct sim_call call = {.schedule = &broken, .func = MRW_FUNC_ALL_TO_ALL, .bytes = 16 << 20};
	struct sim_answer a;
	uint32_t stuck = 0, wrong = 0;
	broken.leaves = loses_all;
	for (at_parcel = 0; at_parcel < 200; at_parcel += 7) {
		parcels = 0;
		assert_false(sim_run(&c, &call, true, NULL, NULL, &a));
		stuck += strstr(a.fault, "deadlock: rank ") != NULL;
	}
	broken.leaves = loses_first;
	for (at_parcel = 0; at_parcel < 60; at_parcel += 7) {
		parcels = 0;
		assert_false(sim_run(&c, &call, true, NULL, NULL, &a));
		wrong += strstr(a.fault, "block what is something else") != NULL;
	}
	assert_true(stuck > 0 && wrong > 0); /* lines and last chunks are waited for; other chunks are missed when the next ones count */
	call.bytes = 400; /* packets */
	broken.leaves = loses_first;
	at_parcel = parcels = 0;
	assert_false(sim_run(&c, &call, true, NULL, NULL, &a));
	broken.leaves = NULL;
	assert_true(sim_run(&c, &call, true, NULL, NULL, &a));
	call.bytes = 1 << 20;
	c.hosts = 40;
	assert_false(sim_run(&c, &call, true, NULL, NULL, &a));
	assert_true(a.plan.refused);
}

/* Each rank's NIC carries what is not for its host; a late rank makes all late. */
static void exchanges_have_their_bounds(void **state)
{
	(void)state;
	struct sim_cluster c = cluster_of(4, 2, 2);
	struct sim_call call = {.schedule = &sim_transfers, .func = MRW_FUNC_ALL_TO_ALL, .bytes = 16 << 20};
	struct sim_answer a;
	assert_true(sim_run(&c, &call, true, NULL, NULL, &a));
	double wire_us = (16 << 20) / 10. / 1000 * 6 / 8;
	assert_true(a.us > wire_us && a.us < 1.4 * wire_us);
	call.bytes = 80;
	assert_true(sim_run(&c, &call, true, NULL, NULL, &a));
	assert_true(a.us > 2 && a.us < 10);
	c.nlates = 1;
	c.late[0] = (struct sim_late){3, 1, 500};
	assert_true(sim_run(&c, &call, true, NULL, NULL, &a));
	assert_true(a.first_us > 500 && a.us < 515);
	/* Nobody overwrites what a slow rank has not taken yet. */
	call.bytes = 4 << 20;
	c.nlates = 0;
	assert_true(sim_run(&c, &call, true, NULL, NULL, &a));
	double quick = a.us;
	c.nlates = 1;
	c.late[0] = (struct sim_late){3, 50, 0};
	assert_true(sim_run(&c, &call, true, NULL, NULL, &a));
	assert_true(a.us > 1.2 * quick);
}

static void agendas_keep_the_order_of_time(void **state)
{
	(void)state;
	struct sim_agenda agenda = {NULL, 0, 0, 0};
	struct sim_event e, last = {-1, 0, 0, 0};
	for (uint32_t i = 0; i < 5000; i++)
		assert_true(sim_agenda_put(&agenda, (double)(i * 7919 % 100), 0, i));
	for (uint32_t i = 0; i < 5000; i++) {
		assert_true(sim_agenda_take(&agenda, &e));
		assert_true(e.at > last.at || (e.at >= last.at && e.number > last.number));
		last = e;
	}
	assert_false(sim_agenda_take(&agenda, &e));
	sim_agenda_close(&agenda);
}

/* What bounds it is what the arithmetic says: a NIC's bytes on a large message, rounds on a small one. */
static void times_have_their_bounds(void **state)
{
	(void)state;
	struct sim_cluster c = cluster_of(8, 1, 1);
	struct sim_call call = {.schedule = &sim_ring, .func = MRW_FUNC_ALL_REDUCE, .bytes = 64 << 20};
	struct sim_answer a;
	c.round_us = 0;
	assert_true(sim_run(&c, &call, false, NULL, NULL, &a));
	double wire_us = 2. * 7 / 8 * (64 << 20) / 10 / 1000;
	assert_true(a.us > wire_us && a.us < 1.25 * wire_us);
	call.bytes = 8;
	assert_true(sim_run(&c, &call, false, NULL, NULL, &a));
	assert_int_equal(a.rounds, 15);
	assert_true(a.us > 15 * 2 && a.us < 15 * 2.2);
	/* A late rank makes all of them late, a slow one each of its rounds. */
	double before = a.us;
	c.nlates = 1;
	c.late[0] = (struct sim_late){3, 1, 500};
	assert_true(sim_run(&c, &call, false, NULL, NULL, &a));
	assert_true(a.us > 500 && a.us < before + 501);
}

/* Bytes between hosts in one channel, less greetings and counters, which go to every peer there. */
static uint64_t payload_of(const struct sim_answer *a)
{
	uint64_t pairs = 0;
	for (uint32_t r = 0; r < sim.reach.nranks; r++)
		for (uint32_t p = 0; p < sim.reach.nranks; p++)
			pairs += sim.reach.host[r] != sim.reach.host[p] && mrw_reach_is_peer(&sim.reach, r, p);
	return a->bytes[SIM_NIC] - pairs * (sizeof(struct mrw_greeting) + 8 * a->rounds);
}

/* What the arithmetic says of chunks on 5 hosts of 3 ranks, blocks of 70000 bytes. */
static void wires_carry_what_schedules_say(void **state)
{
	(void)state;
	enum { HOSTS = 5, GPUS = 3, N = HOSTS * GPUS, BLOCK = 70000 };
	static const struct {
		const struct sim_schedule *schedule;
		uint32_t func;
		uint64_t blocks; /* that cross to another host */
	} rows[] = {
		/* Every link of the ring carries all blocks but one; 5 links leave a host. */
		{&sim_ring, MRW_FUNC_ALL_GATHER, HOSTS * (N - 1)},
		{&sim_ring, MRW_FUNC_REDUCE_SCATTER, HOSTS * (N - 1)},
		{&sim_treering, MRW_FUNC_ALL_GATHER, HOSTS * (N - 1)},
		{&sim_treering, MRW_FUNC_REDUCE_SCATTER, HOSTS * (N - 1)},
		/* Everybody to everybody who is elsewhere; along rails to those with one's number. */
		{&sim_direct, MRW_FUNC_ALL_GATHER, N * (N - GPUS)},
		{&sim_direct, MRW_FUNC_REDUCE_SCATTER, N * (N - GPUS)},
		{&sim_rail, MRW_FUNC_ALL_GATHER, N * (HOSTS - 1)},
		{&sim_rail, MRW_FUNC_REDUCE_SCATTER, N * (HOSTS - 1)},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct sim_cluster c = cluster_of(HOSTS, GPUS, GPUS);
		struct sim_call call = {.schedule = rows[i].schedule, .func = rows[i].func, .bytes = N * BLOCK, .channels = 1};
		struct sim_answer a;
		assert_true(sim_run(&c, &call, true, NULL, NULL, &a));
		assert_int_equal(payload_of(&a), rows[i].blocks * BLOCK);
	}
}

/* The same of blocks of any size: of each what it is in the sum that goes to its owner. */
static void uneven_blocks_are_what_wires_carry(void **state)
{
	(void)state;
	enum { HOSTS = 5, GPUS = 3, N = HOSTS * GPUS, ALL = 900007 };
	static const struct sim_schedule *const some[] = {&sim_direct, &sim_rail, &sim_ring, &sim_treering};
	for (size_t i = 0; i < COUNT(some); i++) {
		struct sim_cluster c = cluster_of(HOSTS, GPUS, GPUS);
		struct sim_call call = {.schedule = some[i], .func = MRW_FUNC_REDUCE_SCATTER_V, .bytes = ALL, .channels = 1, .weight = differ,
					.weights = COUNT(differ)};
		struct sim_answer a;
		uint64_t bytes = 0, even = ALL / N;
		if (!sim_run(&c, &call, true, NULL, NULL, &a))
			fail_msg("%s: %s", some[i]->name, a.fault);
		for (uint32_t r = 0; r < N; r++) {
			uint64_t block = mrw_block_at(&sim.args, r).bytes;
			assert_true(r % 5 == 1 ? block == 0 : block > 0);
			assert_true(r % 5 != 3 || block > 2 * even);
			if (i < 2)
				bytes += block * (i == 0 ? N - GPUS : HOSTS - 1);
			else if (r % GPUS == GPUS - 1)
				bytes += ALL - block; /* the ring's link to the next host carries all but its left end's own */
		}
		assert_int_equal(payload_of(&a), bytes);
	}
}

/* Any rank sends nothing in any round of the sums' way. */
static void broken_uneven_sums_are_found_out(void **state)
{
	(void)state;
	struct sim_schedule broken = sim_ring;
	struct sim_cluster c = cluster_of(4, 2, 2);
	struct sim_call call = {.schedule = &broken, .func = MRW_FUNC_REDUCE_SCATTER_V, .bytes = 65536, .channels = 1, .weight = differ,
				.weights = COUNT(differ)};
	struct sim_answer a;
	uint32_t failed = 0;
	broken.round = loses;
	for (at_rank = 0; at_rank < 8; at_rank++)
		for (at_round = 0; at_round < 7; at_round++) {
			failed += !sim_run(&c, &call, true, NULL, NULL, &a);
			/* The block that the rank adds to then: of ranks 1 and 6 there is none. */
			uint32_t owner = (at_rank + 2 * 8 - 1 - at_round) % 8;
			assert_int_equal(a.fault[0] == '\0', owner == 1 || owner == 6);
		}
	assert_int_equal(failed, 6 * 7);
}

/* On hosts of different sizes: all of a ring's links but those within hosts; everybody's to all who are elsewhere. */
static void wires_between_uneven_hosts(void **state)
{
	(void)state;
	enum { BLOCK = 30000 };
	static const struct sim_schedule *const some[] = {&sim_direct, &sim_ring, &sim_treering};
	struct sim_cluster c = uneven_cluster();
	uint32_t n = sim_cluster_ranks(&c);
	assert_int_equal(n, 3 + 1 + 3 + 5 + 5 + 6);
	for (size_t i = 0; i < COUNT(some); i++) {
		struct sim_call call = {.schedule = some[i], .func = MRW_FUNC_ALL_GATHER, .bytes = (uint64_t)n * BLOCK, .channels = 1};
		struct sim_answer a;
		uint64_t blocks = i == 0 ? n * n - (9 + 1 + 9 + 25 + 25 + 36) : 6 * (n - 1);
		assert_true(sim_run(&c, &call, true, NULL, NULL, &a));
		assert_int_equal(payload_of(&a), blocks * BLOCK);
		uint32_t most = 0;
		for (uint32_t r = 0; r < n; r++) {
			uint32_t far = 0;
			for (uint32_t p = 0; p < n; p++)
				far += sim.reach.host[r] != sim.reach.host[p] && mrw_reach_is_peer(&sim.reach, r, p);
			most = far > most ? far : most;
		}
		assert_int_equal(a.plan.far_peers, most);
	}
}

static void the_same_again(void **state)
{
	(void)state;
	struct sim_cluster c = cluster_of(4, 4, 4);
	struct sim_call call = {.schedule = &sim_rail, .func = MRW_FUNC_ALL_REDUCE, .bytes = 1 << 20};
	struct sim_answer a, b;
	assert_true(sim_run(&c, &call, true, NULL, NULL, &a));
	assert_true(sim_run(&c, &call, false, NULL, NULL, &b));
	assert_memory_equal(&a, &b, sizeof a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_leave_in_the_order_of_time), cmocka_unit_test(links_serve_one_after_the_other),
		cmocka_unit_test(rails_meet_above_the_leaves), cmocka_unit_test(slots_are_inverted),
		cmocka_unit_test(schedules_are_complete), cmocka_unit_test(broken_schedules_are_found_out), cmocka_unit_test(broken_packets_are_found_out),
		cmocka_unit_test(broken_lines_are_found_out),
		cmocka_unit_test(agendas_keep_the_order_of_time), cmocka_unit_test(broken_transfers_are_found_out),
		cmocka_unit_test(exchanges_have_their_bounds),
		cmocka_unit_test(barriers_hold), cmocka_unit_test(broken_barriers_are_found_out),
		cmocka_unit_test(broken_trees_are_found_out), cmocka_unit_test(broken_twigs_are_found_out),
		cmocka_unit_test(trees_have_their_bounds), cmocka_unit_test(trees_are_complete_at_scale),
		cmocka_unit_test(times_have_their_bounds), cmocka_unit_test(wires_carry_what_schedules_say),
		cmocka_unit_test(uneven_blocks_are_what_wires_carry), cmocka_unit_test(wires_between_uneven_hosts),
		cmocka_unit_test(hosts_may_differ), cmocka_unit_test(broken_ones_on_uneven_hosts_are_found_out),
		cmocka_unit_test(nics_are_shared_by_number), cmocka_unit_test(broken_uneven_sums_are_found_out),
		cmocka_unit_test(the_same_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
