/* select.c - the choices of a communicator, made from model and table, and the plan of a call. */
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

/* Every rank has a block of its own. */
static bool has_blocks(enum mrw_func func)
{
	return !mrw_has_shares(func) && func != MRW_FUNC_BARRIER;
}

/* Units of a block that one channel can carry: along rails a near slot holds a block for each host where these differ. */
static uint64_t units_room(const struct mrw_select_input *in, enum mrw_algo algo)
{
	bool differ = has_blocks(in->func);
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
	bool blocks = has_blocks(in->func);
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

static const char *const reasons[MRW_ALGO_COUNT] = {
	[MRW_ALGO_ONESHOT] = "small: one exchange of packets",
	[MRW_ALGO_LINES] = "middle: one exchange of lines",
	[MRW_ALGO_TWOSHOT] = "middle: shares as packets",
	[MRW_ALGO_BULK] = "large: chunks through staging",
	[MRW_ALGO_RAILSHOT] = "small: packets within the host, then along the rail",
	[MRW_ALGO_RAIL] = "large: chunks within the host and along the rail",
	[MRW_ALGO_TREESHOT] = "small: packets in trees",
	[MRW_ALGO_TREE] = "large: chunks in trees",
};

/* What carries every call that has bytes, and of trees no blocks. */
static enum mrw_algo chunks_of(const struct mrw_select_input *in)
{
	return in->layout.tree ? MRW_ALGO_TREE : on_rails(in) ? MRW_ALGO_RAIL : MRW_ALGO_BULK;
}

static enum mrw_algo packets_of(const struct mrw_select_input *in)
{
	return in->layout.tree ? MRW_ALGO_TREESHOT : on_rails(in) ? MRW_ALGO_RAILSHOT : MRW_ALGO_ONESHOT;
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
	if (in->layout.tree && has_blocks(in->func)) {
		*reason = "blocks: trees have none";
		return MRW_ALGO_RING;
	}
	enum mrw_algo algo = chunks_of(in);
	if (in->bytes == 0 || in->func == MRW_FUNC_BARRIER) {
		algo = packets_of(in);
		*reason = reasons[algo];
		return algo;
	}
	const struct mrw_choice *rows = in->choices ? in->choices->rows[in->func] : NULL;
	for (uint32_t i = 0; rows && i < in->choices->count[in->func]; i++)
		if (in->bytes <= rows[i].most && mrw_select_can(in, rows[i].algo)) {
			*reason = rows[i].measured ? "measured: MARROW_TUNING" : reasons[rows[i].algo];
			return rows[i].algo;
		}
	*reason = reasons[algo];
	return algo;
}

enum mrw_algo mrw_select_quickest(const struct mrw_select_input *in, const struct mrw_cost_shape *shape, const struct mrw_cost_figures *figures)
{
	enum mrw_algo best = chunks_of(in);
	double least = mrw_cost_ns(figures, shape, in->func, in->bytes, best);
	for (uint32_t a = MRW_ALGO_ONESHOT; a < MRW_ALGO_COUNT; a++) {
		enum mrw_algo algo = (enum mrw_algo)a;
		uint64_t most = mrw_cost_most(shape, in->func, algo);
		if (in->bytes > most || !mrw_select_can(in, algo))
			continue;
		if (most < UINT64_MAX)
			return algo;
		double ns = mrw_cost_ns(figures, shape, in->func, in->bytes, algo);
		if (ns < least) {
			best = algo;
			least = ns;
		}
	}
	return best;
}

static enum mrw_algo quickest(const struct mrw_select_input *in, const struct mrw_cost_shape *shape)
{
	return mrw_select_quickest(in, shape, mrw_cost_figures_of(shape->target));
}

/* Ranges of bytes with one quickest algorithm each. What changes twice within a half octave is not seen. */
static uint32_t by_model(struct mrw_choice *rows, struct mrw_select_input *in, const struct mrw_cost_shape *shape)
{
	const uint64_t end = 1ull << 40; /* what is quickest there is so beyond */
	uint64_t from = 1;
	for (uint32_t count = 0;; count++) {
		struct mrw_choice *row = &rows[count];
		uint64_t same = from, other = 0;
		in->bytes = from;
		row->algo = quickest(in, shape);
		row->measured = false;
		row->most = UINT64_MAX;
		for (uint64_t at = from + from / 2 + 1; at <= end && other == 0; at += at / 2) {
			in->bytes = at;
			if (quickest(in, shape) == row->algo)
				same = at;
			else
				other = at;
		}
		if (other == 0 || count + 1 == MRW_TUNING_ROWS_A_CALL)
			return count + 1;
		while (other - same > 1) {
			in->bytes = same + (other - same) / 2;
			if (quickest(in, shape) == row->algo)
				same = in->bytes;
			else
				other = in->bytes;
		}
		row->most = same;
		from = other;
	}
}

void mrw_select_prepare(struct mrw_choices *choices, const struct mrw_select_input *in, const struct mrw_cost_shape *shape,
			const struct mrw_tuning *tuning)
{
	struct mrw_tuning_shape key = {shape->nranks, shape->hosts, shape->per_host,
				       shape->tree ? MRW_PEERS_TREE : shape->ring ? MRW_PEERS_RING : shape->rails ? MRW_PEERS_RAILS : MRW_PEERS_ALL};
	struct mrw_select_input probe = *in;
	memset(choices, 0, sizeof *choices);
	probe.forced_algo = -1;
	probe.forced_channels = 0;
	probe.lines = shape->lines;
	for (uint32_t f = 0; f < MRW_FUNC_COUNT && !in->layout.ring; f++) {
		if (in->layout.tree && has_blocks((enum mrw_func)f))
			continue;
		struct mrw_choice *rows = choices->rows[f];
		uint32_t count = 0;
		const struct mrw_tuning_row *measured = tuning ? mrw_tuning_rows(tuning, &key, (enum mrw_func)f, &count) : NULL;
		probe.func = (enum mrw_func)f;
		for (uint32_t i = 0; i < count; i++)
			rows[i] = (struct mrw_choice){measured[i].most, measured[i].algo, true};
		if (count == 0 && f != MRW_FUNC_BARRIER)
			count = by_model(rows, &probe, shape);
		choices->count[f] = count;
	}
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

/* Rounds of equal chunks; on the GPU whole vectors of all threads, where the arena has room for that. */
static uint32_t grain_of(const struct mrw_layout *layout, enum marrow_target target)
{
	return target == MARROW_TARGET_HOST || layout->chunk_bytes < MRW_STEP_BYTES ? 512 : MRW_STEP_BYTES;
}

uint32_t mrw_chunk_room(const struct mrw_layout *layout, enum marrow_target target)
{
	uint32_t grain = grain_of(layout, target);
	return layout->chunk_bytes / grain * grain;
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
	uint32_t grain = grain_of(&in->layout, in->target), room = mrw_chunk_room(&in->layout, in->target);
	plan->channels = in->forced_channels ? cap : at_most(ceil_div(block, smallest), cap);
	uint64_t share = ceil_div(block, plan->channels);
	uint64_t rounds = ceil_div(share, room);
	plan->chunk_bytes = at_most(ceil_div(ceil_div(share, rounds), grain) * grain, room);
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
