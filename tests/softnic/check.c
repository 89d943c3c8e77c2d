#include "check.h"
#include "context.h"
#include "engine.h"
#include "qp.h"
#include "trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Reports of each kind that are printed; all are counted. */
enum { PRINTED_MAX = 8, LINE_BYTES = 1024 };

static bool off[SN_CHECK_COUNT], aborts;
static uint32_t printed[SN_CHECK_COUNT];
static _Atomic uint32_t *counters;

static bool turn_off(const char *name)
{
	for (uint32_t i = 0; i < SN_CHECK_COUNT; i++) {
		if (!strcmp(name, sn_check_name((enum sn_check)i))) {
			off[i] = true;
			return true;
		}
	}
	return false;
}

void sn_check_setup(const char *list)
{
	char *copy = list ? strdup(list) : NULL, *rest = copy;

	for (char *name; rest && (name = strsep(&rest, ","));) {
		if (!strcmp(name, "abort"))
			aborts = true;
		else if (*name && !(*name == '-' && turn_off(name + 1)))
			fprintf(stderr, "softnic: MARROW_SOFTNIC_CHECKS: \"%s\" is neither \"abort\" nor \"-\" and the name of a check\n", name);
	}
	free(copy);
}

void sn_check_count_in(_Atomic uint32_t *words)
{
	counters = words;
}

static size_t hex(char *line, size_t room, const uint8_t *bytes, size_t count)
{
	size_t at = 0;

	for (size_t i = 0; i < count && at + 64 < room; i++) {
		if (i % 16 == 0)
			at += (size_t)snprintf(line + at, room - at, "softnic:   %03zx", i);
		at += (size_t)snprintf(line + at, room - at, "%s%02x", i % 4 ? "" : " ", bytes[i]);
		if (i % 16 == 15 || i + 1 == count)
			line[at++] = '\n';
	}
	return at;
}

void sn_check_failed(enum sn_check check, const struct sn_qp *qp, const void *wqe, size_t wqe_bytes, const char *format, ...)
{
	char text[256], lines[4 * LINE_BYTES];
	size_t at;
	va_list args;

	if (off[check])
		return;
	if (counters)
		atomic_fetch_add(&counters[check], 1);
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (qp)
		sn_trace("check", qp, qp->fetched, 0, 0, "%s failed", sn_check_name(check));
	if (printed[check]++ < PRINTED_MAX) {
		if (qp)
			at = (size_t)snprintf(lines, LINE_BYTES,
					      "softnic: check %s failed: %s\n"
					      "softnic:   pid %d %s nic %u qp 0x%x %s, peer qp 0x%x card %d; blocks: producer %u looked at %u reported %u of %u\n",
					      sn_check_name(check), text, (int)getpid(), sn_context_host(qp->context), sn_context_nic(qp->context),
					      qp->number, sn_qp_state_name(qp->state), qp->peer_qpn, qp->peer_card, qp->producer, qp->fetched,
					      qp->reported, qp->sq_blocks);
		else
			at = (size_t)snprintf(lines, LINE_BYTES, "softnic: check %s failed: %s\nsoftnic:   pid %d\n", sn_check_name(check), text,
					      (int)getpid());
		if (wqe)
			at += hex(lines + at, sizeof(lines) - at, wqe, wqe_bytes);
		if (printed[check] == PRINTED_MAX)
			at += (size_t)snprintf(lines + at, sizeof(lines) - at, "softnic:   further ones are only counted\n");
		fwrite(lines, 1, at, stderr);
	}
	if (aborts) {
		sn_trace_flush();
		abort();
	}
}
