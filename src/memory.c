/* memory.c - marrow_mem_alloc() and marrow_mem_free(): buffers that the library knows again. */
#include "comm.h"

#include <stdlib.h>

struct buffer {
	struct buffer *next;
	const struct mrw_runtime *runtime;
	struct mrw_arena memory;
	int32_t device;
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

enum marrow_status marrow_mem_free(void *memory)
{
	struct buffer *b, **at = &buffers;
	if (!memory)
		return MARROW_SUCCESS;
	pthread_mutex_lock(&buffers_lock);
	while (*at && (*at)->memory.base != memory)
		at = &(*at)->next;
	b = *at;
	if (b)
		*at = b->next;
	pthread_mutex_unlock(&buffers_lock);
	if (!b)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_mem_free: %p is nothing that marrow_mem_alloc() gave (freed twice, or the middle of a "
				"buffer?)", memory);
	b->runtime->buffer_free(&b->memory, b->device);
	free(b);
	return MARROW_SUCCESS;
}
