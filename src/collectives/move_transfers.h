/* move_transfers.h - point to point, and the collectives that are made of it: send, recv, all_to_all, gather, scatter and their kin. Moves
 * bytes: compiled once, in a unit of its own (transfers.c, transfers.cu) with MRW_TRANSFERS set.
 *
 * A team has some lanes, of any peers and both ways. Its first thread looks at them in turn until one can go on, and tells the others, who wait in
 * a barrier meanwhile; together they take one step of that lane. No lane is waited for alone.
 *
 * Why that always ends. Let both ends of every pair launch the same transfers, however they group them, and consider the launches under
 * way at some moment. A step of a lane waits for nothing but the other end's same lane: its line, a chunk or a credit; and a send
 * queue, which the NIC empties by itself. Both ends of a lane take the same transfers in the same order, so of the two the one that is behind can
 * always go on - if its rank has launched that transfer. What a launch waits for is therefore only that its peers launch the
 * other ends; how lanes are dealt to teams, and in which order a group was written, changes nothing. Launches of a rank follow each
 * other, so ranks whose groups, taken as wholes, wait in a circle wait for ever, as they would by the meaning of their program. */
#ifndef MRW_MOVE_TRANSFERS_H
#define MRW_MOVE_TRANSFERS_H

#include "lane.h"

#define MRW_COPY_SLICE (64u << 10) /* of what a rank sends itself, by one team */

/* Lanes of a launch, by number: one team of the host target may have those of all ranks, both ways. */
#define MRW_LANE_WORDS (MRW_ON_CUDA ? MRW_MAX_ROUTES / 64 : (MRW_ALL_ROUTES + 63) / 64)

struct mrw_lane_set {
	uint64_t word[MRW_LANE_WORDS];
};

/* The word that lane number l is in. With one word there is nothing to divide: the set stays in a register. */
MRW_PURE uint32_t mrw_lane_word(uint32_t l)
{
	return MRW_LANE_WORDS > 1 ? l / 64 : 0;
}

MRW_DEV bool mrw_lanes_left(const struct mrw_lane_set *s)
{
	uint64_t any = 0;
	for (uint32_t k = 0; k < MRW_LANE_WORDS; k++)
		any |= s->word[k];
	return any != 0;
}

/* Takes the lowest lane out of a set that has one. */
MRW_DEV uint32_t mrw_lanes_take(struct mrw_lane_set *s)
{
	uint32_t k = 0;
	while (MRW_LANE_WORDS > 1 && s->word[k] == 0)
		k++;
	uint32_t l = k * 64 + mrw_lowest_bit(s->word[k]);
	s->word[k] &= s->word[k] - 1;
	return l;
}

/* Poisoned because of a mismatch with this rank: a lane that has heard the other end names both sides. Who has none gives the team that has a
 * moment to say so first. */
#define MRW_EVIDENCE_NS 10000000u

MRW_DEV_CALL void mrw_transfers_accuse(const struct mrw_transfers *m, struct mrw_lane_set active, uint32_t seq, uint64_t poison)
{
	const struct mrw_args *a = &m->a;
	struct mrw_control *mine = mrw_control(a, a->rank);
	while (mrw_lanes_left(&active)) {
		struct mrw_stand h;
		uint64_t bytes;
		uint32_t words;
		if (!mrw_stand_find(m, mrw_lanes_take(&active), &h) || !h.t || !mrw_line_heard(&a->layout, h.own, h.number, &bytes, &words))
			continue;
		if (mrw_transfer_first(&a->layout, h.number, h.lane) == 0 && mrw_line_differs(h.t, bytes, words)) {
			mrw_raise(a, MRW_FAULT_MISMATCH, mrw_stand_where(m, &h, seq), 0, 0);
			return;
		}
	}
	if (mrw_cause_kind(poison) != MRW_FAULT_MISMATCH || mrw_cause_culprit(poison) != a->rank)
		return;
	for (uint64_t until = mrw_clock_ns() + MRW_EVIDENCE_NS; mrw_load_relaxed(&mine->fault_claim) == 0 && mrw_clock_ns() < until;)
		mrw_pause(0, a->spin_limit);
}

