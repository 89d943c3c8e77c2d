/* queue_memory.c - queues in memory that the host cannot touch: where each lies there, and what the host sees of them. */
#include "inside.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ADAPTER_PAGE 4096ull

uint64_t mrw_nic_queue_bytes(const struct mrw_nic *nic)
{
	return 2 * mrw_block_bytes(nic);
}

static struct mlx5dv_devx_umem *register_memory(const struct mrw_nic *nic, const struct mrw_queue_memory *m)
{
	struct mrw_umem_in in = {.address = (void *)(uintptr_t)m->dmabuf_offset,
				 .bytes = m->bytes,
				 .access = IBV_ACCESS_LOCAL_WRITE,
				 .page_sizes = ~(ADAPTER_PAGE - 1),
				 .mask = MRW_UMEM_DMABUF,
				 .dmabuf_fd = m->dmabuf_fd};

	if (m->dmabuf_fd < 0)
		return nic->verbs->umem_reg(nic->context, m->base, m->bytes, IBV_ACCESS_LOCAL_WRITE);
	return nic->verbs->umem_reg_in(nic->context, &in);
}

static enum marrow_status not_registered(const struct mrw_nic *nic, const struct mrw_queue_memory *m)
{
	bool dmabuf = m->dmabuf_fd >= 0;

	return mrw_fail_errno(MARROW_SYSTEM_ERROR, "%s: registering %llu bytes for rings at %p by %s failed%s", nic->info.name,
			      (unsigned long long)m->bytes, (void *)m->base, dmabuf ? "dma-buf" : "address",
			      dmabuf ? " (rings take a newer kernel and rdma-core for that than the arena does)"
				     : " (GPU memory needs the kernel module nvidia-peermem for that)");
}

static enum marrow_status place(struct mrw_nic *nic, const struct mrw_queue_memory *m)
{
	struct mrw_place *p = &nic->place;

	p->parts = (uint32_t)(m->bytes / mrw_nic_queue_bytes(nic));
	p->taken = calloc(p->parts ? p->parts : 1, sizeof *p->taken);
	p->pulled = malloc(mrw_ring_bytes(nic));
	if (!p->taken || !p->pulled)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "%s: out of memory for the places of %u queue pairs", nic->info.name, p->parts);
	p->umem = register_memory(nic, m);
	if (!p->umem)
		return not_registered(nic, m);
	p->memory = *m;
	p->memory.dmabuf_fd = -1;
	return MARROW_SUCCESS;
}

static void displace(struct mrw_nic *nic)
{
	struct mrw_place *p = &nic->place;

	if (p->umem && nic->verbs->umem_dereg(p->umem))
		mrw_log(MRW_LOG_WARN, "%s: deregistering %llu bytes for rings failed: %s", nic->info.name, (unsigned long long)p->memory.bytes,
			strerror(errno));
	free(p->taken);
	free(p->pulled);
	memset(p, 0, sizeof *p);
}

enum marrow_status mrw_nic_place_queues(struct mrw_nic *nic, const struct mrw_queue_memory *memory)
{
	enum marrow_status status;

	displace(nic);
	if (!memory)
		return MARROW_SUCCESS;
	if (!nic->devx)
		return mrw_fail(MARROW_UNSUPPORTED, "%s: queues are made by verbs there (no DEVX), and their rings are libmlx5's, in host memory",
				nic->info.name);
	if (memory->dmabuf_fd >= 0 && !nic->verbs->umem_reg_in)
		return mrw_fail(MARROW_UNSUPPORTED, "%s: this libmlx5 has no mlx5dv_devx_umem_reg_ex: it cannot have rings by dma-buf", nic->info.name);
	status = place(nic, memory);
	if (status != MARROW_SUCCESS)
		displace(nic);
	return status;
}

uint8_t *mrw_place_take(struct mrw_nic *nic)
{
	for (uint32_t i = 0; i < nic->place.parts; i++)
		if (!nic->place.taken[i]) {
			nic->place.taken[i] = true;
			return nic->place.memory.base + i * mrw_nic_queue_bytes(nic);
		}
	return NULL;
}

void mrw_place_give(struct mrw_nic *nic, const uint8_t *part)
{
	nic->place.taken[(uint64_t)(part - nic->place.memory.base) / mrw_nic_queue_bytes(nic)] = false;
}

static enum marrow_status copy(const struct mrw_link *link, void *to, const void *from, uint64_t bytes)
{
	const struct mrw_queue_memory *m = &link->nic->place.memory;
	enum marrow_status status = m->copy(m->arg, to, from, bytes);

	if (status == MARROW_SUCCESS)
		return status;
	return mrw_fail(status, "%s: copying %llu bytes %s the rings of queue pair 0x%x to rank %u failed: %s", link->nic->info.name,
			(unsigned long long)bytes, (const uint8_t *)from >= m->base && (const uint8_t *)from < m->base + m->bytes ? "from" : "to",
			link->qpn, link->queue->peer, mrw_error_text());
}

/* In the order in which a kernel's stores become visible: requests before the record that covers them, all before the doorbell. */
enum marrow_status mrw_link_push(struct mrw_link *link)
{
	uint64_t ring = mrw_ring_bytes(link->nic), block = mrw_block_bytes(link->nic);

	if (!link->placed || !link->bell)
		return MARROW_SUCCESS;
	MRW_TRY(copy(link, link->placed + block + ring, link->cq_block + ring, 8));
	MRW_TRY(copy(link, link->placed, link->sq_block, ring));
	MRW_TRY(copy(link, link->placed + ring, link->sq_block + ring, 8));
	mrw_doorbell(link->uar->reg_addr, link->bell);
	link->bell = 0;
	return MARROW_SUCCESS;
}

/* The NIC may be writing an entry meanwhile, and nothing says which of its bytes a copy sees first. Its last word lands last: who takes
 * that word from a first copy and the rest from a second one has whole entries. */
enum marrow_status mrw_link_pull(struct mrw_link *link)
{
	uint8_t *before = link->nic->place.pulled;
	uint64_t bytes = link->nic->config.collapsed ? MRW_CQE_BYTES : mrw_ring_bytes(link->nic);
	const uint8_t *theirs;

	if (!link->placed)
		return MARROW_SUCCESS;
	theirs = link->placed + mrw_block_bytes(link->nic);
	MRW_TRY(copy(link, before, theirs, bytes));
	MRW_TRY(copy(link, link->cq_block, theirs, bytes));
	for (uint64_t at = MRW_CQE_TAIL_AT; at < bytes; at += MRW_CQE_BYTES)
		memcpy(link->cq_block + at, before + at, sizeof(uint32_t));
	return MARROW_SUCCESS;
}

bool mrw_link_is_placed(const struct mrw_link *link)
{
	return link->placed != NULL;
}

void mrw_link_get_queue(const struct mrw_link *link, struct mrw_queue *queue)
{
	uint64_t ring = mrw_ring_bytes(link->nic), block = mrw_block_bytes(link->nic);

	*queue = *link->queue;
	if (!link->placed)
		return;
	queue->sq = link->placed;
	queue->record = (uint32_t *)(void *)(link->placed + ring) + 1; /* the first is the receive queue's */
	queue->doorbell = link->uar->reg_addr;
	queue->cq = link->placed + block;
	queue->cq_record = queue->cq_record ? (uint32_t *)(void *)(link->placed + block + ring) : NULL;
}
