/* test_boot_tree.c - the tree in which ranks wait for each other: how few sockets it takes, and what all are told when one in it dies or fails. */
#include "boot_hands.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>

/* Set: the kernel has no room at the first try, in processes of one thread. */
static bool full_buffers;

ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
	static ssize_t (*real)(int, const void *, size_t, int);
	static bool refused[1024];

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "send");
	if (full_buffers && fd < 1024) {
		refused[fd] = !refused[fd];
		if (refused[fd]) {
			errno = EAGAIN;
			return -1;
		}
	}
	if (playing && playing->dies_ready && bytes >= MRW_FRAME_HEADER_BYTES && ((const uint8_t *)data)[4] == MRW_FRAME_READY) {
		real(fd, data, bytes, flags);
		sleep_ms(5);
		_exit(0);
	}
	return real(fd, data, bytes, flags);
}

/* Sockets of a process, those that listen included. */
static uint32_t count_sockets(pid_t pid)
{
	char path[64], target[64];
	uint32_t count = 0;
	DIR *dir;

	snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));) {
		ssize_t got = readlinkat(dirfd(dir), entry->d_name, target, sizeof target);

		count += got > 7 && !memcmp(target, "socket:", 7);
	}
	closedir(dir);
	return count;
}

static enum marrow_status act_cost(struct part *part, struct mrw_boot *boot)
{
	struct mrw_boot_cost cost;

	mrw_boot_get_cost(boot, &cost);
	part->bytes = cost.sockets_meeting;
	return act_exchange(part, boot);
}

