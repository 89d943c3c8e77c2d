/* network.c - one NIC, one region and the queue pairs of a communicator. */
#include "network.h"
#include "network_view.h"

#include "base/error.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct mrw_network {
	struct mrw_nic *nic;
	struct mrw_nic_info info;
	struct mrw_region region;
	struct mrw_link *link[MRW_MAX_RANKS];
	struct mrw_queue *queues; /* [rank] */
	struct mrw_far *far;
	struct mrw_view view;    /* of far and queues, for kernels */
	struct mrw_device *device;
	struct mrw_network_place place;
};

/* What a rank tells every other one; to[r] is for rank r. */
struct contact {
	uint64_t arena;
	uint32_t rkey, reserved;
	struct mrw_link_address to[MRW_MAX_RANKS];
};

static bool is_far(const struct mrw_network *n, uint32_t rank)
{
	return n->place.far >> rank & 1;
}

/* why: what this rank lacks. Users meet it by a mistake in a host identity, too. */
static enum marrow_status no_way(const struct mrw_network *n, const char *why)
{
	const struct mrw_network_place *p = &n->place;
	return mrw_fail(MARROW_UNSUPPORTED, "rank 0 is on host \"%s\", rank %u on host \"%s\", and rank %u cannot reach other hosts: %s (if the hosts are one, "
			"look at MARROW_HOST_ID, boot id and network namespace)", p->first_host, p->other_rank, p->other_host, p->rank, why);
}

static enum marrow_status open_nic(struct mrw_network *n)
{
	struct mrw_nic_config config;
	char why[MRW_ERROR_TEXT_BYTES];
	uint32_t count;
	mrw_nic_defaults(&config);
	config.collapsed = 0; /* a ring keeps the first error where a collapsed queue shows the last */
	if (mrw_nic_count(n->place.nics, &count) != MARROW_SUCCESS) {
		snprintf(why, sizeof why, "%s", mrw_error_text());
		return no_way(n, why);
	}
	if (count == 0) {
		snprintf(why, sizeof why, "its host has no mlx5 NIC with an active port; MARROW_NICS or config.nics is \"%s\", ibv_devinfo shows what is there",
			 n->place.nics);
		return no_way(n, why);
	}
	MRW_TRY(mrw_nic_open(&n->nic, n->place.nics, n->place.local % count, &config));
	mrw_nic_get_info(n->nic, &n->info);
	return mrw_nic_self_test(n->nic);
}

static enum marrow_status register_by_dmabuf(struct mrw_network *n, const struct mrw_arena *arena)
{
	int fd = -1;
	MRW_TRY(n->device->runtime->arena_dmabuf(n->device, arena, &fd));
	enum marrow_status status = mrw_region_new(n->nic, arena->base, arena->bytes, fd, &n->region);
	close(fd); /* the region holds the memory */
	return status;
}

/* By dma-buf, which needs no module that is not the kernel's own; else by address, which the NIC's driver knows with nvidia-peermem. */
static enum marrow_status register_device_memory(struct mrw_network *n, const struct mrw_arena *arena)
{
	char dmabuf[MRW_ERROR_TEXT_BYTES / 3], peermem[MRW_ERROR_TEXT_BYTES / 3];
	int32_t ordinal = n->device->info.ordinal;
	unsigned long long bytes = arena->bytes;
	mrw_error_quiet(true);
	enum marrow_status by_dmabuf = register_by_dmabuf(n, arena), status = by_dmabuf;
	snprintf(dmabuf, sizeof dmabuf, "%s", mrw_error_text());
	if (by_dmabuf != MARROW_SUCCESS)
		status = mrw_region_new(n->nic, arena->base, arena->bytes, -1, &n->region);
	snprintf(peermem, sizeof peermem, "%s", mrw_error_text());
	mrw_error_quiet(false);
	if (status != MARROW_SUCCESS)
		return mrw_fail(MARROW_UNSUPPORTED, "rank %u: NIC %s cannot reach the memory of device %d: no dma-buf and no peermem. Load nvidia-peermem "
				"(modprobe nvidia-peermem), or use the open kernel module of the GPU's driver with Linux 5.12 or later. dma-buf: %s; "
				"peermem: %s", n->place.rank, n->info.name, ordinal, dmabuf, peermem);
	if (by_dmabuf == MARROW_SUCCESS)
		mrw_log(MRW_LOG_DEBUG, "%s: registered %llu bytes of device %d by dma-buf", n->info.name, bytes, ordinal);
	else
		mrw_log(MRW_LOG_INFO, "%s: registered %llu bytes of device %d by address (nvidia-peermem): %s", n->info.name, bytes, ordinal, dmabuf);
	return MARROW_SUCCESS;
}

