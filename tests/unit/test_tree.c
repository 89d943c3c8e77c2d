/* test_tree.c - two trees over any number of positions: whole, of least depth, nobody inner in both; and the schedule on them, walked round by
 * round, is one in which every chunk is summed once and reaches whom it should, and nothing is read before it was sent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collectives/tree.h"
#include "topo/topo.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { SMALL = 64, MOST = 2048 };
static const uint32_t large[] = {127, 128, 129, 1000, 1001, 1023, 1024, 1025, 2047, 2048};

/* Calls body for 1 ... SMALL positions and some large numbers of them. */
static void for_sizes(void (*body)(uint32_t n))
{
	for (uint32_t n = 1; n <= SMALL; n++)
		body(n);
	for (size_t i = 0; i < COUNT(large); i++)
		body(large[i]);
}

static uint32_t least_depth(uint32_t n)
{
	uint32_t depth = 0;
	while ((2u << depth) <= n)
		depth++;
	return depth;
}

static void check_shape(uint32_t n)
{
	static uint32_t inner[MOST];
	memset(inner, 0, sizeof inner);
	for (uint32_t k = 0; k < MRW_TREES; k++) {
		uint32_t roots = 0, deepest = 0, below = 0;
		for (uint32_t p = 0; p < n; p++) {
			struct mrw_tree t = mrw_tree_at(n, k, p);
			assert_int_equal(mrw_tree_position(n, k, mrw_tree_place(n, k, p)), p);
			if (t.neighbour[MRW_TREE_PARENT] == MRW_TREE_NONE) {
				assert_int_equal(t.level, 0);
				assert_int_equal(t.height, mrw_tree_depth(n));
				roots++;
			} else {
				struct mrw_tree up = mrw_tree_at(n, k, t.neighbour[MRW_TREE_PARENT]);
				assert_true(up.neighbour[MRW_TREE_FIRST] == p || up.neighbour[MRW_TREE_SECOND] == p);
				assert_int_equal(up.level + 1, t.level);
				assert_true(up.height > t.height);
			}
			for (uint32_t i = MRW_TREE_FIRST; i <= MRW_TREE_SECOND; i++)
				if (t.neighbour[i] != MRW_TREE_NONE) {
					assert_int_equal(mrw_tree_at(n, k, t.neighbour[i]).neighbour[MRW_TREE_PARENT], p);
					below++;
				}
			assert_true(t.neighbour[MRW_TREE_FIRST] != MRW_TREE_NONE || t.neighbour[MRW_TREE_SECOND] == MRW_TREE_NONE);
			inner[p] += t.neighbour[MRW_TREE_FIRST] != MRW_TREE_NONE;
			deepest = t.level > deepest ? t.level : deepest;
		}
		assert_int_equal(roots, 1);
		assert_int_equal(below, n - 1);
		assert_int_equal(deepest, mrw_tree_depth(n));
		assert_int_equal(deepest, least_depth(n));
	}
	for (uint32_t p = 0; p < n; p++)
		assert_in_range(inner[p], 0, 1);
}

static void trees_are_whole_and_flat(void **state)
{
	(void)state;
	for_sizes(check_shape);
}

/* The trees that marrow-topo shows. */
static void check_twin(uint32_t n)
{
	for (uint32_t k = 0; k < MRW_TREES; k++)
		for (uint32_t p = 0; p < n; p++) {
			struct mrw_tree t = mrw_tree_at(n, k, p);
			struct mrw_topo_tree twin = mrw_topo_double_tree(n, k, p);
			assert_int_equal((int32_t)t.neighbour[MRW_TREE_PARENT], twin.parent);
			assert_int_equal((int32_t)t.neighbour[MRW_TREE_FIRST], twin.children[0]);
			assert_int_equal((int32_t)t.neighbour[MRW_TREE_SECOND], twin.children[1]);
		}
}

static void they_are_those_of_the_topology(void **state)
{
	(void)state;
	for_sizes(check_twin);
}

