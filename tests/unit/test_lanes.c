/* test_lanes.c - a model of one lane (device/wire.h) with its two ends: every legal interleaving is walked, and no line, packet or chunk
 * is rewritten before it was read, none read before it was written, and nobody waits for ever.
 *
 * A program is the same sequence of transfers at both ends; each makes steps of it. What a step writes or reads it does at any
 * time between its two halves, "enter" and "complete"; a line may be seen from the moment when its writer entered the step, a count when the
 * step is complete. So the state of an end is one number, 2 * steps + entered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/wire.h"

enum { MAX_STEPS = 64, MAX_TRANSFERS = 5, MAX_STATES = 2 * MAX_STEPS + 2 };
enum act { SAY, HEAR, PASS };

/* What a transfer is for this lane. A small one of another lane does not exist for it. */
struct kind {
	int home, chunks;
};
static const struct kind kinds[] = {{1, 0}, {1, 1}, {1, 3}, {0, 1}, {0, 4}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

struct step {
	enum act act;
	int number;               /* turn of SAY and HEAR; chunk of PASS; since ever */
};

struct end {
	struct step steps[MAX_STEPS];
	int count;
};

/* 0: the protocol; else one thing is wrong. */
struct rules {
	int parities, slots, credit, deaf; /* deaf: the sender does not hear */
};
static const struct rules protocol = {2, MRW_LANE_SLOTS, 0, 0};

static void add(struct end *e, enum act act, int number)
{
	assert_true(e->count < MAX_STEPS);
	e->steps[e->count++] = (struct step){act, number};
}

/* move_transfers.h: the receiver hears before it takes chunks, the sender after it has put them. */
static void program_make(const int *program, int count, const struct rules *rules, struct end *sender, struct end *receiver)
{
	int turn = 0, chunk = 0;
	sender->count = receiver->count = 0;
	for (int i = 0; i < count; i++) {
		const struct kind *k = &kinds[program[i]];
		if (k->home) {
			add(sender, SAY, turn);
			add(receiver, SAY, turn);
			add(receiver, HEAR, turn);
		}
		for (int c = 0; c < k->chunks; c++) {
			add(sender, PASS, chunk + c);
			add(receiver, PASS, chunk + c);
		}
		if (k->home && !rules->deaf)
			add(sender, HEAR, turn);
		turn += k->home;
		chunk += k->chunks;
	}
}

/* Whether the end has got to the step: 0 no, 1 entered, 2 complete. Steps that do not exist are complete if they lie before the program. */
static int reached(const struct end *e, int state, enum act act, int number)
{
	if (number < 0)
		return 2;
	for (int i = 0; i < e->count; i++)
		if (e->steps[i].act == act && e->steps[i].number == number)
			return i < state / 2 ? 2 : i == state / 2 && (state & 1) ? 1 : 0;
	return 0;
}

static int may_enter(const struct end *self, int mine, const struct end *other, int theirs, int sends, const struct rules *rules)
{
	const struct step *s = &self->steps[mine / 2];
	switch (s->act) {
	case SAY:
		return 1;
	case HEAR:
		return reached(other, theirs, SAY, s->number) > 0;
	default:
		return sends ? reached(other, theirs, PASS, s->number - rules->slots - rules->credit) == 2 : reached(other, theirs, PASS, s->number) == 2;
	}
}

/* What goes wrong if the end makes its step now, NULL: nothing. */
static const char *enter(const struct end *self, int mine, const struct end *other, int theirs, int sends, const struct rules *rules)
{
	const struct step *s = &self->steps[mine / 2];
	if (s->act == SAY && !(sends ? 0 : rules->deaf) && reached(other, theirs, HEAR, s->number - rules->parities) != 2)
		return "a line was rewritten before it was read";
	if (s->act == PASS && sends && reached(other, theirs, PASS, s->number - rules->slots) != 2)
		return "a chunk was rewritten before it was read";
	if (s->act == PASS && !sends && reached(other, theirs, PASS, s->number) != 2)
		return "a chunk was read before it was written";
	return NULL;
}

static uint8_t visited[MAX_STATES][MAX_STATES];

static const char *walk(const struct end *sender, const struct end *receiver, const struct rules *rules)
{
	static int stack[MAX_STATES * MAX_STATES][2];
	int depth = 0;
	memset(visited, 0, sizeof visited);
	stack[depth][0] = stack[depth][1] = 0;
	depth++;
	visited[0][0] = 1;
	while (depth > 0) {
		depth--;
		int at[2] = {stack[depth][0], stack[depth][1]};
		bool moved = false;
		for (int e = 0; e < 2; e++) {
			const struct end *self = e ? receiver : sender, *other = e ? sender : receiver;
			if (at[e] == 2 * self->count)
				continue;
			if (!(at[e] & 1)) {
				if (!may_enter(self, at[e], other, at[1 - e], !e, rules))
					continue;
				const char *wrong = enter(self, at[e], other, at[1 - e], !e, rules);
				if (wrong)
					return wrong;
			}
			moved = true;
			int next[2] = {at[0] + (e == 0), at[1] + (e == 1)};
			if (!visited[next[0]][next[1]]) {
				visited[next[0]][next[1]] = 1;
				stack[depth][0] = next[0];
				stack[depth][1] = next[1];
				depth++;
			}
		}
		if (!moved && (at[0] != 2 * sender->count || at[1] != 2 * receiver->count))
			return "nobody can move";
	}
	return visited[2 * sender->count][2 * receiver->count] ? NULL : "the end is never reached";
}

/* All programs of count transfers. Returns how many went wrong. */
static int walk_programs(int count, const struct rules *rules)
{
	int programs = 1, wrong = 0;
	for (int i = 0; i < count; i++)
		programs *= KINDS;
	for (int code = 0; code < programs; code++) {
		int program[MAX_TRANSFERS];
		struct end sender, receiver;
		for (int i = 0, rest = code; i < count; i++, rest /= KINDS)
			program[i] = rest % KINDS;
		program_make(program, count, rules, &sender, &receiver);
		const char *why = walk(&sender, &receiver, rules);
		wrong += why != NULL;
		if (why && rules == &protocol && wrong == 1)
			print_error("program %d of %d transfers: %s\n", code, count, why);
	}
	return wrong;
}

static void the_protocol_is_safe(void **state)
{
	(void)state;
	for (int count = 1; count <= MAX_TRANSFERS; count++)
		assert_int_equal(walk_programs(count, &protocol), 0);
}

/* One parity less, one chunk more under way, a sender that does not wait: the walk sees it. */
static void the_model_notices(void **state)
{
	(void)state;
	static const struct rules one_parity = {1, MRW_LANE_SLOTS, 0, 0}, no_credit = {2, MRW_LANE_SLOTS, 1, 0}, deaf = {2, MRW_LANE_SLOTS, 0, 1};
	assert_true(walk_programs(3, &one_parity) > 0);
	assert_true(walk_programs(3, &no_credit) > 0);
	assert_true(walk_programs(4, &deaf) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_protocol_is_safe),
		cmocka_unit_test(the_model_notices),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
