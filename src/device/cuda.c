/* cuda.c - the CUDA target: arenas are VMM allocations passed as file descriptors, kernels are launched on the user's streams. */
#include "runtime.h"

#include "base/error.h"
#include "mrw_build.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Driver functions, found through the runtime: nothing links libcuda. */
static struct {
	CUresult (*MemCreate)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long);
	CUresult (*MemRelease)(CUmemGenericAllocationHandle);
	CUresult (*MemExportToShareableHandle)(void *, CUmemGenericAllocationHandle, CUmemAllocationHandleType, unsigned long long);
	CUresult (*MemImportFromShareableHandle)(CUmemGenericAllocationHandle *, void *, CUmemAllocationHandleType);
	CUresult (*MemGetAllocationGranularity)(size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags);
	CUresult (*MemAddressReserve)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
	CUresult (*MemAddressFree)(CUdeviceptr, size_t);
	CUresult (*MemMap)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
	CUresult (*MemUnmap)(CUdeviceptr, size_t);
	CUresult (*MemSetAccess)(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
	CUresult (*GetErrorString)(CUresult, const char **);
	bool found;
} driver;
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;

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
		driver_find("cuMemExportToShareableHandle", (void **)&driver.MemExportToShareableHandle) &&
		driver_find("cuMemImportFromShareableHandle", (void **)&driver.MemImportFromShareableHandle) &&
		driver_find("cuMemGetAllocationGranularity", (void **)&driver.MemGetAllocationGranularity) &&
		driver_find("cuMemAddressReserve", (void **)&driver.MemAddressReserve) &&
		driver_find("cuMemAddressFree", (void **)&driver.MemAddressFree) &&
		driver_find("cuMemMap", (void **)&driver.MemMap) &&
		driver_find("cuMemUnmap", (void **)&driver.MemUnmap) &&
		driver_find("cuMemSetAccess", (void **)&driver.MemSetAccess) &&
		driver_find("cuGetErrorString", (void **)&driver.GetErrorString);
}

static enum marrow_status fail_cuda(cudaError_t error, const char *call)
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

#define TRY_CUDA(call) \
	do { \
		cudaError_t cuda_error_ = (call); \
		if (cuda_error_ != cudaSuccess) \
			return fail_cuda(cuda_error_, #call); \
	} while (0)
#define TRY_DRIVER(call) \
	do { \
		CUresult driver_error_ = driver.call; \
		if (driver_error_ != CUDA_SUCCESS) \
			return fail_driver(driver_error_, "cu" #call); \
	} while (0)

/* Makes the communicator's device current; leave() gives the caller's back. */
static int enter(const struct mrw_device *d)
{
	int previous = -1;
	if (cudaGetDevice(&previous) != cudaSuccess)
		return -1;
	if (previous == d->info.ordinal)
		return -1;
	(void)cudaSetDevice(d->info.ordinal);
	return previous;
}

static void leave(int previous)
{
	if (previous >= 0)
		(void)cudaSetDevice(previous);
}

static bool cuda_present(void)
{
	int count = 0;
	if (cudaGetDeviceCount(&count) != cudaSuccess) {
		(void)cudaGetLastError();
		return false;
	}
	return count > 0;
}

static const void *kernel_of(enum mrw_kernel kernel, enum marrow_type type)
{
	if ((uint32_t)kernel >= MRW_TYPED_KERNELS)
		return mrw_cuda_movers.kernel[kernel - MRW_TYPED_KERNELS];
	switch (type) {
#define MRW_CASE(suffix, name) \
	case MARROW_##name: \
		return mrw_cuda_reducers_##suffix.kernel[kernel];
#if MRW_DTYPE_I8
	MRW_CASE(i8, INT8)
#endif
#if MRW_DTYPE_U8
	MRW_CASE(u8, UINT8)
#endif
#if MRW_DTYPE_I32
	MRW_CASE(i32, INT32)
#endif
#if MRW_DTYPE_U32
	MRW_CASE(u32, UINT32)
#endif
#if MRW_DTYPE_I64
	MRW_CASE(i64, INT64)
#endif
#if MRW_DTYPE_U64
	MRW_CASE(u64, UINT64)
#endif
#if MRW_DTYPE_F16
	MRW_CASE(f16, FLOAT16)
#endif
#if MRW_DTYPE_F32
	MRW_CASE(f32, FLOAT32)
#endif
#if MRW_DTYPE_F64
	MRW_CASE(f64, FLOAT64)
#endif
#if MRW_DTYPE_BF16
	MRW_CASE(bf16, BFLOAT16)
#endif
#undef MRW_CASE
	default:
		return NULL;
	}
}

/* Loads every kernel now (a lazy load later would wait for resident kernels) and finds how many blocks fit at once. */
static enum marrow_status kernels_load(struct mrw_device *d, int processors)
{
	static const enum marrow_type types[] = {
#define MRW_X(name, value, bytes) MARROW_##name,
		MARROW_TYPE_LIST(MRW_X)
#undef MRW_X
	};
	int fewest = 0;
	for (uint32_t k = 0; k < MRW_KERNEL_COUNT; k++) {
		uint32_t variants = k < MRW_TYPED_KERNELS ? sizeof types / sizeof types[0] : 1;
		for (uint32_t t = 0; t < variants; t++) {
			const void *kernel = kernel_of((enum mrw_kernel)k, types[t]);
			int blocks;
			if (!kernel)
				continue;
			bool packets = k == MRW_KERNEL_REDUCE_PACKETS || k == MRW_KERNEL_MOVE_PACKETS;
			TRY_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel,
				(int)(packets ? MRW_PACKET_THREADS : MRW_BLOCK_THREADS), 0));
			fewest = fewest == 0 || blocks < fewest ? blocks : fewest;
		}
	}
	d->info.blocks = (uint32_t)(fewest * processors);
	return MARROW_SUCCESS;
}

