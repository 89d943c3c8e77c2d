/* The machine: CPUs in rows, bridges in them, devices in those, NVSwitches as bars, those that join the same GPUs as one. The upper edge of a
 * box has the colour of its PCIe link. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "topo_svg.h"

enum { LEAF_WIDTH = 104, LEAF_HEIGHT = 46, PAD = 8, TITLE = 20, GAP = 44, ROW_WIDTH = 1800, ROWS = 64, BAR_WIDTH = 3 * LEAF_WIDTH,
       BAR_HEIGHT = 26, BOW = 100, FONT = 11, ARCH = 26 };
#define NONE UINT32_MAX

/* NVSwitches that share GPUs, or all that have none. */
struct fabric {
	uint32_t switches, first, last; /* indices */
	uint32_t gpus, level;           /* bars at one level stand side by side */
	bool above;                     /* has a GPU in the first row */
	struct svg_box box;
};

struct picture {
	const struct mrw_topo *topo;
	struct svg *svg;
	struct svg_box boxes[MRW_TOPO_NODES];
	uint32_t row[MRW_TOPO_NODES]; /* of a root */
	int row_y[ROWS], row_height[ROWS];
	uint32_t nrows, nfabrics, nlevels;
	struct fabric fabrics[MRW_TOPO_NVSWITCHES];
	uint32_t fabric_of[MRW_TOPO_NODES]; /* of GPUs and NVSwitches: its number, NONE without */
	int bar_y;
};

static bool holds_others(enum mrw_topo_kind kind)
{
	return kind == MRW_TOPO_CPU || kind == MRW_TOPO_BRIDGE;
}

static bool is_root(const struct mrw_topo *topo, uint32_t node)
{
	return topo->nodes[node].parent < 0 && topo->nodes[node].kind != MRW_TOPO_NVSWITCH;
}

/* Sizes, then places: what is below a node stands in it side by side. */
static void measure(struct picture *p, uint32_t node)
{
	struct svg_box *box = &p->boxes[node];
	int width = PAD, height = 0;

	box->width = LEAF_WIDTH;
	box->height = LEAF_HEIGHT;
	if (!holds_others(p->topo->nodes[node].kind))
		return;
	for (uint32_t i = node + 1; i < p->topo->nnodes; i++) {
		if (p->topo->nodes[i].parent != (int32_t)node)
			continue;
		measure(p, i);
		width += p->boxes[i].width + PAD;
		height = p->boxes[i].height > height ? p->boxes[i].height : height;
	}
	box->width = width > LEAF_WIDTH + 2 * PAD ? width : LEAF_WIDTH + 2 * PAD;
	box->height = TITLE + height + PAD;
}

static void place(struct picture *p, uint32_t node, int x, int y)
{
	p->boxes[node].x = x;
	p->boxes[node].y = y;
	x += PAD;
	for (uint32_t i = node + 1; i < p->topo->nnodes && holds_others(p->topo->nodes[node].kind); i++)
		if (p->topo->nodes[i].parent == (int32_t)node) {
			place(p, i, x, y + TITLE);
			x += p->boxes[i].width + PAD;
		}
}

/* Which root stands in which row, and how high the rows are. */
static void fill_rows(struct picture *p)
{
	int used = 0;

	p->nrows = 1;
	for (uint32_t i = 0; i < p->topo->nnodes; i++) {
		if (!is_root(p->topo, i))
			continue;
		measure(p, i);
		if (used > 0 && used + p->boxes[i].width > ROW_WIDTH && p->nrows < ROWS) {
			p->nrows++;
			used = 0;
		}
		used += p->boxes[i].width + 2 * PAD;
		p->row[i] = p->nrows - 1;
		if (p->boxes[i].height > p->row_height[p->row[i]])
			p->row_height[p->row[i]] = p->boxes[i].height;
	}
}

/* The bars stand below the first row where there are two, else below all. Returns where the picture ends. */
static int place_rows(struct picture *p, int x, int y)
{
	int across[ROWS];
	bool direct = p->topo->nnvswitches == 0 && p->topo->nlinks > 0;

	for (uint32_t r = 0; r < p->nrows; r++) {
		across[r] = x;
		p->row_y[r] = y + ARCH;
		y = p->row_y[r] + p->row_height[r] + (direct ? BOW : PAD);
		if (p->topo->nnvswitches > 0 && (r == p->nrows - 1 ? p->nrows != 2 : p->nrows == 2)) {
			p->bar_y = y + GAP;
			y = p->bar_y + (int)p->nlevels * (BAR_HEIGHT + PAD) - PAD + (p->nrows == 2 ? GAP : PAD);
		}
	}
	for (uint32_t i = 0; i < p->topo->nnodes; i++)
		if (is_root(p->topo, i)) {
			place(p, i, across[p->row[i]], p->row_y[p->row[i]]);
			across[p->row[i]] += p->boxes[i].width + 2 * PAD;
		}
	return y;
}

