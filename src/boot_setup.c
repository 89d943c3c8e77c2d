#include "boot_setup.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

enum {
	TRY_MS = 5000,   /* one try of a link */
	PAUSE_MS = 50,   /* before the next one; doubles */
	SETTLE_MS = 1000 /* for the last word between root and members */
};

void mrw_setup_name(char name[MRW_BOOT_NAME_BYTES], uint32_t rank, const struct mrw_boot_member *member,
		    const struct mrw_addr *addr)
{
	char text[MRW_ADDR_TEXT_BYTES];

	snprintf(name, MRW_BOOT_NAME_BYTES, "rank %u (%.*s, pid %u, %s)", rank, MRW_BOOT_HOST_BYTES, member->host,
		 le32toh(member->pid_le), mrw_addr_text(addr, false, text));
}

void mrw_setup_hello(const struct mrw_setup *setup, enum mrw_hello_kind kind, uint32_t to, struct mrw_hello *hello)
{
	int patience_ms = mrw_boot_ms_until(setup->deadline_ms);

	memset(hello, 0, sizeof *hello);
	hello->version_le = htole32(mrw_boot_wire_version());
	hello->kind_le = htole32(kind);
	memcpy(hello->key, setup->boot->key, sizeof hello->key);
	hello->nranks_le = htole32(setup->boot->nranks);
	hello->from_le = htole32(setup->boot->rank);
	hello->to_le = htole32(to);
	hello->patience_ms_le = htole32((uint32_t)patience_ms);
	hello->pid_le = setup->self.pid_le;
	hello->without_le[0] = htole32((uint32_t)setup->boot->without);
	hello->without_le[1] = htole32((uint32_t)(setup->boot->without >> 32));
	hello->member = setup->self;
}

/* Where to dial a neighbour at try `tries`. */
static const struct mrw_addr *target(const struct mrw_setup *setup, const struct mrw_call *call)
{
	const struct mrw_boot_member *member = &setup->table[call->link->rank];
	uint32_t naddrs = 0;

	if (!setup->is_root && call->link->rank == setup->root_rank)
		return &setup->root_addr;
	while (naddrs < MRW_BOOT_OWN_ADDRS && member->addrs[naddrs].family)
		naddrs++;
	return &member->addrs[naddrs ? call->tries % naddrs : 0];
}

static void retry(struct mrw_call *call, int error)
{
	uint32_t shift = call->tries < 5 ? call->tries : 5;

	mrw_conn_close(&call->conn);
	call->error = error;
	call->tries++;
	call->state = MRW_CALL_IDLE;
	call->next_ms = mrw_boot_now_ms() + ((uint64_t)PAUSE_MS << shift);
}

static enum marrow_status dial(const struct mrw_setup *setup, struct mrw_call *call)
{
	int fd = mrw_sock_dial(target(setup, call));

	if (fd < 0 && (errno == EMFILE || errno == ENFILE))
		return mrw_sock_fail("connecting to a neighbour");
	if (fd < 0) {
		retry(call, errno);
		return MARROW_SUCCESS;
	}
	mrw_conn_start(&call->conn, fd, target(setup, call), MRW_ERROR_TEXT_BYTES);
	call->state = MRW_CALL_DIALLING;
	call->next_ms = mrw_boot_now_ms() + TRY_MS;
	return MARROW_SUCCESS;
}

/* True: the neighbour answered. */
static bool hear_answer(struct mrw_call *call)
{
	struct mrw_frame *frame;
	bool linked;

	switch (mrw_conn_pull(&call->conn, &frame)) {
	case MRW_CONN_AGAIN:
		return false;
	case MRW_CONN_FRAME:
		linked = frame->type == MRW_FRAME_LINKED && frame->tag == call->link->rank;
		free(frame);
		if (linked)
			return true;
		break;
	default:
		break;
	}
	retry(call, ECONNRESET);
	return false;
}

static enum marrow_status advance_call(struct mrw_setup *setup, struct mrw_call *call)
{
	short events = mrw_pollset_events(&setup->set, call->conn.slot);
	uint64_t now = mrw_boot_now_ms();
	struct mrw_hello hello;
	int error;

