/* team.h - the threads that run one body together: a CUDA block, or the host threads of one channel (usually one). */
#ifndef MRW_TEAM_H
#define MRW_TEAM_H

#include "order.h"

#if MRW_ON_CUDA
#include "team_cuda.h"
#else
#include "team_host.h"
#endif

/* Work that must be done once for each of count peers is dealt out from both ends of the team, so that waiting (low threads)
 * and announcing (high threads) sit in different warps. */
MRW_DEV uint32_t mrw_team_high(const struct mrw_team *team)
{
	return team->size - 1 - team->index;
}

#endif
