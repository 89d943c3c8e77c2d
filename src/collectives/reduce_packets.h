/* reduce_packets.h - all-reduce and reduce-scatter of small messages, without a fence.
 *
 * One-shot: every rank sends its whole block to every owner, that is to everybody (all_reduce) or block o to rank o
 * (reduce_scatter); an owner adds what arrives in rank order. Two-shot: rank o owns share o, adds, and sends the result packets
 * to all. Compiled once per type. */
#ifndef MRW_REDUCE_PACKETS_H
#define MRW_REDUCE_PACKETS_H

#include "peer.h"
#include "schedule.h"
#include "device/packet.h"
#include "device/reduce.h"

#define MRW_UNIT_ELEMS (MRW_UNIT_BYTES / MRW_ELEM_BYTES)

/* This channel's range of units of every block. */
struct mrw_units {
	uint32_t first, per;
	bool whole;  /* every owner gets the same block: the whole buffer */
};

MRW_DEV struct mrw_units mrw_units_of(const struct mrw_args *a, uint32_t channel)
{
	struct mrw_units u;
	u.per = a->units;
	u.first = channel * u.per;
	u.whole = a->call.func == MRW_FUNC_ALL_REDUCE && a->call.algo == MRW_ALGO_ONESHOT;
	return u;
}

MRW_DEV struct mrw_span mrw_owned(const struct mrw_args *a, bool whole, uint32_t owner)
{
	struct mrw_span s = {0, a->bytes};
	return whole ? s : mrw_block_of(a->bytes, a->share_bytes, owner);
}

/* Units of a block in this channel's range. */
MRW_DEV uint32_t mrw_units_count(struct mrw_span block, struct mrw_units u)
{
	return (uint32_t)mrw_units_in(block.bytes, u.first, u.per);
}

/* Unit index of owner's block of this rank's input, scaled for premulsum. */
MRW_DEV void mrw_own_unit(const struct mrw_args *a, struct mrw_span block, uint64_t index, mrw_acc scalar, uint32_t payload[2])
{
	mrw_unit_load(a->in + block.offset, index, block.bytes, payload);
	if (a->scaled)
		mrw_scale(payload, 2, scalar);
}

/* First exchange: units to their owners. */
MRW_DEV_CALL void mrw_units_send(uint32_t index, uint32_t size, uint32_t channel, const struct mrw_args *a, uint32_t seq)
{
	struct mrw_units u = mrw_units_of(a, channel);
	mrw_acc scalar = mrw_scalar(a);
	uint32_t payload[2];
	if (u.whole) {
		struct mrw_span block = mrw_owned(a, true, 0);
		uint32_t count = mrw_units_count(block, u);
		for (uint32_t i = index; i < count; i += size) {
			mrw_own_unit(a, block, (uint64_t)u.first + i, scalar, payload);
			for (uint32_t q = 1; q < a->nranks; q++) {
				uint32_t p = mrw_peer(a, q);
				mrw_packet_send(mrw_packets_to(a, 0, channel, p, seq & 1) + i, seq, payload);
			}
		}
		return;
	}
	for (uint32_t j = index; j < u.per * (a->nranks - 1); j += size) {
		uint32_t p = mrw_peer(a, 1 + j / u.per), i = j % u.per;
		struct mrw_span block = mrw_owned(a, false, p);
		if (i >= mrw_units_count(block, u))
			continue;
		mrw_own_unit(a, block, (uint64_t)u.first + i, scalar, payload);
		mrw_packet_send(mrw_packets_to(a, 0, channel, p, seq & 1) + i, seq, payload);
	}
}

MRW_DEV void mrw_unit_combine(const uint32_t reduction, mrw_acc *acc, const uint32_t payload[2], bool first)
{
	MRW_UNROLL
	for (uint32_t e = 0; e < MRW_UNIT_ELEMS; e++) {
		mrw_acc x = mrw_widen(payload, e);
		acc[e] = first ? x : mrw_combine(reduction, acc[e], x);
	}
}

MRW_DEV void mrw_unit_narrow(const mrw_acc *acc, bool average, uint32_t nranks, uint32_t result[2])
{
	result[0] = result[1] = 0;
	MRW_UNROLL
	for (uint32_t e = 0; e < MRW_UNIT_ELEMS; e++)
		mrw_narrow(result, e, average ? mrw_divide(acc[e], nranks) : acc[e]);
}

