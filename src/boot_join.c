/* A member's half of the set-up: it finds the root, goes to its place in the tree, and connects to its neighbours. */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "boot_setup.h"

enum {
	DIAL_MS = 3000, /* one address of several */
	PAUSE_MS = 20,  /* before the next try; doubles up to */
	PAUSE_MAX_MS = 1000,
	REFUSED_MS = 1000 /* an id made by a process listens from its birth: refused for so long, nobody will */
};

/* Why the root could not be reached, in the last try. */
struct obstacle {
	enum { NOT_REACHED, NOT_ANSWERED, HUNG_UP } kind;
	struct mrw_addr addr;
	int error;
};

static enum marrow_status fail_obstacle(const struct mrw_setup *setup, enum marrow_status status,
					const struct obstacle *obstacle)
{
	const struct mrw_boot *boot = setup->boot;
	unsigned long long ms = boot->timeout_ms;
	char text[MRW_ADDR_TEXT_BYTES];

	mrw_addr_text(&obstacle->addr, true, text);
	switch (obstacle->kind) {
	case NOT_REACHED:
		return mrw_fail(status, "rank %u cannot reach the root at %s (%s; timeout %llu ms): %s", boot->rank,
				text, strerror(obstacle->error), ms,
				obstacle->error == ECONNREFUSED
					? "its process is gone or not started, or its communicator is complete already"
					: "look for a firewall, or choose an interface with MARROW_SOCKET_IFNAME");
	case HUNG_UP:
		return mrw_fail(
			status,
			"the root at %s hung up on rank %u without a word (timeout %llu ms): another job listens there, its "
			"process died, or MARROW_JOB is not the same on all ranks",
			text, boot->rank, ms);
	case NOT_ANSWERED:
		break;
	}
	return mrw_fail(
		status,
		"the root at %s did not answer rank %u within %llu ms: no rank of its process has begun to set up",
		text, boot->rank, ms);
}

static bool wait_one(struct mrw_setup *setup, struct mrw_conn *conn, short events, uint64_t until_ms)
{
	setup->set.count = 0;
	conn->slot = mrw_pollset_add(&setup->set, conn->fd, events);
	mrw_pollset_wait(&setup->set, until_ms);
	return mrw_pollset_events(&setup->set, conn->slot) != 0;
}

/* Connects setup->root to an address. MARROW_SUCCESS with fd -1: did not work, see *obstacle. */
static enum marrow_status dial(struct mrw_setup *setup, const struct mrw_addr *addr, struct obstacle *obstacle)
{
	struct mrw_conn *conn = &setup->root;
	uint64_t until_ms = setup->deadline_ms;
	int fd = mrw_sock_dial(addr);

	*obstacle = (struct obstacle){.kind = NOT_REACHED, .addr = *addr};
	if (fd < 0 && (errno == EMFILE || errno == ENFILE))
		return mrw_sock_fail("connecting to the root");
	if (fd < 0) {
		obstacle->error = errno;
		return MARROW_SUCCESS;
	}
	mrw_conn_start(conn, fd, addr, MRW_ERROR_TEXT_BYTES);
	if (le32toh(setup->id->naddrs_le) > 1 && mrw_boot_now_ms() + DIAL_MS < until_ms)
		until_ms = mrw_boot_now_ms() + DIAL_MS;
	obstacle->error = ETIMEDOUT;
	while (mrw_boot_now_ms() < until_ms)
		if (wait_one(setup, conn, POLLOUT, until_ms)) {
			obstacle->error = mrw_sock_dialled(fd);
			break;
		}
	if (obstacle->error)
		mrw_conn_close(conn);
	return MARROW_SUCCESS;
}

/* Listens where the neighbours will find us: on the interface by name, else where the way to the root begins. Where that is loopback
 * on a machine with a network, ranks elsewhere may know the root by a better name: we listen everywhere and name both. */
static enum marrow_status open_door(struct mrw_setup *setup)
{
	struct mrw_boot_member *self = &setup->self;
	struct mrw_addr bound;
	int fd;

