/* pairs.c - sends and recvs that do not fit, never meet, or lose their other end: both ends learn it in time, in words that name both.
 *
 * pairs [--target host|cuda] [--ranks N]: N at least, where else two or three do. The first two are the ends, the others look on. */
#include "crew.h"

#include "support/device_memory.h"
#include "support/hosts.h"
#include "support/world.h"

#include "comm.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEARN_MS = 1000, LOST_LEARN_MS = 2000, BYTES = 8 << 20, DEADLINE_MS = 800, INIT_MS = 60000 };

/* Rank 0 sends send floats, rank 1 receives recv. */
struct variation {
	const char *name;
	size_t send, recv;
	bool grouped;             /* among others that fit */
	int late;                 /* rank that comes 100 ms later; -1: nobody */
};

static const struct variation variations[] = {
	{"small", 10, 11, false, -1},
	{"small, the sender is late", 10, 11, false, 0},
	{"nothing sent", 0, 1, false, 0},
	{"nothing received", 7, 0, false, 1},
	{"small sent, large received", 10, 500000, false, 1},
	{"large sent, small received", 500000, 10, false, 0},
	{"large, the receiver is late", 900000, 400000, false, 1},
	{"large in a group", 300000, 310000, true, 0},
};
enum { VARIATIONS = sizeof variations / sizeof variations[0] };

static uint32_t least; /* ranks */

static uint32_t at_least(uint32_t ranks)
{
	return ranks > least ? ranks : least;
}

static struct shared {
	struct meeting meeting;
	uint64_t called_ms;
	const struct variation *variation;
} shared;

static bool has(struct world_rank *self, const char *text, const char *words)
{
	if (strstr(text, words))
		return true;
	world_fail(self, "\"%s\" is not in: %s", words, text);
	return false;
}

static bool begin(struct world_rank *self, struct ground *g)
{
	static const struct act first = {MRW_FUNC_ALL_REDUCE, 16, MARROW_FLOAT32, MARROW_SUM, 0};
	if (ground_make(g, self->world->target, self->rank, BYTES) != 0) {
		world_fail(self, "no ground");
		return false;
	}
	if (act_done(&first, g, self->comms[0]) != MARROW_SUCCESS)
		world_fail(self, "before: %s", marrow_last_error(self->comms[0]));
	meet(&shared.meeting, self->nranks);
	return true;
}

/* What the rank is told, at once or by asking. */
static enum marrow_status learn(struct world_rank *self, enum marrow_status status, uint64_t ms)
{
	return status == MARROW_SUCCESS ? await_error(self->comms[0], limit_ms(ms) * 2) : status;
}

/* Across hosts a rank may have the other one's report, which names both, before the NIC brings the line that it would have seen itself. */
static bool hearsay(struct world_rank *self, enum marrow_status status)
{
	return hosts_count(self->nranks) > 1 && status == MARROW_REMOTE_ERROR && strstr(marrow_last_error(self->comms[0]), "reported:");
}

static void finish(struct world_rank *self, struct ground *g, enum marrow_status status)
{
	uint64_t start = now_ms();
	struct marrow_comm *comm = self->comms[0];
	if (marrow_send(g->send, 1, MARROW_FLOAT32, (self->rank + 1) % self->nranks, comm, g->stream) != status)
		world_fail(self, "a later send does not fail alike");
	if (ground_settle(g) != 0 || now_ms() - start > limit_ms(LEARN_MS))
		world_fail(self, "the stream does not drain");
	/* A rank that leaves must not look like one that is lost. */
	meet(&shared.meeting, self->nranks);
	if (ground_leave(g, self->comms, 1) != MARROW_SUCCESS)
		world_fail(self, "destroy: %s", marrow_last_error(NULL));
}

