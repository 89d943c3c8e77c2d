/* lifetimes.c - communicators that end, fail or leave at awkward moments (host target): in a group that still holds their calls,
 * before their socket was used, while peers go on; and caps and deadlines at their limits. */
#include "support/world.h"

#include "comm.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, marrow_last_error(NULL)); \
			failures++; \
		} \
	} while (0)

static const struct marrow_config host = {.size = sizeof(struct marrow_config), .target = MARROW_TARGET_HOST, .timeout_ms = 20000};

static int open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;
	while (d && readdir(d))
		n++;
	closedir(d);
	return n;
}

static struct marrow_comm *alone(void)
{
	struct marrow_comm *comm = NULL;
	CHECK(marrow_comm_init(&comm, 1, NULL, 0, &host) == MARROW_SUCCESS);
	return comm;
}

/* A queued call keeps its communicator alive. */
static void destroy_in_group(void)
{
	struct marrow_comm *a = alone();
	int in = 7, out = 0;
	CHECK(marrow_group_start() == MARROW_SUCCESS);
	CHECK(marrow_all_reduce(&in, &out, 1, MARROW_INT32, MARROW_SUM, a, NULL) == MARROW_SUCCESS);
	CHECK(marrow_comm_destroy(a) == MARROW_INVALID_USAGE);
	CHECK(marrow_comm_finalize(a) == MARROW_INVALID_USAGE);
	CHECK(marrow_group_end() == MARROW_SUCCESS);
	CHECK(out == 7);
	CHECK(marrow_comm_destroy(a) == MARROW_SUCCESS);
}

/* The last destroyed handle is not the next one handed out while others are free. */
static void stale_handle(void)
{
	struct marrow_comm *a = alone(), *b = alone();
	uint32_t rank;
	CHECK(marrow_comm_destroy(a) == MARROW_SUCCESS);
	CHECK(marrow_comm_destroy(b) == MARROW_SUCCESS);
	struct marrow_comm *c = alone();
	CHECK(c != b);
	CHECK(marrow_comm_rank(b, &rank) == MARROW_INVALID_ARGUMENT);
	CHECK(marrow_comm_destroy(c) == MARROW_SUCCESS);
}

/* A failed init leaves nothing, and a corrected one succeeds. */
static void failed_env_init(void)
{
	struct marrow_comm *comm = NULL;
	struct marrow_config bad = host;
	char root[32];
	int before = open_files();
	snprintf(root, sizeof root, "127.0.0.1:%d", 20000 + (int)getpid() % 10000);
	bad.algo = "no such algorithm";
	setenv("MARROW_RANK", "0", 1);
	setenv("MARROW_NRANKS", "2", 1);
	setenv("MARROW_ROOT", root, 1);
	CHECK(marrow_comm_init_env(&comm, &bad) != MARROW_SUCCESS);
	CHECK(comm == NULL && open_files() == before);
	CHECK(marrow_group_start() == MARROW_SUCCESS);
	CHECK(marrow_comm_init_env(&comm, &bad) != MARROW_SUCCESS);
	CHECK(marrow_group_end() != MARROW_SUCCESS);
	CHECK(open_files() == before);
	unsetenv("MARROW_RANK");
	unsetenv("MARROW_NRANKS");
	unsetenv("MARROW_ROOT");
}

static void absurd_deadline(void)
{
	struct marrow_comm *comm = NULL;
	struct marrow_config config = host;
	config.timeout_ms = UINT64_MAX;
	CHECK(marrow_comm_init(&comm, 1, NULL, 0, &config) == MARROW_INVALID_ARGUMENT);
	config.timeout_ms = 18446744073710u;
	CHECK(marrow_comm_init(&comm, 1, NULL, 0, &config) == MARROW_INVALID_ARGUMENT);
}

