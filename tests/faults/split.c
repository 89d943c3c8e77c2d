/* split.c - communicators out of one: who is in which, in which order, with whose settings; in groups; and what all ranks hear when one
 * of them cannot, does not, or must not take part.
 *
 * split [--target host|cuda] */
#include "crew.h"
#include "verdict.h"

#include "support/hosts.h"
#include "support/world.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 5, BYTES = 400000, LEARN_MS = 2000, INIT_MS = 60000 };

static struct meeting meeting;

/* Sum over comm of 1 + the old rank, small and large; want: the sum. */
static void use(struct world_rank *self, const char *what, struct marrow_comm *comm, struct ground *g, float want)
{
	static const size_t counts[] = {3, BYTES / 4};
	for (int i = 0; i < 2; i++) {
		struct act act = {MRW_FUNC_ALL_REDUCE, counts[i], MARROW_FLOAT32, MARROW_SUM, 0};
		ground_fill(g, (float)(1 + self->rank), counts[i]);
		enum marrow_status status = act_done(&act, g, comm);
		if (status != MARROW_SUCCESS)
			world_fail(self, "%s: %s", what, marrow_last_error(comm));
		else if (ground_result(g, counts[i] - 1) != want)
			world_fail(self, "%s: %g, not %g", what, (double)ground_result(g, counts[i] - 1), (double)want);
	}
}

static void is_at(struct world_rank *self, const char *what, struct marrow_comm *comm, uint32_t rank, uint32_t nranks)
{
	uint32_t r = 99, n = 99;
	if (!comm || marrow_comm_rank(comm, &r) != MARROW_SUCCESS || marrow_comm_count(comm, &n) != MARROW_SUCCESS || r != rank || n != nranks)
		world_fail(self, "%s: rank %u of %u, not %u of %u", what, r, n, rank, nranks);
}

static struct marrow_comm *split(struct world_rank *self, const char *what, struct marrow_comm *comm, int32_t color, int32_t key)
{
	struct marrow_comm *child = NULL;
	if (marrow_comm_split(comm, color, key, &child, NULL) != MARROW_SUCCESS)
		world_fail(self, "%s: %s", what, marrow_last_error(comm));
	return child;
}

static void leave(struct world_rank *self, struct marrow_comm *comm)
{
	if (marrow_comm_destroy(comm) != MARROW_SUCCESS)
		world_fail(self, "destroy: %s", marrow_last_error(NULL));
}

/* Old ranks 0 2 4 turned round, 1 3 in order; then their children; then all but rank 3, which has no color. */
static void membership(struct world_rank *self)
{
	struct ground g;
	struct marrow_comm *all = self->comms[0];
	uint32_t r = self->rank;
	if (ground_make(&g, self->world->target, r, BYTES) != 0)
		abort();
	struct marrow_comm *half = split(self, "halves", all, (int32_t)(r % 2), r % 2 ? 7 : -(int32_t)r);
	is_at(self, "halves", half, r % 2 ? r / 2 : 2 - r / 2, r % 2 ? 2 : 3);
	use(self, "halves", half, &g, r % 2 ? 6 : 9);
	use(self, "the parent after it", all, &g, 15);
	struct marrow_comm *single = split(self, "singles", half, (int32_t)r, 0);
	is_at(self, "singles", single, 0, 1);
	use(self, "singles", single, &g, (float)(1 + r));
	struct marrow_comm *most = split(self, "all but one", all, r == 3 ? MARROW_NO_COLOR : INT32_MAX, INT32_MIN);
	if (r == 3 && most)
		world_fail(self, "no color, but a communicator");
	if (r != 3) {
		is_at(self, "all but one", most, r - (r > 3), 4);
		use(self, "all but one", most, &g, 11);
	}
	if (split(self, "nobody", all, MARROW_NO_COLOR, 0))
		world_fail(self, "no color, but a communicator");
	leave(self, half); /* before its own child */
	use(self, "singles alone", single, &g, (float)(1 + r));
	leave(self, single);
	use(self, "the parent at last", all, &g, 15);
	leave(self, all);
	self->comms[0] = NULL;
	if (r != 3)
		use(self, "after its parent", most, &g, 11);
	leave(self, most);
	ground_free(&g);
}

