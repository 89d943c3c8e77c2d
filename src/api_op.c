/* api_op.c - premulsum operations. */
#include "comm.h"

#include "base/error.h"

#include <string.h>

#define OP_USES (1u << 24) /* of handles that operations tell apart */

static int64_t op_base(const struct marrow_comm *comm)
{
	return MARROW_OP_DYNAMIC + (int64_t)(comm->generation % OP_USES) * MRW_MAX_DYNAMIC_OPS;
}

int32_t mrw_op_index(const struct marrow_comm *comm, enum marrow_op op)
{
	int64_t index = (int64_t)op - op_base(comm);
	return index >= 0 && index < MRW_MAX_DYNAMIC_OPS && comm->ops[index].used ? (int32_t)index : -1;
}

static enum marrow_status create_premulsum(enum marrow_op *op, const void *scalar, enum marrow_type type,
					   enum marrow_scalar_residence residence, struct marrow_comm *comm)
{
	uint32_t bytes = mrw_type_bytes((uint32_t)type);
	if (!op || !scalar)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_op_create_premulsum: %s is NULL", op ? "scalar" : "op");
	if (bytes == 0)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_op_create_premulsum: %d is no element type", (int)type);
	if (residence != MARROW_SCALAR_HOST && residence != MARROW_SCALAR_DEVICE)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_op_create_premulsum: %d is no residence", (int)residence);
	const char *fault = residence == MARROW_SCALAR_DEVICE ? comm->device.runtime->buffer_fault(&comm->device, scalar) : NULL;
	if (fault)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_op_create_premulsum: the scalar of rank %u (device %d) %s", comm->rank,
				comm->device.info.ordinal, fault);
	for (uint32_t i = 0; i < MRW_MAX_DYNAMIC_OPS; i++) {
		struct mrw_dynamic_op *d = &comm->ops[i];
		if (d->used)
			continue;
		memset(d, 0, sizeof *d);
		d->used = true;
		d->type = type;
		d->residence = residence;
		if (residence == MARROW_SCALAR_HOST)
			memcpy(&d->scalar, scalar, bytes);
		else
			d->memory = scalar;
		*op = (enum marrow_op)(op_base(comm) + (int64_t)i);
		return MARROW_SUCCESS;
	}
	return mrw_fail(MARROW_INVALID_USAGE, "marrow_op_create_premulsum: rank %u holds %d operations already; destroy some", comm->rank,
			MRW_MAX_DYNAMIC_OPS);
}

enum marrow_status marrow_op_create_premulsum(enum marrow_op *op, const void *scalar, enum marrow_type type,
					      enum marrow_scalar_residence residence, struct marrow_comm *comm)
{
	MRW_TRY(mrw_comm_enter(comm, "marrow_op_create_premulsum"));
	return mrw_comm_leave(comm, create_premulsum(op, scalar, type, residence, comm));
}

enum marrow_status marrow_op_destroy(enum marrow_op op, struct marrow_comm *comm)
{
	MRW_TRY(mrw_comm_enter(comm, "marrow_op_destroy"));
	enum marrow_status status = MARROW_SUCCESS;
	int32_t index = mrw_op_index(comm, op);
	if (index < 0)
		status = mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_op_destroy: %d is no premulsum operation of this communicator", (int)op);
	else
		comm->ops[index].used = false;
	return mrw_comm_leave(comm, status);
}
