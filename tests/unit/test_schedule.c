/* test_schedule.c - shares, units, chunks and rounds cover every buffer exactly once, for 1 to 64 ranks and odd sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collectives/schedule.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const uint64_t sizes[] = {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 255, 256, 257, 511, 512, 513, 1000, 1023, 1025, 4095, 4096,
				 4097, 65535, 65536, 65537, 99991};
static const uint64_t huge[] = {1ull << 32, (1ull << 32) + 1, (1ull << 40) - 1, (1ull << 62) + 12345, INT64_MAX};

static void check_shares(uint32_t func, uint64_t bytes, uint32_t n)
{
	uint64_t end = 0, last = UINT64_MAX;
	for (uint32_t r = 0; r < n; r++) {
		struct mrw_span s = mrw_block(func, bytes, n, r);
		assert_int_equal(s.offset, end);
		assert_true(s.bytes <= last);
		/* whole quanta, but for the buffer's tail */
		assert_true(s.offset % MRW_QUANTUM_BYTES == 0 || s.offset == bytes);
		assert_true(s.bytes % MRW_QUANTUM_BYTES == 0 || s.offset + s.bytes == bytes);
		end = s.offset + s.bytes;
		last = s.bytes;
	}
	assert_int_equal(end, bytes);
	/* the largest is no larger than needed */
	assert_true(mrw_block(func, bytes, n, 0).bytes <= bytes / n + MRW_QUANTUM_BYTES);
}

static void shares_cover_the_buffer(void **state)
{
	(void)state;
	for (uint32_t n = 1; n <= 64; n++) {
		for (size_t i = 0; i < COUNT(sizes); i++) {
			check_shares(MRW_FUNC_ALL_REDUCE, sizes[i], n);
			check_shares(MRW_FUNC_BROADCAST, sizes[i], n);
			check_shares(MRW_FUNC_REDUCE, sizes[i], n);
		}
		for (size_t i = 0; i < COUNT(huge); i++)
			check_shares(MRW_FUNC_ALL_REDUCE, huge[i], n);
	}
}

static void blocks_are_equal(void **state)
{
	(void)state;
	static const uint32_t funcs[] = {MRW_FUNC_ALL_GATHER, MRW_FUNC_REDUCE_SCATTER};
	for (uint32_t n = 1; n <= 64; n++)
		for (size_t i = 0; i < COUNT(sizes); i++)
			for (size_t f = 0; f < COUNT(funcs); f++)
				for (uint32_t r = 0; r < n; r++) {
					struct mrw_span s = mrw_block(funcs[f], sizes[i], n, r);
					assert_int_equal(s.offset, r * sizes[i]);
					assert_int_equal(s.bytes, sizes[i]);
				}
}

/* Blocks of any size adjoin; units and chunks planned on the largest cover each. */
static void uneven_blocks_adjoin(void **state)
{
	struct mrw_args a;
	uint64_t end = 0;
	(void)state;
	memset(&a, 0, sizeof a);
	a.nranks = MRW_MAX_RANKS;
	a.uneven = 1;
	for (uint32_t r = 0; r < MRW_MAX_RANKS; r++) {
		uint64_t bytes = sizes[r * 7 % COUNT(sizes)];
		a.ends[r] = end += bytes;
		a.bytes = bytes > a.bytes ? bytes : a.bytes;
	}
	assert_int_equal(mrw_largest_block(&a), a.bytes);
	end = 0;
	for (uint32_t r = 0; r < MRW_MAX_RANKS; r++) {
		struct mrw_span s = mrw_block_at(&a, r);
		assert_int_equal(s.offset, end);
		assert_int_equal(s.bytes, sizes[r * 7 % COUNT(sizes)]);
		end = s.offset + s.bytes;
	}
	a.uneven = 0;
	a.share_bytes = mrw_share_bytes(a.bytes, a.nranks);
	for (uint32_t r = 0; r < MRW_MAX_RANKS; r++) {
		struct mrw_span s = mrw_block_at(&a, r), t = mrw_block(MRW_FUNC_REDUCE, a.bytes, a.nranks, r);
		assert_true(s.offset == t.offset && s.bytes == t.bytes);
	}
	assert_int_equal(mrw_largest_block(&a), a.share_bytes);
}

