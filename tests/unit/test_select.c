/* test_select.c - whatever is asked, the plan can be carried by the arena, and a forced algorithm is taken where it can be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collectives/tree.h"
#include "collectives/select.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Choices for lines that do not and do arrive whole, of the layout at hand. */
static struct mrw_choices choices[2];

static struct mrw_cost_shape shape_of(const struct mrw_select_input *in, uint32_t hosts)
{
	struct mrw_cost_shape s = {.target = in->target, .nranks = in->nranks, .hosts = hosts, .per_host = in->nranks / hosts, .nics = in->nics,
				   .channels = in->channel_cap, .cores = 2, .rails = in->layout.near_slots > 0, .ring = in->layout.ring,
				   .chunk_bytes = mrw_chunk_room(&in->layout, in->target)};
	if (in->layout.tree)
		mrw_cost_plant(&s);
	return s;
}

static void prepare(struct mrw_select_input *in, uint32_t hosts, const struct mrw_tuning *tuning)
{
	struct mrw_cost_shape shape = shape_of(in, hosts);
	for (int lines = 0; lines < 2 && in->nranks > 1; lines++) {
		shape.lines = lines;
		mrw_select_prepare(&choices[lines], in, &shape, tuning);
	}
	in->choices = &choices[in->lines];
}

static const uint32_t caps[] = {1, 2, 4, 7, 32, 64};
static const uint32_t forced_channels[] = {0, 1, 3, 64, 1000};

static bool reduces(enum mrw_func func)
{
	return func == MRW_FUNC_ALL_REDUCE || func == MRW_FUNC_REDUCE_SCATTER || func == MRW_FUNC_REDUCE || func == MRW_FUNC_REDUCE_SCATTER_V;
}

static bool blocks(enum mrw_func func)
{
	return func == MRW_FUNC_ALL_GATHER || func == MRW_FUNC_REDUCE_SCATTER || func == MRW_FUNC_REDUCE_SCATTER_V;
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
	bool differ = blocks(in->func);
	uint64_t cells = on_rails(p->algo) && differ ? in->layout.cells : 1; /* that one slot holds */
	if (mrw_units_per_channel(block, p->channels) * cells > in->layout.units)
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
	struct mrw_select_input other = *in;
	other.choices = &choices[in->lines];
	in = &other;
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
	assert_int_equal(p.algo == MRW_ALGO_RING, in->layout.ring || (in->layout.tree && blocks(in->func)));
	assert_int_equal(p.algo == MRW_ALGO_TREE || p.algo == MRW_ALGO_TREESHOT, in->layout.tree && !blocks(in->func));
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
static void check_layout(struct mrw_select_input *in, uint32_t hosts)
{
	prepare(in, hosts, NULL);
	bool one_host = in->layout.lines > 0;
	for (uint32_t func = 0; func < MRW_FUNC_COUNT; func++)
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
				check_layout(&in, 1);
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
				check_layout(&in, hosts);
				in.layout = mrw_layout_ring(in.nranks, in.channel_cap, MRW_HOST_STAGING_BUDGET);
				check_layout(&in, hosts);
				in.layout = mrw_layout_tree(in.nranks, in.nranks > MRW_TREE_PEERS ? MRW_TREE_PEERS : in.nranks - 1, in.channel_cap, MRW_HOST_STAGING_BUDGET);
				check_layout(&in, hosts);
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
		prepare(&in, 2, NULL);
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
	prepare(&in, 1, NULL);
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
		prepare(&in, 1, NULL);
		assert_int_equal(mrw_select(&in).algo, MRW_ALGO_BULK);
	}
}

