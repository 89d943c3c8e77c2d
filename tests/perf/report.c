/* report.c - the table of nccl-tests, and one JSON object a measurement. */
#include "calibrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../support/device_memory.h"

struct perf_report {
	struct perf_worker *worker;
	bool prints;
	FILE *json;
	struct perf_calibration *calibration; /* NULL: none */
	uint64_t wrong, measurements;
	double bus_sum;
};

struct rank_record {
	int32_t pid, device;
	char host[24], name[80];
};

static bool print_devices(const struct perf_report *report)
{
	struct perf_run *run = report->worker->run;
	struct rank_record mine = { .pid = (int32_t)getpid(), .device = report->worker->ranks[0].device, .name = "[host]" };
	struct rank_record *all = calloc(run->meeting.participants, sizeof *all);
	uint32_t each = report->worker->nranks;

	if (gethostname(mine.host, sizeof mine.host - 1) != 0)
		strcpy(mine.host, "?");
	if (run->cuda)
		(void)device_describe(mine.device, mine.name, sizeof mine.name);
	bool good = all && meeting_exchange(&run->meeting, report->worker->participant, &mine, all, sizeof mine);
	for (uint32_t p = 0; good && report->prints && p < run->meeting.participants; p++)
		for (uint32_t i = 0; i < each; i++) {
			printf("#  Rank %2u Group %2d Pid %6d on %10s device ", p * each + i, 0, all[p].pid, all[p].host);
			if (!run->cuda)
				printf("%2s %s\n", "-", all[p].name);
			else if (i == 0)
				printf("%2d %s\n", all[p].device, all[p].name);
			else
				printf("%2d\n", report->worker->ranks[i].device);
		}
	free(all);
	return good;
}

static void print_settings(const struct perf_run *run)
{
	const struct perf_options *o = &run->options;
	bool factor = o->step_factor > 1;

	printf("# marrow perf version %d.%d.%d headers=%d library=%d\n", MARROW_VERSION_MAJOR, MARROW_VERSION_MINOR,
	       MARROW_VERSION_PATCH, MARROW_VERSION, marrow_get_version());
	printf("# Collective test starting: %s\n", run->program);
	printf("# nThread %u nGpus %u minBytes %zu maxBytes %zu step: %zu(%s) warmup iters: %u iters: %u agg iters: %u "
	       "validation: %u graph: %u unalign: %u\n", o->threads, o->ranks_per_thread, o->min_bytes, o->max_bytes,
	       factor ? o->step_factor : o->step_bytes, factor ? "factor" : "bytes", o->warmup, o->iterations, o->aggregate,
	       o->check, o->graph_launches, o->unalign_elems);
	printf("# target: %s ranks: %u processes: %u seed: %llu\n", run->cuda ? "cuda" : "host", run->nranks,
	       run->launched ? run->nranks : o->processes ? o->processes : 1, (unsigned long long)o->seed);
	if (o->ignored[0])
		printf("# Ignored, without meaning here:%s\n", o->ignored);
	if (o->blocking)
		printf("# Blocking Enabled: %s\n", o->blocking == 1 ? "wait and barrier after each operation" :
			o->blocking == 2 ? "wait after each operation" : "wait and barrier after each iteration, the barrier untimed");
	if (o->nalgos)
		printf("# Compared with: each algorithm forced; %u rounds in turn, percentile %u; best is the quickest, ratio is the chosen one's time over its\n",
		       o->rounds, o->percentile);
	else if (run->nlibraries > 1)
		printf("# Compared with: %s from %s; %u rounds in turn, percentile %u; ratio is marrow's time over its\n",
		       run->libraries[1].name, o->compare_path, o->rounds, o->percentile);
	printf("#\n# Using devices\n");
}

