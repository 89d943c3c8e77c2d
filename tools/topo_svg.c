/* The picture: the machine, its rings, and several hosts of its kind, one below the other. */
#include "topo_svg.h"

enum { PAD = 10 };

static void draw_title(const struct topo_answers *a, struct svg *svg, int x, int y)
{
	const struct mrw_topo *topo = a->topo;

	svg_text(svg, x, y, 14, "GPUs: %u, NIC ports: %u, NVSwitches: %u, CPUs: %u%s", topo->ngpus, topo->nnics, topo->nnvswitches, topo->ncpus,
		 topo->virtual_machine == MRW_YES ? ", a virtual machine" : "");
	if (topo->links_known != MRW_YES)
		svg_text(svg, x, y + 16, 11, "NVLinks are not on record here: none is drawn");
}

bool topo_print_svg(const struct topo_answers *a, FILE *file)
{
	struct svg svg;
	int y = PAD + 14;

	if (!svg_begin(&svg))
		return false;
	draw_title(a, &svg, PAD, y);
	y += 28;
	y += topo_svg_machine(a, &svg, PAD, y);
	y += topo_svg_rings(a, &svg, PAD, y);
	y += topo_svg_hosts(a, &svg, PAD, y);
	svg_legend(&svg, PAD, y);
	return svg_end(&svg, file);
}
