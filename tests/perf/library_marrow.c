#include "library.h"

#include <stdio.h>
#include <string.h>

static struct marrow_config config = MARROW_CONFIG_INIT;

static bool good(enum marrow_status status, const char *call, const struct marrow_comm *comm)
{
	if (status == MARROW_SUCCESS)
		return true;
	fprintf(stderr, "%s: %s: %s\n", call, marrow_status_string(status), marrow_last_error(comm));
	return false;
}

static bool make_id(unsigned char *id)
{
	struct marrow_unique_id unique;
	if (!good(marrow_get_unique_id(&unique), "marrow_get_unique_id", NULL))
		return false;
	memcpy(id, unique.bytes, LIBRARY_ID_BYTES);
	return true;
}

static bool init_rank(const struct perf_library *self, void **comm, uint32_t nranks, const unsigned char *id, uint32_t rank)
{
	struct marrow_comm **made = (struct marrow_comm **)comm;
	struct marrow_unique_id unique;
	struct marrow_config own = config;

	own.algo = self->algo;
	if (!id)
		return good(marrow_comm_init_env(made, &own), "marrow_comm_init_env", NULL);
	memcpy(unique.bytes, id, LIBRARY_ID_BYTES);
	return good(marrow_comm_init(made, nranks, &unique, rank, &own), "marrow_comm_init", NULL);
}

static bool group_start(void)
{
	return good(marrow_group_start(), "marrow_group_start", NULL);
}

static bool group_end(void)
{
	return good(marrow_group_end(), "marrow_group_end", NULL);
}

static bool sendrecv(const struct perf_call *c)
{
	bool posted;

	if (!group_start())
		return false;
	posted = good(marrow_send(c->send, c->count, c->type, (c->rank + 1) % c->nranks, c->comm, c->stream), "marrow_send", c->comm) &&
		 good(marrow_recv(c->recv, c->count, c->type, (c->rank + c->nranks - 1) % c->nranks, c->comm, c->stream), "marrow_recv",
		      c->comm);
	return group_end() && posted;
}

static bool call(const struct perf_call *c)
{
	enum marrow_op op = (enum marrow_op)c->op;

	switch (c->kind) {
	case PERF_ALL_REDUCE:
		return good(marrow_all_reduce(c->send, c->recv, c->count, c->type, op, c->comm, c->stream),
			    "marrow_all_reduce", c->comm);
	case PERF_ALL_GATHER:
		return good(marrow_all_gather(c->send, c->recv, c->count, c->type, c->comm, c->stream), "marrow_all_gather",
			    c->comm);
	case PERF_BROADCAST:
		return good(marrow_broadcast(c->send, c->recv, c->count, c->type, c->root, c->comm, c->stream),
			    "marrow_broadcast", c->comm);
	case PERF_REDUCE_SCATTER:
		return good(marrow_reduce_scatter(c->send, c->recv, c->count, c->type, op, c->comm, c->stream),
			    "marrow_reduce_scatter", c->comm);
	case PERF_REDUCE:
		return good(marrow_reduce(c->send, c->recv, c->count, c->type, op, c->root, c->comm, c->stream), "marrow_reduce",
			    c->comm);
	case PERF_ALL_TO_ALL:
		return good(marrow_all_to_all(c->send, c->recv, c->count, c->type, c->comm, c->stream), "marrow_all_to_all", c->comm);
	case PERF_GATHER:
		return good(marrow_gather(c->send, c->recv, c->count, c->type, c->root, c->comm, c->stream), "marrow_gather", c->comm);
	case PERF_SCATTER:
		return good(marrow_scatter(c->send, c->recv, c->count, c->type, c->root, c->comm, c->stream), "marrow_scatter", c->comm);
	case PERF_SENDRECV:
		return sendrecv(c);
	}
	return false;
}

static bool make_premulsum(int *op, void *scalar, enum marrow_type type, void *comm)
{
	enum marrow_op made;
	bool made_it = good(marrow_op_create_premulsum(&made, scalar, type, MARROW_SCALAR_HOST, comm),
			    "marrow_op_create_premulsum", comm);
	if (made_it)
		*op = (int)made;
	return made_it;
}

static void drop_op(int op, void *comm)
{
	good(marrow_op_destroy((enum marrow_op)op, comm), "marrow_op_destroy", comm);
}

static uint32_t ranks_a_host(void *comm)
{
	struct marrow_comm_properties p = {.size = sizeof p};
	return good(marrow_comm_get_properties(comm, &p), "marrow_comm_get_properties", comm) && p.rails ? p.ranks_on_host : 0;
}

/* What is chosen for the call. */
static bool explain(void *comm, enum perf_kind kind, size_t count, enum marrow_type type, struct marrow_choice *choice)
{
	static const char *const functions[] = {[PERF_ALL_REDUCE] = "all_reduce", [PERF_ALL_GATHER] = "all_gather", [PERF_BROADCAST] = "broadcast",
						[PERF_REDUCE_SCATTER] = "reduce_scatter", [PERF_REDUCE] = "reduce"};
	*choice = (struct marrow_choice){.size = sizeof *choice};
	return kind < sizeof functions / sizeof *functions && functions[kind] &&
	       good(marrow_comm_explain(comm, functions[kind], count, type, choice), "marrow_comm_explain", comm);
}

static bool carries(const struct perf_library *self, void *comm, enum perf_kind kind, size_t count, enum marrow_type type)
{
	struct marrow_choice choice;
	return explain(comm, kind, count, type, &choice) && strcmp(choice.algo, self->algo) == 0;
}

static bool other_order(void *comm, enum perf_kind kind, size_t count, enum marrow_type type)
{
	struct marrow_choice choice;
	return explain(comm, kind, count, type, &choice) && (strcmp(choice.algo, "ring") == 0 || strncmp(choice.algo, "tree", 4) == 0);
}

static bool enroll(void *comm, void *memory, size_t bytes, bool symmetric, void **handle)
{
	struct marrow_window *window = NULL;
	(void)symmetric;
	if (!good(marrow_window_register(comm, memory, bytes, &window), "marrow_window_register", comm))
		return false;
	*handle = window;
	return true;
}

static void withdraw(void *comm, bool symmetric, void *handle)
{
	(void)symmetric;
	good(marrow_window_deregister(comm, handle), "marrow_window_deregister", comm);
}

static bool healthy(void *comm)
{
	enum marrow_status error = MARROW_SUCCESS;
	return good(marrow_comm_async_error(comm, &error), "marrow_comm_async_error", comm) &&
	       good(error, "asynchronous error", comm);
}

static void destroy(void *comm)
{
	good(marrow_comm_destroy(comm), "marrow_comm_destroy", NULL);
}

static void abort_comm(void *comm)
{
	good(marrow_comm_abort(comm), "marrow_comm_abort", comm);
	destroy(comm);
}

void library_open_marrow(struct perf_library *library, enum marrow_target target, uint32_t timeout_s, const char *algo)
{
	config.target = target;
	config.timeout_ms = (uint64_t)timeout_s * 1000;
	*library = (struct perf_library){ .name = "marrow", .algo = algo, .make_id = make_id, .init_rank = init_rank, .group_start = group_start,
					  .group_end = group_end, .call = call, .make_premulsum = make_premulsum, .drop_op = drop_op,
					  .ranks_a_host = ranks_a_host, .other_order = other_order, .carries = algo ? carries : NULL, .enroll = enroll, .withdraw = withdraw,
					  .healthy = healthy, .abort = abort_comm, .destroy = destroy };
	if (algo)
		snprintf(library->name, sizeof library->name, "%s", algo);
}
