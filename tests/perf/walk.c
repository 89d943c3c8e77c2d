#include "driver.h"

static bool run_half(struct perf_worker *worker, const struct perf_test *test, struct perf_half *half)
{
	*half = (struct perf_half){ .wrong = 0 };
	if (!timing_measure(worker, test, half->times))
		return false;
	half->unchecked = worker->run->options.check == 0 || !check_knows(worker, test);
	for (uint32_t c = 0; !half->unchecked && c < worker->run->options.check && half->wrong == 0; c++)
		if (!check_run(worker, test, &half->wrong))
			return false;
	return true;
}

static bool run_size(struct perf_worker *worker, struct perf_report *report, struct perf_test *test, size_t bytes)
{
	struct perf_half halves[2];
	const struct perf_collective *collective = worker->run->collective;

	test->layout = collective->layout(bytes / test->element_bytes, test->element_bytes, worker->run->nranks);
	test->bytes = test->element_bytes *
		      (test->layout.send > test->layout.recv ? test->layout.send : test->layout.recv);
	for (int in_place = 0; in_place < 2; in_place++) {
		test->in_place = in_place != 0;
		if (test->in_place && collective->apart) {
			halves[in_place] = (struct perf_half){ .skipped = true };
			continue;
		}
		if (!run_half(worker, test, &halves[in_place]))
			return false;
	}
	return report_row(report, test, halves);
}

static bool run_sizes(struct perf_worker *worker, struct perf_report *report, struct perf_test *test)
{
	const struct perf_options *options = &worker->run->options;
	size_t next;

	for (size_t bytes = options->min_bytes;; bytes = next) {
		if (!run_size(worker, report, test, bytes))
			return false;
		next = options->step_factor > 1 ? bytes * options->step_factor : bytes + options->step_bytes;
		if (next <= bytes || next > options->max_bytes)
			return true;
	}
}

static bool run_op(struct perf_worker *worker, struct perf_report *report, struct perf_test *test)
{
	bool good = worker_begin_op(worker, test);
	uint32_t cycles = worker->run->options.cycles;

	for (uint32_t cycle = 0; good && (cycles == 0 || cycle < cycles); cycle++)
		good = run_sizes(worker, report, test);
	if (good)
		worker_end_op(worker, test);
	return good;
}

bool walk(struct perf_worker *worker, struct perf_report *report)
{
	static const size_t element_bytes[] = {
#define MARROW_X(name, value, bytes) [MARROW_##name] = bytes,
		MARROW_TYPE_LIST(MARROW_X)
#undef MARROW_X
	};
	const struct perf_options *options = &worker->run->options;
	const struct perf_collective *collective = worker->run->collective;
	int types = sizeof element_bytes / sizeof *element_bytes, roots = (int)worker->run->nranks;
	int first_type = options->type == OPTION_ALL ? 0 : options->type;
	int last_type = options->type == OPTION_ALL ? types - 1 : options->type;
	int first_op = !collective->reduces || options->op == OPTION_ALL ? 0 : options->op;
	int last_op = !collective->reduces ? 0 : options->op == OPTION_ALL ? PERF_OPS - 1 : options->op;
	int first_root = !collective->rooted ? -1 : options->root == OPTION_ALL ? 0 : options->root;
	int last_root = !collective->rooted ? -1 : options->root == OPTION_ALL ? roots - 1 : options->root;

	for (int type = first_type; type <= last_type; type++)
		for (int op = first_op; op <= last_op; op++)
			for (int root = first_root; root <= last_root; root++) {
				struct perf_test test = { .type = (enum marrow_type)type, .element_bytes = element_bytes[type],
							  .op = (uint32_t)op, .root = root };
				if (!run_op(worker, report, &test))
					return false;
			}
	return true;
}
