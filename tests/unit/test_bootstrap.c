/* What ranks do once they have met: exchange, pass descriptors, notice each other's end, and leave nothing behind. */
#include "boot_parts.h"

#include <dirent.h>
#include <signal.h>

static const uint32_t sizes[] = {1, 2, 3, 4, 7, 8, 16};

static void meets_as_threads(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		prepare(sizes[i], sizes[i], act_exchange);
		play_threads(sizes[i]);
		assert_all(sizes[i], MARROW_SUCCESS);
		assert_string_equal(logged, "");
	}
}

static void meets_as_processes(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		prepare(sizes[i], sizes[i], act_exchange);
		play_processes(sizes[i], (int)(next_random(&seed) % sizes[i]));
		assert_all(sizes[i], MARROW_SUCCESS);
		assert_string_equal(logged, "");
	}
}

static void meets_again(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (int processes = 0; processes < 2; processes++) {
			prepare(sizes[i], sizes[i], act_again);
			if (processes)
				play_processes(sizes[i], (int)(next_random(&seed) % sizes[i]));
			else
				play_threads(sizes[i]);
			assert_all(sizes[i], MARROW_SUCCESS);
			assert_string_equal(logged, "");
		}
}

static enum marrow_status act_large(struct part *part, struct mrw_boot *boot)
{
	MRW_TRY(gather_once(part, boot, 1 << 20, 0));
	return mrw_boot_barrier(boot);
}

static void gathers_large_blocks(void **state)
{
	(void)state;
	prepare(5, 5, act_large);
	play_threads(5);
	assert_all(5, MARROW_SUCCESS);
	prepare(2, 2, act_large);
	play_processes(2, 0);
	assert_all(2, MARROW_SUCCESS);
}

static enum marrow_status act_unequal(struct part *part, struct mrw_boot *boot)
{
	return gather_once(part, boot, part->rank ? 8 : 16, 0);
}

static void names_unequal_blocks(void **state)
{
	(void)state;
	prepare(2, 2, act_unequal);
	play_threads(2);
	for (int i = 0; i < 2; i++) {
		assert_true(parts[i].status == MARROW_MISMATCH || parts[i].status == MARROW_REMOTE_ERROR);
		assert_contains(parts[i].text, "bytes where");
	}
}

static enum marrow_status swap_with(struct part *part, struct mrw_boot *boot, uint32_t step, uint32_t round)
{
	uint32_t peers[RANKS_MAX], npeers = 0, got[2];
	int fd = memfd_create("swap", MFD_CLOEXEC), received[RANKS_MAX];
	uint32_t mine[2] = {part->rank, round};
	enum marrow_status status;

	for (uint32_t r = part->rank % step; r < part->nranks; r += step)
		if (r != part->rank)
			peers[npeers++] = r;
	if (write(fd, mine, sizeof mine) != sizeof mine)
		return mrw_fail_errno(MARROW_SYSTEM_ERROR, "write");
	status = mrw_boot_swap_fds(boot, peers, npeers, fd, received);
	close(fd);
	MRW_TRY(status);
	for (uint32_t i = 0; i < npeers; i++) {
		if (pread(received[i], got, sizeof got, 0) != sizeof got || got[0] != peers[i] || got[1] != round)
			return mrw_fail(MARROW_INTERNAL_ERROR, "descriptor of rank %u holds %u, %u", peers[i], got[0],
					got[1]);
		close(received[i]);
	}
	return MARROW_SUCCESS;
}

static enum marrow_status act_swap(struct part *part, struct mrw_boot *boot)
{
	MRW_TRY(swap_with(part, boot, 1, 0));
	if (part->rank == 1)
		sleep_ms(20);
	MRW_TRY(swap_with(part, boot, 2, 1));
	MRW_TRY(swap_with(part, boot, 1, 2));
	return mrw_boot_barrier(boot);
}

static void swaps_descriptors(void **state)
{
	static const uint32_t counts[] = {2, 5, 16};

	(void)state;
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		prepare(counts[i], counts[i], act_swap);
		play_processes(counts[i], 0);
		assert_all(counts[i], MARROW_SUCCESS);
	}
}

static enum marrow_status act_swap_dead(struct part *part, struct mrw_boot *boot)
{
	uint32_t peer = 1 - part->rank;
	int received;
	enum marrow_status status;

	if (part->rank == 1)
		_exit(0);
	status = mrw_boot_swap_fds(boot, &peer, 1, STDIN_FILENO, &received);
	if (status != MARROW_SUCCESS && received != -1)
		return mrw_fail(MARROW_INTERNAL_ERROR, "a descriptor in spite of a failure");
	return status;
}

static void swap_notices_a_death(void **state)
{
	(void)state;
	prepare(2, 2, act_swap_dead);
	play_processes(2, 0);
	assert_int_equal(parts[0].status, MARROW_REMOTE_ERROR);
	assert_contains(parts[0].text, "rank 1 (");
}

