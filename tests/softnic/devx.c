/* Device commands (DEVX): queues made by hand. Layouts: prm.h. A command that the device refuses answers EREMOTEIO, with its status
 * in the answer, as the kernel does it, and says why on stderr. */
#include "check.h"
#include "context.h"
#include "engine.h"
#include "memory.h"
#include "prm.h"
#include "qp.h"
#include "uar.h"

#include <errno.h>
#include <stdio.h>

#include <infiniband/verbs.h>

struct command {
	struct sn_context *context;
	const uint8_t *in;
	size_t in_bytes;
	uint8_t *out;
	size_t out_bytes;
	uint32_t opcode;
};

static int refuse(struct command *c, enum prm_status status, const char *why)
{
	fprintf(stderr, "softnic: device command 0x%x refused: %s\n", c->opcode, why);
	prm_set(c->out, PRM_STATUS, status);
	prm_set(c->out, PRM_SYNDROME, 0x50f70000u | c->opcode);
	return EREMOTEIO;
}

static int query_capabilities(struct command *c)
{
	if (c->out_bytes < PRM_CAPABILITY + 256)
		return refuse(c, PRM_STATUS_BAD_LENGTH, "the answer is too short");
	/* op_mod: capability type << 1 | current. Type 0 is general. */
	if (prm_get(c->in, PRM_OP_MOD) >> 1 == 0) {
		prm_set(c->out + PRM_CAPABILITY, PRM_CAP_CQE_VERSION, 1);
		prm_set(c->out + PRM_CAPABILITY, PRM_CAP_LOG_BLUEFLAME, 9);
	}
	return 0;
}

static int create_cq(struct command *c)
{
	const uint8_t *cqc = c->in + PRM_CREATE_CQ_CONTEXT;
	uint32_t entries = 1u << prm_get(cqc, PRM_CQ_LOG_SIZE), entry_bytes = 64u << prm_get(cqc, PRM_CQ_ENTRY_SIZE);
	void *buffer, *record = NULL;
	struct sn_cq *cq;

	if (c->in_bytes < PRM_CREATE_CQ_BYTES)
		return refuse(c, PRM_STATUS_BAD_LENGTH, "the command is too short");
	if (entry_bytes > 128 || !prm_get(c->in, PRM_CREATE_CQ_UMEM_VALID))
		return refuse(c, PRM_STATUS_BAD_PARAM, "CREATE_CQ: entries of 64 or 128 bytes in a umem");
	buffer = sn_umem_at(c->context, prm_get(c->in, PRM_CREATE_CQ_UMEM), prm_get64(c->in, PRM_CREATE_CQ_UMEM_OFFSET),
			    (uint64_t)entries * entry_bytes);
	if (prm_get(cqc, PRM_CQ_RECORD_UMEM_VALID))
		record = sn_umem_at(c->context, prm_get(cqc, PRM_CQ_RECORD_UMEM), prm_get64(cqc, PRM_CQ_RECORD_OFFSET), 8);
	if (!buffer || !record || (uintptr_t)record % 8)
		return refuse(c, PRM_STATUS_BAD_RESOURCE, "CREATE_CQ: the entries or the record are not within their umem");
	if (!sn_uar_exists(c->context, prm_get(cqc, PRM_CQ_UAR)))
		return refuse(c, PRM_STATUS_BAD_RESOURCE, "CREATE_CQ: no such UAR");
	cq = sn_cq_create(c->context, buffer, record, entries, entry_bytes);
	if (!cq)
		return refuse(c, PRM_STATUS_NO_RESOURCES, "CREATE_CQ: no more");
	sn_uar_watch(c->context, prm_get(cqc, PRM_CQ_UAR));
	cq->collapsed = prm_get(cqc, PRM_CQ_COLLAPSED);
	cq->ignore_overrun = prm_get(cqc, PRM_CQ_IGNORE_OVERRUN);
	prm_set(c->out, PRM_NUMBER, cq->number);
	return 0;
}

