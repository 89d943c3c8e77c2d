/* test_waits.c - how long kernels wait for a peer, and when they say so, as communicators have it: by default, and as asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <marrow/marrow.h>

#include "comm.h"

#define SECOND_NS UINT64_C(1000000000)
#define DEADLINE_NS (30 * 60 * SECOND_NS)
#define NOTE_NS (10 * SECOND_NS)
#define PROOF_NS (30 * SECOND_NS) /* of init's kernel at most */

enum { RANKS = 2 };

/* The host target, and what its kernels are given. */
static struct mrw_runtime seen;
static uint64_t deadline_ns, note_ns, proof_ns;

static enum marrow_status launch(struct mrw_device *d, enum mrw_kernel kernel, enum marrow_type type, const struct mrw_args *args, uint32_t threads,
				 void *stream)
{
	/* Ranks of a group launch side by side, the same. */
	__atomic_store_n(kernel == MRW_KERNEL_PROVE ? &proof_ns : &deadline_ns, args->deadline_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&note_ns, args->note_ns, __ATOMIC_RELAXED);
	return mrw_host_runtime.launch(d, kernel, type, args, threads, stream);
}

static enum marrow_status open_device(struct mrw_device *d, int32_t ordinal, int32_t local_rank)
{
	enum marrow_status status = mrw_host_runtime.open(d, ordinal, local_rank);
	d->runtime = &seen;
	return status;
}

/* Builds a communicator, sums by it, and takes it down: what its kernels were given stays. */
static void live(const struct marrow_config *config, uint64_t timeout_ms)
{
	struct marrow_comm *comms[RANKS] = {NULL};
	struct marrow_comm_properties properties = {.size = sizeof properties};
	struct marrow_unique_id id;
	float one[RANKS] = {1, 1}, sum[RANKS] = {0};

	deadline_ns = note_ns = proof_ns = 0;
	assert_int_equal(marrow_get_unique_id(&id), MARROW_SUCCESS);
	assert_int_equal(marrow_group_start(), MARROW_SUCCESS);
	for (uint32_t r = 0; r < RANKS; r++)
		assert_int_equal(marrow_comm_init(&comms[r], RANKS, &id, r, config), MARROW_SUCCESS);
	assert_int_equal(marrow_group_end(), MARROW_SUCCESS);
	assert_int_equal(marrow_group_start(), MARROW_SUCCESS);
	for (uint32_t r = 0; r < RANKS; r++)
		assert_int_equal(marrow_all_reduce(&one[r], &sum[r], 1, MARROW_FLOAT32, MARROW_SUM, comms[r], NULL), MARROW_SUCCESS);
	assert_int_equal(marrow_group_end(), MARROW_SUCCESS);
	for (uint32_t r = 0; r < RANKS; r++) {
		assert_true(sum[r] == RANKS);
		assert_int_equal(marrow_comm_get_properties(comms[r], &properties), MARROW_SUCCESS);
		assert_int_equal(properties.timeout_ms, timeout_ms);
		assert_int_equal(marrow_comm_destroy(comms[r]), MARROW_SUCCESS);
	}
}

static void half_an_hour_and_a_note_after_ten_seconds(void **state)
{
	struct marrow_config config = MARROW_CONFIG_INIT;

	(void)state;
	config.target = MARROW_TARGET_HOST;
	live(&config, DEADLINE_NS / 1000000);
	assert_int_equal(deadline_ns, DEADLINE_NS);
	assert_int_equal(note_ns, NOTE_NS);
	assert_int_equal(proof_ns, PROOF_NS);
}

static void as_long_as_asked_for(void **state)
{
	struct marrow_config config = MARROW_CONFIG_INIT;

	(void)state;
	config.target = MARROW_TARGET_HOST;
	config.timeout_ms = 20000; /* less than the proof may take, too */
	live(&config, 20000);
	assert_int_equal(deadline_ns, 20 * SECOND_NS);
	assert_int_equal(note_ns, NOTE_NS);
	assert_int_equal(proof_ns, 15 * SECOND_NS); /* three quarters: others wait in an exchange for the words of who misses something */
	config.timeout_ms = 24 * 60 * 60 * 1000;
	live(&config, config.timeout_ms);
	assert_int_equal(deadline_ns, 24 * 60 * 60 * SECOND_NS);
	assert_int_equal(proof_ns, PROOF_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(half_an_hour_and_a_note_after_ten_seconds),
		cmocka_unit_test(as_long_as_asked_for),
	};

	unsetenv("MARROW_TIMEOUT_MS");
	seen = mrw_host_runtime;
	seen.open = open_device;
	seen.launch = launch;
	mrw_comm_runtime = &seen;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
