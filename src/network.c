/* network.c - NICs, regions and queue pairs of a communicator. */
#include "network.h"
#include "network_rings.h"
#include "network_view.h"

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "collectives/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct mrw_network {
	struct mrw_nic *nic[MRW_MAX_NICS];
	struct mrw_region region[MRW_MAX_NICS];
	uint32_t nics;
	uint32_t max_queues;      /* of the NIC that has fewest */
	char names[160];
	struct mrw_reach reach;
	uint32_t links;           /* other ranks * nics; number slot of lanes * nics + nic */
	struct mrw_link **link;   /* NULL: none */
	struct mrw_queue *queues;
	struct mrw_far *far;
	struct mrw_view view;    /* of far and queues, for kernels */
	struct mrw_rings rings;  /* of the queue pairs, and the view behind them */
	struct mrw_device *device;
	struct mrw_network_place place;
};

/* What a rank tells every other one; to[] is by link number. */
struct contact {
	uint64_t arena;
	uint32_t rkey[MRW_MAX_NICS];
	struct mrw_link_address to[];
};

/* Peers or not: transfers go between any two ranks. */
static bool is_far(const struct mrw_network *n, uint32_t rank)
{
	return n->reach.host[rank] != n->reach.host[n->place.rank];
}

/* Number of owner's link to peer over NIC number nic. */
static uint32_t link_number(const struct mrw_network *n, uint32_t owner, uint32_t peer, uint32_t nic)
{
	return mrw_writer_slot(owner, peer) * n->nics + nic;
}

/* why: what this rank lacks. Users meet it by a mistake in a host identity, too. */
static enum marrow_status no_way(const struct mrw_network_place *p, const char *why)
{
	return mrw_fail(MARROW_UNSUPPORTED, "rank 0 is on host \"%s\", rank %u on host \"%s\", and rank %u cannot reach other hosts: %s (if the hosts are one, "
			"look at MARROW_HOST_ID, boot id and network namespace)", p->first_host, p->other_rank, p->other_host, p->rank, why);
}

static enum marrow_status count_nics(const struct mrw_network_place *place, uint32_t *count)
{
	char why[MRW_ERROR_TEXT_BYTES];
	if (mrw_nic_count(place->nics, count) != MARROW_SUCCESS) {
		snprintf(why, sizeof why, "%s", mrw_error_text());
		return no_way(place, why);
	}
	if (*count == 0) {
		snprintf(why, sizeof why, "its host has no mlx5 NIC with an active port; MARROW_NICS or config.nics is \"%s\", ibv_devinfo shows what is there",
			 place->nics);
		return no_way(place, why);
	}
	return MARROW_SUCCESS;
}

/* By the PCI tree, if this rank has a GPU and nobody has named NICs. */
static void find_nearest(struct mrw_network_place *place)
{
	char usable[1024], more[MRW_MAX_NICS * MRW_NEAREST_NAME_BYTES] = "";
	struct mrw_nearest *nearest = &place->nearest;
	memset(nearest, 0, sizeof *nearest);
	if (place->nics[0] || !place->gpus[place->local][0]) {
		mrw_log(MRW_LOG_INFO, "rank %u takes NICs by its number on the host: %s", place->rank, place->nics[0] ? "some are named" : "it has no GPU");
		return;
	}
	mrw_error_quiet(true);
	enum marrow_status status = mrw_nic_list(usable, sizeof usable);
	mrw_error_quiet(false);
	if (status != MARROW_SUCCESS) {
		mrw_log(MRW_LOG_INFO, "rank %u takes NICs by its number on the host: %s", place->rank, mrw_error_text());
		return;
	}
	mrw_nearest_find(nearest, "/sys", place->gpus, place->near_count, place->local, usable);
	for (uint32_t i = 1; i < nearest->count; i++)
		snprintf(more + strlen(more), sizeof more - strlen(more), "%s%s", i > 1 ? ", " : "; then ", nearest->name[i]);
	if (nearest->count > 0)
		mrw_log(MRW_LOG_INFO, "rank %u: GPU %s takes %s: %s%s (MARROW_NICS overrides)", place->rank, place->gpus[place->local], nearest->name[0],
			nearest->reason, more);
	else
		mrw_log(MRW_LOG_INFO, "rank %u: GPU %s takes NICs by its number on the host: %s", place->rank, place->gpus[place->local], nearest->reason);
}

