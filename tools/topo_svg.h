/* topo_svg.h - the parts of marrow-topo's picture. Each is drawn at x, y and returns the height it took, 0: there is nothing to draw. */
#ifndef TOOLS_TOPO_SVG_H
#define TOOLS_TOPO_SVG_H

#include "svg.h"
#include "topo_print.h"

int topo_svg_machine(const struct topo_answers *answers, struct svg *svg, int x, int y);
int topo_svg_rings(const struct topo_answers *answers, struct svg *svg, int x, int y);
int topo_svg_hosts(const struct topo_answers *answers, struct svg *svg, int x, int y);

#endif
