/* How ranks meet, and what they are told when they cannot: strangers at the door, wrong ranks, sizes, versions and ids, deaths and
 * deadlines. */
#include "boot_hands.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "boot_door.h"
#include "boot_socket.h"

/* A stranger's connection to the root of part 0's id. */
static int dial_root(void)
{
	struct mrw_boot_id id;
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(&id, parts[0].id.bytes, sizeof id);
	memcpy(&v4.sin_port, id.addrs[0].port_be, 2);
	memcpy(&v4.sin_addr, id.addrs[0].bytes, 4);
	if (connect(fd, (struct sockaddr *)&v4, sizeof v4)) {
		close(fd);
		return -1;
	}
	return fd;
}

static void say(int fd, const void *data, size_t bytes)
{
	if (send(fd, data, bytes, MSG_NOSIGNAL) < 0)
		return;
}

/* An id with the same address and another key, as of another job. */
static struct marrow_unique_id other_job(void)
{
	struct marrow_unique_id id = parts[0].id;
	struct mrw_boot_id fields;
	uint64_t hash = 0xcbf29ce484222325u;

	memcpy(&fields, id.bytes, sizeof fields);
	fields.key[3] ^= 1;
	memcpy(id.bytes, &fields, sizeof fields);
	for (size_t i = 0; i < offsetof(struct mrw_boot_id, checksum_le); i++)
		hash = (hash ^ id.bytes[i]) * 0x100000001b3u;
	fields.checksum_le[0] = htole32((uint32_t)hash);
	fields.checksum_le[1] = htole32((uint32_t)(hash >> 32));
	memcpy(id.bytes, &fields, sizeof fields);
	return id;
}

/* Sends a byte of a lawful beginning now and then. */
static void *drip(void *argument)
{
	static const uint8_t lawful[] = {'M', 'R', 'W', 'F', 1,   0, 0, 0, 0, 0, 0, 0,
					 0,   0,   0,   0,   168, 0, 0, 0, 0, 0, 0, 0};
	int fd = dial_root();

	(void)argument;
	for (size_t i = 0; i < sizeof lawful; i++) {
		say(fd, &lawful[i], 1);
		sleep_ms(100);
	}
	close(fd);
	return NULL;
}

static void strangers_neither_join_nor_stall(void **state)
{
	pthread_t threads[5], dripping;
	int silent, garbage, scanner;

	(void)state;
	prepare(4, 4, act_exchange);
	parts[4] = parts[1];
	parts[4].id = other_job();
	parts[4].timeout_ms = 300;
	parts[4].act = NULL;
	parts[0].delay_ms = parts[1].delay_ms = parts[4].delay_ms = 0;
	parts[2].delay_ms = 50;
	parts[3].delay_ms = 2300;
	silent = dial_root();
	garbage = dial_root();
	scanner = dial_root();
	say(garbage, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 26);
	close(scanner);
	begin_capture();
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, play, &parts[i]), 0);
	assert_int_equal(pthread_create(&dripping, NULL, drip, NULL), 0);
	for (uint32_t i = 0; i < 5; i++)
		pthread_join(threads[i], NULL);
	pthread_join(dripping, NULL);
	end_capture();
	close(silent);
	close(garbage);
	assert_all(4, MARROW_SUCCESS);
	assert_true(parts[3].took_ms < 1000);
	assert_int_equal(parts[4].status, MARROW_TIMEOUT);
	assert_contains(parts[4].text, "hung up");
	assert_contains(logged, "warn: bootstrap: dropped the connection from 127.0.0.1:");
	assert_contains(logged, "does not speak our protocol");
	assert_contains(logged, "closed before it showed the key");
	assert_contains(logged, "another job's key");
	assert_contains(logged, "did not show the key in time");
}

static void survives_a_flood(void **state)
{
	enum { FLOOD = 400 };
	static int flood[FLOOD];

	(void)state;
	prepare(8, 8, act_exchange);
	for (int i = 0; i < FLOOD; i++) {
		flood[i] = dial_root();
		if (i % 3 == 0)
			say(flood[i], "\0\0\0\0\0\0\0\0", 8);
	}
	play_threads(8);
	for (int i = 0; i < FLOOD; i++)
		close(flood[i]);
	assert_all(8, MARROW_SUCCESS);
	for (int i = 0; i < 8; i++)
		assert_true(parts[i].took_ms < 2000);
	assert_contains(logged, "further connections");
}

