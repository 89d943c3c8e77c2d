/* matrix.c - every function by every algorithm at every edge, bits checked.
 *
 * matrix [--target host|cuda] [--each | --all] [--ranks LIST] [--types LIST] [--timeout-ms N] [--algo NAME]
 *
 * A row is a combination of levels of all factors (support/rows.h): algorithm, ranks, threads a team, where seq and rounds start, channels, function,
 * type, operation, size, in place, alignment, root, data. By default rows are drawn from the seed so that any two levels of any two factors
 * meet that can. --each: so that they meet for each kind of row, reductions and pure moves by each algorithm, alone. --all: the whole product
 * (hours), but for the factors that are local to a rank, which are drawn. LIST: 2,3,8 or f32,i8. Each row is run twice, for both parities of
 * the packets. What has met is counted from the rows that ran; a pair that has not is a failure. */
#include "support/call.h"
#include "support/device_memory.h"
#include "support/hosts.h"
#include "support/rows.h"

#include "collectives/schedule.h"
#include "comm.h"

#include <stdio.h>
#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { MAX_ROWS = 8192, NEAR_ROWS = 3 /* of six operations */ };

/* The start; around the wrap; around a scrub. */
static const uint32_t seqs[] = {1, 0u - NEAR_ROWS, 0x40000000u - NEAR_ROWS};
static const uint64_t near_round = UINT64_MAX - 5;

static struct {
	struct rows_scope scope;
	uint64_t timeout_ms;
	const char *algo;  /* of the communicators */
	bool each, all;
	/* rows of the world that runs */
	struct row *rows;
	size_t count;
	uint64_t done, worlds;
} matrix;

static uint32_t channels_of(const struct row *row, const struct mrw_layout *l)
{
	static const uint32_t host[ROWS_CHANNELS] = {0, 1, 2, 3, 5}, cuda[ROWS_CHANNELS] = {0, 1, 3, 16, 64};
	uint32_t channels = (matrix.scope.target == MARROW_TARGET_HOST ? host : cuda)[row->level[FACTOR_CHANNELS]];
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
	const struct row_kind *kind = rows_kind(row);
	uint64_t s = seed, mixed = world_random(&s);
	struct call c;
	memset(&c, 0, sizeof c);
	c.func = (enum mrw_func)row->level[FACTOR_FUNC];
	c.type = matrix.scope.types[row->level[FACTOR_TYPE]];
	c.op = row->level[FACTOR_OP];
	c.channels = channels_of(row, l);
	c.algo = kind->algo;
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
	uint64_t bytes = base_bytes((enum base)row->level[FACTOR_BASE], l, c.func, elem, self->nranks, c.channels);
	uint64_t count = (bytes + elem - 1) / elem + row->level[FACTOR_DELTA];
	c.count = c.func == MRW_FUNC_BARRIER || count == 0 ? 0 : count - 1; /* across hosts there are no lines */
	if (matrix.scope.target == MARROW_TARGET_CUDA && c.in_place == 0 && mixed >> 50 & 1)
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

/* Back to where the world started, if that is near a wrap: all its operations are. All ranks: operations are over everywhere. Across hosts a
 * message may still be on its way then: those worlds only start there. */
static void set_back(struct world_rank *self)
{
	struct marrow_comm *comm = self->comms[0];
	if (self->nranks == 1 || !self->world->set_seq || hosts_count(self->nranks) > 1)
		return;
	if (mrw_boot_barrier(comm->boot) != MARROW_SUCCESS || mrw_comm_set_seq(comm, self->world->seq, self->world->round) != MARROW_SUCCESS ||
	    mrw_boot_barrier(comm->boot) != MARROW_SUCCESS)
		world_fail(self, "cannot set seq back: %s", marrow_last_error(NULL));
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
		if (i > 0 && i % (2 * NEAR_ROWS) == 0)
			set_back(self);
		call_prepare(self, &buffers, &c);
		call_issue(self, &buffers, &c);
		call_check(self, &buffers, &c);
		if (self->rank == 0 && !self->failed)
			matrix.rows[i / 2].ran++;
		if (self->failed && !failed)
			world_fail(self, "above: %s; %u threads a team, channels %s, seq from %x, cap %u", rows_kind(&matrix.rows[i / 2])->name,
				   self->world->team_size, self->world->parallel_channels ? "side by side" : "in turn", self->world->seq,
				   l.channels);
	}
	world_meet(self);
	call_buffers_free(self, &buffers);
}

