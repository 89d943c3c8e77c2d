/* test_boot_silence.c - ranks that meet, and one that lives and says nothing: who is named, by whom, and when. */
#include "boot_hands.h"

enum { LATEST_MS = 2500 /* after the deadline, all have failed in trees of these sizes */, SLACK_MS = 1500 };

/* A rank that stops while others wait, with ranks below it and without: it is named, not those below it who get no table for that, not the root.
 * And these hear it as soon as all others, from their neighbours, unless the last to come was sent to the one that stopped: then there are no
 * links yet. */
static void a_stopped_rank_is_named(void **state)
{
	enum { COUNT = 20, SHORT_MS = 1000 };
	static const uint32_t stopped[] = {1, 17};

	(void)state;
	for (size_t i = 0; i < sizeof stopped / sizeof *stopped; i++) {
		bool linked = true;
		char name[32];

		prepare_in_order(COUNT, COUNT);
		for (uint32_t r = 0; r < COUNT; r++)
			parts[r].timeout_ms = SHORT_MS;
		parts[stopped[i]].dies_ms = 450 - parts[stopped[i]].delay_ms;
		parts[stopped[i]].stops = true;
		parts[COUNT - 1].delay_ms = 600;
		play_processes(COUNT, 0);
		snprintf(name, sizeof name, "rank %u (", stopped[i]);
		for (uint32_t r = 0; r < COUNT; r++)
			linked = linked && !strstr(parts[r].text, "cannot reach ");
		for (uint32_t r = 0; r < COUNT; r++) {
			const char *text = parts[r].text;

			if (r == stopped[i])
				continue;
			assert_int_equal(parts[r].status, MARROW_TIMEOUT);
			assert_contains(text, name);
			assert_null(strstr(text, ", rank "));
			if (linked)
				assert_memory_equal(text, "no word that the table", 22);
			assert_true(parts[r].took_ms < SHORT_MS + LATEST_MS);
		}
	}
}

/* Before there are links those below one that stopped hear nothing: they name it. */
static void who_is_below_a_stopped_rank_names_it(void **state)
{
	enum { COUNT = 20, SHORT_MS = 1000, DEAF = 1 };
	uint32_t deaf = 0;

	(void)state;
	prepare_in_order(COUNT, COUNT + 1);
	for (uint32_t r = 0; r < COUNT; r++)
		parts[r].timeout_ms = SHORT_MS;
	parts[DEAF].dies_ms = 450;
	parts[DEAF].stops = true;
	play_processes(COUNT, 0);
	for (uint32_t r = 0; r < COUNT; r++) {
		bool silent = strstr(parts[r].text, "fell silent during set-up") != NULL;

		if (r == DEAF)
			continue;
		deaf += silent;
		assert_int_equal(parts[r].status, MARROW_TIMEOUT);
		assert_contains(parts[r].text, silent ? "rank 1 (" : "rank 20 of 21 has not arrived");
		assert_true(parts[r].took_ms < SHORT_MS + LATEST_MS);
	}
	assert_int_equal(deaf, MRW_BOOT_FANOUT);
}

static void a_stop_at_any_time_is_named(void **state)
{
	(void)state;
	for (int round = 0; round < 6; round++) {
		uint32_t count = 10 + (uint32_t)(next_random(&seed) % 40), stopped = 1 + (uint32_t)(next_random(&seed) % (count - 1));

		prepare(count, count, NULL);
		for (uint32_t r = 0; r < count; r++) {
			parts[r].timeout_ms = 800;
			parts[r].delay_ms = r > MRW_BOOT_FANOUT ? 5 + next_random(&seed) % 10 : r / 2;
		}
		if (round % 2)
			stopped = 1 + stopped % MRW_BOOT_FANOUT;
		parts[stopped].stops = true;
		parts[stopped].dies_ms = 5 + next_random(&seed) % 30;
		play_processes(count, 0);
		for (uint32_t r = 0; r < count; r++) {
			if (r == stopped || parts[r].status == MARROW_SUCCESS)
				continue;
			if (!strstr(parts[r].text, "arrived")) /* where it is one of several */
				assert_names(r, stopped);
			assert_true(parts[r].took_ms < 800 + LATEST_MS + SLACK_MS);
		}
	}
}

