/* shrink.c - the way on after a failure: ranks are killed in the middle of their work, the others go on without them; and what is said when
 * those who are left do not agree, or do not come.
 *
 * shrink [--target host|cuda] */
#include "crew.h"
#include "verdict.h"

#include "support/hosts.h"
#include "support/world.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 1 << 20, LEARN_MS = 2000, INIT_MS = 60000 };

static const struct act small = {MRW_FUNC_ALL_REDUCE, 16, MARROW_FLOAT32, MARROW_SUM, 0};
static const struct act large = {MRW_FUNC_ALL_REDUCE, 200000, MARROW_FLOAT32, MARROW_SUM, 0};

/* Ranks to leave out, as the call takes them. */
static uint32_t list_of(uint32_t mask, uint32_t list[CREW_MAX])
{
	uint32_t n = 0;
	for (uint32_t r = 0; r < CREW_MAX; r++)
		if (mask >> r & 1)
			list[n++] = r;
	return n;
}

/* Sums over comm of values that only one order of additions gives: the first rank's is large. NULL: right. */
static const char *try_out(struct ground *g, struct marrow_comm *comm)
{
	static const size_t counts[] = {5, 300, 60000};
	uint32_t rank, n;
	float want = 0;
	if (marrow_comm_rank(comm, &rank) != MARROW_SUCCESS || marrow_comm_count(comm, &n) != MARROW_SUCCESS)
		return "no rank or count";
	for (uint32_t r = 0; r < n; r++)
		want += r == 0 ? 16777216.0f : (float)(2 * r + 1);
	for (int i = 0; i < 3; i++) {
		struct act act = {MRW_FUNC_ALL_REDUCE, counts[i], MARROW_FLOAT32, MARROW_SUM, 0};
		ground_fill(g, rank == 0 ? 16777216.0f : (float)(2 * rank + 1), counts[i]);
		if (act_done(&act, g, comm) != MARROW_SUCCESS)
			return marrow_last_error(comm);
		if (ground_result(g, counts[i] - 1) != want)
			return "wrong bits";
	}
	return NULL;
}

/* Ranks as processes, some of which kill themselves within a stream of operations. */
static void killed(struct crew_member *self)
{
	uint32_t dead = *(const uint32_t *)self->arg, list[CREW_MAX], n = list_of(dead, list), rank = 99;
	struct marrow_comm *left = NULL, *half = NULL, *fewer = NULL;
	const char *wrong;
	crew_init(self, BYTES, INIT_MS);
	enum marrow_status status = MARROW_SUCCESS;
	for (int i = 0; status == MARROW_SUCCESS || dead >> self->rank & 1; i++) {
		if ((i == 20 || status != MARROW_SUCCESS) && dead >> self->rank & 1) /* another's death may be felt before */
			kill(getpid(), SIGKILL);
		status = act_done(i % 4 ? &small : &large, &self->ground, self->comm);
	}
	/* Some notice it late. */
	sleep_ms(self->rank * 20);
	uint64_t start = now_ms();
	if (marrow_comm_shrink(self->comm, list, n, MARROW_SHRINK_ABORT, &left, NULL) != MARROW_SUCCESS) {
		crew_fail(self, "shrink: %s", marrow_last_error(NULL));
		exit(1);
	}
	if (now_ms() - start > limit_ms(LEARN_MS))
		crew_fail(self, "shrink took %llu ms", (unsigned long long)(now_ms() - start));
	marrow_comm_rank(left, &rank);
	if (rank != self->rank - (uint32_t)__builtin_popcount(dead & ((1u << self->rank) - 1)))
		crew_fail(self, "rank %u is now %u", self->rank, rank);
	if (act_call(&small, &self->ground, self->comm) == MARROW_SUCCESS)
		crew_fail(self, "the old communicator goes on");
	if ((wrong = try_out(&self->ground, left)))
		crew_fail(self, "%s", wrong);
	if (marrow_comm_destroy(self->comm) != MARROW_SUCCESS)
		crew_fail(self, "destroy: %s", marrow_last_error(NULL));
	self->comm = left;
	if ((wrong = try_out(&self->ground, left)))
		crew_fail(self, "after the old one is gone: %s", wrong);
	/* What came out is a communicator like any other. */
	if (marrow_comm_split(left, (int32_t)rank % 2, 0, &half, NULL) != MARROW_SUCCESS || (wrong = try_out(&self->ground, half)))
		crew_fail(self, "split: %s", half ? wrong : marrow_last_error(left));
	if (rank != 0 && marrow_comm_shrink(left, (uint32_t[]){0}, 1, MARROW_SHRINK_DEFAULT, &fewer, NULL) != MARROW_SUCCESS)
		crew_fail(self, "once more: %s", marrow_last_error(NULL));
	if (rank != 0 && (wrong = try_out(&self->ground, fewer)))
		crew_fail(self, "once more: %s", wrong);
	if (marrow_comm_destroy(half) != MARROW_SUCCESS || marrow_comm_destroy(fewer) != MARROW_SUCCESS)
		crew_fail(self, "destroy: %s", marrow_last_error(NULL));
	meet(&self->board->meeting, self->size - n);
	crew_finish(self);
}

