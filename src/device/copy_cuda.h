/* copy_cuda.h - vector accesses of the GPU. Only copy.h includes this.
 *
 * volatile keeps them in order with the waits, syncs and publishes around them; there is no memory clobber, so that what a loop
 * keeps in registers stays there. */
#ifndef MRW_COPY_CUDA_H
#define MRW_COPY_CUDA_H

/* Largest power of two up to 16 that divides the address: equal for all vectors of a buffer, so branches on it are uniform. */
MRW_DEV uint32_t mrw_alignment(const uint8_t *p)
{
	uint32_t low = (uint32_t)(uintptr_t)p | MRW_VEC_BYTES;
	return low & (0u - low);
}

MRW_DEV struct mrw_vec mrw_load_vec(const uint8_t *p, uint32_t alignment)
{
	struct mrw_vec v;
	if (alignment == 16) {
		asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
			     : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3]) : "l"(p));
	} else if (alignment == 8) {
		asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(v.w[0]), "=r"(v.w[1]) : "l"(p));
		asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(v.w[2]), "=r"(v.w[3]) : "l"(p + 8));
	} else if (alignment == 4) {
		for (int i = 0; i < 4; i++)
			asm volatile("ld.global.u32 %0, [%1];" : "=r"(v.w[i]) : "l"(p + 4 * i));
	} else if (alignment == 2) {
		for (int i = 0; i < 4; i++) {
			uint16_t a, b;
			asm volatile("ld.global.u16 %0, [%1];" : "=h"(a) : "l"(p + 4 * i));
			asm volatile("ld.global.u16 %0, [%1];" : "=h"(b) : "l"(p + 4 * i + 2));
			v.w[i] = (uint32_t)a | (uint32_t)b << 16;
		}
	} else {
		for (int i = 0; i < 4; i++) {
			uint32_t b[4];
			for (int j = 0; j < 4; j++)
				asm volatile("ld.global.u8 %0, [%1];" : "=r"(b[j]) : "l"(p + 4 * i + j));
			v.w[i] = b[0] | b[1] << 8 | b[2] << 16 | b[3] << 24;
		}
	}
	return v;
}

MRW_DEV void mrw_store_vec(uint8_t *p, struct mrw_vec v, uint32_t alignment)
{
	if (alignment == 16) {
		asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.w[0]), "r"(v.w[1]), "r"(v.w[2]),
			     "r"(v.w[3]));
	} else if (alignment == 8) {
		asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(v.w[0]), "r"(v.w[1]));
		asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(p + 8), "r"(v.w[2]), "r"(v.w[3]));
	} else if (alignment == 4) {
		for (int i = 0; i < 4; i++)
			asm volatile("st.global.u32 [%0], %1;" ::"l"(p + 4 * i), "r"(v.w[i]));
	} else if (alignment == 2) {
		for (int i = 0; i < 4; i++) {
			asm volatile("st.global.u16 [%0], %1;" ::"l"(p + 4 * i), "h"((uint16_t)v.w[i]));
			asm volatile("st.global.u16 [%0], %1;" ::"l"(p + 4 * i + 2), "h"((uint16_t)(v.w[i] >> 16)));
		}
	} else {
		for (int i = 0; i < 4; i++)
			for (int j = 0; j < 4; j++)
				asm volatile("st.global.u8 [%0], %1;" ::"l"(p + 4 * i + j), "r"(v.w[i] >> 8 * j));
	}
}

MRW_DEV bool mrw_is_unit_aligned(const uint8_t *p)
{
	return ((uintptr_t)p & 7) == 0;
}

MRW_DEV void mrw_load_aligned_unit(const uint8_t *p, uint32_t payload[2])
{
	asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(payload[0]), "=r"(payload[1]) : "l"(p));
}

MRW_DEV void mrw_store_aligned_unit(uint8_t *p, const uint32_t payload[2])
{
	asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(payload[0]), "r"(payload[1]));
}

/* 8 bytes at any alignment. */
MRW_DEV void mrw_load_unit(const uint8_t *p, uint32_t payload[2])
{
	for (int i = 0; i < 2; i++) {
		payload[i] = 0;
		for (int j = 0; j < 4; j++)
			payload[i] |= (uint32_t)p[4 * i + j] << 8 * j;
	}
}

MRW_DEV void mrw_store_unit(uint8_t *p, const uint32_t payload[2])
{
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < 4; j++)
			p[4 * i + j] = (uint8_t)(payload[i] >> 8 * j);
}

MRW_DEV bool mrw_copy_alone(uint32_t size, uint8_t *dst, const uint8_t *src, uint32_t bytes)
{
	(void)size;
	(void)dst;
	(void)src;
	(void)bytes;
	return false;
}

#endif