static enum marrow_status call(struct world_rank *self, struct ground *g, const struct variation *v)
{
	struct marrow_comm *c = self->comms[0];
	enum marrow_status status;
	uint32_t me = self->rank, other = 1 - me;
	if (!v->grouped)
		return me == 0 ? marrow_send(g->send, v->send, MARROW_FLOAT32, 1, c, g->stream)
			       : marrow_recv(g->recv, v->recv, MARROW_FLOAT32, 0, c, g->stream);
	marrow_group_start();
	marrow_send(g->send, 100000, MARROW_FLOAT32, other, c, g->stream);
	marrow_recv(g->recv + (4 << 20), 100000, MARROW_FLOAT32, other, c, g->stream);
	if (me == 0)
		marrow_send(g->send, v->send, MARROW_FLOAT32, 1, c, g->stream);
	else
		marrow_recv(g->recv, v->recv, MARROW_FLOAT32, 0, c, g->stream);
	status = marrow_group_end();
	return status;
}

static void differ(struct world_rank *self)
{
	const struct variation *v = shared.variation;
	struct ground g;
	enum marrow_status status = MARROW_SUCCESS;
	char words[80];
	if (!begin(self, &g))
		return;
	if ((int)self->rank == v->late)
		sleep_ms(100);
	if (self->rank < 2) {
		mark_time(&shared.called_ms);
		status = call(self, &g, v);
	}
	status = learn(self, status, LEARN_MS);
	const char *text = marrow_last_error(self->comms[0]);
	uint64_t waited = now_ms() - __atomic_load_n(&shared.called_ms, __ATOMIC_ACQUIRE);
	if (waited > limit_ms(LEARN_MS) + (self->rank > 1 ? 100 : 0))
		world_fail(self, "learnt it after %llu ms", (unsigned long long)waited);
	if (status != MARROW_MISMATCH && !hearsay(self, status) && (self->rank < 2 || status != MARROW_REMOTE_ERROR))
		world_fail(self, "status \"%s\": %s", marrow_status_string(status), text);
	snprintf(words, sizeof words, "send(count %zu, f32, to rank 1)", v->send);
	if (self->rank < 2) {
		has(self, text, words);
		snprintf(words, sizeof words, "recv(count %zu, f32, from rank 0)", v->recv);
		has(self, text, words);
	}
	finish(self, &g, status);
}

/* Right sizes, but the other end means another call. */
static void cross(struct world_rank *self)
{
	struct ground g;
	struct marrow_comm *c = self->comms[0];
	if (!begin(self, &g))
		return;
	enum marrow_status status = self->rank == 0 ? marrow_send(g.send, 100, MARROW_FLOAT32, 1, c, g.stream)
						    : marrow_gather(g.send, g.recv, 100, MARROW_FLOAT32, 1, c, g.stream);
	status = learn(self, status, LEARN_MS);
	if (status != MARROW_MISMATCH && !hearsay(self, status) && (self->rank < 2 || status != MARROW_REMOTE_ERROR))
		world_fail(self, "status \"%s\": %s", marrow_status_string(status), marrow_last_error(c));
	if (self->rank < 2)
		has(self, marrow_last_error(c), "send(count 100, f32, to rank 1)");
	if (self->rank < 2)
		has(self, marrow_last_error(c), "gather(count 100, f32, from rank 0)");
	finish(self, &g, status);
}

/* Host target: rank 0 waits in a group for rank 2, who is late, and for rank 1, who leaves. */
static void leave_group(struct world_rank *self)
{
	struct ground g;
	struct marrow_comm *c = self->comms[0];
	enum marrow_status status = MARROW_SUCCESS;
	if (!begin(self, &g))
		return;
	if (self->rank == 1) {
		sleep_ms(200);
		if (ground_leave(&g, self->comms, 1) != MARROW_SUCCESS)
			world_fail(self, "destroy: %s", marrow_last_error(NULL));
		return;
	}
	uint64_t start = now_ms();
	if (self->rank == 0) {
		marrow_group_start();
		marrow_recv(g.recv, 10, MARROW_FLOAT32, 2, c, g.stream);
		marrow_recv(g.recv + 4096, 10, MARROW_FLOAT32, 1, c, g.stream);
		status = marrow_group_end();
	}
	status = learn(self, status, 3000);
	if (status != MARROW_REMOTE_ERROR || now_ms() - start > 1500 + limit_ms(LEARN_MS))
		world_fail(self, "after %llu ms status \"%s\": %s", (unsigned long long)(now_ms() - start), marrow_status_string(status),
			   marrow_last_error(c));
	has(self, marrow_last_error(c), "rank 1");
	has(self, marrow_last_error(c), "has left");
	if (ground_leave(&g, self->comms, 1) != MARROW_SUCCESS)
		world_fail(self, "destroy: %s", marrow_last_error(NULL));
}