/* Those below a stopped rank wait no longer than the root, and whoever waits less says so upwards: nobody calls a rank silent that waits itself. */
static void the_shortest_timeout_counts_everywhere(void **state)
{
	enum { COUNT = 20, LONG_MS = 30000, MEDIUM_MS = 7000, SHORT_MS = 1000 };

	(void)state;
	prepare_in_order(COUNT, COUNT + 1);
	for (uint32_t r = 1; r < COUNT; r++)
		parts[r].timeout_ms = LONG_MS;
	parts[0].timeout_ms = SHORT_MS;
	parts[2].stops = true;
	parts[2].dies_ms = 450;
	play_processes(COUNT, 0);
	for (uint32_t r = 0; r < COUNT; r++) {
		if (r == 2)
			continue;
		assert_int_equal(parts[r].status, MARROW_TIMEOUT);
		assert_contains(parts[r].text, strstr(parts[r].text, "silent") ? "rank 2 (" : "rank 20 of 21 has not arrived");
		assert_true(parts[r].took_ms < SHORT_MS + LATEST_MS + SLACK_MS);
	}

	prepare(COUNT, COUNT + 1, NULL);
	for (uint32_t r = 0; r < COUNT; r++)
		parts[r].timeout_ms = MEDIUM_MS;
	parts[COUNT - 1].timeout_ms = SHORT_MS; /* has a parent that is not the root */
	parts[0].stops = true;
	parts[0].dies_ms = 700;
	play_with_root(COUNT);
	for (uint32_t r = 1; r < COUNT; r++) {
		assert_int_equal(parts[r].status, MARROW_TIMEOUT);
		assert_contains(parts[r].text, "the root at 127.0.0.1:");
		assert_contains(parts[r].text, "fell silent during set-up");
	}
	assert_true(parts[COUNT - 1].took_ms < SHORT_MS + LATEST_MS + SLACK_MS); /* others, below other children of the root, hear of nothing */
}

/* Number 1 to come is number 9's parent, and cannot be reached, or is and says nothing. It waits at the door before the root is there. */
static void names_a_parent_out_of_reach(void **state)
{
	char at[MRW_ADDR_TEXT_BYTES], wanted[256];
	struct mrw_addr bound;
	struct mrw_conn conn;
	int listening;

	(void)state;
	for (int silent = 0; silent < 2; silent++) {
		assert_int_equal(mrw_sock_listen(&listening, &anywhere, 0, &bound), MARROW_SUCCESS);
		prepare(9, 10, NULL);
		for (uint32_t i = 0; i < 9; i++) {
			parts[i].timeout_ms = 600;
			parts[i].rank = i + (i > 0);
		}
		hand_join(&conn, 1, 10, silent ? &bound : &nowhere);
		play_processes(9, 0);
		mrw_conn_close(&conn);
		close(listening);
		snprintf(wanted, sizeof wanted, "cannot reach rank 1 (byhand, pid 0, 127.0.0.1) at %s (%s) within 600 ms",
			 mrw_addr_text(silent ? &bound : &nowhere, true, at), silent ? "no answer yet" : "Connection refused");
		assert_one_text(9, UINT32_MAX, MARROW_TIMEOUT, wanted);
		assert_memory_equal(parts[0].text, "rank ", 5);
		for (uint32_t i = 0; i < 9; i++)
			assert_true(parts[i].took_ms < 2500);
	}
}

/* Comes as number 9 and never goes to its place, or dies on the way there. */
static void *come_last(void *argument)
{
	bool dies = *(bool *)argument;
	struct mrw_conn conn;
	struct mrw_frame *frame;

	sleep_ms(400);
	hand_join(&conn, 9, 10, &nowhere);
	free(hand_hear(&conn, TIMEOUT_MS));
	while (!dies && (frame = hand_hear(&conn, TIMEOUT_MS)))
		free(frame);
	mrw_conn_close(&conn);
	return NULL;
}

static void names_who_does_not_get_to_its_place(void **state)
{
	pthread_t threads[10];

	(void)state;
	for (int dies = 0; dies < 2; dies++) {
		bool how = dies;

		prepare(9, 10, NULL);
		for (uint32_t i = 0; i < 9; i++)
			parts[i].timeout_ms = dies ? TIMEOUT_MS : 900;
		begin_capture();
		for (uint32_t i = 0; i < 9; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, play, &parts[i]), 0);
		assert_int_equal(pthread_create(&threads[9], NULL, come_last, &how), 0);
		for (uint32_t i = 0; i < 10; i++)
			pthread_join(threads[i], NULL);
		end_capture();
		assert_one_text(9, UINT32_MAX, dies ? MARROW_REMOTE_ERROR : MARROW_TIMEOUT,
				dies ? "rank 9 (byhand, pid 0, 127.0.0.1) closed its connection during set-up"
				     : "; rank 9 (byhand, pid 0, 127.0.0.1) did not get to rank ");
		for (uint32_t i = 0; i < 9; i++)
			assert_true(parts[i].took_ms < TIMEOUT_MS / 2);
	}
}