/* Adds unit i of my block over all ranks in rank order; own is mine. */
MRW_DEV bool mrw_unit_reduce(const uint32_t reduction, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t i,
			     const uint32_t own[2], uint32_t result[2])
{
	mrw_acc acc[MRW_UNIT_ELEMS] = {0};
	for (uint32_t p = 0; p < a->nranks; p++) {
		uint32_t payload[2] = {own[0], own[1]};
		if (p != a->rank) {
			struct mrw_where w = {seq, channel, p, MRW_WAIT_PACKET, 0, 0};
			if (!mrw_wait_packet(a, mrw_packets_from(a, 0, channel, p, seq & 1) + i, w, payload))
				return false;
		}
		mrw_unit_combine(reduction, acc, payload, p == 0);
	}
	mrw_unit_narrow(acc, a->average, a->nranks, result);
	return true;
}

/* The owner's part from unit from on: add, keep, and in a two-shot send the result on. */
MRW_DEV bool mrw_units_own(const uint32_t reduction, uint32_t size, uint32_t channel, const struct mrw_args *a,
			   uint32_t seq, struct mrw_units u, uint32_t from)
{
	struct mrw_span block = mrw_owned(a, u.whole, a->rank);
	uint8_t *out = a->out + (mrw_has_shares(a->call.func) ? block.offset : 0);
	uint32_t count = mrw_units_count(block, u);
	mrw_acc scalar = mrw_scalar(a);
	bool second = a->call.algo == MRW_ALGO_TWOSHOT;
	for (uint32_t i = from; i < count; i += size) {
		uint32_t own[2], result[2];
		mrw_own_unit(a, block, (uint64_t)u.first + i, scalar, own);
		if (!mrw_unit_reduce(reduction, channel, a, seq, i, own, result))
			return false;
		for (uint32_t q = 1; second && q < a->nranks; q++) {
			uint32_t p = mrw_peer(a, q);
			mrw_packet_send(mrw_packets_to(a, 1, channel, p, seq & 1) + i, seq, result);
		}
		mrw_unit_store(out, (uint64_t)u.first + i, block.bytes, result);
	}
	return true;
}

/* Second exchange: results of the others. Thread j takes the units that it sent: in place, it alone touched them. */
MRW_DEV bool mrw_units_collect(uint32_t index, uint32_t size, uint32_t channel, const struct mrw_args *a, uint32_t seq,
			       struct mrw_units u)
{
	for (uint32_t j = index; j < u.per * (a->nranks - 1); j += size) {
		uint32_t p = mrw_peer(a, 1 + j / u.per), i = j % u.per;
		struct mrw_span block = mrw_owned(a, false, p);
		if (i >= mrw_units_count(block, u))
			continue;
		uint32_t payload[2];
		struct mrw_where w = {seq, channel, p, MRW_WAIT_PACKET, 0, 0};
		if (!mrw_wait_packet(a, mrw_packets_from(a, 1, channel, p, seq & 1) + i, w, payload))
			return false;
		mrw_unit_store(a->out + block.offset, (uint64_t)u.first + i, block.bytes, payload);
	}
	return true;
}

/* The owner's part, from this thread's unit from on; the operation is a switch outside the loop. */
MRW_DEV bool mrw_units_own_any(uint32_t size, uint32_t channel, const struct mrw_args *a, uint32_t seq, struct mrw_units u, uint32_t from)
{
	switch (a->reduction) {
	case MRW_RED_SUM:
		return mrw_units_own(MRW_RED_SUM, size, channel, a, seq, u, from);
	case MRW_RED_PROD:
		return mrw_units_own(MRW_RED_PROD, size, channel, a, seq, u, from);
	case MRW_RED_MAX:
		return mrw_units_own(MRW_RED_MAX, size, channel, a, seq, u, from);
	default:
		return mrw_units_own(MRW_RED_MIN, size, channel, a, seq, u, from);
	}
}

/* Everything after the sending, from this thread's unit from on. */
MRW_DEV_CALL bool mrw_units_finish(uint32_t index, uint32_t size, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t from)
{
	struct mrw_units u = mrw_units_of(a, channel);
	bool ok = mrw_units_own_any(size, channel, a, seq, u, from);
	return ok && (a->call.algo != MRW_ALGO_TWOSHOT || mrw_units_collect(index, size, channel, a, seq, u));
}

/* What the whole team has put into the outbox for one exchange goes out. format 0: owner p's block; 1: mine. */
MRW_DEV bool mrw_units_push(const struct mrw_team *team, uint32_t format, uint32_t channel, const struct mrw_args *a, uint32_t seq,
			    struct mrw_units u)
{
	bool ok = true;
	for (uint32_t p = mrw_team_high(team); ok && p < a->nranks; p += team->size) {
		uint32_t count = mrw_units_count(mrw_owned(a, u.whole, format == 0 ? p : a->rank), u);
		if (mrw_is_far(a, p) && count > 0)
			ok = mrw_packets_push(a, format, channel, p, seq, count);
	}
	return ok;
}

