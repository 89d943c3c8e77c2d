#include "rig.h"
#include "../prm.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, USER_INDEX = 7, TIMEOUT = 8, RETRIES = 2, RNR_TIMER = 24 /* 41 ms */ };

void rig_check(bool held, const char *text, const char *file, int line)
{
	if (held)
		return;
	fprintf(stderr, "%s:%d: not so: %s\n", file, line, text);
	exit(1);
}

double rig_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void rig_open(struct rig_port *port, uint32_t device)
{
	struct mlx5dv_context_attr attr = {.flags = MLX5DV_CONTEXT_FLAGS_DEVX};
	struct mlx5dv_pd pd;
	struct mlx5dv_obj object = {.pd = {.out = &pd}};
	struct ibv_device **list;
	char path[512], text[128] = "";
	FILE *file;
	int count = 0;

	memset(port, 0, sizeof(*port));
	list = ibv_get_device_list(&count);
	if (!list || count <= (int)device) {
		printf("device %u of %d: run this below marrow-softnic\n", device, count);
		exit(RIG_EXIT_SKIPPED);
	}
	port->context = mlx5dv_open_device(list[device], &attr);
	RIG_CHECK(port->context);
	snprintf(path, sizeof(path), "%s/node_desc", list[device]->ibdev_path);
	file = fopen(path, "r");
	RIG_CHECK(file && fgets(text, sizeof(text), file));
	fclose(file);
	RIG_CHECK(sscanf(text, "softnic host=%63s nic=%u", port->host, &port->nic) == 2);
	ibv_free_device_list(list);
	port->pd = ibv_alloc_pd(port->context);
	RIG_CHECK(port->pd);
	object.pd.in = port->pd;
	RIG_CHECK(!mlx5dv_init_obj(&object, MLX5DV_OBJ_PD));
	port->pdn = pd.pdn;
	/* RoCE v2, IPv4-mapped; the only one of InfiniBand. */
	if (ibv_query_gid(port->context, 1, 3, &port->gid))
		RIG_CHECK(!ibv_query_gid(port->context, 1, 0, &port->gid));
}

void rig_close(struct rig_port *port)
{
	RIG_CHECK(!ibv_dealloc_pd(port->pd));
	RIG_CHECK(!ibv_close_device(port->context));
}

struct ibv_mr *rig_register(struct rig_port *port, void *memory, size_t bytes, unsigned more_access)
{
	unsigned access = (unsigned)IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | more_access;
	struct ibv_mr *mr = ibv_reg_mr(port->pd, memory, bytes, access);

	RIG_CHECK(mr);
	return mr;
}

/* nic: their address for the NIC. */
static void *pages(size_t bytes, int fill, const struct rig_memory *from, void **nic)
{
	void *memory = NULL;

	bytes = (bytes + PAGE - 1) / PAGE * PAGE;
	if (from) {
		uint64_t address = from->alloc(bytes, 0);

		memory = from->at(address);
		*nic = (void *)(uintptr_t)address;
	} else {
		RIG_CHECK(!posix_memalign(&memory, PAGE, bytes));
		*nic = memory;
	}
	memset(memory, fill, bytes);
	return memory;
}

