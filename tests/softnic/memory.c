#include "memory.h"
#include "gpu.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

enum { MRS_MAX = 8192, UMEMS_MAX = 8192, PDS_MAX = 1024 };

static struct sn_mr mrs[MRS_MAX];
static struct sn_umem umems[UMEMS_MAX];
static struct sn_context *pds[PDS_MAX];

uint32_t sn_pd_alloc(struct sn_context *context)
{
	for (uint32_t pd = 1; pd < PDS_MAX; pd++) {
		if (!pds[pd]) {
			pds[pd] = context;
			return pd;
		}
	}
	return 0;
}

int sn_pd_free(uint32_t pd)
{
	if (pd == 0 || pd >= PDS_MAX || !pds[pd])
		return EINVAL;
	for (uint32_t i = 1; i < MRS_MAX; i++)
		if (mrs[i].valid && mrs[i].pd == pd)
			return EBUSY;
	pds[pd] = NULL;
	return 0;
}

bool sn_memory_refuses(const char *what)
{
	const char *list = getenv("MARROW_SOFTNIC_REFUSE");

	return list && strstr(list, what);
}

struct sn_mr *sn_mr_register(struct sn_context *context, uint32_t pd, uint64_t start, uint64_t iova, uint64_t bytes, uint32_t access)
{
	static uint32_t recent;

	if (!sn_gpu_register(start, bytes))
		return NULL;
	/* Handles in turn: a key that is used after its end is not at once another region's. */
	for (uint32_t n = 1; n < MRS_MAX; n++) {
		uint32_t i = (recent + n) % MRS_MAX;
		struct sn_mr *mr = &mrs[i];

		if (i == 0 || mr->context)
			continue;
		recent = i;
		/* The low byte is the region's variant. */
		*mr = (struct sn_mr){.context = context, .key = i << 8 | ((mr->key + 0x35) & 0xff), .pd = pd, .access = access,
				     .iova = iova, .start = start, .bytes = bytes, .valid = true};
		return mr;
	}
	sn_gpu_forget(start, bytes);
	return NULL;
}

int sn_mr_deregister(uint32_t handle)
{
	if (handle == 0 || handle >= MRS_MAX || !mrs[handle].context)
		return EINVAL;
	sn_gpu_forget(mrs[handle].start, mrs[handle].bytes);
	mrs[handle].valid = false;
	mrs[handle].context = NULL;
	return 0;
}

struct sn_mr *sn_mr_find(uint32_t key)
{
	struct sn_mr *mr = &mrs[(key >> 8) % MRS_MAX];

	return key >> 8 < MRS_MAX && mr->valid && mr->key == key ? mr : NULL;
}

const char *sn_mr_check(const struct sn_context *context, uint32_t pd, uint32_t key, uint64_t address, uint64_t bytes, uint32_t access,
			uint64_t *at)
{
	const struct sn_mr *mr = sn_mr_find(key);

	if (!mr)
		return "no memory region has this key";
	if (mr->context != context)
		return "the key belongs to another device context";
	if (mr->pd != pd)
		return "the region and the queue pair are in different protection domains";
	if (address < mr->iova || bytes > mr->bytes || address - mr->iova > mr->bytes - bytes)
		return "out of the region's bounds";
	if ((mr->access & access) != access)
		return "the region does not permit this access";
	*at = address - mr->iova + mr->start;
	return NULL;
}

uint32_t sn_umem_register(struct sn_context *context, uint64_t start, uint64_t bytes)
{
	if (!sn_gpu_register(start, bytes))
		return 0;
	for (uint32_t i = 1; i < UMEMS_MAX; i++) {
		if (!umems[i].valid) {
			umems[i] = (struct sn_umem){.context = context, .start = start, .bytes = bytes, .valid = true};
			return i;
		}
	}
	sn_gpu_forget(start, bytes);
	return 0;
}

int sn_umem_deregister(uint32_t umem)
{
	if (umem == 0 || umem >= UMEMS_MAX || !umems[umem].valid)
		return EINVAL;
	sn_gpu_forget(umems[umem].start, umems[umem].bytes);
	umems[umem].valid = false;
	return 0;
}

void *sn_umem_at(const struct sn_context *context, uint32_t umem, uint64_t offset, uint64_t bytes)
{
	const struct sn_umem *u = &umems[umem % UMEMS_MAX];

	if (umem >= UMEMS_MAX || !u->valid || u->context != context || bytes > u->bytes || offset > u->bytes - bytes)
		return NULL;
	return (void *)(uintptr_t)(u->start + offset);
}

void sn_memory_release(const struct sn_context *context)
{
	for (uint32_t i = 1; i < MRS_MAX; i++)
		if (mrs[i].context == context)
			sn_mr_deregister(i);
	for (uint32_t i = 1; i < UMEMS_MAX; i++)
		if (umems[i].valid && umems[i].context == context)
			sn_umem_deregister(i);
	for (uint32_t i = 1; i < PDS_MAX; i++)
		if (pds[i] == context)
			pds[i] = NULL;
}
