/* reduce_railshot.h - all-reduce, reduce and reduce-scatter of small messages along rails, as packets: every rank adds over its host, in rank
 * order, the block that it exchanges along its rail (all_reduce: everything; reduce_scatter, in blocks of one or of any size: one for each host,
 * host h's units from h * units on in a near slot), rounds to the type, and adds the hosts' sums in the order of hosts. Of a reduce the ranks of
 * the root's rail add over their hosts, everything, and the root adds the hosts' sums. Compiled once per type. */
#ifndef MRW_REDUCE_RAILSHOT_H
#define MRW_REDUCE_RAILSHOT_H

#include "move_railshot.h"
#include "reduce_packets.h"

/* The block that (host, local) owns: where they are shares, all of it, whoever adds. */
MRW_DEV struct mrw_span mrw_railshot_block(const struct mrw_args *a, uint32_t host, uint32_t local)
{
	struct mrw_span s = {0, a->bytes};
	return mrw_has_shares(a->call.func) ? s : mrw_block_at(a, mrw_rail_rank(a, host, local));
}

/* Its units in the range of a channel, which begins with unit first. */
MRW_DEV uint32_t mrw_railshot_units(const struct mrw_args *a, struct mrw_span block, uint32_t first)
{
	return (uint32_t)mrw_units_in(block.bytes, first, a->units);
}

/* Rank p of this host adds over it. */
MRW_DEV bool mrw_railshot_adds(const struct mrw_args *a, uint32_t p)
{
	return a->call.func != MRW_FUNC_REDUCE || p == mrw_rail_relay(a);
}

/* Units of this rank's input to those of its host who add them. */
MRW_DEV void mrw_railshot_send(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t first)
{
	uint32_t blocks = mrw_has_shares(a->call.func) ? 1 : a->far->hosts;
	mrw_acc scalar = mrw_scalar(a);
	for (uint32_t q = 1; q < a->far->per_host; q++) {
		uint32_t local = mrw_rail_local(a, q), p = mrw_rail_rank(a, a->far->host, local);
		struct mrw_packet *slot = mrw_packets_to(a, 0, channel, p, seq & 1);
		bool adds = mrw_railshot_adds(a, p);
		for (uint32_t h = 0; adds && h < blocks; h++) {
			struct mrw_span block = mrw_railshot_block(a, h, local);
			uint32_t count = mrw_railshot_units(a, block, first);
			for (uint32_t i = team->index; i < count; i += team->size) {
				uint32_t payload[2];
				mrw_own_unit(a, block, (uint64_t)first + i, scalar, payload);
				mrw_packet_send(slot + h * a->units + i, seq, payload);
			}
		}
	}
}

/* The sum over this host, rounded, of unit i of the block that my rail has for host; at: its place in near slots. */
MRW_DEV bool mrw_railshot_host_sum(const uint32_t reduction, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t first,
				   uint32_t host, uint32_t i, uint32_t at, uint32_t sum[2])
{
	mrw_acc acc[MRW_UNIT_ELEMS] = {0}, scalar = mrw_scalar(a);
	for (uint32_t l = 0; l < a->far->per_host; l++) {
		uint32_t payload[2];
		if (l == a->far->local)
			mrw_own_unit(a, mrw_railshot_block(a, host, l), (uint64_t)first + i, scalar, payload);
		else if (!mrw_railshot_take(channel, a, seq, mrw_rail_rank(a, a->far->host, l), at, payload))
			return false;
		mrw_unit_combine(reduction, acc, payload, l == 0);
	}
	mrw_unit_narrow(acc, false, 1, sum);
	return true;
}

/* Unit i of this host's sum of what my rail has for host: to who adds it to the others', or, for this rank, to the output, where it waits. */
MRW_DEV void mrw_railshot_hand_on(uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t first, uint32_t host, uint32_t i,
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
		mrw_unit_store(a->out, (uint64_t)first + i, mrw_railshot_block(a, host, a->far->local).bytes, sum);
}

