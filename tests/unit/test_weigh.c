/* test_weigh.c - whose peers ranks are follows the figures: with those at hand it is what the rule says, with others rings and trees win. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collectives/weigh.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct mrw_weigh_machine processes = {.figures = &mrw_cost_host, .target = MARROW_TARGET_HOST, .channels = 4, .cores = 8};

/* A slow NIC, 20 Gbit/s, of eight ranks; what is within a host as in tools/clusters/cloud8.cluster. */
static const struct mrw_cost_figures slow_nic = {.name = "slow nic", .call_ns = 2200, .packet_ns = 1100, .packet_near_ns = 9e-3, .packet_far_ns = 9e-3,
						 .chunk_ns = 7000,
					      .chunk_byte_ns = 3.7e-3, .net_ns = 5200, .net_post_ns = 300, .net_byte_ns = 0.43};

/* Ranks on hosts in blocks of per_host, the last one as many as are left. */
static struct mrw_reach weigh(uint32_t nranks, uint32_t per_host, int32_t asked, const struct mrw_weigh_machine *m, struct mrw_weights *w)
{
	uint32_t host[MRW_MAX_RANKS];
	for (uint32_t r = 0; r < nranks; r++)
		host[r] = r / per_host;
	return mrw_weigh(nranks, host, asked, m, w);
}

/* What is remembered is what is so. */
static void check(const struct mrw_reach *reach, const struct mrw_weights *w)
{
	bool good = false;
	assert_int_equal(mrw_peers_of(reach), w->taken);
	assert_true(w->has[w->taken] && w->has[w->best] && w->has[w->rule] && w->has[MRW_PEERS_ALL]);
	assert_non_null(reach->reason);
	for (uint32_t i = 0; i < MRW_WEIGH_SIZES; i++)
		good = good || w->ns[w->best][i] > 0;
	assert_true(good);
	for (uint32_t k = 0; k < MRW_PEERS_COUNT; k++)
		for (uint32_t i = 0; w->has[k] && i < MRW_WEIGH_SIZES; i++) {
			assert_true(w->ns[k][i] > 0 && w->ns[k][i] < 1e15);
			assert_true(i == 0 || w->ns[k][i] >= w->ns[k][i - 1]);
			assert_true(w->worst[k] >= 1 && w->worst[k] >= w->worst[w->best]);
		}
	if (w->taken != w->rule)
		assert_true(w->worst[w->rule] > MRW_WEIGH_CLEAR * w->worst[w->taken]);
}

/* With the figures that the library has rings and trees never win clearly: types.h and comm.h tell users so. Hosts that differ in the last one
 * at most. */
static void figures_at_hand_say_what_the_rule_says(void **state)
{
	(void)state;
	static const uint32_t cores[] = {1, 2, 8, 64};
	struct mrw_weights w;
	uint32_t ran = 0;
	for (uint32_t n = 2; n <= MRW_MAX_RANKS; n++)
		for (uint32_t per_host = 1; per_host < n && per_host <= MRW_MAX_NEAR; per_host++)
			for (size_t c = 0; c < COUNT(cores); c++)
				for (uint32_t cuda = 0; cuda < (c == 0 ? 2 : 1); cuda++) {
					struct mrw_weigh_machine m = processes;
					m.cores = cuda ? 0 : cores[c];
					m.target = cuda ? MARROW_TARGET_CUDA : MARROW_TARGET_HOST;
					m.figures = mrw_cost_figures_of(m.target);
					m.channels = cuda ? 64 : 4;
					struct mrw_reach reach = weigh(n, per_host, -1, &m, &w);
					check(&reach, &w);
					if (w.taken != w.rule)
						fail_msg("%u ranks, %u a host, %u cores: %s", n, per_host, m.cores, mrw_peers_name(w.taken));
					assert_int_equal(reach.rails, n > MRW_MAX_WHOLE && per_host > 1 && n % per_host == 0);
					ran++;
				}
	assert_true(ran > 3000);
}

/* Hosts of any sizes, their ranks in any order. */
static void nor_do_they_on_hosts_of_any_sizes(void **state)
{
	(void)state;
	struct mrw_weights w;
	uint32_t host[MRW_MAX_RANKS], seed = 1;
	for (uint32_t run = 0; run < 1500; run++) {
		uint32_t count[MRW_MAX_RANKS] = {0}, n = 17 + run % 48;
		struct mrw_weigh_machine m = processes;
		m.cores = 1u << run % 6;
		for (uint32_t r = 0, hosts = 2 + run % 11; r < n; r++) {
			do {
				seed = seed * 1664525 + 1013904223;
				host[r] = (seed >> 16) % hosts * ((seed >> 24) % hosts) / (hosts - 1 + run % 2); /* small ones are likelier */
			} while (count[host[r]] == MRW_MAX_NEAR && hosts++);
			count[host[r]]++;
		}
		struct mrw_reach reach = mrw_weigh(n, host, -1, &m, &w);
		if (reach.hosts == 1)
			continue;
		check(&reach, &w);
		if (w.taken != w.rule)
			fail_msg("run %u, %u ranks on %u hosts, %u cores: %s", run, n, reach.hosts, m.cores, mrw_peers_name(w.taken));
	}
}

