/* movers.cu - kernels that move bytes, and the path proof. */
#include "device/kernels.h"
#include "move_packets.h"
#include "move_bulk.h"
#if MRW_FAR
#include "move_railshot.h"
#include "move_rail.h"
#include "move_ring.h"
#endif
#include "prove.h"

/* signals: threads at the block's end that are its signal warp. */
#define MRW_KERNEL(name, call, threads, signals) \
	static __global__ void __launch_bounds__(threads, MRW_BLOCKS_PER_SM) \
	name(const __grid_constant__ struct mrw_args args) \
	{ \
		__shared__ uint32_t dismissed; \
		struct mrw_team team = {threadIdx.x, blockDim.x - (signals), &dismissed}; \
		call(&team, blockIdx.x, &args); \
	}
MRW_KERNEL(mrw_move_packets_kernel, mrw_move_packets, MRW_PACKET_THREADS, 0)
MRW_KERNEL(mrw_move_bulk_kernel, mrw_move_bulk, MRW_BLOCK_THREADS, MRW_TEAM_SIGNALS)
MRW_KERNEL(mrw_prove_kernel, mrw_prove, MRW_BLOCK_THREADS, 0)
#if MRW_FAR
MRW_KERNEL(mrw_move_railshot_kernel, mrw_move_railshot, MRW_PACKET_THREADS, 0)
MRW_KERNEL(mrw_move_rail_kernel, mrw_move_rail, MRW_BLOCK_THREADS, MRW_TEAM_SIGNALS)
MRW_KERNEL(mrw_move_ring_kernel, mrw_move_ring, MRW_BLOCK_THREADS, MRW_TEAM_SIGNALS)
#define MRW_RAILS (const void *)mrw_move_railshot_kernel, (const void *)mrw_move_rail_kernel, (const void *)mrw_move_ring_kernel
#else
#define MRW_RAILS NULL, NULL, NULL
#endif

extern "C" const struct mrw_cuda_movers mrw_cuda_movers = {{
	(const void *)mrw_move_packets_kernel, (const void *)mrw_move_bulk_kernel, MRW_RAILS, (const void *)mrw_prove_kernel}};

/* A function of its own: its argument must be in memory. */
static __device__ __noinline__ void fill_stack(uint32_t *stack, uint32_t value)
{
	for (uint32_t i = 0; i < MRW_STACK_BYTES / 4; i++)
		stack[i] = value + i;
}

static __global__ void mrw_reserve_kernel(uint32_t *out, uint32_t index)
{
	uint32_t stack[MRW_STACK_BYTES / 4];
	fill_stack(stack, index);
	if (out)
		*out = stack[index];
}

extern "C" const void *const mrw_cuda_reserve = (const void *)mrw_reserve_kernel;