/* Channels' ranges, planned on the largest block of a call, cover a block of any length up to it. */
static void check_units(uint64_t largest, uint64_t bytes, uint32_t channels)
{
	uint64_t per = mrw_units_per_channel(largest, channels), units = (bytes + MRW_UNIT_BYTES - 1) / MRW_UNIT_BYTES, end = 0;
	for (uint32_t c = 0; c < channels; c++) {
		uint64_t first = c * per, count = mrw_units_in(bytes, first, per);
		assert_true(count <= per);
		if (count > 0) {
			assert_int_equal(first, end);
			end = first + count;
		}
	}
	assert_int_equal(end, units);
}

static void units_cover_every_block(void **state)
{
	(void)state;
	for (uint32_t channels = 1; channels <= 64; channels++)
		for (size_t i = 0; i < COUNT(sizes); i++) {
			check_units(sizes[i], sizes[i], channels);
			for (uint32_t n = 1; n <= 64; n += n < 8 ? 1 : 7) {
				uint64_t largest = mrw_block(MRW_FUNC_ALL_REDUCE, sizes[i], n, 0).bytes;
				for (uint32_t r = 0; r < n; r++)
					check_units(largest, mrw_block(MRW_FUNC_ALL_REDUCE, sizes[i], n, r).bytes, channels);
			}
		}
}

/* Walks the chunks as the bulk bodies do: the same number on every rank, empty ones where the block is short. */
static void check_chunks(uint64_t largest, uint64_t bytes, uint32_t chunk_bytes, uint32_t channels)
{
	static uint8_t seen[1 << 17];
	uint64_t most = 0;
	memset(seen, 0, bytes);
	for (uint32_t c = 0; c < channels; c++) {
		uint64_t chunks = mrw_chunks(largest, chunk_bytes, channels, c);
		assert_true(c == 0 || chunks <= most);
		assert_true(c == 0 || chunks + 1 >= most);
		most = c == 0 ? chunks : most;
		for (uint64_t i = 0; i < chunks; i++) {
			struct mrw_chunk chunk = mrw_chunk(bytes, chunk_bytes, channels, c, i);
			assert_true(chunk.bytes <= chunk_bytes);
			assert_true(chunk.offset + chunk.bytes <= bytes);
			assert_true(chunk.bytes == 0 || chunk.offset % chunk_bytes == 0);
			for (uint32_t b = 0; b < chunk.bytes; b++)
				assert_int_equal(seen[chunk.offset + b]++, 0);
		}
	}
	assert_null(memchr(seen, 0, bytes));
}

static void chunks_cover_every_block(void **state)
{
	(void)state;
	static const uint32_t chunk_sizes[] = {512, 1024, 43520}, channel_counts[] = {1, 2, 3, 4, 7, 64}, ranks[] = {1, 2, 3, 16, 64};
	for (size_t k = 0; k < COUNT(chunk_sizes); k++)
		for (size_t c = 0; c < COUNT(channel_counts); c++)
			for (size_t i = 0; i < COUNT(sizes); i++)
				for (size_t j = 0; j < COUNT(ranks); j++) {
					uint32_t n = ranks[j];
					uint64_t largest = mrw_block(MRW_FUNC_BROADCAST, sizes[i], n, 0).bytes;
					for (uint32_t r = 0; r < n; r += n < 8 ? 1 : 15)
						check_chunks(largest, mrw_block(MRW_FUNC_BROADCAST, sizes[i], n, r).bytes, chunk_sizes[k],
							     channel_counts[c]);
				}
}

/* A chunk index past the end, as drained rounds see it, is empty and inside the buffer; offsets do not overflow. */
static void chunks_past_the_end_are_empty(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(huge); i++) {
		uint64_t chunks = mrw_chunks(huge[i], 65536, 64, 63);
		struct mrw_chunk last = mrw_chunk(huge[i], 65536, 64, 63, chunks - 1), past = mrw_chunk(huge[i], 65536, 64, 63, chunks);
		assert_true(last.bytes > 0 && last.offset + last.bytes <= huge[i]);
		assert_int_equal(past.bytes, 0);
		assert_int_equal(past.offset, huge[i]);
	}
}