static void kill_some(enum marrow_target target, uint32_t size, uint32_t dead)
{
	char what[64];
	struct crew crew = {.doing = what, .target = target, .size = size, .arg = &dead, .seconds = 40};
	snprintf(what, sizeof what, "of %u ranks %x are killed", size, dead);
	crew_start(&crew, killed);
	expect_true(what, crew_end(&crew, dead) == 0);
}

/* A death that not everybody knows of: who leaves the dead rank in is told, and may try again. */
static void forgotten(struct crew_member *self)
{
	struct marrow_comm *left = NULL;
	const char *wrong;
	crew_init(self, BYTES, INIT_MS);
	meet(&self->board->meeting, self->size);
	if (self->rank == 1)
		kill(getpid(), SIGKILL);
	enum marrow_status status = await_error(self->comm, limit_ms(LEARN_MS));
	if (status != MARROW_REMOTE_ERROR)
		crew_fail(self, "the death goes unnoticed");
	status = marrow_comm_shrink(self->comm, NULL, 0, MARROW_SHRINK_ABORT, &left, NULL);
	if (status != MARROW_REMOTE_ERROR || left || !strstr(marrow_last_error(NULL), "rank 1 (") || !strstr(marrow_last_error(NULL), "leave it out"))
		crew_fail(self, "\"%s\": %s", marrow_status_string(status), marrow_last_error(NULL));
	status = marrow_comm_shrink(self->comm, (uint32_t[]){1}, 1, MARROW_SHRINK_ABORT, &left, NULL);
	if (status != MARROW_SUCCESS)
		crew_fail(self, "second try: %s", marrow_last_error(NULL));
	else if ((wrong = try_out(&self->ground, left)))
		crew_fail(self, "second try: %s", wrong);
	if (marrow_comm_destroy(left) != MARROW_SUCCESS)
		crew_fail(self, "destroy: %s", marrow_last_error(NULL));
	crew_finish(self);
}

/* A rank dies while it is waited for. */
static void dies_meanwhile(struct crew_member *self)
{
	struct marrow_comm *left = NULL;
	crew_init(self, BYTES, INIT_MS);
	meet(&self->board->meeting, self->size);
	if (self->rank == 1) {
		sleep_ms(300);
		mark_time(&self->board->words[0]);
		kill(getpid(), SIGKILL);
	}
	if (self->rank == 2) {
		await_error(self->comm, INIT_MS);
	} else {
		enum marrow_status status = marrow_comm_shrink(self->comm, (uint32_t[]){2}, 1, MARROW_SHRINK_DEFAULT, &left, NULL);
		const char *text = marrow_last_error(NULL);
		if (status != MARROW_REMOTE_ERROR || !strstr(text, "rank 1 (") || !strstr(text, "is gone"))
			crew_fail(self, "\"%s\": %s", marrow_status_string(status), text);
	}
	if (now_ms() - self->board->words[0] > limit_ms(LEARN_MS))
		crew_fail(self, "learnt it late");
	crew_finish(self);
}

static struct meeting meeting;

static bool ground(struct world_rank *self, struct ground *g)
{
	if (ground_make(g, self->world->target, self->rank, BYTES) == 0)
		return true;
	world_fail(self, "no ground");
	return false;
}

static void check(struct world_rank *self, const char *what, struct ground *g, struct marrow_comm *comm)
{
	const char *wrong = comm ? try_out(g, comm) : "there is none";
	if (wrong)
		world_fail(self, "%s: %s", what, wrong);
}

