/* ring.h - what the algorithms in a ring share, and the exchanges that only move bytes (schedule.h). Format 0 is what is still being added, or a
 * broadcast; format 1 what goes round finished. far.h's at[] is the ring. */
#ifndef MRW_RING_H
#define MRW_RING_H

#include "peer.h"
#include "schedule.h"
#include "device/copy.h"

/* Rank back places to the left, back <= nranks. */
MRW_DEV uint32_t mrw_ring_rank(const struct mrw_args *a, uint32_t back)
{
	return a->far->at[mrw_ring_left(a->far->host, back, a->nranks)];
}

MRW_DEV uint32_t mrw_ring_right(const struct mrw_args *a)
{
	return mrw_ring_rank(a, a->nranks - 1);
}

/* What the left neighbour sent in the round before. */
MRW_DEV const uint8_t *mrw_ring_came(const struct mrw_args *a, uint32_t format, uint32_t channel, uint64_t round)
{
	return mrw_staging_from(a, format, channel, mrw_ring_rank(a, 1), round - a->call.lag);
}

/* Chunk index of a rank's block, as a span of the buffer that holds all blocks. */
MRW_DEV struct mrw_chunk mrw_ring_chunk(const struct mrw_args *a, uint32_t channel, uint32_t owner, uint64_t index)
{
	struct mrw_span block = mrw_block_at(a, owner);
	struct mrw_chunk chunk = mrw_chunk(block.bytes, a->call.chunk_bytes, a->call.channels, channel, index);
	chunk.offset += block.offset;
	return chunk;
}

/* bytes to the right neighbour. */
MRW_DEV void mrw_ring_stage(const struct mrw_team *team, uint32_t format, uint32_t channel, const struct mrw_args *a, uint64_t round,
			    const uint8_t *src, uint32_t bytes)
{
	uint32_t p = mrw_ring_right(a);
	mrw_copy(team, mrw_staging_to(a, format, channel, p, round), src, bytes);
	mrw_stage_note(team, a, format, channel, p, round, bytes);
}

/* Places to the right of the root; nranks, if there is none. */
MRW_DEV uint32_t mrw_ring_distance(const struct mrw_args *a)
{
	uint32_t distance = mrw_has_root(a->call.func) ? 0 : a->nranks;
	while (distance < a->nranks && mrw_ring_rank(a, distance) != a->call.root)
		distance++;
	return distance;
}

/* A block that came finished, to the output (keep) and on to the right (pass): chunk index of the block that began step positions to the left. */
MRW_DEV_CALL void mrw_ring_forward(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t index,
				   uint32_t step, bool keep, bool pass)
{
	struct mrw_chunk c = mrw_ring_chunk(a, channel, mrw_ring_rank(a, step), index);
	const uint8_t *src = mrw_ring_came(a, 1, channel, round);
	if (pass)
		mrw_ring_stage(team, 1, channel, a, round, src, c.bytes);
	if (keep)
		mrw_copy(team, a->out + c.offset, src, c.bytes);
}

/* Chunks that channel moves of the largest block, or of a broadcast's buffer. */
MRW_DEV uint64_t mrw_ring_chunks(const struct mrw_args *a, uint32_t channel)
{
	uint64_t largest = a->call.func == MRW_FUNC_BROADCAST ? a->bytes : mrw_largest_block(a);
	return mrw_chunks(largest, a->call.chunk_bytes, a->call.channels, channel);
}

#endif
