/* nic.h - the control plane: a NIC's port, memory regions, queue pairs. libibverbs and libmlx5 are loaded when first needed; nothing links
 * them.
 *
 * All functions may be called from any thread; those on one object by one thread at a time. Errors name device, port, what was tried and
 * what to do. Memory handed in stays the caller's and must outlive the object. */
#ifndef MRW_NIC_H
#define MRW_NIC_H

#include "post.h"

#include "base/error.h"

struct mrw_nic;
/* How queues are made. */
enum mrw_queues {
	MRW_QUEUES_AUTO,  /* DEVX, and verbs where that is not to be had (said at level info) */
	MRW_QUEUES_DEVX,  /* device commands: rings in our memory */
	MRW_QUEUES_VERBS  /* libmlx5's own queues, opened by mlx5dv_init_obj */
};
struct mrw_region_handle;
struct mrw_link;

/* How to use a port; mrw_nic_defaults() fills it. */
struct mrw_nic_config {
	int32_t port;             /* 0: the first active one */
	int32_t gid_index;        /* -1: RoCE: IPv4-mapped v2, then v2; InfiniBand: 0 */
	uint32_t pkey_index, service_level, traffic_class;
	uint32_t timeout;         /* 4.096 us * 2^timeout before a resend */
	uint32_t retries, rnr_retries;
	uint32_t slots;           /* WQEBBs of a send queue, a power of two, 16 to 32768; queues made by verbs may get more */
	enum mrw_queues queues;
	/* DEVX: 1: one completion entry, overwritten by each completion: cheapest to look at, but when a request fails those flushed behind it
	 * soon hide its syndrome (0x05 is seen instead). 0: a ring of them, as with verbs. */
	uint32_t collapsed;
};
void mrw_nic_defaults(struct mrw_nic_config *config);

/* What ranks tell each other and users ask for. */
struct mrw_nic_info {
	char name[64];
	uint32_t port, infiniband, mtu /* bytes */, speed_gbit, lid, max_queues, devx /* 1: queues by device commands */, reserved;
	uint8_t gid[16];
};

/* Number of devices that names admits: comma-separated device names ("mlx5_0,mlx5_1"), empty: all mlx5 ones with an active port. Loads the
 * libraries; 0 devices is no error; MARROW_UNSUPPORTED if the libraries are not there. */
enum marrow_status mrw_nic_count(const char *names, uint32_t *count);
/* Names of all mlx5 ones with an active port, comma-separated; what does not fit is left out. */
enum marrow_status mrw_nic_list(char *list, size_t bytes);
/* Opens number index of them. */
enum marrow_status mrw_nic_open(struct mrw_nic **nic, const char *names, uint32_t index, const struct mrw_nic_config *config);
void mrw_nic_close(struct mrw_nic *nic); /* NULL is fine; regions and links first */
void mrw_nic_get_info(const struct mrw_nic *nic, struct mrw_nic_info *info);
/* Writes through a queue pair of this NIC to itself, checks data, flag order and completion: names what is wrong. */
enum marrow_status mrw_nic_self_test(struct mrw_nic *nic);
/* The same of a place for queues that may not do (mrw_nic_place_queues()), for a NIC that has passed the self test elsewhere: what does not come
 * within ms is not waited for, nothing is warned of, and that it failed is no trouble of the NIC. No other queue pair may exist. */
enum marrow_status mrw_nic_trial(struct mrw_nic *nic, uint32_t ms);
/* NULL if the device is well; else, in words, what asynchronous events say is wrong: the device or its port (failed, down), else a queue pair. Never
 * blocks. */
const char *mrw_nic_trouble(struct mrw_nic *nic);

/* Memory for rings and records that the host cannot touch: a GPU's. Kernels write requests and poll completions without crossing PCIe, and the
 * NIC reads and writes them there as it does the arena. */
struct mrw_queue_memory {
	uint8_t *base;          /* whole pages; the address is that of kernels, and of a NIC's driver that knows GPUs (nvidia-peermem) */
	uint64_t bytes;
	int dmabuf_fd;          /* -1: by address; needed for the call only */
	uint64_t dmabuf_offset; /* of base in it */
	/* Between it and the host's memory; done on return. */
	enum marrow_status (*copy)(void *arg, void *to, const void *from, uint64_t bytes);
	void *arg;
};
/* What one link takes of such memory. */
uint64_t mrw_nic_queue_bytes(const struct mrw_nic *nic);
/* Links made from now on have their rings and records in memory (copied), or are not made. It must be free of links, and so must what
 * was there before; NULL: links are in the host's memory again. MARROW_UNSUPPORTED: queues are made by verbs, or libmlx5 is too old for the
 * dma-buf. */
enum marrow_status mrw_nic_place_queues(struct mrw_nic *nic, const struct mrw_queue_memory *memory);

struct mrw_region {
	struct mrw_region_handle *handle;
	uint64_t address, bytes;
	uint32_t lkey, rkey;
};
/* Memory for RDMA in both directions, in order (no relaxed ordering). dmabuf_fd: -1, or the memory's. */
enum marrow_status mrw_region_new(struct mrw_nic *nic, void *memory, uint64_t bytes, int dmabuf_fd, struct mrw_region *region);
void mrw_region_free(struct mrw_nic *nic, struct mrw_region *region); /* zeroed is fine */

/* What one end tells the other. */
struct mrw_link_address {
	uint32_t qpn, psn, lid, mtu;
	uint32_t infiniband, port;
	uint8_t gid[16];
	char device[32];
};
/* A queue pair in INIT and its queue for the host, and where they share its memory for kernels; connect brings it to RTS. Rings lie in
 * page-aligned host memory of the link's own, or where mrw_nic_place_queues() says: then *queue has the host's copies of them. Its first user is
 * the host, who posts to the copies and calls push and pull around it, or kernels; after them the host only pulls. */
enum marrow_status mrw_link_new(struct mrw_nic *nic, uint32_t peer_rank, struct mrw_queue *queue, struct mrw_link **link);
void mrw_link_get_address(const struct mrw_link *link, struct mrw_link_address *address);
/* What a GPU must be able to reach of the host's: rings and records (rdma libraries may keep several queues' records in one page), and the
 * page with the doorbell register. bytes are whole pages; 0: nothing (cq_record where collapsed; all but the doorbell of a link that was placed). */
struct mrw_link_memory {
	struct {
		void *base;
		uint64_t bytes;
	} sq, record, cq, cq_record, doorbell;
};
void mrw_link_get_memory(const struct mrw_link *link, struct mrw_link_memory *memory);
/* The link's queue as kernels are to have it, but that what get_memory() names is at the host's addresses. */
void mrw_link_get_queue(const struct mrw_link *link, struct mrw_queue *queue);
bool mrw_link_is_placed(const struct mrw_link *link);
/* Of a link that was placed, else nothing: hands on what the host has posted and consumed, and rings / brings completions to the host's copy.
 * Who polls on the host pulls before. */
enum marrow_status mrw_link_push(struct mrw_link *link);
enum marrow_status mrw_link_pull(struct mrw_link *link);
/* Both ends use the smaller MTU; PSNs and the peer's address come from what was exchanged. Once. */
enum marrow_status mrw_link_connect(struct mrw_link *link, const struct mrw_link_address *peer);
/* To the error state, drained for up to a second if the queue says that requests are under way, destroyed. NULL is fine. */
void mrw_link_free(struct mrw_link *link);
/* "transport retries exhausted: the peer's process, NIC or path is gone", ... */
const char *mrw_syndrome_text(uint32_t syndrome);

#endif
