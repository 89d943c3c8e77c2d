/* The root's half of the set-up: it greets the ranks, hands out the table, and is the one who fails for all. */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "boot_setup.h"

enum {
	PARENT_MS = 100, /* between two looks whether a rank that is waited for has died */
	RETURN_MS = 1000, /* for a rank that gave up before the root came */
	REPORT_MS = 500, /* after the deadline: who lacks a link tells which */
	LATE_MS = 1000   /* after a failure: ranks that come only now hear of it */
};

/* The table holds what a rank says, its addresses only as far as they are sane; a rank that names none is at the address from
 * which it came. */
static void enter(struct mrw_setup *setup, uint32_t rank, const struct mrw_boot_member *member,
		  const struct mrw_addr *seen)
{
	struct mrw_boot_member *entry = &setup->table[rank];

	*entry = *member;
	mrw_conn_copy_text(entry->host, sizeof entry->host, member->host, sizeof member->host - 1);
	for (int i = 0; i < MRW_BOOT_OWN_ADDRS; i++)
		if (entry->addrs[i].family != 4 && entry->addrs[i].family != 6)
			memset(&entry->addrs[i], 0, sizeof entry->addrs[i]);
	if (!entry->addrs[0].family)
		entry->addrs[0] = *seen;
}

static enum marrow_status refuse(struct mrw_conn *conn, enum marrow_status status)
{
	mrw_conn_push_error(conn, status, mrw_error_text());
	mrw_conn_close(conn);
	return status;
}

static enum marrow_status fail_lost(const char *name)
{
	return mrw_fail(MARROW_REMOTE_ERROR, "%s closed its connection during set-up: look for its own message", name);
}

/* "1, 3" */
static void list_ranks(uint64_t ranks, char *text, size_t room)
{
	size_t used = 0;

	snprintf(text, room, "nobody");
	for (uint32_t r = 0; r < 64 && used + 8 < room; r++)
		if (ranks >> r & 1)
			used += (size_t)snprintf(text + used, room - used, "%s%u", used ? ", " : "", r);
}

static uint64_t without_of(const struct mrw_hello *hello)
{
	return (uint64_t)le32toh(hello->without_le[1]) << 32 | le32toh(hello->without_le[0]);
}

static enum marrow_status fail_unlike(const struct mrw_setup *setup, const struct mrw_hello *hello, const char *newcomer, const char *present)
{
	char theirs[128], mine[128];

	list_ranks(without_of(hello), theirs, sizeof theirs);
	list_ranks(setup->boot->without, mine, sizeof mine);
	return mrw_fail(MARROW_MISMATCH, "%s leaves out %s, %s leaves out %s: leave out the same ranks everywhere", newcomer, theirs, present,
			mine);
}

/* It gave up while it waited at the door. It may be back, and stand in the same queue. */
static enum marrow_status let_go(struct mrw_setup *setup, struct mrw_conn *conn, const struct mrw_hello *hello)
{
	uint32_t rank = le32toh(hello->from_le);

	if (rank < setup->boot->nranks && !setup->left_ms) {
		setup->left_ms = mrw_boot_now_ms() + RETURN_MS;
		setup->left_rank = rank;
		mrw_setup_name(setup->left, rank, &hello->member, &conn->peer);
	}
	mrw_conn_drop(conn);
	return MARROW_SUCCESS;
}

static enum marrow_status check_return(struct mrw_setup *setup)
{
	if (!setup->left_ms || mrw_boot_now_ms() < setup->left_ms)
		return MARROW_SUCCESS;
	setup->left_ms = 0;
	return setup->controls[setup->left_rank].conn.fd >= 0 ? MARROW_SUCCESS : fail_lost(setup->left);
}

