/* introduction.h - what ranks say of themselves before memory is made, and what follows from all of it, alike on all ranks. */
#ifndef MRW_INTRODUCTION_H
#define MRW_INTRODUCTION_H

#include "comm.h"
#include "terms.h"

#include <sched.h>

/* Exchanged as it is. */
struct mrw_introduction {
	struct mrw_terms terms;  /* as given */
	uint64_t process[2];     /* pid and a random number: equal for ranks of one process */
	uint64_t host[2];        /* hash of the host identity */
	uint32_t max_ctas;
	uint32_t refused;        /* 1: its calibration table */
	cpu_set_t cpus;          /* that it may run on */
	struct mrw_device_info device;
	char host_name[128];     /* the identity, for messages */
};
_Static_assert(sizeof(struct mrw_introduction) == 440, "tools/sim/bootstrap.c counts with as many bytes");

/* This rank's; reads its calibration table into comm->tuning. */
void mrw_introduce(struct marrow_comm *comm, struct mrw_introduction *mine);
bool mrw_same_process(const struct mrw_introduction *a, const struct mrw_introduction *b);
bool mrw_same_host(const struct mrw_introduction *a, const struct mrw_introduction *b);
bool mrw_same_device(const struct mrw_introduction *a, const struct mrw_introduction *b);
/* Everything in which ranks must agree; every rank reaches the same verdict. Drops a table that a rank refused. */
enum marrow_status mrw_introductions_compare(struct marrow_comm *comm, struct mrw_introduction *all);
/* MARROW_MISMATCH names the first rank and term that differ. all: of every rank. */
enum marrow_status mrw_compare_terms(const struct marrow_comm *comm, const struct mrw_terms *all);
/* If ranks of this process may share a hardware queue. */
void mrw_warn_of_queues(const struct marrow_comm *comm, const struct mrw_introduction *all);
/* The channel cap under which all ranks of every device and a few communicators are resident at once. */
uint32_t mrw_agree_channels(const struct marrow_comm *comm, const struct mrw_introduction *all);
/* CPUs that ranks of a host may run on, all together; of the host that has the fewest. */
uint32_t mrw_least_cores(const struct marrow_comm *comm, const struct mrw_introduction *all);

#endif
