/* mismatch.c - ranks that make different calls: every rank learns it within a second, in words that name both calls and ranks, and
 * nothing hangs afterwards.
 *
 * mismatch [--ranks N] [--target host|cuda]: of 2, 3 and 4 ranks, or of N */
#include "act.h"
#include "patience.h"

#include "support/device_memory.h"
#include "support/hosts.h"
#include "support/world.h"

#include "comm.h"

#include <stdio.h>
#include <stdlib.h>

/* Across hosts destroy waits for requests that a peer who left will not acknowledge. */
enum { LEARN_MS = 1000, AT_ONCE_MS = 200, BYTES = 8 << 20 };

static struct shared {
	struct meeting meeting;
	uint64_t called_ms;       /* when the last rank called */
	const struct variation *variation;
	uint32_t odd;             /* the rank that differs */
} shared;

/* What most ranks call and what one of them calls instead. */
struct variation {
	const char *name;
	uint32_t min_ranks;
	struct act usual, odd;
	const char *usual_says, *odd_says; /* in every message */
};

#define FLOATS(func, count) {MRW_FUNC_##func, count, MARROW_FLOAT32, MARROW_SUM, 0}

static const struct variation variations[] = {
	{"function", 2, FLOATS(ALL_REDUCE, 100), FLOATS(REDUCE_SCATTER, 100), "all_reduce(count 100,", "reduce_scatter(count 100,"},
	{"function without reduction", 2, FLOATS(BROADCAST, 100), FLOATS(ALL_GATHER, 100), "broadcast(count 100,", "all_gather(count 100,"},
	{"barrier", 2, FLOATS(ALL_REDUCE, 1), FLOATS(BARRIER, 0), "all_reduce(count 1,", "barrier()"},
	{"count", 2, FLOATS(ALL_REDUCE, 100), FLOATS(ALL_REDUCE, 101), "count 100,", "count 101,"},
	{"count of chunks", 2, FLOATS(ALL_GATHER, 200000), FLOATS(ALL_GATHER, 200001), "count 200000,", "count 200001,"},
	{"count in another number of chunks", 2, FLOATS(ALL_REDUCE, 50000), FLOATS(ALL_REDUCE, 1500000), "count 50000,", "count 1500000,"},
	{"count 0", 2, FLOATS(ALL_REDUCE, 0), FLOATS(ALL_REDUCE, 1), "count 0,", "count 1,"},
	{"type", 2, FLOATS(ALL_REDUCE, 100), {MRW_FUNC_ALL_REDUCE, 100, MARROW_INT32, MARROW_SUM, 0}, "f32", "i32"},
	{"type of another size", 2, FLOATS(REDUCE_SCATTER, 100000), {MRW_FUNC_REDUCE_SCATTER, 100000, MARROW_FLOAT64, MARROW_SUM, 0}, "f32",
	 "f64"},
	{"op", 2, FLOATS(ALL_REDUCE, 100), {MRW_FUNC_ALL_REDUCE, 100, MARROW_FLOAT32, MARROW_MAX, 0}, "sum", "max"},
	{"op of chunks", 2, FLOATS(ALL_REDUCE, 300000), {MRW_FUNC_ALL_REDUCE, 300000, MARROW_FLOAT32, MARROW_AVG, 0}, "sum", "avg"},
	{"premulsum", 2, FLOATS(ALL_REDUCE, 100), {MRW_FUNC_ALL_REDUCE, 100, MARROW_FLOAT32, ACT_PREMULSUM, 0}, "sum)", "premulsum"},
	{"root", 2, FLOATS(BROADCAST, 100), {MRW_FUNC_BROADCAST, 100, MARROW_FLOAT32, MARROW_SUM, 1}, "root 0", "root 1"},
	{"root of chunks", 2, {MRW_FUNC_BROADCAST, 300000, MARROW_FLOAT32, MARROW_SUM, 1}, FLOATS(BROADCAST, 300000), "root 1", "root 0"},
	{"root of a reduce", 2, FLOATS(REDUCE, 100), {MRW_FUNC_REDUCE, 100, MARROW_FLOAT32, MARROW_SUM, 1}, "reduce(count 100, f32, sum, root 0)", "root 1"},
	{"root of a large reduce", 2, {MRW_FUNC_REDUCE, 300000, MARROW_FLOAT32, MARROW_SUM, 1}, FLOATS(REDUCE, 300000), "root 1", "root 0"},
	{"op of a reduce", 2, FLOATS(REDUCE, 100), {MRW_FUNC_REDUCE, 100, MARROW_FLOAT32, MARROW_MIN, 0}, "sum, root 0", "min, root 0"},
	{"reduce or all_reduce", 2, FLOATS(ALL_REDUCE, 300000), FLOATS(REDUCE, 300000), "all_reduce(count 300000,", "reduce(count 300000,"},
	{"counts of the same sum", 2, FLOATS(REDUCE_SCATTER_V, 100), {MRW_FUNC_REDUCE_SCATTER_V, 100, MARROW_FLOAT32, MARROW_SUM, 1},
	 "reduce_scatter_v(counts of sum ", "digest"},
	{"counts of another sum", 2, FLOATS(REDUCE_SCATTER_V, 100000), FLOATS(REDUCE_SCATTER_V, 99999), "reduce_scatter_v(counts of sum ", "digest"},
	{"size class", 2, FLOATS(ALL_REDUCE, 2), FLOATS(ALL_REDUCE, 1000000), "[oneshot", "[bulk"},
	{"size class of broadcast", 2, FLOATS(BROADCAST, 1000000), FLOATS(BROADCAST, 2), "[bulk", "[oneshot"},
	{"function of exchanges", 2, FLOATS(ALL_TO_ALL, 100), FLOATS(GATHER, 100), "all_to_all(count 100,", "gather(count 100,"},
	{"exchange and reduction", 2, FLOATS(SCATTER, 100), FLOATS(ALL_REDUCE, 100), "scatter(count 100,", "all_reduce(count 100,"},
	{"count of an exchange", 2, FLOATS(ALL_TO_ALL, 100), FLOATS(ALL_TO_ALL, 100000), "count 100,", "count 100000,"},
	{"root of a gather", 2, FLOATS(GATHER, 100), {MRW_FUNC_GATHER, 100, MARROW_FLOAT32, MARROW_SUM, 1}, "root 0", "root 1"},
	{"counts of all_gather_v", 2, FLOATS(ALL_GATHER_V, 100), FLOATS(ALL_GATHER_V, 101), "all_gather_v(", "f32"},
	{"counts of two", 2, FLOATS(ALL_TO_ALL_V, 100), FLOATS(ALL_TO_ALL_V, 101), "all_to_all_v(count 100,", "all_to_all_v(count 101,"},
	{"size class of three", 3, FLOATS(ALL_REDUCE, 1000), FLOATS(ALL_REDUCE, 1000000), "count 1000,", "[bulk"},
};
enum { VARIATIONS = sizeof variations / sizeof variations[0] };

