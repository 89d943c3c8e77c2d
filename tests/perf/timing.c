#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../support/device_memory.h"

static double now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static bool cuda_good(int result)
{
	if (result != 0)
		fprintf(stderr, "%s\n", device_error());
	return result == 0;
}

static bool record(struct perf_worker *worker, uint32_t event)
{
	for (uint32_t i = 0; worker->run->cuda && i < worker->nranks; i++)
		if (!cuda_good(device_event_record(worker->ranks[i].events[event], worker->ranks[i].stream)))
			return false;
	return true;
}

/* Between two events that have passed: the longest over this thread's ranks. */
static bool elapsed(struct perf_worker *worker, uint32_t from, uint32_t to, double *us)
{
	*us = 0;
	for (uint32_t i = 0; i < worker->nranks; i++) {
		void **events = worker->ranks[i].events;
		double one;
		if (!cuda_good(device_event_elapsed_us(events[from], events[to], &one)))
			return false;
		*us = one > *us ? one : *us;
	}
	return true;
}

/* The operations of one iteration: a group, or one by one with waits in between. */
static bool iterate(struct perf_worker *worker, uint32_t library, const struct perf_test *test, uint64_t iteration)
{
	const struct perf_options *options = &worker->run->options;
	const struct perf_library *lib = &worker->run->libraries[library];
	bool waits = options->blocking == 1 || options->blocking == 2, grouped = options->aggregate > 1 && !waits;

	if (grouped && !lib->group_start())
		return false;
	for (uint32_t a = 0; a < options->aggregate; a++) {
		if (!worker_call(worker, library, test, iteration * options->aggregate + a))
			return false;
		if (waits && !worker_wait(worker, library))
			return false;
		if (options->blocking == 1 && !meeting_barrier(&worker->run->meeting))
			return false;
	}
	return !grouped || lib->group_end();
}

static bool capture(struct perf_worker *worker, uint32_t library, const struct perf_test *test)
{
	bool good = true;

	for (uint32_t i = 0; good && i < worker->nranks; i++)
		good = cuda_good(device_capture_begin(worker->ranks[i].stream, DEVICE_CAPTURE_THREAD_LOCAL));
	for (uint32_t iteration = 0; good && iteration < worker->run->options.iterations; iteration++)
		good = iterate(worker, library, test, iteration);
	for (uint32_t i = 0; good && i < worker->nranks; i++)
		good = cuda_good(device_capture_end(worker->ranks[i].stream, &worker->ranks[i].graphs[library]));
	return good;
}

static bool launch(struct perf_worker *worker, uint32_t library)
{
	for (uint32_t i = 0; i < worker->nranks; i++)
		if (!cuda_good(device_graph_launch(worker->ranks[i].graphs[library], worker->ranks[i].stream)))
			return false;
	return true;
}

static void drop_graphs(struct perf_worker *worker)
{
	for (uint32_t i = 0; i < worker->nranks; i++)
		for (uint32_t l = 0; l < worker->run->nlibraries; l++) {
			if (worker->ranks[i].graphs[l])
				device_graph_destroy(worker->ranks[i].graphs[l]);
			worker->ranks[i].graphs[l] = NULL;
		}
}

