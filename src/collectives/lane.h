/* lane.h - one end of one lane of an ordered pair (device/wire.h): where it stands, whether it can go on, and one step of it, which the team
 * takes together. Lines, packets, chunks and credits; near or by the NIC. Used by move_transfers.h. */
#ifndef MRW_LANE_H
#define MRW_LANE_H

#include "schedule.h"
#include "device/operation.h"
#include "device/packet.h"

/* Both ends say first. The receiver hears before it takes chunks, the sender after it has put them. DRAIN comes after the last transfer of a
 * launch, across hosts: until the peer's credits are here; a rank that leaves takes its arena away from the NIC. */
enum mrw_step { MRW_STEP_SAY, MRW_STEP_HEAR_FIRST, MRW_STEP_PASS, MRW_STEP_HEAR_LAST, MRW_STEPS };
#define MRW_STEP_DRAIN MRW_STEPS

/* Turns between two scrubs of a lane's packets: fewer than 2^31 transfers of its pair, whatever the number of lanes. */
#define MRW_LANE_SCRUB_MASK 0x1ffffffu

/* A lane where it stands: the same in all threads of the team. */
struct mrw_stand {
	struct mrw_lane *own;
	const struct mrw_transfer *t; /* NULL in DRAIN */
	uint64_t first, number;       /* of the launch's first transfer and of this one, in the pair */
	uint64_t chunks, chunk;       /* moved by the lane since ever; next one of this transfer */
	uint32_t lane, peer, way, index, step, place;
	uint32_t here, there;         /* slots of lanes (wire.h): the peer's in this arena, this rank's in its */
	bool far, small;
};

/* The next step of lane number l, from where it stands on. False: it has done its part. */
MRW_DEV bool mrw_stand_seek(const struct mrw_transfers *m, uint32_t l, struct mrw_stand *h)
{
	const struct mrw_layout *layout = &m->a.layout;
	const struct mrw_route *r = mrw_route_at(m, l % m->routes);
	for (; h->place < r->count; h->place++, h->step = MRW_STEP_SAY, h->chunk = 0) {
		h->index = r->first + h->place;
		h->t = mrw_transfer_at(m, h->index);
		h->number = h->first + h->place;
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
	h->number = h->first + r->count - 1;
	if (h->step == MRW_STEP_DRAIN || !h->far || h->way != MRW_WAY_OUT)
		return false;
	h->step = MRW_STEP_DRAIN;
	return true;
}

/* Where lane number l of the launch was left. */
MRW_DEV void mrw_stand_load(const struct mrw_transfers *m, uint32_t l, struct mrw_stand *h)
{
	const struct mrw_args *a = &m->a;
	const struct mrw_route *r = mrw_route_at(m, l % m->routes);
	h->lane = l / m->routes;
	h->peer = r->peer;
	h->here = mrw_lane_here(a, h->peer);
	h->there = mrw_lane_there(a, h->peer);
	h->way = r->way;
	h->far = mrw_lane_is_far(a, h->peer);
	h->own = mrw_lane_at(&a->layout, a->arena[a->rank], (enum mrw_way)h->way, h->lane, h->here);
	h->first = h->own->first;
	h->chunks = h->own->chunks;
	h->chunk = h->own->chunk;
	h->step = h->own->step;
	h->place = h->own->place;
}

/* Finds where lane number l of the launch stands. False: it has done its part. */
MRW_DEV bool mrw_stand_find(const struct mrw_transfers *m, uint32_t l, struct mrw_stand *h)
{
	mrw_stand_load(m, l, h);
	return mrw_stand_seek(m, l, h);
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
	return !h->far || behind == 0 || mrw_poll_done(mrw_far_queue(&m->a, h->lane, h->peer), behind - 1);
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
		return mrw_lane_at(&a->layout, a->arena[a->rank] + a->layout.outbox, other, h->lane, h->here);
	return mrw_lane_at(&a->layout, a->arena[h->peer], other, h->lane, h->there);
}

/* Where what p shall find there lies in this rank's arena (slot: here) and in p's (there). */
MRW_DEV uint64_t mrw_line_offset(const struct mrw_transfers *m, const struct mrw_stand *h, uint32_t slot)
{
	return mrw_lane_offset(&m->a.layout, h->way == MRW_WAY_OUT ? MRW_WAY_IN : MRW_WAY_OUT, h->lane, slot) +
	       offsetof(struct mrw_lane, heard) + mrw_stand_parity(m, h) * sizeof(struct mrw_line);
}

/* The line, and packets if there are any, to a rank on another host; packets first. One thread, behind a sync. */
MRW_DEV_CALL bool mrw_line_post(const struct mrw_transfers *m, const struct mrw_stand *h, struct mrw_where w, uint32_t units)
{
	const struct mrw_args *a = &m->a;
	const struct mrw_layout *l = &a->layout;
	uint32_t n = 1 + (units > 0), parity = mrw_stand_parity(m, h), p = h->peer;
	uint64_t index;
	if (!mrw_far_reserve(a, h->lane, p, n, w, &index))
		return false;
	if (units > 0)
		mrw_far_range(a, h->lane, p, index, false, l->outbox + mrw_lane_packets_offset(l, h->lane, h->here, parity),
			      mrw_lane_packets_offset(l, h->lane, h->there, parity), units * (uint32_t)sizeof(struct mrw_packet));
	mrw_far_range(a, h->lane, p, index + n - 1, true, l->outbox + mrw_line_offset(m, h, h->here), mrw_line_offset(m, h, h->there),
		      sizeof(struct mrw_line));
	h->own->posted_line[parity] = index + n;
	mrw_post_ready(mrw_far_queue(a, h->lane, p), index, n);
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
		uint64_t offset = h->far ? mrw_lane_packets_offset(l, h->lane, h->here, parity)
					 : mrw_lane_packets_offset(l, h->lane, h->there, parity);
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
					mrw_lane_packets_offset(l, h->lane, h->here, mrw_stand_parity(m, h)));
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
				  mrw_lane_packets_offset(l, h->lane, h->here, mrw_stand_parity(m, h)));
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
		mrw_copy(team, own, a->arena[a->rank] + mrw_lane_chunk_offset(l, h->lane, h->here, h->chunks), *bytes);
	else if (h->far)
		mrw_copy(team, a->arena[a->rank] + l->outbox + mrw_lane_chunk_offset(l, h->lane, h->here, h->chunks), own, *bytes);
	else
		mrw_copy(team, a->arena[h->peer] + mrw_lane_chunk_offset(l, h->lane, h->there, h->chunks), own, *bytes);
}

