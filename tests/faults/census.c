#include "census.h"
#include "patience.h"

#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Entries of a directory under /proc/self, its own descriptor not counted. */
static uint32_t entries(const char *path, uint32_t own)
{
	uint32_t n = 0;
	DIR *dir = opendir(path);
	if (!dir)
		abort();
	for (struct dirent *e; (e = readdir(dir));)
		n += e->d_name[0] != '.';
	closedir(dir);
	return n - own;
}

static void *idle(void *p)
{
	return p;
}

/* ThreadSanitizer starts a thread of its own with the program's first. */
static void start_first_thread(void)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, idle, NULL) != 0)
		abort();
	pthread_join(thread, NULL);
}

struct census census_take(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, start_first_thread);
	struct census c = {entries("/proc/self/fd", 1), 0, entries("/proc/self/task", 0), 0, 0};
	char line[512];
	unsigned long long pages = 0;
	FILE *f = fopen("/proc/self/maps", "r");
	if (!f)
		abort();
	while (fgets(line, sizeof line, f))
		c.mappings += strstr(line, "memfd:marrow") != NULL;
	fclose(f);
	f = fopen("/proc/self/statm", "r");
	if (!f || fscanf(f, "%*u %llu", &pages) != 1)
		abort();
	fclose(f);
	c.resident_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
	if (!sanitized)
		c.heap_bytes = mallinfo2().uordblks;
	return c;
}

const char *census_growth(const struct census *before, const struct census *after)
{
	static _Thread_local char text[160];
	if (after->fds <= before->fds && after->mappings <= before->mappings && after->threads <= before->threads)
		return NULL;
	snprintf(text, sizeof text, "left behind: descriptors %u -> %u, mappings %u -> %u, threads %u -> %u", before->fds, after->fds,
		 before->mappings, after->mappings, before->threads, after->threads);
	return text;
}