/* A sound communicator: the ranks that are left out do not call, and all go on using the old one. */
static void sound(struct world_rank *self)
{
	struct marrow_comm *all = self->comms[0], *left = NULL, *same = NULL;
	struct ground g;
	bool out = self->rank == 0 || self->rank == 2;
	if (!ground(self, &g))
		return;
	if (!out && marrow_comm_shrink(all, (uint32_t[]){0, 2}, 2, MARROW_SHRINK_DEFAULT, &left, NULL) != MARROW_SUCCESS)
		world_fail(self, "shrink: %s", marrow_last_error(all));
	if (!out)
		check(self, "the new one", &g, left);
	check(self, "the old one", &g, all);
	if (marrow_comm_shrink(all, NULL, 0, MARROW_SHRINK_DEFAULT, &same, NULL) != MARROW_SUCCESS)
		world_fail(self, "without nobody: %s", marrow_last_error(all));
	check(self, "without nobody", &g, same);
	if (marrow_comm_destroy(same) != MARROW_SUCCESS)
		world_fail(self, "destroy: %s", marrow_last_error(NULL));
	ground_leave(&g, &left, 1);
}

/* Rank 2 leaves by abort and destroy while the others wait for it in an operation, one of them in another thread's call. */
static void aborted(struct world_rank *self)
{
	struct marrow_comm *left = NULL;
	struct ground g;
	if (!ground(self, &g))
		return;
	check(self, "before", &g, self->comms[0]);
	if (self->rank == 2) {
		marrow_comm_abort(self->comms[0]);
	} else {
		act_learn(&large, &g, self->comms[0], LEARN_MS);
		if (marrow_comm_shrink(self->comms[0], (uint32_t[]){2}, 1, MARROW_SHRINK_ABORT, &left, NULL) != MARROW_SUCCESS)
			world_fail(self, "shrink: %s", marrow_last_error(NULL));
		check(self, "the new one", &g, left);
	}
	ground_leave(&g, &left, 1);
}

/* Lists differ; then one rank does not come; then all agree. */
static void disagree(struct world_rank *self)
{
	struct marrow_comm *all = self->comms[0], *left = all;
	struct marrow_config config = MARROW_CONFIG_INIT;
	struct hosts_place place;
	struct ground g;
	if (!ground(self, &g))
		return;
	config.target = self->world->target;
	config.timeout_ms = patient() ? 1500 : 700;
	hosts_place(&place, self->rank, self->nranks, &config);
	uint32_t mine = self->rank == 3 ? 1 : 2;
	uint64_t start = now_ms();
	if (self->rank != 1 && self->rank != 2) {
		enum marrow_status status = marrow_comm_shrink(all, &mine, 1, MARROW_SHRINK_DEFAULT, &left, &config);
		expect_status("lists differ", status, MARROW_MISMATCH, NULL, "leaves out 1|leaves out 2|rank ");
		expect_true("lists differ: none made", !left);
		expect_true("lists differ: at once", now_ms() - start < limit_ms(LEARN_MS));
	}
	meet(&meeting, self->nranks);
	start = now_ms();
	mine = 0;
	if (self->rank == 1 || self->rank == 2) {
		enum marrow_status status = marrow_comm_shrink(all, &mine, 1, MARROW_SHRINK_DEFAULT, &left, &config);
		expect_status("one is missing", status, MARROW_TIMEOUT, NULL, "without ranks {0}|rank 2 of 3 has not arrived");
		expect_true("one is missing: in time", now_ms() - start < limit_ms(LEARN_MS) + config.timeout_ms);
	}
	meet(&meeting, self->nranks);
	if (self->rank != 0 && marrow_comm_shrink(all, &mine, 1, MARROW_SHRINK_DEFAULT, &left, NULL) != MARROW_SUCCESS)
		world_fail(self, "at last: %s", marrow_last_error(NULL));
	if (self->rank != 0)
		check(self, "at last", &g, left);
	check(self, "the old one", &g, all);
	ground_leave(&g, self->rank != 0 ? &left : NULL, self->rank != 0);
}

