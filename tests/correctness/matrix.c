/* matrix.c - every function by every algorithm at every edge, bits checked.
 *
 * matrix [--target host|cuda] [--all] [--ranks LIST] [--types LIST] [--timeout-ms N] [--algo NAME]
 *
 * A row fixes all factors below; by default rows are drawn from the seed so that any two levels of any two factors meet, for
 * each algorithm and for reductions and pure moves apart (a cover). --all: the whole product (hours), but for the factors that
 * are local to a rank, which are drawn. LIST: 2,3,8 or f32,i8. Each row is run twice, for both parities of the packets. */
#include "support/call.h"
#include "support/device_memory.h"

#include "collectives/schedule.h"
#include "comm.h"

#include <stdio.h>
#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Where the edges are. N: ranks; C: the row's channels (1 where the library chooses). */
enum base {
	BASE_ELEMENT,
	BASE_UNIT,
	BASE_VECTOR,
	BASE_QUANTA,        /* one 16-byte quantum a share */
	BASE_UNIT_EACH,     /* one unit a share and channel */
	BASE_ROUNDING,      /* 512 bytes a channel: chunks are a multiple of it */
	BASE_CHOICE_LOW,    /* where the host target's choice changes */
	BASE_CHOICE_MIDDLE,
	BASE_CHOICE_HIGH,
	BASE_PACKETS,       /* packets of one channel full */
	BASE_PACKETS_ALL,   /* of all C */
	BASE_SHARES_ALL,    /* of all C with a share each */
	BASE_LINE,
	BASE_LINE_EACH,     /* one line a channel */
	BASE_LINES,         /* lines of one channel full */
	BASE_LINES_ALL,     /* of all C */
	BASE_CHUNK,
	BASE_CHUNK_EACH,    /* one chunk a channel */
	BASE_SHARE_CHUNK,   /* one chunk a share */
	BASE_SHARE_CHUNKS,  /* one a share and channel */
	BASE_ROUNDS,        /* several rounds */
	BASES
};

/* Rows of one kind. */
struct cover {
	const char *name;
	int32_t algo;
	uint32_t funcs[4], nfuncs;
	uint32_t min_ranks;
	uint32_t bases[BASES], nbases;
};

static const struct cover covers[] = {
	{"reductions, one-shot", MRW_ALGO_ONESHOT, {MRW_FUNC_ALL_REDUCE, MRW_FUNC_REDUCE_SCATTER, MRW_FUNC_REDUCE, MRW_FUNC_REDUCE_SCATTER_V}, 4, 2,
	 {BASE_ELEMENT, BASE_UNIT, BASE_VECTOR, BASE_UNIT_EACH, BASE_ROUNDING, BASE_PACKETS, BASE_PACKETS_ALL}, 7},
	{"reductions, lines", MRW_ALGO_LINES, {MRW_FUNC_ALL_REDUCE}, 1, 2,
	 {BASE_ELEMENT, BASE_UNIT, BASE_LINE, BASE_LINE_EACH, BASE_LINES, BASE_LINES_ALL}, 6},
	{"reductions, two-shot", MRW_ALGO_TWOSHOT, {MRW_FUNC_ALL_REDUCE}, 1, 3,
	 {BASE_ELEMENT, BASE_UNIT, BASE_VECTOR, BASE_QUANTA, BASE_UNIT_EACH, BASE_PACKETS, BASE_PACKETS_ALL, BASE_SHARES_ALL}, 8},
	{"reductions, bulk", MRW_ALGO_BULK, {MRW_FUNC_ALL_REDUCE, MRW_FUNC_REDUCE_SCATTER, MRW_FUNC_REDUCE, MRW_FUNC_REDUCE_SCATTER_V}, 4, 2,
	 {BASE_ELEMENT, BASE_UNIT, BASE_VECTOR, BASE_QUANTA, BASE_ROUNDING, BASE_CHUNK, BASE_CHUNK_EACH, BASE_SHARE_CHUNK,
	  BASE_SHARE_CHUNKS, BASE_ROUNDS}, 10},
	{"reductions, chosen", -1, {MRW_FUNC_ALL_REDUCE, MRW_FUNC_REDUCE_SCATTER, MRW_FUNC_REDUCE, MRW_FUNC_REDUCE_SCATTER_V}, 4, 1,
	 {BASE_ELEMENT, BASE_VECTOR, BASE_CHOICE_LOW, BASE_CHOICE_MIDDLE, BASE_CHOICE_HIGH, BASE_PACKETS_ALL, BASE_ROUNDS}, 7},
	{"moves, one-shot", MRW_ALGO_ONESHOT, {MRW_FUNC_BROADCAST, MRW_FUNC_ALL_GATHER}, 2, 2,
	 {BASE_ELEMENT, BASE_UNIT, BASE_VECTOR, BASE_UNIT_EACH, BASE_PACKETS, BASE_PACKETS_ALL}, 6},
	{"moves, bulk", MRW_ALGO_BULK, {MRW_FUNC_BROADCAST, MRW_FUNC_ALL_GATHER}, 2, 2,
	 {BASE_ELEMENT, BASE_UNIT, BASE_VECTOR, BASE_QUANTA, BASE_ROUNDING, BASE_CHUNK, BASE_CHUNK_EACH, BASE_SHARE_CHUNK,
	  BASE_SHARE_CHUNKS, BASE_ROUNDS}, 10},
	{"moves, chosen", -1, {MRW_FUNC_BROADCAST, MRW_FUNC_ALL_GATHER}, 2, 1,
	 {BASE_ELEMENT, BASE_CHOICE_LOW, BASE_CHOICE_MIDDLE, BASE_CHOICE_HIGH, BASE_PACKETS_ALL, BASE_ROUNDS}, 6},
	{"barriers", -1, {MRW_FUNC_BARRIER}, 1, 1, {BASE_ELEMENT}, 1},
};

