/* movers.c - bodies that move bytes, and the path proof, on the host target. */
#include "device/kernels.h"
#include "move_packets.h"
#include "move_bulk.h"
#include "move_railshot.h"
#include "move_rail.h"
#include "move_ring.h"
#include "move_treeshot.h"
#include "move_tree.h"
#include "prove.h"

#define MRW_BODY(name, call) \
	static void name(const struct mrw_team *team, uint32_t channel, const struct mrw_args *args) { call(team, channel, args); }
MRW_BODY(packets, mrw_move_packets)
MRW_BODY(bulk, mrw_move_bulk)
MRW_BODY(railshot, mrw_move_railshot)
MRW_BODY(rail, mrw_move_rail)
MRW_BODY(ring, mrw_move_ring)
MRW_BODY(treeshot, mrw_move_treeshot)
MRW_BODY(tree, mrw_move_tree)
MRW_BODY(prove, mrw_prove)

const struct mrw_host_movers mrw_host_movers = {{packets, bulk, railshot, rail, ring, treeshot, tree, prove, bulk}};
