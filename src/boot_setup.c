#include "boot_setup.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

enum {
	SETTLE_MS = 1000, /* for the last word up and down the tree */
	LATE_MS = 20,
	LATE_MAX_MS = 2000,
	LOOKS = 64
};

void mrw_setup_name(char name[MRW_BOOT_NAME_BYTES], uint32_t rank, const struct mrw_boot_member *member,
		    const struct mrw_addr *addr)
{
	char text[MRW_ADDR_TEXT_BYTES];

	snprintf(name, MRW_BOOT_NAME_BYTES, "rank %u (%.*s, pid %u, %s)", rank, MRW_BOOT_HOST_BYTES, member->host,
		 le32toh(member->pid_le), mrw_addr_text(addr, false, text));
}

void mrw_setup_enter(struct mrw_boot_member *entry, const struct mrw_boot_member *member, const struct mrw_addr *seen)
{
	*entry = *member;
	mrw_conn_copy_text(entry->host, sizeof entry->host, member->host, sizeof member->host - 1);
	for (int i = 0; i < MRW_BOOT_OWN_ADDRS; i++)
		if (entry->addrs[i].family != 4 && entry->addrs[i].family != 6)
			memset(&entry->addrs[i], 0, sizeof entry->addrs[i]);
	if (!entry->addrs[0].family && seen)
		entry->addrs[0] = *seen;
}

void mrw_setup_refuse(struct mrw_conn *conn, enum marrow_status status, const char *text)
{
	mrw_conn_push_error(conn, status, text);
	mrw_conn_close(conn);
}

void mrw_setup_hang_up(struct mrw_setup *setup, struct mrw_conn *conn)
{
	setup->boot->met.messages += conn->frames;
	setup->boot->met.bytes += conn->bytes;
	conn->frames = conn->bytes = 0;
	mrw_conn_close(conn);
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
	hello->place_le = htole32(setup->place);
	hello->member = setup->self;
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
	mrw_conn_move(&link->conn, conn);
	setup->deaf_links &= ~((uint64_t)1 << (link - boot->links));
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
	if (le32toh(hello->kind_le) == MRW_HELLO_CHILD && !setup->is_root)
		return mrw_join_greet(setup, conn, hello);
	mrw_door_turn_away(&setup->door, conn, setup->is_root ? "it takes the root for another rank" : "it takes this rank for the root");
	return MARROW_SUCCESS;
}

/* below NULL: from above. */
static enum marrow_status serve(struct mrw_setup *setup, struct mrw_conn *conn, struct mrw_below *below)
{
	struct mrw_frame *frame;
	enum marrow_status status;

	if (conn->fd < 0 || !mrw_pollset_events(&setup->set, conn->slot))
		return MARROW_SUCCESS;
	mrw_conn_flush(conn);
	while (conn->fd >= 0) {
		switch (mrw_conn_pull(conn, &frame)) {
		case MRW_CONN_AGAIN:
			return MARROW_SUCCESS;
		case MRW_CONN_FRAME:
			status = below ? mrw_tree_hear(setup, below, frame) : mrw_join_hear(setup, conn, frame);
			free(frame);
			MRW_TRY(status);
			break;
		case MRW_CONN_NO_MEMORY:
			return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for the bootstrap");
		default:
			return below ? mrw_tree_lost(setup, below) : mrw_join_lost(setup, conn);
		}
	}
	return MARROW_SUCCESS;
}

/* All but those that listen: the most there were at a time. */
static void count_sockets(struct mrw_setup *setup)
{
	struct mrw_boot *boot = setup->boot;
	uint32_t count = setup->door.nstrangers + (setup->root.fd >= 0) + (setup->up.fd >= 0) + (setup->seat.conn.fd >= 0);

	for (const struct mrw_below *below = setup->below; below; below = below->next)
		count += below->conn.fd >= 0;
	for (uint32_t i = 0; i < setup->ncalls; i++)
		count += setup->calls[i].conn.fd >= 0;
	for (uint32_t i = 0; i < boot->nlinks; i++)
		count += boot->links[i].conn.fd >= 0;
	if (count > boot->met.sockets_meeting)
		boot->met.sockets_meeting = count;
}

