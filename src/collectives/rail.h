/* rail.h - what the algorithms along rails share, and their exchanges that only move bytes (schedule.h has the list).
 *
 * Near peers have staging slots of one chunk for each host: what belongs to the owner on host h is in cell h. Format 0 is exchanges 0
 * (near) and 1 (along the rail), format 1 exchanges 3 (near) and 2 (along the rail); so each slot is written in one exchange only and read
 * in the next. Partial results wait in the output buffer, which no other rank sees: a block of it is written only after the input in its place has
 * been read, in place or not. A reduce has an output at its root only; elsewhere they wait in this rank's own near staging of format 1, where a
 * reduce has no other writer. */
#ifndef MRW_RAIL_H
#define MRW_RAIL_H

#include "peer.h"
#include "schedule.h"
#include "device/copy.h"

/* Rank number local of host. */
MRW_DEV uint32_t mrw_rail_rank(const struct mrw_args *a, uint32_t host, uint32_t local)
{
	return a->far->at[host * a->far->per_host + local];
}

/* Near peer number q (1 ... per_host - 1): every rank starts with its right neighbour. */
MRW_DEV uint32_t mrw_rail_local(const struct mrw_args *a, uint32_t q)
{
	uint32_t l = a->far->local + q;
	return l < a->far->per_host ? l : l - a->far->per_host;
}

/* Another host, number q (1 ... hosts - 1), likewise. */
MRW_DEV uint32_t mrw_rail_host(const struct mrw_args *a, uint32_t q)
{
	uint32_t h = a->far->host + q;
	return h < a->far->hosts ? h : h - a->far->hosts;
}

/* Chunk index of the block that (host, local) owns, as a span of the buffer that holds all blocks. */
MRW_DEV struct mrw_chunk mrw_rail_chunk(const struct mrw_args *a, uint32_t channel, uint32_t host, uint32_t local, uint64_t index)
{
	struct mrw_span block = mrw_block_at(a, mrw_rail_rank(a, host, local));
	struct mrw_chunk chunk = mrw_chunk(block.bytes, a->call.chunk_bytes, a->call.channels, channel, index);
	chunk.offset += block.offset;
	return chunk;
}

/* bytes to the same rank of another host. */
MRW_DEV void mrw_rail_stage(const struct mrw_team *team, uint32_t format, uint32_t channel, const struct mrw_args *a, uint32_t host,
			    uint64_t round, const uint8_t *src, uint32_t bytes)
{
	uint32_t p = mrw_rail_rank(a, host, a->far->local);
	mrw_copy(team, mrw_staging_to(a, format, channel, p, round), src, bytes);
	mrw_stage_note(team, a, format, channel, p, round, bytes);
}

/* This rank is the root of a broadcast. */
MRW_DEV bool mrw_rail_is_root(const struct mrw_args *a)
{
	return a->call.func == MRW_FUNC_BROADCAST && a->rank == a->call.root;
}

/* Host of a broadcast's or reduce's root; hosts, if there is none. */
MRW_DEV uint32_t mrw_rail_home(const struct mrw_args *a)
{
	uint32_t h = 0, l = 0;
	if (!mrw_has_root(a->call.func))
		return a->far->hosts;
	while (mrw_rail_rank(a, h, l) != a->call.root)
		if (++l == a->far->per_host) {
			l = 0;
			h++;
		}
	return h;
}

/* The rank of this host with the root's number: on the root's host the root. */
MRW_DEV uint32_t mrw_rail_relay(const struct mrw_args *a)
{
	uint32_t home = mrw_rail_home(a), local = 0;
	while (mrw_rail_rank(a, home, local) != a->call.root)
		local++;
	return mrw_rail_rank(a, a->far->host, local);
}

/* A broadcast's exchange 0: the root gives each rank of its host the blocks of that rank's rail. */
MRW_DEV_CALL void mrw_rail_scatter(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t index)
{
	for (uint32_t q = 0; q < a->far->per_host; q++) {
		uint32_t local = mrw_rail_local(a, q), p = mrw_rail_rank(a, a->far->host, local);
		for (uint32_t h = 0; h < a->far->hosts; h++) {
			struct mrw_chunk c = mrw_rail_chunk(a, channel, h, local, index);
			if (q > 0)
				mrw_copy(team, mrw_staging_to(a, 0, channel, p, round) + (uint64_t)h * a->layout.chunk_bytes, a->in + c.offset, c.bytes);
			if (a->out != a->in)
				mrw_copy(team, a->out + c.offset, a->in + c.offset, c.bytes);
		}
	}
}

/* Exchange 1, on the root's host: the blocks of my rail to their owners' hosts. */
MRW_DEV_CALL void mrw_rail_pass(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t index)
{
	for (uint32_t q = 0; q < a->far->hosts; q++) {
		uint32_t h = mrw_rail_host(a, q);
		struct mrw_chunk c = mrw_rail_chunk(a, channel, h, a->far->local, index);
		const uint8_t *src = a->in + c.offset;
		if (!mrw_rail_is_root(a)) {
			src = mrw_staging_from(a, 0, channel, a->call.root, round - a->call.lag) + (uint64_t)h * a->layout.chunk_bytes;
			mrw_copy(team, a->out + c.offset, src, c.bytes);
		}
		if (q > 0)
			mrw_rail_stage(team, 0, channel, a, h, round, src, c.bytes);
	}
}

