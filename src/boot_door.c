#include "boot_door.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

enum {
	HELLO_BYTES_MAX = 4096, /* room for later versions */
	LOGGED_MAX = 16,        /* a flood is summed up */
	ACCEPTED_MAX = 64,      /* in one pass */
	STARVED_MS = 1000,      /* so long a lack of descriptors may last, if it may end */
	STARVED_PAUSE_MS = 10
};

enum marrow_status mrw_door_open(struct mrw_door *door, int fd, const struct mrw_addr *bound,
				 const uint8_t key[MRW_BOOT_KEY_BYTES])
{
	memset(door, 0, sizeof *door);
	door->fd = fd;
	door->bound = *bound;
	door->slot = SIZE_MAX;
	door->room = UINT32_MAX;
	memcpy(door->key, key, sizeof door->key);
	door->strangers = calloc(MRW_BOOT_STRANGERS, sizeof *door->strangers);
	if (!door->strangers)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for the bootstrap");
	return MARROW_SUCCESS;
}

void mrw_door_watch(struct mrw_door *door, struct mrw_pollset *set, uint64_t *deadline_ms)
{
	uint64_t again_ms = mrw_boot_now_ms() + STARVED_PAUSE_MS;

	door->slot = SIZE_MAX;
	if (door->starved_ms && again_ms < *deadline_ms)
		*deadline_ms = again_ms;
	else if (door->fd >= 0 && door->room && !door->starved_ms)
		door->slot = mrw_pollset_add(set, door->fd, POLLIN);
	for (uint32_t i = 0; i < door->nstrangers; i++) {
		struct mrw_stranger *stranger = &door->strangers[i];

		stranger->conn.slot = mrw_pollset_add(set, stranger->conn.fd, POLLIN);
		if (stranger->deadline_ms < *deadline_ms)
			*deadline_ms = stranger->deadline_ms;
	}
}

void mrw_door_turn_away(struct mrw_door *door, struct mrw_conn *conn, const char *why)
{
	char text[MRW_ADDR_TEXT_BYTES];

	if (door->turned_away++ < LOGGED_MAX)
		mrw_log(MRW_LOG_WARN, "bootstrap: dropped the connection from %s: %s",
			mrw_addr_text(&conn->peer, true, text), why);
	mrw_conn_close(conn);
}

static void remove_stranger(struct mrw_door *door, uint32_t i)
{
	door->nstrangers--;
	memmove(&door->strangers[i], &door->strangers[i + 1], (door->nstrangers - i) * sizeof *door->strangers);
}

/* Makes room: the one silent longest goes. False if there is none. */
static bool evict(struct mrw_door *door)
{
	for (uint32_t i = 0; i < door->nstrangers; i++)
		if (!door->strangers[i].known) {
			mrw_door_turn_away(door, &door->strangers[i].conn, "it was silent and its place was needed");
			remove_stranger(door, i);
			return true;
		}
	return false;
}

/* The whole difference is looked at, whatever its place. */
static bool key_fits(const uint8_t *a, const uint8_t *b)
{
	uint8_t difference = 0;

	for (int i = 0; i < MRW_BOOT_KEY_BYTES; i++)
		difference |= (uint8_t)(a[i] ^ b[i]);
	return difference == 0;
}

/* NULL: still fine. Else why it must go. */
static const char *listen_to(struct mrw_door *door, struct mrw_stranger *stranger)
{
	struct mrw_frame *frame;
	const char *why = NULL;

	switch (mrw_conn_pull(&stranger->conn, &frame)) {
	case MRW_CONN_AGAIN:
		return NULL;
	case MRW_CONN_CLOSED:
		return "it closed before it showed the key";
	case MRW_CONN_GARBAGE:
		return "it does not speak our protocol";
	case MRW_CONN_NO_MEMORY:
		return "no memory for its hello";
	case MRW_CONN_FRAME:
		break;
	}
	if (frame->type != MRW_FRAME_HELLO || frame->bytes < MRW_HELLO_FIXED_BYTES) {
		why = "it does not begin with a hello";
	} else {
		size_t bytes = frame->bytes < sizeof stranger->hello ? frame->bytes : sizeof stranger->hello;

		memcpy(&stranger->hello, frame->data, bytes);
		if (!key_fits(stranger->hello.key, door->key))
			why = "it shows another job's key";
		else if (le32toh(stranger->hello.version_le) == mrw_boot_wire_version() &&
			 frame->bytes != sizeof stranger->hello)
			why = "its hello has the wrong length";
		else
			stranger->known = true;
	}
	free(frame);
	return why;
}