static void other_figures_are_followed(void **state)
{
	(void)state;
	struct mrw_weights w;
	struct mrw_weigh_machine m = processes;
	struct mrw_cost_figures slow = mrw_cost_host;
	/* Each further message is dear: to 63 hosts by 63 of them, or to five neighbours. */
	slow.net_post_ns = 20e3;
	slow.net_byte_ns = 1;
	m.figures = &slow;
	struct mrw_reach reach = weigh(64, 1, -1, &m, &w);
	check(&reach, &w);
	assert_true(reach.tree);
	assert_non_null(strstr(reach.reason, "cost model"));
	/* As few ranks as are promised sums in rank order, GPUs, and who asks for something else, are left alone. */
	reach = weigh(16, 1, -1, &m, &w);
	assert_true(w.weighed && w.taken == MRW_PEERS_ALL);
	m.target = MARROW_TARGET_CUDA;
	reach = weigh(64, 1, -1, &m, &w);
	assert_int_equal(w.best, MRW_PEERS_TREE);
	assert_int_equal(mrw_peers_of(&reach), MRW_PEERS_ALL);
	m.target = MARROW_TARGET_HOST;
	reach = weigh(64, 1, MRW_ALGO_BULK, &m, &w);
	assert_false(w.weighed);
	assert_int_equal(mrw_peers_of(&reach), MRW_PEERS_ALL);
	assert_int_equal(w.taken, MRW_PEERS_ALL);
}

/* A GPU less on one of eight hosts takes the rails away; what goes from all to all then waits at the NIC that eight ranks share, but what goes in trees
 * mostly does not. With a NIC for each rank it is not so. */
static void shared_nics_on_unequal_hosts_want_trees(void **state)
{
	(void)state;
	struct mrw_weights w;
	struct mrw_weigh_machine m = {.figures = &slow_nic, .target = MARROW_TARGET_HOST, .channels = 4, .cores = 0, .sharers = 8};
	struct mrw_reach reach = weigh(63, 8, -1, &m, &w);
	check(&reach, &w);
	assert_false(w.has[MRW_PEERS_RAILS]);
	assert_true(reach.tree);
	m.sharers = 1;
	reach = weigh(63, 8, -1, &m, &w);
	check(&reach, &w);
	assert_int_equal(w.taken, MRW_PEERS_ALL);
	m.sharers = 8; /* and where there are rails they win */
	reach = weigh(64, 8, -1, &m, &w);
	check(&reach, &w);
	assert_true(reach.rails);
}

static void one_host_is_not_weighed(void **state)
{
	(void)state;
	struct mrw_weights w;
	struct mrw_reach reach = weigh(8, 8, -1, &processes, &w);
	assert_false(w.weighed);
	assert_int_equal(mrw_peers_of(&reach), MRW_PEERS_ALL);
}

static void times_are_told(void **state)
{
	(void)state;
	struct mrw_weights w;
	char text[256], little[24];
	(void)weigh(32, 8, -1, &processes, &w);
	mrw_weigh_text(&w, text, sizeof text);
	assert_ptr_equal(strstr(text, "all "), text);
	assert_non_null(strstr(text, " us; rails "));
	assert_non_null(strstr(text, " us; ring "));
	assert_non_null(strstr(text, " us; trees "));
	assert_string_equal(text + strlen(text) - 3, " us");
	mrw_weigh_text(&w, little, sizeof little);
	assert_true(strncmp(little, text, sizeof little - 1) == 0);
	(void)weigh(20, 1, -1, &processes, &w);
	mrw_weigh_text(&w, text, sizeof text);
	assert_null(strstr(text, "rails"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(figures_at_hand_say_what_the_rule_says),
		cmocka_unit_test(nor_do_they_on_hosts_of_any_sizes),
		cmocka_unit_test(other_figures_are_followed),
		cmocka_unit_test(shared_nics_on_unequal_hosts_want_trees),
		cmocka_unit_test(one_host_is_not_weighed),
		cmocka_unit_test(times_are_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