enum marrow_status mrw_root_greet(struct mrw_setup *setup, struct mrw_conn *conn, const struct mrw_hello *hello)
{
	struct mrw_boot *boot = setup->boot;
	uint32_t version = le32toh(hello->version_le), nranks = le32toh(hello->nranks_le),
		 rank = le32toh(hello->from_le);
	char newcomer[MRW_BOOT_NAME_BYTES], present[MRW_BOOT_NAME_BYTES], text[MRW_ADDR_TEXT_BYTES];
	struct mrw_control *control;
	uint64_t patience;

	if (mrw_conn_is_over(conn))
		return let_go(setup, conn, hello);
	setup->arrivals++;
	mrw_setup_name(present, boot->rank, &setup->table[boot->rank], &setup->table[boot->rank].addrs[0]);
	if (version != mrw_boot_wire_version())
		return refuse(conn, mrw_fail(MARROW_MISMATCH,
					     "rank %u (pid %u, %s) speaks bootstrap version %u, %s speaks version %u: "
					     "run one version of the library",
					     rank, le32toh(hello->pid_le), mrw_addr_text(&conn->peer, false, text),
					     version, present, mrw_boot_wire_version()));
	mrw_setup_name(newcomer, rank, &hello->member, &conn->peer);
	if (nranks > setup->expected + 1)
		setup->expected = nranks - 1;
	if (without_of(hello) != boot->without)
		return refuse(conn, fail_unlike(setup, hello, newcomer, present));
	if (nranks != boot->nranks)
		return refuse(conn, mrw_fail(MARROW_MISMATCH, "%s says there are %u ranks, %s says %u", newcomer,
					     nranks, present, boot->nranks));
	if (rank >= nranks)
		return refuse(conn,
			      mrw_fail(MARROW_INVALID_ARGUMENT, "%s: ranks go from 0 to %u", newcomer, nranks - 1));
	control = &setup->controls[rank];
	if (rank == boot->rank || control->conn.fd >= 0) {
		if (rank != boot->rank)
			mrw_setup_name(present, rank, &setup->table[rank], &control->conn.peer);
		return refuse(conn, mrw_fail(MARROW_INVALID_ARGUMENT, "rank %u exists twice: %s and %s", rank, present,
					     newcomer));
	}
	control->conn = *conn;
	control->conn.max_bytes = MRW_ERROR_TEXT_BYTES;
	control->rank = rank;
	enter(setup, rank, &hello->member, &conn->peer);
	/* On a wildcard socket only a connection shows which of its addresses the root has. */
	if (!setup->table[boot->rank].addrs[0].family || mrw_addr_is_loopback(&setup->table[boot->rank].addrs[0])) {
		mrw_sock_local(conn->fd, &setup->table[boot->rank].addrs[0]);
		mrw_addr_set_port(&setup->table[boot->rank].addrs[0], mrw_addr_port(&setup->door.bound));
	}
	setup->njoined++;
	/* The first deadline of any rank is everybody's: all then hear the same verdict. */
	patience = mrw_boot_now_ms() + le32toh(hello->patience_ms_le);
	if (patience < setup->deadline_ms)
		setup->deadline_ms = patience;
	if (!mrw_conn_push(&control->conn, MRW_FRAME_WELCOME, 0, NULL, 0))
		return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for the bootstrap");
	return MARROW_SUCCESS;
}

enum marrow_status mrw_root_hear(struct mrw_setup *setup, struct mrw_control *control, const struct mrw_frame *frame)
{
	char name[MRW_BOOT_NAME_BYTES];

	if (frame->type == MRW_FRAME_READY && setup->linking) {
		control->ready = true;
		return MARROW_SUCCESS;
	}
	mrw_setup_name(name, control->rank, &setup->table[control->rank], &control->conn.peer);
	return mrw_fail(MARROW_INTERNAL_ERROR, "%s sent the root a frame of type %u during set-up", name, frame->type);
}

enum marrow_status mrw_root_lost(struct mrw_setup *setup, struct mrw_control *control)
{
	char name[MRW_BOOT_NAME_BYTES];

