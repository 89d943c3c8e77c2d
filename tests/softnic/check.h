/* check.h - what the model holds against the software above it.
 *
 * A failed check is counted in the fabric (the launcher sums them up, whatever became of the process), printed with all that is
 * known, and ends the process if MARROW_SOFTNIC_CHECKS says "abort". "-name" in that list turns one check off: the model then still
 * answers as a NIC would (an error completion, a refused command), it only does not call it a fault of the program. */
#ifndef SN_CHECK_H
#define SN_CHECK_H

#include <stddef.h>
#include <stdint.h>

/* X(id, "name", what a failure means). */
#define SN_CHECK_LIST(X) \
	X(WQE_INDEX, "wqe_index", "a WQE carries another index than its place: stale, never written, or visible too late") \
	X(WQE_QPN, "wqe_qpn", "a WQE carries the number of another queue pair") \
	X(WQE_SIZE, "wqe_size", "ds does not fit the segments, or the WQE reaches past the producer index") \
	X(WQE_RESERVED, "wqe_reserved", "bits are set that must be zero") \
	X(WQE_OPCODE, "wqe_opcode", "an opcode or modifier that the model does not have, or not for this kind of queue pair") \
	X(RECORD_RANGE, "record_range", "a doorbell record has bits above the low 16") \
	X(RECORD_BACKWARDS, "record_backwards", "a doorbell record went back") \
	X(RING_OVERRUN, "ring_overrun", "the producer is further ahead of the last reported completion than the ring is long") \
	X(DOORBELL_QP, "doorbell_qp", "a doorbell names no queue pair, or one that belongs to another UAR page") \
	X(DOORBELL_STATE, "doorbell_state", "a doorbell for a queue pair that is not ready to send") \
	X(LOCAL_ACCESS, "local_access", "local key, protection domain, bounds or access right") \
	X(REMOTE_ACCESS, "remote_access", "remote key, protection domain, bounds or access right") \
	X(ATOMIC_ALIGNMENT, "atomic_alignment", "an atomic on an address that is no multiple of its size") \
	X(CQ_OVERRUN, "cq_overrun", "a completion found its queue full") \
	X(SLOT_REWRITTEN, "slot_rewritten", "a slot changed between the NIC's look at it and its completion") \
	X(SOURCE_CHANGED, "source_changed", "the source of a message changed before its completion") \
	X(ADDRESS, "address", "a queue pair is connected to a GID, LID or MAC that no NIC of the fabric has")

enum sn_check {
#define SN_X(id, name, meaning) SN_CHECK_##id,
	SN_CHECK_LIST(SN_X)
#undef SN_X
	SN_CHECK_COUNT
};

struct sn_qp;

const char *sn_check_name(enum sn_check check);
const char *sn_check_meaning(enum sn_check check);
/* Reads MARROW_SOFTNIC_CHECKS; prints and ignores what it does not know. */
void sn_check_setup(const char *list);
/* Where this process counts: an array of SN_CHECK_COUNT words in the fabric. */
void sn_check_count_in(_Atomic uint32_t *counters);
/* Counts, prints "softnic: check NAME failed: HOST DEVICE qp ...: text", and the bytes of the WQE if there are any. qp may be NULL. */
void sn_check_failed(enum sn_check check, const struct sn_qp *qp, const void *wqe, size_t wqe_bytes, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

#endif
