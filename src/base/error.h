/* error.h - the text behind a status.
 *
 * A failing function calls mrw_fail() once, where it knows who, what and what to do, and returns its status; callers hand the
 * status up. The text is kept per thread; API entry points copy it into the communicator. */
#ifndef MRW_ERROR_H
#define MRW_ERROR_H

#include <marrow/types.h>
#include <stdbool.h>
#include <stddef.h>

enum { MRW_ERROR_TEXT_BYTES = 1024 };

/* Records the text (printf format), logs it at level "error" unless status is MARROW_IN_PROGRESS, returns status. */
enum marrow_status mrw_fail(enum marrow_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As mrw_fail with ": <strerror(errno)>" appended, for which a long text makes room. */
enum marrow_status mrw_fail_errno(enum marrow_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* This thread's last text, "" if none; valid until the thread's next mrw_fail(). */
const char *mrw_error_text(void);
/* While on, this thread's failures are logged at level "debug" only: the caller has another way to try, and words of its own if there is
 * none. */
void mrw_error_quiet(bool on);
/* snprintf(), and mrw_text_end(). */
void mrw_text(char *text, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* For what snprintf() made of a text of `wanted` bytes in `room`: what did not fit is cut at a word and ends in "...". */
void mrw_text_end(char *text, size_t room, size_t wanted);
/* Sets this thread's text without logging (to carry a worker thread's text over). */
void mrw_error_set_text(const char *text);

/* Hands a failure up. */
#define MRW_TRY(call) \
	do { \
		enum marrow_status mrw_try_status_ = (call); \
		if (mrw_try_status_ != MARROW_SUCCESS) \
			return mrw_try_status_; \
	} while (0)
/* The same in functions with one fail: label and a variable named status. */
#define MRW_TRY_GOTO(call) \
	do { \
		status = (call); \
		if (status != MARROW_SUCCESS) \
			goto fail; \
	} while (0)

#endif
