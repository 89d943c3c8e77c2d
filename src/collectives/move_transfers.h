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

#include "schedule.h"
#include "device/operation.h"
#include "device/packet.h"

/* Both ends say first. The receiver hears before it takes chunks, the sender after it has put them. DRAIN comes after the last transfer of a
 * launch, across hosts: until the peer's credits are here; a rank that leaves takes its arena away from the NIC. */
enum mrw_step { MRW_STEP_SAY, MRW_STEP_HEAR_FIRST, MRW_STEP_PASS, MRW_STEP_HEAR_LAST, MRW_STEPS };
#define MRW_STEP_DRAIN MRW_STEPS

/* Turns between two scrubs of a lane's packets: fewer than 2^31 transfers of its pair, whatever the number of lanes. */
#define MRW_LANE_SCRUB_MASK 0x1ffffffu
#define MRW_COPY_SLICE (64u << 10)

/* A lane where it stands: the same in all threads of the team. */
struct mrw_stand {
	struct mrw_lane *own;
	const struct mrw_transfer *t; /* NULL in DRAIN */
	uint64_t number;              /* of the transfer, in its pair */
	uint64_t chunks, chunk;       /* moved by the lane since ever; next one of this transfer */
	uint32_t lane, peer, way, index, step, place;
	bool far, small;
};

/* Finds where lane number l of the launch stands. False: it has done its part. */
MRW_DEV bool mrw_stand_find(const struct mrw_transfers *m, uint32_t l, struct mrw_stand *h)
{
	const struct mrw_args *a = &m->a;
	const struct mrw_layout *layout = &a->layout;
	const struct mrw_route *r = &m->route[l % m->routes];
	h->lane = l / m->routes;
	h->peer = r->peer;
	h->way = r->way;
	h->far = mrw_is_far(a, h->peer);
	h->own = mrw_lane_at(layout, a->arena[a->rank], (enum mrw_way)h->way, h->lane, a->rank, h->peer);
	h->chunks = h->own->chunks;
	h->chunk = h->own->chunk;
	h->step = h->own->step;
	for (h->place = h->own->place; h->place < r->count; h->place++, h->step = MRW_STEP_SAY, h->chunk = 0) {
		h->index = r->first + h->place;
		h->t = mrw_transfer_at(m, h->index);
		h->number = h->own->first + h->place;
		h->small = h->t->bytes <= mrw_transfer_small(layout, MRW_ON_CUDA);
		bool home = mrw_transfer_first(layout, h->number, h->lane) == 0;
		if (home && (h->step == MRW_STEP_SAY || h->step == (h->way == MRW_WAY_IN ? MRW_STEP_HEAR_FIRST : MRW_STEP_HEAR_LAST)))
			return true;
		if (!h->small && h->step <= MRW_STEP_PASS && h->chunk < mrw_transfer_chunks(layout, h->number, h->lane, h->t->bytes)) {
			h->step = MRW_STEP_PASS;
			return true;
		}
		if (home && h->way == MRW_WAY_OUT && h->step <= MRW_STEP_HEAR_LAST) {
			h->step = MRW_STEP_HEAR_LAST;
			return true;
		}
	}
	h->t = NULL;
	h->index = r->first + r->count - 1;
	h->number = h->own->first + r->count - 1;
	if (h->step == MRW_STEP_DRAIN || !h->far || h->way != MRW_WAY_OUT)
		return false;
	h->step = MRW_STEP_DRAIN;
	return true;
}

MRW_DEV uint32_t mrw_stand_parity(const struct mrw_transfers *m, const struct mrw_stand *h)
{
	return (uint32_t)(h->number >> m->a.layout.lane_shift) & 1;
}

