/* tuning.c - reading and writing calibration tables. */
#include "tuning.h"
#include "cost.h"
#include "select.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 12, LINE_BYTES = 256 };

static const char *const func_names[MRW_FUNC_COUNT] = {
	[MRW_FUNC_ALL_REDUCE] = "all_reduce",
	[MRW_FUNC_BROADCAST] = "broadcast",
	[MRW_FUNC_ALL_GATHER] = "all_gather",
	[MRW_FUNC_REDUCE_SCATTER] = "reduce_scatter",
	[MRW_FUNC_BARRIER] = "barrier",
	[MRW_FUNC_REDUCE] = "reduce",
	[MRW_FUNC_REDUCE_SCATTER_V] = "reduce_scatter_v",
};
static const char *const peers_names[] = {"all", "rails", "ring", "tree"};

enum mrw_func mrw_tuning_func(const char *name)
{
	uint32_t f = 0;
	while (f < MRW_FUNC_COUNT && strcmp(name, func_names[f]) != 0)
		f++;
	return (enum mrw_func)f;
}

const char *mrw_tuning_func_name(enum mrw_func func)
{
	return (uint32_t)func < MRW_FUNC_COUNT ? func_names[func] : "?";
}

/* One reading. */
struct reader {
	struct mrw_tuning *tuning;
	const char *machine;
	struct mrw_tuning_error *error;
	uint32_t line;
	enum { WANT_FORM, WANT_LIBRARY, WANT_MACHINE, WANT_SHAPES } want;
};

static bool refuse(struct reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(struct reader *r, const char *format, ...)
{
	va_list args;
	r->error->line = r->line;
	va_start(args, format);
	vsnprintf(r->error->text, sizeof r->error->text, format, args);
	va_end(args);
	return false;
}

/* Decimal digits only. */
static bool number(const char *text, uint64_t most, uint64_t *value)
{
	uint64_t v = 0;
	if (!*text || strlen(text) > 19)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return false;
		v = v * 10 + (uint64_t)(*text - '0');
	}
	*value = v;
	return v <= most;
}

static bool same_shape(const struct mrw_tuning_shape *a, const struct mrw_tuning_shape *b)
{
	return a->nranks == b->nranks && a->hosts == b->hosts && a->fullest == b->fullest && a->peers == b->peers;
}

const char *mrw_tuning_misfit(const struct mrw_tuning_shape *s, enum mrw_func func, enum mrw_algo algo)
{
	struct mrw_cost_shape shape = {.target = MARROW_TARGET_HOST, .nranks = s->nranks, .hosts = s->hosts, .per_host = s->fullest, .channels = 1,
				       .lines = s->hosts == 1, .rails = s->peers == MRW_PEERS_RAILS, .ring = s->peers == MRW_PEERS_RING};
	if (s->peers == MRW_PEERS_TREE)
		mrw_cost_plant(&shape);
	bool has = mrw_cost_ns(&mrw_cost_host, &shape, func, 1, algo) < INFINITY;
	if (algo == MRW_ALGO_TWOSHOT && !has)
		return "it is for all_reduce over more than two ranks that reach each other";
	if (algo == MRW_ALGO_LINES && !has)
		return "it is for all_reduce within a host";
	if ((algo == MRW_ALGO_BULK || algo == MRW_ALGO_RAIL || algo == MRW_ALGO_TREE) && func == MRW_FUNC_BARRIER)
		return "a barrier has no bytes";
	return has ? NULL : "ranks with such peers do not have it";
}

static bool read_form(struct reader *r, char *words[], uint32_t count)
{
	if (count != 2 || strcmp(words[0], "marrow-tuning") != 0)
		return refuse(r, "no tuning table: expected \"marrow-tuning 1\"");
	if (strcmp(words[1], "1") != 0)
		return refuse(r, "form %.20s of tuning tables: this library knows form 1", words[1]);
	r->want = WANT_LIBRARY;
	return true;
}

static void library_text(char *text, size_t bytes)
{
	snprintf(text, bytes, "%d.%d.%d wire %u", MARROW_VERSION_MAJOR, MARROW_VERSION_MINOR, MARROW_VERSION_PATCH, MRW_WIRE_VERSION);
}