enum marrow_status mrw_network_count(struct mrw_network_place *place, uint32_t *count)
{
	uint32_t there;
	MRW_TRY(count_nics(place, &there));
	find_nearest(place);
	if (place->nearest.count > 0) {
		*count = place->nearest.count;
		return MARROW_SUCCESS;
	}
	*count = there / place->near_count;
	*count = *count < 1 ? 1 : *count > MRW_MAX_NICS ? MRW_MAX_NICS : *count;
	return MARROW_SUCCESS;
}

static enum marrow_status register_by_dmabuf(struct mrw_network *n, uint32_t i, const struct mrw_arena *arena)
{
	int fd = -1;
	MRW_TRY(n->device->runtime->arena_dmabuf(n->device, arena, &fd));
	enum marrow_status status = mrw_region_new(n->nic[i], arena->base, arena->bytes, fd, &n->region[i]);
	close(fd); /* the region holds the memory */
	return status;
}

/* With NIC number i. By dma-buf, which needs no module that is not the kernel's own; else by address, which the NIC's driver knows with nvidia-peermem. */
static enum marrow_status register_device_memory(struct mrw_network *n, uint32_t i, const char *name, const struct mrw_arena *arena)
{
	char dmabuf[MRW_ERROR_TEXT_BYTES / 3], peermem[MRW_ERROR_TEXT_BYTES / 3];
	int32_t ordinal = n->device->info.ordinal;
	unsigned long long bytes = arena->bytes;
	mrw_error_quiet(true);
	enum marrow_status by_dmabuf = register_by_dmabuf(n, i, arena), status = by_dmabuf;
	snprintf(dmabuf, sizeof dmabuf, "%s", mrw_error_text());
	if (by_dmabuf != MARROW_SUCCESS)
		status = mrw_region_new(n->nic[i], arena->base, arena->bytes, -1, &n->region[i]);
	snprintf(peermem, sizeof peermem, "%s", mrw_error_text());
	mrw_error_quiet(false);
	if (status != MARROW_SUCCESS)
		return mrw_fail(MARROW_UNSUPPORTED, "rank %u: NIC %s cannot reach the memory of device %d: no dma-buf and no peermem. Load nvidia-peermem "
				"(modprobe nvidia-peermem), or use the open kernel module of the GPU's driver with Linux 5.12 or later. dma-buf: %s; "
				"peermem: %s", n->place.rank, name, ordinal, dmabuf, peermem);
	if (by_dmabuf == MARROW_SUCCESS)
		mrw_log(MRW_LOG_DEBUG, "%s: registered %llu bytes of device %d by dma-buf", name, bytes, ordinal);
	else
		mrw_log(MRW_LOG_INFO, "%s: registered %llu bytes of device %d by address (nvidia-peermem): %s", name, bytes, ordinal, dmabuf);
	return MARROW_SUCCESS;
}

static enum marrow_status register_arena(struct mrw_network *n, uint32_t i, const char *name, const struct mrw_arena *arena)
{
	if (n->device->runtime->arena_dmabuf)
		return register_device_memory(n, i, name, arena);
	return mrw_region_new(n->nic[i], arena->base, arena->bytes, -1, &n->region[i]);
}

enum marrow_status mrw_network_config(struct mrw_nic_config *config)
{
	int64_t gid_index, pkey_index, traffic_class, service_level, timeout, retries;
	mrw_nic_defaults(config);
	config->collapsed = 0; /* a ring keeps the first error where a collapsed queue shows the last */
	MRW_TRY(mrw_env_int(MRW_ENV_NIC_GID_INDEX, config->gid_index, &gid_index));
	MRW_TRY(mrw_env_int(MRW_ENV_NIC_PKEY_INDEX, config->pkey_index, &pkey_index));
	MRW_TRY(mrw_env_int(MRW_ENV_NIC_TRAFFIC_CLASS, config->traffic_class, &traffic_class));
	MRW_TRY(mrw_env_int(MRW_ENV_NIC_SERVICE_LEVEL, config->service_level, &service_level));
	MRW_TRY(mrw_env_int(MRW_ENV_NIC_TIMEOUT, config->timeout, &timeout));
	MRW_TRY(mrw_env_int(MRW_ENV_NIC_RETRIES, config->retries, &retries));
	config->gid_index = (int32_t)gid_index;
	config->pkey_index = (uint32_t)pkey_index;
	config->traffic_class = (uint32_t)traffic_class;
	config->service_level = (uint32_t)service_level;
	config->timeout = (uint32_t)timeout;
	config->retries = (uint32_t)retries;
	return MARROW_SUCCESS;
}

