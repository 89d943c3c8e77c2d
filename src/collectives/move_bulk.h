/* move_bulk.h - all-gather and broadcast of large messages. Moves bytes: compiled once.
 *
 * all_gather: round t pushes chunk t of my block to everybody, copies out chunk t - lag of theirs. broadcast over two ranks: the
 * same from the root only. broadcast over more: the root pushes share p to rank p, who passes it on to the others, so
 * that the root sends every byte once. */
#ifndef MRW_MOVE_BULK_H
#define MRW_MOVE_BULK_H

#include "peer.h"
#include "schedule.h"
#include "device/copy.h"
#include "device/window.h"

/* Chunk index of a block at offset block.offset of its buffer, as a span of that buffer. */
MRW_DEV struct mrw_chunk mrw_chunk_of(const struct mrw_args *a, uint32_t channel, struct mrw_span block, uint64_t index)
{
	struct mrw_chunk chunk = mrw_chunk(block.bytes, a->call.chunk_bytes, a->call.channels, channel, index);
	chunk.offset += block.offset;
	return chunk;
}

/* src to the slot of round in p's staging of a format. */
MRW_DEV void mrw_stage(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t format, uint32_t p,
		       uint64_t round, const uint8_t *src, uint32_t bytes)
{
	mrw_copy(team, mrw_staging_to(a, format, channel, p, round), src, bytes);
	mrw_stage_note(team, a, format, channel, p, round, bytes);
}

/* The same for what goes to offset of p's output, and there at once where p said so. */
MRW_DEV_CALL void mrw_put(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t format, uint32_t p, uint64_t round,
			  uint64_t offset, const uint8_t *src, uint32_t bytes)
{
	uint8_t *direct = mrw_direct(team, a, p);
	if (direct)
		mrw_copy(team, direct + offset, src, bytes);
	else
		mrw_stage(team, channel, a, format, p, round, src, bytes);
}

/* What p staged for me lag rounds ago. */
MRW_DEV const uint8_t *mrw_staged(const struct mrw_args *a, uint32_t channel, uint32_t format, uint32_t p, uint64_t round)
{
	return mrw_staging_from(a, format, channel, p, round - a->call.lag);
}

MRW_DEV void mrw_gather_round(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t t,
			      uint64_t chunks)
{
	struct mrw_span block = {0, a->bytes};
	if (t < chunks) {
		struct mrw_chunk c = mrw_chunk_of(a, channel, block, t);
		uint8_t *out = a->out + a->rank * a->bytes;
		for (uint32_t q = 1; q < a->nranks; q++)
			mrw_put(team, channel, a, 0, mrw_peer(a, q), round, a->rank * a->bytes + c.offset, a->in + c.offset, c.bytes);
		if (out != a->in)
			mrw_copy(team, out + c.offset, a->in + c.offset, c.bytes);
	}
	if (t >= a->call.lag && t - a->call.lag < chunks && !mrw_direct(team, a, a->rank)) {
		struct mrw_chunk c = mrw_chunk_of(a, channel, block, t - a->call.lag);
		for (uint32_t q = 1; q < a->nranks; q++) {
			uint32_t p = mrw_peer(a, q);
			mrw_copy(team, a->out + p * a->bytes + c.offset, mrw_staged(a, channel, 0, p, round), c.bytes);
		}
	}
}

/* One exchange: the root's whole buffer to its only peer. */
MRW_DEV void mrw_broadcast_pair_round(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round,
				      uint64_t t, uint64_t chunks)
{
	struct mrw_span block = {0, a->bytes};
	if (a->rank == a->call.root && t < chunks) {
		struct mrw_chunk c = mrw_chunk_of(a, channel, block, t);
		mrw_put(team, channel, a, 0, mrw_peer(a, 1), round, c.offset, a->in + c.offset, c.bytes);
		if (a->out != a->in)
			mrw_copy(team, a->out + c.offset, a->in + c.offset, c.bytes);
	}
	if (a->rank != a->call.root && t >= a->call.lag && t - a->call.lag < chunks && !mrw_direct(team, a, a->rank)) {
		struct mrw_chunk c = mrw_chunk_of(a, channel, block, t - a->call.lag);
		mrw_copy(team, a->out + c.offset, mrw_staged(a, channel, 0, a->call.root, round), c.bytes);
	}
}

