/* link_verbs.c - queues made by verbs: libmlx5's own rings, opened by mlx5dv_init_obj; completions by ownership. */
#include "inside.h"

#include "base/log.h"

#include <errno.h>
#include <string.h>

enum { WQEBBS_A_REQUEST = 4, MIN_RNR_TIMER = 12, HOPS = 255 };

static enum marrow_status make_failed(const struct mrw_link *link, const char *what, int error)
{
	char limit[64];

	errno = error;
	return mrw_fail_errno(
		MARROW_SYSTEM_ERROR,
		"%s: %s for rank %u failed (this process has %u queue pairs there, the device takes %u of all processes; "
		"locked-memory limit %s)",
		link->nic->info.name, what, link->queue->peer, link->nic->links, link->nic->info.max_queues,
		mrw_memlock_text(limit));
}

static enum marrow_status move_to_init(struct mrw_link *link)
{
	const struct mrw_nic *nic = link->nic;
	struct ibv_qp_attr attr;
	int error;

	memset(&attr, 0, sizeof attr);
	attr.qp_state = IBV_QPS_INIT;
	attr.pkey_index = (uint16_t)nic->config.pkey_index;
	attr.port_num = (uint8_t)nic->info.port;
	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	error = nic->verbs->modify_qp(link->qp, &attr,
				      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	return error ? make_failed(link, "moving a queue pair to INIT", error) : MARROW_SUCCESS;
}

/* Takes the rings from libmlx5, which posts and polls nothing here. */
static enum marrow_status open_rings(struct mrw_link *link)
{
	struct mlx5dv_qp qp;
	struct mlx5dv_cq cq;
	struct mlx5dv_obj object;
	struct mrw_queue *queue = link->queue;
	struct mrw_link_memory *m = &link->memory;

	memset(&qp, 0, sizeof qp);
	memset(&cq, 0, sizeof cq);
	memset(&object, 0, sizeof object);
	object.qp.in = link->qp;
	object.qp.out = &qp;
	object.cq.in = link->cq;
	object.cq.out = &cq;
	if (link->nic->verbs->init_obj(&object, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ))
		return mrw_fail(MARROW_UNSUPPORTED, "%s: libmlx5 does not give its queues away", link->nic->info.name);
	if (qp.sq.stride != MRW_WQEBB_BYTES || cq.cqe_size != MRW_CQE_BYTES || !qp.bf.reg)
		return mrw_fail(
			MARROW_UNSUPPORTED,
			"%s: queues of libmlx5 with slots of %u and completions of %u bytes (64 and 64 are needed: is "
			"MLX5_CQE_SIZE set?)",
			link->nic->info.name, qp.sq.stride, cq.cqe_size);
	if (qp.sq.wqe_cnt > cq.cqe_cnt || qp.sq.wqe_cnt > 32768 || qp.sq.wqe_cnt < link->nic->config.slots)
		return mrw_fail(MARROW_INTERNAL_ERROR,
				"%s: libmlx5 made %u slots with %u completions where %u were asked for",
				link->nic->info.name, qp.sq.wqe_cnt, cq.cqe_cnt, link->nic->config.slots);
	queue->sq = qp.sq.buf;
	queue->record = (uint32_t *)qp.dbrec + 1; /* the first is the receive queue's */
	queue->doorbell = qp.bf.reg;
	queue->cq = cq.buf;
	queue->cq_record = (uint32_t *)cq.dbrec;
	queue->slots = qp.sq.wqe_cnt;
	queue->cq_slots = cq.cqe_cnt;
	mrw_pages_around(queue->sq, (uint64_t)queue->slots * MRW_WQEBB_BYTES, &m->sq.base, &m->sq.bytes);
	mrw_pages_around(queue->record, 4, &m->record.base, &m->record.bytes);
	mrw_pages_around(queue->cq, (uint64_t)queue->cq_slots * MRW_CQE_BYTES, &m->cq.base, &m->cq.bytes);
	mrw_pages_around(queue->cq_record, 4, &m->cq_record.base, &m->cq_record.bytes);
	mrw_pages_around(queue->doorbell, 8, &m->doorbell.base, &m->doorbell.bytes);
	return MARROW_SUCCESS;
}

enum marrow_status mrw_verbs_make(struct mrw_link *link)
{
	const struct mrw_nic *nic = link->nic;
	struct ibv_qp_init_attr attr;
	enum marrow_status status;

