/* routes.h - how the transfers of a launch are dealt to routes and teams: pure functions. exchange.c makes launches of them. */
#ifndef MRW_ROUTES_H
#define MRW_ROUTES_H

#include "schedule.h"

/* Other end of route number q (1 ... nranks - 1) of a way: the right neighbour first, so that no one is hit by all. */
MRW_PURE uint32_t mrw_route_peer(uint32_t rank, uint32_t nranks, uint32_t q, enum mrw_way way)
{
	return (rank + (way == MRW_WAY_OUT ? q : nranks - q)) % nranks;
}

/* Lanes that a transfer's chunks can use, if there are as many; 0: it goes as packets. */
MRW_PURE uint64_t mrw_transfer_width(const struct mrw_layout *l, uint64_t bytes, bool cuda)
{
	return bytes <= mrw_transfer_small(l, cuda) ? 0 : bytes / mrw_transfer_chunk_bytes(l, bytes) + 1;
}

/* Lanes that a route of count transfers can use at once; width: the most of one of them. */
MRW_PURE uint32_t mrw_route_lanes(const struct mrw_layout *l, uint64_t count, uint64_t width)
{
	uint64_t most = count > width ? count : width;
	return most < l->lanes ? (uint32_t)most : l->lanes;
}

/* Teams for routes of so many lanes each: as far as cap allows the same number for each; and for what a rank sends itself, 64 KiB each. */
MRW_PURE uint32_t mrw_route_teams(uint32_t routes, uint32_t lanes, uint64_t self_bytes, uint32_t cap)
{
	uint64_t copiers = self_bytes / (64u << 10);
	uint32_t teams = routes * lanes;
	if (teams > cap)
		teams = cap >= routes ? cap / routes * routes : cap;
	copiers = copiers < cap ? copiers : cap;
	return teams > copiers ? teams : (uint32_t)copiers;
}

#endif
