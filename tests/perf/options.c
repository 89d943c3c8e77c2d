#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const type_names[] = { "int8", "uint8", "int32", "uint32", "int64",
					  "uint64", "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2" };
static const char *const type_synonyms[] = { "char", "", "int", "", "", "", "float16", "float32", "float64", "bf16", "fp8e4m3", "fp8e5m2" };
static const char *const op_names[PERF_OPS] = { "sum", "prod", "max", "min", "avg", "mulsum" };
enum { TYPES = sizeof type_names / sizeof *type_names };

const char *perf_type_name(enum marrow_type type)
{
	return type_names[type];
}

const char *perf_op_name(uint32_t op)
{
	return op_names[op];
}

enum { OPT_TARGET = 256, OPT_RANKS, OPT_PROCESSES, OPT_JSON, OPT_COMPARE, OPT_ROUNDS, OPT_SEED, OPT_ALGOS, OPT_PERCENTILE, OPT_CALIBRATE };

static const struct option long_options[] = {
	{ "nthreads", required_argument, NULL, 't' },
	{ "ngpus", required_argument, NULL, 'g' },
	{ "minbytes", required_argument, NULL, 'b' },
	{ "maxbytes", required_argument, NULL, 'e' },
	{ "stepbytes", required_argument, NULL, 'i' },
	{ "stepfactor", required_argument, NULL, 'f' },
	{ "iters", required_argument, NULL, 'n' },
	{ "agg_iters", required_argument, NULL, 'm' },
	{ "warmup_iters", required_argument, NULL, 'w' },
	{ "run_cycles", required_argument, NULL, 'N' },
	{ "parallel_init", required_argument, NULL, 'p' },
	{ "check", required_argument, NULL, 'c' },
	{ "op", required_argument, NULL, 'o' },
	{ "datatype", required_argument, NULL, 'd' },
	{ "root", required_argument, NULL, 'r' },
	{ "blocking", required_argument, NULL, 'z' },
	{ "stream_null", required_argument, NULL, 'y' },
	{ "timeout", required_argument, NULL, 'T' },
	{ "cudagraph", required_argument, NULL, 'G' },
	{ "report_cputime", required_argument, NULL, 'C' },
	{ "report_timestamps", required_argument, NULL, 'S' },
	{ "output_file", required_argument, NULL, 'J' },
	{ "average", required_argument, NULL, 'a' },
	{ "local_register", required_argument, NULL, 'R' },
	{ "cta_policy", required_argument, NULL, 'x' },
	{ "device_implementation", required_argument, NULL, 'D' },
	{ "device_cta_count", required_argument, NULL, 'V' },
	{ "memory", required_argument, NULL, 'M' },
	{ "unalign", required_argument, NULL, 'u' },
	{ "per_iter_timing", required_argument, NULL, 'I' },
	{ "per_iter_skip", required_argument, NULL, 'K' },
	{ "help", no_argument, NULL, 'h' },
	{ "target", required_argument, NULL, OPT_TARGET },
	{ "ranks", required_argument, NULL, OPT_RANKS },
	{ "processes", required_argument, NULL, OPT_PROCESSES },
	{ "json", required_argument, NULL, OPT_JSON },
	{ "compare", required_argument, NULL, OPT_COMPARE },
	{ "rounds", required_argument, NULL, OPT_ROUNDS },
	{ "percentile", required_argument, NULL, OPT_PERCENTILE },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "algos", required_argument, NULL, OPT_ALGOS },
	{ "calibrate", required_argument, NULL, OPT_CALIBRATE },
	{ NULL, 0, NULL, 0 },
};

