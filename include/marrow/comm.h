/* comm.h - the life of a communicator.
 *
 * Threads: different communicators may be used from different threads at once. One communicator may be used by one thread
 * at a time; a second one gets MARROW_INVALID_USAGE. marrow_comm_abort(), marrow_comm_async_error() and
 * marrow_last_error() may be called from any thread at any time before marrow_comm_destroy() is entered.
 *
 * Several ranks of one process that share a CUDA device need a hardware queue each: CUDA_DEVICE_MAX_CONNECTIONS=32 before CUDA starts, and
 * each stream used once, for any work, before ranks make their first calls on it side by side. Else a rank's kernel may stand behind one
 * that waits for it, until the deadline.
 *
 * Processes: a communicator is its maker's. In a forked child the functions that would act on it refuse (MARROW_INVALID_USAGE) and change
 * nothing; the child may make its own on the host target, while CUDA does not outlive a fork.
 *
 * A communicator has at most 64 ranks, 16 of a host; with more than 33 there are no transfers (Send, AllToAll and their kin) on the cuda target.
 *
 * Every function returns a status; marrow_last_error() says in words who failed, on what, and what to do. */
#ifndef MARROW_COMM_H
#define MARROW_COMM_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero-initialise with MARROW_CONFIG_INIT, then set fields. Zero or NULL in a field means: environment, else default. */
struct marrow_config {
	size_t size;             /* sizeof(struct marrow_config) of the caller's header */
	enum marrow_target target;
	uint32_t max_ctas;       /* hard cap on CUDA blocks (channels) a collective uses; 0: default (MARROW_MAX_CTAS) */
	uint64_t timeout_ms;     /* deadline of every device wait and of init, at most 2^40; 0: 30 min for waits, 5 min for init (MARROW_TIMEOUT_MS) */
	const char *host_id;     /* overrides this rank's host identity (MARROW_HOST_ID); emulates several hosts */
	const char *socket_ifname; /* interface for the bootstrap, prefix match, '=' prefix exact (MARROW_SOCKET_IFNAME) */
	const char *algo;        /* forces an algorithm where it applies (MARROW_ALGO): oneshot lines twoshot bulk, along rails railshot rail. Over
				    several hosts the first four make every rank a peer of every other one (no rails), railshot and rail make
				    rails where hosts allow, ring makes each rank a peer of its two neighbours, and tree and treeshot of its
				    neighbours in two trees and a ring (tree: packets or chunks by size; treeshot: packets as far as they
				    carry); all ranks alike */
	const char *nics;        /* RDMA devices for ranks on other hosts, by name, comma-separated (MARROW_NICS): the ranks of a host take
				    turns, and several each where there are more NICs than ranks. Without: of all with an active port, on the cuda
				    target those nearest to the rank's GPU, else turns */
	uint32_t device;         /* this rank's CUDA device: 1 + its ordinal; 0: the one current at the call. Unused on the host target */
};
#define MARROW_CONFIG_INIT { sizeof(struct marrow_config), MARROW_TARGET_AUTO, 0, 0, NULL, NULL, NULL, NULL, 0 }

struct marrow_comm_properties {
	size_t size;               /* set by the caller to sizeof(struct marrow_comm_properties) */
	enum marrow_target target;
	uint32_t rank, nranks;
	uint32_t ranks_on_host;    /* ranks whose memory this rank maps, itself included */
	int32_t device;            /* CUDA device ordinal, -1 on the host target */
	uint32_t channel_cap;      /* most channels a collective uses */
	uint64_t arena_bytes;      /* shared memory this rank contributes: device memory on the cuda target, 0 for one rank */
	uint64_t chunk_bytes;      /* largest staging chunk */
	uint64_t oneshot_max_bytes;/* largest all-reduce sent as packets in one shot */
	uint64_t timeout_ms;       /* deadline of a device wait */
	uint32_t hosts;            /* hosts the ranks are on, by host identity */
	uint32_t queue_pairs;      /* this rank's: one a NIC for each rank on another host; they live as long as the communicator */
	uint32_t queue_pair_limit; /* of the device (the lowest of them), for all its users; 0 without one */
	char nic[64];              /* the devices used, with commas; "" without one */
	uint32_t rails;            /* 1: along rails: messages to other hosts go to the ranks with this one's number there, reductions run host by
				      host (types.h) */
	char machine[128];         /* what a calibration table (MARROW_TUNING) must name */
};

