/* test_reach.c - who is whose peer: the same seen from both ends, slots without gaps, rails where they can be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collectives/reach.h"
#include "collectives/tree.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Rank r's peers have the slots 0, 1, ... each once. */
static void check_slots(const struct mrw_reach *reach)
{
	struct mrw_layout l = mrw_reach_layout(reach, 1, MRW_HOST_STAGING_BUDGET);
	uint64_t all = 0;
	bool whole = true;
	for (uint32_t r = 0; r < reach->nranks; r++) {
		uint64_t taken = 0;
		for (uint32_t p = 0; p < reach->nranks; p++) {
			assert_int_equal(mrw_reach_is_peer(reach, r, p), mrw_reach_is_peer(reach, p, r));
			whole = whole && (p == r || mrw_reach_is_peer(reach, r, p));
			if (!mrw_reach_is_peer(reach, r, p))
				continue;
			uint32_t slot = mrw_reach_slot(reach, r, p);
			assert_true(slot < l.slots);
			assert_false(taken >> slot & 1);
			taken |= 1ull << slot;
			if (reach->rails)
				assert_int_equal(slot < l.near_slots, reach->host[r] == reach->host[p]);
		}
		if (!reach->tree)
			assert_int_equal(taken, l.slots == 64 ? UINT64_MAX : (1ull << l.slots) - 1);
		assert_int_equal(taken & (taken + 1), 0); /* no gaps */
		all |= taken;
	}
	assert_int_equal(reach->whole, whole);
	assert_int_equal(all, l.slots == 64 ? UINT64_MAX : (1ull << l.slots) - 1);
}

/* Hosts of ranks in blocks, in turns, and shuffled. */
static void place(uint32_t *host, uint32_t hosts, uint32_t per_host, uint32_t how)
{
	uint32_t n = hosts * per_host;
	for (uint32_t r = 0; r < n; r++)
		host[r] = 7 + (how == 0 ? r / per_host : how == 1 ? r % hosts : r * 5 % n / per_host);
}

static void equal_hosts_have_rails(void **state)
{
	(void)state;
	static const uint32_t shapes[][2] = {{2, 2}, {3, 2}, {4, 4}, {2, 16}, {16, 4}, {8, 8}};
	uint32_t host[MRW_MAX_RANKS];
	for (size_t k = 0; k < COUNT(shapes); k++)
		for (uint32_t how = 0; how < (shapes[k][0] * shapes[k][1] % 5 ? 3 : 2); how++) {
			uint32_t hosts = shapes[k][0], per_host = shapes[k][1], n = hosts * per_host, peers = 0;
			place(host, hosts, per_host, how);
			struct mrw_reach reach = mrw_reach_of(n, host, -1);
			assert_int_equal(reach.rails, n > MRW_MAX_WHOLE); /* few ranks reach everybody, unless told otherwise */
			check_slots(&reach);
			reach = mrw_reach_of(n, host, MRW_ALGO_RAILSHOT);
			assert_true(reach.rails);
			assert_int_equal(reach.hosts, hosts);
			assert_int_equal(reach.per_host, per_host);
			for (uint32_t p = 0; p < n; p++)
				peers += mrw_reach_is_peer(&reach, 0, p);
			assert_int_equal(peers, hosts + per_host - 2);
			check_slots(&reach);
			/* an algorithm that wants all */
			reach = mrw_reach_of(n, host, MRW_ALGO_BULK);
			assert_false(reach.rails);
			check_slots(&reach);
			assert_true(mrw_reach_of(n, host, MRW_ALGO_RAIL).rails);
		}
}

static void others_have_none(void **state)
{
	(void)state;
	static const uint32_t unequal[] = {0, 0, 1}, alone[] = {4, 3, 2, 1}, one[] = {5, 5, 5};
	struct mrw_reach reach = mrw_reach_of(3, unequal, -1);
	assert_false(reach.rails);
	assert_int_equal(reach.hosts, 2);
	assert_int_equal(reach.per_host, 0);
	check_slots(&reach);
	reach = mrw_reach_of(4, alone, MRW_ALGO_RAIL);
	assert_false(reach.rails);
	assert_int_equal(reach.hosts, 4);
	check_slots(&reach);
	reach = mrw_reach_of(3, one, -1);
	assert_int_equal(reach.hosts, 1);
	assert_false(reach.rails);
	check_slots(&reach);
	assert_non_null(reach.reason);
}

static void rings_join_neighbours(void **state)
{
	(void)state;
	static const uint32_t host[] = {0, 1, 2, 0, 1, 1}, position[] = {0, 2, 5, 1, 3, 4};
	for (uint32_t n = 2; n <= 6; n++) {
		struct mrw_reach reach = mrw_reach_of(n, host, MRW_ALGO_RING);
		uint32_t peers = 0;
		assert_true(reach.ring);
		assert_false(reach.rails);
		check_slots(&reach);
		for (uint32_t p = 0; p < n; p++)
			peers += mrw_reach_is_peer(&reach, 0, p);
		assert_int_equal(peers, n > 2 ? 2 : 1);
	}
	struct mrw_reach reach = mrw_reach_of(6, host, MRW_ALGO_RING);
	assert_memory_equal(reach.position, position, sizeof position);
	assert_true(mrw_reach_is_peer(&reach, 2, 0)); /* closed */
	static const uint32_t one[] = {3, 3};
	assert_false(mrw_reach_of(2, one, MRW_ALGO_RING).ring); /* never within a host */
}

