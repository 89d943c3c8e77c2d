/* stand_in_mlx5.c - what the guest finds as libmlx5.so.1. Ports there are soft-RoCE, which has no rings to give away: devices open as verbs
 * open them, protection domains and rings get numbers and memory that no NIC reads. All else the control plane asks of libibverbs, which is
 * Debian's, and of the kernel. There are no device commands, so queues are made by verbs. */
#include <infiniband/mlx5dv.h>

#include <stdlib.h>
#include <string.h>

bool mlx5dv_is_supported(struct ibv_device *device)
{
	return !strncmp(ibv_get_device_name(device), "rxe", 3);
}

struct ibv_context *mlx5dv_open_device(struct ibv_device *device, struct mlx5dv_context_attr *attr)
{
	(void)attr;
	return ibv_open_device(device);
}

/* Kept until the process ends. */
static void *pages(size_t bytes)
{
	void *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);

	if (memory)
		memset(memory, 0, bytes);
	return memory;
}

static int give_queue(struct ibv_qp *from, struct mlx5dv_qp *to)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr made;

	if (ibv_query_qp(from, &attr, IBV_QP_CAP, &made))
		return 1;
	/* A power of two, four slots a request. */
	to->sq.wqe_cnt = 4;
	while (to->sq.wqe_cnt * 2 <= made.cap.max_send_wr * 4)
		to->sq.wqe_cnt *= 2;
	to->sq.stride = 64;
	to->sq.buf = pages((size_t)to->sq.wqe_cnt * 64);
	to->dbrec = pages(64);
	to->bf.reg = pages(64);
	return !to->sq.buf || !to->dbrec || !to->bf.reg;
}

static int give_completions(const struct ibv_cq *from, struct mlx5dv_cq *to)
{
	to->cqe_size = 64;
	to->cqe_cnt = (uint32_t)from->cqe + 1;
	to->buf = pages((size_t)to->cqe_cnt * 64);
	to->dbrec = pages(64);
	return !to->buf || !to->dbrec;
}

int mlx5dv_init_obj(struct mlx5dv_obj *object, uint64_t type)
{
	if (type & MLX5DV_OBJ_PD)
		object->pd.out->pdn = object->pd.in->handle;
	return (type & MLX5DV_OBJ_QP && give_queue(object->qp.in, object->qp.out)) ||
	       (type & MLX5DV_OBJ_CQ && give_completions(object->cq.in, object->cq.out));
}
