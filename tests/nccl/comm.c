/* comm.c - the life of communicators through NCCL's interface. */
#include "ranks.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What follows from bad arguments. */
static void bad_arguments(void)
{
	char garbage[4096] = {0};
	ncclComm_t comm = NULL, stray = (ncclComm_t)(void *)garbage, none = NULL;
	ncclResult_t state;
	ncclUniqueId id, zero;
	ncclRedOp_t op;
	float x = 1, y = 0;
	int n;
	memset(&zero, 0, sizeof zero);
	EXPECT(ncclInvalidArgument, ncclGetUniqueId(NULL));
	OK(ncclGetUniqueId(&id));
	EXPECT(ncclInvalidArgument, ncclCommInitRank(NULL, 1, id, 0));
	EXPECT(ncclInvalidArgument, ncclCommInitRank(&comm, 0, id, 0));
	EXPECT(ncclInvalidArgument, ncclCommInitRank(&comm, 2, id, 2));
	EXPECT(ncclInvalidArgument, ncclCommInitRank(&comm, 2, id, -1));
	EXPECT(ncclInvalidArgument, ncclCommInitRank(&comm, 2, zero, 0));
	SAYS("unique id");
	CHECK(comm == NULL, "a handle after a failed init");
	EXPECT(ncclInvalidArgument, ncclCommInitRankScalable(&comm, 2, 0, 0, &id, NULL));
	EXPECT(ncclInvalidArgument, ncclCommInitRankScalable(&comm, 2, 0, 1, NULL, NULL));
	EXPECT(ncclInvalidArgument, ncclCommInitRankScalable(&comm, 1, 0, 2, &id, NULL));
	OK(ncclCommInitRankScalable(&comm, 1, 0, 1, &id, NULL));
	EXPECT(ncclInvalidArgument, ncclAllReduce(&x, &y, 1, ncclFloat32, ncclSum, NULL, NULL));
	SAYS("NULL");
	EXPECT(ncclInvalidArgument, ncclAllReduce(&x, &y, 1, ncclFloat32, ncclSum, stray, NULL));
	SAYS("not a communicator");
	EXPECT(ncclInvalidArgument, ncclAllReduce(&x, &y, 1, ncclFloat32, ncclSum, (ncclComm_t)((char *)comm + 8), NULL));
	EXPECT(ncclInvalidArgument, ncclAllReduce(NULL, &y, 1, ncclFloat32, ncclSum, comm, NULL));
	EXPECT(ncclInvalidArgument, ncclAllReduce(&x, NULL, 1, ncclFloat32, ncclSum, comm, NULL));
	EXPECT(ncclInvalidArgument, ncclAllReduce(&x, &y, 1, (ncclDataType_t)-1, ncclSum, comm, NULL));
	EXPECT(ncclInvalidArgument, ncclAllReduce(&x, &y, 1, ncclFloat32, (ncclRedOp_t)7, comm, NULL));
	EXPECT(ncclInvalidArgument, ncclAllReduce(&x, &y, 1, ncclFloat32, (ncclRedOp_t)-3, comm, NULL));
	EXPECT(ncclInvalidArgument, ncclAllReduce(&x, &y, SIZE_MAX, ncclFloat32, ncclSum, comm, NULL));
	EXPECT(ncclInvalidArgument, ncclBroadcast(&x, &y, 1, ncclFloat32, -1, comm, NULL));
	EXPECT(ncclInvalidArgument, ncclReduce(&x, &y, 1, ncclFloat32, ncclSum, 1, comm, NULL));
	EXPECT(ncclInvalidArgument, ncclSend(&x, 1, ncclFloat32, 1, comm, NULL));
	EXPECT(ncclInvalidArgument, ncclRecv(&x, 1, ncclFloat32, -1, comm, NULL));
	EXPECT(ncclInvalidArgument, ncclRedOpCreatePreMulSum(NULL, &x, ncclFloat32, ncclScalarHostImmediate, comm));
	EXPECT(ncclInvalidArgument, ncclRedOpCreatePreMulSum(&op, NULL, ncclFloat32, ncclScalarHostImmediate, comm));
	EXPECT(ncclInvalidArgument, ncclRedOpCreatePreMulSum(&op, &x, ncclFloat32, (ncclScalarResidence_t)2, comm));
	OK(ncclRedOpCreatePreMulSum(&op, &x, ncclFloat32, ncclScalarHostImmediate, comm));
	EXPECT(ncclInvalidArgument, ncclAllReduce(&x, &y, 1, ncclFloat64, op, comm, NULL)); /* of another type */
	OK(ncclRedOpDestroy(op, comm));
	EXPECT(ncclInvalidArgument, ncclRedOpDestroy(op, comm));
	EXPECT(ncclInvalidArgument, ncclRedOpDestroy(ncclSum, comm));
	EXPECT(ncclInvalidArgument, ncclCommCount(comm, NULL));
	EXPECT(ncclInvalidArgument, ncclCommCount(NULL, &n));
	EXPECT(ncclInvalidArgument, ncclCommUserRank(stray, &n));
	EXPECT(ncclInvalidArgument, ncclCommGetAsyncError(comm, NULL));
	EXPECT(ncclInvalidArgument, ncclCommGetAsyncError(NULL, &state));
	EXPECT(ncclInvalidArgument, ncclCommSplit(comm, 0, 0, NULL, NULL));
	EXPECT(ncclInvalidArgument, ncclCommSplit(comm, -2, 0, &none, NULL));
	EXPECT(ncclInvalidArgument, ncclCommShrink(comm, NULL, 1, &none, NULL, 0));
	EXPECT(ncclInvalidArgument, ncclCommRevoke(comm, 1));
	OK(ncclCommDestroy(NULL));
	OK(ncclCommAbort(NULL));
	/* Finalized: destroy remains. */
	OK(ncclCommFinalize(comm));
	EXPECT(ncclInvalidUsage, ncclAllReduce(&x, &y, 1, ncclFloat32, ncclSum, comm, NULL));
	EXPECT(ncclInvalidUsage, ncclCommFinalize(comm));
	OK(ncclCommGetAsyncError(comm, &state));
	CHECK(state == ncclSuccess, "%d after finalize", (int)state);
	OK(ncclCommDestroy(comm));
	EXPECT(ncclInvalidArgument, ncclCommDestroy(comm));
	SAYS("destroyed");
	EXPECT(ncclInvalidArgument, ncclCommAbort(comm));
	EXPECT(ncclInvalidArgument, ncclAllReduce(&x, &y, 1, ncclFloat32, ncclSum, comm, NULL));
	EXPECT(ncclInvalidArgument, ncclCommGetAsyncError(comm, &state));
}

