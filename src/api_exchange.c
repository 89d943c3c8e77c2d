/* api_exchange.c - the public functions that are made of transfers. */
#include "comm.h"

/* The one way of them all. */
static enum marrow_status exchange(const char *name, const struct mrw_exchange *x, struct marrow_comm *comm)
{
	struct mrw_task task;
	enum marrow_status status = mrw_comm_enter(comm, name);
	if (status == MARROW_SUCCESS) {
		status = mrw_plan_exchange(comm, x, &task);
		if (status == MARROW_SUCCESS && mrw_group_active()) {
			status = mrw_group_add(&task);
			if (status != MARROW_SUCCESS)
				mrw_task_drop(&task);
		} else if (status == MARROW_SUCCESS) {
			status = mrw_issue(&task);
			mrw_task_drop(&task);
		}
		mrw_comm_leave(comm, status);
	}
	if (status != MARROW_SUCCESS)
		mrw_group_failed(status);
	return status;
}

enum marrow_status marrow_send(const void *send, size_t count, enum marrow_type type, uint32_t peer, struct marrow_comm *comm, void *stream)
{
	const struct mrw_exchange x = {.func = MRW_FUNC_SEND, .send = send, .count = count, .type = type, .root = peer, .stream = stream};
	return exchange("marrow_send", &x, comm);
}

enum marrow_status marrow_recv(void *recv, size_t count, enum marrow_type type, uint32_t peer, struct marrow_comm *comm, void *stream)
{
	const struct mrw_exchange x = {.func = MRW_FUNC_RECV, .recv = recv, .count = count, .type = type, .root = peer, .stream = stream};
	return exchange("marrow_recv", &x, comm);
}

enum marrow_status marrow_all_to_all(const void *send, void *recv, size_t count, enum marrow_type type, struct marrow_comm *comm, void *stream)
{
	const struct mrw_exchange x = {.func = MRW_FUNC_ALL_TO_ALL, .send = send, .recv = recv, .count = count, .type = type, .stream = stream};
	return exchange("marrow_all_to_all", &x, comm);
}

enum marrow_status marrow_all_to_all_v(const void *send, const size_t *send_counts, const size_t *send_displs, void *recv,
				       const size_t *recv_counts, const size_t *recv_displs, enum marrow_type type, struct marrow_comm *comm,
				       void *stream)
{
	const struct mrw_exchange x = {.func = MRW_FUNC_ALL_TO_ALL_V, .send = send, .recv = recv, .send_counts = send_counts,
				       .send_displs = send_displs, .recv_counts = recv_counts, .recv_displs = recv_displs, .type = type,
				       .stream = stream};
	return exchange("marrow_all_to_all_v", &x, comm);
}

enum marrow_status marrow_gather(const void *send, void *recv, size_t count, enum marrow_type type, uint32_t root, struct marrow_comm *comm,
				 void *stream)
{
	const struct mrw_exchange x = {.func = MRW_FUNC_GATHER, .send = send, .recv = recv, .count = count, .type = type, .root = root,
				       .stream = stream};
	return exchange("marrow_gather", &x, comm);
}

enum marrow_status marrow_scatter(const void *send, void *recv, size_t count, enum marrow_type type, uint32_t root, struct marrow_comm *comm,
				  void *stream)
{
	const struct mrw_exchange x = {.func = MRW_FUNC_SCATTER, .send = send, .recv = recv, .count = count, .type = type, .root = root,
				       .stream = stream};
	return exchange("marrow_scatter", &x, comm);
}

enum marrow_status marrow_all_gather_v(const void *send, void *recv, const size_t *counts, const size_t *displs, enum marrow_type type,
				       struct marrow_comm *comm, void *stream)
{
	const struct mrw_exchange x = {.func = MRW_FUNC_ALL_GATHER_V, .send = send, .recv = recv, .recv_counts = counts, .recv_displs = displs,
				       .type = type, .stream = stream};
	return exchange("marrow_all_gather_v", &x, comm);
}
