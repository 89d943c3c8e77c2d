/* fleet.h - ranks as processes, for tests: the counterpart of world_run(), which has threads. The starting process stays clear of
 * CUDA; every wait has a limit, after which the ranks are killed.
 *
 * Bodies are those of world.h and find communicators, streams and rank in their struct world_rank. */
#ifndef TEST_FLEET_H
#define TEST_FLEET_H

#include "support/world.h"

#include <sys/types.h>

struct fleet {
	uint32_t count;
	pid_t pids[WORLD_MAX_RANKS];
	bool ended[WORLD_MAX_RANKS];
	struct fleet_page *page;
};

/* Zeroed whole pages that processes forked later share. */
void *fleet_share(size_t bytes);
/* world_gpus() asked in a process of its own. */
int fleet_gpus(const char **why);

/* Starts world->nranks processes; each makes its communicators (deadline: world->timeout_ms, default 20 s), runs the body,
 * takes everything down. Hosts: as hosts.h says. */
void fleet_start(struct fleet *fleet, const struct world *world, void (*body)(struct world_rank *self));
/* Waits for them; kills what is left after limit_s. Returns the number of ranks that failed; their words are on stderr. */
int fleet_end(struct fleet *fleet, uint32_t limit_s);
void fleet_kill(struct fleet *fleet);
/* Both. */
int fleet_run(const struct world *world, uint32_t limit_s, void (*body)(struct world_rank *self));
/* Runs world_run() in one process under a limit. */
int fleet_run_threads(const struct world *world, uint32_t limit_s, void (*body)(struct world_rank *self));
/* Runs work(arg) in a process of its own: 0 if that returned 0 within the limit. */
int fleet_child(uint32_t limit_s, int (*work)(void *arg), void *arg);

/* Where participants (threads or processes) wait for each other; lives in shared memory, zeroed. */
struct meet {
	uint32_t arrived, phase;
};
/* True once n participants are there; false after the limit. */
bool meet_wait(struct meet *meet, uint32_t n, uint32_t limit_s);

uint64_t fleet_now_ms(void);
/* True if this build has reducing CUDA kernels for the type. */
bool fleet_type_built(enum marrow_type type);
/* A built type out of a random number. */
enum marrow_type fleet_draw_type(uint64_t *state);
/* As printf, flushed: one line a result. */
void fleet_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