/* Rank 1 leaves one operation early; rank 0 is told within a few seconds, while it waits and when it calls again. */
static void leaves_early(struct world_rank *self)
{
	float in = 1, out = 0;
	struct marrow_comm *comm = self->comms[0];
	if (marrow_all_reduce(&in, &out, 1, MARROW_FLOAT32, MARROW_SUM, comm, NULL) != MARROW_SUCCESS)
		world_fail(self, "%s", marrow_last_error(comm));
	if (self->rank == 1)
		return;
	if (marrow_all_reduce(&in, &out, 1, MARROW_FLOAT32, MARROW_SUM, comm, NULL) != MARROW_REMOTE_ERROR)
		world_fail(self, "a wait for a rank that left: %s", marrow_last_error(comm));
	if (marrow_all_reduce(&in, &out, 1, MARROW_FLOAT32, MARROW_SUM, comm, NULL) != MARROW_REMOTE_ERROR)
		world_fail(self, "a call after a rank left: %s", marrow_last_error(comm));
}

/* Rank 0 aborts while it has nothing in flight; rank 1's blocked call leaves. */
static void aborts_idle(struct world_rank *self)
{
	float in = 1, out = 0;
	struct marrow_comm *comm = self->comms[0];
	if (self->rank == 0) {
		usleep(100000);
		if (marrow_comm_abort(comm) != MARROW_SUCCESS)
			world_fail(self, "%s", marrow_last_error(comm));
		return;
	}
	enum marrow_status status = marrow_all_reduce(&in, &out, 1, MARROW_FLOAT32, MARROW_SUM, comm, NULL);
	if (status != MARROW_REMOTE_ERROR)
		world_fail(self, "status %d of a call whose peer aborted: %s", (int)status, marrow_last_error(comm));
}

static void *destroy_it(void *comm)
{
	CHECK(marrow_comm_destroy(comm) == MARROW_SUCCESS);
	return NULL;
}

/* Another thread destroys the communicator of a call that this thread's group holds. */
static void destroyed_elsewhere(void)
{
	struct marrow_comm *a = alone();
	pthread_t other;
	int in = 7, out = 0;
	CHECK(marrow_group_start() == MARROW_SUCCESS);
	CHECK(marrow_all_reduce(&in, &out, 1, MARROW_INT32, MARROW_SUM, a, NULL) == MARROW_SUCCESS);
	if (pthread_create(&other, NULL, destroy_it, a) != 0)
		abort();
	pthread_join(other, NULL);
	CHECK(marrow_group_end() == MARROW_INVALID_USAGE);
}

/* A launcher's number that does not fit is refused, not cut. */
static void absurd_world(void)
{
	struct marrow_comm *comm = NULL;
	setenv("RANK", "0", 1);
	setenv("WORLD_SIZE", "4294967297", 1);
	CHECK(marrow_comm_init_env(&comm, &host) == MARROW_INVALID_ARGUMENT);
	CHECK(comm == NULL);
	unsetenv("RANK");
	unsetenv("WORLD_SIZE");
}

/* Rank 0 is done and leaves; rank 1 goes on waiting for rank 2, which is late but comes. */
static void leaves_properly(struct world_rank *self)
{
	float in[3] = {1, 1, 1}, out = 0;
	struct marrow_comm *comm = self->comms[0];
	if (self->rank == 2)
		usleep(100000);
	if (marrow_reduce_scatter(in, &out, 1, MARROW_FLOAT32, MARROW_SUM, comm, NULL) != MARROW_SUCCESS || out != 3)
		world_fail(self, "%s", marrow_last_error(comm));
}

/* The cap of the most modest rank holds for all. */
static void *capped_rank(void *p)
{
	static struct marrow_unique_id id;
	static uint32_t ready;
	uint32_t rank = (uint32_t)(uintptr_t)p;
	struct marrow_config config = host;
	struct marrow_comm *comm;
	struct marrow_comm_properties properties = {.size = sizeof properties};
	config.max_ctas = rank == 0 ? 1 : 8;
	if (rank == 0) {
		CHECK(marrow_get_unique_id(&id) == MARROW_SUCCESS);
		__atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
	}
	while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
		usleep(1000);
	CHECK(marrow_comm_init(&comm, 2, &id, rank, &config) == MARROW_SUCCESS);
	CHECK(marrow_comm_get_properties(comm, &properties) == MARROW_SUCCESS);
	CHECK(properties.channel_cap == 1);
	CHECK(marrow_comm_destroy(comm) == MARROW_SUCCESS);
	return NULL;
}

