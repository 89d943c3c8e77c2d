/* order_host.h - order.h for the host target. Only order.h includes this. */
#ifndef MRW_ORDER_HOST_H
#define MRW_ORDER_HOST_H

#include <sched.h>
#include <time.h>

MRW_DEV uint64_t mrw_load_relaxed(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

MRW_DEV void mrw_store_relaxed(uint64_t *p, uint64_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}

/* Partner: mrw_observed() in the thread that polled the word. */
MRW_DEV void mrw_publish(uint64_t *p, uint64_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

/* Partner: mrw_publish(). */
MRW_DEV void mrw_observed(const uint64_t *p)
{
	(void)__atomic_load_n(p, __ATOMIC_ACQUIRE);
}

/* Returns the old value; stored iff it equals want. */
MRW_DEV uint64_t mrw_compare_swap(uint64_t *p, uint64_t want, uint64_t v)
{
	__atomic_compare_exchange_n(p, &want, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return want;
}

/* As mrw_compare_swap(), ordered. Partner: any ordered access or publish of the word. */
MRW_DEV uint64_t mrw_compare_swap_ordered(uint64_t *p, uint64_t want, uint64_t v)
{
	__atomic_compare_exchange_n(p, &want, v, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	return want;
}

/* Returns the old value; ordered. Partner: any ordered access or publish of the word. */
MRW_DEV uint64_t mrw_fetch_add(uint64_t *p, uint64_t v)
{
	return __atomic_fetch_add(p, v, __ATOMIC_ACQ_REL);
}

MRW_DEV uint32_t mrw_load_relaxed_32(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

/* Partner: the NIC, which writes this word of an entry last. */
MRW_DEV uint32_t mrw_observe_32(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

/* A doorbell record. Partner: the NIC, which reads it after a doorbell. */
MRW_DEV void mrw_store_record(uint32_t *p, uint32_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

/* Partner: the NIC, which then reads the record and the work requests. */
MRW_DEV void mrw_doorbell(uint64_t *reg, uint64_t v)
{
	MRW_BEFORE_DOORBELL();
	__atomic_store_n(reg, v, __ATOMIC_RELEASE);
	MRW_AFTER_DOORBELL();
}

MRW_DEV void mrw_sleep_ns(uint32_t ns)
{
	struct timespec ts = {0, (long)ns};
	nanosleep(&ts, NULL);
}

/* Between the two halves of a packet, which are two words here: with MRW_STALLS about one packet in a thousand is written, or read, in halves
 * far apart. */
MRW_DEV void mrw_between_halves(void)
{
#if defined(MRW_STALLS)
	static _Thread_local uint32_t state;
	state = state * 1664525u + 1013904223u + ((uint32_t)(uintptr_t)&state & ~1u);
	if (state >> 22 == 0)
		mrw_sleep_ns(1000);
#endif
}

MRW_DEV struct mrw_packet mrw_load_packet(const struct mrw_packet *p)
{
	struct mrw_packet v;
	v.unit[0] = mrw_load_relaxed(&p->unit[0]);
	mrw_between_halves();
	v.unit[1] = mrw_load_relaxed(&p->unit[1]);
	return v;
}

MRW_DEV void mrw_store_packet(struct mrw_packet *p, struct mrw_packet v)
{
	mrw_store_relaxed(&p->unit[0], v.unit[0]);
	mrw_between_halves();
	mrw_store_relaxed(&p->unit[1], v.unit[1]);
}

MRW_DEV uint64_t mrw_clock_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Called between polls: burns a moment, then gives the core away once spins passes the limit (few cores: limit 0). */
MRW_DEV void mrw_pause(uint32_t spins, uint32_t spin_limit)
{
	if (spins >= spin_limit)
		sched_yield();
	else
		MRW_CPU_RELAX();
}

#endif
