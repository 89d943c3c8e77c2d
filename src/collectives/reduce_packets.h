/* reduce_packets.h - all-reduce, reduce and reduce-scatter of small messages, without a fence.
 *
 * One-shot: every rank sends its whole block to every owner, that is to everybody (all_reduce), to the root (reduce) or block o to rank o
 * (reduce_scatter, in blocks of one or of any size); an owner adds what arrives in rank order. Two-shot: rank o owns share o, adds, and sends the result packets
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
	u.whole = mrw_has_shares(a->call.func) && a->call.algo == MRW_ALGO_ONESHOT;
	return u;
}

/* Does this rank own a block whose sum it takes? Not the others than the root of a reduce, who only send. */
MRW_DEV bool mrw_owns(const struct mrw_args *a, uint32_t rank)
{
	return a->call.func != MRW_FUNC_REDUCE || rank == a->call.root;
}

MRW_DEV struct mrw_span mrw_owned(const struct mrw_args *a, bool whole, uint32_t owner)
{
	struct mrw_span s = {0, a->bytes};
	return whole ? s : mrw_block_at(a, owner);
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
				if (mrw_owns(a, p))
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

/* The owner's part, from this thread's unit from on. */
MRW_DEV bool mrw_units_own_any(uint32_t size, uint32_t channel, const struct mrw_args *a, uint32_t seq, struct mrw_units u, uint32_t from)
{
	if (!mrw_owns(a, a->rank))
		return true;
	return MRW_BY_REDUCTION(a->reduction, mrw_units_own, size, channel, a, seq, u, from);
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
		if (mrw_is_far(a, p) && count > 0 && (format == 1 || mrw_owns(a, p)))
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

MRW_DEV void mrw_reduce_packets(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_op op;
	bool ok = mrw_op_begin(team, channel, a, &op);
	if (mrw_spans(a)) {
		ok = mrw_units_across(team, channel, a, op.seq, ok);
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
