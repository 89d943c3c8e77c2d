/* fault.h - how a kernel says what is wrong, and how all leave.
 *
 * The first thread of a rank that finds a fault (or that its rank was told to leave) claims the record, writes it to the page,
 * poisons every peer's arena and its own; everybody else just leaves. Poison is sticky: later operations leave at
 * their begin. Transfers go between any two ranks, and ranks between them may be in no kernel that passes poison on: a fault of a launch of
 * transfers poisons all ranks, peers or not. */
#ifndef MRW_FAULT_H
#define MRW_FAULT_H

#include "page.h"
#include "transfer.h"

/* Where a wait stands. */
struct mrw_where {
	uint32_t seq, channel, peer, wait_for;
	uint64_t expected, seen;
};

/* True once the opening line of operation seq of a peer is here. */
MRW_DEV bool mrw_opening_seen(const struct mrw_args *a, uint32_t seq, uint32_t peer, uint64_t *hash)
{
	const struct mrw_opening *o = &mrw_heard_at(&a->layout, a->arena[a->rank], mrw_slot_here(a, peer), seq & 1)->line;
	uint64_t low = mrw_load_relaxed(&o->unit[0]), high = mrw_load_relaxed(&o->unit[1]);
	*hash = (low & 0xffffffffu) | high << 32;
	return (uint32_t)(low >> 32) == seq && (uint32_t)(high >> 32) == seq;
}

MRW_DEV bool mrw_opening_differs(const struct mrw_args *a, uint32_t seq, uint32_t peer)
{
	uint64_t hash;
	if (MRW_TRANSFERS && mrw_is_pairwise(a->call.func))
		return false; /* it may be further on, in a collective */
	return mrw_is_peer(a, peer) && mrw_opening_seen(a, seq, peer, &hash) && hash != a->call.hash;
}

/* A peer that makes another call at operation seq, as far as opening lines are here; nranks: none. */
MRW_DEV uint32_t mrw_odd_peer(const struct mrw_args *a, uint32_t seq)
{
	uint32_t p = 0;
	while (p < a->nranks && !mrw_opening_differs(a, seq, p))
		p++;
	return p;
}

/* Reads a rank's call of operation seq, if it is a peer, out of its arena, or out of its message; the copy is good once its seq and hash fit the opening line. */
MRW_DEV void mrw_read_call(const struct mrw_args *a, uint32_t seq, uint32_t peer, struct mrw_call *call)
{
	uint64_t copy[sizeof *call / 8];
	uint64_t hash, until = mrw_clock_ns() + 100000000u;
	memset(call, 0, sizeof *call);
	if ((MRW_TRANSFERS && mrw_is_pairwise(a->call.func)) || !mrw_is_peer(a, peer) || !mrw_opening_seen(a, seq, peer, &hash))
		return;
	const struct mrw_call *theirs = mrw_is_far(a, peer) ? &mrw_heard_at(&a->layout, a->arena[a->rank], mrw_slot_here(a, peer), seq & 1)->call
							    : &mrw_control(a, peer)->said[seq & 1].call;
	const uint64_t *words = (const uint64_t *)(const void *)theirs;
	do {
		for (uint32_t i = 0; i < sizeof *call / 8; i++)
			copy[i] = mrw_load_relaxed(&words[i]);
		memcpy(call, copy, sizeof *call);
	} while ((call->seq != seq || call->hash != hash) && mrw_clock_ns() < until);
}

MRW_DEV void mrw_write_record(const struct mrw_args *a, struct mrw_record *r, uint32_t kind, struct mrw_where w, uint64_t cause,
			      uint64_t waited_ns)
{
	mrw_store_relaxed(&r->state, 0); /* an earlier note is being overwritten */
	r->kind = kind;
	r->wait_for = w.wait_for;
	r->channel = w.channel;
	r->peer = w.peer;
	r->expected = w.expected;
	r->seen = w.seen;
	r->waited_ns = waited_ns;
	r->cause = cause;
	r->mine = a->call;
	r->mine.seq = w.seq;
	mrw_read_call(a, w.seq, w.peer, &r->theirs);
	if (MRW_TRANSFERS)
		mrw_record_transfer(a, w.channel, w.seq, r);
	mrw_publish(&r->state, 1); /* partner: the host's acquire load of state */
}

MRW_DEV void mrw_poison(const struct mrw_args *a, uint32_t p, uint64_t cause)
{
	if (MRW_TRANSFERS ? mrw_lane_is_far(a, p) : mrw_is_far(a, p))
		mrw_far_poison(a, p, cause);
	else
		mrw_store_relaxed(&mrw_control(a, p)->poison, cause);
}

/* This rank and all its peers must leave; a launch of transfers: all ranks. */
MRW_DEV void mrw_poison_all(const struct mrw_args *a, uint64_t cause)
{
	for (uint32_t p = 0; p < a->nranks; p++)
		if (p == a->rank || mrw_is_near(a, p) || (MRW_TRANSFERS && !mrw_lane_is_far(a, p)))
			mrw_poison(a, p, cause);
	for (uint32_t p = 0; mrw_spans(a) && p < a->nranks; p++) /* a full send queue costs time */
		if (MRW_TRANSFERS ? mrw_lane_is_far(a, p) : mrw_is_far(a, p))
			mrw_poison(a, p, cause);
}

/* Faults this rank: culprit is w.peer. cause 0: this rank is the origin and tells the peers. */
MRW_DEV_CALL void mrw_raise(const struct mrw_args *a, uint32_t kind, struct mrw_where w, uint64_t cause, uint64_t waited_ns)
{
	struct mrw_control *mine = mrw_control(a, a->rank);
	if (mrw_compare_swap(&mine->fault_claim, 0, 1) != 0)
		return;
	mrw_write_record(a, &a->page->fault, kind, w, cause, waited_ns);
	uint64_t poison = cause ? cause : mrw_cause((enum mrw_fault_kind)kind, w.peer, a->rank, w.seq);
	if (mrw_cause_origin(poison) == a->rank || mrw_is_sparse(a)) /* some have no path to the origin: each rank passes it on, once */
		mrw_poison_all(a, poison);
	else
		mrw_store_relaxed(&mine->poison, poison);
}

/* This rank was poisoned: leave a record. A mismatch that can be seen from here names both calls better than hearsay; but after an abort nobody
 * minds what would have been called. */
MRW_DEV_CALL void mrw_leave(const struct mrw_args *a, struct mrw_where w, uint64_t poison)
{
	if (mrw_load_relaxed(&mrw_control(a, a->rank)->fault_claim) != 0)
		return;
	uint32_t odd = mrw_cause_kind(poison) == MRW_FAULT_ABORT ? a->nranks : mrw_odd_peer(a, w.seq);
	if (odd < a->nranks) {
		w.peer = odd;
		mrw_raise(a, MRW_FAULT_MISMATCH, w, 0, 0);
		return;
	}
	w.peer = mrw_cause_culprit(poison) % a->nranks;
	mrw_raise(a, mrw_cause_kind(poison), w, poison, 0);
}

#endif