static int32_t cuda_current(void)
{
	int ordinal;
	if (cudaGetDevice(&ordinal) != cudaSuccess) {
		(void)cudaGetLastError();
		return -1;
	}
	return ordinal;
}

static enum marrow_status open_device(struct mrw_device *d, int32_t ordinal, int32_t local_rank)
{
	struct cudaDeviceProp properties;
	cudaEvent_t event;
	cudaStream_t stream;
	int count;
	memset(d, 0, sizeof *d);
	d->runtime = &mrw_cuda_runtime;
	d->team_size = 1;
	TRY_CUDA(cudaGetDeviceCount(&count));
	if (count == 0)
		return mrw_fail(MARROW_UNSUPPORTED, "no CUDA device; use the host target (MARROW_TARGET=host)");
	if (ordinal < 0)
		ordinal = local_rank >= 0 ? local_rank % count : cuda_current();
	TRY_CUDA(cudaSetDevice(ordinal));
	d->info.ordinal = ordinal;
	TRY_CUDA(cudaGetDeviceProperties(&properties, ordinal));
	memcpy(d->info.uuid, properties.uuid.bytes, sizeof d->info.uuid);
	TRY_CUDA(cudaFree(NULL)); /* the primary context */
	pthread_once(&driver_once, driver_load);
	if (!driver.found)
		return mrw_fail(MARROW_UNSUPPORTED, "the CUDA driver lacks virtual memory management; a driver of CUDA 12 or later is needed");
	MRW_TRY(kernels_load(d, properties.multiProcessorCount));
	TRY_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	d->event = event;
	TRY_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	d->setup_stream = stream;
	return MARROW_SUCCESS;
}

/* The caller's device stays current, unless local_rank chose one: then it is the caller's device from now on. */
static enum marrow_status cuda_open(struct mrw_device *d, int32_t ordinal, int32_t local_rank)
{
	int32_t previous = cuda_current();
	enum marrow_status status = open_device(d, ordinal, local_rank);
	if (ordinal >= 0 && previous >= 0)
		leave(previous);
	return status;
}

static void cuda_close(struct mrw_device *d)
{
	int previous = enter(d);
	if (d->event)
		(void)cudaEventDestroy((cudaEvent_t)d->event);
	if (d->setup_stream)
		(void)cudaStreamDestroy((cudaStream_t)d->setup_stream);
	d->event = d->setup_stream = NULL;
	leave(previous);
}

