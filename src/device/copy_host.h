/* copy_host.h - vector accesses of the host target: the compiler makes unaligned moves of memcpy. Only copy.h includes this. */
#ifndef MRW_COPY_HOST_H
#define MRW_COPY_HOST_H

MRW_DEV uint32_t mrw_alignment(const uint8_t *p)
{
	(void)p;
	return MRW_VEC_BYTES;
}

MRW_DEV struct mrw_vec mrw_load_vec(const uint8_t *p, uint32_t alignment)
{
	struct mrw_vec v;
	(void)alignment;
	memcpy(&v, p, sizeof v);
	return v;
}

MRW_DEV void mrw_store_vec(uint8_t *p, struct mrw_vec v, uint32_t alignment)
{
	(void)alignment;
	memcpy(p, &v, sizeof v);
}

MRW_DEV void mrw_load_unit(const uint8_t *p, uint32_t payload[2])
{
	memcpy(payload, p, 8);
}

MRW_DEV void mrw_store_unit(uint8_t *p, const uint32_t payload[2])
{
	memcpy(p, payload, 8);
}

MRW_DEV bool mrw_is_unit_aligned(const uint8_t *p)
{
	(void)p;
	return true;
}

MRW_DEV void mrw_load_aligned_unit(const uint8_t *p, uint32_t payload[2])
{
	memcpy(payload, p, 8);
}

MRW_DEV void mrw_store_aligned_unit(uint8_t *p, const uint32_t payload[2])
{
	memcpy(p, payload, 8);
}

/* A team of one moves everything at once; false: the vectors are shared out. */
MRW_DEV bool mrw_copy_alone(uint32_t size, uint8_t *dst, const uint8_t *src, uint32_t bytes)
{
	if (size > 1)
		return false;
	if (dst != src)
		memcpy(dst, src, bytes);
	return true;
}

#endif
