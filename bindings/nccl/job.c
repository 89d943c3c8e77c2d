/* job.c - creation (and the end) of communicators with blocking = 0. One call, or one group, makes one thread; it ends with the work and
 * is joined by whoever first sees that it is over, so none outlives an init. Only if all it makes was aborted meanwhile does it clean up
 * by itself. */
#include "binding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct job {
	pthread_t thread;
	bool over;                  /* nothing but the thread's own last steps is left: it can be joined */
	struct job_item *items;
	size_t count;
	enum marrow_status status;
	char text[TEXT_BYTES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all jobs and of ncclComm.job */

static void free_job(struct job *job)
{
	for (size_t i = 0; job->items && i < job->count; i++)
		free(job->items[i].exclude);
	free(job->items);
	free(job);
}

enum marrow_status nccl_job_do(struct job_item *item)
{
	struct marrow_config config = nccl_config_native(&item->config, item->device);
	struct marrow_unique_id id;
	switch (item->kind) {
	case JOB_INIT:
		memcpy(&id, &item->id, sizeof id);
		return marrow_comm_init(&item->comm->native, (uint32_t)item->nranks, &id, (uint32_t)item->rank, &config);
	case JOB_SPLIT:
		return marrow_comm_split(item->parent->native, item->color, item->key, &item->comm->native, &config);
	case JOB_SHRINK:
		return marrow_comm_shrink(item->parent->native, item->exclude, item->nexclude, item->flags, &item->comm->native, &config);
	case JOB_FINALIZE:
		return marrow_comm_finalize(item->comm->native);
	}
	return MARROW_INTERNAL_ERROR;
}

static enum marrow_status do_all(struct job *job)
{
	enum marrow_status status = MARROW_SUCCESS, ended;
	if (job->count == 1)
		return nccl_job_do(&job->items[0]);
	(void)marrow_group_start();
	for (size_t i = 0; i < job->count; i++)
		if (job->items[i].kind != JOB_FINALIZE && status == MARROW_SUCCESS)
			status = nccl_job_do(&job->items[i]);
	ended = marrow_group_end();
	if (status == MARROW_SUCCESS)
		status = ended;
	for (size_t i = 0; i < job->count; i++)
		if (job->items[i].kind == JOB_FINALIZE && status == MARROW_SUCCESS)
			status = nccl_job_do(&job->items[i]);
	return status;
}

static void *work(void *p)
{
	struct job *job = p;
	bool owned = false;
	job->status = do_all(job);
	if (job->status != MARROW_SUCCESS)
		snprintf(job->text, sizeof job->text, "%s", marrow_last_error(NULL));
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < job->count; i++)
		owned = owned || !job->items[i].abandoned || job->items[i].parent;
	if (!owned)
		pthread_detach(job->thread);
	pthread_mutex_unlock(&lock);
	for (size_t i = 0; i < job->count; i++)
		if (job->items[i].abandoned) {
			if (job->items[i].comm->native)
				(void)marrow_comm_abort(job->items[i].comm->native);
			(void)marrow_comm_destroy(job->items[i].comm->native);
			nccl_handle_give_back(job->items[i].comm);
		}
	if (!owned) {
		free_job(job);
		return NULL;
	}
	pthread_mutex_lock(&lock);
	job->over = true;
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void begin(struct ncclComm *comm, struct job *job)
{
	if (!comm)
		return;
	comm->job = job;
	__atomic_store_n(&comm->job_result, ncclSuccess, __ATOMIC_RELAXED); /* others may be asking for it */
	__atomic_store_n(&comm->life, LIFE_WORKING, __ATOMIC_RELEASE);
}

/* Back to before begin(): no thread could be started. */
static void undo(struct ncclComm *comm)
{
	if (!comm)
		return;
	comm->job = NULL;
	__atomic_store_n(&comm->life, LIFE_LIVE, __ATOMIC_RELEASE);
}

ncclResult_t nccl_job_start(struct job_item *items, size_t count)
{
	struct job *job = calloc(1, sizeof *job);
	int failed = -1;
	if (job) {
		job->items = items;
		job->count = count;
		pthread_mutex_lock(&lock);
		for (size_t i = 0; i < count; i++) {
			begin(items[i].comm, job);
			begin(items[i].parent, job);
		}
		failed = pthread_create(&job->thread, NULL, work, job);
		for (size_t i = 0; failed && i < count; i++) {
			undo(items[i].parent);
			if (items[i].kind == JOB_FINALIZE)
				undo(items[i].comm);
		}
		pthread_mutex_unlock(&lock);
	}
	if (!failed)
		return ncclInProgress;
	for (size_t i = 0; i < count; i++) {
		free(items[i].exclude);
		if (items[i].kind != JOB_FINALIZE)
			nccl_handle_give_back(items[i].comm);
	}
	free(items);
	free(job);
	return nccl_fail(ncclSystemError, "cannot start a thread for a communicator with blocking = 0; raise ulimit -u, or use blocking = 1");
}

static void conclude(struct ncclComm *comm, const struct job *job, bool alive)
{
	comm->job = NULL;
	__atomic_store_n(&comm->job_result, nccl_result(job->status), __ATOMIC_RELAXED);
	snprintf(comm->job_text, sizeof comm->job_text, "%s", job->text);
	if (alive)
		__atomic_store_n(&comm->life, LIFE_LIVE, __ATOMIC_RELEASE);
	else if (job->status == MARROW_SUCCESS && !comm->native) /* no color */
		nccl_handle_give_back(comm);
	else if (comm->native)
		nccl_comm_made(comm);
	else
		__atomic_store_n(&comm->life, LIFE_FAILED, __ATOMIC_RELEASE);
}

void nccl_job_settle(struct ncclComm *comm)
{
	pthread_mutex_lock(&lock);
	struct job *job = comm->job;
	if (job && job->over) {
		pthread_join(job->thread, NULL);
		for (size_t i = 0; i < job->count; i++) {
			struct job_item *item = &job->items[i];
			if (!item->abandoned)
				conclude(item->comm, job, item->kind == JOB_FINALIZE);
			if (item->parent)
				conclude(item->parent, job, true);
		}
		free_job(job);
	}
	pthread_mutex_unlock(&lock);
}

bool nccl_job_abandon(struct ncclComm *comm)
{
	bool found = false;
	pthread_mutex_lock(&lock);
	struct job *job = comm->job;
	for (size_t i = 0; job && !job->over && i < job->count; i++)
		if (job->items[i].comm == comm && job->items[i].kind != JOB_FINALIZE) {
			job->items[i].abandoned = found = true;
			comm->job = NULL;
			__atomic_store_n(&comm->life, LIFE_LEAVING, __ATOMIC_RELEASE);
		}
	pthread_mutex_unlock(&lock);
	return found;
}
