/* move_railshot.h - all-gather, broadcast and barrier of small messages along rails, as packets. Moves bytes: compiled once.
 *
 * all_gather: along the rail first, so that every byte crosses once a rail; a near slot holds units of one block for each host, host h's from
 * h * units on. broadcast: the root's units to its host and along its rail, then within the other hosts. barrier: a packet within the
 * host, then one along the rail, which says that a whole host is there. */
#ifndef MRW_MOVE_RAILSHOT_H
#define MRW_MOVE_RAILSHOT_H

#include "rail.h"
#include "device/packet.h"

/* count packets to each host along the rail, by thread index of size; what the team put into the outbox lies behind a sync. */
MRW_DEV_CALL bool mrw_railshot_post(uint32_t index, uint32_t size, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t count)
{
	bool ok = true;
	for (uint32_t q = 1 + index; ok && count > 0 && q < a->far->hosts; q += size)
		ok = mrw_packets_push(a, 0, channel, mrw_rail_rank(a, mrw_rail_host(a, q), a->far->local), seq, count);
	return ok;
}

/* A unit to place at of this rank's slot at every near peer. */
MRW_DEV void mrw_railshot_tell(uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t at, const uint32_t payload[2])
{
	for (uint32_t q = 1; q < a->far->per_host; q++) {
		uint32_t p = mrw_rail_rank(a, a->far->host, mrw_rail_local(a, q));
		mrw_packet_send(mrw_packets_to(a, 0, channel, p, seq & 1) + at, seq, payload);
	}
}

/* Unit i to every other host's place in the outbox. */
MRW_DEV void mrw_railshot_put(uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t i, const uint32_t payload[2])
{
	for (uint32_t q = 1; q < a->far->hosts; q++)
		mrw_packet_send(mrw_packets_to(a, 0, channel, mrw_rail_rank(a, mrw_rail_host(a, q), a->far->local), seq & 1) + i, seq, payload);
}

/* Waits for unit i of peer p at place at of its slot. */
MRW_DEV bool mrw_railshot_take(uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t p, uint32_t at, uint32_t payload[2])
{
	struct mrw_where w = {seq, channel, p, MRW_WAIT_PACKET, 0, 0};
	return mrw_wait_packet(a, mrw_packets_from(a, 0, channel, p, seq & 1) + at, w, payload);
}

/* This channel's units of every block. */
struct mrw_range {
	uint32_t first, count;
};

/* all_gather: the same blocks of the other hosts from the rail, passed on within this one. */
MRW_DEV bool mrw_railshot_relay(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq, struct mrw_range r)
{
	for (uint32_t q = 1; q < a->far->hosts; q++) {
		uint32_t h = mrw_rail_host(a, q), p = mrw_rail_rank(a, h, a->far->local);
		for (uint32_t i = team->index; i < r.count; i += team->size) {
			uint32_t payload[2];
			if (!mrw_railshot_take(channel, a, seq, p, i, payload))
				return false;
			mrw_railshot_tell(channel, a, seq, h * a->units + i, payload);
			mrw_unit_store(a->out + p * a->bytes, (uint64_t)r.first + i, a->bytes, payload);
		}
	}
	return true;
}

/* all_gather: all blocks of the other rails. */
MRW_DEV bool mrw_railshot_gather(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq, struct mrw_range r)
{
	for (uint32_t q = 1; q < a->far->per_host; q++) {
		uint32_t local = mrw_rail_local(a, q), p = mrw_rail_rank(a, a->far->host, local);
		for (uint32_t h = 0; h < a->far->hosts; h++)
			for (uint32_t i = team->index; i < r.count; i += team->size) {
				uint32_t payload[2];
				if (!mrw_railshot_take(channel, a, seq, p, h * a->units + i, payload))
					return false;
				mrw_unit_store(a->out + mrw_rail_rank(a, h, local) * a->bytes, (uint64_t)r.first + i, a->bytes, payload);
			}
	}
	return true;
}