	mrw_setup_name(name, control->rank, &setup->table[control->rank], &control->conn.peer);
	mrw_conn_close(&control->conn);
	return fail_lost(name);
}

/* Appends "1, 4-6" for the ranks that are not ready or not here. */
static void list_missing(const struct mrw_setup *setup, char *text, size_t room)
{
	uint32_t n = setup->boot->nranks;
	size_t used = 0;

	for (uint32_t first = 0, last; first < n; first = last + 1) {
		const struct mrw_control *control = &setup->controls[first];

		last = first;
		if (first == setup->boot->rank || (setup->linking ? control->ready : control->conn.fd >= 0))
			continue;
		while (last + 1 < n && last + 1 != setup->boot->rank &&
		       !(setup->linking ? setup->controls[last + 1].ready : setup->controls[last + 1].conn.fd >= 0))
			last++;
		if (used + 32 > room) {
			snprintf(text + used, room - used, ", ...");
			return;
		}
		used += (size_t)snprintf(text + used, room - used, first == last ? "%s%u" : "%s%u-%u", used ? ", " : "",
					 first, last);
	}
}

static uint32_t count_missing(const struct mrw_setup *setup)
{
	uint32_t missing = 0;

	for (uint32_t i = 0; i < setup->ncontrols; i++)
		missing += i != setup->boot->rank &&
			   !(setup->linking ? setup->controls[i].ready : setup->controls[i].conn.fd >= 0);
	return missing;
}

static enum marrow_status fail_missing(const struct mrw_setup *setup)
{
	char ranks[256] = "", text[MRW_ADDR_TEXT_BYTES];
	uint32_t missing = count_missing(setup);
	struct mrw_addr at = setup->table[setup->boot->rank].addrs[0];

	if (!at.family)
		at = setup->door.bound;
	list_missing(setup, ranks, sizeof ranks);
	return mrw_fail(MARROW_TIMEOUT, "rank%s %s of %u %s in time (timeout %llu ms; the root, rank %u, %s at %s)",
			missing == 1 ? "" : "s", ranks, setup->boot->nranks,
			setup->linking ? "could not connect to all neighbours"
			: missing == 1 ? "has not arrived"
				       : "have not arrived",
			(unsigned long long)setup->boot->timeout_ms, setup->boot->rank,
			setup->linking ? "is" : "waited", mrw_addr_text(&at, true, text));
}

/* Only while ranks are waited for: who has come here may leave the parent before the last of us is done. */
static enum marrow_status check_parent(const struct mrw_setup *setup)
{
	struct mrw_boot *parent = setup->boot->parent;

	for (uint32_t r = 0; parent && r < parent->nranks; r++)
		if (setup->boot->parent_members >> r & 1 && r != parent->rank && mrw_boot_is_gone(parent, r))
			return mrw_fail(MARROW_REMOTE_ERROR, "%s in the communicator that this one is made from is gone", mrw_boot_name(parent, r));
	return MARROW_SUCCESS;
}

static void push_all(struct mrw_setup *setup, enum mrw_frame_type type, uint64_t tag, const void *payload, size_t bytes)
{
	for (uint32_t i = 0; i < setup->ncontrols; i++)
		if (setup->controls[i].conn.fd >= 0)
			mrw_conn_push(&setup->controls[i].conn, type, tag, payload, bytes);
}

/* To each rank what it needs to find its neighbours: all of the table to all would be n * n entries. */
static enum marrow_status push_tables(struct mrw_setup *setup)
{
	uint32_t n = setup->boot->nranks, neighbours[MRW_BOOT_LINKS_MAX];
	struct mrw_boot_table *table = malloc(sizeof *table + (1 + MRW_BOOT_LINKS_MAX) * sizeof table->members[0]);

