/* hwloc's view of this machine. */
#include "topo/discover.h"

#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

/* What would start drivers, or read PCI by other means than sysfs, is left out. */
static const char *const unwanted[] = {"pci", "opencl", "gl", "cuda", "nvml", "rsmi", "levelzero"};

struct reader {
	struct mrw_topo *topo;
	struct mrw_topo_error *error;
	hwloc_topology_t hwloc;
};

static bool begin(struct reader *r)
{
	if (hwloc_topology_init(&r->hwloc) != 0)
		return false;
	hwloc_topology_set_io_types_filter(r->hwloc, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
	/* The machine, not what a cgroup leaves of it: devices stay with their CPUs. discover.c says how many cores are ours. */
	hwloc_topology_set_flags(r->hwloc, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
	for (size_t i = 0; i < sizeof unwanted / sizeof *unwanted; i++)
		hwloc_topology_set_components(r->hwloc, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, unwanted[i]);
	return true;
}

static bool add_cpus(struct reader *r)
{
	hwloc_obj_t numa = NULL;
	char name[MRW_TOPO_NAME_BYTES];

	while ((numa = hwloc_get_next_obj_by_type(r->hwloc, HWLOC_OBJ_NUMANODE, numa)) != NULL) {
		snprintf(name, sizeof name, "numa%u", numa->os_index);
		int32_t node = mrw_topo_add(r->topo, MRW_TOPO_CPU, name, -1, "", 0, r->error);
		if (node < 0)
			return false;
		struct mrw_topo_cpu *cpu = &r->topo->cpus[r->topo->nodes[node].index];
		cpu->numa = (int32_t)numa->os_index;
		for (hwloc_obj_t up = numa; up != NULL; up = up->parent) {
			const char *vendor = hwloc_obj_get_info_by_name(up, "CPUVendor");
			const char *arch = hwloc_obj_get_info_by_name(up, "Architecture");
			if (vendor != NULL && cpu->vendor[0] == '\0')
				snprintf(cpu->vendor, sizeof cpu->vendor, "%.31s", vendor);
			if (arch != NULL)
				snprintf(cpu->arch, sizeof cpu->arch, "%.31s", arch);
		}
		for (int core = hwloc_bitmap_first(numa->cpuset); core >= 0 && core < MRW_TOPO_CORES;
		     core = hwloc_bitmap_next(numa->cpuset, core))
			cpu->cores[core / 64] |= (uint64_t)1 << core % 64;
	}
	return true;
}

/* The CPU that a host bridge belongs to, -1 where several could be. */
static int32_t cpu_of(const struct reader *r, hwloc_obj_t object)
{
	hwloc_obj_t up = hwloc_get_non_io_ancestor_obj(r->hwloc, object);

	if (r->topo->ncpus == 1)
		return r->topo->cpus[0].node;
	if (up == NULL || up->nodeset == NULL || hwloc_bitmap_weight(up->nodeset) != 1)
		return -1;
	for (uint32_t i = 0; i < r->topo->ncpus; i++)
		if (r->topo->cpus[i].numa == hwloc_bitmap_first(up->nodeset))
			return r->topo->cpus[i].node;
	return -1;
}

static void bus_of(const struct hwloc_pcidev_attr_s *pci, char *bus)
{
	snprintf(bus, MRW_TOPO_NAME_BYTES, "%04x:%02x:%02x.%01x", pci->domain, pci->bus, pci->dev, pci->func);
}

static bool add_nic(struct reader *r, hwloc_obj_t device, int32_t parent, const char *bus, uint64_t mb_s)
{
	char name[MRW_TOPO_NAME_BYTES];
	hwloc_obj_t port = device->io_first_child;

	while (port != NULL &&
	       !(port->type == HWLOC_OBJ_OS_DEVICE && port->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS))
		port = port->next_sibling;
	/* Ethernet without RDMA is no NIC for us. */
	if (port == NULL)
		return true;
	snprintf(name, sizeof name, "%.31s", port->name != NULL ? port->name : bus);
	int32_t node = mrw_topo_add(r->topo, MRW_TOPO_NIC, name, parent, bus, mb_s, r->error);
	if (node < 0)
		return false;
	const char *state = hwloc_obj_get_info_by_name(port, "Port1State");
	if (state != NULL)
		r->topo->nics[r->topo->nodes[node].index].up = strcmp(state, "4") == 0 ? MRW_YES : MRW_NO;
	return true;
}

static bool add_gpu(struct reader *r, hwloc_obj_t device, int32_t parent, const char *bus, uint64_t mb_s)
{
	char name[MRW_TOPO_NAME_BYTES];

	snprintf(name, sizeof name, "gpu%u", r->topo->ngpus);
	int32_t node = mrw_topo_add(r->topo, MRW_TOPO_GPU, name, parent, bus, mb_s, r->error);
	if (node < 0)
		return false;
	for (hwloc_obj_t os = device->io_first_child; os != NULL; os = os->next_sibling) {
		uint64_t number;
		if (os->name != NULL && strncmp(os->name, "cuda", 4) == 0 &&
		    mrw_topo_number(os->name + 4, 9999, &number))
			r->topo->gpus[r->topo->nodes[node].index].cuda = (int32_t)number;
	}
	return true;
}

static bool add_below(struct reader *r, hwloc_obj_t object, int32_t parent, uint32_t depth)
{
	for (hwloc_obj_t child = object->io_first_child; child != NULL; child = child->next_sibling) {
		char bus[MRW_TOPO_NAME_BYTES];
		int32_t node = parent;
		bool bridge = child->type == HWLOC_OBJ_BRIDGE;

		if (depth > 4 * MRW_TOPO_DEPTH)
			return mrw_topo_refuse(r->error, "bridges nested deeper than %d", 4 * MRW_TOPO_DEPTH);
		if (child->type == HWLOC_OBJ_PCI_DEVICE ||
		    (bridge && child->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI)) {
			const struct hwloc_pcidev_attr_s *pci =
				bridge ? &child->attr->bridge.upstream.pci : &child->attr->pcidev;
			uint64_t mb_s = 0;
			/* GB/s, 0 unknown. */
			if (pci->linkspeed > 0 && pci->linkspeed < MRW_TOPO_MAX_MB_S / 1000.f)
				mb_s = (uint64_t)((double)pci->linkspeed * 1000 + 0.01); /* a float is a little less */
			uint32_t class = pci->class_id;
			bool gpu = pci->vendor_id == 0x10de && (class == 0x0300 || class == 0x0302);
			bus_of(pci, bus);
			if (bridge)
				node = mrw_topo_add(r->topo, MRW_TOPO_BRIDGE, bus, parent, bus, mb_s, r->error);
			else if (!(gpu ? add_gpu : add_nic)(r, child, parent, bus, mb_s))
				return false;
			if (bridge && node < 0)
				return false;
		} else if (bridge) {
			node = cpu_of(r, child);
		}
		if (bridge && !add_below(r, child, node, depth + 1))
			return false;
	}
	return true;
}

/* Objects of a machine with I/O below. */
static bool add_everywhere(struct reader *r, hwloc_obj_t object)
{
	if (!add_below(r, object, -1, 0))
		return false;
	for (hwloc_obj_t child = object->first_child; child != NULL; child = child->next_sibling)
		if (!add_everywhere(r, child))
			return false;
	return true;
}

bool mrw_topo_find_hwloc(struct mrw_topo *topo, bool *found, struct mrw_topo_error *error)
{
	struct reader r = {topo, error, NULL};
	bool good = true;

	*found = false;
	if (!begin(&r))
		return true;
	if (hwloc_topology_load(r.hwloc) == 0 && hwloc_get_nbobjs_by_type(r.hwloc, HWLOC_OBJ_NUMANODE) > 0) {
		*found = true;
		good = add_cpus(&r) && add_everywhere(&r, hwloc_get_root_obj(r.hwloc));
	} else {
		mrw_topo_note(topo, "hwloc finds nothing: CPUs and the PCI tree are read from sysfs alone");
	}
	hwloc_topology_destroy(r.hwloc);
	return good;
}
