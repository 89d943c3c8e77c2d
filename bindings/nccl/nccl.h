/* nccl.h - the interface of NCCL 2.27.7 as Marrow's libnccl.so.2 serves it, for programs written for NCCL.
 *
 * Layouts and values are NCCL's. The library answers ncclGetVersion() with 2.28.9 and exports the names of 2.30 as well. What differs
 * from NCCL:
 * - ncclGetUniqueId(): one of the ranks that use the id must live in the process that made it.
 * - Without a GPU ranks run on the host target: buffers are ordinary memory, streams are ignored, a call (in a group: its end) returns
 *   when the operation is done. MARROW_TARGET=host asks for it.
 * - Every function has a pncclX() twin, to be called by a profiler that puts itself in the place of ncclX(). */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __has_include
#if __has_include(<cuda_runtime.h>) && !defined(MARROW_NCCL_WITHOUT_CUDA)
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#if CUDART_VERSION >= 11000
#include <cuda_bf16.h>
#endif
#if CUDART_VERSION >= 11080
#include <cuda_fp8.h>
#endif
#define MARROW_NCCL_HAS_CUDA 1
#endif
#endif
#ifndef MARROW_NCCL_HAS_CUDA
typedef struct CUstream_st *cudaStream_t; /* as CUDA declares it */
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define NCCL_MAJOR 2
#define NCCL_MINOR 27
#define NCCL_PATCH 7
#define NCCL_SUFFIX ""
#define NCCL_VERSION(X, Y, Z) \
	(((X) <= 2 && (Y) <= 8) ? (X) * 1000 + (Y) * 100 + (Z) : (X) * 10000 + (Y) * 100 + (Z))
#define NCCL_VERSION_CODE 22707 /* a literal: preprocessors compare it */

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow *ncclWindow_t;
#define NCCL_COMM_NULL NULL

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
	char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
	ncclSuccess = 0,
	ncclUnhandledCudaError = 1,
	ncclSystemError = 2,
	ncclInternalError = 3,
	ncclInvalidArgument = 4,
	ncclInvalidUsage = 5,
	ncclRemoteError = 6,
	ncclInProgress = 7,
	ncclNumResults = 8
} ncclResult_t;

typedef enum {
	ncclInt8 = 0,
	ncclChar = 0,
	ncclUint8 = 1,
	ncclInt32 = 2,
	ncclInt = 2,
	ncclUint32 = 3,
	ncclInt64 = 4,
	ncclUint64 = 5,
	ncclFloat16 = 6,
	ncclHalf = 6,
	ncclFloat32 = 7,
	ncclFloat = 7,
	ncclFloat64 = 8,
	ncclDouble = 8,
	ncclBfloat16 = 9,
	ncclFloat8e4m3 = 10,
	ncclFloat8e5m2 = 11,
	ncclNumTypes = 12
} ncclDataType_t;

typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;
typedef enum {
	ncclSum = 0,
	ncclProd = 1,
	ncclMax = 2,
	ncclMin = 3,
	ncclAvg = 4,
	ncclNumOps = 5,           /* operations that are made have values from here up */
	ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum {
	ncclScalarDevice = 0,        /* memory that the communicator's device can read; read by each call */
	ncclScalarHostImmediate = 1  /* copied when the operation is made */
} ncclScalarResidence_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f
#define NCCL_SPLIT_NOCOLOR -1
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096
#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01
#define NCCL_REVOKE_DEFAULT 0x00

/* Start from NCCL_CONFIG_INITIALIZER. The library reads as many fields as the caller's version has; those it cannot follow are named once
 * on stderr. */
typedef struct ncclConfig_v22700 {
	size_t size;
	unsigned int magic;
	unsigned int version;
	int blocking;             /* 0: creation returns ncclInProgress and goes on in a thread of its own, which ends with it */
	int cgaClusterSize;
	int minCTAs;
	int maxCTAs;              /* hard cap on the CUDA blocks of a collective */
	const char *netName;
	int splitShare;
	int trafficClass;
	const char *commName;     /* for messages */
	int collnetEnable;
	int CTAPolicy;
	int shrinkShare;
	int nvlsCTAs;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER { \
	sizeof(ncclConfig_t), 0xcafebeef, NCCL_VERSION_CODE, \
	NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
	NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, \
	NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
}

typedef struct ncclSimInfo_v22200 {
	size_t size;
	unsigned int magic;
	unsigned int version;
	float estimatedTime;      /* stays NCCL_UNDEF_FLOAT: the library has no cost model to answer from */
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER { sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT }

/* Declares a function and its twin. */
#define NCCL_DECLARE(type, name, arguments) \
	type nccl##name arguments; \
	type pnccl##name arguments

NCCL_DECLARE(ncclResult_t, GetVersion, (int *version));
NCCL_DECLARE(const char *, GetErrorString, (ncclResult_t result));
/* What last went wrong, in words: on comm if it has failed, else in this thread, else in this process. Valid until this thread's next
 * ncclGetLastError(). */
NCCL_DECLARE(const char *, GetLastError, (ncclComm_t comm));
NCCL_DECLARE(void, ResetDebugInit, (void));

/* Communicators: creation */
NCCL_DECLARE(ncclResult_t, GetUniqueId, (ncclUniqueId * uniqueId));
NCCL_DECLARE(ncclResult_t, CommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank));
NCCL_DECLARE(ncclResult_t, CommInitRankConfig,
	     (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config));
/* The first id does the work; sockets behind the others are closed. */
NCCL_DECLARE(ncclResult_t, CommInitRankScalable,
	     (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId *commIds, ncclConfig_t *config));
NCCL_DECLARE(ncclResult_t, CommInitAll, (ncclComm_t * comm, int ndev, const int *devlist));
NCCL_DECLARE(ncclResult_t, CommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config));
NCCL_DECLARE(ncclResult_t, CommShrink,
	     (ncclComm_t comm, int *excludeRanksList, int excludeRanksCount, ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags));

/* Communicators: end, state */
NCCL_DECLARE(ncclResult_t, CommFinalize, (ncclComm_t comm));
NCCL_DECLARE(ncclResult_t, CommDestroy, (ncclComm_t comm));
/* Operations leave, here and at the peers, and the communicator is freed. From any thread. */
NCCL_DECLARE(ncclResult_t, CommAbort, (ncclComm_t comm));
/* Operations leave, here and at the peers; shrink, destroy and abort remain. */
NCCL_DECLARE(ncclResult_t, CommRevoke, (ncclComm_t comm, int revokeFlags));
NCCL_DECLARE(ncclResult_t, CommGetAsyncError, (ncclComm_t comm, ncclResult_t *asyncError));
NCCL_DECLARE(ncclResult_t, CommCount, (const ncclComm_t comm, int *count));
NCCL_DECLARE(ncclResult_t, CommCuDevice, (const ncclComm_t comm, int *device)); /* -1 on the host target */
NCCL_DECLARE(ncclResult_t, CommUserRank, (const ncclComm_t comm, int *rank));

/* Memory. Registration is bookkeeping so far: any buffer is as good. */
NCCL_DECLARE(ncclResult_t, MemAlloc, (void **ptr, size_t size));
NCCL_DECLARE(ncclResult_t, MemFree, (void *ptr));
NCCL_DECLARE(ncclResult_t, CommRegister, (const ncclComm_t comm, void *buff, size_t size, void **handle));
NCCL_DECLARE(ncclResult_t, CommDeregister, (const ncclComm_t comm, void *handle));
NCCL_DECLARE(ncclResult_t, CommWindowRegister, (ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win, int winFlags));
NCCL_DECLARE(ncclResult_t, CommWindowDeregister, (ncclComm_t comm, ncclWindow_t win));

NCCL_DECLARE(ncclResult_t, RedOpCreatePreMulSum,
	     (ncclRedOp_t * op, void *scalar, ncclDataType_t datatype, ncclScalarResidence_t residence, ncclComm_t comm));
NCCL_DECLARE(ncclResult_t, RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm));

/* Collectives; counts in elements. AlltoAll, Gather and Scatter came with NCCL 2.28. */
NCCL_DECLARE(ncclResult_t, Reduce,
	     (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
	      cudaStream_t stream));
NCCL_DECLARE(ncclResult_t, Bcast, (void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream));
NCCL_DECLARE(ncclResult_t, Broadcast,
	     (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream));
NCCL_DECLARE(ncclResult_t, AllReduce,
	     (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
	      cudaStream_t stream));
NCCL_DECLARE(ncclResult_t, ReduceScatter,
	     (const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
	      cudaStream_t stream));
NCCL_DECLARE(ncclResult_t, AllGather,
	     (const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream));
NCCL_DECLARE(ncclResult_t, AlltoAll,
	     (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream));
NCCL_DECLARE(ncclResult_t, Gather,
	     (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream));
NCCL_DECLARE(ncclResult_t, Scatter,
	     (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream));
NCCL_DECLARE(ncclResult_t, Send,
	     (const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream));
NCCL_DECLARE(ncclResult_t, Recv, (void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream));

NCCL_DECLARE(ncclResult_t, GroupStart, (void));
NCCL_DECLARE(ncclResult_t, GroupEnd, (void));
/* Ends the group and drops its calls. */
NCCL_DECLARE(ncclResult_t, GroupSimulateEnd, (ncclSimInfo_t * simInfo));

/* Marrow's own: operations on data that this library has taken in this process so far. A program that finds this symbol, and the
 * number growing, knows which library serves it. */
uint64_t marrow_nccl_calls(void);

#ifdef __cplusplus
}
#endif
#endif
