/* reduce_quick.h - the usual small all-reduce: one shot of packets, aligned, unscaled, whole units, one host.
 *
 * The protocol is that of reduce_packets.h, packet for packet; only a rank's own code differs, so ranks may differ in taking it. Its time is
 * the time of its longest chain of instructions, those fetched for the first time above all: what is rare is a call. A packet that does
 * not come soon sends the thread to mrw_units_finish(), where waits are bounded. */
#ifndef MRW_REDUCE_QUICK_H
#define MRW_REDUCE_QUICK_H

#include "reduce_packets.h"

/* CUDA: some 2 ms. Host: a poll may cost a time slice, and nobody looks for faults here. */
#define MRW_QUICK_POLLS (MRW_ON_CUDA ? 4096u : MRW_POLLS_A_LOOK)

/* Adds unit i over all ranks in rank order; own is mine. False: a packet is late, nothing was stored. */
MRW_DEV bool mrw_quick_unit(uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t i, const uint32_t own[2], uint8_t *out)
{
	const struct mrw_packet *slot = mrw_packets_at(&a->layout, a->arena[a->rank], 0, channel, 0, seq & 1) + i;
	mrw_acc acc[MRW_UNIT_ELEMS] = {0};
	uint32_t result[2];
	for (uint32_t p = 0; p < a->nranks; p++) {
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
		mrw_unit_combine(a->reduction, acc, payload, p == 0);
	}
	mrw_unit_narrow(acc, a->average, a->nranks, result);
	mrw_store_aligned_unit(out, result);
	return true;
}

MRW_DEV void mrw_quick_send(uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t i, const uint32_t own[2])
{
	for (uint32_t q = 1; q < a->nranks; q++) {
		uint32_t p = mrw_peer(a, q);
		mrw_packet_send(mrw_packets_at(&a->layout, a->arena[p], 0, channel, mrw_writer_slot(p, a->rank), seq & 1) + i, seq, own);
	}
}

MRW_DEV void mrw_reduce_quick(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_op op;
	uint32_t first = channel * a->units, all = (uint32_t)(a->bytes / MRW_UNIT_BYTES), index = team->index;
	uint32_t count = all > first ? all - first : 0;
	const uint8_t *in = a->in + (uint64_t)first * MRW_UNIT_BYTES;
	uint8_t *out = a->out + (uint64_t)first * MRW_UNIT_BYTES;
	uint32_t own[2] = {0, 0};
	if (count > a->units)
		count = a->units;
	if (index < count) /* the input is on its way while the begin looks at the arena */
		mrw_load_aligned_unit(in + index * MRW_UNIT_BYTES, own);
	bool ok = mrw_op_begin(team, channel, a, &op);
	if (ok && index < count) {
		mrw_quick_send(channel, a, op.seq, index, own);
		for (uint32_t i = index + team->size; i < count; i += team->size) {
			uint32_t more[2];
			mrw_load_aligned_unit(in + i * MRW_UNIT_BYTES, more);
			mrw_quick_send(channel, a, op.seq, i, more);
		}
		for (uint32_t i = index; i < count; i += team->size) {
			if (i != index)
				mrw_load_aligned_unit(in + i * MRW_UNIT_BYTES, own);
			if (!mrw_quick_unit(channel, a, op.seq, i, own, out + i * MRW_UNIT_BYTES)) {
				ok = mrw_units_finish(index, team->size, channel, a, op.seq, i);
				break;
			}
		}
	}
	mrw_op_end(team, channel, a, &op, ok);
}

#endif