static void print_header(const struct perf_run *run)
{
	const char *time = run->options.cpu_time ? "cputime" : "time";
	bool compares = run->nlibraries > 1, algos = run->options.nalgos > 0;
	const char *other = algos ? "     best  ratio          " : compares ? "    other  ratio" : "";
	const char *unit = algos ? "     (us)                 " : compares ? "     (us)       " : "";

	printf("#\n# %10s  %12s  %8s  %6s  %6s           out-of-place         %*s              in-place          \n", "", "", "",
	       "", "", (int)strlen(other), "");
	printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s%s  %7s  %6s  %6s  %6s%s%s\n", "size", "count", "type", "redop",
	       "root", time, "algbw", "busbw", "#wrong", other, time, "algbw", "busbw", "#wrong", other,
	       run->options.timestamps ? "            timestamp" : "");
	printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s%s  %7s  %6s  %6s  %6s%s\n", "(B)", "(elements)", "", "", "",
	       "(us)", "(GB/s)", "(GB/s)", "", unit, "(us)", "(GB/s)", "(GB/s)", "", unit);
}

struct perf_report *report_open(struct perf_worker *worker)
{
	struct perf_report *report = calloc(1, sizeof *report);
	const char *path = worker->run->options.json_path;

	if (!report)
		return NULL;
	report->worker = worker;
	report->prints = worker->participant == 0;
	if (report->prints && path && !(report->json = fopen(path, "a"))) {
		fprintf(stderr, "--json: ");
		perror(path);
		free(report);
		return NULL;
	}
	if (report->prints)
		print_settings(worker->run);
	if (!print_devices(report) || (worker->run->options.calibrate_path && !calibration_open(worker, &report->calibration))) {
		if (report->json)
			fclose(report->json);
		free(report);
		return NULL;
	}
	if (report->prints)
		print_header(worker->run);
	fflush(stdout);
	return report;
}

/* As many decimals as fit into width. */
static void print_number(double value, int width)
{
	char text[32];

	for (int decimals = 2; decimals >= 0; decimals--)
		if (snprintf(text, sizeof text, "%*.*f", width, decimals, value) <= width) {
			printf("  %s", text);
			return;
		}
	printf("  %*.1e", width, value);
}

static double bandwidth(const struct perf_test *test, double us)
{
	return us > 0 ? (double)test->bytes / us * 1e-3 : 0;
}

static void write_json(const struct perf_report *report, const struct perf_test *test, const struct perf_half *half,
		       uint32_t library)
{
	const struct perf_run *run = report->worker->run;
	const struct perf_time *time = &half->times[library];
	double algbw = bandwidth(test, time->us);

	fprintf(report->json, "{\"bytes\": %zu, \"count\": %zu, \"type\": \"%s\", \"op\": \"%s\", \"root\": %d, \"in_place\": %s, "
		"\"graph\": %u, \"lib\": \"%s\", \"time_us\": %.4f, ", test->bytes, test->layout.count, perf_type_name(test->type),
		run->collective->reduces ? perf_op_name(test->op) : "none", test->root, test->in_place ? "true" : "false",
		run->options.graph_launches, run->libraries[library].name, time->us);
	if (time->p50 < 0)
		fprintf(report->json, "\"p50\": null, \"p99\": null, ");
	else
		fprintf(report->json, "\"p50\": %.4f, \"p99\": %.4f, ", time->p50, time->p99);
	fprintf(report->json, "\"algbw\": %.4f, \"busbw\": %.4f, ", algbw, algbw * run->collective->bus_factor(run->nranks));
	if (library == 0 && !half->unchecked)
		fprintf(report->json, "\"wrong\": %llu, ", (unsigned long long)half->wrong);
	else
		fprintf(report->json, "\"wrong\": null, ");
	fprintf(report->json, "\"collective\": \"%s\", \"target\": \"%s\", \"ranks\": %u, \"registered\": %u}\n", run->collective->name,
		run->cuda ? "cuda" : "host", run->nranks, run->options.registration);
}

