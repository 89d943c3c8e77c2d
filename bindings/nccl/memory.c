/* memory.c - allocation, and registration: handles that are kept and checked, and change nothing else. */
#include "binding.h"

#include <stdlib.h>

EXPORT(MemAlloc, (void **ptr, size_t size))
{
	if (!ptr)
		return nccl_fail(ncclInvalidArgument, "ncclMemAlloc: ptr is NULL");
	*ptr = NULL;
	return size == 0 ? ncclSuccess : nccl_from("ncclMemAlloc", marrow_mem_alloc(ptr, size, MARROW_TARGET_AUTO));
}

EXPORT(MemFree, (void *ptr))
{
	return nccl_from("ncclMemFree", marrow_mem_free(ptr));
}

static ncclResult_t add(ncclComm_t comm, void *memory, size_t bytes, bool window, void **out, const char *function)
{
	if (!memory || bytes == 0 || !out)
		return nccl_fail(ncclInvalidArgument, "%s: %s", function, !out ? "the result pointer is NULL" : !memory ? "buff is NULL" : "size is 0");
	struct registration *r = malloc(sizeof *r);
	if (!r)
		return nccl_fail(ncclSystemError, "%s: out of memory", function);
	r->memory = memory;
	r->bytes = bytes;
	r->window = window;
	pthread_mutex_lock(&comm->lock);
	r->next = comm->registrations;
	comm->registrations = r;
	pthread_mutex_unlock(&comm->lock);
	*out = r;
	return ncclSuccess;
}

/* Handles are compared, not read, before they are known. */
static struct registration **find(ncclComm_t comm, const void *handle, bool window)
{
	struct registration **at = &comm->registrations;
	while (*at && (*at != handle || (*at)->window != window))
		at = &(*at)->next;
	return *at ? at : NULL;
}

static ncclResult_t take_away(ncclComm_t comm, const void *handle, bool window, const char *function)
{
	pthread_mutex_lock(&comm->lock);
	struct registration **at = find(comm, handle, window), *found = at ? *at : NULL;
	if (found)
		*at = found->next;
	pthread_mutex_unlock(&comm->lock);
	free(found);
	return found ? ncclSuccess
		     : nccl_fail(window ? ncclInvalidArgument : ncclInvalidUsage, "%s: no %s of this communicator (gone already?)", function,
				 window ? "window" : "registration");
}

void nccl_registrations_free(struct ncclComm *comm)
{
	while (comm->registrations) {
		struct registration *r = comm->registrations;
		comm->registrations = r->next;
		free(r);
	}
}

EXPORT(CommRegister, (const ncclComm_t comm, void *buff, size_t size, void **handle))
{
	ncclResult_t result = nccl_handle_enter(comm, "ncclCommRegister");
	if (result != ncclSuccess)
		return result;
	result = add(comm, buff, size, false, handle, "ncclCommRegister");
	nccl_handle_leave(comm);
	return result;
}

EXPORT(CommDeregister, (const ncclComm_t comm, void *handle))
{
	ncclResult_t result = nccl_handle_enter(comm, "ncclCommDeregister");
	if (result != ncclSuccess)
		return result;
	result = take_away(comm, handle, false, "ncclCommDeregister");
	nccl_handle_leave(comm);
	return result;
}

enum { KNOWN_WINDOW_FLAGS = 0x3 };

EXPORT(CommWindowRegister, (ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win, int winFlags))
{
	void *handle = NULL;
	ncclResult_t result = nccl_handle_enter(comm, "ncclCommWindowRegister");
	if (result != ncclSuccess)
		return result;
	if (winFlags & ~KNOWN_WINDOW_FLAGS)
		result = nccl_fail(ncclInvalidArgument, "ncclCommWindowRegister: flags 0x%x", winFlags);
	else if ((uintptr_t)buff % NCCL_WIN_REQUIRED_ALIGNMENT)
		result = nccl_fail(ncclInvalidArgument, "ncclCommWindowRegister: buff is not aligned to %d bytes", NCCL_WIN_REQUIRED_ALIGNMENT);
	else
		result = add(comm, buff, size, true, win ? &handle : NULL, "ncclCommWindowRegister");
	if (result == ncclSuccess)
		*win = handle;
	nccl_handle_leave(comm);
	return result;
}

EXPORT(CommWindowDeregister, (ncclComm_t comm, ncclWindow_t win))
{
	ncclResult_t result = nccl_handle_enter(comm, "ncclCommWindowDeregister");
	if (result != ncclSuccess)
		return result;
	if (win)
		result = take_away(comm, win, true, "ncclCommWindowDeregister");
	nccl_handle_leave(comm);
	return result;
}

MARROW_API ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void **outUserPtr);
EXPORT(WinGetUserPtr, (ncclComm_t comm, ncclWindow_t win, void **outUserPtr))
{
	ncclResult_t result = nccl_handle_enter(comm, "ncclWinGetUserPtr");
	if (result != ncclSuccess)
		return result;
	pthread_mutex_lock(&comm->lock);
	struct registration **at = outUserPtr ? find(comm, win, true) : NULL;
	if (at)
		*outUserPtr = (*at)->memory;
	pthread_mutex_unlock(&comm->lock);
	if (!at)
		result = nccl_fail(ncclInvalidArgument, "ncclWinGetUserPtr: %s", outUserPtr ? "no window of this communicator" : "outUserPtr is NULL");
	nccl_handle_leave(comm);
	return result;
}
