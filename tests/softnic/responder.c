#include "responder.h"
#include "check.h"
#include "context.h"
#include "dma.h"
#include "engine.h"
#include "fault.h"
#include "memory.h"
#include "outbox.h"
#include "trace.h"

#include <endian.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

enum { PSN_MASK = 0xffffff, LOOK_AHEAD = 16, HOLD_PACKETS = 4 };
#define HOLD_NS 100000u

static uint64_t messages_arrived[SN_CARDS_MAX];

static uint64_t value_of(enum sn_fault fault, const struct sn_qp *qp)
{
	return sn_fault_value(fault, sn_context_host(qp->context), sn_context_nic(qp->context));
}

/* An answer to a packet: its head with sender and receiver exchanged. */
static struct sn_packet_head answer_to(const struct sn_packet_head *head, enum sn_packet_kind kind)
{
	struct sn_packet_head answer = *head;

	answer.kind = (uint8_t)kind;
	answer.card = head->source_card;
	answer.qpn = head->source_qpn;
	answer.source_card = head->card;
	answer.source_qpn = head->qpn;
	answer.bytes = 0;
	return answer;
}

static void answer(const struct sn_packet_head *head, enum sn_packet_kind kind)
{
	struct sn_packet_head out = answer_to(head, kind);

	sn_outbox_send(head->source_qpn >> SN_QP_PROCESS_SHIFT, &out, NULL);
}

static void mr_gone(struct sn_qp *qp, const struct sn_packet_head *head)
{
	uint64_t nth = sn_fault_nth(SN_FAULT_MR_GONE, sn_context_host(qp->context), sn_context_nic(qp->context));
	struct sn_mr *mr = sn_mr_find(head->rkey);

	if (head->offset == 0 && ++messages_arrived[qp->context->card] == nth && mr) {
		fprintf(stderr, "softnic: fault: the region of key 0x%x is gone\n", mr->key);
		mr->valid = false;
	}
}

void sn_responder_accept(const struct sn_packet *packet, uint64_t now)
{
	const struct sn_packet_head *head = &packet->head;
	struct sn_qp *qp = sn_qp_find(head->qpn);
	struct sn_arrival *arrival, **last;

	if (!qp || qp->context->card != head->card || qp->state < SN_QP_RTR || qp->state > SN_QP_SQD || qp->peer_qpn != head->source_qpn ||
	    qp->peer_card != (int)head->source_card || head->psn != qp->expected_psn) {
		answer(head, SN_LOST);
		return;
	}
	arrival = malloc(sizeof(*arrival) + head->bytes);
	if (!arrival)
		abort();
	arrival->next = NULL;
	arrival->ns = now;
	arrival->head = *head;
	if (head->bytes)
		memcpy(arrival->payload, packet->payload, head->bytes);
	if (sn_fault_any(SN_FAULT_MR_GONE) && value_of(SN_FAULT_MR_GONE, qp))
		mr_gone(qp, head);
	qp->expected_psn = (qp->expected_psn + 1) & PSN_MASK;
	for (last = &qp->arrivals; *last; last = &(*last)->next) {
	}
	*last = arrival;
}

void sn_responder_reset(struct sn_qp *qp)
{
	while (qp->arrivals) {
		struct sn_arrival *arrival = qp->arrivals;

		qp->arrivals = arrival->next;
		free(arrival);
	}
	qp->read_offset = 0;
	if (qp->state == SN_QP_RESET || qp->state == SN_QP_ERROR)
		qp->received = 0;
}

/* ---- order */

static bool is_relaxed(const struct sn_packet_head *head)
{
	const struct sn_mr *mr = sn_mr_find(head->rkey);

	return mr && mr->access & IBV_ACCESS_RELAXED_ORDERING;
}

/* May later land before earlier? Chunks of one message always, messages if one of the two is relaxed; nothing passes, or is passed
 * by, a READ, an atomic or an immediate value. */
static bool may_pass(const struct sn_packet_head *later, const struct sn_packet_head *earlier)
{
	if (later->kind != SN_WRITE || earlier->kind != SN_WRITE)
		return false;
	if ((later->opcode == SN_OP_WRITE_IMM && later->last) || (earlier->opcode == SN_OP_WRITE_IMM && earlier->last))
		return false;
	if (((later->psn - earlier->psn) & PSN_MASK) == (later->offset - earlier->offset) / SN_MTU && later->offset > earlier->offset)
		return true;
	return is_relaxed(later) || is_relaxed(earlier);
}

