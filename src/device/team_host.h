/* team_host.h - team.h for the host target. Only team.h includes this. */
#ifndef MRW_TEAM_HOST_H
#define MRW_TEAM_HOST_H

#define MRW_TEAM_SIGNALS 0u /* no signal warp: the team tells the peers itself */

/* A reusable barrier with a vote. word counts arrivals (low half) and generations (high half); votes[g & 1] collects generation g. told: what
 * mrw_team_tell() hands over. */
struct mrw_team_barrier {
	uint64_t word;
	uint64_t votes[2];
	uint64_t told;
};

struct mrw_team {
	uint32_t index, size;
	struct mrw_team_barrier *barrier; /* NULL iff size is 1 */
	uint8_t **direct;                 /* window.h: for each rank of a host; NULL where there are no windows */
};

MRW_DEV uint8_t **mrw_team_direct(const struct mrw_team *team)
{
	return team->direct;
}

/* A sync that tells every thread whether any thread said true. The last arrival's release is the others' acquire. */
MRW_DEV bool mrw_team_any(const struct mrw_team *team, bool mine)
{
	if (team->size == 1)
		return mine;
	struct mrw_team_barrier *b = team->barrier;
	uint64_t generation = __atomic_load_n(&b->word, __ATOMIC_RELAXED) >> 32;
	if (mine)
		__atomic_store_n(&b->votes[generation & 1], 1, __ATOMIC_RELAXED);
	uint64_t arrived = __atomic_add_fetch(&b->word, 1, __ATOMIC_ACQ_REL) & 0xffffffffu;
	if (arrived == team->size) {
		__atomic_store_n(&b->votes[(generation + 1) & 1], 0, __ATOMIC_RELAXED);
		__atomic_store_n(&b->word, (generation + 1) << 32, __ATOMIC_RELEASE);
	} else {
		while (__atomic_load_n(&b->word, __ATOMIC_ACQUIRE) >> 32 == generation)
			sched_yield();
	}
	return __atomic_load_n(&b->votes[generation & 1], __ATOMIC_RELAXED) != 0;
}

MRW_DEV void mrw_team_sync(const struct mrw_team *team)
{
	(void)mrw_team_any(team, false);
}

/* What thread 0 says, to all: a sync. Before the next one there must be another sync, or a thread might still be reading. */
MRW_DEV uint32_t mrw_team_tell(const struct mrw_team *team, uint32_t value)
{
	if (team->size == 1)
		return value;
	if (team->index == 0)
		__atomic_store_n(&team->barrier->told, value, __ATOMIC_RELAXED);
	mrw_team_sync(team);
	return (uint32_t)__atomic_load_n(&team->barrier->told, __ATOMIC_RELAXED);
}

MRW_DEV bool mrw_team_is_signal(const struct mrw_team *team)
{
	(void)team;
	return false;
}

MRW_DEV void mrw_team_gate(const struct mrw_team *team)
{
	(void)team;
}

MRW_DEV void mrw_team_hand_over(const struct mrw_team *team)
{
	mrw_team_sync(team);
}

MRW_DEV void mrw_team_dismiss(const struct mrw_team *team)
{
	(void)team;
}

MRW_DEV bool mrw_signal_take(const struct mrw_team *team, bool first)
{
	(void)team;
	(void)first;
	return false;
}

#endif
