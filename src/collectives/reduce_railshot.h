/* reduce_railshot.h - all-reduce, reduce and reduce-scatter of small messages along rails, as packets: every rank adds over its host, in rank
 * order, the block that it exchanges along its rail (all_reduce: everything; reduce_scatter: one for each host, host h's units from
 * h * units on in a near slot), rounds to the type, and adds the hosts' sums in the order of hosts. Of a reduce the ranks of the root's rail add
 * over their hosts, everything, and the root adds the hosts' sums. Compiled once per type. */
#ifndef MRW_REDUCE_RAILSHOT_H
#define MRW_REDUCE_RAILSHOT_H

#include "move_railshot.h"
#include "reduce_packets.h"

/* The block that (host, local) owns: where they are shares, all of it, whoever adds. */
MRW_DEV struct mrw_span mrw_railshot_block(const struct mrw_args *a, uint32_t host, uint32_t local)
{
	struct mrw_span s = {0, a->bytes};
	if (!mrw_has_shares(a->call.func))
		s.offset = mrw_rail_rank(a, host, local) * a->bytes;
	return s;
}

/* Rank p of this host adds over it. */
MRW_DEV bool mrw_railshot_adds(const struct mrw_args *a, uint32_t p)
{
	return a->call.func != MRW_FUNC_REDUCE || p == mrw_rail_relay(a);
}

/* Units of this rank's input to those of its host who add them. */
MRW_DEV void mrw_railshot_send(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq, struct mrw_range r)
{
	uint32_t blocks = mrw_has_shares(a->call.func) ? 1 : a->far->hosts;
	mrw_acc scalar = mrw_scalar(a);
	for (uint32_t q = 1; q < a->far->per_host; q++) {
		uint32_t local = mrw_rail_local(a, q), p = mrw_rail_rank(a, a->far->host, local);
		struct mrw_packet *slot = mrw_packets_to(a, 0, channel, p, seq & 1);
		for (uint32_t h = 0; h < blocks && mrw_railshot_adds(a, p); h++)
			for (uint32_t i = team->index; i < r.count; i += team->size) {
				uint32_t payload[2];
				mrw_own_unit(a, mrw_railshot_block(a, h, local), (uint64_t)r.first + i, scalar, payload);
				mrw_packet_send(slot + h * a->units + i, seq, payload);
			}
	}
}

/* The sum over this host, rounded, of unit i of the block that my rail has for host; at: its place in near slots. */
MRW_DEV bool mrw_railshot_host_sum(const uint32_t reduction, uint32_t channel, const struct mrw_args *a, uint32_t seq, struct mrw_range r,
				   uint32_t host, uint32_t i, uint32_t at, uint32_t sum[2])
{
	mrw_acc acc[MRW_UNIT_ELEMS] = {0}, scalar = mrw_scalar(a);
	for (uint32_t l = 0; l < a->far->per_host; l++) {
		uint32_t payload[2];
		if (l == a->far->local)
			mrw_own_unit(a, mrw_railshot_block(a, host, l), (uint64_t)r.first + i, scalar, payload);
		else if (!mrw_railshot_take(channel, a, seq, mrw_rail_rank(a, a->far->host, l), at, payload))
			return false;
		mrw_unit_combine(reduction, acc, payload, l == 0);
	}
	mrw_unit_narrow(acc, false, 1, sum);
	return true;
}

/* Unit i of this host's sum of what my rail has for host: to who adds it to the others', or, for this rank, to the output, where it waits. */
MRW_DEV void mrw_railshot_hand_on(uint32_t channel, const struct mrw_args *a, uint32_t seq, struct mrw_range r, uint32_t host, uint32_t i,
				  const uint32_t sum[2])
{
	bool sends = !mrw_owns(a, a->rank), stays = mrw_has_shares(a->call.func) ? !sends : host == a->far->host;
	if (a->call.func == MRW_FUNC_ALL_REDUCE)
		mrw_railshot_put(channel, a, seq, i, sum);
	else if (sends)
		mrw_packet_send(mrw_packets_to(a, 0, channel, a->call.root, seq & 1) + i, seq, sum);
	else if (!stays)
		mrw_packet_send(mrw_packets_to(a, 0, channel, mrw_rail_rank(a, host, a->far->local), seq & 1) + i, seq, sum);
	if (stays)
		mrw_unit_store(a->out, (uint64_t)r.first + i, a->bytes, sum);
}

