/* Double binary trees (Sanders, Speck, Traeff 2009). Tree 0 is in order: odd ranks are inner, a balanced search tree over them; even
 * ranks are leaves, each in the gap between two odd ones. Tree 1 is the same with ranks mirrored (n even) or moved on by one (n
 * odd): even ranks become inner. */
#include "topo/topo.h"

struct range {
	uint32_t low, high; /* of inner nodes, by number: rank 2i + 1 */
};

static uint32_t middle(struct range r)
{
	return r.low + (r.high - r.low) / 2;
}

/* Root of a range: its middle inner node, or the leaf of the gap that an empty range is. */
static int32_t root_of(struct range r, uint32_t n)
{
	if (r.low < r.high)
		return (int32_t)(2 * middle(r) + 1);
	return 2 * r.low < n ? (int32_t)(2 * r.low) : MRW_NOBODY;
}

static struct mrw_topo_tree tree_in_order(uint32_t n, uint32_t rank)
{
	struct mrw_topo_tree tree = {MRW_NOBODY, {MRW_NOBODY, MRW_NOBODY}};
	struct range r = {0, n / 2};

	for (;;) {
		int32_t root = root_of(r, n);
		if (root == (int32_t)rank)
			break;
		/* Never an empty range: rank is below. */
		tree.parent = root;
		if ((int32_t)rank < root)
			r.high = middle(r);
		else
			r.low = middle(r) + 1;
	}
	if (r.low < r.high) {
		tree.children[0] = root_of((struct range){r.low, middle(r)}, n);
		tree.children[1] = root_of((struct range){middle(r) + 1, r.high}, n);
	}
	return tree;
}

static int32_t moved(uint32_t n, int32_t rank, bool back)
{
	if (rank < 0)
		return rank;
	if (n % 2 == 0)
		return (int32_t)n - 1 - rank;
	return (int32_t)(((uint32_t)rank + (back ? n - 1 : 1)) % n);
}

struct mrw_topo_tree mrw_topo_double_tree(uint32_t n, uint32_t which, uint32_t rank)
{
	struct mrw_topo_tree tree;

	if (which == 0)
		return tree_in_order(n, rank);
	tree = tree_in_order(n, (uint32_t)moved(n, (int32_t)rank, true));
	tree.parent = moved(n, tree.parent, false);
	tree.children[0] = moved(n, tree.children[0], false);
	tree.children[1] = moved(n, tree.children[1], false);
	return tree;
}
