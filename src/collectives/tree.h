/* tree.h - two binary trees over the positions 0 ... n - 1 of a communicator (host by host, as in a ring), and who sends what in which round:
 * pure functions of values that are equal on all ranks.
 *
 * Places. Tree 0 has position p at place p; tree 1 at place n - 1 - p if n is even, else at place p - 1 (modulo n). Places are in order: odd
 * ones are inner nodes, a search tree over their numbers (place 2 i + 1 is number i) whose root is the middle low + (high - low) / 2 of
 * its numbers low ... high - 1; even ones are leaves, each in the gap between two odd ones. So a subtree is an interval of places, an inner node's first child lies
 * below it and its second one (there may be none) above, depth is least, and a position is inner in at most one of the trees.
 *
 * Parts. Up to MRW_TREE_WHOLE_BYTES a buffer goes by tree 0 alone; of a larger one each tree carries half, in whole quanta.
 *
 * Sums. A node adds its first child's sum, its own input and its second child's sum, in this order, and rounds to the type; the root's
 * result is the reduction. The order is a function of n, the hosts and the size of the buffer alone.
 *
 * Flow. Sums go up; results go down from the root of the tree: to all (all_reduce, barrier) or along the path to a rank (reduce). A broadcast
 * flows from its root over all edges, whichever way they point. Over one edge, in one direction, a call sends at most one of these: in tree k it is
 * format k of staging and packets.
 *
 * Rounds. Chunk i leaves a node of level l upwards in round i + depth - l, and whoever is h hops from where results begin has it in round h after that. */
#ifndef MRW_TREE_H
#define MRW_TREE_H

#include "schedule.h"

#define MRW_TREES 2u
#define MRW_TREE_WHOLE_BYTES 4096u

/* Neighbours of a node by number. */
enum mrw_tree_neighbour { MRW_TREE_FIRST, MRW_TREE_SECOND, MRW_TREE_PARENT, MRW_TREE_NEIGHBOURS };

/* What a position sees of one tree. */
struct mrw_tree {
	uint32_t neighbour[MRW_TREE_NEIGHBOURS]; /* positions; MRW_TREE_NONE: none. A leaf has no children, an inner node at least the first */
	uint32_t level;                          /* hops from the root */
	uint32_t height;                         /* of the subtree */
};

MRW_PURE uint32_t mrw_tree_place(uint32_t n, uint32_t which, uint32_t position)
{
	if (which == 0)
		return position;
	return n % 2 == 0 ? n - 1 - position : position > 0 ? position - 1 : n - 1;
}

MRW_PURE uint32_t mrw_tree_position(uint32_t n, uint32_t which, uint32_t place)
{
	if (which == 0 || place == MRW_TREE_NONE)
		return place;
	return n % 2 == 0 ? n - 1 - place : place + 1 < n ? place + 1 : 0;
}

/* Inner nodes low ... high - 1 and the leaves in their gaps. */
struct mrw_tree_range {
	uint32_t low, high;
};

MRW_PURE uint32_t mrw_tree_middle(struct mrw_tree_range r)
{
	return r.low + (r.high - r.low) / 2;
}

/* Place of a range's root; an empty one is a leaf, the last of which may be missing. */
MRW_PURE uint32_t mrw_tree_top(struct mrw_tree_range r, uint32_t n)
{
	if (r.low < r.high)
		return 2 * mrw_tree_middle(r) + 1;
	return 2 * r.low < n ? 2 * r.low : MRW_TREE_NONE;
}

/* The part of r below (or above) its root. */
MRW_PURE struct mrw_tree_range mrw_tree_below(struct mrw_tree_range r, bool above)
{
	if (above)
		r.low = mrw_tree_middle(r) + 1;
	else
		r.high = mrw_tree_middle(r);
	return r;
}

/* Height of a tree of that many inner nodes: the part below a root is never the smaller one. */
MRW_PURE uint32_t mrw_tree_height(uint32_t inner)
{
	uint32_t height = 0;
	for (; inner > 0; inner /= 2)
		height++;
	return height;
}

/* Levels below the root. */
MRW_PURE uint32_t mrw_tree_depth(uint32_t n)
{
	return mrw_tree_height(n / 2);
}

MRW_PURE struct mrw_tree mrw_tree_at(uint32_t n, uint32_t which, uint32_t position)
{
	struct mrw_tree t = {{MRW_TREE_NONE, MRW_TREE_NONE, MRW_TREE_NONE}, 0, 0};
	struct mrw_tree_range r = {0, n / 2};
	uint32_t place = mrw_tree_place(n, which, position), top;
	for (; (top = mrw_tree_top(r, n)) != place; t.level++) { /* r is not empty: place is in it */
		t.neighbour[MRW_TREE_PARENT] = mrw_tree_position(n, which, top);
		r = mrw_tree_below(r, place > top);
	}
	t.height = mrw_tree_height(r.high - r.low);
	if (r.low < r.high) {
		t.neighbour[MRW_TREE_FIRST] = mrw_tree_position(n, which, mrw_tree_top(mrw_tree_below(r, false), n));
		t.neighbour[MRW_TREE_SECOND] = mrw_tree_position(n, which, mrw_tree_top(mrw_tree_below(r, true), n));
	}
	return t;
}

/* Neighbour, by number, of position on the way to another one. */
MRW_PURE uint32_t mrw_tree_toward(uint32_t n, uint32_t which, uint32_t position, uint32_t to)
{
	struct mrw_tree_range r = {0, n / 2};
	uint32_t place = mrw_tree_place(n, which, position), target = mrw_tree_place(n, which, to), top;
	while ((top = mrw_tree_top(r, n)) != place) {
		if (target == top || (target > top) != (place > top))
			return MRW_TREE_PARENT;
		r = mrw_tree_below(r, place > top);
	}
	/* target is in r: below or above its root, or, of an empty one's, out of the question. */
	return target > place ? MRW_TREE_SECOND : MRW_TREE_FIRST;
}

