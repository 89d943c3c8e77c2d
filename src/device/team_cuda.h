/* team_cuda.h - team.h for the GPU. Only team.h includes this. */
#ifndef MRW_TEAM_CUDA_H
#define MRW_TEAM_CUDA_H

struct mrw_team {
	uint32_t index, size;
};

MRW_DEV void mrw_team_sync(const struct mrw_team *team)
{
	(void)team;
	__syncthreads();
}

/* A sync that tells every thread whether any thread said true. */
MRW_DEV bool mrw_team_any(const struct mrw_team *team, bool mine)
{
	(void)team;
	return __syncthreads_or(mine) != 0;
}

#endif
