/* cuda_memory.c - memory of the CUDA target: arenas are VMM allocations that travel as file descriptors, the page is a registered memfd. */
#include "cuda_support.h"

#include "base/file.h"

#include <cuda.h>
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Driver functions, found through the runtime: nothing links libcuda. */
static struct {
	CUresult (*MemCreate)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long);
	CUresult (*MemRelease)(CUmemGenericAllocationHandle);
	CUresult (*MemRetainAllocationHandle)(CUmemGenericAllocationHandle *, void *);
	CUresult (*MemExportToShareableHandle)(void *, CUmemGenericAllocationHandle, CUmemAllocationHandleType, unsigned long long);
	CUresult (*MemImportFromShareableHandle)(CUmemGenericAllocationHandle *, void *, CUmemAllocationHandleType);
	CUresult (*MemGetAllocationGranularity)(size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags);
	CUresult (*MemAddressReserve)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
	CUresult (*MemAddressFree)(CUdeviceptr, size_t);
	CUresult (*MemMap)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
	CUresult (*MemUnmap)(CUdeviceptr, size_t);
	CUresult (*MemSetAccess)(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
	CUresult (*GetErrorString)(CUresult, const char **);
	CUresult (*DeviceGetAttribute)(int *, CUdevice_attribute, CUdevice);
	/* Since 11.7; NULL before. */
	CUresult (*MemGetHandleForAddressRange)(void *, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long);
	bool found;
} driver;
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;

/* One thread at a time maps, unmaps and releases: driver 580 frees its bookkeeping twice when threads of a process unmap mappings of one
 * allocation at once. */
static pthread_mutex_t mapping_lock = PTHREAD_MUTEX_INITIALIZER;

static bool driver_find(const char *symbol, void **function)
{
	enum cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
	cudaError_t error = cudaGetDriverEntryPointByVersion(symbol, function, 12000, cudaEnableDefault, &result);
#else
	cudaError_t error = cudaGetDriverEntryPoint(symbol, function, cudaEnableDefault, &result);
#endif
	return error == cudaSuccess && result == cudaDriverEntryPointSuccess;
}

static void driver_load(void)
{
	driver.found = driver_find("cuMemCreate", (void **)&driver.MemCreate) &&
		driver_find("cuMemRelease", (void **)&driver.MemRelease) &&
		driver_find("cuMemRetainAllocationHandle", (void **)&driver.MemRetainAllocationHandle) &&
		driver_find("cuMemExportToShareableHandle", (void **)&driver.MemExportToShareableHandle) &&
		driver_find("cuMemImportFromShareableHandle", (void **)&driver.MemImportFromShareableHandle) &&
		driver_find("cuMemGetAllocationGranularity", (void **)&driver.MemGetAllocationGranularity) &&
		driver_find("cuMemAddressReserve", (void **)&driver.MemAddressReserve) &&
		driver_find("cuMemAddressFree", (void **)&driver.MemAddressFree) &&
		driver_find("cuMemMap", (void **)&driver.MemMap) &&
		driver_find("cuMemUnmap", (void **)&driver.MemUnmap) &&
		driver_find("cuMemSetAccess", (void **)&driver.MemSetAccess) &&
		driver_find("cuGetErrorString", (void **)&driver.GetErrorString) &&
		driver_find("cuDeviceGetAttribute", (void **)&driver.DeviceGetAttribute);
	if (!driver_find("cuMemGetHandleForAddressRange", (void **)&driver.MemGetHandleForAddressRange))
		driver.MemGetHandleForAddressRange = NULL;
}

enum marrow_status mrw_fail_cuda(cudaError_t error, const char *call)
{
	(void)cudaGetLastError(); /* not the user's error */
	return mrw_fail(error == cudaErrorMemoryAllocation ? MARROW_OUT_OF_MEMORY : MARROW_CUDA_ERROR, "%s: %s", call, cudaGetErrorString(error));
}

