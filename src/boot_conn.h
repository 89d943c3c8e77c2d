/* boot_conn.h - a connection that carries frames, without ever blocking.
 *
 * Frame: 24 bytes of header {magic, type, tag, payload bytes}, little-endian, then the payload. The header, the first
 * MRW_HELLO_FIXED_BYTES of a hello and the error frame keep their form in all wire versions. */
#ifndef MRW_BOOT_CONN_H
#define MRW_BOOT_CONN_H

#include "boot_socket.h"

enum mrw_frame_type {
	MRW_FRAME_HELLO = 1,   /* first frame of a connection, by the side that dialled */
	MRW_FRAME_WELCOME = 2, /* root to a rank: struct mrw_boot_place */
	MRW_FRAME_TABLE = 3,   /* to a child in the tree: struct mrw_boot_table */
	MRW_FRAME_LINKED = 4,  /* answer to a neighbour's or child's hello; tag: the answering rank */
	MRW_FRAME_READY = 5,   /* to the parent: all links of mine and of those below me are up */
	MRW_FRAME_GO = 6,      /* to a child: everybody is ready */
	MRW_FRAME_ERROR = 7,   /* set-up failed; tag: status, payload: text that says who */
	MRW_FRAME_EXCHANGE = 8,/* tag: exchange number << 8 | round */
	MRW_FRAME_NOTICE = 9,  /* tag: kind << 32 | rank, payload: text */
	MRW_FRAME_SEATED = 10, /* to the parent and the root: I stay with my parent. Tag: ms that I still wait; again when somebody below waits less */
	MRW_FRAME_HEARD = 11   /* to the parent: the table is here */
};

struct mrw_frame {
	struct mrw_frame *next;
	uint32_t type;
	uint64_t tag;
	size_t bytes, moved;    /* bytes of data[], and how many of them have been sent or received */
	uint8_t data[];
};

enum { MRW_FRAME_HEADER_BYTES = 24 };

struct mrw_conn {
	int fd;                 /* -1: none */
	struct mrw_addr peer;
	size_t max_bytes;       /* a longer payload is garbage */
	size_t slot;            /* in the poll set of the current pass */
	uint8_t header[MRW_FRAME_HEADER_BYTES];
	size_t header_moved;
	struct mrw_frame *in;   /* being received */
	struct mrw_frame *out;  /* to be sent, first first; data[] begins with the header */
	uint64_t frames, bytes; /* pushed so far */
};

enum mrw_conn_result {
	MRW_CONN_AGAIN,         /* nothing more now */
	MRW_CONN_FRAME,
	MRW_CONN_CLOSED,        /* by the peer, or the connection failed */
	MRW_CONN_GARBAGE,       /* not our protocol, or too long */
	MRW_CONN_NO_MEMORY
};

/* Takes fd over. */
void mrw_conn_start(struct mrw_conn *conn, int fd, const struct mrw_addr *peer, size_t max_bytes);
/* With all that is under way; `from` is none then. */
void mrw_conn_move(struct mrw_conn *to, struct mrw_conn *from);
/* Queues a copy of the frame and sends what goes at once. False without memory. A broken connection is noticed when reading. */
bool mrw_conn_push(struct mrw_conn *conn, enum mrw_frame_type type, uint64_t tag, const void *payload, size_t bytes);
/* Sends what goes without blocking. */
void mrw_conn_flush(struct mrw_conn *conn);
static inline bool mrw_conn_unsent(const struct mrw_conn *conn) { return conn->out != NULL; }
/* Reads without blocking, at most one frame, which then belongs to the caller (free()). */
enum mrw_conn_result mrw_conn_pull(struct mrw_conn *conn, struct mrw_frame **frame);
/* Is a frame of that type being read, or the next one to read? Reads nothing. */
bool mrw_conn_begins_with(const struct mrw_conn *conn, enum mrw_frame_type type);
/* What to wait for. */
static inline short mrw_conn_wants(const struct mrw_conn *conn) { return (short)(conn->out ? POLLIN | POLLOUT : POLLIN); }
/* Closes so that what the kernel has put on the wire arrives: reads what is left first, for a close with unread data resets the
 * connection. What the kernel still holds is lost if the peer speaks afterwards: settle first where that matters. */
void mrw_conn_close(struct mrw_conn *conn);
/* Waits until all that was pushed is on the wire, the peer hung up, or the deadline passed; discards what arrives. */
void mrw_conn_settle(struct mrw_conn *conn, uint64_t until_ms);
/* Forgets the connection without a word to the peer: for a forked child. */
void mrw_conn_drop(struct mrw_conn *conn);
/* The peer has hung up, and all it said was read. */
bool mrw_conn_is_over(const struct mrw_conn *conn);
/* Pushes an error frame. */
void mrw_conn_push_error(struct mrw_conn *conn, enum marrow_status status, const char *text);
/* Fails with the status and text of an error frame. */
enum marrow_status mrw_conn_fail_as_told(const struct mrw_frame *frame);
/* Copies text from a peer: bounded (mrw_text_end()), terminated, printable. */
void mrw_conn_copy_text(char *text, size_t room, const void *from, size_t bytes);

#endif