static bool read_library(struct reader *r, char *words[], uint32_t count)
{
	char mine[48], theirs[80];
	if (count != 4 || strcmp(words[0], "library") != 0 || strcmp(words[2], "wire") != 0)
		return refuse(r, "expected \"library VERSION wire N\"");
	library_text(mine, sizeof mine);
	snprintf(theirs, sizeof theirs, "%.20s wire %.20s", words[1], words[3]);
	if (strcmp(mine, theirs) != 0)
		return refuse(r, "measured with library %s, this one is %s: measure again", theirs, mine);
	r->want = WANT_MACHINE;
	return true;
}

/* The rest of the line, spaces and all. */
static bool read_machine(struct reader *r, const char *line)
{
	if (strncmp(line, "machine ", 8) != 0 || !line[8])
		return refuse(r, "expected \"machine NAME\"");
	if (strlen(line + 8) >= sizeof r->tuning->machine)
		return refuse(r, "the machine's name is longer than %zu bytes", sizeof r->tuning->machine - 1);
	strcpy(r->tuning->machine, line + 8);
	if (r->machine && strcmp(r->tuning->machine, r->machine) != 0)
		return refuse(r, "measured on \"%.80s\", this is \"%.80s\": measure again", r->tuning->machine, r->machine);
	r->want = WANT_SHAPES;
	return true;
}

static bool read_shape(struct reader *r, char *words[], uint32_t count)
{
	struct mrw_tuning *t = r->tuning;
	struct mrw_tuning_shape s = {0};
	uint64_t ranks, hosts, fullest;
	if (count != 9 || strcmp(words[1], "ranks") != 0 || strcmp(words[3], "hosts") != 0 || strcmp(words[5], "fullest") != 0 ||
	    strcmp(words[7], "peers") != 0)
		return refuse(r, "expected \"shape ranks N hosts N fullest N peers all|rails|ring|tree\"");
	if (!number(words[2], MRW_MAX_RANKS, &ranks) || ranks < 2)
		return refuse(r, "%.20s ranks: 2 to %u", words[2], MRW_MAX_RANKS);
	if (!number(words[4], ranks, &hosts) || hosts < 1)
		return refuse(r, "%.20s hosts of %llu ranks", words[4], (unsigned long long)ranks);
	if (!number(words[6], ranks - (hosts - 1), &fullest) || fullest * hosts < ranks)
		return refuse(r, "%.20s ranks on the fullest of %llu hosts of %llu ranks", words[6], (unsigned long long)hosts, (unsigned long long)ranks);
	while (s.peers < MRW_PEERS_COUNT && strcmp(words[8], peers_names[s.peers]) != 0)
		s.peers++;
	if (s.peers == MRW_PEERS_COUNT || (hosts == 1 && s.peers != MRW_PEERS_ALL) || (s.peers == MRW_PEERS_RAILS && fullest * hosts != ranks))
		return refuse(r, "peers %.20s: all, or over several hosts rails (as many ranks on each), ring or tree", words[8]);
	s.nranks = (uint32_t)ranks;
	s.hosts = (uint32_t)hosts;
	s.fullest = (uint32_t)fullest;
	for (uint32_t i = 0; i < t->nshapes; i++)
		if (same_shape(&t->shapes[i], &s))
			return refuse(r, "this shape is there already");
	if (t->nshapes == MRW_TUNING_SHAPES)
		return refuse(r, "more than %d shapes", MRW_TUNING_SHAPES);
	t->shapes[t->nshapes++] = s;
	return true;
}

/* Does row continue the rows before it? NULL, or why not. */
static const char *disorder(const struct mrw_tuning *t, const struct mrw_tuning_row *row)
{
	uint32_t same = 0;
	for (uint32_t i = t->nrows; i-- > 0 && t->rows[i].shape == row->shape && t->rows[i].func == row->func; same++)
		if (same == 0 && row->most <= t->rows[i].most)
			return "its bytes are not above those of the row before";
	if (same == 0)
		for (uint32_t i = 0; i < t->nrows; i++)
			if (t->rows[i].shape == row->shape && t->rows[i].func == row->func)
				return "the rows of a function stand together";
	return same == MRW_TUNING_ROWS_A_CALL ? "too many rows for one function" : NULL;
}