MRW_PURE uint32_t mrw_tree_hops(uint32_t n, uint32_t which, uint32_t a, uint32_t b)
{
	struct mrw_tree_range r = {0, n / 2};
	uint32_t x = mrw_tree_place(n, which, a), y = mrw_tree_place(n, which, b), common = 0, top;
	for (; (top = mrw_tree_top(r, n)) != x && top != y && (x > top) == (y > top); common++)
		r = mrw_tree_below(r, x > top);
	return mrw_tree_at(n, which, a).level + mrw_tree_at(n, which, b).level - 2 * common;
}

/* Hops to whoever is furthest. */
MRW_PURE uint32_t mrw_tree_furthest(uint32_t n, uint32_t which, uint32_t position)
{
	struct mrw_tree_range r = {0, n / 2}, other;
	struct mrw_tree t = mrw_tree_at(n, which, position);
	uint32_t place = mrw_tree_place(n, which, position), furthest = t.height > t.level ? t.height : t.level, top;
	for (uint32_t level = 0; (top = mrw_tree_top(r, n)) != place; level++) {
		other = mrw_tree_below(r, place < top);
		if (mrw_tree_top(other, n) != MRW_TREE_NONE) {
			uint32_t hops = t.level - level + 1 + mrw_tree_height(other.high - other.low);
			furthest = hops > furthest ? hops : furthest;
		}
		r = mrw_tree_below(r, place > top);
	}
	return furthest;
}

/* Trees that carry a buffer. */
MRW_PURE uint32_t mrw_tree_parts(uint64_t bytes)
{
	return bytes > MRW_TREE_WHOLE_BYTES ? MRW_TREES : 1;
}

/* What tree which carries of it; the first part is never the smaller one. */
MRW_PURE struct mrw_span mrw_tree_part(uint64_t bytes, uint32_t which)
{
	uint64_t first = mrw_tree_parts(bytes) > 1 ? mrw_share_bytes(bytes, MRW_TREES) : bytes;
	struct mrw_span s = {0, first};
	if (which > 0) {
		s.offset = first;
		s.bytes = bytes - first;
	}
	return s;
}

/* Results in one tree, as a position sees them. */
struct mrw_tree_flow {
	uint32_t from; /* neighbour, by number, whom they come from; MRW_TREE_NONE: they begin here, or none come */
	uint32_t to;   /* bit i: they go on to neighbour i */
	uint32_t hops; /* from where they begin */
	bool takes;    /* this rank has a use for them */
};

/* root: a position, of calls that have one. */
MRW_PURE struct mrw_tree_flow mrw_tree_flow_of(uint32_t func, uint32_t n, uint32_t which, uint32_t position, uint32_t root)
{
	struct mrw_tree t = mrw_tree_at(n, which, position);
	struct mrw_tree_flow f = {t.level > 0 ? (uint32_t)MRW_TREE_PARENT : MRW_TREE_NONE, 0, t.level, true};
	uint32_t toward = !mrw_has_root(func) || position == root ? MRW_TREE_NONE : mrw_tree_toward(n, which, position, root);
	if (func == MRW_FUNC_REDUCE) {
		f.takes = position == root;
		if (toward == MRW_TREE_PARENT)
			f.from = MRW_TREE_NONE; /* not on the way */
		else if (!f.takes)
			f.to = 1u << toward;
		return f;
	}
	if (func == MRW_FUNC_BROADCAST) {
		f.from = toward;
		f.hops = mrw_tree_hops(n, which, root, position);
	}
	for (uint32_t i = 0; i < MRW_TREE_NEIGHBOURS; i++)
		if (t.neighbour[i] != MRW_TREE_NONE && i != f.from && (i != MRW_TREE_PARENT || func == MRW_FUNC_BROADCAST))
			f.to |= 1u << i;
	return f;
}

/* Sums go up before results come. */
MRW_PURE bool mrw_tree_rises(uint32_t func)
{
	return func != MRW_FUNC_BROADCAST;
}

/* Rounds of a call of parts trees; chunks: of the first part. */
MRW_PURE uint64_t mrw_tree_rounds(uint32_t func, uint32_t n, uint32_t root, uint32_t parts, uint64_t chunks)
{
	uint32_t most = 0;
	for (uint32_t k = 0; k < parts; k++) {
		uint32_t down = func == MRW_FUNC_BROADCAST ? mrw_tree_furthest(n, k, root)
				: func == MRW_FUNC_REDUCE  ? mrw_tree_at(n, k, root).level
							   : mrw_tree_depth(n);
		most = down > most ? down : most;
	}
	return chunks + most + (mrw_tree_rises(func) ? mrw_tree_depth(n) : 0);
}

/* The chunk whose sum a node of this level sends in round t; UINT64_MAX: none yet. */
MRW_PURE uint64_t mrw_tree_rising(uint32_t n, uint32_t level, uint64_t t)
{
	uint32_t behind = mrw_tree_depth(n) - level;
	return t < behind ? UINT64_MAX : t - behind;
}

/* The chunk whose result passes in round t, hops from where it begins. */
MRW_PURE uint64_t mrw_tree_passing(uint32_t func, uint32_t n, uint32_t hops, uint64_t t)
{
	uint32_t behind = hops + (mrw_tree_rises(func) ? mrw_tree_depth(n) : 0);
	return t < behind ? UINT64_MAX : t - behind;
}

#endif
