/* reducers.cu - reducing kernels of one element type; compiled once per type with -DMRW_TYPE_<type>. */
#include "device/kernels.h"
#include "reduce_packets.h"
#include "reduce_bulk.h"

#define MRW_KERNEL(name, call) \
	static __global__ void __launch_bounds__(MRW_BLOCK_THREADS, MRW_BLOCKS_PER_SM) \
	name(const __grid_constant__ struct mrw_args args) \
	{ \
		struct mrw_team team = {threadIdx.x, blockDim.x}; \
		call(&team, blockIdx.x, &args); \
	}
MRW_KERNEL(MRW_TYPED(mrw_packets), mrw_reduce_packets)
MRW_KERNEL(MRW_TYPED(mrw_bulk), mrw_reduce_bulk)
MRW_KERNEL(MRW_TYPED(mrw_local), mrw_reduce_local)

extern "C" const struct mrw_cuda_reducers MRW_TYPED(mrw_cuda_reducers) = {{
	(const void *)MRW_TYPED(mrw_packets), (const void *)MRW_TYPED(mrw_bulk), (const void *)MRW_TYPED(mrw_local)}};