	if (setup->door.fd >= 0)
		return MARROW_SUCCESS;
	memset(self->addrs, 0, sizeof self->addrs);
	if (setup->ifname[0]) {
		MRW_TRY(mrw_boot_id_choose(&self->addrs[0], setup->ifname));
	} else {
		mrw_sock_local(setup->root.fd, &self->addrs[0]);
		if (mrw_addr_is_loopback(&self->addrs[0])) {
			MRW_TRY(mrw_boot_id_choose(&self->addrs[1], ""));
			if (mrw_addr_is_loopback(&self->addrs[1]))
				memset(&self->addrs[1], 0, sizeof self->addrs[1]);
		}
	}
	MRW_TRY(mrw_sock_listen(&fd, self->addrs[1].family ? NULL : &self->addrs[0], 0, &bound));
	for (int i = 0; i < MRW_BOOT_OWN_ADDRS; i++)
		if (self->addrs[i].family)
			mrw_addr_set_port(&self->addrs[i], mrw_addr_port(&bound));
	memcpy(self->again_port_be, bound.port_be, sizeof self->again_port_be);
	return mrw_door_open(&setup->door, fd, &bound, setup->boot->key);
}

static enum marrow_status hear_place(struct mrw_setup *setup, const struct mrw_frame *frame)
{
	const struct mrw_boot_place *said = (const void *)frame->data;
	const struct mrw_boot *boot = setup->boot;

	if (frame->type == MRW_FRAME_ERROR)
		return mrw_tree_fail_as_told(setup, frame);
	if (frame->type != MRW_FRAME_WELCOME || frame->bytes != sizeof *said || !said->place_le || le32toh(said->place_le) >= boot->nranks ||
	    le32toh(said->parent_rank_le) >= boot->nranks || le32toh(said->parent_rank_le) == boot->rank)
		return mrw_fail(MARROW_INTERNAL_ERROR, "the root answered with a frame of type %u and %zu bytes", frame->type, frame->bytes);
	setup->place = le32toh(said->place_le);
	setup->parent_rank = le32toh(said->parent_rank_le);
	mrw_setup_enter(&setup->parent, &said->parent, NULL);
	mrw_tree_hurry(setup, le32toh(said->patience_ms_le));
	setup->welcome = true;
	return MARROW_SUCCESS;
}

/* Says hello and waits for the welcome. Not welcome and fd -1: try again. */
static enum marrow_status ask(struct mrw_setup *setup, struct obstacle *obstacle)
{
	struct mrw_hello hello;
	struct mrw_frame *frame;
	enum marrow_status status;

	MRW_TRY(open_door(setup));
	mrw_setup_hello(setup, MRW_HELLO_JOIN, 0, &hello);
	if (!mrw_conn_push(&setup->root, MRW_FRAME_HELLO, 0, &hello, sizeof hello))
		return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for the bootstrap");
	obstacle->kind = NOT_ANSWERED;
	while (!setup->welcome && mrw_boot_now_ms() < setup->deadline_ms) {
		wait_one(setup, &setup->root, mrw_conn_wants(&setup->root), setup->deadline_ms);
		mrw_conn_flush(&setup->root);
		switch (mrw_conn_pull(&setup->root, &frame)) {
		case MRW_CONN_AGAIN:
			break;
		case MRW_CONN_FRAME:
			status = hear_place(setup, frame);
			free(frame);
			MRW_TRY(status);
			break;
		default:
			obstacle->kind = HUNG_UP;
			mrw_setup_hang_up(setup, &setup->root);
			return MARROW_SUCCESS;
		}
	}
	return MARROW_SUCCESS;
}

static enum marrow_status find_root(struct mrw_setup *setup)
{
	uint32_t naddrs = le32toh(setup->id->naddrs_le);
	bool may_come = le32toh(setup->id->flags_le) & MRW_BOOT_ID_ENV;
	uint64_t refused_ms = mrw_boot_now_ms() + REFUSED_MS;
	struct obstacle obstacle = {.addr = setup->id->addrs[0], .error = ETIMEDOUT};
	struct mrw_conn *conn = &setup->root;
	uint64_t pause_ms = PAUSE_MS;

	if (!naddrs)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "the unique id holds no address");
	for (uint32_t tries = 0; mrw_boot_now_ms() < setup->deadline_ms; tries++) {
		const struct mrw_addr *addr = &setup->id->addrs[tries % naddrs];

		MRW_TRY(dial(setup, addr, &obstacle));
		if (conn->fd >= 0) {
			setup->root_addr = *addr;
			MRW_TRY(ask(setup, &obstacle));
			if (setup->welcome)
				return MARROW_SUCCESS;
		}
		if (obstacle.kind == NOT_REACHED && obstacle.error == ECONNREFUSED && !may_come &&
		    mrw_boot_now_ms() >= refused_ms)
			return fail_obstacle(setup, MARROW_REMOTE_ERROR, &obstacle);
		if (tries % naddrs == naddrs - 1 && mrw_boot_now_ms() < setup->deadline_ms) {
			uint64_t until_ms = mrw_boot_now_ms() + pause_ms;

			setup->set.count = 0;
			mrw_pollset_wait(&setup->set, until_ms < setup->deadline_ms ? until_ms : setup->deadline_ms);
			pause_ms = 2 * pause_ms < PAUSE_MAX_MS ? 2 * pause_ms : PAUSE_MAX_MS;
		}
	}
	return fail_obstacle(setup, MARROW_TIMEOUT, &obstacle);
}