static void make_devx(struct rig_queue *q, const struct rig_memory *from)
{
	struct ibv_context *context = q->port->context;
	bool collapsed = q->kind != RIG_DEVX_ORDINARY;
	uint8_t in[PRM_CREATE_QP_BYTES] = {0}, out[PRM_SHORT_BYTES] = {0}, *cqc = in + PRM_CREATE_CQ_CONTEXT, *qpc = in + PRM_QP_CONTEXT;
	struct mlx5dv_devx_umem *sq, *cq, *record;
	struct mlx5dv_devx_uar *bell, *cq_uar;
	void *at[3];
	uint8_t *records = pages(PAGE, 0, from, &at[2]);
	uint32_t eqn = 0, cqn;

	q->lent = from != NULL;
	q->sq = pages((size_t)q->blocks * RIG_BLOCK, 0, from, &at[0]);
	q->cq = pages((size_t)q->entries * 64, 0xff, from, &at[1]);
	q->record = (uint32_t *)(void *)records;
	q->cq_record = (uint32_t *)(void *)(records + 64);
	sq = mlx5dv_devx_umem_reg(context, at[0], (size_t)q->blocks * RIG_BLOCK, IBV_ACCESS_LOCAL_WRITE);
	cq = mlx5dv_devx_umem_reg(context, at[1], (size_t)q->entries * 64, IBV_ACCESS_LOCAL_WRITE);
	record = mlx5dv_devx_umem_reg(context, at[2], PAGE, IBV_ACCESS_LOCAL_WRITE);
	bell = mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_BF);
	cq_uar = mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_NC);
	q->umem[0] = sq;
	q->umem[1] = cq;
	q->umem[2] = record;
	q->uar[0] = bell;
	q->uar[1] = cq_uar;
	RIG_CHECK(sq && cq && record && bell && cq_uar && !mlx5dv_devx_query_eqn(context, 0, &eqn));

	prm_set(in, PRM_OPCODE, PRM_OP_CREATE_CQ);
	prm_set(in, PRM_CREATE_CQ_UMEM, cq->umem_id);
	prm_set(in, PRM_CREATE_CQ_UMEM_VALID, 1);
	prm_set(cqc, PRM_CQ_RECORD_UMEM_VALID, 1);
	prm_set(cqc, PRM_CQ_RECORD_UMEM, record->umem_id);
	prm_set64(cqc, PRM_CQ_RECORD_OFFSET, 64);
	prm_set(cqc, PRM_CQ_COLLAPSED, collapsed);
	prm_set(cqc, PRM_CQ_IGNORE_OVERRUN, collapsed);
	prm_set(cqc, PRM_CQ_LOG_SIZE, (uint32_t)__builtin_ctz(q->entries));
	prm_set(cqc, PRM_CQ_UAR, cq_uar->page_id);
	prm_set(cqc, PRM_CQ_EQN, eqn);
	q->cq_object = mlx5dv_devx_obj_create(context, in, sizeof(in), out, sizeof(out));
	RIG_CHECK(q->cq_object);
	cqn = prm_get(out, PRM_NUMBER);

	memset(in, 0, sizeof(in));
	prm_set(in, PRM_OPCODE, PRM_OP_CREATE_QP);
	prm_set(in, PRM_CREATE_QP_UMEM, sq->umem_id);
	prm_set(in, PRM_CREATE_QP_UMEM_VALID, 1);
	prm_set(qpc, PRM_QP_MIGRATION, 3);
	prm_set(qpc, PRM_QP_PD, q->port->pdn);
	prm_set(qpc, PRM_QP_UAR, bell->page_id);
	prm_set(qpc, PRM_QP_RQ_TYPE, PRM_RQ_NONE);
	prm_set(qpc, PRM_QP_SEND_CQ, cqn);
	prm_set(qpc, PRM_QP_RECEIVE_CQ, cqn);
	prm_set(qpc, PRM_QP_LOG_SQ_SIZE, (uint32_t)__builtin_ctz(q->blocks));
	prm_set(qpc, PRM_QP_USER_INDEX, USER_INDEX);
	prm_set(qpc, PRM_QP_RECORD_UMEM_VALID, 1);
	prm_set(qpc, PRM_QP_RECORD_UMEM, record->umem_id);
	prm_set(qpc, PRM_QP_RECORDLESS, q->kind == RIG_DEVX_RECORDLESS);
	q->qp_object = mlx5dv_devx_obj_create(context, in, sizeof(in), out, sizeof(out));
	RIG_CHECK(q->qp_object);
	q->qpn = prm_get(out, PRM_NUMBER);
	q->bell = q->kind == RIG_DEVX_RECORDLESS ? (uint64_t *)(void *)((uint8_t *)bell->base_addr + 0x600) : bell->reg_addr;
}

static void make_verbs(struct rig_queue *q)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = q->blocks / 4, .max_recv_wr = 16, .max_send_sge = 1,
								      .max_recv_sge = 1, .max_inline_data = 64}};
	struct mlx5dv_qp qp = {.comp_mask = 0};
	struct mlx5dv_cq cq = {.comp_mask = 0};
	struct mlx5dv_obj object = {.qp = {.out = &qp}, .cq = {.out = &cq}};

	q->verbs_cq = ibv_create_cq(q->port->context, (int)q->entries - 1, NULL, NULL, 0);
	RIG_CHECK(q->verbs_cq);
	attr.send_cq = attr.recv_cq = q->verbs_cq;
	q->qp = ibv_create_qp(q->port->pd, &attr);
	RIG_CHECK(q->qp);
	object.qp.in = q->qp;
	object.cq.in = q->verbs_cq;
	RIG_CHECK(!mlx5dv_init_obj(&object, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ));
	RIG_CHECK(qp.sq.stride == RIG_BLOCK && cq.cqe_size == 64);
	q->sq = qp.sq.buf;
	q->blocks = qp.sq.wqe_cnt;
	q->record = (uint32_t *)(void *)qp.dbrec;
	q->bell = qp.bf.reg;
	q->qpn = q->qp->qp_num;
	q->cq = cq.buf;
	q->entries = cq.cqe_cnt;
	q->cq_record = (uint32_t *)(void *)cq.dbrec;
}

