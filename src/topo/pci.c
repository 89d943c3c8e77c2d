/* The PCI tree as sysfs has it, and nothing else: what a library can do that is to load without hwloc, and has a GPU's driver of its own. */
#include "topo/discover.h"

bool mrw_topo_discover_pci(struct mrw_topo *topo, const char *sysfs, struct mrw_topo_error *error)
{
	mrw_topo_begin(topo, error);
	if (!mrw_topo_find_sysfs(topo, sysfs, error))
		return false;
	mrw_topo_find_details(topo, sysfs);
	mrw_topo_collapse(topo);
	return mrw_topo_find_ports(topo, sysfs, error) && mrw_topo_finish(topo, error);
}