/* GPUs: what two H200s were measured to want, with more ranks as loads of a link. The sizes at which the choice changes, none by accident. */
static enum mrw_algo on_gpus(const struct mrw_select_input *in)
{
	uint64_t peers = in->nranks - 1, oneshot = 1 << 20, lines = in->nranks > 2 ? (256 << 10) / peers : 2 << 20;
	bool all_reduce = in->func == MRW_FUNC_ALL_REDUCE;
	if (all_reduce && in->lines)
		oneshot = (128 << 10) / peers;
	else if (in->func == MRW_FUNC_REDUCE_SCATTER || in->func == MRW_FUNC_REDUCE_SCATTER_V)
		oneshot = in->nranks > 2 ? 600 << 10 : 1 << 20;
	else if ((all_reduce || in->func == MRW_FUNC_REDUCE) && in->nranks > 2)
		oneshot = (128 << 10) / peers;
	else if (in->func == MRW_FUNC_REDUCE)
		oneshot = 700 << 10;
	if (in->bytes <= oneshot && mrw_select_can(in, MRW_ALGO_ONESHOT))
		return MRW_ALGO_ONESHOT;
	if (in->bytes <= lines && mrw_select_can(in, MRW_ALGO_LINES))
		return MRW_ALGO_LINES;
	return in->bytes <= 512 << 10 && mrw_select_can(in, MRW_ALGO_TWOSHOT) ? MRW_ALGO_TWOSHOT : MRW_ALGO_BULK;
}

static void check_gpus(struct mrw_select_input *in)
{
	for (uint32_t func = 0; func < MRW_FUNC_COUNT; func++) {
		in->func = (enum mrw_func)func;
		if (in->func == MRW_FUNC_BARRIER)
			continue;
		for (in->bytes = 1; in->bytes < 1ull << 34; in->bytes = in->bytes * 17 / 16 + 1)
			assert_int_equal(mrw_select(in).algo, on_gpus(in));
		uint64_t peers = in->nranks - 1, edges[] = {(128 << 10) / peers, (256 << 10) / peers, 512 << 10, 600 << 10, 700 << 10, 1 << 20, 2 << 20};
		for (size_t i = 0; i < COUNT(edges); i++)
			for (in->bytes = edges[i] - 1; in->bytes <= edges[i] + 1; in->bytes++)
				assert_int_equal(mrw_select(in).algo, on_gpus(in));
	}
}

static void thresholds_on_gpus_are_the_measured_ones(void **state)
{
	(void)state;
	struct mrw_select_input in;
	memset(&in, 0, sizeof in);
	in.target = MARROW_TARGET_CUDA;
	in.forced_algo = -1;
	for (in.nranks = 2; in.nranks <= MRW_MAX_NEAR; in.nranks++)
		for (int lines = 0; lines < 2; lines++)
			for (in.channel_cap = 4; in.channel_cap <= 64; in.channel_cap *= 4) {
				in.lines = lines;
				in.nics = 0;
				in.layout = mrw_layout_make(in.nranks, in.channel_cap, MRW_STAGING_BUDGET);
				prepare(&in, 1, NULL);
				check_gpus(&in);
				if (lines)
					continue;
				in.nics = 1;
				in.layout = mrw_layout_spanning(in.nranks, in.channel_cap, MRW_STAGING_BUDGET);
				prepare(&in, in.nranks, NULL);
				check_gpus(&in);
			}
}

/* Along rails, both targets: packets up to 8 KiB for two hosts. Between hosts without rails, host target: up to 512 bytes, 1 KiB for more ranks. */
static void thresholds_across_hosts_stay(void **state)
{
	(void)state;
	static const struct {
		uint32_t hosts;
		uint64_t most;
	} rows[] = {{2, 8192}, {3, 4096}, {4, 2730}, {8, 1170}, {16, 1024}};
	struct mrw_select_input in;
	memset(&in, 0, sizeof in);
	in.forced_algo = -1;
	in.channel_cap = 4;
	in.nics = 1;
	for (size_t i = 0; i < COUNT(rows); i++)
		for (uint32_t target = MARROW_TARGET_HOST; target <= MARROW_TARGET_CUDA; target++) {
			in.target = (enum marrow_target)target;
			in.nranks = rows[i].hosts * 2;
			in.layout = mrw_layout_rails(rows[i].hosts, 2, 4, MRW_HOST_STAGING_BUDGET);
			prepare(&in, rows[i].hosts, NULL);
			in.bytes = rows[i].most;
			assert_int_equal(mrw_select(&in).algo, MRW_ALGO_RAILSHOT);
			in.bytes++;
			assert_int_equal(mrw_select(&in).algo, MRW_ALGO_RAIL);
		}
	in.target = MARROW_TARGET_HOST;
	for (in.nranks = 2; in.nranks <= 16; in.nranks++)
		for (uint32_t func = 0; func < MRW_FUNC_COUNT; func++) {
			in.func = (enum mrw_func)func;
			in.layout = mrw_layout_spanning(in.nranks, 4, MRW_HOST_STAGING_BUDGET);
			prepare(&in, in.nranks, NULL);
			in.bytes = in.nranks > 2 ? 1024 : 512;
			assert_int_equal(mrw_select(&in).algo, MRW_ALGO_ONESHOT);
			in.bytes++;
			assert_int_equal(mrw_select(&in).algo, in.func == MRW_FUNC_BARRIER ? MRW_ALGO_ONESHOT : MRW_ALGO_BULK);
		}
}

