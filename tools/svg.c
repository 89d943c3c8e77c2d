#include "svg.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MARGIN = 10, HEAD = 7 };

/* Told apart by brightness alone, too. */
static const struct {
	uint32_t from_mb_s;
	const char *colour, *text;
} scale[] = {
	{300000, "#d9a400", "300 GB/s and more"}, {100000, "#5aa02c", "100 to 300"}, {40000, "#1f8f8f", "40 to 100"},
	{16000, "#3b528b", "16 to 40"}, {1, "#440154", "below 16"}, {0, "#999999", "unknown"},
};

bool svg_begin(struct svg *svg)
{
	memset(svg, 0, sizeof *svg);
	svg->body = open_memstream(&svg->text, &svg->bytes);
	return svg->body != NULL;
}

bool svg_end(struct svg *svg, FILE *file)
{
	bool good = fclose(svg->body) == 0;

	fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
		svg->width + MARGIN, svg->height + MARGIN);
	if (good)
		fwrite(svg->text, 1, svg->bytes, file);
	fprintf(file, "</svg>\n");
	free(svg->text);
	return good && !ferror(file);
}

static void cover(struct svg *svg, int x, int y)
{
	svg->width = x > svg->width ? x : svg->width;
	svg->height = y > svg->height ? y : svg->height;
}

void svg_rect(struct svg *svg, struct svg_box box, const char *fill)
{
	fprintf(svg->body, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" fill=\"%s\" stroke=\"#555\"/>\n", box.x, box.y, box.width,
		box.height, fill);
	cover(svg, box.x + box.width, box.y + box.height);
}

void svg_text(struct svg *svg, int x, int y, int size, const char *format, ...)
{
	char text[200];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	for (char *at = text; *at; at++)
		if (*at == '<' || *at == '>' || *at == '&' || (unsigned char)*at < ' ')
			*at = '?';
	fprintf(svg->body, "<text x=\"%d\" y=\"%d\" font-size=\"%d\">%s</text>\n", x, y, size, text);
	cover(svg, x + (int)strlen(text) * size * 6 / 10, y);
}

void svg_line(struct svg *svg, int x1, int y1, int x2, int y2, const char *colour, double width)
{
	fprintf(svg->body, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"%s\" stroke-width=\"%.1f\"/>\n", x1, y1, x2, y2, colour, width);
	cover(svg, x1 > x2 ? x1 : x2, y1 > y2 ? y1 : y2);
}

void svg_curve(struct svg *svg, int x1, int y1, int x2, int y2, int bend, const char *colour, double width)
{
	fprintf(svg->body, "<path d=\"M%d %d C%d %d %d %d %d %d\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\"/>\n", x1, y1, x1, y1 + bend, x2,
		y2 + bend, x2, y2, colour, width);
	cover(svg, x1 > x2 ? x1 : x2, (y1 > y2 ? y1 : y2) + (bend > 0 ? bend : 0));
}

void svg_arrow(struct svg *svg, double x1, double y1, double x2, double y2, const char *colour, double width)
{
	double length = hypot(x2 - x1, y2 - y1), dx = (x2 - x1) / length, dy = (y2 - y1) / length;

	if (!(length > 0))
		return;
	fprintf(svg->body, "<path d=\"M%.1f %.1f L%.1f %.1f M%.1f %.1f L%.1f %.1f L%.1f %.1f\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\"/>\n", x1,
		y1, x2, y2, x2 - HEAD * (dx - dy / 2), y2 - HEAD * (dy + dx / 2), x2, y2, x2 - HEAD * (dx + dy / 2), y2 - HEAD * (dy - dx / 2),
		colour, width);
	cover(svg, (int)(x1 > x2 ? x1 : x2), (int)(y1 > y2 ? y1 : y2));
}

void svg_dot(struct svg *svg, int x, int y, int radius, const char *fill)
{
	fprintf(svg->body, "<circle cx=\"%d\" cy=\"%d\" r=\"%d\" fill=\"%s\" stroke=\"#555\"/>\n", x, y, radius, fill);
	cover(svg, x + radius, y + radius);
}

const char *svg_colour(uint32_t mb_s)
{
	uint32_t i = 0;

	while (mb_s < scale[i].from_mb_s)
		i++;
	return scale[i].colour;
}

int svg_legend(struct svg *svg, int x, int y)
{
	svg_text(svg, x, y + 10, 11, "bandwidth, one direction:");
	x += 150;
	for (uint32_t i = 0; i < sizeof scale / sizeof *scale; i++) {
		svg_line(svg, x, y + 6, x + 24, y + 6, scale[i].colour, 5);
		svg_text(svg, x + 30, y + 10, 11, "%s", scale[i].text);
		x += 150;
	}
	return 24;
}