/* Exchange 2 of a broadcast from host home: my block to the hosts that lack it. */
MRW_DEV_CALL void mrw_rail_share(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t index, uint32_t home)
{
	struct mrw_chunk c = mrw_rail_chunk(a, channel, a->far->host, a->far->local, index);
	const uint8_t *src = (mrw_rail_is_root(a) ? a->in : a->out) + c.offset;
	if (home != a->far->host) {
		src = mrw_staging_from(a, 0, channel, mrw_rail_rank(a, home, a->far->local), round - a->call.lag);
		mrw_copy(team, a->out + c.offset, src, c.bytes);
	}
	for (uint32_t q = 1; q < a->far->hosts; q++)
		if (mrw_rail_host(a, q) != home)
			mrw_rail_stage(team, 1, channel, a, mrw_rail_host(a, q), round, src, c.bytes);
}

/* Exchange 2 of an all_gather: my input. */
MRW_DEV_CALL void mrw_rail_offer(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t index)
{
	struct mrw_chunk c = mrw_chunk(a->bytes, a->call.chunk_bytes, a->call.channels, channel, index);
	uint8_t *out = a->out + a->rank * a->bytes;
	for (uint32_t q = 1; q < a->far->hosts; q++)
		mrw_rail_stage(team, 1, channel, a, mrw_rail_host(a, q), round, a->in + c.offset, c.bytes);
	if (out != a->in)
		mrw_copy(team, out + c.offset, a->in + c.offset, c.bytes);
}

/* Exchange 3: what came along the rail to the output, and with my own block to each rank of the host. home: where a broadcast comes from;
 * there exchange 1 brought all of it. */
MRW_DEV_CALL void mrw_rail_spread(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t index, uint32_t home)
{
	for (uint32_t h = 0; h < a->far->hosts; h++) {
		struct mrw_chunk c = mrw_rail_chunk(a, channel, h, a->far->local, index);
		const uint8_t *src = (mrw_rail_is_root(a) ? a->in : a->out) + c.offset;
		if (h != a->far->host && home != a->far->host) {
			src = mrw_staging_from(a, 1, channel, mrw_rail_rank(a, h, a->far->local), round - a->call.lag);
			mrw_copy(team, a->out + c.offset, src, c.bytes);
		}
		for (uint32_t q = 1; q < a->far->per_host; q++) {
			uint32_t p = mrw_rail_rank(a, a->far->host, mrw_rail_local(a, q));
			if (a->call.func != MRW_FUNC_BROADCAST || p != a->call.root)
				mrw_copy(team, mrw_staging_to(a, 1, channel, p, round) + (uint64_t)h * a->layout.chunk_bytes, src, c.bytes);
		}
	}
}

/* Exchange 4: the other rails' results to the output. */
MRW_DEV_CALL void mrw_rail_collect(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t index)
{
	for (uint32_t q = 1; q < a->far->per_host && !mrw_rail_is_root(a); q++) {
		uint32_t local = mrw_rail_local(a, q), p = mrw_rail_rank(a, a->far->host, local);
		const uint8_t *cells = mrw_staging_from(a, 1, channel, p, round - a->call.lag);
		for (uint32_t h = 0; h < a->far->hosts; h++) {
			struct mrw_chunk c = mrw_rail_chunk(a, channel, h, local, index);
			mrw_copy(team, a->out + c.offset, cells + (uint64_t)h * a->layout.chunk_bytes, c.bytes);
		}
	}
}

/* Where what this rank puts aside in round lies until the next one: cell 0 the sum of a host, cell 1 that of all. */
MRW_DEV uint8_t *mrw_rail_aside(const struct mrw_args *a, uint32_t channel, uint64_t round, uint32_t cell)
{
	return a->arena[a->rank] + mrw_staging_offset(&a->layout, 1, channel, 0, round) + (uint64_t)cell * a->layout.chunk_bytes;
}

/* Exchange 3 of a reduce, on the root's host: the results of my rail to the root, who has that of its own block. */
MRW_DEV_CALL void mrw_rail_deliver(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t index)
{
	bool root = a->rank == a->call.root;
	for (uint32_t h = 0; h < a->far->hosts; h++) {
		struct mrw_chunk c = mrw_rail_chunk(a, channel, h, a->far->local, index);
		bool mine = h == a->far->host;
		const uint8_t *src = mine ? mrw_rail_aside(a, channel, round - a->call.lag, 1)
					  : mrw_staging_from(a, 1, channel, mrw_rail_rank(a, h, a->far->local), round - a->call.lag);
		if (!root)
			mrw_copy(team, mrw_staging_to(a, 1, channel, a->call.root, round) + (uint64_t)h * a->layout.chunk_bytes, src, c.bytes);
		else if (!mine)
			mrw_copy(team, a->out + c.offset, src, c.bytes);
	}
}

/* Chunks that channel moves of the largest block. */
MRW_DEV uint64_t mrw_rail_chunks(const struct mrw_args *a, uint32_t channel)
{
	return mrw_chunks(mrw_largest_block(a), a->call.chunk_bytes, a->call.channels, channel);
}

#endif
