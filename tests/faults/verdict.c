#include "verdict.h"
#include "patience.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILD_S = 60, CENSUS_MS = 1000 };

static int count;

static void complain(void)
{
	__atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
}

int failures(void)
{
	return __atomic_load_n(&count, __ATOMIC_RELAXED);
}

void expect_status(const char *what, enum marrow_status got, enum marrow_status want, const char *text, const char *words)
{
	char word[128];
	if (!text)
		text = marrow_last_error(NULL);
	if (got != want) {
		fprintf(stderr, "%s: \"%s\", not \"%s\": %s\n", what, marrow_status_string(got), marrow_status_string(want), text);
		complain();
		return;
	}
	for (const char *next = words ? words : ""; *next;) {
		size_t bytes = strcspn(next, "|");
		snprintf(word, sizeof word, "%.*s", (int)bytes, next);
		next += bytes + (next[bytes] == '|');
		if (!strstr(text, word)) {
			fprintf(stderr, "%s: \"%s\" is not in: %s\n", what, word, text);
			complain();
		}
	}
}

void expect_true(const char *what, bool condition)
{
	if (condition)
		return;
	fprintf(stderr, "%s: not so\n", what);
	complain();
}

void expect_nothing_left(const char *what, const struct census *before)
{
	uint64_t until = now_ms() + CENSUS_MS;
	struct census after = census_take();
	/* A joined thread may stay under /proc for a moment. */
	while (census_growth(before, &after) && now_ms() < until) {
		sleep_ms(5);
		after = census_take();
	}
	const char *growth = census_growth(before, &after);
	if (!growth)
		return;
	fprintf(stderr, "%s: %s\n", what, growth);
	complain();
}

void expect_in_child(const char *what, void (*test)(void *arg), void *arg)
{
	int status = 0;
	fflush(NULL);
	pid_t child = fork();
	if (child < 0)
		abort();
	if (child == 0) {
		watchdog(CHILD_S, what);
		count = 0;
		test(arg);
		exit(failures() ? 1 : 0);
	}
	while (waitpid(child, &status, 0) != child)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return;
	fprintf(stderr, "%s: the child ended with %s %d\n", what, WIFSIGNALED(status) ? "signal" : "status",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	complain();
}
