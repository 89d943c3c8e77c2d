/* engine.c - lets programs of the library's tests run on soft-RoCE, data plane and all: a thread executes the work requests that kernels write.
 * It reads the doorbell record and the WQE bytes as a NIC would, posts each to the same queue pair by ibv_post_send, and writes the completions as
 * a ConnectX does. So the messages, their order and what loss does to them are the kernel's; only the fetching of requests is not.
 *
 * Linked into a program it puts itself into the table of libraries' functions before anything is called. Devices rxeN are called mlx5_N. Only what the
 * library posts is known: RDMA writes, inline or not. */
#include "proxyless/cqe.h"
#include "proxyless/nic.h"
#include "proxyless/verbs.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { QUEUES = 64, BOUNCE = 32, IDLE_NS = 20000 };

struct queue {
	struct ibv_qp *qp; /* NULL: this place is free */
	struct ibv_cq *cq;
	struct ibv_mr *mr; /* of bounce: what requests carry inline */
	uint8_t *sq, *ring, *bounce;
	uint32_t *records; /* doorbell, of the receive queue and the send queue */
	uint32_t slots, cq_slots;
	uint16_t fetched;
	uint64_t completed;
};

static struct {
	pthread_mutex_t lock;
	pthread_once_t once;
	struct queue queue[QUEUES];
	uint64_t executed;
	struct mrw_verbs real;
} engine = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

__attribute__((noreturn)) static void stop(const char *what, uint64_t number)
{
	fprintf(stderr, "engine: %s (%llu)\n", what, (unsigned long long)number);
	abort();
}

static uint32_t word(const uint8_t *at)
{
	uint32_t be;

	memcpy(&be, at, sizeof be);
	return be32toh(be);
}

static uint64_t two_words(const uint8_t *at)
{
	return (uint64_t)word(at) << 32 | word(at + 4);
}

