#include "meeting.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../support/device_memory.h"

struct meeting_page {
	_Atomic uint32_t arrived, generation, failed;
	unsigned char records[MEETING_PARTICIPANTS][MEETING_RECORD_BYTES];
};

bool meeting_open_page(struct meeting *meeting, uint32_t participants)
{
	*meeting = (struct meeting){ .participants = participants };
	if (participants > MEETING_PARTICIPANTS) {
		fprintf(stderr, "%u threads in all are too many: at most %d\n", participants, MEETING_PARTICIPANTS);
		return false;
	}
	meeting->page = mmap(NULL, sizeof *meeting->page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (meeting->page == MAP_FAILED) {
		meeting->page = NULL;
		perror("mmap");
		return false;
	}
	return true;
}

bool meeting_open_comm(struct meeting *meeting, struct marrow_comm *comm, bool cuda)
{
	*meeting = (struct meeting){ .comm = comm, .cuda = cuda };
	if (marrow_comm_count(comm, &meeting->participants) != MARROW_SUCCESS)
		return false;
	size_t bytes = (size_t)(meeting->participants + 1) * MEETING_RECORD_BYTES;
	if (cuda ? device_alloc(&meeting->buffer, bytes) != 0 || device_stream_create(&meeting->stream) != 0 :
		   !(meeting->buffer = calloc(1, bytes))) {
		fprintf(stderr, "no memory for a meeting%s%s\n", cuda ? ": " : "", cuda ? device_error() : "");
		return false;
	}
	return true;
}

void meeting_close(struct meeting *meeting)
{
	if (meeting->page)
		munmap(meeting->page, sizeof *meeting->page);
	if (meeting->cuda) {
		if (meeting->stream)
			device_stream_destroy(meeting->stream);
		device_free(meeting->buffer);
	} else {
		free(meeting->buffer);
	}
	*meeting = (struct meeting){ 0 };
}

static void futex_wake_all(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Wakes now and then to look whether someone failed. */
static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
	const struct timespec while_ = { 0, 50 * 1000 * 1000 };
	syscall(SYS_futex, word, FUTEX_WAIT, seen, &while_, NULL, 0);
}

void meeting_fail(struct meeting *meeting)
{
	if (!meeting->page)
		return;
	atomic_store(&meeting->page->failed, 1);
	futex_wake_all(&meeting->page->generation);
}

bool meeting_failed(const struct meeting *meeting)
{
	return meeting->page && atomic_load(&meeting->page->failed) != 0;
}

static bool page_barrier(struct meeting *meeting)
{
	enum { YIELDS = 200 };
	struct meeting_page *page = meeting->page;
	uint32_t generation = atomic_load(&page->generation);

	if (atomic_fetch_add(&page->arrived, 1) + 1 == meeting->participants) {
		atomic_store(&page->arrived, 0);
		atomic_store(&page->generation, generation + 1);
		futex_wake_all(&page->generation);
		return !meeting_failed(meeting);
	}
	for (int i = 0; atomic_load(&page->generation) == generation; i++) {
		if (meeting_failed(meeting))
			return false;
		if (i < YIELDS)
			sched_yield();
		else
			futex_wait(&page->generation, generation);
	}
	return !meeting_failed(meeting);
}

static bool succeeded(struct meeting *meeting, enum marrow_status status, const char *call)
{
	if (status == MARROW_SUCCESS)
		return !meeting->cuda || device_stream_synchronize(meeting->stream) == 0;
	fprintf(stderr, "%s: %s: %s\n", call, marrow_status_string(status), marrow_last_error(meeting->comm));
	return false;
}

bool meeting_barrier(struct meeting *meeting)
{
	if (meeting->page)
		return page_barrier(meeting);
	return succeeded(meeting, marrow_barrier(meeting->comm, meeting->stream), "marrow_barrier");
}

static bool comm_exchange(struct meeting *meeting, const void *mine, void *all, size_t bytes)
{
	unsigned char *sent = meeting->buffer, *received = sent + MEETING_RECORD_BYTES;
	size_t total = bytes * meeting->participants;

	if (!meeting->cuda)
		memcpy(sent, mine, bytes);
	else if (device_copy(sent, mine, bytes) != 0)
		return false;
	if (!succeeded(meeting, marrow_all_gather(sent, received, bytes, MARROW_UINT8, meeting->comm, meeting->stream),
		       "marrow_all_gather"))
		return false;
	if (!all)
		return true;
	if (meeting->cuda)
		return device_copy(all, received, total) == 0;
	memcpy(all, received, total);
	return true;
}

bool meeting_exchange(struct meeting *meeting, uint32_t participant, const void *mine, void *all, size_t bytes)
{
	if (!meeting->page)
		return comm_exchange(meeting, mine, all, bytes);
	memcpy(meeting->page->records[participant], mine, bytes);
	if (!page_barrier(meeting))
		return false;
	for (uint32_t p = 0; all && p < meeting->participants; p++)
		memcpy((unsigned char *)all + p * bytes, meeting->page->records[p], bytes);
	return page_barrier(meeting);
}

bool meeting_fold(struct meeting *meeting, uint32_t participant, double *value, enum meeting_fold fold)
{
	double *all = malloc(meeting->participants * sizeof *all), result;
	bool good = all && meeting_exchange(meeting, participant, value, all, sizeof *value);

	if (good) {
		result = all[0];
		for (uint32_t p = 1; p < meeting->participants; p++)
			if (fold == MEETING_LEAST)
				result = all[p] < result ? all[p] : result;
			else if (fold == MEETING_MOST)
				result = all[p] > result ? all[p] : result;
			else if (fold != MEETING_FIRST)
				result += all[p];
		*value = fold == MEETING_MEAN ? result / meeting->participants : result;
	}
	free(all);
	return good;
}
