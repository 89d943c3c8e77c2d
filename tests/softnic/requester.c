#include "requester.h"
#include "check.h"
#include "context.h"
#include "dma.h"
#include "doorbell.h"
#include "engine.h"
#include "fault.h"
#include "memory.h"
#include "message.h"
#include "outbox.h"
#include "trace.h"

#include <infiniband/verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PSN_MASK = 0xffffff };

static uint64_t next_send_ns[SN_CARDS_MAX];

static uint64_t value_of(enum sn_fault fault, const struct sn_qp *qp)
{
	return sn_fault_value(fault, sn_context_host(qp->context), sn_context_nic(qp->context));
}

static uint64_t nth_of(enum sn_fault fault, const struct sn_qp *qp)
{
	return sn_fault_nth(fault, sn_context_host(qp->context), sn_context_nic(qp->context));
}

static struct sn_request *request_at(struct sn_qp *qp, uint32_t n)
{
	return &qp->window[(qp->window_first + n) % SN_WINDOW];
}

/* ---- looking at WQEs */

/* Keys of the data segments; addresses become the program's. */
static enum sn_syndrome check_segments(struct sn_qp *qp, struct sn_wqe *wqe)
{
	bool writes = wqe->opcode == SN_OP_READ || wqe->operand_bytes;

	for (uint32_t i = 0; i < wqe->segments; i++) {
		struct sn_segment *segment = &wqe->segment[i];
		const char *why;

		if (segment->inline_at)
			continue;
		why = sn_mr_check(qp->context, qp->pd, segment->lkey, segment->address, segment->bytes,
				  writes ? IBV_ACCESS_LOCAL_WRITE : 0, &segment->address);
		if (why) {
			sn_check_failed(SN_CHECK_LOCAL_ACCESS, qp, wqe->bytes, wqe->size * 16, "wqe %u segment %u: lkey 0x%x address 0x%llx + %llu: %s",
					wqe->index, i, segment->lkey, (unsigned long long)segment->address, (unsigned long long)segment->bytes, why);
			return SN_LOCAL_PROTECTION;
		}
	}
	return SN_OK;
}

static bool keys_still_valid(const struct sn_wqe *wqe)
{
	for (uint32_t i = 0; i < wqe->segments; i++)
		if (!wqe->segment[i].inline_at && !sn_mr_find(wqe->segment[i].lkey))
			return false;
	return true;
}

static void vanish(struct sn_qp *qp)
{
	fprintf(stderr, "softnic: fault: %s nic %u vanishes\n", sn_context_host(qp->context), sn_context_nic(qp->context));
	__atomic_store_n((uint32_t *)&sn_fabric.fabric->card[qp->context->card].down, 1, __ATOMIC_RELEASE);
}

/* Faults that belong to a WQE's number. */
static void meet_fate(struct sn_qp *qp, struct sn_request *request)
{
	uint64_t nth = qp->executed;

	if (sn_fault_any(SN_FAULT_ERROR) && nth_of(SN_FAULT_ERROR, qp) == nth && value_of(SN_FAULT_ERROR, qp))
		request->syndrome = (enum sn_syndrome)value_of(SN_FAULT_ERROR, qp);
	if (sn_fault_any(SN_FAULT_DIE) && value_of(SN_FAULT_DIE, qp) && nth_of(SN_FAULT_DIE, qp) == nth) {
		sn_trace("die", qp, request->wqe.index, request->wqe.opcode, 0, "signal %d", (int)value_of(SN_FAULT_DIE, qp));
		sn_trace_flush();
		kill(getpid(), (int)value_of(SN_FAULT_DIE, qp));
	}
	if (sn_fault_any(SN_FAULT_VANISH) && value_of(SN_FAULT_VANISH, qp) && nth_of(SN_FAULT_VANISH, qp) == nth)
		vanish(qp);
}

/* Must this WQE wait for READs and atomics before it? */
static bool must_wait(struct sn_qp *qp, const struct sn_wqe *wqe)
{
	for (uint32_t i = 0; wqe->fenced && i < qp->window_count; i++) {
		const struct sn_wqe *before = &request_at(qp, i)->wqe;

		if (before->opcode == SN_OP_READ || before->operand_bytes)
			return true;
	}
	return false;
}