	if (call->state == MRW_CALL_IDLE)
		return now >= call->next_ms ? dial(setup, call) : MARROW_SUCCESS;
	if (call->state == MRW_CALL_DIALLING && events) {
		error = mrw_sock_dialled(call->conn.fd);
		if (error) {
			retry(call, error);
			return MARROW_SUCCESS;
		}
		mrw_setup_hello(setup, MRW_HELLO_LINK, call->link->rank, &hello);
		if (!mrw_conn_push(&call->conn, MRW_FRAME_HELLO, 0, &hello, sizeof hello))
			return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for the bootstrap");
		call->state = MRW_CALL_ASKING;
	} else if (call->state == MRW_CALL_ASKING && events) {
		mrw_conn_flush(&call->conn);
		if (hear_answer(call)) {
			call->link->conn = call->conn;
			call->conn.fd = -1;
			call->state = MRW_CALL_DONE;
			return MARROW_SUCCESS;
		}
	}
	if ((call->state == MRW_CALL_DIALLING || call->state == MRW_CALL_ASKING) && now >= call->next_ms)
		retry(call, ETIMEDOUT);
	return MARROW_SUCCESS;
}

/* A neighbour with a lower rank. It dials again when it gave an earlier try up: the last one counts. */
static enum marrow_status greet_neighbour(struct mrw_setup *setup, struct mrw_conn *conn, const struct mrw_hello *hello)
{
	struct mrw_boot *boot = setup->boot;
	uint32_t from = le32toh(hello->from_le);
	struct mrw_boot_link *link = from < boot->rank ? mrw_boot_link_to(boot, from) : NULL;

	if (!link || le32toh(hello->to_le) != boot->rank || le32toh(hello->nranks_le) != boot->nranks ||
	    le32toh(hello->version_le) != mrw_boot_wire_version()) {
		mrw_door_turn_away(&setup->door, conn, "it looks for another rank");
		return MARROW_SUCCESS;
	}
	mrw_conn_close(&link->conn);
	link->conn = *conn;
	if (!mrw_conn_push(&link->conn, MRW_FRAME_LINKED, boot->rank, NULL, 0))
		return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for the bootstrap");
	return MARROW_SUCCESS;
}

static enum marrow_status greet(struct mrw_setup *setup, struct mrw_conn *conn, const struct mrw_hello *hello)
{
	if (le32toh(hello->kind_le) == MRW_HELLO_LINK)
		return greet_neighbour(setup, conn, hello);
	if (le32toh(hello->kind_le) == MRW_HELLO_JOIN && setup->is_root)
		return mrw_root_greet(setup, conn, hello);
	mrw_door_turn_away(&setup->door, conn, "it takes this rank for the root");
	return MARROW_SUCCESS;
}

/* What a member told the root is about itself; all others hear it too and must know about whom. */
static enum marrow_status fail_as_member_told(const struct mrw_control *control, const struct mrw_setup *setup,
					      const struct mrw_frame *frame)
{
	char name[MRW_BOOT_NAME_BYTES], text[MRW_ERROR_TEXT_BYTES];
	enum marrow_status status = mrw_conn_fail_as_told(frame);

	mrw_setup_name(name, control->rank, &setup->table[control->rank], &control->conn.peer);
	snprintf(text, sizeof text, "%s", mrw_error_text());
	if (strncmp(text, name, strlen(name)))
		return mrw_fail(status, "%s: %s", name, text);
	return status;
}

static enum marrow_status serve_control(struct mrw_setup *setup, struct mrw_control *control)
{
	struct mrw_frame *frame;
	enum marrow_status status;

	mrw_conn_flush(&control->conn);
	for (;;) {
		switch (mrw_conn_pull(&control->conn, &frame)) {
		case MRW_CONN_AGAIN:
			return MARROW_SUCCESS;
		case MRW_CONN_FRAME:
			if (setup->is_root)
				status = frame->type == MRW_FRAME_ERROR ? fail_as_member_told(control, setup, frame)
									: mrw_root_hear(setup, control, frame);
			else
				status = frame->type == MRW_FRAME_ERROR ? mrw_conn_fail_as_told(frame)
									: mrw_join_hear(setup, frame);
			free(frame);
			MRW_TRY(status);
			break;
		case MRW_CONN_NO_MEMORY:
			return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for the bootstrap");
		default:
			return setup->is_root ? mrw_root_lost(setup, control) : mrw_join_lost(setup);
		}
	}
}

