/* The root's half of the set-up: it greets the ranks, sends them to their places in the tree, and lets all go. */
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
	LATE_MS = 1000,  /* after a failure: ranks that come only now hear of it */
	LATE_NEXT_MS = 50, /* after one of them, for the next */
	GUEST_MS = 250   /* a guest that takes longer is stuck, and keeps nobody waiting */
};

/* It hears why, and so do all others. */
static enum marrow_status refuse(struct mrw_setup *setup, struct mrw_conn *conn, enum marrow_status status)
{
	mrw_setup_refuse(conn, status, mrw_error_text());
	return mrw_tree_named(setup, status);
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
	if (setup->came[setup->left_rank])
		return MARROW_SUCCESS;
	return mrw_tree_named(setup, mrw_fail(MARROW_REMOTE_ERROR, MRW_BOOT_LOST, setup->left));
}

/* Where a rank that has come goes. */
static enum marrow_status send_to_place(struct mrw_setup *setup, struct mrw_conn *conn, uint32_t rank, uint32_t place)
{
	uint32_t parent = setup->arrived[mrw_tree_parent(place)];
	struct mrw_boot_place said = {.place_le = htole32(place), .parent_rank_le = htole32(parent), .parent = setup->table[parent],
				      .patience_ms_le = htole32((uint32_t)mrw_boot_ms_until(setup->deadline_ms))};
	struct mrw_below *below = mrw_tree_seat(setup, rank, place, &setup->table[rank], conn);

	if (!below || !mrw_conn_push(&below->conn, MRW_FRAME_WELCOME, 0, &said, sizeof said))
		return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for the bootstrap");
	return MARROW_SUCCESS;
}

enum marrow_status mrw_root_greet(struct mrw_setup *setup, struct mrw_conn *conn, const struct mrw_hello *hello)
{
	struct mrw_boot *boot = setup->boot;
	uint32_t version = le32toh(hello->version_le), nranks = le32toh(hello->nranks_le),
		 rank = le32toh(hello->from_le);
	char newcomer[MRW_BOOT_NAME_BYTES], present[MRW_BOOT_NAME_BYTES], text[MRW_ADDR_TEXT_BYTES];

	if (mrw_conn_is_over(conn))
		return let_go(setup, conn, hello);
	setup->arrivals++;
	mrw_setup_name(present, boot->rank, &setup->table[boot->rank], &setup->table[boot->rank].addrs[0]);
	if (version != mrw_boot_wire_version())
		return refuse(setup, conn, mrw_fail(MARROW_MISMATCH,
					     "rank %u (pid %u, %s) speaks bootstrap version %u, %s speaks version %u: "
					     "run one version of the library",
					     rank, le32toh(hello->pid_le), mrw_addr_text(&conn->peer, false, text),
					     version, present, mrw_boot_wire_version()));
	mrw_setup_name(newcomer, rank, &hello->member, &conn->peer);
	if (nranks > setup->expected + 1)
		setup->expected = nranks - 1;
	if (without_of(hello) != boot->without)
		return refuse(setup, conn, fail_unlike(setup, hello, newcomer, present));
	if (nranks != boot->nranks)
		return refuse(setup, conn, mrw_fail(MARROW_MISMATCH, "%s says there are %u ranks, %s says %u", newcomer,
					     nranks, present, boot->nranks));
	if (rank >= nranks)
		return refuse(setup, conn,
			      mrw_fail(MARROW_INVALID_ARGUMENT, "%s: ranks go from 0 to %u", newcomer, nranks - 1));
	if (rank == boot->rank || setup->came[rank]) {
		if (rank != boot->rank)
			mrw_setup_name(present, rank, &setup->table[rank], &setup->table[rank].addrs[0]);
		return refuse(setup, conn, mrw_fail(MARROW_INVALID_ARGUMENT, "rank %u exists twice: %s and %s", rank, present, newcomer));
	}
	mrw_setup_enter(&setup->table[rank], &hello->member, &conn->peer);
	/* On a wildcard socket only a connection shows which of its addresses the root has. */
	if (!setup->table[boot->rank].addrs[0].family || mrw_addr_is_loopback(&setup->table[boot->rank].addrs[0])) {
		mrw_sock_local(conn->fd, &setup->table[boot->rank].addrs[0]);
		mrw_addr_set_port(&setup->table[boot->rank].addrs[0], mrw_addr_port(&setup->door.bound));
	}
	setup->came[rank] = true;
	setup->arrived[setup->njoined] = rank;
	/* The first deadline of any rank is everybody's. */
	mrw_tree_hurry(setup, le32toh(hello->patience_ms_le));
	return send_to_place(setup, conn, rank, setup->njoined++);
}

