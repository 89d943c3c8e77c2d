/* collectives.h - stream-ordered collectives.
 *
 * Every rank of the communicator makes the same calls in the same order with the same count, type, operation and root; a
 * difference is reported on all sides with both calls named (MARROW_MISMATCH through marrow_comm_async_error, or directly on
 * the host target). Counts are in elements; buffers may have any alignment and need no registration; count 0 is
 * allowed and moves nothing.
 *
 * stream is a cudaStream_t of the communicator's device (NULL: legacy default stream) and ignored on the host target. On the
 * cuda target a call enqueues one kernel (of a one-rank communicator: a copy, or nothing) and returns; buffers must stay valid
 * until the stream has passed it. Operations of one communicator run in call order whatever their streams; a stream last
 * used with a communicator must exist until another stream is used with it or it is destroyed. cudaStreamPerThread counts as one
 * stream: use it from one thread. Calls may be captured into CUDA graphs and replayed; order replays
 * against other use of the communicator yourself: overlap is detected and faults, unless both start within a microsecond. On the host target a call returns when
 * the operation is done (in a group: at its end).
 *
 * In place: all_reduce and broadcast with send == recv, all_gather with send == recv + rank * count elements, reduce_scatter
 * with recv == send + rank * count elements. Any other overlap of send and recv is undefined. */
#ifndef MARROW_COLLECTIVES_H
#define MARROW_COLLECTIVES_H

#include "comm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* send, recv: count elements each. recv of every rank = reduction over ranks, identical bits everywhere. */
MARROW_API enum marrow_status marrow_all_reduce(const void *send, void *recv, size_t count, enum marrow_type type,
						enum marrow_op op, struct marrow_comm *comm, void *stream);
/* send: count elements, read on root only (may be NULL elsewhere); recv: count elements. */
MARROW_API enum marrow_status marrow_broadcast(const void *send, void *recv, size_t count, enum marrow_type type,
					       uint32_t root, struct marrow_comm *comm, void *stream);
/* send: count elements; recv: nranks * count elements, rank r's block at r * count. */
MARROW_API enum marrow_status marrow_all_gather(const void *send, void *recv, size_t count, enum marrow_type type,
						struct marrow_comm *comm, void *stream);
/* send: nranks * count elements; recv: count elements, block rank of the reduction. */
MARROW_API enum marrow_status marrow_reduce_scatter(const void *send, void *recv, size_t count, enum marrow_type type,
						    enum marrow_op op, struct marrow_comm *comm, void *stream);
/* No rank's stream passes before every rank's stream has arrived. */
MARROW_API enum marrow_status marrow_barrier(struct marrow_comm *comm, void *stream);

/* Makes an operation for this communicator: every rank multiplies its own input by its own scalar (of the given type),
 * rounds to the type, then the products are summed as MARROW_SUM. scalar: one element; see residence. */
MARROW_API enum marrow_status marrow_op_create_premulsum(enum marrow_op *op, const void *scalar, enum marrow_type type,
							 enum marrow_scalar_residence residence, struct marrow_comm *comm);
/* Calls already made keep working; a DEVICE scalar's memory must outlive them. */
MARROW_API enum marrow_status marrow_op_destroy(enum marrow_op op, struct marrow_comm *comm);

#ifdef __cplusplus
}
#endif
#endif
