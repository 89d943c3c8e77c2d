/* big_endian.h - the byte order of NICs. GPUs and the hosts that drive them are little endian. */
#ifndef MRW_BIG_ENDIAN_H
#define MRW_BIG_ENDIAN_H

#include "device/target.h"

#if defined(__BYTE_ORDER__)
MRW_STATIC_ASSERT(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are turned round without asking");
#endif

#if MRW_ON_CUDA
MRW_DEV uint32_t mrw_be32(uint32_t x)
{
	return __byte_perm(x, 0, 0x0123);
}
#else
/* Compilers make one instruction of it. */
MRW_DEV uint32_t mrw_be32(uint32_t x)
{
	return x >> 24 | (x >> 8 & 0xff00u) | (x << 8 & 0xff0000u) | x << 24;
}
#endif

MRW_DEV uint64_t mrw_be64(uint64_t x)
{
	return (uint64_t)mrw_be32((uint32_t)x) << 32 | mrw_be32((uint32_t)(x >> 32));
}

#endif
