/* network_rings.h - the rings of a rank's queue pairs in the memory of its GPU, where its NICs take them there (nic.h).
 *
 * One piece of memory, a part for each NIC and room for the view (network_view.h) behind them: memory comes in pages of 2 MiB. A NIC that does not
 * take its part has its rings in the host's memory, as all have on a target without such memory. */
#ifndef MRW_NETWORK_RINGS_H
#define MRW_NETWORK_RINGS_H

#include "device/runtime.h"
#include "proxyless/nic.h"

/* What MARROW_RINGS says. */
enum mrw_rings_place { MRW_RINGS_AUTO, MRW_RINGS_GPU, MRW_RINGS_HOST };
/* MARROW_INVALID_ARGUMENT names the variable. */
enum marrow_status mrw_rings_choice(enum mrw_rings_place *place);

struct mrw_rings {
	struct mrw_device *device;
	struct mrw_arena memory;    /* no base: all are in the host's pages */
	uint64_t bytes;             /* the rings' part of it */
};

/* Whose rings, and how many. */
struct mrw_rings_wish {
	uint32_t rank;
	struct mrw_nic *const *nic; /* open, proven and free of links */
	uint32_t nics, links;       /* links of each NIC */
	uint64_t room;              /* bytes wanted behind the rings */
	const struct mrw_arena *arena; /* what else the communicator takes of the device */
};
/* Links that the NICs make from now on have their rings there, if the NIC has proven itself from there. With MARROW_RINGS=gpu it is an error if one
 * does not take them or there is no memory: it names NIC, reason and remedy. Else that is said at level info, and links are in the host's memory.
 * To be freed after the NICs are closed, on failure, too. */
enum marrow_status mrw_rings_make(struct mrw_rings *rings, struct mrw_device *device, const struct mrw_rings_wish *wish);
/* The room behind them, zeroed, aligned to 64 bytes; NULL: there are no rings. */
uint8_t *mrw_rings_room(const struct mrw_rings *rings);
/* Zeroed is fine. */
void mrw_rings_free(struct mrw_rings *rings);

#endif
