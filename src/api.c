/* api.c - the public functions of a communicator's life: argument checks, who may call when, hand over. */
#include "choice.h"
#include "config.h"
#include "device/fault.h"

#include "base/env.h"
#include "base/log.h"
#include "mrw_build.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int marrow_get_version(void)
{
	return MARROW_VERSION;
}

static bool is_handle(const struct marrow_comm *comm, uint32_t life)
{
	return comm && __atomic_load_n(&comm->life, __ATOMIC_SEQ_CST) == life; /* partner: destroy, which then looks who aborts */
}

const char *marrow_last_error(const struct marrow_comm *comm)
{
	static _Thread_local char text[MRW_ERROR_TEXT_BYTES];
	if (!comm) {
		snprintf(text, sizeof text, "%s", mrw_error_text());
	} else if (!is_handle(comm, MRW_LIFE_LIVE) && !is_handle(comm, MRW_LIFE_FINALIZED)) {
		snprintf(text, sizeof text, "not a live communicator");
	} else if (comm->forks != mrw_comm_forks()) { /* whoever held the lock is in another process */
		snprintf(text, sizeof text, "a communicator of the process that this one was forked from");
	} else {
		pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&comm->lock;
		pthread_mutex_lock(lock);
		snprintf(text, sizeof text, "%s", comm->error);
		pthread_mutex_unlock(lock);
	}
	return text;
}

/* A child that was forked has the memory of its parent's communicator, and its sockets: what it did would be done in the parent's name. */
static enum marrow_status check_maker(const struct marrow_comm *comm, const char *call)
{
	if (comm->forks == mrw_comm_forks())
		return MARROW_SUCCESS;
	return mrw_fail(MARROW_INVALID_USAGE, "%s: this process was forked from the one that made the communicator of rank %u, where it goes on; make "
			"another one here", call, comm->rank);
}

