/* driver.h - from the command line to processes, threads and one walk through all tests; run.h declares perf_main(). */
#ifndef PERF_DRIVER_H
#define PERF_DRIVER_H

#include "run.h"

/* The walk: types, operations, roots, cycles, sizes, out of place and in place. Same calls on all participants. */
bool walk(struct perf_worker *worker, struct perf_report *report);

#endif
