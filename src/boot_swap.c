/* Passing file descriptors between ranks of one machine.
 *
 * Each rank has one abstract Unix datagram socket under a random name that it told in the root's table; it is bound before the
 * rank joins, so that whoever knows the table can send. A letter carries one descriptor and the job's key; the kernel says
 * which user sent it (SCM_CREDENTIALS, what SO_PEERCRED is to streams). Nobody connects, so nobody can stall. */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "boot.h"

enum { LETTER_MAGIC = 0x4c57524d, RETRY_MS = 2, HEAR_MS = 500 };

struct letter {
	uint32_t magic_le, from_le, to_le;
	uint32_t seq_le; /* swaps that this pair had before */
	uint8_t key[MRW_BOOT_KEY_BYTES];
};
_Static_assert(sizeof(struct letter) == 32, "struct letter is a wire format");

union control {
	char room[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
	struct cmsghdr align;
};

static socklen_t socket_name(struct sockaddr_un *sun, uint64_t name)
{
	memset(sun, 0, sizeof *sun);
	sun->sun_family = AF_UNIX;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)snprintf(sun->sun_path + 1, sizeof sun->sun_path - 1, "marrow-%016llx",
					    (unsigned long long)name));
}

enum marrow_status mrw_boot_swap_open(struct mrw_boot *boot, uint64_t *name)
{
	struct sockaddr_un sun;
	socklen_t bytes;
	int on = 1;

	MRW_TRY(mrw_boot_id_random(name, sizeof *name));
	bytes = socket_name(&sun, *name);
	boot->swap_fd = mrw_file_above_stdio(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	if (boot->swap_fd < 0)
		return mrw_sock_fail("a socket for passing descriptors");
	if (setsockopt(boot->swap_fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) ||
	    bind(boot->swap_fd, (struct sockaddr *)&sun, bytes))
		return mrw_fail_errno(MARROW_SYSTEM_ERROR, "binding the socket for passing descriptors");
	return MARROW_SUCCESS;
}

void mrw_boot_swap_close(struct mrw_boot *boot)
{
	if (boot->swap_fd >= 0)
		close(boot->swap_fd);
	boot->swap_fd = -1;
	for (struct mrw_boot_stash *next; boot->stash; boot->stash = next) {
		next = boot->stash->next;
		close(boot->stash->fd);
		free(boot->stash);
	}
}

/* 0, EAGAIN (later), or another errno value. */
static int send_letter(const struct mrw_boot *boot, uint32_t peer, int fd)
{
	struct letter letter = {
		htole32(LETTER_MAGIC), htole32(boot->rank), htole32(peer), htole32(boot->swaps[peer]), {0}};
	struct iovec data = {&letter, sizeof letter};
	union control control;
	struct sockaddr_un sun;
	struct msghdr message = {.msg_name = &sun,
				 .msg_iov = &data,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = CMSG_SPACE(sizeof fd)};
	struct cmsghdr *header;
	ssize_t sent;

	memcpy(letter.key, boot->key, sizeof letter.key);
	memset(&control, 0, sizeof control);
	message.msg_namelen = socket_name(&sun, le64toh(boot->members[peer].swap_le));
	header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(header), &fd, sizeof fd);
	do
		sent = sendmsg(boot->swap_fd, &message, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent >= 0)
		return 0;
	/* The peer's queue is short (net.unix.max_dgram_qlen), and descriptors under way are limited. */
	return errno == EWOULDBLOCK || errno == ENOBUFS || errno == ETOOMANYREFS ? EAGAIN : errno;
}

/* Opens one letter. *fd -1: it was none of ours. MARROW_IN_PROGRESS: no more. */
static enum marrow_status open_letter(struct mrw_boot *boot, int *fd, uint32_t *from, uint32_t *seq)
{
	struct letter letter;
	struct iovec data = {&letter, sizeof letter};
	union control control;
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	struct ucred sender = {.pid = 0, .uid = (uid_t)-1};
	ssize_t got;

	*fd = -1;
	do
		got = recvmsg(boot->swap_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
		return mrw_fail_errno(MARROW_SYSTEM_ERROR, "receiving a file descriptor");
	if (got < 0)
		return MARROW_IN_PROGRESS;
	for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
		if (header->cmsg_level != SOL_SOCKET)
			continue;
		if (header->cmsg_type == SCM_CREDENTIALS)
			memcpy(&sender, CMSG_DATA(header), sizeof sender);
		else if (header->cmsg_type == SCM_RIGHTS)
			for (size_t at = CMSG_LEN(0); at + sizeof *fd <= header->cmsg_len; at += sizeof *fd) {
				if (*fd >= 0)
					close(*fd);
				memcpy(fd, (uint8_t *)header + at, sizeof *fd);
				*fd = mrw_file_above_stdio(*fd);
			}
	}
	*from = le32toh(letter.from_le);
	*seq = le32toh(letter.seq_le);
	if (got != sizeof letter || le32toh(letter.magic_le) != LETTER_MAGIC ||
	    memcmp(letter.key, boot->key, sizeof letter.key) || sender.uid != getuid() ||
	    le32toh(letter.to_le) != boot->rank || *from >= boot->nranks) {
		mrw_log(MRW_LOG_WARN, "bootstrap: dropped a file descriptor from pid %d, user %u: not of this job",
			(int)sender.pid, (unsigned)sender.uid);
		if (*fd >= 0)
			close(*fd);
		*fd = -1;
		return MARROW_SUCCESS;
	}
	if (*fd < 0) {
		errno = EMFILE;
		return mrw_sock_fail("receiving a file descriptor");
	}
	return MARROW_SUCCESS;
}

