/* svg.h - a pen for pictures: shapes in any order, then the whole with the size that they need. */
#ifndef TOOLS_SVG_H
#define TOOLS_SVG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct svg {
	FILE *body;
	char *text;
	size_t bytes;
	int width, height; /* of what was drawn */
};

struct svg_box {
	int x, y, width, height;
};

/* False without memory. */
bool svg_begin(struct svg *svg);
/* Writes it and frees all. False on a write error. */
bool svg_end(struct svg *svg, FILE *file);

void svg_rect(struct svg *svg, struct svg_box box, const char *fill);
/* Its baseline begins at x, y; what XML minds is replaced. size: of the font. */
void svg_text(struct svg *svg, int x, int y, int size, const char *format, ...) __attribute__((format(printf, 5, 6)));
void svg_line(struct svg *svg, int x1, int y1, int x2, int y2, const char *colour, double width);
/* Leaves and arrives vertically; bend: how far down (negative: up). */
void svg_curve(struct svg *svg, int x1, int y1, int x2, int y2, int bend, const char *colour, double width);
/* With an arrow's head at the end. */
void svg_arrow(struct svg *svg, double x1, double y1, double x2, double y2, const char *colour, double width);
void svg_dot(struct svg *svg, int x, int y, int radius, const char *fill);

/* Of a bandwidth; 0: unknown. Dark to bright. */
const char *svg_colour(uint32_t mb_s);
/* The colours and what they mean. Returns the height it took. */
int svg_legend(struct svg *svg, int x, int y);

#endif
