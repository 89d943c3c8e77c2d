/* rounds.h - the round counter of a channel: data flag and credit in one (device/wire.h says why that is enough). */
#ifndef MRW_ROUNDS_H
#define MRW_ROUNDS_H

#include "device/operation.h"

/* Begins round: waits until every peer has completed round - lag (counters reach round - lag + 1). ok: this thread's state so far.
 * Ends in a vote: false means that the whole team leaves. Partner: mrw_rounds_publish() of the peers. */
MRW_DEV bool mrw_rounds_wait(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint64_t round,
			     uint32_t lag, bool ok)
{
	const uint64_t *mine = mrw_control(a, a->rank)->rounds[channel];
	for (uint32_t p = team->index; ok && p < a->nranks; p += team->size) {
		struct mrw_where w = {seq, channel, p, MRW_WAIT_ROUND, 0, 0};
		if (p != a->rank)
			ok = mrw_wait_reached(a, &mine[p], round - lag + 1, w);
	}
	mrw_stall(channel + 128);
	return !mrw_team_any(team, !ok);
}

/* Ends round: what the team stored in it becomes visible to the peers, what it read in it may be overwritten by them. */
MRW_DEV void mrw_rounds_publish(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round)
{
	mrw_team_sync(team);
	mrw_stall(channel + 192);
	for (uint32_t p = mrw_team_high(team); p < a->nranks; p += team->size)
		if (p != a->rank)
			mrw_publish(&mrw_control(a, p)->rounds[channel][a->rank], round + 1);
}

/* Remembers the rounds of a finished operation for the next one. */
MRW_DEV void mrw_rounds_keep(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t rounds)
{
	if (team->index == 0)
		mrw_store_relaxed(&mrw_control(a, a->rank)->channel[channel].round, rounds);
}

/* Peer number q (1 ... nranks - 1) as seen from rank: every rank starts with its right neighbour, so that no one is hit by all. */
MRW_DEV uint32_t mrw_peer(const struct mrw_args *a, uint32_t q)
{
	uint32_t p = a->rank + q;
	return p < a->nranks ? p : p - a->nranks;
}

#endif
