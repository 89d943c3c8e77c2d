#include "channel.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { CHANNELS_MAX = 512 };

/* A channel's number is its place plus a multiple of the table's size: one that was closed is never another. Changed under the engine's
 * lock; sn_channel_of() looks without it: what it reads is published by reader, last at open and first at close. */
static struct {
	_Atomic int reader;        /* the program's descriptor plus 1; 0: unused */
	_Atomic int number;
	int write_fd;
} channels[CHANNELS_MAX];

int sn_channel_open(int *channel)
{
	int fds[2];

	for (int i = 0; i < CHANNELS_MAX; i++) {
		if (channels[i].reader)
			continue;
		if (pipe2(fds, O_CLOEXEC))
			return -1;
		fcntl(fds[1], F_SETFL, O_NONBLOCK);
		channels[i].write_fd = fds[1];
		channels[i].number = channels[i].number ? channels[i].number + CHANNELS_MAX : i + CHANNELS_MAX;
		channels[i].reader = fds[0] + 1;
		*channel = channels[i].number;
		return fds[0];
	}
	errno = EMFILE;
	return -1;
}

int sn_channel_of(int fd)
{
	for (int i = 0; i < CHANNELS_MAX; i++)
		if (channels[i].reader == fd + 1)
			return channels[i].number;
	return -1;
}

static int writer(int channel)
{
	int place = channel % CHANNELS_MAX;

	return channel >= 0 && channels[place].reader && channels[place].number == channel ? channels[place].write_fd : 0;
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
	channels[channel % CHANNELS_MAX].reader = 0;
	channels[channel % CHANNELS_MAX].write_fd = 0;
	close(fd);
}