static void modest_cap(void)
{
	pthread_t other;
	if (pthread_create(&other, NULL, capped_rank, (void *)1) != 0)
		abort();
	capped_rank(NULL);
	pthread_join(other, NULL);
}

/* Operations that do not leave: a host target that says so. */
static bool has_left;
static struct mrw_runtime stuck;

static enum marrow_status open_stuck(struct mrw_device *d, int32_t ordinal, int32_t local_rank)
{
	enum marrow_status status = mrw_host_runtime.open(d, ordinal, local_rank);
	d->runtime = &stuck;
	return status;
}

static enum marrow_status finish_never(struct mrw_device *d, bool (*poll)(void *arg), void *arg)
{
	(void)d;
	(void)poll;
	(void)arg;
	return has_left ? MARROW_SUCCESS : MARROW_TIMEOUT;
}

static bool left(struct mrw_device *d)
{
	(void)d;
	return has_left;
}

/* Memory of operations that have not left stays, the handle does not, and a later destroy or init frees it. */
static void stuck_operations(void)
{
	struct marrow_unique_id id;
	uint32_t rank;
	stuck = mrw_host_runtime;
	stuck.open = open_stuck;
	stuck.finish = finish_never;
	stuck.left = left;
	mrw_comm_runtime = &stuck;
	for (int by_init = 0; by_init < 2; by_init++) {
		struct marrow_comm *pair[2] = {NULL, NULL};
		int before = open_files();
		has_left = true;
		CHECK(marrow_get_unique_id(&id) == MARROW_SUCCESS);
		CHECK(marrow_group_start() == MARROW_SUCCESS);
		for (uint32_t r = 0; r < 2; r++)
			CHECK(marrow_comm_init(&pair[r], 2, &id, r, &host) == MARROW_SUCCESS);
		CHECK(marrow_group_end() == MARROW_SUCCESS);
		has_left = false;
		for (uint32_t r = 0; r < 2; r++) {
			CHECK(marrow_comm_destroy(pair[r]) == MARROW_SUCCESS);
			CHECK(marrow_comm_rank(pair[r], &rank) == MARROW_INVALID_ARGUMENT);
			CHECK(marrow_comm_destroy(pair[r]) == MARROW_INVALID_ARGUMENT);
		}
		struct marrow_comm *other = alone(); /* sweeps, in vain */
		CHECK(open_files() > before);
		has_left = true;
		if (by_init)
			CHECK(marrow_comm_destroy(alone()) == MARROW_SUCCESS);
		CHECK(marrow_comm_destroy(other) == MARROW_SUCCESS);
		CHECK(open_files() == before);
	}
	mrw_comm_runtime = NULL;
}

/* What a forked child may do to its parent's communicator: nothing, and its own ones are its own. 0: all as it should be. */
static int forked(struct marrow_comm *comm)
{
	enum marrow_status async;
	uint32_t rank = 9;
	int in = 1, out = 0;
	failures = 0;
	CHECK(marrow_comm_rank(comm, &rank) == MARROW_SUCCESS && rank < 2);
	CHECK(marrow_all_reduce(&in, &out, 1, MARROW_INT32, MARROW_SUM, comm, NULL) == MARROW_INVALID_USAGE);
	CHECK(strstr(marrow_last_error(NULL), "forked"));
	CHECK(marrow_comm_async_error(comm, &async) == MARROW_INVALID_USAGE);
	CHECK(marrow_comm_abort(comm) == MARROW_INVALID_USAGE);
	CHECK(marrow_comm_finalize(comm) == MARROW_INVALID_USAGE);
	CHECK(marrow_comm_destroy(comm) == MARROW_INVALID_USAGE);
	struct marrow_comm *own = alone();
	CHECK(marrow_all_reduce(&in, &out, 1, MARROW_INT32, MARROW_SUM, own, NULL) == MARROW_SUCCESS && out == 1);
	CHECK(marrow_comm_destroy(own) == MARROW_SUCCESS);
	return failures != 0;
}