static void names_a_duplicate_rank(void **state)
{
	(void)state;
	prepare(3, 3, NULL);
	parts[2].rank = 1;
	parts[2].delay_ms = 50;
	play_processes(3, 0);
	assert_all(3, MARROW_INVALID_ARGUMENT);
	assert_contains(parts[0].text, "rank 1 exists twice: rank 1 (");
	assert_contains(parts[0].text, ", 127.0.0.1) and rank 1 (");
	assert_string_equal(parts[0].text, parts[1].text);
	assert_string_equal(parts[0].text, parts[2].text);

	prepare(3, 3, NULL);
	parts[2].rank = 0;
	parts[2].delay_ms = 50;
	play_processes(3, 0);
	assert_all(3, MARROW_INVALID_ARGUMENT);
	assert_contains(parts[1].text, "rank 0 exists twice");
}

static void names_unequal_sizes(void **state)
{
	(void)state;
	prepare(3, 3, NULL);
	parts[2].nranks = 4;
	parts[2].delay_ms = 50;
	play_processes(3, 0);
	assert_all(3, MARROW_MISMATCH);
	assert_contains(parts[1].text, "says there are 4 ranks, rank 0 (");
	assert_contains(parts[1].text, "says 3");
	assert_string_equal(parts[0].text, parts[1].text);
	assert_string_equal(parts[0].text, parts[2].text);
}

static void names_unequal_versions(void **state)
{
	(void)state;
	prepare(3, 3, NULL);
	parts[2].version = MRW_BOOT_WIRE_VERSION + 6;
	parts[2].delay_ms = 50;
	play_threads(3);
	assert_all(3, MARROW_MISMATCH);
	assert_contains(parts[0].text, "version 11");
	assert_contains(parts[0].text, "version 5");
	assert_string_equal(parts[0].text, parts[1].text);
	assert_string_equal(parts[0].text, parts[2].text);
}

static void death_in_set_up_is_told_to_all(void **state)
{
	(void)state;
	prepare(4, 4, NULL);
	parts[2].dies_ms = 60;
	parts[3].delay_ms = 150;
	parts[2].status = MARROW_REMOTE_ERROR;
	play_processes(4, 0);
	assert_int_equal(parts[0].status, MARROW_REMOTE_ERROR);
	assert_contains(parts[0].text, "rank 2 (");
	assert_contains(parts[0].text, "closed its connection during set-up");
	assert_string_equal(parts[0].text, parts[1].text);
	assert_string_equal(parts[0].text, parts[3].text);
}

static void names_missing_links(void **state)
{
	struct idler idler;

	(void)state;
	for (uint32_t rank = 0; rank < 2; rank++) {
		prepare(2, 2, NULL);
		parts[0].rank = rank;
		parts[0].timeout_ms = 200;
		begin_idler(&idler, 1 - rank, 2, &nowhere);
		play_threads(1);
		pthread_join(idler.thread, NULL);
		assert_int_equal(parts[0].status, MARROW_TIMEOUT);
		assert_contains(parts[0].text, rank ? "rank 0 (byhand, pid 0, 127.0.0.1) did not connect here"
						    : "did not answer at 127.0.0.1:1 (Connection refused)");
	}
}

static void names_missing_ranks(void **state)
{
	(void)state;
	prepare(6, 6, NULL);
	parts[1] = parts[4];
	for (int i = 0; i < 2; i++)
		parts[i].timeout_ms = 300;
	play_threads(2);
	assert_all(2, MARROW_TIMEOUT);
	assert_contains(parts[0].text, "ranks 1-3, 5 of 6 have not arrived");
	assert_string_equal(parts[0].text, parts[1].text);
}

/* Its first hello still waits at the root's door when the root comes, and is no other rank 1. */
static void may_come_again(void **state)
{
	(void)state;
	prepare(3, 2, NULL);
	parts[0].delay_ms = 400;
	parts[1].delay_ms = 0;
	parts[1].timeout_ms = 150;
	parts[2].rank = 1;
	parts[2].delay_ms = 300;
	play_processes(3, 0);
	assert_int_equal(parts[1].status, MARROW_TIMEOUT);
	parts[1] = parts[2];
	assert_all(2, MARROW_SUCCESS);
}