/* "1, 4-6": the ranks that have not come. */
static void list_missing(const struct mrw_setup *setup, char *text, size_t room)
{
	uint32_t n = setup->boot->nranks;
	size_t used = 0;

	for (uint32_t first = 0, last; first < n; first = last + 1) {
		last = first;
		if (setup->came[first])
			continue;
		while (last + 1 < n && !setup->came[last + 1])
			last++;
		if (used + 32 > room) {
			snprintf(text + used, room - used, ", ...");
			return;
		}
		used += (size_t)snprintf(text + used, room - used, first == last ? "%s%u" : "%s%u-%u", used ? ", " : "",
					 first, last);
	}
}

/* "; rank 9 (...) did not get to rank 1 (...), to which it was sent": those that have come and are not with their parents. */
static void list_guests(const struct mrw_setup *setup, char *text, size_t room)
{
	for (const struct mrw_below *below = setup->below; below; below = below->next)
		if (below->guest && below->conn.fd >= 0) {
			uint32_t parent = setup->arrived[mrw_tree_parent(below->place)];
			char name[MRW_BOOT_NAME_BYTES];
			size_t used = strlen(text);

			mrw_setup_name(name, parent, &setup->table[parent], &setup->table[parent].addrs[0]);
			mrw_text(text + used, room - used, "; %s did not get to %s, to which it was sent", below->name, name);
		}
}

static enum marrow_status fail_missing(struct mrw_setup *setup)
{
	char ranks[128] = "", guests[MRW_ERROR_TEXT_BYTES / 2] = "", text[MRW_ADDR_TEXT_BYTES];
	uint32_t missing = setup->boot->nranks - setup->njoined;
	struct mrw_addr at = setup->table[setup->boot->rank].addrs[0];
	unsigned long long timeout_ms = setup->boot->timeout_ms;

	if (!at.family)
		at = setup->door.bound;
	list_missing(setup, ranks, sizeof ranks);
	list_guests(setup, guests, sizeof guests);
	if (!missing)
		return mrw_tree_named(setup, mrw_fail(MARROW_TIMEOUT, "not all ranks found each other in time (timeout %llu ms)%s", timeout_ms, guests));
	return mrw_tree_named(setup, mrw_fail(MARROW_TIMEOUT, "rank%s %s of %u %s in time (timeout %llu ms; the root, rank %u, waited at %s)%s",
					      missing == 1 ? "" : "s", ranks, setup->boot->nranks, missing == 1 ? "has not arrived" : "have not arrived",
					      timeout_ms, setup->boot->rank, mrw_addr_text(&at, true, text), guests));
}

/* Only while ranks are waited for: who has come here may leave the parent before the last of us is done. */
static enum marrow_status check_parent(struct mrw_setup *setup)
{
	struct mrw_boot *parent = setup->boot->parent;

	for (uint32_t r = 0; parent && r < parent->nranks; r++)
		if (setup->boot->parent_members >> r & 1 && r != parent->rank && mrw_boot_is_gone(parent, r))
			return mrw_tree_named(setup, mrw_fail(MARROW_REMOTE_ERROR, "%s in the communicator that this one is made from is gone",
							      mrw_boot_name(parent, r)));
	return MARROW_SUCCESS;
}

static enum marrow_status push_table(struct mrw_setup *setup)
{
	uint32_t n = setup->boot->nranks;
	size_t bytes = sizeof(struct mrw_boot_table) + n * sizeof(struct mrw_boot_member);
	uint64_t least_ms = mrw_boot_now_ms() + MRW_SETUP_LINK_MS;
	struct mrw_boot_table *table = malloc(bytes);
	enum marrow_status status;

	if (!table)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for a table of %u ranks", n);
	setup->deadline_ms = setup->deadline_ms > least_ms ? setup->deadline_ms : least_ms;
	table->root_le = htole32(setup->boot->rank);
	table->patience_ms_le = htole32((uint32_t)mrw_boot_ms_until(setup->deadline_ms));
	memcpy(table->members, setup->table, n * sizeof table->members[0]);
	status = mrw_tree_pass_table(setup, table, bytes);
	free(table);
	return status;
}

