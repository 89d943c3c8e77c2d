#include "fake_cuda.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCKS = 64, COPIES = 64, INVALID_VALUE = 1, OUT_OF_MEMORY = 2 };

static struct {
	uint64_t pointer;
	uint8_t *at;
	size_t bytes;
	int device;
} blocks[BLOCKS];
static int used;
static struct copy {
	void *to;
	const void *from;
	size_t bytes;
	void *stream;
} copies[COPIES];
static int under_way;
static struct fake_cuda_counts counts;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define EXPORT __attribute__((visibility("default")))

fake_cuda_alloc fake_alloc;
fake_cuda_at fake_at;
fake_cuda_count fake_count;
int cuPointerGetAttribute(void *value, int attribute, uint64_t pointer);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxPushCurrent_v2(void *context);
int cuCtxPopCurrent_v2(void **context);
int cuCtxGetStreamPriorityRange(int *least, int *greatest);
int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority);
int cuStreamSynchronize(void *stream);
int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags);
int cuMemAlloc_v2(uint64_t *pointer, size_t bytes);
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream);
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream);
int cuGetErrorName(int result, const char **name);

static int block_of(uint64_t pointer)
{
	int found = -1;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < used && found < 0; i++)
		if (pointer - blocks[i].pointer < blocks[i].bytes)
			found = i;
	pthread_mutex_unlock(&lock);
	return found;
}

EXPORT uint64_t fake_alloc(size_t bytes, int device)
{
	int fd = memfd_create("device", MFD_CLOEXEC);
	void *nowhere = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *at;

	if (fd < 0 || nowhere == MAP_FAILED || ftruncate(fd, (off_t)bytes))
		abort();
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		abort();
	close(fd);
	pthread_mutex_lock(&lock);
	if (used == BLOCKS)
		abort();
	blocks[used].pointer = (uint64_t)(uintptr_t)nowhere;
	blocks[used].at = at;
	blocks[used].bytes = bytes;
	blocks[used++].device = device;
	pthread_mutex_unlock(&lock);
	return (uint64_t)(uintptr_t)nowhere;
}

EXPORT void *fake_at(uint64_t pointer)
{
	int block = block_of(pointer);

	return block < 0 ? NULL : blocks[block].at + (pointer - blocks[block].pointer);
}

EXPORT struct fake_cuda_counts fake_count(void)
{
	return counts;
}

EXPORT int cuPointerGetAttribute(void *value, int attribute, uint64_t pointer)
{
	int block = block_of(pointer);

	if (block < 0)
		return INVALID_VALUE;
	*(int *)value = attribute == 2 ? 2 : blocks[block].device;
	return attribute == 2 || attribute == 9 ? 0 : INVALID_VALUE;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device)
{
	static int contexts[2];

	*context = &contexts[device];
	return 0;
}

EXPORT int cuCtxPushCurrent_v2(void *context)
{
	(void)context;
	counts.live_contexts++;
	return 0;
}

EXPORT int cuCtxPopCurrent_v2(void **context)
{
	*context = NULL;
	counts.live_contexts--;
	return 0;
}

EXPORT int cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	*least = 0;
	*greatest = -5;
	return 0;
}

EXPORT int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
	*stream = malloc(1);
	return flags == 1 && priority == -5 && *stream ? 0 : INVALID_VALUE;
}

EXPORT int cuStreamSynchronize(void *stream)
{
	int left = 0;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < under_way; i++) {
		if (copies[i].stream == stream)
			memcpy(copies[i].to, copies[i].from, copies[i].bytes);
		else
			copies[left++] = copies[i];
	}
	under_way = left;
	pthread_mutex_unlock(&lock);
	return 0;
}

EXPORT int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
	(void)flags;
	*memory = calloc(1, bytes);
	return *memory ? 0 : OUT_OF_MEMORY;
}

EXPORT int cuMemAlloc_v2(uint64_t *pointer, size_t bytes)
{
	*pointer = fake_alloc(bytes, 0);
	return 0;
}

static int post(void *to, const void *from, size_t bytes, void *stream)
{
	pthread_mutex_lock(&lock);
	counts.copies++;
	for (int i = 0; i < under_way; i++)
		counts.copied_unsynchronised += copies[i].stream == stream;
	if (under_way == COPIES)
		abort();
	copies[under_way++] = (struct copy){to, from, bytes, stream};
	pthread_mutex_unlock(&lock);
	return 0;
}

EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream)
{
	int block = block_of(to);

	if (block < 0 || block != block_of(to + bytes - 1))
		return INVALID_VALUE;
	return post(fake_at(to), from, bytes, stream);
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream)
{
	int block = block_of(from);

	if (block < 0 || block != block_of(from + bytes - 1))
		return INVALID_VALUE;
	return post(to, fake_at(from), bytes, stream);
}

EXPORT int cuGetErrorName(int result, const char **name)
{
	*name = result == INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE" : "CUDA_ERROR_OUT_OF_MEMORY";
	return 0;
}