static void names_an_unreachable_root(void **state)
{
	(void)state;
	prepare(2, 2, NULL);
	abandon_id();
	parts[1].timeout_ms = 200;
	begin_capture();
	play(&parts[1]);
	end_capture();
	assert_int_equal(parts[1].status, MARROW_TIMEOUT);
	assert_contains(parts[1].text, "rank 1 cannot reach the root at 127.0.0.1:");

	/* Its process lives, but no rank there comes. */
	prepare(2, 2, NULL);
	parts[1].timeout_ms = 200;
	parts[0].delay_ms = 400;
	play_processes(2, 0);
	assert_int_equal(parts[1].status, MARROW_TIMEOUT);
	assert_contains(parts[1].text, "did not answer rank 1");
	assert_int_equal(parts[0].status, MARROW_REMOTE_ERROR);
	assert_contains(parts[0].text, "rank 1 (");
	assert_contains(parts[0].text, "closed its connection during set-up");
	assert_true(parts[0].took_ms < TIMEOUT_MS / 2);
}

static void names_the_descriptor_limit(void **state)
{
	struct rlimit limit, small;
	bool named = false;
	int spare;

	(void)state;
	prepare(8, 8, act_exchange);
	for (int i = 0; i < 8; i++)
		parts[i].timeout_ms = 500;
	getrlimit(RLIMIT_NOFILE, &limit);
	spare = dup(STDOUT_FILENO);
	small = limit;
	small.rlim_cur = (rlim_t)spare + 24;
	close(spare);
	setrlimit(RLIMIT_NOFILE, &small);
	play_threads(8);
	setrlimit(RLIMIT_NOFILE, &limit);
	for (int i = 0; i < 8; i++) {
		assert_int_not_equal(parts[i].status, MARROW_SUCCESS);
		named |= parts[i].status == MARROW_SYSTEM_ERROR && strstr(parts[i].text, "ulimit -n");
	}
	assert_true(named);
}

static void rejects_foreign_ids(void **state)
{
	struct marrow_unique_id id = {{0}};
	struct mrw_boot *boot;

	(void)state;
	begin_capture();
	assert_int_equal(mrw_boot_open(&boot, &id, 0, 2, NULL), MARROW_INVALID_ARGUMENT);
	assert_null(boot);
	end_capture();
	prepare(1, 1, NULL);
	id = parts[0].id;
	memset(id.bytes + 64, 0, 64);
	begin_capture();
	assert_int_equal(mrw_boot_open(&boot, &id, 0, 1, NULL), MARROW_INVALID_ARGUMENT);
	end_capture();
	assert_contains(mrw_error_text(), "truncated");
	begin_capture();
	assert_int_equal(mrw_boot_open(&boot, &parts[0].id, 3, 3, NULL), MARROW_INVALID_ARGUMENT);
	end_capture();
	abandon_id();
}

static void chooses_an_interface(void **state)
{
	struct marrow_unique_id id;
	struct mrw_boot_id fields;

	(void)state;
	begin_capture();
	assert_int_equal(mrw_boot_make_id(&id, "=nosuch0"), MARROW_INVALID_ARGUMENT);
	end_capture();
	assert_contains(mrw_error_text(), "nosuch0");
	assert_contains(mrw_error_text(), " lo");

	/* Whatever this machine has, loopback alone included. */
	prepare(3, 3, act_exchange);
	abandon_id();
	assert_int_equal(mrw_boot_make_id(&id, ""), MARROW_SUCCESS);
	memcpy(&fields, id.bytes, sizeof fields);
	assert_int_not_equal(mrw_addr_port(&fields.addrs[0]), 0);
	for (int i = 0; i < 3; i++)
		parts[i].id = id;
	parts[2].ifname = "lo";
	parts[2].rank = 2;
	play_threads(3);
	assert_all(3, MARROW_SUCCESS);
}

static void meets_by_environment(void **state)
{
	char root[64];

	(void)state;
	snprintf(root, sizeof root, "127.0.0.1:%u", free_port());
	play_env_at(root, 4);
	/* At once again on the same port. */
	play_env_at(root, 3);
	snprintf(root, sizeof root, "localhost:%u", free_port());
	play_env_at(root, 2);
}

