/* mpi.h - make a communicator over the ranks of an MPI communicator (libmarrow_mpi). MPI serves the set-up only. */
#ifndef MARROW_MPI_H
#define MARROW_MPI_H
#include <mpi.h>
#include "comm.h"
#ifdef __cplusplus
extern "C" {
#endif
/* Collective over mpi_comm (an intracommunicator; MPI initialised, not finalized). The new communicator has mpi_comm's size
 * and ranks and does not refer to it afterwards. On the cuda target the device current at the call is used.
 * Failures of the MPI part (no intracommunicator, rank 0 without an id) have a status but no text. */
MARROW_API enum marrow_status marrow_comm_init_mpi(struct marrow_comm **comm, MPI_Comm mpi_comm, const struct marrow_config *config);
#ifdef __cplusplus
}
#endif
#endif
