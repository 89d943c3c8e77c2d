/* cost.c - the figures, and one function an algorithm. ARCHITECTURE.md has the measurements. */
#include "cost.h"
#include "schedule.h"
#include "tree.h"

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

/* A byte to other hosts, where all ranks that share a NIC send as many. */
static double far_byte(const struct work *w)
{
	return w->f->net_byte_ns * (w->s->sharers > 1 ? w->s->sharers : 1) / w->nics;
}

/* To peers on other hosts: one message each, bytes over all. */
static double messages(const struct work *w, double peers, double bytes)
{
	return peers < 1 ? 0 : w->f->net_ns + (peers - 1) * w->f->net_post_ns + bytes * far_byte(w);
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
	return w->f->call_ns + start + larger(sent(w, w->n - 1 - w->far) * chunk_byte(w), sent(w, w->far) * far_byte(w));
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
	return w->f->call_ns + start + larger(near * chunk_byte(w), far * far_byte(w));
}

/* A round of chunks to a neighbour on another host: half of an exchange, with the network in the place of the link. */
static double far_round(const struct work *w)
{
	return w->f->chunk_ns / 2 - w->f->packet_ns + w->f->net_ns + w->f->net_post_ns;
}

/* Of numbers below 2^63. */
static double round_up(double x)
{
	double whole = (double)(uint64_t)x;
	return whole < x ? whole + 1 : whole;
}

/* Rounds that a block takes in chunks, as select.c cuts it. */
static double chunks(const struct work *w, double block)
{
	double channels = w->s->channels > 0 ? w->s->channels : 1;
	if (w->s->target == MARROW_TARGET_HOST)
		channels = w->nics < channels ? w->nics : channels;
	else if (block < channels * 4096)
		channels = larger(round_up(block / 4096), 1);
	return w->s->chunk_bytes > 0 ? larger(round_up(block / (channels * w->s->chunk_bytes)), 1) : 1;
}

/* Rounds and bytes stand behind one another where every edge of a ring is like the next. Edges within hosts have time to spare: with them
 * whichever takes longer decides, and the other for a third (so says the simulator). */
static double in_step(const struct work *w, double rounds_ns, double bytes_ns)
{
	double less = rounds_ns < bytes_ns ? rounds_ns : bytes_ns;
	return larger(rounds_ns, bytes_ns) + (w->s->hosts > 1 && w->s->per_host > 1 ? less / 3 : less);
}

/* A host's ranks are neighbours: its NICs carry what passes between two of them. In trees a rank tells more neighbours in each round. */
static double ring(const struct work *w)
{
	double hop = w->s->hosts > 1 ? far_round(w) : w->f->chunk_ns;
	double byte = w->s->hosts > 1 ? larger(w->f->net_byte_ns / w->nics, chunk_byte(w)) : chunk_byte(w);
	if (w->s->tree && w->s->branches.far_peers > 2)
		hop += (w->s->branches.far_peers - 2) * w->f->net_post_ns;
	if (w->func == MRW_FUNC_BARRIER)
		return w->f->call_ns + w->n / 2 * hop;
	if (w->func == MRW_FUNC_BROADCAST) {
		double count = chunks(w, w->bytes), each = w->bytes / count * byte;
		return w->f->call_ns + (w->n - 1) * hop + (w->s->hosts - 1) * each + in_step(w, count * hop, count * each);
	}
	double block = w->blocks ? w->bytes : w->bytes / w->n, ways = mrw_has_shares(w->func) ? 2 : 1;
	return w->f->call_ns + in_step(w, ((chunks(w, block) + ways - 1) * (w->n - 1) + 1) * hop, ways * (w->n - 1) * block * byte);
}

/* Hops on the way up and on the way down. */
static void climb(const struct work *w, struct mrw_cost_hops *up, struct mrw_cost_hops *down)
{
	const struct mrw_cost_branches *b = &w->s->branches;
	*up = mrw_tree_rises(w->func) ? b->deepest : (struct mrw_cost_hops){0, 0, 0};
	*down = w->func == MRW_FUNC_BROADCAST ? b->from_first : w->func == MRW_FUNC_REDUCE ? b->top : b->deepest;
	if (w->func == MRW_FUNC_REDUCE) /* to one child at most */
		down->queued = down->far;
}

/* A message an edge and direction, each when the one before is there; downwards one child is told after the other. */
static double treeshot(const struct work *w)
{
	struct mrw_cost_hops up, down;
	double part = (double)mrw_tree_part((uint64_t)w->bytes, 0).bytes, peers = w->s->branches.far_peers, fan = w->s->branches.fan;
	climb(w, &up, &down);
	double far = (up.far + down.far) * messages(w, 1, 0) + (up.far + down.queued) * 2 * part * w->f->net_byte_ns / w->nics;
	double posts = larger(peers - 1, 0) + down.far * larger(fan - 1, 0); /* greetings first */
	return w->f->call_ns + far + (up.near + down.near) * packets(w, part) + posts * w->f->net_post_ns;
}

