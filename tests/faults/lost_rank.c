/* lost_rank.c - ranks as processes, of which one is killed, leaves without a word, stops for a while, or never comes: the others
 * name it in time, and a rank that is merely late does no harm.
 *
 * lost_rank [--ranks N] [--target host|cuda]: of 2, 4 and 8 ranks (cuda: 2 and 8, each process takes seconds to start there), or of N */
#include "crew.h"

#include "comm.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEARN_MS = 2000, AT_ONCE_MS = 200, BYTES = 4 << 20, STOPPED_MS = 1500, INIT_MS = 60000, TEAMS = 4 };

/* Words of the board. */
enum { LOST_MS, STEPS, DONE };

static const struct act small = {MRW_FUNC_ALL_REDUCE, 16, MARROW_FLOAT32, MARROW_SUM, 0};
static const struct act large = {MRW_FUNC_ALL_REDUCE, 500000, MARROW_FLOAT32, MARROW_SUM, 0};

static const struct act small_exchange = {MRW_FUNC_ALL_TO_ALL, 16, MARROW_FLOAT32, MARROW_SUM, 0};
static const struct act large_exchange = {MRW_FUNC_ALL_TO_ALL, 100000, MARROW_FLOAT32, MARROW_SUM, 0};

/* How the last-but-one rank goes. */
enum way { KILLED_IDLE, KILLED_IN_STREAM, KILLED_IN_EXCHANGES, KILLED_INSTEAD, EXITS, WAYS };
static const char *const way_names[WAYS] = {"killed between operations", "killed in a stream of operations", "killed in exchanges of several teams",
					    "killed instead of calling", "exits without destroy"};

static uint32_t victim_of(uint32_t size)
{
	return size - (size > 2 ? 2 : 1);
}

static void go(struct crew_member *self, int signal)
{
	mark_time(&self->board->words[LOST_MS]);
	kill(getpid(), signal);
	pause();
}

/* A watchdog thread, as frameworks have one on the cuda target: kernels hear of a death when somebody asks. */
static void *ask(void *p)
{
	struct crew_member *self = p;
	return await_error(self->comm, INIT_MS) == MARROW_SUCCESS ? NULL : p;
}

/* Calls until one fails. */
static enum marrow_status stream_until_error(struct crew_member *self, const struct act *often, const struct act *seldom)
{
	enum marrow_status status = MARROW_SUCCESS;
	bool cuda = self->target == MARROW_TARGET_CUDA;
	pthread_t asker;
	if (cuda && pthread_create(&asker, NULL, ask, self) != 0)
		abort();
	for (uint64_t i = 0; status == MARROW_SUCCESS; i++) {
		status = act_call(i % 8 ? often : seldom, &self->ground, self->comm);
		if (cuda && i % 64 == 63 && ground_settle(&self->ground) != 0)
			crew_fail(self, "the stream failed");
		__atomic_fetch_add(&self->board->words[STEPS], 1, __ATOMIC_ACQ_REL);
	}
	if (cuda)
		pthread_join(asker, NULL);
	return status;
}

static void check_told(struct crew_member *self, enum marrow_status status)
{
	uint32_t victim = victim_of(self->size);
	uint64_t lost = __atomic_load_n(&self->board->words[LOST_MS], __ATOMIC_ACQUIRE), took = now_ms() - lost;
	const char *text = marrow_last_error(self->comm);
	char name[32];
	snprintf(name, sizeof name, "rank %u (", victim);
	if (took > limit_ms(LEARN_MS))
		crew_fail(self, "learnt it after %llu ms", (unsigned long long)took);
	if (status != MARROW_REMOTE_ERROR)
		crew_fail(self, "status \"%s\": %s", marrow_status_string(status), text);
	if (self->rank == 0)
		printf("rank 0 of %u, after %llu ms: %s\n", self->size, (unsigned long long)took, text);
	if (!strstr(text, name) || !strstr(text, "pid ") || !strstr(text, "gone"))
		crew_fail(self, "does not say that %s is gone: %s", name, text);
	uint64_t start = now_ms();
	if (act_call(&small, &self->ground, self->comm) != status || act_call(&large, &self->ground, self->comm) != status)
		crew_fail(self, "a later call does not fail alike");
	if (now_ms() - start > limit_ms(AT_ONCE_MS))
		crew_fail(self, "later calls took %llu ms", (unsigned long long)(now_ms() - start));
	start = now_ms();
	if (ground_settle(&self->ground) != 0 || now_ms() - start > limit_ms(LEARN_MS))
		crew_fail(self, "the stream does not drain");
}

