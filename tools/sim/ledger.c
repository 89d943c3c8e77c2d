#include "ledger.h"
#include "collectives/tree.h"

#include <stdlib.h>
#include <sys/mman.h>

/* Zeroed memory of which only what is touched is taken. NULL: none. */
static void *reserve(uint64_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

uint64_t sim_chunk_bytes(const struct sim_ledger *l, uint64_t position)
{
	uint64_t block = l->of_block == 1 ? position : position / l->of_block;
	uint64_t from = sim_block_begin(l, block) + (position - block * l->of_block) * l->chunk;
	uint64_t end = sim_block_begin(l, block + 1) < l->buffer ? sim_block_begin(l, block + 1) : l->buffer;
	if (from >= end)
		return 0;
	return end - from < l->chunk ? end - from : l->chunk;
}

bool sim_ledger_open(struct sim_ledger *l, const struct mrw_args *a, uint32_t parts, bool packets, bool on)
{
	uint64_t far_slots = a->layout.slots - a->layout.near_slots;
	memset(l, 0, sizeof *l);
	l->on = on;
	l->nranks = a->nranks;
	l->channels = a->call.channels;
	l->blocks = parts ? parts : a->nranks;
	l->stride = parts > 1 ? mrw_tree_part(a->bytes, 0).bytes : parts == 1 || a->share_bytes == 0 ? a->bytes : a->share_bytes;
	l->buffer = mrw_has_shares(a->call.func) ? a->bytes : l->blocks * a->bytes;
	l->ends = a->call.func == MRW_FUNC_REDUCE_SCATTER_V ? a->ends : NULL;
	l->chunk = packets ? MRW_UNIT_BYTES : a->call.chunk_bytes;
	l->of_block = l->stride ? (l->stride + l->chunk - 1) / l->chunk : 1;
	l->per_stride = 1 / (double)l->stride;
	l->per_chunk = 1 / (double)l->chunk;
	l->per_slot = 1 / (double)a->layout.chunk_bytes;
	l->weight = calloc(a->nranks, sizeof *l->weight);
	l->counted = calloc(a->nranks, sizeof *l->counted);
	l->partial_room = packets && a->units > SIM_PARTIALS ? a->units : SIM_PARTIALS;
	l->partials = calloc((size_t)a->nranks * l->channels * l->partial_room, sizeof *l->partials);
	if (!l->weight || !l->counted || !l->partials)
		return false;
	for (uint32_t r = 0; r < a->nranks; r++) {
		uint32_t x = (r + 1) * 0x9e3779b1u; /* odd, then shifts: one to one, and never 0 */
		x ^= x >> 15;
		l->weight[r] = x * 0x85ebca6bu;
		l->total += l->weight[r];
	}
	if (!on)
		return true;
	l->near_room = (uint64_t)l->channels * a->layout.near_slots * MRW_ROUND_SLOTS * a->layout.cells;
	l->far_room = (uint64_t)l->channels * far_slots * MRW_ROUND_SLOTS;
	if (packets) {
		bool differ = !mrw_has_shares(a->call.func) && a->call.func != MRW_FUNC_BARRIER; /* a block for each host in near slots */
		l->far_units = a->units ? a->units : 1; /* a barrier's */
		l->near_units = differ ? l->far_units * a->layout.cells : l->far_units;
		l->near_room = (uint64_t)l->channels * a->layout.near_slots * l->near_units;
		l->far_room = (uint64_t)l->channels * far_slots * l->far_units;
	}
	l->words = (l->blocks * l->of_block + 63) / 64;
	for (uint32_t f = 0; f < MRW_FORMATS; f++) {
		if (l->near_room && !(l->near[f] = reserve(a->nranks * l->near_room * sizeof(uint32_t))))
			return false;
		if (l->far_room && !(l->far[f] = reserve(a->nranks * l->far_room * sizeof(uint32_t))))
			return false;
	}
	l->done = reserve(a->nranks * l->words * sizeof(uint64_t));
	return l->done != NULL;
}

static void release(void *p, uint64_t bytes)
{
	if (p)
		munmap(p, bytes);
}

void sim_ledger_close(struct sim_ledger *l)
{
	for (uint32_t f = 0; f < MRW_FORMATS; f++) {
		release(l->near[f], l->nranks * l->near_room * sizeof(uint32_t));
		release(l->far[f], l->nranks * l->far_room * sizeof(uint32_t));
	}
	release(l->done, l->nranks * l->words * sizeof(uint64_t));
	free(l->weight);
	free(l->counted);
	free(l->partials);
	memset(l, 0, sizeof *l);
}
