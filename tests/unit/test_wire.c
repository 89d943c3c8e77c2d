/* test_wire.c - the arena's layout for every number of ranks and channels: nothing overlaps, nothing exceeds the budget. Argument: ARCHITECTURE.md,
 * whose table of one host's arenas is compared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/page.h"

enum { GRAIN = 256 }; /* every region is a whole number of grains */

static const uint32_t channel_counts[] = {1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 32, 33, 48, 63, 64};
static const uint64_t budgets[] = {MRW_STAGING_BUDGET, MRW_HOST_STAGING_BUDGET};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static uint8_t taken[(32u << 20) / GRAIN];

static void take(const struct mrw_layout *l, uint64_t offset, uint64_t bytes)
{
	assert_int_equal(offset % GRAIN, 0);
	assert_int_equal(bytes % GRAIN, 0);
	assert_true(bytes > 0 && offset + bytes <= l->bytes);
	for (uint64_t i = offset / GRAIN; i < (offset + bytes) / GRAIN; i++) {
		assert_int_equal(taken[i], 0);
		taken[i] = 1;
	}
}

/* Every region that somebody may write in an arena, taken once. */
static void take_all(const struct mrw_layout *l)
{
	uint8_t *arena = (uint8_t *)(uintptr_t)(1u << 30); /* an address to count from */
	memset(taken, 0, l->bytes / GRAIN);
	take(l, 0, l->packets_offset[0] < l->near_packets_offset[0] ? l->packets_offset[0] : l->near_packets_offset[0]);
	for (uint32_t c = 0; c < l->channels; c++)
		for (uint32_t slot = 0; slot < l->slots; slot++) {
			for (uint32_t f = 0; f < l->packet_formats; f++)
				for (uint32_t parity = 0; parity < 2; parity++)
					take(l, mrw_packets_offset(l, f, c, slot, parity), l->units * sizeof(struct mrw_packet));
			for (uint32_t parity = 0; parity < 2 && l->lines > 0; parity++)
				take(l, (uint64_t)(mrw_line_at(l, arena, c, slot, parity, 0) - arena), l->lines * MRW_LINE_BYTES);
			for (uint32_t f = 0; f < MRW_FORMATS; f++)
				for (uint64_t round = 0; round < MRW_ROUND_SLOTS; round++)
					take(l, mrw_staging_offset(l, f, c, slot, round), (slot < l->near_slots ? l->cells : 1) * l->chunk_bytes);
		}
	for (uint32_t k = 0; k < l->lanes; k++)
		for (uint32_t slot = 0; slot < l->lane_slots; slot++) {
			for (uint32_t way = 0; way < MRW_WAYS; way++)
				take(l, mrw_lane_offset(l, (enum mrw_way)way, k, slot), sizeof(struct mrw_lane));
			for (uint32_t parity = 0; parity < 2; parity++)
				take(l, mrw_lane_packets_offset(l, k, slot, parity), l->lane_units * sizeof(struct mrw_packet));
			for (uint64_t chunk = 0; chunk < MRW_LANE_SLOTS; chunk++)
				take(l, mrw_lane_chunk_offset(l, k, slot, chunk), l->lane_chunk_bytes);
		}
}

/* Words that peers write, each once; in front of packets and staging. */
static void take_words(const struct mrw_layout *l)
{
	static uint8_t seen[128 << 10];
	uint64_t end = l->packets_offset[0] < l->near_packets_offset[0] ? l->packets_offset[0] : l->near_packets_offset[0];
	assert_true(end <= sizeof seen);
	memset(seen, 0, sizeof seen);
	memset(seen, 1, sizeof(struct mrw_control));
	for (uint32_t slot = 0; slot < l->slots; slot++) {
		for (uint32_t parity = 0; parity < 2; parity++)
			for (uint64_t i = 0, at = mrw_heard_offset(l, slot, parity); i < sizeof(struct mrw_greeting); i++)
				assert_int_equal(seen[at + i]++, 0);
		for (uint64_t i = 0; i < 8; i++)
			assert_int_equal(seen[mrw_stuck_offset(l, slot) + i]++, 0);
		for (uint32_t c = 0; c < l->channels; c++) {
			uint64_t at = mrw_round_offset(l, c, slot);
			assert_int_equal(at % 8, 0);
			for (uint64_t i = 0; i < 8; i++)
				assert_int_equal(seen[at + i]++, 0);
			/* no line with another channel's */
			assert_true(c == 0 || at / 128 > mrw_round_offset(l, c - 1, l->slots - 1) / 128);
			assert_true(at + 8 <= end);
		}
		assert_int_equal(mrw_heard_offset(l, slot, 0) % 32, 0);
	}
	for (uint32_t slot = 0; slot < l->lane_slots; slot++)
		for (uint32_t c = 0; c < MRW_MAX_NICS; c++)
			for (uint64_t i = 0; i < 8; i++)
				assert_int_equal(seen[mrw_proof_offset(l, c, slot) + i]++, 0);
}

