/* select.c - thresholds come from measurement (two H200s; a 2-core host); ARCHITECTURE.md has the table. */
#include "select.h"
#include "tree.h"

#include <string.h>

/* What a block moves with one vector a thread; 32 threads are its signal warp. */
#define MRW_STEP_BYTES ((MRW_BLOCK_THREADS - 32) * 16u)

static const char *const names[MRW_ALGO_COUNT] = {"local", "oneshot", "lines", "twoshot", "bulk", "railshot", "rail", "ring", "treeshot", "tree"};

const char *mrw_algo_name(enum mrw_algo algo)
{
	return (uint32_t)algo < MRW_ALGO_COUNT ? names[algo] : "?";
}

int32_t mrw_algo_from_name(const char *name)
{
	for (int32_t a = MRW_ALGO_ONESHOT; a < MRW_ALGO_COUNT; a++)
		if (strcmp(name, names[a]) == 0)
			return a;
	return -1;
}

static uint32_t channels_max(const struct mrw_select_input *in)
{
	uint32_t cap = in->forced_channels ? in->forced_channels : in->channel_cap;
	return cap < in->layout.channels ? cap : in->layout.channels;
}

static bool on_rails(const struct mrw_select_input *in)
{
	return in->layout.near_slots > 0;
}

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

/* Units of the largest block that travels as packets in one exchange. */
static uint64_t packet_units(const struct mrw_select_input *in, enum mrw_algo algo)
{
	if (algo == MRW_ALGO_TREESHOT)
		return ceil_div(mrw_tree_part(in->bytes, 0).bytes, MRW_UNIT_BYTES);
	return ceil_div(algo == MRW_ALGO_TWOSHOT ? mrw_block(in->func, in->bytes, in->nranks, 0).bytes : in->bytes, MRW_UNIT_BYTES);
}

/* Units of a block that one channel can carry: along rails a near slot holds a block for each host where these differ. */
static uint64_t units_room(const struct mrw_select_input *in, enum mrw_algo algo)
{
	bool differ = in->func == MRW_FUNC_ALL_GATHER || in->func == MRW_FUNC_REDUCE_SCATTER;
	return algo == MRW_ALGO_RAILSHOT && differ ? in->layout.units / in->layout.cells : in->layout.units;
}

uint64_t mrw_oneshot_max_bytes(const struct mrw_layout *layout, uint32_t channel_cap)
{
	return (uint64_t)layout->units * MRW_UNIT_BYTES * channel_cap;
}

/* Lines that channels of that many carry. */
static uint64_t lines_max_bytes(const struct mrw_select_input *in)
{
	return in->lines ? (uint64_t)in->layout.lines * MRW_LINE_UNITS * MRW_UNIT_BYTES * channels_max(in) : 0;
}

/* Trees have no blocks: what does goes round the ring. */
static bool tree_can(const struct mrw_select_input *in, enum mrw_algo algo)
{
	bool blocks = in->func == MRW_FUNC_ALL_GATHER || in->func == MRW_FUNC_REDUCE_SCATTER;
	if (blocks || algo == MRW_ALGO_RING)
		return blocks && algo == MRW_ALGO_RING;
	if (algo == MRW_ALGO_TREE)
		return in->func != MRW_FUNC_BARRIER && in->bytes > 0;
	return algo == MRW_ALGO_TREESHOT && packet_units(in, algo) <= (uint64_t)in->layout.units * channels_max(in);
}

bool mrw_select_can(const struct mrw_select_input *in, enum mrw_algo algo)
{
	if (in->layout.tree)
		return tree_can(in, algo);
	if (in->layout.ring || algo == MRW_ALGO_RING)
		return in->layout.ring && algo == MRW_ALGO_RING;
	if (on_rails(in) != (algo == MRW_ALGO_RAILSHOT || algo == MRW_ALGO_RAIL))
		return false;
	switch (algo) {
	case MRW_ALGO_ONESHOT:
	case MRW_ALGO_RAILSHOT:
		break;
	case MRW_ALGO_LINES:
		return in->func == MRW_FUNC_ALL_REDUCE && in->bytes > 0 && in->bytes <= lines_max_bytes(in);
	case MRW_ALGO_TWOSHOT:
		if (in->func != MRW_FUNC_ALL_REDUCE || in->nranks < 3)
			return false;
		break;
	case MRW_ALGO_BULK:
	case MRW_ALGO_RAIL:
		return in->func != MRW_FUNC_BARRIER && in->bytes > 0;
	default:
		return false;
	}
	return packet_units(in, algo) <= units_room(in, algo) * channels_max(in);
}

