/* network.h - a communicator's way to ranks on other hosts: its NICs, the arena registered with each, one queue pair a NIC and far peer.
 *
 * Far ranks that are no peers of this one have queue pairs too: transfers go between any two ranks.
 *
 * Collective: all ranks of a communicator that spans hosts open it in the same step of init. Functions are called by the thread that
 * builds or takes apart the communicator. */
#ifndef MRW_NETWORK_H
#define MRW_NETWORK_H

#include "bootstrap.h"
#include "collectives/reach.h"
#include "device/far.h"
#include "device/runtime.h"
#include "nearest.h"
#include "proxyless/nic.h"

struct mrw_network;

/* What ranks know of each other by now. */
struct mrw_network_place {
	uint32_t rank;
	const struct mrw_reach *reach;  /* who is a peer; copied */
	uint32_t local, near_count;     /* number of this rank among those of its host, and theirs: choose the NICs */
	const char *nics;               /* config.nics */
	const char *gpus[MRW_MAX_NEAR]; /* PCI addresses of the GPUs of this host's ranks, by number; "": a target without */
	struct mrw_nearest nearest;     /* filled by mrw_network_count() */
	/* For messages: identities of rank 0's host and of the first other one, and a rank there. */
	const char *first_host, *other_host;
	uint32_t other_rank;
};

/* How NICs are used: the defaults, and what MARROW_NIC_* say. MARROW_INVALID_ARGUMENT names the variable. */
enum marrow_status mrw_network_config(struct mrw_nic_config *config);
/* How many NICs this rank may use, 1 at least, MRW_MAX_NICS at most: those nearest to its GPU (nearest.h), or, where config.nics names them, there are
 * no GPUs, or the PCI tree does not tell, those of its host shared by number. Which way and why is said at level info. */
enum marrow_status mrw_network_count(struct mrw_network_place *place, uint32_t *count);
/* Opens and proves count NICs (the same number on all ranks), registers the arena, makes queue pairs in INIT state. This rank's part only:
 * no exchange. Ranks with the same number on their hosts take NICs with the same numbers: rails. device and arena must outlive it; where
 * the target has dma-bufs (runtime.h) the arena is registered by one, else by its address. */
enum marrow_status mrw_network_open(struct mrw_network **network, const struct mrw_network_place *place, uint32_t count,
				    struct mrw_device *device, const struct mrw_arena *arena);
/* Exchanges addresses, connects, and maps the queue pairs for kernels. Every rank must call it; no rank may post before all are back and agree. */
enum marrow_status mrw_network_connect(struct mrw_network *network, struct mrw_boot *boot);
/* For kernels; valid until close. */
const struct mrw_far *mrw_network_far(const struct mrw_network *network);
/* With no kernel in flight, and none to come: waits until everything posted is executed, at most ms: MARROW_TIMEOUT; MARROW_REMOTE_ERROR: a queue
 * pair failed. text says which.
 * boot: only what peers do not know yet matters, that something failed: who has spoken there is not waited for. NULL: all are. */
enum marrow_status mrw_network_drain(struct mrw_network *network, uint64_t ms, struct mrw_boot *boot, char *text, size_t bytes);
/* NULL is fine. Before the arena goes. */
void mrw_network_close(struct mrw_network *network);

/* For properties and messages; several names with commas. */
const char *mrw_network_nic_name(const struct mrw_network *network);
uint32_t mrw_network_nics(const struct mrw_network *network);
uint32_t mrw_network_queues(const struct mrw_network *network);
/* Those of them that only transfers use. */
uint32_t mrw_network_lane_queues(const struct mrw_network *network);
uint32_t mrw_network_queue_limit(const struct mrw_network *network);
/* What one of the NICs last said of itself, NULL: all are well. Never blocks. One thread at a time: under the communicator's lock. */
const char *mrw_network_trouble(const struct mrw_network *network);
/* What a queue's failed word means. */
void mrw_network_describe(uint64_t failed, char *text, size_t bytes);

#endif