static void regions_are_disjoint(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= MRW_MAX_NEAR; n++)
		for (size_t i = 0; i < COUNT(channel_counts); i++)
			for (size_t b = 0; b < COUNT(budgets); b++) {
				struct mrw_layout l = mrw_layout_make(n, channel_counts[i], budgets[b]);
				take_all(&l);
				take_words(&l);
			}
}

static void lanes_fit(const struct mrw_layout *l)
{
	assert_int_equal(l->lane_slots, l->nranks - 1);
	assert_true(l->lane_slots >= l->slots);
	assert_int_equal(l->lanes, 1u << l->lane_shift);
	assert_in_range(l->lanes, 1, MRW_MAX_LANES);
	assert_true(l->lanes == 1 || 2 * l->lane_slots * l->lanes <= 64); /* a launch on GPUs keeps them as bits of a word */
	assert_true(l->lanes == 1 || 2 * l->lane_slots * l->lanes <= l->channels);
	assert_true(MRW_LANE_SLOTS * l->lane_chunk_bytes >= MRW_MAX_NICS * 4096); /* paths are proved there */
	assert_in_range(l->lane_units, 32, MRW_MAX_LANE_UNITS);
	assert_in_range(l->lane_chunk_bytes, 4096, l->outbox ? MRW_MAX_FAR_CHUNK_BYTES : MRW_MAX_CHUNK_BYTES);
	assert_int_equal(l->lane_chunk_bytes % 4096, 0);
	assert_int_equal(l->lanes_offset % 128, 0);
	assert_int_equal(l->lane_packets_offset % sizeof(struct mrw_packet), 0);
	assert_int_equal(l->lane_staging_offset % 16, 0);
}

/* Hosts and ranks on each, as rails are made for. */
static const uint32_t shapes[][2] = {{2, 2}, {2, 8}, {2, 16}, {3, 2}, {4, 4}, {4, 16}, {8, 2}, {8, 8}, {16, 4}, {32, 2}};

static void rails_are_disjoint(void **state)
{
	(void)state;
	for (size_t k = 0; k < COUNT(shapes); k++)
		for (uint32_t channels = 1; channels <= 8; channels++)
			for (size_t b = 0; b < COUNT(budgets); b++) {
				uint32_t hosts = shapes[k][0], per_host = shapes[k][1];
				struct mrw_layout l = mrw_layout_rails(hosts, per_host, channels, budgets[b]);
				assert_int_equal(l.slots, per_host - 1 + hosts - 1);
				assert_int_equal(l.near_slots, per_host - 1);
				assert_int_equal(l.cells, hosts);
				take_all(&l);
				take_words(&l);
				/* what goes out has the shape of what comes in along the rail, and lies behind it */
				uint64_t inbox_end = mrw_lane_chunk_offset(&l, l.lanes - 1, l.lane_slots - 1, 1) + l.lane_chunk_bytes;
				lanes_fit(&l);
				assert_true(l.packets_offset[0] + l.outbox >= inbox_end);
				assert_true(inbox_end + l.outbox <= l.notes_offset);
				assert_true(l.bytes <= MRW_ARENA_MOST);
			}
}

