/* terms.h - what decides how a rank carries its calls. It must be equal on all ranks, or they would send each other what nobody waits for. Ranks
 * show theirs at init: what each was given (version, environment, config), before anything is made of it; then what each made of
 * all that (limits, spread, layout), with its memory, before anybody maps it; and all of it when the last path is proved. Who differs is
 * named with the field.
 *
 * What ranks may be given differently is not here: max_ctas (the least counts), deadlines, devices, NICs (the fewest count). */
#ifndef MRW_TERMS_H
#define MRW_TERMS_H

#include <marrow/types.h>
#include <stdbool.h>
#include <stdint.h>

/* X(id, "name in messages", "what to do"). Values are digests or numbers; terms.c knows how each is written. */
#define MRW_TERM_LIST(X) \
	X(VERSION, "library version", "install one version everywhere") \
	X(WIRE, "wire version", "install one version everywhere") \
	X(TARGET, "target", "set MARROW_TARGET or config.target equally on all ranks") \
	X(ALGO, "MARROW_ALGO", "set MARROW_ALGO or config.algo equally on all ranks") \
	X(TUNING, "MARROW_TUNING", "set MARROW_TUNING equally on all ranks, to the same table") \
	X(CHANNELS, "channel limit", MRW_TERM_BUG) \
	X(HOSTS, "number of hosts", MRW_TERM_BUG) \
	X(RANKS_A_HOST, "ranks a host", MRW_TERM_BUG) \
	X(WAYS, "way between hosts", MRW_TERM_BUG) \
	X(NICS, "NICs a rank", MRW_TERM_BUG) \
	X(LAYOUT, "layout of shared memory", MRW_TERM_BUG) \
	X(CHOICES, "choice of algorithms", MRW_TERM_BUG)
#define MRW_TERM_BUG "it follows from what all ranks said, so their builds differ: install the same one everywhere"

enum mrw_term {
#define MRW_X(id, name, remedy) MRW_TERM_##id,
	MRW_TERM_LIST(MRW_X)
#undef MRW_X
	MRW_TERM_COUNT
};

/* Zeroed: nothing said yet, which is equal on all ranks. */
struct mrw_terms {
	uint64_t value[MRW_TERM_COUNT];
};

/* The first rank, and of it the first term, that differs from rank 0's. False: none does. */
bool mrw_terms_differ(const struct mrw_terms *all, uint32_t nranks, uint32_t *rank, enum mrw_term *term);
/* "NAME has MARROW_ALGO=ring, ZERO has none: set ...": of a rank called name that differs from rank 0, called zero. */
void mrw_terms_text(const struct mrw_terms *mine, const struct mrw_terms *of_zero, enum mrw_term term, const char *name, const char *zero,
		    char *text, size_t bytes);
/* For terms that are more than a number: 64 bits over bytes. Start with 0, go on with what came back. */
uint64_t mrw_terms_digest(uint64_t digest, const void *bytes, size_t count);

#endif
