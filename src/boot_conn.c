#include "boot_conn.h"

#include <endian.h>
#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"

struct frame_header {
	uint32_t magic_le, type_le;
	uint64_t tag_le, bytes_le;
};
_Static_assert(sizeof(struct frame_header) == MRW_FRAME_HEADER_BYTES, "frame header is a wire format");

enum {
	FRAME_MAGIC = 0x4657524d, /* "MRWF" */
	SETTLE_PAUSE_MS = 2
};

void mrw_conn_start(struct mrw_conn *conn, int fd, const struct mrw_addr *peer, size_t max_bytes)
{
	memset(conn, 0, sizeof *conn);
	conn->fd = fd;
	conn->max_bytes = max_bytes;
	conn->slot = SIZE_MAX;
	if (peer)
		conn->peer = *peer;
}

void mrw_conn_move(struct mrw_conn *to, struct mrw_conn *from)
{
	*to = *from;
	mrw_conn_start(from, -1, NULL, 0);
}

bool mrw_conn_push(struct mrw_conn *conn, enum mrw_frame_type type, uint64_t tag, const void *payload, size_t bytes)
{
	struct frame_header header = {htole32(FRAME_MAGIC), htole32(type), htole64(tag), htole64(bytes)};
	struct mrw_frame *frame, **last = &conn->out;

	if (bytes > SIZE_MAX / 2 || !(frame = malloc(sizeof *frame + sizeof header + bytes)))
		return false;
	*frame = (struct mrw_frame){.type = type, .tag = tag, .bytes = sizeof header + bytes};
	memcpy(frame->data, &header, sizeof header);
	if (bytes)
		memcpy(frame->data + sizeof header, payload, bytes);
	while (*last)
		last = &(*last)->next;
	*last = frame;
	conn->frames++;
	conn->bytes += frame->bytes;
	mrw_conn_flush(conn);
	return true;
}

static void discard(struct mrw_frame **list)
{
	for (struct mrw_frame *next; *list; *list = next) {
		next = (*list)->next;
		free(*list);
	}
}

void mrw_conn_flush(struct mrw_conn *conn)
{
	while (conn->out && conn->fd >= 0) {
		struct mrw_frame *frame = conn->out;
		ssize_t sent = send(conn->fd, frame->data + frame->moved, frame->bytes - frame->moved, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOTCONN))
			return;
		if (sent < 0) {
			discard(&conn->out);
			return;
		}
		frame->moved += (size_t)sent;
		if (frame->moved == frame->bytes) {
			conn->out = frame->next;
			free(frame);
		}
	}
}

/* MRW_CONN_FRAME: all bytes are there. */
static enum mrw_conn_result fill(int fd, uint8_t *data, size_t bytes, size_t *moved)
{
	while (*moved < bytes) {
		ssize_t got = recv(fd, data + *moved, bytes - *moved, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN))
			return MRW_CONN_AGAIN;
		if (got <= 0)
			return MRW_CONN_CLOSED;
		*moved += (size_t)got;
	}
	return MRW_CONN_FRAME;
}

enum mrw_conn_result mrw_conn_pull(struct mrw_conn *conn, struct mrw_frame **frame)
{
	struct frame_header header;
	enum mrw_conn_result result;

	*frame = NULL;
	if (!conn->in) {
		result = fill(conn->fd, conn->header, sizeof conn->header, &conn->header_moved);
		memcpy(&header, conn->header, sizeof header);
		if (conn->header_moved >= 4 && le32toh(header.magic_le) != FRAME_MAGIC)
			return MRW_CONN_GARBAGE;
		if (result != MRW_CONN_FRAME)
			return result;
		if (le64toh(header.bytes_le) > conn->max_bytes)
			return MRW_CONN_GARBAGE;
		conn->in = malloc(sizeof *conn->in + (size_t)le64toh(header.bytes_le));
		if (!conn->in)
			return MRW_CONN_NO_MEMORY;
		*conn->in = (struct mrw_frame){.type = le32toh(header.type_le),
					       .tag = le64toh(header.tag_le),
					       .bytes = (size_t)le64toh(header.bytes_le)};
	}
	result = fill(conn->fd, conn->in->data, conn->in->bytes, &conn->in->moved);
	if (result != MRW_CONN_FRAME)
		return result;
	*frame = conn->in;
	conn->in = NULL;
	conn->header_moved = 0;
	return MRW_CONN_FRAME;
}

bool mrw_conn_begins_with(const struct mrw_conn *conn, enum mrw_frame_type type)
{
	struct frame_header header;

	if (conn->in)
		return conn->in->type == (uint32_t)type;
	if (conn->header_moved) /* a part of it, which this has seen before */
		return true;
	return recv(conn->fd, &header, sizeof header, MSG_PEEK | MSG_DONTWAIT) == sizeof header && le32toh(header.type_le) == (uint32_t)type;
}

void mrw_conn_drop(struct mrw_conn *conn)
{
	if (conn->fd >= 0)
		close(conn->fd);
	conn->fd = -1;
	discard(&conn->out);
	free(conn->in);
	conn->in = NULL;
}

/* False: the peer hung up. */
static bool drain(int fd)
{
	uint8_t rest[4096];

	for (int i = 0; i < 256; i++) {
		ssize_t got = recv(fd, rest, sizeof rest, MSG_DONTWAIT);

		if (got <= 0)
			return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
	}
	return true;
}

void mrw_conn_settle(struct mrw_conn *conn, uint64_t until_ms)
{
	int held;

	while (conn->fd >= 0) {
		mrw_conn_flush(conn);
		if (!conn->out && (ioctl(conn->fd, SIOCOUTQNSD, &held) || !held))
			return;
		if (!drain(conn->fd) || mrw_boot_now_ms() >= until_ms)
			return;
		poll(NULL, 0, SETTLE_PAUSE_MS);
	}
}

void mrw_conn_close(struct mrw_conn *conn)
{
	if (conn->fd >= 0) {
		mrw_conn_flush(conn);
		drain(conn->fd);
		shutdown(conn->fd, SHUT_WR);
	}
	mrw_conn_drop(conn);
}

bool mrw_conn_is_over(const struct mrw_conn *conn)
{
	uint8_t byte;
	ssize_t got = recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

void mrw_conn_push_error(struct mrw_conn *conn, enum marrow_status status, const char *text)
{
	mrw_conn_push(conn, MRW_FRAME_ERROR, status, text, strlen(text));
}

enum marrow_status mrw_conn_fail_as_told(const struct mrw_frame *frame)
{
	char text[MRW_ERROR_TEXT_BYTES];
	bool known = frame->tag > MARROW_SUCCESS && frame->tag <= MARROW_INTERNAL_ERROR;

	mrw_conn_copy_text(text, sizeof text, frame->data, frame->bytes);
	return mrw_fail(known ? (enum marrow_status)frame->tag : MARROW_REMOTE_ERROR, "%s", text);
}

void mrw_conn_copy_text(char *text, size_t room, const void *from, size_t bytes)
{
	const uint8_t *byte = from;
	size_t i;

	for (i = 0; i + 1 < room && i < bytes && byte[i]; i++)
		text[i] = (char)(byte[i] >= ' ' && byte[i] < 0x7f ? byte[i] : '?');
	text[i] = '\0';
	mrw_text_end(text, room, i < bytes && byte[i] ? bytes : i);
}
