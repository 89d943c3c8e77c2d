/* CPUs and the PCI tree from sysfs alone. A device's directory lies in those of the bridges above it: the path is the tree. */
#include "topo/discover.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 512, LINE_BYTES = 256 };

bool mrw_topo_file_line(const char *root, const char *file, char *line, size_t bytes)
{
	char path[PATH_BYTES];
	bool good = false;
	FILE *f;

	line[0] = '\0';
	if (snprintf(path, sizeof path, "%s/%s", root, file) >= (int)sizeof path || (f = fopen(path, "r")) == NULL)
		return false;
	if (fgets(line, (int)bytes, f) != NULL) {
		size_t length = strcspn(line, "\n");
		good = line[length] == '\n' || length + 1 < bytes;
		line[length] = '\0';
	}
	fclose(f);
	return good;
}

void mrw_topo_core_list(const char *text, uint64_t *cores)
{
	while (*text >= '0' && *text <= '9') {
		char *end;
		unsigned long first = strtoul(text, &end, 10), last = first;
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (unsigned long c = first; c <= last && c < MRW_TOPO_CORES; c++)
			cores[c / 64] |= (uint64_t)1 << c % 64;
		text = *end == ',' ? end + 1 : end;
	}
}

/* The number that a device's file holds; fallback if there is none. */
static double device_number(const char *sysfs, const char *bus, const char *file, double fallback)
{
	char name[PATH_BYTES], line[LINE_BYTES], *end;
	double value;

	snprintf(name, sizeof name, "bus/pci/devices/%s/%s", bus, file);
	if (!mrw_topo_file_line(sysfs, name, line, sizeof line))
		return fallback;
	value = strtod(line, &end);
	return end != line ? value : fallback;
}

