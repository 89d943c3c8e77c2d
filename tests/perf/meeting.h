/* meeting.h - where the participants of a run (one a thread) meet, outside of what is measured: barrier and exchange of
 * small records. Participants of this process, or of processes forked from one, meet on a shared page; those that a launcher
 * started meet through the library under test. */
#ifndef PERF_MEETING_H
#define PERF_MEETING_H

#include <marrow/marrow.h>
#include <stdbool.h>

enum { MEETING_RECORD_BYTES = 128, MEETING_PARTICIPANTS = 1024 };

struct meeting_page;
struct meeting {
	uint32_t participants;
	struct meeting_page *page; /* NULL: through comm */
	struct marrow_comm *comm;
	void *stream, *buffer;
	bool cuda;
};

/* Before any fork or thread. */
bool meeting_open_page(struct meeting *meeting, uint32_t participants);
/* For the only participant of this process; comm stays the caller's. */
bool meeting_open_comm(struct meeting *meeting, struct marrow_comm *comm, bool cuda);
void meeting_close(struct meeting *meeting);

/* Someone cannot go on: from now on all calls of all participants return false. */
void meeting_fail(struct meeting *meeting);
bool meeting_failed(const struct meeting *meeting);
bool meeting_barrier(struct meeting *meeting);
/* all (NULL: unwanted) receives every participant's record of bytes <= MEETING_RECORD_BYTES, in order. */
bool meeting_exchange(struct meeting *meeting, uint32_t participant, const void *mine, void *all, size_t bytes);

enum meeting_fold { MEETING_FIRST, MEETING_MEAN, MEETING_LEAST, MEETING_MOST, MEETING_SUM };
/* Replaces *value by the same number everywhere. */
bool meeting_fold(struct meeting *meeting, uint32_t participant, double *value, enum meeting_fold fold);

#endif
