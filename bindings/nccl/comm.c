/* comm.c - communicators: end, state. */
#include "binding.h"

#include <stdlib.h>
#include <time.h>

ncclResult_t nccl_comm_finalize_now(struct ncclComm *comm)
{
	ncclResult_t result = nccl_handle_enter(comm, "ncclCommFinalize");
	if (result != ncclSuccess)
		return result;
	if (comm->config.blocking) {
		result = nccl_from("ncclCommFinalize", marrow_comm_finalize(comm->native));
	} else {
		struct job_item *item = calloc(1, sizeof *item);
		if (item) {
			item->kind = JOB_FINALIZE;
			item->comm = comm;
			result = nccl_job_start(item, 1);
		} else {
			result = nccl_fail(ncclSystemError, "ncclCommFinalize: out of memory");
		}
	}
	nccl_handle_leave(comm);
	return result;
}

EXPORT(CommFinalize, (ncclComm_t comm))
{
	ncclResult_t result = nccl_handle_enter(comm, "ncclCommFinalize");
	if (result != ncclSuccess)
		return result;
	bool later = nccl_group_active();
	if (later)
		result = nccl_group_add_end(comm, GROUP_FINALIZE);
	nccl_handle_leave(comm);
	return later ? result : nccl_comm_finalize_now(comm);
}

/* Frees a handle that this thread has closed, and leaves it. */
static ncclResult_t comm_free(struct ncclComm *comm, const char *function)
{
	ncclResult_t result = ncclSuccess;
	nccl_registrations_free(comm);
	if (comm->native)
		result = nccl_from(function, marrow_comm_destroy(comm->native));
	comm->native = NULL;
	nccl_handle_leave(comm);
	nccl_handle_give_back(comm);
	return result;
}

ncclResult_t nccl_comm_destroy_now(struct ncclComm *comm)
{
	ncclResult_t result = nccl_handle_enter_any(comm, "ncclCommDestroy");
	if (result != ncclSuccess)
		return result;
	nccl_job_settle(comm);
	if (!nccl_handle_close(comm)) {
		result = nccl_fail(ncclInvalidArgument, "ncclCommDestroy: the communicator is still being worked on (wait for "
				   "ncclCommGetAsyncError(), or abort it), or another thread is destroying it");
		nccl_handle_leave(comm);
		return result;
	}
	if (!nccl_handle_alone(comm)) {
		__atomic_store_n(&comm->life, LIFE_LIVE, __ATOMIC_SEQ_CST);
		result = nccl_fail(ncclInvalidUsage, "ncclCommDestroy: another thread is in a call of the communicator of rank %d: abort it", comm->rank);
		nccl_handle_leave(comm);
		return result;
	}
	return comm_free(comm, "ncclCommDestroy");
}

EXPORT(CommDestroy, (ncclComm_t comm))
{
	if (!comm)
		return ncclSuccess;
	if (!nccl_group_active())
		return nccl_comm_destroy_now(comm);
	ncclResult_t result = nccl_handle_enter_any(comm, "ncclCommDestroy");
	if (result != ncclSuccess)
		return result;
	result = nccl_group_add_end(comm, GROUP_DESTROY);
	nccl_handle_leave(comm);
	return result;
}

/* A job that works on comm notices the native abort. */
static void abort_native(struct ncclComm *comm)
{
	const struct timespec pause = {0, 200000};
	uint32_t life = __atomic_load_n(&comm->life, __ATOMIC_ACQUIRE);
	if (comm->native && (life == LIFE_LIVE || life == LIFE_WORKING))
		(void)marrow_comm_abort(comm->native);
	for (int tries = 0; tries < 50000 && __atomic_load_n(&comm->life, __ATOMIC_ACQUIRE) == LIFE_WORKING; tries++) {
		nccl_job_settle(comm);
		nanosleep(&pause, NULL);
	}
}

ncclResult_t nccl_comm_abort_now(struct ncclComm *comm)
{
	ncclResult_t result = nccl_handle_enter_any(comm, "ncclCommAbort");
	if (result != ncclSuccess)
		return result;
	nccl_job_settle(comm);
	if (nccl_job_abandon(comm)) {
		nccl_handle_leave(comm);
		return ncclSuccess;
	}
	abort_native(comm);
	if (!nccl_handle_close(comm)) {
		result = nccl_fail(ncclInvalidArgument, "ncclCommAbort: another thread is freeing the communicator");
		nccl_handle_leave(comm);
		return result;
	}
	if (!nccl_handle_alone(comm)) {
		nccl_log(DEBUG_WARN, "ncclCommAbort: a thread stays in a call of rank %d; the communicator's memory is kept", comm->rank);
		nccl_handle_leave(comm);
		return ncclSuccess;
	}
	(void)comm_free(comm, "ncclCommAbort");
	return ncclSuccess;
}