static void exchanges_and_rounds(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= 64; n++) {
		assert_int_equal(mrw_exchanges(MRW_FUNC_ALL_REDUCE, n), 2);
		assert_int_equal(mrw_exchanges(MRW_FUNC_BROADCAST, n), n > 2 ? 2 : 1);
		assert_int_equal(mrw_exchanges(MRW_FUNC_ALL_GATHER, n), 1);
		assert_int_equal(mrw_exchanges(MRW_FUNC_REDUCE_SCATTER, n), 1);
		assert_int_equal(mrw_exchanges(MRW_FUNC_REDUCE_SCATTER_V, n), 1);
		assert_int_equal(mrw_exchanges(MRW_FUNC_REDUCE, n), n > 2 ? 2 : 1);
	}
	for (uint32_t lag = 1; lag <= MRW_MAX_LAG; lag++)
		for (uint32_t exchanges = 1; exchanges <= 2; exchanges++)
			for (uint64_t chunks = 0; chunks < 10; chunks++) {
				uint64_t rounds = mrw_rounds(chunks, exchanges, lag);
				assert_true(rounds > 0); /* nobody is silent */
				/* the last chunk's last exchange is read in the last round */
				assert_int_equal(rounds, chunks + (uint64_t)exchanges * lag);
			}
}

/* Every byte of a transfer goes by one lane, in its order; both ends compute the same. */
static void check_transfer(const struct mrw_layout *l, uint64_t number, uint64_t bytes)
{
	uint32_t size = mrw_transfer_chunk_bytes(l, bytes);
	uint64_t covered = 0, most = 0, least_chunks = UINT64_MAX;
	assert_in_range(size, 1, l->lane_chunk_bytes);
	assert_int_equal(size % 16, 0);
	assert_int_equal(mrw_transfer_first(l, number, (uint32_t)number & (l->lanes - 1)), 0); /* its home */
	for (uint32_t lane = 0; lane < l->lanes; lane++) {
		uint64_t chunks = mrw_transfer_chunks(l, number, lane, bytes);
		uint32_t first = mrw_transfer_first(l, number, lane);
		assert_true(first < l->lanes);
		assert_int_equal((first + number) & (l->lanes - 1), lane);
		if (chunks > 0) {
			uint64_t last = (first + ((chunks - 1) << l->lane_shift)) * size; /* the lane's last chunk begins within it, the next does not */
			assert_true(last < bytes);
			assert_true(bytes - last <= size || last + ((uint64_t)size << l->lane_shift) >= bytes);
		}
		for (uint64_t c = 0; c < chunks && chunks < 1000; c++) {
			uint64_t offset = (first + (c << l->lane_shift)) * size;
			covered += bytes - offset < size ? bytes - offset : size;
		}
		most = chunks > most ? chunks : most;
		least_chunks = chunks < least_chunks ? chunks : least_chunks;
	}
	if (most < 1000)
		assert_int_equal(covered, bytes);
	assert_true(most - least_chunks <= 1);
}

static void transfers_are_covered_by_lanes(void **state)
{
	(void)state;
	static const uint64_t numbers[] = {0, 1, 2, 3, 31, 32, 33, (1ull << 32) - 1, 1ull << 32, UINT64_MAX};
	static const uint64_t more[] = {1 << 20, (1 << 20) + 1, 3000001, 48 << 10, (48 << 10) + 1, (1 << 26) - 3};
	for (uint32_t n = 2; n <= MRW_MAX_NEAR; n++)
		for (uint32_t channels = 1; channels <= 64; channels += channels < 4 ? 1 : 12) {
			struct mrw_layout l = mrw_layout_make(n, channels, MRW_STAGING_BUDGET);
			for (size_t k = 0; k < COUNT(numbers); k++) {
				for (size_t i = 0; i < COUNT(sizes); i++)
					check_transfer(&l, numbers[k], sizes[i]);
				for (size_t i = 0; i < COUNT(more); i++)
					check_transfer(&l, numbers[k], more[i]);
				for (size_t i = 0; i < COUNT(huge); i++)
					check_transfer(&l, numbers[k], huge[i]);
			}
			assert_true(mrw_transfer_small(&l, false) <= mrw_transfer_small(&l, true));
			assert_true(mrw_transfer_small(&l, true) <= l.lane_units * MRW_UNIT_BYTES);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_cover_the_buffer),
		cmocka_unit_test(blocks_are_equal),
		cmocka_unit_test(uneven_blocks_adjoin),
		cmocka_unit_test(units_cover_every_block),
		cmocka_unit_test(chunks_cover_every_block),
		cmocka_unit_test(chunks_past_the_end_are_empty),
		cmocka_unit_test(exchanges_and_rounds),
		cmocka_unit_test(transfers_are_covered_by_lanes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
