/* flag.h - waiting for others. Every wait of an operation ends in a loop here or in send.h: polls relaxed, takes the slow path every 64 polls, and
 * ends by data, by deadline, by mismatch, by abort or by poison. (Opening lines, and small and middle all-reduces, are polled for a bounded
 * moment first: MRW_QUICK_POLLS.)
 *
 * A wait that returns false means: leave. The team agrees on it at its next mrw_team_any(). */
#ifndef MRW_FLAG_H
#define MRW_FLAG_H

#include "fault.h"
#include "stall.h"
#include "team.h"

#define MRW_POLLS_A_LOOK 64u    /* polls between two slow looks */
/* Polls without a look. CUDA: some 2 ms. Host: a poll may cost a time slice, and nobody looks for faults meanwhile. */
#define MRW_QUICK_POLLS (MRW_ON_CUDA ? 4096u : MRW_POLLS_A_LOOK)
#define MRW_WATCH_NS 10000000u  /* host target: only a wait this long looks at the peers' sockets */
#define MRW_LOOKS_A_HOST_LOOK 64u /* CUDA: slow looks between two reads of the abort word, which is across the bus */

/* Whom a wait for w.peer is really for: that peer may be waiting for somebody itself, and have said so. */
MRW_DEV uint32_t mrw_stuck_by(const struct mrw_args *a, struct mrw_where w)
{
	if (!mrw_is_sparse(a) || !mrw_is_peer(a, w.peer) || (MRW_TRANSFERS && mrw_is_pairwise(a->call.func)))
		return w.peer;
	uint64_t told = mrw_load_relaxed(mrw_stuck_at(&a->layout, a->arena[a->rank], mrw_slot_here(a, w.peer)));
	uint32_t rank = (uint32_t)told - 1;
	return (uint32_t)told != 0 && told >> 32 == w.seq && rank < a->nranks && rank != a->rank ? rank : w.peer;
}

/* Along rails not everybody waits for the rank that is late: those who do tell their peers, a few times at most: threads of a team may wait
 * for different ranks. A full send queue is left alone. Not early: a peer on another host may lawfully have left by now, and then the queue
 * pair to it fails of this. */
MRW_DEV_CALL void mrw_stuck_tell(const struct mrw_args *a, struct mrw_where w, uint64_t now)
{
	uint64_t value = (uint64_t)w.seq << 32 | (mrw_stuck_by(a, w) + 1), index;
	struct mrw_control *mine = mrw_control(a, a->rank);
	uint64_t last = mrw_load_relaxed(&mine->told_ns);
	if (mrw_load_relaxed(&mine->told) == value || (last != 0 && now - last < a->deadline_ns / 32) ||
	    mrw_compare_swap(&mine->told_ns, last, now) != last)
		return;
	mrw_store_relaxed(&mine->told, value);
	for (uint32_t p = 0; p < a->nranks; p++) {
		if (mrw_is_near(a, p)) {
			mrw_store_relaxed(mrw_stuck_at(&a->layout, a->arena[p], mrw_slot_there(a, p)), value);
		} else if (mrw_is_far(a, p) && mrw_post_reserve(mrw_far_queue(a, 0, p), 1, &index)) {
			mrw_far_word(a, 0, p, index, mrw_stuck_offset(&a->layout, mrw_slot_there(a, p)), value);
			mrw_post_ready(mrw_far_queue(a, 0, p), index, 1);
		}
	}
}

/* The slow look, with poison as the caller has just seen it: what comes later is for the next look. */
MRW_DEV uint64_t mrw_look_with(const struct mrw_args *a, struct mrw_where w, uint64_t poison, uint64_t since_ns, uint32_t looks)
{
	struct mrw_control *mine = mrw_control(a, a->rank);
	if (poison != 0) {
		mrw_leave(a, w, poison);
		return 0;
	}
	if (mrw_opening_differs(a, w.seq, w.peer)) {
		mrw_raise(a, MRW_FAULT_MISMATCH, w, 0, 0);
		return 0;
	}
	if (mrw_lane_is_far(a, w.peer) && !mrw_far_alive(a, w.peer, &w.seen)) { /* a peer, or the other end of a transfer */
		mrw_raise(a, MRW_FAULT_NIC, w, 0, since_ns ? mrw_clock_ns() - since_ns : 0);
		return 0;
	}
	uint64_t now = mrw_clock_ns();
	if (since_ns == 0)
		return now;
	uint64_t waited = now - since_ns;
	/* On the host target nothing is across a bus, and 64 polls may have cost 64 time slices. */
	if (a->watch || looks % MRW_LOOKS_A_HOST_LOOK == 0) {
		uint32_t odd = mrw_odd_peer(a, w.seq); /* the peer waited for may be right and late, another one wrong */
		if (odd < a->nranks) {
			w.peer = odd;
			mrw_raise(a, MRW_FAULT_MISMATCH, w, 0, 0);
			return 0;
		}
		if (a->watch && waited > MRW_WATCH_NS)
			a->watch(a->watch_arg, w.peer);
		uint64_t abort = mrw_load_relaxed(&a->page->abort);
		if (abort != 0) {
			w.peer = mrw_cause_culprit(abort) % a->nranks;
			mrw_raise(a, mrw_cause_kind(abort), w, abort, waited);
			return 0;
		}
	}
	if (mrw_is_sparse(a) && waited > a->deadline_ns / 2 && !(MRW_TRANSFERS && mrw_is_pairwise(a->call.func)))
		mrw_stuck_tell(a, w, now);
	if (waited > a->deadline_ns) {
		w.peer = mrw_stuck_by(a, w);
		mrw_raise(a, MRW_FAULT_TIMEOUT, w, 0, waited);
		return 0;
	}
	if (waited > a->note_ns) {
		uint64_t last = mrw_load_relaxed(&mine->note_claim);
		if (last != (uint64_t)w.seq + 1 && mrw_compare_swap(&mine->note_claim, last, (uint64_t)w.seq + 1) == last)
			mrw_write_record(a, &a->page->note, MRW_FAULT_NONE, w, 0, waited);
	}
	return since_ns;
}

