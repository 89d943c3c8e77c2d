/* reducers.c - reducing bodies of one element type on the host target; compiled once per type with -DMRW_TYPE_<type>. */
#include "device/kernels.h"
#include "reduce_quick.h"
#include "reduce_lines.h"
#include "reduce_bulk.h"
#include "reduce_railshot.h"
#include "reduce_rail.h"
#include "reduce_ring.h"
#include "reduce_treeshot.h"
#include "reduce_tree.h"

#define MRW_BODY(name, call) \
	static void name(const struct mrw_team *team, uint32_t channel, const struct mrw_args *args) { call(team, channel, args); }
MRW_BODY(packets, mrw_reduce_packets)
MRW_BODY(bulk, mrw_reduce_bulk)
MRW_BODY(local, mrw_reduce_local)
MRW_BODY(quick, mrw_reduce_quick)
MRW_BODY(pair, mrw_reduce_pair)
MRW_BODY(lines, mrw_reduce_lines)
MRW_BODY(lines_pair, mrw_reduce_lines_pair)
MRW_BODY(railshot, mrw_reduce_railshot)
MRW_BODY(rail, mrw_reduce_rail)
MRW_BODY(ring, mrw_reduce_ring)
MRW_BODY(treeshot, mrw_reduce_treeshot)
MRW_BODY(tree, mrw_reduce_tree)

const struct mrw_host_reducers MRW_TYPED(mrw_host_reducers) = {{packets, bulk, local, quick, pair, lines, lines_pair, railshot, rail, ring,
								      treeshot, tree, bulk}};
