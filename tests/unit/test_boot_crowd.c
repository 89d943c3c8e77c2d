/* test_boot_crowd.c - many at the root's door at once: ranks that wait there or are stuck on the way to their places, strangers without end, too few
 * descriptors, and who looks for a place that is not its own. */
#include "boot_hands.h"

#include <errno.h>
#include <stdatomic.h>

enum { CROWD_MAX = 200, FLOOD_MAX = 6000 };

static atomic_bool over;

/* Connects some 3000 times a second, says nothing, and stays. */
static void *flood(void *argument)
{
	static int held[FLOOD_MAX];
	struct mrw_boot_id id;
	uint32_t *count = argument;

	memcpy(&id, parts[0].id.bytes, sizeof id);
	while (!atomic_load(&over) && *count < FLOOD_MAX) {
		held[*count] = mrw_sock_dial(&id.addrs[0]);
		if (held[*count] < 0)
			break;
		if (++*count % 3 == 0)
			sleep_ms(1);
	}
	while (!atomic_load(&over))
		sleep_ms(1);
	for (uint32_t i = 0; i < *count; i++)
		close(held[i]);
	return NULL;
}

static void strangers_without_end_do_not_lock_the_door(void **state)
{
	pthread_t thread;
	uint32_t count = 0;
	struct rlimit limit, more;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &limit);
	more = limit;
	more.rlim_cur = limit.rlim_max < FLOOD_MAX + 200 ? limit.rlim_max : FLOOD_MAX + 200;
	prepare(24, 24, act_exchange);
	for (uint32_t r = 1; r < 24; r++)
		parts[r].delay_ms = 20 * r;
	setrlimit(RLIMIT_NOFILE, &more);
	atomic_store(&over, false);
	assert_int_equal(pthread_create(&thread, NULL, flood, &count), 0);
	sleep_ms(1000);
	play_processes(24, 0);
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	setrlimit(RLIMIT_NOFILE, &limit);
	assert_all(24, MARROW_SUCCESS);
	assert_contains(logged, "it was silent and its place was needed");
	for (uint32_t r = 0; r < 24; r++)
		assert_true(parts[r].took_ms < 2000);
}

/* Forty ranks have come and do not go to their places: those that come then are there all the same. */
static void guests_that_stay_do_not_lock_the_door(void **state)
{
	enum { FIRST = 1 + MRW_BOOT_FANOUT, STUCK = 40, LATER = 4, NRANKS = FIRST + STUCK + LATER + 1 };
	struct mrw_conn stuck[STUCK];
	pthread_t threads[FIRST + LATER];

	(void)state;
	prepare(FIRST + LATER, NRANKS, NULL);
	begin_capture();
	for (uint32_t i = 0; i < FIRST + LATER; i++) {
		parts[i].timeout_ms = i ? 4 * TIMEOUT_MS : 2000;
		if (i >= FIRST)
			parts[i].rank = STUCK + i;
		if (i == FIRST) {
			sleep_ms(300);
			for (uint32_t k = 0; k < STUCK; k++)
				hand_join(&stuck[k], FIRST + k, NRANKS, &nowhere);
			sleep_ms(200);
		}
		assert_int_equal(pthread_create(&threads[i], NULL, play, &parts[i]), 0);
	}
	for (uint32_t i = 0; i < FIRST + LATER; i++)
		pthread_join(threads[i], NULL);
	end_capture();
	for (uint32_t k = 0; k < STUCK; k++)
		mrw_conn_close(&stuck[k]);
	assert_all(FIRST + LATER, MARROW_TIMEOUT);
	assert_contains(parts[0].text, "rank 53 of 54 has not arrived");
	assert_contains(parts[0].text, "byhand, pid 0, 127.0.0.1) did not get to rank ");
	for (uint32_t i = 0; i < FIRST + LATER; i++) {
		assert_string_equal(parts[i].text, parts[0].text);
		assert_true(parts[i].took_ms < 4000);
	}
}

