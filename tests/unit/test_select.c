/* test_select.c - whatever is asked, the plan can be carried by the arena, and a forced algorithm is taken where it can be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collectives/tree.h"
#include "collectives/select.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const uint32_t caps[] = {1, 2, 4, 7, 32, 64};
static const uint32_t forced_channels[] = {0, 1, 3, 64, 1000};

static bool reduces(enum mrw_func func)
{
	return func == MRW_FUNC_ALL_REDUCE || func == MRW_FUNC_REDUCE_SCATTER || func == MRW_FUNC_REDUCE || func == MRW_FUNC_REDUCE_SCATTER_V;
}

static bool packets(enum mrw_algo algo)
{
	return algo != MRW_ALGO_BULK && algo != MRW_ALGO_RAIL && algo != MRW_ALGO_RING && algo != MRW_ALGO_TREE;
}

static bool on_rails(enum mrw_algo algo)
{
	return algo == MRW_ALGO_RAILSHOT || algo == MRW_ALGO_RAIL;
}

static void check_packets(const struct mrw_select_input *in, const struct mrw_plan *p)
{
	uint64_t block = p->algo == MRW_ALGO_TWOSHOT    ? mrw_block(in->func, in->bytes, in->nranks, 0).bytes
			 : p->algo == MRW_ALGO_TREESHOT ? mrw_tree_part(in->bytes, 0).bytes
							: in->bytes;
	bool differ = in->func == MRW_FUNC_ALL_GATHER || in->func == MRW_FUNC_REDUCE_SCATTER;
	uint64_t blocks = on_rails(p->algo) && differ ? in->layout.cells : 1; /* that one slot holds */
	if (mrw_units_per_channel(block, p->channels) * blocks > in->layout.units)
		fail_msg("func %u, %llu bytes, %u ranks, cap %u, target %u, forced %d %u: %s over %u channels, but a channel holds %u units",
			 in->func, (unsigned long long)in->bytes, in->nranks, in->channel_cap, in->target, in->forced_algo,
			 in->forced_channels, mrw_algo_name(p->algo), p->channels, in->layout.units);
	if (p->algo == MRW_ALGO_TREESHOT)
		assert_int_equal(p->kernel, reduces(in->func) ? MRW_KERNEL_REDUCE_TREESHOT : MRW_KERNEL_MOVE_TREESHOT);
	else if (on_rails(p->algo))
		assert_int_equal(p->kernel, reduces(in->func) ? MRW_KERNEL_REDUCE_RAILSHOT : MRW_KERNEL_MOVE_RAILSHOT);
	else
		assert_int_equal(p->kernel, reduces(in->func) ? MRW_KERNEL_REDUCE_PACKETS : MRW_KERNEL_MOVE_PACKETS);
	if (p->algo == MRW_ALGO_TWOSHOT) {
		assert_int_equal(in->func, MRW_FUNC_ALL_REDUCE);
		assert_true(in->nranks > 2); /* two ranks have no second exchange of packets */
	}
}

static void check_bulk(const struct mrw_select_input *in, const struct mrw_plan *p)
{
	assert_in_range(p->chunk_bytes, MRW_QUANTUM_BYTES, in->layout.chunk_bytes);
	assert_int_equal(p->chunk_bytes % MRW_QUANTUM_BYTES, 0);
	assert_in_range(p->lag, 1, MRW_MAX_LAG);
	if (p->algo == MRW_ALGO_RING) {
		assert_int_equal(p->kernel, reduces(in->func) ? MRW_KERNEL_REDUCE_RING : MRW_KERNEL_MOVE_RING);
		return; /* barriers and empty calls too */
	}
	if (p->algo == MRW_ALGO_TREE)
		assert_int_equal(p->kernel, reduces(in->func) ? MRW_KERNEL_REDUCE_TREE : MRW_KERNEL_MOVE_TREE);
	else if (on_rails(p->algo))
		assert_int_equal(p->kernel, reduces(in->func) ? MRW_KERNEL_REDUCE_RAIL : MRW_KERNEL_MOVE_RAIL);
	else
		assert_int_equal(p->kernel, reduces(in->func) ? MRW_KERNEL_REDUCE_BULK : MRW_KERNEL_MOVE_BULK);
	assert_true(in->func != MRW_FUNC_BARRIER && in->bytes > 0);
}

static void check_lines(const struct mrw_select_input *in, const struct mrw_plan *p)
{
	uint64_t units = mrw_units_per_channel(in->bytes, p->channels);
	assert_true(in->lines && in->func == MRW_FUNC_ALL_REDUCE && in->bytes > 0);
	assert_true((units + MRW_LINE_UNITS - 1) / MRW_LINE_UNITS <= in->layout.lines);
	assert_int_equal(p->kernel, MRW_KERNEL_REDUCE_LINES);
}

