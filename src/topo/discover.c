#include "topo/discover.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

/* Maker and architecture where hwloc or the lack of it left them open. */
static void name_cpus(struct mrw_topo *topo)
{
	char line[256], vendor[MRW_TOPO_NAME_BYTES] = "";
	struct utsname system;
	FILE *f = fopen("/proc/cpuinfo", "r");

	while (f != NULL && vendor[0] == '\0' && fgets(line, sizeof line, f) != NULL)
		if (strncmp(line, "vendor_id", 9) == 0 && strchr(line, ':') != NULL)
			sscanf(strchr(line, ':') + 1, " %31[A-Za-z]", vendor);
	if (f != NULL)
		fclose(f);
	for (uint32_t i = 0; i < topo->ncpus; i++) {
		if (topo->cpus[i].vendor[0] == '\0')
			memcpy(topo->cpus[i].vendor, vendor, sizeof vendor);
		if (topo->cpus[i].arch[0] == '\0' && uname(&system) == 0)
			snprintf(topo->cpus[i].arch, sizeof topo->cpus[i].arch, "%.31s", system.machine);
	}
}

/* A cgroup or affinity mask narrower than the machine. */
static void note_affinity(struct mrw_topo *topo)
{
	size_t bytes = CPU_ALLOC_SIZE(MRW_TOPO_CORES);
	cpu_set_t *set = CPU_ALLOC(MRW_TOPO_CORES);
	uint32_t mine = 0, all = 0;

	if (set != NULL && sched_getaffinity(0, bytes, set) == 0) {
		mine = (uint32_t)CPU_COUNT_S(bytes, set);
		for (uint32_t i = 0; i < topo->ncpus; i++)
			for (uint32_t w = 0; w < MRW_TOPO_CORES / 64; w++)
				all += (uint32_t)__builtin_popcountll(topo->cpus[i].cores[w]);
		if (mine < all)
			mrw_topo_note(topo, "this process may run on %u of %u cores", mine, all);
	}
	if (set != NULL)
		CPU_FREE(set);
}

bool mrw_topo_discover(struct mrw_topo *topo, const char *sysfs, struct mrw_topo_error *error)
{
	bool found = false;

	if (sysfs != NULL)
		return mrw_topo_discover_pci(topo, sysfs, error);
	sysfs = "/sys";
	mrw_topo_begin(topo, error);
	if (!mrw_topo_find_hwloc(topo, &found, error))
		return false;
	if (!found && !mrw_topo_find_sysfs(topo, sysfs, error))
		return false;
	mrw_topo_find_details(topo, sysfs);
	mrw_topo_collapse(topo);
	if (!mrw_topo_find_ports(topo, sysfs, error))
		return false;
	name_cpus(topo);
	note_affinity(topo);
	if (!mrw_topo_find_nvml(topo, "libnvidia-ml.so.1", error) || !mrw_topo_find_cuda(topo, "libcuda.so.1", error))
		return false;
	return mrw_topo_finish(topo, error);
}
