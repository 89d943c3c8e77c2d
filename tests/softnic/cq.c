#include "cq.h"
#include "channel.h"
#include "check.h"
#include "context.h"
#include "dma.h"
#include "fault.h"
#include "qp.h"
#include "trace.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

enum { CQS_MAX = 4096, TAIL = 60, CQE_BYTES = 64 };
#define COALESCE_NS 1000000u

static struct sn_cq *cqs[CQS_MAX];
static uint32_t cqs_used = 1;

struct sn_cq *sn_cq_create(struct sn_context *context, void *buffer, void *record, uint32_t entries, uint32_t entry_bytes)
{
	for (uint32_t i = 1; i < CQS_MAX; i++) {
		struct sn_cq *cq;

		if (cqs[i])
			continue;
		cq = calloc(1, sizeof(*cq));
		if (!cq)
			return NULL;
		cq->context = context;
		cq->number = i;
		cq->entries = entries;
		cq->entry_bytes = entry_bytes;
		cq->buffer = buffer;
		cq->record = record;
		cq->channel = -1;
		cq->valid = true;
		cqs[i] = cq;
		if (cqs_used <= i)
			cqs_used = i + 1;
		return cq;
	}
	return NULL;
}

struct sn_cq *sn_cq_find(const struct sn_context *context, uint32_t number)
{
	return number && number < CQS_MAX && cqs[number] && cqs[number]->context == context ? cqs[number] : NULL;
}

int sn_cq_destroy(struct sn_cq *cq)
{
	struct sn_qp *qp;

	for (uint32_t n = 0; (qp = sn_qp_nth(n)); n++)
		if (qp->send_cq == cq || qp->receive_cq == cq)
			return EBUSY;
	cqs[cq->number] = NULL;
	free(cq);
	return 0;
}

void sn_cq_release(const struct sn_context *context)
{
	for (uint32_t i = 1; i < cqs_used; i++)
		if (cqs[i] && cqs[i]->context == context)
			sn_cq_destroy(cqs[i]);
}

static void put_be32(uint8_t *at, uint32_t value)
{
	value = htobe32(value);
	memcpy(at, &value, sizeof(value));
}

static bool is_error(const struct sn_cqe *cqe)
{
	return cqe->kind == SN_CQE_REQUEST_ERROR || cqe->kind == SN_CQE_RESPONSE_ERROR;
}

static void build(uint8_t bytes[CQE_BYTES], const struct sn_cqe *cqe, uint8_t owner)
{
	uint16_t counter = htobe16(cqe->counter);
	uint64_t now = htobe64(sn_now_ns());

	memset(bytes, 0, CQE_BYTES);
	put_be32(bytes + 0x20, cqe->qp->user_index);
	if (is_error(cqe)) {
		bytes[0x36] = cqe->vendor;
		bytes[0x37] = cqe->syndrome;
	} else {
		put_be32(bytes + 0x1c, cqe->peer_qpn);
		memcpy(bytes + 0x24, &cqe->imm_be, sizeof(cqe->imm_be));
		put_be32(bytes + 0x2c, cqe->bytes);
		memcpy(bytes + 0x30, &now, sizeof(now));
	}
	put_be32(bytes + 0x38, (uint32_t)cqe->opcode << 24 | cqe->qp->number);
	memcpy(bytes + 0x3c, &counter, sizeof(counter));
	bytes[0x3f] = (uint8_t)(cqe->kind << 4 | owner);
}

static void pause_us(uint64_t us)
{
	if (us)
		usleep((useconds_t)us);
}

/* op_own last, whatever becomes of the rest; in a collapsed queue together with the counter, as its pollers read them. */
static void store(const struct sn_cq *cq, uint8_t *at, const uint8_t bytes[CQE_BYTES], uint64_t torn_us)
{
	uint32_t tail;
	uint16_t counter;

	memcpy(&tail, bytes + TAIL, sizeof(tail));
	memcpy(&counter, bytes + TAIL, sizeof(counter));
	if (torn_us) {
		sn_dma_write((uintptr_t)(at + 32), bytes + 32, TAIL - 32, SN_DMA_RELAXED, 0);
		pause_us(torn_us / 3);
		sn_dma_write((uintptr_t)at, bytes, 32, SN_DMA_RELAXED, 0);
		pause_us(torn_us / 3);
		if (!cq->collapsed) {
			sn_dma_store16(at + TAIL, counter);
			sn_dma_store8(at + TAIL + 2, bytes[TAIL + 2]);
			pause_us(torn_us / 3);
		}
	} else {
		sn_dma_write((uintptr_t)at, bytes, TAIL, SN_DMA_RELAXED, 0);
	}
	sn_dma_announce(at + TAIL - 4);
	sn_dma_store32(at + TAIL, tail);
}

static void announce(struct sn_cq *cq)
{
	struct ib_uverbs_comp_event_desc event = {.cq_handle = cq->user_handle};

	if (!cq->armed || cq->channel < 0)
		return;
	cq->armed = false;
	cq->announced++;
	sn_channel_say(cq->channel, &event, sizeof(event));
}