/* Who waits in the backlog or comes a little late hears why as well; after a timeout only who is there. */
static void tell_latecomers(struct mrw_setup *setup, enum marrow_status status)
{
	uint64_t begin_ms = mrw_boot_now_ms(), last_ms = status == MARROW_TIMEOUT ? begin_ms : begin_ms + LATE_MS, now = begin_ms;
	char text[MRW_ERROR_TEXT_BYTES];
	struct mrw_hello hello;
	struct mrw_conn conn;

	snprintf(text, sizeof text, "%s", mrw_error_text());
	setup->door.room = UINT32_MAX;
	setup->door.may_wait = false;
	do {
		uint64_t next_ms = setup->arrivals < setup->expected ? last_ms : 0;

		setup->set.count = 0;
		mrw_door_watch(&setup->door, &setup->set, &next_ms);
		mrw_pollset_wait(&setup->set, next_ms);
		if (mrw_door_serve(&setup->door, &setup->set) != MARROW_SUCCESS)
			break;
		now = mrw_boot_now_ms();
		while (mrw_door_next(&setup->door, &conn, &hello)) {
			setup->arrivals++;
			mrw_setup_refuse(&conn, status, text);
			if (last_ms < now + LATE_NEXT_MS)
				last_ms = now + LATE_NEXT_MS; /* there may be more */
		}
	} while (setup->arrivals < setup->expected && now < last_ms && now < begin_ms + LATE_MS);
	mrw_error_set_text(text);
}

/* Everybody has come and is with its parent. */
static enum marrow_status gather(struct mrw_setup *setup)
{
	uint32_t guests;

	while ((guests = mrw_tree_guests(setup, UINT64_MAX)) || setup->njoined < setup->boot->nranks) {
		/* Who does not get to its parent says best why. */
		uint64_t now = mrw_boot_now_ms(), until_ms = setup->deadline_ms + (guests ? MRW_BOOT_REPORT_MS + setup->late_ms : 0);
		uint32_t busy = mrw_tree_guests(setup, GUEST_MS);

		if (now >= until_ms)
			return fail_missing(setup);
		MRW_TRY(check_parent(setup));
		MRW_TRY(check_return(setup));
		if (setup->boot->parent && now + PARENT_MS < until_ms)
			until_ms = now + PARENT_MS;
		if (setup->left_ms && setup->left_ms < until_ms)
			until_ms = setup->left_ms;
		/* Past the deadline all come in: nobody who stands there shall be called missing. */
		setup->door.room = now >= setup->deadline_ms ? UINT32_MAX : busy < MRW_BOOT_GUESTS ? MRW_BOOT_GUESTS - busy : 0;
		setup->door.may_wait = guests > 0;
		if (!setup->door.room && now + GUEST_MS / 4 < until_ms)
			until_ms = now + GUEST_MS / 4;
		MRW_TRY(mrw_setup_step(setup, until_ms));
	}
	setup->door.room = UINT32_MAX;
	setup->door.may_wait = false;
	return MARROW_SUCCESS;
}

enum marrow_status mrw_root_run(struct mrw_setup *setup)
{
	struct mrw_boot *boot = setup->boot;
	enum marrow_status status;
	uint64_t until_ms;
	static const uint8_t any[16];

	setup->expected = boot->nranks - 1;
	setup->table = calloc(boot->nranks, sizeof *setup->table);
	setup->came = calloc(boot->nranks, sizeof *setup->came);
	setup->arrived = calloc(boot->nranks, sizeof *setup->arrived);
	if (!setup->table || !setup->came || !setup->arrived) {
		status = mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for a table of %u ranks", boot->nranks);
		goto fail;
	}
	setup->table[boot->rank] = setup->self;
	if (memcmp(setup->door.bound.bytes, any, sizeof any))
		setup->table[boot->rank].addrs[0] = setup->door.bound;
	setup->came[boot->rank] = true;
	setup->arrived[0] = boot->rank;
	setup->njoined = 1;
	MRW_TRY_GOTO(gather(setup));
	MRW_TRY_GOTO(push_table(setup));
	MRW_TRY_GOTO(mrw_setup_begin_links(setup));
	while (!mrw_tree_is_ready(setup)) {
		MRW_TRY_GOTO(mrw_tree_check(setup, &until_ms));
		MRW_TRY_GOTO(mrw_setup_step(setup, until_ms));
	}
	mrw_tree_push_down(setup, MRW_FRAME_GO, 0, NULL, 0);
	return MARROW_SUCCESS;
fail:
	mrw_tree_tell(setup, status);
	tell_latecomers(setup, status);
	return status;
}