/* When the root's time is up, all who stand at its door hear it, however many. */
static void all_at_the_door_are_told(void **state)
{
	static struct mrw_conn waiting[CROWD_MAX];
	uint32_t told = 0;

	(void)state;
	prepare(1, CROWD_MAX + 2, NULL);
	parts[0].timeout_ms = 1;
	for (uint32_t i = 0; i < CROWD_MAX; i++)
		hand_join(&waiting[i], 1 + i, CROWD_MAX + 2, &nowhere);
	play_threads(1);
	assert_int_equal(parts[0].status, MARROW_TIMEOUT);
	for (uint32_t i = 0; i < CROWD_MAX; i++) {
		struct mrw_frame *frame = hand_hear(&waiting[i], 100);

		if (frame && frame->type == MRW_FRAME_WELCOME) {
			free(frame);
			frame = hand_hear(&waiting[i], 100);
		}
		told += frame && frame->type == MRW_FRAME_ERROR;
		free(frame);
		mrw_conn_close(&waiting[i]);
	}
	assert_int_equal(told, CROWD_MAX);
}

/* The root has room for its children and a few others: it waits until one of these has left, and does not fail, nor drop anybody. */
static void waits_for_descriptors(void **state)
{
	enum { GUESTS = 3, COUNT = MRW_BOOT_FANOUT + GUESTS + 1, OWN = 2 /* for descriptors, to meet again */ };
	struct mrw_conn ranks[COUNT];
	struct mrw_boot_id id;
	pid_t root;
	int error = -1;

	(void)state;
	prepare(1, COUNT + 2, NULL);
	abandon_id();
	snprintf(parts[0].note, sizeof parts[0].note, "127.0.0.1:%u", free_port());
	assert_int_equal(mrw_boot_make_env_id(&parts[0].id, parts[0].note, "", false), MARROW_SUCCESS);
	memcpy(&id, parts[0].id.bytes, sizeof id);
	parts[0].files = OWN + MRW_BOOT_FANOUT + GUESTS; /* it listens already */
	begin_capture();
	root = fork();
	if (!root) {
		play_env(&parts[0]);
		_exit(0);
	}
	for (int tries = 0; tries < 500 && error; tries++) { /* until it listens */
		int fd = mrw_sock_dial(&id.addrs[0]);

		sleep_ms(10);
		error = mrw_sock_dialled(fd);
		close(fd);
	}
	for (uint32_t i = 0; i + 1 < COUNT; i++) {
		hand_join(&ranks[i], 1 + i, COUNT + 2, &nowhere);
		if (!hand_hears(&ranks[i], MRW_FRAME_WELCOME, TIMEOUT_MS))
			print_message("rank %u is not welcome\n", 1 + i);
	}
	hand_join(&ranks[COUNT - 1], COUNT, COUNT + 2, &nowhere);
	assert_false(hand_hears(&ranks[COUNT - 1], MRW_FRAME_WELCOME, 300));
	assert_true(mrw_conn_push(&ranks[COUNT - 2], MRW_FRAME_SEATED, TIMEOUT_MS, NULL, 0));
	assert_true(hand_hears(&ranks[COUNT - 1], MRW_FRAME_WELCOME, TIMEOUT_MS / 2));
	kill(root, SIGKILL);
	waitpid(root, NULL, 0);
	end_capture();
	for (uint32_t i = 0; i < COUNT; i++)
		mrw_conn_close(&ranks[i]);
	assert_null(strstr(logged, "its place was needed"));
	assert_null(strstr(logged, "ulimit"));
}