/* Version of the library: compare with MARROW_VERSION. */
MARROW_API int marrow_get_version(void);
/* Short text of a status; never NULL. Static storage. */
MARROW_API const char *marrow_status_string(enum marrow_status status);
/* What last went wrong: on this communicator, or in this thread if comm is NULL. Never NULL; the text stays valid until
 * the calling thread's next marrow_last_error(). */
MARROW_API const char *marrow_last_error(const struct marrow_comm *comm);

/* Makes an id and opens the listening socket behind it. One of the ranks that use the id must live in the calling
 * process. The socket closes when that communicator has been set up. */
MARROW_API enum marrow_status marrow_get_unique_id(struct marrow_unique_id *id);
/* The same; the socket is on an interface that config->socket_ifname allows. Nothing else of config (NULL is allowed) matters here. */
MARROW_API enum marrow_status marrow_get_unique_id_on(struct marrow_unique_id *id, const struct marrow_config *config);
/* Closes the socket behind an id that no rank will use. Nothing happens if another process made it or a rank has taken it. */
MARROW_API enum marrow_status marrow_drop_unique_id(const struct marrow_unique_id *id);
/* The CUDA device current in this thread, -1 without one: what a communicator made here without config.device would be on. */
MARROW_API enum marrow_status marrow_current_device(int32_t *device);

/* Collective over nranks ranks: every rank calls with the same id and nranks and its own rank in [0, nranks). Blocks until
 * all have arrived, all paths between ranks (memory, or NICs between hosts) are there and proved with data, or the deadline passed.
 * Within marrow_group_start()/end() the work is done at the outermost group end (one thread may so create several ranks);
 * *comm is set at once and may be used after the group end. The CUDA device current at the call is the rank's device.
 * On failure *comm is NULL and nothing is left behind. */
MARROW_API enum marrow_status marrow_comm_init(struct marrow_comm **comm, uint32_t nranks,
					       const struct marrow_unique_id *id, uint32_t rank,
					       const struct marrow_config *config);
/* As marrow_comm_init(), with rank, size and root address from the environment: MARROW_RANK MARROW_NRANKS
 * MARROW_ROOT=host:port (rank 0 listens there; MARROW_JOB keeps other jobs away), else torchrun's RANK WORLD_SIZE MASTER_ADDR MASTER_PORT (port + 1),
 * else Open MPI's OMPI_COMM_WORLD_RANK/SIZE with MARROW_ROOT. The CUDA device is local rank modulo device count and stays current. */
MARROW_API enum marrow_status marrow_comm_init_env(struct marrow_comm **comm, const struct marrow_config *config);

/* Collective over the ranks of comm: those with the same color (>= 0) become a communicator, numbered by key, then by rank in comm.
 * MARROW_NO_COLOR: takes part, gets NULL. config as for init, NULL takes comm's; the device is comm's. comm stays usable, also if a rank's
 * arguments are refused, of which all ranks hear; it fails if a rank does not take part. In a group the work is done at its end: all its splits
 * and inits succeed, or all of this thread's are undone. */
#define MARROW_NO_COLOR (-1)
MARROW_API enum marrow_status marrow_comm_split(struct marrow_comm *comm, int32_t color, int32_t key, struct marrow_comm **split,
						const struct marrow_config *config);
/* Collective over the ranks of comm but the excluded ones (ascending, the same on all; they need not be alive and do not call): makes a
 * communicator of them in their order. MARROW_SHRINK_DEFAULT: comm must be sound; its operations are waited for and it stays usable.
 * MARROW_SHRINK_ABORT, the way on after a failure: comm is aborted first, calls in other threads are given 5 s to return, and only destroy is left of
 * comm. Ranks that pass different lists, do not come, or died meanwhile: an error, at the deadline of init at the latest, after which it may be
 * tried again with another list (marrow_last_error(NULL) says what went wrong). config: as for split. Not in a group. */
#define MARROW_SHRINK_DEFAULT 0
#define MARROW_SHRINK_ABORT 1
MARROW_API enum marrow_status marrow_comm_shrink(struct marrow_comm *comm, const uint32_t *exclude, uint32_t nexclude, uint32_t flags,
						 struct marrow_comm **shrunk, const struct marrow_config *config);

MARROW_API enum marrow_status marrow_comm_rank(const struct marrow_comm *comm, uint32_t *rank);
MARROW_API enum marrow_status marrow_comm_count(const struct marrow_comm *comm, uint32_t *nranks);
MARROW_API enum marrow_status marrow_comm_device(const struct marrow_comm *comm, int32_t *device);
MARROW_API enum marrow_status marrow_comm_get_properties(const struct marrow_comm *comm, struct marrow_comm_properties *properties);

