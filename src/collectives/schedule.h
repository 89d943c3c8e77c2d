/* schedule.h - who moves which bytes when: pure functions of values that are equal on all ranks.
 *
 * Block r of a call is what rank r owns. all_reduce and broadcast cut the buffer into nranks shares of whole 16-byte quanta, the
 * first ones largest, the last ones maybe short or empty; so does reduce, whose owners send their results to the root only, but over two
 * ranks the root owns everything. all_gather and reduce_scatter have blocks of equal size, reduce_scatter_v of any.
 *
 * Packets: a block is a row of 8-byte units; channel c takes a contiguous range of every block.
 * Bulk: a block is a row of chunks; channel c takes chunks c, c + channels, ... one a round. Every channel runs the same rounds on
 * all ranks, with empty chunks where a block is short: nobody is ever silent. */
#ifndef MRW_SCHEDULE_H
#define MRW_SCHEDULE_H

#include "device/args.h"

/* Peer number q (1 ... nranks - 1) as seen from rank: every rank starts with its right neighbour, so that no one is hit by all. */
MRW_DEV uint32_t mrw_peer(const struct mrw_args *a, uint32_t q)
{
	uint32_t p = a->rank + q;
	return p < a->nranks ? p : p - a->nranks;
}

struct mrw_span {
	uint64_t offset, bytes;
};

#define MRW_QUANTUM_BYTES 16u

MRW_PURE bool mrw_has_shares(uint32_t func)
{
	return func == MRW_FUNC_ALL_REDUCE || func == MRW_FUNC_BROADCAST || func == MRW_FUNC_REDUCE;
}

MRW_PURE bool mrw_has_root(uint32_t func)
{
	return func == MRW_FUNC_BROADCAST || func == MRW_FUNC_REDUCE;
}

MRW_PURE bool mrw_reduces(uint32_t func)
{
	return func == MRW_FUNC_ALL_REDUCE || func == MRW_FUNC_REDUCE_SCATTER || func == MRW_FUNC_REDUCE || func == MRW_FUNC_REDUCE_SCATTER_V;
}

/* Bytes of the largest share. */
MRW_PURE uint64_t mrw_share_bytes(uint64_t bytes, uint32_t nranks)
{
	uint64_t quanta = bytes / MRW_QUANTUM_BYTES + (bytes % MRW_QUANTUM_BYTES != 0);
	return (quanta / nranks + (quanta % nranks != 0)) * MRW_QUANTUM_BYTES;
}

/* Block r within the buffer that holds all blocks. share_bytes: 0 where all blocks have bytes bytes. */
MRW_PURE struct mrw_span mrw_block_of(uint64_t bytes, uint64_t share_bytes, uint32_t r)
{
	struct mrw_span s;
	if (share_bytes == 0) {
		s.offset = r * bytes;
		s.bytes = bytes;
		return s;
	}
	s.offset = r * share_bytes < bytes ? r * share_bytes : bytes;
	s.bytes = bytes - s.offset < share_bytes ? bytes - s.offset : share_bytes;
	return s;
}

/* The same from a call's values; bytes as in struct mrw_args. */
MRW_PURE struct mrw_span mrw_block(uint32_t func, uint64_t bytes, uint32_t nranks, uint32_t r)
{
	struct mrw_span s = {0, 0};
	if (mrw_has_shares(func) && bytes == 0)
		return s;
	return mrw_block_of(bytes, mrw_has_shares(func) ? mrw_share_bytes(bytes, nranks) : 0, r);
}

/* The same for kernels, and for blocks of any size. */
MRW_PURE struct mrw_span mrw_block_at(const struct mrw_args *a, uint32_t r)
{
	struct mrw_span s;
	if (!a->uneven)
		return mrw_block_of(a->bytes, a->share_bytes, r);
	s.offset = r > 0 ? a->ends[r - 1] : 0;
	s.bytes = a->ends[r] - s.offset;
	return s;
}

