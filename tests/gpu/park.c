#include "park.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

enum { ROUNDS = 5 };

/* State letter of one thread, 0: it is gone. name: of the thread. */
static char state_of(pid_t pid, const char *task, char name[32])
{
	char path[300], line[512];
	name[0] = 0;
	snprintf(path, sizeof path, "/proc/%d/task/%s/stat", (int)pid, task);
	FILE *f = fopen(path, "r");
	if (!f)
		return 0;
	size_t n = fread(line, 1, sizeof line - 1, f);
	fclose(f);
	line[n] = 0;
	char *begin = strchr(line, '('), *end = strrchr(line, ')');
	if (!begin || !end || end[1] != ' ')
		return 0;
	snprintf(name, 32, "%.*s", (int)(end - begin - 1), begin + 1);
	return end[2];
}

/* Calls on each thread but the engine; stops when one answers other than 0. */
static int each(pid_t pid, int (*what)(pid_t thread, char state), unsigned *engines)
{
	char path[64], name[32];
	int answer = 0;
	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *dir = opendir(path);
	if (!dir)
		return -1;
	*engines = 0;
	for (struct dirent *d; answer == 0 && (d = readdir(dir)) != NULL;) {
		char state = d->d_name[0] == '.' ? 0 : state_of(pid, d->d_name, name);
		if (state && strcmp(name, PARK_ENGINE) == 0)
			++*engines;
		else if (state)
			answer = what((pid_t)atoi(d->d_name), state);
	}
	closedir(dir);
	return answer;
}

static int hold(pid_t thread, char state)
{
	int status;
	if (state == 't')
		return 0;
	if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0) {
		if (errno == ESRCH)
			return 0;
		fprintf(stderr, "ptrace of thread %d: %s\n", (int)thread, strerror(errno));
		return errno == EPERM ? 1 : -1;
	}
	if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) != 0 || waitpid(thread, &status, __WALL) != thread) {
		fprintf(stderr, "holding thread %d: %s\n", (int)thread, strerror(errno));
		return -1;
	}
	return 0;
}

static int let_go(pid_t thread, char state)
{
	if (state == 't')
		ptrace(PTRACE_DETACH, thread, NULL, NULL);
	return 0;
}

static int check(pid_t thread, char state)
{
	(void)thread;
	return state == 't' || state == 'T' ? 0 : 1;
}

static unsigned counted;

static int count(pid_t thread, char state)
{
	(void)thread;
	(void)state;
	counted++;
	return 0;
}

int park(pid_t pid)
{
	unsigned engines;
	/* A thread that was not held yet may have made another. */
	for (int i = 0; i < ROUNDS; i++) {
		int answer = each(pid, hold, &engines);
		if (answer != 0)
			return answer;
		if (each(pid, check, &engines) == 0)
			return 0;
	}
	fprintf(stderr, "process %d makes threads faster than they can be held\n", (int)pid);
	return -1;
}

void unpark(pid_t pid)
{
	unsigned engines;
	(void)each(pid, let_go, &engines);
}

bool park_is_still(pid_t pid, unsigned *threads, unsigned *engines)
{
	bool still = each(pid, check, engines) == 0;
	counted = 0;
	still = each(pid, count, engines) == 0 && still;
	*threads = counted;
	return still && counted > 0;
}
