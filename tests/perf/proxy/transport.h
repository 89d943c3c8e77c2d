/* transport.h - the two ways to send a message, data and behind it a flag, that are compared. The caller is "the kernel": on a GPU it would
 * be one. Both write the same bytes by the same two RDMA writes; who posts them differs. */
#ifndef PROXY_TRANSPORT_H
#define PROXY_TRANSPORT_H

#include "end.h"

struct message {
	uint32_t peer, bytes;
	uint64_t from, to, flag; /* offsets: mine, the peer's, the peer's */
	uint64_t value;          /* for the flag */
};

/* Of the kernel's thread, and of a thread that works for it. */
struct usage {
	uint64_t cpu_ns, yields, calls; /* calls: other system calls than yields, where they are counted */
};

struct transport {
	const char *name;
	enum mrw_queues queues;
	/* count: system calls of the helper, if there is one, are counted. */
	void *(*start)(struct end *end, bool count);
	/* Waits for room. The number of the message, of those to that peer. Its source may change once sent() says so. */
	uint64_t (*send)(void *self, const struct message *message);
	bool (*sent)(void *self, uint32_t peer, uint64_t number);
	/* NULL, or what has failed. */
	const char *(*trouble)(void *self);
	void (*helper_usage)(void *self, struct usage *usage);
	void (*stop)(void *self);
};

extern const struct transport transport_kernel; /* posts by itself: post.h */
extern const struct transport transport_proxy;  /* leaves it to a thread: a queue in memory, ibv_post_send */

/* One more look in vain of a loop that waits: every so often the core is given away, and that counted. */
void look_again(uint32_t *looks, uint64_t *yields);
/* The kernel's own. */
extern uint64_t kernel_yields;

#endif