static enum marrow_status open_nics(struct mrw_network *n, const struct mrw_arena *arena)
{
	struct mrw_nic_config config;
	uint32_t there;
	MRW_TRY(mrw_network_config(&config));
	MRW_TRY(count_nics(&n->place, &there));
	for (uint32_t i = 0; i < n->nics; i++) {
		struct mrw_nic_info info;
		if (n->place.nearest.count > 0)
			MRW_TRY(mrw_nic_open(&n->nic[i], n->place.nearest.name[i], 0, &config));
		else
			MRW_TRY(mrw_nic_open(&n->nic[i], n->place.nics, (n->place.local + i * n->place.near_count) % there, &config));
		mrw_nic_get_info(n->nic[i], &info);
		size_t used = strlen(n->names);
		snprintf(n->names + used, sizeof n->names - used, "%s%s", i ? "," : "", info.name);
		n->max_queues = i == 0 || info.max_queues < n->max_queues ? info.max_queues : n->max_queues;
		MRW_TRY(mrw_nic_self_test(n->nic[i]));
		MRW_TRY(register_arena(n, i, info.name, arena));
	}
	return MARROW_SUCCESS;
}

/* The rings of all queue pairs in the GPU's memory, if it has such. */
static enum marrow_status place_rings(struct mrw_network *n, const struct mrw_arena *arena)
{
	struct mrw_rings_wish wish = {.rank = n->place.rank, .nic = n->nic, .nics = n->nics, .room = mrw_view_bytes(n->links), .arena = arena};
	for (uint32_t p = 0; p < n->reach.nranks; p++)
		wish.links += is_far(n, p);
	return mrw_rings_make(&n->rings, n->device, &wish);
}

/* Everything of struct mrw_far but what the peers have to say. */
static void describe_peers(struct mrw_network *n)
{
	const struct mrw_reach *reach = &n->reach;
	uint32_t rank = n->place.rank;
	struct mrw_far *far = n->far;
	far->arena = n->region[0].address;
	far->nics = n->nics;
	for (uint32_t i = 0; i < n->nics; i++)
		far->lkey[i] = n->region[i].lkey;
	for (uint32_t p = 0; p < reach->nranks; p++) {
		if (!mrw_reach_is_peer(reach, rank, p)) /* MRW_PATH_NONE: lanes only */
			continue;
		far->peer[p].path = is_far(n, p) ? MRW_PATH_FAR : MRW_PATH_NEAR;
		far->peer[p].here = mrw_reach_slot(reach, rank, p);
		far->peer[p].there = mrw_reach_slot(reach, p, rank);
	}
	if (reach->ring || reach->tree) {
		far->hosts = reach->nranks;
		far->per_host = 1;
		far->host = reach->position[rank];
		for (uint32_t p = 0; p < reach->nranks; p++)
			far->at[reach->position[p]] = p;
	}
	for (uint32_t k = 0; reach->tree && k < MRW_TREES; k++) {
		struct mrw_tree t = mrw_tree_at(reach->nranks, k, far->host);
		far->tree[k].level = t.level;
		for (uint32_t i = 0; i < MRW_TREE_NEIGHBOURS; i++)
			far->tree[k].neighbour[i] = t.neighbour[i] == MRW_TREE_NONE ? MRW_TREE_NONE : reach->at[t.neighbour[i]];
	}
	if (!reach->rails)
		return;
	far->hosts = reach->hosts;
	far->per_host = reach->per_host;
	far->host = reach->host[rank];
	far->local = reach->local[rank];
	for (uint32_t p = 0; p < reach->nranks; p++)
		far->at[reach->host[p] * reach->per_host + reach->local[p]] = p;
}