static void check(const struct mrw_select_input *in)
{
	struct mrw_plan p = mrw_select(in), again = mrw_select(in);
	assert_memory_equal(&p, &again, sizeof p);
	assert_non_null(p.reason);
	assert_in_range(p.threads, 32, MRW_BLOCK_THREADS);
	assert_int_equal(p.threads % 32, 0);
	if (in->nranks == 1) {
		assert_int_equal(p.algo, MRW_ALGO_LOCAL);
		assert_int_equal(p.kernel, MRW_KERNEL_REDUCE_LOCAL);
		assert_in_range(p.channels, 1, MRW_MAX_CHANNELS);
		return;
	}
	uint32_t cap = in->forced_channels ? in->forced_channels : in->channel_cap;
	assert_in_range(p.channels, 1, cap < in->layout.channels ? cap : in->layout.channels);
	assert_true(mrw_select_can(in, p.algo));
	if (in->forced_algo >= 0 && mrw_select_can(in, (enum mrw_algo)in->forced_algo))
		assert_int_equal(p.algo, in->forced_algo);
	assert_int_equal(on_rails(p.algo), in->layout.near_slots > 0);
	bool blocks = in->func == MRW_FUNC_ALL_GATHER || in->func == MRW_FUNC_REDUCE_SCATTER;
	assert_int_equal(p.algo == MRW_ALGO_RING, in->layout.ring || (in->layout.tree && blocks));
	assert_int_equal(p.algo == MRW_ALGO_TREE || p.algo == MRW_ALGO_TREESHOT, in->layout.tree && !blocks);
	if (p.algo == MRW_ALGO_LINES)
		check_lines(in, &p);
	else if (packets(p.algo))
		check_packets(in, &p);
	else
		check_bulk(in, &p);
}

static void check_sizes(struct mrw_select_input *in)
{
	uint64_t capacity = mrw_oneshot_max_bytes(&in->layout, in->channel_cap);
	uint64_t edges[] = {0, 1, 8, 16, 512, 2048, 4096, 65536, 131072, 524288, 1 << 20, 1 << 26, 1ull << 33, capacity, capacity * in->nranks,
			    in->layout.chunk_bytes, (uint64_t)in->layout.chunk_bytes * in->channel_cap * in->nranks};
	for (size_t i = 0; i < COUNT(edges); i++)
		for (uint64_t d = 0; d < 3; d++) {
			in->bytes = edges[i] + d < 1 || in->func == MRW_FUNC_BARRIER ? 0 : edges[i] + d - 1;
			check(in);
		}
}

/* All functions, sizes and what can be forced, for one layout. */
static void check_layout(struct mrw_select_input *in)
{
	bool whole = in->nranks == 1 || (in->layout.near_slots == 0 && !in->layout.ring), one_host = in->layout.lines > 0;
	uint32_t funcs = in->layout.tree ? MRW_FUNC_REDUCE + 1u : whole ? MRW_FUNC_COUNT : MRW_FUNC_BARRIER + 1u; /* the calls that get here */
	for (uint32_t func = 0; func < funcs; func++)
		for (in->forced_algo = -1; in->forced_algo < MRW_ALGO_COUNT; in->forced_algo++, in->lines = one_host && !in->lines)
			for (size_t k = 0; k < COUNT(forced_channels); k++) {
				in->func = (enum mrw_func)func;
				in->forced_channels = forced_channels[k];
				check_sizes(in);
			}
}

static void every_plan_can_be_carried(void **state)
{
	(void)state;
	struct mrw_select_input in;
	memset(&in, 0, sizeof in);
	for (in.nranks = 1; in.nranks <= MRW_MAX_NEAR; in.nranks++)
		for (size_t c = 0; c < COUNT(caps); c++)
			for (uint32_t target = MARROW_TARGET_HOST; target <= MARROW_TARGET_CUDA; target++) {
				in.target = (enum marrow_target)target;
				in.channel_cap = caps[c];
				memset(&in.layout, 0, sizeof in.layout);
				if (in.nranks > 1)
					in.layout = mrw_layout_make(in.nranks, caps[c], target == MARROW_TARGET_HOST ? MRW_HOST_STAGING_BUDGET
													    : MRW_STAGING_BUDGET);
				check_layout(&in);
			}
}