/* all_gather: my block to my host and along the rail. */
MRW_DEV bool mrw_railshot_offer(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq, struct mrw_range r)
{
	uint8_t *out = a->out + a->rank * a->bytes;
	for (uint32_t i = team->index; i < r.count; i += team->size) {
		uint32_t payload[2];
		mrw_unit_load(a->in, (uint64_t)r.first + i, a->bytes, payload);
		mrw_railshot_put(channel, a, seq, i, payload);
		mrw_railshot_tell(channel, a, seq, a->far->host * a->units + i, payload);
		if (out != a->in)
			mrw_unit_store(out, (uint64_t)r.first + i, a->bytes, payload);
	}
	mrw_team_sync(team);
	return mrw_railshot_post(mrw_team_high(team), team->size, channel, a, seq, r.count);
}

MRW_DEV_CALL bool mrw_railshot_all_gather(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq, struct mrw_range r)
{
	return mrw_railshot_offer(team, channel, a, seq, r) && mrw_railshot_relay(team, channel, a, seq, r) &&
	       mrw_railshot_gather(team, channel, a, seq, r);
}

/* from: who sends to this rank; relay: who has the units first on this host, and passes them on. */
MRW_DEV_CALL bool mrw_railshot_broadcast(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq, struct mrw_range r)
{
	bool root = mrw_rail_is_root(a);
	uint32_t relay = mrw_rail_relay(a), from = relay == a->rank ? a->call.root : relay;
	for (uint32_t i = team->index; i < r.count; i += team->size) {
		uint32_t payload[2];
		if (root)
			mrw_unit_load(a->in, (uint64_t)r.first + i, a->bytes, payload);
		else if (!mrw_railshot_take(channel, a, seq, from, i, payload))
			return false;
		if (root)
			mrw_railshot_put(channel, a, seq, i, payload);
		if (relay == a->rank)
			mrw_railshot_tell(channel, a, seq, i, payload);
		if (a->out != a->in || !root)
			mrw_unit_store(a->out, (uint64_t)r.first + i, a->bytes, payload);
	}
	if (!root)
		return true;
	mrw_team_sync(team);
	return mrw_railshot_post(mrw_team_high(team), team->size, channel, a, seq, r.count);
}

/* Both packets by one thread. */
MRW_DEV_CALL bool mrw_railshot_barrier(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq)
{
	uint32_t payload[2] = {0, 0}, got[2];
	if (team->index != 0)
		return true;
	mrw_railshot_tell(channel, a, seq, 0, payload);
	for (uint32_t q = 1; q < a->far->per_host; q++)
		if (!mrw_railshot_take(channel, a, seq, mrw_rail_rank(a, a->far->host, mrw_rail_local(a, q)), 0, got))
			return false;
	mrw_railshot_put(channel, a, seq, 0, payload);
	if (!mrw_railshot_post(0, 1, channel, a, seq, 1))
		return false;
	for (uint32_t q = 1; q < a->far->hosts; q++)
		if (!mrw_railshot_take(channel, a, seq, mrw_rail_rank(a, mrw_rail_host(a, q), a->far->local), 0, got))
			return false;
	return true;
}

MRW_DEV void mrw_move_railshot(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_op op;
	struct mrw_range r;
	bool ok = mrw_op_begin(team, channel, a, &op);
	ok = mrw_packets_settled(team, channel, a, op.seq, ok);
	r.first = channel * a->units;
	r.count = (uint32_t)mrw_units_in(a->bytes, r.first, a->units);
	if (ok && a->call.func == MRW_FUNC_BARRIER)
		ok = mrw_railshot_barrier(team, channel, a, op.seq);
	else if (ok && a->call.func == MRW_FUNC_ALL_GATHER)
		ok = mrw_railshot_all_gather(team, channel, a, op.seq, r);
	else if (ok)
		ok = mrw_railshot_broadcast(team, channel, a, op.seq, r);
	mrw_op_end(team, channel, a, &op, ok);
}

#endif
