/* shrink.c - marrow_comm_shrink(): a communicator of those who are left. */
#include "comm.h"

#include "base/log.h"

#include <stdio.h>
#include <time.h>

enum { CALL_LEAVES_MS = 5000 };

static enum marrow_status check_list(const struct marrow_comm *comm, const uint32_t *exclude, uint32_t nexclude, uint64_t *without)
{
	*without = 0;
	if (nexclude > 0 && !exclude)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_comm_shrink: exclude is NULL, nexclude is %u", nexclude);
	for (uint32_t i = 0; i < nexclude; i++) {
		if (exclude[i] >= comm->nranks)
			return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_comm_shrink: rank %u is left out, but the communicator has ranks 0 to %u",
					exclude[i], comm->nranks - 1);
		if (i > 0 && exclude[i] <= exclude[i - 1])
			return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_comm_shrink: rank %u comes behind rank %u: list the ranks to leave out ascending, "
					"each once", exclude[i], exclude[i - 1]);
		if (exclude[i] == comm->rank)
			return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_comm_shrink: rank %u leaves out itself: the ranks that are left out do not call",
					comm->rank);
		*without |= 1ull << exclude[i];
	}
	return MARROW_SUCCESS;
}

/* After an abort a call of another thread leaves soon. */
static void await_idle(const struct marrow_comm *comm)
{
	const struct timespec nap = {0, 1000000};
	for (int ms = 0; ms < CALL_LEAVES_MS && __atomic_load_n(&comm->busy, __ATOMIC_RELAXED); ms++)
		nanosleep(&nap, NULL);
}

static enum marrow_status check_alive(struct marrow_comm *comm, uint64_t without)
{
	for (uint32_t r = 0; r < comm->nranks && comm->boot; r++)
		if (r != comm->rank && !(without >> r & 1) && mrw_boot_is_gone(comm->boot, r))
			return mrw_fail(MARROW_REMOTE_ERROR, "marrow_comm_shrink: %s is gone and not left out: leave it out, too, on all ranks",
					mrw_boot_name(comm->boot, r));
	return MARROW_SUCCESS;
}

/* Its operations are over, as far as can be waited for. */
static enum marrow_status settle(struct marrow_comm *comm, uint32_t flags)
{
	if (flags == MARROW_SHRINK_DEFAULT)
		MRW_TRY(mrw_comm_look(comm, true));
	enum marrow_status status = mrw_comm_drain(comm);
	if (flags == MARROW_SHRINK_DEFAULT)
		return status == MARROW_TIMEOUT ? mrw_comm_look(comm, false) : status;
	if (status != MARROW_SUCCESS)
		mrw_log(MRW_LOG_WARN, "marrow_comm_shrink: operations of the aborted communicator have not left yet");
	return MARROW_SUCCESS;
}

static enum marrow_status fail_named(enum marrow_status status, uint64_t without)
{
	char text[MRW_ERROR_TEXT_BYTES], list[192] = "";
	snprintf(text, sizeof text, "%s", mrw_error_text());
	for (uint32_t r = 0, used = 0; r < MRW_MAX_RANKS; r++)
		if (without >> r & 1)
			used += (uint32_t)snprintf(list + used, sizeof list - used, "%s%u", used ? " " : "", r);
	return mrw_fail(status, "shrink without ranks {%s}; the rest is in the new communicator's numbers: %s", list, text);
}

static enum marrow_status build(struct marrow_comm *comm, uint64_t without, const struct marrow_config *config, struct marrow_comm **shrunk)
{
	enum marrow_status status;
	struct marrow_comm *child = mrw_comm_child(comm, config, &status);
	if (!child)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "out of memory for a communicator");
	if (status != MARROW_SUCCESS)
		goto fail;
	for (uint32_t r = 0; r < comm->nranks; r++) {
		child->rank += r < comm->rank && !(without >> r & 1);
		child->nranks += !(without >> r & 1);
	}
	child->init.parent = comm;
	child->init.members = ~without;
	child->init.without = without;
	if (child->nranks > 1)
		MRW_TRY_GOTO(mrw_boot_make_again_id(comm->boot, without, &child->init.id));
	status = mrw_comm_build(child);
	mrw_log_set_rank((int32_t)comm->rank);
	if (status != MARROW_SUCCESS) {
		status = fail_named(status, without);
		goto fail;
	}
	*shrunk = child;
	return MARROW_SUCCESS;
fail:
	mrw_comm_give_back(child);
	return status;
}

static enum marrow_status shrink(struct marrow_comm *comm, uint64_t without, uint32_t flags, struct marrow_comm **shrunk,
				 const struct marrow_config *config)
{
	MRW_TRY(settle(comm, flags));
	MRW_TRY(check_alive(comm, without));
	return build(comm, without, config, shrunk);
}

enum marrow_status marrow_comm_shrink(struct marrow_comm *comm, const uint32_t *exclude, uint32_t nexclude, uint32_t flags,
				      struct marrow_comm **shrunk, const struct marrow_config *config)
{
	uint32_t rank;
	uint64_t without;
	if (!shrunk)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_comm_shrink: shrunk is NULL");
	*shrunk = NULL;
	if (mrw_group_active()) {
		enum marrow_status status = mrw_fail(MARROW_INVALID_USAGE, "marrow_comm_shrink: not allowed in a group");
		mrw_group_failed(status);
		return status;
	}
	MRW_TRY(marrow_comm_rank(comm, &rank));
	if (flags != MARROW_SHRINK_DEFAULT && flags != MARROW_SHRINK_ABORT)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_comm_shrink: flags %u: use MARROW_SHRINK_DEFAULT or MARROW_SHRINK_ABORT", flags);
	MRW_TRY(check_list(comm, exclude, nexclude, &without));
	if (flags == MARROW_SHRINK_ABORT) {
		MRW_TRY(marrow_comm_abort(comm));
		await_idle(comm);
	}
	MRW_TRY(mrw_comm_enter(comm, "marrow_comm_shrink"));
	return mrw_comm_leave(comm, shrink(comm, without, flags, shrunk, config));
}