/* For records; expected and seen are counts of chunks or a transfer's number. seq: of the operation, where the launch is one. */
MRW_DEV struct mrw_where mrw_stand_where(const struct mrw_transfers *m, const struct mrw_stand *h, uint32_t seq)
{
	struct mrw_where w = {mrw_is_pairwise(m->a.call.func) ? (uint32_t)h->number : seq, mrw_transfer_place(h->lane, h->index), h->peer,
			      MRW_WAIT_CHUNK, h->chunks + 1, mrw_load_relaxed(&h->own->count)};
	if (h->step == MRW_STEP_SAY) {
		w.wait_for = MRW_WAIT_SEND;
	} else if (h->step == MRW_STEP_HEAR_FIRST || h->step == MRW_STEP_HEAR_LAST) {
		w.wait_for = MRW_WAIT_LINE;
		w.expected = (uint32_t)(h->number + 1);
		w.seen = mrw_load_relaxed(&h->own->heard[mrw_stand_parity(m, h)].unit[0]) >> 32;
	}
	return w;
}

/* True if the count of the peer has reached want; what lies behind it is then visible. Partner: mrw_stand_count(). */
MRW_DEV bool mrw_stand_reached(const struct mrw_stand *h, uint64_t want)
{
	if ((int64_t)(mrw_load_relaxed(&h->own->count) - want) < 0)
		return false;
	mrw_observed(&h->own->count);
	return true;
}

/* True if the NIC has done with the outbox that was posted up to behind. */
MRW_DEV bool mrw_stand_settled(const struct mrw_transfers *m, const struct mrw_stand *h, uint64_t behind)
{
	return !h->far || behind == 0 || mrw_poll_done(m->a.far->peer[h->peer].queue, behind - 1);
}

/* Whether the lane can go on; for one thread. *ok becomes false if the other end moves something else. */
MRW_DEV bool mrw_lane_ready(const struct mrw_transfers *m, const struct mrw_stand *h, uint32_t seq, bool *ok)
{
	uint64_t bytes;
	uint32_t words;
	switch (h->step) {
	case MRW_STEP_SAY:
		return mrw_stand_settled(m, h, h->own->posted_line[mrw_stand_parity(m, h)]);
	case MRW_STEP_PASS:
		if (h->way == MRW_WAY_IN)
			return mrw_stand_reached(h, h->chunks + 1);
		return mrw_stand_reached(h, h->chunks + 1 - MRW_LANE_SLOTS) &&
		       mrw_stand_settled(m, h, h->own->posted_chunk[h->chunks % MRW_LANE_SLOTS]);
	case MRW_STEP_DRAIN:
		return mrw_stand_reached(h, h->chunks);
	default:
		if (!mrw_line_heard(&m->a.layout, h->own, h->number, &bytes, &words))
			return false;
		mrw_observed(&h->own->heard[mrw_stand_parity(m, h)].unit[0]); /* after a scrub; partner: mrw_lane_say() */
		if (mrw_line_differs(h->t, bytes, words)) {
			struct mrw_where w = mrw_stand_where(m, h, seq);
			mrw_raise(&m->a, MRW_FAULT_MISMATCH, w, 0, 0);
			*ok = false;
		}
		return true;
	}
}

/* The other end's lane, in its arena or (far) where this rank keeps what goes there. */
MRW_DEV struct mrw_lane *mrw_stand_other(const struct mrw_transfers *m, const struct mrw_stand *h)
{
	const struct mrw_args *a = &m->a;
	enum mrw_way other = h->way == MRW_WAY_OUT ? MRW_WAY_IN : MRW_WAY_OUT;
	if (h->far)
		return mrw_lane_at(&a->layout, a->arena[a->rank] + a->layout.outbox, other, h->lane, a->rank, h->peer);
	return mrw_lane_at(&a->layout, a->arena[h->peer], other, h->lane, h->peer, a->rank);
}

/* Where what p shall find there lies in this rank's arena (owner and peer change places) and in p's. */
MRW_DEV uint64_t mrw_line_offset(const struct mrw_transfers *m, const struct mrw_stand *h, uint32_t owner, uint32_t peer)
{
	return mrw_lane_offset(&m->a.layout, h->way == MRW_WAY_OUT ? MRW_WAY_IN : MRW_WAY_OUT, h->lane, owner, peer) +
	       offsetof(struct mrw_lane, heard) + mrw_stand_parity(m, h) * sizeof(struct mrw_line);
}