/* Ways and distances, by a search over the edges; from a few positions if there are many. */
static void check_ways(uint32_t n)
{
	static uint32_t hops[MOST], queue[MOST];
	for (uint32_t k = 0; k < MRW_TREES; k++)
		for (uint32_t from = 0; from < n; from += n > SMALL ? n / 7 : 1) {
			uint32_t head = 0, tail = 0, furthest = 0;
			memset(hops, 0xff, sizeof hops);
			hops[from] = 0;
			queue[tail++] = from;
			while (head < tail) {
				uint32_t p = queue[head++];
				struct mrw_tree t = mrw_tree_at(n, k, p);
				furthest = hops[p];
				assert_int_equal(mrw_tree_hops(n, k, from, p), hops[p]);
				for (uint32_t i = 0; i < MRW_TREE_NEIGHBOURS; i++) {
					uint32_t q = t.neighbour[i];
					if (q == MRW_TREE_NONE || hops[q] != UINT32_MAX)
						continue;
					hops[q] = hops[p] + 1;
					queue[tail++] = q;
					assert_int_equal(mrw_tree_at(n, k, q).neighbour[mrw_tree_toward(n, k, q, from)], p);
				}
			}
			assert_int_equal(tail, n);
			assert_int_equal(mrw_tree_furthest(n, k, from), furthest);
		}
}

static void ways_are_found(void **state)
{
	(void)state;
	for_sizes(check_ways);
}

static void parts_make_the_buffer(void **state)
{
	(void)state;
	static const uint64_t sizes[] = {0, 1, 8, 4095, 4096, 4097, 4112, 5000, 65536, 1000001, 1ull << 33};
	for (size_t i = 0; i < COUNT(sizes); i++) {
		struct mrw_span first = mrw_tree_part(sizes[i], 0), second = mrw_tree_part(sizes[i], 1);
		assert_int_equal(first.offset, 0);
		assert_int_equal(second.offset, first.bytes);
		assert_int_equal(first.bytes + second.bytes, sizes[i]);
		assert_int_equal(second.bytes > 0, sizes[i] > MRW_TREE_WHOLE_BYTES);
		assert_true(second.bytes <= first.bytes && (second.bytes == 0 || first.bytes % MRW_QUANTUM_BYTES == 0));
		assert_int_equal(mrw_tree_parts(sizes[i]), second.bytes > 0 ? 2 : 1);
		assert_true(second.bytes == 0 || first.bytes - second.bytes < 2 * MRW_QUANTUM_BYTES);
	}
}

/* One tree's slots on the way: what each position sent its neighbours (by the receiver's position) in the last two rounds. */
struct wire {
	uint64_t weight[2][SMALL][MRW_TREE_NEIGHBOURS]; /* positions in a sum; [receiver][its neighbour] */
	int64_t chunk[2][SMALL][MRW_TREE_NEIGHBOURS];   /* -1: nothing */
};

static uint32_t number_of(uint32_t n, uint32_t k, uint32_t at, uint32_t neighbour)
{
	struct mrw_tree t = mrw_tree_at(n, k, at);
	uint32_t i = 0;
	while (t.neighbour[i] != neighbour)
		i++;
	assert_in_range(i, 0, MRW_TREE_NEIGHBOURS - 1);
	return i;
}

static void send(struct wire *w, uint32_t n, uint32_t k, uint64_t round, uint32_t from, uint32_t to, uint64_t weight, uint64_t chunk)
{
	uint32_t i = number_of(n, k, to, from);
	assert_int_equal(w->chunk[round & 1][to][i], -1); /* one flow an edge, direction and round */
	w->weight[round & 1][to][i] = weight;
	w->chunk[round & 1][to][i] = (int64_t)chunk;
}

static uint64_t receive(const struct wire *w, uint64_t round, uint32_t at, uint32_t neighbour, uint64_t chunk)
{
	assert_true(round > 0);
	assert_int_equal(w->chunk[(round - 1) & 1][at][neighbour], (int64_t)chunk);
	return w->weight[(round - 1) & 1][at][neighbour];
}