/* To the parent first: once it has heard this, it is the one who misses us. Then the root hangs up. */
static enum marrow_status say_seated(struct mrw_setup *setup)
{
	uint64_t patience_ms = (uint64_t)mrw_boot_ms_until(setup->deadline_ms);

	setup->seated = true;
	setup->up.max_bytes = sizeof(struct mrw_boot_table) + setup->boot->nranks * sizeof(struct mrw_boot_member) + MRW_ERROR_TEXT_BYTES;
	if (!mrw_conn_push(&setup->up, MRW_FRAME_SEATED, patience_ms, NULL, 0) ||
	    (setup->root.fd >= 0 && !mrw_conn_push(&setup->root, MRW_FRAME_SEATED, patience_ms, NULL, 0)))
		return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for the bootstrap");
	return MARROW_SUCCESS;
}

enum marrow_status mrw_join_seated(struct mrw_setup *setup, struct mrw_conn *conn)
{
	mrw_conn_move(&setup->up, conn);
	return say_seated(setup);
}

static enum marrow_status begin_seat(struct mrw_setup *setup)
{
	if (mrw_tree_parent(setup->place) == 0)
		return mrw_join_seated(setup, &setup->root);
	mrw_call_begin(&setup->seat, NULL, setup->parent_rank, &setup->parent);
	return MARROW_SUCCESS;
}

enum marrow_status mrw_join_greet(struct mrw_setup *setup, struct mrw_conn *conn, const struct mrw_hello *hello)
{
	struct mrw_boot *boot = setup->boot;
	uint32_t from = le32toh(hello->from_le), place = le32toh(hello->place_le);
	char name[MRW_BOOT_NAME_BYTES], text[MRW_ERROR_TEXT_BYTES];
	struct mrw_below *child;

	if (mrw_conn_is_over(conn)) { /* gave up while it waited at the door, and comes again or tells the root */
		mrw_conn_drop(conn);
		return MARROW_SUCCESS;
	}
	if (from >= boot->nranks || le32toh(hello->to_le) != boot->rank || le32toh(hello->nranks_le) != boot->nranks ||
	    le32toh(hello->version_le) != mrw_boot_wire_version()) {
		mrw_door_turn_away(&setup->door, conn, "it looks for another rank");
		return MARROW_SUCCESS;
	}
	/* A child that gave an earlier try up: the last one counts. */
	child = mrw_tree_at(setup, place);
	if (!setup->linking && from != boot->rank && place > setup->place && place < boot->nranks && mrw_tree_parent(place) == setup->place &&
	    (!child || (!child->seated && child->rank == from))) {
		if (child)
			mrw_setup_hang_up(setup, &child->conn);
		child = mrw_tree_seat(setup, from, place, &hello->member, conn);
		if (child && mrw_conn_push(&child->conn, MRW_FRAME_LINKED, boot->rank, NULL, 0))
			return MARROW_SUCCESS;
		return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for the bootstrap");
	}
	mrw_setup_name(name, from, &hello->member, &conn->peer);
	mrw_text(text, sizeof text, "%s is not the one that the root sent to rank %u as number %u to come", name, boot->rank, place);
	mrw_log(MRW_LOG_WARN, "bootstrap: %s", text);
	mrw_setup_refuse(conn, MARROW_INVALID_ARGUMENT, text);
	return MARROW_SUCCESS;
}

static enum marrow_status hear_table(struct mrw_setup *setup, const struct mrw_frame *frame)
{
	const struct mrw_boot_table *table = (const void *)frame->data;
	uint32_t nranks = setup->boot->nranks;
	uint64_t latest_ms = setup->deadline_ms + MRW_SETUP_LINK_MS, deadline_ms;

	if (frame->bytes != sizeof *table + nranks * sizeof table->members[0] || le32toh(table->root_le) >= nranks)
		return mrw_fail(MARROW_INTERNAL_ERROR, "a table of %zu bytes for %u ranks came down the tree", frame->bytes, nranks);
	setup->table = calloc(nranks, sizeof *setup->table);
	if (!setup->table)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for a table of %u ranks", nranks);
	for (uint32_t r = 0; r < nranks; r++)
		mrw_setup_enter(&setup->table[r], &table->members[r], NULL);
	setup->root_rank = le32toh(table->root_le);
	/* The root's word, who knows all deadlines. */
	deadline_ms = mrw_boot_now_ms() + le32toh(table->patience_ms_le);
	setup->deadline_ms = deadline_ms < latest_ms ? deadline_ms : latest_ms;
	MRW_TRY(mrw_tree_pass_table(setup, table, frame->bytes));
	MRW_TRY(mrw_setup_begin_links(setup));
	if (!mrw_conn_push(&setup->up, MRW_FRAME_HEARD, 0, NULL, 0))
		return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for the bootstrap");
	return MARROW_SUCCESS;
}