static const struct act small = FLOATS(ALL_REDUCE, 4);

static bool has(struct world_rank *self, const char *text, const char *words)
{
	struct world shape = {.target = MARROW_TARGET_HOST, .nranks = self->nranks};
	if (world_rails(&shape)) /* the names there */
		words = strcmp(words, "[oneshot") == 0 ? "[railshot" : strcmp(words, "[bulk") == 0 ? "[rail," : words;
	if (world_tree(&shape))
		words = strcmp(words, "[oneshot") == 0 ? "[treeshot" : strcmp(words, "[bulk") == 0 ? "[tree," : words;
	if (strstr(text, words))
		return true;
	world_fail(self, "\"%s\" is not in: %s", words, text);
	return false;
}

/* The communicator is dead: everything but destroy fails at once with the same status. */
static void check_dead(struct world_rank *self, struct ground *g, struct marrow_comm **comm, enum marrow_status status)
{
	static const struct act later[] = {FLOATS(ALL_REDUCE, 4), FLOATS(BROADCAST, 500000), FLOATS(BARRIER, 0)};
	uint64_t start = now_ms();
	enum marrow_status again;
	for (size_t i = 0; i < sizeof later / sizeof later[0]; i++)
		if ((again = act_call(&later[i], g, *comm)) != status)
			world_fail(self, "later call %zu gave \"%s\", not \"%s\"", i, marrow_status_string(again), marrow_status_string(status));
	marrow_group_start();
	again = act_call(&small, g, *comm);
	if (again == MARROW_SUCCESS || g->target == MARROW_TARGET_CUDA)
		again = marrow_group_end();
	else
		marrow_group_end();
	if (again != status)
		world_fail(self, "a later group gave \"%s\", not \"%s\"", marrow_status_string(again), marrow_status_string(status));
	if (now_ms() - start > limit_ms(AT_ONCE_MS))
		world_fail(self, "later calls took %llu ms", (unsigned long long)(now_ms() - start));
	start = now_ms();
	if (ground_settle(g) != 0)
		world_fail(self, "the stream failed");
	if (now_ms() - start > limit_ms(LEARN_MS))
		world_fail(self, "the stream took %llu ms to drain", (unsigned long long)(now_ms() - start));
	start = now_ms();
	if (marrow_comm_destroy(*comm) != MARROW_SUCCESS)
		world_fail(self, "destroy: %s", marrow_last_error(NULL));
	*comm = NULL;
	if (now_ms() - start > limit_ms(LEARN_MS))
		world_fail(self, "destroy took %llu ms", (unsigned long long)(now_ms() - start));
}

