/* bad_init.c - communicators that cannot come to be: wrong ids, ranks that disagree, bad configuration and environment, failing
 * groups, exhausted descriptors and memory. Each rank gets a status and words that say who, what and what to do; nothing leaks.
 *
 * bad_init (host target) */
#include "crew.h"
#include "verdict.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX = 6, TRIES = 10, LIMIT_MAX = 40 };

/* One rank's init in a thread of its own, and what came of it. */
struct attempt {
	uint32_t nranks, rank;
	const struct marrow_unique_id *id;
	struct marrow_config config;
	enum marrow_status want;
	const char *words;
	/* result */
	enum marrow_status status;
	char text[1024];
	struct marrow_comm *comm;
	pthread_t thread;
};

static void *try_init(void *p)
{
	struct attempt *a = p;
	a->comm = (struct marrow_comm *)(uintptr_t)8; /* must become NULL */
	a->status = marrow_comm_init(&a->comm, a->nranks, a->id, a->rank, &a->config);
	snprintf(a->text, sizeof a->text, "%s", marrow_last_error(NULL));
	return NULL;
}

/* All at once; then each must have what it wants, and nothing may be left. ids: sockets behind ids that are used up. */
static void check_inits(const char *what, struct attempt *attempts, int n, uint32_t ids)
{
	struct census before = census_take();
	char name[128];
	watchdog(30, what);
	for (int i = 0; i < n; i++) {
		if (attempts[i].config.size == 0) {
			struct marrow_config config = MARROW_CONFIG_INIT;
			config.target = MARROW_TARGET_HOST;
			config.timeout_ms = 20000;
			attempts[i].config = config;
		}
		if (pthread_create(&attempts[i].thread, NULL, try_init, &attempts[i]) != 0)
			abort();
	}
	for (int i = 0; i < n; i++)
		pthread_join(attempts[i].thread, NULL);
	for (int i = 0; i < n; i++) {
		struct attempt *a = &attempts[i];
		snprintf(name, sizeof name, "%s, rank %u of %u", what, a->rank, a->nranks);
		expect_status(name, a->status, a->want, a->text, a->words);
		if (a->status != MARROW_SUCCESS)
			expect_true("the handle is NULL", a->comm == NULL);
		else if (marrow_comm_destroy(a->comm) != MARROW_SUCCESS)
			expect_status(name, MARROW_INTERNAL_ERROR, MARROW_SUCCESS, NULL, "");
	}
	before.fds -= ids;
	expect_nothing_left(what, &before);
	watchdog(0, "");
}

static struct marrow_unique_id new_id(void)
{
	struct marrow_unique_id id;
	expect_status("unique id", marrow_get_unique_id(&id), MARROW_SUCCESS, NULL, "");
	return id;
}

static struct marrow_config config_of(uint64_t timeout_ms, const char *host_id, const char *algo)
{
	struct marrow_config config = MARROW_CONFIG_INIT;
	config.target = MARROW_TARGET_HOST;
	config.timeout_ms = timeout_ms;
	config.host_id = host_id;
	config.algo = algo;
	return config;
}

static void arguments(void)
{
	struct marrow_unique_id id = new_id();
	struct marrow_comm *comm;
	struct attempt a[] = {
		{.nranks = 0, .id = &id, .want = MARROW_INVALID_ARGUMENT, .words = "nranks is 0"},
		{.nranks = 2, .rank = 2, .id = &id, .want = MARROW_INVALID_ARGUMENT, .words = "rank 2 of 2|0 to 1"},
		{.nranks = 2, .rank = UINT32_MAX, .id = &id, .want = MARROW_INVALID_ARGUMENT, .words = "rank 4294967295"},
		{.nranks = UINT32_MAX, .rank = 0, .id = &id, .want = MARROW_UNSUPPORTED, .words = "4294967295 ranks|at most 64"},
		{.nranks = 65, .rank = 64, .id = &id, .want = MARROW_UNSUPPORTED, .words = "65 ranks|at most 64"},
		{.nranks = 2, .rank = 0, .id = NULL, .want = MARROW_INVALID_ARGUMENT, .words = "id is NULL|marrow_get_unique_id"},
	};
	expect_status("comm is NULL", marrow_comm_init(NULL, 1, &id, 0, NULL), MARROW_INVALID_ARGUMENT, NULL, "comm is NULL");
	expect_status("id is NULL", marrow_get_unique_id(NULL), MARROW_INVALID_ARGUMENT, NULL, "id is NULL");
	for (size_t i = 0; i < sizeof a / sizeof a[0]; i++)
		check_inits("arguments", &a[i], 1, 0);
	/* The id is as good as new; a communicator of one rank closes its socket. */
	expect_status("id after failures", marrow_comm_init(&comm, 1, &id, 0, NULL), MARROW_SUCCESS, NULL, "");
	expect_status("destroy", marrow_comm_destroy(comm), MARROW_SUCCESS, NULL, "");
}

