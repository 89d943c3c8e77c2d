/* log.h - lines on stderr: "marrow host:pid rank R level: text". Level and topics come from MARROW_LOG
 * (error, warn (default), info, debug; topics by name: "info,select"). Thread-safe; one write(2) a line. */
#ifndef MRW_LOG_H
#define MRW_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum mrw_log_level { MRW_LOG_ERROR, MRW_LOG_WARN, MRW_LOG_INFO, MRW_LOG_DEBUG };
enum mrw_log_topic { MRW_TOPIC_SELECT };

/* The calling thread speaks for this rank from now on (-1: none). */
void mrw_log_set_rank(int32_t rank);
bool mrw_log_enabled(enum mrw_log_level level);
bool mrw_log_topic_enabled(enum mrw_log_topic topic);
void mrw_log(enum mrw_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A line of a topic, whatever the level. */
void mrw_log_note(enum mrw_log_topic topic, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
