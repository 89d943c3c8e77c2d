/* choice.h - the choices of a communicator: made at init, equal on all ranks, told to who asks. */
#ifndef MRW_CHOICE_H
#define MRW_CHOICE_H

#include "comm.h"

/* What a calibration table must name: kind and number of CPUs, or the GPU. Printable ASCII, at most MRW_MACHINE_BYTES - 1. */
void mrw_machine_name(const struct mrw_device *d, char *text, size_t bytes);
/* The table in a file, the caller's to free, and a digest of it. NULL: it is refused, with a warning that names file, line and reason. */
struct mrw_tuning *mrw_choice_read(const struct mrw_device *d, const char *path, uint64_t *digest);
/* Makes comm->choices from what all ranks know, comm->lines included; tuning NULL: none. Returns a digest of them. */
uint64_t mrw_choice_prepare(struct marrow_comm *comm, const struct mrw_tuning *tuning);
/* The plan of a call; bytes as in struct mrw_args. Reads only. */
struct mrw_plan mrw_comm_choose(const struct marrow_comm *comm, enum mrw_func func, uint64_t bytes);
/* Nanoseconds by the cost model; 0: none. */
uint64_t mrw_choice_predict(const struct marrow_comm *comm, enum mrw_func func, uint64_t bytes, enum mrw_algo algo);
/* For the topic select, once for each function, algorithm and number of channels. */
void mrw_choice_tell(struct marrow_comm *comm, enum mrw_func func, uint64_t bytes, const struct mrw_plan *plan);
/* At init, by rank 0: all choices for the topic select, and a warning if an algorithm that was asked for can carry nothing here. */
void mrw_choice_tell_all(const struct marrow_comm *comm);

#endif
