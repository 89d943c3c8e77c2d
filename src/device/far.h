/* far.h - ranks on other hosts. Their arenas are not mapped: what goes there waits in this rank's outbox (wire.h) until the NIC has
 * fetched it, and a word travels inside its work request.
 *
 * All that one rank sends another goes by one queue pair and arrives in the order of its posts: a word posted behind a range is its
 * flag. Only the order of the words within one range is open. send.h has the forms that wait; only poison waits
 * here, for a moment. */
#ifndef MRW_FAR_H
#define MRW_FAR_H

#include "args.h"

#include "proxyless/post.h"

struct mrw_far_peer {
	struct mrw_queue *queue;  /* NULL: on this host */
	uint64_t arena;           /* its address for the peer's NIC */
	uint32_t rkey;
	uint32_t reserved;
};

/* In memory that kernels see; constant. */
struct mrw_far {
	uint64_t arena;           /* this rank's, for its own NIC */
	uint32_t lkey;
	uint32_t reserved;
	struct mrw_far_peer peer[MRW_MAX_RANKS];
};

/* CUDA kernels are compiled twice: without all of this, and (-DMRW_FAR=1) with it, for communicators that span hosts. It costs registers
 * and stack that the others need not pay. */
#ifndef MRW_FAR
#define MRW_FAR !MRW_ON_CUDA
#endif

/* Some ranks are on other hosts. */
MRW_DEV bool mrw_spans(const struct mrw_args *a)
{
	return MRW_FAR && a->far;
}

MRW_DEV bool mrw_is_far(const struct mrw_args *a, uint32_t p)
{
	return mrw_spans(a) && a->far->peer[p].queue;
}

/* Where this rank writes what p shall find at (format, channel, parity) in its packets. */
MRW_DEV struct mrw_packet *mrw_packets_to(const struct mrw_args *a, uint32_t format, uint32_t channel, uint32_t p, uint32_t parity)
{
	if (mrw_is_far(a, p))
		return mrw_packets_at(&a->layout, a->arena[a->rank] + a->layout.outbox, format, channel, a->rank, p, parity);
	return mrw_packets_at(&a->layout, a->arena[p], format, channel, p, a->rank, parity);
}

/* The same for staging. */
MRW_DEV uint8_t *mrw_staging_to(const struct mrw_args *a, uint32_t format, uint32_t channel, uint32_t p, uint64_t round)
{
	if (mrw_is_far(a, p))
		return mrw_staging_at(&a->layout, a->arena[a->rank] + a->layout.outbox, format, channel, a->rank, p, round);
	return mrw_staging_at(&a->layout, a->arena[p], format, channel, p, a->rank, round);
}

/* Request number index: bytes at offset from of this rank's arena to offset to of p's. */
MRW_DEV void mrw_far_range(const struct mrw_args *a, uint32_t p, uint64_t index, bool signal, uint64_t from, uint64_t to, uint32_t bytes)
{
	const struct mrw_far_peer *peer = &a->far->peer[p];
	(void)mrw_wqe_write(mrw_post_slot(peer->queue, index), index, peer->queue->qpn, signal, peer->arena + to, peer->rkey,
			    a->far->arena + from, a->far->lkey, bytes);
}

/* Request number index, signalled: a word of p's arena. */
MRW_DEV void mrw_far_word(const struct mrw_args *a, uint32_t p, uint64_t index, uint64_t to, uint64_t value)
{
	const struct mrw_far_peer *peer = &a->far->peer[p];
	(void)mrw_wqe_write_word(mrw_post_slot(peer->queue, index), index, peer->queue->qpn, true, peer->arena + to, peer->rkey, value);
}

#define MRW_FAR_POISON_NS 20000000u /* a full ring gets this long: peers have deadlines and sockets of their own */

/* Best effort, bounded. */
MRW_DEV_CALL void mrw_far_poison(const struct mrw_args *a, uint32_t p, uint64_t cause)
{
	struct mrw_queue *q = a->far->peer[p].queue;
	uint64_t index, until = mrw_clock_ns() + MRW_FAR_POISON_NS;
	while (!mrw_post_reserve(q, 1, &index)) {
		if (mrw_load_relaxed(&q->failed) != 0 || mrw_clock_ns() > until)
			return;
		mrw_pause(0, a->spin_limit);
	}
	mrw_far_word(a, p, index, offsetof(struct mrw_control, poison), cause);
	mrw_post_ready(q, index, 1);
}

#endif
