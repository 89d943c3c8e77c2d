/* peer.h - what a body may do to a peer, whatever lies between: mapped memory or a NIC.
 *
 * Packets: mrw_packet_send() to mrw_packets_to(), no order among them; where mrw_spans(), mrw_packets_push() after a team sync. Chunks: store
 * into mrw_staging_to() of this round and mrw_stage_note() them, then mrw_rounds_publish(): everything stored in the round is
 * visible to whoever sees the counter. A body stores nowhere else, but for results to outputs that their ranks offer (device/window.h), and reads only its own arena and buffers; it waits for packets, rounds and opening
 * lines, and the functions here for room in send queues and outbox. Across hosts an operation ends with mrw_rounds_drain(): nothing of it is on its way to a rank that left it.
 *
 * The round counter of a channel is data flag and credit in one (device/wire.h says why that is enough). */
#ifndef MRW_PEER_H
#define MRW_PEER_H

#include "schedule.h"
#include "device/operation.h"

/* Until every peer has completed round - lag (counters reach round - lag + 1) and, if this rank goes on to write (fill), its outbox is free.
 * ok: this thread's state so far. Ends in a vote. */
MRW_DEV bool mrw_rounds_reached(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint64_t round,
				uint32_t lag, bool fill, bool ok)
{
	const uint64_t *mine = mrw_round_at(&a->layout, a->arena[a->rank], channel, 0);
	for (uint32_t p = team->index; ok && p < a->nranks; p += team->size) {
		struct mrw_where w = {seq, channel, p, MRW_WAIT_ROUND, 0, 0};
		if (mrw_is_peer(a, p))
			ok = mrw_wait_reached(a, &mine[mrw_slot_here(a, p)], round - lag + 1, w);
		if (ok && fill && mrw_is_far(a, p)) /* posted by another thread perhaps: the last vote or gate lies between */
			ok = mrw_far_settled(a, MRW_POSTED_ROUND, channel, round & 1, p, w);
	}
	mrw_stall(channel + 128);
	return !mrw_team_any(team, !ok);
}

/* Begins round. False means that the whole team leaves. Partner: mrw_rounds_publish() of the peers. */
MRW_DEV bool mrw_rounds_wait(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint64_t round,
			     uint32_t lag, bool ok)
{
	ok = mrw_rounds_reached(team, channel, a, seq, round, lag, true, ok);
	mrw_team_gate(team);
	if (!ok)
		mrw_team_dismiss(team);
	return ok;
}

/* After the last round of an operation: waits for everything that peers on other hosts send in it. A rank that leaves takes its arena away
 * from the NIC. Counters only: a peer that has them may lawfully be gone. */
MRW_DEV bool mrw_rounds_drain(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint64_t rounds, bool ok)
{
	return mrw_spans(a) && ok ? mrw_rounds_reached(team, channel, a, seq, rounds, 1, false, ok) : ok;
}

/* Before packets of operation seq are written: the outbox is free. ok: of this thread; ends in a vote. */
MRW_DEV_CALL bool mrw_packets_settled(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq, bool ok)
{
	for (uint32_t p = mrw_team_high(team); ok && p < a->nranks; p += team->size) {
		struct mrw_where w = {seq, channel, p, MRW_WAIT_SEND, 0, 0};
		/* Channel 0's mark is this operation's greeting already: behind whatever was there. */
		if (mrw_is_far(a, p) && channel > 0)
			ok = mrw_far_settled(a, MRW_POSTED_OPERATION, channel, seq & 1, p, w);
	}
	return !mrw_team_any(team, !ok);
}

/* The team put bytes into mrw_staging_to(format, channel, p, round). */
MRW_DEV void mrw_stage_note(const struct mrw_team *team, const struct mrw_args *a, uint32_t format, uint32_t channel, uint32_t p,
			    uint64_t round, uint32_t bytes)
{
	if (team->index == 0 && mrw_is_far(a, p))
		*mrw_note_at(&a->layout, a->arena[a->rank], format, channel, round, mrw_slot_here(a, p)) = bytes;
}

/* Tells the peers that this rank has completed round; what the team did in it is behind a team sync. index of count threads. */
MRW_DEV void mrw_rounds_tell(const struct mrw_args *a, uint32_t channel, uint32_t seq, uint64_t round, uint32_t index, uint32_t count)
{
	for (uint32_t p = index; p < a->nranks; p += count)
		if (mrw_is_near(a, p))
			mrw_publish(mrw_round_at(&a->layout, a->arena[p], channel, mrw_slot_there(a, p)), round + 1);
	/* Those on other hosts last: a full send queue is waited for. Failed: this rank is poisoned, and its next wait ends. */
	for (uint32_t p = index; mrw_spans(a) && p < a->nranks; p += count)
		if (mrw_is_far(a, p))
			(void)mrw_round_send(a, channel, p, seq, round);
}

/* Of the operation under way, until mrw_op_end(). */
MRW_DEV uint32_t mrw_channel_seq(const struct mrw_args *a, uint32_t channel)
{
	return (uint32_t)mrw_load_relaxed(&mrw_control(a, a->rank)->channel[channel].word) + 1;
}

/* Ends round: what the team stored in it becomes visible to the peers, what it read in it may be overwritten by them. On CUDA the
 * signal warp does the telling, so that nobody waits for its fence. */
MRW_DEV void mrw_rounds_publish(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round)
{
	mrw_team_hand_over(team);
	mrw_stall(channel + 192);
	if (!MRW_TEAM_SIGNALS)
		mrw_rounds_tell(a, channel, mrw_channel_seq(a, channel), round, mrw_team_high(team), team->size);
}

/* The signal warp's whole part in an operation of rounds rounds. */
MRW_DEV void mrw_rounds_signal(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t rounds)
{
	uint64_t first = mrw_load_relaxed(&mrw_control(a, a->rank)->channel[channel].round);
	uint32_t seq = mrw_channel_seq(a, channel); /* the team may end the operation before this warp's last round */
	for (uint64_t t = 0; t < rounds; t++) {
		if (!mrw_signal_take(team, t == 0))
			return;
		mrw_stall(channel + 256);
		/* Where there is no signal warp this is never reached, but must not divide its work by 0 threads. */
		mrw_rounds_tell(a, channel, seq, first + t, team->index - team->size, MRW_TEAM_SIGNALS + !MRW_TEAM_SIGNALS);
	}
}

/* Remembers the rounds of a finished operation for the next one. */
MRW_DEV void mrw_rounds_keep(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t rounds)
{
	if (team->index == 0)
		mrw_store_relaxed(&mrw_control(a, a->rank)->channel[channel].round, rounds);
}

#endif
