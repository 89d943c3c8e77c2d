/* reduce_lines.h - one-shot all-reduce of the middle sizes: every rank sends its whole buffer to everybody in lines (device/line.h) and
 * adds what arrives in rank order. Compiled once per type.
 *
 * Slots are reused by parity like those of packets, for the same reason (device/wire.h). */
#ifndef MRW_REDUCE_LINES_H
#define MRW_REDUCE_LINES_H

#include "peer.h"
#include "reduce_quick.h"
#include "device/line.h"

/* Lines a thread keeps in flight. */
#define MRW_LINE_BATCH (!MRW_ON_CUDA || MRW_ELEM_BYTES == 1 ? 1u : 2u)

/* One thread's walk over its channel's lines. */
struct mrw_line_walk {
	const uint8_t *in;       /* where the channel's first unit is */
	uint8_t *out;
	uint64_t bytes;          /* from there to the buffer's end */
	uint32_t count, lines;   /* of the channel: units, lines */
	uint32_t lane, step;     /* step: lines a pass */
};

MRW_DEV struct mrw_line_walk mrw_line_walk(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_line_walk w;
	uint64_t first = (uint64_t)channel * a->units;
	w.in = a->in + first * MRW_UNIT_BYTES;
	w.out = a->out + first * MRW_UNIT_BYTES;
	w.bytes = first * MRW_UNIT_BYTES < a->bytes ? a->bytes - first * MRW_UNIT_BYTES : 0;
	w.count = (uint32_t)mrw_units_in(a->bytes, first, a->units);
	w.lines = (w.count + MRW_LINE_UNITS - 1) / MRW_LINE_UNITS;
	w.lane = mrw_line_lane(team);
	w.step = team->size / MRW_LINE_LANES;
	return w;
}

/* A rank's own buffers: aligned, unscaled, whole units (plain), which needs no call, or whatever else. */
MRW_DEV bool mrw_lines_plain(const struct mrw_args *a)
{
	return !a->scaled && (((uintptr_t)a->in | (uintptr_t)a->out | a->bytes) & (MRW_UNIT_BYTES - 1)) == 0;
}

/* This rank's part of a line, scaled for premulsum; zero where the channel has no unit. */
MRW_DEV void mrw_line_own(const bool plain, const struct mrw_args *a, const struct mrw_line_walk *w, uint32_t line, mrw_acc scalar,
			  uint32_t part[MRW_LINE_PART][2])
{
	MRW_LINE_UNROLL
	for (uint32_t u = 0; u < MRW_LINE_PART; u++) {
		uint32_t in_line = mrw_line_unit(w->lane, u), unit = line * MRW_LINE_UNITS + in_line;
		part[u][0] = part[u][1] = 0;
		if (in_line >= MRW_LINE_UNITS || unit >= w->count)
			continue;
		if (plain) {
			mrw_load_aligned_unit(w->in + unit * MRW_UNIT_BYTES, part[u]);
			continue;
		}
		mrw_unit_load(w->in, unit, w->bytes, part[u]);
		if (a->scaled)
			mrw_scale(part[u], 2, scalar);
	}
}

MRW_DEV void mrw_line_keep(const bool plain, const struct mrw_line_walk *w, uint32_t line,
			   uint32_t part[MRW_LINE_PART][2])
{
	MRW_LINE_UNROLL
	for (uint32_t u = 0; u < MRW_LINE_PART; u++) {
		uint32_t in_line = mrw_line_unit(w->lane, u), unit = line * MRW_LINE_UNITS + in_line;
		if (in_line >= MRW_LINE_UNITS || unit >= w->count)
			continue;
		if (plain)
			mrw_store_aligned_unit(w->out + unit * MRW_UNIT_BYTES, part[u]);
		else
			mrw_unit_store(w->out, unit, w->bytes, part[u]);
	}
}

MRW_DEV void mrw_lines_send(const bool plain, const uint32_t batch, const struct mrw_team *team, uint32_t channel, const struct mrw_args *a,
			    uint32_t seq, const struct mrw_line_walk *w, mrw_acc scalar)
{
	for (uint32_t line = team->index / MRW_LINE_LANES; line < w->lines; line += batch * w->step) {
		uint32_t part[MRW_LINE_BATCH][MRW_LINE_PART][2];
		MRW_LINE_UNROLL
		for (uint32_t k = 0; k < batch; k++)
			mrw_line_own(plain, a, w, line + k * w->step, scalar, part[k]);
		for (uint32_t q = 1; q < a->nranks; q++) {
			uint32_t p = mrw_peer(a, q);
			uint8_t *to = mrw_line_at(&a->layout, a->arena[p], channel, mrw_writer_slot(p, a->rank), seq & 1, line);
			MRW_LINE_UNROLL
			for (uint32_t k = 0; k < batch; k++)
				if (line + k * w->step < w->lines)
					mrw_line_store(to + k * w->step * MRW_LINE_BYTES, w->lane, seq, part[k]);
		}
	}
}

