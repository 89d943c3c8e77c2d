/* split.c - marrow_comm_split(): communicators out of one, by two exchanges of its bootstrap. */
#include "comm.h"

#include "base/log.h"

#include <stdio.h>

enum { REASON_BYTES = 320 };

/* What a rank wants of a split, or why it cannot take part. */
struct vote {
	uint32_t status;
	int32_t color, key;
	char reason[REASON_BYTES];
};

/* From the first rank of each color: where its ranks meet. */
struct invitation {
	uint32_t status;
	struct marrow_unique_id id;
	char reason[REASON_BYTES];
};

struct marrow_comm *mrw_comm_child(const struct marrow_comm *parent, const struct marrow_config *config, enum marrow_status *status)
{
	struct marrow_comm *child = mrw_comm_take();
	*status = MARROW_SUCCESS;
	if (!child)
		return NULL;
	if (config) {
		*status = mrw_comm_configure(child, config);
	} else {
		child->init = parent->init;
		child->init.target = parent->device.runtime->target;
		child->max_ctas = parent->max_ctas;
		child->timeout_ms = parent->timeout_ms;
		child->asked_algo = child->forced_algo = parent->asked_algo;
	}
	memset(&child->init.id, 0, sizeof child->init.id);
	child->init.local_rank = -1;
	child->init.device = parent->device.info.ordinal;
	child->init.parent = NULL;
	child->init.without = child->init.members = 0;
	__atomic_store_n(&child->life, MRW_LIFE_PENDING, __ATOMIC_RELEASE);
	return child;
}

static void set_reason(char reason[REASON_BYTES], const char *text)
{
	snprintf(reason, REASON_BYTES, "%.*s", REASON_BYTES - 1, text);
}

static const char *parent_name(const struct marrow_comm *parent, uint32_t rank)
{
	return parent->boot ? mrw_boot_name(parent->boot, rank) : "rank 0";
}

/* This rank's place in the child; *first: the parent's rank that is rank 0 there. */
static void take_place(struct marrow_comm *child, const struct vote *votes, uint32_t n, uint32_t me, uint32_t *first)
{
	child->rank = child->nranks = 0;
	*first = me;
	for (uint32_t r = 0; r < n && votes[me].color != MARROW_NO_COLOR; r++) {
		if (votes[r].color != votes[me].color)
			continue;
		child->nranks++;
		child->init.members |= 1ull << r;
		child->rank += votes[r].key < votes[me].key || (votes[r].key == votes[me].key && r < me);
		if (votes[r].key < votes[*first].key || (votes[r].key == votes[*first].key && r < *first))
			*first = r;
	}
}

/* True if ranks have to meet at all: equal on all ranks. */
static bool anybody_meets(const struct vote *votes, uint32_t n)
{
	for (uint32_t r = 0; r < n; r++)
		for (uint32_t q = 0; q < r && votes[r].color != MARROW_NO_COLOR; q++)
			if (votes[q].color == votes[r].color)
				return true;
	return false;
}

/* The first rank of each color invites the others. */
static enum marrow_status invite(struct marrow_comm *parent, struct marrow_comm *child, uint32_t first)
{
	struct invitation mine, all[MRW_MAX_RANKS];
	memset(&mine, 0, sizeof mine);
	bool inviting = child->nranks > 1 && child->rank == 0;
	if (inviting) {
		mine.status = mrw_boot_make_id(&mine.id, child->init.ifname);
		if (mine.status != MARROW_SUCCESS)
			set_reason(mine.reason, mrw_error_text());
	}
	enum marrow_status status = mrw_comm_exchange(parent, &mine, all, sizeof mine);
	if (status != MARROW_SUCCESS) {
		if (inviting && mine.status == MARROW_SUCCESS)
			mrw_boot_drop_id(&mine.id);
		return status;
	}
	if (all[first].status != MARROW_SUCCESS)
		return mrw_fail((enum marrow_status)all[first].status, "split: %s cannot listen for the ranks of color %d: %s",
				parent_name(parent, first), child->init.color, all[first].reason);
	child->init.id = all[first].id;
	return MARROW_SUCCESS;
}

static enum marrow_status build(struct marrow_comm *child)
{
	enum marrow_status status = mrw_comm_build(child);
	mrw_log_set_rank((int32_t)child->init.parent->rank);
	if (status != MARROW_SUCCESS) {
		char text[MRW_ERROR_TEXT_BYTES];
		snprintf(text, sizeof text, "%s", mrw_error_text());
		return mrw_fail(status, "split, in the new communicator of color %d: %s", child->init.color, text);
	}
	return MARROW_SUCCESS;
}

