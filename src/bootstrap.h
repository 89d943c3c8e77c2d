/* bootstrap.h - ranks find each other over TCP, exchange small blocks, and notice when one of them goes.
 *
 * The id holds: magic, wire version, 16-byte random key, and the root's address(es). The root is whichever rank of the process
 * that made the id enters first; each rank dials it, it checks key, version, size and rank, and answers with a place in a tree of ranks, by
 * which failures and at last a table of all ranks are told. Then every rank connects to its neighbours (r +- 2^k) mod n and holds sockets to these
 * only; all-gather and barrier run over them in ceil(log2 n) rounds (dissemination). A rank sends O(log n) messages, the root a short one to each
 * besides; while they meet none holds more than its neighbours' sockets and, as a rule, a fixed number of others. No thread is started; after open nothing runs
 * unless called.
 * A connection that does not show the key within 2 s is dropped and logged; it neither joins nor stalls anything.
 * The key travels in the clear: it keeps out accidents, scanners and other jobs, not someone who reads the wire.
 *
 * Threads: one bootstrap is used by one thread at a time, but mrw_boot_watch() and mrw_boot_tell() may run beside
 * each other (they lock) once set-up is over. All sockets and files are CLOEXEC. */
#ifndef MRW_BOOTSTRAP_H
#define MRW_BOOTSTRAP_H

#include <marrow/types.h>
#include <stdbool.h>

#include "base/error.h"

struct mrw_boot;

struct mrw_boot_options {
	uint64_t timeout_ms;   /* for open and for each exchange */
	const char *ifname;    /* "" any; prefix; "=exact" */
	uint64_t without;      /* of mrw_boot_make_again_id(), else 0: ranks that differ in it are told so */
	struct mrw_boot *parent; /* where the ranks met before, or NULL: that one of `members` (bit r: its rank r) is gone from there ends the wait for it */
	uint64_t members;
};

/* Chooses an interface (ifname; default: first non-loopback up one with an address, else loopback), listens on it, fills id.
 * The socket waits in a process-wide table, keyed by the id's key, for the rank that becomes root. */
enum marrow_status mrw_boot_make_id(struct marrow_unique_id *id, const char *ifname);
/* An id for marrow_comm_init_env(): the key is derived from the text "host:port", which all ranks must spell alike, and the job's name ("": none);
 * rank 0 also listens there, on all addresses. Such a key is no more secret than the job's name. The number of ranks is left out of it, so that ranks
 * that disagree about it are told so instead of being dropped as strangers. The others keep trying until rank 0 is there. */
enum marrow_status mrw_boot_make_env_id(struct marrow_unique_id *id, const char *host_port, const char *job, bool listen);

/* Closes the socket that waits behind an id, if it was made here: nobody will join. */
void mrw_boot_drop_id(const struct marrow_unique_id *id);

/* An id under which the ranks of boot but those in without (bit r: rank r, not this one) meet again, whatever became of the others and of the
 * links: each makes the same one by itself, and the first of them has listened since boot was opened. Open it with the same `without`; drop it if it
 * is not opened. */
enum marrow_status mrw_boot_make_again_id(struct mrw_boot *boot, uint64_t without, struct marrow_unique_id *id);
/* Is rank known to have left or died? Looks at the sockets. */
bool mrw_boot_is_gone(struct mrw_boot *boot, uint32_t rank);
/* That, or has it said that it aborted or failed? Then it needs no telling. */
bool mrw_boot_has_spoken(struct mrw_boot *boot, uint32_t rank);

/* Joins. The error names the rank(s) and address(es) missing at the timeout, a duplicate rank, different n, version or
 * a foreign or truncated id. On failure *boot is NULL, and all ranks that have come so far fail, with the same text where one thing went wrong; the
 * shortest timeout of any rank counts. */
enum marrow_status mrw_boot_open(struct mrw_boot **boot, const struct marrow_unique_id *id, uint32_t rank, uint32_t nranks,
				 const struct mrw_boot_options *options);
/* all: nranks blocks of bytes, block r from rank r; mine may be that block. Once a rank is known to be dead, at fault or aborted,
 * exchanges fail with MARROW_REMOTE_ERROR; a rank that fails alone (deadline, unequal bytes) tells the others as FAULT. */
enum marrow_status mrw_boot_allgather(struct mrw_boot *boot, const void *mine, void *all, size_t bytes);
enum marrow_status mrw_boot_barrier(struct mrw_boot *boot);

/* Passes one file descriptor to each rank in peers[] (all on this machine, other processes) and receives one from each, over
 * abstract Unix sockets with random names that the root's table holds; sender's user and the key are checked. received[i]
 * belongs to the caller. peers[] must be symmetric. */
enum marrow_status mrw_boot_swap_fds(struct mrw_boot *boot, const uint32_t *peers, uint32_t npeers, int fd, int *received);

/* What a rank says to all others; travels by gossip over the log n sockets: each rank that reads a new notice passes it on. */
enum mrw_boot_notice { MRW_NOTICE_NONE, MRW_NOTICE_BYE, MRW_NOTICE_ABORT, MRW_NOTICE_DEAD, MRW_NOTICE_FAULT };
struct mrw_boot_event {
	enum mrw_boot_notice notice;
	uint32_t rank;           /* whom it is about */
	char text[MRW_ERROR_TEXT_BYTES]; /* DEAD: "closed its connection"; FAULT: that rank's words */
};
/* Sends a notice about this rank; best effort, never blocks. */
void mrw_boot_tell(struct mrw_boot *boot, enum mrw_boot_notice notice, const char *text);
/* Looks at the sockets without blocking. true: *event holds a notice not yet returned (BYE is returned too); a peer that hung up
 * without BYE gives DEAD. Call until false. While another thread exchanges, that thread reads and this returns what it found.
 * A child forked without exec holds its parent's sockets open: the parent's death shows only when the child is gone too. */
bool mrw_boot_watch(struct mrw_boot *boot, struct mrw_boot_event *event);
/* "rank 3 (hostname, pid 1234, 10.0.0.3)", or "rank 3" of one not known yet: names a rank for messages; static per boot. */
const char *mrw_boot_name(const struct mrw_boot *boot, uint32_t rank);
/* What this rank has spent so far: sent, opened. Sockets that listen are not counted. */
struct mrw_boot_cost {
	uint64_t messages, bytes; /* exchanges included */
	uint32_t rounds;          /* of one exchange */
	uint32_t links;           /* sockets it keeps */
	uint32_t sockets_meeting; /* the most it had at a time while the ranks met, those included */
};
void mrw_boot_get_cost(const struct mrw_boot *boot, struct mrw_boot_cost *cost);
/* NULL is allowed. Says nothing: tell BYE first if the leave is orderly. Waits up to 2 s for peers that have not yet taken what
 * they were sent (a large block of an exchange); otherwise at once. In a forked child it leaves the parent's links alone. */
void mrw_boot_close(struct mrw_boot *boot);

#endif
