/* transfers.cu - the kernel that makes transfers; compiled twice: as it is, and with -DMRW_FAR=1 for communicators that span hosts. */
#define MRW_TRANSFERS 1
#define MRW_COPY_LARGE 8u

#include "device/kernels.h"
#include "move_transfers.h"

static __global__ void __launch_bounds__(MRW_PACKET_THREADS, MRW_BLOCKS_PER_SM)
mrw_transfers_kernel(const __grid_constant__ struct mrw_transfers transfers)
{
	__shared__ uint32_t told;
	mrw_await_predecessor();
	struct mrw_team team = {threadIdx.x, blockDim.x, true, &told};
	mrw_move_transfers(&team, blockIdx.x, &transfers.a);
}

#if MRW_FAR
#define MRW_NAME mrw_cuda_far_transfers
#else
#define MRW_NAME mrw_cuda_transfers
#endif
extern "C" const void *const MRW_NAME = (const void *)mrw_transfers_kernel;
