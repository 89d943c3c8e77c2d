/* What sysfs says of devices already known: ports of NICs, ACS, IOMMU groups, BAR sizes. */
#include "topo/discover.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 512, LINE_BYTES = 256, MOST_PORTS = 8, CONFIG_BYTES = 4096 };

/* "400 Gb/sec (4X NDR)" */
static void read_port(const char *sysfs, const char *device, uint32_t port, struct mrw_topo_nic *nic)
{
	char path[PATH_BYTES], line[LINE_BYTES];

	nic->port = (uint16_t)port;
	snprintf(path, sizeof path, "class/infiniband/%s/ports/%u/rate", device, port);
	if (mrw_topo_file_line(sysfs, path, line, sizeof line)) {
		double rate = strtod(line, NULL);
		if (rate > 0 && rate * 125 < MRW_TOPO_MAX_MB_S)
			nic->rate_mb_s = (uint32_t)(rate * 125);
	}
	/* "4: ACTIVE" */
	snprintf(path, sizeof path, "class/infiniband/%s/ports/%u/state", device, port);
	if (mrw_topo_file_line(sysfs, path, line, sizeof line))
		nic->up = line[0] == '4' ? MRW_YES : MRW_NO;
	snprintf(path, sizeof path, "class/infiniband/%s/ports/%u/link_layer", device, port);
	if (mrw_topo_file_line(sysfs, path, line, sizeof line))
		nic->layer = strcmp(line, "InfiniBand") == 0 ? MRW_LAYER_INFINIBAND
			     : strcmp(line, "Ethernet") == 0 ? MRW_LAYER_ETHERNET
							     : MRW_LAYER_UNKNOWN;
	snprintf(path, sizeof path, "class/infiniband/%s/ports/%u/gids/0", device, port);
	if (mrw_topo_file_line(sysfs, path, line, sizeof line) && strlen(line) < sizeof nic->gid)
		memcpy(nic->gid, line, strlen(line) + 1);
}

bool mrw_topo_find_ports(struct mrw_topo *topo, const char *sysfs, struct mrw_topo_error *error)
{
	uint32_t devices = topo->nnics;

	for (uint32_t i = 0; i < devices; i++) {
		const struct mrw_topo_node first = topo->nodes[topo->nics[i].node];
		uint32_t ports = 0;
		for (uint32_t port = 1; port <= MOST_PORTS; port++) {
			char path[PATH_BYTES], name[MRW_TOPO_NAME_BYTES];
			snprintf(path, sizeof path, "%s/class/infiniband/%s/ports/%u", sysfs, first.name, port);
			if (access(path, F_OK) != 0)
				continue;
			struct mrw_topo_nic *nic = &topo->nics[i];
			if (ports++ > 0) {
				snprintf(name, sizeof name, "%.28s:%u", first.name, port);
				int32_t node = mrw_topo_add(topo, MRW_TOPO_NIC, name, first.parent, first.bus,
							    first.up_mb_s, error);
				if (node < 0)
					return false;
				nic = &topo->nics[topo->nodes[node].index];
			}
			read_port(sysfs, first.name, port, nic);
		}
		if (ports == 0)
			mrw_topo_note(topo, "the ports of %s cannot be read: rate, state and link layer are unknown",
				      first.name);
	}
	return true;
}

static uint32_t word(const unsigned char *config, uint32_t at)
{
	return config[at] | (uint32_t)config[at + 1] << 8 | (uint32_t)config[at + 2] << 16 |
	       (uint32_t)config[at + 3] << 24;
}

/* The ACS capability (PCI Express base specification, 7.7.11): redirect of requests or completions. Only root sees it. */
static enum mrw_topo_known read_acs(const char *sysfs, const char *bus)
{
	unsigned char config[CONFIG_BYTES];
	char path[PATH_BYTES];
	FILE *f;

	snprintf(path, sizeof path, "%s/bus/pci/devices/%s/config", sysfs, bus);
	f = fopen(path, "rb");
	if (f == NULL)
		return MRW_UNKNOWN;
	size_t bytes = fread(config, 1, sizeof config, f);
	fclose(f);
	if (bytes < sizeof config)
		return MRW_UNKNOWN;
	/* At most as many capabilities as there is room for: a chain may be a circle. */
	for (uint32_t at = 0x100, seen = 0; at >= 0x100 && at <= CONFIG_BYTES - 8 && seen < CONFIG_BYTES / 8; seen++) {
		uint32_t head = word(config, at);
		if ((head & 0xffff) == 0x000d)
			return (word(config, at + 4) >> 16 & 0x0c) != 0 ? MRW_YES : MRW_NO;
		at = head >> 20 & 0xffc;
	}
	return MRW_NO;
}