/* Up to these sizes an algorithm wins. */
static uint64_t oneshot_limit(const struct mrw_select_input *in)
{
	if (in->target == MARROW_TARGET_HOST)
		return in->nranks > 2 ? 1024 : 512;
	if (in->func == MRW_FUNC_ALL_REDUCE && in->lines)
		return (64u << 10) / (in->nranks - 1);
	if ((in->func == MRW_FUNC_ALL_REDUCE || in->func == MRW_FUNC_REDUCE) && in->nranks > 2)
		return (128u << 10) / (in->nranks - 1);
	return 1u << 20;
}

static uint64_t lines_limit(const struct mrw_select_input *in)
{
	if (in->target == MARROW_TARGET_HOST)
		return 0;
	return in->nranks > 2 ? (256u << 10) / (in->nranks - 1) : 2u << 20;
}

/* Two steps, but everything once to each host: against five rounds of chunks it wins up to so many bytes on its way (two hosts of two). */
static uint64_t railshot_limit(const struct mrw_select_input *in)
{
	uint64_t limit = 8192u / (in->layout.cells - 1);
	return limit > 1024 ? limit : 1024;
}

/* One message an edge and direction, against rounds of chunks. Taken over from rails of two hosts: where packets stop to win in trees has not been
 * measured. */
static uint64_t treeshot_limit(void)
{
	return 8192;
}

static uint64_t twoshot_limit(const struct mrw_select_input *in)
{
	return in->target == MARROW_TARGET_HOST ? 0 : 512u << 10;
}

static enum mrw_algo choose(const struct mrw_select_input *in, const char **reason)
{
	if (in->nranks == 1) {
		*reason = "one rank";
		return MRW_ALGO_LOCAL;
	}
	if (in->forced_algo >= 0 && mrw_select_can(in, (enum mrw_algo)in->forced_algo)) {
		*reason = "MARROW_ALGO or config";
		return (enum mrw_algo)in->forced_algo;
	}
	if (in->layout.ring) {
		*reason = "only neighbours are reached";
		return MRW_ALGO_RING;
	}
	if (in->layout.tree) {
		if (mrw_select_can(in, MRW_ALGO_RING)) {
			*reason = "blocks: trees have none";
			return MRW_ALGO_RING;
		}
		if (mrw_select_can(in, MRW_ALGO_TREESHOT) && in->bytes <= treeshot_limit()) {
			*reason = "small: packets in trees";
			return MRW_ALGO_TREESHOT;
		}
		*reason = "large: chunks in trees";
		return MRW_ALGO_TREE;
	}
	if (on_rails(in)) {
		bool small = in->bytes <= railshot_limit(in) && mrw_select_can(in, MRW_ALGO_RAILSHOT);
		if (in->bytes == 0 || in->func == MRW_FUNC_BARRIER || small) {
			*reason = "small: packets within the host, then along the rail";
			return MRW_ALGO_RAILSHOT;
		}
		*reason = "large: chunks within the host and along the rail";
		return MRW_ALGO_RAIL;
	}
	if (in->bytes == 0 || in->func == MRW_FUNC_BARRIER || (in->bytes <= oneshot_limit(in) && mrw_select_can(in, MRW_ALGO_ONESHOT))) {
		*reason = "small: one exchange of packets";
		return MRW_ALGO_ONESHOT;
	}
	if (in->bytes <= lines_limit(in) && mrw_select_can(in, MRW_ALGO_LINES)) {
		*reason = "middle: one exchange of lines";
		return MRW_ALGO_LINES;
	}
	if (in->bytes <= twoshot_limit(in) && mrw_select_can(in, MRW_ALGO_TWOSHOT)) {
		*reason = "middle: shares as packets";
		return MRW_ALGO_TWOSHOT;
	}
	*reason = "large: chunks through staging";
	return MRW_ALGO_BULK;
}

static uint32_t at_most(uint64_t value, uint32_t limit)
{
	return value < limit ? (uint32_t)value : limit;
}

static void plan_packets(const struct mrw_select_input *in, struct mrw_plan *plan)
{
	uint64_t units = packet_units(in, plan->algo);
	/* Packets a channel handles: to each peer where blocks differ, else one a unit. */
	uint64_t fan = mrw_has_root(in->func) || (in->func == MRW_FUNC_ALL_REDUCE && plan->algo != MRW_ALGO_TWOSHOT && plan->algo != MRW_ALGO_RAILSHOT)
			       ? 1 : in->nranks - 1;
	uint64_t want = ceil_div(units, units_room(in, plan->algo)); /* what the arena can carry at least */
	if (in->target == MARROW_TARGET_CUDA && want < ceil_div(units * fan, MRW_PACKET_THREADS - 32))
		want = ceil_div(units * fan, MRW_PACKET_THREADS - 32);
	if (in->forced_channels)
		want = in->forced_channels;
	plan->channels = at_most(want ? want : 1, channels_max(in));
	uint64_t items = ceil_div(units, plan->channels) * fan;
	plan->threads = at_most((items + 31) / 32 * 32 + 32, MRW_PACKET_THREADS);
}

