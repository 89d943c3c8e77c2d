/* boot_call.h - a connection that this rank dials while the ranks meet: to a neighbour, or to its parent in the tree. An address that does not
 * answer is tried again, after the rank's other one, until the deadline. */
#ifndef MRW_BOOT_CALL_H
#define MRW_BOOT_CALL_H

#include "boot_conn.h"
#include "boot_door.h"

struct mrw_setup;
struct mrw_boot_link;

struct mrw_call {
	struct mrw_boot_link *link; /* NULL: the parent */
	uint32_t rank;          /* who is called, and what it says of itself */
	const struct mrw_boot_member *member;
	struct mrw_conn conn;
	enum { MRW_CALL_NONE, MRW_CALL_IDLE, MRW_CALL_DIALLING, MRW_CALL_ASKING, MRW_CALL_DONE } state;
	uint32_t tries;
	uint64_t next_ms;       /* idle: when to dial; else when to give this try up */
	int error;              /* errno of the last try */
};

/* link NULL: to the parent. */
void mrw_call_begin(struct mrw_call *call, struct mrw_boot_link *link, uint32_t rank, const struct mrw_boot_member *member);
/* Adds what to wait for to the set and draws *until_ms nearer if need be. */
void mrw_call_watch(struct mrw_setup *setup, struct mrw_call *call, uint64_t *until_ms);
/* After the wait. Done: the link is up, or mrw_join_seated() was called; conn is none then. */
enum marrow_status mrw_call_advance(struct mrw_setup *setup, struct mrw_call *call);
/* "at 10.0.0.3:5000 (Connection refused)": who did not answer where, and why. Returns text. */
char *mrw_call_obstacle(const struct mrw_setup *setup, const struct mrw_call *call, char *text, size_t room);

#endif
