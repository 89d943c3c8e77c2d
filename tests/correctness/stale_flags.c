/* stale_flags.c - packets of 2^32 operations ago are not taken for fresh ones.
 *
 * stale_flags [--target host|cuda] [--ranks N] [--team T] [--timeout-ms N]. A large packet message fills the slots at seq s. The seq counter then
 * jumps (nothing else is touched) to a scrub boundary, a few operations cross it, and the counter jumps on to s, 2^32 operations
 * later: the slots' flags would fit again. The late sender's data must be waited for. And what peers send as soon as they may must not be
 * scrubbed over. Likewise what peers say of places. */
#include "support/call.h"

#include "comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROOM = 64 << 10, LATE_US = 20000, SCRUB_LATE_US = 3000, RUSHES = 10 };

/* All ranks: operations are over everywhere, the next one has number seq. */
static void jump(struct world_rank *self, uint32_t seq)
{
	struct marrow_comm *comm = self->comms[0];
	struct mrw_control *control = (struct mrw_control *)(void *)comm->arena.base;
	uint64_t word = (uint32_t)(seq - 1);
	if (mrw_boot_barrier(comm->boot) != MARROW_SUCCESS)
		world_fail(self, "barrier: %s", marrow_last_error(NULL));
	for (uint32_t c = 0; c < MRW_MAX_CHANNELS; c++)
		if (comm->device.runtime->poke(&comm->device, &control->channel[c].word, &word, sizeof word) != MARROW_SUCCESS)
			world_fail(self, "cannot set seq");
	if (mrw_boot_barrier(comm->boot) != MARROW_SUCCESS)
		world_fail(self, "barrier: %s", marrow_last_error(NULL));
}

/* What the peers said of places in operation seq, as it lies here: puts it there, or looks whether it still seems to be said. */
static void places(struct world_rank *self, uint32_t seq, bool put)
{
	struct marrow_comm *comm = self->comms[0];
	for (uint32_t slot = 0; slot < comm->args.layout.slots; slot++) {
		struct mrw_opening *o = &mrw_heard_at(&comm->args.layout, comm->arena.base, slot, seq & 1)->line;
		uint64_t said[2] = {(uint64_t)seq << 32 | 64, (uint64_t)seq << 32 | 1u << (MRW_PLACE_SHIFT - 32)};
		void *to = put ? &o->unit[2] : said, *from = put ? said : &o->unit[2];
		if (comm->device.runtime->poke(&comm->device, to, from, sizeof said) != MARROW_SUCCESS)
			world_fail(self, "cannot reach the opening lines");
		if (!put && (said[0] >> 32 == seq || said[1] >> 32 == seq))
			world_fail(self, "a place of operation %u of 2^32 operations ago looks fresh", seq);
	}
}

static void one(struct world_rank *self, struct call_buffers *b, const struct call *call)
{
	call_prepare(self, b, call);
	call_issue(self, b, call);
	call_check(self, b, call);
}

/* An opening line lets the peers go on, to packets and lines of the next but one operation's parity: none may leave while a thread of the team
 * still scrubs that. A barrier moves nothing that they would wait for besides. */
static void rush(struct world_rank *self, struct call_buffers *b, struct call big, const int32_t algos[3])
{
	struct call barrier = {.func = MRW_FUNC_BARRIER, .type = MARROW_FLOAT32, .algo = -1};
	big.channels = 4;
	for (uint32_t i = 0; i < RUSHES * 4; i++) {
		jump(self, (i % 4 << 30) - 1);
		for (uint32_t k = 0; k < 3; k++)
			one(self, b, &barrier);
		big.algo = algos[i / 4 % 3];
		big.seed++;
		one(self, b, &big);
	}
}

static void run(struct world_rank *self)
{
	static const uint32_t seqs[] = {0x12345678, 0x12345679, 0x80000011, 0xffffff00};
	int32_t sparse = world_rails(self->world) ? MRW_ALGO_RAILSHOT : world_tree(self->world) ? MRW_ALGO_TREESHOT : -1;
	const int32_t algos[] = {sparse >= 0 ? sparse : MRW_ALGO_ONESHOT, sparse >= 0 ? sparse : MRW_ALGO_TWOSHOT, sparse >= 0 ? sparse : MRW_ALGO_LINES};
	struct call big = {.func = MRW_FUNC_ALL_REDUCE, .type = MARROW_FLOAT32, .count = 2000}, tiny = big;
	struct call_buffers b;
	uint32_t turn = 0; /* each seq is used in one turn only, or its flags were no accident of 2^32 operations */
	if (call_buffers_make(self, &b, ROOM) != 0)
		return;
	/* Packets of one channel hold it: it is to leave no slot untouched that a tiny one uses (a fresh slot's flag is 0, like seq 0's). */
	if (big.count > self->comms[0]->args.layout.units * (MRW_UNIT_BYTES / sizeof(float)))
		big.count = self->comms[0]->args.layout.units * (MRW_UNIT_BYTES / sizeof(float));
	tiny.count = 1;
	tiny.algo = algos[0];
	for (uint32_t boundary = 0; boundary < 4; boundary++)
		for (uint32_t k = 0; k < 4; k++)
			for (uint32_t channels = 1; channels <= 4; channels += 3)
				for (uint32_t a = 0; a < 3; a++) {
					big.algo = algos[a];
					big.channels = channels;
					big.seed++;
					turn++;
					jump(self, seqs[k] + 2 * turn);
					one(self, &b, &big);
					jump(self, (boundary << 30) - 1);
					if (self->comms[0]->args.layout.windows_offset > 0)
						places(self, seqs[k] + 2 * turn, true);
					for (tiny.seed = 0; tiny.seed < 4; tiny.seed++) {
						/* The others have sent theirs when this rank scrubs in its begin. */
						if (channels == 1 && self->rank == (k + tiny.seed) % self->nranks)
							usleep(SCRUB_LATE_US);
						one(self, &b, &tiny);
					}
					jump(self, seqs[k] + 2 * turn);
					if (self->comms[0]->args.layout.windows_offset > 0)
						places(self, seqs[k] + 2 * turn, false);
					if (self->rank == big.seed % self->nranks)
						usleep(LATE_US);
					big.seed++;
					one(self, &b, &big);
				}
	rush(self, &b, big, algos);
	call_buffers_free(self, &b);
}

int main(int argc, char **v)
{
	struct world w = {.target = MARROW_TARGET_HOST, .nranks = 3, .ncomms = 1, .team_size = 1};
	w.timeout_ms = 10000;
	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(v[i], "--timeout-ms") == 0)
			w.timeout_ms = strtoull(v[i + 1], NULL, 10);
		else if (strcmp(v[i], "--team") == 0)
			w.team_size = (uint32_t)strtoul(v[i + 1], NULL, 10);
		else if (strcmp(v[i], "--ranks") == 0)
			w.nranks = (uint32_t)strtoul(v[i + 1], NULL, 10);
		else if (strcmp(v[i], "--target") == 0)
			w.target = strcmp(v[i + 1], "cuda") == 0 ? MARROW_TARGET_CUDA : MARROW_TARGET_HOST;
	}
	if (w.nranks < 2 || w.nranks > WORLD_MAX_RANKS)
		return 2;
	if (w.target == MARROW_TARGET_CUDA) {
		const char *why;
		if (world_gpus(&why) == 0) {
			printf("skipped: %s\n", why);
			return 77;
		}
	}
	int failed = world_run(&w, run);
	printf("stale flags, %u ranks: %s\n", w.nranks, failed ? "FAILED" : "ok");
	return failed ? 1 : 0;
}