static void show(struct sn_cq *cq, const struct sn_cqe *cqe)
{
	uint32_t place = cq->collapsed ? 0 : cq->produced % cq->entries;
	uint8_t bytes[CQE_BYTES], owner = (uint8_t)(cq->collapsed ? 0 : cq->produced / cq->entries & 1);
	uint8_t *at = cq->buffer + (size_t)place * cq->entry_bytes + (cq->entry_bytes - CQE_BYTES);
	struct sn_qp *qp = cqe->qp;
	uint64_t torn = sn_fault_value(SN_FAULT_TORN, sn_context_host(cq->context), sn_context_nic(cq->context));

	if (!cq->ignore_overrun) {
		uint32_t consumed = be32toh(sn_dma_load32(&cq->record[0])) & 0xffffff;

		if (((cq->produced - consumed) & 0xffffff) >= cq->entries)
			sn_check_failed(SN_CHECK_CQ_OVERRUN, qp, NULL, 0, "completion queue %u: produced %u, consumed %u, %u entries",
					cq->number, cq->produced & 0xffffff, consumed, cq->entries);
	}
	build(bytes, cqe, owner);
	/* Before the program may know: from then on the slots are its own again. */
	if (cqe->kind == SN_CQE_REQUEST || cqe->kind == SN_CQE_REQUEST_ERROR)
		sn_qp_report(qp, cqe->through);
	sn_trace("cqe", qp, cqe->counter, cqe->opcode, cqe->bytes, "cq=%u%s syndrome=%02x", cq->number, cq->collapsed ? " collapsed" : "",
		 cqe->syndrome);
	atomic_fetch_add_explicit(is_error(cqe) ? &qp->stats->error_completions : &qp->stats->completions, 1, memory_order_relaxed);
	store(cq, at, bytes, torn);
	cq->produced++;
	announce(cq);
}

void sn_cq_put(struct sn_cq *cq, const struct sn_cqe *cqe)
{
	const char *host = sn_context_host(cq->context);
	uint32_t nic = sn_context_nic(cq->context), place;
	uint64_t delay = sn_fault_value(SN_FAULT_DELAY, host, nic), coalesce = sn_fault_value(SN_FAULT_COALESCE, host, nic);
	uint64_t due = sn_now_ns();

	if (!delay && !coalesce && !cq->held_count) {
		show(cq, cqe);
		return;
	}
	if (cq->held_count == SN_HELD_MAX) {
		show(cq, &cq->held[cq->held_first]);
		cq->held_first = (cq->held_first + 1) % SN_HELD_MAX;
		cq->held_count--;
	}
	if (coalesce)
		due += COALESCE_NS;
	else if (delay)
		due += sn_fault_dice(SN_FAULT_DELAY, sn_qp_identity(cqe->qp), cqe->qp->executed << 16 | cqe->counter) % (delay * 1000 + 1);
	place = (cq->held_first + cq->held_count++) % SN_HELD_MAX;
	cq->held[place] = *cqe;
	cq->due_ns[place] = due;
}

static bool run(struct sn_cq *cq, uint64_t now)
{
	uint64_t coalesce = sn_fault_value(SN_FAULT_COALESCE, sn_context_host(cq->context), sn_context_nic(cq->context));
	bool all = coalesce && cq->held_count >= coalesce, any = false;

	while (cq->held_count && (all || cq->due_ns[cq->held_first] <= now)) {
		struct sn_cqe *cqe = &cq->held[cq->held_first];
		struct sn_cqe *next = &cq->held[(cq->held_first + 1) % SN_HELD_MAX];

		cq->held_first = (cq->held_first + 1) % SN_HELD_MAX;
		cq->held_count--;
		/* In a collapsed queue nobody could see this one. Errors and other queue pairs are never swallowed. */
		if (!(all && cq->collapsed && cq->held_count && next->qp == cqe->qp && !is_error(cqe) && !is_error(next)))
			show(cq, cqe);
		any = true;
	}
	return any;
}

bool sn_cq_run(uint64_t now)
{
	bool any = false;

	for (uint32_t i = 1; i < cqs_used; i++)
		if (cqs[i] && cqs[i]->held_count)
			any |= run(cqs[i], now);
	return any;
}

void sn_cq_forget(const struct sn_qp *qp)
{
	for (uint32_t i = 1; i < cqs_used; i++) {
		struct sn_cq *cq = cqs[i];
		uint32_t kept = 0;

		if (!cq || !cq->held_count)
			continue;
		for (uint32_t n = 0; n < cq->held_count; n++) {
			uint32_t from = (cq->held_first + n) % SN_HELD_MAX, to = (cq->held_first + kept) % SN_HELD_MAX;

			if (cq->held[from].qp == qp)
				continue;
			cq->held[to] = cq->held[from];
			cq->due_ns[to] = cq->due_ns[from];
			kept++;
		}
		cq->held_count = kept;
	}
}

void sn_cq_arm(uint32_t number)
{
	struct sn_cq *cq = number < CQS_MAX ? cqs[number] : NULL;

	if (!cq)
		return;
	cq->armed = true;
	/* What came between the program's last look and its arming: it would wait for ever. */
	if (cq->record && ((cq->produced - (be32toh(sn_dma_load32(&cq->record[0])) & 0xffffff)) & 0xffffff))
		announce(cq);
}