/* Number 9 to come hears where its parent is, and goes there as somebody else. */
static void *intrude(void *argument)
{
	struct mrw_conn conn, child;
	struct mrw_frame *frame;
	struct mrw_boot_place place;
	uint32_t *refused = argument;

	hand_join(&conn, 9, 11, &nowhere);
	frame = hand_hear(&conn, TIMEOUT_MS);
	assert_true(frame && frame->type == MRW_FRAME_WELCOME && frame->bytes == sizeof place);
	memcpy(&place, frame->data, sizeof place);
	free(frame);
	assert_int_equal(le32toh(place.place_le), 9);
	for (uint32_t wrong = 8; wrong < 20; wrong += wrong == 8 ? 9 : 2) { /* 8, 17, 19: not below number 1, or no number at all */
		hand_hello(&child, &place.parent.addrs[0], MRW_HELLO_CHILD, 9, 11, le32toh(place.parent_rank_le), wrong, TIMEOUT_MS, &nowhere);
		frame = hand_hear(&child, TIMEOUT_MS);
		if (frame && frame->type == MRW_FRAME_ERROR) {
			char text[MRW_ERROR_TEXT_BYTES];

			mrw_conn_copy_text(text, sizeof text, frame->data, frame->bytes);
			assert_contains(text, "rank 9 (byhand, pid 0, 127.0.0.1) is not the one that the root sent to rank ");
			++*refused;
		}
		free(frame);
		mrw_conn_close(&child);
	}
	/* The right place; then another rank that wants the same. */
	hand_hello(&child, &place.parent.addrs[0], MRW_HELLO_CHILD, 9, 11, le32toh(place.parent_rank_le), 9, TIMEOUT_MS, &nowhere);
	assert_true(hand_hears(&child, MRW_FRAME_LINKED, TIMEOUT_MS));
	{
		struct mrw_conn second;

		hand_hello(&second, &place.parent.addrs[0], MRW_HELLO_CHILD, 10, 11, le32toh(place.parent_rank_le), 9, TIMEOUT_MS, &nowhere);
		*refused += hand_hears(&second, MRW_FRAME_ERROR, TIMEOUT_MS);
		mrw_conn_close(&second);
	}
	mrw_conn_push(&child, MRW_FRAME_SEATED, TIMEOUT_MS, NULL, 0);
	mrw_conn_push(&conn, MRW_FRAME_SEATED, TIMEOUT_MS, NULL, 0);
	/* It dies as a child: its parent says so. */
	sleep_ms(100);
	mrw_conn_close(&child);
	mrw_conn_close(&conn);
	return NULL;
}

static void refuses_children_of_others(void **state)
{
	pthread_t threads[9], intruder;
	uint32_t refused = 0;

	(void)state;
	prepare(9, 11, NULL);
	begin_capture();
	for (uint32_t i = 0; i < 9; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, play, &parts[i]), 0);
	sleep_ms(300);
	assert_int_equal(pthread_create(&intruder, NULL, intrude, &refused), 0);
	pthread_join(intruder, NULL);
	for (uint32_t i = 0; i < 9; i++)
		pthread_join(threads[i], NULL);
	end_capture();
	assert_int_equal(refused, 4);
	assert_contains(logged, "warn: bootstrap: rank 9 (byhand, pid 0, 127.0.0.1) is not the one that the root sent to rank ");
	assert_contains(logged, "warn: bootstrap: rank 10 (byhand, pid 0, 127.0.0.1) is not the one that the root sent to rank ");
	assert_all(9, MARROW_REMOTE_ERROR);
	for (uint32_t i = 0; i < 9; i++)
		assert_contains(parts[i].text, "rank 9 (byhand, pid 0, 127.0.0.1) closed its connection during set-up");
}

/* Whose time is up as the last one comes: all have come in time, and have some for their links. */
static void the_last_to_come_may_be_late(void **state)
{
	struct mrw_conn conn;
	struct mrw_frame *frame;
	struct mrw_boot_table table;
	pthread_t root;

	(void)state;
	prepare(1, 2, NULL);
	hand_hello(&conn, NULL, MRW_HELLO_JOIN, 1, 2, 0, 0, 0, &nowhere);
	begin_capture();
	assert_int_equal(pthread_create(&root, NULL, play, &parts[0]), 0);
	assert_true(hand_hears(&conn, MRW_FRAME_WELCOME, TIMEOUT_MS));
	frame = hand_hear(&conn, TIMEOUT_MS);
	assert_true(frame && frame->type == MRW_FRAME_TABLE && frame->bytes == sizeof table + 2 * sizeof(struct mrw_boot_member));
	memcpy(&table, frame->data, sizeof table);
	free(frame);
	mrw_conn_push(&conn, MRW_FRAME_SEATED, 0, NULL, 0);
	assert_null(hand_hear(&conn, MRW_SETUP_LINK_MS / 2));
	assert_false(mrw_conn_is_over(&conn));
	mrw_conn_close(&conn);
	pthread_join(root, NULL);
	end_capture();
	assert_contains(parts[0].text, "closed its connection");
	assert_in_range(le32toh(table.patience_ms_le), MRW_SETUP_LINK_MS / 2, MRW_SETUP_LINK_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strangers_without_end_do_not_lock_the_door),
		cmocka_unit_test(guests_that_stay_do_not_lock_the_door),
		cmocka_unit_test(all_at_the_door_are_told),
		cmocka_unit_test(waits_for_descriptors),
		cmocka_unit_test(refuses_children_of_others),
		cmocka_unit_test(the_last_to_come_may_be_late),
	};

	return set_stage() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
