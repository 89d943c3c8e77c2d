/* trace.h - MARROW_SOFTNIC_TRACE: one line an event, aligned, so that `sort -n FILE` is a timeline of all processes. */
#ifndef SN_TRACE_H
#define SN_TRACE_H

#include "qp.h"

/* Opens the file to append to; NULL: no trace. */
void sn_trace_setup(const char *path);
/* what: "doorbell", "fetch", "send", "land", "cqe", ... */
void sn_trace(const char *what, const struct sn_qp *qp, uint32_t index, uint8_t opcode, uint64_t bytes, const char *format, ...)
	__attribute__((format(printf, 6, 7)));
/* Writes out what is buffered. */
void sn_trace_flush(void);

#endif