/* The slow look of a team none of whose lanes can go on; see mrw_look(). Lanes take turns in being the one that is named. */
MRW_DEV_CALL uint64_t mrw_transfers_look(const struct mrw_transfers *m, struct mrw_lane_set active, uint32_t seq, uint64_t since_ns,
					 uint32_t looks)
{
	const struct mrw_args *a = &m->a;
	struct mrw_stand h;
	uint64_t poison = mrw_load_relaxed(&mrw_control(a, a->rank)->poison);
	if (poison != 0)
		mrw_transfers_accuse(m, active, seq, poison);
	uint32_t count = 0;
	for (struct mrw_lane_set rest = active; mrw_lanes_left(&rest); count++)
		(void)mrw_lanes_take(&rest);
	for (uint32_t n = looks % count; n > 0; n--)
		(void)mrw_lanes_take(&active);
	(void)mrw_stand_find(m, mrw_lanes_take(&active), &h);
	/* Not poison that came meanwhile: nobody would have accused. */
	return mrw_look_with(a, mrw_stand_where(m, &h, seq), poison, since_ns, looks);
}

/* Lane number l is lane l / routes of route l % routes. Nearly always there are as many teams for each route: they share out its lanes from the
 * home of its first transfer on, which moves on with every launch, so that none has two while another one is idle. Else lane l is team l's, modulo
 * their count. */
MRW_DEV bool mrw_lanes_even(const struct mrw_transfers *m)
{
	return m->a.call.channels % m->routes == 0;
}

/* The team's first lane of a route; a->layout.lanes: it has none. Not for lanes shared out evenly. */
MRW_DEV uint32_t mrw_lane_own(const struct mrw_transfers *m, uint32_t channel, uint32_t route)
{
	uint32_t lane = 0;
	while (lane < m->a.layout.lanes && (lane * m->routes + route) % m->a.call.channels != channel)
		lane++;
	return lane;
}

MRW_DEV struct mrw_lane *mrw_lane_numbered(const struct mrw_transfers *m, uint32_t l)
{
	const struct mrw_args *a = &m->a;
	const struct mrw_route *r = mrw_route_at(m, l % m->routes);
	return mrw_lane_at(&a->layout, a->arena[a->rank], (enum mrw_way)r->way, l / m->routes, mrw_lane_here(a, r->peer));
}

/* The pair's first transfer in the launch, by the first base that this thread keeps: all of a pair are the same when a launch begins. Before it is
 * needed: it comes with what begin loads. */
MRW_DEV uint64_t mrw_lanes_peek(const struct mrw_team *team, const struct mrw_transfers *m, uint32_t channel)
{
	uint32_t l = channel + team->index * m->a.call.channels;
	return l < m->routes << m->a.layout.lane_shift ? mrw_lane_numbered(m, l)->base : 0;
}

/* Number of lane l as the teams share them out; first: of its pair. */
MRW_DEV uint32_t mrw_lane_shared(const struct mrw_transfers *m, uint32_t l, uint64_t first)
{
	return ((l / m->routes + (uint32_t)first) & (m->a.layout.lanes - 1)) * m->routes + l % m->routes;
}

/* Lanes of the team that have something to do, each at least a step. One thread; first: as it peeked. */
MRW_DEV struct mrw_lane_set mrw_lanes_active(const struct mrw_transfers *m, uint32_t channel, uint64_t first)
{
	const struct mrw_args *a = &m->a;
	struct mrw_lane_set active = {{0}};
	if (mrw_lanes_even(m)) {
		uint32_t lanes = mrw_route_at(m, channel % m->routes)->lanes;
		for (uint32_t l = channel; l < m->routes * lanes; l += a->call.channels) {
			uint32_t own = mrw_lane_shared(m, l, first);
			active.word[mrw_lane_word(own)] |= 1ull << own % 64;
		}
		return active;
	}
	for (uint32_t i = 0; i < m->routes; i++) {
		uint32_t own = mrw_lane_own(m, channel, i);
		if (own >= a->layout.lanes)
			continue;
		first = mrw_lane_numbered(m, own * m->routes + i)->base;
		for (uint32_t k = 0; k < mrw_route_at(m, i)->lanes; k++) {
			uint32_t l = mrw_lane_shared(m, k * m->routes + i, first);
			if (l % a->call.channels == channel)
				active.word[mrw_lane_word(l)] |= 1ull << l % 64;
		}
	}
	return active;
}

/* All lanes of the team, those left idle too, have passed the launch's transfers. Behind a vote; first: as this thread peeked. A base may lie in
 * another team's lane: it is kept by who reads it. */
