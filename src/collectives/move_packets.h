/* move_packets.h - all-gather, broadcast and barrier of small messages. Moves bytes: compiled once. */
#ifndef MRW_MOVE_PACKETS_H
#define MRW_MOVE_PACKETS_H

#include "peer.h"
#include "schedule.h"
#include "device/packet.h"

/* This rank's units [first, first + count) to every peer, and to its own output unless they are there already. */
MRW_DEV void mrw_units_spread(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint8_t *out,
			    uint32_t first, uint32_t count)
{
	for (uint32_t i = team->index; i < count; i += team->size) {
		uint32_t payload[2];
		mrw_unit_load(a->in, (uint64_t)first + i, a->bytes, payload);
		for (uint32_t q = 1; q < a->nranks; q++) {
			uint32_t p = mrw_peer(a, q);
			mrw_packet_send(mrw_packets_to(a, 0, channel, p, seq & 1) + i, seq, payload);
		}
		if (out != a->in)
			mrw_unit_store(out, (uint64_t)first + i, a->bytes, payload);
	}
}

MRW_DEV bool mrw_unit_receive(uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t p, uint8_t *out, uint32_t first,
			      uint32_t i)
{
	uint32_t payload[2];
	struct mrw_where w = {seq, channel, p, MRW_WAIT_PACKET, 0, 0};
	if (!mrw_wait_packet(a, mrw_packets_from(a, 0, channel, p, seq & 1) + i, w, payload))
		return false;
	mrw_unit_store(out, (uint64_t)first + i, a->bytes, payload);
	return true;
}

/* Sends this rank's units, if it is one that sends. */
MRW_DEV void mrw_units_offer(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t first,
			     uint32_t count)
{
	if (a->call.func == MRW_FUNC_ALL_GATHER)
		mrw_units_spread(team, channel, a, seq, a->out + a->rank * a->bytes, first, count);
	else if (a->rank == a->call.root)
		mrw_units_spread(team, channel, a, seq, a->out, first, count);
}

/* The same for other hosts: what the whole team has put into the outbox goes out. ok: of this thread; ends in a vote. */
MRW_DEV_CALL bool mrw_units_post(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t count, bool ok)
{
	if (mrw_team_any(team, !ok))
		return false;
	if (count == 0 || (a->call.func == MRW_FUNC_BROADCAST && a->rank != a->call.root))
		return true;
	for (uint32_t p = mrw_team_high(team); ok && p < a->nranks; p += team->size)
		if (mrw_is_far(a, p))
			ok = mrw_packets_push(a, 0, channel, p, seq, count);
	return ok;
}

MRW_DEV bool mrw_units_take(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t first,
			    uint32_t count)
{
	if (a->call.func == MRW_FUNC_ALL_GATHER) {
		for (uint32_t j = team->index; j < count * (a->nranks - 1); j += team->size) {
			uint32_t p = mrw_peer(a, 1 + j / count);
			if (!mrw_unit_receive(channel, a, seq, p, a->out + p * a->bytes, first, j % count))
				return false;
		}
		return true;
	}
	for (uint32_t i = team->index; i < count && a->rank != a->call.root; i += team->size)
		if (!mrw_unit_receive(channel, a, seq, a->call.root, a->out, first, i))
			return false;
	return true;
}

/* A barrier is an operation without data: opening lines do the work. */
MRW_DEV void mrw_move_packets(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_op op;
	bool ok = mrw_op_begin(team, channel, a, &op);
	if (a->call.func != MRW_FUNC_BARRIER) {
		uint32_t first = channel * a->units, count = (uint32_t)mrw_units_in(a->bytes, first, a->units);
		if (mrw_spans(a))
			ok = mrw_packets_settled(team, channel, a, op.seq, ok);
		if (ok)
			mrw_units_offer(team, channel, a, op.seq, first, count);
		if (mrw_spans(a))
			ok = mrw_units_post(team, channel, a, op.seq, count, ok);
		ok = ok && mrw_units_take(team, channel, a, op.seq, first, count);
	}
	mrw_op_end(team, channel, a, &op, ok);
}

#endif
