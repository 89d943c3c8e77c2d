#include "network_rings.h"

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define GRAIN 65536ull /* pages of GPUs, as drivers of NICs have them */
/* How long a NIC that answers in microseconds elsewhere may take from there, each way: nobody should wait long for what can be done without, nor who
 * asks for it miss it on a busy machine. */
enum { TRIAL_MS = 400, MUST_MS = 5000 };

enum marrow_status mrw_rings_choice(enum mrw_rings_place *place)
{
	static const char *const names[] = {"auto", "gpu", "host"};
	const char *text = mrw_env_string(MRW_ENV_RINGS);
	for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (strcmp(text, names[i]) == 0) {
			*place = (enum mrw_rings_place)i;
			return MARROW_SUCCESS;
		}
	return mrw_fail(MARROW_INVALID_ARGUMENT, "MARROW_RINGS is \"%.64s\": use auto, gpu or host", text);
}

static enum marrow_status copy(void *device, void *to, const void *from, uint64_t bytes)
{
	struct mrw_device *d = device;
	return d->runtime->poke(d, to, from, bytes);
}

/* NIC number i has part number i. Registered is not reached: the NIC proves itself once more, from there. */
static enum marrow_status place_one_way(const struct mrw_rings *r, struct mrw_nic *nic, uint32_t i, uint64_t part, uint32_t ms, bool dmabuf)
{
	struct mrw_queue_memory m = {.base = r->memory.base + i * part, .bytes = part, .dmabuf_fd = -1, .dmabuf_offset = i * part, .copy = copy,
				     .arg = r->device};
	if (dmabuf)
		MRW_TRY(r->device->runtime->arena_dmabuf(r->device, &r->memory, &m.dmabuf_fd));
	enum marrow_status status = mrw_nic_place_queues(nic, &m);
	if (m.dmabuf_fd >= 0)
		close(m.dmabuf_fd); /* the registration holds the memory */
	return status == MARROW_SUCCESS ? mrw_nic_trial(nic, ms) : status;
}

/* By dma-buf, else by address, as the arena. Else the NIC's rings are where they were. *placed counts those that are there. */
static enum marrow_status place(const struct mrw_rings *r, const struct mrw_rings_wish *wish, uint32_t i, uint64_t part, bool must, uint32_t *placed)
{
	char dmabuf[MRW_ERROR_TEXT_BYTES / 3], peermem[MRW_ERROR_TEXT_BYTES / 3];
	struct mrw_nic *nic = wish->nic[i];
	struct mrw_nic_info info;
	unsigned long long bytes = part;
	int32_t ordinal = r->device->info.ordinal;
	uint32_t ms = must ? MUST_MS : TRIAL_MS;
	mrw_nic_get_info(nic, &info);
	mrw_error_quiet(true);
	enum marrow_status by_dmabuf = place_one_way(r, nic, i, part, ms, true), status = by_dmabuf;
	snprintf(dmabuf, sizeof dmabuf, "%s", mrw_error_text());
	if (by_dmabuf != MARROW_SUCCESS)
		status = place_one_way(r, nic, i, part, ms, false);
	snprintf(peermem, sizeof peermem, "%s", mrw_error_text());
	mrw_error_quiet(false);
	if (by_dmabuf == MARROW_SUCCESS)
		mrw_log(MRW_LOG_INFO, "%s: rings are in the memory of device %d (%llu bytes), by dma-buf", info.name, ordinal, bytes);
	else if (status == MARROW_SUCCESS)
		mrw_log(MRW_LOG_INFO, "%s: rings are in the memory of device %d (%llu bytes), by address (nvidia-peermem): %s", info.name, ordinal,
			bytes, dmabuf);
	*placed += status == MARROW_SUCCESS;
	if (status == MARROW_SUCCESS)
		return MARROW_SUCCESS;
	if (must)
		return mrw_fail(MARROW_UNSUPPORTED, "MARROW_RINGS=gpu, but rank %u's NIC %s does not take rings in the memory of device %d: load "
				"nvidia-peermem (modprobe nvidia-peermem), or leave the choice to Marrow (MARROW_RINGS=auto). By dma-buf: %s; by address: %s",
				wish->rank, info.name, ordinal, dmabuf, peermem);
	mrw_log(MRW_LOG_INFO, "%s: rings are in the host's memory, not in that of device %d: by dma-buf: %s; by address: %s", info.name, ordinal,
		dmabuf, peermem);
	MRW_TRY(mrw_nic_place_queues(nic, NULL));
	return mrw_nic_self_test(nic); /* if the NIC itself broke at that, this rank should not go on */
}

