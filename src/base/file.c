#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

int mrw_file_above_stdio(int fd)
{
	int above, saved;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	above = fcntl(fd, fcntl(fd, F_GETFD) & FD_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, STDERR_FILENO + 1);
	saved = errno;
	close(fd);
	errno = saved;
	return above;
}

/* With or without pages for it. */
static int grow(int fd, uint64_t bytes, bool reserve)
{
	const struct timespec now = {0, 0};
	sigset_t size, before, pending;
	int error;

	sigemptyset(&size);
	sigaddset(&size, SIGXFSZ);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &size, &before);
	do
		error = reserve ? posix_fallocate(fd, 0, (off_t)bytes) : ftruncate(fd, (off_t)bytes) == 0 ? 0 : errno;
	while (error == EINTR);
	/* Only the one that this call raised: one that was waiting already is the program's. */
	if (error == EFBIG && !sigismember(&pending, SIGXFSZ))
		sigtimedwait(&size, NULL, &now);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

int mrw_file_reserve(int fd, uint64_t bytes)
{
	return grow(fd, bytes, true);
}

int mrw_file_extend(int fd, uint64_t bytes)
{
	return grow(fd, bytes, false);
}
