/* test_team.c - the host target's team barrier and its vote. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/team.h"

enum { MAX_TEAM = 6, GENERATIONS = 3000 };

struct shared {
	struct mrw_team_barrier barrier;
	uint32_t size;
	uint64_t plain[MAX_TEAM]; /* unsynchronised but by the team: thread i writes word i before each sync */
	uint32_t wrong;
};

struct member {
	struct shared *shared;
	uint32_t index;
	pthread_t thread;
};

/* Which threads vote true in a generation: none, all, one or some. */
static bool votes(uint32_t generation, uint32_t index, uint32_t size)
{
	uint32_t x = generation * 2654435761u;
	switch (x >> 30) {
	case 0: return false;
	case 1: return index == (x >> 8) % size;
	case 2: return x >> index & 1;
	default: return true;
	}
}

static void *take_part(void *p)
{
	struct member *m = p;
	struct shared *s = m->shared;
	struct mrw_team team = {m->index, s->size, &s->barrier, NULL};
	for (uint32_t g = 1; g <= GENERATIONS; g++) {
		bool want = false;
		for (uint32_t i = 0; i < s->size; i++)
			want |= votes(g, i, s->size);
		s->plain[m->index] = g;
		if (mrw_team_any(&team, votes(g, m->index, s->size)) != want)
			__atomic_fetch_add(&s->wrong, 1, __ATOMIC_RELAXED);
		for (uint32_t i = 0; i < s->size; i++) /* nobody passes before all have arrived, nobody writes before all have read */
			if (s->plain[i] != g)
				__atomic_fetch_add(&s->wrong, 1, __ATOMIC_RELAXED);
		/* A sync, too. */
		if (mrw_team_tell(&team, m->index == 0 ? 7 * g : m->index) != 7 * g)
			__atomic_fetch_add(&s->wrong, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void votes_and_order(void **state)
{
	(void)state;
	for (uint32_t size = 2; size <= MAX_TEAM; size++) {
		struct shared s;
		struct member members[MAX_TEAM];
		memset(&s, 0, sizeof s);
		s.size = size;
		for (uint32_t i = 0; i < size; i++) {
			members[i].shared = &s;
			members[i].index = i;
			assert_int_equal(pthread_create(&members[i].thread, NULL, take_part, &members[i]), 0);
		}
		for (uint32_t i = 0; i < size; i++)
			pthread_join(members[i].thread, NULL);
		assert_int_equal(s.wrong, 0);
	}
}

static void one_thread_is_its_own_team(void **state)
{
	(void)state;
	struct mrw_team team = {0, 1, NULL, NULL};
	assert_true(mrw_team_any(&team, true));
	assert_false(mrw_team_any(&team, false));
	mrw_team_sync(&team);
	assert_int_equal(mrw_team_tell(&team, 5), 5);
	assert_int_equal(mrw_team_high(&team), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(votes_and_order),
		cmocka_unit_test(one_thread_is_its_own_team),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
