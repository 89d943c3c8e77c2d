/* test_model.c - the cost model's rows of trees and rings beside the simulator, which runs the bodies themselves, with the same figures of links:
 * one says what the other says, or nearly. Argument: the directory of descriptions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine.h"
#include "step.h"
#include "collectives/select.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *directory;

static struct sim_cluster cluster_named(const char *name, uint32_t hosts)
{
	struct sim_cluster c;
	struct sim_error error;
	char path[512];
	snprintf(path, sizeof path, "%s/%s.cluster", directory, name);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	assert_true(sim_cluster_read(&c, f, &error));
	fclose(f);
	c.hosts = hosts;
	assert_true(sim_cluster_check(&c, &error));
	return c;
}

/* A rank a host. */
static struct sim_cluster alone(uint32_t hosts)
{
	struct sim_cluster c = {.cuda = true, .hosts = hosts, .gpus = 1, .nics = 1, .nvlink_gb_s = 270, .nvlink_us = 0.9, .memory_gb_s = 1700,
				.nic_gb_s = 10, .nic_us = 5, .post_us = 0.05, .round_us = 2.6, .packet_us = 0.2, .call_us = 2.2, .channels = 64};
	return c;
}

/* What the description says, in the model's words. Edges of trees and rings go from a NIC to one of another number: up to a level that they
 * have in common. */
static struct mrw_cost_figures figures_of(const struct sim_cluster *c)
{
	double way = c->rails > 0 && c->nlevels > 0 ? 2 * c->level[0].us : 0;
	double packet_byte_ns = 2 / c->nvlink_gb_s + 3 / c->memory_gb_s;
	struct mrw_cost_figures f = {.name = "cluster", .call_ns = c->call_us * 1e3, .packet_ns = (c->nvlink_us + c->packet_us) * 1e3,
				     .packet_near_ns = packet_byte_ns, .packet_far_ns = packet_byte_ns,
				     .chunk_ns = 2 * (c->nvlink_us + c->round_us) * 1e3, .chunk_byte_ns = 1 / c->nvlink_gb_s,
				     .net_ns = (c->nic_us + c->packet_us + way) * 1e3, .net_post_ns = c->post_us * 1e3,
				     .net_byte_ns = 1 / c->nic_gb_s};
	return f;
}

struct shape {
	const char *cluster; /* NULL: alone() */
	uint32_t hosts;
};

static double predict(const struct sim_cluster *c, const struct sim_call *call)
{
	struct mrw_cost_figures f = figures_of(c);
	uint32_t n = sim_cluster_ranks(c);
	struct mrw_cost_shape s = {.target = MARROW_TARGET_CUDA, .nranks = n, .hosts = (uint32_t)c->hosts, .per_host = (uint32_t)c->gpus, .nics = 1,
				   .channels = sim.args.layout.channels, .sharers = (uint32_t)(c->gpus / c->nics), .ring = call->schedule == &sim_ring,
				   .chunk_bytes = mrw_chunk_room(&sim.args.layout, MARROW_TARGET_CUDA)};
	if (call->schedule != &sim_ring)
		mrw_cost_plant(&s);
	return mrw_cost_ns(&f, &s, (enum mrw_func)call->func, sim.args.bytes, call->schedule->algo) / 1e3;
}

/* Within a quarter; of broadcasts, whose rounds depend on who is the root and on how chunks are rounded, within 45 %. */
static void compare(const struct sim_schedule *schedule, uint32_t func, uint64_t bytes)
{
	double off = func == MRW_FUNC_BROADCAST ? 0.45 : 0.25;
	static const struct shape shapes[] = {{NULL, 4}, {NULL, 8}, {NULL, 16}, {NULL, 64}, {"h200x8", 2}, {"h200x8", 4}, {"h200x8", 8},
					      {"cloud8", 2}, {"cloud8", 4}, {"cloud8", 8}};
	for (size_t i = 0; i < COUNT(shapes); i++) {
		struct sim_cluster c = shapes[i].cluster ? cluster_named(shapes[i].cluster, shapes[i].hosts) : alone(shapes[i].hosts);
		struct sim_call call = {.schedule = schedule, .func = func, .bytes = bytes};
		struct sim_answer a;
		bool ok = sim_run(&c, &call, false, NULL, NULL, &a);
		if (!ok && a.plan.refused) /* too large for the arena */
			continue;
		assert_true(ok);
		double us = predict(&c, &call);
		printf("%s, %s of %llu bytes, %u hosts of %s: model %.1f us, simulator %.1f, ratio %.2f\n", schedule->name, sim_func_name(func),
		       (unsigned long long)bytes, shapes[i].hosts, shapes[i].cluster ? shapes[i].cluster : "one rank", us, a.us, us / a.us);
		if (us > a.us * (1 + off) || us < a.us * (1 - off))
			fail_msg("more than %.0f %% off", off * 100);
	}
}

static const uint32_t funcs[] = {MRW_FUNC_ALL_REDUCE, MRW_FUNC_BROADCAST, MRW_FUNC_REDUCE};

static void packets_in_trees(void **state)
{
	(void)state;
	static const uint64_t sizes[] = {8, 512, 4096, 32768};
	for (size_t f = 0; f < COUNT(funcs); f++)
		for (size_t b = 0; b < COUNT(sizes); b++)
			compare(&sim_treeshot, funcs[f], sizes[b]);
	compare(&sim_treeshot, MRW_FUNC_BARRIER, 0);
}

static void chunks_in_trees(void **state)
{
	(void)state;
	static const uint64_t sizes[] = {8, 32768, 2 << 20, 128 << 20};
	for (size_t f = 0; f < COUNT(funcs); f++)
		for (size_t b = 0; b < COUNT(sizes); b++)
			compare(&sim_tree, funcs[f], sizes[b]);
}

static void chunks_in_rings(void **state)
{
	(void)state;
	static const uint32_t all[] = {MRW_FUNC_ALL_REDUCE, MRW_FUNC_BROADCAST, MRW_FUNC_ALL_GATHER, MRW_FUNC_REDUCE_SCATTER};
	static const uint64_t sizes[] = {32768, 2 << 20, 128 << 20};
	for (size_t f = 0; f < COUNT(all); f++)
		for (size_t b = 0; b < COUNT(sizes); b++)
			compare(&sim_ring, all[f], sizes[b]);
	compare(&sim_ring, MRW_FUNC_BARRIER, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_in_trees),
		cmocka_unit_test(chunks_in_trees),
		cmocka_unit_test(chunks_in_rings),
	};
	directory = argc > 1 ? argv[1] : "tools/clusters";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