static void lose(struct crew_member *self)
{
	enum way way = *(const enum way *)self->arg;
	bool victim = self->rank == victim_of(self->size);
	enum marrow_status status;
	crew_init(self, BYTES, INIT_MS);
	if (way == KILLED_IN_EXCHANGES && self->target == MARROW_TARGET_HOST) { /* of two threads a channel, side by side, as GPUs have them */
		mrw_comm_set_channels(self->comm, TEAMS);
		mrw_comm_set_host_team(self->comm, 2, true);
	}
	for (int i = 0; i < 3; i++)
		if (act_done(i % 2 ? &large : &small, &self->ground, self->comm) != MARROW_SUCCESS)
			crew_fail(self, "before the loss: %s", marrow_last_error(self->comm));
	meet(&self->board->meeting, self->size);
	switch (way) {
	case KILLED_IDLE:
	case EXITS:
		if (victim && way == EXITS) {
			mark_time(&self->board->words[LOST_MS]);
			_exit(0);
		}
		if (victim)
			go(self, SIGKILL);
		await_word(&self->board->words[LOST_MS], 1, INIT_MS);
		status = await_error(self->comm, limit_ms(LEARN_MS) * 2);
		break;
	case KILLED_IN_STREAM:
		status = stream_until_error(self, &small, &large);
		break;
	case KILLED_IN_EXCHANGES:
		status = stream_until_error(self, &small_exchange, &large_exchange);
		break;
	default:
		if (victim) {
			sleep_ms(200);
			go(self, SIGKILL);
		}
		status = act_learn(&large, &self->ground, self->comm, limit_ms(LEARN_MS) * 2);
		break;
	}
	check_told(self, status);
	crew_finish(self);
}

static int run_lose(enum marrow_target target, uint32_t size, enum way way)
{
	struct crew crew = {.doing = way_names[way], .target = target, .size = size, .arg = &way, .seconds = 40};
	uint32_t victim = victim_of(size);
	crew_start(&crew, lose);
	if (way == KILLED_IN_STREAM || way == KILLED_IN_EXCHANGES) {
		if (!await_word(&crew.board->words[STEPS], 50 * size, INIT_MS))
			fprintf(stderr, "the stream does not flow\n");
		mark_time(&crew.board->words[LOST_MS]);
		kill(crew.pids[victim], SIGKILL);
	}
	return crew_end(&crew, way == EXITS ? 0 : 1u << victim);
}

/* One rank stops for longer than anybody is used to, between operations and within one; all results are right. */
static void stop(struct crew_member *self)
{
	enum { OPS = 200 };
	crew_init(self, BYTES, INIT_MS);
	ground_fill(&self->ground, 1, large.count);
	for (int i = 0; i < OPS; i++) {
		const struct act *act = i % 8 ? &small : &large;
		if (self->rank == victim_of(self->size))
			__atomic_fetch_add(&self->board->words[STEPS], 1, __ATOMIC_ACQ_REL);
		if (act_done(act, &self->ground, self->comm) != MARROW_SUCCESS) {
			crew_fail(self, "operation %d: %s", i, marrow_last_error(self->comm));
			break;
		}
		if (ground_result(&self->ground, act->count - 1) != (float)self->size)
			crew_fail(self, "operation %d: result %g", i, (double)ground_result(&self->ground, act->count - 1));
		sleep_ms(1);
	}
	__atomic_fetch_add(&self->board->words[DONE], 1, __ATOMIC_ACQ_REL);
	meet(&self->board->meeting, self->size);
	crew_finish(self);
}

static int run_stop(enum marrow_target target, uint32_t size)
{
	struct crew crew = {.doing = "stops for a while", .target = target, .size = size, .seconds = 40};
	int wrong = 0;
	pid_t victim;
	crew_start(&crew, stop);
	victim = crew.pids[victim_of(size)];
	if (!await_word(&crew.board->words[STEPS], 20, INIT_MS))
		fprintf(stderr, "the stream does not flow\n");
	kill(victim, SIGSTOP);
	sleep_ms(STOPPED_MS);
	if (__atomic_load_n(&crew.board->words[DONE], __ATOMIC_ACQUIRE) != 0) {
		fprintf(stderr, "%s: somebody did not wait\n", crew.doing);
		wrong = 1;
	}
	kill(victim, SIGCONT);
	return wrong + crew_end(&crew, 0);
}

