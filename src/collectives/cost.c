/* cost.c - the figures, and one function an algorithm. ARCHITECTURE.md has the measurements. */
#include "cost.h"
#include "schedule.h"

#include <math.h>

const struct mrw_cost_figures mrw_cost_nvlink = {
	.name = "nvlink",
	.source = "two H200s, 18 NVLinks each; graphs of 20 calls. NICs: assumed, 400 Gbit/s",
	.call_ns = 1250,             /* sums of two ranks, as the next four: 8 B in 1.95 us, less an exchange */
	.packet_ns = 800,            /* an exchange inside one kernel: 0.81 us at 8 B */
	.packet_near_ns = 10.5e-3,   /* 8 B 1.95 us, 8 KiB 2.34, 32 KiB 2.54, 64 KiB 2.73 */
	.packet_far_ns = 7e-3,       /* without lines: 512 KiB 6.2 us, 1 MiB 9.9 */
	.packet_knee_bytes = 64 << 10,
	.turn_ns = 1500,             /* an acquire-release hop of 1.3 us and a little: not measured in place */
	.line_ns = 1400,             /* 128 KiB 3.05 us, 512 KiB 4.41, 2 MiB 10.2 */
	.line_byte_ns = 3.6e-3,
	.chunk_ns = 6420,            /* all-reduce: 8 MiB 38.9 us, broadcast 128 MiB 402 us */
	.chunk_byte_ns = 2.47e-3,    /* with the next at 64 channels: 2.95 ps, 339 GB/s; 32 MiB 112 us, 1 GiB 3170 */
	.channel_byte_ns = 30.6e-3,  /* pushing stores by 16, 32, 64 blocks: 235, 303, 346 GB/s */
	.net_ns = 4000,
	.net_post_ns = 300,
	.net_byte_ns = 21e-3,        /* 48 of 50 GB/s */
};

const struct mrw_cost_figures mrw_cost_host = {
	.name = "host",
	.source = "two cores, processes, float sum; between hosts: the model of a NIC, emulated",
	.call_ns = 225,              /* all-reduce of two, a core each: 16 B in 0.28 us */
	.packet_ns = 40,
	.packet_near_ns = 0.8,       /* 512 B 0.66 us, 1 KiB 1.12 */
	.packet_far_ns = 0.8,
	.packet_knee_bytes = 0,
	.turn_ns = 0,
	.line_ns = 56,               /* 32 B 0.31 us */
	.line_byte_ns = 0.46,        /* 512 B 0.54 us, 1 KiB 0.80 */
	.chunk_ns = 109,             /* 16 B 0.39 us, 512 B 0.51; one exchange 0.32 */
	.chunk_byte_ns = 0.1,        /* 16 KiB 1.6 us, 256 KiB 30, 2 MiB 222, 16 MiB 1614 */
	.channel_byte_ns = 0,        /* channels run in turn */
	.swap_ns = 560,              /* three, four and eight on two cores: 8 B in 3.9, 5.8 and 20 us */
	.chunk_swaps = 0.97,         /* all-reduce 9.9, 13.8 and 45 us, all-gather 6.7, 10.1 and 30 */
	.chunk_swaps_each = 0.65,
	.net_ns = 13e3,              /* 1 KiB 42 us by packets along rails */
	.net_post_ns = 2e3,
	.net_byte_ns = 6.4,          /* 32 KiB 441 us by packets, which are twice as many bytes, 220 by chunks */
};

const struct mrw_cost_figures *mrw_cost_figures_of(enum marrow_target target)
{
	return target == MARROW_TARGET_CUDA ? &mrw_cost_nvlink : &mrw_cost_host;
}

/* A call as the formulas see it. */
struct work {
	const struct mrw_cost_figures *f;
	const struct mrw_cost_shape *s;
	enum mrw_func func;
	double bytes, n, far, nics;   /* far: ranks on other hosts that a rank exchanges with, if with all */
	bool blocks;                  /* every rank has a block of that many bytes; else all share them */
	double swap_ns, slower;       /* ranks outnumber cores: a round of turns, and what a byte's cost is multiplied by; 0, 1 */
};

static double larger(double a, double b)
{
	return a > b ? a : b;
}

