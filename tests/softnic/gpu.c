#include "gpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* What is used of <cuda.h>, which need not be here: its ABI is fixed. */
typedef int cu_result;
typedef int cu_device;
typedef uint64_t cu_pointer;
enum { MEMORY_TYPE = 2, DEVICE_ORDINAL = 9, TYPE_DEVICE = 2, NON_BLOCKING = 1, HOST_PORTABLE = 1 };

enum { GPUS_MAX = 64, RANGES_MAX = 1024, STAGE_BYTES = 64 << 10, COMPLAINTS = 8 };

static struct {
	void *library;
	cu_result (*PointerGetAttribute)(void *, int, cu_pointer);
	cu_result (*DevicePrimaryCtxRetain)(void **, cu_device);
	cu_result (*CtxPushCurrent)(void *);
	cu_result (*CtxPopCurrent)(void **);
	cu_result (*CtxGetStreamPriorityRange)(int *, int *);
	cu_result (*StreamCreateWithPriority)(void **, unsigned, int);
	cu_result (*StreamSynchronize)(void *);
	cu_result (*MemHostAlloc)(void **, size_t, unsigned);
	cu_result (*MemAlloc)(cu_pointer *, size_t);
	cu_result (*MemcpyHtoDAsync)(cu_pointer, const void *, size_t, void *);
	cu_result (*MemcpyDtoHAsync)(void *, cu_pointer, size_t, void *);
	cu_result (*GetErrorName)(cu_result, const char **);
} cuda;

/* One GPU, from its first registration to the end of the process. */
static struct gpu {
	void *context, *stream;
	uint8_t *stage;       /* pinned */
} gpus[GPUS_MAX];

static struct range {
	uint64_t start, bytes;
	uint32_t users;
	int gpu;
} ranges[RANGES_MAX];
static uint32_t ranges_used;

static cu_result failed(cu_result result, const char *call, uint64_t address, size_t bytes)
{
	static uint32_t complaints;
	const char *name = "?";

	if (result && complaints++ < COMPLAINTS) {
		if (cuda.GetErrorName)
			cuda.GetErrorName(result, &name);
		fprintf(stderr, "softnic: %s (%zu bytes of GPU memory at 0x%llx) failed: %s (%d)\n", call, bytes, (unsigned long long)address, name,
			result);
	}
	return result;
}

static bool find(const char *symbol, void *to)
{
	void *function = dlsym(cuda.library, symbol);

	memcpy(to, &function, sizeof(function));
	if (!function)
		fprintf(stderr, "softnic: this libcuda has no %s\n", symbol);
	return function != NULL;
}

/* The driver of the program, once it has one. */
static bool load(void)
{
	static bool good;

	if (cuda.library)
		return good;
	cuda.library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	if (!cuda.library)
		return false;
	good = find("cuPointerGetAttribute", &cuda.PointerGetAttribute) &&
	       find("cuDevicePrimaryCtxRetain", &cuda.DevicePrimaryCtxRetain) && find("cuCtxPushCurrent_v2", &cuda.CtxPushCurrent) &&
	       find("cuCtxPopCurrent_v2", &cuda.CtxPopCurrent) &&
	       find("cuCtxGetStreamPriorityRange", &cuda.CtxGetStreamPriorityRange) &&
	       find("cuStreamCreateWithPriority", &cuda.StreamCreateWithPriority) &&
	       find("cuStreamSynchronize", &cuda.StreamSynchronize) && find("cuMemHostAlloc", &cuda.MemHostAlloc) &&
	       find("cuMemAlloc_v2", &cuda.MemAlloc) && find("cuMemcpyHtoDAsync_v2", &cuda.MemcpyHtoDAsync) &&
	       find("cuMemcpyDtoHAsync_v2", &cuda.MemcpyDtoHAsync) && find("cuGetErrorName", &cuda.GetErrorName);
	return good;
}

/* The GPU whose memory an address is; -1: none. */
static int look_up(uint64_t address)
{
	unsigned type = 0;
	int ordinal = -1;
	cu_result result = cuda.PointerGetAttribute(&type, MEMORY_TYPE, address);

	/* Ordinary memory is an error there. */
	if (result || type != TYPE_DEVICE)
		return -1;
	if (failed(cuda.PointerGetAttribute(&ordinal, DEVICE_ORDINAL, address), "cuPointerGetAttribute", address, 1))
		return -1;
	return ordinal;
}

/* Is there a page of the host at this address? If that cannot be told, yes. */
static bool is_mapped(uint64_t address)
{
	uint8_t byte;
	struct iovec to = {&byte, 1}, from = {(void *)(uintptr_t)address, 1};

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1 || errno != EFAULT;
}

