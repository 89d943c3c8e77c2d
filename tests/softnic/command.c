/* The kernel interface's write() commands: <rdma/ib_user_verbs.h>, <rdma/mlx5-abi.h>. What is not here answers ENOSYS. */
#include "channel.h"
#include "check.h"
#include "context.h"
#include "engine.h"
#include "gpu.h"
#include "memory.h"
#include "qp.h"
#include "uar.h"

#include <errno.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

/* A command taken apart: input, and room for the answer (core, then driver). */
struct command {
	struct sn_context *context;
	bool extended;
	const void *in;
	void *out;
	size_t out_bytes;
};

static void *driver_out(const struct command *c, size_t core_bytes)
{
	return c->out_bytes > core_bytes ? (uint8_t *)c->out + core_bytes : NULL;
}

void sn_command_driver_context(void *to, size_t bytes)
{
	/* No static doorbell registers: libmlx5 then allocates UARs one by one. */
	struct mlx5_ib_alloc_ucontext_resp answer = {
		.qp_tab_size = 1 << 18, .bf_reg_size = 512, .cache_line_size = 64, .max_sq_desc_sz = 1024, .max_rq_desc_sz = 512,
		.max_send_wqebb = 32768, .max_recv_wr = 32768, .max_srq_recv_wr = 32767, .num_ports = 1, .cqe_version = 1,
		.cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_CREATE_AH, .eth_min_inline = MLX5_USER_INLINE_MODE_NONE, .log_uar_size = 12,
		.num_uars_per_page = 1, .num_dyn_bfregs = 1024, .response_length = sizeof(answer)};

	if (to)
		memcpy(to, &answer, bytes < sizeof(answer) ? bytes : sizeof(answer));
}

static int get_context(struct command *c)
{
	struct ib_uverbs_get_context_resp *out = c->out;
	int fd = sn_channel_open(&c->context->events);

	if (fd < 0)
		return errno;
	out->async_fd = (uint32_t)fd;
	out->num_comp_vectors = 1;
	sn_command_driver_context(driver_out(c, sizeof(*out)), c->out_bytes - sizeof(*out));
	return 0;
}

static int query_device(struct command *c)
{
	struct ib_uverbs_query_device_resp *out = c->out;
	const struct sn_card *card = &sn_fabric.fabric->card[c->context->card];

	out->fw_ver = 28ull << 32 | 39 << 16 | 1002;
	memcpy(&out->node_guid, card->guid, sizeof(card->guid));
	memcpy(&out->sys_image_guid, card->guid, sizeof(card->guid));
	out->max_mr_size = ~0ull;
	out->page_size_cap = ~0xfffull;
	out->vendor_id = 0x2c9;
	out->vendor_part_id = 4129;
	out->max_qp = 131072;
	out->max_qp_wr = 32768;
	out->max_sge = out->max_sge_rd = 30;
	out->max_cq = 1 << 24;
	out->max_cqe = 4194303;
	out->max_mr = 1 << 24;
	out->max_pd = 1 << 23;
	out->max_qp_rd_atom = out->max_qp_init_rd_atom = 16;
	out->max_res_rd_atom = 1 << 20;
	out->atomic_cap = IBV_ATOMIC_HCA;
	out->max_pkeys = 128;
	out->max_ah = 1 << 30;
	out->phys_port_cnt = 1;
	if (c->extended)
		((struct ib_uverbs_ex_query_device_resp *)c->out)->response_length =
			(uint32_t)(c->out_bytes < sizeof(struct ib_uverbs_ex_query_device_resp) ? c->out_bytes :
				   sizeof(struct ib_uverbs_ex_query_device_resp));
	return 0;
}

static int query_port(struct command *c)
{
	struct ib_uverbs_query_port_resp *out = c->out;
	const struct sn_card *card = &sn_fabric.fabric->card[c->context->card];
	bool ethernet = sn_fabric.fabric->link_layer == SN_ETHERNET;

	out->state = atomic_load(&card->down) ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
	out->phys_state = 5;
	out->max_mtu = out->active_mtu = IBV_MTU_4096;
	out->gid_tbl_len = ethernet ? SN_GIDS : 1;
	out->pkey_tbl_len = 1;
	out->max_msg_sz = 1u << 30;
	out->active_width = 2;
	out->active_speed = 64;
	out->lid = ethernet ? 0 : (uint16_t)card->lid;
	out->sm_lid = ethernet ? 0 : 1;
	out->link_layer = ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
	return 0;
}

