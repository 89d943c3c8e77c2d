/* handle.c - communicator handles. They live in blocks that are never given back, so that any pointer can be told from a communicator
 * without reading it, and a stale handle from a live one until its turn comes again. */
#include "binding.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCK_HANDLES = 64, MOST_BLOCKS = 1024, ALONE_MS = 10000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below; blocks[i] is read without: release/acquire by block_count */
static struct ncclComm *blocks[MOST_BLOCKS];
static uint32_t block_count;
static struct ncclComm *free_first, *free_last;

static void put(struct ncclComm *comm)
{
	comm->next_free = NULL;
	if (free_last)
		free_last->next_free = comm;
	else
		free_first = comm;
	free_last = comm;
}

static void grow(void)
{
	struct ncclComm *block = block_count < MOST_BLOCKS ? calloc(BLOCK_HANDLES, sizeof *block) : NULL;
	if (!block)
		return;
	blocks[block_count] = block;
	__atomic_store_n(&block_count, block_count + 1, __ATOMIC_RELEASE); /* pairs with the load in nccl_handle_known() */
	for (int i = 0; i < BLOCK_HANDLES; i++) {
		pthread_mutex_init(&block[i].lock, NULL);
		put(&block[i]);
	}
}

struct ncclComm *nccl_handle_take(void)
{
	pthread_mutex_lock(&lock);
	if (!free_first)
		grow();
	struct ncclComm *comm = free_first;
	if (comm) {
		free_first = comm->next_free;
		if (!free_first)
			free_last = NULL;
	}
	pthread_mutex_unlock(&lock);
	if (!comm)
		return NULL;
	comm->native = NULL;
	comm->job = NULL;
	comm->job_result = ncclSuccess;
	comm->job_text[0] = '\0';
	comm->rank = comm->nranks = 0;
	comm->device = -1;
	__atomic_store_n(&comm->revoked, false, __ATOMIC_RELAXED);
	memset(&comm->config, 0, sizeof comm->config);
	comm->registrations = NULL;
	__atomic_store_n(&comm->life, LIFE_QUEUED, __ATOMIC_RELEASE);
	return comm;
}

void nccl_handle_give_back(struct ncclComm *comm)
{
	__atomic_store_n(&comm->life, LIFE_FREE, __ATOMIC_SEQ_CST);
	pthread_mutex_lock(&lock);
	put(comm);
	pthread_mutex_unlock(&lock);
}

bool nccl_handle_known(const struct ncclComm *comm)
{
	uint32_t count = __atomic_load_n(&block_count, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < count; i++) {
		uintptr_t offset = (uintptr_t)comm - (uintptr_t)blocks[i];
		if (offset < BLOCK_HANDLES * sizeof *comm)
			return offset % sizeof *comm == 0;
	}
	return false;
}

/* The mark comes first, then the look: either this thread sees that the handle is being freed, or who frees it sees the mark. */
static uint32_t mark(struct ncclComm *comm)
{
	__atomic_fetch_add(&comm->users, 1, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&comm->life, __ATOMIC_SEQ_CST);
}

void nccl_handle_leave(struct ncclComm *comm)
{
	__atomic_fetch_sub(&comm->users, 1, __ATOMIC_SEQ_CST);
}

static ncclResult_t refuse(const struct ncclComm *comm, const char *function, const char *why)
{
	if (!function)
		return ncclInvalidArgument;
	if (!comm)
		return nccl_fail(ncclInvalidArgument, "%s: the communicator is NULL", function);
	return nccl_fail(ncclInvalidArgument, "%s: %s", function, why);
}

static const char *const no_communicator = "not a communicator (destroyed, aborted, or never made)";

ncclResult_t nccl_handle_enter_any(struct ncclComm *comm, const char *function)
{
	if (!nccl_handle_known(comm))
		return refuse(comm, function, no_communicator);
	uint32_t life = mark(comm);
	if (life != LIFE_FREE && life != LIFE_LEAVING)
		return ncclSuccess;
	nccl_handle_leave(comm);
	return refuse(comm, function, no_communicator);
}

ncclResult_t nccl_handle_enter(struct ncclComm *comm, const char *function)
{
	if (!nccl_handle_known(comm))
		return refuse(comm, function, no_communicator);
	uint32_t life = mark(comm);
	if (life == LIFE_WORKING) {
		nccl_job_settle(comm);
		life = __atomic_load_n(&comm->life, __ATOMIC_SEQ_CST);
	}
	if (life == LIFE_LIVE)
		return ncclSuccess;
	nccl_handle_leave(comm);
	switch (life) {
	case LIFE_QUEUED:
		return refuse(comm, function, "the communicator is made at the end of the group");
	case LIFE_WORKING:
		return refuse(comm, function, "the communicator is still being worked on: wait until ncclCommGetAsyncError() gives ncclSuccess");
	case LIFE_FAILED:
		return refuse(comm, function, "the communicator could not be made: abort or destroy it");
	default:
		return refuse(comm, function, no_communicator);
	}
}

bool nccl_handle_close(struct ncclComm *comm)
{
	uint32_t life = LIFE_LIVE;
	if (__atomic_compare_exchange_n(&comm->life, &life, LIFE_LEAVING, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return true;
	life = LIFE_FAILED;
	return __atomic_compare_exchange_n(&comm->life, &life, LIFE_LEAVING, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

bool nccl_handle_alone(struct ncclComm *comm)
{
	const struct timespec pause = {0, 50000};
	int64_t until = now_ms() + ALONE_MS;
	while (__atomic_load_n(&comm->users, __ATOMIC_SEQ_CST) > 1) {
		if (now_ms() > until)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}