/* Configurations of all versions; wrong ones. */
static void configs(void)
{
	static const struct {
		unsigned int version;
		size_t bytes;
		size_t given; /* more than the version has: not read */
	} versions[] = {{21400, 24, 24}, {21700, 40, 40}, {21803, 48, 48}, {22602, 48, 96}, {22707, 72, 72}, {22707, 72, 80},
			{22809, 80, 80}, {22902, 88, 88}, {23003, 96, 96}, {23203, 96, 104}};
	union {
		ncclConfig_t config;
		unsigned char bytes[128];
	} c;
	const ncclConfig_t fresh = NCCL_CONFIG_INITIALIZER;
	ncclComm_t comm;
	ncclUniqueId id;
	for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
		memset(c.bytes, 0x5a, sizeof c); /* what a version has not is not read */
		memcpy(&c.config, &fresh, versions[i].bytes < sizeof fresh ? versions[i].bytes : sizeof fresh);
		for (size_t at = sizeof fresh; at < versions[i].bytes; at += sizeof(int))
			memcpy(c.bytes + at, &fresh.nvlsCTAs, sizeof(int));
		c.config.size = versions[i].given;
		c.config.version = versions[i].version;
		OK(ncclGetUniqueId(&id));
		if (OK(ncclCommInitRankConfig(&comm, 1, id, 0, &c.config)))
			OK(ncclCommDestroy(comm));
	}
	OK(ncclGetUniqueId(&id));
#define REFUSED(change, word) \
	do { \
		ncclConfig_t config = NCCL_CONFIG_INITIALIZER; \
		config.change; \
		EXPECT(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &config)); \
		SAYS(word); \
	} while (0)
	REFUSED(magic = 0, "NCCL_CONFIG_INITIALIZER");
	REFUSED(size = 16, "bytes");
	REFUSED(size = 48, "bytes");
	REFUSED(version = 2100, "version");
	REFUSED(blocking = 2, "blocking");
	REFUSED(maxCTAs = 0, "max_ctas");
	REFUSED(minCTAs = -1, "min_ctas");
	REFUSED(cgaClusterSize = 9, "cga");
	REFUSED(splitShare = 5, "split_share");
	ncclConfig_t crossed = NCCL_CONFIG_INITIALIZER, wide = NCCL_CONFIG_INITIALIZER;
	crossed.minCTAs = 9;
	crossed.maxCTAs = 8;
	EXPECT(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &crossed));
	wide.maxCTAs = 1000; /* a cap above ours caps nothing */
	wide.minCTAs = 1;
	wide.commName = "wide";
	OK(ncclCommInitRankConfig(&comm, 1, id, 0, &wide));
	OK(ncclCommDestroy(comm));
}