static enum marrow_status register_arena(struct mrw_network *n, const struct mrw_arena *arena)
{
	if (n->device->runtime->arena_dmabuf)
		return register_device_memory(n, arena);
	return mrw_region_new(n->nic, arena->base, arena->bytes, -1, &n->region);
}

static enum marrow_status make_links(struct mrw_network *n)
{
	n->queues = aligned_alloc(64, sizeof *n->queues * MRW_MAX_RANKS);
	n->far = aligned_alloc(64, (sizeof *n->far + 63) / 64 * 64);
	if (!n->queues || !n->far)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "out of memory for %u queue pairs", n->place.nranks);
	memset(n->queues, 0, sizeof *n->queues * MRW_MAX_RANKS);
	memset(n->far, 0, sizeof *n->far);
	n->far->arena = n->region.address;
	n->far->lkey = n->region.lkey;
	for (uint32_t r = 0; r < n->place.nranks; r++)
		if (is_far(n, r))
			MRW_TRY(mrw_link_new(n->nic, r, &n->queues[r], &n->link[r]));
	return MARROW_SUCCESS;
}

enum marrow_status mrw_network_open(struct mrw_network **network, const struct mrw_network_place *place, struct mrw_device *device,
				    const struct mrw_arena *arena)
{
	struct mrw_network *n = calloc(1, sizeof *n);
	enum marrow_status status;
	*network = NULL;
	if (!n)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "out of memory for the network");
	n->place = *place;
	n->device = device;
	MRW_TRY_GOTO(open_nic(n));
	MRW_TRY_GOTO(register_arena(n, arena));
	MRW_TRY_GOTO(make_links(n));
	*network = n;
	return MARROW_SUCCESS;
fail:
	mrw_network_close(n);
	return status;
}

static enum marrow_status connect_all(struct mrw_network *n, const struct contact *all)
{
	for (uint32_t r = 0; r < n->place.nranks; r++) {
		if (!is_far(n, r))
			continue;
		MRW_TRY(mrw_link_connect(n->link[r], &all[r].to[n->place.rank]));
		n->far->peer[r].arena = all[r].arena;
		n->far->peer[r].rkey = all[r].rkey;
		n->far->peer[r].queue = &n->queues[r];
	}
	return mrw_view_new(&n->view, n->device, n->far, n->queues, n->link);
}

enum marrow_status mrw_network_connect(struct mrw_network *n, struct mrw_boot *boot)
{
	uint32_t nranks = n->place.nranks;
	struct contact *mine = calloc(1, sizeof *mine), *all = calloc(nranks, sizeof *all);
	enum marrow_status status;
	if (!mine || !all) {
		status = mrw_fail(MARROW_OUT_OF_MEMORY, "out of memory for %u addresses", nranks);
		goto fail;
	}
	mine->arena = n->region.address;
	mine->rkey = n->region.rkey;
	for (uint32_t r = 0; r < nranks; r++)
		if (is_far(n, r))
			mrw_link_get_address(n->link[r], &mine->to[r]);
	MRW_TRY_GOTO(mrw_boot_allgather(boot, mine, all, sizeof *mine));
	status = connect_all(n, all);
fail:
	free(mine);
	free(all);
	return status;
}

const struct mrw_far *mrw_network_far(const struct mrw_network *network)
{
	return network->view.far;
}

