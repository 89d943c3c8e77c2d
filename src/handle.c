/* handle.c - handles of communicators: taken, given back, kept while operations are under way, and told from those of a parent process. */
#include "comm.h"

#include "base/log.h"

#include <stdlib.h>

/* Handles of destroyed communicators, oldest first: a stale handle stays recognisable for as long as possible. */
static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static struct marrow_comm *free_first, *free_last;
static uint64_t generations;

/* Without a system call a process knows by this that it is another one. */
static uint32_t forks;

static void note_fork(void)
{
	forks++;
}

static void watch_forks(void)
{
	if (pthread_atfork(NULL, NULL, note_fork) != 0)
		mrw_log(MRW_LOG_WARN, "no memory to notice forks: keep communicators to the process that made them");
}

uint32_t mrw_comm_forks(void)
{
	return forks;
}

struct marrow_comm *mrw_comm_take(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&handles_lock);
	struct marrow_comm *comm = free_first;
	uint64_t generation = ++generations;
	if (comm)
		free_first = comm->next_free;
	if (!free_first)
		free_last = NULL;
	pthread_mutex_unlock(&handles_lock);
	if (!comm)
		comm = malloc(sizeof *comm);
	if (!comm)
		return NULL;
	memset(comm, 0, sizeof *comm);
	comm->generation = generation;
	comm->forks = forks;
	comm->page_fd = -1;
	comm->arena.fd = -1;
	for (uint32_t r = 0; r < MRW_MAX_RANKS; r++)
		comm->peers[r].fd = -1;
	pthread_mutex_init(&comm->lock, NULL);
	return comm;
}

void mrw_comm_give_back(struct marrow_comm *comm)
{
	pthread_mutex_destroy(&comm->lock);
	__atomic_store_n(&comm->life, MRW_LIFE_FREE, __ATOMIC_RELEASE);
	pthread_mutex_lock(&handles_lock);
	comm->next_free = NULL;
	if (free_last)
		free_last->next_free = comm;
	else
		free_first = comm;
	free_last = comm;
	pthread_mutex_unlock(&handles_lock);
}

/* Destroyed, but not yet to be freed. */
static struct marrow_comm *deferred;

void mrw_comm_defer(struct marrow_comm *comm)
{
	mrw_boot_close(comm->boot);
	comm->boot = NULL;
	pthread_mutex_lock(&handles_lock);
	comm->next_free = deferred;
	deferred = comm;
	pthread_mutex_unlock(&handles_lock);
}

void mrw_comm_sweep(int32_t device)
{
	struct marrow_comm *waiting, *next, *stay = NULL, **end = &stay;
	pthread_mutex_lock(&handles_lock);
	waiting = deferred;
	deferred = NULL;
	pthread_mutex_unlock(&handles_lock);
	if (!waiting)
		return;
	for (struct marrow_comm *comm = waiting; comm; comm = next) {
		next = comm->next_free;
		comm->next_free = NULL;
		if (comm->forks == forks && comm->device.info.ordinal == device && comm->device.runtime->left(&comm->device)) {
			mrw_log(MRW_LOG_INFO, "the operations of a destroyed communicator have left: its memory is free now");
			mrw_comm_dismantle(comm);
			mrw_comm_give_back(comm);
		} else {
			*end = comm;
			end = &comm->next_free;
		}
	}
	pthread_mutex_lock(&handles_lock);
	*end = deferred;
	deferred = stay;
	pthread_mutex_unlock(&handles_lock);
}
