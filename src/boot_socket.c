#include "boot_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

static const uint8_t mapped_prefix[12] = {[10] = 0xff, [11] = 0xff};

char *mrw_addr_text(const struct mrw_addr *addr, bool with_port, char text[MRW_ADDR_TEXT_BYTES])
{
	char host[INET6_ADDRSTRLEN] = "?";

	if (addr->family == 4 || addr->family == 6)
		inet_ntop(addr->family == 4 ? AF_INET : AF_INET6, addr->bytes, host, sizeof host);
	if (with_port)
		snprintf(text, MRW_ADDR_TEXT_BYTES, addr->family == 6 ? "[%s]:%u" : "%s:%u", host, mrw_addr_port(addr));
	else
		snprintf(text, MRW_ADDR_TEXT_BYTES, "%s", host);
	return text;
}

bool mrw_addr_from_sockaddr(struct mrw_addr *addr, const struct sockaddr *sa)
{
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;

	memset(addr, 0, sizeof *addr);
	if (sa->sa_family == AF_INET) {
		memcpy(&v4, sa, sizeof v4);
		addr->family = 4;
		memcpy(addr->port_be, &v4.sin_port, 2);
		memcpy(addr->bytes, &v4.sin_addr, 4);
	} else if (sa->sa_family == AF_INET6) {
		memcpy(&v6, sa, sizeof v6);
		memcpy(addr->port_be, &v6.sin6_port, 2);
		if (memcmp(&v6.sin6_addr, mapped_prefix, sizeof mapped_prefix)) {
			addr->family = 6;
			memcpy(addr->bytes, &v6.sin6_addr, 16);
		} else {
			addr->family = 4;
			memcpy(addr->bytes, (const uint8_t *)&v6.sin6_addr + 12, 4);
		}
	}
	return addr->family != 0;
}

static socklen_t to_sockaddr(const struct mrw_addr *addr, struct sockaddr_storage *storage)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

	memset(storage, 0, sizeof *storage);
	if (addr->family == 4) {
		memcpy(&v4.sin_port, addr->port_be, 2);
		memcpy(&v4.sin_addr, addr->bytes, 4);
		memcpy(storage, &v4, sizeof v4);
		return sizeof v4;
	}
	memcpy(&v6.sin6_port, addr->port_be, 2);
	memcpy(&v6.sin6_addr, addr->bytes, 16);
	memcpy(storage, &v6, sizeof v6);
	return sizeof v6;
}

uint16_t mrw_addr_port(const struct mrw_addr *addr)
{
	return (uint16_t)(addr->port_be[0] << 8 | addr->port_be[1]);
}

void mrw_addr_set_port(struct mrw_addr *addr, uint16_t port)
{
	addr->port_be[0] = (uint8_t)(port >> 8);
	addr->port_be[1] = (uint8_t)port;
}

bool mrw_addr_is_loopback(const struct mrw_addr *addr)
{
	return addr->family == 4 ? addr->bytes[0] == 127
				 : addr->family == 6 && !memcmp(addr->bytes, &in6addr_loopback, 16);
}

uint64_t mrw_boot_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int mrw_boot_ms_until(uint64_t deadline_ms)
{
	uint64_t now = mrw_boot_now_ms();

	if (deadline_ms <= now)
		return 0;
	return deadline_ms - now > INT_MAX ? INT_MAX : (int)(deadline_ms - now);
}

enum marrow_status mrw_sock_fail(const char *what)
{
	struct rlimit limit;

	if ((errno == EMFILE || errno == ENFILE) && !getrlimit(RLIMIT_NOFILE, &limit))
		return mrw_fail_errno(
			MARROW_SYSTEM_ERROR,
			"%s: out of file descriptors (limit %llu): raise it with \"ulimit -n\" or LimitNOFILE=", what,
			(unsigned long long)limit.rlim_cur);
	return mrw_fail_errno(MARROW_SYSTEM_ERROR, "%s", what);
}