void rig_make(struct rig_queue *queue, struct rig_port *port, enum rig_kind kind, uint32_t blocks)
{
	rig_make_in(queue, port, kind, blocks, NULL);
}

void rig_make_in(struct rig_queue *queue, struct rig_port *port, enum rig_kind kind, uint32_t blocks, const struct rig_memory *memory)
{
	*queue = (struct rig_queue){.port = port, .kind = kind, .blocks = blocks, .entries = 64};
	if (kind == RIG_VERBS)
		make_verbs(queue);
	else
		make_devx(queue, memory);
}

void rig_destroy(struct rig_queue *queue)
{
	if (queue->kind == RIG_VERBS) {
		RIG_CHECK(!ibv_destroy_qp(queue->qp));
		RIG_CHECK(!ibv_destroy_cq(queue->verbs_cq));
	} else {
		RIG_CHECK(!mlx5dv_devx_obj_destroy(queue->qp_object));
		RIG_CHECK(!mlx5dv_devx_obj_destroy(queue->cq_object));
		for (int i = 0; i < 3; i++)
			RIG_CHECK(!mlx5dv_devx_umem_dereg(queue->umem[i]));
		for (int i = 0; i < 2; i++)
			mlx5dv_devx_free_uar(queue->uar[i]);
		if (!queue->lent) {
			free(queue->sq);
			free(queue->cq);
			free(queue->record);
		}
	}
}

static void move(struct rig_queue *q, uint32_t opcode, uint8_t in[PRM_CREATE_QP_BYTES])
{
	uint8_t out[PRM_SHORT_BYTES] = {0};

	prm_set(in, PRM_OPCODE, opcode);
	prm_set(in, PRM_NUMBER, q->qpn);
	RIG_CHECK(!mlx5dv_devx_obj_modify(q->qp_object, in, PRM_CREATE_QP_BYTES, out, sizeof(out)));
}

static void connect_devx(struct rig_queue *q, uint32_t peer_qpn, const union ibv_gid *peer)
{
	uint8_t in[PRM_CREATE_QP_BYTES] = {0}, *qpc = in + PRM_QP_CONTEXT, *path = qpc + PRM_QP_PATH;
	struct ibv_ah_attr ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *peer, .sgid_index = 3, .hop_limit = 1}};
	struct mlx5dv_ah ah;
	struct mlx5dv_obj object = {.ah = {.out = &ah}};
	struct ibv_ah *handle = ibv_create_ah(q->port->pd, &ah_attr);

	RIG_CHECK(handle);
	object.ah.in = handle;
	RIG_CHECK(!mlx5dv_init_obj(&object, MLX5DV_OBJ_AH));
	prm_set(qpc, PRM_QP_REMOTE_WRITE, 1);
	prm_set(qpc, PRM_QP_REMOTE_READ, 1);
	prm_set(qpc, PRM_QP_REMOTE_ATOMIC, 1);
	prm_set(qpc, PRM_QP_ATOMIC_MODE, 3);
	prm_set(path, PRM_PATH_PORT, 1);
	move(q, PRM_OP_RST2INIT_QP, in);

	prm_set(qpc, PRM_QP_MTU, IBV_MTU_4096);
	prm_set(qpc, PRM_QP_MIN_RNR_TIMER, RNR_TIMER);
	prm_set(qpc, PRM_QP_REMOTE_QPN, peer_qpn);
	memcpy(path + PRM_PATH_GID, peer->raw, 16);
	prm_set(path, PRM_PATH_MAC_HIGH, (uint32_t)ah.av->rmac[0] << 8 | ah.av->rmac[1]);
	prm_set(path, PRM_PATH_MAC_LOW, (uint32_t)ah.av->rmac[2] << 24 | (uint32_t)ah.av->rmac[3] << 16 | (uint32_t)ah.av->rmac[4] << 8 | ah.av->rmac[5]);
	prm_set(path, PRM_PATH_HOP_LIMIT, 1);
	move(q, PRM_OP_INIT2RTR_QP, in);

	prm_set(qpc, PRM_QP_RETRIES, RETRIES);
	prm_set(qpc, PRM_QP_RNR_RETRIES, RETRIES);
	prm_set(path, PRM_PATH_TIMEOUT, TIMEOUT);
	move(q, PRM_OP_RTR2RTS_QP, in);
	RIG_CHECK(!ibv_destroy_ah(handle));
}

