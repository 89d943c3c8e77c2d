#include "pairs.h"
#include "collectives/routes.h"

static struct sim_move gather(const struct mrw_args *a, uint32_t src, uint32_t dst)
{
	struct mrw_span block = mrw_block_at(a, src);
	return (struct sim_move){dst == a->call.root, 0, block.offset, block.bytes};
}

static struct sim_move scatter(const struct mrw_args *a, uint32_t src, uint32_t dst)
{
	struct mrw_span block = mrw_block_at(a, dst);
	return (struct sim_move){src == a->call.root, block.offset, 0, block.bytes};
}

struct sim_move sim_move_of(const struct mrw_args *a, uint32_t src, uint32_t dst)
{
	switch (a->call.func) {
	case MRW_FUNC_GATHER:
		return gather(a, src, dst);
	case MRW_FUNC_SCATTER:
		return scatter(a, src, dst);
	case MRW_FUNC_ALL_GATHER_V: {
		struct mrw_span block = mrw_block_at(a, src);
		return (struct sim_move){true, 0, block.offset, block.bytes};
	}
	case MRW_FUNC_TRANSFERS:
		return (struct sim_move){(src + a->call.root) % a->nranks == dst, 0, 0, a->bytes};
	default: { /* all to all: every rank cuts its input alike */
		struct mrw_span block = mrw_block_at(a, dst);
		return (struct sim_move){true, block.offset, src * block.bytes, block.bytes};
	}
	}
}

uint32_t sim_move_teams(const struct mrw_args *a, uint32_t rank, uint32_t cap)
{
	uint32_t routes = 0, lanes = 1;
	uint64_t self_bytes = 0;
	for (uint32_t p = 0; p < a->nranks; p++)
		for (uint32_t way = 0; way < MRW_WAYS; way++) {
			struct sim_move m = way == MRW_WAY_OUT ? sim_move_of(a, rank, p) : sim_move_of(a, p, rank);
			if (!m.is)
				continue;
			uint32_t own = mrw_route_lanes(&a->layout, 0, mrw_transfer_width(&a->layout, m.bytes, true));
			if (p == rank)
				self_bytes = m.bytes;
			else
				routes++;
			lanes = p != rank && own > lanes ? own : lanes;
		}
	uint32_t teams = mrw_route_teams(routes, lanes, self_bytes, cap);
	return teams ? teams : 1;
}

uint64_t sim_move_comes(const struct mrw_args *a, uint32_t rank)
{
	uint64_t bytes = 0;
	for (uint32_t p = 0; p < a->nranks; p++) {
		struct sim_move m = sim_move_of(a, p, rank);
		bytes += m.is ? m.bytes : 0;
	}
	return bytes;
}
