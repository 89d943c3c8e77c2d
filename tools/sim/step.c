#include "step.h"
#include "collectives/schedule.h"

#include <stdarg.h>
#include <stdio.h>

struct sim_step sim;

void sim_fault(const char *format, ...)
{
	va_list args;
	if (sim.fault[0])
		return;
	va_start(args, format);
	vsnprintf(sim.fault, sizeof sim.fault, format, args);
	va_end(args);
}

uint32_t sim_peer(const struct mrw_reach *reach, uint32_t rank, uint32_t slot)
{
	if (reach->ring) {
		uint32_t n = reach->nranks, p = reach->position[rank];
		return sim.far.at[slot == 0 ? mrw_ring_left(p, 1, n) : mrw_ring_left(p, n - 1, n)];
	}
	if (reach->tree)
		return sim.tree_peers[rank][slot];
	if (!reach->rails)
		return slot < rank ? slot : slot + 1;
	uint32_t near = reach->per_host - 1, host = reach->host[rank], local = reach->local[rank];
	if (slot < near)
		return sim.far.at[host * reach->per_host + (slot < local ? slot : slot + 1)];
	slot -= near;
	return sim.far.at[(slot < host ? slot : slot + 1) * reach->per_host + local];
}

uint32_t sim_tree_slot(uint32_t rank, uint32_t peer)
{
	uint32_t slot = 0;
	while (slot < MRW_TREE_PEERS && sim.tree_peers[rank][slot] != peer)
		slot++;
	if (slot == MRW_TREE_PEERS)
		sim_fault("rank %u sends to or waits for rank %u, which is no neighbour of it", sim.args.rank, rank == sim.args.rank ? peer : rank);
	return slot < MRW_TREE_PEERS ? slot : 0;
}

uint64_t sim_staging_index(uint64_t offset, uint32_t *format, bool *near)
{
	const struct mrw_layout *l = &sim.args.layout;
	uint64_t base = 0;
	*format = 0;
	*near = false;
	for (uint32_t f = 0; f < MRW_FORMATS; f++) {
		if (l->near_slots && offset >= l->near_staging_offset[f] && l->near_staging_offset[f] >= base) {
			base = l->near_staging_offset[f];
			*format = f;
			*near = true;
		}
		if (l->slots > l->near_slots && offset >= l->staging_offset[f] && l->staging_offset[f] >= base) {
			base = l->staging_offset[f];
			*format = f;
			*near = false;
		}
	}
	return sim_quotient(offset - base, l->chunk_bytes, sim.ledger.per_slot);
}

uint32_t *sim_staged(uint64_t rank, uint64_t index, uint32_t format, bool near)
{
	const struct sim_ledger *l = &sim.ledger;
	if (near)
		return &l->near[format][rank * l->near_room + index];
	uint64_t half = l->far_room / MRW_ROUND_SLOTS;
	return &l->far[format][(index % MRW_ROUND_SLOTS * l->nranks + rank) * half + index / MRW_ROUND_SLOTS];
}

/* What the output keeps of a position; make: or a place for it, NULL: none is left. */
static struct sim_partial *partial(uint64_t position, bool make)
{
	const struct sim_ledger *l = &sim.ledger;
	struct sim_partial *p = &l->partials[((uint64_t)sim.args.rank * l->channels + sim.channel) * l->partial_room], *empty = NULL;
	for (uint32_t i = 0; i < SIM_PARTIALS; i++) {
		struct sim_partial *at = &p[(position + i) % l->partial_room];
		if (at->position == position + 1)
			return at;
		empty = at->position == 0 && !empty ? at : empty;
	}
	return make ? empty : NULL;
}

/* Where a buffer's offset lies in the buffer of all blocks. */
static uint64_t in_place(uint64_t offset)
{
	return sim.args.call.func == MRW_FUNC_ALL_GATHER ? offset + (uint64_t)sim.args.rank * sim.args.bytes : offset;
}

static uint64_t out_place(uint64_t offset)
{
	return sim_scatters(sim.args.call.func) ? offset + mrw_block_at(&sim.args, sim.args.rank).offset : offset;
}