static void memory(void)
{
	static _Alignas(4096) char page[4096];
	ncclComm_t comm;
	ncclUniqueId id;
	ncclWindow_t window = NULL, other;
	void *handle = NULL, *pointer;
	OK(ncclGetUniqueId(&id));
	OK(ncclCommInitRank(&comm, 1, id, 0));
	OK(ncclCommRegister(comm, page, sizeof page, &handle));
	CHECK(handle != NULL, "no handle");
	EXPECT(ncclInvalidArgument, ncclCommRegister(comm, NULL, 8, &handle));
	EXPECT(ncclInvalidArgument, ncclCommRegister(comm, page, 8, NULL));
	EXPECT(ncclInvalidArgument, ncclCommWindowDeregister(comm, (ncclWindow_t)handle));
	OK(ncclCommDeregister(comm, handle));
	EXPECT(ncclInvalidUsage, ncclCommDeregister(comm, handle));
	OK(ncclCommWindowRegister(comm, page, sizeof page, &window, NCCL_WIN_COLL_SYMMETRIC));
	CHECK(window != NULL, "no window");
	EXPECT(ncclInvalidArgument, ncclCommWindowRegister(comm, page + 8, 8, &other, NCCL_WIN_DEFAULT));
	EXPECT(ncclInvalidArgument, ncclCommWindowRegister(comm, page, 8, &other, 64));
	OK(ncclCommWindowDeregister(comm, window));
	EXPECT(ncclInvalidArgument, ncclCommWindowDeregister(comm, window));
	OK(ncclCommWindowDeregister(comm, NULL));
	OK(ncclCommRegister(comm, page, sizeof page, &handle)); /* goes with the communicator */
	OK(ncclCommDestroy(comm));
	EXPECT(ncclInvalidArgument, ncclMemAlloc(NULL, 64));
	if (OK(ncclMemAlloc(&pointer, 100000))) {
		CHECK((uintptr_t)pointer % NCCL_WIN_REQUIRED_ALIGNMENT == 0, "ncclMemAlloc gave %p", pointer);
		memset(pointer, 1, 100000);
		OK(ncclMemFree(pointer));
	}
	OK(ncclMemFree(NULL));
}

/* Rank 0 waits for ever; another thread aborts. */
static void *aborter(void *p)
{
	struct rank *self = p;
	ncclResult_t state = ncclSuccess;
	for (int i = 0; i < 1000; i++)
		OK(ncclCommGetAsyncError(self->comm, &state));
	OK(ncclCommAbort(self->comm));
	return NULL;
}

static void aborted(struct rank *self)
{
	float x = 1, y;
	pthread_t thread;
	ncclResult_t state = ncclSuccess;
	if (self->rank == 0) {
		ncclComm_t comm = self->comm;
		pthread_create(&thread, NULL, aborter, self);
		ncclResult_t result = ncclAllReduce(&x, &y, 1, ncclFloat32, ncclSum, comm, NULL);
		CHECK(result == ncclInvalidUsage || result == ncclInvalidArgument, "an aborted call returned %d", (int)result);
		pthread_join(thread, NULL);
		EXPECT(ncclInvalidArgument, ncclCommDestroy(comm));
		self->comm = NULL;
	} else {
		for (int tries = 0; tries < 20000 && state == ncclSuccess; tries++) {
			OK(ncclCommGetAsyncError(self->comm, &state));
			sched_yield();
		}
		while (state == ncclSuccess && ncclCommGetAsyncError(self->comm, &state) == ncclSuccess)
			;
		CHECK(state == ncclRemoteError, "a peer of the one that aborted has %d", (int)state);
		CHECK(strstr(ncclGetLastError(self->comm), "abort"), "text: %s", ncclGetLastError(self->comm));
		CHECK(strstr(ncclGetLastError(NULL), "abort"), "text without a communicator: %s", ncclGetLastError(NULL));
		EXPECT(ncclRemoteError, ncclAllReduce(&x, &y, 1, ncclFloat32, ncclSum, self->comm, NULL));
		/* None of its operations was hurt, so it ends as if nothing had been: PyTorch's destroy_process_group() wants that. */
		OK(ncclCommFinalize(self->comm));
		OK(ncclCommGetAsyncError(self->comm, &state));
		CHECK(state == ncclSuccess, "%d after finalize", (int)state);
		OK(ncclCommDestroy(self->comm));
		self->comm = NULL;
	}
}

