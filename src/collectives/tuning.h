/* tuning.h - a calibration table: what was measured on a machine, in a text file, stands above the cost model. Pure: no file is opened here.
 *
 *     marrow-tuning 1
 *     library 0.1.0 wire 8
 *     machine host, AMD EPYC 7B13, 2 CPUs
 *     shape ranks 2 hosts 1 fullest 2 peers all
 *     all_reduce oneshot 512
 *     all_reduce bulk max
 *
 * A line each: the form, the library that measured, the machine as marrow_comm_get_properties() names it, then shapes, each with rows for
 * some functions: up to so many bytes (as in struct mrw_args) that algorithm, ascending, the last one "max". What is not in the table is
 * the cost model's. '#' begins a comment. peers: all, rails, ring or tree, as in reach.h; rings, and blocks in trees, leave
 * nothing to choose, their rows are read and not used. The reading is strict: whatever is not so, is absurd or
 * stands twice refuses the whole table, with its line. */
#ifndef MRW_TUNING_H
#define MRW_TUNING_H

#include "device/args.h"

#include <marrow/types.h>
#include <stdbool.h>
#include <stdio.h>

enum {
	MRW_TUNING_SHAPES = 64,
	MRW_TUNING_ROWS = 1024,
	MRW_TUNING_ROWS_A_CALL = 16,     /* of one function and shape */
	MRW_TUNING_FILE_BYTES = 256 << 10,
	MRW_MACHINE_BYTES = 128          /* a machine's name */
};

enum mrw_peers { MRW_PEERS_ALL, MRW_PEERS_RAILS, MRW_PEERS_RING, MRW_PEERS_TREE, MRW_PEERS_COUNT };

/* What a choice was measured for, beside function and bytes. */
struct mrw_tuning_shape {
	uint32_t nranks, hosts, fullest; /* fullest: ranks of the fullest host */
	enum mrw_peers peers;
};

struct mrw_tuning_row {
	uint32_t shape;                  /* index */
	enum mrw_func func;
	enum mrw_algo algo;
	uint64_t most;                   /* bytes; UINT64_MAX: the last row */
};

struct mrw_tuning {
	char machine[MRW_MACHINE_BYTES];
	uint32_t nshapes, nrows;
	struct mrw_tuning_shape shapes[MRW_TUNING_SHAPES];
	struct mrw_tuning_row rows[MRW_TUNING_ROWS];
};

/* Why a table was not taken; line 0: no line is to blame. */
struct mrw_tuning_error {
	uint32_t line;
	char text[256];
};

/* machine: this one's name; NULL: any. On false *tuning is undefined. A table of another library or machine is refused. */
bool mrw_tuning_parse(struct mrw_tuning *tuning, const char *bytes, size_t nbytes, const char *machine, struct mrw_tuning_error *error);
/* Rows of a shape and function, in order; *count 0: none. */
const struct mrw_tuning_row *mrw_tuning_rows(const struct mrw_tuning *tuning, const struct mrw_tuning_shape *shape, enum mrw_func func,
					     uint32_t *count);
/* Puts rows in the place of those that the shape had for the function. False: no room, or what mrw_tuning_parse() would refuse. */
bool mrw_tuning_put(struct mrw_tuning *tuning, const struct mrw_tuning_shape *shape, enum mrw_func func, const struct mrw_tuning_row *rows,
		    uint32_t count);
/* What is written is read back to the same. False on a write error. */
bool mrw_tuning_write(const struct mrw_tuning *tuning, FILE *file);

/* NULL, or why a call of that shape does not have the algorithm: static text. */
const char *mrw_tuning_misfit(const struct mrw_tuning_shape *shape, enum mrw_func func, enum mrw_algo algo);

/* Functions that have algorithms, by the names of the public calls; MRW_FUNC_COUNT: none of them. */
enum mrw_func mrw_tuning_func(const char *name);
const char *mrw_tuning_func_name(enum mrw_func func);

#endif
