/* cluster.h - a cluster as a description file states it: hosts, most of one kind, what joins their GPUs and NICs, and the fabric between hosts. All
 * figures are of links, memory or single steps; none depends on the size of a message. GB/s are 10^9 bytes a second, one way. */
#ifndef SIM_CLUSTER_H
#define SIM_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { SIM_LEVELS = 4, SIM_LATES = 32, SIM_OTHERS = 64, SIM_NAME_BYTES = 48, SIM_MAX_RANKS = 32768, SIM_LIBRARY_RANKS = 64 }; /* the last: MRW_MAX_RANKS of the library itself */

/* Switches that join groups of hosts; what leaves a group goes through its uplinks, thinner than the NICs below by taper. */
struct sim_level {
	char name[SIM_NAME_BYTES];
	double hosts, taper, us;
};

/* A rank that is not like the others. */
struct sim_late {
	double rank, times, us; /* its own steps take times as long; it enters the call us later */
};

/* Hosts that are not like the rest. */
struct sim_other {
	double first, last;                /* their numbers */
	double gpus, nics;                 /* -1: as many as the rest have */
};

struct sim_cluster {
	char name[SIM_NAME_BYTES];
	bool cuda;
	double hosts, gpus, nics;          /* gpus, nics: of a host; a GPU is a rank */
	double cores;                      /* of a host, shared by its ranks; 0: every rank has its own */
	double nvlink_gb_s, nvlink_us;     /* of a GPU, to its peers together; 0: ranks of a host meet in memory */
	double pcie_gb_s;                  /* between a GPU and its NIC; 0: no bound */
	double nic_gb_s, nic_us;           /* of a port; us: from one NIC's doorbell to the other's memory, one switch between */
	double request_us;                 /* a NIC's time for a request, however short */
	double post_us;                    /* a rank's time to post a request */
	double memory_gb_s;                /* bytes that a rank loads and stores */
	double round_us;                   /* a round's syncs, fence and look at the counters, beside latency and bytes */
	double packet_us;                  /* the same of a phase in packets, which need no fence */
	double call_us;                    /* what a call costs beside its rounds */
	double channels;                   /* the library's cap */
	double rails;                      /* 1: in the innermost level NIC number k of all hosts is on switches of its own */
	double socket_us, socket_gb_s;     /* a message of the bootstrap, one way; of a host, 0: no bound */
	double join_us;                    /* what a rank does for one that joins through it or links to it */
	uint32_t nlevels, nlates, nothers;
	struct sim_level level[SIM_LEVELS]; /* inner first */
	struct sim_late late[SIM_LATES];
	struct sim_other other[SIM_OTHERS];
};

struct sim_error {
	uint32_t line; /* 0: none */
	char text[240];
};

/* Reads a description. False: *error says where and why. */
bool sim_cluster_read(struct sim_cluster *c, FILE *file, struct sim_error *error);
/* One line of it, as --set gives. */
bool sim_cluster_line(struct sim_cluster *c, const char *line, struct sim_error *error);
/* Whether it is whole and does not contradict itself. */
bool sim_cluster_check(const struct sim_cluster *c, struct sim_error *error);
uint32_t sim_cluster_ranks(const struct sim_cluster *c);
/* Of one host. Its ranks are those behind the ranks of the hosts before it. */
uint32_t sim_cluster_gpus(const struct sim_cluster *c, uint32_t host);
uint32_t sim_cluster_nics(const struct sim_cluster *c, uint32_t host);
/* Of the host that has the fewest, or the most. */
uint32_t sim_cluster_fewest_gpus(const struct sim_cluster *c);
uint32_t sim_cluster_most_gpus(const struct sim_cluster *c);
/* NICs that every rank uses: what one has where there are fewest for it, as init agrees on. */
uint32_t sim_cluster_nics_of_rank(const struct sim_cluster *c);

#endif
