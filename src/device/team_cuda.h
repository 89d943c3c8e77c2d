/* team_cuda.h - team.h for the GPU. Only team.h includes this.
 *
 * A team is the first size threads of a block, whole warps. Blocks that move rounds have one more warp, the signal warp, which tells
 * the peers that a round is done: its system fence takes 1.5-2 us while stores are under way, and the team goes on meanwhile.
 *
 * Barriers of a block: 1 the team's own; 2 hand-over, team arrives, signal warp waits: a round's work is done; 3 gate, signal warp
 * arrives, team waits: the signal warp has taken the last hand-over. Each round passes gate, then hand-over, so neither barrier
 * is ever arrived at twice in one phase. After a poll or a tail the lanes of a warp need not have come together again, and bar.sync
 * would then count the warp more than once: they are the unaligned kind, and the lanes meet first. A team that is the whole block takes
 * the language's barrier instead, which waits for every thread wherever its warp is, and costs an operation 0.25 us less. Dismissal: the flag is
 * set between a gate and a last hand-over.
 */
#ifndef MRW_TEAM_CUDA_H
#define MRW_TEAM_CUDA_H

#define MRW_TEAM_SIGNALS 32u /* threads of the signal warp */

struct mrw_team {
	uint32_t index, size;
	bool whole;          /* the block has no other threads */
	uint32_t *dismissed; /* shared memory, for the signal warp; in blocks without one for mrw_team_tell(), or NULL */
#if MRW_WINDOWS
	uint8_t **direct;    /* shared memory, window.h: for each rank of a host */
#endif
};

MRW_DEV uint8_t **mrw_team_direct(const struct mrw_team *team)
{
#if MRW_WINDOWS
	return team->direct;
#else
	(void)team;
	return NULL;
#endif
}

/* Kernels may be launched before their predecessor in the stream has left (device/cuda.c): first of all they wait for its end and its
 * stores. Nothing to wait for: costs nothing. */
MRW_DEV void mrw_await_predecessor(void)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

MRW_DEV void mrw_team_sync(const struct mrw_team *team)
{
	if (team->whole) {
		__syncthreads();
		return;
	}
	__syncwarp();
	asm volatile("barrier.sync 1, %0;" ::"r"(team->size) : "memory");
}

/* A sync that tells every thread whether any thread said true. */
MRW_DEV bool mrw_team_any(const struct mrw_team *team, bool mine)
{
	uint32_t any, said = mine;
	if (team->whole)
		return __syncthreads_or(mine);
	__syncwarp();
	asm volatile("{\n"
		     ".reg .pred p, q;\n"
		     "setp.ne.u32 p, %1, 0;\n"
		     "barrier.red.or.pred q, 1, %2, p;\n"
		     "selp.u32 %0, 1, 0, q;\n"
		     "}" : "=r"(any) : "r"(said), "r"(team->size) : "memory");
	return any != 0;
}

/* What thread 0 says, to all: a sync. Before the next one there must be another sync, or a thread might still be reading. */
MRW_DEV uint32_t mrw_team_tell(const struct mrw_team *team, uint32_t value)
{
	if (team->index == 0)
		*(volatile uint32_t *)team->dismissed = value;
	mrw_team_sync(team);
	return *(volatile uint32_t *)team->dismissed;
}

/* True in the signal warp. */
MRW_DEV bool mrw_team_is_signal(const struct mrw_team *team)
{
	return team->index >= team->size;
}

/* Team: the signal warp has taken the last hand-over. Partner: mrw_signal_take(). */
MRW_DEV void mrw_team_gate(const struct mrw_team *team)
{
	__syncwarp();
	asm volatile("barrier.sync 3, %0;" ::"r"(team->size + MRW_TEAM_SIGNALS) : "memory");
}

/* Team: the round's stores are done; does not wait. Partner: mrw_signal_take(). */
MRW_DEV void mrw_team_hand_over(const struct mrw_team *team)
{
	__syncwarp();
	asm volatile("barrier.arrive 2, %0;" ::"r"(team->size + MRW_TEAM_SIGNALS) : "memory");
}

/* Team, after a gate: sends the signal warp home. */
MRW_DEV void mrw_team_dismiss(const struct mrw_team *team)
{
	if (team->index == 0)
		*(volatile uint32_t *)team->dismissed = 1; /* partner: mrw_signal_take(), across barrier 2 */
	mrw_team_hand_over(team);
}

/* Signal warp: waits for the next hand-over. False: dismissed. Partners: mrw_team_gate(), mrw_team_hand_over(). */
MRW_DEV bool mrw_signal_take(const struct mrw_team *team, bool first)
{
	if (first && team->index == team->size)
		*(volatile uint32_t *)team->dismissed = 0; /* before the first gate opens; partner: mrw_team_dismiss() */
	__syncwarp();
	asm volatile("barrier.arrive 3, %0;" ::"r"(team->size + MRW_TEAM_SIGNALS) : "memory");
	asm volatile("barrier.sync 2, %0;" ::"r"(team->size + MRW_TEAM_SIGNALS) : "memory");
	return *(volatile uint32_t *)team->dismissed == 0;
}

#endif
