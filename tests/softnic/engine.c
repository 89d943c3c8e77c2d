#include "engine.h"
#include "check.h"
#include "context.h"
#include "cq.h"
#include "doorbell.h"
#include "fault.h"
#include "outbox.h"
#include "qp.h"
#include "requester.h"
#include "responder.h"
#include "trace.h"
#include "uar.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

enum { PACKETS_A_TURN = 64 };
/* Without work the thread yields, then sleeps, longer after a while: doorbells are memory, nothing wakes it. */
#define YIELD_NS 100000u
#define NAP_AFTER_NS 5000000u
#define SHORT_NAP_NS 10000
#define LONG_NAP_NS 200000

struct sn_fabric_mapping sn_fabric;
uint32_t sn_self;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t waiting;
static _Atomic bool running, stop;
static pthread_t thread;

void sn_engine_lock(void)
{
	atomic_fetch_add(&waiting, 1);
	pthread_mutex_lock(&lock);
	atomic_fetch_sub(&waiting, 1);
}

void sn_engine_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

static bool is_down(uint32_t card)
{
	return card >= sn_fabric.fabric->cards || __atomic_load_n((uint32_t *)&sn_fabric.fabric->card[card].down, __ATOMIC_ACQUIRE);
}

static bool take_packets(uint64_t now)
{
	uint32_t processes = __atomic_load_n((uint32_t *)&sn_fabric.fabric->processes, __ATOMIC_ACQUIRE);
	bool any = false;

	for (uint32_t source = 0; source < processes; source++) {
		struct sn_link *link = &sn_fabric.fabric->link[sn_self][source];
		struct sn_packet *packet;

		for (int n = 0; n < PACKETS_A_TURN && (packet = sn_link_peek(link)); n++) {
			uint8_t kind = packet->head.kind;

			/* A NIC that is down swallows everything. */
			if (!is_down(packet->head.card)) {
				if (kind == SN_WRITE || kind == SN_READ || kind == SN_ATOMIC)
					sn_responder_accept(packet, now);
				else
					sn_requester_answer(packet, now);
			}
			sn_link_take(link);
			any = true;
		}
	}
	return any;
}

static void rung(void *arg, uint32_t number, uint32_t offset, uint32_t first, uint32_t second)
{
	(void)arg;
	if (offset == SN_UAR_ARM)
		sn_cq_arm(second & 0xffffff);
	else
		sn_doorbell(number, offset, first, second);
}

void sn_engine_take_doorbells(void)
{
	sn_uar_poll(rung, NULL);
}

/* With "merge" the registers are looked at rarely. */
static bool take_doorbells(uint64_t now)
{
	static uint64_t next_ns;
	uint64_t every = 0;
	struct sn_context *context;

	if (sn_fault_any(SN_FAULT_MERGE)) {
		for (uint32_t n = 0; (context = sn_context_nth(n)); n++) {
			uint64_t value = sn_fault_value(SN_FAULT_MERGE, sn_context_host(context), sn_context_nic(context));

			every = value > every ? value : every;
		}
		if (now < next_ns)
			return false;
		next_ns = now + every * 1000;
	}
	return sn_uar_poll(rung, NULL) != 0;
}

static bool run_queue_pairs(uint64_t now)
{
	static uint64_t turn;
	struct sn_qp *qp;
	uint32_t count = 0, first;
	bool any = false;

	turn++;
	while (sn_qp_nth(count))
		count++;
	first = count ? (uint32_t)(turn % count) : 0;
	for (uint32_t n = 0; n < count; n++) {
		uint64_t percent;

		qp = sn_qp_nth((first + n) % count);
		percent = sn_fault_any(SN_FAULT_INTERLEAVE) ?
			sn_fault_value(SN_FAULT_INTERLEAVE, sn_context_host(qp->context), sn_context_nic(qp->context)) : 0;
		if (percent && sn_fault_dice(SN_FAULT_INTERLEAVE, sn_qp_identity(qp), turn) % 100 < percent)
			continue;
		any |= sn_responder_run(qp, now);
		any |= sn_requester_run(qp, now);
	}
	return any;
}

static void nap(uint64_t idle_ns)
{
	struct timespec pause = {.tv_nsec = idle_ns > NAP_AFTER_NS ? LONG_NAP_NS : SHORT_NAP_NS};

	if (idle_ns < YIELD_NS)
		sched_yield();
	else
		nanosleep(&pause, NULL);
}

static void *engine(void *arg)
{
	uint64_t busy_ns = sn_now_ns();

	/* Naps as short as they say: the kernel would round them up to 50 us. */
	prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul);
	while (!atomic_load(&stop)) {
		uint64_t now = sn_now_ns();
		bool any;

		while (atomic_load(&waiting))
			sched_yield();
		pthread_mutex_lock(&lock);
		any = take_packets(now);
		any |= take_doorbells(now);
		any |= run_queue_pairs(now);
		any |= sn_cq_run(now);
		any |= sn_outbox_run();
		sn_context_run();
		if (!any && now - busy_ns > YIELD_NS)
			sn_trace_flush();
		pthread_mutex_unlock(&lock);
		if (any)
			busy_ns = now;
		else
			nap(now - busy_ns);
	}
	return arg;
}

int sn_engine_start(void)
{
	const char *rank = getenv("MARROW_RANK");
	sigset_t all, before;
	int number, failed;

	if (atomic_load(&running))
		return 0;
	number = sn_fabric_join(&sn_fabric, rank ? (uint32_t)atoi(rank) : 0);
	if (number < 0) {
		fprintf(stderr, "softnic: more than %d processes on one fabric\n", SN_PROCESSES_MAX);
		return -1;
	}
	sn_self = (uint32_t)number;
	sn_check_count_in(sn_fabric.fabric->process[number].failed);
	/* The program's signals are the program's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	atomic_store(&stop, false);
	failed = pthread_create(&thread, NULL, engine, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (failed) {
		fprintf(stderr, "softnic: cannot start the engine: %s\n", strerror(failed));
		return -1;
	}
	pthread_setname_np(thread, "softnic-engine");
	atomic_store(&running, true);
	return 0;
}

void sn_engine_stop(void)
{
	if (!atomic_exchange(&running, false))
		return;
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	atomic_store(&sn_fabric.fabric->process[sn_self].presence, SN_LEFT);
	sn_trace_flush();
}

void sn_engine_forked(void)
{
	atomic_store(&running, false);
	atomic_store(&waiting, 0);
	pthread_mutex_init(&lock, NULL);
}
