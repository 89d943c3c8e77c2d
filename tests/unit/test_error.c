/* The status list, the text behind a status, and the form of a log line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <marrow/comm.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

enum { OUTPUT_BYTES = 1 << 16, LOGGERS = 4, LINES = 50 };

static char output[OUTPUT_BYTES];

/* Runs body in a child with MARROW_LOG set (NULL: unset), for it is read once a process; output: its stderr. */
static void log_in_child(const char *spec, void (*body)(void))
{
	int fd = memfd_create("stderr", MFD_CLOEXEC), how;
	ssize_t got;
	pid_t child = fork();

	if (!child) {
		fcntl(fd, F_SETFL, O_APPEND);
		dup2(fd, STDERR_FILENO);
		if (spec)
			setenv("MARROW_LOG", spec, 1);
		else
			unsetenv("MARROW_LOG");
		body();
		_exit(0);
	}
	waitpid(child, &how, 0);
	got = pread(fd, output, sizeof output - 1, 0);
	output[got > 0 ? got : 0] = '\0';
	close(fd);
	assert_true(WIFEXITED(how));
}

static void statuses_have_texts(void **state)
{
	static const char *const names[] = {
#define MRW_X(name, value, text) [value] = #name,
		MARROW_STATUS_LIST(MRW_X)
#undef MRW_X
	};

	(void)state;
	assert_int_equal(sizeof names / sizeof *names, 13);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		assert_non_null(names[i]);
		assert_true(strlen(marrow_status_string((enum marrow_status)i)) > 4);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(marrow_status_string((enum marrow_status)i),
						marrow_status_string((enum marrow_status)k));
	}
	assert_string_equal(marrow_status_string(MARROW_SUCCESS), "success");
	assert_string_equal(marrow_status_string((enum marrow_status)99), "unknown status");
}

static void *fails_elsewhere(void *argument)
{
	if (mrw_error_text()[0] == '\0')
		mrw_fail(MARROW_IN_PROGRESS, "elsewhere");
	return argument;
}

static void a_failure_keeps_its_text(void **state)
{
	char longer[2 * MRW_ERROR_TEXT_BYTES];
	pthread_t thread;

	(void)state;
	mrw_error_set_text("");
	assert_string_equal(mrw_error_text(), "");
	assert_int_equal(mrw_fail(MARROW_IN_PROGRESS, "rank %d did %s", 3, "it"), MARROW_IN_PROGRESS);
	assert_string_equal(mrw_error_text(), "rank 3 did it");
	assert_int_equal(mrw_fail(MARROW_IN_PROGRESS, "outer: %s", mrw_error_text()), MARROW_IN_PROGRESS);
	assert_string_equal(mrw_error_text(), "outer: rank 3 did it");
	errno = ENOENT;
	assert_int_equal(mrw_fail_errno(MARROW_IN_PROGRESS, "open %s", "x"), MARROW_IN_PROGRESS);
	assert_string_equal(mrw_error_text(), "open x: No such file or directory");
	memset(longer, 'a', sizeof longer - 1);
	longer[sizeof longer - 1] = '\0';
	mrw_fail(MARROW_IN_PROGRESS, "%s", longer);
	assert_int_equal(strlen(mrw_error_text()), MRW_ERROR_TEXT_BYTES - 1);
	for (size_t i = 9; i < sizeof longer - 1; i += 10)
		longer[i] = ' ';
	mrw_fail(MARROW_IN_PROGRESS, "%s", longer);
	assert_int_equal(strlen(mrw_error_text()), 1022);
	assert_string_equal(mrw_error_text() + 1000, "aaaaaaaaa aaaaaaaaa...");
	errno = ENOENT;
	mrw_fail_errno(MARROW_IN_PROGRESS, "%s", longer);
	assert_non_null(strstr(mrw_error_text(), "aaaaaaaaa...: No such file or directory"));
	mrw_error_set_text("carried over");
	assert_int_equal(pthread_create(&thread, NULL, fails_elsewhere, NULL), 0);
	pthread_join(thread, NULL);
	assert_string_equal(mrw_error_text(), "carried over");
}

static void log_every_level(void)
{
	for (int level = MRW_LOG_ERROR; level <= MRW_LOG_DEBUG; level++)
		mrw_log((enum mrw_log_level)level, "text %d", level);
	if (mrw_log_topic_enabled(MRW_TOPIC_SELECT))
		mrw_log(MRW_LOG_ERROR, "topic");
}