MRW_DEV void mrw_lanes_keep(const struct mrw_team *team, const struct mrw_transfers *m, uint32_t channel, uint64_t first)
{
	const struct mrw_args *a = &m->a;
	uint32_t step = team->size * a->call.channels, end = m->routes << a->layout.lane_shift;
	bool even = mrw_lanes_even(m);
	for (uint32_t l = channel + team->index * a->call.channels; l < end; l += step) {
		uint64_t next = first + mrw_route_at(m, l % m->routes)->count;
		mrw_lane_numbered(m, l)->base = next;
		mrw_lane_numbered(m, even ? mrw_lane_shared(m, l, first) : l)->first = next;
		if (l + step < end)
			first = mrw_lane_numbered(m, l + step)->base;
	}
}

#define MRW_PICK_DONE 0xffffffffu
#define MRW_PICK_LEAVE 0xfffffffeu

/* Number of the only lane of a set; MRW_PICK_LEAVE: it has none, or more. */
MRW_DEV uint32_t mrw_lanes_only(struct mrw_lane_set s)
{
	uint32_t l = mrw_lanes_left(&s) ? mrw_lanes_take(&s) : MRW_PICK_LEAVE;
	return mrw_lanes_left(&s) ? MRW_PICK_LEAVE : l;
}

/* One thread's part: looks at the lanes in turn, from number from on, until one can go on, or none is left. */
MRW_DEV uint32_t mrw_lanes_pick(const struct mrw_transfers *m, uint32_t seq, struct mrw_lane_set *active, uint32_t from)
{
	const struct mrw_args *a = &m->a;
	uint64_t since = 0;
	for (uint32_t idle = 0; mrw_lanes_left(active); idle++) {
		/* The upper part of from's word, the other words, its lower part. */
		for (uint32_t part = 0, k = mrw_lane_word(from); part <= MRW_LANE_WORDS; part++, k = k + 1 < MRW_LANE_WORDS ? k + 1 : 0) {
			uint64_t all = active->word[k], upper = all >> from % 64 << from % 64;
			uint64_t rest = part == 0 ? upper : part == MRW_LANE_WORDS ? all ^ upper : all;
			for (; rest != 0; rest &= rest - 1) {
				uint32_t l = k * 64 + mrw_lowest_bit(rest);
				struct mrw_stand h;
				bool ok = true;
				if (!mrw_stand_find(m, l, &h)) {
					active->word[k] &= ~(1ull << l % 64);
					mrw_stand_reset(&h);
				} else if (mrw_lane_ready(m, &h, seq, &ok)) {
					return ok ? l : MRW_PICK_LEAVE;
				}
			}
		}
		if (mrw_lanes_left(active) && idle % MRW_POLLS_A_LOOK == MRW_POLLS_A_LOOK - 1) {
			since = mrw_transfers_look(m, *active, seq, since, idle / MRW_POLLS_A_LOOK);
			if (since == 0)
				return MRW_PICK_LEAVE;
		}
		mrw_pause(idle, a->spin_limit);
	}
	return MRW_PICK_DONE;
}

/* The same for a lane where it is known to stand. */
MRW_DEV bool mrw_lane_await(const struct mrw_transfers *m, const struct mrw_stand *h, uint32_t l, uint32_t seq)
{
	struct mrw_lane_set active = {{0}};
	uint64_t since = 0;
	bool ok = true;
	active.word[mrw_lane_word(l)] = 1ull << l % 64;
	for (uint32_t idle = 0; !mrw_lane_ready(m, h, seq, &ok); idle++) {
		if (idle % MRW_POLLS_A_LOOK == MRW_POLLS_A_LOOK - 1) {
			since = mrw_transfers_look(m, active, seq, since, idle / MRW_POLLS_A_LOOK);
			if (since == 0)
				return false;
		}
		mrw_pause(idle, m->a.spin_limit);
	}
	return ok;
}