static bool fetch(struct sn_qp *qp)
{
	uint32_t available = (uint16_t)(qp->producer - qp->fetched), blocks;
	struct sn_request *request = request_at(qp, qp->window_count);
	struct sn_wqe *wqe = &request->wqe;

	if (available > SN_WQE_BYTES_MAX / SN_BLOCK)
		available = SN_WQE_BYTES_MAX / SN_BLOCK;
	if (available > qp->sq_blocks)
		available = qp->sq_blocks;
	for (uint32_t i = 0; i < available; i++)
		sn_dma_read(wqe->bytes + (size_t)i * SN_BLOCK, (uintptr_t)(qp->sq + (size_t)((qp->fetched + i) % qp->sq_blocks) * SN_BLOCK), SN_BLOCK);
	request->syndrome = sn_wqe_read(wqe, qp, qp->fetched, available * SN_BLOCK);
	if (!request->syndrome && must_wait(qp, wqe))
		return false;
	if (!request->syndrome)
		request->syndrome = check_segments(qp, wqe);
	qp->executed++;
	request->vendor = 0;
	meet_fate(qp, request);
	blocks = wqe->blocks;
	for (uint32_t i = 0; i < blocks; i++)
		memcpy(qp->shadow + (size_t)((qp->fetched + i) % qp->sq_blocks) * SN_BLOCK, wqe->bytes + (size_t)i * SN_BLOCK, SN_BLOCK);
	sn_trace("fetch", qp, wqe->index, wqe->opcode, wqe->total, "%s%sremote=%llx", wqe->signalled ? "signalled " : "",
		 wqe->fenced ? "fenced " : "", (unsigned long long)wqe->remote);
	qp->fetched = (uint16_t)(qp->fetched + blocks);
	request->sent = request->acked = request->digested = request->packets = 0;
	request->digest = request->landed = 0;
	request->first_psn = qp->next_psn;
	if (request->syndrome)
		qp->stopped = true;
	else if (wqe->opcode == SN_OP_READ || wqe->operand_bytes)
		request->packets = 1;
	else if (wqe->opcode != SN_OP_NOP && wqe->opcode != SN_OP_DUMP)
		request->packets = wqe->total ? (uint32_t)((wqe->total + SN_MTU - 1) / SN_MTU) : 1;
	qp->next_psn = (qp->next_psn + request->packets) & PSN_MASK;
	qp->window_count++;
	return true;
}

/* ---- packets out */

static bool is_write(const struct sn_wqe *wqe)
{
	return wqe->opcode == SN_OP_WRITE || wqe->opcode == SN_OP_WRITE_IMM;
}

static bool source_is_same(const struct sn_request *request)
{
	uint64_t digest = 0;
	uint8_t chunk[SN_MTU];

	if (!is_write(&request->wqe) || !request->packets || request->digested != request->packets || !keys_still_valid(&request->wqe))
		return true;
	for (uint64_t offset = 0; offset < request->wqe.total; offset += SN_MTU) {
		uint64_t bytes = request->wqe.total - offset < SN_MTU ? request->wqe.total - offset : SN_MTU;

		sn_message_gather(&request->wqe, offset, chunk, (uint32_t)bytes);
		digest = sn_message_digest(chunk, (uint32_t)bytes, digest);
	}
	return digest == request->digest;
}

static bool rate_permits(struct sn_qp *qp, uint32_t bytes, uint64_t now)
{
	uint64_t rate = value_of(SN_FAULT_RATE, qp), *next = &next_send_ns[qp->context->card];

	if (!rate)
		return true;
	if (now < *next)
		return false;
	*next = now + (uint64_t)(bytes + 64) * 1000 / rate;
	return true;
}

