/* test_rounds.c - a model of the round protocol (device/wire.h): every legal interleaving of a few ranks is walked, and no slot
 * is rewritten before it was read, none read before it was written, and nobody waits for ever.
 *
 * A rank in a round is anywhere between its wait and its publish, so its reads and writes happen at any time between the two
 * steps "enter" and "complete": the state of a rank is one number, 2 * round + entered. Operations differ in length,
 * exchanges and lag; a program is a sequence of them, the same on all ranks. Channels other than 0 have no other
 * synchronisation, and the model has none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collectives/schedule.h"

enum { MAX_ROUNDS = 64, MAX_OPS = 4, MODEL_RANKS = 4, NONE = -1, MAX_STATES = 1 << 21 };

struct model_op {
	uint32_t chunks, exchanges, lag;
};

struct model {
	uint32_t nranks, slots;
	int slack;                              /* 0: the protocol; 1: a rank enters one round early */
	int rounds;
	int lag[MAX_ROUNDS];                    /* of the operation that a round belongs to */
	int read_by[MRW_FORMATS][MAX_ROUNDS];   /* round in which what is written in this round is read; NONE: nothing is written */
	int reads[MRW_FORMATS][MAX_ROUNDS];     /* round whose data is read in this round; NONE */
};

static void model_make(struct model *m, uint32_t nranks, const struct model_op *ops, uint32_t count)
{
	memset(m, 0, sizeof *m);
	m->nranks = nranks;
	m->slots = MRW_ROUND_SLOTS;
	for (uint32_t f = 0; f < MRW_FORMATS; f++)
		for (int i = 0; i < MAX_ROUNDS; i++)
			m->read_by[f][i] = m->reads[f][i] = NONE;
	for (uint32_t k = 0; k < count; k++) {
		int lag = (int)ops[k].lag, rounds = (int)mrw_rounds(ops[k].chunks, ops[k].exchanges, ops[k].lag);
		assert_true(m->rounds + rounds <= MAX_ROUNDS);
		for (int t = 0; t < rounds; t++) {
			int round = m->rounds + t;
			m->lag[round] = lag;
			for (int f = 0; f < (int)ops[k].exchanges; f++) { /* exchange f starts f lags later */
				int index = t - f * lag;
				if (index < 0 || index >= (int)ops[k].chunks)
					continue;
				m->read_by[f][round] = round + lag;
				m->reads[f][round + lag] = round;
			}
		}
		m->rounds += rounds;
	}
}

static int completed(int state)
{
	return state / 2;
}

/* The last round that a rank in this state has entered. */
static int entered(int state)
{
	return state / 2 - !(state & 1);
}

/* mrw_rounds_wait(): round - lag is completed by every peer. */
static bool may_enter(const struct model *m, const int *states, uint32_t rank)
{
	int round = states[rank] / 2;
	for (uint32_t p = 0; p < m->nranks; p++)
		if (p != rank && completed(states[p]) < round - m->lag[round] + 1 - m->slack)
			return false;
	return true;
}

/* What rank does in the round it enters now, against where the others are. NULL, or what went wrong. */
static const char *enter(const struct model *m, const int *states, uint32_t rank)
{
	int round = states[rank] / 2;
	for (uint32_t f = 0; f < MRW_FORMATS; f++) {
		int source = m->reads[f][round];
		for (uint32_t p = 0; p < m->nranks; p++) {
			if (p == rank)
				continue;
			if (source != NONE && completed(states[p]) <= source)
				return "read before it was written";
			/* p as writer: a newer chunk in the slot that is read now */
			for (int later = source + (int)m->slots; source != NONE && later <= entered(states[p]); later += (int)m->slots)
				if (m->read_by[f][later] != NONE)
					return "read after it was rewritten";
			/* p as reader: an older chunk in the slot that is written now */
			for (int older = round - (int)m->slots; m->read_by[f][round] != NONE && older >= 0; older -= (int)m->slots)
				if (m->read_by[f][older] != NONE && completed(states[p]) <= m->read_by[f][older])
					return "written before it was read";
		}
	}
	return NULL;
}

static uint8_t visited[MAX_STATES];

