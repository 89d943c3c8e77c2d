/* args.h - what a kernel is launched with: the communicator's constants and one call. Nothing in it changes between replays of a
 * captured launch. */
#ifndef MRW_ARGS_H
#define MRW_ARGS_H

#include "wire.h"

enum mrw_func {
	MRW_FUNC_ALL_REDUCE,
	MRW_FUNC_BROADCAST,
	MRW_FUNC_ALL_GATHER,
	MRW_FUNC_REDUCE_SCATTER,
	MRW_FUNC_BARRIER,
	MRW_FUNC_REDUCE,
	MRW_FUNC_REDUCE_SCATTER_V,
	MRW_FUNC_COUNT,      /* the above have algorithms, select.h; what follows is made of transfers, transfer.h */
	MRW_FUNC_SEND = MRW_FUNC_COUNT,
	MRW_FUNC_RECV,
	MRW_FUNC_TRANSFERS,  /* several sends and recvs of one group */
	MRW_FUNC_ALL_TO_ALL,
	MRW_FUNC_ALL_TO_ALL_V,
	MRW_FUNC_GATHER,
	MRW_FUNC_SCATTER,
	MRW_FUNC_ALL_GATHER_V,
	MRW_FUNC_END
};

MRW_PURE bool mrw_is_transfers(uint32_t func)
{
	return func >= MRW_FUNC_SEND && func < MRW_FUNC_END;
}

/* Point to point: only the two ranks of each transfer take part. */
MRW_PURE bool mrw_is_pairwise(uint32_t func)
{
	return func == MRW_FUNC_SEND || func == MRW_FUNC_RECV || func == MRW_FUNC_TRANSFERS;
}

enum mrw_algo {
	MRW_ALGO_LOCAL,    /* one rank: scale or copy */
	MRW_ALGO_ONESHOT,  /* packets, everybody to everybody */
	MRW_ALGO_LINES,    /* one shot in lines of 128 bytes */
	MRW_ALGO_TWOSHOT,  /* packets to the owner of a share, result packets to all */
	MRW_ALGO_BULK,     /* chunks pushed into staging, in rounds */
	MRW_ALGO_RAILSHOT, /* along rails: packets within the host, then to the same rank of every other host */
	MRW_ALGO_RAIL,     /* the same with chunks, in rounds */
	MRW_ALGO_RING,     /* chunks from neighbour to neighbour, in rounds */
	MRW_ALGO_TREESHOT, /* in two trees: packets */
	MRW_ALGO_TREE,     /* the same with chunks, in rounds */
	MRW_ALGO_COUNT,
	MRW_ALGO_TRANSFERS = MRW_ALGO_COUNT /* pair by pair, transfer.h: nothing to choose */
};

/* Reductions as kernels know them. */
enum mrw_reduction { MRW_RED_SUM, MRW_RED_PROD, MRW_RED_MAX, MRW_RED_MIN };

/* f(reduction, ...): on GPUs a copy of f for each operation, a constant in it; on the host one copy, whose elements ask for it. What is hot there
 * has copies of its own (run_host.h). */
#if MRW_ON_CUDA
#define MRW_BY_REDUCTION(reduction, f, ...) \
	((reduction) == MRW_RED_SUM    ? f(MRW_RED_SUM, __VA_ARGS__) \
	 : (reduction) == MRW_RED_PROD ? f(MRW_RED_PROD, __VA_ARGS__) \
	 : (reduction) == MRW_RED_MAX  ? f(MRW_RED_MAX, __VA_ARGS__) \
				       : f(MRW_RED_MIN, __VA_ARGS__))
#else
#define MRW_BY_REDUCTION(reduction, f, ...) f(reduction, __VA_ARGS__)
#endif

struct mrw_far;

/* What every small call reads stands together: a kernel fetches its arguments by lines, each one a miss. */
struct mrw_args {
	/* the call */
	const uint8_t *in;
	uint8_t *out;
	uint64_t bytes;                /* all_reduce, reduce, broadcast: of the buffer; all_gather, reduce_scatter: of one rank's block;
					* reduce_scatter_v: of the largest block */
	uint32_t units;                /* packets a channel of the largest block: mrw_units_per_channel() */
	uint32_t reduction;            /* enum mrw_reduction */
	uint32_t rank, nranks;         /* of the communicator */
	uint32_t average;              /* 1: divide the sum by nranks */
	uint32_t scaled;               /* 1: premulsum by scalar, 2: by *scalar_memory */
	uint32_t uneven;               /* 1: block r ends at ends[r] and begins where the one before ends (schedule.h) */
	uint32_t spin_limit;           /* host target: polls before yielding the core */
	struct mrw_call call;
	/* the communicator */
	struct mrw_layout layout;
	uint8_t *arena[MRW_MAX_RANKS]; /* every rank's, as mapped here; NULL: on another host */
	const struct mrw_far *far;     /* far.h; NULL: all ranks are on this host */
	struct mrw_page *page;
	uint64_t deadline_ns;          /* of one wait */
	uint64_t note_ns;              /* a longer wait leaves a note */
	void (*watch)(void *, uint32_t peer); /* host target: called now and then in long waits for peer; NULL on CUDA */
	void *watch_arg;
	/* the rest of the call */
	uint64_t place;                /* mrw_place() of out where others may write it, as far as window_id is there; 0: nowhere */
	uint64_t window_id;
	uint64_t share_bytes;          /* schedule.h's mrw_share_bytes(), 0 where blocks are not shares: kernels do not divide */
	uint64_t scalar;               /* bits of one element */
	const void *scalar_memory;
	uint64_t ends[MRW_MAX_RANKS];
};

MRW_PURE struct mrw_control *mrw_control(const struct mrw_args *a, uint32_t rank)
{
	return (struct mrw_control *)(void *)a->arena[rank];
}

#endif