/* Chunks that the first one waits for on its way, beside those that a node carries anyhow. */
static double waits(struct mrw_cost_hops hops)
{
	return hops.queued > 1 ? hops.queued - 1 : 0;
}

/* As many rounds as chunks and hops; no rank is further than its neighbours. Bytes: either the NIC with most edges decides, or the rank that
 * has most and the way of the first chunk there. One way only, what comes in and what goes out hold each other up less. */
static double tree(const struct work *w)
{
	const struct mrw_cost_branches *b = &w->s->branches;
	uint64_t bytes = (uint64_t)w->bytes;
	struct mrw_cost_hops up, down;
	double part = (double)mrw_tree_part(bytes, 0).bytes, count = chunks(w, part), byte = w->f->net_byte_ns / w->nics;
	double rounds = (double)mrw_tree_rounds(w->func, w->s->nranks, 0, mrw_tree_parts(bytes), (uint64_t)count);
	double hop = far_round(w) + larger(b->far_peers - 1., 0) * w->f->net_post_ns;
	bool both = !mrw_has_root(w->func);
	double edges = both ? b->edges : larger(b->edges - 1., 1), nic = both ? b->nic_edges : b->nic_children;
	climb(w, &up, &down);
	double far = larger(nic * w->bytes / 2, edges * w->bytes / 2 + (waits(up) + waits(down)) * part / count) * byte;
	return w->f->call_ns + rounds * hop + larger(far, b->near_edges * w->bytes / 2 * chunk_byte(w));
}

/* One row an algorithm: how long, and between what peers ranks have it. */
static const struct {
	double (*ns)(const struct work *w);
	bool all, rails, ring, tree;
} ways[MRW_ALGO_COUNT] = {
	[MRW_ALGO_ONESHOT] = {oneshot, .all = true},
	[MRW_ALGO_LINES] = {lines, .all = true},
	[MRW_ALGO_TWOSHOT] = {twoshot, .all = true},
	[MRW_ALGO_BULK] = {bulk, .all = true},
	[MRW_ALGO_RAILSHOT] = {railshot, .rails = true},
	[MRW_ALGO_RAIL] = {rail, .rails = true},
	[MRW_ALGO_RING] = {ring, .ring = true, .tree = true},
	[MRW_ALGO_TREESHOT] = {treeshot, .tree = true},
	[MRW_ALGO_TREE] = {tree, .tree = true},
};

double mrw_cost_ns(const struct mrw_cost_figures *f, const struct mrw_cost_shape *s, enum mrw_func func, uint64_t bytes, enum mrw_algo algo)
{
	double crowd = s->cores > 0 ? (double)s->per_host / s->cores : 1;
	double slower = crowd > 1 ? 1 + 0.85 * crowd : 1; /* at once, for caches are shared too; measured from 1.5 to 4 */
	struct work w = {f, s, func, (double)bytes, s->nranks, s->nranks - s->per_host, s->nics > 0 ? s->nics : 1,
			 !mrw_has_shares(func) && func != MRW_FUNC_BARRIER, crowd > 1 ? s->per_host * slower * f->swap_ns : 0, slower};
	if ((uint32_t)algo >= MRW_ALGO_COUNT || !ways[algo].ns || s->nranks < 2)
		return INFINITY;
	if (s->tree ? !ways[algo].tree : s->ring ? !ways[algo].ring : s->rails ? !ways[algo].rails : !ways[algo].all)
		return INFINITY;
	if (s->tree && (algo == MRW_ALGO_RING) != w.blocks) /* trees have no blocks: what does goes round the ring */
		return INFINITY;
	return ways[algo].ns(&w);
}

static bool leaves_host(const struct mrw_cost_shape *s, uint32_t a, uint32_t b)
{
	return a / s->per_host != b / s->per_host;
}

/* Children of a position on other hosts. */
static uint32_t fan_of(const struct mrw_cost_shape *s, uint32_t which, uint32_t position)
{
	struct mrw_tree t = mrw_tree_at(s->nranks, which, position);
	uint32_t fan = 0;
	for (uint32_t i = MRW_TREE_FIRST; i <= MRW_TREE_SECOND; i++)
		fan += t.neighbour[i] != MRW_TREE_NONE && leaves_host(s, t.neighbour[i], position);
	return fan;
}

