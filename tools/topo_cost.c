#include "topo_cost.h"

#include <string.h>

#include "collectives/select.h"

/* A GPU of the figures sends 18 NVLinks' worth, 25 GB/s each. */
#define FIGURES_LINK_MB_S 450000.
/* Of a link's width, what packets on a network leave to payload: assumed. */
#define NET_SHARE 0.96
/* An exchange through PCIe switches, the CPU, two CPUs, over that through NVLink: assumed. */
enum { SWITCH_NS = 600, ROOT_NS = 1200, CPUS_NS = 2000 };

static void note(struct topo_costs *c, const char *text)
{
	for (uint32_t i = 0; i < c->nnotes; i++)
		if (c->notes[i] == text)
			return;
	if (c->nnotes < TOPO_COST_NOTES)
		c->notes[c->nnotes++] = text;
}

/* Ordered pairs of GPUs whose bytes use a link, each once. */
struct load {
	uint32_t up[MRW_TOPO_NODES];  /* from a node towards its CPU; as many come down */
	uint32_t ports[MRW_TOPO_GPUS]; /* through a GPU's NVLinks to switches */
	uint32_t between_cpus;
};

static uint32_t width(struct topo_costs *c, uint32_t mb_s)
{
	if (mb_s == 0)
		note(c, "widths that are unknown count as 12 GB/s");
	return mb_s ? mb_s : MRW_TOPO_GUESS_MB_S;
}

/* Is node above below, or itself? */
static bool is_above(const struct mrw_topo *topo, int32_t node, int32_t below)
{
	while (below >= 0 && below != node)
		below = topo->nodes[below].parent;
	return below == node;
}

/* Up from a until a node that is above b as well; all the way to the CPU where the path is sent there. */
static void climb(const struct mrw_topo *topo, struct load *load, int32_t a, int32_t b, bool redirected)
{
	for (; a >= 0 && topo->nodes[a].kind != MRW_TOPO_CPU && (redirected || !is_above(topo, a, b)); a = topo->nodes[a].parent)
		load->up[a]++;
}

/* Slices of one GPU share its link. */
static double through(const struct mrw_topo *topo, const struct load *load, uint32_t node)
{
	double uses = load->up[node];
	const struct mrw_topo_node *n = &topo->nodes[node];
	for (uint32_t g = 0; n->kind == MRW_TOPO_GPU && n->bus[0] && g < topo->ngpus; g++)
		if (topo->gpus[g].node != node && strcmp(topo->nodes[topo->gpus[g].node].bus, n->bus) == 0)
			uses += load->up[topo->gpus[g].node];
	return uses;
}

/* Every GPU to every other one at once, as the library's algorithms do: the narrowest place decides. MB/s that one GPU sends. */
static double spread(const struct topo_answers *a, struct topo_costs *c)
{
	const struct mrw_topo *topo = a->topo;
	static struct load load;
	double slowest = 0, ns = 0; /* MB/s^-1: the time of one byte a pair */
	memset(&load, 0, sizeof load);
	for (uint32_t i = 0; i < topo->ngpus; i++)
		for (uint32_t j = 0; j < topo->ngpus; j++) {
			if (i == j)
				continue;
			struct mrw_topo_path path = mrw_topo_path(topo, topo->gpus[i].node, topo->gpus[j].node);
			double own = 1. / width(c, path.mb_s), extra = 0;
			if (path.class == MRW_PATH_NVSWITCH) {
				own *= ++load.ports[i];
			} else if (path.class >= MRW_PATH_SWITCH) {
				climb(topo, &load, topo->gpus[i].node, topo->gpus[j].node, path.redirected);
				load.between_cpus += path.class == MRW_PATH_CPUS;
				extra = path.class <= MRW_PATH_SWITCHES ? SWITCH_NS : path.class == MRW_PATH_HOST ? ROOT_NS : CPUS_NS;
				note(c, "latencies through PCIe are assumed");
				c->shape.lines = false;
				own = 0;
			}
			slowest = own > slowest ? own : slowest;
			ns = extra > ns ? extra : ns;
		}
	for (uint32_t n = 0; n < topo->nnodes; n++) {
		double uses = through(topo, &load, n);
		if (uses > 0 && uses / width(c, topo->nodes[n].up_mb_s) > slowest)
			slowest = uses / width(c, topo->nodes[n].up_mb_s);
	}
	/* Half of the pairs go either way. */
	if (load.between_cpus > 0 && load.between_cpus / 2. / width(c, topo->between_cpus_mb_s) > slowest)
		slowest = load.between_cpus / 2. / width(c, topo->between_cpus_mb_s);
	c->figures.packet_ns += ns;
	c->figures.chunk_ns += 2 * ns;
	c->figures.line_ns += ns;
	return slowest > 0 ? (topo->ngpus - 1) / slowest : MRW_TOPO_GUESS_MB_S;
}