static void plan_lines(const struct mrw_select_input *in, struct mrw_plan *plan)
{
	uint64_t lines = ceil_div(in->bytes, MRW_LINE_UNITS * MRW_UNIT_BYTES);
	uint32_t pass = in->target == MARROW_TARGET_CUDA ? at_most(in->layout.lines, MRW_BLOCK_THREADS / 8) : in->layout.lines;
	uint64_t want = ceil_div(lines, pass);
	plan->channels = at_most(in->forced_channels ? in->forced_channels : want, channels_max(in));
	plan->threads = at_most((ceil_div(lines, plan->channels) * 8 + 31) / 32 * 32 + 32, MRW_BLOCK_THREADS);
}

static void plan_bulk(const struct mrw_select_input *in, struct mrw_plan *plan)
{
	bool chain = plan->algo == MRW_ALGO_RING && in->func == MRW_FUNC_BROADCAST; /* of the whole buffer */
	uint64_t block = mrw_exchanges(in->func, in->nranks) == 2 && !chain ? mrw_block(in->func, in->bytes, in->nranks, 0).bytes : in->bytes;
	if (plan->algo == MRW_ALGO_TREE)
		block = mrw_tree_part(in->bytes, 0).bytes;
	block = block ? block : 1; /* a ring's rounds without chunks */
	bool host = in->target == MARROW_TARGET_HOST;
	uint64_t smallest = host ? in->layout.chunk_bytes : 4096;
	/* The host target runs channels in turn: one, or one for each NIC. */
	uint32_t cap = host && !in->forced_channels ? at_most(in->nics > 1 ? in->nics : 1, channels_max(in)) : channels_max(in);
	/* Rounds of equal chunks; on the GPU whole vectors of all threads, where the arena has room for that. */
	uint32_t grain = host || in->layout.chunk_bytes < MRW_STEP_BYTES ? 512 : MRW_STEP_BYTES;
	plan->channels = in->forced_channels ? cap : at_most(ceil_div(block, smallest), cap);
	uint64_t share = ceil_div(block, plan->channels);
	uint64_t rounds = ceil_div(share, in->layout.chunk_bytes / grain * grain);
	plan->chunk_bytes = at_most(ceil_div(ceil_div(share, rounds), grain) * grain, in->layout.chunk_bytes / grain * grain);
	if (plan->chunk_bytes > share) /* a short message: no grain */
		plan->chunk_bytes = at_most(ceil_div(share, 512) * 512, in->layout.chunk_bytes);
	plan->lag = MRW_MAX_LAG;
	plan->threads = MRW_BLOCK_THREADS;
}

struct mrw_plan mrw_select(const struct mrw_select_input *in)
{
	bool reduces = mrw_reduces(in->func);
	struct mrw_plan plan;
	memset(&plan, 0, sizeof plan);
	plan.algo = choose(in, &plan.reason);
	switch (plan.algo) {
	case MRW_ALGO_LOCAL:
		plan.kernel = MRW_KERNEL_REDUCE_LOCAL;
		plan.channels = at_most(ceil_div(in->bytes ? in->bytes : 1, 64u << 10), in->channel_cap);
		plan.threads = MRW_BLOCK_THREADS;
		break;
	case MRW_ALGO_LINES:
		plan.kernel = MRW_KERNEL_REDUCE_LINES;
		plan_lines(in, &plan);
		break;
	case MRW_ALGO_RING:
		plan.kernel = reduces ? MRW_KERNEL_REDUCE_RING : MRW_KERNEL_MOVE_RING;
		plan_bulk(in, &plan);
		break;
	case MRW_ALGO_TREE:
		plan.kernel = reduces ? MRW_KERNEL_REDUCE_TREE : MRW_KERNEL_MOVE_TREE;
		plan_bulk(in, &plan);
		break;
	case MRW_ALGO_TREESHOT:
		plan.kernel = reduces ? MRW_KERNEL_REDUCE_TREESHOT : MRW_KERNEL_MOVE_TREESHOT;
		plan_packets(in, &plan);
		break;
	case MRW_ALGO_RAIL:
		plan.kernel = reduces ? MRW_KERNEL_REDUCE_RAIL : MRW_KERNEL_MOVE_RAIL;
		plan_bulk(in, &plan);
		break;
	case MRW_ALGO_RAILSHOT:
		plan.kernel = reduces ? MRW_KERNEL_REDUCE_RAILSHOT : MRW_KERNEL_MOVE_RAILSHOT;
		plan_packets(in, &plan);
		break;
	case MRW_ALGO_BULK:
		plan.kernel = reduces ? MRW_KERNEL_REDUCE_BULK : MRW_KERNEL_MOVE_BULK;
		plan_bulk(in, &plan);
		break;
	default:
		plan.kernel = reduces ? MRW_KERNEL_REDUCE_PACKETS : MRW_KERNEL_MOVE_PACKETS;
		plan_packets(in, &plan);
	}
	return plan;
}