/* Comes as number 9, goes to its place and takes the table, but connects to nobody. */
static void *come_and_idle(void *argument)
{
	struct mrw_conn root, up;
	struct mrw_boot_place place;
	struct mrw_frame *frame;

	(void)argument;
	sleep_ms(300);
	hand_join(&root, 4, 10, &nowhere);
	frame = hand_hear(&root, TIMEOUT_MS);
	assert_true(frame && frame->type == MRW_FRAME_WELCOME && frame->bytes == sizeof place);
	memcpy(&place, frame->data, sizeof place);
	free(frame);
	hand_hello(&up, &place.parent.addrs[0], MRW_HELLO_CHILD, 4, 10, le32toh(place.parent_rank_le), 9, TIMEOUT_MS, &nowhere);
	assert_true(hand_hears(&up, MRW_FRAME_LINKED, TIMEOUT_MS));
	assert_true(mrw_conn_push(&up, MRW_FRAME_SEATED, TIMEOUT_MS, NULL, 0));
	assert_true(mrw_conn_push(&root, MRW_FRAME_SEATED, TIMEOUT_MS, NULL, 0));
	assert_true(hand_hears(&up, MRW_FRAME_TABLE, TIMEOUT_MS));
	assert_true(mrw_conn_push(&up, MRW_FRAME_HEARD, 0, NULL, 0));
	assert_true(hand_hears(&up, MRW_FRAME_ERROR, TIMEOUT_MS));
	mrw_conn_close(&up);
	mrw_conn_close(&root);
	return NULL;
}

/* Its neighbours say so; those above it, who only wait for it, do not name each other before. */
static void who_lacks_a_link_is_heard_first(void **state)
{
	/* The root, and the parent of the one that idles, are none of its neighbours. */
	static const uint32_t ranks[] = {1, 7, 0, 2, 3, 5, 6, 8, 9};
	pthread_t threads[10];

	(void)state;
	prepare(9, 10, NULL);
	begin_capture();
	for (uint32_t i = 0; i < 9; i++) {
		parts[i].timeout_ms = 900;
		parts[i].rank = ranks[i];
		parts[i].delay_ms = i < 2 ? 60 * i : 120;
		assert_int_equal(pthread_create(&threads[i], NULL, play, &parts[i]), 0);
	}
	assert_int_equal(pthread_create(&threads[9], NULL, come_and_idle, NULL), 0);
	for (uint32_t i = 0; i < 10; i++)
		pthread_join(threads[i], NULL);
	end_capture();
	assert_all(9, MARROW_TIMEOUT);
	for (uint32_t i = 0; i < 9; i++) {
		assert_contains(parts[i].text, "is not connected to its neighbours within 900 ms; rank 4 (byhand, pid 0, 127.0.0.1) did not ");
		assert_true(parts[i].took_ms < 900 + LATEST_MS);
	}
}

/* Answers the root's call, but does not say that it is ready. */
static void names_a_child_that_is_not_ready(void **state)
{
	struct mrw_addr bound, peer;
	struct idler idler;
	struct mrw_conn link;
	pthread_t thread;
	int listening, fd;

	(void)state;
	prepare(1, 2, NULL);
	parts[0].timeout_ms = 400;
	assert_int_equal(mrw_sock_listen(&listening, &anywhere, 0, &bound), MARROW_SUCCESS);
	begin_idler(&idler, 1, 2, &bound);
	begin_capture();
	assert_int_equal(pthread_create(&thread, NULL, play, &parts[0]), 0);
	while ((fd = mrw_sock_accept(listening, &peer)) < 0)
		sleep_ms(1);
	mrw_conn_start(&link, fd, &peer, 4096);
	assert_true(mrw_conn_push(&link, MRW_FRAME_LINKED, 1, NULL, 0));
	pthread_join(thread, NULL);
	end_capture();
	pthread_join(idler.thread, NULL);
	mrw_conn_close(&link);
	close(listening);
	assert_int_equal(parts[0].status, MARROW_TIMEOUT);
	assert_contains(parts[0].text, "no word that all neighbours are connected within 400 ms from rank 1 (byhand, pid 0, 127.0.0.1)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stopped_rank_is_named),
		cmocka_unit_test(who_is_below_a_stopped_rank_names_it),
		cmocka_unit_test(a_stop_at_any_time_is_named),
		cmocka_unit_test(the_shortest_timeout_counts_everywhere),
		cmocka_unit_test(names_a_parent_out_of_reach),
		cmocka_unit_test(names_who_does_not_get_to_its_place),
		cmocka_unit_test(who_lacks_a_link_is_heard_first),
		cmocka_unit_test(names_a_child_that_is_not_ready),
	};

	return set_stage() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
