/* reduce_quick.h - the usual small all-reduce and reduce-scatter: one shot of packets, aligned, unscaled, whole units, one host.
 *
 * The protocol is that of reduce_packets.h, packet for packet; only a rank's own code differs, so ranks may differ in taking it. Its time is
 * the time of its longest chain of instructions, those fetched for the first time above all: what is rare is a call. A packet that does
 * not come soon sends the thread to mrw_units_finish(), where waits are bounded. */
#ifndef MRW_REDUCE_QUICK_H
#define MRW_REDUCE_QUICK_H

#include "reduce_packets.h"

/* What a kernel may know when it is compiled; the rest is in its arguments. */
struct mrw_quick {
	uint32_t reduction, nranks;
	bool average;
};

/* Adds unit i over all ranks in rank order; own is mine. False: a packet is late, nothing was stored. */
MRW_DEV bool mrw_quick_unit(const struct mrw_quick k, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t i,
			    const uint32_t own[2], uint8_t *out)
{
	const struct mrw_packet *slot = mrw_packets_at(&a->layout, a->arena[a->rank], 0, channel, 0, seq & 1) + i;
	mrw_acc acc[MRW_UNIT_ELEMS] = {0};
	uint32_t result[2];
	for (uint32_t p = 0; p < k.nranks; p++) {
		uint32_t payload[2] = {own[0], own[1]};
		if (p != a->rank) {
			struct mrw_packet v;
			for (uint32_t polls = 0; !mrw_packet_is(v = mrw_load_packet(slot), seq); polls++) {
				if (polls == MRW_QUICK_POLLS)
					return false;
				mrw_pause(polls, a->spin_limit);
			}
			payload[0] = (uint32_t)v.unit[0];
			payload[1] = (uint32_t)v.unit[1];
			slot += 2 * a->layout.units; /* the next writer's */
		}
		mrw_unit_combine(k.reduction, acc, payload, p == 0);
	}
	mrw_unit_narrow(acc, k.average, k.nranks, result);
	mrw_store_aligned_unit(out, result);
	return true;
}

/* Unit i at in, of the block that a peer gets: stride bytes apart, or 0: everybody the same, own. Partner: mrw_quick_unit(). */
MRW_DEV void mrw_quick_send(const struct mrw_quick k, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t i,
			    const uint8_t *in, uint64_t stride, const uint32_t own[2])
{
	for (uint32_t q = 1; q < k.nranks; q++) {
		uint32_t p = mrw_peer(a, q), payload[2] = {own[0], own[1]};
		if (stride != 0)
			mrw_load_aligned_unit(in + p * stride + i * MRW_UNIT_BYTES, payload);
		mrw_packet_send(mrw_packets_at(&a->layout, a->arena[p], 0, channel, mrw_writer_slot(p, a->rank), seq & 1) + i, seq, payload);
	}
}

MRW_DEV void mrw_reduce_quick_as(const struct mrw_quick k, const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_op op;
	uint32_t first = channel * a->units, all = (uint32_t)(a->bytes / MRW_UNIT_BYTES), index = team->index;
	uint32_t count = all > first ? all - first : 0;
	uint64_t stride = a->call.func == MRW_FUNC_REDUCE_SCATTER ? a->bytes : 0;
	const uint8_t *in = a->in + (uint64_t)first * MRW_UNIT_BYTES, *mine = in + a->rank * stride;
	uint8_t *out = a->out + (uint64_t)first * MRW_UNIT_BYTES;
	uint32_t own[2] = {0, 0};
	if (count > a->units)
		count = a->units;
	if (index < count) /* the input is on its way while the begin looks at the arena */
		mrw_load_aligned_unit(mine + index * MRW_UNIT_BYTES, own);
	bool ok = mrw_op_begin(team, channel, a, &op);
	if (ok && index < count) {
		mrw_quick_send(k, channel, a, op.seq, index, in, stride, own);
		for (uint32_t i = index + team->size; i < count; i += team->size) {
			uint32_t more[2];
			mrw_load_aligned_unit(mine + i * MRW_UNIT_BYTES, more);
			mrw_quick_send(k, channel, a, op.seq, i, in, stride, more);
		}
		for (uint32_t i = index; i < count; i += team->size) {
			if (i != index)
				mrw_load_aligned_unit(mine + i * MRW_UNIT_BYTES, own);
			if (!mrw_quick_unit(k, channel, a, op.seq, i, own, out + i * MRW_UNIT_BYTES)) {
				ok = mrw_units_finish(index, team->size, channel, a, op.seq, i);
				break;
			}
		}
	}
	mrw_op_end_among(k.nranks, team, channel, a, &op, ok);
}

MRW_DEV void mrw_reduce_quick_by(const uint32_t reduction, const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_quick k = {reduction, a->nranks, a->average != 0};
	mrw_reduce_quick_as(k, team, channel, a);
}

MRW_DEV void mrw_reduce_quick(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	MRW_BY_REDUCTION(a->reduction, mrw_reduce_quick_by, team, channel, a);
}

/* The commonest: a sum of two ranks. */
MRW_DEV void mrw_reduce_pair(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_quick k = {MRW_RED_SUM, 2, false};
	mrw_reduce_quick_as(k, team, channel, a);
}

#endif