/* The quickest algorithm; 0, what is chosen, if none could carry the call. */
static uint32_t quickest(const struct perf_run *run, const struct perf_half *half)
{
	uint32_t best = 0;
	for (uint32_t l = 1; l < run->nlibraries; l++)
		if (half->times[l].us > 0 && (best == 0 || half->times[l].us < half->times[best].us))
			best = l;
	return best;
}

static void print_half(struct perf_report *report, const struct perf_test *test, const struct perf_half *half)
{
	const struct perf_run *run = report->worker->run;
	if (half->skipped) {
		printf("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
		if (run->nlibraries > 1)
			printf("  %7s  %5s", "N/A", "N/A");
		if (run->options.nalgos)
			printf("  %8s", "");
		return;
	}
	double ours = half->times[0].us, algbw = bandwidth(test, ours), busbw = algbw * run->collective->bus_factor(run->nranks);

	print_number(ours, 7);
	print_number(algbw, 6);
	print_number(busbw, 6);
	if (!half->unchecked)
		printf("  %6g", (double)half->wrong);
	else
		printf("  %6s", "N/A");
	if (run->nlibraries > 1) {
		uint32_t best = run->options.nalgos ? quickest(run, half) : 1;
		double theirs = half->times[best].us;
		print_number(theirs, 7);
		printf("  %5.2f", theirs > 0 ? ours / theirs : 0);
		if (run->options.nalgos)
			printf("  %8s", run->libraries[best].name);
	}
	report->bus_sum += busbw;
	report->measurements++;
	for (uint32_t l = 0; report->json && l < run->nlibraries; l++)
		if (half->times[l].us >= 0)
			write_json(report, test, half, l);
}

static void print_timestamp(void)
{
	char text[32];
	time_t now = time(NULL);
	struct tm local;

	if (localtime_r(&now, &local) && strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local))
		printf("  %s", text);
}

bool report_row(struct perf_report *report, const struct perf_test *test, const struct perf_half halves[2])
{
	const struct perf_run *run = report->worker->run;
	struct perf_test half = *test;

	report->wrong += halves[0].wrong + halves[1].wrong;
	if (!report->prints)
		return true;
	printf("%12zu  %12zu  %8s  %6s  %6d", test->bytes, test->layout.count, perf_type_name(test->type),
	       run->collective->reduces ? perf_op_name(test->op) : "none", test->root);
	for (int in_place = 0; in_place < 2; in_place++) {
		half.in_place = in_place != 0;
		print_half(report, &half, &halves[in_place]);
		if (report->calibration)
			calibration_add(report->calibration, &half, &halves[in_place]);
	}
	if (run->options.timestamps)
		print_timestamp();
	printf("\n");
	fflush(stdout);
	return !report->json || fflush(report->json) == 0;
}

static void print_memory(const struct perf_report *report)
{
	struct marrow_comm_properties properties = { .size = sizeof properties };

	if (marrow_comm_get_properties(report->worker->ranks[0].comms[0], &properties) == MARROW_SUCCESS)
		printf("# %-20s : %.2f MiB\n", "Communicator memory", (double)properties.arena_bytes / (1 << 20));
}

bool report_close(struct perf_report *report, bool finished)
{
	const struct perf_run *run = report->worker->run;
	bool right = finished && report->wrong == 0;

	if (!calibration_close(report->calibration, right))
		right = false;
	if (report->prints) {
		printf("# %-20s : %llu %s\n", "Out of bounds values", (unsigned long long)report->wrong, right ? "OK" : "FAILED");
		printf("# %-20s : %g \n", "Avg bus bandwidth",
		       report->measurements ? report->bus_sum / (double)report->measurements : 0);
		if (finished && run->options.memory_report)
			print_memory(report);
		printf("#\n# Collective test %s: %s\n", finished ? "concluded" : "broke off", run->program);
		fflush(stdout);
	}
	if (report->json && fclose(report->json) != 0)
		right = false;
	free(report);
	return right;
}
