/* boot_setup.h - the state of one rank while the ranks meet.
 *
 * 1. Every rank but the root dials an address of the id, shows the key and says who and where it is (join). The root answers at once (welcome) with a
 *    place in a tree (boot_tree.h). Who has another parent than the root dials that one (child), and tells it and the root when it has answered
 *    (seated); then the root hangs up. So the root holds its children and those on their way, never all.
 * 2. When all have come and are with their parents, the table of all goes down the tree; each says that it has it (heard).
 * 3. Neighbours (rank +- 2^k) connect: the lower rank dials, the higher one answers (link).
 * 4. Who has all links, and heard so from all its children, tells its parent (ready); when the root is, it says go, which goes down the tree.
 *
 * Any failure up to there goes up and down the tree, and over the links there are, past a rank that is stopped: all ranks fail, with one text if one
 * thing went wrong. A rank that closes its connection is named by its parent and by its children, in the same words; on the way to its parent it is
 * watched by the root. */
#ifndef MRW_BOOT_SETUP_H
#define MRW_BOOT_SETUP_H

#include "boot.h"
#include "boot_call.h"
#include "boot_tree.h"

enum { MRW_SETUP_LINK_MS = 500 /* to connect to neighbours, at least, for ranks that have come in time */ };

struct mrw_setup {
	struct mrw_boot *boot;
	const struct mrw_boot_id *id;
	const char *ifname;
	bool is_root;
	struct mrw_boot_member self;
	struct mrw_door door;
	struct mrw_pollset set;
	uint64_t deadline_ms;
	uint64_t late_ms;       /* that this rank was woken later than it asked for: others may have been, too */
	uint64_t looked_ms;     /* until then all that has come is served: what is missing then is late. This rank may have slept since */
	uint32_t looks;         /* in a row that found something */

	uint32_t place;         /* in the tree */
	struct mrw_below *below;
	bool named;             /* the failure's text says who; else it is about this rank */

	/* Member. */
	struct mrw_conn root;   /* until the root hangs up, because we are with our parent */
	struct mrw_conn up;     /* to the parent, which may be the root */
	struct mrw_call seat;   /* to the parent, if it is not the root */
	uint32_t parent_rank, root_rank;
	struct mrw_boot_member parent;
	struct mrw_addr root_addr; /* where it met the root */
	bool welcome, seated, ready, go; /* has been told, has told twice, has been told */

	/* Root. */
	uint32_t njoined;       /* ranks that have come, itself included */
	bool *came;             /* by rank */
	uint32_t *arrived;      /* ranks by place */
	uint32_t arrivals;      /* hellos with the right key, good or bad */
	uint32_t expected;      /* arrivals there will be, by the largest number of ranks that any rank knows of */
	uint64_t left_ms;       /* until when rank left_rank, which came and gave up before it was greeted, may come again; 0: none */
	uint32_t left_rank;
	char left[MRW_BOOT_NAME_BYTES];

	struct mrw_boot_member *table; /* by rank; a member's is NULL until it hears of it */
	bool linking;
	uint64_t deaf_links;    /* bit i: link i has something for later, or is closed */
	struct mrw_call *calls;
	uint32_t ncalls;
};

/* One pass: waits until something happens or until_ms, then does what can be done. */
enum marrow_status mrw_setup_step(struct mrw_setup *setup, uint64_t until_ms);
/* Begins phase 3: the table is known. */
enum marrow_status mrw_setup_begin_links(struct mrw_setup *setup);
/* Links that are not up. */
uint32_t mrw_setup_links_missing(const struct mrw_setup *setup);
/* Fails with the links that are missing and why. */
enum marrow_status mrw_setup_fail_links(struct mrw_setup *setup);
/* The hello of this rank. */
void mrw_setup_hello(const struct mrw_setup *setup, enum mrw_hello_kind kind, uint32_t to, struct mrw_hello *hello);
/* "rank 3 (hostname, pid 1234, 10.0.0.3)" */
void mrw_setup_name(char name[MRW_BOOT_NAME_BYTES], uint32_t rank, const struct mrw_boot_member *member, const struct mrw_addr *addr);
/* Copies what a rank says of itself, its addresses only as far as they are sane; a rank that names none is at the address from which it came
 * (NULL: unknown). */
void mrw_setup_enter(struct mrw_boot_member *entry, const struct mrw_boot_member *member, const struct mrw_addr *seen);
/* Pushes the failure and closes. */
void mrw_setup_refuse(struct mrw_conn *conn, enum marrow_status status, const char *text);
/* Closes; what was sent still counts. */
void mrw_setup_hang_up(struct mrw_setup *setup, struct mrw_conn *conn);

/* boot_root.c: the root's half. */
enum marrow_status mrw_root_run(struct mrw_setup *setup);
enum marrow_status mrw_root_greet(struct mrw_setup *setup, struct mrw_conn *conn, const struct mrw_hello *hello);

/* boot_join.c: a member's half. */
enum marrow_status mrw_join_run(struct mrw_setup *setup);
enum marrow_status mrw_join_greet(struct mrw_setup *setup, struct mrw_conn *conn, const struct mrw_hello *hello);
/* What came from above, by setup->root or setup->up; that it hung up there. */
enum marrow_status mrw_join_hear(struct mrw_setup *setup, const struct mrw_conn *conn, const struct mrw_frame *frame);
enum marrow_status mrw_join_lost(struct mrw_setup *setup, struct mrw_conn *conn);
/* The parent has answered on conn, which is taken over. */
enum marrow_status mrw_join_seated(struct mrw_setup *setup, struct mrw_conn *conn);
/* Fail with the parent: it cannot be reached; it said nothing. */
enum marrow_status mrw_join_fail_seat(struct mrw_setup *setup);
enum marrow_status mrw_join_fail_silent(struct mrw_setup *setup);

#endif