static void inherits(struct world_rank *self)
{
	struct marrow_comm *child = split(self, "inherits", self->comms[0], 0, 0), *own = NULL;
	struct marrow_comm_properties p = {.size = sizeof p}, q = {.size = sizeof q};
	struct marrow_config config = MARROW_CONFIG_INIT;
	marrow_comm_get_properties(self->comms[0], &p);
	marrow_comm_get_properties(child, &q);
	if (q.timeout_ms != p.timeout_ms || q.timeout_ms != self->world->timeout_ms || q.target != p.target || q.channel_cap != 2 ||
	    p.channel_cap != 2 || q.hosts != p.hosts || q.device != p.device)
		world_fail(self, "the child does not inherit");
	config.timeout_ms = 54321;
	config.target = self->world->target;
	struct hosts_place place;
	hosts_place(&place, self->rank, self->nranks, &config);
	if (marrow_comm_split(self->comms[0], 1, 0, &own, &config) != MARROW_SUCCESS)
		world_fail(self, "own config: %s", marrow_last_error(self->comms[0]));
	marrow_comm_get_properties(own, &q);
	if (q.timeout_ms != 54321)
		world_fail(self, "the child does not take its own config");
	leave(self, child);
	leave(self, own);
}

/* Rank 1 makes one mistake after another; each is named everywhere and does no harm. */
static void refusals(struct world_rank *self)
{
	struct marrow_comm *all = self->comms[0], *child = all;
	struct marrow_config bad = MARROW_CONFIG_INIT, good = MARROW_CONFIG_INIT, algo = MARROW_CONFIG_INIT;
	struct ground g;
	bool wrong = self->rank == 1;
	if (ground_make(&g, self->world->target, self->rank, BYTES) != 0)
		abort();
	good.target = algo.target = self->world->target;
	bad.algo = "no such algorithm";
	algo.algo = "bulk";
	struct hosts_place places[2];
	hosts_place(&places[0], self->rank, self->nranks, &good);
	hosts_place(&places[1], self->rank, self->nranks, &algo);

	enum marrow_status status = marrow_comm_split(all, wrong ? -2 : 0, 0, &child, NULL);
	expect_status("bad color", status, wrong ? MARROW_INVALID_ARGUMENT : MARROW_REMOTE_ERROR, NULL,
		      wrong ? "color -2|MARROW_NO_COLOR" : "rank 1 (|pid |color -2");
	expect_true("bad color: no communicator", !child);
	status = marrow_comm_split(all, 0, 0, wrong ? NULL : &child, NULL);
	expect_status("nowhere to put it", status, wrong ? MARROW_INVALID_ARGUMENT : MARROW_REMOTE_ERROR, NULL, wrong ? "NULL" : "rank 1 (|NULL");
	status = marrow_comm_split(all, 0, 0, &child, wrong ? &bad : &good);
	expect_status("bad config", status, wrong ? MARROW_INVALID_ARGUMENT : MARROW_REMOTE_ERROR, NULL,
		      wrong ? "no such algorithm" : "rank 1 (|no such algorithm");
	/* Only ranks of its color are concerned. */
	status = marrow_comm_split(all, self->rank < 2 ? 4 : 0, 0, &child, wrong ? &algo : &good);
	expect_status("different algorithms", status, self->rank < 2 ? MARROW_MISMATCH : MARROW_SUCCESS, NULL,
		      self->rank < 2 ? "color 4|rank 1 (|has MARROW_ALGO=bulk|rank 0 (|no MARROW_ALGO" : NULL);
	if (self->rank >= 2)
		use(self, "the other color", child, &g, 12);
	leave(self, child);
	/* In a group: calls of it are not made, but the others do not wait. */
	uint64_t start = now_ms();
	struct marrow_comm *first = NULL, *second = NULL;
	marrow_group_start();
	enum marrow_status one = marrow_comm_split(all, 0, 0, &first, NULL), two = marrow_comm_split(all, wrong ? -9 : 0, 0, &second, NULL);
	expect_status("group: first", one, MARROW_SUCCESS, NULL, NULL);
	expect_status("group: second", two, wrong ? MARROW_INVALID_ARGUMENT : MARROW_SUCCESS, NULL, NULL);
	status = marrow_group_end();
	expect_status("group", status, wrong ? MARROW_INVALID_ARGUMENT : MARROW_REMOTE_ERROR, NULL, wrong ? "color -9" : "rank 1 (|its group failed");
	expect_true("group: no communicators", !first && !second);
	expect_true("group: at once", now_ms() - start < limit_ms(LEARN_MS));
	use(self, "the parent after refusals", all, &g, 15);
	ground_free(&g);
}

