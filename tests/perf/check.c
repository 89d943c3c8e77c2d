/* check.c - inputs, and the comparison of every output bit with the reference.
 *
 * Input i of a rank is the fill at i modulo PERIOD, so that a table of PERIOD results serves any size. PERIOD is prime: a
 * block that lands in a wrong place meets other values there. */
#include "run.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/device_memory.h"
#include "../support/reference.h"

enum { PERIOD = 1048573, UNTOUCHED = 0xb7, COMPLAINTS = 8 };

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static uint64_t seed_of(const struct perf_worker *worker)
{
	return worker->run->options.seed + worker->checks * 0x9e3779b97f4a7c15;
}

static enum fill_style style_of(const struct perf_worker *worker)
{
	return worker->checks % 2 ? FILL_SPECIAL : FILL_MIXED;
}

/* Ranks whose inputs the table holds. */
static size_t vectors_of(const struct perf_run *run)
{
	enum perf_kind kind = run->collective->kind;
	bool all = kind == PERF_ALL_GATHER || kind == PERF_ALL_TO_ALL || kind == PERF_GATHER || kind == PERF_SENDRECV;
	return all ? run->nranks : 1;
}

bool check_open(struct perf_run *run)
{
	size_t vectors = vectors_of(run);

	bool each = run->collective->kind == PERF_ALL_TO_ALL || run->collective->kind == PERF_SENDRECV; /* holds so much, not all together */
	run->expected.capacity_bytes = least(vectors * PERIOD * 8, run->options.max_bytes * (each ? vectors : 1));
	run->expected.elements = malloc(run->expected.capacity_bytes + 1);
	if (!run->expected.elements)
		fprintf(stderr, "cannot allocate %zu bytes for the reference\n", run->expected.capacity_bytes);
	return run->expected.elements != NULL;
}

void check_close(struct perf_run *run)
{
	free(run->expected.elements);
	run->expected.elements = NULL;
}

/* Writes count elements of the rank's input to target memory. */
static bool fill_input(struct perf_worker *worker, const struct perf_test *test, uint32_t rank, unsigned char *to, size_t count)
{
	size_t bytes = test->element_bytes, whole = least(count, PERIOD), piece = SCRATCH_BYTES / bytes, done;

	if (!worker->run->cuda)
		fill_random_at(to, test->type, 0, whole, seed_of(worker), rank, style_of(worker));
	else
		for (size_t first = 0; first < whole; first += piece) {
			size_t n = least(piece, whole - first);
			fill_random_at(worker->scratch, test->type, first, n, seed_of(worker), rank, style_of(worker));
			if (!memory_copy(worker->run, to + first * bytes, worker->scratch, n * bytes))
				return false;
		}
	for (done = whole; done < count; done += least(done, count - done))
		if (!memory_copy(worker->run, to + done * bytes, to, least(done, count - done) * bytes))
			return false;
	return true;
}

/* The output and, in place, what surrounds it in the same buffer. */
static size_t output_region(const struct perf_worker *worker, const struct perf_rank *rank, const struct perf_test *test,
			    uint64_t iteration, unsigned char **region)
{
	struct perf_test apart = *test;
	const unsigned char *send;

	apart.in_place = false;
	worker_buffers(worker, rank, &apart, iteration, &send, region);
	return test->in_place ? test->bytes : test->layout.recv * test->element_bytes;
}

bool check_fill_inputs(struct perf_worker *worker, const struct perf_test *test, uint64_t iteration)
{
	for (uint32_t i = 0; i < worker->nranks; i++) {
		const struct perf_rank *rank = &worker->ranks[i];
		const unsigned char *send;
		unsigned char *recv, *region;
		size_t bytes = output_region(worker, rank, test, iteration, &region);

		worker_buffers(worker, rank, test, iteration, &send, &recv);
		if (!memory_fill(worker->run, region - GUARD_BYTES, UNTOUCHED, bytes + 2 * GUARD_BYTES))
			return false;
		enum perf_kind kind = worker->run->collective->kind;
		bool all_send = !worker->run->collective->rooted || kind == PERF_GATHER || kind == PERF_REDUCE;
		if (!all_send && (int)rank->rank != test->root)
			continue;
		if (!fill_input(worker, test, rank->rank, region + (send - region), test->layout.send))
			return false;
	}
	return true;
}

