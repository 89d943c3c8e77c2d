/* data.c - operations on data: NCCL's arguments as Marrow's. */
#include "binding.h"

static uint64_t calls; /* atomic */

MARROW_API uint64_t marrow_nccl_calls(void)
{
	return __atomic_load_n(&calls, __ATOMIC_RELAXED);
}

/* NCCL's types have Marrow's values; whatever else comes is Marrow's to refuse. */
_Static_assert((int)ncclInt8 == (int)MARROW_INT8 && (int)ncclUint8 == (int)MARROW_UINT8 && (int)ncclInt32 == (int)MARROW_INT32 &&
		       (int)ncclUint32 == (int)MARROW_UINT32 && (int)ncclInt64 == (int)MARROW_INT64 &&
		       (int)ncclUint64 == (int)MARROW_UINT64 && (int)ncclFloat16 == (int)MARROW_FLOAT16 &&
		       (int)ncclFloat32 == (int)MARROW_FLOAT32 && (int)ncclFloat64 == (int)MARROW_FLOAT64 &&
		       (int)ncclBfloat16 == (int)MARROW_BFLOAT16 && (int)ncclFloat8e4m3 == (int)MARROW_FLOAT8E4M3 &&
		       (int)ncclFloat8e5m2 == (int)MARROW_FLOAT8E5M2,
	       "types");
_Static_assert((int)ncclSum == (int)MARROW_SUM && (int)ncclProd == (int)MARROW_PROD && (int)ncclMax == (int)MARROW_MAX &&
		       (int)ncclMin == (int)MARROW_MIN && (int)ncclAvg == (int)MARROW_AVG,
	       "operations");

static enum marrow_type native_type(ncclDataType_t type)
{
	return (enum marrow_type)type;
}

/* Those that were made begin at 5 with NCCL, at MARROW_OP_DYNAMIC here. */
static enum marrow_op native_op(ncclRedOp_t op)
{
	int64_t value = (int64_t)op;
	if (value >= ncclNumOps && value <= INT_MAX - MARROW_OP_DYNAMIC)
		value += MARROW_OP_DYNAMIC - ncclNumOps;
	return (enum marrow_op)value;
}

/* Claims the communicator; rank: a root or peer to check, or 0. */
static ncclResult_t begin(ncclComm_t comm, int rank, const char *function)
{
	ncclResult_t result = nccl_handle_enter(comm, function);
	if (result != ncclSuccess)
		return result;
	if (rank >= 0 && rank < comm->nranks)
		return ncclSuccess;
	result = nccl_fail(ncclInvalidArgument, "%s: rank %d as root or peer: the communicator has ranks 0 to %d", function, rank, comm->nranks - 1);
	nccl_handle_leave(comm);
	return result;
}

static ncclResult_t end(ncclComm_t comm, const char *function, enum marrow_status status)
{
	if (status == MARROW_SUCCESS)
		__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
	ncclResult_t result = nccl_from(function, status);
	nccl_handle_leave(comm);
	return result;
}

EXPORT(AllReduce, (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
		   cudaStream_t stream))
{
	ncclResult_t result = begin(comm, 0, "ncclAllReduce");
	if (result != ncclSuccess)
		return result;
	return end(comm, "ncclAllReduce",
		   marrow_all_reduce(sendbuff, recvbuff, count, native_type(datatype), native_op(op), comm->native, stream));
}

EXPORT(Broadcast, (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
		   cudaStream_t stream))
{
	ncclResult_t result = begin(comm, root, "ncclBroadcast");
	if (result != ncclSuccess)
		return result;
	return end(comm, "ncclBroadcast",
		   marrow_broadcast(sendbuff, recvbuff, count, native_type(datatype), (uint32_t)root, comm->native, stream));
}

EXPORT(Bcast, (void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream))
{
	ncclResult_t result = begin(comm, root, "ncclBcast");
	if (result != ncclSuccess)
		return result;
	return end(comm, "ncclBcast", marrow_broadcast(buff, buff, count, native_type(datatype), (uint32_t)root, comm->native, stream));
}

EXPORT(Reduce, (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
		cudaStream_t stream))
{
	ncclResult_t result = begin(comm, root, "ncclReduce");
	if (result != ncclSuccess)
		return result;
	return end(comm, "ncclReduce",
		   marrow_reduce(sendbuff, recvbuff, count, native_type(datatype), native_op(op), (uint32_t)root, comm->native, stream));
}

