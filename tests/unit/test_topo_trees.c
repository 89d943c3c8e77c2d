/* test_topo_trees.c - both trees span all ranks with the least depth, and no rank is inner in both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "topo/topo.h"

static bool inner(struct mrw_topo_tree t)
{
	return t.children[0] != MRW_NOBODY || t.children[1] != MRW_NOBODY;
}

static void check(uint32_t n)
{
	uint32_t least = 0;
	while (n >> (least + 1) != 0)
		least++; /* edges from root to deepest leaf of a full tree */
	for (uint32_t which = 0; which < 2; which++) {
		uint32_t roots = 0;
		for (uint32_t r = 0; r < n; r++) {
			struct mrw_topo_tree t = mrw_topo_double_tree(n, which, r);
			uint32_t depth = 0;
			roots += t.parent == MRW_NOBODY;
			for (uint32_t c = 0; c < 2; c++)
				if (t.children[c] != MRW_NOBODY)
					assert_int_equal(mrw_topo_double_tree(n, which, (uint32_t)t.children[c]).parent,
							 r);
			if (t.parent != MRW_NOBODY) {
				struct mrw_topo_tree p = mrw_topo_double_tree(n, which, (uint32_t)t.parent);
				assert_true(p.children[0] == (int32_t)r || p.children[1] == (int32_t)r);
			}
			for (int32_t up = t.parent; up != MRW_NOBODY;
			     up = mrw_topo_double_tree(n, which, (uint32_t)up).parent) {
				depth++;
				assert_true(depth <= least); /* balanced, and no cycle */
			}
		}
		assert_int_equal(roots, 1);
	}
	for (uint32_t r = 0; r < n; r++)
		assert_false(inner(mrw_topo_double_tree(n, 0, r)) && inner(mrw_topo_double_tree(n, 1, r)));
}

static void trees_of_any_size(void **state)
{
	(void)state;
	for (uint32_t n = 1; n <= 300; n++)
		check(n);
	check(1023);
	check(1024);
	check(1025);
}

static void trees_of_eight(void **state)
{
	(void)state;
	/*         5
	 *     3       7
	 *   1   4   6
	 *  0 2
	 */
	static const int32_t parents[] = {1, 3, 1, 5, 3, MRW_NOBODY, 7, 5};
	for (uint32_t r = 0; r < 8; r++) {
		int32_t mirrored = mrw_topo_double_tree(8, 1, 7 - r).parent;
		assert_int_equal(mrw_topo_double_tree(8, 0, r).parent, parents[r]);
		assert_int_equal(mirrored, parents[r] == MRW_NOBODY ? MRW_NOBODY : 7 - parents[r]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trees_of_any_size),
		cmocka_unit_test(trees_of_eight),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
