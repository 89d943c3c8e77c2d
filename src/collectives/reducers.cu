/* reducers.cu - reducing kernels of one element type; compiled three times per type with -DMRW_TYPE_<type>: as it is, with -DMRW_FAR=1 for
 * communicators that span hosts, with -DMRW_WINDOWS=1 for calls that have windows. */
#include "device/kernels.h"
#include "reduce_quick.h"
#include "reduce_lines.h"
#include "reduce_bulk.h"
#if MRW_FAR
#include "reduce_railshot.h"
#include "reduce_rail.h"
#include "reduce_ring.h"
#include "reduce_treeshot.h"
#include "reduce_tree.h"
#endif

#if MRW_WINDOWS
#define MRW_DIRECT_MEMORY __shared__ uint8_t *direct[MRW_MAX_NEAR];
#define MRW_DIRECT , direct
#else
#define MRW_DIRECT_MEMORY
#define MRW_DIRECT
#endif

/* signals: threads at the block's end that are its signal warp. */
#define MRW_KERNEL(name, call, threads, signals) \
	static __global__ void __launch_bounds__(threads, MRW_BLOCKS_PER_SM) \
	name(const __grid_constant__ struct mrw_args args) \
	{ \
		__shared__ uint32_t dismissed; \
		MRW_DIRECT_MEMORY \
		mrw_await_predecessor(); \
		struct mrw_team team = {threadIdx.x, blockDim.x - (signals), (signals) == 0, &dismissed MRW_DIRECT}; \
		call(&team, blockIdx.x, &args); \
	}
#if MRW_WINDOWS
MRW_KERNEL(MRW_TYPED(mrw_direct), mrw_reduce_bulk, MRW_BLOCK_THREADS, MRW_TEAM_SIGNALS)
extern "C" const void *const MRW_TYPED(mrw_cuda_direct_reducer) = (const void *)MRW_TYPED(mrw_direct);
#else
MRW_KERNEL(MRW_TYPED(mrw_packets), mrw_reduce_packets, MRW_PACKET_THREADS, 0)
MRW_KERNEL(MRW_TYPED(mrw_bulk), mrw_reduce_bulk, MRW_BLOCK_THREADS, MRW_TEAM_SIGNALS)
MRW_KERNEL(MRW_TYPED(mrw_local), mrw_reduce_local, MRW_BLOCK_THREADS, 0)
#if MRW_FAR
MRW_KERNEL(MRW_TYPED(mrw_railshot), mrw_reduce_railshot, MRW_PACKET_THREADS, 0)
MRW_KERNEL(MRW_TYPED(mrw_rail), mrw_reduce_rail, MRW_BLOCK_THREADS, MRW_TEAM_SIGNALS)
MRW_KERNEL(MRW_TYPED(mrw_ring), mrw_reduce_ring, MRW_BLOCK_THREADS, MRW_TEAM_SIGNALS)
MRW_KERNEL(MRW_TYPED(mrw_treeshot), mrw_reduce_treeshot, MRW_PACKET_THREADS, 0)
MRW_KERNEL(MRW_TYPED(mrw_tree), mrw_reduce_tree, MRW_BLOCK_THREADS, MRW_TEAM_SIGNALS)
#define MRW_TABLE MRW_TYPED(mrw_cuda_far_reducers)
#define MRW_OTHERS NULL, NULL, NULL, NULL, \
	(const void *)MRW_TYPED(mrw_railshot), (const void *)MRW_TYPED(mrw_rail), (const void *)MRW_TYPED(mrw_ring), \
	(const void *)MRW_TYPED(mrw_treeshot), (const void *)MRW_TYPED(mrw_tree)
#else
MRW_KERNEL(MRW_TYPED(mrw_quick), mrw_reduce_quick, MRW_PACKET_THREADS, 0)
MRW_KERNEL(MRW_TYPED(mrw_pair), mrw_reduce_pair, MRW_PACKET_THREADS, 0)
MRW_KERNEL(MRW_TYPED(mrw_lines), mrw_reduce_lines, MRW_BLOCK_THREADS, 0)
MRW_KERNEL(MRW_TYPED(mrw_lines_pair), mrw_reduce_lines_pair, MRW_BLOCK_THREADS, 0)
#define MRW_TABLE MRW_TYPED(mrw_cuda_reducers)
#define MRW_OTHERS (const void *)MRW_TYPED(mrw_quick), (const void *)MRW_TYPED(mrw_pair), (const void *)MRW_TYPED(mrw_lines), \
	(const void *)MRW_TYPED(mrw_lines_pair), NULL, NULL, NULL, NULL, NULL
#endif
extern "C" const struct mrw_cuda_reducers MRW_TABLE = {{
	(const void *)MRW_TYPED(mrw_packets), (const void *)MRW_TYPED(mrw_bulk), (const void *)MRW_TYPED(mrw_local), MRW_OTHERS}};
#endif
