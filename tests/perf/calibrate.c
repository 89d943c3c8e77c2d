#include "calibrate.h"

#include "collectives/select.h"
#include "collectives/tuning.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZES = 128 };
/* The algorithm before stays while it is within so much of the best: a boundary shall be where something is gained. */
#define ENOUGH 1.03

struct point {
	uint64_t bytes;              /* as in struct mrw_args */
	double us[MRW_ALGO_COUNT];   /* 0: cannot carry it */
};

struct perf_calibration {
	const struct perf_run *run;
	struct mrw_tuning tuning;
	struct mrw_tuning_shape shape;
	enum mrw_func func;
	uint32_t points;
	struct point point[SIZES];
};

static enum mrw_func func_of(enum perf_kind kind)
{
	switch (kind) {
	case PERF_ALL_REDUCE: return MRW_FUNC_ALL_REDUCE;
	case PERF_ALL_GATHER: return MRW_FUNC_ALL_GATHER;
	case PERF_BROADCAST: return MRW_FUNC_BROADCAST;
	case PERF_REDUCE_SCATTER: return MRW_FUNC_REDUCE_SCATTER;
	case PERF_REDUCE: return MRW_FUNC_REDUCE;
	default: return MRW_FUNC_COUNT;
	}
}

/* What the file holds, or nothing yet. */
static bool load(struct perf_calibration *c, const char *machine)
{
	const char *path = c->run->options.calibrate_path;
	char *bytes = malloc(MRW_TUNING_FILE_BYTES + 1);
	struct mrw_tuning_error error = {0, "out of memory"};
	FILE *file = fopen(path, "re");

	if (!file && errno == ENOENT) {
		snprintf(c->tuning.machine, sizeof c->tuning.machine, "%s", machine);
		free(bytes);
		return true;
	}
	bool good = file && bytes;
	if (!file)
		snprintf(error.text, sizeof error.text, "%s", strerror(errno));
	if (good)
		good = mrw_tuning_parse(&c->tuning, bytes, fread(bytes, 1, MRW_TUNING_FILE_BYTES + 1, file), machine, &error);
	if (!good)
		fprintf(stderr, "--calibrate: %s:%u: %s (it is left as it is: name another file, or remove it)\n", path, error.line, error.text);
	if (file)
		fclose(file);
	free(bytes);
	return good;
}

bool calibration_open(struct perf_worker *worker, struct perf_calibration **calibration)
{
	struct perf_run *run = worker->run;
	struct marrow_comm_properties p = {.size = sizeof p};
	struct perf_calibration *c;
	double fullest;
	bool good;

	*calibration = NULL;
	if (marrow_comm_get_properties(worker->ranks[0].comms[0], &p) != MARROW_SUCCESS) {
		fprintf(stderr, "--calibrate: %s\n", marrow_last_error(NULL));
		return false;
	}
	fullest = p.ranks_on_host;
	if (!meeting_fold(&run->meeting, worker->participant, &fullest, MEETING_MOST))
		return false;
	if (worker->participant != 0)
		return true;
	if (func_of(run->collective->kind) == MRW_FUNC_COUNT || run->nranks < 2) {
		fprintf(stderr, "--calibrate: there is nothing to choose for %s over %u ranks\n", run->collective->name, run->nranks);
		return false;
	}
	if (getenv("MARROW_ALGO") || getenv("MARROW_TUNING")) {
		fprintf(stderr, "--calibrate: unset MARROW_ALGO and MARROW_TUNING, which decide what is chosen\n");
		return false;
	}
	c = calloc(1, sizeof *c);
	if (!c)
		return false;
	c->run = run;
	c->func = func_of(run->collective->kind);
	c->shape = (struct mrw_tuning_shape){run->nranks, p.hosts, (uint32_t)fullest, p.rails ? MRW_PEERS_RAILS : MRW_PEERS_ALL};
	good = load(c, p.machine);
	if (good)
		*calibration = c;
	else
		free(c);
	return good;
}