enum factor {
	/* of a world */
	FACTOR_RANKS,
	FACTOR_TEAM,
	FACTOR_SIDE,     /* channels side by side */
	FACTOR_SEQ,
	FACTOR_CAP,      /* channel cap: small or large */
	WORLD_FACTORS,
	/* of a call */
	FACTOR_FUNC = WORLD_FACTORS,
	FACTOR_TYPE,
	FACTOR_OP,
	FACTOR_BASE,
	FACTOR_DELTA,
	FACTOR_CHANNELS,
	/* drawn with --all */
	FACTOR_PLACE,    /* none, all, some in place */
	FACTOR_ALIGN,    /* none, all by an element, all by a byte, mixed */
	FACTOR_ROOT,     /* first, last, any */
	FACTOR_STYLE,
	FACTORS
};

enum { MAX_LEVELS = 16, MAX_ROWS = 4096, CHANNEL_LEVELS = 5 };

struct row {
	uint8_t level[FACTORS];
	uint8_t cover;
};

static struct {
	enum marrow_target target;
	uint32_t ranks[WORLD_MAX_RANKS], nranks;
	enum marrow_type types[REFERENCE_TYPES];
	uint32_t ntypes;
	uint64_t timeout_ms, random;
	const char *algo;  /* of the communicators */
	bool all;
	/* rows of the world that runs */
	struct row *rows;
	size_t count;
	uint64_t done;
} matrix;

static void levels_of(const struct cover *cover, uint32_t levels[FACTORS])
{
	bool host = matrix.target == MARROW_TARGET_HOST;
	bool reduces = cover->funcs[0] == MRW_FUNC_ALL_REDUCE;
	bool moves = cover->funcs[0] == MRW_FUNC_BROADCAST;
	levels[FACTOR_RANKS] = matrix.nranks;
	levels[FACTOR_TEAM] = levels[FACTOR_SIDE] = host ? 2 : 1;
	levels[FACTOR_SEQ] = 3;
	levels[FACTOR_CAP] = 2;
	levels[FACTOR_FUNC] = cover->nfuncs;
	levels[FACTOR_TYPE] = matrix.ntypes;
	levels[FACTOR_OP] = reduces ? 7 : 1;
	levels[FACTOR_BASE] = cover->nbases;
	levels[FACTOR_DELTA] = 3;
	levels[FACTOR_CHANNELS] = CHANNEL_LEVELS;
	levels[FACTOR_PLACE] = 3;
	levels[FACTOR_ALIGN] = 4;
	levels[FACTOR_ROOT] = moves || cover->nfuncs == 4 ? 3 : 1;
	levels[FACTOR_STYLE] = 2;
}

static uint32_t draw(uint32_t below)
{
	return (uint32_t)(world_random(&matrix.random) >> 32) % below;
}

/* Pairs of levels that have met. */
static uint8_t met[FACTORS][MAX_LEVELS][FACTORS][MAX_LEVELS];

