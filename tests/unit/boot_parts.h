/* boot_parts.h - ranks as threads and as processes, for the tests of the bootstrap. Each rank plays a part; what is logged meanwhile is
 * kept. Delays are random: the seed is printed, MARROW_TEST_SEED sets it. */
#ifndef BOOT_PARTS_H
#define BOOT_PARTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "boot_id.h"
#include "bootstrap.h"

enum { RANKS_MAX = 100, TIMEOUT_MS = 5000, LOG_BYTES = 1 << 16 };

static uint64_t seed;

static inline uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

static inline void sleep_ms(uint64_t ms)
{
	struct timespec pause = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

	nanosleep(&pause, NULL);
}

/* What one rank is to do, and how it went. Lives in memory that processes share. */
struct part {
	struct marrow_unique_id id;
	uint32_t rank, nranks, version;
	uint64_t timeout_ms, delay_ms;
	const char *ifname;
	enum marrow_status (*act)(struct part *part, struct mrw_boot *boot); /* NULL: only opens and closes */
	enum marrow_status status;
	char text[MRW_ERROR_TEXT_BYTES];
	char note[256];
	uint64_t took_ms;
	uint64_t dies_ms;  /* processes only: after so long an alarm ends it */
	bool stops;        /* or only stops it */
	bool dies_ready;   /* processes only: ends when it has said that it is ready (test_boot_tree.c) */
	uint32_t files;    /* processes only: so many descriptors may be opened */
	size_t bytes;      /* of a block */
	atomic_int *stage; /* for acts that wait for each other */
};

static struct part *parts;
static _Thread_local struct part *playing;
static atomic_int *stage;

static inline void stop_here(int signal)
{
	(void)signal;
	raise(SIGSTOP);
}

static inline void limit_files(uint32_t more)
{
	struct rlimit limit;
	int fd = 0;

	for (uint32_t unused = 0; unused < more; fd++)
		unused += fcntl(fd, F_GETFD) < 0;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = (rlim_t)fd;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static inline void *play(void *argument)
{
	struct part *part = argument;
	struct mrw_boot_options options = {part->timeout_ms, part->ifname, 0, NULL, 0};
	struct mrw_boot *boot = NULL;
	uint64_t begin;

	playing = part;
	sleep_ms(part->delay_ms);
	if (part->files)
		limit_files(part->files);
	if (part->stops)
		signal(SIGALRM, stop_here);
	if (part->dies_ms)
		setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {(time_t)(part->dies_ms / 1000), (suseconds_t)(part->dies_ms % 1000) * 1000}},
			  NULL);
	if (part->version)
		mrw_boot_set_wire_version_for_test(part->version);
	begin = mrw_boot_now_ms();
	part->status = mrw_boot_open(&boot, &part->id, part->rank, part->nranks, &options);
	part->took_ms = mrw_boot_now_ms() - begin;
	if (part->status == MARROW_SUCCESS && part->act)
		part->status = part->act(part, boot);
	if (part->status != MARROW_SUCCESS)
		snprintf(part->text, sizeof part->text, "%s", mrw_error_text());
	else
		mrw_boot_tell(boot, MRW_NOTICE_BYE, NULL);
	mrw_boot_close(boot);
	mrw_boot_set_wire_version_for_test(MRW_BOOT_WIRE_VERSION);
	return NULL;
}

/* stderr while the ranks play: what was logged is asserted on, not shown. */
static char logged[LOG_BYTES];
static int log_fd = -1, stderr_fd = -1;

static inline void begin_capture(void)
{
	log_fd = memfd_create("log", MFD_CLOEXEC);
	fcntl(log_fd, F_SETFL, O_APPEND);
	stderr_fd = dup(STDERR_FILENO);
	fflush(stderr);
	dup2(log_fd, STDERR_FILENO);
}

static inline void end_capture(void)
{
	ssize_t got;

	fflush(stderr);
	dup2(stderr_fd, STDERR_FILENO);
	got = pread(log_fd, logged, sizeof logged - 1, 0);
	logged[got > 0 ? got : 0] = '\0';
	close(stderr_fd);
	close(log_fd);
}

static inline void prepare(uint32_t count, uint32_t nranks, enum marrow_status (*act)(struct part *, struct mrw_boot *))
{
	struct marrow_unique_id id;

	assert_int_equal(mrw_boot_make_id(&id, "=lo"), MARROW_SUCCESS);
	atomic_store(stage, 0);
	memset(parts, 0, RANKS_MAX * sizeof *parts);
	for (uint32_t i = 0; i < count; i++)
		parts[i] = (struct part){.id = id,
					 .rank = i,
					 .nranks = nranks,
					 .timeout_ms = TIMEOUT_MS,
					 .ifname = "",
					 .act = act,
					 .delay_ms = next_random(&seed) % 5,
					 .stage = stage};
}