static void connect_verbs(struct rig_queue *q, uint32_t peer_qpn, const union ibv_gid *peer)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};

	RIG_CHECK(!ibv_modify_qp(q->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_4096;
	attr.dest_qp_num = peer_qpn;
	attr.max_dest_rd_atomic = 16;
	attr.min_rnr_timer = RNR_TIMER;
	attr.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.dgid = *peer, .sgid_index = 3, .hop_limit = 1}};
	RIG_CHECK(!ibv_modify_qp(q->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = TIMEOUT;
	attr.retry_cnt = attr.rnr_retry = RETRIES;
	attr.max_rd_atomic = 16;
	RIG_CHECK(!ibv_modify_qp(q->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				 IBV_QP_MAX_QP_RD_ATOMIC));
}

void rig_connect(struct rig_queue *queue, uint32_t peer_qpn, const union ibv_gid *peer)
{
	if (queue->kind == RIG_VERBS)
		connect_verbs(queue, peer_qpn, peer);
	else
		connect_devx(queue, peer_qpn, peer);
}

void rig_connect_pair(struct rig_queue *a, struct rig_queue *b)
{
	rig_connect(a, b->qpn, &b->port->gid);
	rig_connect(b, a->qpn, &a->port->gid);
}

static int peer_fd = -1;

void rig_wait_gone(void)
{
	char byte;

	RIG_CHECK(recv(peer_fd, &byte, 1, 0) <= 0);
	usleep(20000);
}

void rig_swap(const void *mine, void *other, size_t bytes)
{
	const char *rank = getenv("MARROW_RANK"), *root = getenv("MARROW_ROOT");
	double end = rig_now() + 20;

	RIG_CHECK(rank && root);
	if (peer_fd < 0) {
		struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
					      .sin_port = htons((uint16_t)atoi(strchr(root, ':') + 1))};
		int s = socket(AF_INET, SOCK_STREAM, 0), on = 1;

		if (atoi(rank) == 0) {
			setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
			RIG_CHECK(!bind(s, (struct sockaddr *)&address, sizeof(address)) && !listen(s, 1));
			peer_fd = accept(s, NULL, NULL);
			close(s);
		} else {
			while (connect(s, (struct sockaddr *)&address, sizeof(address)) && rig_now() < end)
				usleep(10000);
			peer_fd = s;
		}
		RIG_CHECK(peer_fd >= 0);
	}
	RIG_CHECK(send(peer_fd, mine, bytes, MSG_NOSIGNAL) == (ssize_t)bytes);
	RIG_CHECK(recv(peer_fd, other, bytes, MSG_WAITALL) == (ssize_t)bytes);
}

void rig_put32(uint8_t *at, uint32_t value)
{
	value = htobe32(value);
	memcpy(at, &value, sizeof(value));
}

void rig_put64(uint8_t *at, uint64_t value)
{
	value = htobe64(value);
	memcpy(at, &value, sizeof(value));
}

uint8_t *rig_block(struct rig_queue *queue, uint64_t index)
{
	return queue->sq + (index & (queue->blocks - 1)) * RIG_BLOCK;
}

uint8_t *rig_control(struct rig_queue *queue, uint8_t opcode, uint8_t opmod, uint32_t size, bool signalled)
{
	uint8_t *at = rig_block(queue, queue->next);

	for (uint32_t i = 0; i < (size + 3) / 4; i++)
		memset(rig_block(queue, queue->next + i), 0, RIG_BLOCK);
	rig_put32(at, (uint32_t)opmod << 24 | (uint32_t)(queue->next & 0xffff) << 8 | opcode);
	rig_put32(at + 4, queue->qpn << 8 | size);
	at[11] = signalled ? 8 : 0;
	queue->last = (uint16_t)queue->next;
	queue->next += (size + 3) / 4;
	return at;
}

static void remote(uint8_t *at, const void *to, uint32_t rkey)
{
	rig_put64(at, (uintptr_t)to);
	rig_put32(at + 8, rkey);
}