static void misuse(struct world_rank *self)
{
	struct marrow_comm *child = NULL;
	expect_status("no communicator", marrow_comm_split(NULL, 0, 0, &child, NULL), MARROW_INVALID_ARGUMENT, NULL, "NULL");
	marrow_group_start();
	expect_status("in a group", marrow_comm_split(self->comms[0], 0, 0, &child, NULL), MARROW_SUCCESS, NULL, NULL);
	expect_status("destroy of the parent in it", marrow_comm_destroy(self->comms[0]), MARROW_INVALID_USAGE, NULL, "group");
	if (child)
		expect_status("use of the child in it", marrow_barrier(child, NULL), MARROW_INVALID_USAGE, NULL, "marrow_group_end");
	expect_status("end", marrow_group_end(), MARROW_INVALID_USAGE, NULL, NULL);
	meet(&meeting, self->nranks);
	if (marrow_comm_abort(self->comms[0]) != MARROW_SUCCESS)
		world_fail(self, "abort: %s", marrow_last_error(NULL));
	meet(&meeting, self->nranks);
	enum marrow_status status = marrow_comm_split(self->comms[0], 0, 0, &child, NULL);
	expect_true("after abort", status == MARROW_ABORTED || status == MARROW_REMOTE_ERROR);
	marrow_comm_finalize(self->comms[0]);
	expect_status("after finalize", marrow_comm_split(self->comms[0], 0, 0, &child, NULL), MARROW_INVALID_USAGE, NULL, "finalized");
}

/* One thread holds all ranks of two communicators and splits both, one twice, and works with what it got. */
static void by_groups(enum marrow_target target)
{
	enum { N = 4, PARENTS = 2, SPLITS = 3 };
	struct marrow_config config = MARROW_CONFIG_INIT;
	struct marrow_unique_id ids[PARENTS];
	struct marrow_comm *parents[PARENTS][N], *children[SPLITS][N];
	struct ground g[N];
	config.target = target;
	config.timeout_ms = INIT_MS;
	for (uint32_t p = 0; p < PARENTS; p++)
		expect_status("unique id", marrow_get_unique_id(&ids[p]), MARROW_SUCCESS, NULL, NULL);
	marrow_group_start();
	for (uint32_t p = 0; p < PARENTS; p++)
		for (uint32_t r = 0; r < N; r++) {
			struct hosts_place place;
			hosts_place(&place, r, N, &config);
			if (p == 0 && ground_make(&g[r], target, r, BYTES) != 0)
				abort();
			expect_status("init", marrow_comm_init(&parents[p][r], N, &ids[p], r, &config), MARROW_SUCCESS, NULL, NULL);
		}
	expect_status("inits", marrow_group_end(), MARROW_SUCCESS, NULL, NULL);
	/* Children: {0 1} {2 3}; all but rank 2, turned round; of the second parent {0 2} {1 3}. */
	marrow_group_start();
	for (uint32_t r = 0; r < N; r++) {
		expect_status("1", marrow_comm_split(parents[0][r], (int32_t)r / 2, 0, &children[0][r], NULL), MARROW_SUCCESS, NULL, NULL);
		expect_status("2", marrow_comm_split(parents[0][r], r == 2 ? -1 : 0, -(int32_t)r, &children[1][r], NULL), MARROW_SUCCESS, NULL, NULL);
		expect_status("3", marrow_comm_split(parents[1][r], (int32_t)r % 2, 0, &children[2][r], NULL), MARROW_SUCCESS, NULL, NULL);
		expect_true("no color", (children[1][r] == NULL) == (r == 2));
	}
	for (uint32_t r = 0; r < N; r++) {
		struct act act = {MRW_FUNC_ALL_REDUCE, 5, MARROW_FLOAT32, MARROW_SUM, 0};
		ground_fill(&g[r], (float)(1 + r), 5);
		expect_status("a call in the same group", act_call(&act, &g[r], parents[1][r]), MARROW_SUCCESS, NULL, NULL);
	}
	expect_status("splits", marrow_group_end(), MARROW_SUCCESS, NULL, NULL);
	for (uint32_t r = 0; r < N; r++)
		expect_true("the call's result", ground_settle(&g[r]) == 0 && ground_result(&g[r], 4) == 10);
	static const float want[SPLITS][N] = {{3, 3, 7, 7}, {7, 7, 0, 7}, {4, 6, 4, 6}};
	for (int s = 0; s < SPLITS; s++) {
		struct act act = {MRW_FUNC_ALL_REDUCE, BYTES / 4, MARROW_FLOAT32, MARROW_SUM, 0};
		marrow_group_start();
		for (uint32_t r = 0; r < N; r++) {
			ground_fill(&g[r], (float)(1 + r), BYTES / 4);
			if (children[s][r])
				expect_status("call", act_call(&act, &g[r], children[s][r]), MARROW_SUCCESS, NULL, NULL);
		}
		expect_status("calls", marrow_group_end(), MARROW_SUCCESS, NULL, NULL);
		for (uint32_t r = 0; r < N; r++)
			expect_true("result", !children[s][r] || (ground_settle(&g[r]) == 0 && ground_result(&g[r], BYTES / 4 - 1) == want[s][r]));
	}
	uint32_t rank = 9;
	expect_true("turned round", marrow_comm_rank(children[1][3], &rank) == MARROW_SUCCESS && rank == 0);
	for (uint32_t r = 0; r < N; r++) {
		for (int s = 0; s < SPLITS; s++)
			expect_status("destroy", marrow_comm_destroy(children[s][r]), MARROW_SUCCESS, NULL, NULL);
		struct marrow_comm *mine[PARENTS] = {parents[0][r], parents[1][r]};
		expect_status("destroy", ground_leave(&g[r], mine, PARENTS), MARROW_SUCCESS, NULL, NULL);
	}
}

