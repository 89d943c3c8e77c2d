/* options.h - the command line of the perf programs: nccl-tests' flags and a few more. */
#ifndef PERF_OPTIONS_H
#define PERF_OPTIONS_H

#include <marrow/types.h>
#include <stdbool.h>

enum { OPTION_ALL = -1 };

enum { OPTION_ALGOS = 9 }; /* all there are */

struct perf_options {
	uint32_t threads, ranks_per_thread, processes; /* processes 0: this one */
	enum marrow_target target;
	size_t min_bytes, max_bytes, step_bytes;
	uint32_t step_factor;
	uint32_t iterations, aggregate, warmup, cycles; /* cycles 0: for ever */
	uint32_t check, graph_launches, blocking, average, unalign_elems, timeout_s, rounds, percentile, registration;
	int type; /* enum marrow_type or OPTION_ALL */
	int op;   /* index of perf_op_name() or OPTION_ALL */
	int root; /* or OPTION_ALL */
	bool null_stream, cpu_time, timestamps, memory_report;
	uint64_t seed;
	const char *json_path, *compare_path, *calibrate_path; /* NULL: none */
	const char *algos[OPTION_ALGOS]; /* each forced in turn, beside what the library chooses */
	uint32_t nalgos;
	char ignored[128]; /* flags given that mean nothing here */
};

enum { PERF_OPS = 6, PERF_PREMULSUM = 5 };

/* nccl-tests' names: "half" for float16, "mulsum" for premulsum. */
const char *perf_type_name(enum marrow_type type);
const char *perf_op_name(uint32_t op);

/* true: run. false: leave with *status (help was printed, or what is wrong). */
bool options_parse(struct perf_options *options, int argc, char **argv, int *status);

#endif
