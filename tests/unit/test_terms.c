/* test_terms.c - whoever differs is found, and the words name rank, field, both values and the remedy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/args.h"
#include "terms.h"

enum { RANKS = 64 };

static struct mrw_terms all[RANKS];

static void start(void)
{
	for (uint32_t r = 0; r < RANKS; r++)
		for (uint32_t t = 0; t < MRW_TERM_COUNT; t++)
			all[r].value[t] = 100 + t;
}

static void every_difference_is_found(void **state)
{
	(void)state;
	uint32_t rank;
	enum mrw_term term;
	start();
	assert_false(mrw_terms_differ(all, RANKS, &rank, &term));
	assert_false(mrw_terms_differ(all, 1, &rank, &term));
	for (uint32_t r = 1; r < RANKS; r++)
		for (uint32_t t = 0; t < MRW_TERM_COUNT; t++)
			for (int bit = 0; bit < 64; bit += 21) {
				start();
				all[r].value[t] ^= 1ull << bit;
				assert_true(mrw_terms_differ(all, RANKS, &rank, &term));
				assert_int_equal(rank, r);
				assert_int_equal(term, t);
				assert_false(mrw_terms_differ(all, r, &rank, &term)); /* who comes before is sound */
			}
	/* Rank 0 is the one that differs: still everybody says the same. */
	start();
	all[0].value[MRW_TERM_ALGO]++;
	assert_true(mrw_terms_differ(all, RANKS, &rank, &term));
	assert_int_equal(rank, 1);
	assert_int_equal(term, MRW_TERM_ALGO);
}

static void check_text(enum mrw_term term, uint64_t mine, uint64_t of_zero, const char *want)
{
	struct mrw_terms a, b;
	char text[512], name[] = "rank 3 (here)", zero[] = "rank 0 (there)";
	memset(&a, 0, sizeof a);
	memset(&b, 0, sizeof b);
	a.value[term] = mine;
	b.value[term] = of_zero;
	mrw_terms_text(&a, &b, term, name, zero, text, sizeof text);
	if (strncmp(text, want, strlen(want)) != 0)
		fail_msg("\"%s\" does not begin with \"%s\"", text, want);
	assert_non_null(strchr(text, ':'));
	mrw_terms_text(&a, &b, term, name, zero, text, 10); /* cut off, not overrun */
	assert_int_equal(strlen(text), 9);
}

static void words(void **state)
{
	(void)state;
	uint64_t none = (uint64_t)(int64_t)-1;
	check_text(MRW_TERM_ALGO, MRW_ALGO_RING, none,
		   "rank 3 (here) has MARROW_ALGO=ring, rank 0 (there) has no MARROW_ALGO: set MARROW_ALGO or config.algo equally");
	check_text(MRW_TERM_ALGO, none, MRW_ALGO_BULK, "rank 3 (here) has no MARROW_ALGO, rank 0 (there) has MARROW_ALGO=bulk: set");
	check_text(MRW_TERM_TARGET, MARROW_TARGET_CUDA, MARROW_TARGET_HOST, "rank 3 (here) has target cuda, rank 0 (there) has target host: set");
	check_text(MRW_TERM_VERSION, 101, 100, "rank 3 (here) has library version 101, rank 0 (there) has library version 100: install");
	check_text(MRW_TERM_CHANNELS, 4, 2, "rank 3 (here) has channel limit 4, rank 0 (there) has channel limit 2: ");
}

static void digests_depend_on_every_byte(void **state)
{
	(void)state;
	uint8_t bytes[64] = {0};
	uint64_t none = mrw_terms_digest(0, bytes, sizeof bytes), seen[64];
	assert_int_not_equal(mrw_terms_digest(0, NULL, 0), 0);
	assert_int_equal(mrw_terms_digest(mrw_terms_digest(0, bytes, 10), bytes, 4), mrw_terms_digest(mrw_terms_digest(0, bytes, 10), bytes + 20, 4));
	for (size_t i = 0; i < sizeof bytes; i++) {
		bytes[i] = 1;
		seen[i] = mrw_terms_digest(0, bytes, sizeof bytes);
		bytes[i] = 0;
		assert_int_not_equal(seen[i], none);
		assert_int_not_equal(seen[i], 0);
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(seen[i], seen[k]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_difference_is_found),
		cmocka_unit_test(words),
		cmocka_unit_test(digests_depend_on_every_byte),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