static int32_t read_iommu_group(const char *sysfs, const char *bus)
{
	char path[PATH_BYTES], target[PATH_BYTES];
	uint64_t group;

	snprintf(path, sizeof path, "%s/bus/pci/devices/%s/iommu_group", sysfs, bus);
	ssize_t length = readlink(path, target, sizeof target - 1);
	if (length <= 0)
		return -1;
	target[length] = '\0';
	const char *last = strrchr(target, '/');
	return mrw_topo_number(last != NULL ? last + 1 : target, INT32_MAX, &group) ? (int32_t)group : -1;
}

/* The second line of resource: start, end, flags of BAR 1. */
static uint64_t read_bar1(const char *sysfs, const char *bus)
{
	char path[PATH_BYTES], line[LINE_BYTES];
	unsigned long long start, end;
	uint64_t bytes = 0;
	FILE *f;

	snprintf(path, sizeof path, "%s/bus/pci/devices/%s/resource", sysfs, bus);
	f = fopen(path, "r");
	if (f == NULL)
		return 0;
	for (int i = 0; i < 2; i++)
		if (fgets(line, sizeof line, f) == NULL)
			line[0] = '\0';
	if (sscanf(line, "%llx %llx", &start, &end) == 2 && end > start)
		bytes = end - start + 1;
	fclose(f);
	return bytes;
}

static bool is_virtual(const char *sysfs)
{
	static const char *const signs[] = {
		"QEMU",       "KVM", "Virtual Machine", "VMware", "Amazon EC2", "Google Compute Engine", "HVM domU",
		"VirtualBox", "Xen", "OpenStack"};
	static const char *const files[] = {"class/dmi/id/sys_vendor", "class/dmi/id/product_name"};
	char line[LINE_BYTES];
	bool found = false, metal = false;

	for (size_t file = 0; file < sizeof files / sizeof *files; file++) {
		if (!mrw_topo_file_line(sysfs, files[file], line, sizeof line))
			continue;
		for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
			found = found || strstr(line, signs[i]) != NULL;
		/* A cloud's whole machine: its vendor is that of the virtual ones. */
		metal = metal || strstr(line, "metal") != NULL;
	}
	return (found && !metal) || mrw_topo_file_line(sysfs, "hypervisor/type", line, sizeof line);
}

void mrw_topo_find_details(struct mrw_topo *topo, const char *sysfs)
{
	bool hidden = false;

	/* hwloc tells what a link runs at now, which is little while a GPU idles. */
	for (uint32_t i = 0; i < topo->nnodes; i++) {
		struct mrw_topo_node *node = &topo->nodes[i];
		if (node->bus[0] == '\0')
			continue;
		uint32_t mb_s =
			mrw_topo_sysfs_mb_s(sysfs, node->bus, node->parent < 0 ? "" : topo->nodes[node->parent].bus);
		if (mb_s != 0)
			node->up_mb_s = mb_s;
	}
	for (uint32_t i = 0; i < topo->nbridges; i++) {
		topo->bridges[i].acs = read_acs(sysfs, topo->nodes[topo->bridges[i].node].bus);
		hidden = hidden || topo->bridges[i].acs == MRW_UNKNOWN;
	}
	if (hidden)
		mrw_topo_note(topo, "whether ACS sends transfers through the CPU is unknown: only root may read that");
	for (uint32_t i = 0; i < topo->ngpus; i++) {
		const char *bus = topo->nodes[topo->gpus[i].node].bus;
		topo->gpus[i].iommu_group = read_iommu_group(sysfs, bus);
		topo->gpus[i].bar1_bytes = read_bar1(sysfs, bus);
	}
	for (uint32_t i = 0; i < topo->nnics; i++)
		topo->nics[i].iommu_group = read_iommu_group(sysfs, topo->nodes[topo->nics[i].node].bus);
	if (is_virtual(sysfs)) {
		topo->virtual_machine = MRW_YES;
		mrw_topo_note(topo, "this is a virtual machine: the PCI tree may differ from the real one");
	}
}
