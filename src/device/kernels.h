/* kernels.h - the bodies as both targets name them. A kernel is one body over all channels of a call. */
#ifndef MRW_KERNELS_H
#define MRW_KERNELS_H

#include "args.h"

struct mrw_team;

enum mrw_kernel {
	MRW_KERNEL_REDUCE_PACKETS, /* typed */
	MRW_KERNEL_REDUCE_BULK,    /* typed */
	MRW_KERNEL_REDUCE_LOCAL,   /* typed */
	MRW_KERNEL_REDUCE_QUICK,   /* typed; may do what REDUCE_PACKETS does; with PAIR and LINES, of one host only */
	MRW_KERNEL_REDUCE_PAIR,    /* typed; may do what REDUCE_QUICK does */
	MRW_KERNEL_REDUCE_LINES,   /* typed */
	MRW_KERNEL_REDUCE_LINES_PAIR, /* typed; may do what REDUCE_LINES does */
	MRW_KERNEL_REDUCE_RAILSHOT, /* typed; rails, rings and trees: of several hosts only (MRW_FAR) */
	MRW_KERNEL_REDUCE_RAIL,    /* typed */
	MRW_KERNEL_REDUCE_RING,    /* typed */
	MRW_KERNEL_REDUCE_TREESHOT, /* typed */
	MRW_KERNEL_REDUCE_TREE,    /* typed */
	MRW_KERNEL_REDUCE_BULK_DIRECT, /* typed; with MOVE_BULK_DIRECT, of one host only: calls that have windows (MRW_WINDOWS) */
	MRW_KERNEL_MOVE_PACKETS,
	MRW_KERNEL_MOVE_BULK,
	MRW_KERNEL_MOVE_RAILSHOT,
	MRW_KERNEL_MOVE_RAIL,
	MRW_KERNEL_MOVE_RING,
	MRW_KERNEL_MOVE_TREESHOT,
	MRW_KERNEL_MOVE_TREE,
	MRW_KERNEL_PROVE,
	MRW_KERNEL_MOVE_BULK_DIRECT,
	MRW_KERNEL_TRANSFERS,      /* its arguments are a struct mrw_transfers */
	MRW_KERNEL_COUNT
};
#define MRW_TYPED_KERNELS 13u
#define MRW_MOVERS ((uint32_t)MRW_KERNEL_TRANSFERS - MRW_TYPED_KERNELS)

/* Threads of a CUDA block, and the blocks an SM must hold: packets and transfers wait on latency and want registers, bulk
 * wants threads. */
#define MRW_BLOCK_THREADS 512u
#define MRW_PACKET_THREADS 256u
#define MRW_BLOCKS_PER_SM 2

/* No kernel's thread may need more stack (cuobjdump -res-usage). The driver takes local memory for all threads of a device when the first
 * kernel that needs it is launched, and holds every later launch until all kernels have left: communicators make it do so at init. */
#define MRW_STACK_BYTES 256u
/* The same for the kernels of communicators that span hosts (-DMRW_FAR=1): taken when a process makes its first one. */
#define MRW_FAR_STACK_BYTES 384u

/* X(suffix, MARROW type name): every element type. */
#define MRW_TYPES(X) \
	X(i8, INT8) X(u8, UINT8) X(i32, INT32) X(u32, UINT32) X(i64, INT64) X(u64, UINT64) \
	X(f16, FLOAT16) X(f32, FLOAT32) X(f64, FLOAT64) X(bf16, BFLOAT16) \
	X(f8e4m3, FLOAT8E4M3) X(f8e5m2, FLOAT8E5M2)

typedef void (*mrw_host_body)(const struct mrw_team *team, uint32_t channel, const struct mrw_args *args);

struct mrw_host_reducers { mrw_host_body body[MRW_TYPED_KERNELS]; };
struct mrw_host_movers { mrw_host_body body[MRW_MOVERS]; };
/* CUDA: what cudaLaunchKernel takes. */
struct mrw_cuda_reducers { const void *kernel[MRW_TYPED_KERNELS]; };
struct mrw_cuda_movers { const void *kernel[MRW_MOVERS]; };

#ifdef __cplusplus
extern "C" {
#endif
#define MRW_X(suffix, name) \
	extern const struct mrw_host_reducers mrw_host_reducers_##suffix; \
	extern const struct mrw_cuda_reducers mrw_cuda_reducers_##suffix; \
	extern const struct mrw_cuda_reducers mrw_cuda_far_reducers_##suffix; \
	extern const void *const mrw_cuda_direct_reducer_##suffix;
MRW_TYPES(MRW_X)
#undef MRW_X
extern const struct mrw_host_movers mrw_host_movers;
extern const struct mrw_cuda_movers mrw_cuda_movers, mrw_cuda_far_movers;
extern const void *const mrw_cuda_direct_mover;
extern const mrw_host_body mrw_host_transfers;
extern const void *const mrw_cuda_transfers, *const mrw_cuda_far_transfers;
/* These do nothing, with MRW_STACK_BYTES and MRW_FAR_STACK_BYTES of stack. */
extern const void *const mrw_cuda_reserve, *const mrw_cuda_far_reserve;
#ifdef __cplusplus
}
#endif

#endif
