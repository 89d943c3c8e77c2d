/* Plain verbs between two processes on two hosts (and, for rank 0, back to itself): every operation, every way to fail, completion
 * channels and asynchronous events.
 *
 * usage: verbs       below `marrow-softnic run -n 2 --hosts 2 --checks -remote_access,-local_access` */
#include "rig.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 1 << 20, DEPTH = 64, FLAG_AT = BYTES - 64 };
#define IMMEDIATE 0x11223344u

static struct rig_port port;
static struct ibv_cq *cq;
static struct ibv_comp_channel *channel;
static uint8_t *memory;
static struct ibv_mr *mr;
static int rank;

static struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
					.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 4, .max_recv_sge = 1, .max_inline_data = 64}};
	struct ibv_qp *qp = ibv_create_qp(port.pd, &attr);

	RIG_CHECK(qp);
	return qp;
}

static void connect_qp(struct ibv_qp *qp, const struct rig_address *peer)
{
	struct rig_queue q = {.port = &port, .kind = RIG_VERBS, .qp = qp};

	rig_connect(&q, peer->qpn, &peer->gid);
}

/* A queue pair to the other rank. */
static struct ibv_qp *meet(struct rig_address *peer)
{
	struct ibv_qp *qp = make_qp();
	struct rig_address mine = {.qpn = qp->qp_num, .rkey = mr->rkey, .memory = (uintptr_t)memory, .gid = port.gid};

	rig_swap(&mine, peer, sizeof(mine));
	connect_qp(qp, peer);
	rig_swap("c", (char[1]){0}, 1);
	return qp;
}

static struct ibv_wc wait_one(double seconds)
{
	struct ibv_wc wc = {.status = (enum ibv_wc_status)-1};
	double end = rig_now() + seconds;

	while (ibv_poll_cq(cq, 1, &wc) == 0 && rig_now() < end)
		usleep(20);
	return wc;
}

static void post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, size_t at, uint32_t bytes, uint64_t to, uint32_t rkey, int flags, uint64_t id)
{
	struct ibv_sge sge = {.addr = (uintptr_t)memory + at, .length = bytes, .lkey = mr->lkey};
	struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = (unsigned)flags}, *bad;

	wr.imm_data = htobe32(IMMEDIATE);
	wr.wr.rdma.remote_addr = to;
	wr.wr.rdma.rkey = rkey;
	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = to;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.swap = 77;
	}
	RIG_CHECK(!ibv_post_send(qp, &wr, &bad));
}

static void expect(enum ibv_wc_status status, uint64_t id)
{
	struct ibv_wc wc = wait_one(10);

	if (wc.status != status || wc.wr_id != id) {
		fprintf(stderr, "rank %d: completion %s of %llu instead of %s of %llu\n", rank, ibv_wc_status_str(wc.status), (unsigned long long)wc.wr_id,
			ibv_wc_status_str(status), (unsigned long long)id);
		exit(1);
	}
}

static uint64_t *word(size_t at)
{
	return (uint64_t *)(void *)(memory + at);
}

/* Everything that goes well, towards peer (which may be ourselves). */
static void operations(struct ibv_qp *qp, const struct rig_address *peer)
{
	uint64_t to = peer->memory + BYTES / 2;

	for (size_t i = 0; i < 50000; i++)
		memory[i] = (uint8_t)(i * 7);
	post(qp, IBV_WR_RDMA_WRITE, 0, 50000, to, peer->rkey, 0, 1);
	*word(100000) = 0xf1a6;
	post(qp, IBV_WR_RDMA_WRITE, 100000, 8, peer->memory + FLAG_AT, peer->rkey, IBV_SEND_SIGNALED | IBV_SEND_INLINE, 2);
	expect(IBV_WC_SUCCESS, 2);
	post(qp, IBV_WR_RDMA_READ, 200000, 50000, to, peer->rkey, IBV_SEND_SIGNALED, 3);
	expect(IBV_WC_SUCCESS, 3);
	RIG_CHECK(!memcmp(memory, memory + 200000, 50000));
	*word(100000) = 40;
	post(qp, IBV_WR_RDMA_WRITE, 100000, 8, to, peer->rkey, 0, 4);
	post(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, 100008, 8, to, peer->rkey, IBV_SEND_SIGNALED, 5);
	expect(IBV_WC_SUCCESS, 5);
	RIG_CHECK(*word(100008) == 40);
	/* Compares with 5, then 45 is there. */
	post(qp, IBV_WR_ATOMIC_CMP_AND_SWP, 100008, 8, to, peer->rkey, IBV_SEND_SIGNALED, 6);
	expect(IBV_WC_SUCCESS, 6);
	RIG_CHECK(*word(100008) == 45);
}

static void receive_one(struct ibv_qp *qp)
{
	struct ibv_recv_wr wr = {.wr_id = 50}, *bad;

	RIG_CHECK(!ibv_post_recv(qp, &wr, &bad));
}

