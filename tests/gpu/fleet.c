#include "fleet.h"

#include "cuda_helpers.h"
#include "support/device_memory.h"
#include "support/reference.h"

#include "comm.h"
#include "mrw_build.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ID_LIMIT_MS = 60000, DEFAULT_TIMEOUT_MS = 20000 };

struct fleet_page {
	uint32_t id_ready[WORLD_MAX_COMMS];
	struct marrow_unique_id ids[WORLD_MAX_COMMS];
};

uint64_t fleet_now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void nap(void)
{
	const struct timespec ts = {0, 200000};
	nanosleep(&ts, NULL);
}

void fleet_say(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

bool fleet_type_built(enum marrow_type type)
{
	static const bool built[] = {
		[MARROW_INT8] = MRW_DTYPE_I8, [MARROW_UINT8] = MRW_DTYPE_U8, [MARROW_INT32] = MRW_DTYPE_I32,
		[MARROW_UINT32] = MRW_DTYPE_U32, [MARROW_INT64] = MRW_DTYPE_I64, [MARROW_UINT64] = MRW_DTYPE_U64,
		[MARROW_FLOAT16] = MRW_DTYPE_F16, [MARROW_FLOAT32] = MRW_DTYPE_F32, [MARROW_FLOAT64] = MRW_DTYPE_F64,
		[MARROW_BFLOAT16] = MRW_DTYPE_BF16,
		[MARROW_FLOAT8E4M3] = MRW_DTYPE_F8E4M3,
		[MARROW_FLOAT8E5M2] = MRW_DTYPE_F8E5M2,
	};
	return built[type];
}

enum marrow_type fleet_draw_type(uint64_t *state)
{
	uint32_t first = (uint32_t)(world_random(state) % REFERENCE_TYPES);
	for (uint32_t i = 0; i < REFERENCE_TYPES; i++)
		if (fleet_type_built((enum marrow_type)((first + i) % REFERENCE_TYPES)))
			return (enum marrow_type)((first + i) % REFERENCE_TYPES);
	abort();
}

bool meet_wait(struct meet *meet, uint32_t n, uint32_t limit_s)
{
	uint64_t until = fleet_now_ms() + limit_s * 1000ull;
	uint32_t phase = __atomic_load_n(&meet->phase, __ATOMIC_ACQUIRE);
	if (__atomic_add_fetch(&meet->arrived, 1, __ATOMIC_ACQ_REL) == n) {
		__atomic_store_n(&meet->arrived, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&meet->phase, phase + 1, __ATOMIC_RELEASE);
		return true;
	}
	while (__atomic_load_n(&meet->phase, __ATOMIC_ACQUIRE) == phase) {
		if (fleet_now_ms() > until)
			return false;
		nap();
	}
	return true;
}

void *fleet_share(size_t bytes)
{
	void *p = mmap(NULL, (bytes + 4095) / 4096 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return p;
}

/* The child leaves when its parent does. */
static pid_t fork_child(void)
{
	pid_t parent = getpid();
	fflush(NULL);
	pid_t pid = fork();
	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
	}
	return pid;
}

static void leave_child(int status)
{
	fflush(NULL);
	_exit(status);
}

/* Exit status, or -1 if the child had to be killed or was by someone else. */
static int end_child(pid_t pid, uint64_t until_ms, const char *name)
{
	int status;
	for (;;) {
		pid_t got = waitpid(pid, &status, WNOHANG);
		if (got == pid)
			break;
		if (got < 0)
			return -1;
		if (fleet_now_ms() > until_ms) {
			fprintf(stderr, "%s (process %d) did not end in time and is killed\n", name, (int)pid);
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			return -1;
		}
		nap();
	}
	if (WIFSIGNALED(status))
		fprintf(stderr, "%s (process %d) was ended by signal %d\n", name, (int)pid, WTERMSIG(status));
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int fleet_child(uint32_t limit_s, int (*work)(void *arg), void *arg)
{
	pid_t pid = fork_child();
	if (pid == 0)
		leave_child(work(arg) == 0 ? 0 : 1);
	return end_child(pid, fleet_now_ms() + limit_s * 1000ull, "a test's part");
}

struct probe {
	int gpus;
	char why[200];
};

static int probe_gpus(void *arg)
{
	struct probe *p = arg;
	const char *why;
	p->gpus = world_gpus(&why);
	snprintf(p->why, sizeof p->why, "%s", why);
	return 0;
}

int fleet_gpus(const char **why)
{
	static struct probe *probe;
	probe = fleet_share(sizeof *probe);
	if (fleet_child(60, probe_gpus, probe) != 0) {
		*why = "counting the CUDA devices failed";
		return 0;
	}
	*why = probe->why;
	return probe->gpus;
}

static bool fetch_id(struct world_rank *self, struct fleet_page *page, uint32_t c)
{
	uint64_t until = fleet_now_ms() + ID_LIMIT_MS;
	if (self->rank == 0) {
		if (marrow_get_unique_id(&page->ids[c]) != MARROW_SUCCESS) {
			world_fail(self, "unique id: %s", marrow_last_error(NULL));
			return false;
		}
		__atomic_store_n(&page->id_ready[c], 1, __ATOMIC_RELEASE);
		return true;
	}
	while (__atomic_load_n(&page->id_ready[c], __ATOMIC_ACQUIRE) == 0) {
		if (fleet_now_ms() > until) {
			world_fail(self, "rank 0 made no unique id");
			return false;
		}
		nap();
	}
	return true;
}

static void make_comms(struct world_rank *self, struct fleet_page *page)
{
	const struct world *w = self->world;
	struct marrow_config config = MARROW_CONFIG_INIT;
	config.target = w->target;
	config.max_ctas = w->max_ctas;
	config.timeout_ms = w->timeout_ms ? w->timeout_ms : DEFAULT_TIMEOUT_MS;
	for (uint32_t c = 0; c < w->ncomms && !self->failed; c++) {
		if (!fetch_id(self, page, c))
			return;
		if (marrow_comm_init(&self->comms[c], self->nranks, &page->ids[c], self->rank, &config) != MARROW_SUCCESS)
			world_fail(self, "init of communicator %u: %s", c, marrow_last_error(NULL));
		else if (w->set_seq && mrw_comm_set_seq(self->comms[c], w->seq, w->round) != MARROW_SUCCESS)
			world_fail(self, "cannot set seq: %s", marrow_last_error(NULL));
		else if (self->nranks > 1 && mrw_boot_barrier(self->comms[c]->boot) != MARROW_SUCCESS)
			world_fail(self, "barrier: %s", marrow_last_error(NULL));
	}
}

static int be_rank(const struct world *world, uint32_t rank, struct fleet_page *page, void (*body)(struct world_rank *self))
{
	struct world_rank self;
	memset(&self, 0, sizeof self);
	self.world = world;
	self.rank = rank;
	self.nranks = world->nranks;
	if (device_set((int)rank % device_count()) != 0)
		world_fail(&self, "cannot set the device: %s", device_error());
	if (!self.failed && gpu_load_kernels() != 0)
		world_fail(&self, "cannot load the test's kernels: %s", gpu_error());
	for (int i = 0; i < WORLD_STREAMS; i++)
		if (device_stream_create(&self.streams[i]) != 0)
			world_fail(&self, "cannot make a stream: %s", device_error());
	if (!self.failed)
		make_comms(&self, page);
	if (!self.failed)
		body(&self);
	for (uint32_t c = 0; c < world->ncomms; c++)
		if (marrow_comm_destroy(self.comms[c]) != MARROW_SUCCESS)
			world_fail(&self, "destroy: %s", marrow_last_error(NULL));
	for (int i = 0; i < WORLD_STREAMS; i++)
		if (self.streams[i])
			device_stream_destroy(self.streams[i]);
	return self.failed;
}

void fleet_start(struct fleet *fleet, const struct world *world, void (*body)(struct world_rank *self))
{
	memset(fleet, 0, sizeof *fleet);
	fleet->count = world->nranks;
	fleet->page = fleet_share(sizeof *fleet->page);
	for (uint32_t r = 0; r < fleet->count; r++) {
		fleet->pids[r] = fork_child();
		if (fleet->pids[r] == 0)
			leave_child(be_rank(world, r, fleet->page, body) ? 1 : 0);
	}
}

int fleet_end(struct fleet *fleet, uint32_t limit_s)
{
	uint64_t until = fleet_now_ms() + limit_s * 1000ull;
	char name[32];
	int failed = 0;
	for (uint32_t r = 0; r < fleet->count; r++) {
		snprintf(name, sizeof name, "rank %u", r);
		failed += !fleet->ended[r] && end_child(fleet->pids[r], until, name) != 0;
		fleet->ended[r] = true;
	}
	munmap(fleet->page, sizeof *fleet->page);
	return failed;
}

void fleet_kill(struct fleet *fleet)
{
	for (uint32_t r = 0; r < fleet->count; r++)
		if (!fleet->ended[r])
			kill(fleet->pids[r], SIGKILL);
}

int fleet_run(const struct world *world, uint32_t limit_s, void (*body)(struct world_rank *self))
{
	struct fleet fleet;
	fleet_start(&fleet, world, body);
	return fleet_end(&fleet, limit_s);
}

struct thread_job {
	const struct world *world;
	void (*body)(struct world_rank *self);
};

static int run_threads(void *arg)
{
	const struct thread_job *job = arg;
	return world_run(job->world, job->body);
}

int fleet_run_threads(const struct world *world, uint32_t limit_s, void (*body)(struct world_rank *self))
{
	struct thread_job job = {world, body};
	return fleet_child(limit_s, run_threads, &job) != 0;
}
