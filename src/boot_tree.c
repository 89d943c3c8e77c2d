#include "boot_tree.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "boot_setup.h"

enum {
	HURRY_MS = 100,   /* less is not told upwards: the steps of mrw_tree_check() are farther apart */
	CLOCK_MS = 5,     /* less may be how clocks are read */
	SILENT_MS = 1000  /* after the deadline, and what the levels take */
};

uint32_t mrw_tree_parent(uint32_t place)
{
	return (place - 1) / MRW_BOOT_FANOUT;
}

static uint64_t first_child(uint64_t place)
{
	return place * MRW_BOOT_FANOUT + 1;
}

static uint32_t children(const struct mrw_setup *setup)
{
	uint64_t first = first_child(setup->place), nranks = setup->boot->nranks;

	if (first >= nranks)
		return 0;
	return nranks - first < MRW_BOOT_FANOUT ? (uint32_t)(nranks - first) : MRW_BOOT_FANOUT;
}

/* Levels of ranks above a place; below it. */
static uint32_t depth(uint32_t place)
{
	uint32_t levels = 0;

	for (; place; place = mrw_tree_parent(place))
		levels++;
	return levels;
}

static uint32_t height(uint32_t place, uint32_t nranks)
{
	uint32_t levels = 0;

	for (uint64_t first = first_child(place); first < nranks; first = first_child(first))
		levels++;
	return levels;
}

struct mrw_below *mrw_tree_seat(struct mrw_setup *setup, uint32_t rank, uint32_t place, const struct mrw_boot_member *member, struct mrw_conn *conn)
{
	struct mrw_below *below = calloc(1, sizeof *below);
	struct mrw_boot_member entry;

	if (!below) {
		mrw_conn_drop(conn);
		return NULL;
	}
	mrw_conn_move(&below->conn, conn);
	below->conn.max_bytes = MRW_ERROR_TEXT_BYTES;
	below->conn.slot = SIZE_MAX;
	below->rank = rank;
	below->place = place;
	below->guest = mrw_tree_parent(place) != setup->place;
	below->since_ms = mrw_boot_now_ms();
	mrw_setup_enter(&entry, member, &below->conn.peer);
	mrw_setup_name(below->name, rank, &entry, &entry.addrs[0]);
	below->next = setup->below;
	setup->below = below;
	return below;
}

struct mrw_below *mrw_tree_at(struct mrw_setup *setup, uint32_t place)
{
	struct mrw_below *below = setup->below;

	while (below && (below->place != place || below->conn.fd < 0))
		below = below->next;
	return below;
}

uint32_t mrw_tree_guests(const struct mrw_setup *setup, uint64_t within_ms)
{
	uint64_t now = mrw_boot_now_ms();
	uint32_t count = 0;

	for (const struct mrw_below *below = setup->below; below; below = below->next)
		count += below->guest && below->conn.fd >= 0 && now - below->since_ms < within_ms;
	return count;
}

void mrw_tree_sweep(struct mrw_setup *setup)
{
	for (struct mrw_below **at = &setup->below, *gone; (gone = *at);)
		if (gone->conn.fd < 0) {
			*at = gone->next;
			free(gone);
		} else {
			at = &gone->next;
		}
}

void mrw_tree_push_down(struct mrw_setup *setup, enum mrw_frame_type type, uint64_t tag, const void *payload, size_t bytes)
{
	for (struct mrw_below *below = setup->below; below; below = below->next)
		if (below->conn.fd >= 0)
			mrw_conn_push(&below->conn, type, tag, payload, bytes);
}

enum marrow_status mrw_tree_pass_table(struct mrw_setup *setup, const void *table, size_t bytes)
{
	for (uint32_t i = 0; i < children(setup); i++) {
		uint32_t place = (uint32_t)first_child(setup->place) + i;
		struct mrw_below *below = mrw_tree_at(setup, place);

		if (!below)
			return mrw_fail(MARROW_INTERNAL_ERROR, "number %u to come, which found its place below this rank, is not connected to it", place);
		if (!mrw_conn_push(&below->conn, MRW_FRAME_TABLE, 0, table, bytes))
			return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for the table of ranks");
	}
	return MARROW_SUCCESS;
}

enum marrow_status mrw_tree_named(struct mrw_setup *setup, enum marrow_status status)
{
	setup->named = true;
	return status;
}

enum marrow_status mrw_tree_fail_as_told(struct mrw_setup *setup, const struct mrw_frame *frame)
{
	return mrw_tree_named(setup, mrw_conn_fail_as_told(frame));
}

enum marrow_status mrw_tree_hear(struct mrw_setup *setup, struct mrw_below *below, const struct mrw_frame *frame)
{
	if (frame->type == MRW_FRAME_ERROR)
		return mrw_tree_fail_as_told(setup, frame);
	if (frame->type == MRW_FRAME_SEATED) {
		below->seated = true;
		mrw_tree_hurry(setup, frame->tag);
		if (below->guest)
			mrw_setup_hang_up(setup, &below->conn);
		return MARROW_SUCCESS;
	}
	if (frame->type == MRW_FRAME_HEARD && setup->linking && below->seated && !below->guest) {
		below->heard = true;
		return MARROW_SUCCESS;
	}
	if (frame->type == MRW_FRAME_READY && below->heard) {
		below->ready = true;
		return MARROW_SUCCESS;
	}
	return mrw_tree_named(setup, mrw_fail(MARROW_INTERNAL_ERROR, "%s sent a frame of type %u during set-up", below->name, frame->type));
}

