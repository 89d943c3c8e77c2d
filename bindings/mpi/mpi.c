/* mpi.c - a communicator over the ranks of an MPI communicator: MPI carries the unique id, nothing else. */
#include <marrow/mpi.h>

static _Bool mpi_usable(MPI_Comm mpi_comm)
{
	int initialized = 0, finalized = 0, inter = 0;

	if (MPI_Initialized(&initialized) != MPI_SUCCESS || !initialized)
		return 0;
	if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized)
		return 0;
	if (mpi_comm == MPI_COMM_NULL)
		return 0;
	return MPI_Comm_test_inter(mpi_comm, &inter) == MPI_SUCCESS && !inter;
}

enum marrow_status marrow_comm_init_mpi(struct marrow_comm **comm, MPI_Comm mpi_comm, const struct marrow_config *config)
{
	/* One message carries rank 0's status and its id, so that no rank waits for an id that was never made. */
	struct {
		int32_t status;
		struct marrow_unique_id id;
	} offer = { MARROW_SUCCESS, { { 0 } } };
	int32_t bad_call = !comm, any_bad_call = 0;
	int rank, nranks;

	if (comm)
		*comm = NULL;
	if (!mpi_usable(mpi_comm))
		return MARROW_INVALID_USAGE;
	if (MPI_Comm_rank(mpi_comm, &rank) != MPI_SUCCESS || MPI_Comm_size(mpi_comm, &nranks) != MPI_SUCCESS)
		return MARROW_SYSTEM_ERROR;
	/* The call is collective: a rank that cannot go on must not leave the others waiting for it. */
	if (MPI_Allreduce(&bad_call, &any_bad_call, 1, MPI_INT32_T, MPI_MAX, mpi_comm) != MPI_SUCCESS)
		return MARROW_SYSTEM_ERROR;
	if (any_bad_call)
		return bad_call ? MARROW_INVALID_ARGUMENT : MARROW_REMOTE_ERROR;
	if (rank == 0)
		offer.status = (int32_t)marrow_get_unique_id_on(&offer.id, config);
	if (MPI_Bcast(&offer, (int)sizeof(offer), MPI_BYTE, 0, mpi_comm) != MPI_SUCCESS)
		return MARROW_SYSTEM_ERROR;
	if (offer.status != MARROW_SUCCESS)
		return rank == 0 ? (enum marrow_status)offer.status : MARROW_REMOTE_ERROR;
	return marrow_comm_init(comm, (uint32_t)nranks, &offer.id, (uint32_t)rank, config);
}
