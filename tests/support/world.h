/* world.h - ranks as threads of one process, for tests: each gets a communicator and runs a body. */
#ifndef TEST_WORLD_H
#define TEST_WORLD_H

#include <marrow/marrow.h>
#include <stdbool.h>

enum { WORLD_MAX_RANKS = 64, WORLD_MAX_COMMS = 4, WORLD_STREAMS = 2 };

struct world {
	enum marrow_target target;
	uint32_t nranks;
	uint32_t ncomms;            /* communicators over the same ranks */
	uint32_t team_size;         /* host target: threads a team */
	bool parallel_channels;     /* host target: channels side by side */
	uint32_t max_ctas;          /* 0: default */
	const char *algo;           /* config.algo; NULL: none */
	uint64_t timeout_ms;        /* 0: 60 s */
	bool windows;               /* calls' buffers may be registered */
	bool set_seq;               /* start all channels at seq and round */
	uint32_t seq;
	uint64_t round;
	void *arg;                  /* the body's */
};

struct world_rank {
	const struct world *world;
	uint32_t rank, nranks;
	struct marrow_comm *comms[WORLD_MAX_COMMS];
	void *streams[WORLD_STREAMS]; /* NULL on the host target */
	int failed;                 /* set by world_fail() */
	struct world_meeting *meeting;
};

/* Starts the ranks (rank r on CUDA device r modulo their number; on hosts as hosts.h says), builds communicators, runs body in each, takes everything
 * down. Returns the number of ranks that failed; their words are on stderr. */
int world_run(const struct world *world, void (*body)(struct world_rank *self));
/* Waits until every rank whose body has not returned is here; not in a rank that failed. Before memory is freed or a communicator destroyed on
 * GPUs that ranks share: that is a call of the driver which waits for the kernels of all ranks there, and the model of a NIC, for which one of
 * them may wait, for that call. */
void world_meet(struct world_rank *self);
/* True if communicators of this world are along rails: several hosts with as many ranks each, more than one; and more than 16 ranks, or asked
 * for by algo or MARROW_ALGO. */
bool world_rails(const struct world *world);
/* True if they are in a ring. */
bool world_ring(const struct world *world);
/* True if they are in trees. */
bool world_tree(const struct world *world);
/* True if not every rank is a peer of every other one. */
bool world_sparse(const struct world *world);
/* Marks the rank as failed and prints "rank R: ...". */
void world_fail(struct world_rank *self, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Seed of this run: MARROW_TEST_SEED, else the clock; printed once. */
uint64_t world_seed(void);
/* SplitMix64 step. */
uint64_t world_random(uint64_t *state);
/* Number of CUDA devices usable for the gpu suite: 0, or at least two with mutual peer access (where MARROW_TEST_ONE_GPU is set, also one); why says
 * what is missing. */
int world_gpus(const char **why);

#endif
