/* reduce_rail.h - all-reduce, reduce and reduce-scatter of large messages along rails: sums within each host in rank order, rounded to the type,
 * then the hosts' sums in the order of hosts, rounded once more. A reduce's go to the root's host only, and there to the root. Compiled once per
 * type. */
#ifndef MRW_REDUCE_RAIL_H
#define MRW_REDUCE_RAIL_H

#include "rail.h"
#include "reduce_bulk.h"

/* Exchange 0: chunks of my input to those who sum them for this host. */
MRW_DEV_CALL void mrw_rail_push(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t index,
			   mrw_acc scalar)
{
	for (uint32_t q = 1; q < a->far->per_host; q++) {
		uint32_t local = mrw_rail_local(a, q);
		uint8_t *cells = mrw_staging_to(a, 0, channel, mrw_rail_rank(a, a->far->host, local), round);
		for (uint32_t h = 0; h < a->far->hosts; h++) {
			struct mrw_chunk c = mrw_rail_chunk(a, channel, h, local, index);
			uint8_t *cell = cells + (uint64_t)h * a->layout.chunk_bytes;
			if (a->scaled)
				mrw_push_scaled(team, cell, a->in + c.offset, c.bytes, scalar);
			else
				mrw_copy(team, cell, a->in + c.offset, c.bytes);
		}
	}
}

/* The place of my host's sum of chunk index of my own block from round to the next, and of the final sum if it stays here. */
MRW_DEV uint8_t *mrw_rail_place(const struct mrw_args *a, uint32_t channel, uint64_t round, uint64_t index)
{
	if (mrw_is_sender(a))
		return mrw_rail_aside(a, channel, round, 0);
	if (mrw_has_shares(a->call.func))
		return a->out + mrw_rail_chunk(a, channel, a->far->host, a->far->local, index).offset;
	return a->out + mrw_chunk(mrw_block_at(a, a->rank).bytes, a->call.chunk_bytes, a->call.channels, channel, index).offset;
}

/* Exchange 1: the sum over this host of chunk index of the block that my rail's rank on host owns. */
MRW_DEV struct mrw_sum mrw_rail_host_sum(uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t index, uint32_t host)
{
	struct mrw_chunk c = mrw_rail_chunk(a, channel, host, a->far->local, index);
	struct mrw_sum s;
	memset(&s, 0, sizeof s);
	s.own = a->in + c.offset;
	s.staged = a->arena[a->rank] + mrw_staging_offset(&a->layout, 0, channel, 0, round - a->call.lag) + (uint64_t)host * a->layout.chunk_bytes;
	s.out = host == a->far->host ? mrw_rail_place(a, channel, round, index)
				     : mrw_staging_to(a, 0, channel, mrw_rail_rank(a, host, a->far->local), round);
	s.stride = mrw_staging_stride(&a->layout, true);
	s.bytes = c.bytes;
	s.rank = a->far->local;
	s.nranks = s.divisor = a->far->per_host;
	s.own_alignment = mrw_alignment(s.own);
	s.out_alignment = mrw_alignment(s.out);
	s.scaled = a->scaled != 0;
	s.scalar = mrw_scalar(a);
	return s;
}

/* Exchange 2: the sum of the hosts' sums of chunk index of my block. home: where a reduce's goes. */
MRW_DEV struct mrw_sum mrw_rail_sum(uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t index, uint32_t home)
{
	struct mrw_sum s;
	memset(&s, 0, sizeof s);
	s.own = s.out = mrw_rail_place(a, channel, round - a->call.lag, index);
	if (mrw_is_sender(a))
		s.out = home == a->far->host ? mrw_rail_aside(a, channel, round, 1)
					     : mrw_staging_to(a, 1, channel, mrw_rail_rank(a, home, a->far->local), round);
	s.staged = a->arena[a->rank] + mrw_staging_offset(&a->layout, 0, channel, a->layout.near_slots, round - a->call.lag);
	s.first = a->arena[a->rank] + a->layout.outbox + mrw_staging_offset(&a->layout, 1, channel, a->layout.near_slots, round);
	s.stride = mrw_staging_stride(&a->layout, false);
	s.bytes = mrw_rail_chunk(a, channel, a->far->host, a->far->local, index).bytes;
	s.rank = a->far->host;
	s.nranks = a->far->hosts;
	s.divisor = a->nranks;
	s.own_alignment = mrw_alignment(s.own);
	s.out_alignment = mrw_alignment(s.out);
	s.forward = a->call.func == MRW_FUNC_ALL_REDUCE;
	s.average = a->average != 0;
	return s;
}