/* Different calls: both sides are told, both calls are named. */
static void mismatched(struct rank *self)
{
	float x[8] = {0}, y[8];
	ncclResult_t state = ncclSuccess, result = ncclAllReduce(x, y, self->rank ? 8 : 4, ncclFloat32, ncclSum, self->comm, NULL);
	OK(ncclCommGetAsyncError(self->comm, &state));
	CHECK(result == ncclInvalidUsage && state == ncclInvalidUsage, "a mismatch gave %d, %d", (int)result, (int)state);
	const char *text = ncclGetLastError(self->comm);
	CHECK(strstr(text, "count 8") && strstr(text, "count 4"), "text: %s", text);
}

static void revoked(struct rank *self)
{
	float x = 1, y;
	ncclResult_t state = ncclInProgress;
	OK(ncclAllReduce(&x, &y, 1, ncclFloat32, ncclSum, self->comm, NULL));
	if (self->rank == 0) {
		OK(ncclCommRevoke(self->comm, NCCL_REVOKE_DEFAULT));
		OK(ncclCommGetAsyncError(self->comm, &state));
		CHECK(state == ncclSuccess, "revoked: %d", (int)state);
		EXPECT(ncclInvalidUsage, ncclAllReduce(&x, &y, 1, ncclFloat32, ncclSum, self->comm, NULL));
	}
}

static void refused(void)
{
	ncclResult_t ncclCommSuspend(ncclComm_t, int), ncclParamBind(void **, const char *), ncclDevCommCreate(ncclComm_t, const void *, void *);
	EXPECT(ncclInvalidUsage, ncclCommSuspend(NULL, 0));
	SAYS("not supported");
	EXPECT(ncclInvalidUsage, ncclParamBind(NULL, "X"));
	EXPECT(ncclInvalidUsage, ncclDevCommCreate(NULL, NULL, NULL));
	SAYS("ncclDevCommCreate");
}

/* NCCL's ncclCommProperties_t of 2.29 and 2.30: 40 and 56 bytes. JAX takes a byte that is not zero for one-sided operations. */
static void properties(struct rank *self)
{
	ncclResult_t ncclCommQueryProperties(ncclComm_t, void *);
	for (size_t size = 32; size <= 96; size += 8) {
		struct {
			size_t size;
			unsigned int magic, version;
			int rank, nranks, device, nvml;
			unsigned char rest[72];
		} p;
		memset(&p, 0xa5, sizeof p);
		EXPECT(ncclInvalidArgument, ncclCommQueryProperties(self->comm, &p));
		p.size = size;
		p.magic = 0xcafebeef;
		p.version = 23007;
		OK(ncclCommQueryProperties(self->comm, &p));
		CHECK(p.size == size && p.magic == 0xcafebeef && p.version == 23007 && p.rank == self->rank && p.nranks == self->nranks && p.nvml == -1,
		      "size %zu, rank %d of %d", p.size, p.rank, p.nranks);
		for (size_t i = 0; i < sizeof p.rest; i++)
			CHECK(p.rest[i] == (32 + i < size ? 0 : 0xa5), "byte %zu of %zu is 0x%x", 32 + i, size, p.rest[i]);
		p.size = 24;
		EXPECT(ncclInvalidArgument, ncclCommQueryProperties(self->comm, &p));
	}
	EXPECT(ncclInvalidArgument, ncclCommQueryProperties(self->comm, NULL));
	SAYS("INITIALIZER");
}

static void two_ids(struct rank *self, ncclUniqueId id)
{
	ncclUniqueId ids[2] = {id, *(ncclUniqueId *)self->arg};
	ncclComm_t comm = NULL;
	int x = self->rank, y = 0;
	OK(ncclCommInitRankScalable(&comm, self->nranks, self->rank, 2, ids, NULL));
	OK(ncclAllReduce(&x, &y, 1, ncclInt32, ncclSum, comm, NULL));
	CHECK(y == self->nranks * (self->nranks - 1) / 2, "%d", y);
	OK(ncclCommDestroy(comm));
}

/* Others ask while the communicator is made and destroyed, as watchdogs do. */
static ncclComm_t watched_comm; /* atomic */
static bool watched_over;