static enum marrow_status make_links(struct mrw_network *n)
{
	n->link = calloc(n->links, sizeof *n->link);
	n->queues = aligned_alloc(64, sizeof *n->queues * n->links);
	n->far = aligned_alloc(64, (sizeof *n->far + 63) / 64 * 64);
	if (!n->link || !n->queues || !n->far)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "out of memory for %u queue pairs", n->links);
	memset(n->queues, 0, sizeof *n->queues * n->links);
	memset(n->far, 0, sizeof *n->far);
	describe_peers(n);
	for (uint32_t p = 0; p < n->reach.nranks; p++)
		for (uint32_t i = 0; i < n->nics && is_far(n, p); i++) {
			uint32_t k = link_number(n, n->place.rank, p, i);
			MRW_TRY(mrw_link_new(n->nic[i], p, &n->queues[k], &n->link[k]));
		}
	return MARROW_SUCCESS;
}

enum marrow_status mrw_network_open(struct mrw_network **network, const struct mrw_network_place *place, uint32_t count,
				    struct mrw_device *device, const struct mrw_arena *arena)
{
	struct mrw_network *n = calloc(1, sizeof *n);
	enum marrow_status status;
	*network = NULL;
	if (!n)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "out of memory for the network");
	n->place = *place;
	n->reach = *place->reach;
	n->nics = count;
	n->device = device;
	MRW_TRY_GOTO(open_nics(n, arena));
	n->links = (n->reach.nranks - 1) * n->nics;
	MRW_TRY_GOTO(place_rings(n, arena));
	MRW_TRY_GOTO(make_links(n));
	*network = n;
	return MARROW_SUCCESS;
fail:
	mrw_network_close(n);
	return status;
}

static enum marrow_status connect_all(struct mrw_network *n, const uint8_t *all, size_t bytes)
{
	uint32_t rank = n->place.rank;
	for (uint32_t p = 0; p < n->reach.nranks; p++) {
		const struct contact *theirs = (const struct contact *)(const void *)(all + p * bytes);
		if (!is_far(n, p))
			continue;
		n->far->peer[p].arena = theirs->arena;
		for (uint32_t i = 0; i < n->nics; i++) {
			uint32_t k = link_number(n, rank, p, i);
			MRW_TRY(mrw_link_connect(n->link[k], &theirs->to[link_number(n, p, rank, i)]));
			n->far->peer[p].rkey[i] = theirs->rkey[i];
			n->far->peer[p].queue[i] = &n->queues[k];
		}
	}
	return mrw_view_new(&n->view, n->device, n->far, n->queues, n->link, n->links, mrw_rings_room(&n->rings));
}

