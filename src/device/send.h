/* send.h - posting to ranks on other hosts. A full ring is waited for like anything else: with a deadline, looking for faults. */
#ifndef MRW_SEND_H
#define MRW_SEND_H

#include "flag.h"

/* n consecutive requests of the queue to p. False: leave. */
MRW_DEV_CALL bool mrw_far_reserve(const struct mrw_args *a, uint32_t p, uint32_t n, struct mrw_where w, uint64_t *first)
{
	struct mrw_queue *q = a->far->peer[p].queue;
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
	struct mrw_queue *q = a->far->peer[p].queue;
	uint64_t behind = *mrw_posted_at(&a->layout, a->arena[a->rank], kind, channel, parity, p), since = 0;
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
	if (!mrw_far_reserve(a, p, 1, w, &index))
		return false;
	mrw_far_range(a, p, index, true, l->outbox + mrw_packets_offset(l, format, channel, a->rank, p, seq & 1),
		      mrw_packets_offset(l, format, channel, p, a->rank, seq & 1), count * (uint32_t)sizeof(struct mrw_packet));
	*mrw_posted_at(l, a->arena[a->rank], MRW_POSTED_OPERATION, channel, seq & 1, p) = index + 1;
	mrw_post_ready(a->far->peer[p].queue, index, 1);
	return true;
}

/* Waits until what this rank said two operations ago is with every rank on another host: it may say something new. */
MRW_DEV_CALL bool mrw_greetings_settled(const struct mrw_args *a, uint32_t seq)
{
	for (uint32_t p = 0; p < a->nranks; p++) {
		struct mrw_where w = {seq, 0, p, MRW_WAIT_SEND, 0, 0};
		if (mrw_is_far(a, p) && !mrw_far_settled(a, MRW_POSTED_OPERATION, 0, seq & 1, p, w))
			return false;
	}
	return true;
}

/* What this rank says of operation seq, to every rank on another host. */
MRW_DEV_CALL bool mrw_greetings_send(const struct mrw_args *a, uint32_t seq)
{
	uint64_t said = offsetof(struct mrw_control, said) + (seq & 1) * sizeof(struct mrw_greeting);
	uint64_t heard = offsetof(struct mrw_control, heard) + ((seq & 1) * MRW_MAX_RANKS + a->rank) * sizeof(struct mrw_greeting);
	for (uint32_t p = 0; p < a->nranks; p++) {
		struct mrw_where w = {seq, 0, p, MRW_WAIT_SEND, 0, 0};
		uint64_t index;
		if (!mrw_is_far(a, p))
			continue;
		if (!mrw_far_reserve(a, p, 1, w, &index))
			return false;
		mrw_far_range(a, p, index, true, said, heard, sizeof(struct mrw_greeting));
		*mrw_posted_at(&a->layout, a->arena[a->rank], MRW_POSTED_OPERATION, 0, seq & 1, p) = index + 1;
		mrw_post_ready(a->far->peer[p].queue, index, 1);
	}
	return true;
}

/* A round of channel to p: what the notes say is in the outbox, then the counter. */
MRW_DEV_CALL bool mrw_round_send(const struct mrw_args *a, uint32_t channel, uint32_t p, uint32_t seq, uint64_t round)
{
	struct mrw_where w = {seq, channel, p, MRW_WAIT_SEND, 0, 0};
	const struct mrw_layout *l = &a->layout;
	uint32_t bytes[MRW_FORMATS], n = 1;
	uint64_t index;
	for (uint32_t f = 0; f < MRW_FORMATS; f++) {
		uint32_t *note = mrw_note_at(l, a->arena[a->rank], f, channel, round, p);
		bytes[f] = *note;
		*note = 0;
		n += bytes[f] > 0;
	}
	if (!mrw_far_reserve(a, p, n, w, &index))
		return false;
	uint64_t at = index;
	for (uint32_t f = 0; f < MRW_FORMATS; f++)
		if (bytes[f] > 0)
			mrw_far_range(a, p, at++, false,
				      l->outbox + mrw_staging_offset(l, f, channel, mrw_writer_slot(a->rank, p), round),
				      mrw_staging_offset(l, f, channel, mrw_writer_slot(p, a->rank), round), bytes[f]);
	mrw_far_word(a, p, at, offsetof(struct mrw_control, rounds) + (channel * MRW_MAX_RANKS + a->rank) * 8, round + 1);
	*mrw_posted_at(l, a->arena[a->rank], MRW_POSTED_ROUND, channel, round & 1, p) = index + n;
	mrw_post_ready(a->far->peer[p].queue, index, n);
	return true;
}

#endif
