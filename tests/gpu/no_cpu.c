/* no_cpu.c - the proof that no CPU is in the data path: two rank processes enqueue collectives and stop themselves with
 * SIGSTOP, nothing synchronised; the parent sees all of them complete while every thread of both is stopped, then lets the
 * ranks go on and compare bits.
 *
 * Across hosts (MARROW_TEST_HOSTS=2, below marrow-softnic) the NIC is a thread of each process, softnic-engine. It alone goes on: the parent
 * holds all other threads by ptrace.
 *
 * no_cpu [--calls N] [--only late|gated|graphs]
 * late:   rank 1 enqueues and stops; only then may rank 0 enqueue. Nothing of rank 1 can have run before it stopped.
 * gated:  a kernel before the first collective holds each rank's stream until the parent opens the gate, which it does when
 *         both ranks have stopped: everything runs under stopped processes.
 * graphs: as gated, the collectives in ten CUDA graphs. */
#include "cuda_helpers.h"
#include "fleet.h"
#include "park.h"
#include "support/call.h"
#include "support/device_memory.h"
#include "support/hosts.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 2, MAX_CALLS = 4096, GRAPHS = 10, READY_LIMIT_MS = 45000, DONE_LIMIT_MS = 40000, RANK_LIMIT_S = 120 };
#define GATE_LIMIT_NS 120000000000ull

enum variant { LATE, GATED, IN_GRAPHS, VARIANTS };
static const char *const names[VARIANTS] = {"late", "gated", "graphs"};

/* What the ranks, their kernels and the parent share. */
struct board {
	uint32_t gate;            /* writer: the parent; reader: the gate kernels */
	uint32_t go;              /* writer: the parent; reader: rank 0, if late */
	uint32_t begun[RANKS];    /* writer: the mark kernel behind the gate, before the first collective */
	uint32_t done[RANKS];     /* writer: the mark kernel behind the last collective */
	uint32_t enqueued[RANKS]; /* calls so far */
	uint32_t ready[RANKS];    /* 1: all are enqueued, the rank stops itself now, or is held */
	uint32_t go_on[RANKS];    /* across hosts; writer: the parent, when it lets the rank go */
};

static struct {
	uint32_t calls;
	uint64_t seed;
	enum variant variant;
	bool forbidden;           /* this machine does not let processes be held */
	struct board *board;
} proof;

