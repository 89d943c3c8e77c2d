/* post.h - a send queue that many teams share, written by the kernels themselves.
 *
 * Four phases: reserve slots, write the work requests (wqe.h), mark them ready, ring. reserve hands out ranges without a lock; ready
 * advances in the order of the ranges; whoever finds something ready that was not rung yet writes the doorbell record and the doorbell
 * for all of it. Counters run freely (64 bits); the NIC sees their low 16 bits.
 *
 * Order, whether the ring lies in host memory or in the GPU's own (nic.h). Requests are plain stores. Behind them are fences of system scope: in
 * mrw_publish() of ready, which whoever rings acquires, and before the stores of record and doorbell. Such a fence ends when the stores before it, and
 * what was acquired, are performed for every observer of the system: in host memory, or in the GPU's L2, where reads of a NIC over PCIe end, too. So
 * the NIC finds behind a record the requests that it counts, and behind a doorbell the record. In GPU memory less of it crosses PCIe, and no more
 * order is needed.
 *
 * Nothing here waits for the NIC: mrw_post_reserve() says false when the ring is full, and the caller decides how long to go on asking
 * (its waits are bounded and named). Between a reserve that succeeded and its ready there must be no wait. */
#ifndef MRW_POST_H
#define MRW_POST_H

#include "poll.h"
#include "wqe.h"

#include "device/stall.h"

#define MRW_POST_SPINS 64u /* host target: polls before the core is given away */

/* Takes n consecutive WQEBBs (n < slots), the first in *first. False: the ring is full (completions were looked for) or the queue has
 * failed. */
MRW_DEV bool mrw_post_reserve(struct mrw_queue *q, uint32_t n, uint64_t *first)
{
	bool looked = false;
	for (;;) {
		if (mrw_load_relaxed(&q->failed) != 0)
			return false;
		uint64_t at = mrw_load_relaxed(&q->reserved);
		/* Signed: completed may have overtaken a reserved that was read a while ago. */
		if ((int64_t)(at + n - mrw_load_relaxed(&q->completed)) > (int64_t)q->slots) {
			if (looked || !mrw_poll(q))
				return false;
			looked = true;
			continue;
		}
		mrw_observed(&q->completed); /* the NIC has read what lay in these slots */
		if (mrw_compare_swap(&q->reserved, at, at + n) == at) {
			*first = at;
			return true;
		}
	}
}

/* The slot of WQEBB number index. */
MRW_DEV uint8_t *mrw_post_slot(const struct mrw_queue *q, uint64_t index)
{
	return q->sq + (index & (q->slots - 1)) * MRW_WQEBB_BYTES;
}

/* Tells the NIC of all that is ready.
 *
 * One caller at a time writes record and doorbell, so the record never runs backwards. The others leave a mark in ringing and go: the
 * one who rings goes back to zero only if no mark came since it last looked at ready. A mark is an ordered read-modify-write behind the
 * publish of ready, so who sees the mark sees that ready: no doorbell is lost, and none needs a store-load fence. */
MRW_DEV void mrw_post_ring(struct mrw_queue *q)
{
	uint64_t marks = 1, seen;
	if (mrw_fetch_add(&q->ringing, 1) != 0)
		return;
	do {
		uint64_t ready = mrw_load_relaxed(&q->ready);
		mrw_observed(&q->ready); /* all requests below ready, whoever wrote them */
		if (ready != mrw_load_relaxed(&q->rung)) {
			mrw_store_record(q->record, mrw_be32((uint32_t)(ready & 0xffff)));
			mrw_stall(512);
			mrw_doorbell(q->doorbell, (uint64_t)mrw_be32(q->qpn << 8) << 32 | mrw_be32((uint32_t)(ready & 0xffff) << 8));
			mrw_store_relaxed(&q->rung, ready);
		}
		mrw_stall(513);
		seen = marks;
		marks = mrw_compare_swap_ordered(&q->ringing, seen, 0);
	} while (marks != seen);
}

/* The n WQEBBs from first on are written (by this thread, or behind a team sync): they, and the payload they name, are for the NIC. Then
 * rings, unless somebody else does so for us. Waits only for threads that are between their reserve and ready. The last request of the
 * range is signalled: completions are counted by it. */
MRW_DEV void mrw_post_ready(struct mrw_queue *q, uint64_t first, uint32_t n)
{
	mrw_stall(514);
	for (uint32_t spins = 0; mrw_load_relaxed(&q->ready) != first; spins++)
		mrw_pause(spins, MRW_POST_SPINS);
	mrw_observed(&q->ready); /* hands on what the ranges before published */
	mrw_publish(&q->ready, first + n); /* partners: the next range, and who rings */
	mrw_stall(515);
	mrw_post_ring(q);
}

#endif
