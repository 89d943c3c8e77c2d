/* group.c - what a group's end does beside the native one: handles of communicators that it made, background creation, ends of
 * communicators. Operations themselves are queued natively. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

enum entry_kind { ENTRY_MADE, ENTRY_JOB, ENTRY_END };

struct entry {
	enum entry_kind kind;
	struct ncclComm *comm;
	ncclComm_t *place;
	struct job_item item;
	enum group_end end;
};

static _Thread_local struct {
	uint32_t depth;
	ncclResult_t result;
	int blocking;                /* of the communicators made or ended: -1 none yet */
	struct entry *entries;
	size_t count, room;
} group;

bool nccl_group_active(void)
{
	return group.depth > 0;
}

void nccl_group_failed(ncclResult_t result)
{
	if (group.depth == 0 || group.result != ncclSuccess)
		return;
	group.result = result;
	(void)marrow_group_fail(MARROW_INVALID_USAGE); /* it issues nothing; the result is this one */
}

ncclResult_t nccl_group_blocking(bool blocking, const char *function)
{
	if (group.depth == 0)
		return ncclSuccess;
	if (group.blocking >= 0 && group.blocking != (int)blocking)
		return nccl_fail(ncclInvalidArgument, "%s: communicators with blocking = 0 and 1 do not go into one group", function);
	group.blocking = blocking;
	return ncclSuccess;
}

static ncclResult_t add(const struct entry *entry)
{
	if (group.count == group.room) {
		size_t room = group.room ? 2 * group.room : 8;
		struct entry *entries = realloc(group.entries, room * sizeof *entries);
		if (!entries)
			return nccl_fail(ncclSystemError, "out of memory for a group of %zu communicators", room);
		group.entries = entries;
		group.room = room;
	}
	group.entries[group.count++] = *entry;
	return ncclSuccess;
}

ncclResult_t nccl_group_add_made(struct ncclComm *comm, ncclComm_t *place)
{
	struct entry entry = {.kind = ENTRY_MADE, .comm = comm, .place = place};
	return add(&entry);
}

ncclResult_t nccl_group_add_job(const struct job_item *item, ncclComm_t *place)
{
	struct entry entry = {.kind = ENTRY_JOB, .comm = item->comm, .place = place, .item = *item};
	return add(&entry);
}

ncclResult_t nccl_group_add_end(struct ncclComm *comm, enum group_end what)
{
	struct entry entry = {.kind = ENTRY_END, .comm = comm, .end = what};
	return add(&entry);
}

/* The native end has run: a communicator is there, or it is not. */
static void settle_made(const struct entry *entry)
{
	if (entry->comm->native) {
		nccl_comm_made(entry->comm);
		return;
	}
	if (entry->place)
		*entry->place = NULL;
	nccl_handle_give_back(entry->comm);
}

static ncclResult_t start_jobs(const struct entry *entries, size_t count, size_t jobs)
{
	struct job_item *items = malloc(jobs * sizeof *items);
	size_t n = 0;
	if (!items)
		return nccl_fail(ncclSystemError, "ncclGroupEnd: out of memory for %zu communicators", jobs);
	for (size_t i = 0; i < count; i++)
		if (entries[i].kind == ENTRY_JOB)
			items[n++] = entries[i].item;
	return nccl_job_start(items, jobs);
}

static void drop_jobs(const struct entry *entries, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (entries[i].kind == ENTRY_JOB) {
			if (entries[i].place)
				*entries[i].place = NULL;
			if (entries[i].item.kind != JOB_FINALIZE)
				nccl_handle_give_back(entries[i].comm);
		}
}

static ncclResult_t end_one(const struct entry *entry)
{
	switch (entry->end) {
	case GROUP_FINALIZE:
		return nccl_comm_finalize_now(entry->comm);
	case GROUP_DESTROY:
		return nccl_comm_destroy_now(entry->comm);
	case GROUP_ABORT:
		return nccl_comm_abort_now(entry->comm);
	}
	return ncclInternalError;
}

/* Outermost end. */
static ncclResult_t finish(bool issue)
{
	struct entry *entries = group.entries;
	size_t count = group.count, jobs = 0;
	if (!issue)
		(void)marrow_group_fail(MARROW_INVALID_USAGE);
	group.depth = 0;
	enum marrow_status status = marrow_group_end();
	ncclResult_t result = group.result;
	if (issue && result == ncclSuccess)
		result = nccl_from("ncclGroupEnd", status);
	group.entries = NULL;
	group.count = group.room = 0;
	for (size_t i = 0; i < count; i++) {
		if (entries[i].kind == ENTRY_MADE)
			settle_made(&entries[i]);
		jobs += entries[i].kind == ENTRY_JOB;
	}
	if (jobs > 0 && issue && result == ncclSuccess)
		result = start_jobs(entries, count, jobs);
	else
		drop_jobs(entries, count);
	for (size_t i = 0; i < count; i++) {
		ncclResult_t ended = entries[i].kind == ENTRY_END ? end_one(&entries[i]) : ncclSuccess;
		if (result == ncclSuccess)
			result = ended;
	}
	free(entries);
	return result;
}

ncclResult_t nccl_group_start(void)
{
	if (group.depth++ == 0) {
		group.result = ncclSuccess;
		group.blocking = -1;
	}
	(void)marrow_group_start();
	return ncclSuccess;
}

static ncclResult_t end(bool issue, const char *function)
{
	if (group.depth == 0)
		return nccl_fail(ncclInvalidUsage, "%s: this thread is in no group: call ncclGroupStart() first", function);
	if (group.depth == 1)
		return finish(issue);
	group.depth--;
	(void)marrow_group_end();
	return ncclSuccess;
}

ncclResult_t nccl_group_end(void)
{
	return end(true, "ncclGroupEnd");
}

EXPORT(GroupStart, (void))
{
	return nccl_group_start();
}

EXPORT(GroupEnd, (void))
{
	return nccl_group_end();
}

static const unsigned int sim_magic = 0x74685283;

/* There is no model to estimate from: estimatedTime stays as it is. */
EXPORT(GroupSimulateEnd, (ncclSimInfo_t * simInfo))
{
	if (simInfo && (simInfo->magic != sim_magic || simInfo->size < sizeof *simInfo))
		return nccl_fail(ncclInvalidArgument, "ncclGroupSimulateEnd: simInfo does not start with NCCL_SIM_INFO_INITIALIZER");
	return end(false, "ncclGroupSimulateEnd");
}