/* The worst served GPU's NICs: MB/s of all of them together, and how many. */
static double network(const struct topo_answers *a, struct topo_costs *c)
{
	double least = 0;
	for (uint32_t g = 0; g < a->topo->ngpus; g++) {
		double sum = 0;
		uint32_t count = 0, sharers = 0;
		for (uint32_t i = 0; i < a->pairing.npairs; i++) {
			const struct mrw_topo_pair *pair = &a->pairing.pairs[i];
			uint32_t rate = a->topo->nics[pair->nic].rate_mb_s, path = pair->path.mb_s;
			if (pair->gpu != g)
				continue;
			rate = width(c, rate && path ? rate < path ? rate : path : rate ? rate : path);
			sum += (double)rate / (pair->sharers > 0 ? pair->sharers : 1);
			sharers = pair->sharers > sharers ? pair->sharers : sharers;
			count++;
		}
		if (count > 0 && (least == 0 || sum < least)) {
			least = sum;
			c->shape.nics = count;
			c->shape.sharers = sharers;
		}
	}
	if (least == 0)
		note(c, "no NIC is known: one of 12 GB/s a rank is assumed");
	else
		note(c, "the latency of NICs is assumed");
	return least > 0 ? least : MRW_TOPO_GUESS_MB_S;
}

static void of_gpus(const struct topo_answers *a, struct topo_costs *c)
{
	c->figures = mrw_cost_nvlink;
	c->shape.target = MARROW_TARGET_CUDA;
	c->shape.per_host = a->topo->ngpus;
	c->shape.channels = MRW_MAX_CHANNELS;
	c->shape.lines = a->hosts == 1;
	if (a->topo->ngpus > 1) {
		c->link_mb_s = spread(a, c);
		double ratio = FIGURES_LINK_MB_S / c->link_mb_s;
		c->figures.packet_far_ns *= ratio;
		if (c->figures.packet_near_ns < c->figures.packet_far_ns)
			c->figures.packet_near_ns = c->figures.packet_far_ns;
		c->figures.line_byte_ns *= ratio;
		c->figures.chunk_byte_ns *= ratio;
		if (ratio > 1.01 || ratio < 0.99)
			note(c, "what a byte costs is that of two H200s, in proportion to the links");
	}
}

/* No GPU: processes, a core each. */
static void of_cores(const struct topo_answers *a, struct topo_costs *c)
{
	uint32_t cores = 0;
	for (uint32_t i = 0; i < a->topo->ncpus; i++)
		for (uint32_t k = 0; k < MRW_TOPO_CORES; k++)
			cores += a->topo->cpus[i].cores[k / 64] >> k % 64 & 1;
	c->figures = mrw_cost_host;
	c->shape.target = MARROW_TARGET_HOST;
	c->shape.cores = cores;
	c->shape.per_host = cores < 2 ? 2 : cores > MRW_MAX_NEAR ? MRW_MAX_NEAR : cores;
	c->shape.channels = 4;
	c->shape.lines = a->hosts == 1;
	note(c, "no GPU: processes on the CPU, with the figures of another machine");
}