/* The side that closes first keeps a connection's port for a minute. A job may be told to meet there all the same. */
static void listens_where_a_connection_was(void **state)
{
	struct mrw_addr bound, peer = {.family = 4, .bytes = {127, 0, 0, 1}}, local;
	int listening, dialled, accepted, again = -1;

	(void)state;
	assert_int_equal(mrw_sock_listen(&listening, NULL, 0, &bound), MARROW_SUCCESS);
	mrw_addr_set_port(&peer, mrw_addr_port(&bound));
	dialled = mrw_sock_dial(&peer);
	assert_true(dialled >= 0);
	do
		accepted = mrw_sock_accept(listening, &peer);
	while (accepted < 0 && errno == EAGAIN);
	assert_true(accepted >= 0);
	assert_int_equal(mrw_sock_dialled(dialled), 0);
	mrw_sock_local(dialled, &local);
	close(dialled);
	sleep_ms(5); /* the other side hears of it first */
	close(accepted);
	assert_int_equal(mrw_sock_listen(&again, NULL, mrw_addr_port(&local), &bound), MARROW_SUCCESS);
	close(again);
	close(listening);
}

static void rejects_bad_root_addresses(void **state)
{
	static const char *const bad[] = {"",           "host",     "host:",  ":80",   "host:0",
					  "host:65536", "host:12x", "::1:80", "[::1]", "[]:80"};
	struct marrow_unique_id id;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		enum marrow_status status;

		begin_capture();
		status = mrw_boot_make_env_id(&id, bad[i], "", false);
		end_capture();
		assert_int_equal(status, MARROW_INVALID_ARGUMENT);
	}
}

static void names_unequal_sizes_by_environment(void **state)
{
	char root[64];

	(void)state;
	snprintf(root, sizeof root, "127.0.0.1:%u", free_port());
	prepare(2, 2, NULL);
	abandon_id();
	parts[1].nranks = 3;
	for (int i = 0; i < 2; i++) {
		parts[i].delay_ms = (uint64_t)i * 50;
		assert_int_equal(mrw_boot_make_env_id(&parts[i].id, root, "", i == 0), MARROW_SUCCESS);
	}
	play_threads(2);
	assert_all(2, MARROW_MISMATCH);
	assert_string_equal(parts[0].text, parts[1].text);
}

/* Parts 2 and 3 belong to a job of that root and another name, and to one without a name. */
static void jobs_of_one_root_do_not_mix(void **state)
{
	static const char *const jobs[] = {"train 7", "train 7", "train 8", ""};
	char root[64];

	(void)state;
	snprintf(root, sizeof root, "127.0.0.1:%u", free_port());
	prepare(4, 2, NULL);
	abandon_id();
	for (int i = 0; i < 4; i++) {
		assert_int_equal(mrw_boot_make_env_id(&parts[i].id, root, jobs[i], i == 0), MARROW_SUCCESS);
		if (i >= 2) {
			parts[i].rank = 1;
			parts[i].timeout_ms = 300;
		}
	}
	parts[1].delay_ms = 600; /* when the others have given up */
	play_threads(4);
	assert_all(2, MARROW_SUCCESS);
	assert_int_equal(parts[2].status, MARROW_TIMEOUT);
	assert_int_equal(parts[3].status, MARROW_TIMEOUT);
	assert_contains(logged, "another job's key");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strangers_neither_join_nor_stall),
		cmocka_unit_test(survives_a_flood),
		cmocka_unit_test(names_a_duplicate_rank),
		cmocka_unit_test(names_unequal_sizes),
		cmocka_unit_test(names_unequal_versions),
		cmocka_unit_test(death_in_set_up_is_told_to_all),
		cmocka_unit_test(names_missing_links),
		cmocka_unit_test(names_missing_ranks),
		cmocka_unit_test(may_come_again),
		cmocka_unit_test(names_an_unreachable_root),
		cmocka_unit_test(names_the_descriptor_limit),
		cmocka_unit_test(rejects_foreign_ids),
		cmocka_unit_test(chooses_an_interface),
		cmocka_unit_test(meets_by_environment),
		cmocka_unit_test(listens_where_a_connection_was),
		cmocka_unit_test(rejects_bad_root_addresses),
		cmocka_unit_test(names_unequal_sizes_by_environment),
		cmocka_unit_test(jobs_of_one_root_do_not_mix),
	};

	return set_stage() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
