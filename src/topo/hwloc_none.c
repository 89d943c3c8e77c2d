/* Builds without hwloc. */
#include "topo/build.h"

bool mrw_topo_read_hwloc(struct mrw_topo *topo, const char *bytes, size_t nbytes, struct mrw_topo_error *error)
{
	(void)topo;
	(void)bytes;
	(void)nbytes;
	return mrw_topo_refuse(error, "hwloc's XML: this build has no hwloc");
}