static int alloc_pd(struct command *c)
{
	struct ib_uverbs_alloc_pd_resp *out = c->out;
	struct mlx5_ib_alloc_pd_resp *driver = driver_out(c, sizeof(*out));

	out->pd_handle = sn_pd_alloc(c->context);
	if (driver)
		driver->pdn = out->pd_handle;
	return out->pd_handle ? 0 : ENOMEM;
}

static int create_ah(struct command *c)
{
	const struct ib_uverbs_create_ah *in = c->in;
	struct ib_uverbs_create_ah_resp *out = c->out;
	struct mlx5_ib_create_ah_resp *driver = driver_out(c, sizeof(*out));
	int card = sn_fabric_card_of_gid(sn_fabric.fabric, in->attr.grh.dgid);

	if (card < 0)
		return EHOSTUNREACH;
	out->ah_handle = (uint32_t)card;
	if (driver) {
		memcpy(driver->dmac, sn_fabric.fabric->card[card].mac, sizeof(driver->dmac));
		driver->response_length = sizeof(*driver);
	}
	return 0;
}

static int reg_mr(struct command *c)
{
	const struct ib_uverbs_reg_mr *in = c->in;
	struct ib_uverbs_reg_mr_resp *out = c->out;
	struct sn_mr *mr;

	if (in->access_flags & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) && !(in->access_flags & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	mr = sn_mr_register(c->context, in->pd_handle, in->start, in->hca_va, in->length, in->access_flags);
	if (!mr)
		return ENOMEM;
	if (sn_gpu_holds(mr->start) && sn_memory_refuses("peermem")) {
		sn_mr_deregister(mr->key >> 8);
		return EFAULT;
	}
	out->mr_handle = mr->key >> 8;
	out->lkey = out->rkey = mr->key;
	return 0;
}

static int create_comp_channel(struct command *c)
{
	struct ib_uverbs_create_comp_channel_resp *out = c->out;
	int channel, fd = sn_channel_open(&channel);

	out->fd = (uint32_t)fd;
	return fd < 0 ? errno : 0;
}

static int create_cq(struct command *c)
{
	const struct ib_uverbs_create_cq *in = c->in;
	const struct ib_uverbs_ex_create_cq *extended = c->in;
	const struct mlx5_ib_create_cq *driver = c->extended ? (const void *)(extended + 1) : (const void *)(in + 1);
	uint32_t entries = c->extended ? extended->cqe : in->cqe;
	int channel = c->extended ? extended->comp_channel : in->comp_channel;
	struct ib_uverbs_create_cq_resp *out = c->out;
	struct mlx5_ib_create_cq_resp *out_driver =
		driver_out(c, c->extended ? sizeof(struct ib_uverbs_ex_create_cq_resp) : sizeof(struct ib_uverbs_create_cq_resp));
	struct sn_cq *cq;

	/* libmlx5 asks for one less than a power of two. */
	cq = sn_cq_create(c->context, (void *)(uintptr_t)driver->buf_addr, (void *)(uintptr_t)driver->db_addr, entries + 1, driver->cqe_size);
	if (!cq)
		return ENOMEM;
	sn_uar_watch(c->context, driver->flags & MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX ? driver->uar_page_index : 0);
	cq->user_handle = c->extended ? extended->user_handle : in->user_handle;
	cq->channel = channel < 0 ? -1 : sn_channel_of(channel);
	out->cq_handle = cq->number;
	out->cqe = entries;
	if (c->extended)
		((struct ib_uverbs_ex_create_cq_resp *)c->out)->response_length = sizeof(struct ib_uverbs_ex_create_cq_resp);
	if (out_driver)
		out_driver->cqn = cq->number;
	return 0;
}

static int destroy_cq(struct command *c)
{
	const struct ib_uverbs_destroy_cq *in = c->in;
	struct ib_uverbs_destroy_cq_resp *out = c->out;
	struct sn_cq *cq = sn_cq_find(c->context, in->cq_handle);

	if (cq && out)
		out->comp_events_reported = cq->announced;
	return cq ? sn_cq_destroy(cq) : EINVAL;
}

static int create_qp(struct command *c)
{
	const struct ib_uverbs_create_qp *in = c->in;
	const struct mlx5_ib_create_qp *driver = (const void *)(in + 1);
	struct ib_uverbs_create_qp_resp *out = c->out;
	struct sn_qp_shape shape = {.pd = in->pd_handle, .user_index = driver->uidx, .sq_blocks = driver->sq_wqe_count,
				    .rq_count = driver->rq_wqe_count, .record = (void *)(uintptr_t)driver->db_addr,
				    .send_cq = sn_cq_find(c->context, in->send_cq_handle),
				    .receive_cq = sn_cq_find(c->context, in->recv_cq_handle)};
	struct sn_qp *qp;

	if (c->extended || in->qp_type != IBV_QPT_RC || in->is_srq)
		return EOPNOTSUPP;
	if (!shape.send_cq || !shape.receive_cq)
		return EINVAL;
	shape.uar = driver->flags & MLX5_QP_FLAG_UAR_PAGE_INDEX ? driver->bfreg_index : 0;
	shape.sq = (uint8_t *)(uintptr_t)driver->buf_addr + ((size_t)driver->rq_wqe_count << driver->rq_wqe_shift);
	qp = sn_qp_create(c->context, &shape);
	if (!qp)
		return ENOMEM;
	out->qp_handle = out->qpn = qp->number;
	out->max_send_wr = in->max_send_wr;
	out->max_recv_wr = in->max_recv_wr;
	out->max_send_sge = in->max_send_sge;
	out->max_recv_sge = in->max_recv_sge;
	out->max_inline_data = in->max_inline_data;
	return 0;
}

static struct sn_qp *find_qp(const struct command *c, uint32_t handle)
{
	struct sn_qp *qp = sn_qp_find(handle);

	return qp && qp->context == c->context ? qp : NULL;
}

static int modify_qp(struct command *c)
{
	const struct ib_uverbs_modify_qp *in = c->in;
	struct sn_qp *qp = find_qp(c, in->qp_handle);

	if (!qp)
		return EINVAL;
	if (in->attr_mask & IBV_QP_ACCESS_FLAGS)
		qp->access = in->qp_access_flags;
	if (in->attr_mask & IBV_QP_DEST_QPN)
		qp->peer_qpn = in->dest_qp_num;
	if (in->attr_mask & IBV_QP_AV) {
		qp->peer_card = in->dest.is_global ? sn_fabric_card_of_gid(sn_fabric.fabric, in->dest.dgid) :
						     sn_fabric_card_of_lid(sn_fabric.fabric, in->dest.dlid);
		if (sn_fabric.fabric->link_layer == SN_ETHERNET && !in->dest.is_global)
			return EINVAL;
		if (qp->peer_card < 0)
			sn_check_failed(SN_CHECK_ADDRESS, qp, in->dest.dgid, 16, "no NIC has this GID (or LID %u)", in->dest.dlid);
	}
	if (in->attr_mask & IBV_QP_PATH_MTU)
		qp->mtu = in->path_mtu;
	if (in->attr_mask & IBV_QP_TIMEOUT)
		qp->timeout = in->timeout & 31;
	if (in->attr_mask & IBV_QP_RETRY_CNT)
		qp->retries = in->retry_cnt & 7;
	if (in->attr_mask & IBV_QP_RNR_RETRY)
		qp->rnr_retries = in->rnr_retry & 7;
	if (in->attr_mask & IBV_QP_MIN_RNR_TIMER)
		qp->min_rnr_timer = in->min_rnr_timer & 31;
	if (in->attr_mask & IBV_QP_SQ_PSN)
		qp->next_psn = in->sq_psn & 0xffffff;
	if (in->attr_mask & IBV_QP_RQ_PSN)
		qp->expected_psn = in->rq_psn & 0xffffff;
	return in->attr_mask & IBV_QP_STATE ? sn_qp_move(qp, (enum sn_qp_state)in->qp_state) : 0;
}

static int query_qp(struct command *c)
{
	const struct ib_uverbs_query_qp *in = c->in;
	struct ib_uverbs_query_qp_resp *out = c->out;
	struct sn_qp *qp = find_qp(c, in->qp_handle);

	if (!qp)
		return EINVAL;
	out->qp_state = out->cur_qp_state = (uint8_t)qp->state;
	out->dest_qp_num = qp->peer_qpn;
	out->qp_access_flags = qp->access;
	out->path_mtu = (uint8_t)qp->mtu;
	out->timeout = (uint8_t)qp->timeout;
	out->retry_cnt = (uint8_t)qp->retries;
	out->rnr_retry = (uint8_t)qp->rnr_retries;
	out->min_rnr_timer = (uint8_t)qp->min_rnr_timer;
	out->sq_psn = qp->next_psn;
	out->rq_psn = qp->expected_psn;
	out->port_num = 1;
	return 0;
}

static int destroy_qp(struct command *c)
{
	struct sn_qp *qp = find_qp(c, ((const struct ib_uverbs_destroy_qp *)c->in)->qp_handle);

	if (!qp)
		return EINVAL;
	sn_qp_destroy(qp);
	return 0;
}

static int execute(struct command *c, uint32_t number)
{
	switch (number) {
	case IB_USER_VERBS_CMD_GET_CONTEXT: return get_context(c);
	case IB_USER_VERBS_CMD_QUERY_DEVICE: return query_device(c);
	case IB_USER_VERBS_CMD_QUERY_PORT: return query_port(c);
	case IB_USER_VERBS_CMD_ALLOC_PD: return alloc_pd(c);
	case IB_USER_VERBS_CMD_DEALLOC_PD: return sn_pd_free(((const struct ib_uverbs_dealloc_pd *)c->in)->pd_handle);
	case IB_USER_VERBS_CMD_CREATE_AH: return create_ah(c);
	case IB_USER_VERBS_CMD_DESTROY_AH: return 0;
	case IB_USER_VERBS_CMD_REG_MR: return reg_mr(c);
	case IB_USER_VERBS_CMD_DEREG_MR: return sn_mr_deregister(((const struct ib_uverbs_dereg_mr *)c->in)->mr_handle);
	case IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL: return create_comp_channel(c);
	case IB_USER_VERBS_CMD_CREATE_CQ: return create_cq(c);
	case IB_USER_VERBS_CMD_DESTROY_CQ: return destroy_cq(c);
	case IB_USER_VERBS_CMD_CREATE_QP: return create_qp(c);
	case IB_USER_VERBS_CMD_MODIFY_QP: return modify_qp(c);
	case IB_USER_VERBS_CMD_QUERY_QP: return query_qp(c);
	case IB_USER_VERBS_CMD_DESTROY_QP: return destroy_qp(c);
	default: return ENOSYS;
	}
}

/* Commands without a response pointer in front. */
static bool is_silent(uint32_t number)
{
	return number == IB_USER_VERBS_CMD_DEALLOC_PD || number == IB_USER_VERBS_CMD_DEREG_MR || number == IB_USER_VERBS_CMD_MODIFY_QP ||
	       number == IB_USER_VERBS_CMD_DESTROY_AH;
}

long sn_command(struct sn_context *context, const void *buffer, size_t bytes)
{
	const struct ib_uverbs_cmd_hdr *head = buffer;
	const struct ib_uverbs_ex_cmd_hdr *extended = (const void *)(head + 1);
	struct command c = {.context = context};
	uint32_t number;
	int failure;

	if (bytes < sizeof(*head)) {
		errno = EINVAL;
		return -1;
	}
	number = head->command & IB_USER_VERBS_CMD_COMMAND_MASK;
	c.extended = head->command & IB_USER_VERBS_CMD_FLAG_EXTENDED;
	c.in = c.extended ? (const void *)(extended + 1) : (const void *)(head + 1);
	if (c.extended) {
		c.out = (void *)(uintptr_t)extended->response;
		c.out_bytes = (size_t)head->out_words * 8 + (size_t)extended->provider_out_words * 8;
	} else if (!is_silent(number)) {
		c.out = *(void *const *)c.in;
		c.out_bytes = (size_t)head->out_words * 4;
	}
	if (c.out)
		memset(c.out, 0, c.out_bytes);
	failure = execute(&c, number);
	if (failure) {
		errno = failure;
		return -1;
	}
	return (long)bytes;
}
