/* Builds without hwloc. */
#include "topo/discover.h"

bool mrw_topo_find_hwloc(struct mrw_topo *topo, bool *found, struct mrw_topo_error *error)
{
	(void)error;
	*found = false;
	mrw_topo_note(
		topo,
		"this build has no hwloc: CPUs and the PCI tree are read from sysfs alone, firmware quirks are not mended");
	return true;
}