/* In trees: a format for each, also for two ranks. */
static void trees_are_disjoint(void **state)
{
	(void)state;
	for (uint32_t peers = 1; peers <= MRW_TREE_PEERS; peers++)
		for (uint32_t channels = 1; channels <= 64; channels = channels < 4 ? channels + 1 : channels * 4)
			for (size_t b = 0; b < COUNT(budgets); b++) {
				struct mrw_layout l = mrw_layout_tree(peers > 1 ? MRW_MAX_RANKS : 2, peers, channels, budgets[b]);
				assert_int_equal(l.slots, peers);
				assert_int_equal(l.packet_formats, MRW_FORMATS);
				assert_true(l.tree && l.near_slots == 0 && l.units >= 32 && l.chunk_bytes >= 512);
				take_all(&l);
				take_words(&l);
				uint64_t inbox_end = mrw_lane_chunk_offset(&l, l.lanes - 1, l.slots - 1, 1) + l.lane_chunk_bytes;
				lanes_fit(&l);
				assert_true(l.packets_offset[0] + l.outbox >= inbox_end && inbox_end + l.outbox <= l.notes_offset);
				assert_true(l.bytes <= MRW_ARENA_MOST);
			}
}

static void sizes_fit(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= MRW_MAX_NEAR; n++)
		for (uint32_t c = 1; c <= MRW_MAX_CHANNELS; c++)
			for (size_t b = 0; b < COUNT(budgets); b++) {
				struct mrw_layout l = mrw_layout_make(n, c, budgets[b]);
				assert_int_equal(l.nranks, n);
				assert_int_equal(l.channels, c);
				assert_in_range(l.units, 32, MRW_MAX_UNITS);
				assert_in_range(l.chunk_bytes, 512, MRW_MAX_CHUNK_BYTES);
				assert_in_range(l.lines, 4, MRW_MAX_LINES);
				assert_int_equal(l.lines_offset % MRW_LINE_BYTES, 0);
				assert_int_equal(l.bytes % 4096, 0);
				assert_true(l.bytes <= MRW_ARENA_MOST);
				assert_true(l.packets_offset[0] >= l.rounds_offset + 8ull * c * l.counters);
				assert_true(l.staging_offset[0] >= l.packets_offset[1]);
				assert_int_equal(l.packets_offset[0] % sizeof(struct mrw_packet), 0);
				lanes_fit(&l);
			}
}

/* Several hosts: lanes have what is left, to a page a chunk, unless their chunks are as large as may be. */
static void lanes_fill_the_arena(const struct mrw_layout *l)
{
	uint64_t page_each = (uint64_t)2 * l->lanes * l->lane_slots * MRW_LANE_SLOTS * 4096, rounding = 8 * 4096;
	lanes_fit(l);
	assert_true(l->bytes <= MRW_ARENA_MOST);
	assert_true(l->lane_chunk_bytes == MRW_MAX_FAR_CHUNK_BYTES || l->bytes + page_each + rounding > MRW_ARENA_MOST);
}

static void lanes_take_what_is_left(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= MRW_MAX_RANKS; n++)
		for (uint32_t c = 1; c <= (n > MRW_MAX_NEAR ? 8 : MRW_MAX_CHANNELS); c++)
			for (size_t b = 0; b < COUNT(budgets); b++) {
				struct mrw_layout all = mrw_layout_spanning(n, c, budgets[b]), ring = mrw_layout_ring(n, c, budgets[b]);
				lanes_fill_the_arena(&all);
				lanes_fill_the_arena(&ring);
				for (uint32_t peers = 1; peers <= MRW_TREE_PEERS && peers < n; peers++) {
					struct mrw_layout tree = mrw_layout_tree(n, peers, c, budgets[b]);
					lanes_fill_the_arena(&tree);
				}
			}
	/* 16 ranks, 64 channels, as on GPUs: two lanes a pair. */
	struct mrw_layout l = mrw_layout_spanning(16, 64, MRW_STAGING_BUDGET);
	assert_int_equal(l.lanes, 2);
	assert_in_range(l.lane_chunk_bytes, 72 << 10, 128 << 10);
}