/* Walks all states that can be reached. NULL, or what went wrong in one of them. */
static const char *walk(const struct model *m)
{
	static int stack[MAX_STATES];
	int base = 2 * m->rounds + 1, total = 1, depth = 0;
	for (uint32_t r = 0; r < m->nranks; r++)
		total *= base;
	assert_true(total <= MAX_STATES);
	memset(visited, 0, (size_t)total);
	stack[depth++] = 0;
	visited[0] = 1;
	while (depth > 0) {
		int code = stack[--depth], states[MODEL_RANKS], weight = 1;
		bool moved = false;
		for (uint32_t r = 0, rest = (uint32_t)code; r < m->nranks; r++, rest /= (uint32_t)base)
			states[r] = (int)(rest % (uint32_t)base);
		for (uint32_t r = 0; r < m->nranks; r++, weight *= base) {
			if (states[r] == 2 * m->rounds)
				continue;
			if (!(states[r] & 1)) {
				if (!may_enter(m, states, r))
					continue;
				const char *wrong = enter(m, states, r);
				if (wrong)
					return wrong;
			}
			moved = true;
			if (!visited[code + weight]) {
				visited[code + weight] = 1;
				stack[depth++] = code + weight;
			}
		}
		if (!moved && code != total - 1)
			return "nobody can move";
	}
	return visited[total - 1] ? NULL : "the end is never reached";
}

/* Every sequence of count operations with these numbers of chunks and lags up to max_lag. Returns how many went wrong. */
static int walk_programs(uint32_t nranks, uint32_t count, const uint32_t *chunks, uint32_t choices, uint32_t max_lag, uint32_t slots,
			 int slack)
{
	uint32_t kinds = choices * 2 * max_lag, programs = 1;
	int wrong = 0;
	for (uint32_t k = 0; k < count; k++)
		programs *= kinds;
	for (uint32_t code = 0; code < programs; code++) {
		struct model_op ops[MAX_OPS];
		struct model m;
		for (uint32_t k = 0, rest = code; k < count; k++, rest /= kinds) {
			uint32_t kind = rest % kinds;
			ops[k].chunks = chunks[kind / (2 * max_lag)];
			ops[k].exchanges = 1 + kind % 2;
			ops[k].lag = 1 + kind / 2 % max_lag;
		}
		model_make(&m, nranks, ops, count);
		m.slots = slots;
		m.slack = slack;
		const char *why = walk(&m);
		wrong += why != NULL;
		if (why && wrong == 1 && slots >= 2 * max_lag && slack == 0)
			print_error("%u ranks, %u slots, program %u of %u operations: %s\n", nranks, slots, code, count, why);
	}
	return wrong;
}

static const uint32_t many[] = {0, 1, 2, 3, 4, 5, 9}, some[] = {0, 1, 3, 6}, few[] = {0, 1, 5}, one[] = {2};

static void the_constants_are_safe(void **state)
{
	(void)state;
	assert_int_equal(walk_programs(2, 2, many, 7, MRW_MAX_LAG, MRW_ROUND_SLOTS, 0), 0);
	assert_int_equal(walk_programs(2, 3, some, 4, MRW_MAX_LAG, MRW_ROUND_SLOTS, 0), 0);
	assert_int_equal(walk_programs(3, 2, few, 3, MRW_MAX_LAG, MRW_ROUND_SLOTS, 0), 0);
	assert_int_equal(walk_programs(4, 1, few, 3, MRW_MAX_LAG, MRW_ROUND_SLOTS, 0), 0);
	assert_int_equal(walk_programs(4, 2, one, 1, MRW_MAX_LAG, MRW_ROUND_SLOTS, 0), 0);
}

/* The rule behind them: twice as many slots as the largest lag, and lags may change from operation to operation. */
static void the_rule_is_safe_for_any_lag(void **state)
{
	(void)state;
	for (uint32_t lag = 1; lag <= 3; lag++) {
		assert_int_equal(walk_programs(2, 2, many, 7, lag, 2 * lag, 0), 0);
		assert_int_equal(walk_programs(3, 2, one, 1, lag, 2 * lag, 0), 0);
	}
	assert_int_equal(walk_programs(2, 3, some, 4, 2, 4, 0), 0);
}

/* The walk is able to see what it looks for: a slot too few, or an early entry. */
static void the_model_notices(void **state)
{
	(void)state;
	for (uint32_t lag = 1; lag <= 3; lag++) {
		assert_true(walk_programs(2, 2, few, 3, lag, 2 * lag - 1, 0) > 0);
		assert_true(walk_programs(2, 2, few, 3, lag, 2 * lag, 1) > 0);
		assert_int_equal(walk_programs(2, 2, few, 3, lag, 2 * lag + 1, 0), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_constants_are_safe),
		cmocka_unit_test(the_rule_is_safe_for_any_lag),
		cmocka_unit_test(the_model_notices),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