static void fail_thrice(void)
{
	(void)mrw_fail(MARROW_INTERNAL_ERROR, "first");
	mrw_error_quiet(true);
	(void)mrw_fail(MARROW_INTERNAL_ERROR, "second");
	if (strcmp(mrw_error_text(), "second"))
		_exit(1);
	mrw_error_quiet(false);
	(void)mrw_fail(MARROW_INTERNAL_ERROR, "third");
}

static void a_quiet_failure_is_no_line(void **state)
{
	(void)state;
	log_in_child(NULL, fail_thrice);
	assert_non_null(strstr(output, "first"));
	assert_null(strstr(output, "second"));
	assert_non_null(strstr(output, "third"));
	log_in_child("debug", fail_thrice);
	assert_non_null(strstr(output, "second"));
}

static void levels_and_topics_come_from_the_variable(void **state)
{
	(void)state;
	log_in_child(NULL, log_every_level);
	assert_non_null(strstr(output, " error: text 0\n"));
	assert_non_null(strstr(output, " warn: text 1\n"));
	assert_null(strstr(output, "text 2"));
	assert_null(strstr(output, "topic"));
	log_in_child("error", log_every_level);
	assert_null(strstr(output, "text 1"));
	log_in_child("debug,select", log_every_level);
	assert_non_null(strstr(output, " debug: text 3\n"));
	assert_non_null(strstr(output, " error: topic\n"));
	log_in_child("loud", log_every_level);
	assert_non_null(strstr(output, "warn: MARROW_LOG: \"loud\" is neither"));
	assert_non_null(strstr(output, "text 1"));
	assert_null(strstr(output, "text 2"));
}

static void log_hostile(void)
{
	char longer[4096];

	mrw_log_set_rank(12);
	mrw_log(MRW_LOG_WARN, "a\nb\tc\x1b[2Jd");
	mrw_log_set_rank(-1);
	mrw_log(MRW_LOG_WARN, "nobody");
	memset(longer, 'x', sizeof longer - 1);
	longer[sizeof longer - 1] = '\0';
	mrw_log(MRW_LOG_WARN, "%s", longer);
	mrw_fail(MARROW_SYSTEM_ERROR, "failed on purpose");
	mrw_fail(MARROW_IN_PROGRESS, "not an error");
}

static void a_line_says_who_speaks(void **state)
{
	char host[65] = "", wanted[160];
	int pid;

	(void)state;
	log_in_child("warn", log_hostile);
	gethostname(host, sizeof host - 1);
	snprintf(wanted, sizeof wanted, "marrow %s:%%d rank 12 warn: ", host);
	assert_int_equal(sscanf(output, wanted, &pid), 1);
	assert_non_null(strstr(output, " rank 12 warn: a b c?[2Jd\n"));
	snprintf(wanted, sizeof wanted, "\nmarrow %s:%d warn: nobody\n", host, pid);
	assert_non_null(strstr(output, wanted));
	assert_non_null(strstr(output, "xxxx\n"));
	assert_non_null(strstr(output, " error: failed on purpose\n"));
	assert_null(strstr(output, "not an error"));
}

static void *log_much(void *argument)
{
	mrw_log_set_rank((int32_t)(intptr_t)argument);
	for (int i = 0; i < LINES; i++)
		mrw_log(MRW_LOG_ERROR, "a line of its own");
	return NULL;
}

static void log_from_threads(void)
{
	pthread_t threads[LOGGERS];

	for (intptr_t i = 0; i < LOGGERS; i++)
		if (pthread_create(&threads[i], NULL, log_much, (void *)i))
			_exit(1);
	for (int i = 0; i < LOGGERS; i++)
		pthread_join(threads[i], NULL);
}

static void lines_do_not_mix(void **state)
{
	static const char end[] = " error: a line of its own";
	int lines = 0;

	(void)state;
	log_in_child(NULL, log_from_threads);
	for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n")) {
		assert_true(strlen(line) > sizeof end);
		assert_memory_equal(line, "marrow ", 7);
		assert_string_equal(line + strlen(line) - (sizeof end - 1), end);
		lines++;
	}
	assert_int_equal(lines, LOGGERS * LINES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(statuses_have_texts),
		/* Children first: afterwards MARROW_LOG has been read. */
		cmocka_unit_test(levels_and_topics_come_from_the_variable),
		cmocka_unit_test(a_quiet_failure_is_no_line),
		cmocka_unit_test(a_line_says_who_speaks),
		cmocka_unit_test(lines_do_not_mix),
		cmocka_unit_test(a_failure_keeps_its_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
