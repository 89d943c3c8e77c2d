/* channel.h - descriptors that the program reads events from: asynchronous events and completion channels. */
#ifndef SN_CHANNEL_H
#define SN_CHANNEL_H

#include <stddef.h>

/* Returns the program's (reading) descriptor and the model's number for it in *channel; -1 with errno. */
int sn_channel_open(int *channel);
/* The channel of a reading descriptor, -1 if it is none. */
int sn_channel_of(int fd);
/* Never blocks; a full channel has events enough. */
void sn_channel_say(int channel, const void *event, size_t bytes);
/* Closes the model's end. */
void sn_channel_close(int channel);

#endif