MRW_DEV_CALL void mrw_rail_add_host(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t index)
{
	for (uint32_t q = 0; q < a->far->hosts; q++) {
		uint32_t host = mrw_rail_host(a, q);
		struct mrw_sum s = mrw_rail_host_sum(channel, a, round, index, host);
		mrw_sum_any(team->index * MRW_VEC_BYTES, team->size * MRW_VEC_BYTES, a, &s);
		if (q > 0)
			mrw_stage_note(team, a, 0, channel, mrw_rail_rank(a, host, a->far->local), round, s.bytes);
	}
}

MRW_DEV_CALL void mrw_rail_add_all(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t index,
				   uint32_t home)
{
	struct mrw_sum s = mrw_rail_sum(channel, a, round, index, home);
	mrw_sum_any(team->index * MRW_VEC_BYTES, team->size * MRW_VEC_BYTES, a, &s);
	for (uint32_t q = 1; s.forward && q < a->far->hosts; q++)
		mrw_stage_note(team, a, 1, channel, mrw_rail_rank(a, mrw_rail_host(a, q), a->far->local), round, s.bytes);
	if (mrw_is_sender(a) && home != a->far->host)
		mrw_stage_note(team, a, 1, channel, mrw_rail_rank(a, home, a->far->local), round, s.bytes);
}

MRW_DEV void mrw_reduce_rail_round(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint64_t round, uint64_t t,
				   uint64_t chunks, uint32_t home, mrw_acc scalar)
{
	uint64_t index[5];
	for (uint32_t s = 0; s < 5; s++)
		index[s] = mrw_rail_index(a->call.func, s, t, a->call.lag);
	if (index[0] < chunks)
		mrw_rail_push(team, channel, a, round, index[0], scalar);
	if (index[1] < chunks)
		mrw_rail_add_host(team, channel, a, round, index[1]);
	if (index[2] < chunks)
		mrw_rail_add_all(team, channel, a, round, index[2], home);
	if (index[3] < chunks && home == a->far->hosts)
		mrw_rail_spread(team, channel, a, round, index[3], home);
	if (index[3] < chunks && home == a->far->host)
		mrw_rail_deliver(team, channel, a, round, index[3]);
	if (index[4] < chunks && !mrw_is_sender(a))
		mrw_rail_collect(team, channel, a, round, index[4]);
}

MRW_DEV void mrw_reduce_rail(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	struct mrw_op op;
	uint64_t chunks = mrw_rail_chunks(a, channel), rounds = mrw_rail_rounds(a->call.func, chunks, a->call.lag);
	if (mrw_team_is_signal(team)) {
		mrw_rounds_signal(team, channel, a, rounds);
		return;
	}
	uint32_t home = mrw_rail_home(a);
	bool ok = mrw_op_begin_rounds(team, channel, a, &op);
	mrw_acc scalar = mrw_scalar(a);
	for (uint64_t t = 0; t < rounds; t++) {
		uint64_t round = op.round + t;
		ok = mrw_rounds_wait(team, channel, a, op.seq, round, a->call.lag, ok);
		if (!ok)
			break;
		mrw_reduce_rail_round(team, channel, a, round, t, chunks, home, scalar);
		mrw_rounds_publish(team, channel, a, round);
	}
	ok = mrw_rounds_drain(team, channel, a, op.seq, op.round + rounds, ok);
	mrw_rounds_keep(team, channel, a, op.round + rounds);
	mrw_op_end(team, channel, a, &op, ok);
}

#endif