static uint64_t mapped(const struct mrw_arena *arena)
{
	return arena->mapped > arena->bytes ? arena->mapped : arena->bytes;
}

/* By itself no more than a communicator's, with its arena, may be. */
static enum marrow_status make_memory(struct mrw_rings *r, const struct mrw_rings_wish *wish, bool must)
{
	struct mrw_device *d = r->device;
	MRW_TRY(d->runtime->arena_new(d, r->bytes + wish->room, &r->memory));
	d->runtime->arena_seal(d, &r->memory);
	if (must || mapped(wish->arena) + mapped(&r->memory) <= MRW_DEVICE_MOST)
		return MARROW_SUCCESS;
	enum marrow_status status = mrw_fail(MARROW_UNSUPPORTED, "%llu KiB for %u queue pairs and %llu MiB for the rest are more than the %llu MiB that a "
			"communicator takes by itself (MARROW_RINGS=gpu takes it)", (unsigned long long)mapped(&r->memory) >> 10,
			wish->links * wish->nics, (unsigned long long)mapped(wish->arena) >> 20, MRW_DEVICE_MOST >> 20);
	d->runtime->arena_free(d, &r->memory);
	return status;
}

enum marrow_status mrw_rings_make(struct mrw_rings *r, struct mrw_device *device, const struct mrw_rings_wish *wish)
{
	char why[MRW_ERROR_TEXT_BYTES / 2];
	uint32_t placed = 0;
	enum mrw_rings_place choice = MRW_RINGS_AUTO;
	memset(r, 0, sizeof *r);
	r->device = device;
	MRW_TRY(mrw_rings_choice(&choice));
	if (!device->runtime->arena_dmabuf || choice == MRW_RINGS_HOST)
		return MARROW_SUCCESS;
	bool must = choice == MRW_RINGS_GPU;
	uint64_t part = (wish->links * mrw_nic_queue_bytes(wish->nic[0]) + GRAIN - 1) / GRAIN * GRAIN; /* queues of all NICs are alike */
	r->bytes = part * wish->nics;
	mrw_error_quiet(!must);
	enum marrow_status status = make_memory(r, wish, must);
	mrw_error_quiet(false);
	if (status != MARROW_SUCCESS) {
		snprintf(why, sizeof why, "%s", mrw_error_text());
		if (must)
			return mrw_fail(status, "MARROW_RINGS=gpu, but rank %u has no %llu KiB for rings on device %d: free memory there, or leave the choice to "
					"Marrow (MARROW_RINGS=auto): %s", wish->rank, (unsigned long long)r->bytes >> 10, device->info.ordinal, why);
		mrw_log(MRW_LOG_INFO, "rank %u: rings are in the host's memory, not in that of device %d: %s", wish->rank, device->info.ordinal, why);
		return MARROW_SUCCESS;
	}
	for (uint32_t i = 0; i < wish->nics; i++)
		MRW_TRY(place(r, wish, i, part, must, &placed));
	if (placed == 0)
		mrw_rings_free(r);
	return MARROW_SUCCESS;
}

uint8_t *mrw_rings_room(const struct mrw_rings *r)
{
	return r->memory.base ? r->memory.base + r->bytes : NULL;
}

void mrw_rings_free(struct mrw_rings *r)
{
	if (r->memory.base)
		r->device->runtime->arena_free(r->device, &r->memory);
}