static void forks(struct world_rank *self)
{
	struct marrow_comm *comm = self->comms[0];
	enum marrow_status async = MARROW_INTERNAL_ERROR;
	int in = 1, out = 0, status = 1;
	if (self->rank == 0) {
		pid_t child = fork();
		if (child == 0)
			_exit(forked(comm));
		CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	}
	CHECK(marrow_all_reduce(&in, &out, 1, MARROW_INT32, MARROW_SUM, comm, NULL) == MARROW_SUCCESS && out == 2);
	CHECK(marrow_comm_async_error(comm, &async) == MARROW_SUCCESS && async == MARROW_SUCCESS);
}

/* A premulsum operation belongs to its communicator, and to this use of a handle. */
static void foreign_operations(void)
{
	struct marrow_comm *a = alone(), *b = alone();
	enum marrow_op op;
	float scalar = 2, in = 3, out = 0;
	CHECK(marrow_op_create_premulsum(&op, &scalar, MARROW_FLOAT32, MARROW_SCALAR_HOST, a) == MARROW_SUCCESS);
	CHECK(marrow_all_reduce(&in, &out, 1, MARROW_FLOAT32, op, b, NULL) == MARROW_INVALID_ARGUMENT);
	CHECK(marrow_op_destroy(op, b) == MARROW_INVALID_ARGUMENT);
	CHECK(marrow_all_reduce(&in, &out, 1, MARROW_FLOAT32, op, a, NULL) == MARROW_SUCCESS && out == 6);
	for (int i = 0; i < 8; i++) { /* a's handle comes round again */
		CHECK(marrow_comm_destroy(a) == MARROW_SUCCESS);
		a = alone();
		CHECK(marrow_op_destroy(op, a) == MARROW_INVALID_ARGUMENT);
	}
	CHECK(marrow_comm_destroy(a) == MARROW_SUCCESS);
	CHECK(marrow_comm_destroy(b) == MARROW_SUCCESS);
}

/* Descriptors of ours below 3, where a program prints to. */
static int low_files(void)
{
	int n = 0;
	for (int fd = 0; fd < 3; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void with_closed_stdio(struct world_rank *self)
{
	int in = 1, out = 0;
	CHECK(marrow_all_reduce(&in, &out, 1, MARROW_INT32, MARROW_SUM, self->comms[0], NULL) == MARROW_SUCCESS && out == 2);
	CHECK(low_files() == 0);
}

/* In a child without stdin, stdout and stderr. */
static void closed_stdio(struct world *w)
{
	int status = 1;
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		failures = 0;
		for (int fd = 0; fd < 3; fd++)
			close(fd);
		failures += world_run(w, with_closed_stdio);
		_exit(failures != 0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

int main(void)
{
	struct world w = {.target = MARROW_TARGET_HOST, .nranks = 2, .ncomms = 1, .timeout_ms = 20000};
	destroy_in_group();
	stale_handle();
	failed_env_init();
	absurd_deadline();
	modest_cap();
	failures += world_run(&w, leaves_early);
	failures += world_run(&w, aborts_idle);
	destroyed_elsewhere();
	stuck_operations();
	absurd_world();
	foreign_operations();
	failures += world_run(&w, forks);
	closed_stdio(&w);
	w.nranks = 3;
	failures += world_run(&w, leaves_properly);
	printf("lifetimes: %s\n", failures ? "FAILED" : "ok");
	return failures ? 1 : 0;
}
