/* network_kernel.cu - see network_kernel.h. Compiled with -DMRW_FAR=1. */
#include "network_kernel.h"

#include "cuda_helpers.h"

#include "device/send.h"

#include <cuda_runtime.h>

static __device__ void say(struct network_report *report, enum network_step step)
{
	mrw_publish(&report->step, step);
}

/* The flag, or time is up. */
static __device__ bool wait_word(const uint64_t *word, uint64_t value, uint64_t limit_ns)
{
	uint64_t until = mrw_clock_ns() + limit_ns;
	while (mrw_load_relaxed(word) != value)
		if (mrw_clock_ns() > until)
			return false;
	mrw_observed(word);
	return true;
}

static __device__ bool wait_done(struct mrw_queue *q, uint64_t index, uint64_t limit_ns)
{
	uint64_t until = mrw_clock_ns() + limit_ns;
	while (!mrw_poll_done(q, index))
		if (mrw_load_relaxed(&q->failed) != 0 || mrw_clock_ns() > until)
			return false;
	return true;
}

static __device__ bool one_round(const struct network_job *job, uint64_t round)
{
	const struct mrw_far_peer *peer = &job->far->peer[job->peer];
	struct mrw_queue *q = peer->queue[0];
	uint64_t first;
	for (uint32_t i = 0; i < job->bytes / 8; i++)
		job->arena[job->from / 8 + i] = round << 32 | i;
	if (!mrw_post_reserve(q, 2, &first))
		return false;
	(void)mrw_wqe_write(mrw_post_slot(q, first), first, q->qpn, false, peer->arena + job->to, peer->rkey[0], job->far->arena + job->from,
			    job->far->lkey[0], job->bytes);
	(void)mrw_wqe_write_word(mrw_post_slot(q, first + 1), first + 1, q->qpn, true, peer->arena + job->flag, peer->rkey[0], round);
	mrw_post_ready(q, first, 2);
	say(job->report, NETWORK_POSTED);
	if (!wait_word(job->arena + job->flag / 8, round, job->limit_ns))
		return false;
	say(job->report, NETWORK_FLAG);
	for (uint32_t i = 0; i < job->bytes / 8; i++) {
		if (mrw_load_relaxed(job->arena + job->to / 8 + i) != (round << 32 | i)) {
			job->report->wrong = i + 1;
			return false;
		}
	}
	say(job->report, NETWORK_DATA);
	if (!wait_done(q, first + 1, job->limit_ns))
		return false;
	say(job->report, NETWORK_COMPLETE);
	return true;
}

static __global__ void run(const struct network_job job)
{
	uint64_t begin = mrw_clock_ns();
	say(job.report, NETWORK_RUNS);
	for (uint64_t round = 1; round <= job.rounds && one_round(&job, round); round++)
		job.report->rounds = round;
	job.report->failed = mrw_load_relaxed(&job.far->peer[job.peer].queue[0]->failed);
	job.report->ns = mrw_clock_ns() - begin;
	__threadfence_system();
}

extern "C" int network_kernel(void *stream, const struct network_job *job)
{
	run<<<1, 1, 0, (cudaStream_t)stream>>>(*job);
	return gpu_check((int)cudaGetLastError(), "launch of the network kernel");
}