static void trees_join_parents_children_and_neighbours(void **state)
{
	(void)state;
	static const uint32_t in_turns[] = {0, 1, 2, 0, 1, 1, 2, 2, 0, 3};
	uint32_t host[MRW_MAX_RANKS];
	for (uint32_t n = 2; n <= MRW_MAX_RANKS; n++)
		for (uint32_t shuffled = 0; shuffled < 2; shuffled++) {
			for (uint32_t r = 0; r < n; r++)
				host[r] = shuffled ? in_turns[r % 10] : r;
			struct mrw_reach reach = mrw_reach_of(n, host, n % 2 ? MRW_ALGO_TREE : MRW_ALGO_TREESHOT);
			assert_true(reach.tree && !reach.rails && !reach.ring);
			check_slots(&reach);
			uint32_t most = 0, pairs = 0;
			for (uint32_t r = 0; r < n; r++) {
				uint32_t peers = 0, position = reach.position[r];
				assert_int_equal(reach.at[position], r);
				for (uint32_t p = 0; p < n; p++)
					peers += mrw_reach_is_peer(&reach, r, p);
				most = peers > most ? peers : most;
				pairs += peers;
				assert_true(mrw_reach_is_peer(&reach, r, reach.at[(position + 1) % n]));
				for (uint32_t k = 0; k < MRW_TREES; k++) {
					struct mrw_tree t = mrw_tree_at(n, k, position);
					for (uint32_t i = 0; i < MRW_TREE_NEIGHBOURS; i++)
						if (t.neighbour[i] != MRW_TREE_NONE)
							assert_true(mrw_reach_is_peer(&reach, r, reach.at[t.neighbour[i]]));
					for (uint32_t i = 0; i < MRW_TREE_PARENT; i++) /* children side by side */
						if (t.neighbour[i] != MRW_TREE_NONE)
							assert_int_equal(mrw_reach_slot(&reach, r, reach.at[t.neighbour[i]]), i);
				}
			}
			assert_in_range(most, 1, MRW_TREE_PEERS);
			assert_int_equal(reach.whole, pairs == n * (n - 1));
			assert_int_equal(mrw_reach_layout(&reach, 4, MRW_HOST_STAGING_BUDGET).slots, most);
		}
	static const uint32_t one[] = {3, 3};
	assert_false(mrw_reach_of(2, one, MRW_ALGO_TREE).tree); /* never within a host */
}

/* Numbers are given in rank order. */
static void numbers_follow_ranks(void **state)
{
	(void)state;
	static const uint32_t host[] = {9, 2, 2, 9};
	struct mrw_reach reach = mrw_reach_of(4, host, MRW_ALGO_RAIL);
	static const uint32_t hosts[] = {0, 1, 1, 0}, locals[] = {0, 0, 1, 1};
	assert_memory_equal(reach.host, hosts, sizeof hosts);
	assert_memory_equal(reach.local, locals, sizeof locals);
	assert_true(mrw_reach_is_peer(&reach, 0, 1));  /* the rail */
	assert_true(mrw_reach_is_peer(&reach, 0, 3));  /* the host */
	assert_false(mrw_reach_is_peer(&reach, 0, 2));
	assert_false(mrw_reach_is_peer(&reach, 0, 0));
}

/* Channels are given up for chunks that are worth a message, but not below what pushes into NVLink; elsewhere for what an arena must hold. */
static void channels_fit_the_arena(void **state)
{
	static const struct {
		uint32_t hosts, per_host, channels;
	} rows[] = {{2, 8, 64}, {4, 8, 64}, {8, 8, 32}, {4, 16, 32}, {32, 2, 16}};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		uint32_t host[MRW_MAX_RANKS], channels = MRW_MAX_CHANNELS;
		place(host, rows[i].hosts, rows[i].per_host, 0);
		struct mrw_reach reach = mrw_reach_of(rows[i].hosts * rows[i].per_host, host, MRW_ALGO_RAIL);
		struct mrw_layout l = mrw_reach_fit(&reach, &channels, MRW_STAGING_BUDGET);
		assert_int_equal(reach.rails, 1);
		assert_int_equal(channels, rows[i].channels);
		assert_int_equal(l.channels, channels);
		assert_true(channels == 16 || l.chunk_bytes >= 1536);
		channels = 8; /* as many as asked for */
		l = mrw_reach_fit(&reach, &channels, MRW_STAGING_BUDGET);
		assert_int_equal(channels, 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_hosts_have_rails),
		cmocka_unit_test(others_have_none),
		cmocka_unit_test(rings_join_neighbours),
		cmocka_unit_test(trees_join_parents_children_and_neighbours),
		cmocka_unit_test(numbers_follow_ranks),
		cmocka_unit_test(channels_fit_the_arena),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
