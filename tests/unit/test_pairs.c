/* test_pairs.c - the simulator's calls that are made of transfers: what pairs move fits together, every call is complete, its bytes are those that
 * the protocol takes, and broken ones are found out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine.h"
#include "pairs.h"
#include "parcel.h"
#include "step.h"
#include "collectives/schedule.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const uint32_t funcs[] = {MRW_FUNC_ALL_TO_ALL, MRW_FUNC_ALL_TO_ALL_V, MRW_FUNC_ALL_GATHER_V, MRW_FUNC_GATHER, MRW_FUNC_SCATTER,
				 MRW_FUNC_TRANSFERS};
static const uint32_t differ[] = {3, 0, 1, 8, 1}; /* blocks of the calls whose blocks may differ */

static struct sim_cluster cluster_of(uint32_t hosts, uint32_t gpus, uint32_t nics)
{
	struct sim_cluster c = {.cuda = true, .hosts = hosts, .gpus = gpus, .nics = nics, .nvlink_gb_s = 100, .nvlink_us = 1, .nic_gb_s = 10, .nic_us = 2,
				.memory_gb_s = 1000, .round_us = 1, .channels = 64};
	return c;
}

static struct sim_call call_of(uint32_t func, uint64_t bytes)
{
	struct sim_call call = {.schedule = &sim_transfers, .func = func, .root = 1, .bytes = bytes, .weight = differ, .weights = COUNT(differ)};
	return call;
}

/* What comes to a rank lies in its output side by side, and comes out of inputs that have as much. */
static void outputs_have_no_gaps(void **state)
{
	(void)state;
	enum { N = 7 };
	for (size_t f = 0; f < COUNT(funcs); f++) {
		struct sim_cluster c = cluster_of(1, N, 0);
		struct sim_call call = call_of(funcs[f], 100003);
		struct sim_plan plan;
		call.shift = 3;
		assert_true(sim_plan_make(&c, &call, &plan));
		uint64_t sent = 0, came = 0;
		for (uint32_t d = 0; d < N; d++) {
			uint64_t end = 0;
			for (uint32_t s = 0; s < N; s++) {
				struct sim_move m = sim_move_of(&sim.args, s, d);
				if (!m.is)
					continue;
				assert_true(m.to == end && m.from + m.bytes <= 100003 + N);
				end += m.bytes;
				sent += m.bytes;
			}
			assert_int_equal(end, sim_move_comes(&sim.args, d));
			came += end;
		}
		assert_int_equal(sent, came);
		assert_true(sent > 0);
		if (funcs[f] == MRW_FUNC_ALL_TO_ALL_V)
			assert_int_equal(sent, N * 100003); /* every rank's whole input, to the byte */
		if (funcs[f] == MRW_FUNC_ALL_GATHER_V)
			assert_int_equal(sim_move_comes(&sim.args, 5), 100003);
		if (funcs[f] == MRW_FUNC_TRANSFERS)
			assert_true(sim_move_of(&sim.args, 5, 1).is && !sim_move_of(&sim.args, 5, 2).is);
	}
}

/* Bytes that the lanes of a pair put on the wire for a transfer, lines of both ends, counts and credits among them. */
static uint64_t wire_bytes(uint64_t bytes, bool cuda)
{
	const struct mrw_layout *l = &sim.args.layout;
	uint64_t lines = 2 * sizeof(struct mrw_line), chunk = mrw_transfer_chunk_bytes(l, bytes);
	if (bytes <= mrw_transfer_small(l, cuda))
		return lines + (bytes + MRW_UNIT_BYTES - 1) / MRW_UNIT_BYTES * sizeof(struct mrw_packet);
	return lines + bytes + (bytes + chunk - 1) / chunk * 16;
}

static uint64_t all_wire_bytes(const struct sim_cluster *c)
{
	uint64_t all = 0;
	for (uint32_t s = 0; s < sim.args.nranks; s++)
		for (uint32_t d = 0; d < sim.args.nranks; d++) {
			struct sim_move m = sim_move_of(&sim.args, s, d);
			if (sim.reach.host[s] == sim.reach.host[d])
				continue;
			all += m.is ? wire_bytes(m.bytes, c->cuda) : 0;
			if (sim.args.call.func != MRW_FUNC_TRANSFERS && mrw_reach_is_peer(&sim.reach, s, d))
				all += sizeof(struct mrw_greeting);
		}
	return all;
}

static void exchanges_are_complete(void **state)
{
	(void)state;
	static const uint32_t shapes[][3] = {{1, 2, 1}, {1, 5, 1}, {2, 1, 1}, {3, 2, 2}, {5, 3, 1}, {4, 5, 5}};
	static const uint64_t sizes[] = {1, 1000, 400009, 3000001};
	for (size_t k = 0; k < COUNT(shapes); k++)
		for (size_t f = 0; f < COUNT(funcs); f++)
			for (size_t b = 0; b < COUNT(sizes); b++) {
				struct sim_cluster c = cluster_of(shapes[k][0], shapes[k][1], shapes[k][2]);
				struct sim_call call = call_of(funcs[f], sizes[b]);
				struct sim_answer a;
				c.cuda = b % 2 == 0 || k % 2 == 0;
				call.shift = b == 3 && k > 0 ? 2 % (shapes[k][0] * shapes[k][1]) : 0;
				if (!sim_run(&c, &call, true, NULL, NULL, &a))
					fail_msg("call %u of %llu bytes on %u x %u: %s", funcs[f], (unsigned long long)sizes[b], shapes[k][0], shapes[k][1],
						 a.fault);
				assert_true(a.us >= a.first_us && a.first_us > 0);
				assert_int_equal(a.bytes[SIM_NIC], all_wire_bytes(&c));
			}
}

