/* transfers.cu - the kernel that makes transfers. */
#define MRW_TRANSFERS 1

#include "device/kernels.h"
#include "move_transfers.h"

static __global__ void __launch_bounds__(MRW_BLOCK_THREADS, MRW_BLOCKS_PER_SM)
mrw_transfers_kernel(const __grid_constant__ struct mrw_transfers transfers)
{
	__shared__ uint32_t told;
	struct mrw_team team = {threadIdx.x, blockDim.x, &told};
	mrw_move_transfers(&team, blockIdx.x, &transfers.a);
}

extern "C" const void *const mrw_cuda_transfers = (const void *)mrw_transfers_kernel;