/* A slow look for threads that go together: at peer p, by those of them whose lines are not here. False: leave. */
MRW_DEV_CALL bool mrw_lines_look(uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t p, bool here, uint32_t looks, uint64_t *since)
{
	struct mrw_where w = {seq, channel, p, MRW_WAIT_PACKET, seq, 0};
	if (!here)
		*since = mrw_look(a, w, *since, looks);
	return mrw_line_all(here || *since != 0);
}

/* A batch of lines of peer p, line the first of them. Threads that go together wait for all of theirs. False, if plain: they are late; else
 * leave. Partner: mrw_lines_send(). */
MRW_DEV bool mrw_lines_wait(const bool plain, const uint32_t batch, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t p,
			    const struct mrw_line_walk *w, uint32_t line, uint32_t part[MRW_LINE_BATCH][MRW_LINE_PART][2])
{
	const uint8_t *from = mrw_line_at(&a->layout, a->arena[a->rank], channel, mrw_writer_slot(a->rank, p), seq & 1, line);
	uint64_t since = 0;
	for (uint32_t polls = 0;; polls++) {
		bool here = true;
		MRW_LINE_UNROLL
		for (uint32_t k = 0; k < batch; k++)
			if (line + k * w->step < w->lines && !mrw_line_load(from + k * w->step * MRW_LINE_BYTES, w->lane, seq, part[k]))
				here = false;
		if (mrw_line_all(here))
			return true;
		if (plain && polls == MRW_QUICK_POLLS)
			return false;
		if (!plain && polls % MRW_POLLS_A_LOOK == MRW_POLLS_A_LOOK - 1 &&
		    !mrw_lines_look(channel, a, seq, p, here, polls / MRW_POLLS_A_LOOK, &since))
			return false;
		mrw_pause(polls, a->spin_limit);
	}
}

/* Adds the batch of lines from line on. */
MRW_DEV bool mrw_lines_reduce(const uint32_t reduction, const bool plain, const uint32_t batch, uint32_t channel, const struct mrw_args *a,
			      uint32_t seq, const struct mrw_line_walk *w, uint32_t line, mrw_acc scalar)
{
	mrw_acc acc[MRW_LINE_BATCH][MRW_LINE_PART][MRW_UNIT_ELEMS] = {{{0}}};
	for (uint32_t p = 0; p < a->nranks; p++) {
		uint32_t part[MRW_LINE_BATCH][MRW_LINE_PART][2] = {{{0}}};
		if (p != a->rank && !mrw_lines_wait(plain, batch, channel, a, seq, p, w, line, part))
			return false;
		MRW_LINE_UNROLL
		for (uint32_t k = 0; k < batch; k++) {
			if (p == a->rank)
				mrw_line_own(plain, a, w, line + k * w->step, scalar, part[k]);
			MRW_LINE_UNROLL
			for (uint32_t u = 0; u < MRW_LINE_PART; u++)
				mrw_unit_combine(reduction, acc[k][u], part[k][u], p == 0);
		}
	}
	MRW_LINE_UNROLL
	for (uint32_t k = 0; k < batch; k++) {
		uint32_t result[MRW_LINE_PART][2];
		MRW_LINE_UNROLL
		for (uint32_t u = 0; u < MRW_LINE_PART; u++)
			mrw_unit_narrow(acc[k][u], a->average, a->nranks, result[u]);
		mrw_line_keep(plain, w, line + k * w->step, result);
	}
	return true;
}

/* Adds all lines of this thread from the pass on that begins with first; returns the pass where it gave up, or one past the end. The passes
 * of threads that go together are the same, whether they have a line or not. */
MRW_DEV uint32_t mrw_lines_reduce_from(const uint32_t reduction, const bool plain, const uint32_t batch, const struct mrw_team *team,
				       uint32_t channel, const struct mrw_args *a, uint32_t seq, const struct mrw_line_walk *w, uint32_t first)
{
	mrw_acc scalar = mrw_scalar(a);
	uint32_t mine = team->index / MRW_LINE_LANES - mrw_line_first(team);
	for (; first < w->lines; first += batch * w->step)
		if (!mrw_lines_reduce(reduction, plain, batch, channel, a, seq, w, first + mine, scalar))
			return first;
	return first;
}

MRW_DEV uint32_t mrw_lines_reduce_plain(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq,
					const struct mrw_line_walk *w, uint32_t first)
{
	return MRW_BY_REDUCTION(a->reduction, mrw_lines_reduce_from, true, MRW_LINE_BATCH, team, channel, a, seq, w, first);
}

/* Buffers that are not plain, and lines that are late: a call, for the plain path has none and keeps its registers. */
MRW_DEV_CALL void mrw_lines_send_any(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq)
{
	struct mrw_line_walk w = mrw_line_walk(team, channel, a);
	mrw_lines_send(false, 1, team, channel, a, seq, &w, mrw_scalar(a));
}