/* Words of the board. */
enum { LOST_MS };

/* One rank dies, or goes another way, instead of splitting. */
static void lost(struct crew_member *self)
{
	bool killed = *(const bool *)self->arg, victim = self->rank == 1;
	struct marrow_comm *child = NULL;
	struct act act = {MRW_FUNC_ALL_REDUCE, 3, MARROW_FLOAT32, MARROW_SUM, 0};
	crew_init(self, BYTES, INIT_MS);
	meet(&self->board->meeting, self->size);
	if (victim) {
		sleep_ms(200);
		mark_time(&self->board->words[LOST_MS]);
		if (killed)
			kill(getpid(), SIGKILL);
		if (marrow_comm_abort(self->comm) != MARROW_SUCCESS)
			crew_fail(self, "abort: %s", marrow_last_error(NULL));
	} else {
		enum marrow_status status = marrow_comm_split(self->comm, 0, 0, &child, NULL);
		const char *text = marrow_last_error(self->comm);
		if (status != MARROW_REMOTE_ERROR || !strstr(text, "rank 1 (") || !strstr(text, killed ? "closed" : "abort"))
			crew_fail(self, "\"%s\": %s", marrow_status_string(status), text);
		if (now_ms() - self->board->words[LOST_MS] > limit_ms(LEARN_MS))
			crew_fail(self, "learnt it late");
		if (act_call(&act, &self->ground, self->comm) == MARROW_SUCCESS)
			crew_fail(self, "the parent goes on");
	}
	crew_finish(self);
}

static void lose(enum marrow_target target, bool killed)
{
	struct crew crew = {.doing = killed ? "killed instead of splitting" : "aborts instead of splitting", .target = target, .size = 4,
			    .arg = &killed, .seconds = 40};
	crew_start(&crew, lost);
	expect_true(crew.doing, crew_end(&crew, killed ? 2 : 0) == 0);
}

static void run(const char *what, struct world w, void (*body)(struct world_rank *self))
{
	memset(&meeting, 0, sizeof meeting);
	watchdog(60, what);
	expect_true(what, world_run(&w, body) == 0);
	watchdog(0, "");
}

int main(int argc, char **argv)
{
	enum marrow_target target = target_option(argc, argv);
	struct world five = {.target = target, .nranks = RANKS, .ncomms = 1}, capped = five, two = five;
	capped.max_ctas = 2;
	capped.timeout_ms = 43210;
	two.nranks = 2;
	lose(target, true);
	lose(target, false);
	run("membership", five, membership);
	struct census before = census_take(); /* a NIC's model has its thread by now */
	run("inheritance", capped, inherits);
	run("refusals", five, refusals);
	run("misuse", two, misuse);
	by_groups(target);
	if (target == MARROW_TARGET_HOST)
		expect_nothing_left("all", &before);
	printf("split: %s\n", failures() ? "FAILED" : "ok");
	return failures() ? 1 : 0;
}