/* Host target: something of this rank's communicator is said to run already. */
static void concurrent(struct world_rank *self)
{
	struct ground g;
	struct marrow_comm *c = self->comms[0];
	if (!begin(self, &g))
		return;
	if (self->rank == 0) {
		uint64_t *word = &((struct mrw_control *)(void *)c->arena.base)->channel[0].word;
		*word |= MRW_CHANNEL_BUSY;
	}
	enum marrow_status status = self->rank == 0   ? marrow_send(g.send, 100, MARROW_FLOAT32, 1, c, g.stream)
				    : self->rank == 1 ? marrow_recv(g.recv, 100, MARROW_FLOAT32, 0, c, g.stream)
						      : learn(self, MARROW_SUCCESS, LEARN_MS);
	if (status != MARROW_INVALID_USAGE && (self->rank == 0 || status != MARROW_REMOTE_ERROR))
		world_fail(self, "status \"%s\": %s", marrow_status_string(status), marrow_last_error(c));
	has(self, marrow_last_error(c), "at once on rank 0");
	finish(self, &g, status);
}

/* The other end never calls. */
static void miss(struct world_rank *self)
{
	struct ground g;
	enum marrow_status status = MARROW_SUCCESS;
	if (!begin(self, &g))
		return;
	uint64_t start = now_ms();
	if (self->rank == 0)
		status = marrow_recv(g.recv, 12, MARROW_FLOAT32, 1, self->comms[0], g.stream);
	status = learn(self, status, DEADLINE_MS + LEARN_MS);
	const char *text = marrow_last_error(self->comms[0]);
	if (status != MARROW_TIMEOUT && (self->rank == 0 || status != MARROW_REMOTE_ERROR))
		world_fail(self, "status \"%s\": %s", marrow_status_string(status), text);
	if (now_ms() - start > DEADLINE_MS + limit_ms(LEARN_MS))
		world_fail(self, "left after %llu ms", (unsigned long long)(now_ms() - start));
	if (self->rank == 0) {
		has(self, text, "recv(count 12, f32, from rank 1)");
		has(self, text, "waited");
	}
	finish(self, &g, status);
}

static void *abort_soon(void *comm)
{
	sleep_ms(100);
	mark_time(&shared.called_ms);
	if (marrow_comm_abort(comm) != MARROW_SUCCESS)
		fprintf(stderr, "abort: %s\n", marrow_last_error(NULL));
	return NULL;
}

/* Rank 0 waits for room in a large send; it, or rank 1, is aborted. */
static void give_up(struct world_rank *self, uint32_t who)
{
	struct ground g;
	pthread_t thread;
	enum marrow_status status = MARROW_SUCCESS, want = self->rank == who ? MARROW_ABORTED : MARROW_REMOTE_ERROR;
	if (!begin(self, &g))
		return;
	if (self->rank == who && pthread_create(&thread, NULL, abort_soon, self->comms[0]) != 0)
		abort();
	if (self->rank == 0)
		status = marrow_send(g.send, 1000000, MARROW_FLOAT32, 1, self->comms[0], g.stream);
	else
		await_word(&shared.called_ms, 1, INIT_MS);
	status = learn(self, status, LEARN_MS);
	if (status != want)
		world_fail(self, "status \"%s\": %s", marrow_status_string(status), marrow_last_error(self->comms[0]));
	has(self, marrow_last_error(self->comms[0]), "abort");
	if (self->rank == who)
		pthread_join(thread, NULL);
	finish(self, &g, status);
}

static void abort_sender(struct world_rank *self)
{
	give_up(self, 0);
}

