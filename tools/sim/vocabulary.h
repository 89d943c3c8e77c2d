/* vocabulary.h - the words in which the library's bodies are written, with another meaning: instead of moving bytes they note who moves how
 * many to whom, and move the ledger's numbers. Included before a body's header, whose own words (peer.h, copy.h, reduce.h, add.h) stay out.
 *
 * Bodies are run round by round by the engine, which also does the waiting that mrw_rounds_wait() would: their loops are compiled and
 * never called. */
#ifndef SIM_VOCABULARY_H
#define SIM_VOCABULARY_H

#define MRW_PEER_H
#define MRW_COPY_H
#define MRW_REDUCE_H
#define MRW_ADD_H
#define MRW_PACKET_H
#define MRW_LINE_H
#define MRW_REDUCE_QUICK_H
#define MRW_WINDOW_H

#include "step.h"
#include "collectives/schedule.h"
#include "device/page.h"
#include "device/team.h"

#define MRW_VEC_BYTES 16u

/* Elements are the ledger's numbers: what bodies add comes out as a number of its own. */
#define MRW_ELEM_BYTES 4u
typedef uint32_t mrw_acc;

/* far.h, peer.h */

MRW_DEV bool mrw_spans(const struct mrw_args *a)
{
	return a->far != NULL;
}

MRW_DEV bool mrw_is_far(const struct mrw_args *a, uint32_t p)
{
	return a->far && p - sim.first >= sim.gpus;
}

MRW_DEV uint32_t mrw_slot_here(const struct mrw_args *a, uint32_t p)
{
	return sim_slot(a->rank, p);
}

MRW_DEV uint32_t mrw_slot_there(const struct mrw_args *a, uint32_t p)
{
	return sim_slot(p, a->rank);
}

MRW_DEV uint8_t *mrw_staging_to(const struct mrw_args *a, uint32_t format, uint32_t channel, uint32_t p, uint64_t round)
{
	if (mrw_is_far(a, p))
		return SIM_ARENA(a->rank) + a->layout.outbox + mrw_staging_offset(&a->layout, format, channel, mrw_slot_here(a, p), round);
	return SIM_ARENA(p) + mrw_staging_offset(&a->layout, format, channel, mrw_slot_there(a, p), round);
}

MRW_DEV const uint8_t *mrw_staging_from(const struct mrw_args *a, uint32_t format, uint32_t channel, uint32_t p, uint64_t round)
{
	return SIM_ARENA(a->rank) + mrw_staging_offset(&a->layout, format, channel, mrw_slot_here(a, p), round);
}

MRW_DEV void mrw_stage_note(const struct mrw_team *team, const struct mrw_args *a, uint32_t format, uint32_t channel, uint32_t p, uint64_t round,
			    uint32_t bytes)
{
	(void)team;
	(void)format;
	(void)round;
	if (!mrw_is_far(a, p))
		return;
	struct sim_note *note = &sim.notes[mrw_slot_here(a, p) * a->far->nics + channel % a->far->nics];
	note->bytes += bytes;
	note->requests += bytes > 0;
	sim.noted += bytes;
}

/* Loops of bodies end here. */
struct mrw_op {
	uint32_t seq;
	uint64_t round;
};

MRW_DEV bool mrw_op_begin(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, struct mrw_op *op)
{
	(void)team;
	(void)channel;
	(void)a;
	op->seq = 0;
	op->round = 0;
	return false;
}

MRW_DEV bool mrw_op_begin_rounds(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, struct mrw_op *op)
{
	return mrw_op_begin(team, channel, a, op);
}

/* Nobody has registered anything. */
#undef MRW_WINDOWS
#define MRW_WINDOWS 0

MRW_DEV bool mrw_has_windows(const struct mrw_args *a)
{
	(void)a;
	return false;
}

MRW_DEV uint8_t *mrw_direct(const struct mrw_team *team, const struct mrw_args *a, uint32_t p)
{
	(void)team;
	(void)a;
	(void)p;
	return NULL;
}

MRW_DEV void mrw_places_say(const struct mrw_team *team, const struct mrw_args *a, uint32_t seq)
{
	(void)team;
	(void)a;
	(void)seq;
}

MRW_DEV bool mrw_places_heard(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq, bool ok)
{
	mrw_places_say(team, a, seq);
	(void)channel;
	return ok;
}

MRW_DEV void mrw_op_end(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, const struct mrw_op *op, bool ok)
{
	(void)team;
	(void)channel;
	(void)a;
	(void)op;
	(void)ok;
}