/* A chunk (OUT) and the count behind it, or a credit, to a rank on another host. */
MRW_DEV_CALL bool mrw_count_post(const struct mrw_transfers *m, const struct mrw_stand *h, struct mrw_where w, uint32_t bytes)
{
	const struct mrw_args *a = &m->a;
	const struct mrw_layout *l = &a->layout;
	uint32_t p = h->peer, n = h->way == MRW_WAY_OUT ? 2 : 1;
	uint64_t index;
	if (!mrw_far_reserve(a, h->lane, p, n, w, &index))
		return false;
	if (h->way == MRW_WAY_OUT)
		mrw_far_range(a, h->lane, p, index, false, l->outbox + mrw_lane_chunk_offset(l, h->lane, h->here, h->chunks),
			      mrw_lane_chunk_offset(l, h->lane, h->there, h->chunks), bytes);
	mrw_far_word(a, h->lane, p, index + n - 1, mrw_lane_offset(l, h->way == MRW_WAY_OUT ? MRW_WAY_IN : MRW_WAY_OUT, h->lane, h->there) +
		     offsetof(struct mrw_lane, count), h->chunks + 1);
	if (h->way == MRW_WAY_OUT)
		h->own->posted_chunk[h->chunks % MRW_LANE_SLOTS] = index + n;
	mrw_post_ready(mrw_far_queue(a, h->lane, p), index, n);
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

/* Where the lane stands after this step. */
MRW_DEV void mrw_stand_advance(struct mrw_stand *h)
{
	if (h->step == MRW_STEP_PASS) {
		h->chunk++;
		h->chunks++;
	} else if (h->step == MRW_STEP_HEAR_LAST) {
		h->place++;
		h->step = MRW_STEP_SAY;
		h->chunk = 0;
	} else if (h->step < MRW_STEP_DRAIN) {
		h->step++;
	}
}

/* For others who look for it, and for later launches. One thread, behind the vote: the others have found where it
 * stands, and look again when the first thread tells them. */
MRW_DEV void mrw_stand_keep(const struct mrw_stand *h)
{
	h->own->place = h->place;
	h->own->step = h->step;
	h->own->chunk = h->chunk;
	h->own->chunks = h->chunks;
}

/* The lane has done its part: as the next launch finds it. By the thread that keeps it. */
MRW_DEV void mrw_stand_reset(const struct mrw_stand *h)
{
	h->own->place = h->own->step = 0;
	h->own->chunk = 0;
}

/* One step of a lane that is ready, and *h stands behind it. ok: of this thread; ends in a vote. */
MRW_DEV bool mrw_lane_go(const struct mrw_team *team, const struct mrw_transfers *m, struct mrw_stand *h, uint32_t seq, bool ok)
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
	if (ok && h->step == MRW_STEP_PASS && mrw_team_high(team) == 0)
		(void)mrw_stand_count(m, h, seq, bytes); /* failed: this rank is poisoned, and its next look ends */
	mrw_stand_advance(h);
	if (team->index == 0)
		mrw_stand_keep(h);
	return ok;
}

#endif
