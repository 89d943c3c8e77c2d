/* stats.h - counters of queue pairs as lines of JSON (MARROW_SOFTNIC_STATS). */
#ifndef SN_STATS_H
#define SN_STATS_H

#include "fabric.h"

/* Appends the counters of a process's queue pairs (SN_PROCESSES_MAX: of all) that no one has written yet to a file. */
void sn_stats_write(struct sn_fabric *fabric, uint32_t process, const char *path);
/* One queue pair as a line of JSON; its length. */
int sn_stats_line(const struct sn_fabric *fabric, const struct sn_qp_stats *stats, char *line, size_t bytes);

#endif
