/* A member's half of the set-up: it finds the root, joins, and connects to its neighbours. */
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
	REFUSED_MS = 1000, /* an id made by a process listens from its birth: refused for so long, nobody will */
	GRACE_MS = 2000    /* past the deadline, for the verdict of a root that has us */
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

/* Connects setup->controls[0] to an address. MARROW_SUCCESS with fd -1: did not work, see *obstacle. */
static enum marrow_status dial(struct mrw_setup *setup, const struct mrw_addr *addr, struct obstacle *obstacle)
{
	struct mrw_conn *conn = &setup->controls[0].conn;
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
		mrw_sock_local(setup->controls[0].conn.fd, &self->addrs[0]);
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

/* Says hello and waits for the welcome. Not welcome and fd -1: try again. */
static enum marrow_status ask(struct mrw_setup *setup, struct obstacle *obstacle)
{
	struct mrw_control *control = &setup->controls[0];
	struct mrw_hello hello;
	struct mrw_frame *frame;
	enum marrow_status status = MARROW_SUCCESS;

	MRW_TRY(open_door(setup));
	mrw_setup_hello(setup, MRW_HELLO_JOIN, 0, &hello);
	if (!mrw_conn_push(&control->conn, MRW_FRAME_HELLO, 0, &hello, sizeof hello))
		return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for the bootstrap");
	obstacle->kind = NOT_ANSWERED;
	while (!setup->welcome && mrw_boot_now_ms() < setup->deadline_ms) {
		wait_one(setup, &control->conn, mrw_conn_wants(&control->conn), setup->deadline_ms);
		mrw_conn_flush(&control->conn);
		switch (mrw_conn_pull(&control->conn, &frame)) {
		case MRW_CONN_AGAIN:
			break;
		case MRW_CONN_FRAME:
			if (frame->type == MRW_FRAME_ERROR)
				status = mrw_conn_fail_as_told(frame);
			setup->welcome = frame->type == MRW_FRAME_WELCOME;
			free(frame);
			if (status != MARROW_SUCCESS)
				return status;
			break;
		default:
			obstacle->kind = HUNG_UP;
			mrw_conn_close(&control->conn);
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
	struct mrw_conn *conn = &setup->controls[0].conn;
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

enum marrow_status mrw_join_hear(struct mrw_setup *setup, const struct mrw_frame *frame)
{
	uint32_t neighbours[MRW_BOOT_LINKS_MAX], count = mrw_boot_neighbours(setup->boot->rank, setup->boot->nranks, neighbours);
	const struct mrw_boot_table *table = (const void *)frame->data;

	if (frame->type == MRW_FRAME_GO && setup->linking) {
		setup->go = true;
		return MARROW_SUCCESS;
	}
	if (frame->type != MRW_FRAME_TABLE || setup->table || frame->bytes != sizeof *table + (1 + count) * sizeof table->members[0])
		return mrw_fail(MARROW_INTERNAL_ERROR, "the root sent a frame of type %u and %zu bytes during set-up",
				frame->type, frame->bytes);
	setup->table = calloc(setup->boot->nranks, sizeof *setup->table);
	if (!setup->table)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for a table of %u ranks", setup->boot->nranks);
	setup->table[setup->boot->rank] = table->members[0];
	for (uint32_t i = 0; i < count; i++)
		setup->table[neighbours[i]] = table->members[1 + i];
	setup->root_rank = le32toh(table->root_le);
	if (setup->root_rank >= setup->boot->nranks)
		return mrw_fail(MARROW_INTERNAL_ERROR, "the root says it is rank %u of %u", setup->root_rank,
				setup->boot->nranks);
	return mrw_setup_begin_links(setup);
}

enum marrow_status mrw_join_lost(struct mrw_setup *setup)
{
	char text[MRW_ADDR_TEXT_BYTES];

	/* It closes after go, which may have come in the same pass. */
	if (setup->go)
		return MARROW_SUCCESS;
	mrw_conn_close(&setup->controls[0].conn);
	return mrw_fail(MARROW_REMOTE_ERROR,
			"the root at %s closed its connection during set-up: look for its own message",
			mrw_addr_text(&setup->root_addr, true, text));
}

enum marrow_status mrw_join_run(struct mrw_setup *setup)
{
	struct mrw_control *control = &setup->controls[0];
	enum marrow_status status;
	char text[MRW_ADDR_TEXT_BYTES];

	MRW_TRY(find_root(setup));
	control->conn.max_bytes = sizeof(struct mrw_boot_table) + sizeof(struct mrw_boot_member) * (1 + MRW_BOOT_LINKS_MAX) + MRW_ERROR_TEXT_BYTES;
	while (!setup->go) {
		uint64_t now = mrw_boot_now_ms();

		if (setup->linking && !control->ready && !mrw_setup_links_missing(setup)) {
			control->ready = true;
			mrw_conn_push(&control->conn, MRW_FRAME_READY, 0, NULL, 0);
		}
		/* The root says who is missing; only which of our own links is missing it cannot know. */
		if (setup->linking && !control->ready && now >= setup->deadline_ms) {
			status = mrw_setup_fail_links(setup);
			goto fail;
		}
		if (now >= setup->deadline_ms + GRACE_MS) {
			status = mrw_fail(MARROW_TIMEOUT, "the root at %s fell silent during set-up (timeout %llu ms)",
					  mrw_addr_text(&setup->root_addr, true, text),
					  (unsigned long long)setup->boot->timeout_ms);
			goto fail;
		}
		MRW_TRY_GOTO(mrw_setup_step(setup, now < setup->deadline_ms ? setup->deadline_ms
									    : setup->deadline_ms + GRACE_MS));
	}
	return MARROW_SUCCESS;
fail:
	/* The root tells it to all; if it was the root that failed, it no longer listens. */
	if (control->conn.fd >= 0)
		mrw_conn_push_error(&control->conn, status, mrw_error_text());
	return status;
}