static void misuse(struct world_rank *self)
{
	struct marrow_comm *all = self->comms[0], *left = all;
	uint32_t me = self->rank, other = 1 - me, twice[2] = {other, other}, high = 2;
	enum marrow_status error = MARROW_INTERNAL_ERROR;
	expect_status("no communicator", marrow_comm_shrink(NULL, NULL, 0, 0, &left, NULL), MARROW_INVALID_ARGUMENT, NULL, "NULL");
	expect_status("nowhere to put it", marrow_comm_shrink(all, &other, 1, 1, NULL, NULL), MARROW_INVALID_ARGUMENT, NULL, "shrunk is NULL");
	expect_status("no list", marrow_comm_shrink(all, NULL, 1, 1, &left, NULL), MARROW_INVALID_ARGUMENT, NULL, "exclude is NULL");
	expect_status("itself", marrow_comm_shrink(all, &me, 1, 1, &left, NULL), MARROW_INVALID_ARGUMENT, NULL, "leaves out itself");
	expect_status("no such rank", marrow_comm_shrink(all, &high, 1, 1, &left, NULL), MARROW_INVALID_ARGUMENT, NULL, "rank 2|0 to 1");
	expect_status("twice", marrow_comm_shrink(all, twice, 2, 1, &left, NULL), MARROW_INVALID_ARGUMENT, NULL, "ascending");
	expect_status("flags", marrow_comm_shrink(all, &other, 1, 2, &left, NULL), MARROW_INVALID_ARGUMENT, NULL, "flags 2");
	marrow_group_start();
	expect_status("in a group", marrow_comm_shrink(all, &other, 1, 0, &left, NULL), MARROW_INVALID_USAGE, NULL, "group");
	marrow_group_end();
	struct marrow_config bad = MARROW_CONFIG_INIT;
	bad.algo = "none";
	expect_status("config", marrow_comm_shrink(all, &other, 1, 0, &left, &bad), MARROW_INVALID_ARGUMENT, NULL, "none");
	expect_true("none made", !left);
	expect_true("no harm done", marrow_comm_async_error(all, &error) == MARROW_SUCCESS && error == MARROW_SUCCESS);
	expect_status("alone", marrow_comm_shrink(all, &other, 1, 0, &left, NULL), MARROW_SUCCESS, NULL, NULL);
	expect_status("destroy", marrow_comm_destroy(left), MARROW_SUCCESS, NULL, NULL);
	meet(&meeting, self->nranks);
	marrow_comm_abort(all);
	enum marrow_status status = marrow_comm_shrink(all, &other, 1, MARROW_SHRINK_DEFAULT, &left, NULL);
	expect_true("default after a failure", status == MARROW_ABORTED || status == MARROW_REMOTE_ERROR);
	expect_status("abort after a failure", marrow_comm_shrink(all, &other, 1, MARROW_SHRINK_ABORT, &left, NULL), MARROW_SUCCESS, NULL, NULL);
	expect_status("destroy", marrow_comm_destroy(left), MARROW_SUCCESS, NULL, NULL);
}

static void run(const char *what, enum marrow_target target, uint32_t nranks, void (*body)(struct world_rank *self))
{
	struct world w = {.target = target, .nranks = nranks, .ncomms = 1};
	memset(&meeting, 0, sizeof meeting);
	watchdog(60, what);
	expect_true(what, world_run(&w, body) == 0);
	watchdog(0, "");
}

int main(int argc, char **argv)
{
	enum marrow_target target = target_option(argc, argv);
	kill_some(target, 4, 1 << 2);
	kill_some(target, 4, 1 << 0); /* where all met */
	kill_some(target, 5, 1 << 1 | 1 << 3);
	kill_some(target, 8, 0xfe & ~(1 << 3 | 1 << 5)); /* none of rank 0's neighbours is left */
	struct crew crew = {.doing = "a dead rank is not left out", .target = target, .size = 4, .seconds = 40};
	crew_start(&crew, forgotten);
	expect_true(crew.doing, crew_end(&crew, 2) == 0);
	struct crew late = {.doing = "dies while it is waited for", .target = target, .size = 4, .seconds = 40};
	crew_start(&late, dies_meanwhile);
	expect_true(late.doing, crew_end(&late, 2) == 0);
	run("sound", target, 4, sound);
	struct census before = census_take();
	run("aborted", target, 4, aborted);
	run("disagree", target, 4, disagree);
	run("misuse", target, 2, misuse);
	if (target == MARROW_TARGET_HOST)
		expect_nothing_left("all", &before);
	printf("shrink: %s\n", failures() ? "FAILED" : "ok");
	return failures() ? 1 : 0;
}
