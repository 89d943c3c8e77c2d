/* job.c - communicators with blocking = 0: made in the background, told by ncclCommGetAsyncError(), aborted half-made. */
#include "ranks.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int threads(void)
{
	int count = 0;
	DIR *dir = opendir("/proc/self/task");
	for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir))
		count += entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return count;
}

static void *nothing(void *p)
{
	return p;
}

static ncclConfig_t background(void)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	config.blocking = 0;
	return config;
}

/* One thread makes two ranks, one after the other: neither call may wait for the other. */
static void two_in_a_row(bool grouped)
{
	ncclComm_t comms[2] = {NULL, NULL};
	ncclConfig_t config = background();
	ncclUniqueId id;
	float in[2] = {1, 2}, out[2] = {0, 0};
	int n = 0;
	OK(ncclGetUniqueId(&id));
	if (grouped)
		OK(ncclGroupStart());
	for (int r = 0; r < 2; r++)
		EXPECT(grouped ? ncclSuccess : ncclInProgress, ncclCommInitRankConfig(&comms[r], 2, id, r, &config));
	if (grouped)
		EXPECT(ncclInProgress, ncclGroupEnd());
	CHECK(comms[0] && comms[1], "no handles");
	for (int r = 0; r < 2; r++)
		CHECK(ranks_wait(comms[r]) == ncclSuccess, "rank %d: %s", r, ncclGetLastError(comms[r]));
	OK(ncclGroupStart());
	for (int r = 0; r < 2; r++)
		OK(ncclAllReduce(&in[r], &out[r], 1, ncclFloat32, ncclSum, comms[r], NULL));
	OK(ncclGroupEnd());
	CHECK(out[0] == 3 && out[1] == 3, "%g %g", (double)out[0], (double)out[1]);
	OK(ncclCommCount(comms[1], &n));
	CHECK(n == 2, "%d ranks", n);
	/* A split of both by one thread, with the parent's configuration; then the end, in the background too. */
	ncclComm_t halves[2] = {NULL, NULL};
	for (int r = 0; r < 2; r++)
		EXPECT(ncclInProgress, ncclCommSplit(comms[r], 0, 1 - r, &halves[r], NULL));
	for (int r = 0; r < 2; r++) {
		CHECK(ranks_wait(comms[r]) == ncclSuccess && ranks_wait(halves[r]) == ncclSuccess, "split: %s", ncclGetLastError(halves[r]));
		OK(ncclCommUserRank(halves[r], &n));
		CHECK(n == 1 - r, "rank %d by key", n);
	}
	for (int r = 0; r < 2; r++) {
		EXPECT(ncclInProgress, ncclCommFinalize(comms[r]));
		OK(ncclCommAbort(halves[r]));
	}
	for (int r = 0; r < 2; r++) {
		CHECK(ranks_wait(comms[r]) == ncclSuccess, "finalize: %s", ncclGetLastError(comms[r]));
		OK(ncclCommDestroy(comms[r]));
	}
}

/* The peer never comes. */
static void abandoned(void)
{
	ncclComm_t comm = NULL;
	ncclConfig_t config = background();
	ncclUniqueId id;
	ncclResult_t state = ncclSuccess;
	float x = 0;
	int n;
	OK(ncclGetUniqueId(&id));
	EXPECT(ncclInProgress, ncclCommInitRankConfig(&comm, 2, id, 0, &config));
	OK(ncclCommGetAsyncError(comm, &state));
	CHECK(state == ncclInProgress, "%d while the peer is missing", (int)state);
	EXPECT(ncclInvalidArgument, ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, comm, NULL));
	SAYS("being worked on");
	EXPECT(ncclInvalidArgument, ncclCommCount(comm, &n));
	EXPECT(ncclInvalidArgument, ncclCommDestroy(comm));
	OK(ncclCommAbort(comm));
	EXPECT(ncclInvalidArgument, ncclCommGetAsyncError(comm, &state));
}

/* An init that fails is told by the handle. */
static void failing(void)
{
	ncclComm_t comm = NULL;
	ncclConfig_t config = background();
	ncclUniqueId zero;
	memset(&zero, 0, sizeof zero);
	EXPECT(ncclInProgress, ncclCommInitRankConfig(&comm, 2, zero, 0, &config));
	CHECK(ranks_wait(comm) == ncclInvalidArgument, "a zero id is a failure");
	CHECK(strstr(ncclGetLastError(comm), "unique id"), "text: %s", ncclGetLastError(comm));
	int n;
	EXPECT(ncclInvalidArgument, ncclCommCount(comm, &n));
	OK(ncclCommDestroy(comm));
	/* With blocking ones in a group: refused. */
	ncclUniqueId id;
	ncclComm_t other = NULL;
	OK(ncclGetUniqueId(&id));
	OK(ncclGroupStart());
	OK(ncclCommInitRankConfig(&comm, 1, id, 0, &config));
	EXPECT(ncclInvalidArgument, ncclCommInitRank(&other, 1, id, 0));
	EXPECT(ncclInvalidArgument, ncclGroupEnd());
	CHECK(!comm && !other, "handles of a failed group");
}

int main(void)
{
	ranks_environment();
	setenv("MARROW_LOG", "error", 1);
	setenv("MARROW_TIMEOUT_MS", "1000", 1);
	pthread_t first; /* ThreadSanitizer starts one of its own with it */
	if (pthread_create(&first, NULL, nothing, NULL) == 0)
		pthread_join(first, NULL);
	int before = threads();
	two_in_a_row(false);
	two_in_a_row(true);
	failing();
	CHECK(threads() == before, "%d threads, %d before: an init left one", threads(), before);
	abandoned();
	/* Its thread ends with the init's deadline. */
	const struct timespec pause = {0, 10000000};
	for (int tries = 0; tries < 1000 && threads() > before; tries++)
		nanosleep(&pause, NULL);
	CHECK(threads() == before, "%d threads, %d before: an aborted init left one", threads(), before);
	return ranks_verdict();
}
