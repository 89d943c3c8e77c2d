/* memory.c - marrow_mem_alloc() and marrow_mem_free(): buffers that the library knows again, and holds while they are registered. */
#include "comm.h"

#include <stdlib.h>

struct buffer {
	struct buffer *next;
	const struct mrw_runtime *runtime;
	struct mrw_arena memory;
	int32_t device;
	uint32_t holders;  /* windows, under the lock */
};

static pthread_mutex_t buffers_lock = PTHREAD_MUTEX_INITIALIZER;
static struct buffer *buffers;

static enum marrow_status make(struct buffer **made, size_t bytes, enum marrow_target target)
{
	struct buffer *b = calloc(1, sizeof *b);
	enum marrow_status status;
	if (!b)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "marrow_mem_alloc: out of memory");
	MRW_TRY_GOTO(mrw_choose_runtime(target, &b->runtime));
	MRW_TRY_GOTO(b->runtime->buffer_new(bytes, &b->memory, &b->device));
	*made = b;
	return MARROW_SUCCESS;
fail:
	free(b);
	return status;
}

enum marrow_status marrow_mem_alloc(void **memory, size_t bytes, enum marrow_target target)
{
	struct buffer *b = NULL;
	if (!memory)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_mem_alloc: memory is NULL");
	*memory = NULL;
	if (bytes == 0 || bytes > INT64_MAX)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_mem_alloc: %zu bytes (a negative number?)", bytes);
	if ((uint32_t)target > MARROW_TARGET_CUDA)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_mem_alloc: target %d: use enum marrow_target", (int)target);
	if (target == MARROW_TARGET_AUTO)
		MRW_TRY(mrw_target_from_env(&target));
	MRW_TRY(make(&b, bytes, target));
	pthread_mutex_lock(&buffers_lock);
	b->next = buffers;
	buffers = b;
	pthread_mutex_unlock(&buffers_lock);
	*memory = b->memory.base;
	return MARROW_SUCCESS;
}

static enum marrow_status mem_free(void *memory, bool swept)
{
	struct buffer *b, **at = &buffers;
	if (!memory)
		return MARROW_SUCCESS;
	pthread_mutex_lock(&buffers_lock);
	while (*at && (*at)->memory.base != memory)
		at = &(*at)->next;
	b = *at;
	uint32_t holders = b ? b->holders : 0;
	int32_t device = b ? b->device : -1;
	if (b && holders == 0)
		*at = b->next;
	pthread_mutex_unlock(&buffers_lock);
	if (!b)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_mem_free: %p is nothing that marrow_mem_alloc() gave (freed twice, or the middle of a "
				"buffer?)", memory);
	if (holders > 0 && !swept) { /* of a communicator that is destroyed and whose operations have left by now, perhaps */
		mrw_comm_sweep(device);
		return mem_free(memory, true);
	}
	if (holders > 0)
		return mrw_fail(MARROW_INVALID_USAGE, "marrow_mem_free: %p is registered as %u window%s: marrow_window_deregister() first, or destroy the "
				"communicator and let its operations leave", memory, holders, holders == 1 ? "" : "s");
	b->runtime->buffer_free(&b->memory, b->device);
	free(b);
	return MARROW_SUCCESS;
}

enum marrow_status marrow_mem_free(void *memory)
{
	return mem_free(memory, false);
}

enum marrow_status mrw_buffer_hold(struct mrw_device *d, const char *call, const void *memory, uint64_t bytes, struct mrw_arena *offer)
{
	const uint8_t *first = memory;
	enum marrow_status status;
	pthread_mutex_lock(&buffers_lock);
	struct buffer *b = buffers;
	while (b && (first < b->memory.base || first - b->memory.base >= (ptrdiff_t)b->memory.bytes))
		b = b->next;
	uint64_t room = b ? b->memory.bytes - (uint64_t)(first - b->memory.base) : 0;
	if (!b)
		status = mrw_fail(MARROW_INVALID_ARGUMENT, "%s: %p is no memory of marrow_mem_alloc()", call, memory);
	else if (bytes > room)
		status = mrw_fail(MARROW_INVALID_ARGUMENT, "%s: %llu bytes from %p on are more than its buffer has there, %llu", call,
				  (unsigned long long)bytes, memory, (unsigned long long)room);
	else if (b->runtime->target != d->runtime->target)
		status = mrw_fail(MARROW_INVALID_ARGUMENT, "%s: %p is memory of the %s target, the communicator is on the %s target", call, memory,
				  b->runtime->name, d->runtime->name);
	else if (b->device != d->info.ordinal)
		status = mrw_fail(MARROW_INVALID_ARGUMENT, "%s: %p is on device %d, the communicator on device %d", call, memory, b->device,
				  d->info.ordinal);
	else
		status = d->runtime->buffer_offer(d, &b->memory, offer);
	if (status == MARROW_SUCCESS)
		b->holders++;
	pthread_mutex_unlock(&buffers_lock);
	return status;
}

void mrw_buffer_let_go(const uint8_t *base)
{
	pthread_mutex_lock(&buffers_lock);
	struct buffer *b = buffers;
	while (b->memory.base != base)
		b = b->next;
	b->holders--;
	pthread_mutex_unlock(&buffers_lock);
}