enum marrow_status mrw_setup_step(struct mrw_setup *setup, uint64_t until_ms)
{
	struct mrw_hello hello;
	struct mrw_conn conn;

	setup->set.count = 0;
	mrw_door_watch(&setup->door, &setup->set, &until_ms);
	for (uint32_t i = 0; i < setup->ncontrols; i++) {
		struct mrw_conn *control = &setup->controls[i].conn;

		control->slot = control->fd >= 0 ? mrw_pollset_add(&setup->set, control->fd, mrw_conn_wants(control))
						 : SIZE_MAX;
	}
	for (uint32_t i = 0; i < setup->ncalls; i++) {
		struct mrw_call *call = &setup->calls[i];

		call->conn.slot = SIZE_MAX;
		if (call->state == MRW_CALL_DIALLING)
			call->conn.slot = mrw_pollset_add(&setup->set, call->conn.fd, POLLOUT);
		else if (call->state == MRW_CALL_ASKING)
			call->conn.slot = mrw_pollset_add(&setup->set, call->conn.fd, mrw_conn_wants(&call->conn));
		if (call->state != MRW_CALL_DONE && call->next_ms < until_ms)
			until_ms = call->next_ms;
	}
	/* An answer that did not go at once waits for room; links are otherwise silent before go. */
	for (uint32_t i = 0; i < setup->boot->nlinks; i++) {
		struct mrw_conn *link = &setup->boot->links[i].conn;

		if (link->fd >= 0 && mrw_conn_unsent(link)) {
			mrw_conn_flush(link);
			mrw_pollset_add(&setup->set, link->fd, POLLOUT);
		}
	}
	mrw_pollset_wait(&setup->set, until_ms);

	MRW_TRY(mrw_door_serve(&setup->door, &setup->set));
	while (mrw_door_next(&setup->door, &conn, &hello))
		MRW_TRY(greet(setup, &conn, &hello));
	for (uint32_t i = 0; i < setup->ncontrols; i++)
		if (setup->controls[i].conn.fd >= 0 && mrw_pollset_events(&setup->set, setup->controls[i].conn.slot))
			MRW_TRY(serve_control(setup, &setup->controls[i]));
	for (uint32_t i = 0; i < setup->ncalls; i++)
		MRW_TRY(advance_call(setup, &setup->calls[i]));
	return MARROW_SUCCESS;
}

enum marrow_status mrw_setup_begin_links(struct mrw_setup *setup)
{
	struct mrw_boot *boot = setup->boot;

	MRW_TRY(mrw_boot_set_members(boot, setup->table));
	setup->calls = calloc(boot->nlinks, sizeof *setup->calls);
	if (!setup->calls)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for the bootstrap");
	for (uint32_t i = 0; i < boot->nlinks; i++)
		if (boot->links[i].rank > boot->rank) {
			struct mrw_call *call = &setup->calls[setup->ncalls++];

			call->link = &boot->links[i];
			call->conn.fd = -1;
		}
	setup->linking = true;
	return MARROW_SUCCESS;
}

uint32_t mrw_setup_links_missing(const struct mrw_setup *setup)
{
	uint32_t missing = 0;

	for (uint32_t i = 0; i < setup->boot->nlinks; i++)
		missing += setup->boot->links[i].conn.fd < 0 || mrw_conn_unsent(&setup->boot->links[i].conn);
	return missing;
}

enum marrow_status mrw_setup_fail_links(struct mrw_setup *setup)
{
	struct mrw_boot *boot = setup->boot;
	char who[MRW_ERROR_TEXT_BYTES / 2] = "", text[MRW_ADDR_TEXT_BYTES];

