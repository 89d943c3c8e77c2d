/* census.h - what this process holds: nothing may be left behind by a failed or finished communicator. */
#ifndef TEST_CENSUS_H
#define TEST_CENSUS_H

#include <stddef.h>
#include <stdint.h>

struct census {
	uint32_t fds;             /* open descriptors */
	uint32_t mappings;        /* of our shared memory: memfd:marrow-* */
	uint32_t threads;
	uint64_t resident_bytes;
	uint64_t heap_bytes;      /* handed out by malloc; 0 where a sanitizer replaces it */
};

struct census census_take(void);
/* NULL if after holds no more descriptors, mappings and threads than before; else what is left, in static storage. */
const char *census_growth(const struct census *before, const struct census *after);

#endif
