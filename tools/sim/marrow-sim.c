/* marrow-sim - the library's schedules on a cluster that is only described: how long, over which links, at which memory, and whether they
 * are complete. */
#include "report.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char usage[] =
	"usage: marrow-sim [options] FILE\n"
	"Runs the library's own schedules on the cluster that FILE (- for standard input) describes, as discrete events: time, bytes on each\n"
	"class of links, memory and queue pairs of a rank, rounds of the bootstrap. Checks that every rank ends with every contribution exactly\n"
	"once, and that nobody waits for ever; says else who lacks what, or waits for whom.\n"
	"  --collective C,...  all_reduce (default), all_gather, reduce_scatter, reduce_scatter_v, broadcast, reduce, barrier,\n"
	"                      all_to_all, all_to_all_v, all_gather_v, gather, scatter, send_recv (each rank sends to its right neighbour, and\n"
	"                      receives from its left one)\n"
	"  --schedule S,...    oneshot, twoshot (packets), direct (chunks; everybody to everybody), railshot (packets), rail (chunks; within\n"
	"                      hosts and along rails), ring (chunks), treeshot (packets), tree (chunks; two binary trees over the ring's order),\n"
	"                      treering (all_gather, reduce_scatter(_v): the ring that a communicator in trees has beside them),\n"
	"                      lines (one host, all_reduce), transfers (all_to_all and what follows it, up to 64 ranks); without it all that the\n"
	"                      library can take for the call\n"
	"  --ranks N,...       so many instead of what FILE says: multiples of its GPUs a host, up to 32768, where hosts are alike\n"
	"  --sizes A[:B[:F]]   bytes of the whole buffer (with the blocks of all ranks; of send_recv what each sends): A to B, each F times the\n"
	"                      one before (default 1K:1G:4); K, M, G. A barrier has none\n"
	"  --root R            of broadcast, reduce, gather and scatter\n"
	"  --counts W,...      of reduce_scatter_v, all_gather_v, all_to_all_v: blocks are to each other as these whole numbers, rank 0's first,\n"
	"                      and again from the beginning for more ranks (all_to_all_v: of what each sends; a large one makes a hot\n"
	"                      receiver). Default 1: all alike\n"
	"  --shift K           of send_recv: to the rank K places on instead\n"
	"  --channels N        instead of the library's choice (beyond its 64 ranks: one)\n"
	"  --chunk BYTES       beyond 64 ranks: chunks of at least so many bytes, where blocks are not smaller (default 64K)\n"
	"  --set 'WORD VALUE'  a line more for FILE, such as 'straggler 7 times 3 late_us 50' or 'nic_gb_s 12'\n"
	"  --no-check          only waits, not contents: less memory and time\n"
	"  --csv, --json       for programs\n"
	"  --svg               times and crossovers drawn\n"
	"  --messages          what each rank sends each other one by each NIC, for every call\n"
	"FILE: the line \"marrow-cluster 1\", then a word and its value a line; # begins a comment. Needed: hosts, gpus (of a host), memory_gb_s,\n"
	"round_us; where there are such: nics (of a host), cores, channels, rails (0, 1), nvlink_gb_s, nvlink_us, pcie_gb_s, nic_gb_s, nic_us,\n"
	"request_us, post_us, packet_us, call_us, socket_us, socket_gb_s, join_us, target (cuda, host), name; level NAME hosts N taper T us U (switches over groups of N\n"
	"hosts, inner first; T: NIC bandwidth below to uplink bandwidth); straggler RANK times T late_us U; host K gpus N nics M (host number K,\n"
	"or A-B, has other numbers than the rest; without equal numbers of GPUs there are no rails).\n"
	"Exit status: 0, 1 if a schedule is incomplete or blocked or input is wrong, 2 for these options.\n";

enum form { TABLE, CSV, JSON, SVG, MESSAGES };

enum { MOST = 16, SETS = 32, COUNTS = 64, LARGEST_COUNT = 1 << 20 };

struct options {
	enum form form;
	uint32_t funcs[MOST], nfuncs, ranks[MOST], nranks, nschedules, nsets, root, channels, chunk, shift;
	uint32_t counts[COUNTS], ncounts;
	char counts_text[8 * COUNTS];
	const struct sim_schedule *schedules[MOST];
	const char *sets[SETS];
	uint64_t from, to;
	double factor;
	bool check;
	const char *file;
};