/* Nobody dies, but one rank does not call before the deadline. */
static void miss(struct crew_member *self)
{
	uint64_t deadline = sanitized ? 4000 : patient() ? 2000 : 1000;
	uint32_t victim = victim_of(self->size);
	char name[32], call[64];
	crew_init(self, BYTES, deadline);
	for (int i = 0; i < 2; i++)
		if (act_done(&small, &self->ground, self->comm) != MARROW_SUCCESS)
			crew_fail(self, "before the deadline: %s", marrow_last_error(self->comm));
	meet(&self->board->meeting, self->size);
	mark_time(&self->board->words[LOST_MS]);
	enum marrow_status status;
	if (self->rank == victim) {
		/* Awake, only elsewhere. The others are gone when it looks at last. */
		await_word(&self->board->words[DONE], self->size - 1, 10 * deadline);
		sleep_ms(100);
		status = await_error(self->comm, limit_ms(LEARN_MS));
	} else {
		status = act_learn(&large, &self->ground, self->comm, deadline + 2 * limit_ms(LEARN_MS));
		uint64_t took = now_ms() - self->board->words[LOST_MS];
		if (took < deadline - 200 || took > deadline + limit_ms(LEARN_MS))
			crew_fail(self, "left after %llu ms, the deadline was %llu", (unsigned long long)took, (unsigned long long)deadline);
		if (status == MARROW_TIMEOUT)
			__atomic_fetch_add(&self->board->words[STEPS], 1, __ATOMIC_ACQ_REL);
		__atomic_fetch_add(&self->board->words[DONE], 1, __ATOMIC_ACQ_REL);
	}
	const char *text = marrow_last_error(self->comm);
	if (status != MARROW_TIMEOUT && status != MARROW_REMOTE_ERROR)
		crew_fail(self, "status \"%s\": %s", marrow_status_string(status), text);
	if (self->rank == 0)
		printf("rank 0 of %u: %s\n", self->size, text);
	snprintf(name, sizeof name, "rank %u", victim);
	snprintf(call, sizeof call, "all_reduce(count %zu", large.count);
	if (!strstr(text, name) || !strstr(text, "wait") || !strstr(text, call))
		crew_fail(self, "does not say who waited for %s in %s: %s", name, call, text);
	if (self->rank == victim && __atomic_load_n(&self->board->words[STEPS], __ATOMIC_ACQUIRE) == 0)
		crew_fail(self, "nobody says that a deadline passed");
	if (act_call(&small, &self->ground, self->comm) != status)
		crew_fail(self, "a later call does not fail alike");
	if (ground_settle(&self->ground) != 0)
		crew_fail(self, "the stream does not drain");
	crew_finish(self);
}

static int run_miss(enum marrow_target target, uint32_t size)
{
	struct crew crew = {.doing = "misses the deadline", .target = target, .size = size, .seconds = 40};
	crew_start(&crew, miss);
	return crew_end(&crew, 0);
}

int main(int argc, char **argv)
{
	static const uint32_t sizes[] = {2, 4, 8};
	uint32_t only = 0;
	int failed = 0;
	if (argc > 2 && strcmp(argv[1], "--ranks") == 0) {
		only = (uint32_t)strtoul(argv[2], NULL, 10);
		argc -= 2;
		argv += 2;
	}
	enum marrow_target target = target_option(argc, argv);
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		if (only ? sizes[i] != only : target == MARROW_TARGET_CUDA && sizes[i] == 4)
			continue;
		int before = failed;
		for (int way = 0; way < WAYS; way++)
			failed += run_lose(target, sizes[i], (enum way)way) != 0;
		failed += run_stop(target, sizes[i]) != 0;
		if (sizes[i] <= 4)
			failed += run_miss(target, sizes[i]) != 0;
		printf("%u ranks, one lost, stopped or late: %s\n", sizes[i], failed > before ? "FAILED" : "ok");
		fflush(stdout);
	}
	return failed ? 1 : 0;
}