static bool await_notice(struct mrw_boot *boot, enum mrw_boot_notice notice, uint32_t rank,
			 struct mrw_boot_event *event)
{
	uint64_t deadline = mrw_boot_now_ms() + TIMEOUT_MS;

	while (mrw_boot_now_ms() < deadline) {
		while (mrw_boot_watch(boot, event))
			if (event->notice == notice && event->rank == rank)
				return true;
		sleep_ms(5);
	}
	return false;
}

/* Leaves only when all others have come as far. */
static void meet_at_stage(struct part *part, int count)
{
	uint64_t deadline = mrw_boot_now_ms() + TIMEOUT_MS;

	atomic_fetch_add(part->stage, 1);
	while (atomic_load(part->stage) < count && mrw_boot_now_ms() < deadline)
		sleep_ms(2);
}

static enum marrow_status act_killed(struct part *part, struct mrw_boot *boot)
{
	struct mrw_boot_event event;

	MRW_TRY(mrw_boot_barrier(boot));
	meet_at_stage(part, 8);
	if (part->rank == 5)
		raise(SIGKILL);
	if (!await_notice(boot, MRW_NOTICE_DEAD, 5, &event))
		return mrw_fail(MARROW_TIMEOUT, "rank %u did not hear of the death", part->rank);
	snprintf(part->note, sizeof part->note, "%.*s", (int)sizeof part->note - 1, event.text);
	meet_at_stage(part, 15);
	while (mrw_boot_watch(boot, &event))
		if (event.rank == 5)
			return mrw_fail(MARROW_INTERNAL_ERROR, "rank %u heard twice", part->rank);
	return MARROW_SUCCESS;
}

static void death_is_known_to_all(void **state)
{
	(void)state;
	prepare(8, 8, act_killed);
	parts[5].status = MARROW_SUCCESS;
	play_processes(8, 0);
	assert_all(8, MARROW_SUCCESS);
	for (int i = 0; i < 8; i++)
		assert_string_equal(parts[i].note, i == 5 ? "" : "closed its connection");
}

static enum marrow_status act_bye(struct part *part, struct mrw_boot *boot)
{
	struct mrw_boot_event event;

	if (part->rank == 3)
		return MARROW_SUCCESS;
	if (!await_notice(boot, MRW_NOTICE_BYE, 3, &event))
		return mrw_fail(MARROW_TIMEOUT, "rank %u did not hear the goodbye", part->rank);
	sleep_ms(30);
	if (mrw_boot_watch(boot, &event))
		return mrw_fail(MARROW_INTERNAL_ERROR, "notice %d about rank %u", event.notice, event.rank);
	meet_at_stage(part, 7);
	return MARROW_SUCCESS;
}

static void goodbye_is_no_death(void **state)
{
	(void)state;
	prepare(8, 8, act_bye);
	play_threads(8);
	assert_all(8, MARROW_SUCCESS);
	prepare(8, 8, act_bye);
	play_processes(8, 1);
	assert_all(8, MARROW_SUCCESS);
}

/* Who is done leaves at once; the slow ones still get all blocks, and hear the goodbyes afterwards. */
static enum marrow_status act_leave_early(struct part *part, struct mrw_boot *boot)
{
	struct mrw_boot_event event;

	if (part->rank == 2)
		for (int i = 0; i < 10; i++) {
			sleep_ms(4);
			if (mrw_boot_watch(boot, &event))
				return mrw_fail(MARROW_INTERNAL_ERROR, "notice %d about rank %u", event.notice,
						event.rank);
		}
	MRW_TRY(gather_once(part, boot, 200000, 1));
	if (part->rank == 2 && !await_notice(boot, MRW_NOTICE_BYE, 0, &event))
		return mrw_fail(MARROW_TIMEOUT, "no goodbye from rank 0");
	return MARROW_SUCCESS;
}

static void exchanges_and_notices_mix(void **state)
{
	(void)state;
	for (uint32_t n = 3; n <= 6; n++) {
		prepare(n, n, act_leave_early);
		play_threads(n);
		assert_all(n, MARROW_SUCCESS);
	}
}

struct teller {
	struct mrw_boot *boot;
	uint32_t rank;
};

/* As long as a text may be: it arrives whole. */
static void fault_text(uint32_t rank, char text[MRW_ERROR_TEXT_BYTES])
{
	memset(text, 'x', MRW_ERROR_TEXT_BYTES - 1);
	text[MRW_ERROR_TEXT_BYTES - 1] = '\0';
	text[snprintf(text, 32, "fault of %u:", rank)] = ' ';
}

static void *tell_fault(void *argument)
{
	struct teller *teller = argument;
	char text[MRW_ERROR_TEXT_BYTES];

	fault_text(teller->rank, text);
	mrw_boot_tell(teller->boot, MRW_NOTICE_FAULT, text);
	return NULL;
}

/* How many of the others have said something, and are there all the same. */
static uint32_t speakers(const struct part *part, struct mrw_boot *boot)
{
	uint32_t count = 0;

	for (uint32_t r = 0; r < part->nranks; r++)
		count += r != part->rank && mrw_boot_has_spoken(boot, r) && !mrw_boot_is_gone(boot, r);
	return count;
}