/* What the library would take, where it takes so many ranks; else the quickest of those that there are. */
static void fill_times(struct topo_costs *c)
{
	static struct mrw_choices choices;
	struct mrw_cost_shape *s = &c->shape;
	struct mrw_select_input in;
	uint32_t host[MRW_MAX_RANKS];
	bool fits = s->nranks <= MRW_MAX_RANKS && s->per_host <= MRW_MAX_NEAR;
	memset(&in, 0, sizeof in);
	s->rails = s->hosts > 1 && s->per_host > 1 && s->nranks > MRW_MAX_WHOLE;
	if (fits) {
		for (uint32_t r = 0; r < s->nranks; r++)
			host[r] = r / s->per_host;
		struct mrw_weigh_machine m = {.figures = &c->figures, .target = s->target, .channels = s->channels, .cores = s->cores, .nics = s->nics,
					      .sharers = s->sharers};
		struct mrw_reach reach = mrw_weigh(s->nranks, host, -1, &m, &c->weights);
		s->rails = reach.rails;
		s->ring = reach.ring;
		if (reach.tree)
			mrw_cost_plant(s);
		in = (struct mrw_select_input){.target = s->target, .nranks = s->nranks, .nics = s->hosts > 1 ? s->nics : 0, .lines = s->lines,
					       .forced_algo = -1, .choices = &choices};
		in.layout = mrw_reach_fit(&reach, &s->channels, s->target == MARROW_TARGET_HOST ? MRW_HOST_STAGING_BUDGET : MRW_STAGING_BUDGET);
		in.channel_cap = s->channels;
		s->chunk_bytes = mrw_chunk_room(&in.layout, s->target);
		mrw_select_prepare(&choices, &in, s, NULL);
	} else
		note(c, "more ranks than this version takes: the quickest of its algorithms");
	for (uint32_t f = 0; f < TOPO_COST_FUNCS; f++)
		for (uint32_t b = 0; b < TOPO_COST_SIZES; b++) {
			struct topo_cost_time *t = &c->times[f][b];
			bool blocks = c->funcs[f] == MRW_FUNC_ALL_GATHER || c->funcs[f] == MRW_FUNC_REDUCE_SCATTER;
			in.func = c->funcs[f];
			in.bytes = blocks ? c->bytes[b] / s->nranks + (c->bytes[b] % s->nranks != 0) : c->bytes[b];
			if (fits)
				t->algo = mrw_select(&in).algo;
			double ns = mrw_cost_ns(&c->figures, s, in.func, in.bytes, t->algo);
			for (int algo = 0; !fits && algo < MRW_ALGO_COUNT; algo++) {
				double other = mrw_cost_ns(&c->figures, s, in.func, in.bytes, (enum mrw_algo)algo);
				if (other < ns || t->algo == MRW_ALGO_LOCAL) {
					ns = other;
					t->algo = (enum mrw_algo)algo;
				}
			}
			t->us = ns / 1e3;
		}
}

void topo_make_costs(const struct topo_answers *a, struct topo_costs *c)
{
	static const uint64_t bytes[TOPO_COST_SIZES] = {8, 1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20, 32 << 20, 128 << 20, 512 << 20, 1 << 30};
	static const enum mrw_func funcs[TOPO_COST_FUNCS] = {MRW_FUNC_ALL_REDUCE, MRW_FUNC_ALL_GATHER, MRW_FUNC_REDUCE_SCATTER, MRW_FUNC_BROADCAST,
							     MRW_FUNC_REDUCE};
	memset(c, 0, sizeof *c);
	memcpy(c->bytes, bytes, sizeof bytes);
	memcpy(c->funcs, funcs, sizeof funcs);
	if (a->topo->ngpus > 0)
		of_gpus(a, c);
	else
		of_cores(a, c);
	c->shape.hosts = a->hosts;
	c->shape.nranks = c->shape.per_host * a->hosts;
	if (a->hosts > 1) {
		c->nic_mb_s = network(a, c);
		c->figures.net_byte_ns = 1e3 / (c->nic_mb_s * NET_SHARE);
		if (c->shape.nics > 1) /* the model divides by them */
			c->figures.net_byte_ns *= c->shape.nics;
		if (c->shape.sharers > 1) /* and knows who shares */
			c->figures.net_byte_ns /= c->shape.sharers;
	}
	if (c->shape.nranks < 2)
		c->shape.nranks = 0;
	else
		fill_times(c);
}