static const char help[] =
	"Ranks\n"
	"  -t, --nthreads N         threads (1)\n"
	"  -g, --ngpus N            ranks a thread, called inside a group (1)\n"
	"      --ranks N            the same as -t N -g 1\n"
	"      --processes N        start N processes, each with -t threads of -g ranks\n"
	"                           Under a launcher (MARROW_RANK and MARROW_NRANKS, torchrun's or mpirun's variables) each\n"
	"                           process is one rank. On the cuda target rank i uses device i modulo their number.\n"
	"      --target T           host, cuda or auto (auto: cuda if the build and the machine have it)\n"
	"Sizes: bytes, or K M G times 1024\n"
	"  -b, --minbytes B         first size (32M)\n"
	"  -e, --maxbytes B         last size (32M)\n"
	"  -i, --stepbytes B        added to each size (1M)\n"
	"  -f, --stepfactor N       multiplies each size, if above 1 (1)\n"
	"  -u, --unalign N          move all buffers by N elements (0)\n"
	"  -R, --local_register 0|1|2  register the buffers: with this library as windows, either way; with --compare's locally (1) or as\n"
	"                           windows (2) (0)\n"
	"Work\n"
	"  -o, --op O               sum prod max min avg mulsum all (sum)\n"
	"  -d, --datatype T         int8 uint8 int32 uint32 int64 uint64 half float double bfloat16\n"
	"                           f8e4m3 f8e5m2 all (float)\n"
	"  -r, --root R             root; -1: each in turn (0)\n"
	"  -c, --check N            N checks a size, each on ordinary and on special values (NaN, infinities, denormals, -0);\n"
	"                           0: none (1). Every element of every rank is compared bit for bit with a rank-order\n"
	"                           reference, at every size, and 4 KiB on either side of each output must be untouched.\n"
	"                           Above 1048573 elements the inputs repeat with that (prime) period.\n"
	"      --seed N             of the inputs (1)\n"
	"Timing\n"
	"  -n, --iters N            timed iterations (20)\n"
	"  -m, --agg_iters N        operations an iteration, in one group (1)\n"
	"  -w, --warmup_iters N     untimed iterations before each size (1)\n"
	"  -N, --run_cycles N       repeat all sizes; 0: for ever (1)\n"
	"  -G, --cudagraph N        capture the iterations in a graph and launch it N times (0: no graph)\n"
	"  -z, --blocking 0|1|2|3   after each operation wait and barrier (1), wait (2); after each iteration wait and\n"
	"                           barrier outside the time (3) (0)\n"
	"  -a, --average 0|1|2|3    time of rank 0, mean, least, most over the ranks (3: the slowest rank's; nccl-tests has 1)\n"
	"  -C, --report_cputime 0|1 report the time to enqueue (0)\n"
	"  -y, --stream_null 0|1    use the default stream (0)\n"
	"  -T, --timeout S          deadline of the library's waits (0: its default)\n"
	"      --compare LIB        time another libnccl.so.2 in turn with this library; adds its time and ours/theirs\n"
	"      --algos A,B | all    time the library's algorithms, each forced, in turn with what it chooses; adds the best one's time and\n"
	"                           chosen/best. One that cannot carry a call is left out\n"
	"      --calibrate FILE     with --algos all: write which algorithm is the quickest at each size, for MARROW_TUNING=FILE. FILE may hold other\n"
	"                           functions and shapes already. On an idle machine, from the first to the last size: -b 8 -e 64M -f 2\n"
	"      --rounds N           timed loops a size, of which the median counts (1, with --compare or --algos 7)\n"
	"      --percentile P       not the median of them but this one: a low one sees through what else the machine does (50)\n"
	"Output\n"
	"      --json FILE, -J FILE append one JSON object a measurement; p50 and p99 in us are of short batches\n"
	"  -S, --report_timestamps 0|1  the time of day at the end of each line (0)\n"
	"  -M, --memory 0|1         report the memory a communicator takes (0)\n"
	"  -h, --help\n"
	"Accepted without effect: -p (always parallel), -x, -D, -V, -I, -K.\n"
	"Leaves with 0 if all is right, 1 if an element was wrong or something failed, 2 for a bad command line.\n";

static bool parse_size(const char *text, size_t *bytes)
{
	char *end;
	double size = strtod(text, &end);

	if (end == text || !(size >= 0))
		return false;
	switch (*end) {
	case 'G': case 'g': size *= 1024; /* fall through */
	case 'M': case 'm': size *= 1024; /* fall through */
	case 'K': case 'k': size *= 1024; end++; break;
	default: break;
	}
	if (*end != '\0' || size > 0x1p62)
		return false;
	*bytes = (size_t)size;
	return true;
}