static uint32_t cap_of(uint32_t nranks, bool small)
{
	if (matrix.scope.target == MARROW_TARGET_CUDA)
		return small ? 8 : 0;
	/* Many ranks get many channels: slots, and with them the edges, become small. */
	return small ? (nranks < 7 ? 16 : 32) : nranks < 7 ? 0 : 64;
}

/* Bytes that ranks fill, reduce and compare for the row, about; and what a call of many ranks takes however small, in such bytes. With --each only
 * the dearest rows are shunned. */
static double cost_of(const struct row *row)
{
	uint32_t n = rows_ranks(&matrix.scope, row), cap = cap_of(n, row->level[FACTOR_CAP]), func = row->level[FACTOR_FUNC];
	struct mrw_layout l = mrw_layout_make(n > 1 ? n : 2, cap ? cap : 4, MRW_HOST_STAGING_BUDGET);
	uint64_t elem = reference_type_bytes(matrix.scope.types[row->level[FACTOR_TYPE]]);
	double bytes = (double)base_bytes((enum base)row->level[FACTOR_BASE], &l, func, elem, n, channels_of(row, &l)) * n;
	return (matrix.each ? 8 << 20 : 16384.0 * n) + bytes * (func == MRW_FUNC_BROADCAST ? 2 : 2 + n);
}

/* Runs rows, which share their world factors. */
static int run_world(struct row *rows, size_t count)
{
	const uint8_t *level = rows[0].level;
	struct world w = {.target = matrix.scope.target, .ncomms = 1};
	int failed;
	w.nranks = rows_ranks(&matrix.scope, &rows[0]);
	w.team_size = 1u + level[FACTOR_TEAM];
	w.parallel_channels = level[FACTOR_SIDE];
	w.timeout_ms = matrix.timeout_ms;
	w.algo = matrix.algo;
	w.set_seq = level[FACTOR_SEQ] != 0;
	w.seq = seqs[level[FACTOR_SEQ]];
	w.round = near_round;
	w.max_ctas = cap_of(w.nranks, level[FACTOR_CAP]);
	matrix.rows = rows;
	matrix.count = count;
	matrix.worlds++;
	failed = world_run(&w, run) != 0;
	for (size_t i = 0; i < count; i++) {
		matrix.done += rows[i].ran;
		failed |= rows[i].ran != 2;
	}
	return failed;
}

static int run_cover(struct row *rows)
{
	size_t count = rows_cover(&matrix.scope, matrix.each, rows, MAX_ROWS), first = 0;
	int failed = 0;
	for (size_t i = 1; i <= count; i++) {
		if (i < count && rows_by_world(&rows[first], &rows[i]) == 0)
			continue;
		failed += run_world(rows + first, i - first);
		first = i;
	}
	struct rows_pairs pairs = rows_count_pairs(&matrix.scope, matrix.each, rows, count);
	printf("%zu combinations in %llu worlds; %u of %u pairs of levels met%s%s\n", count, (unsigned long long)matrix.worlds, pairs.met,
	       pairs.possible, pairs.missing[0] ? ", not: " : "", pairs.missing);
	return failed + (pairs.met == 0 || pairs.met < pairs.possible);
}