/* Time of all iterations on this thread's ranks: between events on the stream, else by the clock. */
static bool time_loop(struct perf_worker *worker, uint32_t library, const struct perf_test *test, double *us)
{
	const struct perf_options *options = &worker->run->options;
	uint32_t rounds = options->graph_launches ? options->graph_launches : options->iterations;
	double begin, enqueued, apart = 0;

	if (!meeting_barrier(&worker->run->meeting) || !record(worker, 0))
		return false;
	begin = now_us();
	for (uint32_t i = 0; i < rounds; i++) {
		if (!(options->graph_launches ? launch(worker, library) : iterate(worker, library, test, i)))
			return false;
		if (options->blocking == 3) {
			if (!worker_wait(worker, library))
				return false;
			double paused = now_us();
			if (!meeting_barrier(&worker->run->meeting))
				return false;
			apart += now_us() - paused;
		}
	}
	enqueued = now_us() - begin - apart;
	if (!record(worker, 1) || !worker_wait(worker, library))
		return false;
	*us = now_us() - begin - apart;
	if (options->cpu_time)
		*us = enqueued;
	else if (worker->run->cuda && options->blocking != 3 && !elapsed(worker, 0, 1, us))
		return false;
	*us /= (double)options->iterations * options->aggregate * (options->graph_launches ? options->graph_launches : 1);
	return true;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Percentiles of short batches (host: single operations; graph: launches), the slowest rank's; us: about what to expect. */
static bool sample(struct perf_worker *worker, uint32_t library, const struct perf_test *test, struct perf_time *times)
{
	const struct perf_options *options = &worker->run->options;
	double samples[SAMPLES_MAX], clock[SAMPLES_MAX + 1], expected = times->us < 0.1 ? 0.1 : times->us;
	uint32_t batch = !worker->run->cuda || expected > 20 ? 1 : (uint32_t)(20 / expected), count;
	double operations = batch;

	if (batch > 32)
		batch = 32;
	operations = options->graph_launches ? (double)options->iterations * options->aggregate : batch;
	count = 5e5 / (expected * operations) > SAMPLES_MAX ? SAMPLES_MAX : (uint32_t)(5e5 / (expected * operations));
	if (count < 5)
		count = 5;

	if (!meeting_barrier(&worker->run->meeting))
		return false;
	for (uint32_t s = 0; s < count; s++) {
		clock[s] = now_us();
		if (!record(worker, s))
			return false;
		for (uint32_t b = 0; b < (options->graph_launches ? 1 : batch); b++)
			if (!(options->graph_launches ? launch(worker, library) :
							worker_call(worker, library, test, (uint64_t)s * batch + b)))
				return false;
	}
	clock[count] = now_us();
	if (!record(worker, count) || !worker_wait(worker, library))
		return false;
	for (uint32_t s = 0; s < count; s++) {
		samples[s] = clock[s + 1] - clock[s];
		if (worker->run->cuda && !elapsed(worker, s, s + 1, &samples[s]))
			return false;
		samples[s] /= operations;
	}
	qsort(samples, count, sizeof *samples, by_value);
	times->p50 = samples[count / 2];
	times->p99 = samples[(count * 99 + 99) / 100 - 1];
	return meeting_fold(&worker->run->meeting, worker->participant, &times->p50, MEETING_MOST) &&
	       meeting_fold(&worker->run->meeting, worker->participant, &times->p99, MEETING_MOST);
}

static bool prepare(struct perf_worker *worker, uint32_t library, const struct perf_test *test)
{
	const struct perf_options *options = &worker->run->options;

	for (uint32_t i = 0; i < options->warmup; i++)
		if (!iterate(worker, library, test, i))
			return false;
	if (!worker_wait(worker, library) || !meeting_barrier(&worker->run->meeting))
		return false;
	if (!options->graph_launches)
		return true;
	/* The first launch uploads the graph. */
	return capture(worker, library, test) && launch(worker, library) && worker_wait(worker, library);
}

/* Of ascending values; between two of them their mean. */
static double quantile(const double *values, uint32_t count, uint32_t percentile)
{
	uint32_t at = 2 * (count - 1) * percentile / 100;
	return (values[at / 2] + values[(at + 1) / 2]) / 2;
}

/* False: that algorithm cannot carry this call. */
static bool takes_part(const struct perf_worker *worker, uint32_t library, const struct perf_test *test)
{
	const struct perf_library *lib = &worker->run->libraries[library];
	if (!worker->ranks[0].comms[library])
		return false;
	return !lib->carries || lib->carries(lib, worker->ranks[0].comms[library], worker->run->collective->kind, test->layout.count, test->type);
}

/* Libraries take turns, A B A B, so that what drifts meets them alike. */
static bool measure(struct perf_worker *worker, const struct perf_test *test, struct perf_time *times, double *rounds)
{
	const struct perf_options *options = &worker->run->options;
	uint32_t nlibraries = worker->run->nlibraries;
	bool part[MAX_LIBRARIES];

	for (uint32_t l = 0; l < nlibraries; l++) {
		part[l] = takes_part(worker, l, test);
		if (part[l] && !prepare(worker, l, test))
			return false;
	}
	for (uint32_t r = 0; r < options->rounds; r++)
		for (uint32_t l = 0; l < nlibraries; l++) {
			if (!part[l])
				continue;
			double *us = &rounds[l * options->rounds + r];
			if (!time_loop(worker, l, test, us) ||
			    !meeting_fold(&worker->run->meeting, worker->participant, us, (enum meeting_fold)options->average))
				return false;
		}
	for (uint32_t l = 0; l < nlibraries; l++) {
		double *mine = rounds + l * options->rounds;
		if (!part[l]) {
			times[l] = (struct perf_time){ -1, -1, -1 };
			continue;
		}
		qsort(mine, options->rounds, sizeof *mine, by_value);
		times[l] = (struct perf_time){ quantile(mine, options->rounds, options->percentile), -1, -1 };
		if (options->json_path && !options->blocking && !sample(worker, l, test, &times[l]))
			return false;
	}
	return true;
}

bool timing_measure(struct perf_worker *worker, const struct perf_test *test, struct perf_time *times)
{
	double *rounds = calloc((size_t)worker->run->options.rounds * worker->run->nlibraries, sizeof *rounds);
	bool good = rounds && check_fill_inputs(worker, test, 0) && meeting_barrier(&worker->run->meeting) &&
		    measure(worker, test, times, rounds);

	drop_graphs(worker);
	free(rounds);
	return good;
}