/* The line, and packets if there are any, to a rank on another host; packets first. One thread, behind a sync. */
MRW_DEV_CALL bool mrw_line_post(const struct mrw_transfers *m, const struct mrw_stand *h, struct mrw_where w, uint32_t units)
{
	const struct mrw_args *a = &m->a;
	const struct mrw_layout *l = &a->layout;
	uint32_t n = 1 + (units > 0), parity = mrw_stand_parity(m, h), p = h->peer;
	uint64_t index;
	if (!mrw_far_reserve(a, p, n, w, &index))
		return false;
	if (units > 0)
		mrw_far_range(a, p, index, false, l->outbox + mrw_lane_packets_offset(l, h->lane, a->rank, p, parity),
			      mrw_lane_packets_offset(l, h->lane, p, a->rank, parity), units * (uint32_t)sizeof(struct mrw_packet));
	mrw_far_range(a, p, index + n - 1, true, l->outbox + mrw_line_offset(m, h, a->rank, p), mrw_line_offset(m, h, p, a->rank),
		      sizeof(struct mrw_line));
	h->own->posted_line[parity] = index + n;
	mrw_post_ready(a->far->peer[p].queue, index, n);
	return true;
}

/* Says what this end moves, with the payload of a small send. */
MRW_DEV bool mrw_lane_say(const struct mrw_team *team, const struct mrw_transfers *m, const struct mrw_stand *h, uint32_t seq)
{
	const struct mrw_args *a = &m->a;
	const struct mrw_layout *l = &a->layout;
	uint32_t parity = mrw_stand_parity(m, h), flag = (uint32_t)(h->number + 1), units = 0;
	if (h->way == MRW_WAY_OUT && h->small) {
		uint8_t *arena = h->far ? a->arena[a->rank] + l->outbox : a->arena[h->peer];
		uint64_t offset = h->far ? mrw_lane_packets_offset(l, h->lane, a->rank, h->peer, parity)
					 : mrw_lane_packets_offset(l, h->lane, h->peer, a->rank, parity);
		struct mrw_packet *to = (struct mrw_packet *)(void *)(arena + offset);
		units = (uint32_t)(h->t->bytes + MRW_UNIT_BYTES - 1) / MRW_UNIT_BYTES;
		for (uint32_t i = team->index; i < units; i += team->size) {
			uint32_t payload[2];
			mrw_unit_load(h->t->buffer, i, h->t->bytes, payload);
			mrw_packet_send(to + i, flag, payload);
		}
	}
	if (h->far)
		mrw_team_sync(team);
	mrw_stall(h->lane + 600);
	if (mrw_team_high(team) != 0)
		return true;
	struct mrw_line *to = &mrw_stand_other(m, h)->heard[parity];
	struct mrw_packet low, high;
	low.unit[0] = (h->t->bytes & 0xffffffffu) | (uint64_t)flag << 32;
	low.unit[1] = h->t->bytes >> 32 | (uint64_t)flag << 32;
	high.unit[0] = mrw_line_words(h->t->func, h->t->type) | (uint64_t)flag << 32;
	high.unit[1] = 0;
	mrw_store_packet((struct mrw_packet *)(void *)&to->unit[2], high);
	uint32_t turn = (uint32_t)(h->number >> l->lane_shift) & MRW_LANE_SCRUB_MASK;
	if (h->way == MRW_WAY_IN && (turn == 1 || turn == 2)) { /* the sender may rewrite what was scrubbed in the turn before */
		mrw_store_relaxed(&to->unit[1], low.unit[1]);
		mrw_publish(&to->unit[0], low.unit[0]); /* partner: mrw_lane_ready() */
	} else {
		mrw_store_packet((struct mrw_packet *)(void *)to->unit, low);
	}
	return !h->far || mrw_line_post(m, h, mrw_stand_where(m, h, seq), units);
}