/* How a call would be carried, and why; all ranks would say the same. Nothing is sent. */
struct marrow_choice {
	size_t size;               /* set by the caller to sizeof(struct marrow_choice) */
	const char *algo;          /* as in config.algo; "local" where one rank is alone. Static text, like reason */
	const char *reason;
	uint32_t channels;
	uint32_t chunk_bytes;      /* 0: not in chunks */
	uint64_t predicted_ns;     /* by the cost model, of calls in a row; 0: it does not say */
};
/* function: "all_reduce", "broadcast", "all_gather", "reduce_scatter", "barrier", "reduce" or "reduce_scatter_v" (count: of the largest block);
 * count and type as in the call. Other functions are made of transfers between pairs: there is nothing to choose, MARROW_INVALID_ARGUMENT.
 * Any thread, while comm is live. */
MARROW_API enum marrow_status marrow_comm_explain(const struct marrow_comm *comm, const char *function, size_t count, enum marrow_type type,
						  struct marrow_choice *choice);

/* Waits until this rank's operations are done and (several hosts) its NIC has sent all of them, and says goodbye to the peers. After it only destroy is allowed. Local: does
 * not wait for other ranks beyond the operations in flight. Graph replays are not known to the library: they must be over,
 * and none may follow. A peer that goes on calling gets MARROW_REMOTE_ERROR. */
MARROW_API enum marrow_status marrow_comm_finalize(struct marrow_comm *comm);
/* Finalizes if need be and frees. Memory that a peer still maps lives until that peer lets go. After a failure it waits up to 5 s for
 * operations to leave; if they do not, their memory is kept, and freed by the first later init or destroy that finds them gone. MARROW_REMOTE_ERROR: the NIC could not bring the
 * last of them to a rank on another host; all is freed even so. Not while the thread's group holds calls of the communicator. NULL
 * is allowed. */
MARROW_API enum marrow_status marrow_comm_destroy(struct marrow_comm *comm);
/* Makes every operation of this communicator that waits leave, queued ones included, here and at the peers, and returns without
 * waiting (several hosts: but for a moment, if a send queue is full). Any thread. Then only destroy remains. On the cuda target operations that wait at peers hear of it from this rank's
 * kernels in flight, or when the peer polls marrow_comm_async_error(). A graph replayed by a rank that knows of a failure, while others do not
 * yet, may make these report a mismatch instead of it. */
MARROW_API enum marrow_status marrow_comm_abort(struct marrow_comm *comm);
/* *error: MARROW_SUCCESS, or the first failure of an operation, a peer's or this rank's; sticky. Cheap (no CUDA call) but for
 * a look at the peers' sockets at most every 100 ms. The text is in marrow_last_error(comm). Of a finalized
 * communicator on one host: the first failure of this rank's operations; that a peer failed or aborted when they were done is none. */
MARROW_API enum marrow_status marrow_comm_async_error(struct marrow_comm *comm, enum marrow_status *error);

/* Operations between start and the matching end are issued at the outermost end, in call order for each communicator. Groups
 * nest. One thread may hold calls for several communicators; on the cuda target all streams of a communicator in the
 * group wait for each other. On the host target communicators of different ranks run on threads that end joins.
 * If a call that the group would hold (a collective, send, recv, init, split) failed, end issues nothing and returns that status, with
 * the words of that failure; others (marrow_comm_init_mpi() before its init, queries, operations to reduce by) do not count. */
MARROW_API enum marrow_status marrow_group_start(void);
MARROW_API enum marrow_status marrow_group_end(void);
/* Marks this thread's group as failed: its outermost end issues nothing and returns status (not MARROW_SUCCESS), or that of a failure before
 * this one. For layers above that check arguments themselves. Outside a group: MARROW_INVALID_USAGE. */
MARROW_API enum marrow_status marrow_group_fail(enum marrow_status status);

/* Memory of the CUDA device current at the call that is best suited to be a buffer (shareable, registrable, within reach of the process's other
 * devices with peer access); of the host target: whole pages, which forked children share, and a descriptor. Buffers need not come from here. target AUTO: as for init. bytes > 0, rounded
 * up to whole pages of the target; contents are undefined. Free with marrow_mem_free() only, when nothing uses the memory any more (it waits for
 * nothing, and refuses what is registered as a window, <marrow/window.h>); NULL is allowed there. Any thread. */
MARROW_API enum marrow_status marrow_mem_alloc(void **memory, size_t bytes, enum marrow_target target);
MARROW_API enum marrow_status marrow_mem_free(void *memory);

#ifdef __cplusplus
}
#endif
#endif