static void configurations(void)
{
	struct marrow_unique_id id = new_id();
	struct marrow_comm *comm;
	char longer[200];
	memset(longer, 'x', sizeof longer);
	longer[sizeof longer - 1] = 0;
	struct attempt a[] = {
		{.words = "config.size|MARROW_CONFIG_INIT", .config = config_of(0, NULL, NULL)},
		{.words = "config.target|7", .config = config_of(0, NULL, NULL)},
		{.words = "config.max_ctas|65|64", .config = config_of(0, NULL, NULL)},
		{.words = "\"fast\"|oneshot, lines, twoshot, bulk, railshot, rail, ring, treeshot or tree", .config = config_of(0, NULL, "fast")},
		{.words = "host id|longer than 127", .config = config_of(0, longer, NULL)},
		{.words = "interface name|longer", .config = config_of(0, NULL, NULL)},
	};
	a[0].config.size++;
	a[1].config.target = (enum marrow_target)7;
	a[2].config.max_ctas = 65;
	a[5].config.socket_ifname = longer;
	for (size_t i = 0; i < sizeof a / sizeof a[0]; i++) {
		a[i].nranks = 2;
		a[i].id = &id;
		a[i].want = MARROW_INVALID_ARGUMENT;
		check_inits("configuration", &a[i], 1, 0);
	}
	a[0].config.size = 0;
	expect_status("config.size 0", marrow_comm_init(&comm, 1, &id, 0, &a[0].config), MARROW_INVALID_ARGUMENT, NULL, "config.size is 0");
	expect_status("id after failures", marrow_comm_init(&comm, 1, &id, 0, NULL), MARROW_SUCCESS, NULL, "");
	expect_status("destroy", marrow_comm_destroy(comm), MARROW_SUCCESS, NULL, "");
}

