/* cuda.c - the CUDA target: devices, and kernels on the user's streams in call order. */
#include "cuda_support.h"

#include "base/log.h"

#include "mrw_build.h"

#include <limits.h>
#include <stdio.h>
#include <time.h>

static bool cuda_present(void)
{
	int count = 0;
	if (cudaGetDeviceCount(&count) != cudaSuccess) {
		(void)cudaGetLastError();
		return false;
	}
	return count > 0;
}

/* far: as communicators that span hosts need it. */
static const void *kernel_of(bool far, enum mrw_kernel kernel, enum marrow_type type)
{
	if (kernel == MRW_KERNEL_TRANSFERS)
		return far ? mrw_cuda_far_transfers : mrw_cuda_transfers;
	if (kernel == MRW_KERNEL_MOVE_BULK_DIRECT)
		return far ? NULL : mrw_cuda_direct_mover;
	if ((uint32_t)kernel >= MRW_TYPED_KERNELS)
		return (far ? &mrw_cuda_far_movers : &mrw_cuda_movers)->kernel[kernel - MRW_TYPED_KERNELS];
	switch (type) {
#define MRW_CASE(suffix, name) \
	case MARROW_##name: \
		if (kernel == MRW_KERNEL_REDUCE_BULK_DIRECT) \
			return far ? NULL : mrw_cuda_direct_reducer_##suffix; \
		return (far ? &mrw_cuda_far_reducers_##suffix : &mrw_cuda_reducers_##suffix)->kernel[kernel];
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
#if MRW_DTYPE_F8E4M3
	MRW_CASE(f8e4m3, FLOAT8E4M3)
#endif
#if MRW_DTYPE_F8E5M2
	MRW_CASE(f8e5m2, FLOAT8E5M2)
#endif
#undef MRW_CASE
	default:
		return NULL;
	}
}

/* Loads every kernel of a half now (a lazy load later would wait for resident kernels) and finds how many blocks fit at once. */
static enum marrow_status kernels_load(struct mrw_device *d, bool far)
{
	static const enum marrow_type types[] = {
#define MRW_X(name, value, bytes) MARROW_##name,
		MARROW_TYPE_LIST(MRW_X)
#undef MRW_X
	};
	int fewest = 0, oldest = INT_MAX, major, processors, driver;
	size_t stack = 0, reserved = far ? MRW_FAR_STACK_BYTES : MRW_STACK_BYTES;
	TRY_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, d->info.ordinal));
	TRY_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, d->info.ordinal));
	TRY_CUDA(cudaDriverGetVersion(&driver));
	for (uint32_t k = 0; k < MRW_KERNEL_COUNT; k++) {
		uint32_t variants = k < MRW_TYPED_KERNELS ? sizeof types / sizeof types[0] : 1;
		for (uint32_t t = 0; t < variants; t++) {
			const void *kernel = kernel_of(far, (enum mrw_kernel)k, types[t]);
			struct cudaFuncAttributes attributes;
			int blocks;
			if (!kernel)
				continue;
			TRY_CUDA(cudaFuncGetAttributes(&attributes, kernel));
			stack = attributes.localSizeBytes > stack ? attributes.localSizeBytes : stack;
			oldest = attributes.ptxVersion < oldest ? attributes.ptxVersion : oldest;
			bool packets = k == MRW_KERNEL_REDUCE_PACKETS || k == MRW_KERNEL_REDUCE_QUICK || k == MRW_KERNEL_REDUCE_PAIR || k == MRW_KERNEL_MOVE_PACKETS ||
				       k == MRW_KERNEL_REDUCE_RAILSHOT || k == MRW_KERNEL_MOVE_RAILSHOT || k == MRW_KERNEL_REDUCE_TREESHOT ||
				       k == MRW_KERNEL_MOVE_TREESHOT || k == MRW_KERNEL_TRANSFERS;
			TRY_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel,
				(int)(packets ? MRW_PACKET_THREADS : MRW_BLOCK_THREADS), 0));
			fewest = fewest == 0 || blocks < fewest ? blocks : fewest;
		}
	}
	d->info.blocks = (uint32_t)(fewest * processors);
	d->early_launch = major >= 9 && oldest >= 90 && driver >= 12030;
	if (stack > reserved)
		mrw_log(MRW_LOG_WARN, "this build's kernels need %zu bytes of stack, more than the %zu reserved at init: ranks that share a device "
			"may wait for each other; raise %s", stack, reserved, far ? "MRW_FAR_STACK_BYTES" : "MRW_STACK_BYTES");
	return MARROW_SUCCESS;
}