/* Both exchanges where some ranks are on other hosts. Every thread comes here, whatever ok says of it. */
MRW_DEV_CALL bool mrw_units_across(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq, bool ok)
{
	struct mrw_units u = mrw_units_of(a, channel);
	if (!mrw_packets_settled(team, channel, a, seq, ok))
		return false;
	mrw_units_send(team->index, team->size, channel, a, seq);
	mrw_team_sync(team);
	ok = mrw_units_push(team, 0, channel, a, seq, u) && mrw_units_own_any(team->size, channel, a, seq, u, team->index);
	if (a->call.algo != MRW_ALGO_TWOSHOT)
		return ok;
	if (mrw_team_any(team, !ok))
		return false;
	return mrw_units_push(team, 1, channel, a, seq, u) && mrw_units_collect(team->index, team->size, channel, a, seq, u);
}

/* The usual small message: a one-shot all-reduce of aligned, unscaled, whole units. This path has no call in it, so that everything
 * stays in registers; a packet that does not come soon sends the thread to mrw_units_finish(), where waits are bounded.
 * A batch of units keeps its loads and polls in flight at once. */
#define MRW_UNIT_BATCH (MRW_ELEM_BYTES == 1 ? 2u : 4u)
/* CUDA: some 2 ms. Host: a poll may cost a time slice, and nobody looks for faults here. */
#define MRW_QUICK_POLLS (MRW_ON_CUDA ? 4096u : MRW_POLLS_A_LOOK)

struct mrw_batch {
	uint32_t own[MRW_UNIT_BATCH][2];
};

MRW_DEV bool mrw_is_quick(const struct mrw_team *team, const struct mrw_args *a, struct mrw_units u, uint32_t count)
{
	uint32_t last = count > team->index ? (count - 1 - team->index) / team->size * team->size + team->index : 0;
	return u.whole && !mrw_spans(a) && !a->scaled && mrw_is_unit_aligned(a->in) && mrw_is_unit_aligned(a->out) &&
	       ((uint64_t)u.first + last + 1) * MRW_UNIT_BYTES <= a->bytes;
}

MRW_DEV void mrw_quick_load(const struct mrw_args *a, struct mrw_units u, uint32_t base, uint32_t step, uint32_t count,
			    struct mrw_batch *b)
{
	const uint8_t *in = a->in + ((uint64_t)u.first + base) * MRW_UNIT_BYTES;
	MRW_UNROLL
	for (uint32_t k = 0; k < MRW_UNIT_BATCH; k++)
		if (base + k * step < count)
			mrw_load_aligned_unit(in + k * step * MRW_UNIT_BYTES, b->own[k]);
}

MRW_DEV void mrw_quick_send(uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t base, uint32_t step, uint32_t count,
			    const struct mrw_batch *b)
{
	for (uint32_t q = 1; q < a->nranks; q++) {
		uint32_t p = mrw_peer(a, q);
		struct mrw_packet *slots = mrw_packets_at(&a->layout, a->arena[p], 0, channel, mrw_writer_slot(p, a->rank), seq & 1) + base;
		MRW_UNROLL
		for (uint32_t k = 0; k < MRW_UNIT_BATCH; k++)
			if (base + k * step < count)
				mrw_packet_send(&slots[k * step], seq, b->own[k]);
	}
}

/* Adds one batch. False: a packet is late, nothing was stored. */
MRW_DEV bool mrw_quick_own(const uint32_t reduction, uint32_t channel, const struct mrw_args *a, uint32_t seq, struct mrw_units u,
			   uint32_t base, uint32_t step, uint32_t count, const struct mrw_batch *b)
{
	mrw_acc acc[MRW_UNIT_BATCH][MRW_UNIT_ELEMS] = {{0}};
	for (uint32_t p = 0; p < a->nranks; p++) {
		struct mrw_packet v[MRW_UNIT_BATCH] = {{{0, 0}}};
		if (p == a->rank) {
			MRW_UNROLL
			for (uint32_t k = 0; k < MRW_UNIT_BATCH; k++)
				mrw_unit_combine(reduction, acc[k], b->own[k], p == 0);
			continue;
		}
		const struct mrw_packet *slots = mrw_packets_at(&a->layout, a->arena[a->rank], 0, channel, mrw_writer_slot(a->rank, p), seq & 1) + base;
		for (uint32_t polls = 0;; polls++) {
			bool all = true;
			MRW_UNROLL
			for (uint32_t k = 0; k < MRW_UNIT_BATCH; k++)
				if (base + k * step < count)
					v[k] = mrw_load_packet(&slots[k * step]);
			MRW_UNROLL
			for (uint32_t k = 0; k < MRW_UNIT_BATCH; k++)
				if (base + k * step < count)
					all = all && mrw_packet_is(v[k], seq);
			if (all)
				break;
			if (polls == MRW_QUICK_POLLS)
				return false;
			mrw_pause(polls, a->spin_limit);
		}
		MRW_UNROLL
		for (uint32_t k = 0; k < MRW_UNIT_BATCH; k++) {
			uint32_t payload[2] = {(uint32_t)v[k].unit[0], (uint32_t)v[k].unit[1]};
			mrw_unit_combine(reduction, acc[k], payload, p == 0);
		}
	}
	uint8_t *out = a->out + ((uint64_t)u.first + base) * MRW_UNIT_BYTES;
	MRW_UNROLL
	for (uint32_t k = 0; k < MRW_UNIT_BATCH; k++) {
		uint32_t result[2];
		mrw_unit_narrow(acc[k], a->average, a->nranks, result);
		if (base + k * step < count)
			mrw_store_aligned_unit(out + k * step * MRW_UNIT_BYTES, result);
	}
	return true;
}