/* Processes on two cores: what a sweep over all algorithms found to be within 5 % of the best (ARCHITECTURE.md), a letter each:
 * oneshot, lines, bulk. */
static void host_target_takes_what_was_measured_best(void **state)
{
	(void)state;
	static const struct {
		uint32_t nranks;
		enum mrw_func func;
		uint64_t bytes;
		const char *good;
	} rows[] = {
		{2, MRW_FUNC_ALL_REDUCE, 32, "ol"}, {2, MRW_FUNC_ALL_REDUCE, 64, "l"}, {2, MRW_FUNC_ALL_REDUCE, 128, "l"},
		{2, MRW_FUNC_ALL_REDUCE, 256, "lb"}, {2, MRW_FUNC_ALL_REDUCE, 512, "b"}, {2, MRW_FUNC_ALL_REDUCE, 1024, "b"},
		{2, MRW_FUNC_ALL_REDUCE, 64 << 10, "b"}, {2, MRW_FUNC_ALL_GATHER, 32, "o"}, {2, MRW_FUNC_ALL_GATHER, 128, "b"},
		{2, MRW_FUNC_ALL_GATHER, 1024, "b"}, {2, MRW_FUNC_REDUCE_SCATTER, 64, "o"}, {2, MRW_FUNC_REDUCE_SCATTER, 128, "b"},
		{2, MRW_FUNC_BROADCAST, 64, "o"}, {2, MRW_FUNC_BROADCAST, 256, "b"}, {2, MRW_FUNC_REDUCE, 64, "o"}, {2, MRW_FUNC_REDUCE, 256, "b"},
		{3, MRW_FUNC_ALL_REDUCE, 128, "ol"}, {3, MRW_FUNC_ALL_REDUCE, 512, "l"}, {3, MRW_FUNC_ALL_REDUCE, 2048, "l"},
		{3, MRW_FUNC_ALL_REDUCE, 4096, "b"}, {4, MRW_FUNC_ALL_REDUCE, 64, "ol"}, {4, MRW_FUNC_ALL_REDUCE, 512, "l"},
		{4, MRW_FUNC_ALL_REDUCE, 2048, "l"}, {4, MRW_FUNC_ALL_REDUCE, 4096, "b"}, {4, MRW_FUNC_ALL_GATHER, 128, "o"},
		{4, MRW_FUNC_ALL_GATHER, 512, "ob"}, {4, MRW_FUNC_ALL_GATHER, 1024, "b"}, {4, MRW_FUNC_REDUCE_SCATTER, 512, "b"}, {4, MRW_FUNC_REDUCE_SCATTER, 128, "o"}, {4, MRW_FUNC_REDUCE_SCATTER, 1024, "b"},
		{3, MRW_FUNC_ALL_GATHER, 336, "o"}, {3, MRW_FUNC_ALL_GATHER, 672, "b"}, {3, MRW_FUNC_REDUCE_SCATTER, 336, "o"},
		{3, MRW_FUNC_REDUCE_SCATTER, 672, "b"}, {3, MRW_FUNC_BROADCAST, 2048, "o"}, {3, MRW_FUNC_BROADCAST, 8192, "b"},
		{3, MRW_FUNC_REDUCE, 2048, "o"}, {3, MRW_FUNC_REDUCE, 4096, "b"}, {8, MRW_FUNC_ALL_REDUCE, 256, "lo"},
		{8, MRW_FUNC_ALL_REDUCE, 1024, "l"}, {8, MRW_FUNC_ALL_REDUCE, 2048, "b"}, {8, MRW_FUNC_ALL_GATHER, 128, "o"},
		{8, MRW_FUNC_ALL_GATHER, 256, "o"}, {8, MRW_FUNC_ALL_GATHER, 512, "b"}, {8, MRW_FUNC_REDUCE_SCATTER, 512, "b"},
		{8, MRW_FUNC_BROADCAST, 4096, "o"}, {8, MRW_FUNC_BROADCAST, 8192, "b"}, {8, MRW_FUNC_REDUCE, 2048, "o"},
		{8, MRW_FUNC_REDUCE, 4096, "ob"}, {8, MRW_FUNC_REDUCE, 8192, "b"}, {4, MRW_FUNC_ALL_GATHER, 256, "o"}, {4, MRW_FUNC_REDUCE_SCATTER, 256, "o"}, {4, MRW_FUNC_BROADCAST, 4096, "o"},
		{4, MRW_FUNC_REDUCE, 2048, "o"}, {4, MRW_FUNC_REDUCE, 4096, "b"}, {4, MRW_FUNC_BROADCAST, 512, "o"}, {4, MRW_FUNC_BROADCAST, 8192, "b"}, {4, MRW_FUNC_REDUCE, 512, "o"}, {4, MRW_FUNC_REDUCE, 8192, "b"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct mrw_select_input in = all_reduce_of(rows[i].bytes, rows[i].nranks, -1);
		in.func = rows[i].func;
		in.lines = true;
		in.choices = &choices[1];
		const char *name = mrw_algo_name(mrw_select(&in).algo);
		if (!strchr(rows[i].good, name[0]))
			fail_msg("%s of %llu bytes over %u ranks goes by %s; measured best: %s", mrw_tuning_func_name(in.func),
				 (unsigned long long)in.bytes, in.nranks, name, rows[i].good);
	}
}

/* A table stands above the model, where its rows can carry the call. */
static void a_table_is_followed(void **state)
{
	(void)state;
	static struct mrw_tuning tuning;
	const struct mrw_tuning_shape shape = {.nranks = 4, .hosts = 1, .fullest = 4}, other = {.nranks = 3, .hosts = 1, .fullest = 3};
	const struct mrw_tuning_row rows[] = {{.algo = MRW_ALGO_TWOSHOT, .most = 100}, {.algo = MRW_ALGO_BULK, .most = 200},
					      {.algo = MRW_ALGO_ONESHOT, .most = 1ull << 40}, {.algo = MRW_ALGO_TWOSHOT, .most = UINT64_MAX}};
	memset(&tuning, 0, sizeof tuning);
	assert_true(mrw_tuning_put(&tuning, &other, MRW_FUNC_ALL_REDUCE, &rows[3], 0) == false); /* no rows */
	assert_true(mrw_tuning_put(&tuning, &shape, MRW_FUNC_ALL_REDUCE, rows, COUNT(rows)));
	struct mrw_select_input in = all_reduce_of(1, 4, -1);
	prepare(&in, 1, &tuning);
	uint64_t oneshot = mrw_oneshot_max_bytes(&in.layout, in.channel_cap);
	const struct {
		uint64_t bytes;
		enum mrw_algo algo;
	} want[] = {{1, MRW_ALGO_TWOSHOT}, {100, MRW_ALGO_TWOSHOT}, {101, MRW_ALGO_BULK}, {200, MRW_ALGO_BULK}, {201, MRW_ALGO_ONESHOT},
		    {oneshot, MRW_ALGO_ONESHOT}, {oneshot + 1, MRW_ALGO_TWOSHOT}, {1ull << 30, MRW_ALGO_BULK}};
	for (size_t i = 0; i < COUNT(want); i++) {
		in.bytes = want[i].bytes;
		assert_int_equal(mrw_select(&in).algo, want[i].algo);
	}
	in.bytes = 1;
	assert_non_null(strstr(mrw_select(&in).reason, "MARROW_TUNING"));
	in.forced_algo = MRW_ALGO_BULK; /* what is asked for stands above both */
	assert_int_equal(mrw_select(&in).algo, MRW_ALGO_BULK);
	in.forced_algo = -1;
	in.func = MRW_FUNC_ALL_GATHER; /* not in the table */
	struct mrw_plan plan = mrw_select(&in);
	assert_int_equal(plan.algo, MRW_ALGO_ONESHOT);
	assert_null(strstr(plan.reason, "MARROW_TUNING"));
	struct mrw_select_input three = all_reduce_of(1, 3, -1); /* another shape */
	prepare(&three, 1, &tuning);
	assert_int_equal(mrw_select(&three).algo, MRW_ALGO_ONESHOT);
}

/* In trees: packets as long as the model has them quicker, then chunks; where it has not, and blocks, nothing to choose. A table stands above it. */
static void trees_take_what_the_model_has_quicker(void **state)
{
	(void)state;
	static struct mrw_tuning tuning;
	const struct mrw_tuning_shape key = {.nranks = 32, .hosts = 32, .fullest = 1, .peers = MRW_PEERS_TREE};
	const struct mrw_tuning_row rows[] = {{.algo = MRW_ALGO_TREESHOT, .most = 100}, {.algo = MRW_ALGO_TREE, .most = UINT64_MAX}};
	struct mrw_select_input in;
	uint64_t most[2] = {0};
	memset(&in, 0, sizeof in);
	in.nranks = 32;
	in.nics = 1;
	in.forced_algo = -1;
	for (uint32_t cuda = 0; cuda < 2; cuda++) {
		in.target = cuda ? MARROW_TARGET_CUDA : MARROW_TARGET_HOST;
		in.channel_cap = cuda ? 64 : 4;
		in.func = MRW_FUNC_ALL_REDUCE;
		in.layout = mrw_layout_tree(32, MRW_TREE_PEERS, in.channel_cap, cuda ? MRW_STAGING_BUDGET : MRW_HOST_STAGING_BUDGET);
		prepare(&in, 32, NULL);
		struct mrw_cost_shape shape = shape_of(&in, 32);
		for (in.bytes = 8; in.bytes < 1 << 30; in.bytes *= 2) {
			const struct mrw_cost_figures *f = mrw_cost_figures_of(in.target);
			double chunks = mrw_cost_ns(f, &shape, in.func, in.bytes, MRW_ALGO_TREE);
			double packets_ns = mrw_cost_ns(f, &shape, in.func, in.bytes, MRW_ALGO_TREESHOT);
			bool can = mrw_select_can(&in, MRW_ALGO_TREESHOT);
			enum mrw_algo quicker = can && packets_ns < chunks ? MRW_ALGO_TREESHOT : MRW_ALGO_TREE;
			assert_int_equal(mrw_select(&in).algo, quicker);
			if (quicker == MRW_ALGO_TREESHOT)
				most[cuda] = in.bytes;
		}
		in.bytes = 64;
		in.func = MRW_FUNC_REDUCE_SCATTER;
		assert_int_equal(mrw_select(&in).algo, MRW_ALGO_RING);
		in.func = MRW_FUNC_BARRIER;
		assert_int_equal(mrw_select(&in).algo, MRW_ALGO_TREESHOT);
	}
	assert_in_range(most[0], 1024, 64 << 10);
	assert_in_range(most[1], 16 << 10, 1 << 20);
	memset(&tuning, 0, sizeof tuning);
	assert_true(mrw_tuning_put(&tuning, &key, MRW_FUNC_ALL_REDUCE, rows, COUNT(rows)));
	prepare(&in, 32, &tuning);
	in.func = MRW_FUNC_ALL_REDUCE;
	in.bytes = 100;
	assert_int_equal(mrw_select(&in).algo, MRW_ALGO_TREESHOT);
	in.bytes = 101;
	assert_int_equal(mrw_select(&in).algo, MRW_ALGO_TREE);
	assert_non_null(strstr(mrw_select(&in).reason, "MARROW_TUNING"));
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
		cmocka_unit_test(thresholds_on_gpus_are_the_measured_ones),
		cmocka_unit_test(thresholds_across_hosts_stay),
		cmocka_unit_test(host_target_takes_what_was_measured_best),
		cmocka_unit_test(a_table_is_followed),
		cmocka_unit_test(trees_take_what_the_model_has_quicker),
		cmocka_unit_test(names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
