#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/device_memory.h"
#include "../support/reference.h"

bool memory_copy(const struct perf_run *run, void *to, const void *from, size_t bytes)
{
	if (!run->cuda) {
		memcpy(to, from, bytes);
		return true;
	}
	if (device_copy(to, from, bytes) == 0)
		return true;
	fprintf(stderr, "%s\n", device_error());
	return false;
}

bool memory_fill(const struct perf_run *run, void *memory, int byte, size_t bytes)
{
	if (!run->cuda) {
		memset(memory, byte, bytes);
		return true;
	}
	if (device_fill_bytes(memory, byte, bytes) == 0)
		return true;
	fprintf(stderr, "%s\n", device_error());
	return false;
}

static bool memory_alloc(const struct perf_run *run, unsigned char **memory, size_t bytes)
{
	void *made = NULL;
	int failed = run->options.registration ? marrow_mem_alloc(&made, bytes, run->cuda ? MARROW_TARGET_CUDA : MARROW_TARGET_HOST) != MARROW_SUCCESS :
		     run->cuda ? device_alloc(&made, bytes) : posix_memalign(&made, 4096, bytes);

	if (failed)
		fprintf(stderr, "cannot allocate %zu bytes%s%s: a smaller -e needs less\n", bytes, run->options.registration || run->cuda ? ": " : "",
			run->options.registration ? marrow_last_error(NULL) : run->cuda ? device_error() : "");
	*memory = failed ? NULL : made;
	return !failed && memory_fill(run, made, 0, bytes);
}

static void memory_free(const struct perf_run *run, void *memory)
{
	if (run->options.registration)
		(void)marrow_mem_free(memory);
	else if (run->cuda)
		device_free(memory);
	else
		free(memory);
}

size_t worker_area_bytes(const struct perf_run *run)
{
	return run->options.max_bytes + (size_t)run->options.unalign_elems * 8 + 2 * GUARD_BYTES;
}

static bool cuda_good(int result)
{
	if (result != 0)
		fprintf(stderr, "%s\n", device_error());
	return result == 0;
}

static bool open_rank(const struct perf_run *run, struct perf_rank *rank)
{
	if (run->cuda) {
		rank->events = calloc(SAMPLES_MAX + 1, sizeof *rank->events);
		if (!rank->events || !cuda_good(device_set(rank->device)))
			return false;
		for (int i = 0; i <= SAMPLES_MAX; i++)
			if (!cuda_good(device_event_create(&rank->events[i])))
				return false;
		if (!run->options.null_stream && !cuda_good(device_stream_create(&rank->stream)))
			return false;
	}
	return memory_alloc(run, &rank->send_area, worker_area_bytes(run)) &&
	       memory_alloc(run, &rank->recv_area, worker_area_bytes(run));
}

static void close_rank(const struct perf_run *run, struct perf_rank *rank)
{
	if (run->cuda)
		(void)device_set(rank->device);
	for (int i = 0; rank->events && i <= SAMPLES_MAX; i++)
		device_event_destroy(rank->events[i]);
	free(rank->events);
	if (rank->stream)
		device_stream_destroy(rank->stream);
	memory_free(run, rank->send_area);
	memory_free(run, rank->recv_area);
}

/* In each library's communicator, both buffers: in place the one that is received into is also sent. */
static bool enroll_rank(const struct perf_run *run, struct perf_rank *rank)
{
	for (uint32_t l = 0; run->options.registration && l < run->nlibraries; l++)
		for (int i = 0; rank->comms[l] && i < 2; i++)
			if (!run->libraries[l].enroll(rank->comms[l], i ? rank->recv_area : rank->send_area, worker_area_bytes(run),
						      run->options.registration == 2, &rank->registered[l][i]))
				return false;
	return true;
}

static void withdraw_rank(const struct perf_run *run, struct perf_rank *rank, uint32_t library)
{
	for (int i = 0; i < 2; i++)
		if (rank->registered[library][i])
			run->libraries[library].withdraw(rank->comms[library], run->options.registration == 2, rank->registered[library][i]);
}