/* To the position above; false at the root. */
static bool rise(const struct mrw_cost_shape *s, uint32_t which, uint32_t *position, struct mrw_cost_hops *hops)
{
	uint32_t parent = mrw_tree_at(s->nranks, which, *position).neighbour[MRW_TREE_PARENT];
	if (parent == MRW_TREE_NONE)
		return false;
	if (leaves_host(s, parent, *position)) {
		hops->far++;
		hops->queued += fan_of(s, which, parent);
	} else {
		hops->near++;
	}
	*position = parent;
	return true;
}

static void longest(struct mrw_cost_hops *most, struct mrw_cost_hops hops)
{
	if (hops.far > most->far || (hops.far == most->far && (hops.queued > most->queued || (hops.queued == most->queued && hops.near > most->near))))
		*most = hops;
}

/* From one position to another: the deeper one climbs until both meet. */
static struct mrw_cost_hops between(const struct mrw_cost_shape *s, uint32_t which, uint32_t a, uint32_t b)
{
	struct mrw_cost_hops hops = {0, 0, 0};
	while (a != b)
		(void)rise(s, which, mrw_tree_at(s->nranks, which, a).level > mrw_tree_at(s->nranks, which, b).level ? &a : &b, &hops);
	return hops;
}

/* Of one position: nic_edges and nic_children are its own. */
static struct mrw_cost_branches branches_at(const struct mrw_cost_shape *s, uint32_t position)
{
	struct mrw_cost_branches b = {.edges = 0};
	uint32_t n = s->nranks, seen[MRW_TREE_PEERS + 2] = {(position + 1) % n, (position + n - 1) % n}, count = n > 2 ? 2 : 1;
	for (uint32_t k = 0; k < MRW_TREES; k++) {
		struct mrw_tree t = mrw_tree_at(n, k, position);
		uint32_t fan = fan_of(s, k, position);
		for (uint32_t i = 0; i < MRW_TREE_NEIGHBOURS; i++) {
			uint32_t p = t.neighbour[i], known = 0;
			if (p == MRW_TREE_NONE)
				continue;
			b.edges += leaves_host(s, p, position);
			b.near_edges += !leaves_host(s, p, position);
			while (known < count && seen[known] != p)
				known++;
			if (known == count)
				seen[count++] = p;
		}
		b.nic_children += fan;
		b.fan = fan > b.fan ? fan : b.fan;
	}
	b.nic_edges = b.edges;
	for (uint32_t i = 0; i < count; i++)
		b.far_peers += leaves_host(s, seen[i], position);
	return b;
}

static uint32_t most(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static void take_most(struct mrw_cost_branches *b, const struct mrw_cost_branches *at)
{
	b->edges = most(b->edges, at->edges);
	b->nic_edges = most(b->nic_edges, at->nic_edges);
	b->nic_children = most(b->nic_children, at->nic_children);
	b->near_edges = most(b->near_edges, at->near_edges);
	b->fan = most(b->fan, at->fan);
	b->far_peers = most(b->far_peers, at->far_peers);
}

void mrw_cost_plant(struct mrw_cost_shape *s)
{
	struct mrw_cost_branches *b = &s->branches, nic = {.edges = 0};
	uint32_t sharers = s->sharers > 1 ? s->sharers : 1;
	*b = nic;
	s->tree = true;
	for (uint32_t p = 0; p < s->nranks; p++) {
		struct mrw_cost_branches at = branches_at(s, p);
		if (p % s->per_host % sharers == 0) /* the next NIC */
			nic.nic_edges = nic.nic_children = 0;
		nic.nic_edges += at.nic_edges;
		nic.nic_children += at.nic_children;
		take_most(b, &at);
		take_most(b, &nic);
		for (uint32_t k = 0; k < MRW_TREES; k++) {
			struct mrw_cost_hops up = {0, 0, 0};
			for (uint32_t above = p; rise(s, k, &above, &up);)
				;
			longest(&b->deepest, up);
			if (p == 0)
				longest(&b->top, up);
			longest(&b->from_first, between(s, k, 0, p));
		}
	}
}

/* Measured with two ranks; with more as loads of a rank's link that are believed to matter alike. */
static uint64_t oneshot_most(const struct mrw_cost_shape *s, enum mrw_func func)
{
	if (s->target == MARROW_TARGET_HOST)
		return s->hosts == 1 ? UINT64_MAX : s->nranks > 2 ? 1024 : 512;
	if (func == MRW_FUNC_ALL_REDUCE && s->lines)
		return (128u << 10) / (s->nranks - 1);
	if (func == MRW_FUNC_REDUCE_SCATTER || func == MRW_FUNC_REDUCE_SCATTER_V)
		return s->nranks > 2 ? 600u << 10 : 1u << 20;
	if ((func == MRW_FUNC_ALL_REDUCE || func == MRW_FUNC_REDUCE) && s->nranks > 2)
		return (128u << 10) / (s->nranks - 1);
	if (func == MRW_FUNC_REDUCE)
		return 700u << 10;
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