/* This thread's share of the table. */
static void expect(struct perf_worker *worker, const struct perf_test *test)
{
	struct perf_run *run = worker->run;
	struct perf_expected *expected = &run->expected;
	size_t bytes = test->element_bytes, length = test->layout.send > test->layout.count ? test->layout.send : test->layout.count;
	size_t period = least(length, PERIOD), vectors = vectors_of(run);
	size_t total = period * vectors, threads = run->launched ? 1 : run->options.threads;
	size_t from = total * worker->thread / threads, to = total * (worker->thread + 1) / threads;
	size_t block = least(SCRATCH_BYTES / 8 / (2 * run->nranks + 1), 2048);
	const void *inputs[MAX_RANKS];
	void *partial[MAX_RANKS];
	uint32_t host[MAX_RANKS], a_host = run->libraries[0].ranks_a_host(worker->ranks[0].comms[0]);
	unsigned char scalars[MAX_RANKS * 8], *scratch = worker->scratch;
	enum marrow_op op = test->op == PERF_PREMULSUM ? MARROW_OP_DYNAMIC : (enum marrow_op)test->op;

	if (worker->thread == 0) {
		expected->period = period;
		expected->vectors = (uint32_t)vectors;
	}
	for (uint32_t r = 0; r < run->nranks; r++) {
		inputs[r] = scratch + r * block * bytes;
		partial[r] = scratch + (run->nranks + r) * block * bytes;
		host[r] = a_host ? r / a_host : 0; /* ranks fill hosts in blocks */
		fill_scalar(scalars + r * bytes, test->type, run->options.seed, r);
	}
	for (size_t at = from, n; at < to; at += n) {
		n = least(block, to - at);
		n = least(n, period - at % period);
		if (!run->collective->reduces) {
			uint32_t source = vectors == 1 ? (uint32_t)test->root : (uint32_t)(at / period);
			fill_random_at(expected->elements + at * bytes, test->type, at % period, n, seed_of(worker), source,
				       style_of(worker));
			continue;
		}
		for (uint32_t r = 0; r < run->nranks; r++)
			fill_random_at(scratch + r * block * bytes, test->type, at, n, seed_of(worker), r, style_of(worker));
		if (a_host)
			reference_rails(expected->elements + at * bytes, partial, inputs, run->nranks, host, n, test->type, op, scalars);
		else
			reference_all_reduce(expected->elements + at * bytes, inputs, run->nranks, n, test->type, op, scalars);
	}
}

bool check_knows(const struct perf_worker *worker, const struct perf_test *test)
{
	const struct perf_library *library = &worker->run->libraries[0];
	bool sums = test->op != MARROW_MIN && test->op != MARROW_MAX && reference_type_is_float(test->type);
	return !worker->run->collective->reduces || !sums || !library->other_order ||
	       !library->other_order(worker->ranks[0].comms[0], worker->run->collective->kind, test->layout.count, test->type);
}

static void complain(const struct perf_rank *rank, const struct perf_test *test, size_t index, const unsigned char *want,
		     const unsigned char *got)
{
	static atomic_int complaints;
	uint64_t wanted = 0, found = 0;

	if (atomic_fetch_add(&complaints, 1) >= COMPLAINTS)
		return;
	memcpy(&wanted, want, test->element_bytes);
	memcpy(&found, got, test->element_bytes);
	fprintf(stderr, "# wrong: rank %u %s %s %zu bytes, element %zu: expected 0x%0*llx, got 0x%0*llx\n", rank->rank,
		perf_type_name(test->type), test->in_place ? "in place" : "out of place", test->bytes, index,
		(int)test->element_bytes * 2, (unsigned long long)wanted, (int)test->element_bytes * 2,
		(unsigned long long)found);
}

/* Compares count output elements from index on with elements first, first + 1, ... of a vector of the table. */
static bool compare(struct perf_worker *worker, const struct perf_rank *rank, const struct perf_test *test,
		    const unsigned char *output, size_t index, size_t count, const unsigned char *vector, size_t first,
		    uint64_t *wrong)
{
	size_t bytes = test->element_bytes, period = worker->run->expected.period, n;

	for (size_t done = 0; done < count; done += n) {
		size_t at = (first + done) % period;
		const unsigned char *want = vector + at * bytes, *got = output + (index + done) * bytes;
		n = least(least(count - done, period - at), SCRATCH_BYTES / bytes);
		if (worker->run->cuda) {
			if (!memory_copy(worker->run, worker->scratch, got, n * bytes))
				return false;
			got = worker->scratch;
		}
		if (memcmp(want, got, n * bytes) == 0)
			continue;
		for (size_t i = 0; i < n; i++)
			if (memcmp(want + i * bytes, got + i * bytes, bytes) != 0) {
				complain(rank, test, index + done + i, want + i * bytes, got + i * bytes);
				++*wrong;
			}
	}
	return true;
}