static void data(uint8_t *at, const void *from, uint32_t lkey, uint32_t bytes)
{
	rig_put32(at, bytes);
	rig_put32(at + 4, lkey);
	rig_put64(at + 8, (uintptr_t)from);
}

void rig_write(struct rig_queue *queue, void *to, uint32_t rkey, const void *from, uint32_t lkey, uint32_t bytes, bool signalled)
{
	uint8_t *at = rig_control(queue, 0x08, 0, 3, signalled);

	remote(at + 16, to, rkey);
	data(at + 32, from, lkey, bytes);
}

void rig_write_inline(struct rig_queue *queue, void *to, uint32_t rkey, const void *from, uint32_t bytes, bool signalled)
{
	uint64_t index = queue->next;
	uint8_t *at = rig_control(queue, 0x08, 0, 2 + (4 + bytes + 15) / 16, signalled);
	uint32_t offset = 36;

	remote(at + 16, to, rkey);
	rig_put32(at + 32, bytes | 0x80000000u);
	for (uint32_t i = 0; i < bytes; i++, offset++)
		rig_block(queue, index + offset / RIG_BLOCK)[offset % RIG_BLOCK] = ((const uint8_t *)from)[i];
}

void rig_read(struct rig_queue *queue, void *to, uint32_t lkey, const void *from, uint32_t rkey, uint32_t bytes, bool signalled)
{
	uint8_t *at = rig_control(queue, 0x10, 0, 3, signalled);

	remote(at + 16, from, rkey);
	data(at + 32, to, lkey, bytes);
}

void rig_fetch_add(struct rig_queue *queue, uint64_t *at_memory, uint32_t rkey, uint64_t *result, uint32_t lkey, uint64_t add, bool signalled)
{
	uint8_t *at = rig_control(queue, 0x12, 0, 4, signalled);

	remote(at + 16, at_memory, rkey);
	rig_put64(at + 32, add);
	data(at + 48, result, lkey, 8);
}

void rig_record(struct rig_queue *queue, uint32_t value)
{
	/* Release: the WQEs first. */
	__atomic_store_n(&queue->record[1], htobe32(value), __ATOMIC_RELEASE);
}

void rig_bell(struct rig_queue *queue, uint64_t index)
{
	uint32_t half[2] = {htobe32((uint32_t)(index & 0xffff) << 8), htobe32(queue->qpn << 8)};
	uint64_t value;

	memcpy(&value, half, sizeof(value));
	__atomic_store_n(queue->bell, value, __ATOMIC_RELEASE);
}

void rig_ring(struct rig_queue *queue)
{
	rig_record(queue, queue->next & 0xffff);
	rig_bell(queue, queue->next);
}

void rig_ring_last(struct rig_queue *queue)
{
	rig_record(queue, queue->next & 0xffff);
	rig_bell(queue, queue->kind == RIG_DEVX_RECORDLESS ? queue->next : queue->next - 1);
}

/* A new completion: its syndrome (0: good) and its counter; false: none. */
static bool poll(struct rig_queue *q, int *syndrome, uint16_t *counter)
{
	bool collapsed = q->kind == RIG_DEVX || q->kind == RIG_DEVX_RECORDLESS;
	uint8_t *entry = q->cq + (collapsed ? 0 : (q->consumed & (q->entries - 1)) * 64);
	/* Acquire pairs with the NIC's release of the last four bytes. */
	uint32_t tail = be32toh(__atomic_load_n((uint32_t *)(void *)(entry + 60), __ATOMIC_ACQUIRE));
	uint32_t opcode = tail >> 4 & 0xf;

	if (opcode == 0xf)
		return false;
	if (!collapsed && (tail & 1) != (q->consumed / q->entries & 1))
		return false;
	*counter = (uint16_t)(tail >> 16);
	*syndrome = opcode == 0xd || opcode == 0xe ? entry[0x37] : 0;
	if (!collapsed) {
		q->consumed++;
		__atomic_store_n(&q->cq_record[0], htobe32((uint32_t)q->consumed & 0xffffff), __ATOMIC_RELEASE);
	}
	return true;
}

int rig_wait(struct rig_queue *queue, double seconds)
{
	double end = rig_now() + seconds;
	uint16_t counter;
	int syndrome;

	for (;;) {
		if (poll(queue, &syndrome, &counter)) {
			if (syndrome)
				return syndrome;
			if (counter == queue->last)
				return 0;
		}
		if (rig_now() > end)
			return -1;
		usleep(10);
	}
}