static enum marrow_status act_fault(struct part *part, struct mrw_boot *boot)
{
	struct teller teller = {boot, part->rank};
	struct mrw_boot_event event;
	uint64_t deadline = mrw_boot_now_ms() + TIMEOUT_MS;
	uint32_t heard = 0;
	pthread_t thread;
	char text[MRW_ERROR_TEXT_BYTES];

	if (speakers(part, boot) > 0)
		return mrw_fail(MARROW_INTERNAL_ERROR, "rank %u: spoken before the time", part->rank);
	meet_at_stage(part, (int)part->nranks);
	if (pthread_create(&thread, NULL, tell_fault, &teller))
		return mrw_fail(MARROW_SYSTEM_ERROR, "pthread_create");
	while (heard < part->nranks - 1 && mrw_boot_now_ms() < deadline) {
		while (mrw_boot_watch(boot, &event)) {
			fault_text(event.rank, text);
			if (event.notice == MRW_NOTICE_FAULT && !strcmp(event.text, text))
				heard++;
		}
		sleep_ms(1);
	}
	pthread_join(thread, NULL);
	if (heard != part->nranks - 1 || speakers(part, boot) != heard)
		return mrw_fail(MARROW_INTERNAL_ERROR, "rank %u heard %u faults of %u", part->rank, heard, speakers(part, boot));
	meet_at_stage(part, 2 * (int)part->nranks);
	return mrw_boot_barrier(boot);
}

static void faults_reach_all_and_stop_exchanges(void **state)
{
	(void)state;
	prepare(6, 6, act_fault);
	play_threads(6);
	assert_all(6, MARROW_REMOTE_ERROR);
	assert_contains(parts[0].text, "fault of ");
}

static enum marrow_status act_die_in_exchange(struct part *part, struct mrw_boot *boot)
{
	MRW_TRY(mrw_boot_barrier(boot));
	if (part->rank == 2)
		_exit(0);
	return gather_once(part, boot, 100, 0);
}

static void exchange_names_the_dead(void **state)
{
	(void)state;
	prepare(7, 7, act_die_in_exchange);
	play_processes(7, 0);
	for (int i = 0; i < 7; i++)
		if (i != 2) {
			assert_int_equal(parts[i].status, MARROW_REMOTE_ERROR);
			/* A rank that fails leaves, and may be what others notice first. */
			assert_contains(parts[i].text, "rank ");
			assert_contains(parts[i].text, ", pid ");
			assert_contains(parts[i].text, "127.0.0.1");
		}
	assert_contains(parts[1].text, "rank 2 (");
}

static enum marrow_status act_never(struct part *part, struct mrw_boot *boot)
{
	enum marrow_status status;

	if (part->rank == 1) {
		meet_at_stage(part, 2);
		return MARROW_SUCCESS;
	}
	status = mrw_boot_barrier(boot);
	meet_at_stage(part, 2);
	return status;
}

static void exchange_has_a_deadline(void **state)
{
	(void)state;
	prepare(2, 2, act_never);
	parts[0].timeout_ms = 200;
	play_threads(2);
	assert_int_equal(parts[0].status, MARROW_TIMEOUT);
	assert_contains(parts[0].text, "nothing from rank 1 (");
}

static uint32_t count_entries(const char *path)
{
	DIR *dir = opendir(path);
	uint32_t count = 0;

	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void leaves_nothing_open(void **state)
{
	uint32_t fds, tasks;

	(void)state;
	prepare(3, 3, act_swap);
	play_threads(3);
	fds = count_entries("/proc/self/fd");
	tasks = count_entries("/proc/self/task");
	for (int i = 0; i < 50; i++) {
		prepare(3, 3, i % 2 ? act_swap : NULL);
		if (i % 10 == 4)
			parts[2].rank = 1;
		play_threads(3);
		assert_all(3, i % 10 == 4 ? MARROW_INVALID_ARGUMENT : MARROW_SUCCESS);
	}
	assert_int_equal(count_entries("/proc/self/fd"), fds);
	assert_int_equal(count_entries("/proc/self/task"), tasks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(meets_as_threads),          cmocka_unit_test(meets_as_processes),
		cmocka_unit_test(meets_again),
		cmocka_unit_test(gathers_large_blocks),      cmocka_unit_test(names_unequal_blocks),
		cmocka_unit_test(swaps_descriptors),         cmocka_unit_test(swap_notices_a_death),
		cmocka_unit_test(death_is_known_to_all),     cmocka_unit_test(goodbye_is_no_death),
		cmocka_unit_test(exchanges_and_notices_mix), cmocka_unit_test(faults_reach_all_and_stop_exchanges),
		cmocka_unit_test(exchange_names_the_dead),   cmocka_unit_test(exchange_has_a_deadline),
		cmocka_unit_test(leaves_nothing_open),
	};

	return set_stage() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
