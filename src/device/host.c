/* host.c - the host target: arenas are shared anonymous memory, kernels run in the caller's thread. */
#include "runtime.h"
#include "team.h"

#include "base/error.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* An arena of this process: ranks of the process share the one mapping, so that addresses are equal for all of them. */
struct shared {
	uint8_t *base;
	uint64_t mapped;
	uint32_t users;
	struct shared *next;
};
/* All of this process: a peer's may be gone by the time this rank maps it (its rank died in its init). */
static pthread_mutex_t arenas_lock = PTHREAD_MUTEX_INITIALIZER;
static struct shared *arenas;

static bool host_present(void)
{
	return true;
}

static int32_t host_current(void)
{
	return -1;
}

static enum marrow_status host_open(struct mrw_device *d, int32_t ordinal, int32_t local_rank)
{
	(void)ordinal;
	(void)local_rank;
	memset(d, 0, sizeof *d);
	d->runtime = &mrw_host_runtime;
	d->info.ordinal = -1;
	d->info.blocks = MRW_MAX_CHANNELS;
	d->team_size = 1;
	return MARROW_SUCCESS;
}

static void host_close(struct mrw_device *d)
{
	(void)d;
}

static uint64_t page_round(uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	return (bytes + page - 1) / page * page;
}

/* Anonymous shared memory; reserve: with its pages, so that "full" is an error here and no SIGBUS later. */
static enum marrow_status memory_new(const char *name, uint64_t bytes, bool reserve, uint8_t **base, int *fd)
{
	*fd = mrw_file_above_stdio(memfd_create(name, MFD_CLOEXEC));
	if (*fd < 0)
		return mrw_fail_errno(MARROW_SYSTEM_ERROR, "cannot create shared memory (memfd_create); raise the file limit with ulimit -n");
	(void)fchmod(*fd, 0600);
	int error = reserve ? mrw_file_reserve(*fd, bytes) : mrw_file_extend(*fd, bytes);
	if (error != 0) {
		errno = error;
		enum marrow_status status = mrw_fail_errno(MARROW_OUT_OF_MEMORY, "cannot reserve %llu bytes of shared memory; free memory, "
							   "or raise the container's shared-memory or memory limit", (unsigned long long)bytes);
		close(*fd);
		*fd = -1;
		return status;
	}
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (p == MAP_FAILED) {
		enum marrow_status status = mrw_fail_errno(MARROW_OUT_OF_MEMORY, "cannot map %llu bytes of shared memory", (unsigned long long)bytes);
		close(*fd);
		*fd = -1;
		return status;
	}
	*base = p;
	return MARROW_SUCCESS;
}

static enum marrow_status host_page_new(struct mrw_device *d, struct mrw_page **page, struct mrw_page **device, int *fd)
{
	uint8_t *base = NULL;
	(void)d;
	MRW_TRY(memory_new("marrow-page", page_round(sizeof **page), true, &base, fd));
	*page = *device = (struct mrw_page *)(void *)base;
	return MARROW_SUCCESS;
}

static void host_page_free(struct mrw_device *d, struct mrw_page *page, int fd)
{
	(void)d;
	if (page)
		munmap(page, page_round(sizeof *page));
	if (fd >= 0)
		close(fd);
}

static struct shared *shared_of(const struct mrw_arena *arena)
{
	return (struct shared *)(uintptr_t)arena->handle;
}

static enum marrow_status arena_wrap(struct mrw_arena *arena, uint8_t *base, uint64_t bytes)
{
	struct shared *s = calloc(1, sizeof *s);
	if (!s) {
		munmap(base, bytes);
		return mrw_fail(MARROW_OUT_OF_MEMORY, "out of memory for the record of shared memory");
	}
	s->base = base;
	s->mapped = bytes;
	s->users = 1;
	arena->base = base;
	arena->mapped = bytes;
	arena->handle = (uint64_t)(uintptr_t)s;
	pthread_mutex_lock(&arenas_lock);
	s->next = arenas;
	arenas = s;
	pthread_mutex_unlock(&arenas_lock);
	return MARROW_SUCCESS;
}

/* One more user of a peer's arena in this process; false if it is gone. */
static bool arena_take(const struct mrw_arena *theirs)
{
	pthread_mutex_lock(&arenas_lock);
	struct shared *s = arenas;
	while (s && (s != shared_of(theirs) || s->base != theirs->base))
		s = s->next;
	if (s)
		s->users++;
	pthread_mutex_unlock(&arenas_lock);
	return s != NULL;
}