/* The launcher says which rank this is and the library which device. */
static bool open_launched(struct perf_worker *worker)
{
	struct perf_run *run = worker->run;
	struct perf_rank *rank = &worker->ranks[0];

	if (!run->libraries[0].init_rank(&run->libraries[0], &rank->comms[0], 0, NULL, 0))
		return false;
	if (marrow_comm_rank(rank->comms[0], &rank->rank) != MARROW_SUCCESS ||
	    marrow_comm_count(rank->comms[0], &run->nranks) != MARROW_SUCCESS ||
	    marrow_comm_device(rank->comms[0], &rank->device) != MARROW_SUCCESS)
		return false;
	worker->participant = rank->rank;
	run->process = rank->rank;
	if (run->cuda && !cuda_good(device_set(rank->device)))
		return false;
	return meeting_open_comm(&run->meeting, rank->comms[0], run->cuda);
}

static bool open_comms(struct perf_worker *worker, uint32_t library)
{
	struct perf_run *run = worker->run;
	const struct perf_library *lib = &run->libraries[library];
	unsigned char id[LIBRARY_ID_BYTES] = { 0 }, *all = malloc((size_t)LIBRARY_ID_BYTES * run->meeting.participants);
	bool good = all && (worker->participant != 0 || lib->make_id(id)) &&
		    meeting_exchange(&run->meeting, worker->participant, id, all, sizeof id);

	good = good && lib->group_start();
	for (uint32_t i = 0; good && i < worker->nranks; i++) {
		struct perf_rank *rank = &worker->ranks[i];
		good = (!run->cuda || cuda_good(device_set(rank->device))) &&
		       lib->init_rank(lib, &rank->comms[library], run->nranks, all, rank->rank);
	}
	good = good && lib->group_end();
	free(all);
	return good;
}

/* Of an algorithm that ranks on so many hosts do not have there need be no communicator: the same on all. */
static bool has_use(const struct perf_worker *worker, uint32_t library)
{
	const char *algo = worker->run->libraries[library].algo;
	struct marrow_comm_properties p = { .size = sizeof p };

	if (!algo || marrow_comm_get_properties(worker->ranks[0].comms[0], &p) != MARROW_SUCCESS)
		return true;
	if (p.nranks == 2 && strcmp(algo, "twoshot") == 0)
		return false;
	if (p.hosts == 1)
		return strcmp(algo, "railshot") != 0 && strcmp(algo, "rail") != 0 && strcmp(algo, "ring") != 0 &&
		       strncmp(algo, "tree", 4) != 0;
	return strcmp(algo, "lines") != 0;
}

bool worker_open(struct perf_worker *worker)
{
	struct perf_run *run = worker->run;
	int devices = run->cuda ? device_count() : 0;

	worker->ranks = calloc(worker->nranks, sizeof *worker->ranks);
	if (!worker->ranks)
		return false;
	for (uint32_t i = 0; i < worker->nranks; i++) {
		worker->ranks[i].rank = worker->participant * worker->nranks + i;
		worker->ranks[i].device = devices > 0 ? (int)(worker->ranks[i].rank % (uint32_t)devices) : -1;
	}
	if (run->cuda && devices == 0) {
		fprintf(stderr, "--target cuda: no device: %s\n", device_error());
		return false;
	}
	if (run->launched && !open_launched(worker))
		return false;
	if (run->nranks > MAX_RANKS) {
		fprintf(stderr, "%u ranks are too many: at most %d\n", run->nranks, MAX_RANKS);
		return false;
	}
	if (run->collective->rooted && run->options.root >= (int64_t)run->nranks) {
		fprintf(stderr, "-r %d must be below the number of ranks, %u\n", run->options.root, run->nranks);
		return false;
	}
	for (uint32_t i = run->launched ? 1 : 0; i < run->nlibraries; i++)
		if ((i == 0 || has_use(worker, i)) && !open_comms(worker, i))
			return false;
	for (uint32_t i = 0; i < worker->nranks; i++)
		if (!open_rank(run, &worker->ranks[i]) || !enroll_rank(run, &worker->ranks[i]))
			return false;
	if (run->cuda ? !cuda_good(device_alloc_pinned(&worker->scratch, SCRATCH_BYTES)) :
			!(worker->scratch = malloc(SCRATCH_BYTES)))
		return false;
	return (worker->thread != 0 || check_open(run)) && meeting_barrier(&run->meeting);
}