/* Several hosts: inbox and outbox of one shape, notes behind them, all within the same 32 MiB. */
static void the_outbox_has_the_shape_of_the_inbox(void **state)
{
	static uint8_t arena[32 << 20];
	(void)state;
	for (uint32_t n = 2; n <= MRW_MAX_RANKS; n++)
		for (uint32_t c = 1; c <= (n > MRW_MAX_NEAR ? 8 : MRW_MAX_CHANNELS); c++)
			for (size_t b = 0; b < COUNT(budgets); b++) {
				struct mrw_layout l = mrw_layout_spanning(n, c, budgets[b]);
				uint64_t inbox_end = mrw_lane_chunk_offset(&l, l.lanes - 1, n - 2, 1) + l.lane_chunk_bytes;
				lanes_fit(&l);
				assert_in_range(l.units, 16, MRW_MAX_UNITS);
				assert_in_range(l.chunk_bytes, 512, MRW_MAX_CHUNK_BYTES);
				assert_true(l.packets_offset[0] + l.outbox >= inbox_end);
				assert_true(inbox_end + l.outbox <= l.notes_offset);
				assert_int_equal((l.packets_offset[0] + l.outbox) % sizeof(struct mrw_packet), 0);
				assert_true(l.bytes <= MRW_ARENA_MOST);
				const uint8_t *last = (const uint8_t *)mrw_posted_at(&l, arena, MRW_POSTED_ROUND, c - 1, 1, n - 2);
				const uint8_t *first = (const uint8_t *)mrw_posted_at(&l, arena, MRW_POSTED_OPERATION, 0, 0, 0);
				const uint8_t *note = (const uint8_t *)mrw_note_at(&l, arena, 1, c - 1, 1, n - 2);
				assert_true(note + 4 <= first);
				assert_int_equal((size_t)(first - arena) % 8, 0);
				assert_true((uint64_t)(last - arena) + 8 <= l.bytes);
			}
}

/* Channels of a call may be fewer than the layout's: then they lie where they always lie. */
static void places_do_not_depend_on_the_call(void **state)
{
	(void)state;
	struct mrw_layout l = mrw_layout_make(4, 8, MRW_STAGING_BUDGET);
	uint64_t per_writer = (uint64_t)MRW_ROUND_SLOTS * l.chunk_bytes;
	for (uint32_t c = 0; c < 8; c++)
		for (uint32_t w = 0; w < 3; w++) {
			assert_int_equal(mrw_staging_offset(&l, 0, c, w, 0), l.staging_offset[0] + (c * 3 + w) * per_writer);
			assert_int_equal(mrw_staging_offset(&l, 1, c, w, 1), l.staging_offset[1] + (c * 3 + w) * per_writer + l.chunk_bytes);
		}
}

static void rounds_take_turns_in_slots(void **state)
{
	(void)state;
	struct mrw_layout l = mrw_layout_make(3, 2, MRW_HOST_STAGING_BUDGET);
	static const uint64_t starts[] = {0, 1, 1000003, UINT64_MAX - 9}; /* the counter may wrap */
	assert_int_equal(MRW_ROUND_SLOTS, 2 * MRW_MAX_LAG);
	for (size_t i = 0; i < COUNT(starts); i++)
		for (uint64_t k = 0; k < 20; k++)
			for (uint64_t d = 1; d <= MRW_ROUND_SLOTS; d++) {
				uint64_t round = starts[i] + k;
				bool same = mrw_staging_offset(&l, 0, 1, 1, round) == mrw_staging_offset(&l, 0, 1, 1, round + d);
				assert_int_equal(same, d == MRW_ROUND_SLOTS);
			}
}

static void writers_have_slots_of_their_own(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= MRW_MAX_RANKS; n++)
		for (uint32_t owner = 0; owner < n; owner++) {
			uint32_t next = 0; /* in rank order, without a gap */
			for (uint32_t w = 0; w < n; w++)
				if (w != owner)
					assert_int_equal(mrw_writer_slot(owner, w), next++);
		}
}

/* Words of the control block that different ranks or formats write, as bytes. */
static void control_words_are_disjoint(void **state)
{
	(void)state;
	static struct mrw_control c;
	const struct {
		const void *at;
		size_t bytes, alignment;
	} parts[] = {
		{&c.poison, sizeof c.poison, 8},   {&c.fault_claim, sizeof c.fault_claim, 8}, {&c.note_claim, sizeof c.note_claim, 8},
		{c.channel, sizeof c.channel, 16}, {c.said, sizeof c.said, 32},
	};
	size_t end = 0;
	for (size_t i = 0; i < COUNT(parts); i++) {
		size_t at = (size_t)((const uint8_t *)parts[i].at - (const uint8_t *)&c);
		assert_true(at >= end);
		assert_int_equal(at % parts[i].alignment, 0);
		end = at + parts[i].bytes;
	}
	assert_true(end <= sizeof c);
}