static bool size_of(const char *text, char **end, uint64_t *bytes)
{
	const char *units = "KMG";
	unsigned long long value = strtoull(text, end, 10);
	if (*end == text || text[0] == '-')
		return false;
	const char *unit = **end ? strchr(units, **end) : NULL;
	uint32_t shift = unit ? 10 * (uint32_t)(unit - units + 1) : 0;
	if (unit)
		++*end;
	*bytes = value << shift;
	return value <= (1ull << 40) >> shift;
}

static bool read_sizes(struct options *o, const char *text)
{
	char *end;
	if (!size_of(text, &end, &o->from))
		return false;
	o->to = o->from;
	if (*end == ':' && !size_of(end + 1, &end, &o->to))
		return false;
	if (*end == ':') {
		const char *factor = end + 1;
		o->factor = strtod(factor, &end);
		if (end == factor || !(o->factor >= 1.01))
			return false;
	}
	return *end == '\0' && o->from > 0 && o->to >= o->from;
}

static bool whole(const char *text, uint64_t least, uint64_t most, uint32_t *value)
{
	char *end;
	uint64_t v;
	if (!size_of(text, &end, &v) || *end || v < least || v > most)
		return false;
	*value = (uint32_t)v;
	return true;
}

/* The words of a list, one after the other; none is empty. */
static bool read_list(struct options *o, const char *what, char *list)
{
	for (char *word = strsep(&list, ","); word; word = strsep(&list, ",")) {
		if (strcmp(what, "--collective") == 0) {
			if (o->nfuncs == MOST || (o->funcs[o->nfuncs++] = sim_func_find(word)) == MRW_FUNC_END)
				return false;
		} else if (strcmp(what, "--schedule") == 0) {
			if (o->nschedules == MOST || !(o->schedules[o->nschedules++] = sim_schedule_find(word)))
				return false;
		} else if (strcmp(what, "--counts") == 0) {
			if (o->ncounts == COUNTS || !whole(word, 0, LARGEST_COUNT, &o->counts[o->ncounts++]))
				return false;
		} else if (o->nranks == MOST || !whole(word, 2, SIM_MAX_RANKS, &o->ranks[o->nranks++]))
			return false;
	}
	return true;
}

/* As numbers, and as a text of them. */
static bool read_counts(struct options *o, char *list)
{
	size_t at = 0;
	bool some = false;
	o->ncounts = 0;
	bool ok = read_list(o, "--counts", list);
	for (uint32_t i = 0; ok && i < o->ncounts; i++)
		some = some || o->counts[i] > 0;
	if (!some) {
		fprintf(stderr, "marrow-sim: --counts: up to %d whole numbers from 0 to %d, with commas between, not all of them 0\n", COUNTS, LARGEST_COUNT);
		return false;
	}
	for (uint32_t i = 0; i < o->ncounts; i++)
		at += (size_t)snprintf(o->counts_text + at, sizeof o->counts_text - at, "%s%u", i ? "," : "", o->counts[i]);
	return true;
}

static bool read_value(struct options *o, const char *name, char *value)
{
	if (strcmp(name, "--collective") == 0 || strcmp(name, "--schedule") == 0 || strcmp(name, "--ranks") == 0)
		return read_list(o, name, value);
	if (strcmp(name, "--counts") == 0)
		return read_counts(o, value);
	if (strcmp(name, "--shift") == 0)
		return whole(value, 1, SIM_LIBRARY_RANKS - 1, &o->shift);
	if (strcmp(name, "--sizes") == 0)
		return read_sizes(o, value);
	if (strcmp(name, "--root") == 0)
		return whole(value, 0, SIM_MAX_RANKS - 1, &o->root);
	if (strcmp(name, "--channels") == 0)
		return whole(value, 1, MRW_MAX_CHANNELS, &o->channels);
	if (strcmp(name, "--chunk") == 0)
		return whole(value, 512, MRW_MAX_CHUNK_BYTES, &o->chunk);
	if (strcmp(name, "--set") == 0 && o->nsets < SETS) {
		o->sets[o->nsets++] = value;
		return true;
	}
	return false;
}

static bool read_options(struct options *o, int argc, char **argv)
{
	static const char *const forms[] = {NULL, "--csv", "--json", "--svg", "--messages"};
	for (int i = 1; i < argc; i++) {
		bool taken = false;
		for (uint32_t f = CSV; f <= MESSAGES; f++)
			if (strcmp(argv[i], forms[f]) == 0) {
				o->form = (enum form)f;
				taken = true;
			}
		if (taken)
			continue;
		if (strcmp(argv[i], "--no-check") == 0)
			o->check = false;
		else if (argv[i][0] == '-' && argv[i][1]) {
			if (i + 1 == argc || !read_value(o, argv[i], argv[i + 1])) {
				fprintf(stderr, "marrow-sim: %s %s?\n", argv[i], i + 1 < argc ? argv[i + 1] : "");
				return false;
			}
			i++;
		} else if (o->file)
			return false;
		else
			o->file = argv[i];
	}
	return o->file != NULL;
}

