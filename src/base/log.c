#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"

enum { LINE_BYTES = 1536, HOST_BYTES = 65 };

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const char *const topic_names[] = {"select"};
enum { LEVEL_COUNT = sizeof level_names / sizeof *level_names, TOPIC_COUNT = sizeof topic_names / sizeof *topic_names };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static enum mrw_log_level threshold = MRW_LOG_WARN;
static uint32_t topics;
static char host[HOST_BYTES];
static _Thread_local int32_t thread_rank = -1;

/* Levels and topics of one word; false if it is neither. */
static bool apply_word(const char *word, size_t bytes)
{
	for (uint32_t i = 0; i < LEVEL_COUNT; i++)
		if (strlen(level_names[i]) == bytes && !strncmp(level_names[i], word, bytes)) {
			threshold = (enum mrw_log_level)i;
			return true;
		}
	for (uint32_t i = 0; i < TOPIC_COUNT; i++)
		if (strlen(topic_names[i]) == bytes && !strncmp(topic_names[i], word, bytes)) {
			topics |= 1u << i;
			return true;
		}
	return bytes == 0;
}

/* One write(2) a line; what came from elsewhere cannot smuggle in control characters. */
static void emit(enum mrw_log_level level, const char *text)
{
	char line[LINE_BYTES], rank[24] = "";
	size_t used, room, bytes = strlen(text);
	ssize_t wrote;
	int saved = errno, prefix;

	if (thread_rank >= 0)
		snprintf(rank, sizeof rank, " rank %d", thread_rank);
	prefix = snprintf(line, sizeof line, "marrow %s:%d%s %s: ", host, (int)getpid(), rank, level_names[level]);
	used = (size_t)prefix;
	room = sizeof line - 1 - used;
	if (bytes > room)
		bytes = room;
	memcpy(line + used, text, bytes);
	for (size_t i = used; i < used + bytes; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = line[i] == '\n' || line[i] == '\t' ? ' ' : '?';
	used += bytes;
	line[used++] = '\n';
	do
		wrote = write(STDERR_FILENO, line, used);
	while (wrote < 0 && errno == EINTR);
	errno = saved;
}

static void start(void)
{
	const char *spec = mrw_env_string(MRW_ENV_LOG);
	char text[160];

	if (gethostname(host, sizeof host - 1) || !host[0])
		strcpy(host, "?");
	for (const char *word = spec;;) {
		size_t bytes = strcspn(word, ",");

		if (!apply_word(word, bytes)) {
			snprintf(text, sizeof text,
				 "MARROW_LOG: \"%.*s\" is neither a level (error warn info debug) nor a topic (select)",
				 (int)(bytes < 40 ? bytes : 40), word);
			emit(MRW_LOG_WARN, text);
		}
		if (!word[bytes])
			break;
		word += bytes + 1;
	}
}

void mrw_log_set_rank(int32_t rank)
{
	thread_rank = rank;
}

bool mrw_log_enabled(enum mrw_log_level level)
{
	pthread_once(&once, start);
	return level <= threshold;
}

bool mrw_log_topic_enabled(enum mrw_log_topic topic)
{
	pthread_once(&once, start);
	return topics & 1u << topic;
}

void mrw_log(enum mrw_log_level level, const char *format, ...)
{
	char text[LINE_BYTES];
	va_list args;

	if (!mrw_log_enabled(level))
		return;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	emit(level, text);
}

void mrw_log_note(enum mrw_log_topic topic, const char *format, ...)
{
	char text[LINE_BYTES];
	va_list args;

	if (!mrw_log_topic_enabled(topic))
		return;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	emit(MRW_LOG_INFO, text);
}