/* A queue pair that is spent by one failure. Each rank calls it at the same time. */
static void failure(const char *name, enum ibv_wr_opcode opcode, uint32_t rkey_change, size_t at, bool peer_goes, enum ibv_wc_status status)
{
	struct rig_address peer;
	struct ibv_qp *qp = meet(&peer);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	char mark;

	if (rank == 1 && peer_goes)
		RIG_CHECK(!ibv_destroy_qp(qp));
	rig_swap("f", &mark, 1);
	if (rank == 0) {
		post(qp, opcode, at, 64, peer.memory, peer.rkey ^ rkey_change, IBV_SEND_SIGNALED, 10);
		post(qp, opcode, 0, 64, peer.memory, peer.rkey, 0, 11);
		expect(status, 10);
		expect(IBV_WC_WR_FLUSH_ERR, 11);
		RIG_CHECK(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_ERR);
		printf("%s: ok\n", name);
	}
	rig_swap("g", &mark, 1);
	if (rank == 0 || !peer_goes)
		RIG_CHECK(!ibv_destroy_qp(qp));
}

static void event_comes(struct ibv_qp *qp, const struct rig_address *peer)
{
	struct pollfd wait = {.fd = channel->fd, .events = POLLIN};
	struct ibv_cq *of;
	void *context;

	RIG_CHECK(!ibv_req_notify_cq(cq, 0));
	post(qp, IBV_WR_RDMA_WRITE, 0, 64, peer->memory, peer->rkey, IBV_SEND_SIGNALED, 30);
	RIG_CHECK(poll(&wait, 1, 5000) == 1);
	RIG_CHECK(!ibv_get_cq_event(channel, &of, &context) && of == cq);
	ibv_ack_cq_events(cq, 1);
	expect(IBV_WC_SUCCESS, 30);
}

int main(void)
{
	struct rig_address peer, self;
	struct ibv_qp *qp, *a, *b;
	char mark;

	rank = getenv("MARROW_RANK") ? atoi(getenv("MARROW_RANK")) : 0;
	rig_open(&port, 0);
	RIG_CHECK(!getenv("MARROW_HOST_ID") || !strcmp(port.host, getenv("MARROW_HOST_ID")));
	channel = ibv_create_comp_channel(port.context);
	RIG_CHECK(channel);
	cq = ibv_create_cq(port.context, 4 * DEPTH, NULL, channel, 0);
	RIG_CHECK(cq);
	memory = calloc(1, BYTES);
	RIG_CHECK(memory);
	mr = rig_register(&port, memory, BYTES, 0);

	qp = meet(&peer);
	if (rank == 0) {
		operations(qp, &peer);
		event_comes(qp, &peer);
		puts("operations between processes: ok");
	}
	rig_swap("1", &mark, 1);
	if (rank == 1)
		RIG_CHECK(*word(FLAG_AT) == 0xf1a6);
	/* With an immediate value: the receiver posts late, the sender is told to come again. */
	if (rank == 0)
		post(qp, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 6000, peer.memory, peer.rkey, IBV_SEND_SIGNALED, 20);
	usleep(2000);
	if (rank == 1) {
		struct ibv_wc wc;

		receive_one(qp);
		wc = wait_one(10);
		RIG_CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.wr_id == 50);
		RIG_CHECK(wc.imm_data == htobe32(IMMEDIATE) && wc.byte_len == 6000 && memory[1] == 7);
	} else {
		expect(IBV_WC_SUCCESS, 20);
		puts("immediate value: ok");
	}
	rig_swap("2", &mark, 1);
	RIG_CHECK(!ibv_destroy_qp(qp));

	failure("remote key", IBV_WR_RDMA_WRITE, 0x100, 0, false, IBV_WC_REM_ACCESS_ERR);
	failure("local bounds", IBV_WR_RDMA_WRITE, 0, BYTES - 32, false, IBV_WC_LOC_PROT_ERR);
	failure("no receiver", IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, false, IBV_WC_RNR_RETRY_EXC_ERR);
	failure("peer's queue pair gone", IBV_WR_RDMA_WRITE, 0, 0, true, IBV_WC_RETRY_EXC_ERR);

	if (rank == 0) {
		a = make_qp();
		b = make_qp();
		self = (struct rig_address){.qpn = b->qp_num, .rkey = mr->rkey, .memory = (uintptr_t)memory, .gid = port.gid};
		connect_qp(a, &self);
		self.qpn = a->qp_num;
		connect_qp(b, &self);
		operations(a, &self);
		puts("operations within a process: ok");
		ibv_destroy_qp(a);
		ibv_destroy_qp(b);
	}

	/* The other process goes away for good. */
	qp = meet(&peer);
	if (rank == 1)
		_exit(0);
	rig_wait_gone();
	post(qp, IBV_WR_RDMA_WRITE, 0, 64, peer.memory, peer.rkey, IBV_SEND_SIGNALED, 40);
	expect(IBV_WC_RETRY_EXC_ERR, 40);
	puts("peer's process gone: ok");
	ibv_destroy_qp(qp);
	ibv_dereg_mr(mr);
	ibv_destroy_cq(cq);
	ibv_destroy_comp_channel(channel);
	rig_close(&port);
	free(memory);
	return 0;
}
