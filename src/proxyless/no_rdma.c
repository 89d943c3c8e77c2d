/* no_rdma.c - nic.h where the build has no RDMA. */
#include "nic.h"

#include <string.h>

static enum marrow_status unsupported(void)
{
	return mrw_fail(
		MARROW_UNSUPPORTED,
		"this build has no RDMA: configure it with -Drdma=enabled where the headers of libibverbs and libmlx5 "
		"are installed (Debian: libibverbs-dev)");
}

void mrw_nic_defaults(struct mrw_nic_config *config)
{
	memset(config, 0, sizeof *config);
}

enum marrow_status mrw_nic_count(const char *names, uint32_t *count)
{
	(void)names;
	*count = 0;
	return unsupported();
}

enum marrow_status mrw_nic_list(char *list, size_t bytes)
{
	(void)bytes;
	list[0] = '\0';
	return unsupported();
}

enum marrow_status mrw_nic_open(struct mrw_nic **nic, const char *names, uint32_t index,
				const struct mrw_nic_config *config)
{
	(void)names;
	(void)index;
	(void)config;
	*nic = NULL;
	return unsupported();
}

void mrw_nic_close(struct mrw_nic *nic)
{
	(void)nic;
}

void mrw_nic_get_info(const struct mrw_nic *nic, struct mrw_nic_info *info)
{
	(void)nic;
	memset(info, 0, sizeof *info);
}

enum marrow_status mrw_nic_self_test(struct mrw_nic *nic)
{
	(void)nic;
	return unsupported();
}

enum marrow_status mrw_nic_trial(struct mrw_nic *nic, uint32_t ms)
{
	(void)nic;
	(void)ms;
	return unsupported();
}

const char *mrw_nic_trouble(struct mrw_nic *nic)
{
	(void)nic;
	return NULL;
}

uint64_t mrw_nic_queue_bytes(const struct mrw_nic *nic)
{
	(void)nic;
	return 0;
}

enum marrow_status mrw_nic_place_queues(struct mrw_nic *nic, const struct mrw_queue_memory *memory)
{
	(void)nic;
	(void)memory;
	return unsupported();
}

enum marrow_status mrw_region_new(struct mrw_nic *nic, void *memory, uint64_t bytes, int dmabuf_fd,
				  struct mrw_region *region)
{
	(void)nic;
	(void)memory;
	(void)bytes;
	(void)dmabuf_fd;
	memset(region, 0, sizeof *region);
	return unsupported();
}

void mrw_region_free(struct mrw_nic *nic, struct mrw_region *region)
{
	(void)nic;
	memset(region, 0, sizeof *region);
}

enum marrow_status mrw_link_new(struct mrw_nic *nic, uint32_t peer_rank, struct mrw_queue *queue,
				struct mrw_link **link)
{
	(void)nic;
	(void)peer_rank;
	(void)queue;
	*link = NULL;
	return unsupported();
}

void mrw_link_get_address(const struct mrw_link *link, struct mrw_link_address *address)
{
	(void)link;
	memset(address, 0, sizeof *address);
}

void mrw_link_get_memory(const struct mrw_link *link, struct mrw_link_memory *memory)
{
	(void)link;
	memset(memory, 0, sizeof *memory);
}

void mrw_link_get_queue(const struct mrw_link *link, struct mrw_queue *queue)
{
	(void)link;
	memset(queue, 0, sizeof *queue);
}

bool mrw_link_is_placed(const struct mrw_link *link)
{
	(void)link;
	return false;
}

enum marrow_status mrw_link_push(struct mrw_link *link)
{
	(void)link;
	return unsupported();
}

enum marrow_status mrw_link_pull(struct mrw_link *link)
{
	(void)link;
	return unsupported();
}

enum marrow_status mrw_link_connect(struct mrw_link *link, const struct mrw_link_address *peer)
{
	(void)link;
	(void)peer;
	return unsupported();
}

void mrw_link_free(struct mrw_link *link)
{
	(void)link;
}
