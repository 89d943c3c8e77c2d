/* api_collective.c - the public collectives that have algorithms. */
#include "comm.h"

/* What was planned goes into the group, or to the device. */
static enum marrow_status issue_planned(struct marrow_comm *comm, enum marrow_status planned, struct mrw_task *task)
{
	if (planned == MARROW_SUCCESS)
		planned = mrw_group_active() ? mrw_group_add(task) : mrw_issue(task);
	return mrw_comm_leave(comm, planned);
}

/* The one way of every collective. */
static enum marrow_status collective(const char *name, enum mrw_func func, const void *send, void *recv, size_t count,
				     enum marrow_type type, enum marrow_op op, uint32_t root, struct marrow_comm *comm, void *stream)
{
	struct mrw_task task;
	enum marrow_status status = mrw_comm_enter(comm, name);
	if (status == MARROW_SUCCESS)
		status = issue_planned(comm, mrw_plan_call(comm, func, send, recv, count, type, op, root, stream, &task), &task);
	if (status != MARROW_SUCCESS)
		mrw_group_failed(status);
	return status;
}

enum marrow_status marrow_all_reduce(const void *send, void *recv, size_t count, enum marrow_type type, enum marrow_op op,
				     struct marrow_comm *comm, void *stream)
{
	return collective("marrow_all_reduce", MRW_FUNC_ALL_REDUCE, send, recv, count, type, op, 0, comm, stream);
}

enum marrow_status marrow_broadcast(const void *send, void *recv, size_t count, enum marrow_type type, uint32_t root,
				    struct marrow_comm *comm, void *stream)
{
	return collective("marrow_broadcast", MRW_FUNC_BROADCAST, send, recv, count, type, MARROW_SUM, root, comm, stream);
}

enum marrow_status marrow_all_gather(const void *send, void *recv, size_t count, enum marrow_type type, struct marrow_comm *comm,
				     void *stream)
{
	return collective("marrow_all_gather", MRW_FUNC_ALL_GATHER, send, recv, count, type, MARROW_SUM, 0, comm, stream);
}

enum marrow_status marrow_reduce_scatter(const void *send, void *recv, size_t count, enum marrow_type type, enum marrow_op op,
					 struct marrow_comm *comm, void *stream)
{
	return collective("marrow_reduce_scatter", MRW_FUNC_REDUCE_SCATTER, send, recv, count, type, op, 0, comm, stream);
}

enum marrow_status marrow_reduce(const void *send, void *recv, size_t count, enum marrow_type type, enum marrow_op op, uint32_t root,
				 struct marrow_comm *comm, void *stream)
{
	return collective("marrow_reduce", MRW_FUNC_REDUCE, send, recv, count, type, op, root, comm, stream);
}

enum marrow_status marrow_reduce_scatter_v(const void *send, void *recv, const size_t *counts, enum marrow_type type, enum marrow_op op,
					   struct marrow_comm *comm, void *stream)
{
	struct mrw_task task;
	enum marrow_status status = mrw_comm_enter(comm, "marrow_reduce_scatter_v");
	if (status == MARROW_SUCCESS)
		status = issue_planned(comm, mrw_plan_call_v(comm, send, recv, counts, type, op, stream, &task), &task);
	if (status != MARROW_SUCCESS)
		mrw_group_failed(status);
	return status;
}

enum marrow_status marrow_barrier(struct marrow_comm *comm, void *stream)
{
	return collective("marrow_barrier", MRW_FUNC_BARRIER, NULL, NULL, 0, MARROW_UINT8, MARROW_SUM, 0, comm, stream);
}