static int create_qp(struct command *c)
{
	const uint8_t *qpc = c->in + PRM_QP_CONTEXT;
	uint32_t log_stride = prm_get(qpc, PRM_QP_LOG_RQ_STRIDE) + 4;
	struct sn_qp_shape shape = {.pd = prm_get(qpc, PRM_QP_PD), .uar = prm_get(qpc, PRM_QP_UAR),
				    .user_index = prm_get(qpc, PRM_QP_USER_INDEX), .recordless = prm_get(qpc, PRM_QP_RECORDLESS) == 1,
				    .send_cq = sn_cq_find(c->context, prm_get(qpc, PRM_QP_SEND_CQ)),
				    .receive_cq = sn_cq_find(c->context, prm_get(qpc, PRM_QP_RECEIVE_CQ))};
	uint64_t rq_bytes;
	uint8_t *rings;
	struct sn_qp *qp;

	if (c->in_bytes < PRM_CREATE_QP_BYTES)
		return refuse(c, PRM_STATUS_BAD_LENGTH, "the command is too short");
	if (prm_get(qpc, PRM_QP_SERVICE) != 0)
		return refuse(c, PRM_STATUS_BAD_PARAM, "CREATE_QP: only reliable connections");
	if (!shape.send_cq || !shape.receive_cq)
		return refuse(c, PRM_STATUS_BAD_RESOURCE, "CREATE_QP: no such completion queue");
	if (!sn_uar_exists(c->context, shape.uar))
		return refuse(c, PRM_STATUS_BAD_RESOURCE, "CREATE_QP: no such UAR");
	shape.rq_count = prm_get(qpc, PRM_QP_RQ_TYPE) == PRM_RQ_NONE ? 0 : 1u << prm_get(qpc, PRM_QP_LOG_RQ_SIZE);
	shape.sq_blocks = prm_get(qpc, PRM_QP_NO_SQ) ? 0 : 1u << prm_get(qpc, PRM_QP_LOG_SQ_SIZE);
	rq_bytes = (uint64_t)shape.rq_count << log_stride;
	if (!prm_get(c->in, PRM_CREATE_QP_UMEM_VALID) || !prm_get(qpc, PRM_QP_RECORD_UMEM_VALID))
		return refuse(c, PRM_STATUS_BAD_PARAM, "CREATE_QP: rings and record live in umems");
	rings = sn_umem_at(c->context, prm_get(c->in, PRM_CREATE_QP_UMEM), prm_get64(c->in, PRM_CREATE_QP_UMEM_OFFSET),
			   rq_bytes + (uint64_t)shape.sq_blocks * SN_BLOCK);
	shape.record = sn_umem_at(c->context, prm_get(qpc, PRM_QP_RECORD_UMEM), prm_get64(qpc, PRM_QP_RECORD_OFFSET), 8);
	if (!rings || !shape.record || (uintptr_t)shape.record % 8)
		return refuse(c, PRM_STATUS_BAD_RESOURCE, "CREATE_QP: the rings or the record are not within their umem");
	/* The receive ring comes first. */
	shape.sq = rings + rq_bytes;
	qp = sn_qp_create(c->context, &shape);
	if (!qp)
		return refuse(c, PRM_STATUS_NO_RESOURCES, "CREATE_QP: no more");
	prm_set(c->out, PRM_NUMBER, qp->number);
	return 0;
}

