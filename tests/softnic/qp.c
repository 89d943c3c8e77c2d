#include "qp.h"
#include "check.h"
#include "context.h"
#include "dma.h"
#include "engine.h"
#include "fault.h"
#include "requester.h"
#include "responder.h"
#include "trace.h"
#include "uar.h"

#include <errno.h>
#include <stdlib.h>

static struct sn_qp *qps[SN_QPS_MAX];      /* by number */
static struct sn_qp *present[SN_QPS_MAX];  /* those that exist, in no order */
static uint32_t present_count, next_index;
static uint32_t made[SN_CARDS_MAX];

static struct sn_qp_stats *new_stats(const struct sn_qp *qp)
{
	static struct sn_qp_stats spill;
	uint32_t n = atomic_fetch_add(&sn_fabric.fabric->stats_used, 1);
	struct sn_qp_stats *stats = n < SN_QP_STATS_MAX ? &sn_fabric.fabric->stats[n] : &spill;
	const char *rank = getenv("MARROW_RANK");

	stats->process = sn_self;
	stats->card = qp->context->card;
	stats->qpn = qp->number;
	stats->peer_card = ~0u;
	stats->rank = rank ? (uint32_t)atoi(rank) : ~0u;
	stats->used = n < SN_QP_STATS_MAX;
	return stats;
}

struct sn_qp *sn_qp_create(struct sn_context *context, const struct sn_qp_shape *shape)
{
	for (uint32_t n = 0; n < SN_QPS_MAX; n++) {
		/* Numbers in turn, so that one is not soon another's. */
		uint32_t i = (next_index + n) % SN_QPS_MAX;
		struct sn_qp *qp;

		if (qps[i])
			continue;
		qp = calloc(1, sizeof(*qp));
		if (!qp)
			return NULL;
		qp->window = calloc(SN_WINDOW, sizeof(*qp->window));
		qp->shadow = calloc(shape->sq_blocks ? shape->sq_blocks : 1, SN_BLOCK);
		if (!qp->window || !qp->shadow) {
			free(qp->window);
			free(qp->shadow);
			free(qp);
			return NULL;
		}
		next_index = i + 1;
		qp->context = context;
		qp->number = sn_self << SN_QP_PROCESS_SHIFT | (SN_QP_FIRST + i);
		qp->ordinal = made[context->card]++;
		qp->pd = shape->pd;
		qp->uar = shape->uar;
		qp->user_index = shape->user_index;
		qp->send_cq = shape->send_cq;
		qp->receive_cq = shape->receive_cq;
		qp->sq = shape->sq;
		qp->sq_blocks = shape->sq_blocks;
		qp->rq_count = shape->rq_count;
		qp->record = shape->record;
		qp->recordless = shape->recordless;
		qp->peer_card = SN_NO_CARD;
		qp->valid = true;
		qp->stats = new_stats(qp);
		sn_uar_watch(context, shape->uar);
		qps[i] = qp;
		present[present_count++] = qp;
		return qp;
	}
	return NULL;
}

void sn_qp_destroy(struct sn_qp *qp)
{
	sn_engine_take_doorbells();
	sn_cq_forget(qp);
	sn_requester_reset(qp);
	sn_responder_reset(qp);
	for (uint32_t i = 0; i < present_count; i++) {
		if (present[i] == qp) {
			present[i] = present[--present_count];
			break;
		}
	}
	qps[(qp->number & 0xffff) - SN_QP_FIRST] = NULL;
	free(qp->window);
	free(qp->shadow);
	free(qp);
}

void sn_qp_release(const struct sn_context *context)
{
	for (uint32_t i = present_count; i > 0; i--)
		if (present[i - 1]->context == context)
			sn_qp_destroy(present[i - 1]);
}

struct sn_qp *sn_qp_find(uint32_t number)
{
	uint32_t i = (number & 0xffff) - SN_QP_FIRST;

	return number >> SN_QP_PROCESS_SHIFT == sn_self && i < SN_QPS_MAX ? qps[i] : NULL;
}

struct sn_qp *sn_qp_nth(uint32_t n)
{
	return n < present_count ? present[n] : NULL;
}

const char *sn_qp_state_name(enum sn_qp_state state)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERROR"};

	return (unsigned)state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

int sn_qp_move(struct sn_qp *qp, enum sn_qp_state to)
{
	enum sn_qp_state from = qp->state;
	bool allowed = to == SN_QP_RESET || to == SN_QP_ERROR || to == from || (to == from + 1 && to <= SN_QP_SQD) ||
		       (from == SN_QP_SQD && to == SN_QP_RTS);

	if (!allowed || (to == from && (to == SN_QP_RTR || to == SN_QP_SQE)))
		return EINVAL;
	sn_trace("state", qp, 0, 0, 0, "%s -> %s", sn_qp_state_name(from), sn_qp_state_name(to));
	if (to == SN_QP_RESET) {
		sn_cq_forget(qp);
		sn_requester_reset(qp);
		sn_responder_reset(qp);
	}
	if (to == SN_QP_ERROR) {
		if (from != SN_QP_ERROR && from != SN_QP_RESET)
			sn_qp_fail(qp);
		return 0;
	}
	qp->state = to;
	if (to == SN_QP_RTR) {
		qp->stats->peer_card = (uint32_t)qp->peer_card;
		qp->stats->peer_qpn = qp->peer_qpn;
	}
	if (to == SN_QP_RTS && from == SN_QP_RTR) {
		qp->retries_left = qp->retries;
		qp->rnr_left = qp->rnr_retries;
	}
	return 0;
}

void sn_qp_fail(struct sn_qp *qp)
{
	sn_trace("state", qp, 0, 0, 0, "%s -> ERROR", sn_qp_state_name(qp->state));
	qp->state = SN_QP_ERROR;
	sn_responder_reset(qp);
	sn_requester_flush(qp);
}

void sn_qp_report(struct sn_qp *qp, uint16_t through)
{
	uint64_t poison = sn_fault_value(SN_FAULT_POISON, sn_context_host(qp->context), sn_context_nic(qp->context));
	uint8_t now[SN_BLOCK], poisoned[SN_BLOCK];

	memset(poisoned, (int)poison, sizeof(poisoned));
	for (; qp->reported != through; qp->reported++) {
		size_t at = (size_t)(qp->reported % qp->sq_blocks) * SN_BLOCK;

		sn_dma_read(now, (uintptr_t)(qp->sq + at), SN_BLOCK);
		if (memcmp(now, qp->shadow + at, SN_BLOCK))
			sn_check_failed(SN_CHECK_SLOT_REWRITTEN, qp, now, SN_BLOCK,
					"block %u changed before its completion; below it is as it is now", qp->reported);
		if (poison)
			sn_dma_write((uintptr_t)(qp->sq + at), poisoned, SN_BLOCK, SN_DMA_RELAXED, 0);
	}
}

uint64_t sn_qp_identity(const struct sn_qp *qp)
{
	return (uint64_t)sn_self << 40 | (uint64_t)qp->context->card << 24 | qp->ordinal;
}