static void check_time(struct world_rank *self)
{
	uint64_t waited = now_ms() - __atomic_load_n(&shared.called_ms, __ATOMIC_ACQUIRE);
	if (waited > limit_ms(LEARN_MS))
		world_fail(self, "learnt it after %llu ms", (unsigned long long)waited);
}

/* Message of a mismatch between this rank and the odd one (or, if it is odd, any other). */
static void check_text(struct world_rank *self, const char *text, const struct variation *v)
{
	char rank[16];
	/* A third rank on another host may hear of it before the greetings are there. */
	bool pairwise = v->usual.func == MRW_FUNC_ALL_TO_ALL_V && self->nranks > 2; /* found between two ranks, before others met them */
	if ((hosts_count(self->nranks) > 1 || pairwise) && strstr(text, "made another call") && strstr(text, "see the message of rank"))
		return;
	has(self, text, v->usual_says);
	has(self, text, v->odd_says);
	snprintf(rank, sizeof rank, "rank %u", shared.odd);
	has(self, text, rank);
}

static bool begin(struct world_rank *self, struct ground *g, uint32_t comms)
{
	float two = 2;
	if (ground_make(g, self->world->target, self->rank, BYTES) != 0) {
		world_fail(self, "no ground");
		return false;
	}
	for (uint32_t c = 0; c < comms; c++)
		if (act_done(&small, g, self->comms[c]) != MARROW_SUCCESS)
			world_fail(self, "before the mismatch: %s", marrow_last_error(self->comms[c]));
	if (marrow_op_create_premulsum(&g->premulsum, &two, MARROW_FLOAT32, MARROW_SCALAR_HOST, self->comms[0]) != MARROW_SUCCESS)
		world_fail(self, "premulsum: %s", marrow_last_error(self->comms[0]));
	return true;
}

/* All ranks call, one of them something else. */
static void differ(struct world_rank *self)
{
	const struct variation *v = shared.variation;
	bool odd = self->rank == shared.odd;
	struct ground g;
	char rank[16];
	if (!begin(self, &g, 1))
		return;
	meet(&shared.meeting, self->nranks);
	mark_time(&shared.called_ms);
	enum marrow_status status = act_learn(odd ? &v->odd : &v->usual, &g, self->comms[0], limit_ms(LEARN_MS) * 2);
	check_time(self);
	/* A third rank may hear of it before it sees it. */
	if (status != MARROW_MISMATCH && (odd || self->nranks == 2 || status != MARROW_REMOTE_ERROR))
		world_fail(self, "status \"%s\"", marrow_status_string(status));
	const char *text = marrow_last_error(self->comms[0]);
	if (status != MARROW_SUCCESS)
		check_text(self, text, v);
	snprintf(rank, sizeof rank, "rank %u", self->rank);
	if (status == MARROW_MISMATCH)
		has(self, text, rank);
	check_dead(self, &g, &self->comms[0], status);
	ground_free(&g);
}

