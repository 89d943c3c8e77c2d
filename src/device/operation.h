/* operation.h - what every kernel does first and last: claim the channel, say what is being called, compare, advance.
 *
 * Every thread of the team calls begin and end, whatever begin returned: a thread that must leave skips the work in
 * between and votes in end. */
#ifndef MRW_OPERATION_H
#define MRW_OPERATION_H

#include "send.h"

struct mrw_op {
	uint32_t seq;   /* of this operation, the same on all channels and ranks */
	uint64_t round; /* rounds completed on this channel before this operation */
};

#define MRW_SCRUB_MASK 0x3fffffffu

/* Gives every packet, line and place of one parity a flag that no operation of the next 2^30 carries: after 2^32 operations a slot that was not
 * rewritten since would look fresh. Safe in the begin of seq for parity seq - 1: this rank has read those slots,
 * and no peer can start seq + 1 before it sees our opening line of seq. */
MRW_DEV void mrw_scrub(const struct mrw_team *team, const struct mrw_args *a, uint32_t seq, uint32_t parity)
{
	uint64_t stale = (uint64_t)(seq ^ 0x80000000u) << 32;
	struct mrw_packet v = {{stale, stale}};
	const struct mrw_layout *l = &a->layout;
	for (uint32_t f = 0; f < l->packet_formats; f++)
		for (uint32_t c = 0; c < l->channels; c++)
			for (uint32_t slot = 0; slot < l->slots; slot++) {
				struct mrw_packet *p = mrw_packets_at(l, a->arena[a->rank], f, c, slot, parity);
				for (uint32_t i = team->index; i < l->units; i += team->size)
					mrw_store_packet(&p[i], v);
			}
	mrw_stall(720);
	for (uint32_t c = 0; c < l->channels && l->lines > 0; c++)
		for (uint32_t slot = 0; slot < l->slots; slot++)
			for (uint32_t i = team->index; i < l->lines; i += team->size) {
				uint8_t *line = mrw_line_at(l, a->arena[a->rank], c, slot, parity, i);
				mrw_store_relaxed((uint64_t *)(void *)line + MRW_LINE_UNITS, stale | stale >> 32);
			}
	for (uint32_t slot = team->index; slot < l->slots && l->windows_offset > 0; slot += team->size) {
		struct mrw_opening *o = &mrw_heard_at(l, a->arena[a->rank], slot, parity)->line;
		mrw_store_relaxed(&o->unit[2], stale);
		mrw_store_relaxed(&o->unit[3], stale);
	}
}

/* ordered: after a scrub; partner: the peer's next kernel, which starts after it saw this line. The line goes first: the peers wait for it,
 * and for the call only if something is wrong. */
MRW_DEV void mrw_opening_send(const struct mrw_team *team, const struct mrw_args *a, uint32_t seq, bool ordered)
{
	const uint64_t *words = (const uint64_t *)(const void *)&a->call;
	struct mrw_greeting *said = &mrw_control(a, a->rank)->said[seq & 1];
	uint64_t *mine = (uint64_t *)(void *)&said->call;
	uint32_t high = mrw_team_high(team);
	struct mrw_packet line;
	if (high >= MRW_MAX_RANKS) /* and as many words at most */
		return;
	/* One thread writes and posts what goes to other hosts: no sync between. */
	if (mrw_spans(a) && high == 0 && !mrw_greetings_settled(a, seq))
		return; /* this rank is poisoned, and its next wait ends */
	line.unit[0] = (a->call.hash & 0xffffffffu) | (uint64_t)seq << 32;
	line.unit[1] = a->call.hash >> 32 | (uint64_t)seq << 32;
	for (uint32_t p = high; p < a->nranks; p += team->size) {
		if (!mrw_is_near(a, p))
			continue;
		struct mrw_opening *o = &mrw_heard_at(&a->layout, a->arena[p], mrw_slot_there(a, p), seq & 1)->line;
		if (ordered) {
			mrw_store_relaxed(&o->unit[1], line.unit[1]);
			mrw_publish(&o->unit[0], line.unit[0]);
		} else {
			mrw_store_packet((struct mrw_packet *)(void *)o->unit, line);
		}
	}
	for (uint32_t i = high; i < sizeof a->call / 8 && !(mrw_spans(a) && high > 0); i += mrw_spans(a) ? 1 : team->size)
		mrw_store_relaxed(&mine[i], i == 0 ? (words[0] & 0xffffffff00000000u) | seq : words[i]);
	if (mrw_spans(a) && high == 0) {
		mrw_store_packet((struct mrw_packet *)(void *)said->line.unit, line);
		(void)mrw_greetings_send(a, seq); /* failed: likewise */
	}
}
MRW_STATIC_ASSERT(MRW_MAX_RANKS >= sizeof(struct mrw_call) / 8, "threads that send an opening also store the call");

