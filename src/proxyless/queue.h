/* queue.h - one queue pair as kernels see it. post.h gives it work, poll.h sees what became of it. */
#ifndef MRW_QUEUE_H
#define MRW_QUEUE_H

#include "device/target.h"

/* One RC queue pair as kernels see it; in memory that they and the host can touch, 64-byte aligned. Constant after connect but for
 * the counters. */
struct mrw_queue {
	uint8_t *sq;              /* ring of slots WQEBBs */
	uint32_t *record;         /* doorbell record of the send queue: one big endian word, free-running WQEBB count & 0xffff */
	uint64_t *doorbell;       /* UAR register */
	uint8_t *cq;              /* cq_slots entries of 64 bytes */
	uint32_t *cq_record;      /* consumer index record; NULL where the queue is collapsed */
	uint32_t qpn;
	uint32_t slots;           /* a power of two, at most 32768 */
	uint32_t cq_slots;        /* 1: collapsed */
	uint32_t peer;            /* rank at the other end, for records */
	uint64_t pad0;
	uint64_t reserved;        /* WQEBBs handed out */
	uint64_t ready;           /* WQEBBs written, without a gap */
	uint64_t rung;            /* WQEBBs the NIC was told of */
	uint64_t ringing;         /* calls that want a doorbell since somebody rings; 0: nobody does */
	uint64_t completed;       /* WQEBBs known to be executed; one short while the last completed request has two */
	uint64_t consumed;        /* CQEs taken; not collapsed only */
	uint64_t polling;         /* 1 while somebody polls; not collapsed only */
	uint64_t failed;          /* 0, or mrw_queue_fault(): the queue pair is in error for good */
};
MRW_STATIC_ASSERT(sizeof(struct mrw_queue) == 128, "constants in one line, counters in the next");

/* failed: syndrome | vendor syndrome << 8 | 1 << 16 | WQEBB index << 32. */
MRW_PURE uint64_t mrw_queue_fault(uint32_t syndromes, uint64_t index)
{
	return syndromes | 1u << 16 | index << 32;
}
MRW_PURE uint32_t mrw_fault_syndrome(uint64_t failed) { return (uint32_t)(failed & 0xff); }
MRW_PURE uint32_t mrw_fault_vendor(uint64_t failed) { return (uint32_t)(failed >> 8 & 0xff); }
MRW_PURE uint32_t mrw_fault_index(uint64_t failed) { return (uint32_t)(failed >> 32); }

#endif