/* The next packet of a request, if a link has room. */
static bool send_one(struct sn_qp *qp, struct sn_request *request, uint64_t now)
{
	uint32_t process = qp->peer_qpn >> SN_QP_PROCESS_SHIFT;
	struct sn_link *link = &sn_fabric.fabric->link[process][sn_self];
	struct sn_packet *packet;
	struct sn_packet_head *head;
	const struct sn_wqe *wqe = &request->wqe;
	uint64_t offset = (uint64_t)request->sent * SN_MTU;
	uint32_t bytes = 0;

	if (is_write(wqe) && offset < wqe->total)
		bytes = wqe->total - offset < SN_MTU ? (uint32_t)(wqe->total - offset) : SN_MTU;
	if (!sn_outbox_has_room(process) || !rate_permits(qp, bytes, now))
		return false;
	if (!keys_still_valid(wqe)) {
		request->syndrome = SN_LOCAL_PROTECTION;
		qp->stopped = true;
		return false;
	}
	packet = sn_link_reserve(link);
	head = &packet->head;
	*head = (struct sn_packet_head){.opcode = wqe->opcode, .opmod = wqe->opmod, .source_card = qp->context->card,
					.source_qpn = qp->number, .card = (uint32_t)qp->peer_card, .qpn = qp->peer_qpn,
					.psn = (request->first_psn + request->sent) & PSN_MASK, .round = qp->round, .bytes = bytes,
					.rkey = wqe->rkey, .imm_be = wqe->imm_be, .address = wqe->remote, .offset = offset,
					.total = wqe->total, .last = request->sent + 1 == request->packets,
					.operand_bytes = (uint8_t)wqe->operand_bytes};
	memcpy(head->operand, wqe->operand, sizeof(head->operand));
	head->kind = wqe->operand_bytes ? SN_ATOMIC : wqe->opcode == SN_OP_READ ? SN_READ : SN_WRITE;
	if (bytes) {
		sn_message_gather(wqe, offset, packet->payload, bytes);
		if (request->digested == request->sent)
			request->digest = sn_message_digest(packet->payload, bytes, request->digest);
	}
	if (request->digested == request->sent)
		request->digested++;
	sn_trace("send", qp, wqe->index, wqe->opcode, bytes, "psn=%u to=%x", head->psn, qp->peer_qpn);
	sn_link_send(link);
	request->sent++;
	qp->in_flight++;
	return true;
}

/* Nobody answers there: a dead process, a NIC that has vanished, an address that was never one. */
static bool peer_is_silent(struct sn_qp *qp)
{
	return qp->peer_card < 0 || qp->peer_card >= (int)sn_fabric.fabric->cards ||
	       __atomic_load_n((uint32_t *)&sn_fabric.fabric->card[qp->peer_card].down, __ATOMIC_ACQUIRE) ||
	       !sn_fabric_alive(&sn_fabric, qp->peer_qpn >> SN_QP_PROCESS_SHIFT, sn_self);
}

/* IB's local ACK timeout: 4.096 us * 2^value; 0 is for ever. */
static uint64_t timeout_ns(const struct sn_qp *qp)
{
	return qp->timeout ? 4096ull << qp->timeout : UINT64_MAX / 16;
}

/* A head that waits for a silent peer fails when all its retries have passed. */
static void mind_silence(struct sn_qp *qp, uint64_t now)
{
	struct sn_request *head = request_at(qp, 0);

	if (!qp->window_count || head->syndrome || head->acked == head->packets || !peer_is_silent(qp)) {
		qp->silent_ns = 0;
		return;
	}
	if (!qp->silent_ns)
		qp->silent_ns = now;
	if (now - qp->silent_ns > timeout_ns(qp) * (qp->retries + 1ull)) {
		head->syndrome = SN_RETRIES;
		qp->stopped = true;
	}
}

static bool send_some(struct sn_qp *qp, uint64_t now)
{
	bool any = false;

	if (now < qp->resume_ns || peer_is_silent(qp))
		return false;
	for (uint32_t i = 0; i < qp->window_count; i++) {
		struct sn_request *request = request_at(qp, i);

		if (request->syndrome)
			break;
		while (request->sent < request->packets) {
			if (qp->in_flight >= SN_IN_FLIGHT || !send_one(qp, request, now))
				return any;
			any = true;
		}
	}
	return any;
}

/* ---- completions */

static uint8_t vendor_of(enum sn_syndrome syndrome)
{
	switch (syndrome) {
	case SN_LOCAL_PROTECTION: return 0x51;
	case SN_REMOTE_ACCESS: return 0x88;
	case SN_RETRIES: return 0x81;
	case SN_RNR_RETRIES: return 0x87;
	case SN_FLUSHED: return 0xf9;
	default: return 0x68;
	}
}

static void put(struct sn_qp *qp, const struct sn_wqe *wqe, enum sn_syndrome syndrome)
{
	struct sn_cqe cqe = {.qp = qp, .kind = syndrome ? SN_CQE_REQUEST_ERROR : SN_CQE_REQUEST, .opcode = wqe->opcode,
			     .syndrome = (uint8_t)syndrome, .vendor = syndrome ? vendor_of(syndrome) : 0, .counter = wqe->index,
			     .through = (uint16_t)(wqe->index + wqe->blocks), .bytes = (uint32_t)wqe->total, .peer_qpn = qp->peer_qpn};

	sn_cq_put(qp->send_cq, &cqe);
}