static void causes_keep_their_parts(void **state)
{
	(void)state;
	static const uint32_t ranks[] = {0, 1, 15, 0xfffe, 0xffff};
	for (uint32_t kind = MRW_FAULT_TIMEOUT; kind <= MRW_FAULT_PROOF; kind++)
		for (size_t i = 0; i < COUNT(ranks); i++)
			for (size_t k = 0; k < COUNT(ranks); k++)
				for (uint32_t shift = 0; shift < 32; shift++) {
					uint64_t cause = mrw_cause((enum mrw_fault_kind)kind, ranks[i], ranks[k], 0xffffffffu << shift);
					assert_true(cause != 0);
					assert_int_equal(mrw_cause_kind(cause), kind);
					assert_int_equal(mrw_cause_culprit(cause), ranks[i]);
					assert_int_equal(mrw_cause_origin(cause), ranks[k]);
					assert_int_equal(cause >> 40, 0xffffffffu << shift & 0xffffff);
				}
}

static const char *document;

/* One host's arena on GPUs, as the document has it. */
static void describe(uint32_t n, char *text, size_t bytes)
{
	struct mrw_layout l = mrw_layout_make(n, MRW_MAX_CHANNELS, MRW_STAGING_BUDGET);
	const double KiB = 1024, MiB = 1024 * 1024;
	uint64_t places = (uint64_t)l.channels * l.slots;
	snprintf(text, bytes, "| %u | %.1f | %.1f | %.1f | %.1f | %.1f | %.0f | %.0f | %.1f | %u, %u |\n", n,
		 (double)(places * 2 * l.packet_formats * l.units * sizeof(struct mrw_packet)) / MiB, (double)(places * 2 * l.lines * MRW_LINE_BYTES) / MiB,
		 (double)(places * MRW_FORMATS * MRW_ROUND_SLOTS * l.chunk_bytes) / MiB, (double)(l.bytes - l.lanes_offset) / MiB, (double)l.bytes / MiB,
		 (double)((uint64_t)l.channels * l.units * MRW_UNIT_BYTES) / KiB,
		 (double)((uint64_t)l.channels * l.lines * MRW_LINE_UNITS * MRW_UNIT_BYTES) / KiB, (double)l.chunk_bytes / KiB, l.lanes, l.lane_chunk_bytes >> 10);
}

static void the_document_tells_the_truth(void **state)
{
	char line[512], want[512];
	uint32_t n = 0;
	(void)state;
	if (!document)
		skip();
	FILE *f = fopen(document, "r");
	assert_non_null(f);
	while (n <= MRW_MAX_NEAR && fgets(line, sizeof line, f)) {
		if (n == 0) {
			n = strncmp(line, "| n | packets | lines |", 23) == 0 ? 1 : 0; /* a line of dashes follows */
			continue;
		}
		if (n > 1) {
			describe(n, want, sizeof want);
			assert_string_equal(line, want);
		}
		n++;
	}
	/* The table ends there. */
	assert_int_equal(n, MRW_MAX_NEAR + 1);
	assert_true(fgets(line, sizeof line, f) && line[0] == '\n');
	fclose(f);
}

int main(int argc, char **v)
{
	document = argc > 1 ? v[1] : NULL;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(regions_are_disjoint),
		cmocka_unit_test(rails_are_disjoint),
		cmocka_unit_test(trees_are_disjoint),
		cmocka_unit_test(sizes_fit),
		cmocka_unit_test(lanes_take_what_is_left),
		cmocka_unit_test(the_outbox_has_the_shape_of_the_inbox),
		cmocka_unit_test(places_do_not_depend_on_the_call),
		cmocka_unit_test(rounds_take_turns_in_slots),
		cmocka_unit_test(writers_have_slots_of_their_own),
		cmocka_unit_test(control_words_are_disjoint),
		cmocka_unit_test(causes_keep_their_parts),
		cmocka_unit_test(the_document_tells_the_truth),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
