/* split.c - communicators out of communicators, through NCCL's interface. */
#include "ranks.h"

#include <pthread.h>
#include <stdio.h>

static pthread_barrier_t three; /* all of them have their sum: an abort may take it from who is still at it */

static int sum_of(ncclComm_t comm, int mine)
{
	int sum = -1;
	OK(ncclAllReduce(&mine, &sum, 1, ncclInt32, ncclSum, comm, NULL));
	return sum;
}

static void body(struct rank *self)
{
	ncclComm_t half = NULL, rest = (ncclComm_t)&half, grouped[2] = {NULL, NULL};
	ncclConfig_t share = NCCL_CONFIG_INITIALIZER;
	int rank = -1, count = 0;
	share.splitShare = 1;
	/* Evens and odds, keys downwards. */
	OK(ncclCommSplit(self->comm, self->rank % 2, -self->rank, &half, &share));
	OK(ncclCommUserRank(half, &rank));
	OK(ncclCommCount(half, &count));
	CHECK(count == 2 && rank == (self->rank < 2), "rank %d is %d of %d", self->rank, rank, count);
	CHECK(sum_of(half, self->rank) == (self->rank % 2 ? 4 : 2), "sum of a half");
	/* One rank alone has no color. */
	OK(ncclCommSplit(self->comm, self->rank == 3 ? NCCL_SPLIT_NOCOLOR : 5, 0, &rest, NULL));
	if (self->rank == 3)
		CHECK(rest == NULL, "no color has a communicator");
	else
		CHECK(sum_of(rest, self->rank) == 3, "sum of those with a color");
	/* Two at the end of a group. */
	OK(ncclGroupStart());
	OK(ncclCommSplit(self->comm, 0, self->rank, &grouped[0], NULL));
	OK(ncclCommSplit(self->comm, self->rank == 0 ? 1 : NCCL_SPLIT_NOCOLOR, 0, &grouped[1], NULL));
	OK(ncclGroupEnd());
	CHECK(sum_of(grouped[0], 1) == 4, "sum of all");
	CHECK((self->rank == 0) == (grouped[1] != NULL), "rank %d: %p", self->rank, (void *)grouped[1]);
	OK(ncclCommDestroy(grouped[0]));
	if (grouped[1])
		OK(ncclCommDestroy(grouped[1]));
	if (rest)
		OK(ncclCommDestroy(rest));
	OK(ncclCommDestroy(half));
	/* Without rank 1; then, after a failure, without rank 0. */
	ncclComm_t small = NULL, smaller = NULL;
	int excluded[] = {1}, twice[] = {1, 1}, out_of_range[] = {7}, first[] = {0};
	EXPECT(ncclInvalidArgument, ncclCommShrink(self->comm, twice, 2, &small, NULL, NCCL_SHRINK_DEFAULT));
	EXPECT(ncclInvalidArgument, ncclCommShrink(self->comm, out_of_range, 1, &small, NULL, NCCL_SHRINK_DEFAULT));
	EXPECT(ncclInvalidArgument, ncclCommShrink(self->comm, excluded, 1, &small, NULL, 9));
	if (self->rank == 1) {
		EXPECT(ncclInvalidArgument, ncclCommShrink(self->comm, excluded, 1, &small, NULL, NCCL_SHRINK_DEFAULT));
		return;
	}
	if (!OK(ncclCommShrink(self->comm, excluded, 1, &small, NULL, NCCL_SHRINK_DEFAULT)))
		return;
	CHECK(sum_of(small, self->rank) == 5, "sum of three");
	pthread_barrier_wait(&three);
	OK(ncclCommUserRank(small, &rank));
	if (rank == 0) {
		OK(ncclCommAbort(small));
		return;
	}
	if (OK(ncclCommShrink(small, first, 1, &smaller, NULL, NCCL_SHRINK_ABORT))) {
		CHECK(sum_of(smaller, self->rank) == 5, "sum of two");
		OK(ncclCommDestroy(smaller));
	}
	OK(ncclCommDestroy(small));
}

int main(void)
{
	ranks_environment();
	pthread_barrier_init(&three, NULL, 3);
	ranks_run(4, body, NULL);
	return ranks_verdict();
}