static int from_stash(struct mrw_boot *boot, uint32_t rank, uint32_t seq)
{
	for (struct mrw_boot_stash **at = &boot->stash; *at; at = &(*at)->next)
		if ((*at)->rank == rank && (*at)->seq == seq) {
			struct mrw_boot_stash *entry = *at;
			int fd = entry->fd;

			*at = entry->next;
			free(entry);
			return fd;
		}
	return -1;
}

/* All letters go to the stash first; each peer then takes its own. */
static enum marrow_status receive(struct mrw_boot *boot)
{
	for (;;) {
		struct mrw_boot_stash *entry;
		uint32_t from = 0, seq = 0;
		int fd;
		enum marrow_status status = open_letter(boot, &fd, &from, &seq);

		if (status == MARROW_IN_PROGRESS)
			return MARROW_SUCCESS;
		MRW_TRY(status);
		if (fd < 0)
			continue;
		entry = malloc(sizeof *entry);
		if (!entry) {
			close(fd);
			return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for a file descriptor");
		}
		*entry = (struct mrw_boot_stash){boot->stash, from, seq, fd};
		boot->stash = entry;
	}
}

/* A peer that cannot be reached any more may have left because of another one: its own words are on their way then. */
static enum marrow_status blame(struct mrw_boot *boot, uint32_t peer, int error)
{
	uint64_t until_ms = mrw_boot_now_ms() + HEAR_MS;

	do {
		mrw_boot_pump(boot, -1, mrw_boot_now_ms() + RETRY_MS);
		MRW_TRY(mrw_boot_check_trouble(boot, "passing descriptors"));
	} while (mrw_boot_now_ms() < until_ms);
	errno = error;
	return mrw_fail_errno(MARROW_REMOTE_ERROR,
			      "cannot pass a file descriptor to %s: it has ended, or is in another network namespace (containers of one machine must share "
			      "it, or differ in MARROW_HOST_ID)", mrw_boot_name(boot, peer));
}

/* With the lock. sent: a flag per peer. */
static enum marrow_status swap(struct mrw_boot *boot, const uint32_t *peers, uint32_t npeers, int fd, int *received,
			       bool *sent)
{
	uint64_t deadline_ms = mrw_boot_now_ms() + boot->timeout_ms;

	for (;;) {
		uint32_t missing = 0, unsent = 0, first = 0;

		MRW_TRY(receive(boot));
		for (uint32_t i = 0; i < npeers; i++) {
			int error = sent[i] ? 0 : send_letter(boot, peers[i], fd);

			if (error && error != EAGAIN)
				return blame(boot, peers[i], error);
			sent[i] = !error;
			unsent += error != 0;
			if (received[i] < 0)
				received[i] = from_stash(boot, peers[i], boot->swaps[peers[i]]);
			if ((received[i] < 0 || error) && !missing++)
				first = i;
		}
		if (!missing)
			return MARROW_SUCCESS;
		MRW_TRY(mrw_boot_check_trouble(boot, "passing descriptors"));
		if (mrw_boot_now_ms() >= deadline_ms)
			return mrw_fail(MARROW_TIMEOUT, "no file descriptor from %s within %llu ms",
					mrw_boot_name(boot, peers[first]), (unsigned long long)boot->timeout_ms);
		mrw_boot_pump(boot, boot->swap_fd, unsent ? mrw_boot_now_ms() + RETRY_MS : deadline_ms);
	}
}

enum marrow_status mrw_boot_swap_fds(struct mrw_boot *boot, const uint32_t *peers, uint32_t npeers, int fd,
				     int *received)
{
	enum marrow_status status;
	bool *sent, alone;

	for (uint32_t i = 0; i < npeers; i++) {
		received[i] = -1;
		if (peers[i] >= boot->nranks || peers[i] == boot->rank)
			return mrw_fail(MARROW_INVALID_ARGUMENT, "passing descriptors: rank %u as a peer of rank %u",
					peers[i], boot->rank);
	}
	sent = calloc(npeers + 1, sizeof *sent);
	if (!sent)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory to pass descriptors");
	pthread_mutex_lock(&boot->lock);
	status = mrw_boot_begin_exchange(boot);
	if (status != MARROW_SUCCESS) {
		pthread_mutex_unlock(&boot->lock);
		free(sent);
		return status;
	}
	status = swap(boot, peers, npeers, fd, received, sent);
	for (uint32_t i = 0; i < npeers; i++)
		boot->swaps[peers[i]]++;
	alone = !boot->troubled;
	mrw_boot_end_exchange(boot);
	pthread_mutex_unlock(&boot->lock);
	if (status != MARROW_SUCCESS) {
		for (uint32_t i = 0; i < npeers; i++)
			if (received[i] >= 0) {
				close(received[i]);
				received[i] = -1;
			}
		if (alone)
			mrw_boot_tell(boot, MRW_NOTICE_FAULT, mrw_error_text());
	}
	free(sent);
	return status;
}
