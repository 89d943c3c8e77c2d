/* order.h - the one door to the memory model: every access to a word that somebody else also touches goes through here.
 *
 * Scope is always the system (other GPUs, the host). Labels:
 *   relaxed   the word itself is atomic (8 bytes), nothing else is promised;
 *   publish   everything this thread did, and everything its team did before their last sync, is visible to whoever observes
 *             the value (release);
 *   observe   partner of publish: after a relaxed poll has seen the value, mrw_observed() once makes the publisher's writes
 *             visible to this thread, and to its team after their next sync (acquire).
 *   ordered   a read-modify-write that does both: what came before one on a word is visible after a later one on it.
 *   device    the partner is a NIC: it sees the 4 bytes (or, at a doorbell, acts on them) after everything before. A NIC's writes are
 *             observed by an acquire load of the word it writes last.
 * mrw_observed() is an acquire load of the same word on both targets: ThreadSanitizer does not understand fences, and on the GPU
 * a system fence would also wait for this SM's own remote stores (1.5 us). Polling relaxed is 0.6 us a hop faster there. */
#ifndef MRW_ORDER_H
#define MRW_ORDER_H

#include "target.h"

/* 16 bytes that travel together: two units of 32-bit data (low) + 32-bit flag (high). Only each 8-byte unit is atomic. */
struct mrw_packet {
	uint64_t unit[2];
};

#if MRW_ON_CUDA
#include "order_cuda.h"
#else
#include "order_host.h"
#endif

#endif