static bool parse_integer(const char *text, int64_t min, int64_t max, int64_t *value)
{
	char *end;
	errno = 0;
	*value = strtoll(text, &end, 0);
	return end != text && *end == '\0' && errno == 0 && *value >= min && *value <= max;
}

static bool parse_number(const char *text, uint32_t min, uint32_t max, uint32_t *number)
{
	int64_t value;
	if (!parse_integer(text, min, max, &value))
		return false;
	*number = (uint32_t)value;
	return true;
}

static bool parse_switch(const char *text, bool *on)
{
	uint32_t value;
	if (!parse_number(text, 0, 1, &value))
		return false;
	*on = value != 0;
	return true;
}

static bool parse_name(const char *text, const char *const *names, const char *const *synonyms, int count, int *index)
{
	*index = OPTION_ALL;
	if (strcmp(text, "all") == 0)
		return true;
	for (int i = 0; i < count; i++)
		if (strcmp(text, names[i]) == 0 || (synonyms && strcmp(text, synonyms[i]) == 0))
			*index = i;
	return *index != OPTION_ALL;
}

static bool parse_target(const char *text, enum marrow_target *target)
{
	static const char *const names[] = { "auto", "host", "cuda" };
	for (int i = 0; i < 3; i++)
		if (strcmp(text, names[i]) == 0) {
			*target = (enum marrow_target)i;
			return true;
		}
	return false;
}

static bool parse_algos(struct perf_options *o, const char *text)
{
	static const char *const all[OPTION_ALGOS] = { "oneshot", "lines", "twoshot", "bulk", "railshot", "rail", "ring", "treeshot", "tree" };
	char list[256];
	int index;

	if (strlen(text) >= sizeof list)
		return false;
	strcpy(list, text);
	o->nalgos = 0;
	if (strcmp(text, "all") == 0)
		for (; o->nalgos < OPTION_ALGOS; o->nalgos++)
			o->algos[o->nalgos] = all[o->nalgos];
	else
		for (char *word = strtok(list, ","); word; word = strtok(NULL, ",")) {
			if (o->nalgos == OPTION_ALGOS || !parse_name(word, all, NULL, OPTION_ALGOS, &index) || index == OPTION_ALL)
				return false;
			o->algos[o->nalgos++] = all[index];
		}
	return o->nalgos > 0;
}

static bool ignore(struct perf_options *o, int flag, const char *value)
{
	size_t used = strlen(o->ignored);
	snprintf(o->ignored + used, sizeof o->ignored - used, " -%c %.16s", flag, value);
	return true;
}

static bool parse_flag(struct perf_options *o, int flag, const char *text)
{
	const uint32_t many = 1u << 30;
	int64_t value;
	bool good;

	switch (flag) {
	case 't': return parse_number(text, 1, 1024, &o->threads);
	case 'g': return parse_number(text, 1, 1024, &o->ranks_per_thread);
	case OPT_RANKS: o->ranks_per_thread = 1; return parse_number(text, 1, 1024, &o->threads);
	case OPT_PROCESSES: return parse_number(text, 1, 1024, &o->processes);
	case OPT_TARGET: return parse_target(text, &o->target);
	case 'b': return parse_size(text, &o->min_bytes);
	case 'e': return parse_size(text, &o->max_bytes);
	case 'i': return parse_size(text, &o->step_bytes);
	case 'f': return parse_number(text, 0, many, &o->step_factor);
	case 'n': return parse_number(text, 1, many, &o->iterations);
	case 'm': return parse_number(text, 1, many, &o->aggregate);
	case 'w': return parse_number(text, 0, many, &o->warmup);
	case 'N': return parse_number(text, 0, many, &o->cycles);
	case 'c': return parse_number(text, 0, many, &o->check);
	case 'o': return parse_name(text, op_names, NULL, PERF_OPS, &o->op);
	case 'd': return parse_name(text, type_names, type_synonyms, TYPES, &o->type);
	case 'r':
		good = parse_integer(text, -1, 1 << 24, &value);
		o->root = (int)value;
		return good;
	case 'z': return parse_number(text, 0, 3, &o->blocking);
	case 'y': return parse_switch(text, &o->null_stream);
	case 'T': return parse_number(text, 0, many, &o->timeout_s);
	case 'G': return parse_number(text, 0, many, &o->graph_launches);
	case 'C': return parse_switch(text, &o->cpu_time);
	case 'S': return parse_switch(text, &o->timestamps);
	case 'M': return parse_switch(text, &o->memory_report);
	case 'a': return parse_number(text, 0, 3, &o->average);
	case 'u': return parse_number(text, 0, 512, &o->unalign_elems);
	case OPT_ROUNDS: return parse_number(text, 1, 1000, &o->rounds);
	case OPT_SEED:
		good = parse_integer(text, 0, INT64_MAX, &value);
		o->seed = (uint64_t)value;
		return good;
	case OPT_PERCENTILE: return parse_number(text, 0, 100, &o->percentile);
	case OPT_ALGOS: return parse_algos(o, text);
	case OPT_CALIBRATE: o->calibrate_path = text; return true;
	case OPT_JSON: case 'J': o->json_path = text; return true;
	case OPT_COMPARE: o->compare_path = text; return true;
	case 'R': return parse_number(text, 0, 2, &o->registration);
	case 'p': case 'x': case 'D': case 'V': case 'I': case 'K': return ignore(o, flag, text);
	default: return false;
	}
}