/* A team that has one lane only has nothing to pick, and keeps in registers where it stands. False: the team leaves. */
MRW_DEV bool mrw_lanes_run(const struct mrw_team *team, const struct mrw_transfers *m, uint32_t channel, uint32_t seq, uint64_t first)
{
	struct mrw_lane_set active = {{0}};
	struct mrw_stand h;
	if (team->index == 0 && m->routes > 0)
		active = mrw_lanes_active(m, channel, first);
	uint32_t pick = mrw_team_tell(team, mrw_lanes_only(active));
	bool only = pick != MRW_PICK_LEAVE;
	if (only)
		mrw_stand_load(m, pick, &h);
	else
		mrw_team_sync(team); /* all have been told */
	for (pick = only ? pick : 0;;) {
		if (!only) {
			if (team->index == 0)
				pick = mrw_lanes_pick(m, seq, &active, pick);
			pick = mrw_team_tell(team, pick);
			if (pick >= MRW_PICK_LEAVE)
				return pick == MRW_PICK_DONE;
			mrw_stand_load(m, pick, &h);
		}
		if (!mrw_stand_seek(m, pick, &h))
			break;
		if (only && mrw_team_any(team, team->index == 0 && !mrw_lane_await(m, &h, pick, seq)))
			return false;
		if (!mrw_lane_go(team, m, &h, seq, true))
			return false;
		pick = only ? pick : (pick + 1) & (64 * MRW_LANE_WORDS - 1);
	}
	if (team->index == 0)
		mrw_stand_reset(&h);
	return true;
}

/* What this rank sends itself: no protocol. Pairs in a row; the teams share them out. */
MRW_DEV void mrw_selves_copy(const struct mrw_team *team, const struct mrw_transfers *m, uint32_t channel)
{
	for (uint32_t i = 0; i < m->selves; i++) {
		const struct mrw_transfer *from = mrw_transfer_at(m, m->first_self + 2 * i), *to = from + 1;
		for (uint64_t at = (uint64_t)channel * MRW_COPY_SLICE; at < from->bytes && from->buffer != to->buffer;
		     at += (uint64_t)m->a.call.channels * MRW_COPY_SLICE) {
			uint64_t left = from->bytes - at;
			mrw_copy(team, to->buffer + at, from->buffer + at, left < MRW_COPY_SLICE ? (uint32_t)left : MRW_COPY_SLICE);
		}
	}
}

/* Begin and end of a launch that is no operation: the other ranks know nothing of it. It marks its channels busy as operations do, and
 * leaves their seq alone. */
MRW_DEV bool mrw_pairwise_begin(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, struct mrw_op *op)
{
	struct mrw_control *mine = mrw_control(a, a->rank);
	uint64_t word = mrw_load_relaxed(&mine->channel[channel].word), poison = mrw_load_relaxed(&mine->poison);
	struct mrw_where w = {0, channel, a->rank, MRW_WAIT_LINE, 0, 0};
	op->seq = (uint32_t)word; /* of the last operation */
	if (team->index == 0)
		mrw_store_relaxed(&mine->channel[channel].word, word | MRW_CHANNEL_BUSY);
	if (poison != 0) {
		struct mrw_lane_set none = {{0}};
		if (team->index == 0)
			mrw_transfers_accuse(mrw_transfers_of(a), none, 0, poison);
		mrw_leave(a, w, poison);
		return false;
	}
	if (team->index == 0 && (word & MRW_CHANNEL_BUSY)) {
		mrw_raise(a, MRW_FAULT_CONCURRENT, w, 0, 0);
		return false;
	}
	mrw_stall(channel);
	return true;
}

MRW_DEV void mrw_pairwise_end(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, const struct mrw_op *op, bool ok)
{
	mrw_stall(channel + 64);
	if (!mrw_team_any(team, !ok) && team->index == 0)
		mrw_store_relaxed(&mrw_control(a, a->rank)->channel[channel].word, op->seq);
}

MRW_DEV void mrw_move_transfers(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	const struct mrw_transfers *m = mrw_transfers_of(a);
	struct mrw_op op = {0, 0};
	bool pairwise = mrw_is_pairwise(a->call.func);
	uint64_t first = m->routes > 0 ? mrw_lanes_peek(team, m, channel) : 0;
	bool ok = pairwise ? mrw_pairwise_begin(team, channel, a, &op) : mrw_op_begin(team, channel, a, &op);
	ok = !mrw_team_any(team, !ok);
	if (ok) {
		mrw_selves_copy(team, m, channel);
		ok = mrw_lanes_run(team, m, channel, op.seq, first);
	}
	if (ok && m->routes > 0)
		mrw_lanes_keep(team, m, channel, first);
	if (pairwise)
		mrw_pairwise_end(team, channel, a, &op, ok);
	else
		mrw_op_end(team, channel, a, &op, ok);
}

#endif