/* since_ns: when this wait began, 0 at its first look. Returns since_ns for the next look, 0: leave. */
MRW_DEV_CALL uint64_t mrw_look(const struct mrw_args *a, struct mrw_where w, uint64_t since_ns, uint32_t looks)
{
	return mrw_look_with(a, w, mrw_load_relaxed(&mrw_control(a, a->rank)->poison), since_ns, looks);
}

/* Waits until the counter at p has reached want (free-running), then observes it. Partner: mrw_publish() of the counter. */
MRW_DEV_CALL bool mrw_wait_reached(const struct mrw_args *a, const uint64_t *p, uint64_t want, struct mrw_where w)
{
	uint64_t since = 0, seen;
	for (uint32_t spins = 0; (int64_t)((seen = mrw_load_relaxed(p)) - want) < 0; spins++) {
		if (spins % MRW_POLLS_A_LOOK == MRW_POLLS_A_LOOK - 1) {
			w.expected = want;
			w.seen = seen;
			since = mrw_look(a, w, since, spins / MRW_POLLS_A_LOOK);
			if (since == 0)
				return false;
		}
		mrw_pause(spins, a->spin_limit);
	}
	mrw_observed(p);
	return true;
}

/* True if both units carry seq: only then is either payload good. */
MRW_DEV bool mrw_packet_is(struct mrw_packet v, uint32_t seq)
{
	return (uint32_t)(v.unit[0] >> 32) == seq && (uint32_t)(v.unit[1] >> 32) == seq;
}

/* Waits until the packet carries w.seq. No order beyond the packet itself. Partner: mrw_packet_send(). */
MRW_DEV bool mrw_wait_packet(const struct mrw_args *a, const struct mrw_packet *p, struct mrw_where w, uint32_t payload[2])
{
	uint64_t since = 0;
	struct mrw_packet v;
	for (uint32_t spins = 0; !mrw_packet_is(v = mrw_load_packet(p), w.seq); spins++) {
		if (spins % MRW_POLLS_A_LOOK == MRW_POLLS_A_LOOK - 1) {
			w.expected = w.seq;
			w.seen = v.unit[0] >> 32;
			since = mrw_look(a, w, since, spins / MRW_POLLS_A_LOOK);
			if (since == 0)
				return false;
		}
		mrw_pause(spins, a->spin_limit);
	}
	payload[0] = (uint32_t)v.unit[0];
	payload[1] = (uint32_t)v.unit[1];
	return true;
}

/* Peer p's opening line of operation seq comes within a moment and says the same. False: nothing is decided. A call costs a small operation
 * a fifth of its time: its instructions are fetched from afar. Partner: mrw_opening_send(). */
MRW_DEV bool mrw_opening_quick(const struct mrw_args *a, uint32_t seq, uint32_t p)
{
	const struct mrw_opening *o = &mrw_heard_at(&a->layout, a->arena[a->rank], mrw_slot_here(a, p), seq & 1)->line;
	struct mrw_packet v;
	for (uint32_t polls = 0; !mrw_packet_is(v = mrw_load_packet((const struct mrw_packet *)(const void *)o->unit), seq); polls++) {
		if (polls == MRW_QUICK_POLLS)
			return false;
		mrw_pause(polls, a->spin_limit);
	}
	return (uint32_t)v.unit[0] == (uint32_t)a->call.hash && (uint32_t)v.unit[1] == (uint32_t)(a->call.hash >> 32);
}

/* Waits for peer's opening line of operation w.seq and compares it. */
MRW_DEV_CALL bool mrw_wait_opening(const struct mrw_args *a, struct mrw_where w)
{
	uint64_t since = 0, hash;
	for (uint32_t spins = 0; !mrw_opening_seen(a, w.seq, w.peer, &hash); spins++) {
		if (spins % MRW_POLLS_A_LOOK == MRW_POLLS_A_LOOK - 1) {
			w.expected = w.seq;
			w.seen = mrw_load_relaxed(&mrw_heard_at(&a->layout, a->arena[a->rank], mrw_slot_here(a, w.peer), w.seq & 1)->line.unit[0]) >> 32;
			since = mrw_look(a, w, since, spins / MRW_POLLS_A_LOOK);
			if (since == 0)
				return false;
		}
		mrw_pause(spins, a->spin_limit);
	}
	if (hash != a->call.hash) {
		w.expected = a->call.hash;
		w.seen = hash;
		mrw_raise(a, MRW_FAULT_MISMATCH, w, 0, 0);
		return false;
	}
	return true;
}

#endif
