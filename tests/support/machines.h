/* machines.h - made-up machines for tests, one a function that writes our text form. Shapes follow makers' public block diagrams;
 * no file of a real machine is in here. */
#ifndef TESTS_MACHINES_H
#define TESTS_MACHINES_H

#include "topo/topo.h"

struct machine {
	const char *name;
	void (*write)(FILE *file);
	uint32_t gpus, nics;
	/* The most that rings can carry, by hand: MB/s, and why. 0: no rings. */
	uint32_t ring_mb_s;
	const char *ring_reason;
};

extern const struct machine machines[];
extern const uint32_t machines_count;

/* The machine of that name, loaded; free it with free(). Ends the program if it cannot be. */
struct mrw_topo *machine_load(const char *name);
/* Its text; free it with free(). */
char *machine_text(const struct machine *machine, size_t *nbytes);

#endif