	for (uint32_t i = 0; i < boot->nlinks; i++) {
		size_t used = strlen(who);
		const struct mrw_call *call = NULL;

		if (boot->links[i].conn.fd >= 0)
			continue;
		for (uint32_t k = 0; k < setup->ncalls; k++)
			if (setup->calls[k].link == &boot->links[i])
				call = &setup->calls[k];
		if (call)
			snprintf(who + used, sizeof who - used, "; %s did not answer at %s (%s)",
				 mrw_boot_name(boot, boot->links[i].rank),
				 mrw_addr_text(target(setup, call), true, text),
				 call->error ? strerror(call->error) : "no answer yet");
		else
			snprintf(who + used, sizeof who - used, "; %s did not connect here",
				 mrw_boot_name(boot, boot->links[i].rank));
	}
	return mrw_fail(
		MARROW_TIMEOUT,
		"%s is not connected to its neighbours within %llu ms%s: firewall, or choose an interface with MARROW_SOCKET_IFNAME",
		mrw_boot_name(boot, boot->rank), (unsigned long long)boot->timeout_ms, who);
}

/* The root's own socket closes, for its address is the user's to use again: it opens another one beside it. */
static enum marrow_status listen_again(struct mrw_setup *setup)
{
	static const uint8_t any[16];
	struct mrw_boot *boot = setup->boot;
	bool everywhere = memcmp(setup->door.bound.bytes, any, sizeof any) == 0;

	MRW_TRY(mrw_sock_listen(&boot->again_fd, everywhere ? NULL : &setup->door.bound, 0, &boot->again_bound));
	memcpy(setup->self.again_port_be, boot->again_bound.port_be, sizeof setup->self.again_port_be);
	return MARROW_SUCCESS;
}

enum marrow_status mrw_boot_meet(struct mrw_boot *boot, const struct mrw_boot_id *id, const char *ifname)
{
	struct mrw_setup setup = {.boot = boot, .id = id, .ifname = ifname ? ifname : "", .door.fd = -1};
	enum marrow_status status;
	struct mrw_addr bound;
	uint64_t swap_name, until_ms;
	int fd;

	setup.deadline_ms = mrw_boot_now_ms() + boot->timeout_ms;
	setup.is_root = mrw_boot_id_claim(id->key, &fd, &bound);
	if (setup.is_root) {
		setup.root_rank = boot->rank;
		status = mrw_door_open(&setup.door, fd, &bound, id->key);
		if (status != MARROW_SUCCESS)
			goto fail;
		MRW_TRY_GOTO(listen_again(&setup));
	}
	setup.self.pid_le = htole32((uint32_t)boot->pid);
	gethostname(setup.self.host, sizeof setup.self.host - 1);
	MRW_TRY_GOTO(mrw_boot_swap_open(boot, &swap_name));
	setup.self.swap_le = htole64(swap_name);
	setup.ncontrols = setup.is_root ? boot->nranks : 1;
	setup.controls = calloc(setup.ncontrols, sizeof *setup.controls);
	if (!setup.controls) {
		setup.ncontrols = 0;
		status = mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for the bootstrap");
		goto fail;
	}
	for (uint32_t i = 0; i < setup.ncontrols; i++)
		setup.controls[i].conn.fd = -1;
	status = setup.is_root ? mrw_root_run(&setup) : mrw_join_run(&setup);
	for (uint32_t i = 0; i < setup.ncontrols; i++) {
		boot->met.messages += setup.controls[i].conn.frames;
		boot->met.bytes += setup.controls[i].conn.bytes;
		boot->met.links_meeting += setup.controls[i].conn.fd >= 0;
	}
	boot->root_rank = setup.root_rank;
	boot->root_addr = setup.root_addr;
	if (!setup.is_root && status == MARROW_SUCCESS) { /* its door stays open */
		boot->again_fd = setup.door.fd;
		boot->again_bound = setup.door.bound;
		setup.door.fd = -1;
	}
fail:
	for (uint32_t i = 0; i < setup.ncalls; i++)
		mrw_conn_close(&setup.calls[i].conn);
	for (uint32_t i = 0; i < setup.ncontrols; i++)
		mrw_conn_flush(&setup.controls[i].conn);
	until_ms = mrw_boot_now_ms() + SETTLE_MS;
	for (uint32_t i = 0; i < setup.ncontrols; i++) {
		mrw_conn_settle(&setup.controls[i].conn, until_ms);
		mrw_conn_close(&setup.controls[i].conn);
	}
	mrw_door_close(&setup.door);
	free(setup.calls);
	free(setup.controls);
	free(setup.table);
	free(setup.set.fds);
	for (uint32_t i = 0; i < boot->nlinks; i++)
		boot->links[i].conn.max_bytes = (size_t)1 << 40;
	return status;
}