MRW_PURE uint64_t mrw_largest_block(const struct mrw_args *a)
{
	return a->uneven ? a->bytes : mrw_block_of(a->bytes, a->share_bytes, 0).bytes;
}

/* Units of a channel's range: the same for every block of a call; the last channels' may be empty. */
MRW_PURE uint64_t mrw_units_per_channel(uint64_t block_bytes, uint32_t channels)
{
	uint64_t units = block_bytes / MRW_UNIT_BYTES + (block_bytes % MRW_UNIT_BYTES != 0);
	return units / channels + (units % channels != 0);
}

/* How many of per units starting at first a block of bytes bytes has. */
MRW_PURE uint64_t mrw_units_in(uint64_t bytes, uint64_t first, uint64_t per)
{
	uint64_t units = bytes / MRW_UNIT_BYTES + (bytes % MRW_UNIT_BYTES != 0);
	if (units <= first)
		return 0;
	return units - first < per ? units - first : per;
}

/* Chunks that channel moves of the largest block. */
MRW_PURE uint64_t mrw_chunks(uint64_t block_bytes, uint32_t chunk_bytes, uint32_t channels, uint32_t channel)
{
	uint64_t all = block_bytes / chunk_bytes + (block_bytes % chunk_bytes != 0);
	return all / channels + (channel < all % channels);
}

struct mrw_chunk {
	uint64_t offset;
	uint32_t bytes;
};

/* Chunk number index of channel within a block. */
MRW_PURE struct mrw_chunk mrw_chunk(uint64_t block_bytes, uint32_t chunk_bytes, uint32_t channels, uint32_t channel, uint64_t index)
{
	struct mrw_chunk c;
	uint64_t offset = (index * channels + channel) * chunk_bytes;
	c.offset = offset < block_bytes ? offset : block_bytes;
	c.bytes = block_bytes - c.offset < chunk_bytes ? (uint32_t)(block_bytes - c.offset) : chunk_bytes;
	return c;
}

/* Transfers. What does not travel as packets is cut into equal chunks, as many at least as the pair has lanes; chunk c goes by lane
 * (number + c) mod lanes. */
#define MRW_TRANSFER_GRAIN 4096u

/* Payload of a lane's packets, as far as packets win there; the same at both ends. */
MRW_PURE uint32_t mrw_transfer_small(const struct mrw_layout *l, bool cuda)
{
	uint32_t most = l->lane_units * MRW_UNIT_BYTES;
	return cuda || most < 512 ? most : 512;
}

MRW_PURE uint32_t mrw_transfer_chunk_bytes(const struct mrw_layout *l, uint64_t bytes)
{
	uint64_t per = (bytes >> l->lane_shift) + 1;
	return per >= l->lane_chunk_bytes ? l->lane_chunk_bytes
					  : ((uint32_t)per + MRW_TRANSFER_GRAIN - 1) / MRW_TRANSFER_GRAIN * MRW_TRANSFER_GRAIN;
}

/* First chunk that lane carries of the pair's transfer number number. */
MRW_PURE uint32_t mrw_transfer_first(const struct mrw_layout *l, uint64_t number, uint32_t lane)
{
	return (lane - (uint32_t)number) & (l->lanes - 1);
}

/* Chunks that lane carries of it, first and every lanes-th on. */
MRW_PURE uint64_t mrw_transfer_chunks(const struct mrw_layout *l, uint64_t number, uint32_t lane, uint64_t bytes)
{
	uint32_t size = mrw_transfer_chunk_bytes(l, bytes), first = mrw_transfer_first(l, number, lane);
	uint64_t all = bytes / size + (bytes % size != 0);
	return all > first ? ((all - 1 - first) >> l->lane_shift) + 1 : 0;
}

/* Exchanges of a bulk call: 1 (everything arrives at once) or 2 (to the owner, results to all or to the root). */
MRW_PURE uint32_t mrw_exchanges(uint32_t func, uint32_t nranks)
{
	return func == MRW_FUNC_ALL_REDUCE || (mrw_has_root(func) && nranks > 2) ? 2 : 1;
}