/* Two exchanges, seen by the root: shares to their owners; its own share, one lag later, to everybody. */
MRW_DEV void mrw_broadcast_root_round(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round,
				      uint64_t t, uint64_t chunks)
{
	uint32_t lag = a->call.lag;
	for (uint32_t q = 0; q < a->nranks && t < chunks; q++) {
		uint32_t p = mrw_peer(a, q);
		struct mrw_chunk c = mrw_chunk_of(a, channel, mrw_block_of(a->bytes, a->share_bytes, p), t);
		if (p != a->rank)
			mrw_put(team, channel, a, 0, p, round, c.offset, a->in + c.offset, c.bytes);
		if (a->out != a->in)
			mrw_copy(team, a->out + c.offset, a->in + c.offset, c.bytes);
	}
	if (t >= lag && t - lag < chunks) {
		struct mrw_chunk c = mrw_chunk_of(a, channel, mrw_block_of(a->bytes, a->share_bytes, a->rank), t - lag);
		for (uint32_t q = 1; q < a->nranks; q++)
			mrw_put(team, channel, a, 1, mrw_peer(a, q), round, c.offset, a->in + c.offset, c.bytes);
	}
}

/* The same seen by another rank: pass my share on, collect everybody's. */
MRW_DEV void mrw_broadcast_leaf_round(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round,
				      uint64_t t, uint64_t chunks)
{
	uint32_t lag = a->call.lag;
	bool direct = mrw_direct(team, a, a->rank) != NULL;
	if (t >= lag && t - lag < chunks) {
		struct mrw_chunk c = mrw_chunk_of(a, channel, mrw_block_of(a->bytes, a->share_bytes, a->rank), t - lag);
		const uint8_t *src = direct ? a->out + c.offset : mrw_staged(a, channel, 0, a->call.root, round);
		for (uint32_t q = 1; q < a->nranks; q++) {
			uint32_t p = mrw_peer(a, q);
			if (p != a->call.root)
				mrw_put(team, channel, a, 1, p, round, c.offset, src, c.bytes);
		}
		if (!direct)
			mrw_copy(team, a->out + c.offset, src, c.bytes);
	}
	if (t >= 2 * lag && t - 2 * lag < chunks && !direct) {
		for (uint32_t q = 1; q < a->nranks; q++) {
			uint32_t p = mrw_peer(a, q);
			struct mrw_chunk c = mrw_chunk_of(a, channel, mrw_block_of(a->bytes, a->share_bytes, p), t - 2 * lag);
			mrw_copy(team, a->out + c.offset, mrw_staged(a, channel, 1, p, round), c.bytes);
		}
	}
}

MRW_DEV void mrw_move_bulk_round(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t t,
				 uint64_t chunks, uint32_t exchanges)
{
	if (a->call.func == MRW_FUNC_ALL_GATHER)
		mrw_gather_round(team, channel, a, round, t, chunks);
	else if (exchanges == 1)
		mrw_broadcast_pair_round(team, channel, a, round, t, chunks);
	else if (a->rank == a->call.root)
		mrw_broadcast_root_round(team, channel, a, round, t, chunks);
	else
		mrw_broadcast_leaf_round(team, channel, a, round, t, chunks);
}

MRW_DEV void mrw_move_bulk(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_op op;
	uint32_t exchanges = mrw_exchanges(a->call.func, a->nranks);
	uint64_t largest = exchanges == 2 ? mrw_block_of(a->bytes, a->share_bytes, 0).bytes : a->bytes;
	uint64_t chunks = mrw_chunks(largest, a->call.chunk_bytes, a->call.channels, channel);
	uint64_t rounds = mrw_rounds(chunks, exchanges, a->call.lag);
	if (mrw_team_is_signal(team)) {
		mrw_rounds_signal(team, channel, a, rounds);
		return;
	}
	bool ok = mrw_op_begin_rounds(team, channel, a, &op);
	if (mrw_has_windows(a) && channel == 0 && ok)
		mrw_places_say(team, a, op.seq);
	for (uint64_t t = 0; t < rounds; t++) {
		uint64_t round = op.round + t;
		ok = mrw_rounds_wait(team, channel, a, op.seq, round, a->call.lag, ok);
		if (t == 0)
			ok = mrw_places_heard(team, channel, a, op.seq, ok);
		if (!ok)
			break;
		mrw_move_bulk_round(team, channel, a, round, t, chunks, exchanges);
		mrw_rounds_publish(team, channel, a, round);
	}
	ok = mrw_rounds_drain(team, channel, a, op.seq, op.round + rounds, ok);
	mrw_rounds_keep(team, channel, a, op.round + rounds);
	mrw_op_end(team, channel, a, &op, ok);
}

#endif
