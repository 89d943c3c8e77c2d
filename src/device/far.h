/* far.h - ranks on other hosts. Their arenas are not mapped: what goes there waits in this rank's outbox (wire.h) until the NIC has
 * fetched it, and a word travels inside its work request.
 *
 * All that a channel of one rank sends another rank goes by one queue pair and arrives in the order of its posts: a word posted behind a
 * range is its flag. Only the order of the words within one range is open. A rank with several NICs has a queue pair on each for each
 * peer; nothing is ordered between them. send.h has the forms that wait; only poison waits
 * here, for a moment. */
#ifndef MRW_FAR_H
#define MRW_FAR_H

#include "args.h"

#include "proxyless/post.h"

/* What lies between two ranks. */
enum mrw_path {
	MRW_PATH_NONE, /* no peers: nothing but transfers goes this way. Or it is the rank itself */
	MRW_PATH_NEAR, /* mapped memory */
	MRW_PATH_FAR   /* queue pairs */
};

struct mrw_far_peer {
	struct mrw_queue *queue[MRW_MAX_NICS]; /* mrw_far_queue(); NULL on this host. Ranks that are no peers have them too: lanes */
	uint64_t arena;           /* its address for the peer's NICs */
	uint32_t rkey[MRW_MAX_NICS];
	uint32_t path;            /* enum mrw_path */
	uint32_t here, there;     /* slots of peers (wire.h): its in this rank's arena, this rank's in its */
};

/* This rank in one of two trees (collectives/tree.h). */
struct mrw_far_tree {
	uint32_t neighbour[3]; /* ranks: first child, second child, parent; MRW_TREE_NONE: none */
	uint32_t level;        /* hops from the root */
};

/* In memory that kernels see; constant. */
struct mrw_far {
	uint64_t arena;           /* this rank's, for its own NICs */
	uint32_t lkey[MRW_MAX_NICS];
	uint32_t nics;            /* that this rank uses: channel c the one with number c modulo nics, as its peers do */
	/* Along rails (else 0): ranks of one host have numbers below per_host, in rank order; a rail is what has the same number everywhere.
	 * Hosts are numbered by their first ranks. In a ring and in trees every rank is a host of its own here, and host its position: host by host. */
	uint32_t hosts, per_host, host, local;
	uint32_t at[MRW_MAX_RANKS]; /* [host * per_host + local] rank */
	struct mrw_far_tree tree[2]; /* in trees */
	struct mrw_far_peer peer[MRW_MAX_RANKS];
};

/* Some ranks are on other hosts. */
MRW_DEV bool mrw_spans(const struct mrw_args *a)
{
	return MRW_FAR && a->far;
}

MRW_DEV bool mrw_is_far(const struct mrw_args *a, uint32_t p)
{
	return mrw_spans(a) && a->far->peer[p].path == MRW_PATH_FAR;
}

/* p is on this host. */
MRW_DEV bool mrw_is_near(const struct mrw_args *a, uint32_t p)
{
	return p != a->rank && (!mrw_spans(a) || a->far->peer[p].path == MRW_PATH_NEAR);
}

/* This rank and p are peers in collectives. */
MRW_DEV bool mrw_is_peer(const struct mrw_args *a, uint32_t p)
{
	return p != a->rank && (!mrw_spans(a) || a->far->peer[p].path != MRW_PATH_NONE);
}

/* Not every rank is a peer: what all must hear is passed on. */
MRW_DEV bool mrw_is_sparse(const struct mrw_args *a)
{
	return mrw_spans(a) && (a->layout.tree || a->layout.slots != a->nranks - 1);
}

/* Lanes go to all ranks, peers or not; to p by queue pairs. */
MRW_DEV bool mrw_lane_is_far(const struct mrw_args *a, uint32_t p)
{
	return mrw_spans(a) && !a->arena[p];
}

/* Slot of p's lanes in this rank's arena, and of this rank's in p's. */
MRW_DEV uint32_t mrw_lane_here(const struct mrw_args *a, uint32_t p)
{
	return mrw_writer_slot(a->rank, p);
}

MRW_DEV uint32_t mrw_lane_there(const struct mrw_args *a, uint32_t p)
{
	return mrw_writer_slot(p, a->rank);
}

/* Slot of peer p in this rank's arena, and of this rank in p's. */
MRW_DEV uint32_t mrw_slot_here(const struct mrw_args *a, uint32_t p)
{
	return mrw_spans(a) ? a->far->peer[p].here : mrw_writer_slot(a->rank, p);
}

MRW_DEV uint32_t mrw_slot_there(const struct mrw_args *a, uint32_t p)
{
	return mrw_spans(a) ? a->far->peer[p].there : mrw_writer_slot(p, a->rank);
}

