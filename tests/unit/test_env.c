/* The table of environment variables: what is read, what is refused, what is warned about. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/env.h"
#include "base/error.h"

static char output[4096];

/* Runs body in a child and keeps its stderr. */
static void run_in_child(void (*body)(void))
{
	int fd = memfd_create("stderr", MFD_CLOEXEC);
	ssize_t got;
	pid_t child = fork();

	if (!child) {
		dup2(fd, STDERR_FILENO);
		body();
		_exit(0);
	}
	waitpid(child, NULL, 0);
	got = pread(fd, output, sizeof output - 1, 0);
	output[got > 0 ? got : 0] = '\0';
	close(fd);
}

static void rows_are_whole(void **state)
{
	(void)state;
	for (int i = 0; i < MRW_ENV_COUNT; i++) {
		const struct mrw_env_row *row = mrw_env_row((enum mrw_env)i);

		assert_memory_equal(row->name, "MARROW_", 7);
		assert_true(!strcmp(row->kind, "INT") || !strcmp(row->kind, "STRING"));
		assert_true(strlen(row->help) > 8);
		assert_non_null(row->fallback);
		if (!strcmp(row->kind, "INT"))
			assert_true(row->min < row->max);
		for (int k = 0; k < i; k++)
			assert_string_not_equal(row->name, mrw_env_row((enum mrw_env)k)->name);
	}
}

static void strings_have_defaults(void **state)
{
	(void)state;
	unsetenv("MARROW_TARGET");
	assert_string_equal(mrw_env_string(MRW_ENV_TARGET), "auto");
	setenv("MARROW_TARGET", "", 1);
	assert_string_equal(mrw_env_string(MRW_ENV_TARGET), "auto");
	setenv("MARROW_TARGET", "host", 1);
	assert_string_equal(mrw_env_string(MRW_ENV_TARGET), "host");
	unsetenv("MARROW_TARGET");
	unsetenv("MARROW_ALGO");
	assert_string_equal(mrw_env_string(MRW_ENV_ALGO), "");
}

static void numbers_are_checked(void **state)
{
	static const char *const bad[] = {"65", "-1", "x", "1x", "0x10", " ", "1 ", "99999999999999999999", "1.5"};
	int64_t value = 7;
	int log_fd = dup(STDERR_FILENO), quiet = memfd_create("quiet", MFD_CLOEXEC);

	(void)state;
	unsetenv("MARROW_MAX_CTAS");
	assert_int_equal(mrw_env_int(MRW_ENV_MAX_CTAS, 5, &value), MARROW_SUCCESS);
	assert_int_equal(value, 5);
	setenv("MARROW_MAX_CTAS", "", 1);
	assert_int_equal(mrw_env_int(MRW_ENV_MAX_CTAS, 6, &value), MARROW_SUCCESS);
	assert_int_equal(value, 6);
	setenv("MARROW_MAX_CTAS", "64", 1);
	assert_int_equal(mrw_env_int(MRW_ENV_MAX_CTAS, 5, &value), MARROW_SUCCESS);
	assert_int_equal(value, 64);
	setenv("MARROW_TIMEOUT_MS", "1099511627776", 1);
	assert_int_equal(mrw_env_int(MRW_ENV_TIMEOUT_MS, 0, &value), MARROW_SUCCESS);
	assert_true(value == (int64_t)1 << 40);
	unsetenv("MARROW_TIMEOUT_MS");
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		enum marrow_status status;

		setenv("MARROW_MAX_CTAS", bad[i], 1);
		value = 7;
		dup2(quiet, STDERR_FILENO);
		status = mrw_env_int(MRW_ENV_MAX_CTAS, 5, &value);
		dup2(log_fd, STDERR_FILENO);
		assert_int_equal(status, MARROW_INVALID_ARGUMENT);
		assert_int_equal(value, 7);
		assert_non_null(strstr(mrw_error_text(), "MARROW_MAX_CTAS="));
		assert_non_null(strstr(mrw_error_text(), bad[i]));
		assert_non_null(strstr(mrw_error_text(), "from 0 to 64"));
	}
	unsetenv("MARROW_MAX_CTAS");
	close(log_fd);
	close(quiet);
}

static void foreign_names_are_read_as_they_are(void **state)
{
	(void)state;
	setenv("OMPI_COMM_WORLD_RANK", "3", 1);
	assert_string_equal(mrw_env_foreign("OMPI_COMM_WORLD_RANK"), "3");
	unsetenv("OMPI_COMM_WORLD_RANK");
	assert_null(mrw_env_foreign("OMPI_COMM_WORLD_RANK"));
}

static void check_names(void)
{
	setenv("MARROW_TIMEOUT", "1", 1);
	setenv("MARROW_ALGO", "oneshot", 1);
	setenv("MARROW_TEST_ANYTHING", "1", 1);
	mrw_env_check_names();
	mrw_env_check_names();
}

static void unknown_names_are_warned_about_once(void **state)
{
	const char *first;

	(void)state;
	run_in_child(check_names);
	first = strstr(output, "warn: MARROW_TIMEOUT is set");
	assert_non_null(first);
	assert_null(strstr(first + 7, "MARROW_TIMEOUT is set"));
	assert_null(strstr(output, "MARROW_ALGO"));
	assert_null(strstr(output, "MARROW_TEST"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_whole),
		cmocka_unit_test(unknown_names_are_warned_about_once),
		cmocka_unit_test(strings_have_defaults),
		cmocka_unit_test(numbers_are_checked),
		cmocka_unit_test(foreign_names_are_read_as_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
