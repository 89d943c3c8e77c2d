/* network_view.c - mapping queue pairs for kernels, and reading their counters back. */
#include "network_view.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

#define QUEUES_AT ((sizeof(struct mrw_far) + 63) / 64 * 64)

static uint8_t *queue_at(const struct mrw_view *view, uint32_t number)
{
	return view->words + QUEUES_AT + number * sizeof(struct mrw_queue);
}

/* Maps the pages around *word and makes *word its address in kernels. Where there are none to map it is. */
static enum marrow_status map(struct mrw_view *view, void *pages, uint64_t bytes, bool registers, void *word)
{
	struct mrw_device *d = view->device;
	void *device;
	uint8_t *inside;
	if (bytes == 0)
		return MARROW_SUCCESS;
	memcpy(&inside, word, sizeof inside);
	MRW_TRY(d->runtime->pages_map(d, pages, bytes, registers, &device));
	view->pages[view->npages++] = pages;
	inside = (uint8_t *)device + (inside - (uint8_t *)pages);
	memcpy(word, &inside, sizeof inside);
	return MARROW_SUCCESS;
}

static enum marrow_status map_queue(struct mrw_view *view, const struct mrw_link *link, struct mrw_queue *q)
{
	struct mrw_link_memory m;
	mrw_link_get_memory(link, &m);
	MRW_TRY(map(view, m.sq.base, m.sq.bytes, false, &q->sq));
	MRW_TRY(map(view, m.record.base, m.record.bytes, false, &q->record));
	MRW_TRY(map(view, m.cq.base, m.cq.bytes, false, &q->cq));
	MRW_TRY(map(view, m.cq_record.base, m.cq_record.bytes, false, &q->cq_record));
	return map(view, m.doorbell.base, m.doorbell.bytes, true, &q->doorbell);
}

/* The image of far and queues with the addresses of kernels, to where kernels find it. */
static enum marrow_status make(struct mrw_view *view, const struct mrw_far *far, const struct mrw_queue *queues, struct mrw_link *const *links,
			       uint32_t count, uint8_t *image, uint64_t bytes)
{
	struct mrw_device *d = view->device;
	struct mrw_far *to = (struct mrw_far *)(void *)image;
	*to = *far;
	for (uint32_t k = 0; k < count; k++) {
		struct mrw_queue *q = (struct mrw_queue *)(void *)(image + QUEUES_AT) + k;
		if (!links[k])
			continue;
		mrw_link_get_queue(links[k], q);
		MRW_TRY(map_queue(view, links[k], q));
	}
	for (uint32_t p = 0; p < MRW_MAX_RANKS; p++)
		for (uint32_t i = 0; i < MRW_MAX_NICS; i++)
			if (far->peer[p].queue[i])
				to->peer[p].queue[i] = (struct mrw_queue *)(void *)queue_at(view, (uint32_t)(far->peer[p].queue[i] - queues));
	return d->runtime->poke(d, view->words, image, bytes);
}

uint64_t mrw_view_bytes(uint32_t count)
{
	return QUEUES_AT + (uint64_t)count * sizeof(struct mrw_queue);
}

enum marrow_status mrw_view_new(struct mrw_view *view, struct mrw_device *device, struct mrw_far *far, const struct mrw_queue *queues,
				struct mrw_link *const *links, uint32_t count, uint8_t *room)
{
	uint64_t bytes = mrw_view_bytes(count);
	memset(view, 0, sizeof *view);
	view->device = device;
	view->far = far;
	if (!device->runtime->pages_map)
		return MARROW_SUCCESS;
	if (!room) {
		MRW_TRY(device->runtime->arena_new(device, bytes, &view->own));
		device->runtime->arena_seal(device, &view->own);
	}
	view->words = room ? room : view->own.base;
	uint8_t *image = aligned_alloc(64, (bytes + 63) / 64 * 64);
	if (!image)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "out of memory for the image of %u queues", count);
	memset(image, 0, bytes);
	enum marrow_status status = make(view, far, queues, links, count, image, bytes);
	free(image);
	view->far = (struct mrw_far *)(void *)view->words;
	return status;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

enum marrow_status mrw_view_fetch(const struct mrw_view *view, uint32_t number, struct mrw_queue *queue)
{
	struct mrw_device *d = view->device;
	struct mrw_queue theirs;
	if (!view->words)
		return MARROW_SUCCESS;
	MRW_TRY(d->runtime->poke(d, &theirs, queue_at(view, number), sizeof theirs));
	/* None of them ever runs back; the host may have polled since. */
	queue->reserved = later(queue->reserved, theirs.reserved);
	queue->ready = later(queue->ready, theirs.ready);
	queue->rung = later(queue->rung, theirs.rung);
	queue->completed = later(queue->completed, theirs.completed);
	queue->consumed = later(queue->consumed, theirs.consumed);
	if (queue->failed == 0)
		queue->failed = theirs.failed;
	return MARROW_SUCCESS;
}

void mrw_view_free(struct mrw_view *view)
{
	struct mrw_device *d = view->device;
	for (uint32_t i = 0; i < view->npages; i++)
		d->runtime->pages_unmap(d, view->pages[i]);
	if (view->own.base)
		d->runtime->arena_free(d, &view->own);
	memset(view, 0, sizeof *view);
}
