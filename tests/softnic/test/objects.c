/* The control plane: what is asked is answered, what is wrong is refused, and nothing is left of a device that was closed. */
#include "../prm.h"
#include "rig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 65536 };

static void questions(struct rig_port *port, struct rig_queue *q)
{
	uint8_t in[PRM_CREATE_QP_BYTES] = {0}, out[PRM_QUERY_QP_ANSWER_BYTES] = {0};
	struct ibv_device_attr attr;
	struct ibv_port_attr port_attr;
	struct ibv_gid_entry entry;
	union ibv_gid gid;

	RIG_CHECK(!ibv_query_device(port->context, &attr) && attr.atomic_cap == IBV_ATOMIC_HCA && attr.max_qp_wr >= 16384);
	RIG_CHECK(!ibv_query_port(port->context, 1, &port_attr) && port_attr.state == IBV_PORT_ACTIVE && port_attr.active_mtu == IBV_MTU_4096);
	RIG_CHECK(!ibv_query_gid(port->context, 1, 1, &gid) && gid.raw[0] == 0xfe);
	RIG_CHECK(!ibv_query_gid_ex(port->context, 1, 3, &entry, 0) && entry.gid_type == IBV_GID_TYPE_ROCE_V2);
	RIG_CHECK(!memcmp(entry.gid.raw, port->gid.raw, 16));

	prm_set(in, PRM_OPCODE, PRM_OP_QUERY_QP);
	prm_set(in, PRM_NUMBER, q->qpn);
	RIG_CHECK(!mlx5dv_devx_obj_query(q->qp_object, in, PRM_SHORT_BYTES, out, sizeof(out)));
	RIG_CHECK(prm_get(out + PRM_QP_CONTEXT, PRM_QP_STATE) == 3);

	memset(in, 0, sizeof(in));
	prm_set(in, PRM_OPCODE, PRM_OP_QUERY_ROCE_ADDRESS);
	prm_set(in, PRM_ROCE_INDEX, 3);
	RIG_CHECK(!mlx5dv_devx_general_cmd(port->context, in, PRM_SHORT_BYTES, out, sizeof(out)));
	RIG_CHECK(!memcmp(out + PRM_ROCE_GID, port->gid.raw, 16) && prm_get(out, PRM_ROCE_VERSION) == 2);
}

static void refusals(struct rig_port *port)
{
	uint8_t in[PRM_CREATE_QP_BYTES] = {0}, out[PRM_SHORT_BYTES] = {0};
	struct rig_queue q;

	prm_set(in, PRM_OPCODE, PRM_OP_CREATE_QP);
	RIG_CHECK(!mlx5dv_devx_obj_create(port->context, in, sizeof(in), out, sizeof(out)) && errno == EREMOTEIO);
	RIG_CHECK(prm_get(out, PRM_STATUS) == PRM_STATUS_BAD_RESOURCE);
	/* From RESET there is no way to RTS. */
	rig_make(&q, port, RIG_DEVX, 64);
	memset(in, 0, sizeof(in));
	prm_set(in, PRM_OPCODE, PRM_OP_RTR2RTS_QP);
	prm_set(in, PRM_NUMBER, q.qpn);
	RIG_CHECK(mlx5dv_devx_obj_modify(q.qp_object, in, sizeof(in), out, sizeof(out)) != 0);
	RIG_CHECK(prm_get(out, PRM_STATUS) == PRM_STATUS_BAD_QP_STATE);
	/* In use. */
	RIG_CHECK(mlx5dv_devx_obj_destroy(q.cq_object) != 0);
	rig_destroy(&q);
}

static void regions(struct rig_port *port, struct rig_queue *q)
{
	uint8_t *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t value = 42, iova = 0x10000;
	struct ibv_mr *mr, *old;
	int fd = memfd_create("buffer", 0);

	RIG_CHECK(memory != MAP_FAILED && fd >= 0);
	/* Is it supported? So asks one who has no buffer yet. */
	RIG_CHECK(!ibv_reg_dmabuf_mr(port->pd, 0, BYTES, 0, -1, IBV_ACCESS_LOCAL_WRITE) && errno == EBADF);
	mr = ibv_reg_dmabuf_mr(port->pd, 0, BYTES, (uintptr_t)memory, fd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	RIG_CHECK(mr);
	rig_write_inline(q, memory + 8, mr->rkey, &value, 8, true);
	rig_ring(q);
	RIG_CHECK(rig_wait(q, 5) == 0 && memory[8] == 42);
	RIG_CHECK(!ibv_dereg_mr(mr));
	/* Addresses of the region's own choice. */
	mr = ibv_reg_mr_iova(port->pd, memory, BYTES, iova, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	RIG_CHECK(mr);
	rig_write_inline(q, (void *)(uintptr_t)(iova + 16), mr->rkey, &value, 8, true);
	rig_ring(q);
	RIG_CHECK(rig_wait(q, 5) == 0 && memory[16] == 42);
	/* A key is not soon another's. */
	old = mr;
	RIG_CHECK(!ibv_dereg_mr(old));
	mr = ibv_reg_mr(port->pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
	RIG_CHECK(mr && !ibv_dereg_mr(mr));
	RIG_CHECK(!ibv_reg_mr(port->pd, memory, BYTES, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL);
	close(fd);
	munmap(memory, BYTES);
}

/* A child that was forked while the device was open can open one of its own; the parent's goes on. */
static void forks(struct rig_queue *q)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		struct rig_port own;

		rig_open(&own, 0);
		rig_close(&own);
		_exit(0);
	}
	RIG_CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	rig_control(q, 0x00, 0, 1, true);
	rig_ring(q);
	RIG_CHECK(rig_wait(q, 5) == 0);
}

int main(void)
{
	struct rig_port a, b, left;
	struct rig_queue q, p, forgotten;

	rig_open(&a, 0);
	rig_open(&b, 1);
	rig_make(&q, &a, RIG_DEVX, 64);
	rig_make(&p, &b, RIG_DEVX, 64);
	rig_connect_pair(&q, &p);
	questions(&a, &q);
	refusals(&a);
	regions(&b, &q);
	forks(&q);
	/* Closed with a queue on it, under way. */
	rig_open(&left, 1);
	rig_make(&forgotten, &left, RIG_DEVX, 64);
	rig_connect(&forgotten, p.qpn, &b.gid);
	rig_control(&forgotten, 0x00, 0, 1, true);
	rig_ring(&forgotten);
	ibv_close_device(left.context);
	rig_control(&q, 0x00, 0, 1, true);
	rig_ring(&q);
	RIG_CHECK(rig_wait(&q, 5) == 0);
	rig_destroy(&q);
	rig_destroy(&p);
	rig_close(&a);
	rig_close(&b);
	puts("objects: ok");
	return 0;
}
