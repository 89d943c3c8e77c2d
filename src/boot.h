/* boot.h - inside a bootstrap: shared by bootstrap.c (life, exchange), boot_setup.c and what it calls (joining), boot_watch.c (notices) and
 * boot_swap.c (descriptors). */
#ifndef MRW_BOOT_H
#define MRW_BOOT_H

#include <pthread.h>
#include <sys/types.h>

#include "boot_door.h"
#include "bootstrap.h"

enum {
	MRW_BOOT_NOTICE_KINDS = 5,
	MRW_BOOT_LINKS_MAX = 2 * 32
};

/* The socket to one neighbour: rank +- 2^k. */
struct mrw_boot_link {
	uint32_t rank;
	bool down;              /* hung up; conn.fd stays open until close */
	bool said_bye;          /* the neighbour itself, here: nothing more will come */
	struct mrw_conn conn;
	struct mrw_frame *arrived; /* exchange frames, oldest first */
};

struct mrw_boot_news {
	struct mrw_boot_news *next;
	struct mrw_boot_event event;
};

/* A descriptor that came before this rank asked for it. */
struct mrw_boot_stash {
	struct mrw_boot_stash *next;
	uint32_t rank, seq;
	int fd;
};

struct mrw_boot {
	uint32_t rank, nranks;
	uint64_t timeout_ms;
	uint8_t key[MRW_BOOT_KEY_BYTES];
	pid_t pid;              /* of the process that opened it */
	struct mrw_boot_member *members;
	char (*names)[MRW_BOOT_NAME_BYTES];

	/* The lock guards all that follows. It is held for short steps only, never over a wait. While `exchanging` the exchanging
	 * thread alone reads the links. */
	pthread_mutex_t lock;
	bool exchanging;
	uint64_t exchanges;
	struct mrw_boot_link *links;
	uint32_t nlinks;
	struct mrw_boot_cost met; /* spent while the ranks met, but for links */
	uint8_t *heard;         /* a rank's notices so far: bit per kind */
	struct mrw_boot_news *news;
	bool troubled;          /* an abort, death or fault is known: no exchange can succeed */
	struct mrw_boot_event trouble;
	struct mrw_pollset set;

	int again_fd;           /* listening, served by nobody until ranks meet again; -1: none */
	struct mrw_addr again_bound;
	uint64_t without;       /* options */
	struct mrw_boot *parent; /* options; while opening */
	uint64_t parent_members;
	uint32_t root_rank;
	struct mrw_addr root_addr; /* where this rank met the root, if it was not the root itself */

	int swap_fd;
	uint32_t *swaps;        /* done so far, a rank */
	struct mrw_boot_stash *stash;
};

/* Neighbours of a rank: at distance 1, 2, 4, ... < nranks, both ways round. Returns how many. */
uint32_t mrw_boot_neighbours(uint32_t rank, uint32_t nranks, uint32_t neighbours[MRW_BOOT_LINKS_MAX]);
/* NULL: not a neighbour. */
struct mrw_boot_link *mrw_boot_link_to(struct mrw_boot *boot, uint32_t rank);
/* Fills members and names; table: nranks members. */
enum marrow_status mrw_boot_set_members(struct mrw_boot *boot, const struct mrw_boot_member *table);

/* boot_setup.c: meets all ranks; on success all links are up. */
enum marrow_status mrw_boot_meet(struct mrw_boot *boot, const struct mrw_boot_id *id, const char *ifname);

/* With the lock: begins an exchange or swap; ends it. */
enum marrow_status mrw_boot_begin_exchange(struct mrw_boot *boot);
void mrw_boot_end_exchange(struct mrw_boot *boot);
/* With the lock, which it lets go while it waits: reads and writes all links, and stops waiting when something happened there or
 * on also_fd (-1: none). until_ms 0: does not wait. */
void mrw_boot_pump(struct mrw_boot *boot, int also_fd, uint64_t until_ms);
/* With the lock: MARROW_SUCCESS, or the failure that is known by notices. */
enum marrow_status mrw_boot_check_trouble(const struct mrw_boot *boot, const char *what);
/* With the lock: notes, keeps for mrw_boot_watch() and passes on to all links but `from`. */
void mrw_boot_note(struct mrw_boot *boot, enum mrw_boot_notice notice, uint32_t rank, const char *text,
		   const struct mrw_boot_link *from);

/* boot_swap.c: the socket for descriptors. */
enum marrow_status mrw_boot_swap_open(struct mrw_boot *boot, uint64_t *name);
void mrw_boot_swap_close(struct mrw_boot *boot);

#endif
