/* boot_setup.h - the state of one rank while the ranks meet.
 *
 * 1. Every rank but the root dials an address of the id, shows the key and says who and where it is (join). The root answers
 *    with welcome at once, and when all are there with a table: that rank as the root sees it, and its neighbours.
 * 2. Neighbours (rank +- 2^k) connect: the lower rank dials, the higher one answers (link).
 * 3. Who has all links tells the root (ready); when all are, the root says go.
 * Any failure up to there goes to the root, which tells it to everybody: all ranks fail with one text. */
#ifndef MRW_BOOT_SETUP_H
#define MRW_BOOT_SETUP_H

#include "boot.h"

/* A link that this rank dials. */
struct mrw_call {
	struct mrw_boot_link *link;
	struct mrw_conn conn;
	enum { MRW_CALL_IDLE, MRW_CALL_DIALLING, MRW_CALL_ASKING, MRW_CALL_DONE } state;
	uint32_t tries;
	uint64_t next_ms;       /* idle: when to dial; else when to give this try up */
	int error;              /* errno of the last try */
};

/* The connection between root and member. */
struct mrw_control {
	struct mrw_conn conn;
	uint32_t rank;          /* at the other end; unknown to a member before the table */
	bool ready;
};

struct mrw_setup {
	struct mrw_boot *boot;
	const struct mrw_boot_id *id;
	const char *ifname;
	bool is_root;
	struct mrw_boot_member self;
	struct mrw_door door;
	struct mrw_pollset set;
	uint64_t deadline_ms;

	struct mrw_control *controls; /* root: by rank, its own unused; member: one */
	uint32_t ncontrols;
	uint32_t njoined;       /* root: ranks present, itself included */
	uint32_t arrivals;      /* root: hellos with the right key, good or bad */
	uint64_t left_ms;       /* root: until when rank left_rank, which came and gave up before it was greeted, may come again; 0: none */
	uint32_t left_rank;
	char left[MRW_BOOT_NAME_BYTES];
	uint32_t expected;      /* root: arrivals there will be, by the largest number of ranks that any rank knows of */
	struct mrw_boot_member *table; /* by rank; NULL until known. Member: zeros but for itself and its neighbours */
	uint32_t root_rank;
	struct mrw_addr root_addr; /* member: where it met the root */
	bool welcome, go;       /* member: has been told */

	bool linking;
	struct mrw_call *calls;
	uint32_t ncalls;
};

/* One pass: waits until something happens or until_ms, then does what can be done. */
enum marrow_status mrw_setup_step(struct mrw_setup *setup, uint64_t until_ms);
/* Begins phase 2: the table is known. */
enum marrow_status mrw_setup_begin_links(struct mrw_setup *setup);
/* Links that are not up. */
uint32_t mrw_setup_links_missing(const struct mrw_setup *setup);
/* Fails with the links that are missing and why. */
enum marrow_status mrw_setup_fail_links(struct mrw_setup *setup);
/* The hello of this rank. */
void mrw_setup_hello(const struct mrw_setup *setup, enum mrw_hello_kind kind, uint32_t to, struct mrw_hello *hello);
/* "rank 3 (hostname, pid 1234, 10.0.0.3)" */
void mrw_setup_name(char name[MRW_BOOT_NAME_BYTES], uint32_t rank, const struct mrw_boot_member *member, const struct mrw_addr *addr);

/* boot_root.c: the root's half. */
enum marrow_status mrw_root_run(struct mrw_setup *setup);
enum marrow_status mrw_root_greet(struct mrw_setup *setup, struct mrw_conn *conn, const struct mrw_hello *hello);
enum marrow_status mrw_root_hear(struct mrw_setup *setup, struct mrw_control *control, const struct mrw_frame *frame);
enum marrow_status mrw_root_lost(struct mrw_setup *setup, struct mrw_control *control);

/* boot_join.c: a member's half. */
enum marrow_status mrw_join_run(struct mrw_setup *setup);
enum marrow_status mrw_join_hear(struct mrw_setup *setup, const struct mrw_frame *frame);
enum marrow_status mrw_join_lost(struct mrw_setup *setup);

#endif
