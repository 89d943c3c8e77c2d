/* verdict.h - what a call must say: its status and words of its message. Any thread; failures are counted for the process. */
#ifndef TEST_VERDICT_H
#define TEST_VERDICT_H

#include "census.h"

#include <marrow/marrow.h>
#include <stdbool.h>

/* what: the case, for messages. words: "|"-separated, each in text (NULL: marrow_last_error(NULL)); "" or NULL: none. */
void expect_status(const char *what, enum marrow_status got, enum marrow_status want, const char *text, const char *words);
void expect_true(const char *what, bool condition);
/* Descriptors, mappings and threads are as they were. */
void expect_nothing_left(const char *what, const struct census *before);
int failures(void);
/* Runs test in a forked child and counts its failures as one. No other thread may run. */
void expect_in_child(const char *what, void (*test)(void *arg), void *arg);

#endif