/* One user less; the last one gets it to unmap. */
static bool arena_drop(struct shared *s)
{
	pthread_mutex_lock(&arenas_lock);
	bool last = --s->users == 0;
	struct shared **at = &arenas;
	while (last && *at != s)
		at = &(*at)->next;
	if (last)
		*at = s->next;
	pthread_mutex_unlock(&arenas_lock);
	return last;
}

static enum marrow_status arena_make(const char *name, uint64_t bytes, bool reserve, struct mrw_arena *arena)
{
	uint8_t *base = NULL;
	arena->bytes = bytes;
	MRW_TRY(memory_new(name, page_round(bytes), reserve, &base, &arena->fd));
	enum marrow_status status = arena_wrap(arena, base, page_round(bytes));
	if (status != MARROW_SUCCESS) {
		close(arena->fd);
		arena->fd = -1;
	}
	return status;
}

static enum marrow_status host_arena_new(struct mrw_device *d, uint64_t bytes, struct mrw_arena *arena)
{
	(void)d;
	return arena_make("marrow-arena", bytes, true, arena);
}

static enum marrow_status host_arena_map(struct mrw_device *d, const struct mrw_arena *theirs, bool same_process, struct mrw_arena *mine)
{
	(void)d;
	*mine = *theirs;
	mine->fd = -1;
	if (same_process) {
		if (arena_take(theirs))
			return MARROW_SUCCESS;
		mine->base = NULL;
		return mrw_fail(MARROW_REMOTE_ERROR, "a rank of this process gave its memory up meanwhile: see its message");
	}
	void *p = mmap(NULL, page_round(theirs->bytes), PROT_READ | PROT_WRITE, MAP_SHARED, theirs->fd, 0);
	mine->base = NULL;
	if (p == MAP_FAILED)
		return mrw_fail_errno(MARROW_OUT_OF_MEMORY, "cannot map a peer's memory of %llu bytes", (unsigned long long)theirs->bytes);
	return arena_wrap(mine, p, page_round(theirs->bytes));
}

static void host_arena_seal(struct mrw_device *d, struct mrw_arena *arena)
{
	(void)d;
	if (arena->base && arena->fd >= 0)
		close(arena->fd);
	arena->fd = -1;
}

static void host_arena_free(struct mrw_device *d, struct mrw_arena *arena)
{
	if (!arena->base)
		return;
	host_arena_seal(d, arena);
	struct shared *s = shared_of(arena);
	arena->base = NULL;
	if (arena_drop(s)) {
		munmap(s->base, s->mapped);
		free(s);
	}
}

