/* cuda_support.h - what the files of the CUDA target share: cuda.c (devices, launches, streams), cuda_memory.c, cuda_pages.c. */
#ifndef MRW_CUDA_SUPPORT_H
#define MRW_CUDA_SUPPORT_H

#include "runtime.h"

#include "base/error.h"

#include <cuda_runtime_api.h>

/* Failure of a CUDA call; clears the runtime's last error, which is not the user's. */
enum marrow_status mrw_fail_cuda(cudaError_t error, const char *call);

#define TRY_CUDA(call) \
	do { \
		cudaError_t cuda_error_ = (call); \
		if (cuda_error_ != cudaSuccess) \
			return mrw_fail_cuda(cuda_error_, #call); \
	} while (0)

/* Makes the communicator's device current; mrw_cuda_switch_back() of the result gives the caller's back. */
int mrw_cuda_switch(const struct mrw_device *d);
void mrw_cuda_switch_back(int previous);

/* The same for calls that are no launches. A global capture of any thread of the process would be broken by many of them, and they would
 * fail: they touch no stream that the user captures, so this thread is exempt meanwhile. */
struct mrw_caller {
	int device;
	enum cudaStreamCaptureMode mode;
};
struct mrw_caller mrw_cuda_enter(const struct mrw_device *d);
void mrw_cuda_leave(struct mrw_caller caller);

/* Finds the driver's functions once a process: false if the driver has no virtual memory management. */
bool mrw_cuda_driver(void);

/* The memory half of struct mrw_runtime. */
enum marrow_status mrw_cuda_page_new(struct mrw_device *d, struct mrw_page **page, struct mrw_page **device, int *fd);
void mrw_cuda_page_free(struct mrw_device *d, struct mrw_page *page, int fd);
enum marrow_status mrw_cuda_arena_new(struct mrw_device *d, uint64_t bytes, struct mrw_arena *arena);
enum marrow_status mrw_cuda_arena_map(struct mrw_device *d, const struct mrw_arena *theirs, bool same_process, struct mrw_arena *mine);
void mrw_cuda_arena_seal(struct mrw_device *d, struct mrw_arena *arena);
void mrw_cuda_arena_free(struct mrw_device *d, struct mrw_arena *arena);
enum marrow_status mrw_cuda_arena_dmabuf(struct mrw_device *d, const struct mrw_arena *arena, int *fd);
enum marrow_status mrw_cuda_buffer_new(uint64_t bytes, struct mrw_arena *buffer, int32_t *device);
void mrw_cuda_buffer_free(struct mrw_arena *buffer, int32_t device);
enum marrow_status mrw_cuda_buffer_offer(struct mrw_device *d, const struct mrw_arena *buffer, struct mrw_arena *offer);
const char *mrw_cuda_buffer_fault(struct mrw_device *d, const void *buffer);
enum marrow_status mrw_cuda_poke(struct mrw_device *d, void *dst, const void *src, uint64_t bytes);

/* cuda_pages.c: the host's pages and a NIC's registers as kernels reach them. */
enum marrow_status mrw_cuda_pages_map(struct mrw_device *d, void *pages, uint64_t bytes, bool registers, void **device);
void mrw_cuda_pages_unmap(struct mrw_device *d, void *pages);

#endif
