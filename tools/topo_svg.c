/* A picture: CPUs beside each other, bridges in them, devices in those; NVSwitches below; lines for NVLinks and for NICs chosen. */
#include <stdlib.h>
#include <string.h>

#include "topo_print.h"

enum { LEAF_WIDTH = 92, LEAF_HEIGHT = 30, PAD = 8, TITLE = 18, GAP = 70, FONT = 11 };

struct box {
	int x, y, width, height;
};

struct picture {
	const struct mrw_topo *topo;
	FILE *file;
	struct box boxes[MRW_TOPO_NODES];
};

static bool holds_others(enum mrw_topo_kind kind)
{
	return kind == MRW_TOPO_CPU || kind == MRW_TOPO_BRIDGE;
}

/* Sizes, then places: what is below a node stands in it side by side. */
static void measure(struct picture *p, uint32_t node)
{
	struct box *box = &p->boxes[node];

	box->width = LEAF_WIDTH;
	box->height = LEAF_HEIGHT;
	if (!holds_others(p->topo->nodes[node].kind))
		return;
	int width = PAD, height = 0;
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

static void draw_box(const struct picture *p, uint32_t node)
{
	static const char *const colours[] = {"#f4f4f4", "#dfe7f2", "#cdebc5", "#fbe0b8", "#e3d4f2"};
	const struct box *box = &p->boxes[node];
	const struct mrw_topo_node *n = &p->topo->nodes[node];

	/* Names hold no character that XML minds. */
	fprintf(p->file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" fill=\"%s\" stroke=\"#555\"/>",
		box->x, box->y, box->width, box->height, colours[n->kind]);
	fprintf(p->file, "<text x=\"%d\" y=\"%d\">%s</text>\n", box->x + 5, box->y + 13, n->name);
	if (!holds_others(n->kind) && n->up_mb_s != 0)
		fprintf(p->file, "<text x=\"%d\" y=\"%d\" fill=\"#555\">%.1f GB/s</text>\n", box->x + 5, box->y + 25,
			n->up_mb_s / 1000.);
}

/* From the lower edge of one to the lower (NVLink) or upper edge of the other, bent. */
static void draw_line(const struct picture *p, uint32_t a, uint32_t b, bool below, const char *colour, double width)
{
	const struct box *one = &p->boxes[a], *two = &p->boxes[b];
	int x1 = one->x + one->width / 2, x2 = two->x + two->width / 2, y1 = one->y + (below ? one->height : 0);
	bool nvswitch = p->topo->nodes[b].kind == MRW_TOPO_NVSWITCH;
	int y2 = two->y + (below && !nvswitch ? two->height : 0);
	int bend = nvswitch ? (y2 - y1) / 2 : (below ? 1 : -1) * (14 + abs(x2 - x1) / 12);

	fprintf(p->file, "<path d=\"M%d %d C%d %d %d %d %d %d\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\"/>\n",
		x1, y1, x1, y1 + bend, x2, nvswitch ? y2 - bend : y2 + bend, x2, y2, colour, width);
}

void topo_print_svg(const struct topo_answers *a, FILE *file)
{
	struct picture *p = calloc(1, sizeof *p);
	int x = PAD, bottom = 0;

	if (p == NULL)
		return;
	p->topo = a->topo;
	p->file = file;
	for (uint32_t i = 0; i < a->topo->nnodes; i++) {
		if (a->topo->nodes[i].parent >= 0 || a->topo->nodes[i].kind == MRW_TOPO_NVSWITCH)
			continue;
		measure(p, i);
		place(p, i, x, GAP);
		x += p->boxes[i].width + 2 * PAD;
		bottom = p->boxes[i].height > bottom ? p->boxes[i].height : bottom;
	}
	bottom += GAP + 2 * GAP;
	int right = PAD;
	for (uint32_t i = 0; i < a->topo->nnvswitches; i++) {
		p->boxes[a->topo->nvswitches[i].node] = (struct box){right, bottom, LEAF_WIDTH, LEAF_HEIGHT};
		right += LEAF_WIDTH + 2 * PAD;
	}
	fprintf(file,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"%d\">\n",
		(x > right ? x : right) + PAD, bottom + LEAF_HEIGHT + PAD, FONT);
	for (uint32_t i = 0; i < a->topo->nnodes; i++)
		draw_box(p, i);
	for (uint32_t i = 0; i < a->topo->nlinks; i++) {
		const struct mrw_topo_link *link = &a->topo->links[i];
		bool first = a->topo->nodes[link->a].kind == MRW_TOPO_GPU;
		if (link->kind == MRW_LINK_NVLINK)
			draw_line(p, first ? link->a : link->b, first ? link->b : link->a, true, "#3a8f2e",
				  0.5 + 0.25 * link->lanes);
	}
	for (uint32_t i = 0; i < a->pairing.npairs; i++)
		draw_line(p, a->topo->gpus[a->pairing.pairs[i].gpu].node, a->topo->nics[a->pairing.pairs[i].nic].node,
			  false, "#c9781d", 2);
	fprintf(file, "</svg>\n");
	free(p);
}