static void count(struct sn_qp *qp, const struct sn_wqe *wqe)
{
	uint32_t opcode = wqe->opcode < SN_OPCODES ? wqe->opcode : 0;

	atomic_fetch_add_explicit(&qp->stats->wqes[opcode], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&qp->stats->bytes[opcode], wqe->total, memory_order_relaxed);
}

static bool complete(struct sn_qp *qp)
{
	bool any = false;

	while (qp->window_count) {
		struct sn_request *request = request_at(qp, 0);

		if (!request->syndrome && (request->sent < request->packets || request->acked < request->packets))
			break;
		any = true;
		if (!request->syndrome && !source_is_same(request))
			sn_check_failed(SN_CHECK_SOURCE_CHANGED, qp, request->wqe.bytes, request->wqe.size * 16,
					"wqe %u: its source of %llu bytes changed before the completion", request->wqe.index,
					(unsigned long long)request->wqe.total);
		if (!request->syndrome)
			count(qp, &request->wqe);
		if (request->syndrome || request->wqe.signalled)
			put(qp, &request->wqe, request->syndrome);
		qp->window_first = (qp->window_first + 1) % SN_WINDOW;
		qp->window_count--;
		if (request->syndrome) {
			fprintf(stderr, "softnic: %s nic %u qp 0x%x: %s at index %u fails with syndrome 0x%02x\n", sn_context_host(qp->context),
				sn_context_nic(qp->context), qp->number, sn_opcode_name(request->wqe.opcode), request->wqe.index,
				request->syndrome);
			sn_qp_fail(qp);
			break;
		}
	}
	return any;
}

void sn_requester_flush(struct sn_qp *qp)
{
	while (qp->window_count) {
		put(qp, &request_at(qp, 0)->wqe, SN_FLUSHED);
		qp->window_first = (qp->window_first + 1) % SN_WINDOW;
		qp->window_count--;
	}
	qp->in_flight = 0;
	while (qp->fetched != qp->producer) {
		struct sn_wqe wqe = {.index = qp->fetched};
		size_t at = (size_t)(qp->fetched % qp->sq_blocks) * SN_BLOCK;
		uint32_t left = (uint16_t)(qp->producer - qp->fetched);

		sn_dma_read(wqe.bytes, (uintptr_t)(qp->sq + at), SN_BLOCK);
		wqe.opcode = wqe.bytes[3];
		wqe.size = wqe.bytes[7] & 0x3f;
		wqe.blocks = wqe.size ? (wqe.size + 3) / 4 : 1;
		if (wqe.blocks > left)
			wqe.blocks = left;
		for (uint32_t i = 0; i < wqe.blocks; i++) {
			at = (size_t)((qp->fetched + i) % qp->sq_blocks) * SN_BLOCK;
			sn_dma_read(qp->shadow + at, (uintptr_t)(qp->sq + at), SN_BLOCK);
		}
		qp->fetched = (uint16_t)(qp->fetched + wqe.blocks);
		put(qp, &wqe, SN_FLUSHED);
	}
}

void sn_requester_reset(struct sn_qp *qp)
{
	qp->producer = qp->looked = qp->fetched = qp->reported = 0;
	qp->executed = 0;
	qp->rung = qp->stopped = false;
	qp->window_first = qp->window_count = qp->in_flight = 0;
	qp->round++;
	qp->resume_ns = qp->silent_ns = qp->look_ns = 0;
}

/* ---- answers */

static struct sn_request *request_of(struct sn_qp *qp, uint32_t psn)
{
	for (uint32_t i = 0; i < qp->window_count; i++) {
		struct sn_request *request = request_at(qp, i);

		if (((psn - request->first_psn) & PSN_MASK) < request->packets)
			return request;
	}
	return NULL;
}