/* One step's stores are lost, or the first of them. Not credits: for the last ones of a host nobody waits in this call. */
static uint32_t at_parcel, parcels;

static void loses_all(struct sim_parcel *p)
{
	bool credit = p->way == MRW_WAY_IN && p->puts > 0 && p->put[0].bytes == 8;
	if (p->puts > 0 && !credit && parcels++ == at_parcel)
		p->puts = 0;
}

static void loses_first(struct sim_parcel *p)
{
	if (p->puts > 1 && parcels++ == at_parcel)
		memmove(&p->put[0], &p->put[1], --p->puts * sizeof p->put[0]);
}

static void broken_exchanges_are_found_out(void **state)
{
	(void)state;
	struct sim_schedule broken = sim_transfers;
	struct sim_cluster c = cluster_of(3, 2, 2);
	for (size_t f = 1; f < COUNT(funcs); f++) {
		struct sim_call call = call_of(funcs[f], 2 << 20);
		struct sim_answer a;
		uint32_t stuck = 0, wrong = 0;
		call.schedule = &broken;
		broken.leaves = loses_all;
		for (at_parcel = 0; at_parcel < 60; at_parcel += 7) {
			parcels = 0;
			bool ok = sim_run(&c, &call, true, NULL, NULL, &a);
			assert_int_equal(ok, parcels <= at_parcel);
			stuck += strstr(a.fault, "deadlock: rank ") != NULL;
		}
		broken.leaves = loses_first;
		for (at_parcel = 0; at_parcel < 20; at_parcel += 3) {
			parcels = 0;
			assert_false(sim_run(&c, &call, true, NULL, NULL, &a));
			wrong += strstr(a.fault, "block what is something else") != NULL;
		}
		assert_true(stuck > 0 && wrong > 0);
		broken.leaves = NULL;
		assert_true(sim_run(&c, &call, true, NULL, NULL, &a));
	}
}

static double us_of(const struct sim_cluster *c, const struct sim_call *call)
{
	struct sim_answer a;
	if (!sim_run(c, call, true, NULL, NULL, &a))
		fail_msg("call %u: %s", call->func, a.fault);
	return a.us;
}

/* One NIC takes in what a gather's root is sent, or what a rank is to which others send most; neighbours of one host need none. */
static void the_busiest_end_bounds_it(void **state)
{
	(void)state;
	static const uint32_t even[] = {1}, hot[] = {5, 1, 1, 1, 1, 1, 1, 1};
	struct sim_cluster c = cluster_of(4, 2, 2);
	struct sim_call call = {.schedule = &sim_transfers, .func = MRW_FUNC_GATHER, .bytes = 8 << 20, .weight = even, .weights = 1};
	double wire_us = (8 << 20) / 10. / 1000; /* of all blocks */
	double us = us_of(&c, &call);
	assert_true(us > wire_us * 6 / 8 && us < 1.3 * wire_us * 6 / 8);
	call.func = MRW_FUNC_ALL_TO_ALL_V;
	us = us_of(&c, &call);
	assert_true(us > wire_us * 6 / 8 && us < 1.4 * wire_us * 6 / 8);
	call.weight = hot;
	call.weights = COUNT(hot);
	us = us_of(&c, &call);
	assert_true(us > wire_us * 6 * 5 / 12 && us < 1.3 * wire_us * 6 * 5 / 12);
	call.func = MRW_FUNC_TRANSFERS;
	call.shift = 2;
	double far = us_of(&c, &call);
	c.hosts = 1;
	c.gpus = 8;
	c.nics = 8;
	double near = us_of(&c, &call);
	assert_true(far > wire_us && near < far);
}

static void impossible_ones_are_refused(void **state)
{
	(void)state;
	static const uint32_t none[] = {0, 0, 0, 0, 9};
	struct sim_cluster c = cluster_of(2, 2, 2);
	struct sim_call call = call_of(MRW_FUNC_TRANSFERS, 100);
	struct sim_answer a;
	call.shift = 4;
	assert_false(sim_run(&c, &call, true, NULL, NULL, &a));
	assert_string_equal(a.fault, "a shift of 4 among 4 ranks: from 1 to 3");
	call = call_of(MRW_FUNC_ALL_GATHER_V, 100);
	call.weight = none;
	assert_false(sim_run(&c, &call, true, NULL, NULL, &a));
	assert_string_equal(a.fault, "the counts of all 4 ranks are 0");
	call = call_of(MRW_FUNC_GATHER, 100);
	call.root = 4;
	assert_false(sim_run(&c, &call, true, NULL, NULL, &a));
	assert_string_equal(a.fault, "root 4 of 4 ranks");
	call.root = 0;
	c.hosts = 33;
	assert_false(sim_run(&c, &call, true, NULL, NULL, &a));
	assert_true(a.plan.refused);
	c.hosts = 17;
	assert_true(sim_run(&c, &call, true, NULL, NULL, &a));
	assert_true(a.plan.paper && strstr(a.plan.why, "33 ranks"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(outputs_have_no_gaps), cmocka_unit_test(exchanges_are_complete), cmocka_unit_test(broken_exchanges_are_found_out),
		cmocka_unit_test(the_busiest_end_bounds_it), cmocka_unit_test(impossible_ones_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