static bool pair_met(uint32_t f, uint32_t i, uint32_t g, uint32_t j)
{
	return f < g ? met[f][i][g][j] : met[g][j][f][i];
}

/* The first pair, from a random place on, that has not met. */
static bool find_pair(const uint32_t levels[FACTORS], uint32_t pair[4])
{
	uint32_t start = draw(FACTORS * FACTORS);
	for (uint32_t k = 0; k < FACTORS * FACTORS; k++) {
		uint32_t f = (start + k) % (FACTORS * FACTORS) / FACTORS, g = (start + k) % FACTORS;
		for (uint32_t i = 0; f < g && i < levels[f]; i++)
			for (uint32_t j = 0; j < levels[g]; j++)
				if (!met[f][i][g][j]) {
					pair[0] = f;
					pair[1] = i;
					pair[2] = g;
					pair[3] = j;
					return true;
				}
	}
	return false;
}

/* The level of f that lets most pairs meet with the factors fixed so far; any of the best. */
static uint32_t best_level(const struct row *row, const bool *fixed, uint32_t f, uint32_t levels)
{
	uint32_t start = draw(levels), best = start, most = 0;
	for (uint32_t k = 0; k < levels; k++) {
		uint32_t level = (start + k) % levels, fresh = 0;
		for (uint32_t g = 0; g < FACTORS; g++)
			fresh += fixed[g] && !pair_met(f, level, g, row->level[g]);
		if (fresh > most) {
			most = fresh;
			best = level;
		}
	}
	return best;
}

static uint32_t ranks_of(const struct row *row)
{
	return matrix.ranks[row->level[FACTOR_RANKS]];
}

/* Adds rows until all pairs of a cover have met. */
static size_t cover_pairs(uint32_t index, struct row *rows, size_t room)
{
	uint32_t levels[FACTORS], pair[4], too_few = 0;
	size_t count = 0;
	levels_of(&covers[index], levels);
	while (too_few < matrix.nranks && matrix.ranks[too_few] < covers[index].min_ranks)
		too_few++;
	if (too_few == matrix.nranks)
		return 0;
	levels[FACTOR_RANKS] -= too_few;
	memset(met, 0, sizeof met);
	while (find_pair(levels, pair) && count < room) {
		struct row *row = &rows[count];
		bool fixed[FACTORS] = {false};
		memset(row, 0, sizeof *row);
		row->cover = (uint8_t)index;
		row->level[pair[0]] = (uint8_t)pair[1];
		row->level[pair[2]] = (uint8_t)pair[3];
		fixed[pair[0]] = fixed[pair[2]] = true;
		for (uint32_t k = 0, first = draw(FACTORS); k < FACTORS; k++) {
			uint32_t f = (first + k) % FACTORS;
			if (fixed[f])
				continue;
			row->level[f] = (uint8_t)best_level(row, fixed, f, levels[f]);
			fixed[f] = true;
		}
		for (uint32_t f = 0; f < FACTORS; f++)
			for (uint32_t g = f + 1; g < FACTORS; g++)
				met[f][row->level[f]][g][row->level[g]] = 1;
		row->level[FACTOR_RANKS] = (uint8_t)(row->level[FACTOR_RANKS] + too_few);
		count++;
	}
	return count;
}

/* The product of the call factors for one world. */
static size_t cover_product(uint32_t index, const struct row *world, struct row *rows, size_t room)
{
	uint32_t levels[FACTORS];
	size_t count = 0, total = 1;
	levels_of(&covers[index], levels);
	if (ranks_of(world) < covers[index].min_ranks)
		return 0;
	for (uint32_t f = WORLD_FACTORS; f < FACTOR_PLACE; f++)
		total *= levels[f];
	for (size_t code = 0; code < total && count < room; code++) {
		struct row *row = &rows[count++];
		size_t rest = code;
		*row = *world;
		row->cover = (uint8_t)index;
		for (uint32_t f = WORLD_FACTORS; f < FACTORS; f++) {
			row->level[f] = (uint8_t)(f < FACTOR_PLACE ? rest % levels[f] : draw(levels[f]));
			rest /= f < FACTOR_PLACE ? levels[f] : 1;
		}
	}
	return count;
}

