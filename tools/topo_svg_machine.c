/* The machine: CPUs in rows, bridges in them, devices in those, NVSwitches as a bar. The upper edge of a box has the colour of its PCIe link. */
#include <stdlib.h>
#include <string.h>

#include "topo_svg.h"

enum { LEAF_WIDTH = 104, LEAF_HEIGHT = 46, PAD = 8, TITLE = 20, GAP = 44, ROW_WIDTH = 1800, ROWS = 64, BAR_HEIGHT = 26, BOW = 100, FONT = 11, ARCH = 26 };

struct picture {
	const struct mrw_topo *topo;
	struct svg *svg;
	struct svg_box boxes[MRW_TOPO_NODES];
	uint32_t row[MRW_TOPO_NODES]; /* of a root */
	int row_y[ROWS], row_height[ROWS];
	uint32_t nrows;
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

/* The bar stands below the first row where there are two, else below all. Returns where the picture ends. */
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
			y = p->bar_y + BAR_HEIGHT + (p->nrows == 2 ? GAP : PAD);
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

static void draw_bar(const struct picture *p, int x)
{
	const struct mrw_topo *topo = p->topo;
	int first = 1 << 30, last = 0;

	for (uint32_t i = 0; i < topo->ngpus; i++) {
		const struct svg_box *box = &p->boxes[topo->gpus[i].node];
		first = box->x < first ? box->x : first;
		last = box->x + box->width > last ? box->x + box->width : last;
	}
	if (topo->ngpus == 0)
		first = last = x;
	svg_rect(p->svg, (struct svg_box){first, p->bar_y, last - first > 3 * LEAF_WIDTH ? last - first : 3 * LEAF_WIDTH, BAR_HEIGHT}, "#e3d4f2");
	svg_text(p->svg, first + 8, p->bar_y + 17, FONT, "%u NVSwitch%s: %s%s%s", topo->nnvswitches, topo->nnvswitches > 1 ? "es" : "", topo->nodes[topo->nvswitches[0].node].name,
		 topo->nnvswitches > 1 ? " to " : "",
		 topo->nnvswitches > 1 ? topo->nodes[topo->nvswitches[topo->nnvswitches - 1].node].name : "");
	/* In more than two rows lines would cross boxes; each GPU says its width anyway. */
	for (uint32_t i = 0; p->nrows <= 2 && i < topo->ngpus; i++) {
		const struct svg_box *box = &p->boxes[topo->gpus[i].node];
		uint32_t mb_s = nvlinks(topo, topo->gpus[i].node, true);
		int middle = box->x + box->width / 2;

		if (mb_s == 0)
			continue;
		if (box->y < p->bar_y)
			svg_line(p->svg, middle, box->y + box->height, middle, p->bar_y, svg_colour(mb_s), 5);
		else
			svg_line(p->svg, middle, p->bar_y + BAR_HEIGHT, middle, box->y, svg_colour(mb_s), 5);
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
	fill_rows(p);
	end = place_rows(p, x, y);
	for (uint32_t i = 0; i < a->topo->nnodes; i++)
		if (!is_switch(a->topo, i))
			draw_node(p, i);
	if (a->topo->nnvswitches > 0)
		draw_bar(p, x);
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
