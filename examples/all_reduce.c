/* all_reduce.c - the smallest whole program: ranks as processes of one host sum a vector.
 *
 * cc all_reduce.c $(pkg-config --cflags --libs marrow) -o all_reduce && ./all_reduce 4
 *
 * On the CPU, so that it runs anywhere. On GPUs: target MARROW_TARGET_CUDA, a rank's own device current (cudaSetDevice(), after the fork),
 * buffers of cudaMalloc(), a stream in the place of NULL, and cudaStreamSynchronize() before the result is read. */
#include <marrow/marrow.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 1000, MAX_RANKS = 16 };

static int fail(const char *what, const struct marrow_comm *comm)
{
	fprintf(stderr, "%s: %s\n", what, marrow_last_error(comm));
	return 1;
}

static int run_rank(const struct marrow_unique_id *id, unsigned rank, unsigned nranks)
{
	struct marrow_config config = MARROW_CONFIG_INIT;
	struct marrow_comm *comm;
	static float values[COUNT];

	config.target = MARROW_TARGET_HOST;
	if (marrow_comm_init(&comm, nranks, id, rank, &config) != MARROW_SUCCESS)
		return fail("init", NULL);
	for (int i = 0; i < COUNT; i++)
		values[i] = (float)(rank + 1);
	if (marrow_all_reduce(values, values, COUNT, MARROW_FLOAT32, MARROW_SUM, comm, NULL) != MARROW_SUCCESS)
		return fail("all_reduce", comm);
	if (rank == 0)
		printf("the sum over %u ranks is %g\n", nranks, (double)values[COUNT - 1]);
	if (marrow_comm_destroy(comm) != MARROW_SUCCESS)
		return fail("destroy", NULL);
	return values[COUNT - 1] == (float)(nranks * (nranks + 1) / 2) ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct marrow_unique_id id;
	int nranks = argc > 1 ? atoi(argv[1]) : 2, failed = 0, status;

	if (nranks < 1 || nranks > MAX_RANKS) {
		fprintf(stderr, "usage: %s [RANKS], 1 to %d\n", argv[0], MAX_RANKS);
		return 2;
	}
	/* Rank 0 stays in the process that made the id. */
	if (marrow_get_unique_id(&id) != MARROW_SUCCESS)
		return fail("unique id", NULL);
	for (int rank = 1; rank < nranks; rank++)
		if (fork() == 0)
			_exit(run_rank(&id, (unsigned)rank, (unsigned)nranks));
	failed = run_rank(&id, 0, (unsigned)nranks);
	while (wait(&status) > 0)
		failed |= status != 0;
	return failed;
}