static enum marrow_status cuda_page_new(struct mrw_device *d, struct mrw_page **page, struct mrw_page **device, int *fd)
{
	size_t bytes = 4096;
	int previous = enter(d);
	enum marrow_status status = MARROW_SUCCESS;
	cudaError_t error;
	*page = NULL;
	*fd = memfd_create("marrow-page", MFD_CLOEXEC);
	if (*fd < 0 || fchmod(*fd, 0600) != 0 || ftruncate(*fd, (off_t)bytes) != 0) {
		status = mrw_fail_errno(MARROW_SYSTEM_ERROR, "cannot create the status page (memfd_create); raise the file limit with ulimit -n");
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
	if (error == cudaSuccess)
		error = cudaHostGetDevicePointer((void **)device, p, 0);
	if (error != cudaSuccess) {
		status = fail_cuda(error, "cudaHostRegister(status page)");
		goto fail;
	}
	leave(previous);
	return MARROW_SUCCESS;
fail:
	if (*page)
		munmap(*page, bytes);
	if (*fd >= 0)
		close(*fd);
	*page = NULL;
	*fd = -1;
	leave(previous);
	return status;
}

static void cuda_page_free(struct mrw_device *d, struct mrw_page *page, int fd)
{
	int previous = enter(d);
	if (page) {
		(void)cudaHostUnregister(page);
		munmap(page, 4096);
	}
	if (fd >= 0)
		close(fd);
	leave(previous);
}

static CUmemAllocationProp allocation(const struct mrw_device *d)
{
	CUmemAllocationProp p;
	memset(&p, 0, sizeof p);
	p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	p.location.id = d->info.ordinal;
	return p;
}

/* Reserves addresses for handle, maps it and opens it to the device. */
static enum marrow_status map_handle(const struct mrw_device *d, CUmemGenericAllocationHandle handle, struct mrw_arena *arena)
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
		return fail_driver(error, "cuMemSetAccess (do the two devices have peer access? see nvidia-smi topo -p2p rw)");
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
	MRW_TRY(map_handle(d, handle, arena));
	TRY_CUDA(cudaMemsetAsync(arena->base, 0, arena->mapped, (cudaStream_t)d->setup_stream));
	TRY_CUDA(cudaStreamSynchronize((cudaStream_t)d->setup_stream));
	return MARROW_SUCCESS;
}

static void cuda_arena_seal(struct mrw_device *d, struct mrw_arena *arena)
{
	(void)d;
	if (arena->mapped && arena->fd >= 0)
		close(arena->fd);
	arena->fd = -1;
	if (arena->handle)
		(void)driver.MemRelease(arena->handle); /* the mapping keeps the memory */
	arena->handle = 0;
}

static void cuda_arena_free(struct mrw_device *d, struct mrw_arena *arena)
{
	int previous = enter(d);
	if (arena->base) {
		(void)driver.MemUnmap((CUdeviceptr)(uintptr_t)arena->base, arena->mapped);
		(void)driver.MemAddressFree((CUdeviceptr)(uintptr_t)arena->base, arena->mapped);
		arena->base = NULL;
	}
	cuda_arena_seal(d, arena);
	leave(previous);
}

static enum marrow_status cuda_arena_new(struct mrw_device *d, uint64_t bytes, struct mrw_arena *arena)
{
	int previous = enter(d);
	memset(arena, 0, sizeof *arena);
	arena->fd = -1;
	arena->bytes = bytes;
	enum marrow_status status = arena_make(d, arena);
	if (status != MARROW_SUCCESS)
		cuda_arena_free(d, arena);
	leave(previous);
	return status;
}

