/* region.c - memory that a NIC may read and write. */
#include "inside.h"

#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct mrw_region_handle {
	struct ibv_mr *mr;
};

const char *mrw_memlock_text(char text[64])
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit))
		snprintf(text, 64, "unknown");
	else if (limit.rlim_cur == RLIM_INFINITY)
		snprintf(text, 64, "unlimited");
	else
		snprintf(text, 64, "%llu KiB", (unsigned long long)limit.rlim_cur / 1024);
	return text;
}

static enum marrow_status registration_failed(const struct mrw_nic *nic, const void *memory, uint64_t bytes,
					      int dmabuf_fd, int error)
{
	char limit[64];
	const char *advice;

	mrw_memlock_text(limit);
	switch (error) {
	case ENOMEM:
	case EAGAIN:
	case EPERM:
		advice =
			"memory for RDMA is locked: raise the limit (ulimit -l unlimited; memlock in /etc/security/limits.conf, "
			"LimitMEMLOCK= of the service, --ulimit memlock=-1 of the container)";
		break;
	case EFAULT:
		advice =
			"part of it is not mapped; GPU memory without a dma-buf needs the kernel module nvidia-peermem";
		break;
	case EOPNOTSUPP:
	case EPROTONOSUPPORT:
	case EBADF:
		advice =
			"dma-bufs need Linux 5.12 and the open kernel module of the GPU's driver; nvidia-peermem does without";
		break;
	default:
		advice = "see the kernel log";
	}
	errno = error;
	return mrw_fail_errno(MARROW_SYSTEM_ERROR,
			      "%s: registering %llu bytes at %p%s failed (locked-memory limit %s; %s)", nic->info.name,
			      (unsigned long long)bytes, memory, dmabuf_fd >= 0 ? " by dma-buf" : "", limit, advice);
}

enum marrow_status mrw_region_new(struct mrw_nic *nic, void *memory, uint64_t bytes, int dmabuf_fd,
				  struct mrw_region *region)
{
	const struct mrw_verbs *v = nic->verbs;
	/* Flags follow their data by plain writes: relaxed ordering would let them pass. */
	int access =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct mrw_region_handle *handle;

	memset(region, 0, sizeof *region);
	if (dmabuf_fd >= 0 && !v->reg_dmabuf_mr)
		return mrw_fail(MARROW_UNSUPPORTED,
				"%s: this libibverbs has no ibv_reg_dmabuf_mr: rdma-core 34 or later is needed",
				nic->info.name);
	handle = malloc(sizeof *handle);
	if (!handle)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for a region");
	/* Remote addresses are the owner's own. */
	handle->mr = dmabuf_fd >= 0
			     ? v->reg_dmabuf_mr(nic->pd, 0, bytes, (uint64_t)(uintptr_t)memory, dmabuf_fd, access)
			     : v->reg_mr(nic->pd, memory, bytes, access);
	if (!handle->mr) {
		int error = errno;

		free(handle);
		return registration_failed(nic, memory, bytes, dmabuf_fd, error);
	}
	region->handle = handle;
	region->address = (uint64_t)(uintptr_t)memory;
	region->bytes = bytes;
	region->lkey = handle->mr->lkey;
	region->rkey = handle->mr->rkey;
	return MARROW_SUCCESS;
}

void mrw_region_free(struct mrw_nic *nic, struct mrw_region *region)
{
	if (region->handle) {
		int error = nic->verbs->dereg_mr(region->handle->mr);

		if (error)
			mrw_log(MRW_LOG_WARN, "%s: deregistering %llu bytes failed: %s", nic->info.name,
				(unsigned long long)region->bytes, strerror(error));
		free(region->handle);
	}
	memset(region, 0, sizeof *region);
}
