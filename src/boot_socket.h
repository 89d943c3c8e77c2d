/* boot_socket.h - TCP sockets of the bootstrap: addresses, listening, dialling, waiting. Every socket is non-blocking,
 * CLOEXEC and, once connected, NODELAY with keep-alive (a host that vanishes is noticed within about a minute). */
#ifndef MRW_BOOT_SOCKET_H
#define MRW_BOOT_SOCKET_H

#include <marrow/types.h>
#include <poll.h>
#include <stdbool.h>

struct sockaddr;

/* In wire format: bytes only. family 4, 6, or 0 for none. IPv4 uses the first 4 bytes; mapped IPv6 is stored as IPv4. */
struct mrw_addr {
	uint8_t family, zero;
	uint8_t port_be[2];
	uint8_t bytes[16];
};
_Static_assert(sizeof(struct mrw_addr) == 20, "struct mrw_addr is a wire format");

enum { MRW_ADDR_TEXT_BYTES = 64 };

/* "10.0.0.3:5000" or "[fd00::2]:5000"; without the port "10.0.0.3", "fd00::2". Returns text. */
char *mrw_addr_text(const struct mrw_addr *addr, bool with_port, char text[MRW_ADDR_TEXT_BYTES]);
/* False (and family 0) if it is neither IPv4 nor IPv6. */
bool mrw_addr_from_sockaddr(struct mrw_addr *addr, const struct sockaddr *sa);
uint16_t mrw_addr_port(const struct mrw_addr *addr);
void mrw_addr_set_port(struct mrw_addr *addr, uint16_t port);
bool mrw_addr_is_loopback(const struct mrw_addr *addr);

/* Monotonic clock. */
uint64_t mrw_boot_now_ms(void);
/* For poll(): 0 if the deadline passed, rounded up otherwise. */
int mrw_boot_ms_until(uint64_t deadline_ms);

/* Listens on addr (port 0: any) or, with addr NULL, on every address of the machine, both families; *bound: where. */
enum marrow_status mrw_sock_listen(int *fd, const struct mrw_addr *addr, uint16_t port, struct mrw_addr *bound);
/* Begins to connect. -1 with errno on failure. POLLOUT tells the end; then ask mrw_sock_dialled(). */
int mrw_sock_dial(const struct mrw_addr *addr);
/* 0 if connected, else an errno value. A socket that met itself counts as ECONNREFUSED. */
int mrw_sock_dialled(int fd);
/* -1 with errno; EAGAIN: none waits. Errors of the connection itself are skipped. */
int mrw_sock_accept(int listen_fd, struct mrw_addr *peer);
void mrw_sock_local(int fd, struct mrw_addr *local);
/* A failure with errno; for EMFILE and ENFILE with the limit and the remedy. */
enum marrow_status mrw_sock_fail(const char *what);

/* The descriptors of one poll(). */
struct mrw_pollset {
	struct pollfd *fds;
	size_t count, capacity;
};
/* Returns the slot; SIZE_MAX without memory (the descriptor is then looked at in the next pass). */
size_t mrw_pollset_add(struct mrw_pollset *set, int fd, short events);
short mrw_pollset_events(const struct mrw_pollset *set, size_t slot);
/* Waits until something happens or the deadline passes; EINTR counts as nothing. */
void mrw_pollset_wait(struct mrw_pollset *set, uint64_t deadline_ms);

#endif
