#include "trace.h"
#include "context.h"
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 16, LINE_BYTES = 256 };

static int file = -1;
static char buffer[BUFFER_BYTES];
static size_t used;

void sn_trace_setup(const char *path)
{
	if (!path || !*path)
		return;
	file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (file < 0)
		fprintf(stderr, "softnic: cannot open the trace %s: %s\n", path, strerror(errno));
}

void sn_trace_flush(void)
{
	/* One call: lines of several processes stay whole. */
	if (used && file >= 0 && write(file, buffer, used) < 0)
		file = -1;
	used = 0;
}

void sn_trace(const char *what, const struct sn_qp *qp, uint32_t index, uint8_t opcode, uint64_t bytes, const char *format, ...)
{
	va_list args;
	int n;

	if (file < 0)
		return;
	if (used + LINE_BYTES > sizeof(buffer))
		sn_trace_flush();
	n = snprintf(buffer + used, LINE_BYTES / 2, "%14llu %-8.20s %3u %06x %5u %-8s %-9s %8llu ",
		     (unsigned long long)(sn_now_ns() - sn_fabric.fabric->start_ns), sn_context_host(qp->context), sn_context_nic(qp->context),
		     qp->number, index, what, bytes || opcode ? sn_opcode_name(opcode) : "-", (unsigned long long)bytes);
	used += (size_t)n;
	va_start(args, format);
	n = vsnprintf(buffer + used, LINE_BYTES / 2 - 1, format, args);
	va_end(args);
	used += (size_t)(n < LINE_BYTES / 2 - 1 ? n : LINE_BYTES / 2 - 2);
	buffer[used++] = '\n';
}