enum marrow_status mrw_comm_enter(struct marrow_comm *comm, const char *call)
{
	uint32_t idle = 0;
	if (!comm)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s: the communicator is NULL", call);
	if (is_handle(comm, MRW_LIFE_FINALIZED))
		return mrw_fail(MARROW_INVALID_USAGE, "%s: rank %u has finalized this communicator; only marrow_comm_destroy() is left", call,
				comm->rank);
	if (is_handle(comm, MRW_LIFE_PENDING))
		return mrw_fail(MARROW_INVALID_USAGE, "%s: the communicator is made at marrow_group_end()", call);
	if (!is_handle(comm, MRW_LIFE_LIVE))
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s: not a live communicator (destroyed, or never made)", call);
	MRW_TRY(check_maker(comm, call));
	if (!__atomic_compare_exchange_n(&comm->busy, &idle, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return mrw_fail(MARROW_INVALID_USAGE, "%s: another thread is using the communicator of rank %u; use one thread at a time", call,
				comm->rank);
	mrw_log_set_rank((int32_t)comm->rank);
	return MARROW_SUCCESS;
}

enum marrow_status mrw_comm_leave(struct marrow_comm *comm, enum marrow_status status)
{
	if (status != MARROW_SUCCESS) {
		pthread_mutex_lock(&comm->lock);
		if (comm->async_status == MARROW_SUCCESS)
			snprintf(comm->error, sizeof comm->error, "%s", mrw_error_text());
		pthread_mutex_unlock(&comm->lock);
	}
	__atomic_store_n(&comm->busy, 0, __ATOMIC_RELEASE);
	return status;
}

enum marrow_status marrow_get_unique_id(struct marrow_unique_id *id)
{
	return marrow_get_unique_id_on(id, NULL);
}

enum marrow_status marrow_get_unique_id_on(struct marrow_unique_id *id, const struct marrow_config *user)
{
	struct marrow_config config = MARROW_CONFIG_INIT;
	if (!id)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_get_unique_id: id is NULL");
	MRW_TRY(mrw_config_copy(&config, user));
	mrw_env_check_names();
	return mrw_boot_make_id(id, config.socket_ifname ? config.socket_ifname : mrw_env_string(MRW_ENV_SOCKET_IFNAME));
}

enum marrow_status marrow_drop_unique_id(const struct marrow_unique_id *id)
{
	if (!id)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_drop_unique_id: id is NULL");
	mrw_boot_drop_id(id);
	return MARROW_SUCCESS;
}

enum marrow_status marrow_current_device(int32_t *device)
{
	if (!device)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_current_device: device is NULL");
	*device = -1;
#if MRW_HAVE_CUDA
	if (mrw_cuda_runtime.present())
		*device = mrw_cuda_runtime.current();
#endif
	return MARROW_SUCCESS;
}

enum marrow_status mrw_comm_create(struct marrow_comm **out, uint32_t nranks, const struct marrow_unique_id *id, uint32_t rank,
				   int32_t local_rank, const struct marrow_config *config)
{
	struct marrow_comm *comm = mrw_comm_take();
	enum marrow_status status;
	if (!comm)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "out of memory for a communicator");
	comm->rank = rank;
	comm->nranks = nranks;
	comm->init.user = out;
	if (id)
		comm->init.id = *id;
	comm->init.local_rank = local_rank;
	comm->init.device = -1;
	MRW_TRY_GOTO(mrw_comm_configure(comm, config));
#if MRW_HAVE_CUDA
	if (local_rank < 0 && comm->init.device < 0 && comm->init.target != MARROW_TARGET_HOST && mrw_cuda_runtime.present())
		comm->init.device = mrw_cuda_runtime.current();
#endif
	__atomic_store_n(&comm->life, MRW_LIFE_PENDING, __ATOMIC_RELEASE);
	if (mrw_group_active())
		MRW_TRY_GOTO(mrw_group_add_init(comm));
	else
		MRW_TRY_GOTO(mrw_comm_build(comm));
	*out = comm;
	return MARROW_SUCCESS;
fail:
	mrw_comm_give_back(comm);
	return status;
}

enum marrow_status marrow_comm_init(struct marrow_comm **comm, uint32_t nranks, const struct marrow_unique_id *id, uint32_t rank,
				    const struct marrow_config *config)
{
	enum marrow_status status;
	if (!comm) {
		status = mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_comm_init: comm is NULL");
		mrw_group_failed(status);
		return status;
	}
	*comm = NULL;
	mrw_env_check_names();
	if (nranks == 0)
		status = mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_comm_init: nranks is 0");
	else if (rank >= nranks)
		status = mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_comm_init: rank %u of %u: ranks are 0 to %u", rank, nranks, nranks - 1);
	else if (nranks > MRW_MAX_RANKS)
		status = mrw_fail(MARROW_UNSUPPORTED, "marrow_comm_init: %u ranks: at most %d", nranks, MRW_MAX_RANKS);
	else if (!id && nranks > 1)
		status = mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_comm_init: id is NULL; make it with marrow_get_unique_id() on one rank and send "
				  "it to all");
	else
		status = mrw_comm_create(comm, nranks, id, rank, -1, config);
	if (status != MARROW_SUCCESS)
		mrw_group_failed(status);
	return status;
}

/* Queries are allowed while other calls run. */
static enum marrow_status check_live(const struct marrow_comm *comm, const void *out, const char *call)
{
	if (!is_handle(comm, MRW_LIFE_LIVE) && !is_handle(comm, MRW_LIFE_FINALIZED))
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s: not a live communicator (NULL, destroyed, or made at group end)", call);
	if (!out)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s: the result pointer is NULL", call);
	return MARROW_SUCCESS;
}

enum marrow_status marrow_comm_rank(const struct marrow_comm *comm, uint32_t *rank)
{
	MRW_TRY(check_live(comm, rank, "marrow_comm_rank"));
	*rank = comm->rank;
	return MARROW_SUCCESS;
}

enum marrow_status marrow_comm_count(const struct marrow_comm *comm, uint32_t *nranks)
{
	MRW_TRY(check_live(comm, nranks, "marrow_comm_count"));
	*nranks = comm->nranks;
	return MARROW_SUCCESS;
}

