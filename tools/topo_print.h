/* topo_print.h - what marrow-topo shows: a machine and what follows from it, for people and for programs. */
#ifndef TOOLS_TOPO_PRINT_H
#define TOOLS_TOPO_PRINT_H

#include "topo/topo.h"

struct topo_costs;

/* A machine with everything chosen on it. */
struct topo_answers {
	const struct mrw_topo *topo;
	uint32_t hosts; /* of this kind, for rails and the trees over hosts */
	struct mrw_topo_pairing pairing;
	struct mrw_topo_rails rails;
	struct mrw_topo_rings rings;
	const struct topo_costs *costs; /* topo_cost.h */
};

void topo_print_people(const struct topo_answers *answers, FILE *file);
/* One object: host_count, cpus[] bridges[] gpus[] nics[] nvswitches[] links[] paths[] pairs[] rails[] rings[] trees[] predicted{ranks hosts link_mb_s nic_mb_s
 * figures times[{function bytes algo us}] notes[]} notes[]. Devices go
 * by name; widths are MB/s, one direction, null where unknown. */
void topo_print_json(const struct topo_answers *answers, FILE *file);

/* The machine with devices in their places, rings as loops, and where hosts are several their rails and trees; links have colours by bandwidth, each
 * GPU's NICs are joined in orange. False: no memory, or a write error. */
bool topo_print_svg(const struct topo_answers *answers, FILE *file);

#endif