static uint32_t channels_of(const struct row *row, const struct mrw_layout *l)
{
	static const uint32_t host[CHANNEL_LEVELS] = {0, 1, 2, 3, 5}, cuda[CHANNEL_LEVELS] = {0, 1, 3, 16, 64};
	uint32_t channels = (matrix.target == MARROW_TARGET_HOST ? host : cuda)[row->level[FACTOR_CHANNELS]];
	return channels < l->channels ? channels : l->channels;
}

static uint64_t base_bytes(enum base base, const struct mrw_layout *l, uint32_t func, uint64_t elem, uint32_t n, uint32_t channels)
{
	uint64_t shares = mrw_has_shares(func) ? n : 1, c = channels ? channels : 1;
	/* Along rails a slot of packets holds a block for each host, where these differ. */
	uint64_t packets = l->units / (func == MRW_FUNC_ALL_GATHER || func == MRW_FUNC_REDUCE_SCATTER ? l->cells : 1) * MRW_UNIT_BYTES;
	switch (base) {
	case BASE_ELEMENT: return elem;
	case BASE_UNIT: return MRW_UNIT_BYTES;
	case BASE_VECTOR: return 16;
	case BASE_QUANTA: return shares * MRW_QUANTUM_BYTES;
	case BASE_UNIT_EACH: return shares * c * MRW_UNIT_BYTES;
	case BASE_ROUNDING: return 512 * c;
	case BASE_CHOICE_LOW: return 512;
	case BASE_CHOICE_MIDDLE: return 2048;
	case BASE_CHOICE_HIGH: return 4096;
	case BASE_PACKETS: return packets;
	case BASE_PACKETS_ALL: return packets * c;
	case BASE_SHARES_ALL: return packets * c * shares;
	case BASE_LINE: return MRW_LINE_UNITS * MRW_UNIT_BYTES;
	case BASE_LINE_EACH: return c * MRW_LINE_UNITS * MRW_UNIT_BYTES;
	case BASE_LINES: return (uint64_t)l->lines * MRW_LINE_UNITS * MRW_UNIT_BYTES;
	case BASE_LINES_ALL: return l->lines * c * MRW_LINE_UNITS * MRW_UNIT_BYTES;
	case BASE_CHUNK: return l->chunk_bytes;
	case BASE_CHUNK_EACH: return l->chunk_bytes * c;
	case BASE_SHARE_CHUNK: return l->chunk_bytes * shares;
	case BASE_SHARE_CHUNKS: return l->chunk_bytes * shares * c;
	default: return l->chunk_bytes * shares * c * 5 + 72;
	}
}

static struct mrw_layout layout_of(const struct world_rank *self)
{
	return self->nranks > 1 ? self->comms[0]->args.layout : mrw_layout_make(2, 4, MRW_HOST_STAGING_BUDGET);
}

static struct call call_of(const struct world_rank *self, const struct row *row, const struct mrw_layout *l, uint64_t seed)
{
	const struct cover *cover = &covers[row->cover];
	uint64_t s = seed, mixed = world_random(&s);
	struct call c;
	memset(&c, 0, sizeof c);
	c.func = (enum mrw_func)cover->funcs[row->level[FACTOR_FUNC]];
	c.type = matrix.types[row->level[FACTOR_TYPE]];
	c.op = row->level[FACTOR_OP];
	c.channels = channels_of(row, l);
	c.algo = cover->algo;
	if (l->near_slots > 0) /* along rails: the two algorithms there are, and the library's choice */
		c.algo = c.algo == MRW_ALGO_ONESHOT ? MRW_ALGO_RAILSHOT : c.algo == MRW_ALGO_BULK ? MRW_ALGO_RAIL : -1;
	if (l->ring)
		c.algo = -1;
	if (l->tree)
		c.algo = c.algo == MRW_ALGO_ONESHOT ? MRW_ALGO_TREESHOT : c.algo == MRW_ALGO_BULK ? MRW_ALGO_TREE : -1;
	c.seed = seed;
	c.style = row->level[FACTOR_STYLE] ? FILL_SPECIAL : FILL_MIXED;
	c.stream = (uint32_t)(mixed >> 40 & 1);
	c.in_place = row->level[FACTOR_PLACE] == 0 ? 0 : row->level[FACTOR_PLACE] == 1 ? 0xffff : (uint32_t)mixed & 0xffff;
	static const uint32_t aligns[] = {0, 0x55555555, 0xaaaaaaaa};
	c.misaligned = row->level[FACTOR_ALIGN] < COUNT(aligns) ? aligns[row->level[FACTOR_ALIGN]] : (uint32_t)world_random(&s);
	c.root = row->level[FACTOR_ROOT] == 0 ? 0 : row->level[FACTOR_ROOT] == 1 ? self->nranks - 1 : (uint32_t)(mixed >> 32) % self->nranks;
	uint64_t elem = reference_type_bytes(c.type);
	uint64_t bytes = base_bytes((enum base)cover->bases[row->level[FACTOR_BASE]], l, c.func, elem, self->nranks, c.channels);
	uint64_t count = (bytes + elem - 1) / elem + row->level[FACTOR_DELTA];
	c.count = c.func == MRW_FUNC_BARRIER || count == 0 ? 0 : count - 1; /* across hosts there are no lines */
	if (matrix.target == MARROW_TARGET_CUDA && c.in_place == 0 && mixed >> 50 & 1)
		c.replays = 2;
	return c;
}

