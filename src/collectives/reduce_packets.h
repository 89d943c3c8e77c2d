/* reduce_packets.h - all-reduce and reduce-scatter of small messages, without a fence.
 *
 * One-shot: every rank sends its whole block to every owner, that is to everybody (all_reduce) or block o to rank o
 * (reduce_scatter); an owner adds what arrives in rank order. Two-shot: rank o owns share o, adds, and sends the result packets
 * to all. Compiled once per type. */
#ifndef MRW_REDUCE_PACKETS_H
#define MRW_REDUCE_PACKETS_H

#include "rounds.h"
#include "schedule.h"
#include "device/packet.h"
#include "device/reduce.h"

#define MRW_UNIT_ELEMS (MRW_UNIT_BYTES / MRW_ELEM_BYTES)

/* The blocks of this call and this channel's range of units in them. */
struct mrw_units {
	uint64_t first, per;
	bool whole;  /* every owner gets the same block: the whole buffer */
};

MRW_DEV struct mrw_span mrw_owned(const struct mrw_args *a, bool whole, uint32_t owner)
{
	struct mrw_span s = {0, a->bytes};
	return whole ? s : mrw_block(a->call.func, a->bytes, a->nranks, owner);
}

/* Unit index of owner's block of this rank's input, scaled for premulsum. */
MRW_DEV void mrw_own_unit(const struct mrw_args *a, struct mrw_span block, uint64_t index, mrw_acc scalar, uint32_t payload[2])
{
	mrw_unit_load(a->in + block.offset, index, block.bytes, payload);
	if (a->scaled)
		mrw_scale(payload, 2, scalar);
}

/* First exchange: units to their owners. */
MRW_DEV void mrw_units_scatter(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq,
			       struct mrw_units u, mrw_acc scalar)
{
	uint32_t payload[2];
	if (u.whole) {
		struct mrw_span block = mrw_owned(a, true, 0);
		uint64_t count = mrw_units_in(block.bytes, u.first, u.per);
		for (uint64_t i = team->index; i < count; i += team->size) {
			mrw_own_unit(a, block, u.first + i, scalar, payload);
			for (uint32_t q = 1; q < a->nranks; q++) {
				uint32_t p = mrw_peer(a, q);
				mrw_packet_send(mrw_packets_at(&a->layout, a->arena[p], 0, channel, p, a->rank, seq & 1) + i, seq,
						payload);
			}
		}
		return;
	}
	for (uint64_t j = team->index; j < u.per * (a->nranks - 1); j += team->size) {
		uint32_t p = mrw_peer(a, 1 + (uint32_t)(j / u.per));
		uint64_t i = j % u.per;
		struct mrw_span block = mrw_owned(a, false, p);
		if (i >= mrw_units_in(block.bytes, u.first, u.per))
			continue;
		mrw_own_unit(a, block, u.first + i, scalar, payload);
		mrw_packet_send(mrw_packets_at(&a->layout, a->arena[p], 0, channel, p, a->rank, seq & 1) + i, seq, payload);
	}
}

/* Adds unit i of my block over all ranks in rank order. */
MRW_DEV bool mrw_unit_reduce(const uint32_t reduction, uint32_t channel, const struct mrw_args *a, uint32_t seq,
			     struct mrw_units u, struct mrw_span block, uint64_t i, mrw_acc scalar, uint32_t result[2])
{
	mrw_acc acc[MRW_UNIT_ELEMS] = {0};
	uint32_t own[2];
	mrw_own_unit(a, block, u.first + i, scalar, own);
	for (uint32_t p = 0; p < a->nranks; p++) {
		uint32_t payload[2] = {own[0], own[1]};
		if (p != a->rank) {
			struct mrw_where w = {seq, channel, p, MRW_WAIT_PACKET, 0, 0};
			if (!mrw_wait_packet(a, mrw_packets_at(&a->layout, a->arena[a->rank], 0, channel, a->rank, p, seq & 1) + i,
					     w, payload))
				return false;
		}
		MRW_UNROLL
		for (uint32_t e = 0; e < MRW_UNIT_ELEMS; e++) {
			mrw_acc x = mrw_widen(payload, e);
			acc[e] = p == 0 ? x : mrw_combine(reduction, acc[e], x);
		}
	}
	result[0] = result[1] = 0;
	MRW_UNROLL
	for (uint32_t e = 0; e < MRW_UNIT_ELEMS; e++)
		mrw_narrow(result, e, a->average ? mrw_divide(acc[e], a->nranks) : acc[e]);
	return true;
}