enum marrow_status mrw_join_hear(struct mrw_setup *setup, const struct mrw_conn *conn, const struct mrw_frame *frame)
{
	if (frame->type == MRW_FRAME_ERROR)
		return mrw_tree_fail_as_told(setup, frame);
	if (conn == &setup->up && frame->type == MRW_FRAME_TABLE && !setup->linking)
		return hear_table(setup, frame);
	if (conn == &setup->up && frame->type == MRW_FRAME_GO && setup->ready) {
		setup->go = true;
		return MARROW_SUCCESS;
	}
	return mrw_fail(MARROW_INTERNAL_ERROR, "%s sent a frame of type %u and %zu bytes during set-up", conn == &setup->up ? "its parent" : "the root",
			frame->type, frame->bytes);
}

/* "the root at 10.0.0.1:5000", or "rank 3 (...)" */
static void name_parent(const struct mrw_setup *setup, char name[MRW_BOOT_NAME_BYTES])
{
	char addr[MRW_ADDR_TEXT_BYTES];

	if (mrw_tree_parent(setup->place) == 0)
		snprintf(name, MRW_BOOT_NAME_BYTES, "the root at %s", mrw_addr_text(&setup->root_addr, true, addr));
	else
		mrw_setup_name(name, setup->parent_rank, &setup->parent, &setup->parent.addrs[0]);
}

enum marrow_status mrw_join_lost(struct mrw_setup *setup, struct mrw_conn *conn)
{
	char name[MRW_BOOT_NAME_BYTES], addr[MRW_ADDR_TEXT_BYTES];

	mrw_setup_hang_up(setup, conn);
	/* The parent closes after go, which may have come in the same pass; the root when we are seated. */
	if (setup->go || (conn == &setup->root && setup->seated))
		return MARROW_SUCCESS;
	if (conn == &setup->up)
		name_parent(setup, name);
	else
		snprintf(name, sizeof name, "the root at %s", mrw_addr_text(&setup->root_addr, true, addr));
	return mrw_tree_named(setup, mrw_fail(MARROW_REMOTE_ERROR, MRW_BOOT_LOST, name));
}

enum marrow_status mrw_join_fail_seat(struct mrw_setup *setup)
{
	char self[MRW_BOOT_NAME_BYTES], parent[MRW_BOOT_NAME_BYTES], text[2 * MRW_ADDR_TEXT_BYTES];

	mrw_setup_name(self, setup->boot->rank, &setup->self, &setup->self.addrs[0]);
	name_parent(setup, parent);
	return mrw_fail(MARROW_TIMEOUT, "%s cannot reach %s %s within %llu ms: stopped, a firewall, or choose an interface with MARROW_SOCKET_IFNAME", self,
			parent, mrw_call_obstacle(setup, &setup->seat, text, sizeof text), (unsigned long long)setup->boot->timeout_ms);
}

enum marrow_status mrw_join_fail_silent(struct mrw_setup *setup)
{
	char name[MRW_BOOT_NAME_BYTES];

	name_parent(setup, name);
	return mrw_fail(MARROW_TIMEOUT, "%s fell silent during set-up (timeout %llu ms)", name, (unsigned long long)setup->boot->timeout_ms);
}

enum marrow_status mrw_join_run(struct mrw_setup *setup)
{
	enum marrow_status status;
	uint64_t until_ms;

	MRW_TRY(find_root(setup));
	MRW_TRY_GOTO(begin_seat(setup));
	while (!setup->go) {
		MRW_TRY_GOTO(mrw_tree_check(setup, &until_ms));
		setup->door.may_wait = !setup->seated;
		MRW_TRY_GOTO(mrw_setup_step(setup, until_ms));
		if (!setup->ready && mrw_tree_is_ready(setup)) {
			setup->ready = true;
			mrw_conn_push(&setup->up, MRW_FRAME_READY, 0, NULL, 0);
		}
	}
	mrw_tree_push_down(setup, MRW_FRAME_GO, 0, NULL, 0);
	return MARROW_SUCCESS;
fail:
	mrw_tree_tell(setup, status);
	return status;
}
