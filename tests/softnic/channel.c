#include "channel.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { CHANNELS_MAX = 512 };

/* A channel's number is its place plus a multiple of the table's size: one that was closed is never another. */
static struct {
	int read_fd, write_fd;     /* write_fd 0: unused */
	int number;
} channels[CHANNELS_MAX];

int sn_channel_open(int *channel)
{
	int fds[2];

	for (int i = 0; i < CHANNELS_MAX; i++) {
		if (channels[i].write_fd)
			continue;
		if (pipe2(fds, O_CLOEXEC))
			return -1;
		fcntl(fds[1], F_SETFL, O_NONBLOCK);
		channels[i].read_fd = fds[0];
		channels[i].write_fd = fds[1];
		channels[i].number = channels[i].number ? channels[i].number + CHANNELS_MAX : i + CHANNELS_MAX;
		*channel = channels[i].number;
		return fds[0];
	}
	errno = EMFILE;
	return -1;
}

int sn_channel_of(int fd)
{
	for (int i = 0; i < CHANNELS_MAX; i++)
		if (channels[i].write_fd && channels[i].read_fd == fd)
			return channels[i].number;
	return -1;
}

static int writer(int channel)
{
	int place = channel % CHANNELS_MAX;

	return channel >= 0 && channels[place].number == channel ? channels[place].write_fd : 0;
}

void sn_channel_say(int channel, const void *event, size_t bytes)
{
	int fd = writer(channel);

	if (fd && write(fd, event, bytes) < 0)
		return;
}

void sn_channel_close(int channel)
{
	int fd = writer(channel);

	if (!fd)
		return;
	channels[channel % CHANNELS_MAX].write_fd = 0;
	close(fd);
}