void worker_close(struct perf_worker *worker, bool failed)
{
	struct perf_run *run = worker->run;

	/* A failed rank leaves first, for the others may wait for it in the library. */
	for (uint32_t l = run->nlibraries; l-- > 0;)
		for (uint32_t i = 0; worker->ranks && i < worker->nranks; i++) {
			void *comm = worker->ranks[i].comms[l];
			if (run->launched && l == 0)
				meeting_close(&run->meeting);
			if (comm && failed)
				run->libraries[l].abort(comm);
			else if (comm) {
				withdraw_rank(run, &worker->ranks[i], l);
				run->libraries[l].destroy(comm);
			}
		}
	for (uint32_t i = 0; worker->ranks && i < worker->nranks; i++)
		close_rank(run, &worker->ranks[i]);
	if (run->cuda)
		device_free_pinned(worker->scratch);
	else
		free(worker->scratch);
	if (worker->thread == 0)
		check_close(run);
	free(worker->ranks);
	worker->ranks = NULL;
}

bool worker_begin_op(struct perf_worker *worker, const struct perf_test *test)
{
	struct perf_run *run = worker->run;

	for (uint32_t i = 0; i < worker->nranks; i++)
		for (uint32_t l = 0; l < run->nlibraries; l++) {
			struct perf_rank *rank = &worker->ranks[i];
			uint64_t scalar = 0;
			rank->ops[l] = (int)test->op;
			if (!run->collective->reduces || test->op != PERF_PREMULSUM || !rank->comms[l])
				continue;
			fill_scalar(&scalar, test->type, run->options.seed, rank->rank);
			if (!run->libraries[l].make_premulsum(&rank->ops[l], &scalar, test->type, rank->comms[l]))
				return false;
		}
	return true;
}

void worker_end_op(struct perf_worker *worker, const struct perf_test *test)
{
	struct perf_run *run = worker->run;

	if (!run->collective->reduces || test->op != PERF_PREMULSUM)
		return;
	for (uint32_t i = 0; i < worker->nranks; i++)
		for (uint32_t l = 0; l < run->nlibraries; l++)
			if (worker->ranks[i].comms[l])
				run->libraries[l].drop_op(worker->ranks[i].ops[l], worker->ranks[i].comms[l]);
}

void worker_buffers(const struct perf_worker *worker, const struct perf_rank *rank, const struct perf_test *test,
		    uint64_t iteration, const unsigned char **send, unsigned char **recv)
{
	const struct perf_options *options = &worker->run->options;
	uint64_t places = test->bytes ? options->max_bytes / test->bytes : 1;
	size_t at = GUARD_BYTES + options->unalign_elems * test->element_bytes + test->bytes * (iteration % places);

	*send = rank->send_area + at;
	*recv = rank->recv_area + at;
	if (test->in_place) {
		*send = *recv + rank->rank * test->layout.send_in_place * test->element_bytes;
		*recv += rank->rank * test->layout.recv_in_place * test->element_bytes;
	}
}

bool worker_call(struct perf_worker *worker, uint32_t library, const struct perf_test *test, uint64_t iteration)
{
	const struct perf_library *lib = &worker->run->libraries[library];

	if (worker->nranks > 1 && !lib->group_start())
		return false;
	for (uint32_t i = 0; i < worker->nranks; i++) {
		struct perf_rank *rank = &worker->ranks[i];
		const unsigned char *send;
		unsigned char *recv;
		worker_buffers(worker, rank, test, iteration, &send, &recv);
		struct perf_call call = { worker->run->collective->kind, send, recv, test->layout.count, test->type,
					  rank->ops[library], test->root < 0 ? 0 : (uint32_t)test->root, rank->rank, worker->run->nranks,
					  rank->comms[library], rank->stream };
		if (!lib->call(&call))
			return false;
	}
	return worker->nranks == 1 || lib->group_end();
}

bool worker_wait(struct perf_worker *worker, uint32_t library)
{
	struct perf_run *run = worker->run;

	if (!run->cuda)
		return true;
	for (uint32_t i = 0; i < worker->nranks; i++)
		if (!cuda_good(device_stream_synchronize(worker->ranks[i].stream)) ||
		    !run->libraries[library].healthy(worker->ranks[i].comms[library]))
			return false;
	return true;
}