/* The row before was its function's last one. */
static bool is_whole(const struct mrw_tuning *t)
{
	return t->nrows == 0 || t->rows[t->nrows - 1].most == UINT64_MAX;
}

static bool read_row(struct reader *r, char *words[], uint32_t count)
{
	struct mrw_tuning *t = r->tuning;
	struct mrw_tuning_row row = {.func = mrw_tuning_func(words[0])};
	if (row.func == MRW_FUNC_COUNT)
		return refuse(r, "\"%.40s\" is no function with algorithms, and not \"shape\"", words[0]);
	if (t->nshapes == 0)
		return refuse(r, "a row before the first shape");
	row.shape = t->nshapes - 1;
	if (count != 3)
		return refuse(r, "expected \"%s ALGORITHM BYTES\"", words[0]);
	int32_t algo = mrw_algo_from_name(words[1]);
	if (algo < 0)
		return refuse(r, "\"%.40s\" is no algorithm", words[1]);
	row.algo = (enum mrw_algo)algo;
	const char *why = mrw_tuning_misfit(&t->shapes[row.shape], row.func, row.algo);
	if (why)
		return refuse(r, "%s of %s: %s", words[1], words[0], why);
	if (strcmp(words[2], "max") == 0)
		row.most = UINT64_MAX;
	else if (!number(words[2], INT64_MAX, &row.most))
		return refuse(r, "\"%.40s\" is no number of bytes", words[2]);
	if (t->nrows == MRW_TUNING_ROWS)
		return refuse(r, "more than %d rows", MRW_TUNING_ROWS);
	why = disorder(t, &row);
	if (!why && !is_whole(t) && (t->rows[t->nrows - 1].shape != row.shape || t->rows[t->nrows - 1].func != row.func))
		why = "the function before it has no row up to max";
	if (why)
		return refuse(r, "%s: %s", words[0], why);
	t->rows[t->nrows++] = row;
	return true;
}