static void ids(void)
{
	struct marrow_unique_id zero, cut, altered, foreign, a_id, b_id, good = new_id();
	struct marrow_comm *comm;
	memset(&zero, 0, sizeof zero);
	cut = altered = good;
	memset(cut.bytes + 64, 0, 64);
	altered.bytes[20] ^= 1;
	for (size_t i = 0; i < sizeof foreign.bytes; i++)
		foreign.bytes[i] = (uint8_t)(37 * i + 11);
	struct attempt bad[] = {
		{.nranks = 2, .id = &zero, .want = MARROW_INVALID_ARGUMENT, .words = "unique id|marrow_get_unique_id"},
		{.nranks = 2, .id = &foreign, .want = MARROW_INVALID_ARGUMENT, .words = "unique id|another library"},
		{.nranks = 2, .id = &cut, .want = MARROW_INVALID_ARGUMENT, .words = "unique id|truncated|128"},
		{.nranks = 2, .id = &altered, .want = MARROW_INVALID_ARGUMENT, .words = "unique id|altered"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		check_inits("id", &bad[i], 1, 0);
	expect_status("id after failures", marrow_comm_init(&comm, 1, &good, 0, NULL), MARROW_SUCCESS, NULL, "");
	expect_status("destroy", marrow_comm_destroy(comm), MARROW_SUCCESS, NULL, "");
	/* Its socket is closed now: nobody listens. */
	struct attempt late = {.nranks = 2, .rank = 1, .id = &good, .want = MARROW_REMOTE_ERROR, .words = "root|is complete already"};
	check_inits("id used before", &late, 1, 0);
	/* Two ranks with different ids wait for each other. */
	a_id = new_id();
	b_id = new_id();
	struct attempt apart[] = {
		{.nranks = 2, .rank = 0, .id = &a_id, .want = MARROW_TIMEOUT, .words = "rank 1|has not arrived|500 ms", .config = config_of(500, NULL, NULL)},
		{.nranks = 2, .rank = 1, .id = &b_id, .want = MARROW_TIMEOUT, .words = "rank 0|has not arrived|500 ms", .config = config_of(500, NULL, NULL)},
	};
	check_inits("different ids", apart, 2, 2);
}

static void disagreements(void)
{
	struct marrow_unique_id id;
	/* Often: who comes first, and is the root, is a matter of luck. */
	for (int i = 0; i < TRIES; i++) {
		id = new_id();
		struct attempt sizes[] = {
			{.nranks = 2, .rank = 1, .id = &id, .want = MARROW_MISMATCH, .words = "rank|ranks|3|2"},
			{.nranks = 3, .rank = 0, .id = &id, .want = MARROW_MISMATCH, .words = "rank|ranks|3|2"},
			{.nranks = 3, .rank = 1, .id = &id, .want = MARROW_MISMATCH, .words = "rank|ranks|3|2"},
		};
		check_inits("different n", sizes, 3, 1);
	}
	id = new_id();
	struct attempt twice[] = {
		{.nranks = 3, .rank = 0, .id = &id, .want = MARROW_INVALID_ARGUMENT, .words = "exists twice|pid"},
		{.nranks = 3, .rank = 1, .id = &id, .want = MARROW_INVALID_ARGUMENT, .words = "exists twice|pid"},
		{.nranks = 3, .rank = 1, .id = &id, .want = MARROW_INVALID_ARGUMENT, .words = "exists twice|pid"},
	};
	check_inits("same rank twice", twice, 3, 1);
	struct attempt all[MAX];
	/* Often: a slow rank must reach the same verdict when fast ones have hung up already. */
	for (int i = 0; i < TRIES; i++) {
		id = new_id();
		for (uint32_t r = 0; r < MAX; r++)
			all[r] = (struct attempt){.nranks = MAX, .rank = r, .id = &id, .want = MARROW_UNSUPPORTED, .words = "rank 0|\"left\"|rank 2|\"right\"|host",
				.config = config_of(20000, r == 2 ? "right" : "left", NULL)};
		check_inits("different hosts", all, MAX, 1);
		id = new_id();
		for (uint32_t r = 0; r < MAX; r++)
			all[r] = (struct attempt){.nranks = MAX, .rank = r, .id = &id, .want = MARROW_MISMATCH, .words = "rank 4 (|has MARROW_ALGO=bulk|rank 0 (|has MARROW_ALGO=oneshot: set",
				.config = config_of(20000, NULL, r == 4 ? "bulk" : "oneshot")};
		check_inits("different algorithms", all, MAX, 1);
	}
	id = new_id();
	for (uint32_t r = 0; r < MAX; r++)
		all[r] = (struct attempt){.nranks = MAX, .rank = r, .id = &id, .want = MARROW_MISMATCH, .words = "rank 3 (|has MARROW_ALGO=ring|rank 0 (|has no MARROW_ALGO: set",
			.config = config_of(20000, NULL, r >= 3 ? "ring" : NULL)};
	check_inits("an algorithm on some ranks", all, MAX, 1);
	/* A limit of each rank's own: the least counts, and that all came to the same is proved at the end. */
	id = new_id();
	for (uint32_t r = 0; r < MAX; r++) {
		all[r] = (struct attempt){.nranks = MAX, .rank = r, .id = &id, .want = MARROW_SUCCESS, .words = "", .config = config_of(20000, NULL, NULL)};
		all[r].config.max_ctas = r % 3 * (r + 1);
	}
	check_inits("different limits", all, MAX, 1);
	id = new_id();
	for (uint32_t r = 0; r < MAX; r++)
		all[r] = (struct attempt){.nranks = MAX, .rank = r, .id = &id, .want = MARROW_SUCCESS, .words = "",
			.config = config_of(20000, "same", "bulk")};
	check_inits("no disagreement", all, MAX, 1);
}

/* Groups of inits in one thread: all or nothing. */
static void groups(void)
{
	struct marrow_unique_id id = new_id();
	struct marrow_config config = config_of(20000, NULL, NULL), bad = config_of(0, NULL, "fast");
	struct marrow_comm *comms[MAX];
	float x = 1, y = 0;
	watchdog(30, "groups of inits");
	for (int i = 0; i < MAX; i++)
		comms[i] = (struct marrow_comm *)(uintptr_t)8;
	struct census before = census_take();
	marrow_group_start();
	expect_status("first init", marrow_comm_init(&comms[0], 2, &id, 0, &config), MARROW_SUCCESS, NULL, "");
	expect_status("call before the group end", marrow_barrier(comms[0], NULL), MARROW_INVALID_USAGE, NULL, "marrow_barrier|marrow_group_end()");
	expect_status("init with a bad config", marrow_comm_init(&comms[1], 2, &id, 1, &bad), MARROW_INVALID_ARGUMENT, NULL, "\"fast\"");
	expect_status("group end", marrow_group_end(), MARROW_INVALID_USAGE, NULL, "");
	expect_true("no handle is left", comms[0] == NULL && comms[1] == NULL);
	expect_nothing_left("a group with a bad init", &before);

	/* The id still waits: one rank's build fails, all others' handles go. */
	marrow_group_start();
	for (uint32_t r = 0; r < 3; r++)
		expect_status("init", marrow_comm_init(&comms[r], r == 2 ? 4 : 3, &id, r, &config), MARROW_SUCCESS, NULL, "");
	expect_status("group end", marrow_group_end(), MARROW_MISMATCH, NULL, "ranks|3|4");
	for (int r = 0; r < 3; r++)
		expect_true("no handle is left", comms[r] == NULL);
	before.fds--; /* the id's socket */
	expect_nothing_left("a group with a failing init", &before);

	/* One of two communicators is fine and yet goes. */
	struct marrow_unique_id other = new_id();
	id = new_id();
	marrow_group_start();
	for (uint32_t r = 0; r < 2; r++) {
		struct marrow_config host = config_of(20000, r ? "left" : "right", NULL);
		expect_status("init", marrow_comm_init(&comms[r], 2, &id, r, &config), MARROW_SUCCESS, NULL, "");
		expect_status("init", marrow_comm_init(&comms[2 + r], 2, &other, r, &host), MARROW_SUCCESS, NULL, "");
	}
	expect_status("group end", marrow_group_end(), MARROW_UNSUPPORTED, NULL, "\"left\"|\"right\"");
	for (int r = 0; r < 4; r++)
		expect_true("no handle is left", comms[r] == NULL);
	expect_nothing_left("a group with a failing communicator", &before);

	id = new_id();
	marrow_group_start();
	for (uint32_t r = 0; r < 2; r++)
		expect_status("init", marrow_comm_init(&comms[r], 2, &id, r, &config), MARROW_SUCCESS, NULL, "");
	expect_status("group end", marrow_group_end(), MARROW_SUCCESS, NULL, "");
	marrow_group_start();
	expect_status("call", marrow_all_reduce(&x, &y, 1, MARROW_FLOAT32, MARROW_SUM, comms[0], NULL), MARROW_SUCCESS, NULL, "");
	float z = 0;
	expect_status("call", marrow_all_reduce(&x, &z, 1, MARROW_FLOAT32, MARROW_SUM, comms[1], NULL), MARROW_SUCCESS, NULL, "");
	expect_status("group end", marrow_group_end(), MARROW_SUCCESS, NULL, "");
	expect_true("a group after failed ones works", y == 2 && z == 2);
	for (int r = 0; r < 2; r++)
		expect_status("destroy", marrow_comm_destroy(comms[r]), MARROW_SUCCESS, NULL, "");
	expect_nothing_left("a group that works", &before);
	watchdog(0, "");
}

/* Environment variables, each in a fresh process. */
struct setting {
	const char *name, *value;
	const char *words;          /* of the refusal; NULL: init works and the words of warning are on stderr */
	const char *warning;
	bool by_env;                /* marrow_comm_init_env() */
	const char *more[4];        /* further names and values */
};

static void try_setting(void *p)
{
	const struct setting *s = p;
	struct marrow_comm *comm = (struct marrow_comm *)(uintptr_t)8;
	enum marrow_status status;
	char text[2048];
	int ends[2], saved = dup(STDERR_FILENO);
	setenv(s->name, s->value, 1);
	for (int i = 0; i < 4 && s->more[i]; i += 2)
		setenv(s->more[i], s->more[i + 1], 1);
	if (saved < 0 || pipe(ends) != 0)
		abort();
	dup2(ends[1], STDERR_FILENO);
	close(ends[1]);
	if (s->by_env)
		status = marrow_comm_init_env(&comm, NULL);
	else
		status = marrow_comm_init(&comm, 1, NULL, 0, NULL);
	dup2(saved, STDERR_FILENO);
	close(saved);
	ssize_t n = read(ends[0], text, sizeof text - 1);
	text[n > 0 ? n : 0] = 0;
	close(ends[0]);
	if (s->words) {
		expect_status(s->name, status, MARROW_INVALID_ARGUMENT, NULL, s->words);
		expect_true("the handle is NULL", comm == NULL);
		return;
	}
	expect_status(s->name, status, MARROW_SUCCESS, NULL, "");
	expect_status(s->name, status, MARROW_SUCCESS, text, s->warning);
	if (!s->warning[0] && text[0])
		expect_status("no warning", MARROW_SUCCESS, MARROW_INTERNAL_ERROR, text, "");
	expect_status("destroy", marrow_comm_destroy(comm), MARROW_SUCCESS, NULL, "");
}

static void no_such_interface(void *p)
{
	struct marrow_unique_id id;
	(void)p;
	setenv("MARROW_SOCKET_IFNAME", "=nosuch0", 1);
	expect_status("unknown interface", marrow_get_unique_id(&id), MARROW_INVALID_ARGUMENT, NULL, "MARROW_SOCKET_IFNAME==nosuch0|there are:");
}

static void environment(void)
{
	static char far_path[600];
	memset(far_path, 'x', sizeof far_path - 1);
	static struct setting settings[] = {
		{.name = "MARROW_TIMEOUT_MS", .value = "abc", .words = "MARROW_TIMEOUT_MS=abc|decimal|0 to"},
		{.name = "MARROW_TIMEOUT_MS", .value = "-1", .words = "MARROW_TIMEOUT_MS=-1|0 to"},
		{.name = "MARROW_TIMEOUT_MS", .value = "10s", .words = "MARROW_TIMEOUT_MS=10s"},
		{.name = "MARROW_TIMEOUT_MS", .value = "99999999999999999999", .words = "MARROW_TIMEOUT_MS=9999"},
		{.name = "MARROW_MAX_CTAS", .value = "65", .words = "MARROW_MAX_CTAS=65|0 to 64"},
		{.name = "MARROW_ALGO", .value = "star", .words = "\"star\"|MARROW_ALGO|oneshot"},
		{.name = "MARROW_TARGET", .value = "gpu", .words = "MARROW_TARGET|\"gpu\"|auto, host or cuda"},
		{.name = "MARROW_RINGS", .value = "elsewhere", .words = "MARROW_RINGS|\"elsewhere\"|auto, gpu or host"},
		{.name = "MARROW_NIC_TIMEOUT", .value = "0", .words = "MARROW_NIC_TIMEOUT=0|1 to 31"},
		{.name = "MARROW_RANK", .value = "2", .words = "rank 2 of 2|0 to 1", .by_env = true, .more = {"MARROW_NRANKS", "2"}},
		{.name = "MARROW_RANK", .value = "one", .words = "MARROW_RANK=one", .by_env = true, .more = {"MARROW_NRANKS", "2"}},
		{.name = "MARROW_NRANKS", .value = "0", .words = "MARROW_NRANKS=0|1 to", .by_env = true, .more = {"MARROW_RANK", "0"}},
		{.name = "MARROW_NRANKS", .value = "2", .words = "MARROW_RANK", .by_env = true},
		{.name = "MARROW_RANK", .value = "0", .words = "MARROW_ROOT=host:port", .by_env = true, .more = {"MARROW_NRANKS", "2"}},
		{.name = "MARROW_ROOT", .value = "nowhere", .words = "\"nowhere\"|host:port", .by_env = true,
		 .more = {"MARROW_NRANKS", "2", "MARROW_RANK", "0"}},
		{.name = "RANK", .value = "x", .words = "RANK|\"x\"|number", .by_env = true},
		{.name = "MARROW_TUNING", .value = far_path, .words = "MARROW_TUNING is longer than 511"},
		{.name = "MARROW_TUNING", .value = "/nowhere", .warning = ""}, /* one rank has nothing to choose */
		{.name = "MARROW_TIMEUOT_MS", .value = "1", .warning = "warn|MARROW_TIMEUOT_MS|no effect"},
		{.name = "MARROW_TIMEOUT_MS", .value = "", .warning = ""},
		{.name = "MARROW_MAX_CTAS", .value = "64", .warning = ""},
		{.name = "MARROW_RINGS", .value = "gpu", .warning = ""}, /* one rank has none */
		{.name = "MARROW_RANK", .value = "0", .warning = "", .by_env = true, .more = {"MARROW_NRANKS", "1"}},
	};
	for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
		expect_in_child(settings[i].name, try_setting, &settings[i]);
	expect_in_child("unknown interface", no_such_interface, NULL);
}

/* Two processes, of which rank 1 is short of something. */
enum shortage { SHORT_OF_FDS, SHORT_OF_FILE_BYTES, SHORT_OF_MEMORY };

struct squeeze {
	enum shortage of;
	uint64_t amount;
	enum marrow_status status;    /* of rank 1, SUCCESS: may also work */
	const char *words;
};

static void set_soft(__rlimit_resource_t resource, rlim_t value, struct rlimit *saved)
{
	struct rlimit limit;
	if (getrlimit(resource, saved) != 0)
		abort();
	limit = *saved;
	limit.rlim_cur = value < saved->rlim_max ? value : saved->rlim_max;
	if (setrlimit(resource, &limit) != 0)
		abort();
}

static uint64_t address_space(void)
{
	unsigned long long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (!f || fscanf(f, "%llu", &pages) != 1)
		abort();
	fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

enum { INIT_FAILED, INIT_WORKED };

/* stderr to nowhere. Returns what it was. */
static int mute(void)
{
	int was = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY);
	dup2(nowhere, STDERR_FILENO);
	close(nowhere);
	return was;
}

static void squeeze_body(struct crew_member *self)
{
	const struct squeeze *s = self->arg;
	struct marrow_config config = config_of(sanitized ? 3000 : patient() ? 2000 : 1500, NULL, NULL);
	__rlimit_resource_t resource = s->of == SHORT_OF_FDS ? RLIMIT_NOFILE : s->of == SHORT_OF_MEMORY ? RLIMIT_AS : RLIMIT_FSIZE;
	struct rlimit saved;
	struct census before = census_take();
	char text[1024];
	int already = failures(); /* the parent's */
	int quiet = -1;
	if (self->rank == 0)
		expect_status("unique id", marrow_get_unique_id(&self->board->id), MARROW_SUCCESS, NULL, "");
	meet(&self->board->meeting, self->size);
	if (self->rank == 1) {
		uint64_t amount = s->amount;
		if (s->of == SHORT_OF_FDS) {
			int next = dup(0);
			close(next);
			amount += (uint64_t)next;
		} else if (s->of == SHORT_OF_MEMORY) {
			amount += address_space();
		}
		/* What is logged may go to a file, which then is too large as well. */
		if (s->of == SHORT_OF_FILE_BYTES)
			quiet = mute();
		set_soft(resource, amount, &saved);
	}
	enum marrow_status status = marrow_comm_init(&self->comm, self->size, &self->board->id, self->rank, &config);
	snprintf(text, sizeof text, "%s", marrow_last_error(NULL));
	if (self->rank == 1)
		setrlimit(resource, &saved);
	if (quiet >= 0) {
		dup2(quiet, STDERR_FILENO);
		close(quiet);
	}
	__atomic_fetch_add(&self->board->words[status == MARROW_SUCCESS ? INIT_WORKED : INIT_FAILED], 1, __ATOMIC_ACQ_REL);
	meet(&self->board->meeting, self->size);
	if (self->board->words[INIT_WORKED] == self->size) {
		expect_status("destroy", marrow_comm_destroy(self->comm), MARROW_SUCCESS, NULL, "");
	} else {
		expect_true("one init fails, all fail", self->board->words[INIT_FAILED] == self->size);
		if (self->rank == 1)
			expect_status(self->doing, status, s->status, text, s->words);
		else if (status == MARROW_SYSTEM_ERROR || status == MARROW_TIMEOUT) /* as rank 1 told, or it did not come */
			expect_status(self->doing, status, status, text, "rank 1 ");
		else
			expect_status(self->doing, status, MARROW_REMOTE_ERROR, text, "rank 1 ");
	}
	expect_nothing_left(self->doing, &before);
	if (failures() > already)
		crew_fail(self, "%d complaints with %llu left", failures() - already, (unsigned long long)s->amount);
}

/* True if it worked in spite of the shortage. */
static bool squeeze(const char *doing, struct squeeze s)
{
	struct crew crew = {.doing = doing, .target = MARROW_TARGET_HOST, .size = 2, .arg = &s, .seconds = 30};
	bool worked;
	crew_start(&crew, squeeze_body);
	/* The board goes at the end: look before, when both have met. */
	await_word(&crew.board->meeting.arrived, 4, 30000);
	worked = __atomic_load_n(&crew.board->words[INIT_WORKED], __ATOMIC_ACQUIRE) == 2;
	expect_true(doing, crew_end(&crew, 0) == 0);
	return worked;
}

static void shortages(void)
{
	uint64_t fds = 0;
	while (fds < LIMIT_MAX && !squeeze("too few file descriptors", (struct squeeze){SHORT_OF_FDS, fds, MARROW_SYSTEM_ERROR, "ulimit -n|Too many open"}))
		fds++;
	expect_true("a few descriptors suffice", fds > 3 && fds < LIMIT_MAX);
	printf("rank 1 of 2 needs %llu descriptors to start\n", (unsigned long long)fds);
	expect_true("no room for the page", !squeeze("no room for the page", (struct squeeze){SHORT_OF_FILE_BYTES, 0, MARROW_OUT_OF_MEMORY,
		"reserve|4096 bytes|shared memory|free memory"}));
	expect_true("no room for the arena", !squeeze("no room for the arena", (struct squeeze){SHORT_OF_FILE_BYTES, 65536, MARROW_OUT_OF_MEMORY,
		"reserve|bytes of shared memory|free memory"}));
	if (sanitized) /* their shadow takes address space as it likes */
		return;
	uint64_t halves = 2; /* MiB: the own arena fails first, then the peer's */
	while (halves < LIMIT_MAX && !squeeze("too little address space", (struct squeeze){SHORT_OF_MEMORY, halves << 19, MARROW_OUT_OF_MEMORY,
		halves == 2 ? "cannot map|bytes of shared memory" : "cannot map|bytes"}))
		halves++;
	expect_true("a few MiB suffice", halves > 5 && halves < LIMIT_MAX);
	printf("rank 1 of 2 needs %.1f MiB to start\n", (double)halves / 2);
}

int main(void)
{
	static const struct {
		const char *name;
		void (*test)(void);
	} tests[] = {
		{"environment", environment}, /* first: children of a process that has not looked at it yet */
		{"arguments", arguments}, {"configurations", configurations}, {"ids", ids}, {"disagreements", disagreements},
		{"groups of inits", groups}, {"shortages", shortages},
	};
	for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
		int already = failures();
		uint64_t start = now_ms();
		tests[i].test();
		printf("%s, %.1f s: %s\n", tests[i].name, (double)(now_ms() - start) / 1e3, failures() > already ? "FAILED" : "ok");
		fflush(stdout);
	}
	return failures() ? 1 : 0;
}