static bool count_touched(struct perf_worker *worker, const struct perf_rank *rank, const unsigned char *guard, uint64_t *wrong)
{
	unsigned char bytes[GUARD_BYTES];
	uint64_t touched = 0;

	if (!memory_copy(worker->run, bytes, guard, sizeof bytes))
		return false;
	for (size_t i = 0; i < sizeof bytes; i++)
		touched += bytes[i] != UNTOUCHED;
	if (touched)
		fprintf(stderr, "# wrong: rank %u: %llu bytes beside the output were written\n", rank->rank,
			(unsigned long long)touched);
	*wrong += touched;
	return true;
}

/* Each rank gets another part of its sources' inputs. */
static bool scatters(const struct perf_run *run)
{
	enum perf_kind kind = run->collective->kind;
	return kind == PERF_REDUCE_SCATTER || kind == PERF_ALL_TO_ALL || kind == PERF_SCATTER;
}

/* Whether vector v of the table is in the rank's output. */
static bool arrives(const struct perf_run *run, const struct perf_test *test, uint32_t rank, uint32_t v)
{
	enum perf_kind kind = run->collective->kind;
	if (kind == PERF_GATHER || kind == PERF_REDUCE)
		return (int)rank == test->root;
	return kind != PERF_SENDRECV || (v + 1) % run->nranks == rank;
}

static bool count_wrong(struct perf_worker *worker, const struct perf_test *test, uint64_t iteration, uint64_t *wrong)
{
	struct perf_run *run = worker->run;
	size_t count = test->layout.count, vector_bytes = run->expected.period * test->element_bytes;

	for (uint32_t i = 0; i < worker->nranks; i++) {
		const struct perf_rank *rank = &worker->ranks[i];
		const unsigned char *send;
		unsigned char *recv, *region;
		size_t bytes = output_region(worker, rank, test, iteration, &region);
		size_t first = scatters(run) ? rank->rank * count : 0;

		worker_buffers(worker, rank, test, iteration, &send, &recv);
		for (uint32_t v = 0; v < run->expected.vectors; v++) {
			if ((run->collective->kind == PERF_REDUCE && (int)rank->rank != test->root) || !arrives(run, test, rank->rank, v))
				continue;
			size_t index = run->collective->kind == PERF_SENDRECV ? 0 : v * count;
			if (!compare(worker, rank, test, recv, index, count, run->expected.elements + v * vector_bytes, first, wrong))
				return false;
		}
		if (!count_touched(worker, rank, region - GUARD_BYTES, wrong) ||
		    !count_touched(worker, rank, region + bytes, wrong))
			return false;
	}
	return true;
}

/* With -G through a graph as well. */
static bool run_once(struct perf_worker *worker, const struct perf_test *test, uint64_t iteration)
{
	bool graph = worker->run->options.graph_launches != 0, good = true;

	for (uint32_t i = 0; graph && good && i < worker->nranks; i++)
		good = device_capture_begin(worker->ranks[i].stream, DEVICE_CAPTURE_THREAD_LOCAL) == 0;
	good = good && worker_call(worker, 0, test, iteration);
	for (uint32_t i = 0; graph && good && i < worker->nranks; i++)
		good = device_capture_end(worker->ranks[i].stream, &worker->ranks[i].graphs[0]) == 0;
	for (uint32_t i = 0; graph && good && i < worker->nranks; i++)
		good = device_graph_launch(worker->ranks[i].graphs[0], worker->ranks[i].stream) == 0;
	good = good && worker_wait(worker, 0);
	for (uint32_t i = 0; graph && i < worker->nranks; i++) {
		device_graph_destroy(worker->ranks[i].graphs[0]);
		worker->ranks[i].graphs[0] = NULL;
	}
	return good;
}

bool check_run(struct perf_worker *worker, const struct perf_test *test, uint64_t *wrong)
{
	struct meeting *meeting = &worker->run->meeting;

	for (int style = 0; style < 2; style++) {
		uint64_t mine = 0, iteration = worker->checks;
		double total;

		expect(worker, test);
		if (!check_fill_inputs(worker, test, iteration) || !meeting_barrier(meeting) ||
		    !run_once(worker, test, iteration) || !count_wrong(worker, test, iteration, &mine))
			return false;
		total = (double)mine;
		if (!meeting_fold(meeting, worker->participant, &total, MEETING_SUM))
			return false;
		*wrong += (uint64_t)total;
		worker->checks++;
	}
	return true;
}
