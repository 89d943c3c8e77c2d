/* call.h - one collective call as data: made alike on every rank, run on either target, checked bit by bit. */
#ifndef TEST_CALL_H
#define TEST_CALL_H

#include "support/reference.h"
#include "support/world.h"

#include "device/args.h"

/* What a call may be: everything with algorithms, then MRW_FUNC_ALL_TO_ALL and MRW_FUNC_TRANSFERS, a send to the next rank and a recv from the
 * one before in a group. */
enum { CALL_FUNCS = MRW_FUNC_COUNT + 2 };
enum mrw_func call_func(uint32_t index);

struct call {
	enum mrw_func func;
	enum marrow_type type;
	uint32_t op;              /* 0-4: enum marrow_op; 5, 6: premulsum, scalar by value, on the device */
	size_t count;             /* reduce_scatter_v: the largest that a rank may have, see call_count_of() */
	uint32_t root;
	uint32_t channels;        /* 0: the library's choice */
	int32_t algo;             /* enum mrw_algo, -1: the library's choice */
	uint32_t in_place;        /* bit r modulo 16: rank r works in place */
	uint32_t misaligned;      /* 2 bits a rank (modulo 16): 0 none, 1: one element off, 2: one byte off, 3: send and recv differ */
	enum fill_style style;
	uint64_t seed;            /* of the data */
	uint64_t shape;           /* reduce_scatter_v: of the counts, for calls whose data change; 0: seed */
	uint32_t comm, stream;
	uint32_t replays;         /* CUDA: captured and replayed so often; 0: eager */
};

/* Buffers of one call on one rank. */
struct call_buffers {
	uint8_t *memory;          /* target memory: send and recv areas with guards */
	uint8_t *shadow;          /* host copy of it */
	size_t room;              /* bytes of the largest call's area */
	size_t used;              /* of the call in progress */
	uint8_t *scalar;          /* 8 bytes of target memory */
	uint8_t *expected;        /* host: room bytes */
	uint8_t *inputs[WORLD_MAX_RANKS]; /* host: room bytes each */
	void *partial[WORLD_MAX_RANKS];   /* along rails: for each host */
	struct marrow_window *windows[WORLD_MAX_COMMS]; /* NULL: memory is not registered there */
	enum marrow_op dynamic;   /* premulsum of the call in progress */
	uint8_t *send, *recv;     /* of the call in progress */
};

/* room: bytes of the largest send or recv buffer. 0, or -1 with the rank failed. */
int call_buffers_make(struct world_rank *self, struct call_buffers *b, size_t room);
void call_buffers_free(struct world_rank *self, struct call_buffers *b);
/* Registers a part of the memory, drawn from *s, or all of it, in a communicator; or, if it is, ends that. All ranks alike. */
void call_buffers_toggle(struct world_rank *self, struct call_buffers *b, uint32_t comm, uint64_t *s);
/* reduce_scatter_v: elements of rank's block, from 0 to count, drawn from the seed. Else count. */
size_t call_count_of(const struct call *call, uint32_t rank);
/* Largest count that fits the buffers. */
size_t call_count_limit(const struct call *call, uint32_t nranks, size_t room);
/* Fills, issues (asynchronously on CUDA), waits and compares. Calls of one group: prepare all, issue all, check all. */
void call_prepare(struct world_rank *self, struct call_buffers *b, const struct call *call);
void call_issue(struct world_rank *self, struct call_buffers *b, const struct call *call);
void call_check(struct world_rank *self, struct call_buffers *b, const struct call *call);
void call_describe(const struct call *call, char *text, size_t bytes);

#endif