static uint64_t now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000u + (uint64_t)ts.tv_nsec / 1000000u;
}

static enum marrow_status drain_queue(struct mrw_network *n, uint32_t r, uint64_t until_ms, char *text, size_t bytes)
{
	const struct timespec nap = {0, 50000};
	struct mrw_queue *q = &n->queues[r];
	char why[200];
	enum marrow_status status = mrw_view_fetch(&n->view, r, q);
	if (status != MARROW_SUCCESS) {
		snprintf(text, bytes, "rank %u cannot see what its kernels have sent to rank %u: %s", n->place.rank, r, mrw_error_text());
		return status;
	}
	while (mrw_poll(q) && mrw_load_relaxed(&q->completed) != mrw_load_relaxed(&q->ready)) {
		if (now_ms() > until_ms) {
			snprintf(text, bytes, "rank %u's NIC %s has not sent all to rank %u in time (%llu of %llu requests)", n->place.rank, n->info.name,
				 r, (unsigned long long)mrw_load_relaxed(&q->completed), (unsigned long long)mrw_load_relaxed(&q->ready));
			return MARROW_TIMEOUT;
		}
		nanosleep(&nap, NULL);
	}
	if (mrw_load_relaxed(&q->failed) == 0)
		return MARROW_SUCCESS;
	mrw_network_describe(mrw_load_relaxed(&q->failed), why, sizeof why);
	snprintf(text, bytes, "rank %u's NIC %s gave up on rank %u before all was sent: %s", n->place.rank, n->info.name, r, why);
	return MARROW_REMOTE_ERROR;
}

enum marrow_status mrw_network_drain(struct mrw_network *network, uint64_t ms, char *text, size_t bytes)
{
	uint64_t until_ms = now_ms() + ms;
	enum marrow_status first = MARROW_SUCCESS;
	for (uint32_t r = 0; r < network->place.nranks; r++) {
		char words[MRW_ERROR_TEXT_BYTES];
		enum marrow_status status = is_far(network, r) ? drain_queue(network, r, until_ms, words, sizeof words) : MARROW_SUCCESS;
		if (first == MARROW_SUCCESS && status != MARROW_SUCCESS) {
			first = status;
			snprintf(text, bytes, "%s", words);
		}
	}
	return first;
}

void mrw_network_close(struct mrw_network *network)
{
	if (!network)
		return;
	/* Links that go wait for the last request; a device that has failed has posted no more of them than the host knows. */
	for (uint32_t r = 0; r < MRW_MAX_RANKS; r++)
		if (network->link[r] && mrw_view_fetch(&network->view, r, &network->queues[r]) != MARROW_SUCCESS)
			mrw_log(MRW_LOG_WARN, "rank %u: closing the queue pair to rank %u unseen: %s", network->place.rank, r, mrw_error_text());
	mrw_view_free(&network->view);
	for (uint32_t r = 0; r < MRW_MAX_RANKS; r++)
		mrw_link_free(network->link[r]);
	if (network->nic)
		mrw_region_free(network->nic, &network->region);
	mrw_nic_close(network->nic);
	free(network->queues);
	free(network->far);
	free(network);
}

const char *mrw_network_nic_name(const struct mrw_network *network)
{
	return network->info.name;
}

uint32_t mrw_network_queues(const struct mrw_network *network)
{
	uint32_t n = 0;
	for (uint32_t r = 0; r < network->place.nranks; r++)
		n += is_far(network, r);
	return n;
}

uint32_t mrw_network_queue_limit(const struct mrw_network *network)
{
	return network->info.max_queues;
}

const char *mrw_network_trouble(const struct mrw_network *network)
{
	return mrw_nic_trouble(network->nic);
}

void mrw_network_describe(uint64_t failed, char *text, size_t bytes)
{
	uint32_t syndrome = mrw_fault_syndrome(failed);
	snprintf(text, bytes, "%s (syndrome 0x%02x, vendor 0x%02x, request %u)", mrw_syndrome_text(syndrome), syndrome,
		 mrw_fault_vendor(failed), mrw_fault_index(failed));
}