static uint32_t look(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static struct call draw(uint64_t *s)
{
	static const size_t tops[] = {64, 4096, 40000, 200000, 900000};
	uint64_t kind = world_random(s) % 100;
	struct call c;
	memset(&c, 0, sizeof c);
	c.func = call_func((uint32_t)(world_random(s) % CALL_FUNCS));
	c.type = fleet_draw_type(s);
	c.op = (uint32_t)(world_random(s) % 5);
	c.root = (uint32_t)(world_random(s) % RANKS);
	c.algo = -1;
	c.in_place = world_random(s) % 4 ? 0 : (uint32_t)(world_random(s) % 4);
	c.misaligned = world_random(s) % 4 ? 0 : (uint32_t)(world_random(s) % 16);
	c.seed = world_random(s);
	c.count = world_random(s) % tops[kind < 40 ? 0 : kind < 70 ? 1 : kind < 88 ? 2 : kind < 96 ? 3 : 4] / reference_type_bytes(c.type);
	return c;
}

static size_t room_of(const struct call *c)
{
	return c->count * reference_type_bytes(c->type) * RANKS + 1;
}

/* Before the gate: making a graph may wait for the device. They stay until the process ends. */
static void capture(struct world_rank *self, struct call_buffers *buffers, const struct call *calls, void **graphs)
{
	for (uint32_t g = 0; g < GRAPHS && !self->failed; g++) {
		if (device_capture_begin(self->streams[0], DEVICE_CAPTURE_THREAD_LOCAL) != 0)
			world_fail(self, "capture: %s", device_error());
		for (uint32_t i = proof.calls * g / GRAPHS; i < proof.calls * (g + 1) / GRAPHS; i++)
			call_issue(self, &buffers[i], &calls[i]);
		if (device_capture_end(self->streams[0], &graphs[g]) != 0)
			world_fail(self, "graph: %s", device_error());
	}
}

static void launch(struct world_rank *self, void **graphs)
{
	for (uint32_t g = 0; g < GRAPHS && !self->failed; g++) {
		if (device_graph_launch(graphs[g], self->streams[0]) != 0)
			world_fail(self, "graph: %s", device_error());
		__atomic_store_n(&proof.board->enqueued[self->rank], proof.calls * (g + 1) / GRAPHS, __ATOMIC_RELEASE);
	}
}

static void issue(struct world_rank *self, struct call_buffers *buffers, const struct call *calls)
{
	for (uint32_t i = 0; i < proof.calls && !self->failed; i++) {
		call_issue(self, &buffers[i], &calls[i]);
		__atomic_store_n(&proof.board->enqueued[self->rank], i + 1, __ATOMIC_RELEASE);
	}
}

static bool wait_for_go(struct world_rank *self)
{
	uint64_t until = fleet_now_ms() + READY_LIMIT_MS;
	while (look(&proof.board->go) == 0) {
		if (fleet_now_ms() > until) {
			world_fail(self, "was not told to go on");
			return false;
		}
		usleep(200);
	}
	return true;
}

static void run(struct world_rank *self)
{
	struct board *board = proof.board, *seen = NULL;
	struct call *calls = calloc(proof.calls, sizeof *calls);
	struct call_buffers *buffers = calloc(proof.calls, sizeof *buffers);
	void *graphs[GRAPHS] = {NULL};
	uint64_t s = proof.seed;
	if (!calls || !buffers)
		abort();
	if (gpu_register(board, 4096, (void **)&seen) != 0) {
		world_fail(self, "cannot register the shared page: %s", gpu_error());
		return;
	}
	for (uint32_t i = 0; i < proof.calls; i++) {
		calls[i] = draw(&s);
		if (call_buffers_make(self, &buffers[i], room_of(&calls[i])) != 0)
			return;
		call_prepare(self, &buffers[i], &calls[i]);
	}
	if (proof.variant == IN_GRAPHS)
		capture(self, buffers, calls, graphs);
	if (proof.variant == LATE && self->rank == 0 && !wait_for_go(self))
		return;
	if (proof.variant != LATE && gpu_gate(self->streams[0], &seen->gate, 1, GATE_LIMIT_NS) != 0)
		world_fail(self, "gate: %s", gpu_error());
	if (gpu_mark(self->streams[0], &seen->begun[self->rank], 1) != 0)
		world_fail(self, "mark: %s", gpu_error());
	if (proof.variant == IN_GRAPHS)
		launch(self, graphs);
	else
		issue(self, buffers, calls);
	if (gpu_mark(self->streams[0], &seen->done[self->rank], 1) != 0)
		world_fail(self, "mark: %s", gpu_error());
	if (self->failed)
		return;
	__atomic_store_n(&board->ready[self->rank], 1, __ATOMIC_RELEASE);
	if (hosts_count(RANKS) > 1)
		while (look(&board->go_on[self->rank]) == 0)
			usleep(1000);
	else
		raise(SIGSTOP);
	if (gpu_stream_wait(self->streams[0], DONE_LIMIT_MS) != 0)
		world_fail(self, "after going on: %s", gpu_error());
	for (uint32_t i = 0; i < proof.calls && !self->failed; i++)
		call_check(self, &buffers[i], &calls[i]);
	gpu_unregister(board);
}

/* True if every thread of the process is stopped; across hosts: all but one, the NIC. */
static bool is_stopped(pid_t pid)
{
	unsigned threads, engines;
	return park_is_still(pid, &threads, &engines) && engines == (hosts_count(RANKS) > 1);
}

/* The rank is ready: it stops itself, or is held. */
static bool stop(pid_t pid)
{
	unsigned threads, engines;
	if (hosts_count(RANKS) == 1)
		return true;
	int refused = park(pid);
	proof.forbidden = proof.forbidden || refused == 1;
	if (refused)
		return false;
	(void)park_is_still(pid, &threads, &engines);
	fleet_say("  process %d: %u threads held, %u go on (" PARK_ENGINE ")", (int)pid, threads, engines);
	return true;
}

static bool wait_until_stopped(pid_t pid, uint32_t rank)
{
	uint64_t until = fleet_now_ms() + READY_LIMIT_MS;
	bool held = false;
	while (!held || !is_stopped(pid)) {
		if (!held && look(&proof.board->ready[rank]) != 0) {
			if (!stop(pid))
				return false;
			held = true;
			continue;
		}
		if (fleet_now_ms() > until) {
			fprintf(stderr, "rank %u did not stop: it has enqueued %u of %u calls (does the driver's launch queue hold fewer?)\n", rank,
				look(&proof.board->enqueued[rank]), proof.calls);
			return false;
		}
		usleep(1000);
	}
	return true;
}

static bool both_stopped(const struct fleet *fleet, const char *when)
{
	for (uint32_t r = 0; r < RANKS; r++)
		if (!is_stopped(fleet->pids[r])) {
			fprintf(stderr, "rank %u is not stopped %s\n", r, when);
			return false;
		}
	return true;
}

static bool expect_untouched(uint32_t rank, const uint32_t *words, const char *what)
{
	if (look(&words[rank]) == 0)
		return true;
	fprintf(stderr, "rank %u %s before it should\n", rank, what);
	return false;
}

/* Stops are in place, then work may begin; sees it end. */
static bool observe(const struct fleet *fleet)
{
	struct board *b = proof.board;
	if (proof.variant == LATE) {
		if (!wait_until_stopped(fleet->pids[1], 1) || !expect_untouched(1, b->done, "was done") || look(&b->enqueued[0]) != 0)
			return false;
		__atomic_store_n(&b->go, 1, __ATOMIC_RELEASE);
		if (!wait_until_stopped(fleet->pids[0], 0))
			return false;
	} else {
		for (uint32_t r = 0; r < RANKS; r++)
			if (!wait_until_stopped(fleet->pids[r], r) || !expect_untouched(r, b->begun, "began"))
				return false;
		if (!both_stopped(fleet, "before the gate opens"))
			return false;
		__atomic_store_n(&b->gate, 1, __ATOMIC_RELEASE);
	}
	uint64_t start = fleet_now_ms();
	while (look(&b->done[0]) == 0 || look(&b->done[1]) == 0) {
		if (fleet_now_ms() - start > DONE_LIMIT_MS) {
			fprintf(stderr, "not complete after %d ms: rank 0 begun %u done %u, rank 1 begun %u done %u\n", DONE_LIMIT_MS, look(&b->begun[0]),
				look(&b->done[0]), look(&b->begun[1]), look(&b->done[1]));
			return false;
		}
		usleep(100);
	}
	uint64_t took = fleet_now_ms() - start;
	if (!both_stopped(fleet, "after completion"))
		return false;
	fleet_say("%s: %u collectives a rank completed under stopped processes, seen after %llu ms", names[proof.variant], proof.calls,
		 (unsigned long long)took);
	return true;
}

static int prove(enum variant variant)
{
	struct world w = {.target = MARROW_TARGET_CUDA, .nranks = RANKS, .ncomms = 1, .timeout_ms = 60000};
	struct fleet fleet;
	proof.variant = variant;
	proof.board = fleet_share(sizeof *proof.board);
	fleet_start(&fleet, &w, run);
	bool seen = observe(&fleet);
	__atomic_store_n(&proof.board->gate, 1, __ATOMIC_RELEASE);
	for (uint32_t r = 0; r < RANKS; r++) {
		__atomic_store_n(&proof.board->go_on[r], 1, __ATOMIC_RELEASE);
		unpark(fleet.pids[r]);
		kill(fleet.pids[r], SIGCONT);
	}
	if (!seen)
		fleet_kill(&fleet);
	int failed = fleet_end(&fleet, RANK_LIMIT_S);
	fleet_say("%s: %s", names[variant], seen && failed == 0 ? "ok" : "FAILED");
	return !seen || failed != 0;
}

int main(int argc, char **v)
{
	const char *only = NULL, *why;
	int failed = 0;
	proof.calls = 1000;
	for (int i = 1; i < argc; i++) {
		if (strcmp(v[i], "--calls") == 0 && i + 1 < argc)
			proof.calls = (uint32_t)strtoul(v[++i], NULL, 0);
		else if (strcmp(v[i], "--only") == 0 && i + 1 < argc)
			only = v[++i];
		else {
			fprintf(stderr, "usage: no_cpu [--calls N] [--only late|gated|graphs]\n");
			return 2;
		}
	}
	if (proof.calls < GRAPHS || proof.calls > MAX_CALLS)
		return 2;
	if (fleet_gpus(&why) == 0) {
		printf("skipped: %s\n", why);
		return 77;
	}
	proof.seed = world_seed();
	for (int variant = 0; variant < VARIANTS; variant++)
		if (!only || strcmp(only, names[variant]) == 0)
			failed += prove((enum variant)variant);
	if (proof.forbidden) {
		printf("skipped: this machine forbids ptrace (a container's seccomp profile, or kernel.yama.ptrace_scope)\n");
		return 77;
	}
	return failed ? 1 : 0;
}