MRW_DEV void mrw_op_end_among(uint32_t nranks, const struct mrw_team *team, uint32_t channel, const struct mrw_args *a,
			      const struct mrw_op *op, bool ok)
{
	(void)nranks;
	mrw_op_end(team, channel, a, op, ok);
}

MRW_DEV bool mrw_rounds_wait(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint64_t round, uint32_t lag,
			     bool ok)
{
	(void)team;
	(void)channel;
	(void)a;
	(void)seq;
	(void)round;
	(void)lag;
	(void)ok;
	return false;
}

MRW_DEV bool mrw_rounds_drain(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint64_t rounds, bool ok)
{
	return mrw_rounds_wait(team, channel, a, seq, rounds, 1, ok);
}

MRW_DEV void mrw_rounds_publish(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round)
{
	(void)mrw_rounds_wait(team, channel, a, 0, round, 1, false);
}

MRW_DEV void mrw_rounds_signal(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t rounds)
{
	mrw_rounds_publish(team, channel, a, rounds);
}

MRW_DEV void mrw_rounds_keep(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t rounds)
{
	mrw_rounds_publish(team, channel, a, rounds);
}

/* copy.h, reduce.h */

MRW_DEV uint32_t mrw_alignment(const uint8_t *p)
{
	(void)p;
	return MRW_VEC_BYTES;
}

MRW_DEV mrw_acc mrw_scalar(const struct mrw_args *a)
{
	(void)a;
	return 0;
}

/* bytes are stored at an address, for the time they take. */
MRW_DEV void sim_note_store(const uint8_t *at, uint32_t bytes)
{
	uint64_t rank = sim_rank_of(at);
	if ((uint64_t)at >= (uint64_t)SIM_IN)
		sim.stored += bytes;
	else if (rank == sim.args.rank) {
		sim.stored += bytes;
		sim.staged += sim_is_outbox(at) ? bytes : 0;
	} else if (rank - sim.first < sim.gpus)
		sim.near[rank - sim.first] += bytes;
	else
		sim_fault("rank %u stores into the arena of rank %u, which is on another host", sim.args.rank, (uint32_t)rank);
}

MRW_DEV void mrw_copy(const struct mrw_team *team, uint8_t *dst, const uint8_t *src, uint32_t bytes)
{
	(void)team;
	if (bytes == 0)
		return;
	sim.loaded += bytes;
	sim_note_store(dst, bytes);
	if (sim.ledger.on)
		sim_store(dst, bytes, sim_load(src, bytes));
}

MRW_DEV void mrw_push_scaled(const struct mrw_team *team, uint8_t *slot, const uint8_t *src, uint32_t bytes, mrw_acc scalar)
{
	(void)scalar;
	mrw_copy(team, slot, src, bytes);
}

MRW_DEV mrw_acc mrw_widen(const uint32_t *w, uint32_t e)
{
	return w[e];
}

MRW_DEV mrw_acc mrw_combine(uint32_t reduction, mrw_acc a, mrw_acc b)
{
	(void)reduction;
	return a + b;
}

MRW_DEV void mrw_narrow(uint32_t *w, uint32_t e, mrw_acc v)
{
	w[e] = v;
}

MRW_DEV mrw_acc mrw_divide(mrw_acc a, uint32_t n)
{
	(void)n;
	return a;
}

MRW_DEV void mrw_scale(uint32_t *w, uint32_t words, mrw_acc scalar)
{
	(void)w;
	(void)words;
	(void)scalar;
}

/* packet.h and what bodies in packets take of far.h, send.h and peer.h. A unit's first word is the ledger's number. A phase is run twice: dry, to
 * learn whose packets it waits for, and when they are there. */

struct mrw_where {
	uint32_t seq, channel, peer, wait_for;
	uint64_t expected, seen;
};

/* What the body does now is of the phase under way. */
MRW_DEV bool sim_counts(void)
{
	return !sim.replays || sim.replayed == sim.phase;
}

/* A body's whole part in packets, run again in each phase. */
MRW_DEV void sim_replay(void)
{
	sim.replays = sim.sent = true;
	sim.replayed = 0;
}

