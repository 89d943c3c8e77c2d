/* context.h - an opened device: what a file descriptor of /dev/infiniband/uverbsN stands for. */
#ifndef SN_CONTEXT_H
#define SN_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sn_context {
	bool used;
	int fd;
	uint32_t card;             /* number in the fabric */
	int events;              /* channel of the asynchronous events, -1 */
	bool vanish_said;
};

/* Opens uverbs<card>: a descriptor that the hooks know, or -1 with errno. Starts the engine with the first. */
int sn_context_open(uint32_t card);
/* The context of a descriptor, NULL if it is none of ours. Cheap, without lock. */
struct sn_context *sn_context_of(int fd);
/* close(): frees everything that the program left. */
void sn_context_close(struct sn_context *context);
/* In a child after fork: its descriptors are the parent's. */
void sn_context_forked(void);
struct sn_context *sn_context_nth(uint32_t n);
/* Raises IBV_EVENT_DEVICE_FATAL where a NIC has vanished. Lock held. */
void sn_context_run(void);
const char *sn_context_host(const struct sn_context *context);
uint32_t sn_context_nic(const struct sn_context *context);

/* write() (command.c) and ioctl() (ioctl.c) of the kernel interface; as the system calls, errno set. Lock held. */
long sn_command(struct sn_context *context, const void *buffer, size_t bytes);
int sn_ioctl(struct sn_context *context, void *header);
/* The driver's part of the answer to "get context", for both. */
void sn_command_driver_context(void *to, size_t bytes);
/* Forgets the handles of a context's device objects. */
void sn_ioctl_release(const struct sn_context *context);
/* A device command (devx.c). 0 with its answer in out (which holds the device's own status), or an errno. */
int sn_devx(struct sn_context *context, const void *in, size_t in_bytes, void *out, size_t out_bytes);

#endif