/* One request. False: the queue pair takes no more now. */
static bool execute(struct queue *q)
{
	const uint8_t *wqe = q->sq + (q->fetched & (q->slots - 1)) * MRW_WQEBB_BYTES;
	uint32_t bytes = word(wqe + 32);
	struct ibv_sge sge = {two_words(wqe + 40), bytes, word(wqe + 36)};
	struct ibv_send_wr wr = {.wr_id = q->fetched, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
	int error;

	if (word(wqe) != ((uint32_t)q->fetched << 8 | MRW_OPCODE_WRITE))
		stop("a request with another index, or another than a write", word(wqe));
	if (word(wqe + 4) >> 8 != q->qp->qp_num)
		stop("a request of another queue pair", word(wqe + 4) >> 8);
	if (bytes & MRW_INLINE) {
		sge.length = bytes & ~MRW_INLINE;
		if (sge.length > MRW_INLINE_BYTES)
			stop("too much inline", sge.length);
		sge.addr = (uint64_t)(uintptr_t)(q->bounce + (q->fetched & (q->slots - 1)) * BOUNCE);
		sge.lkey = q->mr->lkey;
		memcpy((void *)(uintptr_t)sge.addr, wqe + 36, sge.length);
	}
	wr.wr.rdma.remote_addr = two_words(wqe + 16);
	wr.wr.rdma.rkey = word(wqe + 24);
	wr.send_flags = word(wqe + 8) & MRW_SIGNAL ? IBV_SEND_SIGNALED : 0;
	error = ibv_post_send(q->qp, &wr, &bad);
	if (error && error != ENOMEM && error != EINVAL) /* EINVAL: in the error state, once torn down */
		stop("ibv_post_send", (uint64_t)error);
	return !error;
}

static uint32_t syndrome_of(enum ibv_wc_status status)
{
	static const uint8_t syndromes[] = {
		[IBV_WC_LOC_LEN_ERR] = 0x01,   [IBV_WC_LOC_QP_OP_ERR] = 0x02, [IBV_WC_LOC_PROT_ERR] = 0x04,
		[IBV_WC_WR_FLUSH_ERR] = 0x05,  [IBV_WC_BAD_RESP_ERR] = 0x10,  [IBV_WC_LOC_ACCESS_ERR] = 0x11,
		[IBV_WC_REM_INV_REQ_ERR] = 0x12, [IBV_WC_REM_ACCESS_ERR] = 0x13, [IBV_WC_REM_OP_ERR] = 0x14,
		[IBV_WC_RETRY_EXC_ERR] = 0x15, [IBV_WC_RNR_RETRY_EXC_ERR] = 0x16, [IBV_WC_REM_ABORT_ERR] = 0x22};

	return (uint32_t)status < sizeof syndromes ? syndromes[status] : 0xff;
}

/* The entry's last word last: it says that the others are there. */
static void complete(struct queue *q, const struct ibv_wc *wc)
{
	uint8_t *cqe = q->ring + (q->completed & (q->cq_slots - 1)) * MRW_CQE_BYTES;
	uint32_t opcode = wc->status == IBV_WC_SUCCESS ? MRW_CQE_REQUEST : MRW_CQE_REQUEST_ERROR, owner = (q->completed & q->cq_slots) != 0;
	uint32_t syndrome = htobe32(wc->status == IBV_WC_SUCCESS ? 0 : syndrome_of(wc->status));

	__atomic_store_n((uint32_t *)(void *)(cqe + MRW_CQE_ERROR_AT), syndrome, __ATOMIC_RELAXED);
	__atomic_store_n((uint32_t *)(void *)(cqe + MRW_CQE_TAIL_AT), htobe32((uint32_t)wc->wr_id << 16 | opcode << 4 | owner), __ATOMIC_RELEASE);
	q->completed++;
}

static bool serve(struct queue *q)
{
	uint16_t told = (uint16_t)be32toh(__atomic_load_n(&q->records[1], __ATOMIC_ACQUIRE));
	struct ibv_wc wc[16];
	bool busy = false;
	int n;

	while (q->fetched != told && execute(q)) {
		q->fetched++;
		engine.executed++;
		busy = true;
	}
	n = ibv_poll_cq(q->cq, 16, wc);
	for (int i = 0; i < n; i++)
		complete(q, &wc[i]);
	return busy || n > 0;
}

static void *run(void *arg)
{
	const struct timespec nap = {0, IDLE_NS};

	(void)arg;
	for (;;) {
		bool busy = false;

		pthread_mutex_lock(&engine.lock);
		for (uint32_t i = 0; i < QUEUES; i++)
			if (engine.queue[i].qp)
				busy |= serve(&engine.queue[i]);
		pthread_mutex_unlock(&engine.lock);
		if (busy)
			sched_yield();
		else
			nanosleep(&nap, NULL);
	}
	return NULL;
}

static void begin(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, NULL))
		stop("no thread", 0);
	pthread_detach(thread);
}

static void *pages(size_t bytes)
{
	void *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);

	if (!memory)
		stop("no memory", bytes);
	memset(memory, 0, bytes);
	return memory;
}

