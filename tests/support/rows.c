#include "support/rows.h"

#include <stdio.h>
#include <stdlib.h>

enum { CANDIDATES = 32 /* of which each row is the best */, MAX_WORLDS = 1024 };

static const struct row_kind kinds[] = {
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

enum { KINDS = sizeof kinds / sizeof *kinds };

static const char *const names[FACTORS] = {"ranks", "team", "channels side by side", "seq", "channel cap", "kind", "function", "type", "operation",
					   "size", "elements from it", "channels", "in place", "alignment", "root", "data"};

/* A set of levels for each factor, and of pairs of them: the latter of the first factor's level and one of a later factor. */
struct pairs {
	uint32_t with[FACTORS][ROWS_MAX_LEVELS][FACTORS];
};

const struct row_kind *rows_kind(const struct row *row)
{
	return &kinds[row->level[FACTOR_KIND]];
}

uint32_t rows_ranks(const struct rows_scope *scope, const struct row *row)
{
	return scope->ranks[row->level[FACTOR_RANKS]];
}

int rows_by_world(const void *a, const void *b)
{
	return memcmp(((const struct row *)a)->level, ((const struct row *)b)->level, WORLD_FACTORS);
}

static uint32_t draw(struct rows_scope *scope, uint32_t below)
{
	return (uint32_t)(world_random(&scope->random) >> 32) % below;
}

static uint32_t level_count(const struct rows_scope *scope, uint32_t f)
{
	static const uint32_t counts[FACTORS] = {
		[FACTOR_TEAM] = 2, [FACTOR_SIDE] = 2, [FACTOR_SEQ] = 3, [FACTOR_CAP] = 2, [FACTOR_KIND] = KINDS, [FACTOR_FUNC] = MRW_FUNC_COUNT,
		[FACTOR_OP] = 7, [FACTOR_BASE] = BASES, [FACTOR_DELTA] = 3, [FACTOR_CHANNELS] = ROWS_CHANNELS, [FACTOR_PLACE] = 3,
		[FACTOR_ALIGN] = 4, [FACTOR_ROOT] = 3, [FACTOR_STYLE] = 2};
	if (f == FACTOR_RANKS)
		return scope->nranks;
	if (f == FACTOR_TYPE)
		return scope->ntypes;
	if (scope->target != MARROW_TARGET_HOST && (f == FACTOR_TEAM || f == FACTOR_SIDE))
		return 1;
	return counts[f];
}

static bool has(const uint32_t *list, uint32_t count, uint32_t value)
{
	for (uint32_t i = 0; i < count; i++)
		if (list[i] == value)
			return true;
	return false;
}

/* Whether calls of func mean something by the factor. */
static bool means(uint32_t func, uint32_t f)
{
	bool moves = func == MRW_FUNC_BROADCAST || func == MRW_FUNC_ALL_GATHER;
	if (func == MRW_FUNC_BARRIER)
		return f <= FACTOR_FUNC;
	return f == FACTOR_OP ? !moves : f == FACTOR_ROOT ? func == MRW_FUNC_BROADCAST || func == MRW_FUNC_REDUCE : true;
}

/* Whether rows of kind k and func may have the level. Factors without a meaning have their first. */
static bool allows(const struct rows_scope *scope, uint32_t k, uint32_t func, uint32_t f, uint32_t level)
{
	switch (f) {
	case FACTOR_RANKS: return scope->ranks[level] >= kinds[k].min_ranks;
	case FACTOR_KIND: return level == k;
	case FACTOR_FUNC: return level == func;
	case FACTOR_BASE: return has(kinds[k].bases, kinds[k].nbases, level);
	default: return means(func, f) || level == 0;
	}
}

/* Whether two of a row's levels have met there. */
static bool meet(uint32_t nranks, uint32_t func, uint32_t f, uint32_t g)
{
	if (nranks == 1 && (f != FACTOR_RANKS || g < WORLD_FACTORS))
		return false;
	return means(func, f) && means(func, g);
}

static bool pair_in(const struct pairs *set, uint32_t f, uint32_t i, uint32_t g, uint32_t j)
{
	return f < g ? set->with[f][i][g] >> j & 1 : set->with[g][j][f] >> i & 1;
}

static uint32_t count_in(const struct pairs *set)
{
	uint32_t count = 0;
	for (uint32_t f = 0; f < FACTORS; f++)
		for (uint32_t i = 0; i < ROWS_MAX_LEVELS; i++)
			for (uint32_t g = 0; g < FACTORS; g++)
				count += (uint32_t)__builtin_popcount(set->with[f][i][g]);
	return count;
}

/* The pairs that can be, of kinds first to end. */
static void possible(const struct rows_scope *scope, uint32_t first, uint32_t end, struct pairs *set)
{
	memset(set, 0, sizeof *set);
	for (uint32_t k = first; k < end; k++)
		for (uint32_t q = 0; q < kinds[k].nfuncs * scope->nranks; q++) {
			uint32_t func = kinds[k].funcs[q / scope->nranks], ranks = q % scope->nranks;
			if (!allows(scope, k, func, FACTOR_RANKS, ranks))
				continue;
			for (uint32_t f = 0; f < FACTORS; f++)
				for (uint32_t g = f + 1; g < FACTORS; g++) {
					if (!meet(scope->ranks[ranks], func, f, g))
						continue;
					for (uint32_t i = 0; i < level_count(scope, f); i++)
						for (uint32_t j = 0; j < level_count(scope, g); j++)
							if ((f != FACTOR_RANKS || i == ranks) && allows(scope, k, func, f, i) && allows(scope, k, func, g, j))
								set->with[f][i][g] |= 1u << j;
				}
		}
}

static void remove_pairs(const struct rows_scope *scope, const struct row *row, struct pairs *missing)
{
	for (uint32_t f = 0; f < FACTORS; f++)
		for (uint32_t g = f + 1; g < FACTORS; g++)
			if (meet(rows_ranks(scope, row), row->level[FACTOR_FUNC], f, g))
				missing->with[f][row->level[f]][g] &= ~(1u << row->level[g]);
}

static uint32_t count_new(const struct rows_scope *scope, const struct row *row, const struct pairs *missing)
{
	uint32_t count = 0;
	for (uint32_t f = 0; f < FACTORS; f++)
		for (uint32_t g = f + 1; g < FACTORS; g++)
			count += meet(rows_ranks(scope, row), row->level[FACTOR_FUNC], f, g) && pair_in(missing, f, row->level[f], g, row->level[g]);
	return count;
}

struct pair {
	uint32_t f, i, g, j;
};

/* The first that is missing, from a random place on. */
static bool find_pair(struct rows_scope *scope, const struct pairs *missing, struct pair *pair)
{
	uint32_t start = draw(scope, FACTORS * FACTORS);
	for (uint32_t k = 0; k < FACTORS * FACTORS; k++) {
		struct pair p = {.f = (start + k) % (FACTORS * FACTORS) / FACTORS, .g = (start + k) % FACTORS};
		for (p.i = 0; p.f < p.g && p.i < level_count(scope, p.f); p.i++)
			for (p.j = 0; p.j < level_count(scope, p.g); p.j++)
				if (pair_in(missing, p.f, p.i, p.g, p.j)) {
					*pair = p;
					return true;
				}
	}
	return false;
}

static bool fixes(const struct pair *pair, uint32_t f, uint32_t *level)
{
	if (f != pair->f && f != pair->g)
		return false;
	*level = f == pair->f ? pair->i : pair->j;
	return true;
}

/* A world that the pair can be in: any of those there are, else one more. */
static bool choose_world(struct rows_scope *scope, const struct pair *pair, uint32_t kind, uint32_t func, struct row *worlds, uint32_t *count,
			 struct row *row)
{
	uint32_t start = *count > 0 ? draw(scope, *count) : 0, fixed;
	for (uint32_t k = 0; k <= *count && k < MAX_WORLDS; k++) {
		struct row *world = &worlds[k < *count ? (start + k) % *count : k];
		if (k == *count) {
			uint32_t ranks = draw(scope, scope->nranks);
			memset(world, 0, sizeof *world);
			world->level[FACTOR_RANKS] = (uint8_t)(fixes(pair, FACTOR_RANKS, &fixed) ? fixed : ranks);
			for (uint32_t f = FACTOR_RANKS + 1; f < WORLD_FACTORS && rows_ranks(scope, world) > 1; f++)
				world->level[f] = (uint8_t)(fixes(pair, f, &fixed) ? fixed : draw(scope, level_count(scope, f)));
		}
		bool fits = allows(scope, kind, func, FACTOR_RANKS, world->level[FACTOR_RANKS]) && meet(rows_ranks(scope, world), func, pair->f, pair->g);
		for (uint32_t f = 0; f < WORLD_FACTORS; f++)
			fits = fits && (!fixes(pair, f, &fixed) || world->level[f] == fixed);
		if (!fits)
			continue;
		*count += k == *count;
		*row = *world;
		return true;
	}
	return false;
}

/* The level of f that lets most pairs meet with the factors fixed so far; any of the best. */
static uint32_t best_level(struct rows_scope *scope, const struct row *row, const bool *fixed, uint32_t f, const struct pairs *missing)
{
	uint32_t levels = level_count(scope, f), start = draw(scope, levels), kind = row->level[FACTOR_KIND], func = row->level[FACTOR_FUNC];
	uint32_t best = ROWS_MAX_LEVELS, most = 0;
	for (uint32_t k = 0; k < levels; k++) {
		uint32_t level = (start + k) % levels, fresh = 1;
		if (!allows(scope, kind, func, f, level))
			continue;
		for (uint32_t g = 0; g < FACTORS; g++)
			fresh += fixed[g] && meet(rows_ranks(scope, row), func, f < g ? f : g, f < g ? g : f) && pair_in(missing, f, level, g, row->level[g]);
		if (fresh > most) {
			most = fresh;
			best = level;
		}
	}
	return best;
}

/* A row with the pair, of kinds first to end. False: not this time. */
static bool candidate(struct rows_scope *scope, uint32_t first, uint32_t end, const struct pair *pair, const struct pairs *missing,
		      struct row *worlds, uint32_t *nworlds, struct row *row)
{
	bool fixed[FACTORS] = {false};
	uint32_t level, kind = fixes(pair, FACTOR_KIND, &level) ? level : first + draw(scope, end - first);
	uint32_t func = fixes(pair, FACTOR_FUNC, &level) ? level : kinds[kind].funcs[draw(scope, kinds[kind].nfuncs)];
	if (!has(kinds[kind].funcs, kinds[kind].nfuncs, func) || !allows(scope, kind, func, pair->f, pair->i) ||
	    !allows(scope, kind, func, pair->g, pair->j) || !means(func, pair->f) || !means(func, pair->g) ||
	    !choose_world(scope, pair, kind, func, worlds, nworlds, row))
		return false;
	row->level[FACTOR_KIND] = (uint8_t)kind;
	row->level[FACTOR_FUNC] = (uint8_t)func;
	for (uint32_t f = 0; f <= FACTOR_FUNC; f++)
		fixed[f] = true;
	for (uint32_t f = FACTOR_FUNC + 1; f < FACTORS; f++)
		if (fixes(pair, f, &level)) {
			row->level[f] = (uint8_t)level;
			fixed[f] = true;
		}
	for (uint32_t k = 0, start = draw(scope, FACTORS); k < FACTORS; k++) {
		uint32_t f = (start + k) % FACTORS;
		if (!fixed[f])
			row->level[f] = (uint8_t)best_level(scope, row, fixed, f, missing);
		fixed[f] = true;
	}
	return true;
}

/* Rows of kinds first to end until all their pairs have met. */
static size_t cover(struct rows_scope *scope, uint32_t first, uint32_t end, struct row *worlds, uint32_t *nworlds, struct row *rows, size_t room)
{
	struct pairs missing;
	struct pair pair;
	size_t count = 0;
	possible(scope, first, end, &missing);
	while (count < room && find_pair(scope, &missing, &pair)) {
		double best = 0;
		/* Some kind, function and world have the pair: they are drawn until found. */
		for (uint32_t k = 0; k < CANDIDATES || best == 0; k++) {
			struct row row;
			if (!candidate(scope, first, end, &pair, &missing, worlds, nworlds, &row))
				continue;
			double worth = count_new(scope, &row, &missing) / scope->cost(&row);
			if (worth > best) {
				best = worth;
				rows[count] = row;
			}
		}
		remove_pairs(scope, &rows[count++], &missing);
	}
	return count;
}

/* The fewest worlds in which a number of ranks meets every level of every other factor. */
static uint32_t make_worlds(struct rows_scope *scope, struct row *worlds)
{
	uint32_t count = 0;
	for (uint32_t ranks = 0; ranks < scope->nranks; ranks++) {
		struct row *at = &worlds[count];
		memset(at, 0, level_count(scope, FACTOR_SEQ) * sizeof *at);
		count += scope->ranks[ranks] > 1 ? level_count(scope, FACTOR_SEQ) : 1;
		for (struct row *world = at; world < &worlds[count]; world++)
			world->level[FACTOR_RANKS] = (uint8_t)ranks;
		for (uint32_t f = FACTOR_RANKS + 1; f < WORLD_FACTORS && scope->ranks[ranks] > 1; f++) {
			uint32_t levels = level_count(scope, f), start = draw(scope, levels);
			for (uint32_t k = 0; at + k < &worlds[count]; k++)
				at[k].level[f] = (uint8_t)(k < levels ? (start + k) % levels : draw(scope, levels));
		}
	}
	return count;
}

size_t rows_cover(struct rows_scope *scope, bool each, struct row *rows, size_t room)
{
	struct row worlds[MAX_WORLDS];
	uint32_t nworlds = make_worlds(scope, worlds);
	size_t count = 0;
	for (uint32_t k = 0; k < (each ? KINDS : 1); k++)
		count += cover(scope, k, each ? k + 1 : KINDS, worlds, &nworlds, rows + count, room - count);
	qsort(rows, count, sizeof *rows, rows_by_world);
	return count;
}

struct rows_pairs rows_count_pairs(const struct rows_scope *scope, bool each, const struct row *rows, size_t count)
{
	struct rows_pairs result = {0};
	for (uint32_t k = 0; k < (each ? KINDS : 1); k++) {
		struct pairs missing;
		struct rows_scope any = *scope;
		struct pair p;
		possible(scope, k, each ? k + 1 : KINDS, &missing);
		uint32_t all = count_in(&missing);
		for (size_t i = 0; i < count; i++)
			if (rows[i].ran && (!each || rows[i].level[FACTOR_KIND] == k))
				remove_pairs(scope, &rows[i], &missing);
		result.possible += all;
		result.met += all - count_in(&missing);
		if (find_pair(&any, &missing, &p))
			snprintf(result.missing, sizeof result.missing, "%s level %u with %s level %u", names[p.f], p.i, names[p.g], p.j);
	}
	return result;
}

size_t rows_worlds(const struct rows_scope *scope, struct row *worlds, size_t room)
{
	size_t total = 1, count = 0;
	for (uint32_t f = 0; f < WORLD_FACTORS; f++)
		total *= level_count(scope, f);
	for (size_t code = 0; code < total && count < room; code++) {
		struct row *world = &worlds[count];
		size_t rest = code;
		bool plain = true;
		memset(world, 0, sizeof *world);
		for (uint32_t f = 0; f < WORLD_FACTORS; f++) {
			world->level[f] = (uint8_t)(rest % level_count(scope, f));
			rest /= level_count(scope, f);
			plain = plain && (f == FACTOR_RANKS || world->level[f] == 0);
		}
		count += plain || rows_ranks(scope, world) > 1;
	}
	return count;
}

size_t rows_product(struct rows_scope *scope, const struct row *world, struct row *rows, size_t room)
{
	size_t count = 0;
	for (uint32_t k = 0; k < KINDS; k++)
		for (uint32_t q = 0; q < kinds[k].nfuncs; q++) {
			uint32_t func = kinds[k].funcs[q];
			size_t total = 1;
			if (!allows(scope, k, func, FACTOR_RANKS, world->level[FACTOR_RANKS]))
				continue;
			for (uint32_t f = FACTOR_FUNC + 1; f < FACTOR_PLACE; f++)
				total *= level_count(scope, f);
			for (size_t code = 0; code < total && count < room; code++) {
				struct row *row = &rows[count];
				size_t rest = code;
				bool fits = true;
				*row = *world;
				row->level[FACTOR_KIND] = (uint8_t)k;
				row->level[FACTOR_FUNC] = (uint8_t)func;
				for (uint32_t f = FACTOR_FUNC + 1; f < FACTORS; f++) {
					uint32_t levels = level_count(scope, f);
					row->level[f] = (uint8_t)(f < FACTOR_PLACE ? rest % levels : means(func, f) ? draw(scope, levels) : 0);
					rest /= f < FACTOR_PLACE ? levels : 1;
					fits = fits && allows(scope, k, func, f, row->level[f]);
				}
				count += fits;
			}
		}
	return count;
}