/* Local memory for our kernels, now: see MRW_STACK_BYTES. */
static enum marrow_status stack_reserve(struct mrw_device *d, bool far)
{
	uint32_t *out = NULL, index = 0;
	void *parameters[] = {&out, &index};
	dim3 grid = {1, 1, 1}, block = {32, 1, 1};
	TRY_CUDA(cudaLaunchKernel(far ? mrw_cuda_far_reserve : mrw_cuda_reserve, grid, block, parameters, 0, (cudaStream_t)d->setup_stream));
	TRY_CUDA(cudaStreamSynchronize((cudaStream_t)d->setup_stream));
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
	cudaEvent_t event, joint;
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
	if (cudaDeviceGetPCIBusId(d->info.bus, sizeof d->info.bus, ordinal) != cudaSuccess) {
		(void)cudaGetLastError();
		d->info.bus[0] = 0;
	}
	snprintf(d->name, sizeof d->name, "%.64s, %d SMs", properties.name, properties.multiProcessorCount);
	TRY_CUDA(cudaFree(NULL)); /* the primary context */
	if (!mrw_cuda_driver())
		return mrw_fail(MARROW_UNSUPPORTED, "the CUDA driver lacks virtual memory management; a driver of CUDA 12 or later is needed");
	MRW_TRY(kernels_load(d, false));
	TRY_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	d->event = event;
	TRY_CUDA(cudaEventCreateWithFlags(&joint, cudaEventDisableTiming));
	d->joint = joint;
	TRY_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	d->setup_stream = stream;
	return stack_reserve(d, false);
}

/* The caller's device stays current, unless local_rank chose one: then it is the caller's device from now on. */
static enum marrow_status cuda_open(struct mrw_device *d, int32_t ordinal, int32_t local_rank)
{
	struct mrw_caller caller = {cuda_current(), cudaStreamCaptureModeRelaxed};
	(void)cudaThreadExchangeStreamCaptureMode(&caller.mode);
	enum marrow_status status = open_device(d, ordinal, local_rank);
	if (ordinal < 0)
		caller.device = -1;
	mrw_cuda_leave(caller);
	return status;
}

static void cuda_close(struct mrw_device *d)
{
	struct mrw_caller caller = mrw_cuda_enter(d);
	if (d->event)
		(void)cudaEventDestroy((cudaEvent_t)d->event);
	if (d->joint)
		(void)cudaEventDestroy((cudaEvent_t)d->joint);
	if (d->setup_stream)
		(void)cudaStreamDestroy((cudaStream_t)d->setup_stream);
	d->event = d->joint = d->setup_stream = NULL;
	mrw_cuda_leave(caller);
}

/* What a NIC writes into this GPU's memory must become visible in its order: data, then flag. */
static void warn_of_order(const struct mrw_device *d)
{
	int ordering = 0;
	if (cudaDeviceGetAttribute(&ordering, cudaDevAttrGPUDirectRDMAWritesOrdering, d->info.ordinal) != cudaSuccess) {
		(void)cudaGetLastError();
		ordering = 0;
	}
	if (ordering < cudaGPUDirectRDMAWritesOrderingOwner)
		mrw_log(MRW_LOG_WARN, "device %d does not say that it orders a NIC's writes (attribute GPUDirectRDMAWritesOrdering is %d, %d is needed): "
			"with a real NIC a flag might be seen before its data", d->info.ordinal, ordering, cudaGPUDirectRDMAWritesOrderingOwner);
}

static enum marrow_status span(struct mrw_device *d)
{
	MRW_TRY(kernels_load(d, true));
	MRW_TRY(stack_reserve(d, true));
	warn_of_order(d);
	d->spans = true;
	return MARROW_SUCCESS;
}

static enum marrow_status cuda_span(struct mrw_device *d)
{
	struct mrw_caller caller = mrw_cuda_enter(d);
	enum marrow_status status = span(d);
	mrw_cuda_leave(caller);
	return status;
}

