/* transfer.h - point to point: what a launch is to move between pairs of ranks, and how a fault names one of its transfers.
 *
 * A launch has a list of transfers, those of one peer and way in a row: a route. Its lanes (wire.h) take them in that order. */
#ifndef MRW_TRANSFER_H
#define MRW_TRANSFER_H

#include "far.h"
#include "page.h"

/* The unit that is compiled has bodies that make transfers: their faults name them. Others leave that out. */
#ifndef MRW_TRANSFERS
#define MRW_TRANSFERS 0
#endif

struct mrw_transfer {
	uint8_t *buffer;       /* read where way is OUT */
	uint64_t bytes;
	uint8_t peer, way;     /* enum mrw_way */
	uint8_t func, type;    /* for messages: enum mrw_func, enum marrow_type */
	uint32_t reserved;
};
MRW_STATIC_ASSERT(sizeof(struct mrw_transfer) == 24, "kernel parameters are few");

struct mrw_route {
	uint32_t first, count; /* in the list */
	uint8_t peer, way;
	uint8_t lanes;         /* that have something to do, from the home of its first transfer on */
	uint8_t reserved;
};

#define MRW_MAX_ROUTES 64u /* of a CUDA launch: with 32 others, both ways */
#define MRW_ALL_ROUTES (2 * (MRW_MAX_RANKS - 1))
#define MRW_LISTED 77u

/* Routes and list of a launch on the host target: as many as there are. */
struct mrw_lists {
	const struct mrw_route *route;
	const struct mrw_transfer *list;
};

/* A launch's arguments. 4096 bytes of parameters are what every CUDA takes. */
struct mrw_transfers {
	struct mrw_args a;     /* first: bodies get a pointer to it */
	const struct mrw_lists *more; /* host target: instead of route and list below, or NULL */
	uint32_t routes;
	uint32_t selves, first_self; /* pairs (send, recv) of a rank with itself, in a row */
	struct mrw_route route[MRW_MAX_ROUTES];
	struct mrw_transfer list[MRW_LISTED];
};
MRW_STATIC_ASSERT(sizeof(struct mrw_transfers) <= 4096 || MRW_MAX_RANKS > 64, "kernel parameters"); /* the simulator has no kernels */
MRW_STATIC_ASSERT(MRW_LISTED >= MRW_MAX_ROUTES + 2, "one of each route, and a pair of self");

MRW_DEV const struct mrw_transfers *mrw_transfers_of(const struct mrw_args *a)
{
	return (const struct mrw_transfers *)(const void *)a;
}

MRW_DEV const struct mrw_transfer *mrw_transfer_at(const struct mrw_transfers *m, uint32_t index)
{
	return (!MRW_ON_CUDA && m->more ? m->more->list : m->list) + index;
}

MRW_DEV const struct mrw_route *mrw_route_at(const struct mrw_transfers *m, uint32_t index)
{
	return (!MRW_ON_CUDA && m->more ? m->more->route : m->route) + index;
}

/* Both ends of a send must say the same. */
MRW_PURE uint32_t mrw_line_words(uint32_t func, uint32_t type)
{
	return (func == MRW_FUNC_RECV ? (uint32_t)MRW_FUNC_SEND : func) | type << 8;
}

/* True once the other end has said what its transfer of this number is. */
MRW_DEV bool mrw_line_heard(const struct mrw_layout *l, const struct mrw_lane *lane, uint64_t number, uint64_t *bytes, uint32_t *words)
{
	const uint64_t *unit = lane->heard[number >> l->lane_shift & 1].unit;
	uint64_t low = mrw_load_relaxed(&unit[0]), high = mrw_load_relaxed(&unit[1]), said = mrw_load_relaxed(&unit[2]);
	uint32_t flag = (uint32_t)(number + 1);
	*bytes = (low & 0xffffffffu) | high << 32;
	*words = (uint32_t)said;
	return (uint32_t)(low >> 32) == flag && (uint32_t)(high >> 32) == flag && (uint32_t)(said >> 32) == flag;
}

/* Types may differ: bytes travel. */
MRW_DEV bool mrw_line_differs(const struct mrw_transfer *t, uint64_t bytes, uint32_t words)
{
	return bytes != t->bytes || (words & 0xff) != (mrw_line_words(t->func, t->type) & 0xff);
}

/* struct mrw_where.channel of a wait for a transfer: its lane and its place in the list. */
MRW_PURE uint32_t mrw_transfer_place(uint32_t lane, uint32_t index)
{
	return lane | (index + 1) << 8;
}

/* A transfer as a call: op is 1 where the rank sends, 2 where it receives, root the other end, count in bytes: the host knows the types. */
MRW_DEV void mrw_transfer_call(struct mrw_call *call, uint32_t func, uint32_t type, bool sends, uint32_t other, uint64_t bytes, uint64_t number)
{
	memset(call, 0, sizeof *call);
	call->seq = (uint32_t)number;
	call->func = (uint8_t)(func == MRW_FUNC_SEND && !sends ? (uint32_t)MRW_FUNC_RECV : func);
	call->type = (uint8_t)type;
	call->op = sends ? 1 : 2;
	call->algo = MRW_ALGO_TRANSFERS;
	call->root = other;
	call->count = bytes;
	call->hash = 1;
}

/* Puts the transfer that w stands at into a record, and what its other end says of it. */
MRW_DEV_CALL void mrw_record_transfer(const struct mrw_args *a, uint32_t place, uint32_t seq, struct mrw_record *r)
{
	const struct mrw_transfers *m = mrw_transfers_of(a);
	if (place >> 8 == 0)
		return;
	const struct mrw_transfer *t = mrw_transfer_at(m, (place >> 8) - 1);
	r->channel = place & 0xff;
	if (!mrw_is_pairwise(a->call.func) && r->kind != MRW_FAULT_MISMATCH)
		return;
	const struct mrw_lane *lane = mrw_lane_at(&a->layout, a->arena[a->rank], (enum mrw_way)t->way, place & 0xff, mrw_lane_here(a, t->peer));
	uint32_t words = 0, from = 0;
	for (uint32_t i = 0; i < m->routes; i++)
		if (mrw_route_at(m, i)->peer == t->peer && mrw_route_at(m, i)->way == t->way)
			from = mrw_route_at(m, i)->first;
	uint64_t bytes = 0, number = lane->first + ((place >> 8) - 1 - from);
	bool heard = mrw_line_heard(&a->layout, lane, number, &bytes, &words);
	if (!mrw_is_pairwise(a->call.func) && !(heard && mrw_line_differs(t, bytes, words)))
		return; /* the calls differ */
	mrw_transfer_call(&r->mine, t->func, t->type, t->way == MRW_WAY_OUT, t->peer, t->bytes, number);
	if (!mrw_is_pairwise(a->call.func))
		r->mine.seq = seq;
	if (heard)
		mrw_transfer_call(&r->theirs, words & 0xff, words >> 8 & 0xff, t->way == MRW_WAY_IN, a->rank, bytes, number);
	else
		memset(&r->theirs, 0, sizeof r->theirs);
}

#endif