enum marrow_status marrow_comm_device(const struct marrow_comm *comm, int32_t *device)
{
	MRW_TRY(check_live(comm, device, "marrow_comm_device"));
	*device = comm->device.info.ordinal;
	return MARROW_SUCCESS;
}

enum marrow_status marrow_comm_get_properties(const struct marrow_comm *comm, struct marrow_comm_properties *properties)
{
	struct marrow_comm_properties p;
	MRW_TRY(check_live(comm, properties, "marrow_comm_get_properties"));
	if (properties->size == 0 || properties->size > sizeof p)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_comm_get_properties: set properties->size to sizeof(struct marrow_comm_properties)");
	memset(&p, 0, sizeof p);
	p.size = properties->size;
	p.target = comm->device.runtime->target;
	p.rank = comm->rank;
	p.nranks = comm->nranks;
	p.ranks_on_host = comm->nranks > 1 ? comm->near_count : 1;
	p.hosts = comm->nranks > 1 ? comm->hosts : 1;
	if (comm->network) {
		p.queue_pairs = mrw_network_queues(comm->network);
		p.queue_pair_limit = mrw_network_queue_limit(comm->network);
		snprintf(p.nic, sizeof p.nic, "%s", mrw_network_nic_name(comm->network));
		p.rails = comm->reach.rails;
	}
	p.device = comm->device.info.ordinal;
	p.channel_cap = comm->channel_cap;
	p.arena_bytes = comm->arena.mapped;
	p.chunk_bytes = comm->args.layout.chunk_bytes;
	p.oneshot_max_bytes = comm->args.layout.ring || comm->args.layout.tree ? 0 : mrw_oneshot_max_bytes(&comm->args.layout, comm->channel_cap);
	p.timeout_ms = comm->args.deadline_ns / 1000000;
	mrw_machine_name(&comm->device, p.machine, sizeof p.machine);
	memcpy(properties, &p, p.size);
	return MARROW_SUCCESS;
}

enum marrow_status marrow_comm_explain(const struct marrow_comm *comm, const char *function, size_t count, enum marrow_type type,
				       struct marrow_choice *choice)
{
	struct marrow_choice c;
	uint32_t func = 0, elem = mrw_type_bytes((uint32_t)type);
	MRW_TRY(check_live(comm, choice, "marrow_comm_explain"));
	if (choice->size == 0 || choice->size > sizeof c)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_comm_explain: set choice->size to sizeof(struct marrow_choice)");
	while (func < MRW_FUNC_COUNT && (!function || strcmp(function, mrw_func_name(func)) != 0))
		func++;
	if (func == MRW_FUNC_COUNT)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_comm_explain: \"%s\": use all_reduce, broadcast, all_gather, reduce_scatter, barrier, "
				"reduce or reduce_scatter_v; what is made of transfers has no algorithms", function ? function : "");
	if (elem == 0 || count > INT64_MAX / elem)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_comm_explain: %zu elements of type %d: use enum marrow_type, and fewer bytes than 2^63",
				count, (int)type);
	uint64_t bytes = func == MRW_FUNC_BARRIER ? 0 : (uint64_t)count * elem;
	struct mrw_plan plan = mrw_comm_choose(comm, (enum mrw_func)func, bytes);
	memset(&c, 0, sizeof c);
	c.size = choice->size;
	c.algo = mrw_algo_name(plan.algo);
	c.reason = plan.reason;
	c.channels = plan.channels;
	c.chunk_bytes = plan.chunk_bytes;
	c.predicted_ns = mrw_choice_predict(comm, (enum mrw_func)func, bytes, plan.algo);
	memcpy(choice, &c, c.size);
	return MARROW_SUCCESS;
}

/* How long destroy waits for operations in flight once the communicator has failed. */
enum { MRW_DRAIN_MS = 5000 };
/* And for requests on their way to other hosts: what peers still wait for; after a failure the words that tell them. */
enum { MRW_NIC_DRAIN_MS = 5000, MRW_NIC_FAREWELL_MS = 300 };

