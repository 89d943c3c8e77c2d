/* later.c - names of NCCL 2.28's device side and of 2.29 and 2.30: programs bind all of them when they load the library. What asks for
 * NCCL's device structures or for remote memory access is refused in words. */
#include "binding.h"

#include <string.h>

/* What ncclCommProperties_t begins with since NCCL 2.29. */
struct properties {
	size_t size;
	unsigned int magic, version;
	int rank, nranks, cuda_device, nvml_device;
};
_Static_assert(sizeof(struct properties) == 32, "layout of NCCL's communicator properties");

static const unsigned int api_magic = 0xcafebeef;

/* The rest is NCCL's device side and one-sided operations, laid out by version: all zero, as they are not there. */
EXPORT(CommQueryProperties, (ncclComm_t comm, void *props))
{
	struct properties p;
	ncclResult_t result = nccl_handle_enter(comm, "ncclCommQueryProperties");
	if (result != ncclSuccess)
		return result;
	if (props)
		memcpy(&p, props, offsetof(struct properties, rank));
	if (!props || p.magic != api_magic || p.size < sizeof p) {
		result = nccl_fail(ncclInvalidArgument, "ncclCommQueryProperties: props does not start with NCCL_COMM_PROPERTIES_INITIALIZER");
	} else {
		p.rank = comm->rank;
		p.nranks = comm->nranks;
		p.cuda_device = comm->device;
		p.nvml_device = -1;
		memcpy(props, &p, sizeof p);
		memset((char *)props + sizeof p, 0, p.size - sizeof p);
	}
	nccl_handle_leave(comm);
	return result;
}

enum memory_stat { STAT_SUSPENDABLE, STAT_SUSPENDED, STAT_PERSISTENT, STAT_TOTAL };

EXPORT(CommMemStats, (ncclComm_t comm, int stat, uint64_t *value))
{
	struct marrow_comm_properties p = {.size = sizeof p};
	ncclResult_t result = nccl_handle_enter(comm, "ncclCommMemStats");
	if (result != ncclSuccess)
		return result;
	if (!value || stat < STAT_SUSPENDABLE || stat > STAT_TOTAL)
		result = nccl_fail(ncclInvalidArgument, "ncclCommMemStats: statistic %d%s", stat, value ? "" : ", value is NULL");
	else
		result = nccl_from("ncclCommMemStats", marrow_comm_get_properties(comm->native, &p));
	if (result == ncclSuccess)
		*value = (stat == STAT_PERSISTENT || stat == STAT_TOTAL) && p.target == MARROW_TARGET_CUDA ? p.arena_bytes : 0;
	nccl_handle_leave(comm);
	return result;
}

