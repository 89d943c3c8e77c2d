/* fabric.h - what carries bytes: each link is a queue that serves at its bandwidth, first come, first served. A message takes up every link of
 * its way, the next one from when its head gets there; links on a way work at the same time (cut-through), and have room for whatever
 * waits.
 *
 * Between hosts: out of the GPU (PCIe), out of the NIC, up through the levels to the first group of switches that holds both ends, down, into
 * the NIC, into the GPU. With rails the innermost level has a switch for each number of a NIC: those of different numbers meet above it. */
#ifndef SIM_FABRIC_H
#define SIM_FABRIC_H

#include "cluster.h"

enum sim_class { SIM_NEAR, SIM_PCIE, SIM_NIC, SIM_UP, SIM_CLASSES = SIM_UP + SIM_LEVELS };

struct sim_pipe {
	double free;  /* ns: when it is done with what it has taken */
	double busy;  /* ns in all */
};

struct sim_fabric {
	const struct sim_cluster *cluster;
	uint32_t hosts, ranks, ports, rails, nics_of_rank;
	uint32_t *host, *port;                    /* [rank] its host; [rank * nics_of_rank + i] number of its NIC i among all ports */
	uint32_t *number;                         /* [port] its number on its host: its rail */
	double nic_ns;                            /* a byte's */
	double near_ns, pcie_ns;
	double request_ns, latency_ns, near_latency_ns;
	struct sim_pipe *near_out, *near_in;      /* [rank] */
	struct sim_pipe *pcie_out, *pcie_in;      /* [rank] */
	struct sim_pipe *nic_out, *nic_in;        /* [port] */
	uint32_t nlevels, groups[SIM_LEVELS], group_hosts[SIM_LEVELS];
	double level_ns[SIM_LEVELS], level_latency_ns[SIM_LEVELS];
	struct sim_pipe *up[SIM_LEVELS], *down[SIM_LEVELS]; /* [group], level 0: [group * rails + rail] */
	uint64_t bytes[SIM_CLASSES], messages[SIM_CLASSES];
};

bool sim_fabric_open(struct sim_fabric *f, const struct sim_cluster *c);
void sim_fabric_close(struct sim_fabric *f);
/* As after open. */
void sim_fabric_clear(struct sim_fabric *f);
/* bytes in requests messages that leave rank src by its NIC number i at at_ns: when the last one is in dst's memory. */
double sim_fabric_send(struct sim_fabric *f, uint32_t src, uint32_t dst, uint32_t i, uint64_t bytes, uint32_t requests, double at_ns);
/* When the port by which rank src's NIC number i sends is free. */
double sim_fabric_ready(const struct sim_fabric *f, uint32_t src, uint32_t i);
/* Stores of bytes bytes to a rank of the same host, which begin at at_ns: when the last one has left here; *there: when it is there. */
double sim_fabric_store(struct sim_fabric *f, uint32_t src, uint32_t dst, uint64_t bytes, double at_ns, double *there);
/* The share of span_ns for which the busiest link of a class worked. */
double sim_fabric_load(const struct sim_fabric *f, enum sim_class class, double span_ns);
const char *sim_fabric_class(const struct sim_fabric *f, enum sim_class class);

#endif