/* Where a stream stands in a capture. */
static enum marrow_status capture_look(void *stream, uint64_t *id, cudaGraphNode_t *last)
{
	enum cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
	const cudaGraphNode_t *nodes = NULL;
	unsigned long long capture = 0;
	size_t count = 0;
#if CUDART_VERSION >= 13000
	TRY_CUDA(cudaStreamGetCaptureInfo((cudaStream_t)stream, &state, &capture, NULL, last ? &nodes : NULL, NULL, last ? &count : NULL));
#else
	TRY_CUDA(cudaStreamGetCaptureInfo_v2((cudaStream_t)stream, &state, &capture, NULL, last ? &nodes : NULL, last ? &count : NULL));
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

/* Where a call goes: into a capture, or to the stream, by the number that no other stream ever has (a handle may be used again). */
struct place {
	uint64_t capture; /* 0: none */
	unsigned long long stream;
};

/* Call order is execution order: an event wait when the stream changes, an edge inside a capture. */
static enum marrow_status order_before(struct mrw_device *d, void *stream, struct place *at)
{
	MRW_TRY(capture_look(stream, &at->capture, NULL));
	if (at->capture != 0) {
		if (at->capture == d->capture_id && stream != d->capture_stream && d->capture_node)
			MRW_TRY(capture_depend(stream, (cudaGraphNode_t)d->capture_node));
		return MARROW_SUCCESS;
	}
	TRY_CUDA(cudaStreamGetId((cudaStream_t)stream, &at->stream));
	if (d->launched && d->last_stream != at->stream)
		TRY_CUDA(cudaStreamWaitEvent((cudaStream_t)stream, (cudaEvent_t)d->event, 0));
	return MARROW_SUCCESS;
}

/* The next operation comes after this one. The event is recorded now, for the stream may be gone when somebody asks. */
static enum marrow_status remember(struct mrw_device *d, void *stream, struct place at)
{
	if (at.capture != 0) {
		cudaGraphNode_t node = NULL;
		MRW_TRY(capture_look(stream, &at.capture, &node));
		d->capture_id = at.capture;
		d->capture_node = node;
		d->capture_stream = stream;
	} else {
		cudaError_t error = cudaEventRecord((cudaEvent_t)d->event, (cudaStream_t)stream);
		if (error != cudaSuccess) {
			(void)cudaStreamSynchronize((cudaStream_t)stream); /* nobody could ask for what was launched */
			return mrw_fail_cuda(error, "cudaEventRecord behind a launch; is the stream one of the communicator's device?");
		}
		d->launched = true;
		d->last_stream = at.stream;
	}
	return MARROW_SUCCESS;
}

/* With early_launch the kernel may be set up while its predecessor in the stream is leaving; it waits for that one itself before it touches
 * memory (mrw_await_predecessor()). Ours never let a successor start earlier: waiting blocks of it would take room from other ranks'. */
static enum marrow_status launch(struct mrw_device *d, const void *function, const struct mrw_args *args, uint32_t threads, void *stream)
{
	void *parameters[] = {(void *)(uintptr_t)args};
	cudaLaunchAttribute early;
	cudaLaunchConfig_t config;
	struct place at = {0, 0};
	MRW_TRY(order_before(d, stream, &at));
	memset(&early, 0, sizeof early);
	early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
	early.val.programmaticStreamSerializationAllowed = 1;
	memset(&config, 0, sizeof config);
	config.gridDim.x = args->call.channels;
	config.gridDim.y = config.gridDim.z = 1;
	config.blockDim.x = threads;
	config.blockDim.y = config.blockDim.z = 1;
	config.stream = (cudaStream_t)stream;
	config.attrs = &early;
	config.numAttrs = d->early_launch ? 1 : 0;
	TRY_CUDA(cudaLaunchKernelExC(&config, function, parameters));
	return remember(d, stream, at);
}

static enum marrow_status cuda_launch(struct mrw_device *d, enum mrw_kernel kernel, enum marrow_type type, const struct mrw_args *args,
				      uint32_t threads, void *stream)
{
	const void *function = kernel_of(d->spans, kernel, type);
	if (!function)
		return mrw_fail(MARROW_UNSUPPORTED, "this build has no CUDA kernels for type %d; rebuild with -Ddtypes including it", (int)type);
	int previous = mrw_cuda_switch(d);
	enum marrow_status status = launch(d, function, args, threads, stream);
	mrw_cuda_switch_back(previous);
	return status;
}

static enum marrow_status join(struct mrw_device *d, void *first, void *const *others, uint32_t count, bool fan_out)
{
	for (uint32_t i = 0; i < count; i++) {
		void *from = fan_out ? first : others[i], *to = fan_out ? others[i] : first;
		TRY_CUDA(cudaEventRecord((cudaEvent_t)d->joint, (cudaStream_t)from));
		TRY_CUDA(cudaStreamWaitEvent((cudaStream_t)to, (cudaEvent_t)d->joint, 0));
	}
	return MARROW_SUCCESS;
}

static enum marrow_status cuda_join(struct mrw_device *d, void *first, void *const *others, uint32_t count, bool fan_out)
{
	int previous = mrw_cuda_switch(d);
	enum marrow_status status = join(d, first, others, count, fan_out);
	mrw_cuda_switch_back(previous);
	return status;
}

static enum marrow_status finish(struct mrw_device *d, bool (*poll)(void *arg), void *arg)
{
	const struct timespec nap = {0, 50000};
	for (uint32_t naps = 0;; naps++) {
		cudaError_t error = cudaEventQuery((cudaEvent_t)d->event);
		if (error == cudaSuccess)
			return MARROW_SUCCESS;
		if (error != cudaErrorNotReady)
			return mrw_fail_cuda(error, "waiting for the communicator's last operation");
		if (naps % 20 == 19 && !poll(arg))
			return MARROW_TIMEOUT;
		nanosleep(&nap, NULL);
	}
}

static enum marrow_status cuda_finish(struct mrw_device *d, bool (*poll)(void *arg), void *arg)
{
	if (!d->launched)
		return MARROW_SUCCESS;
	struct mrw_caller caller = mrw_cuda_enter(d);
	enum marrow_status status = finish(d, poll, arg);
	mrw_cuda_leave(caller);
	return status;
}

static bool cuda_left(struct mrw_device *d)
{
	struct mrw_caller caller = mrw_cuda_enter(d);
	cudaError_t error = cudaEventQuery((cudaEvent_t)d->event);
	if (error != cudaSuccess)
		(void)cudaGetLastError();
	bool left = error != cudaErrorNotReady; /* a device that failed runs nothing any more */
	mrw_cuda_leave(caller);
	return left;
}

static enum marrow_status copy(struct mrw_device *d, void *dst, const void *src, uint64_t bytes, void *stream)
{
	struct place at = {0, 0};
	MRW_TRY(order_before(d, stream, &at));
	TRY_CUDA(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, (cudaStream_t)stream));
	return remember(d, stream, at);
}

