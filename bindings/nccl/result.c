/* result.c - statuses of Marrow as NCCL's results, and the words behind them. */
#include "binding.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char own[TEXT_BYTES], shown[TEXT_BYTES];
static pthread_mutex_t last_lock = PTHREAD_MUTEX_INITIALIZER;
static char last[TEXT_BYTES]; /* of any thread: frameworks ask from another one than failed */

void nccl_remember(const char *text)
{
	snprintf(own, sizeof own, "%s", text);
	pthread_mutex_lock(&last_lock);
	memcpy(last, own, sizeof last);
	pthread_mutex_unlock(&last_lock);
}

ncclResult_t nccl_fail(ncclResult_t result, const char *format, ...)
{
	char text[TEXT_BYTES];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	nccl_remember(text);
	nccl_log(DEBUG_WARN, "%s", text);
	nccl_group_failed(result);
	return result;
}

/* A rank that is late and a rank that is gone look alike to NCCL's users, and so do a missing page and a failed call. */
ncclResult_t nccl_result(enum marrow_status status)
{
	switch (status) {
	case MARROW_SUCCESS:
		return ncclSuccess;
	case MARROW_INVALID_ARGUMENT:
		return ncclInvalidArgument;
	case MARROW_INVALID_USAGE:
	case MARROW_MISMATCH:
	case MARROW_ABORTED:
	case MARROW_UNSUPPORTED:
		return ncclInvalidUsage;
	case MARROW_OUT_OF_MEMORY:
	case MARROW_SYSTEM_ERROR:
		return ncclSystemError;
	case MARROW_CUDA_ERROR:
		return ncclUnhandledCudaError;
	case MARROW_TIMEOUT:
	case MARROW_REMOTE_ERROR:
		return ncclRemoteError;
	case MARROW_IN_PROGRESS:
		return ncclInProgress;
	case MARROW_INTERNAL_ERROR:
		break;
	}
	return ncclInternalError;
}

ncclResult_t nccl_from(const char *function, enum marrow_status status)
{
	if (status == MARROW_SUCCESS)
		return ncclSuccess;
	return nccl_fail(nccl_result(status), "%s: %s", function, marrow_last_error(NULL));
}

ncclResult_t nccl_unsupported(const char *function, const char *instead)
{
	return nccl_fail(ncclInvalidUsage, "%s is not supported by Marrow's libnccl: %s", function, instead);
}

EXPORT_AS(const char *, GetErrorString, (ncclResult_t result))
{
	switch (result) {
	case ncclSuccess:
		return "success";
	case ncclUnhandledCudaError:
		return "a CUDA call failed (ncclGetLastError() says which)";
	case ncclSystemError:
		return "a system call failed or memory ran out (ncclGetLastError() says which)";
	case ncclInternalError:
		return "internal error: please report it";
	case ncclInvalidArgument:
		return "an argument is invalid (ncclGetLastError() says which)";
	case ncclInvalidUsage:
		return "the call is not allowed here, not supported, or differs between ranks (ncclGetLastError() says what)";
	case ncclRemoteError:
		return "another rank failed, left, aborted or did not come in time (ncclGetLastError() says which)";
	case ncclInProgress:
		return "still under way";
	case ncclNumResults:
		break;
	}
	return "unknown result";
}

EXPORT_AS(const char *, GetLastError, (ncclComm_t comm))
{
	enum marrow_status failure = MARROW_SUCCESS;
	shown[0] = '\0';
	if (nccl_handle_known(comm) && nccl_handle_enter_any(comm, NULL) == ncclSuccess) {
		uint32_t life = __atomic_load_n(&comm->life, __ATOMIC_ACQUIRE);
		if (life == LIFE_FAILED)
			memcpy(shown, comm->job_text, sizeof shown);
		else if (life == LIFE_LIVE && marrow_comm_async_error(comm->native, &failure) == MARROW_SUCCESS && failure != MARROW_SUCCESS)
			snprintf(shown, sizeof shown, "%s", marrow_last_error(comm->native));
		nccl_handle_leave(comm);
	}
	if (!shown[0] && own[0])
		memcpy(shown, own, sizeof shown);
	if (!shown[0]) {
		pthread_mutex_lock(&last_lock);
		memcpy(shown, last, sizeof shown);
		pthread_mutex_unlock(&last_lock);
	}
	return shown;
}
