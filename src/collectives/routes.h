/* routes.h - how the transfers of a launch are dealt to routes and teams: pure functions. exchange.c makes launches of them. */
#ifndef MRW_ROUTES_H
#define MRW_ROUTES_H

#include "schedule.h"

/* Other end of route number q (1 ... nranks - 1) of a way: the right neighbour first, so that no one is hit by all. */
MRW_PURE uint32_t mrw_route_peer(uint32_t rank, uint32_t nranks, uint32_t q, enum mrw_way way)
{
	return (rank + (way == MRW_WAY_OUT ? q : nranks - q)) % nranks;
}

/* Chunks of a transfer; 0: it goes as packets. */
MRW_PURE uint64_t mrw_transfer_width(const struct mrw_layout *l, uint64_t bytes, bool cuda)
{
	uint64_t size = mrw_transfer_chunk_bytes(l, bytes);
	return bytes <= mrw_transfer_small(l, cuda) ? 0 : bytes / size + (bytes % size != 0);
}

/* Lanes of a route that its transfers up to number place, of that width, have something to do for: from the home of its first one on. */
MRW_PURE uint32_t mrw_route_lanes(const struct mrw_layout *l, uint64_t place, uint64_t width)
{
	uint64_t most = place + (width ? width : 1);
	return most < l->lanes ? (uint32_t)most : l->lanes;
}

/* Teams for routes of so many lanes each: as far as cap allows the same number for each; and for what a rank sends itself, 64 KiB each. */
MRW_PURE uint32_t mrw_route_teams(uint32_t routes, uint32_t lanes, uint64_t self_bytes, uint32_t cap)
{
	uint64_t copiers = self_bytes / (64u << 10);
	uint32_t most = cap >= routes && routes > 0 ? cap / routes * routes : cap, teams = routes * lanes;
	if (routes > 0)
		copiers = (copiers + routes - 1) / routes * routes;
	teams = teams > copiers ? teams : copiers < most ? (uint32_t)copiers : most;
	return teams < most ? teams : most;
}

#endif
