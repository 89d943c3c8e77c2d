/* movers.cu - kernels that move bytes, and the path proof; compiled three times, as reducers.cu is. */
#include "device/kernels.h"
#include "move_packets.h"
#include "move_bulk.h"
#if MRW_FAR
#include "move_railshot.h"
#include "move_rail.h"
#include "move_ring.h"
#include "move_treeshot.h"
#include "move_tree.h"
#endif
#include "prove.h"

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
MRW_KERNEL(mrw_move_direct_kernel, mrw_move_bulk, MRW_BLOCK_THREADS, MRW_TEAM_SIGNALS)
extern "C" const void *const mrw_cuda_direct_mover = (const void *)mrw_move_direct_kernel;
#else
MRW_KERNEL(mrw_move_packets_kernel, mrw_move_packets, MRW_PACKET_THREADS, 0)
MRW_KERNEL(mrw_move_bulk_kernel, mrw_move_bulk, MRW_BLOCK_THREADS, MRW_TEAM_SIGNALS)
MRW_KERNEL(mrw_prove_kernel, mrw_prove, MRW_BLOCK_THREADS, 0)
#if MRW_FAR
MRW_KERNEL(mrw_move_railshot_kernel, mrw_move_railshot, MRW_PACKET_THREADS, 0)
MRW_KERNEL(mrw_move_rail_kernel, mrw_move_rail, MRW_BLOCK_THREADS, MRW_TEAM_SIGNALS)
MRW_KERNEL(mrw_move_ring_kernel, mrw_move_ring, MRW_BLOCK_THREADS, MRW_TEAM_SIGNALS)
MRW_KERNEL(mrw_move_treeshot_kernel, mrw_move_treeshot, MRW_PACKET_THREADS, 0)
MRW_KERNEL(mrw_move_tree_kernel, mrw_move_tree, MRW_BLOCK_THREADS, MRW_TEAM_SIGNALS)
#define MRW_SPARSE (const void *)mrw_move_railshot_kernel, (const void *)mrw_move_rail_kernel, (const void *)mrw_move_ring_kernel, \
	(const void *)mrw_move_treeshot_kernel, (const void *)mrw_move_tree_kernel
#else
#define MRW_SPARSE NULL, NULL, NULL, NULL, NULL
#endif

/* These two have as much stack as any kernel of their half (kernels.h). */
#if MRW_FAR
#define MRW_MOVERS_TABLE mrw_cuda_far_movers
#define MRW_RESERVE mrw_cuda_far_reserve
#define MRW_STACK MRW_FAR_STACK_BYTES
#else
#define MRW_MOVERS_TABLE mrw_cuda_movers
#define MRW_RESERVE mrw_cuda_reserve
#define MRW_STACK MRW_STACK_BYTES
#endif
extern "C" const struct mrw_cuda_movers MRW_MOVERS_TABLE = {{
	(const void *)mrw_move_packets_kernel, (const void *)mrw_move_bulk_kernel, MRW_SPARSE, (const void *)mrw_prove_kernel}};

/* A function of its own: its argument must be in memory. */
static __device__ __noinline__ void fill_stack(uint32_t *stack, uint32_t value)
{
	for (uint32_t i = 0; i < MRW_STACK / 4; i++)
		stack[i] = value + i;
}

static __global__ void mrw_reserve_kernel(uint32_t *out, uint32_t index)
{
	uint32_t stack[MRW_STACK / 4];
	fill_stack(stack, index);
	if (out)
		*out = stack[index];
}

extern "C" const void *const MRW_RESERVE = (const void *)mrw_reserve_kernel;
#endif