/* All but one wait for that one, who looks at the root's sockets first. */
static void the_root_holds_its_children_only(void **state)
{
	enum {
		COUNT = 100,
		OWN = 2, /* for descriptors, and to meet again */
		DOOR = 2 * MRW_BOOT_GUESTS, /* some have not yet said hello */
		SLOW_MS = 20000
	};
	uint32_t before, *seen = mmap(NULL, 2 * sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint32_t *most = &seen[0], *at_rest = &seen[1];
	pid_t root = getpid(), last;

	(void)state;
	assert_true(seen != MAP_FAILED);
	prepare(COUNT, COUNT, act_cost);
	for (uint32_t r = 0; r < COUNT; r++)
		parts[r].timeout_ms = SLOW_MS;
	before = count_sockets(root);
	last = fork();
	if (!last) {
		uint64_t begin_ms = mrw_boot_now_ms();

		do {
			sleep_ms(1);
			*at_rest = count_sockets(root) - before;
			*most = *at_rest > *most ? *at_rest : *most;
		} while (mrw_boot_now_ms() < begin_ms + 1000 ||
			 (*at_rest != OWN + MRW_BOOT_FANOUT && mrw_boot_now_ms() < begin_ms + SLOW_MS / 2));
		play(&parts[COUNT - 1]);
		_exit(0);
	}
	play_processes(COUNT - 1, 0);
	waitpid(last, NULL, 0);
	assert_all(COUNT, MARROW_SUCCESS);
	assert_string_equal(logged, "");
	assert_int_equal(*at_rest, OWN + MRW_BOOT_FANOUT);
	assert_true(*most <= OWN + MRW_BOOT_FANOUT + DOOR);
	for (uint32_t r = 0; r < COUNT; r++)
		assert_in_range(parts[r].bytes, 1, 2 + MRW_BOOT_FANOUT + DOOR + 2 * 7);
	munmap(seen, 2 * sizeof *seen);
}

/* What does not go at once goes later, also while a connection changes hands. */
static void full_buffers_do_no_harm(void **state)
{
	(void)state;
	prepare(24, 24, act_exchange);
	full_buffers = true;
	play_processes(24, 0);
	full_buffers = false;
	assert_all(24, MARROW_SUCCESS);
}

/* What `dead` leaves to the others: one text. Rank 0 lives. */
static void assert_told_of_death(uint32_t count, uint32_t dead)
{
	char begin[32];

	snprintf(begin, sizeof begin, "rank %u (", dead);
	assert_one_text(count, dead, MARROW_REMOTE_ERROR, "closed its connection during set-up");
	assert_memory_equal(parts[0].text, begin, strlen(begin));
	for (uint32_t r = 0; r < count; r++)
		assert_true(r == dead || parts[r].took_ms < TIMEOUT_MS / 2);
}

/* A leaf below rank 2, and rank 2 itself, whose children have nobody above them then. Rank 19 is never there, 18 comes late. */
static void death_below_is_told_to_all(void **state)
{
	static const uint32_t dead[] = {17, 2};

	(void)state;
	for (size_t i = 0; i < sizeof dead / sizeof *dead; i++) {
		prepare_in_order(19, 20);
		parts[dead[i]].dies_ms = 600 - parts[dead[i]].delay_ms;
		parts[18].delay_ms = 650;
		play_processes(19, 0);
		assert_told_of_death(19, dead[i]);
	}
}

/* Of a tree of three levels: what the second and third hear is the first one's loss. */
static void death_of_the_root_is_told_to_all(void **state)
{
	enum { COUNT = 76 };

	(void)state;
	prepare(COUNT, COUNT + 1, NULL);
	parts[0].dies_ms = 950;
	play_with_root(COUNT);
	assert_one_text(COUNT, 0, MARROW_REMOTE_ERROR, "closed its connection during set-up");
	assert_memory_equal(parts[1].text, "the root at 127.0.0.1:", 22);
	for (uint32_t r = 1; r < COUNT; r++)
		assert_true(parts[r].took_ms < TIMEOUT_MS / 2);
}

static enum marrow_status act_barrier(struct part *part, struct mrw_boot *boot)
{
	(void)part;
	return mrw_boot_barrier(boot);
}

/* While others come, while links are made, or when some may go and others not yet: whoever fails, then or in the exchange that follows, names the
 * dead. */
static void death_at_any_time_is_named(void **state)
{
	(void)state;
	for (int round = 0; round < 12; round++) {
		uint32_t count = 10 + (uint32_t)(next_random(&seed) % 40), dead = 1 + (uint32_t)(next_random(&seed) % (count - 1));

		prepare(count, count, act_barrier);
		for (uint32_t r = 0; r < count; r++)
			parts[r].delay_ms = r > MRW_BOOT_FANOUT ? 5 + next_random(&seed) % 10 : r / 2; /* rank 1 to 8: have children */
		if (round % 2)
			dead = 1 + dead % MRW_BOOT_FANOUT;
		parts[dead].dies_ms = 5 + next_random(&seed) % 30;
		play_processes(count, 0);
		for (uint32_t r = 0; r < count; r++) {
			if (r == dead || parts[r].status == MARROW_SUCCESS)
				continue;
			assert_names(r, dead);
			assert_true(parts[r].took_ms < 2 * TIMEOUT_MS); /* where it dies before it has said hello */
		}
	}
}

/* It has said that all below it are ready, and does not pass on that all may go: those below it fail, others not yet. */
static void death_before_go_is_named(void **state)
{
	enum { COUNT = 24, DEAD = 2 };

	(void)state;
	for (int round = 0; round < 8; round++) {
		prepare(COUNT, COUNT, act_barrier);
		for (uint32_t r = 0; r < COUNT; r++)
			parts[r].delay_ms = r > MRW_BOOT_FANOUT ? 20 : r / 2;
		parts[DEAD].dies_ready = true;
		play_processes(COUNT, 0);
		for (uint32_t r = 0; r < COUNT; r++) {
			if (r == DEAD)
				continue;
			assert_int_equal(parts[r].status, MARROW_REMOTE_ERROR);
			assert_names(r, DEAD);
			assert_true(parts[r].took_ms < TIMEOUT_MS / 2);
		}
	}
}

/* A leaf that lacks descriptors for its links: all levels say it in the same words. */
static void a_failure_is_named_once(void **state)
{
	const char *once;

	(void)state;
	prepare_in_order(20, 20);
	parts[19].files = 6; /* a door, the way up, one for descriptors; not all neighbours */
	play_processes(20, 0);
	assert_one_text(20, UINT32_MAX, MARROW_SYSTEM_ERROR, "ulimit -n");
	once = strstr(parts[0].text, "rank 19 (");
	assert_ptr_equal(once, parts[0].text);
	assert_null(strstr(once + 1, "rank 19 ("));
	assert_true(parts[0].took_ms < TIMEOUT_MS / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_root_holds_its_children_only),
		cmocka_unit_test(full_buffers_do_no_harm),
		cmocka_unit_test(death_below_is_told_to_all),
		cmocka_unit_test(death_of_the_root_is_told_to_all),
		cmocka_unit_test(death_at_any_time_is_named),
		cmocka_unit_test(death_before_go_is_named),
		cmocka_unit_test(a_failure_is_named_once),
	};

	return set_stage() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