MRW_DEV struct mrw_packet *mrw_packets_to(const struct mrw_args *a, uint32_t format, uint32_t channel, uint32_t p, uint32_t parity)
{
	uint8_t *arena = mrw_is_far(a, p) ? SIM_ARENA(a->rank) + a->layout.outbox : SIM_ARENA(p);
	uint32_t slot = mrw_is_far(a, p) ? mrw_slot_here(a, p) : mrw_slot_there(a, p);
	if (!sim.dry && !mrw_is_far(a, p) && sim_counts())
		sim.near_phases[p - sim.first] |= sim_arrives(a, format, p);
	return mrw_packets_at(&a->layout, arena, format, channel, slot, parity);
}

MRW_DEV struct mrw_packet *mrw_packets_from(const struct mrw_args *a, uint32_t format, uint32_t channel, uint32_t p, uint32_t parity)
{
	return mrw_packets_at(&a->layout, SIM_ARENA(a->rank), format, channel, mrw_slot_here(a, p), parity);
}

MRW_DEV void mrw_unit_load(const uint8_t *buffer, uint64_t index, uint64_t bytes, uint32_t payload[2])
{
	uint64_t left = bytes - index * MRW_UNIT_BYTES;
	payload[0] = payload[1] = 0;
	if (sim.dry)
		return;
	sim.loaded += MRW_UNIT_BYTES;
	if (sim.ledger.on)
		payload[0] = sim_load(buffer + index * MRW_UNIT_BYTES, left < MRW_UNIT_BYTES ? left : MRW_UNIT_BYTES);
}

MRW_DEV void mrw_unit_store(uint8_t *buffer, uint64_t index, uint64_t bytes, const uint32_t payload[2])
{
	uint64_t left = bytes - index * MRW_UNIT_BYTES;
	if (sim.dry)
		return;
	sim.stored += MRW_UNIT_BYTES;
	if (sim.ledger.on)
		sim_store(buffer + index * MRW_UNIT_BYTES, left < MRW_UNIT_BYTES ? left : MRW_UNIT_BYTES, payload[0]);
}

MRW_DEV void mrw_packet_send(struct mrw_packet *p, uint32_t seq, const uint32_t payload[2])
{
	(void)seq;
	sim.sent = true;
	if (sim.dry || !sim_counts())
		return;
	sim_note_store((const uint8_t *)p, sizeof *p);
	if (sim.roll.on)
		*sim_packet((const uint8_t *)p) = sim.phase + 1;
	else if (sim.ledger.on)
		*sim_packet((const uint8_t *)p) = payload[0];
}

MRW_DEV bool mrw_wait_packet(const struct mrw_args *a, const struct mrw_packet *p, struct mrw_where w, uint32_t payload[2])
{
	payload[0] = payload[1] = 0;
	sim.replayed += sim.sent;
	sim.sent = false;
	if (!sim_counts())
		return true;
	if (sim.dry) {
		sim_await(mrw_slot_here(a, w.peer), mrw_is_far(a, w.peer));
		return true;
	}
	sim.loaded += sizeof *p;
	if (!sim.ledger.on)
		return true;
	payload[0] = *sim_packet((const uint8_t *)p);
	if (payload[0] == 0)
		sim_fault("rank %u waits for a packet of rank %u, which never comes", a->rank, w.peer);
	else if (sim.roll.on)
		sim_roll_hear(&sim.roll, a->rank, sim.phase, w.peer, payload[0] - 1);
	return true;
}

MRW_DEV bool mrw_packets_push(const struct mrw_args *a, uint32_t format, uint32_t channel, uint32_t p, uint32_t seq, uint32_t count)
{
	struct sim_note *note = &sim.notes[mrw_slot_here(a, p) * a->far->nics + channel % a->far->nics];
	(void)seq;
	if (sim.dry || !sim_counts())
		return true;
	note->phases |= sim_arrives(a, format, p);
	note->bytes += count * sizeof(struct mrw_packet);
	note->requests++;
	sim.noted += count * sizeof(struct mrw_packet);
	return true;
}

MRW_DEV bool mrw_packets_settled(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq, bool ok)
{
	(void)team;
	(void)channel;
	(void)a;
	(void)seq;
	return ok;
}

/* line.h and what bodies in lines take of reduce_quick.h and copy.h: as on the host target a team of one has whole lines. A line is its units. */
#define MRW_LINE_UNROLL
#define MRW_LINE_LANES 1u
#define MRW_LINE_PART MRW_LINE_UNITS
#define MRW_QUICK_POLLS 1u
#define MRW_POLLS_A_LOOK 1u

MRW_DEV uint32_t mrw_line_lane(const struct mrw_team *team)
{
	(void)team;
	return 0;
}

