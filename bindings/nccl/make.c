/* make.c - communicators: creation. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(ncclUniqueId) == sizeof(struct marrow_unique_id), "an id is an id");

EXPORT(GetUniqueId, (ncclUniqueId * uniqueId))
{
	struct marrow_config config = MARROW_CONFIG_INIT;
	struct marrow_unique_id id;
	if (!uniqueId)
		return nccl_fail(ncclInvalidArgument, "ncclGetUniqueId: uniqueId is NULL");
	nccl_env_start();
	nccl_env_config(&config);
	ncclResult_t result = nccl_from("ncclGetUniqueId", marrow_get_unique_id_on(&id, &config));
	if (result == ncclSuccess)
		memcpy(uniqueId, &id, sizeof id);
	return result;
}

void nccl_comm_made(struct ncclComm *comm)
{
	uint32_t rank = 0, nranks = 0;
	int32_t device = -1;
	(void)marrow_comm_rank(comm->native, &rank);
	(void)marrow_comm_count(comm->native, &nranks);
	(void)marrow_comm_device(comm->native, &device);
	comm->rank = (int)rank;
	comm->nranks = (int)nranks;
	comm->device = device;
	nccl_log(DEBUG_INFO, "communicator%s%s: rank %d of %d, device %d", comm->config.name[0] ? " " : "", comm->config.name, comm->rank,
		 comm->nranks, comm->device);
	__atomic_store_n(&comm->life, LIFE_LIVE, __ATOMIC_RELEASE);
}

/* Does an item now, at the group's end or in the background, as its configuration and the group ask. *place: the user's handle. */
static ncclResult_t make(struct job_item *item, ncclComm_t *place, const char *function)
{
	bool nameless = item->kind == JOB_SPLIT && item->color == NCCL_SPLIT_NOCOLOR;
	ncclResult_t result = nccl_group_blocking(item->config.blocking, function);
	struct ncclComm *comm = result == ncclSuccess ? nccl_handle_take() : NULL;
	if (result == ncclSuccess && !comm)
		result = nccl_fail(ncclSystemError, "%s: out of memory for a communicator", function);
	if (result != ncclSuccess)
		goto fail;
	comm->config = item->config;
	item->comm = comm;
	*place = nameless ? NULL : comm;
	if (!item->config.blocking) {
		if (nccl_group_active()) {
			result = nccl_group_add_job(item, nameless ? NULL : place);
		} else {
			struct job_item *items = malloc(sizeof *items);
			if (items) {
				*items = *item;
				result = nccl_job_start(items, 1);
				if (result != ncclInProgress)
					*place = NULL;
				return result;
			}
			result = nccl_fail(ncclSystemError, "%s: out of memory", function);
		}
	} else {
		result = nccl_from(function, nccl_job_do(item));
		if (result == ncclSuccess && nccl_group_active())
			return nccl_group_add_made(comm, nameless ? NULL : place);
		if (result == ncclSuccess && comm->native)
			nccl_comm_made(comm);
		else if (result == ncclSuccess)
			nccl_handle_give_back(comm);
		free(item->exclude);
		item->exclude = NULL;
	}
	if (result == ncclSuccess)
		return ncclSuccess;
	nccl_handle_give_back(comm);
fail:
	*place = NULL;
	free(item->exclude);
	return result;
}

static ncclResult_t init(ncclComm_t *newcomm, int nranks, const ncclUniqueId *id, int rank, const ncclConfig_t *config, int device,
			 bool blocking, const char *function)
{
	struct job_item item = {.kind = JOB_INIT, .nranks = nranks, .rank = rank, .device = device, .id = *id};
	if (!newcomm)
		return nccl_fail(ncclInvalidArgument, "%s: comm is NULL", function);
	*newcomm = NULL;
	nccl_env_start();
	if (nranks < 1 || rank < 0 || rank >= nranks)
		return nccl_fail(ncclInvalidArgument, "%s: rank %d of %d: at least one rank, and rank from 0 to nranks - 1", function, rank, nranks);
	ncclResult_t result = nccl_config_parse(&item.config, config, NULL, function);
	if (result != ncclSuccess)
		return result;
	item.config.blocking = item.config.blocking || blocking;
	if (device < 0)
		(void)marrow_current_device(&item.device);
	return make(&item, newcomm, function);
}

EXPORT(CommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank))
{
	return init(comm, nranks, &commId, rank, NULL, -1, false, "ncclCommInitRank");
}

EXPORT(CommInitRankConfig, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config))
{
	return init(comm, nranks, &commId, rank, config, -1, false, "ncclCommInitRankConfig");
}

EXPORT(CommInitRankScalable, (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId *commIds, ncclConfig_t *config))
{
	struct marrow_unique_id id;
	if (nId < 1 || !commIds || nId > nranks)
		return nccl_fail(ncclInvalidArgument, "ncclCommInitRankScalable: %d ids for %d ranks%s: from one to one a rank", nId, nranks,
				 commIds ? "" : ", at NULL");
	for (int i = 1; i < nId; i++) {
		memcpy(&id, &commIds[i], sizeof id);
		(void)marrow_drop_unique_id(&id);
	}
	return init(newcomm, nranks, &commIds[0], myrank, config, -1, false, "ncclCommInitRankScalable");
}

