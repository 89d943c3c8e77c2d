/* The kernel interface's ioctls: <rdma/rdma_user_ioctl_cmds.h>, <rdma/mlx5_user_ioctl_cmds.h>. What is not here answers
 * EPROTONOSUPPORT, on which libibverbs falls back to write(). */
#include "channel.h"
#include "context.h"
#include "gpu.h"
#include "memory.h"
#include "prm.h"
#include "qp.h"
#include "uar.h"

#include <errno.h>
#include <fcntl.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>

enum { OBJECTS_MAX = 8192, EQN = 5 };

/* What a device object handle stands for. */
static struct {
	struct sn_context *context;
	uint32_t opcode, number;   /* that created it; its number */
} objects[OBJECTS_MAX];

static struct ib_uverbs_attr *find(struct ib_uverbs_ioctl_hdr *header, uint32_t id)
{
	for (uint32_t i = 0; i < header->num_attrs; i++)
		if (header->attrs[i].attr_id == id)
			return &header->attrs[i];
	return NULL;
}

static void *pointer(struct ib_uverbs_ioctl_hdr *header, uint32_t id)
{
	struct ib_uverbs_attr *attr = find(header, id);

	return attr ? (void *)(uintptr_t)attr->data : NULL;
}

/* Up to 8 bytes stand in the attribute itself. */
static uint64_t number(struct ib_uverbs_ioctl_hdr *header, uint32_t id)
{
	struct ib_uverbs_attr *attr = find(header, id);
	uint64_t value = 0;

	if (!attr)
		return 0;
	if (attr->len <= 8)
		return attr->data;
	memcpy(&value, (const void *)(uintptr_t)attr->data, sizeof(value));
	return value;
}

static void answer32(struct ib_uverbs_ioctl_hdr *header, uint32_t id, uint32_t value)
{
	void *to = pointer(header, id);

	if (to)
		memcpy(to, &value, sizeof(value));
}

static void answer64(struct ib_uverbs_ioctl_hdr *header, uint32_t id, uint64_t value)
{
	void *to = pointer(header, id);

	if (to)
		memcpy(to, &value, sizeof(value));
}

static void set_handle(struct ib_uverbs_ioctl_hdr *header, uint32_t id, uint32_t handle)
{
	struct ib_uverbs_attr *attr = find(header, id);

	if (attr)
		attr->data = handle;
}

static int uar(struct sn_context *context, struct ib_uverbs_ioctl_hdr *header)
{
	uint32_t page;

	if (header->method_id == MLX5_IB_METHOD_UAR_OBJ_DESTROY)
		return sn_uar_free((uint32_t)number(header, MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE));
	if (header->method_id != MLX5_IB_METHOD_UAR_OBJ_ALLOC)
		return EPROTONOSUPPORT;
	page = sn_uar_alloc(context);
	if (!page)
		return ENOMEM;
	set_handle(header, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, page);
	answer64(header, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, (uint64_t)page * SN_UAR_BYTES);
	answer32(header, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, SN_UAR_BYTES);
	answer32(header, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, page);
	return 0;
}

static int umem(struct sn_context *context, struct ib_uverbs_ioctl_hdr *header)
{
	struct ib_uverbs_attr *dmabuf = find(header, MLX5_IB_ATTR_DEVX_UMEM_REG_DMABUF_FD);
	uint32_t id;

	if (header->method_id == MLX5_IB_METHOD_DEVX_UMEM_DEREG)
		return sn_umem_deregister((uint32_t)number(header, MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE));
	if (header->method_id != MLX5_IB_METHOD_DEVX_UMEM_REG)
		return EPROTONOSUPPORT;
	/* A dma-buf carries no address, and a umem has no other. */
	if (dmabuf)
		return (int32_t)dmabuf->data < 0 ? EBADF : EOPNOTSUPP;
	id = sn_umem_register(context, number(header, MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR), number(header, MLX5_IB_ATTR_DEVX_UMEM_REG_LEN));
	if (!id)
		return ENOMEM;
	if (sn_gpu_holds(number(header, MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR)) && sn_memory_refuses("peermem")) {
		sn_umem_deregister(id);
		return EFAULT;
	}
	answer32(header, MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, id);
	set_handle(header, MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE, id);
	return 0;
}

static int devx(struct sn_context *context, struct ib_uverbs_ioctl_hdr *header)
{
	struct ib_uverbs_attr *in, *out;

	switch (header->method_id) {
	case MLX5_IB_METHOD_DEVX_OTHER:
		in = find(header, MLX5_IB_ATTR_DEVX_OTHER_CMD_IN);
		out = find(header, MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT);
		if (!in || !out)
			return EINVAL;
		return sn_devx(context, (void *)(uintptr_t)in->data, in->len, (void *)(uintptr_t)out->data, out->len);
	case MLX5_IB_METHOD_DEVX_QUERY_EQN:
		answer32(header, MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN, EQN);
		return 0;
	default:
		return EPROTONOSUPPORT;
	}
}

static int create_object(struct sn_context *context, struct ib_uverbs_ioctl_hdr *header)
{
	struct ib_uverbs_attr *in = find(header, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN);
	struct ib_uverbs_attr *out = find(header, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT);
	int failure;

	if (!in || !out)
		return EINVAL;
	for (uint32_t handle = 1; handle < OBJECTS_MAX; handle++) {
		if (objects[handle].context)
			continue;
		failure = sn_devx(context, (void *)(uintptr_t)in->data, in->len, (void *)(uintptr_t)out->data, out->len);
		if (failure)
			return failure;
		objects[handle].context = context;
		objects[handle].opcode = prm_get((void *)(uintptr_t)in->data, PRM_OPCODE);
		objects[handle].number = prm_get((void *)(uintptr_t)out->data, PRM_NUMBER);
		set_handle(header, MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE, handle);
		return 0;
	}
	return ENOMEM;
}