enum marrow_status mrw_tree_lost(struct mrw_setup *setup, struct mrw_below *below)
{
	mrw_setup_hang_up(setup, &below->conn);
	if (!below->seated && !setup->is_root)
		return MARROW_SUCCESS;
	return mrw_tree_named(setup, mrw_fail(MARROW_REMOTE_ERROR, MRW_BOOT_LOST, below->name));
}

void mrw_tree_hurry(struct mrw_setup *setup, uint64_t patience_ms)
{
	uint64_t left_ms = (uint64_t)mrw_boot_ms_until(setup->deadline_ms);

	/* Once the table is there, its word counts. */
	if (setup->linking || patience_ms >= left_ms || left_ms - patience_ms < (setup->is_root ? CLOCK_MS : HURRY_MS))
		return;
	setup->deadline_ms = mrw_boot_now_ms() + patience_ms;
	if (setup->up.fd >= 0)
		mrw_conn_push(&setup->up, MRW_FRAME_SEATED, patience_ms, NULL, 0);
}

bool mrw_tree_is_ready(const struct mrw_setup *setup)
{
	uint32_t ready = 0;

	for (const struct mrw_below *below = setup->below; below; below = below->next)
		ready += below->ready && below->conn.fd >= 0;
	return setup->linking && !mrw_setup_links_missing(setup) && ready == children(setup);
}

/* "rank 3 (...), rank 5 (...)": children that have not said that they have the table, or are not ready. Empty: none. */
static void list_children(const struct mrw_setup *setup, bool ready, char *text, size_t room)
{
	text[0] = '\0';
	for (const struct mrw_below *below = setup->below; below; below = below->next)
		if (below->conn.fd >= 0 && !(ready ? below->ready : below->heard)) {
			size_t used = strlen(text);

			mrw_text(text + used, room - used, "%s%s", used ? ", " : "", below->name);
		}
}

static enum marrow_status fail_children(struct mrw_setup *setup, const char *what, const char *who)
{
	return mrw_tree_named(setup, mrw_fail(MARROW_TIMEOUT, "no word that %s within %llu ms from %s: stopped, or cut off", what,
					      (unsigned long long)setup->boot->timeout_ms, who));
}

/* since_ms: when time was up. */
static enum marrow_status check_links(struct mrw_setup *setup, uint64_t since_ms, uint64_t *until_ms)
{
	uint64_t now = setup->looked_ms, ready_ms = since_ms + (uint64_t)(1 + height(setup->place, setup->boot->nranks)) * MRW_BOOT_REPORT_MS;
	char who[MRW_ERROR_TEXT_BYTES / 2];

	list_children(setup, false, who, sizeof who);
	if (who[0])
		return fail_children(setup, "the table of all ranks has come", who);
	if (mrw_setup_links_missing(setup)) {
		*until_ms = since_ms + MRW_BOOT_REPORT_MS;
		return now < *until_ms ? MARROW_SUCCESS : mrw_tree_named(setup, mrw_setup_fail_links(setup));
	}
	list_children(setup, true, who, sizeof who);
	if (who[0]) {
		*until_ms = ready_ms;
		return now < *until_ms ? MARROW_SUCCESS : fail_children(setup, "all neighbours are connected", who);
	}
	return MARROW_SUCCESS;
}

enum marrow_status mrw_tree_check(struct mrw_setup *setup, uint64_t *until_ms)
{
	uint64_t now = setup->looked_ms, since_ms = setup->deadline_ms + setup->late_ms;
	uint32_t levels = height(0, setup->boot->nranks) + depth(setup->place);

	*until_ms = since_ms;
	if (now < *until_ms)
		return MARROW_SUCCESS;
	if (!setup->is_root && !setup->seated)
		return mrw_tree_named(setup, mrw_join_fail_seat(setup));
	*until_ms = since_ms + SILENT_MS + (uint64_t)levels * MRW_BOOT_REPORT_MS;
	if (!setup->is_root && now >= *until_ms)
		return mrw_tree_named(setup, mrw_join_fail_silent(setup));
	return setup->linking ? check_links(setup, since_ms, until_ms) : MARROW_SUCCESS;
}

void mrw_tree_tell(struct mrw_setup *setup, enum marrow_status status)
{
	uint32_t rank = setup->boot->rank;
	const struct mrw_boot_member *self = setup->is_root && setup->table ? &setup->table[rank] : &setup->self;
	char name[MRW_BOOT_NAME_BYTES], text[MRW_ERROR_TEXT_BYTES];

	if (setup->named) {
		snprintf(text, sizeof text, "%s", mrw_error_text());
	} else {
		mrw_setup_name(name, rank, self, self->addrs[0].family ? &self->addrs[0] : &setup->door.bound);
		mrw_text(text, sizeof text, "%s: %s", name, mrw_error_text());
		mrw_error_set_text(text);
	}
	if (setup->up.fd >= 0)
		mrw_conn_push_error(&setup->up, status, text);
	if (setup->root.fd >= 0)
		mrw_conn_push_error(&setup->root, status, text);
	mrw_tree_push_down(setup, MRW_FRAME_ERROR, status, text, strlen(text));
	/* Neighbours that lack a word from above, because who is there is stopped, hear it from aside. */
	for (uint32_t i = 0; i < setup->boot->nlinks; i++)
		if (setup->boot->links[i].conn.fd >= 0)
			mrw_conn_push_error(&setup->boot->links[i].conn, status, text);
	/* Who dies after all were ready may have kept go from those below it: others have it, and are told why these are missing. */
	if (setup->ready)
		mrw_boot_tell(setup->boot, MRW_NOTICE_FAULT, text);
}
