/* fake_ibverbs.c - stands in for libibverbs.so.1: see fake.h. */
#include "fake.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

struct fake fake;
static struct ibv_device devices[FAKE_DEVICES];

int fake_call(const char *name)
{
	if (++fake.calls != fake.fail_at)
		return 0;
	fake.failed = name;
	errno = fake.error;
	return fake.error;
}

void *fake_object(size_t bytes)
{
	void *object = calloc(1, bytes);

	fake.live += object != NULL;
	return object;
}

int fake_free(void *object)
{
	free(object);
	fake.live--;
	return 0;
}

struct ibv_device **ibv_get_device_list(int *count)
{
	static const char *const names[FAKE_DEVICES] = {"mlx5_0", "mlx5_1", "other_0"};
	struct ibv_device **list;

	if (fake_call(__func__))
		return NULL;
	list = fake_object((FAKE_DEVICES + 1) * sizeof(*list));
	for (int i = 0; list && i < FAKE_DEVICES; i++) {
		snprintf(devices[i].name, sizeof(devices[i].name), "%s", names[i]);
		list[i] = &devices[i];
	}
	*count = FAKE_DEVICES;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	fake_free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

int ibv_close_device(struct ibv_context *context)
{
	close(context->async_fd);
	return fake_free(context);
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	memset(attr, 0, sizeof(*attr));
	attr->max_qp = 1234;
	attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = 16;
	attr->phys_port_cnt = 2;
	return fake_call(__func__);
}

int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *compat)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)(void *)compat;

	(void)context;
	attr->state = (enum ibv_port_state)fake.port_state[port - 1];
	attr->active_mtu = (enum ibv_mtu)fake.mtu;
	attr->gid_tbl_len = FAKE_GIDS;
	attr->active_width = 2;
	attr->active_speed = 128;
	attr->lid = fake.layer == IBV_LINK_LAYER_ETHERNET ? 0 : 17;
	attr->link_layer = fake.layer;
	return fake_call(__func__);
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
		      uint32_t flags, size_t bytes)
{
	(void)context;
	(void)port;
	(void)flags;
	memset(entry, 0, bytes);
	if (index >= FAKE_GIDS)
		return EINVAL;
	memcpy(entry->gid.raw, fake.gid[index], 16);
	entry->gid_type = fake.gid_type[index];
	return fake.gid[index][0] || fake.gid[index][15] ? fake_call(__func__) : ENODATA;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = fake_call(__func__) ? NULL : fake_object(sizeof(*pd));

	if (pd)
		pd->context = context;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return fake_free(pd);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *memory, size_t bytes, int access)
{
	struct ibv_mr *mr = fake_call(__func__) ? NULL : fake_object(sizeof(*mr));

	(void)pd;
	(void)memory;
	(void)bytes;
	if (mr) {
		mr->lkey = 7;
		mr->rkey = access & IBV_ACCESS_RELAXED_ORDERING ? 0 : 8;
	}
	return mr;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova, int fd, int access)
{
	(void)offset;
	(void)iova;
	(void)fd;
	return ibv_reg_mr(pd, NULL, bytes, access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	return fake_free(mr);
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	(void)pd;
	fake.attr.ah_attr = *attr;
	return fake_call(__func__) ? NULL : fake_object(sizeof(struct ibv_ah));
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	return fake_free(ah);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *arg, struct ibv_comp_channel *channel,
			     int vector)
{
	struct ibv_cq *cq = fake_call(__func__) ? NULL : fake_object(sizeof(*cq));

	(void)context;
	(void)arg;
	(void)channel;
	(void)vector;
	if (cq)
		cq->cqe = entries;
	return cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	return fake_free(cq);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp = fake_call(__func__) ? NULL : fake_object(sizeof(*qp));

	(void)pd;
	if (qp) {
		qp->qp_num = 0x55;
		qp->handle = attr->cap.max_send_wr;
	}
	return qp;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int error = fake_call(__func__);

	(void)qp;
	if (error)
		return error;
	if (mask & IBV_QP_PATH_MTU)
		fake.attr.path_mtu = attr->path_mtu;
	if (mask & IBV_QP_DEST_QPN)
		fake.attr.dest_qp_num = attr->dest_qp_num;
	if (mask & IBV_QP_RQ_PSN)
		fake.attr.rq_psn = attr->rq_psn;
	if (mask & IBV_QP_AV)
		fake.attr.ah_attr = attr->ah_attr;
	if (mask & IBV_QP_TIMEOUT)
		fake.attr.timeout = attr->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		fake.attr.retry_cnt = attr->retry_cnt;
	if (mask & IBV_QP_STATE)
		fake.attr.qp_state = attr->qp_state;
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	return fake_free(qp);
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	(void)context;
	if (!fake.has_event) {
		errno = EAGAIN;
		return -1;
	}
	fake.has_event = false;
	fake.live++;
	*event = fake.event;
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
	fake.live--;
}