/* The last rank calls nothing and only polls. The others destroy as soon as they know. */
static void differ_without_me(struct world_rank *self)
{
	const struct variation *v = shared.variation;
	struct ground g;
	if (!begin(self, &g, 1))
		return;
	meet(&shared.meeting, self->nranks);
	if (self->rank == self->nranks - 1) {
		enum marrow_status status = await_error(self->comms[0], limit_ms(LEARN_MS) * 2);
		check_time(self);
		if (status != MARROW_MISMATCH && status != MARROW_REMOTE_ERROR)
			world_fail(self, "an idle rank was told \"%s\"", marrow_status_string(status));
		check_text(self, marrow_last_error(self->comms[0]), v);
		check_dead(self, &g, &self->comms[0], status);
	} else {
		mark_time(&shared.called_ms);
		enum marrow_status status = act_learn(self->rank == shared.odd ? &v->odd : &v->usual, &g, self->comms[0], limit_ms(LEARN_MS) * 2);
		if (status != MARROW_MISMATCH && status != MARROW_REMOTE_ERROR)
			world_fail(self, "status \"%s\"", marrow_status_string(status));
		if (marrow_comm_destroy(self->comms[0]) != MARROW_SUCCESS)
			world_fail(self, "destroy: %s", marrow_last_error(NULL));
		self->comms[0] = NULL;
	}
	ground_free(&g);
}

/* In a group over two communicators only the one with the mismatch dies. */
static void differ_in_group(struct world_rank *self)
{
	const struct variation *v = shared.variation;
	bool odd = self->rank == shared.odd;
	struct ground g, spare;
	if (!begin(self, &g, 2) || ground_make(&spare, self->world->target, self->rank, BYTES) != 0)
		return;
	ground_fill(&spare, 1, small.count);
	meet(&shared.meeting, self->nranks);
	mark_time(&shared.called_ms);
	marrow_group_start();
	if (act_call(&small, &spare, self->comms[1]) != MARROW_SUCCESS || act_call(odd ? &v->odd : &v->usual, &g, self->comms[0]) != MARROW_SUCCESS ||
	    act_call(&small, &g, self->comms[0]) != MARROW_SUCCESS || act_call(&small, &spare, self->comms[1]) != MARROW_SUCCESS)
		world_fail(self, "in a group: %s", marrow_last_error(NULL));
	enum marrow_status status = marrow_group_end();
	if (status == MARROW_SUCCESS)
		status = await_error(self->comms[0], limit_ms(LEARN_MS) * 2);
	else
		check_text(self, marrow_last_error(NULL), v);
	check_time(self);
	if (status != MARROW_MISMATCH && (odd || self->nranks == 2 || status != MARROW_REMOTE_ERROR))
		world_fail(self, "status \"%s\"", marrow_status_string(status));
	if (status != MARROW_SUCCESS)
		check_text(self, marrow_last_error(self->comms[0]), v);
	check_dead(self, &g, &self->comms[0], status);
	meet(&shared.meeting, self->nranks);
	status = act_done(&small, &spare, self->comms[1]);
	if (status != MARROW_SUCCESS)
		world_fail(self, "the other communicator suffers: %s", marrow_last_error(self->comms[1]));
	else if (ground_result(&spare, 0) != (float)self->nranks)
		world_fail(self, "the other communicator computes %g", (double)ground_result(&spare, 0));
	ground_free(&g);
	if (ground_leave(&spare, &self->comms[1], 1) != MARROW_SUCCESS)
		world_fail(self, "destroy: %s", marrow_last_error(NULL));
}

