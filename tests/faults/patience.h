/* patience.h - time in tests of failure: a clock that processes share, limits that are contracts, and a meeting point. */
#ifndef TEST_PATIENCE_H
#define TEST_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

/* 1 in a build with AddressSanitizer or ThreadSanitizer. */
extern const bool sanitized;
/* Limits in time are no contracts here: a sanitized build, or MARROW_TEST_PATIENT=1 on a machine that others use too. */
bool patient(void);

/* Monotonic; the same clock in all processes. */
uint64_t now_ms(void);
void sleep_ms(uint64_t ms);
/* What the contract says; 5 s at least where one is patient. */
uint64_t limit_ms(uint64_t contract_ms);
/* Ends this process with a message after so many seconds from now, three times as many in a sanitized build (as Meson's own limits there); 0: never. Each forked
 * child needs its own. doing: what is under way, for the message; kept by reference until the next call. */
void watchdog(unsigned seconds, const char *doing);

/* Where n threads or processes meet, again and again; zeroed, in memory that all share. Nobody passes before all have come;
 * after 60 s the process is ended. */
struct meeting {
	uint64_t arrived;
};
void meet(struct meeting *m, uint32_t n);
/* *word = max(*word, now_ms()); words that threads or processes share. */
void mark_time(uint64_t *word);
/* Waits until *word is at least want; false after ms. */
bool await_word(const uint64_t *word, uint64_t want, uint64_t ms);

#endif
