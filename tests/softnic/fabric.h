/* fabric.h - what all processes of an emulation share: hosts, their NICs, the processes themselves, and the links between them.
 *
 * A fabric is a directory in /dev/shm: the file "fabric" (struct sn_fabric and the links; sparse) and the trees of fake sysfs.
 * `marrow-softnic run` makes one and names it in MARROW_SOFTNIC_FABRIC; a process that is preloaded without that variable makes
 * one for itself alone. Whoever made it removes it; what a killed maker left is removed by the next one.
 *
 * Every process that has opened a device holds a POSIX record lock on the byte of its number: the kernel drops it however the
 * process ends, so sn_fabric_alive() needs no help from the dead. */
#ifndef SN_FABRIC_H
#define SN_FABRIC_H

#include "check.h"
#include "link.h"

#include <stdbool.h>

enum {
	SN_HOSTS_MAX = 64,
	SN_CARDS_MAX = 64,         /* NICs of all hosts */
	SN_PROCESSES_MAX = 64,
	SN_HOST_ID_BYTES = 64,
	SN_GIDS = 4,               /* 0, 1: link local as RoCE v1, v2; 2, 3: IPv4-mapped as v1, v2 */
	SN_QP_STATS_MAX = 4096,
	SN_OPCODES = 0x30,
};

enum sn_link_layer { SN_ETHERNET, SN_INFINIBAND };

/* A NIC as the world sees it. */
struct sn_card {
	uint32_t host, index;      /* host number, number within the host */
	uint32_t lid;              /* InfiniBand */
	_Atomic uint32_t down;     /* it has vanished: answers nobody */
	uint8_t mac[6];
	uint8_t guid[8];
	uint8_t gid[SN_GIDS][16];
};

/* Counters of a queue pair, kept here so that they outlive a crash. Written by the process that owns it, read by anyone. */
struct sn_qp_stats {
	uint32_t used;             /* 1 in use, 2 already written out */
	uint32_t process, card, qpn, peer_card, peer_qpn, rank;
	_Atomic uint64_t doorbells, completions, error_completions, resends;
	_Atomic uint64_t wqes[SN_OPCODES], bytes[SN_OPCODES];
};

enum sn_presence { SN_ABSENT, SN_PRESENT, SN_LEFT };

struct sn_process {
	_Atomic uint32_t presence;
	int32_t pid;
	_Atomic uint32_t failed[SN_CHECK_COUNT];
};

struct sn_fabric {
	uint32_t version, hosts, cards_per_host, cards, link_layer;
	int32_t maker;             /* process id */
	uint64_t start_ns;         /* zero of the traces, CLOCK_MONOTONIC */
	char host_id[SN_HOSTS_MAX][SN_HOST_ID_BYTES];
	struct sn_card card[SN_CARDS_MAX];
	_Atomic uint32_t processes; /* numbers below this may be in use */
	_Atomic uint32_t stats_used;
	struct sn_process process[SN_PROCESSES_MAX];
	struct sn_qp_stats stats[SN_QP_STATS_MAX];
	/* link[destination][source] */
	struct sn_link link[SN_PROCESSES_MAX][SN_PROCESSES_MAX];
};

/* The mapping and where it came from. Zeroed = none. */
struct sn_fabric_mapping {
	struct sn_fabric *fabric;
	int fd;
	bool mine;                 /* this process made it and removes it */
	char directory[256];
};

/* Makes /dev/shm/marrow-softnic.<pid> with hosts × cards_per_host NICs and its sysfs trees; maps it. 0, or -1 with a message printed. */
int sn_fabric_make(struct sn_fabric_mapping *mapping, const char *const *host_ids, uint32_t hosts, uint32_t cards_per_host,
		   enum sn_link_layer layer);
/* Maps the fabric of that directory. 0, or -1 with a message printed. */
int sn_fabric_open(struct sn_fabric_mapping *mapping, const char *directory);
/* Unmaps; removes it if it is ours. Accepts a zeroed mapping. */
void sn_fabric_close(struct sn_fabric_mapping *mapping);
/* Takes a process number, wish if it is free. -1 if all are taken. */
int sn_fabric_join(struct sn_fabric_mapping *mapping, uint32_t wish);
/* Is the process of that number there to answer? Looks at the lock at most every few milliseconds. self: our own number. */
bool sn_fabric_alive(struct sn_fabric_mapping *mapping, uint32_t process, uint32_t self);
/* The card with that GID or LID, -1 if none. */
int sn_fabric_card_of_gid(const struct sn_fabric *fabric, const uint8_t gid[16]);
int sn_fabric_card_of_lid(const struct sn_fabric *fabric, uint32_t lid);
/* Hosts of that name: number, or -1. */
int sn_fabric_host(const struct sn_fabric *fabric, const char *host_id);
uint64_t sn_now_ns(void);

#endif