EXPORT(AllGather, (const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream))
{
	ncclResult_t result = begin(comm, 0, "ncclAllGather");
	if (result != ncclSuccess)
		return result;
	return end(comm, "ncclAllGather", marrow_all_gather(sendbuff, recvbuff, sendcount, native_type(datatype), comm->native, stream));
}

EXPORT(ReduceScatter, (const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
		       cudaStream_t stream))
{
	ncclResult_t result = begin(comm, 0, "ncclReduceScatter");
	if (result != ncclSuccess)
		return result;
	return end(comm, "ncclReduceScatter",
		   marrow_reduce_scatter(sendbuff, recvbuff, recvcount, native_type(datatype), native_op(op), comm->native, stream));
}

EXPORT(AlltoAll, (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream))
{
	ncclResult_t result = begin(comm, 0, "ncclAlltoAll");
	if (result != ncclSuccess)
		return result;
	return end(comm, "ncclAlltoAll", marrow_all_to_all(sendbuff, recvbuff, count, native_type(datatype), comm->native, stream));
}

EXPORT(Gather, (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream))
{
	ncclResult_t result = begin(comm, root, "ncclGather");
	if (result != ncclSuccess)
		return result;
	return end(comm, "ncclGather", marrow_gather(sendbuff, recvbuff, count, native_type(datatype), (uint32_t)root, comm->native, stream));
}

EXPORT(Scatter, (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream))
{
	ncclResult_t result = begin(comm, root, "ncclScatter");
	if (result != ncclSuccess)
		return result;
	return end(comm, "ncclScatter", marrow_scatter(sendbuff, recvbuff, count, native_type(datatype), (uint32_t)root, comm->native, stream));
}

EXPORT(Send, (const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream))
{
	ncclResult_t result = begin(comm, peer, "ncclSend");
	if (result != ncclSuccess)
		return result;
	return end(comm, "ncclSend", marrow_send(sendbuff, count, native_type(datatype), (uint32_t)peer, comm->native, stream));
}

EXPORT(Recv, (void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream))
{
	ncclResult_t result = begin(comm, peer, "ncclRecv");
	if (result != ncclSuccess)
		return result;
	return end(comm, "ncclRecv", marrow_recv(recvbuff, count, native_type(datatype), (uint32_t)peer, comm->native, stream));
}

EXPORT(RedOpCreatePreMulSum, (ncclRedOp_t * op, void *scalar, ncclDataType_t datatype, ncclScalarResidence_t residence, ncclComm_t comm))
{
	enum marrow_op made = MARROW_SUM;
	ncclResult_t result = nccl_handle_enter(comm, "ncclRedOpCreatePreMulSum");
	if (result != ncclSuccess)
		return result;
	if (!op || !scalar)
		result = nccl_fail(ncclInvalidArgument, "ncclRedOpCreatePreMulSum: %s is NULL", op ? "scalar" : "op");
	else if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate)
		result = nccl_fail(ncclInvalidArgument, "ncclRedOpCreatePreMulSum: residence %d: ncclScalarDevice or ncclScalarHostImmediate",
				   (int)residence);
	else
		result = nccl_from("ncclRedOpCreatePreMulSum",
				   marrow_op_create_premulsum(&made, scalar, native_type(datatype),
							      residence == ncclScalarDevice ? MARROW_SCALAR_DEVICE : MARROW_SCALAR_HOST,
							      comm->native));
	if (result == ncclSuccess)
		*op = (ncclRedOp_t)((int)made - MARROW_OP_DYNAMIC + ncclNumOps);
	nccl_handle_leave(comm);
	return result;
}

EXPORT(RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm))
{
	ncclResult_t result = nccl_handle_enter(comm, "ncclRedOpDestroy");
	if (result != ncclSuccess)
		return result;
	if ((int64_t)op < ncclNumOps)
		result = nccl_fail(ncclInvalidArgument, "ncclRedOpDestroy: %d is built in, not made by ncclRedOpCreatePreMulSum()", (int)op);
	else
		result = nccl_from("ncclRedOpDestroy", marrow_op_destroy(native_op(op), comm->native));
	nccl_handle_leave(comm);
	return result;
}
