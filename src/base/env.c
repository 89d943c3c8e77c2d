#include "base/env.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

static const struct mrw_env_row rows[MRW_ENV_COUNT] = {
#define MRW_X(id, name, kind, def, min, max, help) [MRW_ENV_##id] = {name, #kind, def, help, min, max},
	MRW_ENV_LIST(MRW_X)
#undef MRW_X
};

const struct mrw_env_row *mrw_env_row(enum mrw_env id)
{
	return &rows[id];
}

const char *mrw_env_string(enum mrw_env id)
{
	const char *value = getenv(rows[id].name);

	return value && *value ? value : rows[id].fallback;
}

enum marrow_status mrw_env_int(enum mrw_env id, int64_t fallback, int64_t *value)
{
	const struct mrw_env_row *row = &rows[id];
	const char *text = getenv(row->name);
	char *end;
	long long number;

	if (!text || !*text) {
		*value = fallback;
		return MARROW_SUCCESS;
	}
	errno = 0;
	number = strtoll(text, &end, 10);
	if (end == text || *end || errno || number < row->min || number > row->max)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s=%.64s: not a decimal number from %lld to %lld (%s)",
				row->name, text, (long long)row->min, (long long)row->max, row->help);
	*value = number;
	return MARROW_SUCCESS;
}

const char *mrw_env_foreign(const char *name)
{
	return getenv(name);
}

static bool is_known(const char *name, size_t bytes)
{
	for (int i = 0; i < MRW_ENV_COUNT; i++)
		if (strlen(rows[i].name) == bytes && !strncmp(rows[i].name, name, bytes))
			return true;
	return false;
}

/* MARROW_TEST_* belongs to the tests, MARROW_SOFTNIC_* to their model of a NIC. */
static void check_names(void)
{
	for (char **entry = environ; entry && *entry; entry++) {
		size_t bytes = strcspn(*entry, "=");

		if (!strncmp(*entry, "MARROW_", 7) && strncmp(*entry, "MARROW_TEST_", 12) &&
		    strncmp(*entry, "MARROW_SOFTNIC_", 15) && !is_known(*entry, bytes))
			mrw_log(MRW_LOG_WARN,
				"%.*s is set in the environment but is no variable of this version: it has no effect",
				(int)(bytes < 128 ? bytes : 128), *entry);
	}
}

void mrw_env_check_names(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, check_names);
}