MRW_DEV uint32_t mrw_line_unit(uint32_t lane, uint32_t u)
{
	return lane * MRW_LINE_PART + u;
}

MRW_DEV uint32_t mrw_line_first(const struct mrw_team *team)
{
	return team->index;
}

MRW_DEV bool mrw_line_all(bool mine)
{
	return mine;
}

MRW_DEV void mrw_line_store(uint8_t *line, uint32_t lane, uint32_t seq, uint32_t payload[MRW_LINE_PART][2])
{
	(void)lane;
	(void)seq;
	if (sim.dry)
		return;
	sim.near_phases[sim_rank_of(line) - sim.first] |= sim_arrives(&sim.args, 0, sim_rank_of(line));
	sim_note_store(line, MRW_LINE_BYTES);
	for (uint32_t u = 0; sim.ledger.on && u < MRW_LINE_PART; u++)
		sim_line(line)[u] = payload[u][0];
}

MRW_DEV bool mrw_line_load(const uint8_t *line, uint32_t lane, uint32_t seq, uint32_t payload[MRW_LINE_PART][2])
{
	(void)lane;
	(void)seq;
	memset(payload, 0, MRW_LINE_PART * sizeof payload[0]);
	if (sim.dry) {
		sim_await(sim_line_slot(line), false);
		return true;
	}
	sim.loaded += MRW_LINE_BYTES;
	for (uint32_t u = 0; sim.ledger.on && u < MRW_LINE_PART; u++)
		payload[u][0] = sim_line(line)[u];
	if (sim.ledger.on && payload[0][0] == 0)
		sim_fault("rank %u waits for a line of rank %u, which never comes", sim.args.rank,
			  sim_peer(&sim.reach, sim.args.rank, sim_line_slot(line)));
	return true;
}

/* Of buffers that need no call, which only CUDA's bodies look at; and of lines that are late. */
MRW_DEV void mrw_load_aligned_unit(const uint8_t *p, uint32_t payload[2])
{
	mrw_unit_load(p, 0, MRW_UNIT_BYTES, payload);
}

MRW_DEV void mrw_store_aligned_unit(uint8_t *p, const uint32_t payload[2])
{
	mrw_unit_store(p, 0, MRW_UNIT_BYTES, payload);
}

MRW_DEV uint64_t mrw_look(const struct mrw_args *a, struct mrw_where w, uint64_t since, uint32_t looks)
{
	(void)a;
	(void)w;
	(void)since;
	(void)looks;
	return 0;
}

#include "collectives/sum.h"

/* The pieces of a sum are added, and the result goes to all places at once: at is 0. */
MRW_DEV void mrw_sum_switch(uint32_t at, uint32_t step, const struct mrw_args *a, const struct mrw_sum s)
{
	uint32_t value = 0, format;
	bool near;
	(void)step;
	if (s.bytes == 0 || at != 0)
		return;
	sim.loaded += (uint64_t)s.bytes * s.nranks;
	sim_note_store(s.out, s.bytes);
	if (sim.ledger.on) {
		value = sim_load(s.own, s.bytes);
		uint64_t offset = (uint64_t)(s.staged - SIM_ARENA(a->rank)), index = sim_staging_index(offset, &format, &near);
		uint64_t apart = s.stride / a->layout.chunk_bytes / (near ? 1 : MRW_ROUND_SLOTS);
		const uint32_t *piece = sim_staged(a->rank, index, format, near);
		for (uint32_t q = 0; q + 1 < s.nranks; q++)
			value += piece[q * apart];
		sim_store(s.out, s.bytes, value);
	}
	for (uint32_t q = 1; s.forward && q < s.nranks; q++) {
		uint8_t *slot = mrw_sum_slot(a, s, q);
		sim_note_store(slot, s.bytes);
		if (sim.ledger.on)
			sim_store(slot, s.bytes, value);
	}
}

MRW_DEV void mrw_sum_any(uint32_t at, uint32_t step, const struct mrw_args *a, const struct mrw_sum *s)
{
	mrw_sum_switch(at, step, a, *s);
}

MRW_DEV uint32_t mrw_sum_pair_any(uint32_t reduction, uint32_t at, uint32_t step, const uint8_t *p0, const uint8_t *p1, uint8_t *out, uint8_t *slot,
				  uint32_t bytes, bool average)
{
	(void)reduction;
	(void)step;
	(void)p0;
	(void)p1;
	(void)out;
	(void)slot;
	(void)bytes;
	(void)average;
	return at; /* teams of one take mrw_sum_switch() */
}

#endif
