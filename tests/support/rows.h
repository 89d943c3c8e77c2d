/* rows.h - which combinations the matrix runs: rows of levels of all its factors.
 *
 * A pair is a level of one factor with a level of another one. It can be if some kind of row allows both and means something by them: a barrier
 * has no type, a broadcast no operation; one rank alone has no teams, seq or channels, so of its rows only pairs with the number of ranks
 * count. A world is the levels of the first factors, which rows share: communicators are dear, so rows are spread over few worlds. */
#ifndef TEST_ROWS_H
#define TEST_ROWS_H

#include "support/reference.h"
#include "support/world.h"

#include "device/args.h"

/* Where the edges of sizes are. */
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
	BASE_PACKETS_ALL,   /* of all the row's channels */
	BASE_SHARES_ALL,    /* of all of them with a share each */
	BASE_LINE,
	BASE_LINE_EACH,     /* one line a channel */
	BASE_LINES,         /* lines of one channel full */
	BASE_LINES_ALL,     /* of all of them */
	BASE_CHUNK,
	BASE_CHUNK_EACH,    /* one chunk a channel */
	BASE_SHARE_CHUNK,   /* one chunk a share */
	BASE_SHARE_CHUNKS,  /* one a share and channel */
	BASE_ROUNDS,        /* several rounds */
	BASES
};

enum factor {
	/* of a world */
	FACTOR_RANKS,    /* index in rows_scope.ranks */
	FACTOR_TEAM,     /* threads a team less one */
	FACTOR_SIDE,     /* channels side by side */
	FACTOR_SEQ,      /* the start, around the wrap, around a scrub */
	FACTOR_CAP,      /* channel cap: large or small */
	WORLD_FACTORS,
	/* of a call */
	FACTOR_KIND = WORLD_FACTORS,
	FACTOR_FUNC,     /* enum mrw_func */
	FACTOR_TYPE,     /* index in rows_scope.types */
	FACTOR_OP,
	FACTOR_BASE,     /* enum base */
	FACTOR_DELTA,    /* elements from there, and one */
	FACTOR_CHANNELS,
	/* of the ranks; drawn where the others are a product */
	FACTOR_PLACE,    /* none, all, some in place */
	FACTOR_ALIGN,    /* none, all by an element, all by a byte, mixed */
	FACTOR_ROOT,     /* first, last, any */
	FACTOR_STYLE,    /* of the data: mixed, special */
	FACTORS
};

enum { ROWS_MAX_LEVELS = 24, ROWS_CHANNELS = 5 };

/* Rows of one kind: an algorithm with some of its functions. */
struct row_kind {
	const char *name;
	int32_t algo;
	uint32_t funcs[4], nfuncs;
	uint32_t min_ranks;
	uint32_t bases[BASES], nbases;
};

struct row {
	uint8_t level[FACTORS];
	uint8_t ran;     /* whoever runs it says so */
};

struct rows_scope {
	enum marrow_target target;
	uint32_t ranks[WORLD_MAX_RANKS], nranks;
	enum marrow_type types[REFERENCE_TYPES];
	uint32_t ntypes;
	uint64_t random;
	double (*cost)(const struct row *row); /* of its calls, in any unit: of rows that do as much the cheaper is taken */
};

struct rows_pairs {
	uint32_t possible, met;
	char missing[128]; /* names one that has not met, else "" */
};

const struct row_kind *rows_kind(const struct row *row);
uint32_t rows_ranks(const struct rows_scope *scope, const struct row *row);
/* How rows of one world compare equal: as memcmp(). */
int rows_by_world(const void *a, const void *b);
/* Rows, by world, in which every possible pair meets at least once; each: once for each kind of row. As many as there is room for. */
size_t rows_cover(struct rows_scope *scope, bool each, struct row *rows, size_t room);
/* Which pairs have met in rows that ran. */
struct rows_pairs rows_count_pairs(const struct rows_scope *scope, bool each, const struct row *rows, size_t count);
/* The product: all worlds; all calls of one, of which the factors of the ranks are drawn. */
size_t rows_worlds(const struct rows_scope *scope, struct row *worlds, size_t room);
size_t rows_product(struct rows_scope *scope, const struct row *world, struct row *rows, size_t room);

#endif
