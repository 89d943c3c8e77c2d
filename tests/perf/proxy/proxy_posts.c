/* proxy_posts.c - the ordinary way: the kernel puts a request into a queue in memory; a thread of the rank polls that, posts two RDMA writes by
 * ibv_post_send, polls for completions and counts them where the kernel looks. One thread a rank, as elsewhere; it spins while there is work and gives its core
 * away while there is none. The receiver needs no thread here, which flatters it: others have one there, too. */
#include "calls.h"
#include "transport.h"

#include "proxyless/inside.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* By one peer: posted <= filled, done <= posted, filled - done <= END_WORDS. */
struct requests {
	struct message message[END_WORDS];
	_Alignas(64) uint64_t filled; /* by the kernel: publishes the messages below */
	_Alignas(64) uint64_t done;   /* by the proxy: publishes that their sources were read */
	uint64_t posted;              /* the proxy's own */
};

struct proxy {
	struct end *end;
	pthread_t thread;
	bool count;
	uint32_t leave;
	int failed; /* 1 + enum ibv_wc_status, or -errno of a post */
	uint64_t yields, calls;
	struct requests requests[END_RANKS];
};

static void post(struct proxy *p, uint32_t peer)
{
	struct requests *r = &p->requests[peer];
	const struct message *m = &r->message[r->posted % END_WORDS];
	const struct end_peer *to = &p->end->peer[peer];
	uint64_t word = end_word(p->end, peer, r->posted);
	struct ibv_sge data = {p->end->region.address + m->from, m->bytes, p->end->region.lkey};
	struct ibv_sge flag = {p->end->region.address + word, sizeof m->value, p->end->region.lkey};
	struct ibv_send_wr wr[2], *bad;
	int error;

	memcpy(p->end->memory + word, &m->value, sizeof m->value);
	memset(wr, 0, sizeof wr);
	wr[0] = (struct ibv_send_wr){.next = &wr[1], .sg_list = &data, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
	wr[0].wr.rdma.remote_addr = to->address + m->to;
	wr[0].wr.rdma.rkey = to->rkey;
	wr[1] = (struct ibv_send_wr){.sg_list = &flag, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	wr[1].wr.rdma.remote_addr = to->address + m->flag;
	wr[1].wr.rdma.rkey = to->rkey;
	error = ibv_post_send(to->link->qp, wr, &bad);
	if (error)
		__atomic_store_n(&p->failed, -error, __ATOMIC_RELAXED);
	r->posted++;
}

/* True if there was something to do. */
static bool serve(struct proxy *p, uint32_t peer)
{
	struct requests *r = &p->requests[peer];
	uint64_t done = r->done;
	struct ibv_wc wc[16];
	bool busy = false;

	if (r->posted < __atomic_load_n(&r->filled, __ATOMIC_ACQUIRE)) {
		post(p, peer);
		busy = true;
	}
	if (done < r->posted) {
		int n = ibv_poll_cq(p->end->peer[peer].link->cq, 16, wc);

		for (int i = 0; i < n; i++)
			if (wc[i].status != IBV_WC_SUCCESS)
				__atomic_store_n(&p->failed, 1 + (int)wc[i].status, __ATOMIC_RELAXED);
		if (n > 0)
			__atomic_store_n(&r->done, done + (uint64_t)n, __ATOMIC_RELEASE);
		busy |= n > 0;
	}
	return busy;
}

static void *run(void *arg)
{
	struct proxy *p = arg;
	uint32_t looks = 0;

	if (p->count)
		calls_count(&p->calls);
	while (!__atomic_load_n(&p->leave, __ATOMIC_ACQUIRE)) {
		bool busy = false;

		for (uint32_t peer = 0; peer < p->end->nranks; peer++)
			if (peer != p->end->rank)
				busy |= serve(p, peer);
		if (busy)
			looks = 0;
		else
			look_again(&looks, &p->yields);
	}
	return NULL;
}

static void *start(struct end *end, bool count)
{
	struct proxy *p = aligned_alloc(64, (sizeof *p + 63) / 64 * 64);

	if (!p)
		end_die("no memory for a proxy");
	memset(p, 0, sizeof *p);
	p->end = end;
	p->count = count;
	if (pthread_create(&p->thread, NULL, run, p))
		end_die("no thread for a proxy");
	return p;
}

static const char *trouble(void *self)
{
	const struct proxy *p = self;
	int failed = __atomic_load_n(&p->failed, __ATOMIC_RELAXED);

	return !failed ? NULL : failed < 0 ? strerror(-failed) : ibv_wc_status_str((enum ibv_wc_status)(failed - 1));
}

static uint64_t send(void *self, const struct message *m)
{
	struct proxy *p = self;
	struct requests *r = &p->requests[m->peer];
	uint64_t number = r->filled;
	uint32_t looks = 0;

	while (number - __atomic_load_n(&r->done, __ATOMIC_ACQUIRE) >= END_WORDS) {
		if (trouble(p))
			end_die("%s", trouble(p));
		look_again(&looks, &kernel_yields);
	}
	r->message[number % END_WORDS] = *m;
	__atomic_store_n(&r->filled, number + 1, __ATOMIC_RELEASE);
	return number;
}

static bool sent(void *self, uint32_t peer, uint64_t number)
{
	const struct proxy *p = self;

	return __atomic_load_n(&p->requests[peer].done, __ATOMIC_ACQUIRE) > number;
}

static void helper_usage(void *self, struct usage *usage)
{
	struct proxy *p = self;
	struct timespec ts = {0, 0};
	clockid_t clock;

	if (!pthread_getcpuclockid(p->thread, &clock))
		clock_gettime(clock, &ts);
	usage->cpu_ns = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	usage->yields = __atomic_load_n(&p->yields, __ATOMIC_RELAXED);
	usage->calls = __atomic_load_n(&p->calls, __ATOMIC_RELAXED);
}

static void stop(void *self)
{
	struct proxy *p = self;

	__atomic_store_n(&p->leave, 1, __ATOMIC_RELEASE);
	pthread_join(p->thread, NULL);
	free(p);
}

const struct transport transport_proxy = {"proxy posts", MRW_QUEUES_VERBS, start, send, sent, trouble, helper_usage, stop};