static enum marrow_status fail_driver(CUresult error, const char *call)
{
	const char *text = "unknown error";
	if (driver.GetErrorString)
		(void)driver.GetErrorString(error, &text);
	return mrw_fail(error == CUDA_ERROR_OUT_OF_MEMORY ? MARROW_OUT_OF_MEMORY : MARROW_CUDA_ERROR, "%s: %s", call, text);
}

#define TRY_DRIVER(call) \
	do { \
		CUresult driver_error_ = driver.call; \
		if (driver_error_ != CUDA_SUCCESS) \
			return fail_driver(driver_error_, "cu" #call); \
	} while (0)

/* Makes the communicator's device current; leave() gives the caller's back. */
int mrw_cuda_switch(const struct mrw_device *d)
{
	int previous = -1;
	if (cudaGetDevice(&previous) != cudaSuccess)
		return -1;
	if (previous == d->info.ordinal)
		return -1;
	(void)cudaSetDevice(d->info.ordinal);
	return previous;
}

void mrw_cuda_switch_back(int previous)
{
	if (previous >= 0)
		(void)cudaSetDevice(previous);
}

struct mrw_caller mrw_cuda_enter(const struct mrw_device *d)
{
	struct mrw_caller caller = {mrw_cuda_switch(d), cudaStreamCaptureModeRelaxed};
	(void)cudaThreadExchangeStreamCaptureMode(&caller.mode);
	return caller;
}

void mrw_cuda_leave(struct mrw_caller caller)
{
	(void)cudaThreadExchangeStreamCaptureMode(&caller.mode);
	mrw_cuda_switch_back(caller.device);
}

bool mrw_cuda_driver(void)
{
	pthread_once(&driver_once, driver_load);
	return driver.found;
}

enum marrow_status mrw_cuda_page_new(struct mrw_device *d, struct mrw_page **page, struct mrw_page **device, int *fd)
{
	size_t bytes = 4096;
	struct mrw_caller caller = mrw_cuda_enter(d);
	enum marrow_status status = MARROW_SUCCESS;
	cudaError_t error;
	*page = NULL;
	*fd = mrw_file_above_stdio(memfd_create("marrow-page", MFD_CLOEXEC));
	if (*fd < 0 || fchmod(*fd, 0600) != 0 || (errno = mrw_file_reserve(*fd, bytes)) != 0) {
		status = mrw_fail_errno(MARROW_SYSTEM_ERROR, "cannot create the status page (memfd_create); raise the file limits with ulimit -n and -f");
		goto fail;
	}
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (p == MAP_FAILED) {
		status = mrw_fail_errno(MARROW_OUT_OF_MEMORY, "cannot map the status page");
		goto fail;
	}
	*page = p;
	memset(p, 0, bytes);
	error = cudaHostRegister(p, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable);
	if (error == cudaSuccess && (error = cudaHostGetDevicePointer((void **)device, p, 0)) != cudaSuccess)
		(void)cudaHostUnregister(p);
	if (error != cudaSuccess) {
		status = mrw_fail_cuda(error, "cudaHostRegister(status page)");
		goto fail;
	}
	mrw_cuda_leave(caller);
	return MARROW_SUCCESS;
fail:
	if (*page)
		munmap(*page, bytes);
	if (*fd >= 0)
		close(*fd);
	*page = NULL;
	*fd = -1;
	mrw_cuda_leave(caller);
	return status;
}

void mrw_cuda_page_free(struct mrw_device *d, struct mrw_page *page, int fd)
{
	struct mrw_caller caller = mrw_cuda_enter(d);
	if (page) {
		(void)cudaHostUnregister(page);
		munmap(page, 4096);
	}
	if (fd >= 0)
		close(fd);
	mrw_cuda_leave(caller);
}

static bool device_can(const struct mrw_device *d, CUdevice_attribute attribute)
{
	int value = 0;
	return driver.DeviceGetAttribute(&value, attribute, d->info.ordinal) == CUDA_SUCCESS && value != 0;
}

static CUmemAllocationProp allocation(const struct mrw_device *d)
{
	CUmemAllocationProp p;
	memset(&p, 0, sizeof p);
	p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	p.location.id = d->info.ordinal;
	p.allocFlags.gpuDirectRDMACapable = d->spans && device_can(d, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
	return p;
}

/* Reserves addresses for handle, maps it and opens it to the device. peers: it is a peer's, whose GPU may be out of reach. */
static enum marrow_status map_handle(const struct mrw_device *d, CUmemGenericAllocationHandle handle, bool peers, struct mrw_arena *arena)
{
	CUdeviceptr at = 0;
	CUmemAccessDesc access;
	memset(&access, 0, sizeof access);
	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.location.id = d->info.ordinal;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	TRY_DRIVER(MemAddressReserve(&at, arena->mapped, 0, 0, 0));
	CUresult error = driver.MemMap(at, arena->mapped, 0, handle, 0);
	if (error != CUDA_SUCCESS) {
		(void)driver.MemAddressFree(at, arena->mapped);
		return fail_driver(error, "cuMemMap");
	}
	error = driver.MemSetAccess(at, arena->mapped, &access, 1);
	if (error != CUDA_SUCCESS) {
		(void)driver.MemUnmap(at, arena->mapped);
		(void)driver.MemAddressFree(at, arena->mapped);
		return fail_driver(error, !peers || error == CUDA_ERROR_OUT_OF_MEMORY ? "cuMemSetAccess" :
			"cuMemSetAccess (have the two GPUs peer access? nvidia-smi topo -p2p w shows which have; choose such with CUDA_VISIBLE_DEVICES)");
	}
	arena->base = (uint8_t *)(uintptr_t)at;
	return MARROW_SUCCESS;
}

static enum marrow_status arena_make(struct mrw_device *d, struct mrw_arena *arena)
{
	CUmemAllocationProp p = allocation(d);
	CUmemGenericAllocationHandle handle;
	size_t grain;
	TRY_DRIVER(MemGetAllocationGranularity(&grain, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	arena->mapped = (arena->bytes + grain - 1) / grain * grain;
	TRY_DRIVER(MemCreate(&handle, arena->mapped, &p, 0));
	arena->handle = handle;
	TRY_DRIVER(MemExportToShareableHandle(&arena->fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	return map_handle(d, handle, false, arena);
}

static enum marrow_status arena_clear(struct mrw_device *d, struct mrw_arena *arena)
{
	TRY_CUDA(cudaMemsetAsync(arena->base, 0, arena->mapped, (cudaStream_t)d->setup_stream));
	TRY_CUDA(cudaStreamSynchronize((cudaStream_t)d->setup_stream));
	return MARROW_SUCCESS;
}

static void arena_seal(struct mrw_arena *arena)
{
	if (arena->mapped && arena->fd >= 0)
		close(arena->fd);
	arena->fd = -1;
	if (arena->handle)
		(void)driver.MemRelease(arena->handle); /* the mapping keeps the memory */
	arena->handle = 0;
}

void mrw_cuda_arena_seal(struct mrw_device *d, struct mrw_arena *arena)
{
	(void)d;
	pthread_mutex_lock(&mapping_lock);
	arena_seal(arena);
	pthread_mutex_unlock(&mapping_lock);
}

static void arena_free(struct mrw_arena *arena)
{
	if (arena->base) {
		(void)driver.MemUnmap((CUdeviceptr)(uintptr_t)arena->base, arena->mapped);
		(void)driver.MemAddressFree((CUdeviceptr)(uintptr_t)arena->base, arena->mapped);
		arena->base = NULL;
	}
	arena_seal(arena);
}

void mrw_cuda_arena_free(struct mrw_device *d, struct mrw_arena *arena)
{
	struct mrw_caller caller = mrw_cuda_enter(d);
	pthread_mutex_lock(&mapping_lock);
	arena_free(arena);
	pthread_mutex_unlock(&mapping_lock);
	mrw_cuda_leave(caller);
}

enum marrow_status mrw_cuda_arena_new(struct mrw_device *d, uint64_t bytes, struct mrw_arena *arena)
{
	struct mrw_caller caller = mrw_cuda_enter(d);
	memset(arena, 0, sizeof *arena);
	arena->fd = -1;
	arena->bytes = bytes;
	pthread_mutex_lock(&mapping_lock);
	enum marrow_status status = arena_make(d, arena);
	pthread_mutex_unlock(&mapping_lock);
	if (status == MARROW_SUCCESS)
		status = arena_clear(d, arena);
	if (status != MARROW_SUCCESS)
		mrw_cuda_arena_free(d, arena);
	mrw_cuda_leave(caller);
	return status;
}

static enum marrow_status arena_import(struct mrw_device *d, int fd, struct mrw_arena *mine)
{
	CUmemGenericAllocationHandle handle;
	TRY_DRIVER(MemImportFromShareableHandle(&handle, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	enum marrow_status status = map_handle(d, handle, true, mine);
	(void)driver.MemRelease(handle);
	return status;
}

enum marrow_status mrw_cuda_arena_map(struct mrw_device *d, const struct mrw_arena *theirs, bool same_process, struct mrw_arena *mine)
{
	struct mrw_caller caller = mrw_cuda_enter(d);
	enum marrow_status status;
	*mine = *theirs;
	mine->base = NULL;
	mine->handle = 0;
	mine->fd = -1;
	pthread_mutex_lock(&mapping_lock);
	status = same_process ? map_handle(d, theirs->handle, true, mine) : arena_import(d, theirs->fd, mine);
	pthread_mutex_unlock(&mapping_lock);
	if (status != MARROW_SUCCESS)
		mine->mapped = 0;
	mrw_cuda_leave(caller);
	return status;
}

static enum marrow_status arena_dmabuf(const struct mrw_device *d, const struct mrw_arena *arena, int *fd)
{
	CUdeviceptr at = (CUdeviceptr)(uintptr_t)arena->base;
	if (!driver.MemGetHandleForAddressRange)
		return mrw_fail(MARROW_UNSUPPORTED, "the CUDA driver has no cuMemGetHandleForAddressRange: one of CUDA 11.7 or later is needed");
	if (!device_can(d, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED))
		return mrw_fail(MARROW_UNSUPPORTED, "device %d has no dma-bufs: they need the open kernel module of the GPU's driver (modinfo -F license "
				"nvidia says \"Dual MIT/GPL\") and Linux 5.12", d->info.ordinal);
	TRY_DRIVER(MemGetHandleForAddressRange(fd, at, arena->mapped, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	return MARROW_SUCCESS;
}

enum marrow_status mrw_cuda_arena_dmabuf(struct mrw_device *d, const struct mrw_arena *arena, int *fd)
{
	struct mrw_caller caller = mrw_cuda_enter(d);
	*fd = -1;
	enum marrow_status status = arena_dmabuf(d, arena, fd);
	mrw_cuda_leave(caller);
	return status;
}

/* The process's other GPUs reach a buffer where they can, as NCCL's users expect of such memory: copies that are issued while another device is
 * current fail without. One that is not given access is as if it had none. */
static void buffer_share(const struct mrw_device *d, const struct mrw_arena *buffer)
{
	CUmemAccessDesc access;
	int devices = 0, can = 0;
	memset(&access, 0, sizeof access);
	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	(void)cudaGetDeviceCount(&devices);
	for (int other = 0; other < devices; other++) {
		access.location.id = other;
		if (other != d->info.ordinal && cudaDeviceCanAccessPeer(&can, other, d->info.ordinal) == cudaSuccess && can)
			(void)driver.MemSetAccess((CUdeviceptr)(uintptr_t)buffer->base, buffer->mapped, &access, 1);
	}
	(void)cudaGetLastError();
}

/* Like an arena, but not cleared, and nobody has to be told of it yet: its handle can be had back from its address. */
enum marrow_status mrw_cuda_buffer_new(uint64_t bytes, struct mrw_arena *buffer, int32_t *device)
{
	struct mrw_device d;
	int ordinal;
	memset(&d, 0, sizeof d);
	TRY_CUDA(cudaGetDevice(&ordinal));
	TRY_CUDA(cudaFree(NULL)); /* its context is there */
	if (!mrw_cuda_driver())
		return mrw_fail(MARROW_UNSUPPORTED, "the driver has no virtual memory management: install a newer one, or use cudaMalloc");
	d.info.ordinal = *device = ordinal;
	memset(buffer, 0, sizeof *buffer);
	buffer->fd = -1;
	buffer->bytes = bytes;
	pthread_mutex_lock(&mapping_lock);
	enum marrow_status status = arena_make(&d, buffer);
	if (status == MARROW_SUCCESS) {
		buffer_share(&d, buffer);
		arena_seal(buffer);
	} else {
		arena_free(buffer);
	}
	pthread_mutex_unlock(&mapping_lock);
	return status;
}

void mrw_cuda_buffer_free(struct mrw_arena *buffer, int32_t device)
{
	struct mrw_device d;
	memset(&d, 0, sizeof d);
	d.info.ordinal = device;
	mrw_cuda_arena_free(&d, buffer);
}

static enum marrow_status buffer_offer(const struct mrw_arena *buffer, struct mrw_arena *offer)
{
	CUmemGenericAllocationHandle handle;
	*offer = *buffer;
	TRY_DRIVER(MemRetainAllocationHandle(&handle, buffer->base));
	offer->handle = handle;
	TRY_DRIVER(MemExportToShareableHandle(&offer->fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	return MARROW_SUCCESS;
}

enum marrow_status mrw_cuda_buffer_offer(struct mrw_device *d, const struct mrw_arena *buffer, struct mrw_arena *offer)
{
	struct mrw_caller caller = mrw_cuda_enter(d);
	pthread_mutex_lock(&mapping_lock);
	enum marrow_status status = buffer_offer(buffer, offer);
	if (status != MARROW_SUCCESS)
		arena_seal(offer);
	pthread_mutex_unlock(&mapping_lock);
	mrw_cuda_leave(caller);
	return status;
}

const char *mrw_cuda_buffer_fault(struct mrw_device *d, const void *buffer)
{
	uint64_t *slot = &d->checked[((uintptr_t)buffer >> 9 ^ (uintptr_t)buffer >> 21) % (sizeof d->checked / sizeof d->checked[0])];
	struct cudaPointerAttributes attributes;
	if (*slot == (uint64_t)(uintptr_t)buffer)
		return NULL;
	if (cudaPointerGetAttributes(&attributes, buffer) != cudaSuccess) {
		(void)cudaGetLastError();
		return "is not known to CUDA";
	}
	if (attributes.type == cudaMemoryTypeUnregistered)
		return "is ordinary host memory: allocate it with cudaMalloc or cudaHostAlloc";
	if (attributes.type == cudaMemoryTypeDevice && attributes.device != d->info.ordinal)
		return "is on another device than the communicator's";
	*slot = (uint64_t)(uintptr_t)buffer;
	return NULL;
}

enum marrow_status mrw_cuda_poke(struct mrw_device *d, void *dst, const void *src, uint64_t bytes)
{
	struct mrw_caller caller = mrw_cuda_enter(d);
	cudaError_t error = cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, (cudaStream_t)d->setup_stream);
	if (error == cudaSuccess)
		error = cudaStreamSynchronize((cudaStream_t)d->setup_stream);
	mrw_cuda_leave(caller);
	return error == cudaSuccess ? MARROW_SUCCESS : mrw_fail_cuda(error, "cudaMemcpyAsync of set-up data");
}