/* Where the packet to execute next is linked; NULL: hold on, more may come to choose from. */
static struct sn_arrival **choose(struct sn_qp *qp, uint64_t now)
{
	uint64_t percent = sn_fault_any(SN_FAULT_REORDER) ? value_of(SN_FAULT_REORDER, qp) : 0;
	struct sn_arrival **chosen = &qp->arrivals, *a;
	uint32_t n = 0;

	if (!percent || qp->read_offset)
		return chosen;
	if (now < qp->hold_ns)
		return NULL;
	for (a = qp->arrivals; a && n < HOLD_PACKETS; a = a->next)
		n++;
	if (n < HOLD_PACKETS && qp->arrivals->head.kind == SN_WRITE && now - qp->arrivals->ns < HOLD_NS)
		return NULL;
	n = 0;
	for (struct sn_arrival **link = &qp->arrivals; *link && n < LOOK_AHEAD; link = &(*link)->next, n++) {
		bool eligible = true;

		for (a = qp->arrivals; a != *link && eligible; a = a->next)
			eligible = may_pass(&(*link)->head, &a->head);
		if (!eligible)
			continue;
		chosen = link;
		if (sn_fault_dice(SN_FAULT_REORDER, sn_qp_identity(qp), (uint64_t)(*link)->head.psn << 8 | 1) % 100 >= percent)
			break;
	}
	/* Time for the program to see the one and not yet the other. */
	if (chosen != &qp->arrivals)
		qp->hold_ns = now + sn_fault_dice(SN_FAULT_REORDER, sn_qp_identity(qp), (uint64_t)(*chosen)->head.psn << 8 | 3) % HOLD_NS;
	return chosen;
}

/* ---- execution */

static void refuse(struct sn_qp *qp, const struct sn_packet_head *head, enum sn_syndrome syndrome)
{
	struct sn_packet_head out = answer_to(head, SN_NAK);

	out.syndrome = (uint8_t)syndrome;
	sn_outbox_send(head->source_qpn >> SN_QP_PROCESS_SHIFT, &out, NULL);
	/* As on a real NIC: the connection is gone, on this side too. */
	sn_qp_fail(qp);
}

/* Finds the program's address of a whole message; false: refused. */
static bool admit(struct sn_qp *qp, const struct sn_packet_head *head, uint32_t access, uint64_t bytes, uint64_t *at)
{
	const char *why = (qp->access & access) == access ? NULL : "the queue pair does not permit this access";

	if (!why)
		why = sn_mr_check(qp->context, qp->pd, head->rkey, head->address, bytes, access, at);
	if (!why)
		return true;
	sn_check_failed(SN_CHECK_REMOTE_ACCESS, qp, NULL, 0, "%s from qp 0x%x: rkey 0x%x address 0x%llx + %llu: %s", sn_opcode_name(head->opcode),
			head->source_qpn, head->rkey, (unsigned long long)head->address, (unsigned long long)bytes, why);
	refuse(qp, head, SN_REMOTE_ACCESS);
	return false;
}

static const uint32_t rnr_us[32] = {655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920,
				    2560, 3840, 5120, 7680, 10240, 15360, 20480, 30720, 40960, 61440, 81920, 122880,
				    163840, 245760, 327680, 491520};

/* The last packet of a WRITE_IMM takes a receive WQE. false: there is none. */
static bool take_receive(struct sn_qp *qp, const struct sn_packet_head *head)
{
	uint32_t posted = qp->rq_count ? be32toh(sn_dma_load32(&qp->record[0])) & 0xffff : 0;
	struct sn_packet_head out;

	if ((uint16_t)(posted - qp->received))
		return true;
	out = answer_to(head, SN_RNR);
	out.wait_ns = (uint64_t)rnr_us[qp->min_rnr_timer & 31] * 1000;
	sn_outbox_send(head->source_qpn >> SN_QP_PROCESS_SHIFT, &out, NULL);
	qp->expected_psn = head->psn;
	return false;
}

