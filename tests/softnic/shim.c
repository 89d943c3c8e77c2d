/* The library calls that lead to the kernel's RDMA subsystem, taken over by LD_PRELOAD. All others go on to the C library.
 *
 * libibverbs is led to the model in three steps: NETLINK_RDMA is refused, so it reads sysfs; SYSFS_PATH names the model's tree;
 * /dev/infiniband/uverbsN opens /dev/null, whose descriptor the model remembers. */
/* With it, open would be compiled as open64: both are defined here, under their own names. */
#undef _FILE_OFFSET_BITS

#include "channel.h"
#include "check.h"
#include "context.h"
#include "engine.h"
#include "fault.h"
#include "sysfs.h"
#include "stats.h"
#include "trace.h"
#include "uar.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define DEVICE "/dev/infiniband/uverbs"

enum { NETLINK_RDMA_PROTOCOL = 20 };

static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool up;
static pid_t owner;

/* The C library's function. Looked up at first use: calls come before any constructor. */
static void *next_of(void *_Atomic *known, const char *name)
{
	void *function = atomic_load_explicit(known, memory_order_relaxed);

	if (!function) {
		function = dlsym(RTLD_NEXT, name);
		atomic_store_explicit(known, function, memory_order_relaxed);
	}
	return function;
}

#define REAL(name, type) \
	static void *_Atomic known; \
	void *function = next_of(&known, name); \
	__typeof__(type) real; \
	memcpy(&real, &function, sizeof(real))

/* ---- setting up */

/* The fabric of a process that nobody launched: hosts from the environment, this process their only one. */
static int make_own(void)
{
	const char *list = getenv("MARROW_SOFTNIC_HOSTS"), *nics = getenv("MARROW_SOFTNIC_NICS"), *layer = getenv("MARROW_SOFTNIC_LINK");
	const char *hosts[SN_HOSTS_MAX];
	char *copy = strdup(list && *list ? list : "host0"), *rest = copy;
	uint32_t count = 0;
	int failed;

	for (char *host; count < SN_HOSTS_MAX && (host = strsep(&rest, ","));)
		hosts[count++] = host;
	failed = sn_fabric_make(&sn_fabric, hosts, count, nics && *nics ? (uint32_t)atoi(nics) : 1,
				layer && !strcmp(layer, "infiniband") ? SN_INFINIBAND : SN_ETHERNET);
	free(copy);
	return failed;
}

/* Makes or opens the fabric. A process that cannot must not go on without its NICs: tests would pass on nothing. */
static void bring_up(void)
{
	const char *directory = getenv("MARROW_SOFTNIC_FABRIC"), *rank = getenv("MARROW_RANK");

	if (atomic_load(&up))
		return;
	pthread_mutex_lock(&once);
	if (!atomic_load(&up)) {
		if (sn_fault_setup(getenv("MARROW_SOFTNIC_FAULTS"), rank ? atoi(rank) : -1) ||
		    (directory && *directory ? sn_fabric_open(&sn_fabric, directory) : make_own()))
			abort();
		sn_check_setup(getenv("MARROW_SOFTNIC_CHECKS"));
		sn_trace_setup(getenv("MARROW_SOFTNIC_TRACE"));
		owner = getpid();
		atomic_store(&up, true);
	}
	pthread_mutex_unlock(&once);
}

static void in_child(void)
{
	sn_engine_forked();
	sn_context_forked();
	memset(&sn_fabric, 0, sizeof(sn_fabric));
	pthread_mutex_init(&once, NULL);
	atomic_store(&up, false);
}

__attribute__((constructor)) static void start(void)
{
	const char *directory = getenv("MARROW_SOFTNIC_FABRIC"), *host = getenv("MARROW_HOST_ID"), *list = getenv("MARROW_SOFTNIC_HOSTS");
	char path[400], own[64];

	snprintf(own, sizeof(own), "/dev/shm/marrow-softnic.%d", (int)getpid());
	if (!directory || !*directory)
		directory = own;
	if (!host || strchr(host, '/') || host[0] == '.')
		host = SN_SYSFS_ALL;
	snprintf(path, sizeof(path), "%.200s/sysfs/%.100s", directory, host);
	/* A host that the fabric does not have: it sees them all. */
	if (directory == own ? !list || !strstr(list, host) : access(path, F_OK))
		snprintf(path, sizeof(path), "%.200s/sysfs/" SN_SYSFS_ALL, directory);
	setenv("SYSFS_PATH", path, 1);
	pthread_atfork(NULL, NULL, in_child);
#if defined(__clang__) && defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
	/* clang's runtime is part of the program: other programs, its symbolizer too, cannot load this library. */
	unsetenv("LD_PRELOAD");
#endif
#endif
}