static bool consistent(struct perf_options *o)
{
	if (o->min_bytes > o->max_bytes) {
		fprintf(stderr, "-b %zu is above -e %zu\n", o->min_bytes, o->max_bytes);
		return false;
	}
	if (o->graph_launches && (o->blocking || o->null_stream)) {
		fprintf(stderr, "-G excludes -z and -y: a graph is captured from a stream of its own, without waits\n");
		return false;
	}
	if (o->registration && o->ranks_per_thread > 1) {
		fprintf(stderr, "-R wants a thread or process for each rank: -t or --processes instead of -g\n");
		return false;
	}
	if (o->calibrate_path && o->nalgos == 0 && !parse_algos(o, "all"))
		return false;
	if (o->calibrate_path && (o->type == OPTION_ALL || o->op == OPTION_ALL || o->cycles != 1 || o->root == OPTION_ALL)) {
		fprintf(stderr, "--calibrate: one type, operation and root, once through all sizes\n");
		return false;
	}
	if (o->compare_path && o->nalgos) {
		fprintf(stderr, "--compare excludes --algos: one ratio a line\n");
		return false;
	}
	if (o->rounds == 0)
		o->rounds = o->compare_path || o->nalgos ? 7 : 1;
	return true;
}

static const char *long_name(int flag)
{
	const struct option *o = long_options;
	while (o->name && o->val != flag)
		o++;
	return o->name ? o->name : "?";
}

bool options_parse(struct perf_options *options, int argc, char **argv, int *status)
{
	int flag;

	*options = (struct perf_options){
		.threads = 1, .ranks_per_thread = 1, .min_bytes = 32 << 20, .max_bytes = 32 << 20, .step_bytes = 1 << 20,
		.step_factor = 1, .iterations = 20, .aggregate = 1, .warmup = 1, .cycles = 1, .check = 1, .average = 3, .percentile = 50,
		.type = MARROW_FLOAT32, .op = MARROW_SUM, .seed = 1,
	};
	*status = 2;
	while ((flag = getopt_long(argc, argv, "t:g:b:e:i:f:n:m:w:N:p:c:o:d:r:z:y:T:G:C:S:J:a:R:x:D:V:M:u:I:K:h", long_options,
				   NULL)) != -1) {
		if (flag == 'h') {
			printf("usage: %s [flags]\n%s", argv[0], help);
			*status = 0;
			return false;
		}
		if (flag == '?' || !parse_flag(options, flag, optarg)) {
			if (flag != '?')
				fprintf(stderr, "%s: --%s: invalid value '%s'\n", argv[0], long_name(flag), optarg);
			fprintf(stderr, "see %s --help\n", argv[0]);
			return false;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "%s: unexpected argument '%s'\nsee %s --help\n", argv[0], argv[optind], argv[0]);
		return false;
	}
	return consistent(options);
}
