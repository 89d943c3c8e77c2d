/* sum.h - one sum of the bulk algorithms: where its pieces are and where the result goes. add.h has the arithmetic. */
#ifndef MRW_SUM_H
#define MRW_SUM_H

#include "peer.h"
#include "device/reduce.h"
#include "device/window.h"

/* One chunk of my block: where its pieces are and where the sum goes. Passed by value: inner loops keep it in registers. */
struct mrw_sum {
	const uint8_t *own;    /* any alignment */
	const uint8_t *staged; /* first peer's piece; the others' follow at stride */
	uint8_t *out;          /* any alignment */
	uint64_t result;       /* offset in a peer's arena of the first writer's slot of the second staging */
	uint64_t stride;       /* from one writer's slot to the next one's */
	uint32_t bytes;
	uint32_t rank, nranks; /* whose pieces: all ranks'; along rails numbers of ranks within the host, or of hosts */
	uint32_t divisor;      /* ranks whose sum this completes */
	uint32_t own_alignment, out_alignment;
	bool forward, average, scaled;
	uint8_t *first;        /* not NULL: forward goes here and, at stride, for nranks - 2 more */
	uint8_t *const *direct; /* not NULL: of peers for whom this is not NULL, the result goes there instead, as far from the begin as out is from a->out */
	mrw_acc scalar;
};

/* Where the sum also goes: peer number q's second staging, or its output. */
MRW_DEV uint8_t *mrw_sum_slot(const struct mrw_args *a, const struct mrw_sum s, uint32_t q)
{
	if (MRW_FAR && s.first)
		return s.first + (q - 1) * s.stride;
	uint32_t p = mrw_peer(a, q);
	if (MRW_WINDOWS && s.direct && s.direct[p])
		return s.direct[p] + (s.out - a->out);
	if (mrw_is_far(a, p))
		return a->arena[s.rank] + a->layout.outbox + s.result + mrw_writer_slot(s.rank, p) * s.stride;
	return a->arena[p] + s.result + mrw_writer_slot(p, s.rank) * s.stride;
}

/* Rank r's piece of the chunk. */
MRW_DEV const uint8_t *mrw_sum_piece(const struct mrw_sum s, uint32_t r)
{
	return r == s.rank ? s.own : s.staged + mrw_writer_slot(s.rank, r) * s.stride;
}

#endif