/* An exchange of packets within the host, bytes over a rank's link. */
static double packets(const struct work *w, double bytes)
{
	double knee = w->f->packet_knee_bytes, near = bytes < knee ? bytes : knee;
	double byte = near * w->f->packet_near_ns + (bytes - near) * w->f->packet_far_ns;
	if (w->slower > 1) /* cores are shared: what all ranks do together counts; of a root's calls less, for blocks more */
		byte *= w->func == MRW_FUNC_BROADCAST ? 1.25 / w->n : w->func == MRW_FUNC_REDUCE ? 1.7 / w->n : w->blocks ? 1.4 : 1;
	return w->f->packet_ns + w->swap_ns + byte * w->slower;
}

/* To peers on other hosts: one message each, bytes over all. */
static double messages(const struct work *w, double peers, double bytes)
{
	return peers < 1 ? 0 : w->f->net_ns + (peers - 1) * w->f->net_post_ns + bytes * w->f->net_byte_ns / w->nics;
}

/* A byte of chunks within the host. */
static double chunk_byte(const struct work *w)
{
	return (w->f->chunk_byte_ns + w->f->channel_byte_ns / (w->s->channels > 0 ? w->s->channels : 1)) * w->slower;
}

/* Bytes that a rank with peers sends in chunks, all exchanges together: a share or block to each, and where there are two exchanges results. */
static double sent(const struct work *w, double peers)
{
	return w->blocks ? peers * w->bytes : 2 * peers / w->n * w->bytes;
}

static double oneshot(const struct work *w)
{
	double near = w->n - 1 - w->far;
	return w->f->call_ns + larger(packets(w, near * w->bytes), messages(w, w->far, 2 * w->far * w->bytes));
}

static double lines(const struct work *w)
{
	if (!w->s->lines || w->far > 0 || w->func != MRW_FUNC_ALL_REDUCE)
		return INFINITY;
	return w->f->call_ns + w->f->line_ns + 1.08 * w->swap_ns + (w->n - 1) * w->bytes * w->f->line_byte_ns * w->slower;
}

static double twoshot(const struct work *w)
{
	if (w->n < 3 || w->func != MRW_FUNC_ALL_REDUCE)
		return INFINITY;
	double share = w->bytes / w->n, near = w->n - 1 - w->far;
	return w->f->call_ns + w->f->turn_ns + 2 * larger(packets(w, near * share), messages(w, w->far, 2 * w->far * share));
}

/* Near and far go on side by side. */
static double bulk(const struct work *w)
{
	double exchanges = mrw_exchanges(w->func, w->s->nranks);
	double start = exchanges * (w->f->chunk_ns + (w->far > 0 ? messages(w, w->far, 0) : 0)) +
		       (w->f->chunk_swaps + exchanges * w->f->chunk_swaps_each) * w->swap_ns;
	return w->f->call_ns + start + larger(sent(w, w->n - 1 - w->far) * chunk_byte(w), sent(w, w->far) * w->f->net_byte_ns / w->nics);
}

static double railshot(const struct work *w)
{
	double hosts = w->s->hosts, g = w->s->per_host;
	double near = (g - 1) * w->bytes * (w->blocks ? hosts : 1);
	return w->f->call_ns + packets(w, near) + messages(w, hosts - 1, 2 * (hosts - 1) * w->bytes);
}

/* Five exchanges behind one another (schedule.h); those of the host and those along the rail go on side by side. */
static double rail(const struct work *w)
{
	double hosts = w->s->hosts, g = w->s->per_host, steps = mrw_rail_last(w->func) - mrw_rail_first(w->func);
	double buffer = w->blocks ? w->n * w->bytes : w->bytes, half = w->blocks ? 0.5 : 1; /* blocks: one way only */
	double near = half * 2 * (g - 1) / g * buffer, far = half * 2 * (hosts - 1) / (hosts * g) * buffer;
	double start = steps / 2 * (w->f->chunk_ns + messages(w, hosts - 1, 0));
	return w->f->call_ns + start + larger(near * chunk_byte(w), far * w->f->net_byte_ns / w->nics);
}