/* In a group operations leave at once; the communicator is freed at its end. */
EXPORT(CommAbort, (ncclComm_t comm))
{
	if (!comm)
		return ncclSuccess;
	if (!nccl_group_active())
		return nccl_comm_abort_now(comm);
	ncclResult_t result = nccl_handle_enter_any(comm, "ncclCommAbort");
	if (result != ncclSuccess)
		return result;
	if (__atomic_load_n(&comm->life, __ATOMIC_ACQUIRE) == LIFE_LIVE)
		(void)marrow_comm_abort(comm->native);
	result = nccl_group_add_end(comm, GROUP_ABORT);
	nccl_handle_leave(comm);
	return result;
}

EXPORT(CommRevoke, (ncclComm_t comm, int revokeFlags))
{
	ncclResult_t result = nccl_handle_enter(comm, "ncclCommRevoke");
	if (result != ncclSuccess)
		return result;
	if (revokeFlags != NCCL_REVOKE_DEFAULT) {
		result = nccl_fail(ncclInvalidArgument, "ncclCommRevoke: flags 0x%x: only NCCL_REVOKE_DEFAULT", revokeFlags);
	} else {
		__atomic_store_n(&comm->revoked, true, __ATOMIC_RELAXED);
		result = nccl_from("ncclCommRevoke", marrow_comm_abort(comm->native));
	}
	nccl_handle_leave(comm);
	return result;
}

static ncclResult_t live_error(struct ncclComm *comm)
{
	enum marrow_status status;
	ncclResult_t result = __atomic_load_n(&comm->job_result, __ATOMIC_RELAXED);
	if (result != ncclSuccess)
		return result;
	if (marrow_comm_async_error(comm->native, &status) != MARROW_SUCCESS)
		return ncclInternalError;
	/* Who revoked is told that it is done. */
	if (status == MARROW_ABORTED && __atomic_load_n(&comm->revoked, __ATOMIC_RELAXED))
		return ncclSuccess;
	/* Frameworks ask ncclGetLastError(NULL). Once: they poll, and later words may be of another communicator. */
	if (status != MARROW_SUCCESS && !__atomic_exchange_n(&comm->told, true, __ATOMIC_RELAXED))
		nccl_remember(marrow_last_error(comm->native));
	return nccl_result(status);
}

EXPORT(CommGetAsyncError, (ncclComm_t comm, ncclResult_t *asyncError))
{
	if (!asyncError)
		return nccl_fail(ncclInvalidArgument, "ncclCommGetAsyncError: asyncError is NULL");
	ncclResult_t result = nccl_handle_enter_any(comm, "ncclCommGetAsyncError");
	if (result != ncclSuccess)
		return result;
	uint32_t life = __atomic_load_n(&comm->life, __ATOMIC_ACQUIRE);
	if (life == LIFE_WORKING) {
		nccl_job_settle(comm);
		life = __atomic_load_n(&comm->life, __ATOMIC_ACQUIRE);
	}
	if (life == LIFE_LIVE)
		*asyncError = live_error(comm);
	else
		*asyncError = life == LIFE_FAILED ? __atomic_load_n(&comm->job_result, __ATOMIC_RELAXED) : ncclInProgress;
	nccl_handle_leave(comm);
	return ncclSuccess;
}

static ncclResult_t query(ncclComm_t comm, int *out, const char *function)
{
	if (!out)
		return nccl_fail(ncclInvalidArgument, "%s: the result pointer is NULL", function);
	return nccl_handle_enter(comm, function);
}

EXPORT(CommCount, (const ncclComm_t comm, int *count))
{
	ncclResult_t result = query(comm, count, "ncclCommCount");
	if (result != ncclSuccess)
		return result;
	*count = comm->nranks;
	nccl_handle_leave(comm);
	return ncclSuccess;
}

EXPORT(CommCuDevice, (const ncclComm_t comm, int *device))
{
	ncclResult_t result = query(comm, device, "ncclCommCuDevice");
	if (result != ncclSuccess)
		return result;
	*device = comm->device;
	nccl_handle_leave(comm);
	return ncclSuccess;
}

EXPORT(CommUserRank, (const ncclComm_t comm, int *rank))
{
	ncclResult_t result = query(comm, rank, "ncclCommUserRank");
	if (result != ncclSuccess)
		return result;
	*rank = comm->rank;
	nccl_handle_leave(comm);
	return ncclSuccess;
}