	memset(&attr, 0, sizeof attr);
	/* As many entries as the largest ring that libmlx5 may make of it: flushed requests complete one by one. */
	link->cq = nic->verbs->create_cq(nic->context, (int)nic->config.slots * 2 - 1, NULL, NULL, 0);
	if (!link->cq)
		return make_failed(link, "making a completion queue", errno);
	attr.send_cq = attr.recv_cq = link->cq;
	attr.qp_type = IBV_QPT_RC;
	/* libmlx5 counts four WQEBBs for a request of the largest kind. */
	attr.cap.max_send_wr = nic->config.slots / WQEBBS_A_REQUEST;
	attr.cap.max_send_sge = 1;
	link->qp = nic->verbs->create_qp(nic->pd, &attr);
	if (!link->qp) {
		status = make_failed(link, "making a queue pair", errno);
		goto fail;
	}
	link->qpn = link->qp->qp_num;
	MRW_TRY_GOTO(open_rings(link));
	MRW_TRY_GOTO(move_to_init(link));
	return MARROW_SUCCESS;
fail:
	mrw_verbs_free(link);
	return status;
}

enum marrow_status mrw_verbs_connect(struct mrw_link *link, const struct mrw_path *to)
{
	const struct mrw_nic *nic = link->nic;
	struct ibv_qp_attr attr;
	int error;

	memset(&attr, 0, sizeof attr);
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = to->mtu;
	attr.dest_qp_num = to->qpn;
	attr.rq_psn = to->psn;
	attr.max_dest_rd_atomic = (uint8_t)nic->reads_in;
	attr.min_rnr_timer = MIN_RNR_TIMER;
	attr.ah_attr.port_num = (uint8_t)nic->info.port;
	attr.ah_attr.sl = (uint8_t)nic->config.service_level;
	attr.ah_attr.dlid = (uint16_t)to->lid;
	if (to->global) {
		attr.ah_attr.is_global = 1;
		memcpy(attr.ah_attr.grh.dgid.raw, to->gid, sizeof to->gid);
		attr.ah_attr.grh.sgid_index = (uint8_t)nic->gid_index;
		attr.ah_attr.grh.flow_label = mrw_path_flow(link, to);
		attr.ah_attr.grh.hop_limit = HOPS;
		attr.ah_attr.grh.traffic_class = (uint8_t)nic->config.traffic_class;
	}
	error = nic->verbs->modify_qp(link->qp, &attr,
				      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (error) {
		errno = error;
		return mrw_fail_errno(
			MARROW_SYSTEM_ERROR,
			"%s: readying a queue pair to receive (RTR) from rank %u failed (do the two ends ping each "
			"other on these interfaces?)",
			nic->info.name, link->queue->peer);
	}
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = (uint8_t)(nic->config.timeout & 31);
	attr.retry_cnt = (uint8_t)(nic->config.retries & 7);
	attr.rnr_retry = (uint8_t)(nic->config.rnr_retries & 7);
	attr.sq_psn = link->psn;
	attr.max_rd_atomic = (uint8_t)nic->reads_out;
	error = nic->verbs->modify_qp(link->qp, &attr,
				      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	if (error) {
		errno = error;
		return mrw_fail_errno(MARROW_SYSTEM_ERROR, "%s: readying a queue pair to send (RTS) to rank %u failed",
				      nic->info.name, link->queue->peer);
	}
	return MARROW_SUCCESS;
}

void mrw_verbs_stop(struct mrw_link *link)
{
	struct ibv_qp_attr attr;
	int error;

	memset(&attr, 0, sizeof attr);
	attr.qp_state = IBV_QPS_ERR;
	error = link->nic->verbs->modify_qp(link->qp, &attr, IBV_QP_STATE);
	if (error)
		mrw_log(MRW_LOG_WARN, "%s: moving queue pair 0x%x to the error state failed: %s", link->nic->info.name,
			link->qpn, strerror(error));
}

void mrw_verbs_free(struct mrw_link *link)
{
	const struct mrw_verbs *v = link->nic->verbs;
	int error = link->qp ? v->destroy_qp(link->qp) : 0;

	if (!error && link->cq)
		error = v->destroy_cq(link->cq);
	if (error)
		mrw_log(MRW_LOG_WARN, "%s: destroying queue pair 0x%x failed: %s", link->nic->info.name, link->qpn,
			strerror(error));
	link->qp = NULL;
	link->cq = NULL;
	memset(&link->memory, 0, sizeof link->memory);
}
