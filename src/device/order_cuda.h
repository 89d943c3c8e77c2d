/* order_cuda.h - order.h for the GPU. Only order.h includes this. */
#ifndef MRW_ORDER_CUDA_H
#define MRW_ORDER_CUDA_H

MRW_DEV uint64_t mrw_load_relaxed(const uint64_t *p)
{
	uint64_t v;
	asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
}

MRW_DEV void mrw_store_relaxed(uint64_t *p, uint64_t v)
{
	asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

/* Partner: mrw_observed() in the thread that polled the word. */
MRW_DEV void mrw_publish(uint64_t *p, uint64_t v)
{
	asm volatile("fence.acq_rel.sys; st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

/* Partner: mrw_publish(). */
MRW_DEV void mrw_observed(const uint64_t *p)
{
	asm volatile("{\n.reg .u64 v;\nld.acquire.sys.global.u64 v, [%0];\n}" ::"l"(p) : "memory");
}

/* Returns the old value; stored iff it equals want. */
MRW_DEV uint64_t mrw_compare_swap(uint64_t *p, uint64_t want, uint64_t v)
{
	uint64_t old;
	asm volatile("atom.relaxed.sys.global.cas.b64 %0, [%1], %2, %3;" : "=l"(old) : "l"(p), "l"(want), "l"(v) : "memory");
	return old;
}

/* As mrw_compare_swap(), ordered. Partner: any ordered access or publish of the word. */
MRW_DEV uint64_t mrw_compare_swap_ordered(uint64_t *p, uint64_t want, uint64_t v)
{
	uint64_t old;
	asm volatile("atom.acq_rel.sys.global.cas.b64 %0, [%1], %2, %3;" : "=l"(old) : "l"(p), "l"(want), "l"(v) : "memory");
	return old;
}

/* Returns the old value; ordered. Partner: any ordered access or publish of the word. */
MRW_DEV uint64_t mrw_fetch_add(uint64_t *p, uint64_t v)
{
	uint64_t old;
	asm volatile("atom.acq_rel.sys.global.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(v) : "memory");
	return old;
}

MRW_DEV uint32_t mrw_load_relaxed_32(const uint32_t *p)
{
	uint32_t v;
	asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return v;
}

/* Partner: the NIC, which writes this word of an entry last. */
MRW_DEV uint32_t mrw_observe_32(const uint32_t *p)
{
	uint32_t v;
	asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return v;
}

/* A doorbell record. Partner: the NIC, which reads it after a doorbell. */
MRW_DEV void mrw_store_record(uint32_t *p, uint32_t v)
{
	asm volatile("fence.acq_rel.sys; st.relaxed.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

/* Partner: the NIC, which then reads the record and the work requests. Without mmio the store might be merged or split. */
MRW_DEV void mrw_doorbell(uint64_t *reg, uint64_t v)
{
	asm volatile("fence.acq_rel.sys; st.mmio.relaxed.sys.global.u64 [%0], %1;" ::"l"(reg), "l"(v) : "memory");
}

MRW_DEV struct mrw_packet mrw_load_packet(const struct mrw_packet *p)
{
	struct mrw_packet v;
	asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(v.unit[0]), "=l"(v.unit[1]) : "l"(p) : "memory");
	return v;
}

MRW_DEV void mrw_store_packet(struct mrw_packet *p, struct mrw_packet v)
{
	asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(v.unit[0]), "l"(v.unit[1]) : "memory");
}

MRW_DEV uint64_t mrw_clock_ns(void)
{
	uint64_t v;
	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(v));
	return v;
}

MRW_DEV void mrw_pause(uint32_t spins, uint32_t spin_limit)
{
	(void)spins;
	(void)spin_limit;
}

MRW_DEV void mrw_sleep_ns(uint32_t ns)
{
	__nanosleep(ns);
}

#endif
