#include "driver.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../support/device_memory.h"

enum { FAILED = 1, BAD_USAGE = 2, GRACE_S = 20 };

static bool run_worker(struct perf_worker *worker)
{
	struct perf_run *run = worker->run;
	struct perf_report *report = NULL;
	bool good = worker_open(worker) && (report = report_open(worker)) && walk(worker, report);
	bool right = true;

	if (!good)
		meeting_fail(&run->meeting);
	if (report)
		right = report_close(report, good);
	worker_close(worker, !good);
	return good && right;
}

static void *thread_main(void *argument)
{
	return run_worker(argument) ? argument : NULL;
}

/* After a failure the others get some time to notice through the library. */
static void *join(pthread_t thread, struct perf_run *run)
{
	void *result = NULL;
	struct timespec until;

	for (int after = 0;; after += meeting_failed(&run->meeting)) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec++;
		int error = pthread_timedjoin_np(thread, &result, &until);
		if (error == 0)
			return result;
		if (error != ETIMEDOUT || after >= GRACE_S) {
			fprintf(stderr, "a thread did not come back %d s after another one failed\n", GRACE_S);
			_exit(FAILED);
		}
	}
}

static int run_process(struct perf_run *run)
{
	uint32_t threads = run->options.threads, started;
	struct perf_worker *workers = calloc(threads, sizeof *workers);
	pthread_t *ids = calloc(threads, sizeof *ids);
	bool good = workers && ids;

	for (started = 0; good && started < threads; started++) {
		workers[started] = (struct perf_worker){ .run = run, .thread = started, .nranks = run->options.ranks_per_thread,
							 .participant = run->process * threads + started };
		good = pthread_create(&ids[started], NULL, thread_main, &workers[started]) == 0;
		if (!good)
			break;
	}
	if (!good) {
		fprintf(stderr, "cannot start %u threads\n", threads);
		meeting_fail(&run->meeting);
	}
	for (uint32_t t = 0; t < started; t++)
		if (!join(ids[t], run))
			good = false;
	free(workers);
	free(ids);
	return good ? 0 : FAILED;
}

/* Target and libraries: only now, for CUDA must not be touched before a fork. */
static int open_and_run(struct perf_run *run)
{
	struct perf_options *options = &run->options;
	const char *wish = getenv("MARROW_TARGET");

	if (options->target == MARROW_TARGET_AUTO && wish && (strcmp(wish, "host") == 0 || strcmp(wish, "cuda") == 0))
		options->target = *wish == 'h' ? MARROW_TARGET_HOST : MARROW_TARGET_CUDA;
	run->cuda = options->target == MARROW_TARGET_CUDA || (options->target == MARROW_TARGET_AUTO && device_count() > 0);
	if (!run->cuda && options->graph_launches) {
		size_t used = strlen(options->ignored);
		snprintf(options->ignored + used, sizeof options->ignored - used, " -G %u", options->graph_launches);
		options->graph_launches = 0;
	}
	enum marrow_target target = run->cuda ? MARROW_TARGET_CUDA : MARROW_TARGET_HOST;
	library_open_marrow(&run->libraries[0], target, options->timeout_s, NULL);
	run->nlibraries = 1;
	for (uint32_t a = 0; a < options->nalgos; a++)
		library_open_marrow(&run->libraries[run->nlibraries++], target, options->timeout_s, options->algos[a]);
	if (options->compare_path) {
		if (!library_open_nccl(&run->libraries[1], options->compare_path)) {
			meeting_fail(&run->meeting);
			return FAILED;
		}
		run->nlibraries = 2;
	}
	return run_process(run);
}

/* Starts the processes and waits for all; when one fails, the others get GRACE_S. */
static int run_processes(struct perf_run *run)
{
	uint32_t count = run->options.processes, left = 0;
	pid_t *pids = calloc(count, sizeof *pids), parent = getpid();
	int result = pids ? 0 : FAILED, status;
	time_t deadline = 0;

	fflush(stdout);
	for (uint32_t p = 0; pids && p < count; p++, left++) {
		pids[p] = fork();
		if (pids[p] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != parent)
				_exit(FAILED);
			run->process = p;
			exit(open_and_run(run));
		}
		if (pids[p] < 0) {
			perror("fork");
			meeting_fail(&run->meeting);
			result = FAILED;
			break;
		}
	}
	while (left > 0) {
		pid_t pid = waitpid(-1, &status, deadline ? WNOHANG : 0);
		for (uint32_t p = 0; pid > 0 && p < count; p++)
			if (pids[p] == pid) {
				pids[p] = 0;
				left--;
			}
		if (pid > 0 && status != 0) {
			if (WIFSIGNALED(status))
				fprintf(stderr, "process %d was killed by signal %d\n", (int)pid, WTERMSIG(status));
			result = FAILED;
			if (!deadline)
				deadline = time(NULL) + GRACE_S;
			/* Wrong values alone stop nobody: the others end by themselves. */
			if (WIFSIGNALED(status))
				meeting_fail(&run->meeting);
		}
		for (uint32_t p = 0; deadline && time(NULL) > deadline && p < count; p++)
			if (pids[p] > 0)
				kill(pids[p], SIGKILL);
		if (pid <= 0 && deadline)
			usleep(10000);
	}
	free(pids);
	return result;
}

static bool all_set(const char *const *names)
{
	for (; *names; names++)
		if (!getenv(*names) || !*getenv(*names))
			return false;
	return true;
}

static bool has_launcher(void)
{
	static const char *const own[] = { "MARROW_RANK", "MARROW_NRANKS", NULL };
	static const char *const torchrun[] = { "RANK", "WORLD_SIZE", "MASTER_ADDR", NULL };
	static const char *const mpirun[] = { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL };
	return all_set(own) || all_set(torchrun) || all_set(mpirun);
}

int perf_main(int argc, char **argv, const struct perf_collective *collective)
{
	struct perf_run run = { .collective = collective };
	struct perf_options *options = &run.options;
	int status;

	if (!options_parse(options, argc, argv, &status))
		return status;
	run.program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	run.launched = options->processes == 0 && has_launcher();
	if (run.launched) {
		if (options->threads * options->ranks_per_thread != 1) {
			fprintf(stderr, "under a launcher each process is one rank: -t, -g and --ranks must be 1\n");
			return BAD_USAGE;
		}
		return open_and_run(&run);
	}
	uint64_t participants = (uint64_t)(options->processes ? options->processes : 1) * options->threads;
	uint64_t nranks = participants * options->ranks_per_thread;
	if (nranks > MAX_RANKS) {
		fprintf(stderr, "%llu ranks are too many: at most %d\n", (unsigned long long)nranks, MAX_RANKS);
		return BAD_USAGE;
	}
	run.nranks = (uint32_t)nranks;
	if (collective->rooted && options->root >= (int64_t)nranks) {
		fprintf(stderr, "-r %d must be below the number of ranks, %u\n", options->root, run.nranks);
		return BAD_USAGE;
	}
	if (!meeting_open_page(&run.meeting, (uint32_t)participants))
		return BAD_USAGE;
	status = options->processes ? run_processes(&run) : open_and_run(&run);
	meeting_close(&run.meeting);
	return status;
}