static void abort_receiver(struct world_rank *self)
{
	give_up(self, 1);
}

/* Rank 1 has left in good order; rank 2 and 0 go on between themselves. */
static void left(struct world_rank *self)
{
	struct ground g;
	struct marrow_comm *c = self->comms[0];
	enum marrow_status status;
	if (!begin(self, &g))
		return;
	if (self->rank == 1) {
		if (ground_leave(&g, self->comms, 1) != MARROW_SUCCESS)
			world_fail(self, "destroy: %s", marrow_last_error(NULL));
		meet(&shared.meeting, self->nranks);
		return;
	}
	meet(&shared.meeting, self->nranks);
	for (int i = 0; i < 100 && self->rank == 0; i++) {
		status = marrow_send(g.send, 1000, MARROW_FLOAT32, 2, c, g.stream);
		if (status != MARROW_SUCCESS)
			world_fail(self, "send to who is there: %s", marrow_last_error(c));
	}
	for (int i = 0; i < 100 && self->rank == 2; i++) {
		status = marrow_recv(g.recv, 1000, MARROW_FLOAT32, 0, c, g.stream);
		if (status != MARROW_SUCCESS)
			world_fail(self, "recv from who is there: %s", marrow_last_error(c));
	}
	if (ground_settle(&g) != 0 || await_error(c, 150) != MARROW_SUCCESS)
		world_fail(self, "after a rank left: %s", marrow_last_error(c));
	status = marrow_recv(g.recv, 5, MARROW_FLOAT32, 1, c, g.stream);
	if (status != MARROW_REMOTE_ERROR)
		world_fail(self, "recv from who has left: \"%s\"", marrow_status_string(status));
	if (self->rank < 3) /* the others may hear of it only in the call */
		has(self, marrow_last_error(c), "recv: rank 1");
	has(self, marrow_last_error(c), "has left");
	if (ground_leave(&g, self->comms, 1) != MARROW_SUCCESS)
		world_fail(self, "destroy: %s", marrow_last_error(NULL));
}

/* Across hosts a send ends only when its last credit is here. Ranks 0 and 1 may be on one host of several. */
static void check_credits(struct world_rank *self)
{
	const struct marrow_comm *c = self->comms[0];
	if (c->reach.host[0] == c->reach.host[1])
		return;
	const struct mrw_layout *l = &c->args.layout;
	for (uint32_t k = 0; k < l->lanes; k++) {
		const struct mrw_lane *lane = mrw_lane_at(l, c->arena.base, MRW_WAY_OUT, k, mrw_writer_slot(self->rank, 1 - self->rank));
		uint64_t taken = __atomic_load_n(&lane->count, __ATOMIC_RELAXED);
		if (taken != lane->chunks)
			world_fail(self, "a send returned with %llu of %llu chunks taken", (unsigned long long)taken, (unsigned long long)lane->chunks);
	}
}

/* One transfer, and both ends leave at once: nothing may be on its way to who has left. */
static void leave(struct world_rank *self)
{
	struct ground g;
	struct marrow_comm *c = self->comms[0];
	size_t count = *(const size_t *)self->world->arg;
	if (ground_make(&g, self->world->target, self->rank, BYTES) != 0) {
		world_fail(self, "no ground");
		return;
	}
	enum marrow_status status = self->rank == 0   ? marrow_send(g.send, count, MARROW_FLOAT32, 1, c, g.stream)
				    : self->rank == 1 ? marrow_recv(g.recv, count, MARROW_FLOAT32, 0, c, g.stream)
						      : MARROW_SUCCESS;
	if (status != MARROW_SUCCESS)
		world_fail(self, "a transfer: %s", marrow_last_error(c));
	if (self->rank == 0)
		check_credits(self);
	if (ground_leave(&g, self->comms, 1) != MARROW_SUCCESS)
		world_fail(self, "destroy: %s", marrow_last_error(NULL));
}