static inline void play_threads(uint32_t count)
{
	pthread_t threads[RANKS_MAX];

	begin_capture();
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, play, &parts[i]), 0);
	for (uint32_t i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	end_capture();
}

/* Those that stop are ended when all others have. */
static inline void await_processes(const pid_t *children, uint32_t count, int here)
{
	for (int stops = 0; stops < 2; stops++)
		for (uint32_t i = 0; i < count; i++) {
			if ((int)i == here || parts[i].stops != stops)
				continue;
			if (stops)
				kill(children[i], SIGKILL);
			waitpid(children[i], NULL, 0);
		}
}

/* Part `here` plays in this process, which made the id; -1: none. Children that kill themselves are no failure of the test. */
static inline void play_processes(uint32_t count, int here)
{
	pid_t children[RANKS_MAX];

	begin_capture();
	for (uint32_t i = 0; i < count; i++) {
		if ((int)i == here)
			continue;
		children[i] = fork();
		if (!children[i]) {
			play(&parts[i]);
			_exit(0);
		}
	}
	if (here >= 0)
		play(&parts[here]);
	await_processes(children, count, here);
	end_capture();
}

static inline void assert_all(uint32_t count, enum marrow_status status)
{
	for (uint32_t i = 0; i < count; i++) {
		if (parts[i].status != status)
			print_message("rank %u: %s\n", parts[i].rank, parts[i].text);
		assert_int_equal(parts[i].status, status);
	}
}

static inline void assert_contains(const char *text, const char *wanted)
{
	if (!strstr(text, wanted))
		print_message("\"%s\"\nlacks \"%s\"\n", text, wanted);
	assert_non_null(strstr(text, wanted));
}

static inline uint8_t content(uint32_t rank, size_t i, uint32_t round)
{
	return (uint8_t)(rank * 31 + i * 7 + (i >> 8) + round * 101 + 1);
}

static inline enum marrow_status gather_once(struct part *part, struct mrw_boot *boot, size_t bytes, uint32_t round)
{
	uint8_t *mine = malloc(bytes + 1), *all = malloc(bytes * part->nranks + 1);
	enum marrow_status status;

	if (!mine || !all)
		abort();
	for (size_t i = 0; i < bytes; i++)
		mine[i] = content(part->rank, i, round);
	all[bytes * part->nranks] = 0xa5;
	status = mrw_boot_allgather(boot, mine, all, bytes);
	for (uint32_t r = 0; r < part->nranks && status == MARROW_SUCCESS; r++)
		for (size_t i = 0; i < bytes; i++)
			if (all[r * bytes + i] != content(r, i, round)) {
				status = mrw_fail(MARROW_INTERNAL_ERROR, "byte %zu of rank %u is wrong", i, r);
				break;
			}
	if (status == MARROW_SUCCESS && all[bytes * part->nranks] != 0xa5)
		status = mrw_fail(MARROW_INTERNAL_ERROR, "written past the end");
	free(mine);
	free(all);
	return status;
}

static inline enum marrow_status act_exchange(struct part *part, struct mrw_boot *boot)
{
	static const size_t bytes[] = {1, 8, 0, 1000, 64};
	uint64_t state = part->rank + seed;
	char begin[32];
	struct mrw_boot_event event;

	snprintf(begin, sizeof begin, "rank %u (", part->nranks - 1);
	if (strncmp(mrw_boot_name(boot, part->nranks - 1), begin, strlen(begin)))
		return mrw_fail(MARROW_INTERNAL_ERROR, "name \"%s\"", mrw_boot_name(boot, part->nranks - 1));
	for (uint32_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
		MRW_TRY(gather_once(part, boot, bytes[i], i));
		if (next_random(&state) % 2)
			sleep_ms(next_random(&state) % 3);
		if (mrw_boot_watch(boot, &event))
			return mrw_fail(MARROW_INTERNAL_ERROR, "notice %d from nobody", event.notice);
		MRW_TRY(mrw_boot_barrier(boot));
	}
	return MARROW_SUCCESS;
}

/* Exchanges; then ranks 0 and 3 go, and the others meet again without a word between them. */
static inline enum marrow_status act_again(struct part *part, struct mrw_boot *boot)
{
	struct mrw_boot_options options = {part->timeout_ms, part->ifname, part->nranks > 3 ? 9 : 1, NULL, 0};
	struct part again = *part;
	struct mrw_boot *fewer = NULL;
	enum marrow_status status;

	MRW_TRY(act_exchange(part, boot));
	if (part->nranks < 2 || options.without >> part->rank & 1)
		return MARROW_SUCCESS;
	sleep_ms(part->rank % 3);
	again.rank = part->rank - 1 - (part->rank > 3);
	again.nranks = part->nranks - (part->nranks > 3 ? 2 : 1);
	MRW_TRY(mrw_boot_make_again_id(boot, options.without, &again.id));
	MRW_TRY(mrw_boot_open(&fewer, &again.id, again.rank, again.nranks, &options));
	status = act_exchange(&again, fewer);
	mrw_boot_tell(fewer, MRW_NOTICE_BYE, NULL);
	mrw_boot_close(fewer);
	return status;
}