/* What can be found wrong before the exchange is: the other ranks hear of it there. */
static enum marrow_status split(struct marrow_comm *parent, struct marrow_comm *child)
{
	struct vote mine, votes[MRW_MAX_RANKS];
	uint32_t first;
	MRW_TRY(mrw_comm_look(parent, true));
	memset(&mine, 0, sizeof mine);
	enum marrow_status opened = MARROW_SUCCESS;
	if (child->async_status == MARROW_SUCCESS && child->init.color != MARROW_NO_COLOR)
		opened = mrw_comm_open(child);
	if (opened != MARROW_SUCCESS)
		mrw_comm_fail(child, opened, mrw_error_text());
	mine.status = child->async_status;
	mine.color = child->init.color;
	mine.key = child->init.key;
	set_reason(mine.reason, child->error);
	MRW_TRY(mrw_comm_exchange(parent, &mine, votes, sizeof mine));
	if (mine.status != MARROW_SUCCESS) {
		mrw_error_set_text(child->error);
		return (enum marrow_status)mine.status;
	}
	for (uint32_t r = 0; r < parent->nranks; r++)
		if (votes[r].status != MARROW_SUCCESS)
			return mrw_fail(MARROW_REMOTE_ERROR, "split: %s failed (%s): %s", parent_name(parent, r),
					marrow_status_string((enum marrow_status)votes[r].status), votes[r].reason);
	take_place(child, votes, parent->nranks, parent->rank, &first);
	if (anybody_meets(votes, parent->nranks))
		MRW_TRY(invite(parent, child, first));
	return child->nranks > 0 ? build(child) : MARROW_SUCCESS;
}

enum marrow_status mrw_split_build(struct marrow_comm *child)
{
	struct marrow_comm *parent = child->init.parent;
	MRW_TRY(mrw_comm_enter(parent, "marrow_comm_split"));
	if (parent->generation != child->init.parent_generation)
		return mrw_comm_leave(parent, mrw_fail(MARROW_INVALID_USAGE, "marrow_comm_split: its communicator was destroyed before the group end"));
	enum marrow_status status = split(parent, child);
	if (status != MARROW_SUCCESS)
		mrw_comm_dismantle(child);
	return mrw_comm_leave(parent, status);
}

/* Makes the handle. What is wrong with the call is left in it: the other ranks shall hear of it. */
static enum marrow_status prepare(struct marrow_comm *parent, int32_t color, int32_t key, struct marrow_comm **out,
				  const struct marrow_config *config, struct marrow_comm **child_out)
{
	enum marrow_status status;
	struct marrow_comm *child = mrw_comm_child(parent, color == MARROW_NO_COLOR ? NULL : config, &status);
	if (!child)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "out of memory for a communicator");
	if (!out)
		status = mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_comm_split: split is NULL");
	else if (color < MARROW_NO_COLOR)
		status = mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_comm_split: color %d: use 0 and up, or MARROW_NO_COLOR", color);
	child->init.user = out;
	child->init.parent = parent;
	child->init.parent_generation = parent->generation;
	child->init.color = color;
	child->init.key = key;
	if (status != MARROW_SUCCESS)
		mrw_comm_fail(child, status, mrw_error_text());
	*child_out = child;
	return MARROW_SUCCESS;
}

/* Within a group: queued. */
static enum marrow_status queue(struct marrow_comm *child, struct marrow_comm **out)
{
	enum marrow_status status = mrw_group_add_init(child);
	if (status != MARROW_SUCCESS) {
		mrw_comm_give_back(child);
		return status;
	}
	if (child->async_status != MARROW_SUCCESS)
		return child->async_status;
	*out = child->init.color == MARROW_NO_COLOR ? NULL : child;
	return MARROW_SUCCESS;
}

static enum marrow_status build_now(struct marrow_comm *child, struct marrow_comm **out)
{
	enum marrow_status status = mrw_split_build(child);
	if (status == MARROW_SUCCESS && child->nranks > 0)
		*out = child;
	else
		mrw_comm_give_back(child);
	return status;
}

enum marrow_status marrow_comm_split(struct marrow_comm *comm, int32_t color, int32_t key, struct marrow_comm **split,
				     const struct marrow_config *config)
{
	struct marrow_comm *child = NULL;
	if (split)
		*split = NULL;
	enum marrow_status status = mrw_comm_enter(comm, "marrow_comm_split");
	if (status == MARROW_SUCCESS)
		status = mrw_comm_leave(comm, prepare(comm, color, key, split, config, &child));
	if (status == MARROW_SUCCESS)
		status = mrw_group_active() ? queue(child, split) : build_now(child, split);
	if (status != MARROW_SUCCESS)
		mrw_group_failed(status);
	return status;
}