MRW_DEV_CALL bool mrw_lines_reduce_any(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t first)
{
	struct mrw_line_walk w = mrw_line_walk(team, channel, a);
	return mrw_lines_reduce_from(a->reduction, false, 1, team, channel, a, seq, &w, first) >= w.lines;
}

MRW_DEV void mrw_reduce_lines(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_op op;
	bool ok = mrw_line_all(mrw_op_begin(team, channel, a, &op)); /* threads that go together must agree to go */
	uint32_t first = mrw_line_first(team);
	struct mrw_line_walk w = mrw_line_walk(team, channel, a);
	if (ok && MRW_ON_CUDA && mrw_lines_plain(a)) { /* on the host target nothing is that dear */
		mrw_lines_send(true, MRW_LINE_BATCH, team, channel, a, op.seq, &w, mrw_scalar(a));
		first = mrw_lines_reduce_plain(team, channel, a, op.seq, &w, first);
	} else if (ok) {
		mrw_lines_send_any(team, channel, a, op.seq);
	}
	if (ok && first < w.lines)
		ok = mrw_lines_reduce_any(team, channel, a, op.seq, first);
	mrw_op_end(team, channel, a, &op, ok);
}

/* The batch of lines from line on, plain: this rank's part of it, to be sent and added. */
MRW_DEV void mrw_lines_own(const struct mrw_args *a, const struct mrw_line_walk *w, uint32_t line,
			   uint32_t own[MRW_LINE_BATCH][MRW_LINE_PART][2])
{
	MRW_LINE_UNROLL
	for (uint32_t k = 0; k < MRW_LINE_BATCH; k++)
		mrw_line_own(true, a, w, line + k * w->step, 0, own[k]);
}

/* Partner: mrw_lines_wait(). */
MRW_DEV void mrw_lines_pass_on(uint32_t channel, const struct mrw_args *a, uint32_t seq, const struct mrw_line_walk *w, uint32_t line,
			       uint32_t own[MRW_LINE_BATCH][MRW_LINE_PART][2])
{
	uint8_t *to = mrw_line_at(&a->layout, a->arena[1 - a->rank], channel, 0, seq & 1, line);
	MRW_LINE_UNROLL
	for (uint32_t k = 0; k < MRW_LINE_BATCH; k++)
		if (line + k * w->step < w->lines)
			mrw_line_store(to + k * w->step * MRW_LINE_BYTES, w->lane, seq, own[k]);
}

/* Own parts and those of the other rank: of two the order makes no difference. */
MRW_DEV void mrw_lines_add_pair(const struct mrw_line_walk *w, uint32_t line,
				uint32_t own[MRW_LINE_BATCH][MRW_LINE_PART][2], uint32_t part[MRW_LINE_BATCH][MRW_LINE_PART][2])
{
	MRW_LINE_UNROLL
	for (uint32_t k = 0; k < MRW_LINE_BATCH; k++) {
		MRW_LINE_UNROLL
		for (uint32_t u = 0; u < MRW_LINE_PART; u++) {
			mrw_acc acc[MRW_UNIT_ELEMS] = {0};
			mrw_unit_combine(MRW_RED_SUM, acc, own[k][u], true);
			mrw_unit_combine(MRW_RED_SUM, acc, part[k][u], false);
			mrw_unit_narrow(acc, false, 2, part[k][u]);
		}
		mrw_line_keep(true, w, line + k * w->step, part[k]);
	}
}

/* The commonest: a sum of two ranks, their buffers plain. What a thread sends first it keeps. */
MRW_DEV void mrw_reduce_lines_pair(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_op op;
	struct mrw_line_walk w = mrw_line_walk(team, channel, a);
	uint32_t first = mrw_line_first(team), mine = team->index / MRW_LINE_LANES - first, stride = MRW_LINE_BATCH * w.step, at = first;
	uint32_t own[MRW_LINE_BATCH][MRW_LINE_PART][2], part[MRW_LINE_BATCH][MRW_LINE_PART][2] = {{{0}}};
	mrw_lines_own(a, &w, first + mine, own); /* on their way while the begin looks at the arena */
	bool ok = mrw_line_all(mrw_op_begin(team, channel, a, &op));
	if (ok) {
		mrw_lines_pass_on(channel, a, op.seq, &w, first + mine, own);
		for (at = first + stride; at < w.lines; at += stride) {
			mrw_lines_own(a, &w, at + mine, part);
			mrw_lines_pass_on(channel, a, op.seq, &w, at + mine, part);
		}
		for (at = first; at < w.lines; at += stride) {
			if (at != first)
				mrw_lines_own(a, &w, at + mine, own);
			if (!mrw_lines_wait(true, MRW_LINE_BATCH, channel, a, op.seq, 1 - a->rank, &w, at + mine, part))
				break;
			mrw_lines_add_pair(&w, at + mine, own, part);
		}
		if (at < w.lines)
			ok = mrw_lines_reduce_any(team, channel, a, op.seq, at);
	}
	mrw_op_end_among(2, team, channel, a, &op, ok);
}

#endif