/* The owner's part: add, keep, and in a two-shot send the result on. */
MRW_DEV bool mrw_units_own(const uint32_t reduction, const struct mrw_team *team, uint32_t channel, const struct mrw_args *a,
			   uint32_t seq, struct mrw_units u, mrw_acc scalar)
{
	struct mrw_span block = mrw_owned(a, u.whole, a->rank);
	uint8_t *out = a->out + (mrw_has_shares(a->call.func) ? block.offset : 0);
	uint64_t count = mrw_units_in(block.bytes, u.first, u.per);
	bool second = a->call.algo == MRW_ALGO_TWOSHOT;
	for (uint64_t i = team->index; i < count; i += team->size) {
		uint32_t result[2];
		if (!mrw_unit_reduce(reduction, channel, a, seq, u, block, i, scalar, result))
			return false;
		for (uint32_t q = 1; second && q < a->nranks; q++) {
			uint32_t p = mrw_peer(a, q);
			mrw_packet_send(mrw_packets_at(&a->layout, a->arena[p], 1, channel, p, a->rank, seq & 1) + i, seq, result);
		}
		mrw_unit_store(out, u.first + i, block.bytes, result);
	}
	return true;
}

/* Second exchange: results of the others. Thread j takes the units that it sent: in place, it alone touched them. */
MRW_DEV bool mrw_units_collect(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq,
			       struct mrw_units u)
{
	for (uint64_t j = team->index; j < u.per * (a->nranks - 1); j += team->size) {
		uint32_t p = mrw_peer(a, 1 + (uint32_t)(j / u.per));
		uint64_t i = j % u.per;
		struct mrw_span block = mrw_owned(a, false, p);
		if (i >= mrw_units_in(block.bytes, u.first, u.per))
			continue;
		uint32_t payload[2];
		struct mrw_where w = {seq, channel, p, MRW_WAIT_PACKET, 1, 0};
		if (!mrw_wait_packet(a, mrw_packets_at(&a->layout, a->arena[a->rank], 1, channel, a->rank, p, seq & 1) + i, w,
				     payload))
			return false;
		mrw_unit_store(a->out + block.offset, u.first + i, block.bytes, payload);
	}
	return true;
}

MRW_DEV void mrw_reduce_packets(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_op op;
	bool ok = mrw_op_begin(team, channel, a, &op);
	if (ok) {
		struct mrw_units u;
		u.whole = a->call.func == MRW_FUNC_ALL_REDUCE && a->call.algo == MRW_ALGO_ONESHOT;
		u.per = mrw_units_per_channel(mrw_owned(a, u.whole, 0).bytes, a->call.channels);
		u.first = channel * u.per;
		mrw_acc scalar = mrw_scalar(a);
		mrw_units_scatter(team, channel, a, op.seq, u, scalar);
		switch (a->reduction) {
		case MRW_RED_SUM:
			ok = mrw_units_own(MRW_RED_SUM, team, channel, a, op.seq, u, scalar);
			break;
		case MRW_RED_PROD:
			ok = mrw_units_own(MRW_RED_PROD, team, channel, a, op.seq, u, scalar);
			break;
		case MRW_RED_MAX:
			ok = mrw_units_own(MRW_RED_MAX, team, channel, a, op.seq, u, scalar);
			break;
		default:
			ok = mrw_units_own(MRW_RED_MIN, team, channel, a, op.seq, u, scalar);
		}
		if (ok && a->call.algo == MRW_ALGO_TWOSHOT)
			ok = mrw_units_collect(team, channel, a, op.seq, u);
	}
	mrw_op_end(team, channel, a, &op, ok);
}

/* One rank: nothing to wait for. out = in, scaled if asked. */
MRW_DEV void mrw_reduce_local(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	uint64_t units = a->bytes / MRW_UNIT_BYTES + (a->bytes % MRW_UNIT_BYTES != 0);
	struct mrw_span block = {0, a->bytes};
	mrw_acc scalar = mrw_scalar(a);
	for (uint64_t i = (uint64_t)channel * team->size + team->index; i < units; i += (uint64_t)a->call.channels * team->size) {
		uint32_t payload[2];
		mrw_own_unit(a, block, i, scalar, payload);
		mrw_unit_store(a->out, i, a->bytes, payload);
	}
}

#endif