MRW_DEV bool mrw_railshot_add_host(const uint32_t reduction, const struct mrw_team *team, uint32_t channel, const struct mrw_args *a,
				   uint32_t seq, struct mrw_range r)
{
	for (uint32_t h = 0; h < (mrw_has_shares(a->call.func) ? 1 : a->far->hosts); h++)
		for (uint32_t i = team->index; i < r.count; i += team->size) {
			uint32_t sum[2];
			if (!mrw_railshot_host_sum(reduction, channel, a, seq, r, h, i, h * a->units + i, sum))
				return false;
			mrw_railshot_hand_on(channel, a, seq, r, h, i, sum);
		}
	return true;
}

/* The hosts' sums. Each thread finishes the units that it began. */
MRW_DEV bool mrw_railshot_add_all(const uint32_t reduction, const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq,
				  struct mrw_range r)
{
	for (uint32_t i = team->index; i < r.count; i += team->size) {
		mrw_acc acc[MRW_UNIT_ELEMS] = {0};
		uint32_t payload[2];
		for (uint32_t h = 0; h < a->far->hosts; h++) {
			if (h == a->far->host)
				mrw_unit_load(a->out, (uint64_t)r.first + i, a->bytes, payload);
			else if (!mrw_railshot_take(channel, a, seq, mrw_rail_rank(a, h, a->far->local), i, payload))
				return false;
			mrw_unit_combine(reduction, acc, payload, h == 0);
		}
		mrw_unit_narrow(acc, a->average != 0, a->nranks, payload);
		mrw_unit_store(a->out, (uint64_t)r.first + i, a->bytes, payload);
	}
	return true;
}

/* The operation is a switch outside the loops. */
MRW_DEV_CALL bool mrw_railshot_add(bool all, const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq,
				   struct mrw_range r)
{
	switch (a->reduction) {
	case MRW_RED_SUM:
		return all ? mrw_railshot_add_all(MRW_RED_SUM, team, channel, a, seq, r) : mrw_railshot_add_host(MRW_RED_SUM, team, channel, a, seq, r);
	case MRW_RED_PROD:
		return all ? mrw_railshot_add_all(MRW_RED_PROD, team, channel, a, seq, r) : mrw_railshot_add_host(MRW_RED_PROD, team, channel, a, seq, r);
	case MRW_RED_MAX:
		return all ? mrw_railshot_add_all(MRW_RED_MAX, team, channel, a, seq, r) : mrw_railshot_add_host(MRW_RED_MAX, team, channel, a, seq, r);
	default:
		return all ? mrw_railshot_add_all(MRW_RED_MIN, team, channel, a, seq, r) : mrw_railshot_add_host(MRW_RED_MIN, team, channel, a, seq, r);
	}
}

/* The outbox, to those it is for: by thread index of size, behind a sync. */
MRW_DEV bool mrw_railshot_post_sums(uint32_t index, uint32_t size, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t count)
{
	if (mrw_owns(a, a->rank))
		return a->call.func == MRW_FUNC_REDUCE || mrw_railshot_post(index, size, channel, a, seq, count);
	return index > 0 || count == 0 || !mrw_railshot_adds(a, a->rank) || mrw_packets_push(a, 0, channel, a->call.root, seq, count);
}

MRW_DEV void mrw_reduce_railshot(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_op op;
	struct mrw_range r;
	bool ok = mrw_op_begin(team, channel, a, &op);
	ok = mrw_packets_settled(team, channel, a, op.seq, ok);
	r.first = channel * a->units;
	r.count = (uint32_t)mrw_units_in(a->bytes, r.first, a->units);
	if (ok) {
		mrw_railshot_send(team, channel, a, op.seq, r);
		ok = !mrw_railshot_adds(a, a->rank) || mrw_railshot_add(false, team, channel, a, op.seq, r);
		if (!mrw_team_any(team, !ok)) /* the outbox is full */
			ok = mrw_railshot_post_sums(mrw_team_high(team), team->size, channel, a, op.seq, r.count) &&
			     (!mrw_owns(a, a->rank) || mrw_railshot_add(true, team, channel, a, op.seq, r));
		else
			ok = false;
	}
	mrw_op_end(team, channel, a, &op, ok);
}

#endif
