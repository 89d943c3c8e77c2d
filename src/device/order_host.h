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

MRW_DEV struct mrw_packet mrw_load_packet(const struct mrw_packet *p)
{
	struct mrw_packet v;
	v.unit[0] = mrw_load_relaxed(&p->unit[0]);
	v.unit[1] = mrw_load_relaxed(&p->unit[1]);
	return v;
}

MRW_DEV void mrw_store_packet(struct mrw_packet *p, struct mrw_packet v)
{
	mrw_store_relaxed(&p->unit[0], v.unit[0]);
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

MRW_DEV void mrw_sleep_ns(uint32_t ns)
{
	struct timespec ts = {0, (long)ns};
	nanosleep(&ts, NULL);
}

#endif
