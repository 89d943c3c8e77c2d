#include "patience.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

enum { MEETING_MS = 60000, PATIENT_MS = 5000, SANITIZED_FACTOR = 3 };

const bool sanitized = SANITIZED;
static const char *volatile under_way = "";

bool patient(void)
{
	const char *asked = getenv("MARROW_TEST_PATIENT");
	return sanitized || (asked && strcmp(asked, "1") == 0);
}

uint64_t now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void sleep_ms(uint64_t ms)
{
	struct timespec ts = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
	nanosleep(&ts, NULL);
}

uint64_t limit_ms(uint64_t contract_ms)
{
	return patient() && contract_ms < PATIENT_MS ? PATIENT_MS : contract_ms;
}

static void bark(int signal)
{
	static const char text[] = "\nwatchdog: this hangs: ";
	const char *what = under_way;
	ssize_t wrote = write(STDERR_FILENO, text, sizeof text - 1);
	wrote += write(STDERR_FILENO, what, strlen(what));
	wrote += write(STDERR_FILENO, "\n", 1);
	(void)wrote;
	(void)signal;
	_exit(1);
}

void watchdog(unsigned seconds, const char *doing)
{
	under_way = doing;
	signal(SIGALRM, bark);
	alarm(sanitized ? SANITIZED_FACTOR * seconds : seconds);
}

void meet(struct meeting *m, uint32_t n)
{
	uint64_t mine = __atomic_add_fetch(&m->arrived, 1, __ATOMIC_ACQ_REL), all = (mine + n - 1) / n * n;
	if (await_word(&m->arrived, all, MEETING_MS))
		return;
	fprintf(stderr, "meeting: only %llu of %u came: %s\n", (unsigned long long)(m->arrived % n), n, under_way);
	_exit(1);
}

void mark_time(uint64_t *word)
{
	uint64_t now = now_ms(), seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	while (seen < now && !__atomic_compare_exchange_n(word, &seen, now, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		;
}

bool await_word(const uint64_t *word, uint64_t want, uint64_t ms)
{
	uint64_t until = now_ms() + ms;
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < want) {
		if (now_ms() >= until)
			return false;
		sleep_ms(1);
	}
	return true;
}
