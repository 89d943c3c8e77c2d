/* ledger.h - what is where, for the proof that a schedule is complete. A piece of data is a chunk of a block: its position is block * chunks of a
 * block + number. Rank r's contribution to position p is weight(r) * factor(p) in arithmetic modulo 2^32, weights and factors being
 * scrambled numbers, no two weights equal; a copy is the same number, a sum the sum. So what a rank ends with is right when it is the
 * number that is to be expected there: a contribution that lacks, is there twice, comes from another rank or belongs elsewhere makes
 * another one (but for a chance of 2^-32 a chunk). */
#ifndef SIM_LEDGER_H
#define SIM_LEDGER_H

#include "device/args.h"

enum { SIM_PARTIALS = 4 }; /* places that a position may have */

/* What a rank keeps in its output for later: sums that others still add to. */
struct sim_partial {
	uint64_t position; /* + 1; 0: none */
	uint32_t value;
};

struct sim_ledger {
	bool on;
	uint32_t nranks, channels;
	/* Blocks as the call cuts them. */
	uint64_t stride, blocks, of_block, chunk; /* bytes from block to block, blocks, chunks of one, bytes of one */
	const uint64_t *ends;                     /* of blocks of any size, in bytes; then of_block is that of the largest. NULL: by stride */
	double per_stride, per_chunk, per_slot;   /* reciprocals; of a chunk's place in staging */
	uint64_t buffer;                          /* bytes of all blocks */
	/* Staging of all ranks, as wire.h numbers its chunks: [format][rank * room + chunk]; or packets, so many a slot: [format][rank * room +
	 * (channel * slots + slot) * units + number]. */
	uint32_t *near[MRW_FORMATS], *far[MRW_FORMATS];
	uint64_t near_room, far_room, near_units, far_units;
	uint64_t *done;                           /* [rank * words]: a bit for each position that is final in its output */
	uint64_t words;
	uint64_t *counted;                        /* [rank] of those */
	struct sim_partial *partials;             /* [(rank * channels + channel) * partial_room] */
	uint32_t partial_room;
	uint32_t *weight;
	uint32_t total;                           /* of all weights */
};

static inline uint32_t sim_factor(uint64_t position)
{
	uint64_t x = (position + 1) * 0x9e3779b97f4a7c15u;
	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9u;
	return (uint32_t)(x >> 32) | 1;
}

/* Number of units of unit bytes in value; one of both may be odd: reciprocal's error is mended. */
static inline uint64_t sim_quotient(uint64_t value, uint64_t unit, double reciprocal)
{
	uint64_t q = (uint64_t)((double)value * reciprocal);
	if (q * unit > value)
		q--;
	else if ((q + 1) * unit <= value)
		q++;
	return q;
}

/* The block of any size that an offset lies in. */
static inline uint64_t sim_uneven_block(const struct sim_ledger *l, uint64_t offset)
{
	uint64_t least = 0, most = l->blocks - 1;
	while (least < most) {
		uint64_t middle = (least + most) / 2;
		if (l->ends[middle] > offset)
			most = middle;
		else
			least = middle + 1;
	}
	return least;
}

static inline uint64_t sim_block_begin(const struct sim_ledger *l, uint64_t block)
{
	return !l->ends ? block * l->stride : block > 0 ? l->ends[block - 1] : 0;
}

/* Position of the chunk that begins at offset of the buffer of all blocks. */
static inline uint64_t sim_position(const struct sim_ledger *l, uint64_t offset)
{
	if (l->ends) {
		uint64_t uneven = sim_uneven_block(l, offset);
		return uneven * l->of_block + sim_quotient(offset - sim_block_begin(l, uneven), l->chunk, l->per_chunk);
	}
	uint64_t block = sim_quotient(offset, l->stride, l->per_stride);
	return block * l->of_block + sim_quotient(offset - block * l->stride, l->chunk, l->per_chunk);
}

/* Each rank ends with its own block. */
static inline bool sim_scatters(uint32_t func)
{
	return func == MRW_FUNC_REDUCE_SCATTER || func == MRW_FUNC_REDUCE_SCATTER_V;
}

/* Bytes of the chunk at position; 0: there is none. */
uint64_t sim_chunk_bytes(const struct sim_ledger *l, uint64_t position);
/* a: the call, with bytes, share_bytes, func and chunk_bytes. parts: blocks are so many parts of the buffer, 1: all of it, 2: those of trees; 0:
 * blocks are ranks'. packets: pieces are units. False: no memory. */
bool sim_ledger_open(struct sim_ledger *l, const struct mrw_args *a, uint32_t parts, bool packets, bool on);
void sim_ledger_close(struct sim_ledger *l);

#endif