/* What must be at a position at last. */
static uint32_t final(uint64_t position)
{
	const struct sim_ledger *l = &sim.ledger;
	uint32_t weight = l->total;
	if (sim.args.call.func == MRW_FUNC_ALL_GATHER)
		weight = l->weight[position / l->of_block];
	else if (sim.args.call.func == MRW_FUNC_BROADCAST)
		weight = l->weight[sim.args.call.root];
	return weight * sim_factor(position);
}

static void check_bytes(uint64_t position, uint64_t bytes, const char *what)
{
	if (bytes != sim_chunk_bytes(&sim.ledger, position))
		sim_fault("rank %u %s %llu bytes of chunk %llu of block %llu, which has %llu", sim.args.rank, what, (unsigned long long)bytes,
			  (unsigned long long)(position % sim.ledger.of_block), (unsigned long long)(position / sim.ledger.of_block),
			  (unsigned long long)sim_chunk_bytes(&sim.ledger, position));
}

uint32_t sim_load(const uint8_t *at, uint64_t bytes)
{
	const struct sim_ledger *l = &sim.ledger;
	uint64_t address = (uint64_t)at, offset = address & ((1ull << 40) - 1), position;
	uint32_t format;
	bool near;
	if (address >= (uint64_t)SIM_OUT) {
		position = sim_position(l, out_place(offset));
		const struct sim_partial *p = partial(position, false);
		if (p)
			return p->value;
		if (l->done[sim.args.rank * l->words + position / 64] >> position % 64 & 1)
			return final(position);
		sim_fault("rank %u reads chunk %llu of block %llu of its output, which nobody wrote", sim.args.rank,
			  (unsigned long long)(position % l->of_block), (unsigned long long)(position / l->of_block));
		return 0;
	}
	if (address >= (uint64_t)SIM_IN) {
		position = sim_position(l, in_place(offset));
		check_bytes(position, bytes, "reads");
		if (sim.args.call.func == MRW_FUNC_BROADCAST && sim.args.rank != sim.args.call.root)
			sim_fault("rank %u, not the root, reads its input", sim.args.rank);
		return l->weight[sim.args.rank] * sim_factor(position);
	}
	if (address >> 40 != (uint64_t)sim.args.rank + 1) {
		sim_fault("rank %u reads another rank's arena", sim.args.rank);
		return 0;
	}
	position = sim_staging_index(offset, &format, &near);
	return *sim_staged(sim.args.rank, position, format, near);
}

uint32_t sim_arrives(const struct mrw_args *a, uint32_t format, uint32_t p)
{
	return 1u << (sim.arrives ? sim.arrives(a, format, p) : sim.phase);
}

void sim_await(uint32_t slot, bool far)
{
	if (sim.awaited[slot] == sim.stamp)
		return;
	sim.awaited[slot] = sim.stamp;
	sim.await_near += !far;
	sim.await_far += far;
}

uint32_t *sim_packet(const uint8_t *at)
{
	const struct mrw_layout *y = &sim.args.layout;
	const struct sim_ledger *l = &sim.ledger;
	uint64_t address = (uint64_t)at, offset = address & ((1ull << 40) - 1), rank = (address >> 40) - 1, base = 0;
	bool outbox = sim_is_outbox(at), near = false;
	uint32_t format = 0;
	offset -= outbox ? y->outbox : 0;
	for (uint32_t f = 0; f < y->packet_formats; f++) {
		if (y->near_slots && offset >= y->near_packets_offset[f] && y->near_packets_offset[f] >= base) {
			base = y->near_packets_offset[f];
			format = f;
			near = true;
		}
		if (y->slots > y->near_slots && offset >= y->packets_offset[f] && y->packets_offset[f] >= base) {
			base = y->packets_offset[f];
			format = f;
			near = false;
		}
	}
	uint64_t index = (offset - base) / sizeof(struct mrw_packet), place = index / y->units / 2, unit = index % y->units;
	uint32_t slots = near ? y->near_slots : y->slots - y->near_slots;
	if (outbox) {
		uint32_t p = sim_peer(&sim.reach, (uint32_t)rank, y->near_slots + (uint32_t)(place % slots));
		place = place / slots * slots + sim_slot(p, (uint32_t)rank) - y->near_slots;
		rank = p;
	}
	uint64_t used = near ? l->near_units : l->far_units;
	if (unit >= used) {
		static uint32_t nowhere;
		sim_fault("rank %u uses packet %llu of a slot, where a channel has %llu", sim.args.rank, (unsigned long long)unit, (unsigned long long)used);
		return &nowhere;
	}
	return near ? &l->near[format][rank * l->near_room + place * used + unit] : &l->far[format][rank * l->far_room + place * used + unit];
}

