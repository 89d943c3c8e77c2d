/* movers.cu - kernels that move bytes, and the path proof. */
#include "device/kernels.h"
#include "move_packets.h"
#include "move_bulk.h"
#include "prove.h"

#define MRW_KERNEL(name, call) \
	static __global__ void __launch_bounds__(MRW_BLOCK_THREADS, MRW_BLOCKS_PER_SM) \
	name(const __grid_constant__ struct mrw_args args) \
	{ \
		struct mrw_team team = {threadIdx.x, blockDim.x}; \
		call(&team, blockIdx.x, &args); \
	}
MRW_KERNEL(mrw_move_packets_kernel, mrw_move_packets)
MRW_KERNEL(mrw_move_bulk_kernel, mrw_move_bulk)
MRW_KERNEL(mrw_prove_kernel, mrw_prove)

extern "C" const struct mrw_cuda_movers mrw_cuda_movers = {{
	(const void *)mrw_move_packets_kernel, (const void *)mrw_move_bulk_kernel, (const void *)mrw_prove_kernel}};