/* Keep-alive finds a host that vanished without a word: 30 s idle, then 3 probes 10 s apart. Best effort. */
static void tune(int fd)
{
	int on = 1, idle_s = 30, interval_s = 10, probes = 3;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

static int open_socket(int family)
{
	return mrw_file_above_stdio(socket(family == 4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

enum marrow_status mrw_sock_listen(int *fd, const struct mrw_addr *addr, uint16_t port, struct mrw_addr *bound)
{
	struct mrw_addr where = {.family = 6};
	struct sockaddr_storage storage;
	socklen_t bytes;
	char text[MRW_ADDR_TEXT_BYTES], what[128];
	int on = 1, off = 0;

	if (addr)
		where = *addr;
	for (;;) {
		mrw_addr_set_port(&where, port);
		*fd = open_socket(where.family);
		if (*fd >= 0) {
			setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
			if (where.family == 6)
				setsockopt(*fd, IPPROTO_IPV6, IPV6_V6ONLY, addr ? &on : &off, sizeof off);
			bytes = to_sockaddr(&where, &storage);
			if (!bind(*fd, (struct sockaddr *)&storage, bytes) && !listen(*fd, SOMAXCONN)) {
				mrw_sock_local(*fd, bound);
				return MARROW_SUCCESS;
			}
		}
		snprintf(what, sizeof what, "listening on %s", mrw_addr_text(&where, true, text));
		if (*fd >= 0) {
			int saved = errno;

			close(*fd);
			*fd = -1;
			errno = saved;
		}
		/* A machine without IPv6 still has every IPv4 address. */
		if (addr || where.family == 4 || errno == EADDRINUSE || errno == EMFILE)
			return errno == EADDRINUSE && port
				       ? mrw_fail(MARROW_SYSTEM_ERROR,
						  "%s: the port is taken by another program or job: choose another",
						  what)
				       : mrw_sock_fail(what);
		where.family = 4;
	}
}

int mrw_sock_dial(const struct mrw_addr *addr)
{
	struct sockaddr_storage storage;
	socklen_t bytes = to_sockaddr(addr, &storage);
	int fd = open_socket(addr->family), saved, on = 1;

	if (fd < 0)
		return -1;
	/* What remains of this connection for a minute after it must not keep a later job from listening on its port. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	tune(fd);
	if (!connect(fd, (struct sockaddr *)&storage, bytes) || errno == EINPROGRESS || errno == EINTR)
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

int mrw_sock_dialled(int fd)
{
	struct sockaddr_storage storage;
	struct mrw_addr local, peer;
	socklen_t bytes = sizeof storage;
	int error = 0;
	socklen_t error_bytes = sizeof error;

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes))
		return errno;
	if (error)
		return error;
	if (getpeername(fd, (struct sockaddr *)&storage, &bytes))
		return errno;
	/* Dialling a free port of the ephemeral range of one's own machine can connect a socket to itself. */
	mrw_addr_from_sockaddr(&peer, (struct sockaddr *)&storage);
	mrw_sock_local(fd, &local);
	return memcmp(&local, &peer, sizeof local) ? 0 : ECONNREFUSED;
}

int mrw_sock_accept(int listen_fd, struct mrw_addr *peer)
{
	struct sockaddr_storage storage;
	socklen_t bytes;
	int fd;

	do {
		bytes = sizeof storage;
		fd = mrw_file_above_stdio(accept4(listen_fd, (struct sockaddr *)&storage, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
	} while (fd < 0 && (errno == EINTR || errno == ECONNABORTED || errno == EPROTO || errno == ENETDOWN ||
			    errno == ENONET || errno == EHOSTDOWN || errno == EHOSTUNREACH || errno == ENETUNREACH));
	if (fd < 0)
		return -1;
	tune(fd);
	mrw_addr_from_sockaddr(peer, (struct sockaddr *)&storage);
	return fd;
}

void mrw_sock_local(int fd, struct mrw_addr *local)
{
	struct sockaddr_storage storage;
	socklen_t bytes = sizeof storage;

	memset(local, 0, sizeof *local);
	if (!getsockname(fd, (struct sockaddr *)&storage, &bytes))
		mrw_addr_from_sockaddr(local, (struct sockaddr *)&storage);
}

size_t mrw_pollset_add(struct mrw_pollset *set, int fd, short events)
{
	if (set->count == set->capacity) {
		size_t capacity = set->capacity ? 2 * set->capacity : 32;
		struct pollfd *fds = realloc(set->fds, capacity * sizeof *fds);

		if (!fds)
			return SIZE_MAX;
		set->fds = fds;
		set->capacity = capacity;
	}
	set->fds[set->count] = (struct pollfd){.fd = fd, .events = events};
	return set->count++;
}

short mrw_pollset_events(const struct mrw_pollset *set, size_t slot)
{
	return slot < set->count ? set->fds[slot].revents : 0;
}

void mrw_pollset_wait(struct mrw_pollset *set, uint64_t deadline_ms)
{
	if (poll(set->fds, set->count, mrw_boot_ms_until(deadline_ms)) < 0)
		for (size_t i = 0; i < set->count; i++)
			set->fds[i].revents = 0;
}
