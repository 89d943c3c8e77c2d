/* poll.h - what has been executed. Any thread may look at any time. */
#ifndef MRW_POLL_H
#define MRW_POLL_H

#include "cqe.h"
#include "queue.h"

#include "device/stall.h"

/* The first error stays; those behind it are flushed requests. done: a count of completed WQEBBs not above the failed one. */
MRW_DEV_CALL void mrw_poll_failed(struct mrw_queue *q, const uint8_t *cqe, uint32_t tail, uint64_t done)
{
	uint64_t index = done + ((mrw_cqe_counter(tail) - (uint32_t)done) & 0xffff);
	(void)mrw_compare_swap_ordered(&q->failed, 0, mrw_queue_fault(mrw_cqe_syndromes(cqe), index));
}

/* One entry, overwritten by each completion. Threads race freely: who was overtaken between the two loads and the swap changes
 * nothing, and who was not cannot have misread 16 bits, for at most slots requests are under way. */
MRW_DEV bool mrw_poll_collapsed(struct mrw_queue *q)
{
	uint64_t done = mrw_load_relaxed(&q->completed);
	mrw_observed(&q->completed); /* the entry is read after the count */
	uint32_t tail = mrw_cqe_peek(q->cq);
	if (mrw_cqe_opcode(tail) == MRW_CQE_INVALID)
		return true;
	if (!mrw_cqe_is_error(tail) && ((mrw_cqe_counter(tail) + 1 - (uint32_t)done) & 0xffff) == 0)
		return true;
	tail = mrw_cqe_tail(q->cq);
	if (mrw_cqe_is_error(tail)) {
		mrw_poll_failed(q, q->cq, tail, done);
		return false;
	}
	uint32_t news = (mrw_cqe_counter(tail) + 1 - (uint32_t)done) & 0xffff;
	mrw_stall(516);
	if (news != 0 && news <= q->slots)
		(void)mrw_compare_swap_ordered(&q->completed, done, done + news); /* partner: mrw_post_reserve(), mrw_poll_done() */
	return true;
}

/* A ring of entries that one thread at a time takes; the others need not wait for it. */
MRW_DEV_CALL bool mrw_poll_owned(struct mrw_queue *q)
{
	if (mrw_compare_swap_ordered(&q->polling, 0, 1) != 0)
		return true;
	uint64_t from = mrw_load_relaxed(&q->consumed), at = from, done = mrw_load_relaxed(&q->completed);
	bool good = true;
	for (; good && at - from < q->cq_slots; at++) {
		const uint8_t *cqe = q->cq + (at & (q->cq_slots - 1)) * MRW_CQE_BYTES;
		if (!mrw_cqe_arrived(mrw_cqe_peek(cqe), at, q->cq_slots))
			break;
		uint32_t tail = mrw_cqe_tail(cqe);
		good = !mrw_cqe_is_error(tail);
		if (good)
			done += (mrw_cqe_counter(tail) + 1 - (uint32_t)done) & 0xffff;
		else
			mrw_poll_failed(q, cqe, tail, done);
	}
	mrw_stall(517);
	if (at != from) {
		mrw_store_relaxed(&q->consumed, at);
		mrw_store_record(q->cq_record, mrw_be32((uint32_t)(at & 0xffffff))); /* partner: the NIC may write over them */
		mrw_publish(&q->completed, done); /* partner: mrw_post_reserve(), mrw_poll_done() */
	}
	mrw_publish(&q->polling, 0); /* partner: the next one's swap */
	return good;
}

/* Looks at the completion queue once and brings q->completed and q->failed up to date. True while the queue is good. */
MRW_DEV bool mrw_poll(struct mrw_queue *q)
{
	if (mrw_load_relaxed(&q->failed) != 0)
		return false;
	return q->cq_record ? mrw_poll_owned(q) : mrw_poll_collapsed(q);
}

MRW_DEV bool mrw_poll_reached(const struct mrw_queue *q, uint64_t index)
{
	return (int64_t)(mrw_load_relaxed(&q->completed) - index) > 0;
}

/* True once the request that begins at WQEBB number index and all before it are executed. */
MRW_DEV bool mrw_poll_done(struct mrw_queue *q, uint64_t index)
{
	if (!mrw_poll_reached(q, index)) {
		(void)mrw_poll(q);
		if (!mrw_poll_reached(q, index))
			return false;
	}
	mrw_observed(&q->completed); /* what the NIC wrote for it: read data, old values */
	return true;
}

#endif
