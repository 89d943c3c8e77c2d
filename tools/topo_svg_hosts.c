/* Several hosts of this kind: the rails that join them, and both trees over them. */
#include "topo_svg.h"

enum { WIDTH = 160, BETWEEN = 40, TITLE = 20, ROW = 24, SHOWN = 8, RAILS_SHOWN = 16, IN_TREE = 32, STEP = 34, LEVEL = 40, DOT = 10 };

static uint32_t rails_shown(const struct topo_answers *a)
{
	return a->rails.nrails < RAILS_SHOWN ? a->rails.nrails : RAILS_SHOWN;
}

static void draw_host(const struct topo_answers *a, struct svg *svg, uint32_t number, int x, int y)
{
	const struct mrw_topo *topo = a->topo;
	int height = TITLE + ROW * (int)rails_shown(a);

	svg_rect(svg, (struct svg_box){x, y, WIDTH, height}, "#f4f4f4");
	svg_text(svg, x + 6, y + 14, 11, "host %u", number);
	for (uint32_t r = 0; r < rails_shown(a); r++) {
		const struct mrw_topo_nic *nic = &topo->nics[a->rails.nic[r]];
		const char *gpu = topo->nodes[topo->gpus[a->rails.gpu[r]].node].name;
		int top = y + TITLE + ROW * (int)r;
		uint32_t users = 0;

		for (uint32_t g = 0; g < topo->ngpus; g++)
			users += a->rails.rail_of_gpu[g] == r;
		svg_rect(svg, (struct svg_box){x + 4, top, WIDTH - 8, ROW - 4}, "#fde8cc");
		if (users > 1)
			svg_text(svg, x + 8, top + 14, 11, "%.10s for %.8s + %u", topo->nodes[nic->node].name, gpu, users - 1);
		else
			svg_text(svg, x + 8, top + 14, 11, "%.12s for %.10s", topo->nodes[nic->node].name, gpu);
	}
}

static int draw_rails(const struct topo_answers *a, struct svg *svg, int x, int y)
{
	uint32_t shown = a->hosts < SHOWN ? a->hosts : SHOWN;

	svg_text(svg, x, y + 12, 14, "%u hosts, %u rail%s%s", a->hosts, a->rails.nrails, a->rails.nrails == 1 ? "" : "s",
		 a->rails.nrails == 0 ? ": no GPU has a NIC" : "");
	if (rails_shown(a) < a->rails.nrails)
		svg_text(svg, x + 400, y + 12, 11, "the first %u rails are shown", rails_shown(a));
	y += 24;
	for (uint32_t h = 0; h < shown; h++) {
		int left = x + (int)h * (WIDTH + BETWEEN);

		draw_host(a, svg, h, left, y);
		for (uint32_t r = 0; r < rails_shown(a); r++) {
			int middle = y + TITLE + ROW * (int)r + ROW / 2 - 2;

			if (h + 1 < shown || shown < a->hosts)
				svg_line(svg, left + WIDTH - 4, middle, left + WIDTH + BETWEEN + 4, middle,
					 svg_colour(a->topo->nics[a->rails.nic[r]].rate_mb_s), 3);
		}
	}
	if (shown < a->hosts)
		svg_text(svg, x + (int)shown * (WIDTH + BETWEEN) + 8, y + 14, 11, "and %u more", a->hosts - shown);
	return 24 + TITLE + ROW * (int)rails_shown(a) + 20;
}

static uint32_t depth(uint32_t n, uint32_t which, uint32_t rank)
{
	uint32_t d = 0;
	int32_t parent = mrw_topo_double_tree(n, which, rank).parent;

	for (; parent != MRW_NOBODY; d++)
		parent = mrw_topo_double_tree(n, which, (uint32_t)parent).parent;
	return d;
}

/* Hosts from left to right, each as low as it is deep. */
static int draw_tree(struct svg *svg, uint32_t n, uint32_t which, int x, int y)
{
	uint32_t deepest = 0;

	svg_text(svg, x, y + 12, 11, "tree %u over the hosts", which);
	y += 34;
	for (uint32_t pass = 0; pass < 2; pass++)
		for (uint32_t h = 0; h < n; h++) {
			int32_t parent = mrw_topo_double_tree(n, which, h).parent;
			uint32_t d = depth(n, which, h);
			int left = x + DOT + (int)h * STEP, top = y + (int)d * LEVEL;

			deepest = d > deepest ? d : deepest;
			if (pass == 1) {
				svg_dot(svg, left, top, DOT, parent == MRW_NOBODY ? "#fde8cc" : "#f4f4f4");
				svg_text(svg, left - (h < 10 ? 3 : 7), top + 4, 11, "%u", h);
			} else if (parent != MRW_NOBODY) {
				svg_line(svg, left, top, x + DOT + parent * STEP, y + (int)depth(n, which, (uint32_t)parent) * LEVEL, "#555", 1.4);
			}
		}
	return 34 + (int)deepest * LEVEL + 24;
}

int topo_svg_hosts(const struct topo_answers *a, struct svg *svg, int x, int y)
{
	int from = y, first, second;

	if (a->hosts < 2)
		return 0;
	y += draw_rails(a, svg, x, y);
	if (a->hosts > IN_TREE) {
		svg_text(svg, x, y + 12, 11, "trees are drawn over up to %d hosts", IN_TREE);
		return y + 24 - from;
	}
	first = draw_tree(svg, a->hosts, 0, x, y);
	second = draw_tree(svg, a->hosts, 1, x + (int)a->hosts * STEP + 60, y);
	return y + (first > second ? first : second) - from;
}
