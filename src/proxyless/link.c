/* link.c - a queue pair to one peer, from its making to its end. */
#include "inside.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define DRAIN_NS 1000000000ull
#define TRIAL_DRAIN_NS 50000000ull

void mrw_pages_around(void *base, uint64_t bytes, void **first, uint64_t *whole)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = (uint64_t)(uintptr_t)base / page * page;

	*first = (uint8_t *)base - ((uint64_t)(uintptr_t)base - start);
	*whole = ((uint64_t)(uintptr_t)base + bytes - start + page - 1) / page * page;
}

static enum marrow_status make(struct mrw_link *link)
{
	struct mrw_nic *nic = link->nic;
	char why[MRW_WHY_BYTES];

	if (nic->devx) {
		link->devx = mrw_devx_make(link, why);
		if (link->devx)
			return MARROW_SUCCESS;
		if (nic->config.queues == MRW_QUEUES_DEVX || nic->place.umem)
			return mrw_fail(MARROW_SYSTEM_ERROR, "a queue pair for rank %u: %s", link->queue->peer, why);
		mrw_log(MRW_LOG_INFO, "no queue pair by device commands, verbs make it: %s", why);
		/* Those made so far stay as they are. */
		if (!nic->links) {
			nic->devx = false;
			nic->info.devx = 0;
		}
	}
	return mrw_verbs_make(link);
}

enum marrow_status mrw_link_new(struct mrw_nic *nic, uint32_t peer_rank, struct mrw_queue *queue, struct mrw_link **out)
{
	struct mrw_link *link = calloc(1, sizeof *link);
	enum marrow_status status;

	*out = NULL;
	memset(queue, 0, sizeof *queue);
	if (!link)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for a link to rank %u", peer_rank);
	link->nic = nic;
	link->queue = queue;
	queue->peer = peer_rank;
	/* Packets of an earlier queue pair of the same number, still on their way, should not fit. */
	if (getrandom(&link->psn, sizeof link->psn, 0) != sizeof link->psn)
		link->psn = (uint32_t)mrw_clock_ns();
	link->psn &= 0xffffff;
	status = make(link);
	if (status != MARROW_SUCCESS) {
		free(link);
		return status;
	}
	queue->qpn = link->qpn;
	nic->links++;
	*out = link;
	return MARROW_SUCCESS;
}

void mrw_link_get_address(const struct mrw_link *link, struct mrw_link_address *address)
{
	const struct mrw_nic_info *info = &link->nic->info;

	memset(address, 0, sizeof *address);
	address->qpn = link->qpn;
	address->psn = link->psn;
	address->lid = info->lid;
	address->mtu = info->mtu;
	address->infiniband = info->infiniband;
	address->port = info->port;
	memcpy(address->gid, info->gid, sizeof address->gid);
	snprintf(address->device, sizeof address->device, "%.*s", (int)sizeof address->device - 1, info->name);
}

void mrw_link_get_memory(const struct mrw_link *link, struct mrw_link_memory *memory)
{
	*memory = link->memory;
}

uint32_t mrw_path_flow(const struct mrw_link *link, const struct mrw_path *path)
{
	return ((link->qpn ^ path->qpn * 7) & 0x3fff) | 0x4000;
}

enum marrow_status mrw_link_connect(struct mrw_link *link, const struct mrw_link_address *peer)
{
	struct mrw_nic *nic = link->nic;
	const struct mrw_nic_info *info = &nic->info;
	struct mrw_path path = {.qpn = peer->qpn, .psn = peer->psn & 0xffffff, .lid = peer->lid};
	uint32_t rank = link->queue->peer, mtu = peer->mtu < info->mtu ? peer->mtu : info->mtu;

