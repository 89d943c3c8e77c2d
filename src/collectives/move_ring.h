/* move_ring.h - all-gather, broadcast and barrier in a ring. Moves bytes: compiled once. */
#ifndef MRW_MOVE_RING_H
#define MRW_MOVE_RING_H

#include "ring.h"

MRW_DEV_CALL void mrw_ring_gather_round(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t set,
					uint32_t step, uint64_t chunks)
{
	if (step > 0 && set < chunks)
		mrw_ring_forward(team, channel, a, round, set, step, true, true);
	if (step == 0 && set > 0)
		mrw_ring_forward(team, channel, a, round, set - 1, a->nranks - 1, true, false);
	if (step == 0 && set < chunks) {
		struct mrw_chunk c = mrw_chunk(a->bytes, a->call.chunk_bytes, a->call.channels, channel, set);
		uint8_t *out = a->out + a->rank * a->bytes;
		mrw_ring_stage(team, 1, channel, a, round, a->in + c.offset, c.bytes);
		if (out != a->in)
			mrw_copy(team, out + c.offset, a->in + c.offset, c.bytes);
	}
}

MRW_DEV_CALL void mrw_ring_broadcast_round(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t t,
					   uint32_t distance, uint64_t chunks)
{
	if (t < distance || t - distance >= chunks)
		return;
	struct mrw_chunk c = mrw_chunk(a->bytes, a->call.chunk_bytes, a->call.channels, channel, t - distance);
	const uint8_t *src = distance == 0 ? a->in + c.offset : mrw_ring_came(a, 0, channel, round);
	if (distance + 1 < a->nranks)
		mrw_ring_stage(team, 0, channel, a, round, src, c.bytes);
	if (distance > 0 || a->out != a->in)
		mrw_copy(team, a->out + c.offset, src, c.bytes);
}

/* distance: places to the right of a broadcast's root. */
MRW_DEV void mrw_move_ring_round(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t t, uint64_t set,
				 uint32_t step, uint32_t distance, uint64_t chunks)
{
	if (a->call.func == MRW_FUNC_ALL_GATHER)
		mrw_ring_gather_round(team, channel, a, round, set, step, chunks);
	else if (a->call.func == MRW_FUNC_BROADCAST)
		mrw_ring_broadcast_round(team, channel, a, round, t, distance, chunks);
}

MRW_DEV void mrw_move_ring(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_op op;
	uint64_t chunks = mrw_ring_chunks(a, channel), rounds = mrw_ring_rounds(a->call.func, chunks, a->nranks), set = 0;
	uint32_t step = 0, distance;
	if (mrw_team_is_signal(team)) {
		mrw_rounds_signal(team, channel, a, rounds);
		return;
	}
	bool ok = mrw_op_begin_rounds(team, channel, a, &op);
	distance = mrw_ring_distance(a);
	for (uint64_t t = 0; t < rounds; t++) {
		uint64_t round = op.round + t;
		ok = mrw_rounds_wait(team, channel, a, op.seq, round, a->call.lag, ok);
		if (!ok)
			break;
		mrw_move_ring_round(team, channel, a, round, t, set, step, distance, chunks);
		mrw_rounds_publish(team, channel, a, round);
		mrw_ring_next(&set, &step, a->nranks);
	}
	ok = mrw_rounds_drain(team, channel, a, op.seq, op.round + rounds, ok);
	mrw_rounds_keep(team, channel, a, op.round + rounds);
	mrw_op_end(team, channel, a, &op, ok);
}

#endif