	if (!table)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for the bootstrap");
	table->root_le = htole32(setup->boot->rank);
	table->reserved_le = 0;
	for (uint32_t rank = 0; rank < n; rank++) {
		uint32_t count = mrw_boot_neighbours(rank, n, neighbours);

		table->members[0] = setup->table[rank];
		for (uint32_t i = 0; i < count; i++)
			table->members[1 + i] = setup->table[neighbours[i]];
		if (setup->controls[rank].conn.fd >= 0)
			mrw_conn_push(&setup->controls[rank].conn, MRW_FRAME_TABLE, 0, table, sizeof *table + (1 + count) * sizeof table->members[0]);
	}
	free(table);
	return MARROW_SUCCESS;
}

/* Who waits in the backlog or comes a little late hears the verdict as well. */
static void tell_latecomers(struct mrw_setup *setup, enum marrow_status status)
{
	uint64_t until_ms = mrw_boot_now_ms() + (status == MARROW_TIMEOUT ? 0 : LATE_MS), next_ms;
	char text[MRW_ERROR_TEXT_BYTES];
	struct mrw_hello hello;
	struct mrw_conn conn;

	snprintf(text, sizeof text, "%s", mrw_error_text());
	do {
		next_ms = setup->arrivals < setup->expected ? until_ms : 0;
		setup->set.count = 0;
		mrw_door_watch(&setup->door, &setup->set, &next_ms);
		mrw_pollset_wait(&setup->set, next_ms);
		if (mrw_door_serve(&setup->door, &setup->set) != MARROW_SUCCESS)
			break;
		while (mrw_door_next(&setup->door, &conn, &hello)) {
			setup->arrivals++;
			mrw_conn_push_error(&conn, status, text);
			mrw_conn_close(&conn);
		}
	} while (setup->arrivals < setup->expected && mrw_boot_now_ms() < until_ms);
	mrw_error_set_text(text);
}

enum marrow_status mrw_root_run(struct mrw_setup *setup)
{
	struct mrw_boot *boot = setup->boot;
	enum marrow_status status = MARROW_SUCCESS;
	uint64_t look_ms;
	static const uint8_t any[16];

	setup->table = calloc(boot->nranks, sizeof *setup->table);
	if (!setup->table) {
		status = mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for a table of %u ranks", boot->nranks);
		goto fail;
	}
	setup->table[boot->rank] = setup->self;
	if (memcmp(setup->door.bound.bytes, any, sizeof any))
		setup->table[boot->rank].addrs[0] = setup->door.bound;
	setup->njoined = 1;
	setup->expected = boot->nranks - 1;
	while (setup->njoined < boot->nranks) {
		if (mrw_boot_now_ms() >= setup->deadline_ms) {
			status = fail_missing(setup);
			goto fail;
		}
		MRW_TRY_GOTO(check_parent(setup));
		MRW_TRY_GOTO(check_return(setup));
		look_ms = boot->parent ? mrw_boot_now_ms() + PARENT_MS : setup->deadline_ms;
		if (setup->left_ms && setup->left_ms < look_ms)
			look_ms = setup->left_ms;
		MRW_TRY_GOTO(mrw_setup_step(setup, look_ms < setup->deadline_ms ? look_ms : setup->deadline_ms));
	}
	MRW_TRY_GOTO(push_tables(setup));
	MRW_TRY_GOTO(mrw_setup_begin_links(setup));
	while (mrw_setup_links_missing(setup) || count_missing(setup)) {
		if (mrw_boot_now_ms() >= setup->deadline_ms + REPORT_MS) {
			status = mrw_setup_links_missing(setup) ? mrw_setup_fail_links(setup) : fail_missing(setup);
			goto fail;
		}
		MRW_TRY_GOTO(mrw_setup_step(setup, setup->deadline_ms + REPORT_MS));
	}
	push_all(setup, MRW_FRAME_GO, 0, NULL, 0);
	return MARROW_SUCCESS;
fail:
	push_all(setup, MRW_FRAME_ERROR, status, mrw_error_text(), strlen(mrw_error_text()));
	if (setup->table)
		tell_latecomers(setup, status);
	return status;
}