static bool get_cluster(struct sim_cluster *c, const struct options *o)
{
	struct sim_error error = {0, ""};
	FILE *file = strcmp(o->file, "-") == 0 ? stdin : fopen(o->file, "r");
	if (!file) {
		fprintf(stderr, "%s: cannot be opened\n", o->file);
		return false;
	}
	bool ok = sim_cluster_read(c, file, &error);
	if (file != stdin)
		fclose(file);
	for (uint32_t i = 0; ok && i < o->nsets; i++)
		if (!sim_cluster_line(c, o->sets[i], &error)) {
			fprintf(stderr, "--set '%s': %s\n", o->sets[i], error.text);
			return false;
		}
	if (ok && o->nranks > 0 && c->nothers > 0) {
		fprintf(stderr, "%s: its hosts differ, so that --ranks does not say how many there are: --set 'hosts N' does\n", o->file);
		return false;
	}
	if (ok && o->nranks > 0)
		c->hosts = o->ranks[0] > c->gpus ? o->ranks[0] / c->gpus : 1; /* checked again for each */
	ok = ok && sim_cluster_check(c, &error);
	if (!ok && error.line > 0)
		fprintf(stderr, "%s:%u: %s\n", o->file, error.line, error.text);
	else if (!ok)
		fprintf(stderr, "%s: %s\n", o->file, error.text);
	return ok;
}

struct pair_sums {
	uint32_t n, nics;
	uint64_t *bytes, *requests; /* [(src * n + dst) * nics + nic] */
};

static void listen(void *arg, uint32_t src, uint32_t dst, uint32_t nic, uint64_t bytes, uint32_t requests)
{
	struct pair_sums *p = arg;
	size_t at = ((size_t)src * p->n + dst) * p->nics + nic;
	p->bytes[at] += bytes;
	p->requests[at] += requests;
}

static bool print_messages(const struct sim_cluster *c, const struct sim_call *call, const struct options *o, struct sim_answer *answer)
{
	struct pair_sums p = {sim_cluster_ranks(c), 4, NULL, NULL};
	size_t cells = (size_t)p.n * p.n * p.nics;
	p.bytes = calloc(cells, sizeof *p.bytes);
	p.requests = calloc(cells, sizeof *p.requests);
	bool ok = p.bytes && p.requests && sim_run(c, call, o->check, listen, &p, answer);
	if (ok)
		printf("%s %s %llu: %u channels, chunks of %u bytes\n", sim_func_name(call->func), call->schedule->name, (unsigned long long)call->bytes,
		       answer->channels, answer->chunk_bytes);
	for (size_t i = 0; ok && i < cells; i++)
		if (p.requests[i] > 0)
			printf("%s %s %llu: rank %zu to %zu, NIC %zu: %llu requests, %llu bytes\n", sim_func_name(call->func), call->schedule->name,
			       (unsigned long long)call->bytes, i / p.nics / p.n, i / p.nics % p.n, i % p.nics, (unsigned long long)p.requests[i],
			       (unsigned long long)p.bytes[i]);
	free(p.bytes);
	free(p.requests);
	return ok;
}

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* All sizes of a collective by a schedule. False: stop. */
static bool run_sizes(struct sim_report *report, struct sim_cluster *c, const struct options *o, uint32_t func, const struct sim_schedule *schedule, int *status)
{
	uint64_t last = UINT64_MAX;
	for (double size = (double)o->from; size <= (double)o->to * 1.0001; size *= o->factor) {
		uint64_t bytes = func == MRW_FUNC_BARRIER ? 0 : (uint64_t)(size + 0.5);
		struct sim_row row = {.call = {schedule, func, o->root, bytes, o->channels, o->chunk, o->counts, o->ncounts, o->shift}, .ranks = sim_cluster_ranks(c)};
		if (bytes == last)
			continue;
		last = bytes;
		double began = seconds();
		bool ok = o->form == MESSAGES ? print_messages(c, &row.call, o, &row.answer) : sim_run(c, &row.call, o->check, NULL, NULL, &row.answer);
		row.seconds = seconds() - began;
		if (!ok && row.answer.plan.refused && !o->nschedules)
			break; /* nor larger ones */
		if (!ok) {
			fprintf(stderr, "marrow-sim: %s by %s, %u ranks, %llu bytes: %s\n", sim_func_name(func), schedule->name, row.ranks,
				(unsigned long long)row.call.bytes, row.answer.fault);
			*status = 1;
		}
		if (!sim_report_add(report, &row)) {
			fputs("marrow-sim: no memory\n", stderr);
			*status = 1;
			return false;
		}
	}
	return true;
}