static void every_plan_across_hosts_can_be_carried(void **state)
{
	(void)state;
	static const uint32_t shapes[][2] = {{2, 2}, {3, 2}, {4, 4}, {2, 16}, {16, 4}, {64, 1}, {20, 1}};
	struct mrw_select_input in;
	memset(&in, 0, sizeof in);
	in.target = MARROW_TARGET_HOST;
	for (size_t k = 0; k < COUNT(shapes); k++)
		for (in.channel_cap = 1; in.channel_cap <= 4; in.channel_cap++)
			for (in.nics = 1; in.nics <= MRW_MAX_NICS; in.nics++) {
				uint32_t hosts = shapes[k][0], per_host = shapes[k][1];
				in.nranks = hosts * per_host;
				in.layout = per_host > 1 ? mrw_layout_rails(hosts, per_host, in.channel_cap, MRW_HOST_STAGING_BUDGET)
							 : mrw_layout_spanning(hosts, in.channel_cap, MRW_HOST_STAGING_BUDGET);
				check_layout(&in);
				in.layout = mrw_layout_ring(in.nranks, in.channel_cap, MRW_HOST_STAGING_BUDGET);
				check_layout(&in);
				in.layout = mrw_layout_tree(in.nranks, in.nranks > MRW_TREE_PEERS ? MRW_TREE_PEERS : in.nranks - 1, in.channel_cap, MRW_HOST_STAGING_BUDGET);
				check_layout(&in);
			}
}

/* The host target runs channels in turn: as many as there are NICs to keep busy. */
static void every_nic_gets_a_channel(void **state)
{
	(void)state;
	struct mrw_select_input in;
	memset(&in, 0, sizeof in);
	in.target = MARROW_TARGET_HOST;
	in.bytes = 64 << 20;
	in.nranks = 4;
	in.channel_cap = 4;
	in.forced_algo = -1;
	in.layout = mrw_layout_rails(2, 2, 4, MRW_HOST_STAGING_BUDGET);
	for (in.nics = 1; in.nics <= 4; in.nics++) {
		assert_int_equal(mrw_select(&in).algo, MRW_ALGO_RAIL);
		assert_int_equal(mrw_select(&in).channels, in.nics);
	}
}

static struct mrw_select_input all_reduce_of(uint64_t bytes, uint32_t nranks, int32_t algo)
{
	struct mrw_select_input in;
	memset(&in, 0, sizeof in);
	in.func = MRW_FUNC_ALL_REDUCE;
	in.target = MARROW_TARGET_HOST;
	in.bytes = bytes;
	in.nranks = nranks;
	in.layout = mrw_layout_make(nranks, 4, MRW_HOST_STAGING_BUDGET);
	in.channel_cap = 4;
	in.forced_algo = algo;
	return in;
}

static void capacity_is_exact(void **state)
{
	(void)state;
	struct mrw_select_input in = all_reduce_of(0, 4, MRW_ALGO_ONESHOT);
	uint64_t most = mrw_oneshot_max_bytes(&in.layout, in.channel_cap);
	assert_int_equal(most, (uint64_t)in.layout.units * MRW_UNIT_BYTES * 4);
	in.bytes = most;
	assert_int_equal(mrw_select(&in).algo, MRW_ALGO_ONESHOT);
	in.bytes = most + 1;
	assert_int_not_equal(mrw_select(&in).algo, MRW_ALGO_ONESHOT);
	in.forced_algo = MRW_ALGO_TWOSHOT; /* shares are a quarter */
	assert_int_equal(mrw_select(&in).algo, MRW_ALGO_TWOSHOT);
	in.bytes = 4 * most;
	assert_int_equal(mrw_select(&in).algo, MRW_ALGO_TWOSHOT);
	in.bytes = 4 * most + 1;
	assert_int_equal(mrw_select(&in).algo, MRW_ALGO_BULK);
	in.forced_channels = 1;
	in.bytes = most;
	assert_int_equal(mrw_select(&in).algo, MRW_ALGO_TWOSHOT);
	in.bytes = most + 1;
	assert_int_equal(mrw_select(&in).algo, MRW_ALGO_BULK);
}

static void small_goes_by_packets_and_large_by_chunks(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= MRW_MAX_NEAR; n++) {
		struct mrw_select_input in = all_reduce_of(8, n, -1);
		assert_int_equal(mrw_select(&in).algo, MRW_ALGO_ONESHOT);
		in.bytes = 64 << 20;
		assert_int_equal(mrw_select(&in).algo, MRW_ALGO_BULK);
		in.target = MARROW_TARGET_CUDA;
		assert_int_equal(mrw_select(&in).algo, MRW_ALGO_BULK);
	}
}

static void names(void **state)
{
	(void)state;
	for (int32_t a = MRW_ALGO_ONESHOT; a < MRW_ALGO_COUNT; a++)
		assert_int_equal(mrw_algo_from_name(mrw_algo_name((enum mrw_algo)a)), a);
	assert_int_equal(mrw_algo_from_name("local"), -1); /* cannot be asked for */
	assert_int_equal(mrw_algo_from_name(""), -1);
	assert_string_equal(mrw_algo_name(MRW_ALGO_COUNT), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_plan_can_be_carried),
		cmocka_unit_test(every_plan_across_hosts_can_be_carried),
		cmocka_unit_test(every_nic_gets_a_channel),
		cmocka_unit_test(capacity_is_exact),
		cmocka_unit_test(small_goes_by_packets_and_large_by_chunks),
		cmocka_unit_test(names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
