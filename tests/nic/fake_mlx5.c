/* fake_mlx5.c - stands in for libmlx5.so.1: see fake.h. Without -DFAKE_DEVX it has no device commands, as very old ones;
 * with -DFAKE_NO_UMEM_IN no mlx5dv_devx_umem_reg_ex. */
#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/mlx5dv.h>

static _Alignas(4096) uint8_t pages[4][4096 * 8];
static struct mlx5_wqe_av av;

bool mlx5dv_is_supported(struct ibv_device *device)
{
	return !strncmp(device->name, "mlx5", 4);
}

struct ibv_context *mlx5dv_open_device(struct ibv_device *device, struct mlx5dv_context_attr *attr)
{
	struct ibv_context *context;

	if (fake.open_error || (fake.no_devx_open && attr->flags)) {
		errno = fake.open_error ? fake.open_error : EOPNOTSUPP;
		return NULL;
	}
	if (fake_call(__func__))
		return NULL;
	context = fake_object(sizeof(*context));
	if (context) {
		context->device = device;
		context->async_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
	return context;
}

int mlx5dv_init_obj(struct mlx5dv_obj *object, uint64_t type)
{
	int error = fake_call(__func__);

	if (error)
		return error;
	if (type & MLX5DV_OBJ_PD)
		object->pd.out->pdn = 3;
	if (type & MLX5DV_OBJ_AH) {
		memcpy(av.rmac, "\x02\x03\x04\x05\x06\x07", 6);
		object->ah.out->av = &av;
	}
	if (type & MLX5DV_OBJ_QP) {
		struct mlx5dv_qp *qp = object->qp.out;

		qp->sq.buf = pages[0];
		qp->sq.wqe_cnt = object->qp.in->handle * 4;
		qp->sq.stride = 64;
		qp->dbrec = (__be32 *)(void *)pages[1];
		qp->bf.reg = pages[2] + 0x800;
	}
	if (type & MLX5DV_OBJ_CQ) {
		struct mlx5dv_cq *cq = object->cq.out;

		cq->buf = pages[3];
		cq->dbrec = (__be32 *)(void *)(pages[1] + 64);
		cq->cqe_cnt = (uint32_t)object->cq.in->cqe + 1;
		cq->cqe_size = 64;
	}
	return 0;
}

#if defined(FAKE_DEVX)
struct mlx5dv_devx_obj {
	uint32_t opcode;
};

struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg(struct ibv_context *context, void *memory, size_t bytes, uint32_t access)
{
	(void)context;
	(void)access;
	((volatile uint8_t *)memory)[bytes - 1] = ((volatile uint8_t *)memory)[bytes - 1]; /* it is mapped */
	return fake_call(__func__) ? NULL : fake_object(sizeof(struct mlx5dv_devx_umem));
}

#if !defined(FAKE_NO_UMEM_IN)
/* By its name only: headers may have it or not. */
struct mlx5dv_devx_umem *umem_reg_in(struct ibv_context *context, struct mrw_umem_in *in) __asm__("mlx5dv_devx_umem_reg_ex");

struct mlx5dv_devx_umem *umem_reg_in(struct ibv_context *context, struct mrw_umem_in *in)
{
	struct mlx5dv_devx_umem *umem = fake_call(__func__) ? NULL : fake_object(sizeof(*umem));

	(void)context;
	fake.umem = *in;
	if (umem)
		umem->umem_id = 0x99;
	return umem;
}
#endif

int mlx5dv_devx_umem_dereg(struct mlx5dv_devx_umem *umem)
{
	return fake_free(umem);
}

struct mlx5dv_devx_uar *mlx5dv_devx_alloc_uar(struct ibv_context *context, uint32_t flags)
{
	struct mlx5dv_devx_uar *uar = fake_call(__func__) ? NULL : fake_object(sizeof(*uar));

	(void)context;
	(void)flags;
	if (uar)
		uar->reg_addr = pages[2] + 0x800;
	return uar;
}

void mlx5dv_devx_free_uar(struct mlx5dv_devx_uar *uar)
{
	fake_free(uar);
}

int mlx5dv_devx_query_eqn(struct ibv_context *context, uint32_t vector, uint32_t *eqn)
{
	(void)context;
	(void)vector;
	*eqn = 1;
	return fake_call(__func__);
}

struct mlx5dv_devx_obj *mlx5dv_devx_obj_create(struct ibv_context *context, const void *in, size_t in_bytes, void *out,
					       size_t out_bytes)
{
	const uint8_t *bytes = in;

	(void)context;
	memset(out, 0, out_bytes);
	if (in_bytes == sizeof(fake.create[0]) && (bytes[0] == 4 || bytes[0] == 5))
		memcpy(fake.create[bytes[0] - 4], in, in_bytes);
	if (fake.no_devx_queues) {
		((uint8_t *)out)[0] = 0x0f;
		errno = EREMOTEIO;
		return NULL;
	}
	((uint8_t *)out)[11] = 0x77; /* the number */
	return fake_call(__func__) ? NULL : fake_object(sizeof(struct mlx5dv_devx_obj));
}

int mlx5dv_devx_obj_modify(struct mlx5dv_devx_obj *object, const void *in, size_t in_bytes, void *out, size_t out_bytes)
{
	const uint8_t *bytes = in;

	(void)object;
	memset(out, 0, out_bytes);
	if (bytes[1] >= 2 && bytes[1] <= 4 && in_bytes == sizeof(fake.command[0]))
		memcpy(fake.command[bytes[1] - 2], in, in_bytes);
	return fake_call(__func__);
}

int mlx5dv_devx_obj_destroy(struct mlx5dv_devx_obj *object)
{
	return fake_free(object);
}
#endif
