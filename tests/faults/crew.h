/* crew.h - ranks as processes, forked from a process that has no threads and has not touched CUDA. */
#ifndef TEST_CREW_H
#define TEST_CREW_H

#include "act.h"
#include "patience.h"

#include <sys/types.h>

enum { CREW_MAX = 8, CREW_WORDS = 16 };

/* Memory that all processes of a crew and its parent share. */
struct crew_board {
	struct meeting meeting, id_meeting;
	struct marrow_unique_id id;
	uint64_t words[CREW_WORDS];  /* the test's own, zeroed */
};

struct crew_member {
	const char *doing;           /* name of the test, for messages */
	enum marrow_target target;
	uint32_t rank, size;
	struct crew_board *board;
	void *arg;
	struct ground ground;
	struct marrow_comm *comm;
	int failed;
};

struct crew {
	const char *doing;
	enum marrow_target target;
	uint32_t size;
	void *arg;
	unsigned seconds;            /* a member's watchdog */
	struct crew_board *board;
	pid_t pids[CREW_MAX];
};

/* Forks the members; each runs body and exits with 0, or 1 if crew_fail() was called. Fields up to seconds are set by the caller. */
void crew_start(struct crew *crew, void (*body)(struct crew_member *self));
/* Waits for all. killed: bit mask of members that must have died by SIGKILL. Returns the number of members that ended otherwise
 * than they should. */
int crew_end(struct crew *crew, uint32_t killed);
/* Marks the member as failed and prints its rank and the test's name before the text. */
void crew_fail(struct crew_member *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Within a body. Ground, id by rank 0, init. On failure the process exits. timeout_ms: config's. */
void crew_init(struct crew_member *self, size_t bytes, uint64_t timeout_ms);
/* Destroys the communicator, within limit_ms(2000), and the ground. */
void crew_finish(struct crew_member *self);

#endif