/* Claims and closes what waits behind part 0's id. */
static inline void abandon_id(void)
{
	struct mrw_boot *boot;

	assert_int_equal(mrw_boot_open(&boot, &parts[0].id, 0, 1, NULL), MARROW_SUCCESS);
	mrw_boot_close(boot);
}

/* A port that is free now, and not one of those that the system gives to others' sockets. */
static inline uint16_t free_port(void)
{
	static unsigned port_seed;
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	bool taken = true;

	if (!port_seed)
		port_seed = (unsigned)getpid() * 2654435761u ^ (unsigned)time(NULL);
	for (int tries = 0; taken && tries < 100; tries++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		v4.sin_port = htons((uint16_t)(12000 + rand_r(&port_seed) % 8000));
		taken = bind(fd, (struct sockaddr *)&v4, sizeof v4);
		close(fd);
	}
	assert_false(taken);
	return ntohs(v4.sin_port);
}

static inline void *play_env(void *argument)
{
	struct part *part = argument;

	sleep_ms(part->delay_ms);
	part->delay_ms = 0;
	part->status = mrw_boot_make_env_id(&part->id, part->note, "", part->rank == 0);
	return part->status == MARROW_SUCCESS ? play(part) : NULL;
}

static inline void play_env_at(const char *root, uint32_t n)
{
	pid_t children[RANKS_MAX];

	prepare(n, n, act_again);
	abandon_id();
	begin_capture();
	for (uint32_t i = 0; i < n; i++) {
		snprintf(parts[i].note, sizeof parts[i].note, "%s", root);
		if (i == 0)
			parts[i].delay_ms = 60;
		children[i] = fork();
		if (!children[i]) {
			play_env(&parts[i]);
			_exit(0);
		}
	}
	for (uint32_t i = 0; i < n; i++)
		waitpid(children[i], NULL, 0);
	end_capture();
	assert_all(n, MARROW_SUCCESS);
}

/* Rank i is number i to come, unless the machine is slow: what is asserted holds in any order. */
static inline void prepare_in_order(uint32_t count, uint32_t nranks)
{
	prepare(count, nranks, NULL);
	for (uint32_t r = 1; r < count; r++)
		parts[r].delay_ms = 10 * r;
}

/* The text of part r names rank `rank`. */
static inline void assert_names(uint32_t r, uint32_t rank)
{
	char name[16];
	const char *found;

	snprintf(name, sizeof name, "rank %u", rank);
	for (found = strstr(parts[r].text, name); found && strspn(found + strlen(name), "0123456789"); found = strstr(found + 1, name))
		;
	if (!found)
		print_message("rank %u: \"%s\" does not name rank %u\n", r, parts[r].text, rank);
	assert_non_null(found);
}

static inline void assert_one_text(uint32_t count, uint32_t but, enum marrow_status status, const char *wanted)
{
	uint32_t first = but == 0 ? 1 : 0;

	for (uint32_t r = 0; r < count; r++) {
		if (r == but)
			continue;
		if (parts[r].status != status || strcmp(parts[r].text, parts[first].text))
			print_message("rank %u: %s\n", r, parts[r].text);
		assert_int_equal(parts[r].status, status);
		assert_string_equal(parts[r].text, parts[first].text);
		assert_contains(parts[r].text, wanted);
	}
}

/* Plays all by environment, so that the root is a process that can end. */
static inline void play_with_root(uint32_t count)
{
	pid_t children[RANKS_MAX];
	char root[64];

	abandon_id();
	snprintf(root, sizeof root, "127.0.0.1:%u", free_port());
	begin_capture();
	for (uint32_t r = count; r-- > 0;) { /* the root last, for its time runs out */
		snprintf(parts[r].note, sizeof parts[r].note, "%s", root);
		parts[r].delay_ms = r ? 100 + 2 * r : 0;
		children[r] = fork();
		if (!children[r]) {
			play_env(&parts[r]);
			_exit(0);
		}
	}
	await_processes(children, count, -1);
	end_capture();
}

/* First of all: the seed, and memory for the parts. */
static inline bool set_stage(void)
{
	const char *given = getenv("MARROW_TEST_SEED");

	seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
	printf("MARROW_TEST_SEED=%llu\n", (unsigned long long)seed);
	fflush(stdout);
	parts = mmap(NULL, RANKS_MAX * sizeof *parts + sizeof *stage, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (parts == MAP_FAILED)
		return false;
	stage = (atomic_int *)(void *)(parts + RANKS_MAX);
	return true;
}

#endif