MRW_DEV bool mrw_op_scrubs(uint32_t channel, uint32_t seq)
{
	return channel == 0 && (seq & MRW_SCRUB_MASK) <= 1;
}

/* The begin of an operation before which something must be done, or which must not be. word, poison: as this thread loaded them. */
MRW_DEV_CALL bool mrw_op_begin_rare(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t word, uint64_t poison)
{
	struct mrw_where w = {(uint32_t)word + 1, channel, a->rank, MRW_WAIT_OPENING, 0, 0};
	bool scrub = mrw_op_scrubs(channel, w.seq);
	if (scrub) {
		mrw_scrub(team, a, w.seq, (w.seq - 1) & 1);
		mrw_team_sync(team);
	}
	if (poison != 0) {
		mrw_leave(a, w, poison);
		return false;
	}
	if (team->index == 0 && (word & MRW_CHANNEL_BUSY)) { /* thread 0 loaded it before it marked it */
		mrw_raise(a, MRW_FAULT_CONCURRENT, w, 0, 0);
		return false;
	}
	mrw_stall(channel);
	if (channel == 0)
		mrw_opening_send(team, a, w.seq, scrub);
	return true;
}

/* False: this thread must not work. op->round is not set. */
MRW_DEV bool mrw_op_begin(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, struct mrw_op *op)
{
	struct mrw_control *mine = mrw_control(a, a->rank);
	struct mrw_channel_state *state = &mine->channel[channel];
	/* Both on their way before either is needed. */
	uint64_t word = mrw_load_relaxed(&state->word), poison = mrw_load_relaxed(&mine->poison);
	if (team->index == 0) /* an atomic would see a rival of the same microsecond too, and cost 0.3 us of every operation */
		mrw_store_relaxed(&state->word, word | MRW_CHANNEL_BUSY);
	op->seq = (uint32_t)word + 1;
	if (poison != 0 || (team->index == 0 && (word & MRW_CHANNEL_BUSY)) || mrw_op_scrubs(channel, op->seq))
		return mrw_op_begin_rare(team, channel, a, word, poison);
	mrw_stall(channel);
	if (channel == 0)
		mrw_opening_send(team, a, op->seq, false);
	return true;
}

/* The same where rounds follow. */
MRW_DEV bool mrw_op_begin_rounds(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, struct mrw_op *op)
{
	op->round = mrw_load_relaxed(&mrw_control(a, a->rank)->channel[channel].round);
	return mrw_op_begin(team, channel, a, op);
}

/* Channel 0: all opening lines have come and say the same. nranks: a->nranks. */
MRW_DEV bool mrw_openings_agree(uint32_t nranks, const struct mrw_team *team, const struct mrw_args *a, uint32_t seq)
{
	for (uint32_t p = mrw_team_high(team); p < nranks; p += team->size) {
		struct mrw_where w = {seq, 0, p, MRW_WAIT_OPENING, 0, 0};
		if (mrw_is_peer(a, p) && !mrw_opening_quick(a, seq, p) && !mrw_wait_opening(a, w))
			return false;
	}
	return true;
}

/* ok: this thread did its part. Channel 0 compares all opening lines; if every thread is content the channel, and the channels
 * that this launch left out, advance. nranks: a->nranks, which a kernel may know when it is compiled. */
MRW_DEV void mrw_op_end_among(uint32_t nranks, const struct mrw_team *team, uint32_t channel, const struct mrw_args *a,
			      const struct mrw_op *op, bool ok)
{
	if (channel == 0 && ok)
		ok = mrw_openings_agree(nranks, team, a, op->seq);
	mrw_stall(channel + 64);
	if (mrw_team_any(team, !ok))
		return;
	struct mrw_channel_state *state = mrw_control(a, a->rank)->channel;
	for (uint32_t c = channel + team->index * a->call.channels; c < a->layout.channels; c += team->size * a->call.channels)
		mrw_store_relaxed(&state[c].word, op->seq);
}

MRW_DEV void mrw_op_end(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, const struct mrw_op *op, bool ok)
{
	mrw_op_end_among(a->nranks, team, channel, a, op, ok);
}

#endif