void calibration_add(struct perf_calibration *c, const struct perf_test *test, const struct perf_half *half)
{
	uint64_t bytes = (uint64_t)test->layout.count * test->element_bytes;
	struct point *point = &c->point[c->points];

	if (test->in_place || half->skipped || bytes == 0 || c->points == SIZES || (c->points > 0 && bytes <= point[-1].bytes))
		return;
	memset(point, 0, sizeof *point);
	point->bytes = bytes;
	for (uint32_t l = 1; l < c->run->nlibraries; l++) {
		int32_t algo = mrw_algo_from_name(c->run->libraries[l].name);
		if (algo >= 0 && half->times[l].us > 0 && !mrw_tuning_misfit(&c->shape, c->func, (enum mrw_algo)algo)) {
			point->us[algo] = half->times[l].us;
			c->points = (uint32_t)(point - c->point) + 1;
		}
	}
}

static enum mrw_algo quickest(const struct point *point)
{
	uint32_t best = 0;
	for (uint32_t a = 0; a < MRW_ALGO_COUNT; a++)
		if (point->us[a] > 0 && (best == 0 || point->us[a] < point->us[best]))
			best = a;
	return (enum mrw_algo)best;
}

/* Between two sizes the lines through both algorithms' times cross; where one of them could not carry one of the calls: at the first. */
static uint64_t crossing(const struct point *low, const struct point *high, enum mrw_algo from, enum mrw_algo to)
{
	double ahead = low->us[to] - low->us[from], behind = high->us[from] - high->us[to];
	if (low->us[to] == 0 || high->us[from] == 0 || ahead <= 0 || behind <= 0)
		return low->bytes;
	return low->bytes + (uint64_t)((double)(high->bytes - low->bytes) * ahead / (ahead + behind));
}

static uint32_t make_rows(const struct perf_calibration *c, struct mrw_tuning_row *rows)
{
	uint32_t count = 0;
	enum mrw_algo now = quickest(&c->point[0]);
	for (uint32_t i = 1; i < c->points; i++) {
		enum mrw_algo best = quickest(&c->point[i]);
		if (best == now || (c->point[i].us[now] > 0 && c->point[i].us[now] <= ENOUGH * c->point[i].us[best]))
			continue;
		if (count == MRW_TUNING_ROWS_A_CALL - 1)
			return 0;
		rows[count++] = (struct mrw_tuning_row){.algo = now, .most = crossing(&c->point[i - 1], &c->point[i], now, best)};
		now = best;
	}
	rows[count++] = (struct mrw_tuning_row){.algo = now, .most = UINT64_MAX};
	return count;
}

/* A reader never sees half a table. */
static bool save(const struct mrw_tuning *tuning, const char *path)
{
	char beside[4096];
	int length = snprintf(beside, sizeof beside, "%s.%d", path, (int)getpid());
	FILE *file = length > 0 && (size_t)length < sizeof beside ? fopen(beside, "we") : NULL;
	bool good = file && mrw_tuning_write(tuning, file);

	if (file && fclose(file) != 0)
		good = false;
	good = good && rename(beside, path) == 0;
	if (!good) {
		fprintf(stderr, "--calibrate: ");
		perror(path);
		if (file)
			unlink(beside);
	}
	return good;
}

bool calibration_close(struct perf_calibration *c, bool finished)
{
	struct mrw_tuning_row rows[MRW_TUNING_ROWS_A_CALL];
	bool good = true;

	if (!c)
		return true;
	if (finished) {
		uint32_t count = c->points > 0 ? make_rows(c, rows) : 0;
		good = count > 0 && mrw_tuning_put(&c->tuning, &c->shape, c->func, rows, count) &&
		       (c->func != MRW_FUNC_REDUCE_SCATTER || /* the same kernels */
			mrw_tuning_put(&c->tuning, &c->shape, MRW_FUNC_REDUCE_SCATTER_V, rows, count));
		if (!good)
			fprintf(stderr, "--calibrate: no algorithm was measured, or more than %d boundaries or %d rows: a quieter machine, or more --rounds, "
				"has fewer\n", MRW_TUNING_ROWS_A_CALL - 1, MRW_TUNING_ROWS);
		good = good && save(&c->tuning, c->run->options.calibrate_path);
		for (uint32_t i = 0; good && i < count; i++)
			printf(rows[i].most == UINT64_MAX ? "# calibrated: %s %s max\n" : "# calibrated: %s %s %llu\n", mrw_tuning_func_name(c->func),
			       mrw_algo_name(rows[i].algo), (unsigned long long)rows[i].most);
	}
	free(c);
	return good;
}