static bool read_line(struct reader *r, char *line)
{
	char *words[WORDS], *rest = NULL;
	uint32_t count = 0;
	line[strcspn(line, "#")] = 0;
	size_t length = strlen(line);
	while (length > 0 && strchr(" \t\r", line[length - 1]))
		line[--length] = 0;
	if (length == 0)
		return true;
	if (r->want == WANT_MACHINE)
		return read_machine(r, line);
	for (char *word = strtok_r(line, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
		if (count == WORDS)
			return refuse(r, "more than %d words", WORDS);
		words[count++] = word;
	}
	switch (r->want) {
	case WANT_FORM:
		return read_form(r, words, count);
	case WANT_LIBRARY:
		return read_library(r, words, count);
	default:
		if (strcmp(words[0], "shape") != 0)
			return read_row(r, words, count);
		if (!is_whole(r->tuning))
			return refuse(r, "the function before it has no row up to max");
		return read_shape(r, words, count);
	}
}

bool mrw_tuning_parse(struct mrw_tuning *tuning, const char *bytes, size_t nbytes, const char *machine, struct mrw_tuning_error *error)
{
	struct reader r = {.tuning = tuning, .machine = machine, .error = error};
	char line[LINE_BYTES];
	memset(tuning, 0, sizeof *tuning);
	if (nbytes > MRW_TUNING_FILE_BYTES)
		return refuse(&r, "more than %d bytes", MRW_TUNING_FILE_BYTES);
	for (size_t at = 0, end; at < nbytes; at = end + 1) {
		const char *newline = memchr(bytes + at, '\n', nbytes - at);
		end = newline ? (size_t)(newline - bytes) : nbytes;
		r.line++;
		if (end - at >= sizeof line)
			return refuse(&r, "longer than %d bytes", LINE_BYTES - 1);
		for (size_t i = at; i < end; i++)
			if (((unsigned char)bytes[i] < ' ' && bytes[i] != '\t' && bytes[i] != '\r') || (unsigned char)bytes[i] > '~')
				return refuse(&r, "byte 0x%02x is no text", (unsigned char)bytes[i]);
		if (!newline)
			return refuse(&r, "cut off: the last line does not end");
		memcpy(line, bytes + at, end - at);
		line[end - at] = 0;
		if (!read_line(&r, line))
			return false;
	}
	if (r.want != WANT_SHAPES || !is_whole(tuning))
		return refuse(&r, "cut off: %s", r.want != WANT_SHAPES ? "the first lines are not all there" : "the last function has no row up to max");
	return true;
}

const struct mrw_tuning_row *mrw_tuning_rows(const struct mrw_tuning *tuning, const struct mrw_tuning_shape *shape, enum mrw_func func,
					     uint32_t *count)
{
	const struct mrw_tuning_row *first = NULL;
	*count = 0;
	for (uint32_t i = 0; i < tuning->nrows; i++)
		if (tuning->rows[i].func == func && same_shape(&tuning->shapes[tuning->rows[i].shape], shape)) {
			first = first ? first : &tuning->rows[i];
			++*count;
		}
	return first;
}

bool mrw_tuning_put(struct mrw_tuning *tuning, const struct mrw_tuning_shape *shape, enum mrw_func func, const struct mrw_tuning_row *rows,
		    uint32_t count)
{
	uint32_t at = 0, kept = 0;
	while (at < tuning->nshapes && !same_shape(&tuning->shapes[at], shape))
		at++;
	for (uint32_t i = 0; i < count; i++)
		if (mrw_tuning_misfit(shape, func, rows[i].algo) || (i > 0 && rows[i].most <= rows[i - 1].most))
			return false;
	if (count == 0 || count > MRW_TUNING_ROWS_A_CALL || rows[count - 1].most != UINT64_MAX || at == MRW_TUNING_SHAPES)
		return false;
	for (uint32_t i = 0; i < tuning->nrows; i++)
		kept += tuning->rows[i].shape != at || tuning->rows[i].func != func;
	if (kept + count > MRW_TUNING_ROWS)
		return false;
	kept = 0;
	for (uint32_t i = 0; i < tuning->nrows; i++)
		if (tuning->rows[i].shape != at || tuning->rows[i].func != func)
			tuning->rows[kept++] = tuning->rows[i];
	if (at == tuning->nshapes)
		tuning->shapes[tuning->nshapes++] = *shape;
	/* Behind the shape's other rows, for they are written in this order. */
	uint32_t place = kept;
	while (place > 0 && tuning->rows[place - 1].shape > at)
		place--;
	memmove(&tuning->rows[place + count], &tuning->rows[place], (kept - place) * sizeof *tuning->rows);
	for (uint32_t i = 0; i < count; i++) {
		tuning->rows[place + i] = rows[i];
		tuning->rows[place + i].shape = at;
		tuning->rows[place + i].func = func;
	}
	tuning->nrows = kept + count;
	return true;
}

bool mrw_tuning_write(const struct mrw_tuning *tuning, FILE *file)
{
	char library[48];
	library_text(library, sizeof library);
	fprintf(file, "marrow-tuning 1\nlibrary %s\nmachine %s\n", library, tuning->machine);
	for (uint32_t s = 0; s < tuning->nshapes; s++) {
		const struct mrw_tuning_shape *shape = &tuning->shapes[s];
		fprintf(file, "shape ranks %u hosts %u fullest %u peers %s\n", shape->nranks, shape->hosts, shape->fullest, peers_names[shape->peers]);
		for (uint32_t i = 0; i < tuning->nrows; i++) {
			const struct mrw_tuning_row *row = &tuning->rows[i];
			if (row->shape != s)
				continue;
			fprintf(file, "%s %s ", func_names[row->func], mrw_algo_name(row->algo));
			if (row->most == UINT64_MAX)
				fprintf(file, "max\n");
			else
				fprintf(file, "%llu\n", (unsigned long long)row->most);
		}
	}
	return fflush(file) == 0 && !ferror(file);
}
