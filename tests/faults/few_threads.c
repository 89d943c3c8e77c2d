/* few_threads.c - a thread that holds several ranks, when the system has no more threads for them: the group's end says so at once, no rank
 * waits for one that never began, nothing was issued, and the next group works. A group that failed ends with the words of the call that did. */
#include <marrow/marrow.h>

#include "patience.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { RANKS = 3, COUNT = 1000, AT_ONCE_MS = 1000 };

static int threads_left = -1; /* -1: as many as wanted */
static int failed;

/* In the place of libc's. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
	static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	if (threads_left == 0)
		return EAGAIN;
	if (threads_left > 0)
		threads_left--;
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
	return real(thread, attributes, start, argument);
}

static void expect(bool good, const char *what)
{
	if (good)
		return;
	printf("%s: %s\n", what, marrow_last_error(NULL));
	failed = 1;
}

static enum marrow_status init_all(struct marrow_comm **comms)
{
	struct marrow_config config = MARROW_CONFIG_INIT;
	struct marrow_unique_id id;
	config.target = MARROW_TARGET_HOST;
	config.timeout_ms = 60000;
	expect(marrow_get_unique_id(&id) == MARROW_SUCCESS, "unique id");
	marrow_group_start();
	for (uint32_t r = 0; r < RANKS; r++)
		expect(marrow_comm_init(&comms[r], RANKS, &id, r, &config) == MARROW_SUCCESS, "init in a group");
	return marrow_group_end();
}

static enum marrow_status sum_all(struct marrow_comm **comms, float values[RANKS][COUNT])
{
	marrow_group_start();
	for (uint32_t r = 0; r < RANKS; r++) {
		for (uint32_t i = 0; i < COUNT; i++)
			values[r][i] = (float)r;
		expect(marrow_all_reduce(values[r], values[r], COUNT, MARROW_FLOAT32, MARROW_SUM, comms[r], NULL) == MARROW_SUCCESS, "call in a group");
	}
	return marrow_group_end();
}

static void first_words(struct marrow_comm *comm, float *values)
{
	marrow_group_start();
	enum marrow_status first = marrow_all_reduce(values, values, COUNT, (enum marrow_type)99, MARROW_SUM, comm, NULL);
	(void)marrow_broadcast(values, values, COUNT, MARROW_FLOAT32, 77, comm, NULL);
	expect(marrow_group_end() == first && strstr(marrow_last_error(NULL), "99"), "words of the first failure");
	marrow_group_start();
	expect(marrow_group_fail((enum marrow_status)999) == MARROW_INVALID_USAGE, "a status that is none");
	expect(marrow_group_end() == MARROW_SUCCESS, "an empty group");
}

int main(void)
{
	static float values[RANKS][COUNT];
	struct marrow_comm *comms[RANKS] = {NULL};
	uint64_t start = now_ms();
	watchdog(30, "too few threads");
	threads_left = 1;
	expect(init_all(comms) == MARROW_SYSTEM_ERROR && strstr(marrow_last_error(NULL), "thread"), "inits without threads");
	for (uint32_t r = 0; r < RANKS; r++)
		expect(comms[r] == NULL, "a communicator is left");
	threads_left = -1;
	expect(init_all(comms) == MARROW_SUCCESS, "inits again");
	threads_left = 1;
	expect(sum_all(comms, values) == MARROW_SYSTEM_ERROR && strstr(marrow_last_error(NULL), "thread"), "calls without threads");
	expect(values[2][COUNT - 1] == 2, "a call was made all the same");
	threads_left = -1;
	expect(sum_all(comms, values) == MARROW_SUCCESS && values[2][COUNT - 1] == 3, "calls again");
	first_words(comms[0], values[0]);
	expect(now_ms() - start < limit_ms(AT_ONCE_MS), "took long");
	for (uint32_t r = 0; r < RANKS; r++)
		expect(marrow_comm_destroy(comms[r]) == MARROW_SUCCESS, "destroy");
	printf("too few threads: %s\n", failed ? "FAILED" : "ok");
	return failed;
}
