#include "context.h"
#include "channel.h"
#include "cq.h"
#include "engine.h"
#include "memory.h"
#include "qp.h"
#include "uar.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

enum { CONTEXTS_MAX = 256, DESCRIPTORS_MAX = 1 << 16 };

static struct sn_context contexts[CONTEXTS_MAX];
/* By descriptor; read without the lock by every write() of the program. */
static struct sn_context *_Atomic by_fd[DESCRIPTORS_MAX];

int sn_context_open(uint32_t card)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -1;
	sn_engine_lock();
	if (fd >= DESCRIPTORS_MAX || card >= sn_fabric.fabric->cards || sn_engine_start()) {
		sn_engine_unlock();
		close(fd);
		errno = ENODEV;
		return -1;
	}
	for (uint32_t i = 0; i < CONTEXTS_MAX; i++) {
		if (contexts[i].used)
			continue;
		contexts[i] = (struct sn_context){.used = true, .fd = fd, .card = card, .events = -1};
		atomic_store(&by_fd[fd], &contexts[i]);
		sn_engine_unlock();
		return fd;
	}
	sn_engine_unlock();
	close(fd);
	errno = EMFILE;
	return -1;
}

struct sn_context *sn_context_of(int fd)
{
	return fd >= 0 && fd < DESCRIPTORS_MAX ? atomic_load(&by_fd[fd]) : NULL;
}

void sn_context_close(struct sn_context *context)
{
	sn_engine_lock();
	atomic_store(&by_fd[context->fd], NULL);
	sn_ioctl_release(context);
	sn_qp_release(context);
	sn_cq_release(context);
	sn_memory_release(context);
	sn_uar_release(context);
	if (context->events >= 0)
		sn_channel_close(context->events);
	context->used = false;
	sn_engine_unlock();
}

void sn_context_forked(void)
{
	for (uint32_t i = 0; i < CONTEXTS_MAX; i++) {
		if (contexts[i].used)
			atomic_store(&by_fd[contexts[i].fd], NULL);
		contexts[i].used = false;
	}
}

struct sn_context *sn_context_nth(uint32_t n)
{
	for (uint32_t i = 0; i < CONTEXTS_MAX; i++)
		if (contexts[i].used && n-- == 0)
			return &contexts[i];
	return NULL;
}

void sn_context_run(void)
{
	for (uint32_t i = 0; i < CONTEXTS_MAX; i++) {
		struct sn_context *context = &contexts[i];
		struct ib_uverbs_async_event_desc event = {.event_type = IBV_EVENT_DEVICE_FATAL};

		if (!context->used || context->vanish_said || context->events < 0 ||
		    !atomic_load_explicit(&sn_fabric.fabric->card[context->card].down, memory_order_acquire))
			continue;
		context->vanish_said = true;
		sn_channel_say(context->events, &event, sizeof(event));
	}
}

const char *sn_context_host(const struct sn_context *context)
{
	return sn_fabric.fabric->host_id[sn_fabric.fabric->card[context->card].host];
}

uint32_t sn_context_nic(const struct sn_context *context)
{
	return sn_fabric.fabric->card[context->card].index;
}