static int run_leave(enum marrow_target target, size_t count)
{
	struct world w = {.target = target, .nranks = at_least(2), .ncomms = 1, .arg = &count};
	watchdog(30, "both ends leave at once");
	int failed = world_run(&w, leave);
	if (failed)
		printf("FAILED: both ends leave at once, %zu floats\n", count);
	watchdog(0, "");
	return failed;
}

static int run(const char *doing, enum marrow_target target, uint32_t ranks, uint64_t timeout_ms, const struct variation *v,
	       void (*body)(struct world_rank *self))
{
	struct world w = {.target = target, .nranks = at_least(ranks), .ncomms = 1, .timeout_ms = timeout_ms};
	char text[120];
	memset(&shared, 0, sizeof shared);
	shared.variation = v;
	snprintf(text, sizeof text, "%s%s%s, %u ranks", doing, v ? ": " : "", v ? v->name : "", w.nranks);
	watchdog(30, text);
	int failed = world_run(&w, body);
	if (failed)
		printf("FAILED: %s\n", text);
	watchdog(0, "");
	return failed;
}

/* The sender is killed while the receiver waits for the rest; the third rank has nothing to do with it. */
static void lose(struct crew_member *self)
{
	enum marrow_status status = MARROW_SUCCESS;
	crew_init(self, BYTES, INIT_MS);
	meet(&self->board->meeting, self->size);
	if (self->rank == 1) {
		sleep_ms(100);
		mark_time(&self->board->words[0]);
		kill(getpid(), SIGKILL);
	}
	if (self->rank == 0) {
		marrow_group_start();
		marrow_recv(self->ground.recv, 1000, MARROW_FLOAT32, 1, self->comm, self->ground.stream);
		marrow_send(self->ground.send, 500000, MARROW_FLOAT32, 1, self->comm, self->ground.stream);
		status = marrow_group_end();
	}
	if (status == MARROW_SUCCESS)
		status = await_error(self->comm, limit_ms(LOST_LEARN_MS) * 2);
	const char *text = marrow_last_error(self->comm);
	if (now_ms() - self->board->words[0] > limit_ms(LOST_LEARN_MS))
		crew_fail(self, "learnt it after %llu ms", (unsigned long long)(now_ms() - self->board->words[0]));
	if (status != MARROW_REMOTE_ERROR || !strstr(text, "rank 1") || !strstr(text, "gone"))
		crew_fail(self, "\"%s\": %s", marrow_status_string(status), text);
	if (ground_settle(&self->ground) != 0)
		crew_fail(self, "the stream does not drain");
	crew_finish(self);
}

int main(int argc, char **argv)
{
	if (argc > 2 && strcmp(argv[argc - 2], "--ranks") == 0) {
		least = (uint32_t)atoi(argv[argc - 1]);
		argc -= 2;
	}
	enum marrow_target target = target_option(argc, argv);
	int failed = 0;
	struct crew crew = {.doing = "a sender is lost", .target = target, .size = at_least(3), .seconds = 40};
	crew_start(&crew, lose);
	failed += crew_end(&crew, 1u << 1) != 0;
	for (size_t i = 0; i < VARIATIONS && !failed; i++)
		failed += run("sizes differ", target, 2 + (uint32_t)i % 2, 0, &variations[i], differ);
	for (size_t count = 0; count < 200000 && !failed; count = 20 * count + 1)
		failed += run_leave(target, count);
	if (failed)
		return 1; /* what comes may take long then */
	failed += run("never received", target, 2, DEADLINE_MS, NULL, miss);
	failed += run("the sender aborts", target, 2, 0, NULL, abort_sender);
	failed += run("the receiver aborts", target, 3, 0, NULL, abort_receiver);
	failed += run("a send meets a gather", target, 2, 0, NULL, cross);
	if (target == MARROW_TARGET_HOST)
		failed += run("two at once", target, 2, 0, NULL, concurrent);
	if (target == MARROW_TARGET_HOST)
		failed += run("an end leaves a group waiting", target, 3, 5 * DEADLINE_MS, NULL, leave_group);
	failed += run("the other end has left", target, 3, 0, NULL, left);
	printf("pairs: %s\n", failed ? "FAILED" : "ok");
	return failed ? 1 : 0;
}