/* Where this rank writes what p shall find at (format, channel, parity) in its packets. */
MRW_DEV struct mrw_packet *mrw_packets_to(const struct mrw_args *a, uint32_t format, uint32_t channel, uint32_t p, uint32_t parity)
{
	if (mrw_is_far(a, p))
		return mrw_packets_at(&a->layout, a->arena[a->rank] + a->layout.outbox, format, channel, a->far->peer[p].here, parity);
	return mrw_packets_at(&a->layout, a->arena[p], format, channel, mrw_slot_there(a, p), parity);
}

/* Where this rank finds what p wrote. */
MRW_DEV struct mrw_packet *mrw_packets_from(const struct mrw_args *a, uint32_t format, uint32_t channel, uint32_t p, uint32_t parity)
{
	return mrw_packets_at(&a->layout, a->arena[a->rank], format, channel, mrw_slot_here(a, p), parity);
}

/* The same for staging. */
MRW_DEV uint8_t *mrw_staging_to(const struct mrw_args *a, uint32_t format, uint32_t channel, uint32_t p, uint64_t round)
{
	if (mrw_is_far(a, p))
		return a->arena[a->rank] + a->layout.outbox + mrw_staging_offset(&a->layout, format, channel, a->far->peer[p].here, round);
	return a->arena[p] + mrw_staging_offset(&a->layout, format, channel, mrw_slot_there(a, p), round);
}

MRW_DEV uint8_t *mrw_staging_from(const struct mrw_args *a, uint32_t format, uint32_t channel, uint32_t p, uint64_t round)
{
	return a->arena[a->rank] + mrw_staging_offset(&a->layout, format, channel, mrw_slot_here(a, p), round);
}

MRW_DEV uint32_t mrw_far_nic(const struct mrw_args *a, uint32_t channel)
{
	return a->far->nics == 1 ? 0 : channel % a->far->nics;
}

/* The queue pair to p that all of channel goes by. */
MRW_DEV struct mrw_queue *mrw_far_queue(const struct mrw_args *a, uint32_t channel, uint32_t p)
{
	return a->far->peer[p].queue[mrw_far_nic(a, channel)];
}

/* Request number index of channel's queue pair: bytes at offset from of this rank's arena to offset to of p's. */
MRW_DEV void mrw_far_range(const struct mrw_args *a, uint32_t channel, uint32_t p, uint64_t index, bool signal, uint64_t from, uint64_t to,
			   uint32_t bytes)
{
	const struct mrw_far_peer *peer = &a->far->peer[p];
	uint32_t nic = mrw_far_nic(a, channel);
	(void)mrw_wqe_write(mrw_post_slot(peer->queue[nic], index), index, peer->queue[nic]->qpn, signal, peer->arena + to, peer->rkey[nic],
			    a->far->arena + from, a->far->lkey[nic], bytes);
}

/* Request number index of channel's queue pair, signalled: a word of p's arena. */
MRW_DEV void mrw_far_word(const struct mrw_args *a, uint32_t channel, uint32_t p, uint64_t index, uint64_t to, uint64_t value)
{
	const struct mrw_far_peer *peer = &a->far->peer[p];
	uint32_t nic = mrw_far_nic(a, channel);
	(void)mrw_wqe_write_word(mrw_post_slot(peer->queue[nic], index), index, peer->queue[nic]->qpn, true, peer->arena + to, peer->rkey[nic],
				 value);
}

/* False: one of the queue pairs to p has failed; *failed says how. Looks at all that have completed. */
MRW_DEV bool mrw_far_alive(const struct mrw_args *a, uint32_t p, uint64_t *failed)
{
	for (uint32_t i = 0; i < a->far->nics; i++)
		if (!mrw_poll(a->far->peer[p].queue[i])) {
			*failed = mrw_load_relaxed(&a->far->peer[p].queue[i]->failed);
			return false;
		}
	return true;
}

#define MRW_FAR_POISON_NS 20000000u /* a full ring gets this long: peers have deadlines and sockets of their own */

/* Best effort, bounded: by the first queue pair that is alive. */
MRW_DEV_CALL void mrw_far_poison(const struct mrw_args *a, uint32_t p, uint64_t cause)
{
	uint32_t c = 0;
	while (c + 1 < a->far->nics && mrw_load_relaxed(&mrw_far_queue(a, c, p)->failed) != 0)
		c++;
	struct mrw_queue *q = mrw_far_queue(a, c, p);
	uint64_t index, until = mrw_clock_ns() + MRW_FAR_POISON_NS;
	while (!mrw_post_reserve(q, 1, &index)) {
		if (mrw_load_relaxed(&q->failed) != 0 || mrw_clock_ns() > until)
			return;
		mrw_pause(0, a->spin_limit);
	}
	mrw_far_word(a, c, p, index, offsetof(struct mrw_control, poison), cause);
	mrw_post_ready(q, index, 1);
}

#endif