/* Callers clear their arguments away: what is not looked at need not be declared. */
#define REFUSE(name, arguments, instead) \
	EXPORT(name, arguments) \
	{ \
		return nccl_unsupported("nccl" #name, instead); \
	}

#define DEVICE_SIDE "its kernels read NCCL's own device structures; use the host calls"
#define ONE_SIDED "one-sided operations are not there; use ncclSend() and ncclRecv() in a group"
#define PARAMETERS "NCCL's parameters are not kept; README has the variables that are understood"
#pragma GCC diagnostic ignored "-Wunused-parameter"

REFUSE(DevCommCreate, (ncclComm_t comm, const void *requirements, void *out), DEVICE_SIDE)
REFUSE(DevCommDestroy, (ncclComm_t comm, const void *device_comm), DEVICE_SIDE)
REFUSE(GetLsaMultimemDevicePointer, (ncclWindow_t window, size_t offset, void **out), DEVICE_SIDE)
REFUSE(GetLsaDevicePointer, (ncclWindow_t window, size_t offset, int rank, void **out), DEVICE_SIDE)
REFUSE(GetPeerDevicePointer, (ncclWindow_t window, size_t offset, int peer, void **out), DEVICE_SIDE)

REFUSE(GetMultimemDevicePointer, (ncclWindow_t window, size_t offset), DEVICE_SIDE)
REFUSE(LsaBarrierCreateRequirement, (void), DEVICE_SIDE)
REFUSE(GinBarrierCreateRequirement, (void), DEVICE_SIDE)
REFUSE(GinInboxA2ACreateRequirement, (void), DEVICE_SIDE)
REFUSE(GinOutboxCreateRequirement, (void), DEVICE_SIDE)
REFUSE(LLA2ACreateRequirement, (void), DEVICE_SIDE)

EXPORT_AS(int, LLA2ACalcSlots, (int elems, int elem_bytes))
{
	(void)nccl_unsupported("ncclLLA2ACalcSlots", DEVICE_SIDE);
	return 0;
}

/* Ranks at equal steps. One of no ranks: there is none. */
struct team {
	int nranks, rank, stride;
};

EXPORT_AS(struct team, TeamWorld, (ncclComm_t comm))
{
	struct team team = {0, 0, 0};
	if (nccl_handle_enter(comm, "ncclTeamWorld") != ncclSuccess)
		return team;
	team = (struct team){comm->nranks, comm->rank, 1};
	nccl_handle_leave(comm);
	return team;
}

EXPORT_AS(struct team, TeamLsa, (ncclComm_t comm))
{
	(void)nccl_unsupported("ncclTeamLsa", DEVICE_SIDE);
	return (struct team){0, 0, 0};
}

EXPORT_AS(struct team, TeamRail, (ncclComm_t comm))
{
	(void)nccl_unsupported("ncclTeamRail", DEVICE_SIDE);
	return (struct team){0, 0, 0};
}

EXPORT_AS(int, TeamRankToWorld, (ncclComm_t comm, struct team team, int rank))
{
	if (nccl_handle_enter(comm, "ncclTeamRankToWorld") != ncclSuccess)
		return -1;
	int world = comm->rank + (rank - team.rank) * team.stride;
	nccl_handle_leave(comm);
	return world;
}

EXPORT_AS(int, TeamRankToLsa, (ncclComm_t comm, struct team team, int rank))
{
	(void)nccl_unsupported("ncclTeamRankToLsa", DEVICE_SIDE);
	return -1;
}

REFUSE(CommGetUniqueId, (ncclComm_t comm, ncclUniqueId *id), "communicators do not grow; make a new one")
REFUSE(CommGrow, (ncclComm_t comm, int nranks, const ncclUniqueId *id, int rank, ncclComm_t *newcomm, ncclConfig_t *config),
       "communicators do not grow; make a new one")
REFUSE(CommSuspend, (ncclComm_t comm, int flags), "destroy the communicator to have its memory back")
REFUSE(CommResume, (ncclComm_t comm), "no communicator is ever suspended")

REFUSE(PutSignal, (const void *local, size_t count, ncclDataType_t type, int peer, ncclWindow_t window, size_t offset, int signal, int context,
		   unsigned int flags, ncclComm_t comm, cudaStream_t stream), ONE_SIDED)
REFUSE(Signal, (int peer, int signal, int context, unsigned int flags, ncclComm_t comm, cudaStream_t stream), ONE_SIDED)
REFUSE(WaitSignal, (int count, void *descriptions, ncclComm_t comm, cudaStream_t stream), ONE_SIDED)

REFUSE(ParamBind, (void **out, const char *key), PARAMETERS)
REFUSE(ParamGetI8, (void *handle, int8_t *out), PARAMETERS)
REFUSE(ParamGetI16, (void *handle, int16_t *out), PARAMETERS)
REFUSE(ParamGetI32, (void *handle, int32_t *out), PARAMETERS)
REFUSE(ParamGetI64, (void *handle, int64_t *out), PARAMETERS)
REFUSE(ParamGetU8, (void *handle, uint8_t *out), PARAMETERS)
REFUSE(ParamGetU16, (void *handle, uint16_t *out), PARAMETERS)
REFUSE(ParamGetU32, (void *handle, uint32_t *out), PARAMETERS)
REFUSE(ParamGetU64, (void *handle, uint64_t *out), PARAMETERS)
REFUSE(ParamGetStr, (void *handle, const char **out), PARAMETERS)
REFUSE(ParamGet, (void *handle, void *out, int most, int *length), PARAMETERS)
REFUSE(ParamGetParameter, (const char *key, const char **value, int *length), PARAMETERS)
REFUSE(ParamGetAllParameterKeys, (const char ***table, int *length), PARAMETERS)

EXPORT_AS(void, ParamDumpAll, (void))
{
	(void)nccl_unsupported("ncclParamDumpAll", PARAMETERS);
}