/* From psn on again, not before wait_ns. */
static void rewind_to(struct sn_qp *qp, uint32_t psn, uint64_t resume_ns)
{
	bool behind = false;

	qp->round++;
	qp->resume_ns = resume_ns;
	qp->in_flight = 0;
	for (uint32_t i = 0; i < qp->window_count; i++) {
		struct sn_request *request = request_at(qp, i);
		uint32_t at = (psn - request->first_psn) & PSN_MASK;

		if (behind)
			request->sent = 0;
		if (!behind && at < request->packets) {
			request->sent = at;
			behind = true;
		}
		qp->in_flight += request->sent > request->acked ? request->sent - request->acked : 0;
	}
	atomic_fetch_add_explicit(&qp->stats->resends, 1, memory_order_relaxed);
	sn_trace("resend", qp, 0, 0, 0, "from psn=%u", psn);
}

static void acknowledge(struct sn_qp *qp, struct sn_request *request)
{
	request->acked++;
	if (qp->in_flight)
		qp->in_flight--;
	qp->retries_left = qp->retries;
	qp->rnr_left = qp->rnr_retries;
}

static void land(struct sn_qp *qp, struct sn_request *request, const struct sn_packet *packet)
{
	const struct sn_packet_head *head = &packet->head;
	uint64_t shuffle = 0;

	if (!keys_still_valid(&request->wqe)) {
		request->syndrome = SN_LOCAL_PROTECTION;
		qp->stopped = true;
		return;
	}
	if (value_of(SN_FAULT_REORDER, qp))
		shuffle = sn_fault_dice(SN_FAULT_REORDER, sn_qp_identity(qp), head->psn + head->offset);
	if (head->kind == SN_READ_DATA) {
		sn_message_scatter(&request->wqe, head->offset, packet->payload, head->bytes, shuffle);
		request->landed += head->bytes;
		if (request->landed == request->wqe.total)
			acknowledge(qp, request);
	} else {
		uint64_t old = head->operand[0];
		uint32_t half = (uint32_t)old;

		/* Host endian, however the operands came. */
		if (head->operand_bytes == 4)
			sn_message_scatter(&request->wqe, 0, (const uint8_t *)&half, 4, 0);
		else
			sn_message_scatter(&request->wqe, 0, (const uint8_t *)&old, 8, 0);
		acknowledge(qp, request);
	}
}

void sn_requester_answer(const struct sn_packet *packet, uint64_t now)
{
	const struct sn_packet_head *head = &packet->head;
	struct sn_qp *qp = sn_qp_find(head->qpn);
	struct sn_request *request;

	if (!qp || qp->context->card != head->card || (qp->state != SN_QP_RTS && qp->state != SN_QP_SQD))
		return;
	request = request_of(qp, head->psn);
	if (!request)
		return;
	switch (head->kind) {
	case SN_ACK:
		acknowledge(qp, request);
		break;
	case SN_READ_DATA:
	case SN_ATOMIC_DATA:
		land(qp, request, packet);
		break;
	case SN_NAK:
		request->syndrome = (enum sn_syndrome)head->syndrome;
		qp->stopped = true;
		break;
	case SN_RNR:
	case SN_LOST:
		if (head->round != qp->round)
			break;
		if (head->kind == SN_RNR ? qp->rnr_left == 0 : qp->retries_left == 0) {
			request->syndrome = head->kind == SN_RNR ? SN_RNR_RETRIES : SN_RETRIES;
			qp->stopped = true;
			break;
		}
		/* 7 is for ever, for receivers that are not ready. */
		if (head->kind == SN_LOST)
			qp->retries_left--;
		else if (qp->rnr_retries != 7)
			qp->rnr_left--;
		rewind_to(qp, head->psn, now + (head->kind == SN_RNR ? head->wait_ns : timeout_ns(qp)));
		break;
	default:
		break;
	}
}

static bool is_down(const struct sn_qp *qp)
{
	return atomic_load_explicit(&sn_fabric.fabric->card[qp->context->card].down, memory_order_acquire);
}

bool sn_requester_run(struct sn_qp *qp, uint64_t now)
{
	bool any;

	if (qp->state != SN_QP_RTS && qp->state != SN_QP_ERROR)
		return false;
	/* A NIC that has vanished does nothing more, not even to complain. */
	if (is_down(qp))
		return false;
	any = sn_doorbell_look(qp, now);
	if (qp->state == SN_QP_ERROR) {
		sn_requester_flush(qp);
		return any;
	}
	while (!qp->stopped && qp->fetched != qp->producer && qp->window_count < SN_WINDOW && fetch(qp))
		any = true;
	if (is_down(qp))
		return any;
	mind_silence(qp, now);
	any |= send_some(qp, now);
	any |= complete(qp);
	return any;
}