static void *watch(void *p)
{
	uint64_t *answers = p;
	while (!__atomic_load_n(&watched_over, __ATOMIC_ACQUIRE)) {
		ncclResult_t state = ncclSuccess, result = ncclCommGetAsyncError(__atomic_load_n(&watched_comm, __ATOMIC_ACQUIRE), &state);
		/* ncclInvalidUsage: it is being aborted. */
		CHECK((result == ncclSuccess || result == ncclInvalidArgument) &&
			      (state == ncclSuccess || state == ncclInProgress || state == ncclInvalidUsage),
		      "a watcher has %d, %d", (int)result, (int)state);
		__atomic_fetch_add(answers, result == ncclSuccess, __ATOMIC_RELAXED);
		sched_yield();
	}
	return NULL;
}

static void watched(void)
{
	pthread_t threads[2];
	uint64_t answers[2] = {0, 0};
	ncclUniqueId id;
	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, watch, &answers[i]) != 0)
			abort();
	for (int i = 0; i < 20000 && (i < 300 || !__atomic_load_n(&answers[0], __ATOMIC_RELAXED) || !__atomic_load_n(&answers[1], __ATOMIC_RELAXED));
	     i++) {
		ncclComm_t comm = NULL;
		float x = 1, y = 0;
		OK(ncclGetUniqueId(&id));
		OK(ncclCommInitRank(&comm, 1, id, 0));
		__atomic_store_n(&watched_comm, comm, __ATOMIC_RELEASE);
		OK(ncclAllReduce(&x, &y, 1, ncclFloat32, ncclSum, comm, NULL));
		if (i % 2)
			sched_yield();
		if (i % 3)
			OK(ncclCommDestroy(comm));
		else
			OK(ncclCommAbort(comm));
	}
	__atomic_store_n(&watched_over, true, __ATOMIC_RELEASE);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		CHECK(answers[i] > 0, "watcher %d never had an answer", i);
	}
}

/* Two free one communicator: one of them has freed it, the other is told. */
struct rival {
	pthread_barrier_t *start;
	ncclComm_t *comm;
	int freed;
};

enum { RIVAL_CYCLES = 300 };

static void *rival(void *p)
{
	struct rival *self = p;
	for (int i = 0; i < RIVAL_CYCLES; i++) {
		pthread_barrier_wait(self->start);
		ncclResult_t result = i % 2 ? ncclCommDestroy(*self->comm) : ncclCommAbort(*self->comm);
		CHECK(result == ncclSuccess || result == ncclInvalidArgument, "freeing at once gave %d", (int)result);
		self->freed += result == ncclSuccess;
		pthread_barrier_wait(self->start);
	}
	return NULL;
}

static void rivals(void)
{
	pthread_barrier_t start;
	pthread_t threads[2];
	ncclComm_t comm = NULL;
	ncclUniqueId id;
	struct rival sides[2] = {{&start, &comm, 0}, {&start, &comm, 0}};
	pthread_barrier_init(&start, NULL, 3);
	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, rival, &sides[i]) != 0)
			abort();
	for (int i = 0; i < RIVAL_CYCLES; i++) {
		OK(ncclGetUniqueId(&id));
		OK(ncclCommInitRank(&comm, 1, id, 0));
		pthread_barrier_wait(&start);
		pthread_barrier_wait(&start);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&start);
	CHECK(sides[0].freed + sides[1].freed == RIVAL_CYCLES, "%d communicators were freed %d and %d times", RIVAL_CYCLES, sides[0].freed,
	      sides[1].freed);
}

static int descriptors(void)
{
	int count = 0;
	DIR *dir = opendir("/proc/self/fd");
	for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

static void one_sum(struct rank *self)
{
	int x = 1, y = 0;
	OK(ncclAllReduce(&x, &y, 1, ncclInt32, ncclSum, self->comm, NULL));
	CHECK(y == self->nranks, "%d", y);
	if (self->arg) {
		OK(ncclCommAbort(self->comm));
		self->comm = NULL;
	}
}

static void cycles(void)
{
	ranks_run(2, one_sum, NULL);
	int before = descriptors();
	for (int i = 0; i < 25; i++)
		ranks_run(2, one_sum, i % 2 ? &before : NULL);
	CHECK(descriptors() == before, "%d descriptors, %d before 25 cycles", descriptors(), before);
}

int main(void)
{
	ncclUniqueId second;
	ranks_environment();
	setenv("MARROW_LOG", "error", 1);
	bad_arguments();
	configs();
	memory();
	refused();
	watched();
	rivals();
	cycles();
	ranks_run(2, aborted, NULL);
	ranks_run(2, mismatched, NULL);
	ranks_run(2, revoked, NULL);
	ranks_run(2, properties, NULL);
	OK(ncclGetUniqueId(&second));
	ranks_run_bare(3, two_ids, &second);
	return ranks_verdict();
}
