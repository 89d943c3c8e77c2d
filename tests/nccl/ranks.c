#include "ranks.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int failures, checks; /* atomic */

bool ranks_check(bool held, const char *file, int line, const char *format, ...)
{
	va_list args;
	__atomic_fetch_add(&checks, 1, __ATOMIC_RELAXED);
	if (held)
		return true;
	__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
	flockfile(stderr);
	fprintf(stderr, "%s:%d: ", file, line);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	funlockfile(stderr);
	return false;
}

bool ranks_expect(ncclResult_t wanted, ncclResult_t got, const char *file, int line, const char *call)
{
	return ranks_check(wanted == got, file, line, "%s: %d instead of %d: %s", call, (int)got, (int)wanted, ncclGetLastError(NULL));
}

bool ranks_says(const char *word, const char *file, int line)
{
	const char *text = ncclGetLastError(NULL);
	return ranks_check(strstr(text, word) != NULL, file, line, "\"%s\" is not in: %s", word, text);
}

int ranks_verdict(void)
{
	printf("%d checks, %d failed\n", checks, failures);
	return failures || !checks;
}

void ranks_environment(void)
{
	setenv("MARROW_TARGET", "host", 1);
	setenv("MARROW_LOG", "error", 0);
	setenv("MARROW_TIMEOUT_MS", "30000", 0);
}

struct thread {
	pthread_t thread;
	struct rank self;
	ncclUniqueId id;
	void (*body)(struct rank *self);
	void (*bare)(struct rank *self, ncclUniqueId id);
};

static void *run(void *p)
{
	struct thread *t = p;
	if (t->bare) {
		t->bare(&t->self, t->id);
		return NULL;
	}
	if (!OK(ncclCommInitRank(&t->self.comm, t->self.nranks, t->id, t->self.rank)))
		return NULL;
	t->body(&t->self);
	if (t->self.comm)
		OK(ncclCommDestroy(t->self.comm));
	return NULL;
}

static void run_all(int nranks, void (*body)(struct rank *), void (*bare)(struct rank *, ncclUniqueId), void *arg)
{
	struct thread threads[RANKS_MOST];
	ncclUniqueId id;
	if (!OK(ncclGetUniqueId(&id)))
		return;
	for (int r = 0; r < nranks; r++) {
		threads[r] = (struct thread){.self = {r, nranks, NULL, arg}, .id = id, .body = body, .bare = bare};
		if (pthread_create(&threads[r].thread, NULL, run, &threads[r]) != 0)
			abort();
	}
	for (int r = 0; r < nranks; r++)
		pthread_join(threads[r].thread, NULL);
}

void ranks_run(int nranks, void (*body)(struct rank *self), void *arg)
{
	run_all(nranks, body, NULL, arg);
}

void ranks_run_bare(int nranks, void (*body)(struct rank *self, ncclUniqueId id), void *arg)
{
	run_all(nranks, NULL, body, arg);
}

ncclResult_t ranks_wait(ncclComm_t comm)
{
	const struct timespec pause = {0, 1000000};
	ncclResult_t result = ncclInProgress;
	for (int tries = 0; tries < 20000 && result == ncclInProgress; tries++) {
		if (ncclCommGetAsyncError(comm, &result) != ncclSuccess)
			return ncclInternalError;
		if (result == ncclInProgress)
			nanosleep(&pause, NULL);
	}
	return result;
}