/* One tree of one call. */
static void walk(uint32_t func, uint32_t n, uint32_t k, uint32_t root, uint64_t chunks)
{
	static struct wire w;
	uint64_t all = n == 64 ? UINT64_MAX : (1ull << n) - 1, rounds = mrw_tree_rounds(func, n, root, MRW_TREES, chunks);
	uint64_t got[SMALL] = {0};
	memset(&w, 0xff, sizeof w);
	for (uint64_t t = 0; t < rounds; t++) {
		for (uint32_t p = 0; p < n; p++)
			for (uint32_t i = 0; i < MRW_TREE_NEIGHBOURS; i++)
				w.chunk[t & 1][p][i] = -1;
		for (uint32_t p = 0; p < n; p++) {
			struct mrw_tree tree = mrw_tree_at(n, k, p);
			struct mrw_tree_flow flow = mrw_tree_flow_of(func, n, k, p, root);
			uint64_t up = mrw_tree_rising(n, tree.level, t), down = mrw_tree_passing(func, n, flow.hops, t), result = 0, sum = 1ull << p;
			bool begins = flow.from == MRW_TREE_NONE && (func == MRW_FUNC_BROADCAST ? p == root : tree.level == 0);
			for (uint32_t i = MRW_TREE_FIRST; mrw_tree_rises(func) && up < chunks && i <= MRW_TREE_SECOND; i++)
				if (tree.neighbour[i] != MRW_TREE_NONE) {
					uint64_t part = receive(&w, t, p, i, up);
					assert_int_equal(sum & part, 0);
					sum |= part;
				}
			if (mrw_tree_rises(func) && up < chunks && tree.level > 0)
				send(&w, n, k, t, p, tree.neighbour[MRW_TREE_PARENT], sum, up);
			if (down >= chunks || (!begins && flow.from == MRW_TREE_NONE))
				continue;
			result = begins ? (func == MRW_FUNC_BROADCAST ? all : sum) : receive(&w, t, p, flow.from, down);
			assert_int_equal(result, all);
			for (uint32_t i = 0; i < MRW_TREE_NEIGHBOURS; i++)
				if (flow.to >> i & 1)
					send(&w, n, k, t, p, tree.neighbour[i], result, down);
			if (flow.takes)
				assert_int_equal(got[p]++, down);
		}
	}
	for (uint32_t p = 0; p < n; p++)
		assert_int_equal(got[p], func != MRW_FUNC_REDUCE || p == root ? chunks : 0);
}

static void every_chunk_arrives(void **state)
{
	(void)state;
	static const uint32_t funcs[] = {MRW_FUNC_ALL_REDUCE, MRW_FUNC_BROADCAST, MRW_FUNC_REDUCE};
	for (uint32_t n = 2; n <= SMALL; n++)
		for (size_t f = 0; f < COUNT(funcs); f++)
			for (uint32_t root = 0; root < (funcs[f] == MRW_FUNC_ALL_REDUCE ? 1 : n); root += n > 20 ? 5 : 1)
				for (uint64_t chunks = 1; chunks <= 4; chunks += 3)
					for (uint32_t k = 0; k < MRW_TREES; k++)
						walk(funcs[f], n, k, root, chunks);
}

/* With fewer rounds somebody would miss the last chunk. */
static void rounds_are_as_few_as_can_be(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= SMALL; n++)
		for (uint32_t root = 0; root < n; root++) {
			uint32_t furthest = 0, level = 0;
			for (uint32_t k = 0; k < MRW_TREES; k++) {
				struct mrw_tree t = mrw_tree_at(n, k, root);
				level = t.level > level ? t.level : level;
				for (uint32_t p = 0; p < n; p++) {
					uint32_t hops = mrw_tree_hops(n, k, root, p);
					furthest = hops > furthest ? hops : furthest;
				}
			}
			assert_int_equal(mrw_tree_rounds(MRW_FUNC_BROADCAST, n, root, MRW_TREES, 5), 5 + furthest);
			assert_int_equal(mrw_tree_rounds(MRW_FUNC_REDUCE, n, root, MRW_TREES, 5), 5 + mrw_tree_depth(n) + level);
			assert_int_equal(mrw_tree_rounds(MRW_FUNC_ALL_REDUCE, n, root, MRW_TREES, 5), 5 + 2 * mrw_tree_depth(n));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trees_are_whole_and_flat),
		cmocka_unit_test(they_are_those_of_the_topology),
		cmocka_unit_test(ways_are_found),
		cmocka_unit_test(parts_make_the_buffer),
		cmocka_unit_test(every_chunk_arrives),
		cmocka_unit_test(rounds_are_as_few_as_can_be),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