static void watch(struct mrw_setup *setup, struct mrw_conn *conn)
{
	conn->slot = conn->fd >= 0 ? mrw_pollset_add(&setup->set, conn->fd, mrw_conn_wants(conn)) : SIZE_MAX;
}

/* An answer that did not go at once waits for room. */
static void watch_link(struct mrw_setup *setup, uint32_t i)
{
	struct mrw_conn *link = &setup->boot->links[i].conn;
	short events = setup->deaf_links >> i & 1 ? 0 : POLLIN;

	link->slot = SIZE_MAX;
	if (link->fd < 0)
		return;
	mrw_conn_flush(link);
	if (mrw_conn_unsent(link))
		events |= POLLOUT;
	if (events)
		link->slot = mrw_pollset_add(&setup->set, link->fd, events);
}

/* A neighbour says that set-up failed, or may go already: what it says then is for later. Best effort: the tree tells the same. */
static enum marrow_status hear_link(struct mrw_setup *setup, uint32_t i)
{
	struct mrw_conn *link = &setup->boot->links[i].conn;
	struct mrw_frame *frame = NULL;
	enum marrow_status status;

	if (link->fd < 0 || setup->deaf_links >> i & 1 || !(mrw_pollset_events(&setup->set, link->slot) & ~POLLOUT))
		return MARROW_SUCCESS;
	if (mrw_conn_begins_with(link, MRW_FRAME_ERROR)) {
		if (mrw_conn_pull(link, &frame) == MRW_CONN_AGAIN)
			return MARROW_SUCCESS;
		if (frame) {
			status = mrw_tree_fail_as_told(setup, frame);
			free(frame);
			return status;
		}
	}
	setup->deaf_links |= (uint64_t)1 << i;
	return MARROW_SUCCESS;
}

/* What came while this rank was stopped is not late: time is judged as of a look that finds nothing, or of one in LOOKS, for something may come
 * without end. */
static void note_look(struct mrw_setup *setup, uint64_t now, uint64_t until_ms)
{
	bool found = false;

	for (size_t i = 0; i < setup->set.count; i++)
		found = found || setup->set.fds[i].revents;
	setup->looks = found ? setup->looks + 1 : 0;
	if (!found || setup->looks % LOOKS == 0)
		setup->looked_ms = now < until_ms ? now : until_ms;
}

static void wait_for_events(struct mrw_setup *setup, uint64_t until_ms)
{
	uint64_t now = mrw_boot_now_ms();

	if (until_ms < now)
		until_ms = now;
	mrw_pollset_wait(&setup->set, until_ms);
	now = mrw_boot_now_ms();
	note_look(setup, now, until_ms);
	if (now > until_ms + LATE_MS)
		setup->late_ms += now - until_ms;
	if (setup->late_ms > LATE_MAX_MS)
		setup->late_ms = LATE_MAX_MS;
}

enum marrow_status mrw_setup_step(struct mrw_setup *setup, uint64_t until_ms)
{
	struct mrw_hello hello;
	struct mrw_conn conn;

	mrw_tree_sweep(setup);
	setup->set.count = 0;
	mrw_door_watch(&setup->door, &setup->set, &until_ms);
	watch(setup, &setup->root);
	watch(setup, &setup->up);
	for (struct mrw_below *below = setup->below; below; below = below->next)
		watch(setup, &below->conn);
	mrw_call_watch(setup, &setup->seat, &until_ms);
	for (uint32_t i = 0; i < setup->ncalls; i++)
		mrw_call_watch(setup, &setup->calls[i], &until_ms);
	for (uint32_t i = 0; i < setup->boot->nlinks; i++)
		watch_link(setup, i);
	wait_for_events(setup, until_ms);

