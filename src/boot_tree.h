/* boot_tree.h - the tree in which ranks wait for each other, by order of arrival: number k's parent is number (k - 1) / MRW_BOOT_FANOUT, the root is
 * number 0. A parent has come before its children, and watches them; they watch it.
 *
 * Whoever finds that something went wrong says who and what to all it is connected to, in the tree and by links, and fails with the same text;
 * whoever hears it does the same. Who says what, when time is up at D (R: MRW_BOOT_REPORT_MS; each step leaves those before it time to be heard):
 *   D         who is on the way to its parent: that it does not answer. A parent: which child did not take the table, and keeps it from those below
 *   D + R     the root: who has not come, or did not get to its parent. Who lacks a link: which (its neighbour may just be below one that hangs)
 *   D + 2 R   and an R more for each level below the children: a parent, which child does not say that all below it is connected
 *   then      and an R more for each level above: that the parent is silent. */
#ifndef MRW_BOOT_TREE_H
#define MRW_BOOT_TREE_H

#include "boot_conn.h"
#include "boot_door.h"

struct mrw_setup;

enum {
	MRW_BOOT_FANOUT = 8,
	MRW_BOOT_GUESTS = 32, /* on their way from the root to their parents, but for those that take long: others wait in its backlog */
	MRW_BOOT_REPORT_MS = 250
};

/* Of the name; the same wherever it is noticed. */
#define MRW_BOOT_LOST "%s closed its connection during set-up: look for its own message"

/* A connection downwards: a child, or a rank on its way from the root to its parent. */
struct mrw_below {
	struct mrw_below *next;
	struct mrw_conn conn;   /* fd -1: gone */
	uint32_t rank, place;
	bool guest;             /* at the root: has another parent, and leaves when it is there */
	bool seated;            /* has said that it stays. Before, a child may hang up and dial again: the root misses it if it does not */
	bool heard, ready;      /* has the table; all links there and below are up */
	uint64_t since_ms;
	char name[MRW_BOOT_NAME_BYTES];
};

/* The parent's place. */
uint32_t mrw_tree_parent(uint32_t place);

/* Takes conn over, of a rank that says what `member` is; NULL: no memory. */
struct mrw_below *mrw_tree_seat(struct mrw_setup *setup, uint32_t rank, uint32_t place, const struct mrw_boot_member *member, struct mrw_conn *conn);
/* The child or guest of that place; NULL: there is none. */
struct mrw_below *mrw_tree_at(struct mrw_setup *setup, uint32_t place);
/* Guests that came less than so many ms ago. */
uint32_t mrw_tree_guests(const struct mrw_setup *setup, uint64_t within_ms);
/* Forgets who is gone. */
void mrw_tree_sweep(struct mrw_setup *setup);
/* To all children and guests. */
void mrw_tree_push_down(struct mrw_setup *setup, enum mrw_frame_type type, uint64_t tag, const void *payload, size_t bytes);
/* To all children, which must be there. */
enum marrow_status mrw_tree_pass_table(struct mrw_setup *setup, const void *table, size_t bytes);
/* What a child or guest sent; that it hung up. */
enum marrow_status mrw_tree_hear(struct mrw_setup *setup, struct mrw_below *below, const struct mrw_frame *frame);
enum marrow_status mrw_tree_lost(struct mrw_setup *setup, struct mrw_below *below);
/* Before the table is there: somebody waits only so many ms more, so do we and our parent. */
void mrw_tree_hurry(struct mrw_setup *setup, uint64_t patience_ms);
/* All links of this rank and of those below it are up. */
bool mrw_tree_is_ready(const struct mrw_setup *setup);
/* Fails if time is up for something; else *until_ms: when to look again. Once the table is there, or the parent. */
enum marrow_status mrw_tree_check(struct mrw_setup *setup, uint64_t *until_ms);
/* Returns status, whose text says who it is about. */
enum marrow_status mrw_tree_named(struct mrw_setup *setup, enum marrow_status status);
/* Fails with the status and text of an error frame. */
enum marrow_status mrw_tree_fail_as_told(struct mrw_setup *setup, const struct mrw_frame *frame);
/* Tells all why this rank fails with status: its text, with this rank's name before it if it says nobody's. */
void mrw_tree_tell(struct mrw_setup *setup, enum marrow_status status);

#endif
