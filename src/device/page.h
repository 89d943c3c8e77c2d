/* page.h - the status page of a rank: why its communicator is dead, as kernels tell the host, and the host them. */
#ifndef MRW_PAGE_H
#define MRW_PAGE_H

#include "wire.h"

/* Why a communicator is dead. */
enum mrw_fault_kind {
	MRW_FAULT_NONE,
	MRW_FAULT_TIMEOUT,        /* culprit did not arrive in time */
	MRW_FAULT_MISMATCH,       /* culprit made another call */
	MRW_FAULT_ABORT,          /* origin aborted */
	MRW_FAULT_PEER_LOST,      /* culprit's process went away */
	MRW_FAULT_CONCURRENT,     /* two kernels of origin's communicator ran at once */
	MRW_FAULT_PROOF,          /* the path between origin and culprit loses data */
	MRW_FAULT_NIC,            /* origin's NIC gave up on its queue pair to culprit (seen: mrw_queue.failed); culprit is origin: the NIC failed */
	MRW_FAULT_REPORTED        /* origin heard by the bootstrap that culprit found a fault */
};

/* Poison word: kind | culprit << 8 | origin << 24 | low bits of seq << 40. */
MRW_PURE uint64_t mrw_cause(enum mrw_fault_kind kind, uint32_t culprit, uint32_t origin, uint32_t seq)
{
	return (uint64_t)kind | (uint64_t)(culprit & 0xffff) << 8 | (uint64_t)(origin & 0xffff) << 24 |
	       (uint64_t)(seq & 0xffffff) << 40;
}
MRW_PURE uint32_t mrw_cause_kind(uint64_t cause) { return (uint32_t)(cause & 0xff); }
MRW_PURE uint32_t mrw_cause_culprit(uint64_t cause) { return (uint32_t)(cause >> 8 & 0xffff); }
MRW_PURE uint32_t mrw_cause_origin(uint64_t cause) { return (uint32_t)(cause >> 24 & 0xffff); }

/* What a wait waits for, for the record. */
enum mrw_wait_for { MRW_WAIT_PACKET, MRW_WAIT_ROUND, MRW_WAIT_OPENING, MRW_WAIT_PROOF, MRW_WAIT_SEND, MRW_WAIT_LINE, MRW_WAIT_CHUNK };

/* One wait or fault, as the kernel writes it into the page. */
struct mrw_record {
	uint64_t state;           /* 0 empty, 1 complete: published by the kernel; partner: the host's acquire load */
	uint32_t kind;            /* enum mrw_fault_kind; NONE in a note */
	uint32_t wait_for;        /* enum mrw_wait_for */
	uint32_t channel, peer;   /* who is waited for; culprit of a fault */
	uint64_t expected, seen;
	uint64_t waited_ns;
	uint64_t cause;           /* poison that was found, if the fault is a peer's */
	struct mrw_call mine, theirs; /* theirs.hash is 0 where unknown */
};

/* The page: pinned host memory that kernels of this rank, its host threads and (0600) other processes of the user see. */
#define MRW_PAGE_MAGIC 0x776f7272616d0001ull
struct mrw_page {
	uint64_t magic;
	uint32_t pid, rank, nranks, wire_version;
	/* 0, or mrw_cause() to leave for. Writer: host (abort is this store). Reader: slow waits. */
	uint64_t abort;
	/* 1: the trial at init saw a line torn. Writer: this rank's kernel. Reader: its host thread, at init. */
	uint64_t torn;
	uint64_t pad[3];
	struct mrw_record fault;  /* the first fault: written once */
	struct mrw_record note;   /* the last long wait: overwritten */
};
MRW_STATIC_ASSERT(sizeof(struct mrw_page) <= 4096, "one page");

#endif
