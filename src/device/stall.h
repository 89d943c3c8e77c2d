/* stall.h - random stalls at protocol points, compiled in with -DMRW_STALLS to shake interleavings out in tests. */
#ifndef MRW_STALL_H
#define MRW_STALL_H

#include "order.h"

#if defined(MRW_STALLS)
/* About one call in eight stalls, for up to 16 us; the clock and the place are the seed. */
MRW_DEV void mrw_stall(uint32_t place)
{
	uint64_t x = mrw_clock_ns() * 0x9e3779b97f4a7c15ull + (uint64_t)place * 0xbf58476d1ce4e5b9ull;
	x ^= x >> 29;
	x *= 0x94d049bb133111ebull;
	x ^= x >> 32;
	if ((x & 7) == 0)
		mrw_sleep_ns((uint32_t)(x >> 8 & 0x3fff));
}
#else
MRW_DEV void mrw_stall(uint32_t place)
{
	(void)place;
}
#endif

#endif