/* As with malloc() pages come when they are touched, and who asks for more than there can be is told: shared memory alone would not say. */
static enum marrow_status host_buffer_new(uint64_t bytes, struct mrw_arena *buffer, int32_t *device)
{
	void *p = mmap(NULL, page_round(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*device = -1;
	if (p == MAP_FAILED)
		return mrw_fail_errno(MARROW_OUT_OF_MEMORY, "cannot map %llu bytes", (unsigned long long)bytes);
	munmap(p, page_round(bytes));
	return arena_make("marrow-buffer", bytes, false, buffer);
}

static void host_buffer_free(struct mrw_arena *buffer, int32_t device)
{
	(void)device;
	host_arena_free(NULL, buffer);
}

static enum marrow_status host_buffer_offer(struct mrw_device *d, const struct mrw_arena *buffer, struct mrw_arena *offer)
{
	(void)d;
	*offer = *buffer;
	offer->fd = mrw_file_above_stdio(fcntl(buffer->fd, F_DUPFD_CLOEXEC, 3));
	if (offer->fd < 0)
		return mrw_fail_errno(MARROW_SYSTEM_ERROR, "cannot pass on the descriptor of a buffer; raise the file limit with ulimit -n");
	return MARROW_SUCCESS;
}

static const char *host_buffer_fault(struct mrw_device *d, const void *buffer)
{
	(void)d;
	(void)buffer;
	return NULL;
}

static mrw_host_body body_of(enum mrw_kernel kernel, enum marrow_type type)
{
	if (kernel == MRW_KERNEL_TRANSFERS)
		return mrw_host_transfers;
	if ((uint32_t)kernel >= MRW_TYPED_KERNELS)
		return mrw_host_movers.body[kernel - MRW_TYPED_KERNELS];
	switch (type) {
#define MRW_X(suffix, name) \
	case MARROW_##name: \
		return mrw_host_reducers_##suffix.body[kernel];
		MRW_TYPES(MRW_X)
#undef MRW_X
	}
	return NULL;
}

/* One test thread of a team. */
struct runner {
	pthread_t thread;
	struct mrw_team team;
	uint32_t first, last; /* channels, in order */
	mrw_host_body body;
	const struct mrw_args *args;
};

static void *run(void *p)
{
	struct runner *r = p;
	for (uint32_t c = r->first; c < r->last; c++)
		r->body(&r->team, c, r->args);
	return NULL;
}

/* Teams of several threads, or channels side by side: for tests of the protocols. */
static enum marrow_status run_threads(struct mrw_device *d, mrw_host_body body, const struct mrw_args *args)
{
	uint32_t channels = args->call.channels, teams = d->parallel_channels ? channels : 1, count = teams * d->team_size, started = 0;
	struct runner *runners = calloc(count, sizeof *runners);
	struct mrw_team_barrier *barriers = calloc(teams, sizeof *barriers);
	uint8_t *(*directs)[MRW_MAX_NEAR] = calloc(teams, sizeof *directs);
	enum marrow_status status = MARROW_SUCCESS;
	if (!runners || !barriers || !directs) {
		status = mrw_fail(MARROW_OUT_OF_MEMORY, "out of memory for %u team threads", count);
		goto done;
	}
	for (; started < count; started++) {
		struct runner *r = &runners[started];
		uint32_t team = started / d->team_size;
		r->team.index = started % d->team_size;
		r->team.size = d->team_size;
		r->team.barrier = &barriers[team];
		r->team.direct = directs[team];
		r->first = d->parallel_channels ? team : 0;
		r->last = d->parallel_channels ? team + 1 : channels;
		r->body = body;
		r->args = args;
		if (pthread_create(&r->thread, NULL, run, r) != 0)
			abort(); /* a test cannot go on with half a team */
	}
	for (uint32_t i = 0; i < started; i++)
		pthread_join(runners[i].thread, NULL);
done:
	free(directs);
	free(barriers);
	free(runners);
	return status;
}

static enum marrow_status host_launch(struct mrw_device *d, enum mrw_kernel kernel, enum marrow_type type, const struct mrw_args *args,
				      uint32_t threads, void *stream)
{
	mrw_host_body body = body_of(kernel, type);
	uint8_t *direct[MRW_MAX_NEAR];
	struct mrw_team alone = {0, 1, NULL, direct};
	(void)threads;
	(void)stream;
	if (d->team_size > 1 || d->parallel_channels)
		return run_threads(d, body, args);
	for (uint32_t c = 0; c < args->call.channels; c++)
		body(&alone, c, args);
	return MARROW_SUCCESS;
}

static enum marrow_status host_join(struct mrw_device *d, void *first, void *const *others, uint32_t count, bool fan_out)
{
	(void)d;
	(void)first;
	(void)others;
	(void)count;
	(void)fan_out;
	return MARROW_SUCCESS;
}

static enum marrow_status host_finish(struct mrw_device *d, bool (*poll)(void *arg), void *arg)
{
	(void)d;
	(void)poll;
	(void)arg;
	return MARROW_SUCCESS;
}

static bool host_left(struct mrw_device *d)
{
	(void)d;
	return true;
}

static enum marrow_status host_copy(struct mrw_device *d, void *dst, const void *src, uint64_t bytes, void *stream)
{
	(void)d;
	(void)stream;
	memmove(dst, src, bytes);
	return MARROW_SUCCESS;
}

static enum marrow_status host_poke(struct mrw_device *d, void *dst, const void *src, uint64_t bytes)
{
	(void)d;
	memcpy(dst, src, bytes);
	return MARROW_SUCCESS;
}

const struct mrw_runtime mrw_host_runtime = {
	.name = "host",
	.target = MARROW_TARGET_HOST,
	.present = host_present,
	.current = host_current,
	.open = host_open,
	.close = host_close,
	.page_new = host_page_new,
	.page_free = host_page_free,
	.arena_new = host_arena_new,
	.arena_map = host_arena_map,
	.arena_seal = host_arena_seal,
	.arena_free = host_arena_free,
	.buffer_new = host_buffer_new,
	.buffer_free = host_buffer_free,
	.buffer_offer = host_buffer_offer,
	.buffer_fault = host_buffer_fault,
	.launch = host_launch,
	.join = host_join,
	.finish = host_finish,
	.left = host_left,
	.copy = host_copy,
	.poke = host_poke,
};