static size_t bytes_of(const struct call *c, uint32_t nranks)
{
	bool wide = c->func == MRW_FUNC_ALL_GATHER || c->func == MRW_FUNC_REDUCE_SCATTER || c->func == MRW_FUNC_REDUCE_SCATTER_V;
	return c->count * reference_type_bytes(c->type) * (wide ? nranks : 1);
}

static uint64_t row_seed(size_t index)
{
	return world_seed() * 1000003 + index;
}

static void run(struct world_rank *self)
{
	struct mrw_layout l = layout_of(self);
	struct call_buffers buffers;
	size_t room = 64;
	for (size_t i = 0; i < matrix.count; i++) {
		struct call c = call_of(self, &matrix.rows[i], &l, row_seed(2 * i));
		size_t bytes = bytes_of(&c, self->nranks);
		room = bytes > room ? bytes : room;
	}
	if (call_buffers_make(self, &buffers, room) != 0)
		return;
	for (size_t i = 0; i < 2 * matrix.count; i++) {
		struct call c = call_of(self, &matrix.rows[i / 2], &l, row_seed(i));
		bool failed = self->failed;
		call_prepare(self, &buffers, &c);
		call_issue(self, &buffers, &c);
		call_check(self, &buffers, &c);
		if (self->failed && !failed)
			world_fail(self, "above: %s; %u threads a team, channels %s, seq from %x, cap %u", covers[matrix.rows[i / 2].cover].name,
				   self->world->team_size, self->world->parallel_channels ? "side by side" : "in turn", self->world->seq,
				   l.channels);
	}
	call_buffers_free(self, &buffers);
}

/* Runs rows, which share their world factors. */
static int run_world(struct row *rows, size_t count)
{
	static const uint32_t seqs[] = {1, 0u - 3, 0x40000000u - 3}; /* the start; around the wrap; around a scrub */
	const uint8_t *level = rows[0].level;
	struct world w = {.target = matrix.target, .ncomms = 1};
	w.nranks = ranks_of(&rows[0]);
	w.team_size = 1u + level[FACTOR_TEAM];
	w.parallel_channels = level[FACTOR_SIDE];
	w.timeout_ms = matrix.timeout_ms;
	w.algo = matrix.algo;
	w.set_seq = level[FACTOR_SEQ] != 0;
	w.seq = seqs[level[FACTOR_SEQ]];
	w.round = UINT64_MAX - 5;
	/* Many ranks get many channels: slots, and with them the edges, become small. */
	if (matrix.target == MARROW_TARGET_HOST)
		w.max_ctas = level[FACTOR_CAP] ? (w.nranks < 7 ? 16 : 32) : w.nranks < 7 ? 0 : 64;
	else
		w.max_ctas = level[FACTOR_CAP] ? 8 : 0;
	matrix.rows = rows;
	matrix.count = count;
	matrix.done += 2 * count;
	return world_run(&w, run) != 0;
}

static int by_world(const void *a, const void *b)
{
	return memcmp(a, b, WORLD_FACTORS);
}

static int run_pairs(struct row *rows)
{
	size_t count = 0, first = 0;
	int failed = 0;
	for (uint32_t i = 0; i < COUNT(covers); i++)
		count += cover_pairs(i, rows + count, MAX_ROWS - count);
	qsort(rows, count, sizeof *rows, by_world);
	for (size_t i = 1; i <= count; i++) {
		if (i < count && by_world(&rows[first], &rows[i]) == 0)
			continue;
		failed += run_world(rows + first, i - first);
		first = i;
	}
	return failed;
}