static bool is_switch(const struct mrw_topo *topo, uint32_t node)
{
	return topo->nodes[node].kind == MRW_TOPO_NVSWITCH;
}

static void find_fabrics(struct picture *p)
{
	const struct mrw_topo *topo = p->topo;
	uint32_t group[MRW_TOPO_NODES], number[MRW_TOPO_NODES], unlinked = NONE;
	bool linked[MRW_TOPO_NODES] = {false}, changed = true;

	for (uint32_t i = 0; i < topo->nnodes; i++) {
		group[i] = i;
		number[i] = p->fabric_of[i] = NONE;
	}
	while (changed) {
		changed = false;
		for (uint32_t l = 0; l < topo->nlinks; l++) {
			uint32_t a = topo->links[l].a, b = topo->links[l].b, low = group[a] < group[b] ? group[a] : group[b];
			if (topo->links[l].kind != MRW_LINK_NVLINK || is_switch(topo, a) == is_switch(topo, b))
				continue;
			linked[a] = linked[b] = true;
			changed = changed || group[a] != group[b];
			group[a] = group[b] = low;
		}
	}
	for (uint32_t s = 0; s < topo->nnvswitches; s++) {
		uint32_t node = topo->nvswitches[s].node, *of = linked[node] ? &number[group[node]] : &unlinked;
		if (*of == NONE) {
			*of = p->nfabrics++;
			p->fabrics[*of].first = s;
		}
		p->fabric_of[node] = *of;
		p->fabrics[*of].switches++;
		p->fabrics[*of].last = s;
	}
	for (uint32_t g = 0; g < topo->ngpus; g++) {
		uint32_t node = topo->gpus[g].node;
		if (linked[node])
			p->fabric_of[node] = number[group[node]];
		if (p->fabric_of[node] != NONE)
			p->fabrics[p->fabric_of[node]].gpus++;
	}
}

static uint32_t free_level(const struct picture *p, const struct fabric *mine)
{
	uint32_t level = 0;

	for (uint32_t i = 0; i < p->nfabrics; i++) {
		const struct fabric *f = &p->fabrics[i];
		if (f->level != level || f->box.x >= mine->box.x + mine->box.width + PAD || mine->box.x >= f->box.x + f->box.width + PAD)
			continue;
		level++;
		i = UINT32_MAX; /* from the first again */
	}
	return level;
}

/* As wide as its GPUs stand apart, and at the first level where it has room: those of the first row before the others. */
static void place_fabrics(struct picture *p, int x)
{
	const struct mrw_topo *topo = p->topo;

	for (uint32_t i = 0; i < p->nfabrics; i++) {
		struct fabric *f = &p->fabrics[i];
		int first = INT_MAX, last = x;
		for (uint32_t g = 0; g < topo->ngpus; g++) {
			const struct svg_box *gpu = &p->boxes[topo->gpus[g].node];
			if (p->fabric_of[topo->gpus[g].node] != i)
				continue;
			first = gpu->x < first ? gpu->x : first;
			last = gpu->x + gpu->width > last ? gpu->x + gpu->width : last;
			f->above = f->above || gpu->y < p->bar_y;
		}
		first = f->gpus > 0 ? first : x;
		f->box = (struct svg_box){first, 0, last - first > BAR_WIDTH ? last - first : BAR_WIDTH, BAR_HEIGHT};
		f->level = NONE;
	}
	for (uint32_t pass = 0; pass < 2; pass++)
		for (uint32_t i = 0; i < p->nfabrics; i++) {
			struct fabric *f = &p->fabrics[i];
			if (f->above == (pass == 0))
				f->level = free_level(p, f);
			f->box.y = p->bar_y + (int)f->level * (BAR_HEIGHT + PAD);
			p->nlevels = f->level + 1 > p->nlevels ? f->level + 1 : p->nlevels;
		}
}

/* Of all NVLinks of a node; only those to switches. */
static uint32_t nvlinks(const struct mrw_topo *topo, uint32_t node, bool to_switches)
{
	uint32_t mb_s = 0;

	for (uint32_t i = 0; i < topo->nlinks; i++) {
		const struct mrw_topo_link *link = &topo->links[i];
		uint32_t other = link->a == node ? link->b : link->a;

		if (link->kind == MRW_LINK_NVLINK && (link->a == node || link->b == node) && (!to_switches || is_switch(topo, other)))
			mb_s += link->lanes * link->lane_mb_s;
	}
	return mb_s;
}