/* The payload of a small transfer, on its way since the line was said. */
MRW_DEV bool mrw_lane_take(const struct mrw_team *team, const struct mrw_transfers *m, const struct mrw_stand *h, uint32_t seq)
{
	const struct mrw_args *a = &m->a;
	const struct mrw_layout *l = &a->layout;
	uint32_t flag = (uint32_t)(h->number + 1), units = (uint32_t)(h->t->bytes + MRW_UNIT_BYTES - 1) / MRW_UNIT_BYTES;
	const struct mrw_packet *from = (const struct mrw_packet *)(const void *)(a->arena[a->rank] +
					mrw_lane_packets_offset(l, h->lane, a->rank, h->peer, mrw_stand_parity(m, h)));
	struct mrw_where w = mrw_stand_where(m, h, seq);
	w.wait_for = MRW_WAIT_PACKET;
	for (uint32_t i = team->index; i < units; i += team->size) {
		uint64_t since = 0;
		struct mrw_packet v;
		for (uint32_t spins = 0; !mrw_packet_is(v = mrw_load_packet(from + i), flag); spins++) {
			if (spins % MRW_POLLS_A_LOOK == MRW_POLLS_A_LOOK - 1) {
				since = mrw_look(a, w, since, spins / MRW_POLLS_A_LOOK);
				if (since == 0)
					return false;
			}
			mrw_pause(spins, a->spin_limit);
		}
		uint32_t payload[2] = {(uint32_t)v.unit[0], (uint32_t)v.unit[1]};
		mrw_unit_store(h->t->buffer, i, h->t->bytes, payload);
	}
	return true;
}

/* After turn q, now and then: its packets get a flag that no transfer carries before the next scrub. The sender writes there again in turn
 * q + 2, which it begins only after it heard this rank in turn q + 1. */
MRW_DEV void mrw_lane_scrub(const struct mrw_team *team, const struct mrw_transfers *m, const struct mrw_stand *h)
{
	const struct mrw_args *a = &m->a;
	const struct mrw_layout *l = &a->layout;
	uint64_t stale = (uint64_t)((uint32_t)(h->number + 1) ^ 0x80000000u) << 32;
	struct mrw_packet v = {{stale, stale}};
	if (((uint32_t)(h->number >> l->lane_shift) & MRW_LANE_SCRUB_MASK) > 1)
		return;
	struct mrw_packet *slot = (struct mrw_packet *)(void *)(a->arena[a->rank] +
				  mrw_lane_packets_offset(l, h->lane, a->rank, h->peer, mrw_stand_parity(m, h)));
	mrw_team_sync(team); /* everybody has read */
	for (uint32_t i = team->index; i < l->lane_units; i += team->size)
		mrw_store_packet(slot + i, v);
}

/* The team copies one chunk: out of the buffer into the other end's staging, or out of the staging here. */
MRW_DEV void mrw_lane_copy(const struct mrw_team *team, const struct mrw_transfers *m, const struct mrw_stand *h, uint32_t *bytes)
{
	const struct mrw_args *a = &m->a;
	const struct mrw_layout *l = &a->layout;
	uint32_t size = mrw_transfer_chunk_bytes(l, h->t->bytes);
	uint64_t offset = (mrw_transfer_first(l, h->number, h->lane) + (h->chunk << l->lane_shift)) * size;
	uint8_t *own = h->t->buffer + offset;
	uint64_t left = h->t->bytes - offset;
	*bytes = left < size ? (uint32_t)left : size;
	if (h->way == MRW_WAY_IN)
		mrw_copy(team, own, a->arena[a->rank] + mrw_lane_chunk_offset(l, h->lane, a->rank, h->peer, h->chunks), *bytes);
	else if (h->far)
		mrw_copy(team, a->arena[a->rank] + l->outbox + mrw_lane_chunk_offset(l, h->lane, a->rank, h->peer, h->chunks), own, *bytes);
	else
		mrw_copy(team, a->arena[h->peer] + mrw_lane_chunk_offset(l, h->lane, h->peer, a->rank, h->chunks), own, *bytes);
}