static int run_product(struct row *rows, size_t room)
{
	static struct row worlds[1024];
	size_t nworlds = rows_worlds(&matrix.scope, worlds, COUNT(worlds));
	int failed = 0;
	for (size_t i = 0; i < nworlds; i++) {
		size_t count = rows_product(&matrix.scope, &worlds[i], rows, room);
		failed += count == 0 || count == room ? 1 : run_world(rows, count);
		printf("world %zu of %zu, %llu operations so far\n", i + 1, nworlds, (unsigned long long)matrix.done);
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
	for (char *p = strtok(list, ","); p && n < ROWS_MAX_LEVELS; p = strtok(NULL, ",")) {
		matrix.scope.ranks[n] = (uint32_t)strtoul(p, NULL, 10);
		if (matrix.scope.ranks[n] < 1 || matrix.scope.ranks[n++] > WORLD_MAX_RANKS)
			return 0;
	}
	qsort(matrix.scope.ranks, n, sizeof matrix.scope.ranks[0], by_number);
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
		matrix.scope.types[n++] = (enum marrow_type)type;
	}
	return n;
}

static bool parse(int argc, char **v)
{
	char host_ranks[] = "1,2,3,4,7,8,16", cuda_ranks[] = "2,4,8", *ranks = NULL;
	matrix.scope.target = MARROW_TARGET_HOST;
	for (matrix.scope.ntypes = 0; matrix.scope.ntypes < REFERENCE_TYPES; matrix.scope.ntypes++)
		matrix.scope.types[matrix.scope.ntypes] = (enum marrow_type)matrix.scope.ntypes;
	for (int i = 1; i < argc; i++) {
		if (strcmp(v[i], "--all") == 0 || strcmp(v[i], "--each") == 0) {
			matrix.all = matrix.all || strcmp(v[i], "--all") == 0;
			matrix.each = true;
			continue;
		}
		if (i + 1 == argc)
			return false;
		if (strcmp(v[i], "--target") == 0)
			matrix.scope.target = strcmp(v[++i], "cuda") == 0 ? MARROW_TARGET_CUDA : MARROW_TARGET_HOST;
		else if (strcmp(v[i], "--ranks") == 0)
			ranks = v[++i];
		else if (strcmp(v[i], "--types") == 0)
			matrix.scope.ntypes = parse_types(v[++i]);
		else if (strcmp(v[i], "--timeout-ms") == 0)
			matrix.timeout_ms = strtoull(v[++i], NULL, 10);
		else if (strcmp(v[i], "--algo") == 0)
			matrix.algo = v[++i];
		else
			return false;
	}
	matrix.scope.nranks = parse_ranks(ranks ? ranks : matrix.scope.target == MARROW_TARGET_HOST ? host_ranks : cuda_ranks);
	return matrix.scope.nranks > 0 && matrix.scope.ntypes > 0;
}

int main(int argc, char **v)
{
	if (!parse(argc, v)) {
		fprintf(stderr, "usage: matrix [--target host|cuda] [--each | --all] [--ranks 2,3] [--types f32,i8] [--timeout-ms N] [--algo NAME]\n"
				"Combinations drawn from MARROW_TEST_SEED in which any two levels of any two factors meet; --each: for each algorithm,\n"
				"reductions and moves apart; --all: the whole product, which takes hours.\n");
		return 2;
	}
	if (matrix.scope.target == MARROW_TARGET_CUDA) {
		const char *why;
		if (world_gpus(&why) == 0) {
			printf("skipped: %s\n", why);
			return 77;
		}
	}
	size_t room = matrix.all ? 1 << 20 : MAX_ROWS;
	struct row *rows = malloc(room * sizeof *rows);
	if (!rows)
		return 1;
	matrix.scope.random = world_seed();
	matrix.scope.cost = cost_of;
	int failed = matrix.all ? run_product(rows, room) : run_cover(rows);
	printf("%llu operations: %s\n", (unsigned long long)matrix.done, failed ? "FAILED" : "ok");
	free(rows);
	return failed ? 1 : 0;
}