static enum marrow_status cuda_copy(struct mrw_device *d, void *dst, const void *src, uint64_t bytes, void *stream)
{
	int previous = mrw_cuda_switch(d);
	enum marrow_status status = copy(d, dst, src, bytes, stream);
	mrw_cuda_switch_back(previous);
	return status;
}

const struct mrw_runtime mrw_cuda_runtime = {
	.name = "cuda",
	.target = MARROW_TARGET_CUDA,
	.present = cuda_present,
	.current = cuda_current,
	.open = cuda_open,
	.close = cuda_close,
	.span = cuda_span,
	.page_new = mrw_cuda_page_new,
	.page_free = mrw_cuda_page_free,
	.arena_new = mrw_cuda_arena_new,
	.arena_map = mrw_cuda_arena_map,
	.arena_seal = mrw_cuda_arena_seal,
	.arena_free = mrw_cuda_arena_free,
	.arena_dmabuf = mrw_cuda_arena_dmabuf,
	.pages_map = mrw_cuda_pages_map,
	.pages_unmap = mrw_cuda_pages_unmap,
	.buffer_new = mrw_cuda_buffer_new,
	.buffer_free = mrw_cuda_buffer_free,
	.buffer_offer = mrw_cuda_buffer_offer,
	.buffer_fault = mrw_cuda_buffer_fault,
	.launch = cuda_launch,
	.join = cuda_join,
	.finish = cuda_finish,
	.left = cuda_left,
	.copy = cuda_copy,
	.poke = mrw_cuda_poke,
};