/* A chunk (OUT) and the count behind it, or a credit, to a rank on another host. */
MRW_DEV_CALL bool mrw_count_post(const struct mrw_transfers *m, const struct mrw_stand *h, struct mrw_where w, uint32_t bytes)
{
	const struct mrw_args *a = &m->a;
	const struct mrw_layout *l = &a->layout;
	uint32_t p = h->peer, n = h->way == MRW_WAY_OUT ? 2 : 1;
	uint64_t index;
	if (!mrw_far_reserve(a, p, n, w, &index))
		return false;
	if (h->way == MRW_WAY_OUT)
		mrw_far_range(a, p, index, false, l->outbox + mrw_lane_chunk_offset(l, h->lane, a->rank, p, h->chunks),
			      mrw_lane_chunk_offset(l, h->lane, p, a->rank, h->chunks), bytes);
	mrw_far_word(a, p, index + n - 1, mrw_lane_offset(l, h->way == MRW_WAY_OUT ? MRW_WAY_IN : MRW_WAY_OUT, h->lane, p, a->rank) +
		     offsetof(struct mrw_lane, count), h->chunks + 1);
	if (h->way == MRW_WAY_OUT)
		h->own->posted_chunk[h->chunks % MRW_LANE_SLOTS] = index + n;
	mrw_post_ready(a->far->peer[p].queue, index, n);
	return true;
}

/* The chunk is there, or taken: what the team did is behind a sync. One thread. Partner: mrw_stand_reached(). */
MRW_DEV bool mrw_stand_count(const struct mrw_transfers *m, const struct mrw_stand *h, uint32_t seq, uint32_t bytes)
{
	if (h->far)
		return mrw_count_post(m, h, mrw_stand_where(m, h, seq), bytes);
	mrw_publish(&mrw_stand_other(m, h)->count, h->chunks + 1);
	return true;
}

/* Where the lane will stand after this step. One thread, behind the vote: the others have found where it
 * stands, and look again when the first thread tells them. */
MRW_DEV void mrw_stand_advance(const struct mrw_stand *h)
{
	struct mrw_lane *own = h->own;
	own->place = h->place;
	own->step = h->step + (h->step < MRW_STEP_DRAIN && h->step != MRW_STEP_PASS);
	own->chunk = h->chunk + (h->step == MRW_STEP_PASS);
	own->chunks = h->chunks + (h->step == MRW_STEP_PASS);
	if (h->step == MRW_STEP_HEAR_LAST) {
		own->place = h->place + 1;
		own->step = MRW_STEP_SAY;
		own->chunk = 0;
	}
}

/* One step of a lane that is ready. ok: of this thread; ends in a vote. */
MRW_DEV bool mrw_lane_go(const struct mrw_team *team, const struct mrw_transfers *m, const struct mrw_stand *h, uint32_t seq, bool ok)
{
	uint32_t bytes = 0;
	if (ok && h->step == MRW_STEP_SAY)
		ok = mrw_lane_say(team, m, h, seq);
	if (ok && h->step == MRW_STEP_HEAR_FIRST && h->small)
		ok = mrw_lane_take(team, m, h, seq);
	if (h->step == MRW_STEP_HEAR_FIRST)
		mrw_lane_scrub(team, m, h);
	if (h->step == MRW_STEP_PASS)
		mrw_lane_copy(team, m, h, &bytes);
	mrw_stall(h->lane + 664);
	ok = !mrw_team_any(team, !ok);
	if (team->index == 0)
		mrw_stand_advance(h);
	if (ok && h->step == MRW_STEP_PASS && mrw_team_high(team) == 0)
		(void)mrw_stand_count(m, h, seq, bytes); /* failed: this rank is poisoned, and its next look ends */
	return ok;
}

/* Poisoned because of a mismatch with this rank: a lane that has heard the other end names both sides. Who has none gives the team that has a
 * moment to say so first. */
#define MRW_EVIDENCE_NS 10000000u

