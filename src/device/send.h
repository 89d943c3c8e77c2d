/* send.h - posting to ranks on other hosts. A full ring is waited for like anything else: with a deadline, looking for faults. */
#ifndef MRW_SEND_H
#define MRW_SEND_H

#include "flag.h"

/* n consecutive requests of the queue pair to p that all of channel goes by. False: leave. */
MRW_DEV_CALL bool mrw_far_reserve(const struct mrw_args *a, uint32_t channel, uint32_t p, uint32_t n, struct mrw_where w, uint64_t *first)
{
	struct mrw_queue *q = mrw_far_queue(a, channel, p);
	uint64_t since = 0;
	w.peer = p;
	w.wait_for = MRW_WAIT_SEND;
	for (uint32_t spins = 0; !mrw_post_reserve(q, n, first); spins++) {
		if (spins % MRW_POLLS_A_LOOK == MRW_POLLS_A_LOOK - 1 || mrw_load_relaxed(&q->failed) != 0) {
			w.expected = mrw_load_relaxed(&q->reserved) + n - q->slots;
			w.seen = mrw_load_relaxed(&q->completed);
			since = mrw_look(a, w, since, spins / MRW_POLLS_A_LOOK);
			if (since == 0)
				return false;
		}
		mrw_pause(spins, a->spin_limit);
	}
	return true;
}

/* Until what channel posted for p two operations or rounds ago (kind, parity) is executed: its place in the outbox may be written again.
 * The credit alone is not enough, for a NIC whose acknowledgement was lost reads its source again. */
MRW_DEV_CALL bool mrw_far_settled(const struct mrw_args *a, enum mrw_posted_kind kind, uint32_t channel, uint32_t parity, uint32_t p,
				  struct mrw_where w)
{
	struct mrw_queue *q = mrw_far_queue(a, channel, p);
	uint64_t behind = *mrw_posted_at(&a->layout, a->arena[a->rank], kind, channel, parity, mrw_slot_here(a, p)), since = 0;
	w.peer = p;
	w.wait_for = MRW_WAIT_SEND;
	for (uint32_t spins = 0; behind != 0 && !mrw_poll_done(q, behind - 1); spins++) {
		if (spins % MRW_POLLS_A_LOOK == MRW_POLLS_A_LOOK - 1 || mrw_load_relaxed(&q->failed) != 0) {
			w.expected = behind;
			w.seen = mrw_load_relaxed(&q->completed);
			since = mrw_look(a, w, since, spins / MRW_POLLS_A_LOOK);
			if (since == 0)
				return false;
		}
		mrw_pause(spins, a->spin_limit);
	}
	return true;
}

/* count packets of (format, channel, parity) from the outbox to p: data and flags in one message. */
MRW_DEV_CALL bool mrw_packets_push(const struct mrw_args *a, uint32_t format, uint32_t channel, uint32_t p, uint32_t seq, uint32_t count)
{
	struct mrw_where w = {seq, channel, p, MRW_WAIT_SEND, 0, 0};
	const struct mrw_layout *l = &a->layout;
	uint64_t index;
	if (!mrw_far_reserve(a, channel, p, 1, w, &index))
		return false;
	mrw_far_range(a, channel, p, index, true, l->outbox + mrw_packets_offset(l, format, channel, mrw_slot_here(a, p), seq & 1),
		      mrw_packets_offset(l, format, channel, mrw_slot_there(a, p), seq & 1), count * (uint32_t)sizeof(struct mrw_packet));
	*mrw_posted_at(l, a->arena[a->rank], MRW_POSTED_OPERATION, channel, seq & 1, mrw_slot_here(a, p)) = index + 1;
	mrw_post_ready(mrw_far_queue(a, channel, p), index, 1);
	return true;
}

/* Waits until what this rank said two operations ago is with every peer on another host: it may say something new. */
MRW_DEV_CALL bool mrw_greetings_settled(const struct mrw_args *a, uint32_t seq)
{
	for (uint32_t p = 0; p < a->nranks; p++) {
		struct mrw_where w = {seq, 0, p, MRW_WAIT_SEND, 0, 0};
		if (mrw_is_far(a, p) && !mrw_far_settled(a, MRW_POSTED_OPERATION, 0, seq & 1, p, w))
			return false;
	}
	return true;
}

/* What this rank says of operation seq, to every peer on another host. */
MRW_DEV_CALL bool mrw_greetings_send(const struct mrw_args *a, uint32_t seq)
{
	uint64_t said = offsetof(struct mrw_control, said) + (seq & 1) * sizeof(struct mrw_greeting);
	for (uint32_t p = 0; p < a->nranks; p++) {
		struct mrw_where w = {seq, 0, p, MRW_WAIT_SEND, 0, 0};
		uint64_t index;
		if (!mrw_is_far(a, p))
			continue;
		if (!mrw_far_reserve(a, 0, p, 1, w, &index))
			return false;
		mrw_far_range(a, 0, p, index, true, said, mrw_heard_offset(&a->layout, mrw_slot_there(a, p), seq & 1), sizeof(struct mrw_greeting));
		*mrw_posted_at(&a->layout, a->arena[a->rank], MRW_POSTED_OPERATION, 0, seq & 1, mrw_slot_here(a, p)) = index + 1;
		mrw_post_ready(mrw_far_queue(a, 0, p), index, 1);
	}
	return true;
}

/* A round of channel to p: what the notes say is in the outbox, then the counter. */
MRW_DEV_CALL bool mrw_round_send(const struct mrw_args *a, uint32_t channel, uint32_t p, uint32_t seq, uint64_t round)
{
	struct mrw_where w = {seq, channel, p, MRW_WAIT_SEND, 0, 0};
	const struct mrw_layout *l = &a->layout;
	uint32_t bytes[MRW_FORMATS], n = 1, here = mrw_slot_here(a, p), there = mrw_slot_there(a, p);
	uint64_t index;
	for (uint32_t f = 0; f < MRW_FORMATS; f++) {
		uint32_t *note = mrw_note_at(l, a->arena[a->rank], f, channel, round, here);
		bytes[f] = *note;
		*note = 0;
		n += bytes[f] > 0;
	}
	if (!mrw_far_reserve(a, channel, p, n, w, &index))
		return false;
	uint64_t at = index;
	for (uint32_t f = 0; f < MRW_FORMATS; f++)
		if (bytes[f] > 0)
			mrw_far_range(a, channel, p, at++, false, l->outbox + mrw_staging_offset(l, f, channel, here, round),
				      mrw_staging_offset(l, f, channel, there, round), bytes[f]);
	mrw_far_word(a, channel, p, at, mrw_round_offset(l, channel, there), round + 1);
	*mrw_posted_at(l, a->arena[a->rank], MRW_POSTED_ROUND, channel, round & 1, here) = index + n;
	mrw_post_ready(mrw_far_queue(a, channel, p), index, n);
	return true;
}

#endif