	if (link->connected)
		return mrw_fail(MARROW_INVALID_USAGE, "%s: the link to rank %u is connected already", info->name, rank);
	if (!peer->infiniband != !info->infiniband)
		return mrw_fail(
			MARROW_MISMATCH,
			"%s port %u is %s, but rank %u's %.31s port %u is %s: name devices of one kind on all hosts",
			info->name, info->port, info->infiniband ? "InfiniBand" : "RoCE", rank, peer->device,
			peer->port, peer->infiniband ? "InfiniBand" : "RoCE");
	if (mtu < 256 || mtu > 4096 || mtu & (mtu - 1))
		return mrw_fail(MARROW_INTERNAL_ERROR, "%s: rank %u says its MTU is %u", info->name, rank, peer->mtu);
	path.mtu = (enum ibv_mtu)(__builtin_ctz(mtu) - 7);
	/* The first half of a GID is its subnet. */
	path.global = !info->infiniband || memcmp(peer->gid, info->gid, 8) != 0;
	memcpy(path.gid, peer->gid, sizeof path.gid);
	MRW_TRY(link->devx ? mrw_devx_connect(link, &path) : mrw_verbs_connect(link, &path));
	link->connected = true;
	mrw_log(MRW_LOG_DEBUG, "%s port %u: queue pair 0x%x (%u slots, %s%s) to rank %u's %.31s 0x%x, MTU %u", info->name,
		info->port, link->qpn, link->queue->slots, link->devx ? "DEVX" : "verbs",
		link->placed ? ", rings in GPU memory" : "", rank, peer->device, peer->qpn,
		mtu);
	return MARROW_SUCCESS;
}

/* Is it the last request that was rung? It may have two WQEBBs. */
static bool is_last(const struct mrw_queue *q, uint32_t counter)
{
	return (((uint32_t)q->rung - counter - 1) & 0xffff) <= 1;
}

/* Has the last request completed, or been flushed? Reads entries only: nobody else looks any more. */
static bool is_drained(const struct mrw_queue *q, uint64_t *consumed)
{
	uint32_t tail = mrw_cqe_tail(q->cq);

	if (q->rung == q->completed || (q->failed && is_last(q, mrw_fault_index(q->failed))))
		return true;
	if (!q->cq_record)
		return mrw_cqe_opcode(tail) != MRW_CQE_INVALID && is_last(q, mrw_cqe_counter(tail));
	for (;; (*consumed)++) {
		tail = mrw_cqe_tail(q->cq + (*consumed & (q->cq_slots - 1)) * MRW_CQE_BYTES);
		if (!mrw_cqe_arrived(tail, *consumed, q->cq_slots))
			return false;
		if (is_last(q, mrw_cqe_counter(tail)))
			return true;
	}
}

static void drain(struct mrw_link *link)
{
	uint64_t consumed = link->queue->consumed, end = mrw_clock_ns() + (link->trial ? TRIAL_DRAIN_NS : DRAIN_NS);
	enum mrw_log_level level = link->trial ? MRW_LOG_DEBUG : MRW_LOG_WARN;

	if (link->queue->rung == link->queue->completed)
		return;
	for (;;) {
		if (mrw_link_pull(link) != MARROW_SUCCESS) {
			mrw_log(level, "a queue pair goes unseen: %s", mrw_error_text());
			return;
		}
		if (is_drained(link->queue, &consumed))
			return;
		if (mrw_clock_ns() > end) {
			mrw_log(level, "%s: queue pair 0x%x to rank %u still has requests under way after %s in the error state",
				link->nic->info.name, link->qpn, link->queue->peer, link->trial ? "50 ms" : "a second");
			return;
		}
		mrw_sleep_ns(20000);
	}
}

void mrw_link_free(struct mrw_link *link)
{
	if (!link)
		return;
	if (link->connected) {
		if (link->devx)
			mrw_devx_stop(link);
		else
			mrw_verbs_stop(link);
		drain(link);
	}
	if (link->devx)
		mrw_devx_free(link);
	else
		mrw_verbs_free(link);
	link->nic->links--;
	free(link);
}