struct drain {
	struct marrow_comm *comm;
	struct timespec since;
};

static bool drain_poll(void *p)
{
	struct drain *d = p;
	struct timespec now;
	if (mrw_comm_look(d->comm, true) == MARROW_SUCCESS)
		return true;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (d->since.tv_sec == 0)
		d->since = now;
	return (now.tv_sec - d->since.tv_sec) * 1000 + (now.tv_nsec - d->since.tv_nsec) / 1000000 < MRW_DRAIN_MS;
}

enum marrow_status mrw_comm_drain(struct marrow_comm *comm)
{
	struct drain d = {comm, {0, 0}};
	return comm->device.runtime->finish(&comm->device, drain_poll, &d);
}

/* What peers wait for may still be on its way. A queue pair that fails now is this rank's failure: they will not get it. */
static enum marrow_status send_rest(struct marrow_comm *comm)
{
	char text[MRW_ERROR_TEXT_BYTES];
	bool well = __atomic_load_n(&comm->async_status, __ATOMIC_ACQUIRE) == MARROW_SUCCESS;
	enum marrow_status status = mrw_network_drain(comm->network, well ? MRW_NIC_DRAIN_MS : MRW_NIC_FAREWELL_MS, well ? NULL : comm->boot, text,
						      sizeof text);
	if (!well || status == MARROW_SUCCESS)
		return MARROW_SUCCESS;
	if (status == MARROW_TIMEOUT) {
		mrw_log(MRW_LOG_WARN, "%s", text);
		return MARROW_SUCCESS;
	}
	mrw_comm_fail(comm, status, text);
	return mrw_fail(status, "%s", text);
}

static enum marrow_status finalize(struct marrow_comm *comm)
{
	enum marrow_status status = mrw_comm_drain(comm);
	if (status != MARROW_SUCCESS)
		return status;
	if (comm->network)
		status = send_rest(comm);
	/* A rank that only heard of a fault says so, too: its hanging up must not look like a death. */
	if (comm->boot && __atomic_load_n(&comm->async_status, __ATOMIC_ACQUIRE) == MARROW_SUCCESS)
		mrw_boot_tell(comm->boot, MRW_NOTICE_BYE, "");
	else if (comm->boot && !__atomic_load_n(&comm->aborted, __ATOMIC_RELAXED))
		mrw_boot_tell(comm->boot, MRW_NOTICE_FAULT, comm->error);
	__atomic_store_n(&comm->life, MRW_LIFE_FINALIZED, __ATOMIC_RELEASE);
	return status;
}

/* Calls queued in this thread's group would find nothing at its end. */
static enum marrow_status check_no_queue(const struct marrow_comm *comm, const char *call)
{
	if (mrw_group_holds(comm))
		return mrw_fail(MARROW_INVALID_USAGE, "%s: this thread's group still holds calls of the communicator; end the group first", call);
	return MARROW_SUCCESS;
}

enum marrow_status marrow_comm_finalize(struct marrow_comm *comm)
{
	MRW_TRY(check_no_queue(comm, "marrow_comm_finalize"));
	MRW_TRY(mrw_comm_enter(comm, "marrow_comm_finalize"));
	return mrw_comm_leave(comm, finalize(comm));
}