MRW_DEV_CALL void mrw_transfers_accuse(const struct mrw_transfers *m, uint64_t active, uint32_t seq, uint64_t poison)
{
	const struct mrw_args *a = &m->a;
	struct mrw_control *mine = mrw_control(a, a->rank);
	for (uint64_t rest = active; rest != 0; rest &= rest - 1) {
		struct mrw_stand h;
		uint64_t bytes;
		uint32_t words;
		if (!mrw_stand_find(m, mrw_lowest_bit(rest), &h) || !h.t || !mrw_line_heard(&a->layout, h.own, h.number, &bytes, &words))
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
MRW_DEV_CALL uint64_t mrw_transfers_look(const struct mrw_transfers *m, uint64_t active, uint32_t seq, uint64_t since_ns, uint32_t looks)
{
	const struct mrw_args *a = &m->a;
	struct mrw_stand h;
	uint64_t poison = mrw_load_relaxed(&mrw_control(a, a->rank)->poison);
	if (poison != 0)
		mrw_transfers_accuse(m, active, seq, poison);
	uint32_t count = 0;
	for (uint64_t rest = active; rest != 0; rest &= rest - 1)
		count++;
	uint64_t rest = active;
	for (uint32_t n = looks % count; n > 0; n--)
		rest &= rest - 1;
	(void)mrw_stand_find(m, mrw_lowest_bit(rest), &h);
	return mrw_look(a, mrw_stand_where(m, &h, seq), since_ns, looks);
}

/* The team's first lane of a route; a->layout.lanes: it has none. */
MRW_DEV uint32_t mrw_lane_own(const struct mrw_transfers *m, uint32_t channel, uint32_t route)
{
	uint32_t lane = 0;
	if (m->a.call.channels % m->routes == 0) /* nearly always */
		return channel % m->routes == route ? channel / m->routes : m->a.layout.lanes;
	while (lane < m->a.layout.lanes && (lane * m->routes + route) % m->a.call.channels != channel)
		lane++;
	return lane;
}

/* Lanes of the team that have something to do: bit l for lane number l of the launch, of which there are at most 64. One thread. */
MRW_DEV uint64_t mrw_lanes_active(const struct mrw_transfers *m, uint32_t channel)
{
	const struct mrw_args *a = &m->a;
	uint64_t active = 0;
	for (uint32_t i = 0; i < m->routes; i++) {
		const struct mrw_route *r = &m->route[i];
		uint32_t own = mrw_lane_own(m, channel, i), lanes = a->layout.lanes;
		if (own >= lanes)
			continue;
		/* The lanes of a pair have all passed the same transfers when a launch begins. */
		uint64_t first = mrw_lane_at(&a->layout, a->arena[a->rank], (enum mrw_way)r->way, own, a->rank, r->peer)->first;
		bool all = r->wide || mrw_is_far(a, r->peer) || r->count >= lanes;
		for (uint32_t k = 0; k < (all ? lanes : r->count); k++) {
			uint32_t l = (((uint32_t)first + k) & (lanes - 1)) * m->routes + i;
			if (l % a->call.channels == channel)
				active |= 1ull << l;
		}
	}
	return active;
}

/* All lanes of the team, those left idle too, have passed the launch's transfers. Behind a vote. */
MRW_DEV void mrw_lanes_keep(const struct mrw_team *team, const struct mrw_transfers *m, uint32_t channel)
{
	const struct mrw_args *a = &m->a;
	for (uint32_t l = channel + team->index * a->call.channels; l < m->routes << a->layout.lane_shift; l += team->size * a->call.channels) {
		const struct mrw_route *r = &m->route[l % m->routes];
		struct mrw_lane *own = mrw_lane_at(&a->layout, a->arena[a->rank], (enum mrw_way)r->way, l / m->routes, a->rank, r->peer);
		own->first += r->count;
		own->place = own->step = 0;
		own->chunk = 0;
	}
}

#define MRW_PICK_DONE 0xffffffffu
#define MRW_PICK_LEAVE 0xfffffffeu

/* One thread's part: looks at the lanes in turn, from number from on, until one can go on, or none is left. */
MRW_DEV uint32_t mrw_lanes_pick(const struct mrw_transfers *m, uint32_t seq, uint64_t *active, uint32_t from)
{
	const struct mrw_args *a = &m->a;
	uint64_t since = 0;
	for (uint32_t idle = 0; *active != 0; idle++) {
		uint64_t rest = *active >> from << from, before = *active ^ rest;
		for (uint32_t half = 0; half < 2; half++, rest = before)
			for (; rest != 0; rest &= rest - 1) {
				uint32_t l = mrw_lowest_bit(rest);
				struct mrw_stand h;
				bool ok = true;
				if (!mrw_stand_find(m, l, &h))
					*active &= ~(1ull << l);
				else if (mrw_lane_ready(m, &h, seq, &ok))
					return ok ? l : MRW_PICK_LEAVE;
			}
		if (*active != 0 && idle % MRW_POLLS_A_LOOK == MRW_POLLS_A_LOOK - 1) {
			since = mrw_transfers_look(m, *active, seq, since, idle / MRW_POLLS_A_LOOK);
			if (since == 0)
				return MRW_PICK_LEAVE;
		}
		mrw_pause(idle, a->spin_limit);
	}
	return MRW_PICK_DONE;
}

/* False: the team leaves. */
MRW_DEV bool mrw_lanes_run(const struct mrw_team *team, const struct mrw_transfers *m, uint32_t channel, uint32_t seq)
{
	uint64_t active = team->index == 0 && m->routes > 0 ? mrw_lanes_active(m, channel) : 0;
	uint32_t pick = 0;
	for (;;) {
		struct mrw_stand h;
		if (team->index == 0)
			pick = mrw_lanes_pick(m, seq, &active, pick);
		pick = mrw_team_tell(team, pick);
		if (pick >= MRW_PICK_LEAVE)
			return pick == MRW_PICK_DONE;
		(void)mrw_stand_find(m, pick, &h);
		if (!mrw_lane_go(team, m, &h, seq, true))
			return false;
		pick = (pick + 1) & 63;
	}
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
MRW_DEV bool mrw_pairwise_begin(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_control *mine = mrw_control(a, a->rank);
	uint64_t word = mrw_load_relaxed(&mine->channel[channel].word), poison = mrw_load_relaxed(&mine->poison);
	struct mrw_where w = {0, channel, a->rank, MRW_WAIT_LINE, 0, 0};
	if (team->index == 0)
		mrw_store_relaxed(&mine->channel[channel].word, word | MRW_CHANNEL_BUSY);
	if (poison != 0) {
		if (team->index == 0)
			mrw_transfers_accuse(mrw_transfers_of(a), 0, 0, poison);
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

MRW_DEV void mrw_pairwise_end(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, bool ok)
{
	struct mrw_channel_state *state = &mrw_control(a, a->rank)->channel[channel];
	mrw_stall(channel + 64);
	if (!mrw_team_any(team, !ok) && team->index == 0)
		mrw_store_relaxed(&state->word, mrw_load_relaxed(&state->word) & ~MRW_CHANNEL_BUSY);
}

MRW_DEV void mrw_move_transfers(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	const struct mrw_transfers *m = mrw_transfers_of(a);
	struct mrw_op op = {0, 0};
	bool pairwise = mrw_is_pairwise(a->call.func);
	bool ok = pairwise ? mrw_pairwise_begin(team, channel, a) : mrw_op_begin(team, channel, a, &op);
	ok = !mrw_team_any(team, !ok);
	if (ok) {
		mrw_selves_copy(team, m, channel);
		ok = mrw_lanes_run(team, m, channel, op.seq);
	}
	if (ok)
		mrw_lanes_keep(team, m, channel);
	if (pairwise)
		mrw_pairwise_end(team, channel, a, ok);
	else
		mrw_op_end(team, channel, a, &op, ok);
}

#endif