static void draw_node(const struct picture *p, uint32_t node)
{
	static const char *const fills[] = {"#f4f4f4", "#dfe7f2", "#d9f0d3", "#fde8cc", "#e3d4f2"};
	const struct mrw_topo_node *n = &p->topo->nodes[node];
	const struct svg_box *box = &p->boxes[node];
	uint32_t all = n->kind == MRW_TOPO_GPU ? nvlinks(p->topo, node, false) : 0;

	svg_rect(p->svg, *box, fills[n->kind]);
	if (n->kind != MRW_TOPO_CPU)
		svg_line(p->svg, box->x + 4, box->y, box->x + box->width - 4, box->y, svg_colour(n->up_mb_s), 4);
	svg_text(p->svg, box->x + 5, box->y + 14, FONT, "%s", n->name);
	if (holds_others(n->kind))
		return;
	if (n->up_mb_s != 0)
		svg_text(p->svg, box->x + 5, box->y + 27, FONT - 1, "PCIe %.1f GB/s", n->up_mb_s / 1000.);
	if (all != 0)
		svg_text(p->svg, box->x + 5, box->y + 40, FONT - 1, "NVLink %.0f GB/s", all / 1000.);
	else if (n->kind == MRW_TOPO_NIC && p->topo->nics[n->index].rate_mb_s != 0)
		svg_text(p->svg, box->x + 5, box->y + 40, FONT - 1, "port %.1f GB/s", p->topo->nics[n->index].rate_mb_s / 1000.);
}

static void draw_fabrics(const struct picture *p)
{
	const struct mrw_topo *topo = p->topo;

	/* In more than two rows lines would cross boxes; each GPU says its width anyway. */
	for (uint32_t i = 0; p->nrows <= 2 && i < topo->ngpus; i++) {
		const struct svg_box *box = &p->boxes[topo->gpus[i].node];
		uint32_t mb_s = nvlinks(topo, topo->gpus[i].node, true);
		int middle = box->x + box->width / 2;

		if (mb_s == 0)
			continue;
		const struct svg_box *bar = &p->fabrics[p->fabric_of[topo->gpus[i].node]].box;
		if (box->y < bar->y)
			svg_line(p->svg, middle, box->y + box->height, middle, bar->y, svg_colour(mb_s), 5);
		else
			svg_line(p->svg, middle, bar->y + bar->height, middle, box->y, svg_colour(mb_s), 5);
	}
	for (uint32_t i = 0; i < p->nfabrics; i++) {
		const struct fabric *f = &p->fabrics[i];
		const char *first = topo->nodes[topo->nvswitches[f->first].node].name, *last = topo->nodes[topo->nvswitches[f->last].node].name;

		svg_rect(p->svg, f->box, "#e3d4f2");
		svg_text(p->svg, f->box.x + 8, f->box.y + 17, FONT, "%u NVSwitch%s: %s%s%s, %u GPU%s", f->switches, f->switches > 1 ? "es" : "", first,
			 f->switches > 1 ? " to " : "", f->switches > 1 ? last : "", f->gpus, f->gpus == 1 ? "" : "s");
	}
}

/* Below the devices; wide ones bend further. */
static void draw_direct(const struct picture *p)
{
	for (uint32_t i = 0; i < p->topo->nlinks; i++) {
		const struct mrw_topo_link *link = &p->topo->links[i];
		const struct svg_box *a = &p->boxes[link->a], *b = &p->boxes[link->b];
		int x1 = a->x + a->width / 2, x2 = b->x + b->width / 2, bend = 16 + abs(x2 - x1) / 9;

		if (link->kind == MRW_LINK_NVLINK && !is_switch(p->topo, link->a) && !is_switch(p->topo, link->b))
			svg_curve(p->svg, x1, a->y + a->height, x2, b->y + b->height, bend < BOW ? bend : BOW,
				  svg_colour(link->lanes * link->lane_mb_s), 1 + link->lanes * 0.6);
	}
}

int topo_svg_machine(const struct topo_answers *a, struct svg *svg, int x, int y)
{
	struct picture *p = calloc(1, sizeof *p);
	int end;

	if (!p)
		return 0;
	p->topo = a->topo;
	p->svg = svg;
	p->nlevels = 1;
	fill_rows(p);
	find_fabrics(p);
	end = place_rows(p, x, y);
	place_fabrics(p, x);
	if (p->nlevels > 1)
		end = place_rows(p, x, y);
	for (uint32_t i = 0; i < a->topo->nnodes; i++)
		if (!is_switch(a->topo, i))
			draw_node(p, i);
	draw_fabrics(p);
	draw_direct(p);
	for (uint32_t i = 0; i < a->pairing.npairs; i++) {
		const struct svg_box *gpu = &p->boxes[a->topo->gpus[a->pairing.pairs[i].gpu].node];
		const struct svg_box *nic = &p->boxes[a->topo->nics[a->pairing.pairs[i].nic].node];
		int x1 = gpu->x + gpu->width / 2 + 12, x2 = nic->x + nic->width / 2, bend = 12 + abs(x2 - x1) / 14;

		svg_curve(svg, x1, gpu->y, x2, nic->y, -(bend < ARCH + TITLE ? bend : ARCH + TITLE), "#d95f02", 1.6);
	}
	if (a->pairing.npairs > 0)
		svg_text(svg, x, end + 12, FONT, "Orange: the NICs that each GPU uses. The upper edge of a box: its PCIe link.");
	free(p);
	return end - y + 32;
}