/* Without --schedule: those that can carry it. */
static bool fits(const struct sim_schedule *s, const struct sim_cluster *c, uint32_t func)
{
	if (!s->has(func) || (s->several_hosts && c->hosts == 1))
		return false;
	bool rails = sim_cluster_fewest_gpus(c) == sim_cluster_most_gpus(c) && c->gpus > 1;
	return (s->algo != MRW_ALGO_RAIL && s->algo != MRW_ALGO_RAILSHOT) || rails;
}

static void run_all(struct sim_report *report, struct sim_cluster *c, const struct options *o, int *status)
{
	for (uint32_t f = 0; f < o->nfuncs; f++)
		for (uint32_t n = 0; n < (o->nranks ? o->nranks : 1); n++) {
			if (o->nranks)
				c->hosts = o->ranks[n] / c->gpus;
			for (uint32_t s = 0; s < (o->nschedules ? o->nschedules : sim_schedule_count); s++) {
				const struct sim_schedule *schedule = o->nschedules ? o->schedules[s] : sim_schedules[s];
				if ((o->nschedules || fits(schedule, c, o->funcs[f])) && !run_sizes(report, c, o, o->funcs[f], schedule, status))
					return;
			}
		}
}

static bool check_ranks(struct sim_cluster *c, const struct options *o)
{
	struct sim_error error;
	for (uint32_t n = 0; n < o->nranks; n++) {
		double gpus = c->gpus;
		c->hosts = (double)o->ranks[n] / gpus;
		if (c->hosts != (double)(uint32_t)c->hosts) {
			fprintf(stderr, "marrow-sim: %u ranks: a host has %g\n", o->ranks[n], gpus);
			return false;
		}
		if (!sim_cluster_check(c, &error)) {
			fprintf(stderr, "marrow-sim: %u ranks: %s\n", o->ranks[n], error.text);
			return false;
		}
	}
	return true;
}

/* What is said of a collective is said of one that is asked for. */
static bool options_fit(const struct options *o)
{
	bool counts = false, sends = false;
	for (uint32_t i = 0; i < o->nfuncs; i++) {
		counts = counts || sim_func_has_counts(o->funcs[i]);
		sends = sends || o->funcs[i] == MRW_FUNC_TRANSFERS;
	}
	if (o->ncounts && !counts)
		fputs("marrow-sim: --counts is of reduce_scatter_v, all_gather_v and all_to_all_v, and --collective names none of them\n", stderr);
	else if (o->shift && !sends)
		fputs("marrow-sim: --shift is of send_recv, which --collective does not name\n", stderr);
	else
		return true;
	return false;
}

int main(int argc, char **argv)
{
	struct options options = {.from = 1 << 10, .to = 1 << 30, .factor = 4, .check = true};
	static struct sim_cluster cluster;
	struct sim_report report = {.cluster = &cluster};
	int status = 0;

	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		fputs(usage, stdout);
		return 0;
	}
	if (!read_options(&options, argc, argv)) {
		fputs(usage, stderr);
		return 2;
	}
	if (options.nfuncs == 0)
		options.funcs[options.nfuncs++] = MRW_FUNC_ALL_REDUCE;
	if (!options_fit(&options))
		return 2;
	if (!get_cluster(&cluster, &options) || !check_ranks(&cluster, &options))
		return 1;
	report.checked = options.check;
	report.counts = options.ncounts ? options.counts_text : NULL;
	run_all(&report, &cluster, &options, &status);
	if (report.count == 0 && status == 0) {
		fputs("marrow-sim: no schedule carries that over these ranks: ask for one (--schedule), and it says why\n", stderr);
		return 1;
	}
	if (options.form == TABLE)
		sim_report_table(&report, stdout);
	else if (options.form == CSV)
		sim_report_csv(&report, stdout);
	else if (options.form == JSON)
		sim_report_json(&report, stdout);
	else if (options.form == SVG)
		sim_report_svg(&report, stdout);
	free(report.rows);
	if (fflush(stdout) != 0 || ferror(stdout))
		status = 1;
	return status;
}
