/* calibrate.h - makes a calibration table (collectives/tuning.h) of what was measured: for each size the quickest algorithm, with the
 * boundaries between. Rows for other functions and shapes that the file holds stay. */
#ifndef PERF_CALIBRATE_H
#define PERF_CALIBRATE_H

#include "run.h"

struct perf_calibration;

/* Called by all participants, with --calibrate; *calibration is NULL but for participant 0. A file that is there must be a table of this
 * machine and library, or it is not touched. */
bool calibration_open(struct perf_worker *worker, struct perf_calibration **calibration);
/* Out of place only counts. */
void calibration_add(struct perf_calibration *calibration, const struct perf_test *test, const struct perf_half *half);
/* Writes the table if finished, and frees. NULL is allowed. */
bool calibration_close(struct perf_calibration *calibration, bool finished);

#endif
