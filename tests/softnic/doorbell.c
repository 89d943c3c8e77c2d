#include "doorbell.h"
#include "check.h"
#include "context.h"
#include "dma.h"
#include "fault.h"
#include "trace.h"
#include "uar.h"

#include <endian.h>

static uint64_t value_of(enum sn_fault fault, const struct sn_qp *qp)
{
	return sn_fault_value(fault, sn_context_host(qp->context), sn_context_nic(qp->context));
}

static void ring(struct sn_qp *qp, uint64_t now)
{
	uint64_t late = value_of(SN_FAULT_LATE, qp);

	if (!qp->rung && late)
		qp->look_ns = now + sn_fault_dice(SN_FAULT_LATE, sn_qp_identity(qp), qp->executed) % (late * 1000 + 1);
	qp->rung = true;
}

void sn_doorbell(uint32_t uar, uint32_t offset, uint32_t first, uint32_t second)
{
	struct sn_qp *qp = sn_qp_find(second >> 8), *other;
	uint64_t now = sn_now_ns();

	if (!qp) {
		sn_check_failed(SN_CHECK_DOORBELL_QP, NULL, NULL, 0, "doorbell 0x%08x 0x%08x at UAR %u + 0x%x names no queue pair", first, second,
				uar, offset);
		return;
	}
	sn_trace("doorbell", qp, first >> 8 & 0xffff, 0, 0, "uar=%u+%x", uar, offset);
	atomic_fetch_add_explicit(&qp->stats->doorbells, 1, memory_order_relaxed);
	if (qp->uar != uar || qp->recordless != (offset == SN_UAR_RECORDLESS)) {
		sn_check_failed(SN_CHECK_DOORBELL_QP, qp, NULL, 0, "rung at UAR %u + 0x%x, the queue pair has UAR %u and %s", uar, offset, qp->uar,
				qp->recordless ? "no record" : "a record");
		return;
	}
	if (qp->state != SN_QP_RTS && qp->state != SN_QP_SQD && qp->state != SN_QP_ERROR) {
		sn_check_failed(SN_CHECK_DOORBELL_STATE, qp, NULL, 0, "rung in state %s", sn_qp_state_name(qp->state));
		return;
	}
	if (value_of(SN_FAULT_DROP_DOORBELL, qp) > sn_fault_dice(SN_FAULT_DROP_DOORBELL, sn_qp_identity(qp), first) % 100) {
		sn_trace("lost", qp, first >> 8 & 0xffff, 0, 0, "doorbell dropped");
		return;
	}
	if (qp->recordless)
		qp->producer = (uint16_t)(first >> 8);
	ring(qp, now);
	/* Doorbells that this one has replaced in the register. */
	for (uint32_t n = 0; (other = sn_qp_nth(n)); n++)
		if (other != qp && other->uar == uar && (other->state == SN_QP_RTS || other->state == SN_QP_ERROR) && !other->recordless &&
		    be32toh(sn_dma_load32(&other->record[1])) != other->producer)
			ring(other, now);
}

/* Takes the record's index over, if it makes sense. */
static void read_record(struct sn_qp *qp)
{
	uint32_t record;
	uint16_t ahead;

	record = be32toh(sn_dma_load32(&qp->record[1]));
	if (record > 0xffff)
		sn_check_failed(SN_CHECK_RECORD_RANGE, qp, NULL, 0, "the record holds 0x%x", record);
	ahead = (uint16_t)(record - qp->producer);
	if (ahead == 0)
		return;
	if (ahead > 0x8000) {
		sn_check_failed(SN_CHECK_RECORD_BACKWARDS, qp, NULL, 0, "the record holds %u, it held %u", record & 0xffff, qp->producer);
		return;
	}
	qp->producer = (uint16_t)record;
}

bool sn_doorbell_look(struct sn_qp *qp, uint64_t now)
{
	uint16_t before = qp->looked, ahead;

	if (!(qp->rung && now >= qp->look_ns) && !(sn_fault_any(SN_FAULT_EAGER) && value_of(SN_FAULT_EAGER, qp)))
		return false;
	qp->rung = false;
	if (!qp->recordless)
		read_record(qp);
	qp->looked = qp->producer;
	ahead = (uint16_t)(qp->producer - qp->reported);
	if (qp->producer != before && ahead > qp->sq_blocks)
		sn_check_failed(SN_CHECK_RING_OVERRUN, qp, NULL, 0, "producer %u, last reported completion before %u: %u blocks in a ring of %u",
				qp->producer, qp->reported, ahead, qp->sq_blocks);
	return qp->producer != before;
}