static enum marrow_status arena_import(struct mrw_device *d, int fd, struct mrw_arena *mine)
{
	CUmemGenericAllocationHandle handle;
	TRY_DRIVER(MemImportFromShareableHandle(&handle, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	enum marrow_status status = map_handle(d, handle, mine);
	(void)driver.MemRelease(handle);
	return status;
}

static enum marrow_status cuda_arena_map(struct mrw_device *d, const struct mrw_arena *theirs, bool same_process, struct mrw_arena *mine)
{
	int previous = enter(d);
	enum marrow_status status;
	*mine = *theirs;
	mine->base = NULL;
	mine->handle = 0;
	mine->fd = -1;
	status = same_process ? map_handle(d, theirs->handle, mine) : arena_import(d, theirs->fd, mine);
	if (status != MARROW_SUCCESS)
		mine->mapped = 0;
	leave(previous);
	return status;
}

static const char *cuda_buffer_fault(struct mrw_device *d, const void *buffer)
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

/* Where a stream stands in a capture. */
static enum marrow_status capture_look(void *stream, uint64_t *id, cudaGraphNode_t *last)
{
	enum cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
	const cudaGraphNode_t *nodes = NULL;
	unsigned long long capture = 0;
	size_t count = 0;
#if CUDART_VERSION >= 13000
	TRY_CUDA(cudaStreamGetCaptureInfo((cudaStream_t)stream, &state, &capture, NULL, &nodes, NULL, &count));
#else
	TRY_CUDA(cudaStreamGetCaptureInfo_v2((cudaStream_t)stream, &state, &capture, NULL, &nodes, &count));
#endif
	if (state == cudaStreamCaptureStatusInvalidated)
		return mrw_fail(MARROW_INVALID_USAGE, "the stream's capture has been invalidated by an earlier error");
	*id = state == cudaStreamCaptureStatusActive ? capture : 0;
	if (last)
		*last = count == 1 ? nodes[0] : NULL;
	return MARROW_SUCCESS;
}

static enum marrow_status capture_depend(void *stream, cudaGraphNode_t node)
{
#if CUDART_VERSION >= 13000
	TRY_CUDA(cudaStreamUpdateCaptureDependencies((cudaStream_t)stream, &node, NULL, 1, cudaStreamAddCaptureDependencies));
#else
	TRY_CUDA(cudaStreamUpdateCaptureDependencies((cudaStream_t)stream, &node, 1, cudaStreamAddCaptureDependencies));
#endif
	return MARROW_SUCCESS;
}

/* Call order is execution order: an event wait when the stream changes, an edge inside a capture. */
static enum marrow_status order_before(struct mrw_device *d, void *stream, uint64_t *capture)
{
	MRW_TRY(capture_look(stream, capture, NULL));
	if (*capture != 0) {
		if (*capture == d->capture_id && stream != d->capture_stream && d->capture_node)
			MRW_TRY(capture_depend(stream, (cudaGraphNode_t)d->capture_node));
		return MARROW_SUCCESS;
	}
	if (d->launched && d->last_stream != stream) {
		uint64_t other = 0;
		MRW_TRY(capture_look(d->last_stream, &other, NULL));
		if (other != 0)
			return mrw_fail(MARROW_INVALID_USAGE, "the stream this communicator was last used on is being captured; end the capture before "
					"using another stream");
		TRY_CUDA(cudaEventRecord((cudaEvent_t)d->event, (cudaStream_t)d->last_stream));
		TRY_CUDA(cudaStreamWaitEvent((cudaStream_t)stream, (cudaEvent_t)d->event, 0));
	}
	return MARROW_SUCCESS;
}

/* The next operation comes after this one. */
static enum marrow_status remember(struct mrw_device *d, void *stream, uint64_t capture)
{
	if (capture != 0) {
		cudaGraphNode_t node = NULL;
		MRW_TRY(capture_look(stream, &capture, &node));
		d->capture_id = capture;
		d->capture_node = node;
		d->capture_stream = stream;
	} else {
		d->launched = true;
		d->last_stream = stream;
	}
	return MARROW_SUCCESS;
}

static enum marrow_status launch(struct mrw_device *d, const void *function, const struct mrw_args *args, uint32_t threads, void *stream)
{
	dim3 grid = {args->call.channels, 1, 1}, block = {threads, 1, 1};
	void *parameters[] = {(void *)(uintptr_t)args};
	uint64_t capture = 0;
	MRW_TRY(order_before(d, stream, &capture));
	TRY_CUDA(cudaLaunchKernel(function, grid, block, parameters, 0, (cudaStream_t)stream));
	return remember(d, stream, capture);
}

static enum marrow_status cuda_launch(struct mrw_device *d, enum mrw_kernel kernel, enum marrow_type type, const struct mrw_args *args,
				      uint32_t threads, void *stream)
{
	const void *function = kernel_of(kernel, type);
	if (!function)
		return mrw_fail(MARROW_UNSUPPORTED, "this build has no CUDA kernels for type %d; rebuild with -Ddtypes including it", (int)type);
	int previous = enter(d);
	enum marrow_status status = launch(d, function, args, threads, stream);
	leave(previous);
	return status;
}

static enum marrow_status join(struct mrw_device *d, void *first, void *const *others, uint32_t count, bool fan_out)
{
	for (uint32_t i = 0; i < count; i++) {
		void *from = fan_out ? first : others[i], *to = fan_out ? others[i] : first;
		TRY_CUDA(cudaEventRecord((cudaEvent_t)d->event, (cudaStream_t)from));
		TRY_CUDA(cudaStreamWaitEvent((cudaStream_t)to, (cudaEvent_t)d->event, 0));
	}
	return MARROW_SUCCESS;
}

static enum marrow_status cuda_join(struct mrw_device *d, void *first, void *const *others, uint32_t count, bool fan_out)
{
	int previous = enter(d);
	enum marrow_status status = join(d, first, others, count, fan_out);
	leave(previous);
	return status;
}

static enum marrow_status finish(struct mrw_device *d, bool (*poll)(void *arg), void *arg)
{
	const struct timespec nap = {0, 50000};
	TRY_CUDA(cudaEventRecord((cudaEvent_t)d->event, (cudaStream_t)d->last_stream));
	for (uint32_t naps = 0;; naps++) {
		cudaError_t error = cudaEventQuery((cudaEvent_t)d->event);
		if (error == cudaSuccess)
			return MARROW_SUCCESS;
		if (error != cudaErrorNotReady)
			return fail_cuda(error, "waiting for the communicator's last operation");
		if (naps % 20 == 19 && !poll(arg))
			return MARROW_TIMEOUT;
		nanosleep(&nap, NULL);
	}
}

static enum marrow_status cuda_finish(struct mrw_device *d, bool (*poll)(void *arg), void *arg)
{
	if (!d->launched)
		return MARROW_SUCCESS;
	int previous = enter(d);
	enum marrow_status status = finish(d, poll, arg);
	leave(previous);
	return status;
}

static enum marrow_status copy(struct mrw_device *d, void *dst, const void *src, uint64_t bytes, void *stream)
{
	uint64_t capture = 0;
	MRW_TRY(order_before(d, stream, &capture));
	TRY_CUDA(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, (cudaStream_t)stream));
	return remember(d, stream, capture);
}

static enum marrow_status cuda_copy(struct mrw_device *d, void *dst, const void *src, uint64_t bytes, void *stream)
{
	int previous = enter(d);
	enum marrow_status status = copy(d, dst, src, bytes, stream);
	leave(previous);
	return status;
}

static enum marrow_status cuda_poke(struct mrw_device *d, void *dst, const void *src, uint64_t bytes)
{
	int previous = enter(d);
	cudaError_t error = cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, (cudaStream_t)d->setup_stream);
	if (error == cudaSuccess)
		error = cudaStreamSynchronize((cudaStream_t)d->setup_stream);
	leave(previous);
	return error == cudaSuccess ? MARROW_SUCCESS : fail_cuda(error, "cudaMemcpyAsync of set-up data");
}

const struct mrw_runtime mrw_cuda_runtime = {
	.name = "cuda",
	.target = MARROW_TARGET_CUDA,
	.present = cuda_present,
	.current = cuda_current,
	.open = cuda_open,
	.close = cuda_close,
	.page_new = cuda_page_new,
	.page_free = cuda_page_free,
	.arena_new = cuda_arena_new,
	.arena_map = cuda_arena_map,
	.arena_seal = cuda_arena_seal,
	.arena_free = cuda_arena_free,
	.buffer_fault = cuda_buffer_fault,
	.launch = cuda_launch,
	.join = cuda_join,
	.finish = cuda_finish,
	.copy = cuda_copy,
	.poke = cuda_poke,
};