/* Where an address path leads. On Ethernet the MAC must be the NIC's too. */
static void read_path(struct command *c, struct sn_qp *qp)
{
	const uint8_t *path = c->in + PRM_QP_CONTEXT + PRM_QP_PATH;
	const struct sn_fabric *fabric = sn_fabric.fabric;
	uint64_t mac = (uint64_t)prm_get(path, PRM_PATH_MAC_HIGH) << 32 | prm_get(path, PRM_PATH_MAC_LOW), real = 0;

	qp->timeout = prm_get(path, PRM_PATH_TIMEOUT);
	if (fabric->link_layer == SN_INFINIBAND) {
		qp->peer_card = sn_fabric_card_of_lid(fabric, prm_get(path, PRM_PATH_LID));
		if (qp->peer_card < 0)
			sn_check_failed(SN_CHECK_ADDRESS, qp, path, 44, "no NIC has LID %u", prm_get(path, PRM_PATH_LID));
		return;
	}
	qp->peer_card = sn_fabric_card_of_gid(fabric, path + PRM_PATH_GID);
	if (qp->peer_card < 0) {
		sn_check_failed(SN_CHECK_ADDRESS, qp, path, 44, "no NIC has this GID; the address path is below");
		return;
	}
	for (int i = 0; i < 6; i++)
		real = real << 8 | fabric->card[qp->peer_card].mac[i];
	if (mac != real) {
		sn_check_failed(SN_CHECK_ADDRESS, qp, path, 44, "the GID is of the NIC with MAC %012llx, the path says %012llx",
				(unsigned long long)real, (unsigned long long)mac);
		qp->peer_card = SN_NO_CARD;
	}
}

static int move_qp(struct command *c)
{
	const uint8_t *qpc = c->in + PRM_QP_CONTEXT;
	struct sn_qp *qp = sn_qp_find(prm_get(c->in, PRM_NUMBER));
	enum sn_qp_state to = SN_QP_RTS, from = SN_QP_RTS;

	if (!qp || qp->context != c->context)
		return refuse(c, PRM_STATUS_BAD_RESOURCE, "no such queue pair");
	if (c->opcode != PRM_OP_2ERR_QP && c->opcode != PRM_OP_2RST_QP && c->in_bytes < PRM_CREATE_QP_BYTES)
		return refuse(c, PRM_STATUS_BAD_LENGTH, "the command is too short");
	switch (c->opcode) {
	case PRM_OP_RST2INIT_QP: from = SN_QP_RESET; to = SN_QP_INIT; break;
	case PRM_OP_INIT2RTR_QP: from = SN_QP_INIT; to = SN_QP_RTR; break;
	case PRM_OP_RTR2RTS_QP: from = SN_QP_RTR; to = SN_QP_RTS; break;
	case PRM_OP_2ERR_QP: from = qp->state; to = SN_QP_ERROR; break;
	case PRM_OP_2RST_QP: from = qp->state; to = SN_QP_RESET; break;
	default: break;
	}
	if (qp->state != from)
		return refuse(c, PRM_STATUS_BAD_QP_STATE, sn_qp_state_name(qp->state));
	if (to == SN_QP_INIT)
		qp->access = (prm_get(qpc, PRM_QP_REMOTE_WRITE) ? IBV_ACCESS_REMOTE_WRITE : 0u) |
			     (prm_get(qpc, PRM_QP_REMOTE_READ) ? IBV_ACCESS_REMOTE_READ : 0u) |
			     (prm_get(qpc, PRM_QP_REMOTE_ATOMIC) ? IBV_ACCESS_REMOTE_ATOMIC : 0u);
	if (to == SN_QP_RTR) {
		qp->peer_qpn = prm_get(qpc, PRM_QP_REMOTE_QPN);
		qp->expected_psn = prm_get(qpc, PRM_QP_NEXT_RECEIVE_PSN);
		qp->min_rnr_timer = prm_get(qpc, PRM_QP_MIN_RNR_TIMER);
		qp->mtu = prm_get(qpc, PRM_QP_MTU);
		read_path(c, qp);
	}
	if (c->opcode == PRM_OP_RTR2RTS_QP) {
		qp->next_psn = prm_get(qpc, PRM_QP_NEXT_SEND_PSN);
		qp->retries = prm_get(qpc, PRM_QP_RETRIES);
		qp->rnr_retries = prm_get(qpc, PRM_QP_RNR_RETRIES);
		if (prm_get(qpc + PRM_QP_PATH, PRM_PATH_TIMEOUT))
			qp->timeout = prm_get(qpc + PRM_QP_PATH, PRM_PATH_TIMEOUT);
	}
	return sn_qp_move(qp, to) ? refuse(c, PRM_STATUS_BAD_QP_STATE, sn_qp_state_name(qp->state)) : 0;
}

