/* select.h - which algorithm, over how many channels: a pure function of values that are equal on all ranks. */
#ifndef MRW_SELECT_H
#define MRW_SELECT_H

#include "cost.h"
#include "device/args.h"
#include "device/kernels.h"
#include "tuning.h"

#include <marrow/types.h>

/* Up to most bytes that algorithm, where it can carry the call, else the next. */
struct mrw_choice {
	uint64_t most;
	enum mrw_algo algo;
	bool measured;             /* from a calibration table */
};

/* What a communicator's calls are carried by: made once, for a call must not pay for the model. */
struct mrw_choices {
	uint32_t count[MRW_FUNC_COUNT];
	struct mrw_choice rows[MRW_FUNC_COUNT][MRW_TUNING_ROWS_A_CALL];
};

struct mrw_select_input {
	enum mrw_func func;
	enum marrow_target target;
	uint64_t bytes;            /* as in struct mrw_args */
	uint32_t nranks;
	struct mrw_layout layout;  /* with near_slots: along rails, and by no other algorithm */
	uint32_t nics;             /* that each rank uses for other hosts; 0: one host */
	uint32_t channel_cap;      /* <= layout.channels */
	bool lines;                /* lines arrive whole between all ranks */
	int32_t forced_algo;       /* enum mrw_algo, taken where it can carry the call; -1: none */
	uint32_t forced_channels;  /* 0: none (tests) */
	const struct mrw_choices *choices; /* NULL: one rank, or what is not forced goes in chunks */
};

struct mrw_plan {
	enum mrw_algo algo;
	enum mrw_kernel kernel;
	uint32_t channels;
	uint32_t chunk_bytes;      /* bulk */
	uint32_t lag;              /* bulk */
	uint32_t threads;          /* of a CUDA block; local: may differ between ranks */
	const char *reason;        /* static text */
};

/* True if algo can carry the call at all. */
bool mrw_select_can(const struct mrw_select_input *in, enum mrw_algo algo);
struct mrw_plan mrw_select(const struct mrw_select_input *in);
/* What is quickest by the cost model for every function and size; above it stand the rows of a calibration table that fit the shape
 * (tuning NULL: none). Of in, func, bytes, choices and what is forced do not count. */
void mrw_select_prepare(struct mrw_choices *choices, const struct mrw_select_input *in, const struct mrw_cost_shape *shape,
			const struct mrw_tuning *tuning);
/* The first one that was measured to be best at that size; else the quickest by the model of those about which no measurement speaks. in: of a
 * call that has bytes, in trees no blocks. */
enum mrw_algo mrw_select_quickest(const struct mrw_select_input *in, const struct mrw_cost_shape *shape, const struct mrw_cost_figures *figures);
/* Largest all-reduce that one shot of packets can carry. */
uint64_t mrw_oneshot_max_bytes(const struct mrw_layout *layout, uint32_t channel_cap);
/* Most bytes of a channel's chunk in a round: of the arena's room whole grains. */
uint32_t mrw_chunk_room(const struct mrw_layout *layout, enum marrow_target target);
const char *mrw_algo_name(enum mrw_algo algo);
/* enum mrw_algo, -1 if unknown. */
int32_t mrw_algo_from_name(const char *name);

#endif
