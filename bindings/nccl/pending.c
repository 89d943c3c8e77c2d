/* pending.c - stands in for functions of marrow.h that the library does not have yet; goes as they come. Does not see the header, so that
 * these stay hidden. */
#include <stddef.h>

enum { UNSUPPORTED = 10 }; /* MARROW_UNSUPPORTED */
#define PENDING(name) \
	int name(void); \
	int name(void) \
	{ \
		return UNSUPPORTED; \
	}

PENDING(marrow_reduce)
PENDING(marrow_comm_shrink)
PENDING(marrow_mem_alloc)
PENDING(marrow_mem_free)