/* Rings for a queue pair and its completions, from now on served. */
static void adopt(struct ibv_qp *qp, struct ibv_cq *cq, struct mlx5dv_qp *qp_out, struct mlx5dv_cq *cq_out)
{
	struct ibv_qp_init_attr made;
	struct ibv_qp_attr attr;
	struct queue q = {.qp = qp, .cq = cq, .slots = 4, .cq_slots = (uint32_t)cq->cqe + 1};
	uint32_t i = 0;

	if (ibv_query_qp(qp, &attr, IBV_QP_CAP, &made))
		stop("ibv_query_qp", (uint64_t)errno);
	while (q.slots * 2 <= made.cap.max_send_wr * 4)
		q.slots *= 2;
	if (q.slots > q.cq_slots)
		q.slots = q.cq_slots;
	if (q.cq_slots & (q.cq_slots - 1))
		stop("completions that are no power of two", q.cq_slots);
	q.sq = pages((size_t)q.slots * MRW_WQEBB_BYTES);
	q.ring = pages((size_t)q.cq_slots * MRW_CQE_BYTES);
	q.bounce = pages((size_t)q.slots * BOUNCE);
	q.records = pages(64);
	for (uint32_t k = 0; k < q.cq_slots; k++)
		q.ring[k * MRW_CQE_BYTES + 63] = MRW_CQE_INVALID << 4 | 1;
	q.mr = ibv_reg_mr(qp->pd, q.bounce, (size_t)q.slots * BOUNCE, IBV_ACCESS_LOCAL_WRITE);
	if (!q.mr)
		stop("ibv_reg_mr", (uint64_t)errno);
	*qp_out = (struct mlx5dv_qp){.dbrec = q.records, .sq = {.buf = q.sq, .wqe_cnt = q.slots, .stride = MRW_WQEBB_BYTES}, .bf = {.reg = pages(64)}};
	*cq_out = (struct mlx5dv_cq){.buf = q.ring, .dbrec = pages(64), .cqe_cnt = q.cq_slots, .cqe_size = MRW_CQE_BYTES};
	pthread_once(&engine.once, begin);
	pthread_mutex_lock(&engine.lock);
	while (i < QUEUES && engine.queue[i].qp)
		i++;
	if (i == QUEUES)
		stop("too many queue pairs", QUEUES);
	engine.queue[i] = q;
	pthread_mutex_unlock(&engine.lock);
}

/* The rings stay until the process ends: the library looks into them once more. */
static int destroy_qp(struct ibv_qp *qp)
{
	pthread_mutex_lock(&engine.lock);
	for (uint32_t i = 0; i < QUEUES; i++)
		if (engine.queue[i].qp == qp) {
			ibv_dereg_mr(engine.queue[i].mr);
			engine.queue[i].qp = NULL;
		}
	pthread_mutex_unlock(&engine.lock);
	return engine.real.destroy_qp(qp);
}

static int init_obj(struct mlx5dv_obj *object, uint64_t type)
{
	if (type & MLX5DV_OBJ_PD)
		object->pd.out->pdn = object->pd.in->handle;
	if (type & MLX5DV_OBJ_QP)
		adopt(object->qp.in, object->cq.in, object->qp.out, object->cq.out);
	return 0;
}

static bool is_supported(struct ibv_device *device)
{
	return !strncmp(engine.real.get_device_name(device), "rxe", 3);
}

static struct ibv_context *open_device(struct ibv_device *device, struct mlx5dv_context_attr *attr)
{
	(void)attr;
	return ibv_open_device(device);
}

static const char *get_device_name(struct ibv_device *device)
{
	static const char *const names[] = {"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"};
	const char *name = engine.real.get_device_name(device);

	return !strncmp(name, "rxe", 3) && name[3] >= '0' && name[3] < '4' ? names[name[3] - '0'] : name;
}

__attribute__((constructor)) static void install(void)
{
	const struct mrw_verbs *found;
	struct mrw_verbs *table;

	if (mrw_verbs_load(&found) != MARROW_SUCCESS)
		return;
	table = (struct mrw_verbs *)(uintptr_t)found; /* verbs.c fills it once, and leaves it alone from then on */
	engine.real = *table;
	table->has_devx = false;
	table->is_supported = is_supported;
	table->open_device = open_device;
	table->init_obj = init_obj;
	table->get_device_name = get_device_name;
	table->destroy_qp = destroy_qp;
}

/* A program that got on without was no test of this. */
__attribute__((destructor)) static void report(void)
{
	printf("engine: %llu requests executed\n", (unsigned long long)engine.executed);
	fflush(stdout);
	if (!engine.executed)
		_exit(1);
}
