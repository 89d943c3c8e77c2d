/* verbs.h - the functions of libibverbs and libmlx5 that are used, as found by dlopen when first needed. Inline functions of their
 * headers refer to the libraries' symbols: nothing here may call those. */
#ifndef MRW_VERBS_H
#define MRW_VERBS_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "base/error.h"

/* X(field, symbol): all of these must be there. _ibv_query_gid_ex came with rdma-core 32. */
#define MRW_VERBS_LIST(X) \
	X(get_device_list, ibv_get_device_list) \
	X(free_device_list, ibv_free_device_list) \
	X(get_device_name, ibv_get_device_name) \
	X(close_device, ibv_close_device) \
	X(query_device, ibv_query_device) \
	X(query_port, ibv_query_port) \
	X(query_gid_ex, _ibv_query_gid_ex) \
	X(alloc_pd, ibv_alloc_pd) \
	X(dealloc_pd, ibv_dealloc_pd) \
	X(reg_mr, ibv_reg_mr) \
	X(dereg_mr, ibv_dereg_mr) \
	X(create_ah, ibv_create_ah) \
	X(destroy_ah, ibv_destroy_ah) \
	X(create_cq, ibv_create_cq) \
	X(destroy_cq, ibv_destroy_cq) \
	X(create_qp, ibv_create_qp) \
	X(modify_qp, ibv_modify_qp) \
	X(destroy_qp, ibv_destroy_qp) \
	X(get_async_event, ibv_get_async_event) \
	X(ack_async_event, ibv_ack_async_event)
#define MRW_MLX5_LIST(X) \
	X(is_supported, mlx5dv_is_supported) \
	X(open_device, mlx5dv_open_device) \
	X(init_obj, mlx5dv_init_obj)
/* These as a group: without them queues are made by verbs. */
#define MRW_DEVX_LIST(X) \
	X(umem_reg, mlx5dv_devx_umem_reg) \
	X(umem_dereg, mlx5dv_devx_umem_dereg) \
	X(alloc_uar, mlx5dv_devx_alloc_uar) \
	X(free_uar, mlx5dv_devx_free_uar) \
	X(query_eqn, mlx5dv_devx_query_eqn) \
	X(obj_create, mlx5dv_devx_obj_create) \
	X(obj_modify, mlx5dv_devx_obj_modify) \
	X(obj_destroy, mlx5dv_devx_obj_destroy)
/* NULL where missing. */
#define MRW_DMABUF_LIST(X) X(reg_dmabuf_mr, ibv_reg_dmabuf_mr)
/* So is mlx5dv_devx_umem_reg_ex, which headers of the age of the others do not have: its ABI. dma-bufs came later than the function, which then
 * says EOPNOTSUPP. */
struct mrw_umem_in {
	void *address;           /* where the dma-buf's part begins in it, with one */
	size_t bytes;
	uint32_t access;
	uint64_t page_sizes;     /* bits: those that it may be mapped by */
	uint64_t mask;
	int dmabuf_fd;
};
#define MRW_UMEM_DMABUF 1u       /* mask: dmabuf_fd counts */

struct mrw_verbs {
#define MRW_X(field, symbol) __typeof__(symbol) *field;
	MRW_VERBS_LIST(MRW_X)
	MRW_MLX5_LIST(MRW_X)
	MRW_DEVX_LIST(MRW_X)
	MRW_DMABUF_LIST(MRW_X)
#undef MRW_X
	struct mlx5dv_devx_umem *(*umem_reg_in)(struct ibv_context *context, struct mrw_umem_in *in);
	bool has_devx;
};

/* The table, filled by the first call in the process. MARROW_UNSUPPORTED names the library or the symbol that is missing. */
enum marrow_status mrw_verbs_load(const struct mrw_verbs **verbs);

#endif