enum marrow_status marrow_comm_destroy(struct marrow_comm *comm)
{
	uint32_t idle = 0;
	if (!comm)
		return MARROW_SUCCESS;
	if (!is_handle(comm, MRW_LIFE_LIVE) && !is_handle(comm, MRW_LIFE_FINALIZED))
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_comm_destroy: not a live communicator (destroyed twice?)");
	MRW_TRY(check_maker(comm, "marrow_comm_destroy"));
	MRW_TRY(check_no_queue(comm, "marrow_comm_destroy"));
	if (!__atomic_compare_exchange_n(&comm->busy, &idle, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return mrw_fail(MARROW_INVALID_USAGE, "marrow_comm_destroy: another thread is using the communicator of rank %u; abort first, let "
				"its call return, then destroy", comm->rank);
	while (__atomic_load_n(&comm->aborting, __ATOMIC_SEQ_CST) > 0)
		sched_yield();
	enum marrow_status status = MARROW_SUCCESS;
	mrw_comm_sweep(comm->device.info.ordinal);
	if (is_handle(comm, MRW_LIFE_LIVE))
		status = finalize(comm);
	/* Who aborts meanwhile is waited for; who comes now finds no communicator. The handle is nobody else's before it is given back. */
	__atomic_store_n(&comm->life, MRW_LIFE_FREE, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&comm->aborting, __ATOMIC_SEQ_CST) > 0)
		sched_yield();
	if (status == MARROW_TIMEOUT) {
		mrw_log(MRW_LOG_WARN, "operations did not leave within %d ms: the communicator's memory is kept until they have", MRW_DRAIN_MS);
		mrw_comm_defer(comm);
		return MARROW_SUCCESS;
	}
	mrw_comm_dismantle(comm);
	mrw_comm_give_back(comm);
	return status;
}

static void abort_all(struct marrow_comm *comm)
{
	if (comm->page)
		__atomic_store_n(&comm->page->abort, mrw_cause(MRW_FAULT_ABORT, comm->rank, comm->rank, 0), __ATOMIC_RELEASE);
	if (comm->boot && comm->device.runtime->target == MARROW_TARGET_HOST)
		mrw_poison_all(&comm->args, mrw_cause(MRW_FAULT_ABORT, comm->rank, comm->rank, 0));
	pthread_mutex_lock(&comm->lock);
	if (!comm->aborted && comm->boot)
		mrw_boot_tell(comm->boot, MRW_NOTICE_ABORT, "aborted the communicator");
	__atomic_store_n(&comm->aborted, true, __ATOMIC_RELAXED);
	__atomic_store_n(&comm->hurt, true, __ATOMIC_RELEASE);
	if (comm->async_status == MARROW_SUCCESS) {
		snprintf(comm->error, sizeof comm->error, "rank %u aborted the communicator", comm->rank);
		__atomic_store_n(&comm->async_status, MARROW_ABORTED, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&comm->lock);
}

/* The mark comes first: either destroy sees it, or this sees that the handle is none any more. */
enum marrow_status marrow_comm_abort(struct marrow_comm *comm)
{
	enum marrow_status status = MARROW_SUCCESS;
	if (!comm)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_comm_abort: comm is NULL");
	__atomic_fetch_add(&comm->aborting, 1, __ATOMIC_SEQ_CST);
	if (is_handle(comm, MRW_LIFE_LIVE) || is_handle(comm, MRW_LIFE_FINALIZED)) {
		status = check_maker(comm, "marrow_comm_abort");
		if (status == MARROW_SUCCESS)
			abort_all(comm);
	} else {
		status = mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_comm_abort: not a live communicator");
	}
	__atomic_fetch_sub(&comm->aborting, 1, __ATOMIC_SEQ_CST);
	return status;
}

enum marrow_status marrow_comm_async_error(struct marrow_comm *comm, enum marrow_status *error)
{
	MRW_TRY(check_live(comm, error, "marrow_comm_async_error"));
	MRW_TRY(check_maker(comm, "marrow_comm_async_error"));
	bool over = is_handle(comm, MRW_LIFE_FINALIZED);
	*error = mrw_comm_look(comm, !over);
	/* Nothing waits any more: if no kernel left a record, all that this rank called went well. */
	bool record = comm->page && __atomic_load_n(&comm->page->fault.state, __ATOMIC_ACQUIRE) != 0;
	if (over && *error != MARROW_SUCCESS && !record && !__atomic_load_n(&comm->hurt, __ATOMIC_ACQUIRE))
		*error = MARROW_SUCCESS;
	return MARROW_SUCCESS;
}
