/* window.h - receive buffers that the peers of this host write directly, where their ranks say so in the opening line.
 *
 * Direct or staged is the receiver's word, operation by operation. A body whose call has windows calls mrw_places_say() first and mrw_places_heard()
 * before it writes results; then mrw_direct() says of each peer where, and of this rank whether the others write its output. They did so before the
 * round counter that this rank waits for anyway, as for staging. */
#ifndef MRW_WINDOW_H
#define MRW_WINDOW_H

#include "flag.h"

MRW_DEV bool mrw_has_windows(const struct mrw_args *a)
{
	return MRW_WINDOWS && (MRW_ON_CUDA || a->call.windows);
}

/* What this rank says. A captured call may be replayed when its window is gone. */
MRW_DEV uint64_t mrw_place_mine(const struct mrw_args *a)
{
	if (!mrw_has_windows(a) || a->place == 0)
		return 0;
	const struct mrw_window *w = mrw_window_at(&a->layout, a->arena[a->rank], mrw_place_slot(a->place));
	return mrw_load_relaxed(&w->id) == a->window_id ? a->place : 0;
}

/* Channel 0, between begin and end of operation seq: says it to all. What the stream did to the output before this kernel is done before a peer
 * writes. Partner: mrw_wait_place(). */
MRW_DEV_CALL void mrw_places_say(const struct mrw_team *team, const struct mrw_args *a, uint32_t seq)
{
	uint64_t place = mrw_place_mine(a);
	for (uint32_t p = mrw_team_high(team); p < a->nranks; p += team->size) {
		if (p == a->rank)
			continue;
		struct mrw_opening *o = &mrw_heard_at(&a->layout, a->arena[p], mrw_slot_there(a, p), seq & 1)->line;
		mrw_store_relaxed(&o->unit[2], (place & 0xffffffffu) | (uint64_t)seq << 32);
		mrw_publish(&o->unit[3], place >> 32 | (uint64_t)seq << 32);
	}
}

/* What peer has said of operation seq, if it has. */
MRW_DEV bool mrw_place_seen(const struct mrw_opening *o, uint32_t seq, uint64_t *place)
{
	uint64_t low = mrw_load_relaxed(&o->unit[2]), high = mrw_load_relaxed(&o->unit[3]);
	*place = (low & 0xffffffffu) | high << 32;
	return low >> 32 == seq && high >> 32 == seq;
}

/* Waits for what w.peer says in operation w.seq, whose call is the same: where its output is mapped here, or NULL. Partner: mrw_places_say(). */
MRW_DEV_CALL bool mrw_wait_place(const struct mrw_args *a, struct mrw_where w, uint8_t **direct)
{
	const struct mrw_opening *o = &mrw_heard_at(&a->layout, a->arena[a->rank], mrw_slot_here(a, w.peer), w.seq & 1)->line;
	uint64_t since = 0, place;
	if (!mrw_wait_opening(a, w))
		return false;
	for (uint32_t spins = 0; !mrw_place_seen(o, w.seq, &place); spins++) {
		if (spins % MRW_POLLS_A_LOOK == MRW_POLLS_A_LOOK - 1) {
			w.expected = w.seq;
			w.seen = mrw_load_relaxed(&o->unit[3]) >> 32;
			since = mrw_look(a, w, since, spins / MRW_POLLS_A_LOOK);
			if (since == 0)
				return false;
		}
		mrw_pause(spins, a->spin_limit);
	}
	mrw_observed(&o->unit[3]);
	*direct = place ? mrw_window_at(&a->layout, a->arena[a->rank], mrw_place_slot(place))->base[w.peer] + mrw_place_offset(place) : NULL;
	return true;
}

/* From here on mrw_direct() knows. Behind mrw_rounds_wait(), with what it returned, of the first round that writes results; likewise false means that the
 * whole team leaves. Not before the first round's wait: channel 0's warps have come apart in the begin of the operation, and to wait then left them
 * apart for all of the kernel, which took 1.4 times as long. */
MRW_DEV bool mrw_places_heard(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq, bool ok)
{
	if (!mrw_has_windows(a) || !ok)
		return ok;
	for (uint32_t p = team->index; ok && p < a->nranks; p += team->size) {
		struct mrw_where w = {seq, channel, p, MRW_WAIT_OPENING, 0, 0};
		if (p == a->rank)
			mrw_team_direct(team)[p] = mrw_place_mine(a) ? a->out : NULL;
		else
			ok = mrw_wait_place(a, w, &mrw_team_direct(team)[p]);
	}
	mrw_stall(channel + 320);
	ok = !mrw_team_any(team, !ok);
	if (!ok)
		mrw_team_dismiss(team);
	return ok;
}

/* Rank p's output of the call as mapped here, if it may be written directly; for this rank: if the others write it. Else NULL: through staging. */
MRW_DEV uint8_t *mrw_direct(const struct mrw_team *team, const struct mrw_args *a, uint32_t p)
{
	return mrw_has_windows(a) ? mrw_team_direct(team)[p] : NULL;
}

#endif
