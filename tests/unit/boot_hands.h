/* boot_hands.h - a rank that a test of the bootstrap plays by hand, frame by frame. */
#ifndef BOOT_HANDS_H
#define BOOT_HANDS_H

#include "boot_parts.h"

#include <endian.h>

#include "boot_setup.h"

/* Where nobody listens; any port of this host. */
static const struct mrw_addr nowhere = {.family = 4, .port_be = {0, 1}, .bytes = {127, 0, 0, 1}};
static const struct mrw_addr anywhere = {.family = 4, .bytes = {127, 0, 0, 1}};

/* Dials and says hello, as rank `rank` of part 0's id. to, place: of a child. */
static inline void hand_hello(struct mrw_conn *conn, const struct mrw_addr *there, enum mrw_hello_kind kind, uint32_t rank, uint32_t nranks,
			      uint32_t to, uint32_t place, uint32_t patience_ms, const struct mrw_addr *own)
{
	struct mrw_boot_id id;
	struct mrw_hello hello = {.version_le = htole32(MRW_BOOT_WIRE_VERSION),
				  .kind_le = htole32(kind),
				  .nranks_le = htole32(nranks),
				  .from_le = htole32(rank),
				  .to_le = htole32(to),
				  .place_le = htole32(place),
				  .patience_ms_le = htole32(patience_ms),
				  .member = {.host = "byhand", .addrs = {*own}}};

	assert_int_equal(mrw_boot_id_decode(&id, &parts[0].id), MARROW_SUCCESS);
	memcpy(hello.key, id.key, sizeof hello.key);
	mrw_conn_start(conn, mrw_sock_dial(there ? there : &id.addrs[0]), NULL, 1 << 20);
	assert_true(conn->fd >= 0);
	assert_true(mrw_conn_push(conn, MRW_FRAME_HELLO, 0, &hello, sizeof hello));
}

static inline void hand_join(struct mrw_conn *conn, uint32_t rank, uint32_t nranks, const struct mrw_addr *own)
{
	hand_hello(conn, NULL, MRW_HELLO_JOIN, rank, nranks, 0, 0, TIMEOUT_MS, own);
}

/* The next frame, to be freed; NULL: hung up, or nothing within ms. */
static inline struct mrw_frame *hand_hear(struct mrw_conn *conn, uint64_t ms)
{
	uint64_t until_ms = mrw_boot_now_ms() + ms;
	enum mrw_conn_result result;
	struct mrw_frame *frame;

	do {
		mrw_conn_flush(conn);
		result = mrw_conn_pull(conn, &frame);
		if (result == MRW_CONN_AGAIN)
			sleep_ms(1);
	} while (result == MRW_CONN_AGAIN && mrw_boot_now_ms() < until_ms);
	return result == MRW_CONN_FRAME ? frame : NULL;
}

/* True: the next frame is of that type. */
static inline bool hand_hears(struct mrw_conn *conn, enum mrw_frame_type type, uint64_t ms)
{
	struct mrw_frame *frame = hand_hear(conn, ms);
	bool is = frame && frame->type == type;

	free(frame);
	return is;
}

/* Joins as child of the root, takes the table, and then does nothing until the root hangs up. */
struct idler {
	struct mrw_conn conn;
	pthread_t thread;
};

static inline void *idle(void *argument)
{
	struct idler *idler = argument;
	struct mrw_frame *frame;

	while ((frame = hand_hear(&idler->conn, 2 * TIMEOUT_MS))) {
		if (frame->type == MRW_FRAME_WELCOME)
			mrw_conn_push(&idler->conn, MRW_FRAME_SEATED, TIMEOUT_MS, NULL, 0);
		if (frame->type == MRW_FRAME_TABLE)
			mrw_conn_push(&idler->conn, MRW_FRAME_HEARD, 0, NULL, 0);
		free(frame);
	}
	mrw_conn_close(&idler->conn);
	return NULL;
}

static inline void begin_idler(struct idler *idler, uint32_t rank, uint32_t nranks, const struct mrw_addr *own)
{
	hand_join(&idler->conn, rank, nranks, own);
	assert_int_equal(pthread_create(&idler->thread, NULL, idle, idler), 0);
}

#endif