/* Number of a line in its rank's arena: (channel * slots + slot) * lines of a slot + line. */
static uint64_t line_number(const uint8_t *at)
{
	const struct mrw_layout *y = &sim.args.layout;
	uint64_t offset = ((uint64_t)at & ((1ull << 40) - 1)) - y->lines_offset, index = offset / MRW_LINE_BYTES / y->lines / 2;
	return index * y->lines + offset / MRW_LINE_BYTES % y->lines;
}

uint32_t sim_line_slot(const uint8_t *at)
{
	const struct mrw_layout *y = &sim.args.layout;
	return (uint32_t)(line_number(at) / y->lines % y->slots);
}

uint32_t *sim_line(const uint8_t *at)
{
	const struct mrw_layout *y = &sim.args.layout;
	const struct sim_ledger *l = &sim.ledger;
	uint64_t number = line_number(at), unit = number % y->lines * MRW_LINE_UNITS;
	if (unit + MRW_LINE_UNITS > l->far_units) {
		static uint32_t nowhere[MRW_LINE_UNITS];
		sim_fault("rank %u uses line %llu of a slot, where a channel has %llu", sim.args.rank, (unsigned long long)(number % y->lines),
			  (unsigned long long)(l->far_units / MRW_LINE_UNITS));
		return nowhere;
	}
	return &l->far[0][sim_rank_of(at) * l->far_room + number / y->lines * l->far_units + unit];
}

static void store_out(uint64_t position, uint64_t bytes, uint32_t value)
{
	struct sim_ledger *l = &sim.ledger;
	uint64_t *word = &l->done[sim.args.rank * l->words + position / 64], bit = 1ull << position % 64;
	struct sim_partial *p = partial(position, value != final(position));
	check_bytes(position, bytes, "writes");
	if (value != final(position)) {
		if (p)
			*p = (struct sim_partial){position + 1, value};
		else
			sim_fault("rank %u has written to its output what is no result, more than once: at last chunk %llu of block %llu", sim.args.rank,
				  (unsigned long long)(position % l->of_block), (unsigned long long)(position / l->of_block));
		return;
	}
	if (p)
		p->position = 0;
	l->counted[sim.args.rank] += !(*word & bit);
	*word |= bit;
}

bool sim_is_outbox(const uint8_t *at)
{
	const struct mrw_layout *l = &sim.args.layout;
	return l->outbox > 0 && ((uint64_t)at & ((1ull << 40) - 1)) >= l->outbox + l->packets_offset[0];
}

void sim_store(uint8_t *at, uint64_t bytes, uint32_t value)
{
	struct sim_ledger *l = &sim.ledger;
	uint64_t address = (uint64_t)at, offset = address & ((1ull << 40) - 1), rank = (address >> 40) - 1, index;
	uint32_t format;
	bool near;
	if (address >= (uint64_t)SIM_OUT) {
		store_out(sim_position(l, out_place(offset)), bytes, value);
		return;
	}
	if (address >= (uint64_t)SIM_IN) {
		sim_fault("rank %u writes to its input", sim.args.rank);
		return;
	}
	if (rank != sim.args.rank || !sim_is_outbox(at)) { /* mapped: a rank of this host, or what this one puts aside */
		index = sim_staging_index(offset, &format, &near);
		*sim_staged(rank, index, format, near) = value;
		return;
	}
	/* The outbox: on its way to the peer's slot already, which nobody reads before the round's counter. */
	index = sim_staging_index(offset - sim.args.layout.outbox, &format, &near);
	const struct mrw_layout *y = &sim.args.layout;
	uint32_t slots = y->slots - y->near_slots, slot = (uint32_t)(index / MRW_ROUND_SLOTS % slots), channel = (uint32_t)(index / MRW_ROUND_SLOTS / slots);
	uint32_t p = sim_peer(&sim.reach, sim.args.rank, y->near_slots + slot), there = sim_slot(p, sim.args.rank) - y->near_slots;
	*sim_staged(p, ((uint64_t)channel * slots + there) * MRW_ROUND_SLOTS + index % MRW_ROUND_SLOTS, format, false) = value;
}