static ncclResult_t check_devices(int ndev, const int *devlist)
{
	for (int i = 0; devlist && i < ndev; i++) {
		if (devlist[i] < 0)
			return nccl_fail(ncclInvalidArgument, "ncclCommInitAll: device %d in the list", devlist[i]);
		for (int k = 0; k < i; k++)
			if (devlist[k] == devlist[i])
				return nccl_fail(ncclInvalidUsage, "ncclCommInitAll: device %d twice in the list: one rank a device", devlist[i]);
	}
	return ncclSuccess;
}

EXPORT(CommInitAll, (ncclComm_t * comm, int ndev, const int *devlist))
{
	ncclUniqueId unique;
	struct marrow_unique_id id;
	struct marrow_config config = MARROW_CONFIG_INIT;
	if (!comm || ndev < 1)
		return nccl_fail(ncclInvalidArgument, "ncclCommInitAll: %s", comm ? "ndev is below 1" : "comm is NULL");
	for (int i = 0; i < ndev; i++)
		comm[i] = NULL;
	ncclResult_t result = check_devices(ndev, devlist);
	if (result != ncclSuccess)
		return result;
	nccl_env_start();
	nccl_env_config(&config);
	result = nccl_from("ncclCommInitAll", marrow_get_unique_id_on(&id, &config));
	if (result != ncclSuccess)
		return result;
	memcpy(&unique, &id, sizeof unique);
	(void)nccl_group_start();
	for (int i = 0; i < ndev && result == ncclSuccess; i++)
		result = init(&comm[i], ndev, &unique, i, NULL, devlist ? devlist[i] : i, true, "ncclCommInitAll");
	ncclResult_t ended = nccl_group_end();
	if (result == ncclSuccess)
		result = ended;
	if (result != ncclSuccess)
		(void)marrow_drop_unique_id(&id);
	return result;
}

EXPORT(CommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config))
{
	struct job_item item = {.kind = JOB_SPLIT, .parent = comm, .color = color, .key = key, .device = -1};
	if (!newcomm)
		return nccl_fail(ncclInvalidArgument, "ncclCommSplit: newcomm is NULL");
	*newcomm = NULL;
	ncclResult_t result = nccl_handle_enter(comm, "ncclCommSplit");
	if (result != ncclSuccess)
		return result;
	/* A wrong color is Marrow's to refuse: the other ranks hear of it. */
	result = nccl_config_parse(&item.config, config, &comm->config, "ncclCommSplit");
	item.device = comm->device;
	if (result == ncclSuccess)
		result = make(&item, newcomm, "ncclCommSplit");
	nccl_handle_leave(comm);
	return result;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

/* Ascending, each once, neither this rank nor all. */
static ncclResult_t copy_excluded(struct job_item *item, const int *list, int count, const struct ncclComm *comm)
{
	if (!list || count < 1 || count >= comm->nranks)
		return nccl_fail(ncclInvalidArgument, "ncclCommShrink: %d ranks to exclude%s, of %d", count, list ? "" : " at NULL", comm->nranks);
	item->exclude = malloc((size_t)count * sizeof *item->exclude);
	if (!item->exclude)
		return nccl_fail(ncclSystemError, "ncclCommShrink: out of memory");
	for (int i = 0; i < count; i++) {
		if (list[i] < 0 || list[i] >= comm->nranks || list[i] == comm->rank)
			return nccl_fail(ncclInvalidArgument, "ncclCommShrink: rank %d cannot be excluded by rank %d of %d", list[i], comm->rank,
					 comm->nranks);
		item->exclude[i] = (uint32_t)list[i];
	}
	qsort(item->exclude, (size_t)count, sizeof *item->exclude, by_number);
	for (int i = 1; i < count; i++)
		if (item->exclude[i] == item->exclude[i - 1])
			return nccl_fail(ncclInvalidArgument, "ncclCommShrink: rank %u is in the list twice", item->exclude[i]);
	item->nexclude = (uint32_t)count;
	return ncclSuccess;
}

static ncclResult_t shrink(ncclComm_t comm, const int *list, int count, ncclComm_t *newcomm, const ncclConfig_t *config, int flags)
{
	struct job_item item = {.kind = JOB_SHRINK, .parent = comm, .device = comm->device};
	if (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT)
		return nccl_fail(ncclInvalidArgument, "ncclCommShrink: flags 0x%x: NCCL_SHRINK_DEFAULT or NCCL_SHRINK_ABORT", flags);
	if (nccl_group_active())
		return nccl_fail(ncclInvalidUsage, "ncclCommShrink: not within a group");
	ncclResult_t result = nccl_config_parse(&item.config, config, &comm->config, "ncclCommShrink");
	if (result == ncclSuccess)
		result = copy_excluded(&item, list, count, comm);
	if (result != ncclSuccess) {
		free(item.exclude);
		return result;
	}
	item.flags = flags == NCCL_SHRINK_ABORT || __atomic_load_n(&comm->revoked, __ATOMIC_RELAXED) ? MARROW_SHRINK_ABORT
												 : MARROW_SHRINK_DEFAULT;
	return make(&item, newcomm, "ncclCommShrink");
}

EXPORT(CommShrink, (ncclComm_t comm, int *excludeRanksList, int excludeRanksCount, ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags))
{
	if (!newcomm)
		return nccl_fail(ncclInvalidArgument, "ncclCommShrink: newcomm is NULL");
	*newcomm = NULL;
	ncclResult_t result = nccl_handle_enter(comm, "ncclCommShrink");
	if (result != ncclSuccess)
		return result;
	result = shrink(comm, excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags);
	nccl_handle_leave(comm);
	return result;
}