/* Stream, staging, and a first copy each way now: what the driver makes at first use could later wait for a kernel. */
static bool make(struct gpu *gpu)
{
	int least = 0, greatest = 0;
	cu_pointer word = 0;

	return !failed(cuda.CtxGetStreamPriorityRange(&least, &greatest), "cuCtxGetStreamPriorityRange", 0, 0) &&
	       !failed(cuda.StreamCreateWithPriority(&gpu->stream, NON_BLOCKING, greatest), "cuStreamCreateWithPriority", 0, 0) &&
	       !failed(cuda.MemHostAlloc((void **)&gpu->stage, STAGE_BYTES, HOST_PORTABLE), "cuMemHostAlloc", 0, STAGE_BYTES) &&
	       !failed(cuda.MemAlloc(&word, STAGE_BYTES), "cuMemAlloc", 0, STAGE_BYTES) &&
	       !failed(cuda.MemcpyHtoDAsync(word, gpu->stage, STAGE_BYTES, gpu->stream), "cuMemcpyHtoDAsync", word, STAGE_BYTES) &&
	       !failed(cuda.MemcpyDtoHAsync(gpu->stage, word, STAGE_BYTES, gpu->stream), "cuMemcpyDtoHAsync", word, STAGE_BYTES) &&
	       !failed(cuda.StreamSynchronize(gpu->stream), "cuStreamSynchronize", word, STAGE_BYTES);
}

static bool open_gpu(int number)
{
	struct gpu *gpu = &gpus[number];
	void *popped;
	bool made;

	if (gpu->context)
		return gpu->stage != NULL;
	if (failed(cuda.DevicePrimaryCtxRetain(&gpu->context, number), "cuDevicePrimaryCtxRetain", 0, 0) ||
	    failed(cuda.CtxPushCurrent(gpu->context), "cuCtxPushCurrent", 0, 0))
		return false;
	made = make(gpu);
	cuda.CtxPopCurrent(&popped);
	return made;
}

bool sn_gpu_register(uint64_t start, uint64_t bytes)
{
	struct range *free_one = NULL;
	int first, last;

	if (bytes == 0 || !load())
		return true;
	first = look_up(start);
	last = look_up(start + bytes - 1);
	if (first != last || first >= GPUS_MAX) {
		fprintf(stderr, "softnic: 0x%llx + %llu begins in memory of GPU %d and ends in that of %d (-1: none)\n", (unsigned long long)start,
			(unsigned long long)bytes, first, last);
		return false;
	}
	if (first < 0) {
		if (is_mapped(start))
			return true;
		fprintf(stderr, "softnic: 0x%llx + %llu is neither the host's memory nor, as the CUDA driver says, a GPU's\n",
			(unsigned long long)start, (unsigned long long)bytes);
		return false;
	}
	for (uint32_t i = 0; i < ranges_used; i++) {
		if (ranges[i].users && ranges[i].start == start && ranges[i].bytes == bytes) {
			ranges[i].users++;
			return true;
		}
		if (!ranges[i].users)
			free_one = &ranges[i];
	}
	if (!free_one && ranges_used < RANGES_MAX)
		free_one = &ranges[ranges_used++];
	if (!free_one || !open_gpu(first))
		return false;
	*free_one = (struct range){.start = start, .bytes = bytes, .users = 1, .gpu = first};
	return true;
}

void sn_gpu_forget(uint64_t start, uint64_t bytes)
{
	for (uint32_t i = 0; i < ranges_used; i++) {
		if (ranges[i].users && ranges[i].start == start && ranges[i].bytes == bytes) {
			ranges[i].users--;
			break;
		}
	}
	while (ranges_used && !ranges[ranges_used - 1].users)
		ranges_used--;
}

static struct gpu *holder(uint64_t address)
{
	for (uint32_t i = 0; i < ranges_used; i++)
		if (ranges[i].users && address - ranges[i].start < ranges[i].bytes)
			return &gpus[ranges[i].gpu];
	return NULL;
}

bool sn_gpu_holds(uint64_t address)
{
	return holder(address) != NULL;
}

/* One piece, through the staging memory. */
static void copy(struct gpu *gpu, uint64_t device, uint8_t *in, const uint8_t *out, size_t bytes)
{
	void *popped;

	if (failed(cuda.CtxPushCurrent(gpu->context), "cuCtxPushCurrent", device, bytes))
		return;
	if (out) {
		memcpy(gpu->stage, out, bytes);
		failed(cuda.MemcpyHtoDAsync(device, gpu->stage, bytes, gpu->stream), "cuMemcpyHtoDAsync", device, bytes);
	} else {
		failed(cuda.MemcpyDtoHAsync(gpu->stage, device, bytes, gpu->stream), "cuMemcpyDtoHAsync", device, bytes);
	}
	failed(cuda.StreamSynchronize(gpu->stream), "cuStreamSynchronize after a copy", device, bytes);
	if (in)
		memcpy(in, gpu->stage, bytes);
	cuda.CtxPopCurrent(&popped);
}

void sn_gpu_read(void *to, uint64_t from, size_t bytes)
{
	struct gpu *gpu = holder(from);
	uint8_t *in = to;

	for (size_t part; gpu && bytes; in += part, from += part, bytes -= part) {
		part = bytes < STAGE_BYTES ? bytes : STAGE_BYTES;
		copy(gpu, from, in, NULL, part);
	}
}

void sn_gpu_write(uint64_t to, const void *from, size_t bytes)
{
	struct gpu *gpu = holder(to);
	const uint8_t *out = from;

	for (size_t part; gpu && bytes; out += part, to += part, bytes -= part) {
		part = bytes < STAGE_BYTES ? bytes : STAGE_BYTES;
		copy(gpu, to, NULL, out, part);
	}
}
