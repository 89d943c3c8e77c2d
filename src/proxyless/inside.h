/* inside.h - what the files of the control plane know of NICs and links. */
#ifndef MRW_INSIDE_H
#define MRW_INSIDE_H

#include "nic.h"
#include "verbs.h"

enum { MRW_WHY_BYTES = 512 };

/* Where queues are placed: a part for each, send block before completion block. */
struct mrw_place {
	struct mrw_queue_memory memory;  /* base NULL: in the host's pages */
	struct mlx5dv_devx_umem *umem;   /* all of it */
	uint32_t parts;
	bool *taken;                     /* by part */
	uint8_t *pulled;                 /* room for a completion ring, beside the one in the link */
};

struct mrw_nic {
	const struct mrw_verbs *verbs;
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint32_t pdn;
	struct mrw_nic_config config;
	struct mrw_nic_info info;
	enum ibv_mtu mtu;
	uint32_t gids, gid_index;
	uint32_t reads_out, reads_in; /* reads and atomics under way on a queue pair, at most 16 */
	bool devx;
	uint32_t links;               /* that exist */
	struct mrw_place place;
	char trouble[256];            /* of the device or the port */
	char queue_trouble[256];
};

/* Where a link leads. */
struct mrw_path {
	uint32_t qpn, psn, lid;
	enum ibv_mtu mtu;
	bool global;                  /* RoCE, or another InfiniBand subnet: by GID */
	uint8_t gid[16];
};

struct mrw_link {
	struct mrw_nic *nic;
	struct mrw_queue *queue;
	uint32_t qpn, psn;
	bool devx, connected;
	bool trial;                   /* of mrw_nic_trial(): may hear nothing, and goes without a word then */
	struct mrw_link_memory memory;
	/* DEVX */
	uint8_t *sq_block, *cq_block; /* pages of the host: the rings and records themselves, or the host's copies */
	uint8_t *placed;              /* what they are copies of; NULL: they are themselves */
	uint64_t bell;                /* of a placed link: what the host has rung, until it is pushed */
	struct mlx5dv_devx_umem *sq_umem, *cq_umem; /* NULL where placed */
	struct mlx5dv_devx_uar *uar;
	struct mlx5dv_devx_obj *cq_object, *qp_object;
	/* verbs */
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

/* devx.c and link_verbs.c: the two ways. make: to INIT, filling link and link->queue; free accepts what make left half done. */
/* False: why says what failed; the link is as before. */
bool mrw_devx_make(struct mrw_link *link, char why[MRW_WHY_BYTES]);
enum marrow_status mrw_devx_connect(struct mrw_link *link, const struct mrw_path *path);
void mrw_devx_stop(struct mrw_link *link); /* to the error state */
void mrw_devx_free(struct mrw_link *link);

enum marrow_status mrw_verbs_make(struct mrw_link *link);
enum marrow_status mrw_verbs_connect(struct mrw_link *link, const struct mrw_path *path);
void mrw_verbs_stop(struct mrw_link *link);
void mrw_verbs_free(struct mrw_link *link);

/* What asynchronous events said of queue pairs: whose were to be found out about, and are gone. */
void mrw_nic_forget_queues(struct mrw_nic *nic);

/* A ring of slots slots, or of as many completions, and the page of records behind it. */
uint64_t mrw_ring_bytes(const struct mrw_nic *nic);
uint64_t mrw_block_bytes(const struct mrw_nic *nic);
/* queue_memory.c: a part of nic->place, NULL: none is left; and back. */
uint8_t *mrw_place_take(struct mrw_nic *nic);
void mrw_place_give(struct mrw_nic *nic, const uint8_t *part);

/* What routers spread flows by, as a flow label of 20 bits that is never 0: for 0 libmlx5 draws one, from a seed that threads share without a
 * lock. */
uint32_t mrw_path_flow(const struct mrw_link *link, const struct mrw_path *path);

/* The whole pages around bytes at base. */
void mrw_pages_around(void *base, uint64_t bytes, void **first, uint64_t *whole);
/* What locked memory this process may have, in words: for messages. */
const char *mrw_memlock_text(char text[64]);

#endif