enum marrow_status mrw_network_connect(struct mrw_network *n, struct mrw_boot *boot)
{
	size_t bytes = (sizeof(struct contact) + n->links * sizeof(struct mrw_link_address) + 7) / 8 * 8;
	struct contact *mine = calloc(1, bytes);
	uint8_t *all = calloc(n->reach.nranks, bytes);
	enum marrow_status status;
	if (!mine || !all) {
		status = mrw_fail(MARROW_OUT_OF_MEMORY, "out of memory for the addresses of %u ranks", n->reach.nranks);
		goto fail;
	}
	mine->arena = n->region[0].address;
	for (uint32_t i = 0; i < n->nics; i++)
		mine->rkey[i] = n->region[i].rkey;
	for (uint32_t k = 0; k < n->links; k++)
		if (n->link[k])
			mrw_link_get_address(n->link[k], &mine->to[k]);
	MRW_TRY_GOTO(mrw_boot_allgather(boot, mine, all, (uint32_t)bytes));
	status = connect_all(n, all, bytes);
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

static enum marrow_status drain_queue(struct mrw_network *n, uint32_t k, uint64_t until_ms, struct mrw_boot *boot, char *text, size_t bytes)
{
	const struct timespec nap = {0, 50000};
	struct mrw_queue *q = &n->queues[k];
	char why[200];
	enum marrow_status status = mrw_view_fetch(&n->view, k, q);
	if (status != MARROW_SUCCESS) {
		snprintf(text, bytes, "rank %u cannot see what its kernels have sent to rank %u: %s", n->place.rank, q->peer, mrw_error_text());
		return status;
	}
	while (mrw_load_relaxed(&q->completed) != mrw_load_relaxed(&q->ready)) {
		status = mrw_link_pull(n->link[k]);
		if (status != MARROW_SUCCESS) {
			snprintf(text, bytes, "rank %u cannot see what its NIC has sent to rank %u: %s", n->place.rank, q->peer, mrw_error_text());
			return status;
		}
		if (!mrw_poll(q) || mrw_load_relaxed(&q->completed) == mrw_load_relaxed(&q->ready))
			break;
		if (boot && mrw_boot_has_spoken(boot, q->peer))
			return MARROW_SUCCESS;
		if (now_ms() > until_ms) {
			snprintf(text, bytes, "rank %u's NIC %s has not sent all to rank %u in time (%llu of %llu requests)", n->place.rank, n->names,
				 q->peer, (unsigned long long)mrw_load_relaxed(&q->completed), (unsigned long long)mrw_load_relaxed(&q->ready));
			return MARROW_TIMEOUT;
		}
		nanosleep(&nap, NULL);
	}
	if (mrw_load_relaxed(&q->failed) == 0)
		return MARROW_SUCCESS;
	mrw_network_describe(mrw_load_relaxed(&q->failed), why, sizeof why);
	snprintf(text, bytes, "rank %u's NIC %s gave up on rank %u before all was sent: %s", n->place.rank, n->names, q->peer, why);
	return MARROW_REMOTE_ERROR;
}

enum marrow_status mrw_network_drain(struct mrw_network *network, uint64_t ms, struct mrw_boot *boot, char *text, size_t bytes)
{
	uint64_t until_ms = now_ms() + ms;
	enum marrow_status first = MARROW_SUCCESS;
	for (uint32_t k = 0; k < network->links; k++) {
		char words[MRW_ERROR_TEXT_BYTES];
		enum marrow_status status = network->link[k] ? drain_queue(network, k, until_ms, boot, words, sizeof words) : MARROW_SUCCESS;
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
	for (uint32_t k = 0; network->link && k < network->links; k++)
		if (network->link[k] && mrw_view_fetch(&network->view, k, &network->queues[k]) != MARROW_SUCCESS)
			mrw_log(MRW_LOG_WARN, "rank %u: closing the queue pair to rank %u unseen: %s", network->place.rank, network->queues[k].peer,
				mrw_error_text());
	mrw_view_free(&network->view);
	for (uint32_t k = 0; network->link && k < network->links; k++)
		mrw_link_free(network->link[k]);
	for (uint32_t i = 0; i < network->nics; i++) {
		if (network->nic[i])
			mrw_region_free(network->nic[i], &network->region[i]);
		mrw_nic_close(network->nic[i]);
	}
	mrw_rings_free(&network->rings);
	free(network->link);
	free(network->queues);
	free(network->far);
	free(network);
}

const char *mrw_network_nic_name(const struct mrw_network *network)
{
	return network->names;
}

uint32_t mrw_network_nics(const struct mrw_network *network)
{
	return network->nics;
}

uint32_t mrw_network_queues(const struct mrw_network *network)
{
	uint32_t n = 0;
	for (uint32_t k = 0; k < network->links; k++)
		n += network->link[k] != NULL;
	return n;
}

uint32_t mrw_network_lane_queues(const struct mrw_network *network)
{
	uint32_t n = 0;
	for (uint32_t p = 0; p < network->reach.nranks; p++)
		if (is_far(network, p) && network->far->peer[p].path == MRW_PATH_NONE)
			n += network->nics;
	return n;
}

uint32_t mrw_network_queue_limit(const struct mrw_network *network)
{
	return network->max_queues;
}

const char *mrw_network_trouble(const struct mrw_network *network)
{
	const char *trouble = NULL;
	for (uint32_t i = 0; i < network->nics && !trouble; i++)
		trouble = mrw_nic_trouble(network->nic[i]);
	return trouble;
}

void mrw_network_describe(uint64_t failed, char *text, size_t bytes)
{
	uint32_t syndrome = mrw_fault_syndrome(failed);
	snprintf(text, bytes, "%s (syndrome 0x%02x, vendor 0x%02x, request %u)", mrw_syndrome_text(syndrome), syndrome,
		 mrw_fault_vendor(failed), mrw_fault_index(failed));
}
