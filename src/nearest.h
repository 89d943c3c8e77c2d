/* nearest.h - which NICs a rank with a GPU takes: those that src/topo pairs with the GPUs of its host's ranks, by the PCI tree in sysfs.
 *
 * A function of what is equal for all ranks of a host, so that they share its NICs without a word; like hosts give like numbers like NICs,
 * which keeps rails straight. */
#ifndef MRW_NEAREST_H
#define MRW_NEAREST_H

#include "device/wire.h"

enum { MRW_NEAREST_NAME_BYTES = 32, MRW_NEAREST_REASON_BYTES = 192 };

struct mrw_nearest {
	uint32_t count;                                   /* 0: numbers must do, for the reason given */
	char name[MRW_MAX_NICS][MRW_NEAREST_NAME_BYTES];  /* first choice first */
	char reason[MRW_NEAREST_REASON_BYTES];
};

/* sysfs: "/sys", or the root of a made-up tree. gpus[0 ... ranks - 1]: PCI addresses ("0000:03:00.0") of the ranks of this host by their
 * numbers on it; ranks may share one. local: which of them asks. usable: names of the devices that may be taken, comma-separated. */
void mrw_nearest_find(struct mrw_nearest *nearest, const char *sysfs, const char *const *gpus, uint32_t ranks, uint32_t local,
		      const char *usable);

#endif