	MRW_TRY(mrw_door_serve(&setup->door, &setup->set));
	count_sockets(setup);
	MRW_TRY(serve(setup, &setup->up, NULL));
	MRW_TRY(serve(setup, &setup->root, NULL));
	for (struct mrw_below *below = setup->below; below; below = below->next)
		MRW_TRY(serve(setup, &below->conn, below));
	for (uint32_t i = 0; i < setup->boot->nlinks; i++)
		MRW_TRY(hear_link(setup, i));
	while (mrw_door_next(&setup->door, &conn, &hello))
		MRW_TRY(greet(setup, &conn, &hello));
	MRW_TRY(mrw_call_advance(setup, &setup->seat));
	for (uint32_t i = 0; i < setup->ncalls; i++)
		MRW_TRY(mrw_call_advance(setup, &setup->calls[i]));
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
			uint32_t rank = boot->links[i].rank;

			mrw_call_begin(&setup->calls[setup->ncalls++], &boot->links[i], rank, &setup->table[rank]);
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
	char who[MRW_ERROR_TEXT_BYTES / 2] = "", text[2 * MRW_ADDR_TEXT_BYTES];

	for (uint32_t i = 0; i < boot->nlinks; i++) {
		size_t used = strlen(who);
		const struct mrw_call *call = NULL;

		if (boot->links[i].conn.fd >= 0)
			continue;
		for (uint32_t k = 0; k < setup->ncalls; k++)
			if (setup->calls[k].link == &boot->links[i])
				call = &setup->calls[k];
		if (call)
			snprintf(who + used, sizeof who - used, "; %s did not answer %s", mrw_boot_name(boot, boot->links[i].rank),
				 mrw_call_obstacle(setup, call, text, sizeof text));
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

/* Says the last words and closes all but the links. */
static void part(struct mrw_setup *setup)
{
	struct mrw_conn *above[] = {&setup->root, &setup->up};
	uint64_t until_ms = mrw_boot_now_ms() + SETTLE_MS;

	for (uint32_t i = 0; i < setup->ncalls; i++)
		mrw_conn_close(&setup->calls[i].conn);
	mrw_conn_close(&setup->seat.conn);
	for (struct mrw_below *below = setup->below; below; below = below->next)
		mrw_conn_flush(&below->conn);
	for (int i = 0; i < 2; i++) {
		mrw_conn_settle(above[i], until_ms);
		mrw_setup_hang_up(setup, above[i]);
	}
	for (struct mrw_below *below = setup->below; below; below = below->next) {
		mrw_conn_settle(&below->conn, until_ms);
		mrw_setup_hang_up(setup, &below->conn);
	}
	mrw_tree_sweep(setup);
	mrw_door_close(&setup->door);
}

enum marrow_status mrw_boot_meet(struct mrw_boot *boot, const struct mrw_boot_id *id, const char *ifname)
{
	struct mrw_setup setup = {.boot = boot, .id = id, .ifname = ifname ? ifname : "", .door.fd = -1};
	enum marrow_status status;
	struct mrw_addr bound;
	uint64_t swap_name;
	int fd;

	mrw_conn_start(&setup.root, -1, NULL, 0);
	mrw_conn_start(&setup.up, -1, NULL, 0);
	mrw_conn_start(&setup.seat.conn, -1, NULL, 0);
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
	status = setup.is_root ? mrw_root_run(&setup) : mrw_join_run(&setup);
	boot->root_rank = setup.root_rank;
	boot->root_addr = setup.root_addr;
	if (!setup.is_root && status == MARROW_SUCCESS) { /* its door stays open */
		boot->again_fd = setup.door.fd;
		boot->again_bound = setup.door.bound;
		setup.door.fd = -1;
	}
fail:
	part(&setup);
	free(setup.calls);
	free(setup.table);
	free(setup.came);
	free(setup.arrived);
	free(setup.set.fds);
	for (uint32_t i = 0; i < boot->nlinks; i++)
		boot->links[i].conn.max_bytes = (size_t)1 << 40;
	return status;
}
