/* collectives.h - stream-ordered collectives.
 *
 * Every rank of the communicator makes the same calls in the same order with the same count, type, operation and root; a
 * difference is reported on all sides with both calls named (MARROW_MISMATCH through marrow_comm_async_error, or directly on
 * the host target). Counts are in elements; buffers may have any alignment and need no registration; count 0 is
 * allowed and moves nothing.
 *
 * stream is a cudaStream_t of the communicator's device (NULL: legacy default stream) and ignored on the host target. On the
 * cuda target a call enqueues one kernel (of a one-rank communicator: a copy, or nothing) and returns; buffers must stay valid
 * until the stream has passed it. Operations of one communicator run in call order whatever their streams. A stream may be destroyed
 * any time after the call, also before the communicator. cudaStreamPerThread counts as one stream: use it from one thread. Calls may be captured into CUDA graphs and replayed; order replays
 * against other use of the communicator yourself: overlap is detected and faults, unless both start within a microsecond. On the host
 * target a call returns when the operation is done (in a group: at its end).
 *
 * In a group a communicator's collectives run first, in call order, then all its sends and recvs at once.
 *
 * In place: all_reduce and broadcast with send == recv, all_gather with send == recv + rank * count elements, reduce_scatter
 * with recv == send + rank * count elements. Any other overlap of send and recv is undefined. */
#ifndef MARROW_COLLECTIVES_H
#define MARROW_COLLECTIVES_H

#include "comm.h"

/* Over several hosts: beyond 16 ranks, and where algorithm rail, railshot, ring, tree or treeshot is asked for, a rank's collectives go by some
 * others only (along rails those of its host and those with its number on other hosts, in a ring or in trees its neighbours). Sends, gather,
 * all_to_all and the like go between any two ranks; on GPUs of a communicator of at most 33, else MARROW_UNSUPPORTED. */
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
/* recv (root only, may be NULL elsewhere): count elements, the bits all_reduce would give. In place: send == recv on root. */
MARROW_API enum marrow_status marrow_reduce(const void *send, void *recv, size_t count, enum marrow_type type, enum marrow_op op,
					    uint32_t root, struct marrow_comm *comm, void *stream);
/* send: count elements; recv (root only): nranks * count elements. In place on root: send == recv + root * count elements. */
MARROW_API enum marrow_status marrow_gather(const void *send, void *recv, size_t count, enum marrow_type type, uint32_t root,
					    struct marrow_comm *comm, void *stream);
/* send (root only): nranks * count elements; recv: count elements. In place on root: recv == send + root * count elements. */
MARROW_API enum marrow_status marrow_scatter(const void *send, void *recv, size_t count, enum marrow_type type, uint32_t root,
					     struct marrow_comm *comm, void *stream);
/* send, recv: nranks * count elements each; block r of send goes to rank r, block r of recv comes from it. Not in place. */
MARROW_API enum marrow_status marrow_all_to_all(const void *send, void *recv, size_t count, enum marrow_type type,
						struct marrow_comm *comm, void *stream);
/* counts and displacements: nranks entries each, in elements, read during the call. What rank a sends to b (send_counts[b] there) must be
 * what b receives from a (recv_counts[a]). Not in place. */
MARROW_API enum marrow_status marrow_all_to_all_v(const void *send, const size_t *send_counts, const size_t *send_displs, void *recv,
						  const size_t *recv_counts, const size_t *recv_displs, enum marrow_type type,
						  struct marrow_comm *comm, void *stream);
/* send: counts[rank] elements; rank r's go to recv + displs[r]. counts and displs: nranks entries, equal on all ranks.
 * In place: send == recv + displs[rank] elements. */
MARROW_API enum marrow_status marrow_all_gather_v(const void *send, void *recv, const size_t *counts, const size_t *displs,
						  enum marrow_type type, struct marrow_comm *comm, void *stream);
/* send: sum of counts elements, rank r's block behind those of the ranks before it; recv: counts[rank] elements. counts: nranks entries,
 * equal on all ranks. In place: recv == send + the counts of the ranks before this one. */
MARROW_API enum marrow_status marrow_reduce_scatter_v(const void *send, void *recv, const size_t *counts, enum marrow_type type,
						      enum marrow_op op, struct marrow_comm *comm, void *stream);

/* Point to point. The i-th send of a rank to a peer meets the i-th recv of that peer from it, also if it has no bytes; both have the same
 * number of bytes (types may differ), else both ranks get MARROW_MISMATCH (on different hosts one of them perhaps MARROW_REMOTE_ERROR, in the
 * other's words). Other ranks take no part. Calls within a group progress together,
 * whatever their order; outside a group each is complete for itself, the send once its recv has begun: two ranks that both send first
 * wait for each other until the deadline. To oneself: only in a group, in pairs of equal size, in the order of the calls.
 * Groups of one communicator on the cuda target: where a rank has more than 77 sends and recvs in one, they run in several steps, the i-th to or
 * from each peer together; that is one group still if the peers have them in one group too. */
MARROW_API enum marrow_status marrow_send(const void *send, size_t count, enum marrow_type type, uint32_t peer,
					  struct marrow_comm *comm, void *stream);
MARROW_API enum marrow_status marrow_recv(void *recv, size_t count, enum marrow_type type, uint32_t peer, struct marrow_comm *comm,
					  void *stream);

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