static int destroy_object(struct sn_context *context, uint32_t handle)
{
	int failure = 0;

	if (handle == 0 || handle >= OBJECTS_MAX || objects[handle].context != context)
		return EINVAL;
	if (objects[handle].opcode == PRM_OP_CREATE_QP) {
		struct sn_qp *qp = sn_qp_find(objects[handle].number);

		if (qp)
			sn_qp_destroy(qp);
	} else {
		struct sn_cq *cq = sn_cq_find(context, objects[handle].number);

		failure = cq ? sn_cq_destroy(cq) : 0;
	}
	if (!failure)
		objects[handle].context = NULL;
	return failure;
}

static int object(struct sn_context *context, struct ib_uverbs_ioctl_hdr *header)
{
	struct ib_uverbs_attr *in, *out;

	switch (header->method_id) {
	case MLX5_IB_METHOD_DEVX_OBJ_CREATE:
		return create_object(context, header);
	case MLX5_IB_METHOD_DEVX_OBJ_DESTROY:
		return destroy_object(context, (uint32_t)number(header, MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE));
	case MLX5_IB_METHOD_DEVX_OBJ_MODIFY:
		in = find(header, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN);
		out = find(header, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT);
		break;
	case MLX5_IB_METHOD_DEVX_OBJ_QUERY:
		in = find(header, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN);
		out = find(header, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT);
		break;
	default:
		return EPROTONOSUPPORT;
	}
	if (!in || !out)
		return EINVAL;
	return sn_devx(context, (void *)(uintptr_t)in->data, in->len, (void *)(uintptr_t)out->data, out->len);
}

/* A dma-buf has no address either, but its region has: the program says iova, which is the unified address. */
static int dmabuf_mr(struct sn_context *context, struct ib_uverbs_ioctl_hdr *header)
{
	struct ib_uverbs_attr *fd = find(header, UVERBS_ATTR_REG_DMABUF_MR_FD);
	uint64_t iova = number(header, UVERBS_ATTR_REG_DMABUF_MR_IOVA);
	struct sn_mr *mr;

	/* A plain number of 32 bits. */
	if (!fd || (int32_t)fd->data < 0 || fcntl((int32_t)fd->data, F_GETFD) < 0)
		return EBADF;
	if (sn_memory_refuses("dmabuf"))
		return EOPNOTSUPP;
	mr = sn_mr_register(context, (uint32_t)number(header, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE), iova, iova,
			    number(header, UVERBS_ATTR_REG_DMABUF_MR_LENGTH),
			    (uint32_t)number(header, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS));
	if (!mr)
		return ENOMEM;
	set_handle(header, UVERBS_ATTR_REG_DMABUF_MR_HANDLE, mr->key >> 8);
	answer32(header, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, mr->key);
	answer32(header, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, mr->key);
	return 0;
}

/* Optional access rights reach the kernel only if it says that it knows them: relaxed ordering is one. */
static int device(struct ib_uverbs_ioctl_hdr *header)
{
	struct ib_uverbs_attr *driver = find(header, UVERBS_ATTR_UHW_OUT);

	if (header->method_id != UVERBS_METHOD_GET_CONTEXT)
		return EPROTONOSUPPORT;
	answer32(header, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, 1);
	answer64(header, UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS);
	if (driver)
		sn_command_driver_context((void *)(uintptr_t)driver->data, driver->len);
	return 0;
}

static int events(struct sn_context *context, struct ib_uverbs_ioctl_hdr *header)
{
	struct ib_uverbs_attr *fd = find(header, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE);

	if (header->method_id != UVERBS_METHOD_ASYNC_EVENT_ALLOC || !fd)
		return EPROTONOSUPPORT;
	fd->data_s64 = sn_channel_open(&context->events);
	return fd->data_s64 < 0 ? errno : 0;
}

static int execute(struct sn_context *context, struct ib_uverbs_ioctl_hdr *header)
{
	switch (header->object_id) {
	case MLX5_IB_OBJECT_UAR: return uar(context, header);
	case MLX5_IB_OBJECT_DEVX_UMEM: return umem(context, header);
	case MLX5_IB_OBJECT_DEVX: return devx(context, header);
	case MLX5_IB_OBJECT_DEVX_OBJ: return object(context, header);
	case UVERBS_OBJECT_DEVICE: return device(header);
	case UVERBS_OBJECT_ASYNC_EVENT: return events(context, header);
	case UVERBS_OBJECT_MR:
		return header->method_id == UVERBS_METHOD_REG_DMABUF_MR ? dmabuf_mr(context, header) : EPROTONOSUPPORT;
	default: return EPROTONOSUPPORT;
	}
}

void sn_ioctl_release(const struct sn_context *context)
{
	for (uint32_t i = 1; i < OBJECTS_MAX; i++)
		if (objects[i].context == context)
			objects[i].context = NULL;
}

int sn_ioctl(struct sn_context *context, void *header)
{
	int failure = execute(context, header);

	if (!failure)
		return 0;
	errno = failure;
	return -1;
}