/* Adds all of this thread's units; b holds the first batch. Returns the unit where it gave up, or one past the end. */
MRW_DEV uint32_t mrw_quick_add(const uint32_t reduction, const struct mrw_team *team, uint32_t channel, const struct mrw_args *a,
			       uint32_t seq, struct mrw_units u, uint32_t count, struct mrw_batch *b)
{
	uint32_t base = team->index, step = team->size;
	for (; base < count; base += MRW_UNIT_BATCH * step) {
		if (base != team->index)
			mrw_quick_load(a, u, base, step, count, b);
		if (!mrw_quick_own(reduction, channel, a, seq, u, base, step, count, b))
			return base;
	}
	return base;
}

MRW_DEV bool mrw_quick_all_reduce(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq,
				  struct mrw_units u, uint32_t count, struct mrw_batch *b)
{
	uint32_t step = team->size, from;
	mrw_quick_send(channel, a, seq, team->index, step, count, b);
	for (uint32_t base = team->index + MRW_UNIT_BATCH * step; base < count; base += MRW_UNIT_BATCH * step) {
		struct mrw_batch more;
		mrw_quick_load(a, u, base, step, count, &more);
		mrw_quick_send(channel, a, seq, base, step, count, &more);
	}
	switch (a->reduction) {
	case MRW_RED_SUM:
		from = mrw_quick_add(MRW_RED_SUM, team, channel, a, seq, u, count, b);
		break;
	case MRW_RED_PROD:
		from = mrw_quick_add(MRW_RED_PROD, team, channel, a, seq, u, count, b);
		break;
	case MRW_RED_MAX:
		from = mrw_quick_add(MRW_RED_MAX, team, channel, a, seq, u, count, b);
		break;
	default:
		from = mrw_quick_add(MRW_RED_MIN, team, channel, a, seq, u, count, b);
	}
	return from >= count || mrw_units_finish(team->index, team->size, channel, a, seq, from);
}

MRW_DEV void mrw_reduce_packets(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_op op;
	struct mrw_units u = mrw_units_of(a, channel);
	struct mrw_batch b;
	uint32_t count = mrw_units_count(mrw_owned(a, true, 0), u);
	bool quick = mrw_is_quick(team, a, u, count);
	memset(&b, 0, sizeof b);
	if (quick) /* the input is on its way while the begin looks at the arena */
		mrw_quick_load(a, u, team->index, team->size, count, &b);
	bool ok = mrw_op_begin(team, channel, a, &op);
	if (mrw_spans(a)) {
		ok = mrw_units_across(team, channel, a, op.seq, ok);
	} else if (ok && quick) {
		ok = mrw_quick_all_reduce(team, channel, a, op.seq, u, count, &b);
	} else if (ok) {
		mrw_units_send(team->index, team->size, channel, a, op.seq);
		ok = mrw_units_finish(team->index, team->size, channel, a, op.seq, team->index);
	}
	mrw_op_end(team, channel, a, &op, ok);
}

/* One rank: nothing to wait for. out = in, scaled if asked, NaNs canonical. */
MRW_DEV void mrw_reduce_local(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	uint64_t units = a->bytes / MRW_UNIT_BYTES + (a->bytes % MRW_UNIT_BYTES != 0);
	struct mrw_span block = {0, a->bytes};
	mrw_acc scalar = mrw_scalar(a);
	for (uint64_t i = (uint64_t)channel * team->size + team->index; i < units; i += (uint64_t)a->call.channels * team->size) {
		uint32_t payload[2], result[2] = {0, 0};
		mrw_own_unit(a, block, i, scalar, payload);
		MRW_UNROLL
		for (uint32_t e = 0; e < MRW_UNIT_ELEMS; e++)
			mrw_narrow(result, e, mrw_widen(payload, e));
		mrw_unit_store(a->out, i, a->bytes, result);
	}
}

#endif