uint32_t mrw_topo_sysfs_mb_s(const char *sysfs, const char *bus, const char *port)
{
	/* Idle links run slower than they can; a width never changes by itself. */
	double speed = device_number(sysfs, bus, "max_link_speed", 0),
	       width = device_number(sysfs, bus, "current_link_width", 0);

	if (port[0] != '\0') {
		double other = device_number(sysfs, port, "max_link_speed", speed);
		speed = other < speed ? other : speed;
	}
	if (width <= 0 || width > 32)
		width = device_number(sysfs, bus, "max_link_width", 0);
	return width >= 1 && width <= 32 ? mrw_topo_pcie_mb_s(speed, (uint64_t)width) : 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static bool add_cpus(struct mrw_topo *topo, const char *sysfs, struct mrw_topo_error *error)
{
	char path[PATH_BYTES], line[1024];
	struct dirent **names = NULL;
	int count;
	bool good = true;

	snprintf(path, sizeof path, "%s/devices/system/node", sysfs);
	count = scandir(path, &names, NULL, by_name);
	for (int i = 0; i < count; i++) {
		uint64_t numa;
		if (good && strncmp(names[i]->d_name, "node", 4) == 0 &&
		    mrw_topo_number(names[i]->d_name + 4, 65535, &numa)) {
			char name[MRW_TOPO_NAME_BYTES];
			snprintf(name, sizeof name, "numa%u", (unsigned)numa);
			int32_t node = mrw_topo_add(topo, MRW_TOPO_CPU, name, -1, "", 0, error);
			good = node >= 0;
			snprintf(path, sizeof path, "devices/system/node/node%u/cpulist", (unsigned)numa);
			if (good) {
				topo->cpus[topo->nodes[node].index].numa = (int32_t)numa;
				if (mrw_topo_file_line(sysfs, path, line, sizeof line))
					mrw_topo_core_list(line, topo->cpus[topo->nodes[node].index].cores);
			}
		}
		free(names[i]);
	}
	free(names);
	if (good && topo->ncpus == 0) {
		mrw_topo_note(topo, "sysfs has no NUMA nodes: one is assumed");
		good = mrw_topo_add(topo, MRW_TOPO_CPU, "numa0", -1, "", 0, error) >= 0;
	}
	return good;
}

/* Does the RDMA class know this device? Its name then. */
static bool rdma_name(const char *sysfs, const char *bus, char *name)
{
	char path[PATH_BYTES];
	struct dirent **names = NULL;
	bool found = false;

	snprintf(path, sizeof path, "%s/bus/pci/devices/%s/infiniband", sysfs, bus);
	int count = scandir(path, &names, NULL, by_name);
	for (int i = 0; i < count; i++) {
		if (!found && names[i]->d_name[0] != '.' && mrw_topo_good_name(names[i]->d_name)) {
			snprintf(name, MRW_TOPO_NAME_BYTES, "%.31s", names[i]->d_name);
			found = true;
		}
		free(names[i]);
	}
	free(names);
	return found;
}

/* The bridges above a device, the topmost first, from where its directory is. */
static uint32_t bridges_above(const char *sysfs, const char *bus, char above[][MRW_TOPO_NAME_BYTES])
{
	char path[PATH_BYTES], real[PATH_MAX], normal[MRW_TOPO_NAME_BYTES];
	uint32_t count = 0;
	char *rest;

	snprintf(path, sizeof path, "%s/bus/pci/devices/%s", sysfs, bus);
	if (realpath(path, real) == NULL)
		return 0;
	for (char *part = strtok_r(real, "/", &rest); part != NULL; part = strtok_r(NULL, "/", &rest))
		if (mrw_topo_normal_bus(part, normal) && strcmp(normal, bus) != 0 && count < MRW_TOPO_DEPTH - 2)
			memcpy(above[count++], normal, sizeof normal);
	return count;
}

static bool add_device(struct mrw_topo *topo, const char *sysfs, const char *bus, enum mrw_topo_kind kind,
		       const char *name, struct mrw_topo_error *error)
{
	char above[MRW_TOPO_DEPTH][MRW_TOPO_NAME_BYTES];
	uint32_t count = bridges_above(sysfs, bus, above);
	double numa = device_number(sysfs, bus, "numa_node", -1);
	int32_t parent = -1;

	for (uint32_t i = 0; i < topo->ncpus; i++)
		if (topo->cpus[i].numa == (int32_t)numa || topo->ncpus == 1)
			parent = topo->cpus[i].node;
	for (uint32_t i = 0; i < count; i++) {
		int32_t known = mrw_topo_find(topo, above[i]);
		parent = known >= 0
				 ? known
				 : mrw_topo_add(topo, MRW_TOPO_BRIDGE, above[i], parent, above[i],
						mrw_topo_sysfs_mb_s(sysfs, above[i], i > 0 ? above[i - 1] : ""), error);
		if (parent < 0)
			return false;
	}
	return mrw_topo_add(topo, kind, name, parent, bus,
			    mrw_topo_sysfs_mb_s(sysfs, bus, count > 0 ? above[count - 1] : ""), error) >= 0;
}

bool mrw_topo_find_sysfs(struct mrw_topo *topo, const char *sysfs, struct mrw_topo_error *error)
{
	char path[PATH_BYTES];
	struct dirent **names = NULL;
	bool good = add_cpus(topo, sysfs, error);

	snprintf(path, sizeof path, "%s/bus/pci/devices", sysfs);
	int count = scandir(path, &names, NULL, by_name);
	if (count < 0)
		mrw_topo_note(topo, "%.100s cannot be read: the PCI tree is unknown", path);
	for (int i = 0; i < count; i++) {
		char bus[MRW_TOPO_NAME_BYTES], name[MRW_TOPO_NAME_BYTES], line[LINE_BYTES];
		if (good && mrw_topo_normal_bus(names[i]->d_name, bus)) {
			snprintf(path, sizeof path, "bus/pci/devices/%s/class", bus);
			mrw_topo_file_line(sysfs, path, line, sizeof line);
			unsigned long class = strtoul(line, NULL, 16) >> 8;
			snprintf(path, sizeof path, "bus/pci/devices/%s/vendor", bus);
			mrw_topo_file_line(sysfs, path, line, sizeof line);
			if (strtoul(line, NULL, 16) == 0x10de && (class == 0x0300 || class == 0x0302)) {
				snprintf(name, sizeof name, "gpu%u", topo->ngpus);
				good = add_device(topo, sysfs, bus, MRW_TOPO_GPU, name, error);
			} else if (rdma_name(sysfs, bus, name)) {
				good = add_device(topo, sysfs, bus, MRW_TOPO_NIC, name, error);
			}
		}
		free(names[i]);
	}
	free(names);
	return good;
}