static int run(const char *how, enum marrow_target target, uint32_t ranks, uint32_t comms, uint32_t odd, const struct variation *v,
	       void (*body)(struct world_rank *self))
{
	struct world w = {.target = target, .nranks = ranks, .ncomms = comms};
	char doing[160];
	memset(&shared, 0, sizeof shared);
	shared.variation = v;
	shared.odd = odd;
	snprintf(doing, sizeof doing, "%s: %s, %u ranks, rank %u differs", how, v->name, ranks, odd);
	watchdog(30, doing);
	int failed = world_run(&w, body);
	if (failed)
		printf("FAILED: %s\n", doing);
	watchdog(0, "");
	return failed;
}

/* One thread holds all ranks: its group end reports the mismatch, and each communicator has words of its own. */
static int one_thread(uint32_t ranks)
{
	struct marrow_comm *comms[4];
	struct ground grounds[4];
	struct marrow_config config = MARROW_CONFIG_INIT;
	struct marrow_unique_id id;
	struct world_rank self = {.nranks = ranks};
	const struct variation *v = &variations[0];
	config.target = MARROW_TARGET_HOST;
	config.timeout_ms = 60000;
	shared.odd = ranks - 1;
	watchdog(30, "one thread holds all ranks");
	if (marrow_get_unique_id(&id) != MARROW_SUCCESS)
		world_fail(&self, "unique id: %s", marrow_last_error(NULL));
	marrow_group_start();
	for (uint32_t r = 0; r < ranks; r++)
		if (marrow_comm_init(&comms[r], ranks, &id, r, &config) != MARROW_SUCCESS || ground_make(&grounds[r], config.target, r, 4096) != 0)
			world_fail(&self, "init: %s", marrow_last_error(NULL));
	if (marrow_group_end() != MARROW_SUCCESS) {
		world_fail(&self, "init: %s", marrow_last_error(NULL));
		return 1;
	}
	shared.called_ms = now_ms();
	marrow_group_start();
	for (uint32_t r = 0; r < ranks; r++)
		act_call(r == shared.odd ? &v->odd : &v->usual, &grounds[r], comms[r]);
	enum marrow_status status = marrow_group_end();
	check_time(&self);
	if (status != MARROW_MISMATCH && status != MARROW_REMOTE_ERROR)
		world_fail(&self, "group end: \"%s\"", marrow_status_string(status));
	check_text(&self, marrow_last_error(NULL), v);
	for (uint32_t r = 0; r < ranks; r++) {
		self.rank = r;
		check_text(&self, marrow_last_error(comms[r]), v);
		check_dead(&self, &grounds[r], &comms[r], await_error(comms[r], 0));
		ground_free(&grounds[r]);
	}
	watchdog(0, "");
	return self.failed;
}

int main(int argc, char **argv)
{
	uint32_t least = 2, most = 4;
	int failed = 0, runs = 0;
	if (argc > 2 && strcmp(argv[1], "--ranks") == 0) {
		least = most = (uint32_t)strtoul(argv[2], NULL, 10);
		argc -= 2;
		argv += 2;
	}
	enum marrow_target target = target_option(argc, argv);
	for (uint32_t ranks = least; ranks <= most; ranks++) {
		for (size_t i = 0; i < VARIATIONS; i++) {
			const struct variation *v = &variations[i];
			if (ranks < v->min_ranks)
				continue;
			failed += run("mismatch", target, ranks, 1, (uint32_t)i % ranks, v, differ);
			runs++;
			if (i % 4 == 0) {
				failed += run("mismatch in a group", target, ranks, 2, ranks - 1 - (uint32_t)i % ranks, v, differ_in_group);
				runs++;
			}
		}
		if (target == MARROW_TARGET_HOST) {
			failed += one_thread(ranks);
			runs++;
		}
		if (ranks > 2)
			for (int i = 0; i < 5; i++, runs++)
				failed += run("mismatch beside an idle rank", target, ranks, 1, (uint32_t)i % (ranks - 1), &variations[i], differ_without_me);
	}
	printf("%d mismatches: %s\n", runs, failed ? "FAILED" : "ok");
	return failed ? 1 : 0;
}
