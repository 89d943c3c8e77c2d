/* rings.h - what rings.c and ring_mixed.c share. */
#ifndef MRW_TOPO_RINGS_H
#define MRW_TOPO_RINGS_H

#include "topo/topo.h"

/* Rings that use PCIe where they must, beside NVLinks. */
void mrw_topo_mixed_rings(const struct mrw_topo *topo, struct mrw_topo_rings *rings);
/* Adds a ring; false: there is no room. */
bool mrw_topo_add_ring(const struct mrw_topo *topo, struct mrw_topo_rings *rings, const uint8_t *order, uint32_t mb_s);

#endif
