#include "support/world.h"
#include "support/device_memory.h"
#include "support/hosts.h"

#include "comm.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct world_meeting {
	pthread_mutex_t lock;
	pthread_cond_t over;
	uint32_t inside, waiting; /* ranks: in their body; of them here */
	uint64_t times;
};

struct start {
	struct world_rank self;
	const struct marrow_unique_id *ids;
	void (*body)(struct world_rank *self);
	pthread_t thread;
};

void world_fail(struct world_rank *self, const char *format, ...)
{
	char text[2048];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	fprintf(stderr, "rank %u of %u: %s\n", self->rank, self->nranks, text);
	self->failed = 1;
}

/* With the lock held: somebody came or went. */
static void look_round(struct world_meeting *m)
{
	if (m->waiting < m->inside)
		return;
	m->waiting = 0;
	m->times++;
	pthread_cond_broadcast(&m->over);
}

void world_meet(struct world_rank *self)
{
	struct world_meeting *m = self->meeting;
	if (self->failed) /* the others wait for it elsewhere */
		return;
	pthread_mutex_lock(&m->lock);
	uint64_t times = m->times;
	m->waiting++;
	look_round(m);
	while (m->times == times)
		pthread_cond_wait(&m->over, &m->lock);
	pthread_mutex_unlock(&m->lock);
}

static void leave(struct world_meeting *m)
{
	pthread_mutex_lock(&m->lock);
	m->inside--;
	look_round(m);
	pthread_mutex_unlock(&m->lock);
}

uint64_t world_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

uint64_t world_seed(void)
{
	static uint64_t seed;
	if (seed == 0) {
		const char *text = getenv("MARROW_TEST_SEED");
		struct timespec ts;
		clock_gettime(CLOCK_REALTIME, &ts);
		seed = text && text[0] ? strtoull(text, NULL, 0) : (uint64_t)ts.tv_sec * 1000003u + (uint64_t)ts.tv_nsec;
		printf("seed: MARROW_TEST_SEED=%llu\n", (unsigned long long)seed);
		fflush(stdout);
	}
	return seed;
}

/* Whether the world's communicators are asked to use one of the names. */
static bool asks(const struct world *world, const char *name, const char *other)
{
	const char *algo = world->algo ? world->algo : getenv("MARROW_ALGO");
	return algo && (strcmp(algo, name) == 0 || strcmp(algo, other) == 0);
}

bool world_ring(const struct world *world)
{
	return hosts_count(world->nranks) > 1 && asks(world, "ring", "ring");
}

bool world_tree(const struct world *world)
{
	return hosts_count(world->nranks) > 1 && asks(world, "tree", "treeshot");
}

bool world_rails(const struct world *world)
{
	uint32_t hosts = hosts_count(world->nranks);
	bool direct = asks(world, "oneshot", "twoshot") || asks(world, "bulk", "lines");
	return hosts > 1 && world->nranks % hosts == 0 && world->nranks > hosts && !direct && !world_ring(world) && !world_tree(world) &&
	       (world->nranks > 16 || asks(world, "rail", "railshot"));
}

bool world_sparse(const struct world *world)
{
	return world_rails(world) || world_ring(world) || world_tree(world);
}

int world_gpus(const char **why)
{
	int n = device_count();
	if (n == 1 && getenv("MARROW_TEST_ONE_GPU")) /* ranks share it: everything but the way between two */
		return n;
	*why = n == 0 ? "no CUDA device" : n < 2 ? "only one CUDA device (MARROW_TEST_ONE_GPU=1: ranks share it)" : "";
	if (n < 2)
		return 0;
	if (device_lacks_peer_access(0, 1) != 0 || device_lacks_peer_access(1, 0) != 0) {
		*why = "devices 0 and 1 have no mutual peer access";
		return 0;
	}
	return n;
}

static void *run_rank(void *p)
{
	struct start *s = p;
	struct world_rank *self = &s->self;
	const struct world *w = self->world;
	struct marrow_config config = MARROW_CONFIG_INIT;
	config.target = w->target;
	config.max_ctas = w->max_ctas;
	config.algo = w->algo;
	config.timeout_ms = w->timeout_ms ? w->timeout_ms : 60000;
	struct hosts_place place;
	hosts_place(&place, self->rank, self->nranks, &config);
	if (w->target == MARROW_TARGET_CUDA) {
		if (device_set((int)self->rank % device_count()) != 0)
			world_fail(self, "cannot set the device: %s", device_error());
		for (int i = 0; i < WORLD_STREAMS; i++)
			if (device_stream_create(&self->streams[i]) != 0)
				world_fail(self, "cannot make a stream: %s", device_error());
	}
	for (uint32_t c = 0; c < w->ncomms; c++) {
		if (marrow_comm_init(&self->comms[c], self->nranks, &s->ids[c], self->rank, &config) != MARROW_SUCCESS) {
			world_fail(self, "init of communicator %u: %s", c, marrow_last_error(NULL));
			continue;
		}
		if (self->nranks == 1)
			continue;
		mrw_comm_set_host_team(self->comms[c], w->team_size ? w->team_size : 1, w->parallel_channels);
		if (w->set_seq && mrw_comm_set_seq(self->comms[c], w->seq, w->round) != MARROW_SUCCESS)
			world_fail(self, "cannot set seq: %s", marrow_last_error(NULL));
		if (mrw_boot_barrier(self->comms[c]->boot) != MARROW_SUCCESS)
			world_fail(self, "barrier: %s", marrow_last_error(NULL));
	}
	if (!self->failed)
		s->body(self);
	leave(self->meeting);
	for (uint32_t c = 0; c < w->ncomms; c++)
		if (marrow_comm_destroy(self->comms[c]) != MARROW_SUCCESS)
			world_fail(self, "destroy: %s", marrow_last_error(NULL));
	for (int i = 0; i < WORLD_STREAMS; i++)
		if (self->streams[i])
			device_stream_destroy(self->streams[i]);
	return NULL;
}

int world_run(const struct world *world, void (*body)(struct world_rank *self))
{
	struct marrow_unique_id ids[WORLD_MAX_COMMS];
	struct start ranks[WORLD_MAX_RANKS];
	struct world_meeting meeting = {.lock = PTHREAD_MUTEX_INITIALIZER, .over = PTHREAD_COND_INITIALIZER, .inside = world->nranks};
	int failed = 0;
	memset(ranks, 0, sizeof ranks);
	for (uint32_t c = 0; c < world->ncomms; c++) {
		if (marrow_get_unique_id(&ids[c]) != MARROW_SUCCESS) {
			fprintf(stderr, "unique id: %s\n", marrow_last_error(NULL));
			return (int)world->nranks;
		}
	}
	for (uint32_t r = 0; r < world->nranks; r++) {
		ranks[r].self.world = world;
		ranks[r].self.rank = r;
		ranks[r].self.nranks = world->nranks;
		ranks[r].self.meeting = &meeting;
		ranks[r].ids = ids;
		ranks[r].body = body;
		if (pthread_create(&ranks[r].thread, NULL, run_rank, &ranks[r]) != 0)
			abort();
	}
	for (uint32_t r = 0; r < world->nranks; r++) {
		pthread_join(ranks[r].thread, NULL);
		failed += ranks[r].self.failed;
	}
	return failed;
}