/* A host's ranks are neighbours: its NICs carry what passes between two of them. */
static double ring(const struct work *w)
{
	double hop = w->s->hosts > 1 ? w->f->net_ns + w->f->net_post_ns : w->f->chunk_ns;
	double byte = w->s->hosts > 1 ? larger(w->f->net_byte_ns / w->nics, chunk_byte(w)) : chunk_byte(w);
	if (w->func == MRW_FUNC_BARRIER)
		return w->f->call_ns + w->n / 2 * hop;
	if (w->func == MRW_FUNC_BROADCAST)
		return w->f->call_ns + (w->n - 1) * hop + w->bytes * byte;
	double rounds = (mrw_has_shares(w->func) ? 2 : 1) * (w->n - 1);
	return w->f->call_ns + rounds * (hop + (w->blocks ? w->bytes : w->bytes / w->n) * byte);
}

/* One row an algorithm: how long, and between what peers ranks have it. */
static const struct {
	double (*ns)(const struct work *w);
	bool all, rails, ring;
} ways[MRW_ALGO_COUNT] = {
	[MRW_ALGO_ONESHOT] = {oneshot, .all = true},
	[MRW_ALGO_LINES] = {lines, .all = true},
	[MRW_ALGO_TWOSHOT] = {twoshot, .all = true},
	[MRW_ALGO_BULK] = {bulk, .all = true},
	[MRW_ALGO_RAILSHOT] = {railshot, .rails = true},
	[MRW_ALGO_RAIL] = {rail, .rails = true},
	[MRW_ALGO_RING] = {ring, .ring = true},
};

double mrw_cost_ns(const struct mrw_cost_figures *f, const struct mrw_cost_shape *s, enum mrw_func func, uint64_t bytes, enum mrw_algo algo)
{
	double crowd = s->cores > 0 ? (double)s->per_host / s->cores : 1;
	double slower = crowd > 1 ? 1 + 0.85 * crowd : 1; /* at once, for caches are shared too; measured from 1.5 to 4 */
	struct work w = {f, s, func, (double)bytes, s->nranks, s->nranks - s->per_host, s->nics > 0 ? s->nics : 1,
			 !mrw_has_shares(func) && func != MRW_FUNC_BARRIER, crowd > 1 ? s->per_host * slower * f->swap_ns : 0, slower};
	if ((uint32_t)algo >= MRW_ALGO_COUNT || !ways[algo].ns || s->nranks < 2)
		return INFINITY;
	if (s->ring ? !ways[algo].ring : s->rails ? !ways[algo].rails : !ways[algo].all)
		return INFINITY;
	return ways[algo].ns(&w);
}

/* Measured with two ranks; with more as loads of a rank's link that are believed to matter alike. */
static uint64_t oneshot_most(const struct mrw_cost_shape *s, enum mrw_func func)
{
	if (s->target == MARROW_TARGET_HOST)
		return s->hosts == 1 ? UINT64_MAX : s->nranks > 2 ? 1024 : 512;
	if (func == MRW_FUNC_ALL_REDUCE && s->lines)
		return (128u << 10) / (s->nranks - 1);
	if (func == MRW_FUNC_REDUCE_SCATTER || func == MRW_FUNC_REDUCE_SCATTER_V)
		return 600u << 10;
	if ((func == MRW_FUNC_ALL_REDUCE || func == MRW_FUNC_REDUCE) && s->nranks > 2)
		return (128u << 10) / (s->nranks - 1);
	return 1u << 20;
}

uint64_t mrw_cost_most(const struct mrw_cost_shape *s, enum mrw_func func, enum mrw_algo algo)
{
	bool host = s->target == MARROW_TARGET_HOST;
	switch (algo) {
	case MRW_ALGO_ONESHOT:
		return oneshot_most(s, func);
	case MRW_ALGO_LINES:
		return host ? UINT64_MAX : s->nranks > 2 ? (256u << 10) / (s->nranks - 1) : 2u << 20;
	case MRW_ALGO_TWOSHOT: /* never the quickest of four on two cores */
		return host ? 0 : 512u << 10;
	case MRW_ALGO_RAILSHOT: /* two emulated hosts of two: up to so many bytes on their way */
		return s->hosts < 2 ? 0 : s->hosts > 9 ? 1024 : 8192u / (s->hosts - 1);
	default:
		return UINT64_MAX;
	}
}
