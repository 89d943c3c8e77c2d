/* mpi_init.c - marrow_comm_init_mpi() on two MPI ranks, host target. With the argument "refused" rank 0 cannot make an id. */
#include <marrow/marrow.h>
#include <marrow/mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) check(condition, #condition, __LINE__)

static int rank, nranks;

static void check(int ok, const char *what, int line)
{
	if (ok)
		return;
	fprintf(stderr, "mpi_init.c:%d: rank %d: %s is false; last error: %s\n", line, rank, what, marrow_last_error(NULL));
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

/* A path that leads nowhere but is not NULL: calls that fail must set it to NULL. */
static struct marrow_comm *dangling(void)
{
	static char place;
	return (struct marrow_comm *)(void *)&place;
}

static void test_all_reduce(const struct marrow_config *config)
{
	enum { COUNT = 1000 };
	float send[COUNT], recv[COUNT];
	struct marrow_comm *comm = NULL;
	uint32_t value = 77;

	CHECK(marrow_comm_init_mpi(&comm, MPI_COMM_WORLD, config) == MARROW_SUCCESS);
	CHECK(comm != NULL);
	CHECK(marrow_comm_rank(comm, &value) == MARROW_SUCCESS && value == (uint32_t)rank);
	CHECK(marrow_comm_count(comm, &value) == MARROW_SUCCESS && value == (uint32_t)nranks);
	for (int i = 0; i < COUNT; i++)
		send[i] = (float)(i + rank);
	CHECK(marrow_all_reduce(send, recv, COUNT, MARROW_FLOAT32, MARROW_SUM, comm, NULL) == MARROW_SUCCESS);
	for (int i = 0; i < COUNT; i++)
		CHECK(recv[i] == (float)(nranks * i + nranks * (nranks - 1) / 2));
	CHECK(marrow_comm_destroy(comm) == MARROW_SUCCESS);
}

/* The ranks of the new communicator are those of the MPI communicator, here the other way round. */
static void test_reversed(const struct marrow_config *config)
{
	struct marrow_comm *comm = NULL;
	MPI_Comm reversed;
	uint32_t value = 77;

	MPI_Comm_split(MPI_COMM_WORLD, 0, nranks - rank, &reversed);
	CHECK(marrow_comm_init_mpi(&comm, reversed, config) == MARROW_SUCCESS);
	MPI_Comm_free(&reversed);
	CHECK(marrow_comm_rank(comm, &value) == MARROW_SUCCESS && value == (uint32_t)(nranks - 1 - rank));
	CHECK(marrow_barrier(comm, NULL) == MARROW_SUCCESS);
	CHECK(marrow_comm_destroy(comm) == MARROW_SUCCESS);
}

static void test_alone(const struct marrow_config *config)
{
	struct marrow_comm *comm = NULL;
	uint32_t value = 77;

	CHECK(marrow_comm_init_mpi(&comm, MPI_COMM_SELF, config) == MARROW_SUCCESS);
	CHECK(marrow_comm_count(comm, &value) == MARROW_SUCCESS && value == 1);
	CHECK(marrow_comm_destroy(comm) == MARROW_SUCCESS);
}

static void test_bad_calls(const struct marrow_config *config)
{
	struct marrow_comm *comm = dangling();
	MPI_Comm inter;
	enum marrow_status status;

	CHECK(marrow_comm_init_mpi(&comm, MPI_COMM_NULL, config) == MARROW_INVALID_USAGE && !comm);
	MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1 - rank, 0, &inter);
	comm = dangling();
	CHECK(marrow_comm_init_mpi(&comm, inter, config) == MARROW_INVALID_USAGE && !comm);
	MPI_Comm_free(&inter);
	/* One rank's bad call does not leave the other waiting. */
	comm = dangling();
	status = marrow_comm_init_mpi(rank == 1 ? NULL : &comm, MPI_COMM_WORLD, config);
	CHECK(status == (rank == 1 ? MARROW_INVALID_ARGUMENT : MARROW_REMOTE_ERROR));
	CHECK(rank == 1 || !comm);
}

static void test_refused(const struct marrow_config *config)
{
	struct marrow_comm *comm = dangling();
	enum marrow_status status;

	if (rank == 0)
		setenv("MARROW_SOCKET_IFNAME", "=no-such-interface", 1);
	status = marrow_comm_init_mpi(&comm, MPI_COMM_WORLD, config);
	CHECK(rank == 0 ? status != MARROW_SUCCESS && status != MARROW_REMOTE_ERROR : status == MARROW_REMOTE_ERROR);
	CHECK(!comm);
}

int main(int argc, char **argv)
{
	struct marrow_config config = MARROW_CONFIG_INIT;

	config.target = MARROW_TARGET_HOST;
	config.timeout_ms = 30000;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &nranks);
	CHECK(nranks == 2);
	if (argc > 1 && strcmp(argv[1], "refused") == 0) {
		test_refused(&config);
	} else {
		test_all_reduce(&config);
		test_reversed(&config);
		test_alone(&config);
		test_bad_calls(&config);
	}
	MPI_Finalize();
	return 0;
}