static void write_packet(struct sn_qp *qp, const struct sn_arrival *arrival)
{
	const struct sn_packet_head *head = &arrival->head;
	uint64_t at = 0, shuffle = 0;

	if (head->total && !admit(qp, head, IBV_ACCESS_REMOTE_WRITE, head->total, &at))
		return;
	if (head->opcode == SN_OP_WRITE_IMM && head->last && !take_receive(qp, head)) {
		while (qp->arrivals->next) {
			struct sn_arrival *later = qp->arrivals->next;

			qp->arrivals->next = later->next;
			free(later);
		}
		return;
	}
	if (head->bytes) {
		if (sn_fault_any(SN_FAULT_REORDER) && value_of(SN_FAULT_REORDER, qp))
			shuffle = sn_fault_dice(SN_FAULT_REORDER, sn_qp_identity(qp), (uint64_t)head->psn << 8 | 2);
		sn_dma_write(at + head->offset, arrival->payload, head->bytes, is_relaxed(head) ? SN_DMA_RELAXED : SN_DMA_ORDERED, shuffle);
	}
	if (head->opcode == SN_OP_WRITE_IMM && head->last) {
		struct sn_cqe cqe = {.qp = qp, .kind = SN_CQE_WRITE_IMM, .counter = qp->received++, .bytes = (uint32_t)head->total,
				     .imm_be = head->imm_be, .peer_qpn = head->source_qpn};

		sn_cq_put(qp->receive_cq, &cqe);
	}
	answer(head, SN_ACK);
}

/* Sends as much of a READ's data as the link takes. true: all of it. */
static bool read_packets(struct sn_qp *qp, const struct sn_arrival *arrival)
{
	const struct sn_packet_head *head = &arrival->head;
	uint32_t process = head->source_qpn >> SN_QP_PROCESS_SHIFT;
	uint64_t at = 0;

	do {
		uint64_t left = head->total - qp->read_offset;
		struct sn_packet_head out = answer_to(head, SN_READ_DATA);
		uint8_t chunk[SN_MTU];

		if (!sn_outbox_has_room(process))
			return false;
		if (head->total && !admit(qp, head, IBV_ACCESS_REMOTE_READ, head->total, &at))
			return true;
		out.bytes = left < SN_MTU ? (uint32_t)left : SN_MTU;
		out.offset = qp->read_offset;
		sn_dma_read(chunk, at + qp->read_offset, out.bytes);
		sn_outbox_send(process, &out, chunk);
		qp->read_offset += out.bytes;
	} while (qp->read_offset < head->total);
	qp->read_offset = 0;
	return true;
}

static void atomic_packet(struct sn_qp *qp, const struct sn_arrival *arrival)
{
	const struct sn_packet_head *head = &arrival->head;
	struct sn_dma_atomic atomic = {.bytes = head->operand_bytes,
				       .compare_and_swap = head->opcode == SN_OP_CS || head->opcode == SN_OP_MASKED_CS};
	struct sn_packet_head out = answer_to(head, SN_ATOMIC_DATA);
	uint64_t at;

	if (head->address % head->operand_bytes) {
		sn_check_failed(SN_CHECK_ATOMIC_ALIGNMENT, qp, NULL, 0, "%s of %u bytes at 0x%llx from qp 0x%x", sn_opcode_name(head->opcode),
				head->operand_bytes, (unsigned long long)head->address, head->source_qpn);
		refuse(qp, head, SN_REMOTE_INVALID);
		return;
	}
	if (!admit(qp, head, IBV_ACCESS_REMOTE_ATOMIC, head->operand_bytes, &at))
		return;
	memcpy(atomic.operand, head->operand, sizeof(atomic.operand));
	out.operand[0] = sn_dma_atomic(at, &atomic);
	sn_outbox_send(head->source_qpn >> SN_QP_PROCESS_SHIFT, &out, NULL);
}

bool sn_responder_run(struct sn_qp *qp, uint64_t now)
{
	bool any = false;

	/* Any failure empties the list, and with it ends the loop. */
	while (qp->arrivals) {
		struct sn_arrival **link = choose(qp, now), *arrival;

		if (!link)
			break;
		arrival = *link;
		*link = arrival->next;
		arrival->next = qp->arrivals;
		qp->arrivals = arrival;
		sn_trace("land", qp, arrival->head.psn, arrival->head.opcode, arrival->head.bytes, "psn=%u from=%x", arrival->head.psn,
			 arrival->head.source_qpn);
		if (arrival->head.kind == SN_READ) {
			if (!read_packets(qp, arrival))
				break;
		} else if (arrival->head.kind == SN_ATOMIC) {
			atomic_packet(qp, arrival);
		} else {
			write_packet(qp, arrival);
		}
		any = true;
		if (qp->arrivals == arrival) {
			qp->arrivals = arrival->next;
			free(arrival);
		}
	}
	return any;
}
