#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <marrow/comm.h>

#include "base/log.h"

static _Thread_local char error_text[MRW_ERROR_TEXT_BYTES];
static _Thread_local bool quiet;

const char *marrow_status_string(enum marrow_status status)
{
	switch (status) {
#define MRW_X(name, value, text) \
	case MARROW_##name: \
		return text;
		MARROW_STATUS_LIST(MRW_X)
#undef MRW_X
	}
	return "unknown status";
}

/* The arguments may point into error_text: the text is made aside. */
static enum marrow_status record(enum marrow_status status, const char *text)
{
	mrw_error_set_text(text);
	if (status != MARROW_IN_PROGRESS)
		mrw_log(quiet ? MRW_LOG_DEBUG : MRW_LOG_ERROR, "%s", text);
	return status;
}

void mrw_error_quiet(bool on)
{
	quiet = on;
}

void mrw_text_end(char *text, size_t room, size_t wanted)
{
	static const char more[] = "...";
	size_t least = room / 2, at = room - sizeof more;

	if (wanted < room || room < 4 * sizeof more)
		return;
	while (at > least && text[at] != ' ')
		at--;
	if (at == least)
		at = room - sizeof more; /* one long word */
	memcpy(text + at, more, sizeof more);
}

static void format_text(char *text, size_t room, const char *format, va_list args)
{
	int wanted = vsnprintf(text, room, format, args);

	mrw_text_end(text, room, wanted > 0 ? (size_t)wanted : 0);
}

void mrw_text(char *text, size_t room, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	format_text(text, room, format, args);
	va_end(args);
}

enum marrow_status mrw_fail(enum marrow_status status, const char *format, ...)
{
	char text[MRW_ERROR_TEXT_BYTES];
	va_list args;

	va_start(args, format);
	format_text(text, sizeof text, format, args);
	va_end(args);
	return record(status, text);
}

enum marrow_status mrw_fail_errno(enum marrow_status status, const char *format, ...)
{
	char text[MRW_ERROR_TEXT_BYTES];
	const char *why = strerror(errno);
	size_t used;
	va_list args;

	va_start(args, format);
	format_text(text, sizeof text - strlen(why) - 2, format, args);
	va_end(args);
	used = strlen(text);
	snprintf(text + used, sizeof text - used, ": %s", why);
	return record(status, text);
}

const char *mrw_error_text(void)
{
	return error_text;
}

void mrw_error_set_text(const char *text)
{
	size_t bytes = strnlen(text, sizeof error_text - 1);

	memmove(error_text, text, bytes);
	error_text[bytes] = '\0';
}
