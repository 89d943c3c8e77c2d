/* Rings as loops: the GPUs stand on a circle in their order, each ring is a closed way through all of them. */
#include "topo_svg.h"

#include <math.h>

enum { SIZE = 190, RADIUS = 66, DOT = 11, A_ROW = 8, SHOWN = 16, LABELLED = 32 };

static void corner(uint32_t gpu, uint32_t ngpus, int x, int y, double *cx, double *cy)
{
	double angle = 2 * 3.14159265358979 * gpu / ngpus - 1.5707963;

	*cx = x + SIZE / 2 + RADIUS * cos(angle);
	*cy = y + SIZE / 2 + RADIUS * sin(angle);
}

static void draw_ring(const struct topo_answers *a, const struct mrw_topo_ring *ring, struct svg *svg, int x, int y)
{
	uint32_t n = a->rings.ngpus;
	double x1, y1, x2, y2;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t from = ring->order[i], to = ring->order[(i + 1) % n];

		corner(from, n, x, y, &x1, &y1);
		corner(to, n, x, y, &x2, &y2);
		double length = hypot(x2 - x1, y2 - y1), cut = n <= LABELLED ? (DOT + 1) / length : 0, shift = n == 2 ? 5 * (from < to ? 1 : -1) : 0;
		/* Two GPUs: both directions beside each other. */
		svg_arrow(svg, x1 + cut * (x2 - x1) + shift, y1 + cut * (y2 - y1), x2 - cut * (x2 - x1) + shift, y2 - cut * (y2 - y1),
			  svg_colour(ring->mb_s), 2.2);
	}
	for (uint32_t i = 0; i < n && n <= LABELLED; i++) {
		corner(i, n, x, y, &x1, &y1);
		svg_dot(svg, (int)x1, (int)y1, DOT, "#d9f0d3");
		svg_text(svg, (int)x1 - (i < 10 ? 3 : 7), (int)y1 + 4, 11, "%u", i);
	}
}

int topo_svg_rings(const struct topo_answers *a, struct svg *svg, int x, int y)
{
	uint32_t shown = a->rings.nrings < SHOWN ? a->rings.nrings : SHOWN;

	if (shown == 0)
		return 0;
	svg_text(svg, x, y + 12, 14, "%u ring%s, %.1f GB/s together%s", a->rings.nrings, a->rings.nrings == 1 ? "" : "s", a->rings.mb_s / 1000.,
		 a->rings.best ? " (no rings can do better)" : "");
	if (shown < a->rings.nrings)
		svg_text(svg, x, y + 28, 11, "the first %u are shown", shown);
	y += 30;
	for (uint32_t r = 0; r < shown; r++) {
		const struct mrw_topo_ring *ring = &a->rings.rings[r];
		int left = x + (int)(r % A_ROW) * SIZE, top = y + (int)(r / A_ROW) * (SIZE + 16);

		svg_text(svg, left + 4, top + 10, 11, "ring %u: %.1f GB/s by %s", r, ring->mb_s / 1000., mrw_path_name(ring->worst));
		draw_ring(a, ring, svg, left, top + 8);
	}
	return 30 + (int)((shown + A_ROW - 1) / A_ROW) * (SIZE + 16) + 16;
}
