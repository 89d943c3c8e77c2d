/* inside.h - what the files of the control plane know of NICs and links. */
#ifndef MRW_INSIDE_H
#define MRW_INSIDE_H

#include "nic.h"
#include "verbs.h"

enum { MRW_WHY_BYTES = 512 };

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
	char trouble[256];
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
	struct mrw_link_memory memory;
	/* DEVX */
	struct mlx5dv_devx_umem *sq_umem, *cq_umem;
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

/* What routers spread flows by, as a flow label of 20 bits that is never 0: for 0 libmlx5 draws one, from a seed that threads share without a
 * lock. */
uint32_t mrw_path_flow(const struct mrw_link *link, const struct mrw_path *path);

/* The whole pages around bytes at base. */
void mrw_pages_around(void *base, uint64_t bytes, void **first, uint64_t *whole);
/* What locked memory this process may have, in words: for messages. */
const char *mrw_memlock_text(char text[64]);

#endif