static int query_qp(struct command *c)
{
	struct sn_qp *qp = sn_qp_find(prm_get(c->in, PRM_NUMBER));
	uint8_t *qpc = c->out + PRM_QP_CONTEXT;
	/* The device counts states in its own way. */
	static const uint8_t states[] = {[SN_QP_RESET] = 0, [SN_QP_INIT] = 1, [SN_QP_RTR] = 2, [SN_QP_RTS] = 3, [SN_QP_SQE] = 4,
					 [SN_QP_SQD] = 5, [SN_QP_ERROR] = 6};

	if (!qp || qp->context != c->context)
		return refuse(c, PRM_STATUS_BAD_RESOURCE, "no such queue pair");
	if (c->out_bytes < PRM_QUERY_QP_ANSWER_BYTES)
		return refuse(c, PRM_STATUS_BAD_LENGTH, "the answer is too short");
	prm_set(qpc, PRM_QP_STATE, states[qp->state]);
	prm_set(qpc, PRM_QP_PD, qp->pd);
	prm_set(qpc, PRM_QP_UAR, qp->uar);
	prm_set(qpc, PRM_QP_USER_INDEX, qp->user_index);
	prm_set(qpc, PRM_QP_REMOTE_QPN, qp->peer_qpn);
	prm_set(qpc, PRM_QP_NEXT_SEND_PSN, qp->next_psn);
	prm_set(qpc, PRM_QP_NEXT_RECEIVE_PSN, qp->expected_psn);
	return 0;
}

static int query_roce_address(struct command *c)
{
	const struct sn_card *card = &sn_fabric.fabric->card[c->context->card];
	uint32_t index = prm_get(c->in, PRM_ROCE_INDEX);

	if (index >= SN_GIDS || sn_fabric.fabric->link_layer != SN_ETHERNET)
		return refuse(c, PRM_STATUS_BAD_PARAM, "QUERY_ROCE_ADDRESS: no such address");
	if (c->out_bytes < PRM_ROCE_GID + 32)
		return refuse(c, PRM_STATUS_BAD_LENGTH, "the answer is too short");
	memcpy(c->out + PRM_ROCE_GID, card->gid[index], 16);
	prm_set(c->out, PRM_ROCE_MAC_HIGH, (uint32_t)card->mac[0] << 8 | card->mac[1]);
	prm_set(c->out, PRM_ROCE_MAC_LOW, (uint32_t)card->mac[2] << 24 | (uint32_t)card->mac[3] << 16 | (uint32_t)card->mac[4] << 8 | card->mac[5]);
	prm_set(c->out, PRM_ROCE_VERSION, index % 2 ? 2 : 0);
	return 0;
}

int sn_devx(struct sn_context *context, const void *in, size_t in_bytes, void *out, size_t out_bytes)
{
	struct command c = {.context = context, .in = in, .in_bytes = in_bytes, .out = out, .out_bytes = out_bytes};

	if (in_bytes < PRM_SHORT_BYTES || out_bytes < PRM_SHORT_BYTES)
		return EINVAL;
	memset(out, 0, out_bytes);
	c.opcode = prm_get(in, PRM_OPCODE);
	switch (c.opcode) {
	case PRM_OP_QUERY_HCA_CAP: return query_capabilities(&c);
	case PRM_OP_CREATE_CQ: return create_cq(&c);
	case PRM_OP_CREATE_QP: return create_qp(&c);
	case PRM_OP_RST2INIT_QP:
	case PRM_OP_INIT2RTR_QP:
	case PRM_OP_RTR2RTS_QP:
	case PRM_OP_RTS2RTS_QP:
	case PRM_OP_2ERR_QP:
	case PRM_OP_2RST_QP: return move_qp(&c);
	case PRM_OP_QUERY_QP: return query_qp(&c);
	case PRM_OP_QUERY_ROCE_ADDRESS: return query_roce_address(&c);
	default: return refuse(&c, PRM_STATUS_BAD_OP, "the model does not have it");
	}
}