/* Ranks say where their output is, device/window.h: bulk calls whose results others write. */
MRW_PURE bool mrw_has_places(uint32_t func, uint32_t algo, uint32_t nranks)
{
	return algo == MRW_ALGO_BULK && (func == MRW_FUNC_ALL_GATHER || func == MRW_FUNC_BROADCAST || mrw_exchanges(func, nranks) == 2);
}

/* Rounds that channel runs: the chunks, and lag rounds for each exchange to drain. 0 chunks: still the rounds to drain. */
MRW_PURE uint64_t mrw_rounds(uint64_t chunks, uint32_t exchanges, uint32_t lag)
{
	return chunks + (uint64_t)exchanges * lag;
}

/* Along rails a bulk call is a row of five exchanges, each one lag behind the one before; a function takes those it needs. A rank owns the
 * block with its number; the blocks of a rail are those that its ranks own.
 *
 * 0: to each rank of the host, what it needs of this rank's input: the blocks of its rail (broadcast: from the root)
 * 1: their sums over the host (broadcast: themselves), each to its owner's host, along the rail
 * 2: my block's sum over the hosts (broadcast: itself; all_gather: my input) to all other hosts (reduce: the root's), along the rail
 * 3: the results of my rail to each rank of the host (reduce: to the root)
 * 4: copied out. A sum is copied out in 2 where nobody else wants it (reduce_scatter). */
MRW_PURE uint32_t mrw_rail_first(uint32_t func)
{
	return func == MRW_FUNC_ALL_GATHER ? 2 : 0;
}

MRW_PURE uint32_t mrw_rail_last(uint32_t func)
{
	return func == MRW_FUNC_REDUCE_SCATTER || func == MRW_FUNC_REDUCE_SCATTER_V ? 2 : 4;
}

MRW_PURE uint64_t mrw_rail_rounds(uint32_t func, uint64_t chunks, uint32_t lag)
{
	return mrw_rounds(chunks, mrw_rail_last(func) - mrw_rail_first(func), lag);
}

/* The chunk that exchange number stage moves in round t of a call; chunks or more: none. */
MRW_PURE uint64_t mrw_rail_index(uint32_t func, uint32_t stage, uint64_t t, uint32_t lag)
{
	uint64_t behind = (uint64_t)(stage - mrw_rail_first(func)) * lag;
	if (stage < mrw_rail_first(func) || stage > mrw_rail_last(func) || t < behind)
		return UINT64_MAX;
	return t - behind;
}

/* In a ring of n positions everything goes to the right neighbour. Reductions and all_gather advance in sets: the chunks with one number of all
 * blocks, n - 1 rounds a set, one block further each. The sum of position b's block begins at b + 1 and ends at b; then, or in an
 * all_gather at once, the block goes round from b on (of a reduce as far as the root), while the next set is added. A broadcast is a chain
 * from the root, a chunk a round. A barrier is rounds without chunks: who enters round t knows of all within t positions. */
MRW_PURE uint64_t mrw_ring_rounds(uint32_t func, uint64_t chunks, uint32_t n)
{
	if (func == MRW_FUNC_BARRIER)
		return n / 2;
	if (chunks == 0)
		return 0;
	if (func == MRW_FUNC_BROADCAST)
		return chunks + n - 1;
	return (chunks + mrw_has_shares(func)) * (n - 1) + 1;
}

/* Round t is step t % (n - 1) of set t / (n - 1): from one round to the next. */
MRW_PURE void mrw_ring_next(uint64_t *set, uint32_t *step, uint32_t n)
{
	if (++*step == n - 1) {
		*step = 0;
		++*set;
	}
}

/* Position number back places to the left of position. back <= n. */
MRW_PURE uint32_t mrw_ring_left(uint32_t position, uint32_t back, uint32_t n)
{
	uint32_t p = position + n - back;
	return p < n ? p : p - n;
}

#endif