MRW_DEV bool mrw_railshot_add_host(const uint32_t reduction, const struct mrw_team *team, uint32_t channel, const struct mrw_args *a,
				   uint32_t seq, uint32_t first)
{
	uint32_t blocks = mrw_has_shares(a->call.func) ? 1 : a->far->hosts;
	for (uint32_t h = 0; h < blocks; h++) {
		uint32_t count = mrw_railshot_units(a, mrw_railshot_block(a, h, a->far->local), first);
		for (uint32_t i = team->index; i < count; i += team->size) {
			uint32_t sum[2];
			if (!mrw_railshot_host_sum(reduction, channel, a, seq, first, h, i, h * a->units + i, sum))
				return false;
			mrw_railshot_hand_on(channel, a, seq, first, h, i, sum);
		}
	}
	return true;
}

/* The hosts' sums. Each thread finishes the units that it began. */
MRW_DEV bool mrw_railshot_add_all(const uint32_t reduction, const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq,
				  uint32_t first)
{
	struct mrw_span mine = mrw_railshot_block(a, a->far->host, a->far->local);
	uint32_t count = mrw_railshot_units(a, mine, first);
	for (uint32_t i = team->index; i < count; i += team->size) {
		mrw_acc acc[MRW_UNIT_ELEMS] = {0};
		uint32_t payload[2];
		for (uint32_t h = 0; h < a->far->hosts; h++) {
			if (h == a->far->host)
				mrw_unit_load(a->out, (uint64_t)first + i, mine.bytes, payload);
			else if (!mrw_railshot_take(channel, a, seq, mrw_rail_rank(a, h, a->far->local), i, payload))
				return false;
			mrw_unit_combine(reduction, acc, payload, h == 0);
		}
		mrw_unit_narrow(acc, a->average != 0, a->nranks, payload);
		mrw_unit_store(a->out, (uint64_t)first + i, mine.bytes, payload);
	}
	return true;
}

/* Those of all ranks, or of the host. */
MRW_DEV_CALL bool mrw_railshot_add(bool all, const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq,
				   uint32_t first)
{
	if (all)
		return MRW_BY_REDUCTION(a->reduction, mrw_railshot_add_all, team, channel, a, seq, first);
	return MRW_BY_REDUCTION(a->reduction, mrw_railshot_add_host, team, channel, a, seq, first);
}

/* The outbox, to those it is for: by thread index of size, behind a sync. */
MRW_DEV bool mrw_railshot_post_sums(uint32_t index, uint32_t size, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t first)
{
	bool ok = true;
	for (uint32_t q = 1 + index; ok && q < a->far->hosts; q += size) {
		uint32_t h = mrw_rail_host(a, q), p = mrw_rail_rank(a, h, a->far->local);
		uint32_t count = mrw_railshot_units(a, mrw_railshot_block(a, h, a->far->local), first);
		if (count > 0 && (a->call.func != MRW_FUNC_REDUCE || p == a->call.root))
			ok = mrw_packets_push(a, 0, channel, p, seq, count);
	}
	return ok;
}

MRW_DEV void mrw_reduce_railshot(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_op op;
	uint32_t first = channel * a->units;
	bool ok = mrw_op_begin(team, channel, a, &op);
	ok = mrw_packets_settled(team, channel, a, op.seq, ok);
	if (ok) {
		mrw_railshot_send(team, channel, a, op.seq, first);
		ok = !mrw_railshot_adds(a, a->rank) || mrw_railshot_add(false, team, channel, a, op.seq, first);
		if (!mrw_team_any(team, !ok)) /* the outbox is full */
			ok = mrw_railshot_post_sums(mrw_team_high(team), team->size, channel, a, op.seq, first) &&
			     (!mrw_owns(a, a->rank) || mrw_railshot_add(true, team, channel, a, op.seq, first));
		else
			ok = false;
	}
	mrw_op_end(team, channel, a, &op, ok);
}

#endif