__attribute__((destructor)) static void finish(void)
{
	const char *stats = getenv("MARROW_SOFTNIC_STATS");

	if (!atomic_load(&up) || owner != getpid())
		return;
	sn_engine_stop();
	if (stats && *stats)
		sn_stats_write(sn_fabric.fabric, sn_self, stats);
	/* Threads of the program may still run: the mapping stays. */
	if (sn_fabric.mine)
		sn_sysfs_remove(sn_fabric.directory);
}

/* ---- the calls */

static bool is_device(const char *path)
{
	return path && !strncmp(path, DEVICE, sizeof(DEVICE) - 1);
}

static int open_device(const char *path)
{
	bring_up();
	return sn_context_open((uint32_t)atoi(path + sizeof(DEVICE) - 1));
}

#define OPEN(name) \
	EXPORT int name(const char *path, int flags, ...) \
	{ \
		REAL(#name, int (*)(const char *, int, ...)); \
		mode_t mode = 0; \
		va_list args; \
\
		if (flags & (O_CREAT | __O_TMPFILE)) { \
			va_start(args, flags); \
			mode = va_arg(args, mode_t); \
			va_end(args); \
		} \
		return is_device(path) ? open_device(path) : real(path, flags, mode); \
	}

OPEN(open)
OPEN(open64)

EXPORT int stat(const char *restrict path, struct stat *restrict status)
{
	REAL("stat", int (*)(const char *, struct stat *));
	return real(is_device(path) ? "/dev/null" : path, status);
}

EXPORT int socket(int domain, int type, int protocol)
{
	REAL("socket", int (*)(int, int, int));
	if (domain == AF_NETLINK && protocol == NETLINK_RDMA_PROTOCOL) {
		bring_up();
		errno = EPROTONOSUPPORT;
		return -1;
	}
	return real(domain, type, protocol);
}

EXPORT ssize_t write(int fd, const void *buffer, size_t bytes)
{
	REAL("write", ssize_t (*)(int, const void *, size_t));
	struct sn_context *context = sn_context_of(fd);
	ssize_t done;

	if (!context)
		return real(fd, buffer, bytes);
	sn_engine_lock();
	done = sn_command(context, buffer, bytes);
	sn_engine_unlock();
	return done;
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	REAL("ioctl", int (*)(int, unsigned long, ...));
	struct sn_context *context = sn_context_of(fd);
	va_list args;
	void *arg;
	int done;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (!context)
		return real(fd, request, arg);
	sn_engine_lock();
	done = sn_ioctl(context, arg);
	sn_engine_unlock();
	return done;
}

EXPORT int close(int fd)
{
	REAL("close", int (*)(int));
	struct sn_context *context = sn_context_of(fd);
	int channel;

	if (context) {
		sn_context_close(context);
	} else if (atomic_load(&up) && (channel = sn_channel_of(fd)) >= 0) {
		sn_engine_lock();
		sn_channel_close(channel);
		sn_engine_unlock();
	}
	return real(fd);
}

static void *map_page(struct sn_context *context, off_t offset)
{
	void *page;

	sn_engine_lock();
	page = sn_uar_map(context, (uint32_t)(offset / SN_UAR_BYTES));
	sn_engine_unlock();
	return page;
}

#define MMAP(name) \
	EXPORT void *name(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) \
	{ \
		REAL(#name, void *(*)(void *, size_t, int, int, int, off_t)); \
		struct sn_context *context = fd >= 0 ? sn_context_of(fd) : NULL; \
\
		return context ? map_page(context, offset) : real(at, bytes, protection, flags, fd, offset); \
	}

MMAP(mmap)
MMAP(mmap64)

EXPORT int munmap(void *at, size_t bytes)
{
	REAL("munmap", int (*)(void *, size_t));
	if (atomic_load(&up) && sn_uar_within(at, bytes)) {
		sn_engine_lock();
		sn_uar_unmap(at, bytes);
		sn_engine_unlock();
	}
	return real(at, bytes);
}