static int run_product(struct row *rows, size_t room)
{
	uint32_t levels[FACTORS];
	size_t worlds = 1;
	int failed = 0;
	levels_of(&covers[0], levels);
	for (uint32_t f = 0; f < WORLD_FACTORS; f++)
		worlds *= levels[f];
	for (size_t code = 0; code < worlds; code++) {
		struct row world;
		size_t rest = code;
		memset(&world, 0, sizeof world);
		for (uint32_t f = 0; f < WORLD_FACTORS; f++, rest /= levels[f - 1])
			world.level[f] = (uint8_t)(rest % levels[f]);
		for (uint32_t i = 0; i < COUNT(covers); i++) {
			size_t count = cover_product(i, &world, rows, room);
			if (count > 0)
				failed += run_world(rows, count);
		}
		printf("world %zu of %zu, %llu operations so far\n", code + 1, worlds, (unsigned long long)matrix.done);
		fflush(stdout);
	}
	return failed;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

static uint32_t parse_ranks(char *list)
{
	uint32_t n = 0;
	for (char *p = strtok(list, ","); p && n < COUNT(matrix.ranks); p = strtok(NULL, ",")) {
		matrix.ranks[n] = (uint32_t)strtoul(p, NULL, 10);
		if (matrix.ranks[n] < 1 || matrix.ranks[n++] > WORLD_MAX_RANKS)
			return 0;
	}
	qsort(matrix.ranks, n, sizeof matrix.ranks[0], by_number);
	return n;
}

static uint32_t parse_types(char *list)
{
	uint32_t n = 0;
	for (char *p = strtok(list, ","); p && n < REFERENCE_TYPES; p = strtok(NULL, ",")) {
		uint32_t type = 0;
		while (type < REFERENCE_TYPES && strcmp(mrw_type_name(type), p) != 0)
			type++;
		if (type == REFERENCE_TYPES)
			return 0;
		matrix.types[n++] = (enum marrow_type)type;
	}
	return n;
}

static bool parse(int argc, char **v)
{
	char host_ranks[] = "1,2,3,4,7,8,16", cuda_ranks[] = "2,4,8", *ranks = NULL;
	matrix.target = MARROW_TARGET_HOST;
	for (matrix.ntypes = 0; matrix.ntypes < REFERENCE_TYPES; matrix.ntypes++)
		matrix.types[matrix.ntypes] = (enum marrow_type)matrix.ntypes;
	for (int i = 1; i < argc; i++) {
		if (strcmp(v[i], "--all") == 0) {
			matrix.all = true;
			continue;
		}
		if (i + 1 == argc)
			return false;
		if (strcmp(v[i], "--target") == 0)
			matrix.target = strcmp(v[++i], "cuda") == 0 ? MARROW_TARGET_CUDA : MARROW_TARGET_HOST;
		else if (strcmp(v[i], "--ranks") == 0)
			ranks = v[++i];
		else if (strcmp(v[i], "--types") == 0)
			matrix.ntypes = parse_types(v[++i]);
		else if (strcmp(v[i], "--timeout-ms") == 0)
			matrix.timeout_ms = strtoull(v[++i], NULL, 10);
		else if (strcmp(v[i], "--algo") == 0)
			matrix.algo = v[++i];
		else
			return false;
	}
	matrix.nranks = parse_ranks(ranks ? ranks : matrix.target == MARROW_TARGET_HOST ? host_ranks : cuda_ranks);
	return matrix.nranks > 0 && matrix.ntypes > 0;
}

int main(int argc, char **v)
{
	if (!parse(argc, v)) {
		fprintf(stderr, "usage: matrix [--target host|cuda] [--all] [--ranks 2,3] [--types f32,i8] [--timeout-ms N]\n");
		return 2;
	}
	if (matrix.target == MARROW_TARGET_CUDA) {
		const char *why;
		if (world_gpus(&why) == 0) {
			printf("skipped: %s\n", why);
			return 77;
		}
	}
	size_t room = matrix.all ? 1 << 17 : MAX_ROWS;
	struct row *rows = malloc(room * sizeof *rows);
	if (!rows)
		return 1;
	matrix.random = world_seed();
	int failed = matrix.all ? run_product(rows, room) : run_pairs(rows);
	printf("%llu operations: %s\n", (unsigned long long)matrix.done, failed ? "FAILED" : "ok");
	free(rows);
	return failed ? 1 : 0;
}
