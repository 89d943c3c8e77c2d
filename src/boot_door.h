/* boot_door.h - a listening socket and the strangers on its doorstep.
 *
 * A stranger has MRW_BOOT_HELLO_MS to say a whole hello with the right key. Until then it costs one descriptor and
 * nothing else: all strangers are looked at in each pass, none is waited for, and when there are too many the one that has been
 * silent longest goes. Who is turned away is logged. While there is no room, others wait in the socket's backlog. */
#ifndef MRW_BOOT_DOOR_H
#define MRW_BOOT_DOOR_H

#include "boot_conn.h"
#include "boot_id.h"

enum {
	MRW_BOOT_HELLO_MS = 2000,
	MRW_BOOT_STRANGERS = 128, /* most at a time */
	MRW_BOOT_HOST_BYTES = 64,
	MRW_BOOT_NAME_BYTES = 176,
	MRW_BOOT_OWN_ADDRS = 2
};

enum mrw_hello_kind { MRW_HELLO_JOIN = 1, MRW_HELLO_LINK = 2, MRW_HELLO_CHILD = 3 };

/* What a rank says of itself, to all through the root's table. Wire format; texts are terminated. */
struct mrw_boot_member {
	uint64_t swap_le;       /* name of its socket for descriptors */
	uint32_t pid_le;
	struct mrw_addr addrs[MRW_BOOT_OWN_ADDRS]; /* where it listens, to be tried in order; family 0: none */
	char host[MRW_BOOT_HOST_BYTES];
	uint8_t again_port_be[2]; /* where it listens as long as it lives, for ranks that meet again: mrw_boot_make_again_id() */
	uint8_t reserved[2];
};
_Static_assert(sizeof(struct mrw_boot_member) == 120, "struct mrw_boot_member is a wire format");

/* A rank's place in the tree in which all wait (boot_tree.h), and how long the root waits. Wire format. */
struct mrw_boot_place {
	uint32_t place_le, parent_rank_le, patience_ms_le, reserved_le;
	struct mrw_boot_member parent;
};
_Static_assert(sizeof(struct mrw_boot_place) == 136, "struct mrw_boot_place is a wire format");

/* All ranks, by rank, and how long they have to connect. Wire format. */
struct mrw_boot_table {
	uint32_t root_le, patience_ms_le;
	struct mrw_boot_member members[];
};
_Static_assert(sizeof(struct mrw_boot_table) == 8, "struct mrw_boot_table is a wire format");

/* First frame of a connection. Wire format. */
struct mrw_hello {
	uint32_t version_le;
	uint32_t kind_le;
	uint8_t key[MRW_BOOT_KEY_BYTES];
	uint32_t nranks_le, from_le;
	uint32_t to_le;         /* link, child: the rank that is meant */
	uint32_t patience_ms_le;/* join: how long the rank still waits */
	uint32_t pid_le;
	uint32_t without_le[2]; /* join: low and high half; bit r: ranks of an earlier communicator that are left out; the same on all */
	uint32_t place_le;      /* child: its place in the tree */
	struct mrw_boot_member member;
};
_Static_assert(sizeof(struct mrw_hello) == 176, "struct mrw_hello is a wire format");
/* What every version understands: up to and including pid_le. */
enum { MRW_HELLO_FIXED_BYTES = 44 };

struct mrw_stranger {
	struct mrw_conn conn;
	uint64_t deadline_ms;
	bool known;             /* hello is there and the key was right */
	struct mrw_hello hello;
};

struct mrw_door {
	int fd;                 /* -1: closed */
	struct mrw_addr bound;
	uint8_t key[MRW_BOOT_KEY_BYTES];
	size_t slot;
	struct mrw_stranger *strangers; /* in order of arrival */
	uint32_t nstrangers, turned_away;
	uint32_t room;          /* set by its owner: so many may come in in the next pass; at first any number */
	bool may_wait;          /* set by its owner: it will close connections soon, so that a lack of descriptors may end */
	uint64_t starved_ms;    /* since when somebody waits for a descriptor; 0: not so */
};

/* Takes the listening socket over. */
enum marrow_status mrw_door_open(struct mrw_door *door, int fd, const struct mrw_addr *bound, const uint8_t key[MRW_BOOT_KEY_BYTES]);
/* Adds what to wait for to the set and draws *deadline_ms nearer if need be. */
void mrw_door_watch(struct mrw_door *door, struct mrw_pollset *set, uint64_t *deadline_ms);
/* After the wait: accepts, reads and turns away, without blocking. */
enum marrow_status mrw_door_serve(struct mrw_door *door, const struct mrw_pollset *set);
/* Hands out one that showed the key; false: no more. */
bool mrw_door_next(struct mrw_door *door, struct mrw_conn *conn, struct mrw_hello *hello);
/* Closes conn and logs who it was. */
void mrw_door_turn_away(struct mrw_door *door, struct mrw_conn *conn, const char *why);
/* A door that was never opened is allowed if its fd is -1. */
void mrw_door_close(struct mrw_door *door);

#endif