static bool somebody_waits(const struct mrw_door *door)
{
	struct pollfd p = {.fd = door->fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

static enum marrow_status admit(struct mrw_door *door)
{
	for (uint32_t accepted = 0; accepted < ACCEPTED_MAX && accepted < door->room; accepted++) {
		struct mrw_stranger *stranger;
		struct mrw_addr peer;
		int fd;

		if (door->nstrangers == MRW_BOOT_STRANGERS && !evict(door))
			return MARROW_SUCCESS;
		fd = mrw_sock_accept(door->fd, &peer);
		if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
			int error = errno;

			/* accept() says so even where nobody waits: then the last one came in just so. */
			if (!somebody_waits(door)) {
				door->starved_ms = 0;
				return MARROW_SUCCESS;
			}
			/* Who came in just now has not been listened to. */
			if (door->may_wait && !door->starved_ms) {
				door->starved_ms = mrw_boot_now_ms();
				return MARROW_SUCCESS;
			}
			if (evict(door))
				continue;
			if (door->may_wait && mrw_boot_now_ms() < door->starved_ms + STARVED_MS)
				return MARROW_SUCCESS;
			errno = error;
		}
		door->starved_ms = 0;
		if (fd < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK ? MARROW_SUCCESS
								       : mrw_sock_fail("accepting a rank's connection");
		stranger = &door->strangers[door->nstrangers++];
		memset(stranger, 0, sizeof *stranger);
		mrw_conn_start(&stranger->conn, fd, &peer, HELLO_BYTES_MAX);
		stranger->deadline_ms = mrw_boot_now_ms() + MRW_BOOT_HELLO_MS;
	}
	return MARROW_SUCCESS;
}

enum marrow_status mrw_door_serve(struct mrw_door *door, const struct mrw_pollset *set)
{
	uint64_t now = mrw_boot_now_ms();

	if (door->room && (door->starved_ms || mrw_pollset_events(set, door->slot)))
		MRW_TRY(admit(door));
	for (uint32_t i = 0; i < door->nstrangers;) {
		struct mrw_stranger *stranger = &door->strangers[i];
		const char *why = NULL;

		/* A newcomer, not yet in the set, has often spoken already. */
		if (!stranger->known &&
		    (stranger->conn.slot == SIZE_MAX || mrw_pollset_events(set, stranger->conn.slot)))
			why = listen_to(door, stranger);
		if (!why && !stranger->known && now >= stranger->deadline_ms)
			why = "it did not show the key in time";
		if (why) {
			mrw_door_turn_away(door, &stranger->conn, why);
			remove_stranger(door, i);
		} else {
			i++;
		}
	}
	return MARROW_SUCCESS;
}

bool mrw_door_next(struct mrw_door *door, struct mrw_conn *conn, struct mrw_hello *hello)
{
	for (uint32_t i = 0; i < door->nstrangers; i++)
		if (door->strangers[i].known) {
			*conn = door->strangers[i].conn;
			*hello = door->strangers[i].hello;
			remove_stranger(door, i);
			return true;
		}
	return false;
}

void mrw_door_close(struct mrw_door *door)
{
	if (door->fd >= 0)
		close(door->fd);
	door->fd = -1;
	for (uint32_t i = 0; i < door->nstrangers; i++)
		mrw_conn_close(&door->strangers[i].conn);
	if (door->turned_away > LOGGED_MAX)
		mrw_log(MRW_LOG_WARN, "bootstrap: dropped %u further connections that did not belong here",
			door->turned_away - LOGGED_MAX);
	door->nstrangers = door->turned_away = 0;
	free(door->strangers);
	door->strangers = NULL;
}
