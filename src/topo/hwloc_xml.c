/* hwloc's XML (lstopo FILE.xml), versions 1.x to 3: topology > object > object ..., info inside them. Read here and not by hwloc, which
 * trusts its files: a missing cpuset ends the program. Two passes: NUMA nodes, then what hangs below host bridges. Bridges, PCI
 * devices and the operating system's devices in them are kept; where they are is the nodeset of the nearest object around them. */
#include "topo/build.h"

#include <stdlib.h>
#include <string.h>

#include "topo/xml.h"

enum { NO_NODE = -1, SEVERAL = -2 };

/* An open element. */
struct level {
	enum { OTHER, PLACE, HOST_BRIDGE, BRIDGE, DEVICE, OS_DEVICE } type;
	int32_t numa; /* of a place: NUMA node, NO_NODE without a nodeset, SEVERAL */
	int32_t node; /* bridges, and devices that were kept */
	int32_t cpu;  /* node of the NUMA node described */
};

struct reader {
	struct mrw_topo *topo;
	struct mrw_topo_error *error;
	bool first_pass;
	char arch[MRW_TOPO_NAME_BYTES], vendor[MRW_TOPO_NAME_BYTES];
	struct mrw_xml xml;
	struct level levels[MRW_XML_DEPTH + 1];
	/* Of the PCI device that is open: it is kept when one of its devices shows what it is. */
	char bus[MRW_TOPO_NAME_BYTES];
	uint32_t mb_s;
};

static const char *attribute(const struct reader *r, const char *name)
{
	const char *value = mrw_xml_attribute(&r->xml, name);
	return value != NULL ? value : "";
}

/* "0xffffffff,0x00000001": 32 bits a word, the last word first; "0xf...f" (all) and empty words exist. The lowest bit, NO_NODE, SEVERAL.
 * bits: NULL, or where to set them. */
static int32_t bitmap(const char *text, uint64_t *bits)
{
	uint32_t words = 0;
	int32_t lowest = NO_NODE;

	for (const char *c = text; *c != '\0'; c++)
		words += *c == ',';
	for (const char *at = text; *at != '\0'; words--) {
		char *end;
		unsigned long word = strtoul(at, &end, 16);
		for (uint32_t b = 0; b < 32; b++) {
			uint32_t bit = words * 32 + b;
			if (!(word >> b & 1) || bit >= MRW_TOPO_CORES)
				continue;
			if (bits != NULL)
				bits[bit / 64] |= (uint64_t)1 << bit % 64;
			lowest = lowest == NO_NODE ? (int32_t)bit : SEVERAL;
		}
		at = strchr(end, ',');
		if (at == NULL)
			break;
		at++;
	}
	return lowest;
}

/* GB/s with a fraction. */
static bool link_speed(struct reader *r, uint32_t *mb_s)
{
	const char *text = attribute(r, "pci_link_speed");
	char *end;

	*mb_s = 0;
	if (text[0] == '\0')
		return true;
	double speed = strtod(text, &end);
	if (*end != '\0' || !(speed >= 0) || speed > MRW_TOPO_MAX_MB_S / 1000)
		return mrw_topo_refuse(r->error, "pci_link_speed=\"%.40s\" is beyond reason", text);
	*mb_s = (uint32_t)(speed * 1000 + 0.01); /* a decimal fraction may be a little less here */
	return true;
}

static bool open_numa(struct reader *r, struct level *level)
{
	char name[MRW_TOPO_NAME_BYTES];
	uint64_t numa;

	if (!mrw_topo_number(attribute(r, "os_index"), MRW_TOPO_CORES - 1, &numa))
		return mrw_topo_refuse(r->error, "a NUMA node with os_index \"%.40s\"", attribute(r, "os_index"));
	snprintf(name, sizeof name, "numa%u", (unsigned)numa);
	level->cpu = mrw_topo_add(r->topo, MRW_TOPO_CPU, name, -1, "", 0, r->error);
	if (level->cpu < 0)
		return false;
	struct mrw_topo_cpu *cpu = &r->topo->cpus[r->topo->nodes[level->cpu].index];
	cpu->numa = (int32_t)numa;
	bitmap(attribute(r, "cpuset"), cpu->cores);
	return true;
}

static int32_t cpu_of(const struct reader *r, uint32_t depth)
{
	if (r->topo->ncpus == 1)
		return r->topo->cpus[0].node;
	while (depth > 0 && (r->levels[depth].type != PLACE || r->levels[depth].numa == NO_NODE))
		depth--;
	for (uint32_t i = 0; i < r->topo->ncpus && depth > 0; i++)
		if (r->topo->cpus[i].numa == r->levels[depth].numa)
			return r->topo->cpus[i].node;
	return -1;
}

static bool open_bridge(struct reader *r, struct level *level, const struct level *outer)
{
	const char *type = attribute(r, "bridge_type"), *bus = attribute(r, "pci_busid");
	char normal[MRW_TOPO_NAME_BYTES];

	if (strncmp(type, "0-", 2) == 0) {
		level->type = HOST_BRIDGE;
		level->node = cpu_of(r, r->xml.depth - 1);
		return true;
	}
	if (outer->type != HOST_BRIDGE && outer->type != BRIDGE)
		return mrw_topo_refuse(r->error, "a PCI bridge outside a host bridge");
	if (!mrw_topo_normal_bus(bus, normal))
		return mrw_topo_refuse(r->error, "pci_busid=\"%.40s\" is no PCI address", bus);
	if (!link_speed(r, &r->mb_s))
		return false;
	level->type = BRIDGE;
	level->node = mrw_topo_add(r->topo, MRW_TOPO_BRIDGE, normal, outer->node, normal, r->mb_s, r->error);
	return level->node >= 0;
}

static bool open_device(struct reader *r, struct level *level, const struct level *outer)
{
	const char *bus = attribute(r, "pci_busid"), *type = attribute(r, "pci_type");
	char name[MRW_TOPO_NAME_BYTES], *end;
	unsigned long class = strtoul(type, &end, 16),
		      vendor = strncmp(end, " [", 2) == 0 ? strtoul(end + 2, NULL, 16) : 0;

	if (outer->type != HOST_BRIDGE && outer->type != BRIDGE)
		return mrw_topo_refuse(r->error, "a PCI device outside a bridge");
	if (!mrw_topo_normal_bus(bus, r->bus))
		return mrw_topo_refuse(r->error, "pci_busid=\"%.40s\" is no PCI address", bus);
	if (end == type)
		return mrw_topo_refuse(r->error, "%s: pci_type=\"%.40s\" has no class", r->bus, type);
	if (!link_speed(r, &r->mb_s))
		return false;
	level->type = DEVICE;
	if (vendor != 0x10de || (class != 0x0300 && class != 0x0302))
		return true;
	snprintf(name, sizeof name, "gpu%u", r->topo->ngpus);
	level->node = mrw_topo_add(r->topo, MRW_TOPO_GPU, name, outer->node, r->bus, r->mb_s, r->error);
	return level->node >= 0;
}

/* mlx5_0 or cuda3 in a PCI device. */
static bool open_os_device(struct reader *r, struct level *level, struct level *device)
{
	const char *name = attribute(r, "name");
	uint64_t number;

	level->type = OS_DEVICE;
	if (device->type != DEVICE)
		return true;
	if (device->node >= 0 && r->topo->nodes[device->node].kind == MRW_TOPO_GPU) {
		if (strncmp(name, "cuda", 4) == 0 && mrw_topo_number(name + 4, 9999, &number))
			r->topo->gpus[r->topo->nodes[device->node].index].cuda = (int32_t)number;
		return true;
	}
	if (device->node < 0 &&
	    (strcmp(attribute(r, "subtype"), "OpenFabrics") == 0 || strcmp(attribute(r, "osdev_type"), "3") == 0)) {
		int32_t parent = r->levels[r->xml.depth - 2].node;
		device->node = mrw_topo_add(r->topo, MRW_TOPO_NIC, name, parent, r->bus, r->mb_s, r->error);
		level->node = device->node;
		return level->node >= 0;
	}
	return true;
}

static void open_info(struct reader *r, const struct level *outer)
{
	const char *name = attribute(r, "name"), *value = attribute(r, "value");

	if (r->first_pass && strcmp(name, "Architecture") == 0)
		snprintf(r->arch, sizeof r->arch, "%.31s", value);
	if (r->first_pass && strcmp(name, "CPUVendor") == 0)
		snprintf(r->vendor, sizeof r->vendor, "%.31s", value);
	if (outer->type == OS_DEVICE && outer->node >= 0 && strcmp(name, "Port1State") == 0)
		r->topo->nics[r->topo->nodes[outer->node].index].up = strcmp(value, "4") == 0 ? MRW_YES : MRW_NO;
}

static bool open_element(struct reader *r)
{
	uint32_t depth = r->xml.depth; /* of this element, from 1 */
	struct level *level = &r->levels[depth], *outer = &r->levels[depth - 1];
	const char *type = attribute(r, "type");

	*level = (struct level){OTHER, NO_NODE, -1, -1};
	if (strcmp(r->xml.name, "info") == 0)
		open_info(r, outer);
	if (strcmp(r->xml.name, "object") != 0)
		return true;
	if (r->first_pass)
		return strcmp(type, "NUMANode") != 0 || open_numa(r, level);
	if (strcmp(type, "Bridge") == 0)
		return open_bridge(r, level, outer);
	if (strcmp(type, "PCIDev") == 0)
		return open_device(r, level, outer);
	if (strcmp(type, "OSDev") == 0)
		return open_os_device(r, level, outer);
	level->type = PLACE;
	level->numa = bitmap(attribute(r, "nodeset"), NULL);
	return true;
}

static bool pass(struct reader *r, const char *bytes, size_t nbytes)
{
	enum mrw_xml_event event;

	r->levels[0] = (struct level){OTHER, NO_NODE, -1, -1};
	mrw_xml_begin(&r->xml, bytes, nbytes, r->error);
	r->xml.lenient = true;
	while ((event = mrw_xml_next(&r->xml)) == MRW_XML_OPEN || event == MRW_XML_CLOSE)
		if (event == MRW_XML_OPEN && !open_element(r))
			return false;
	return event == MRW_XML_END;
}

bool mrw_topo_read_hwloc(struct mrw_topo *topo, const char *bytes, size_t nbytes, struct mrw_topo_error *error)
{
	struct reader *r = calloc(1, sizeof *r);
	bool good;

	if (r == NULL)
		return mrw_topo_refuse(error, "no memory");
	r->topo = topo;
	r->error = error;
	r->first_pass = true;
	good = pass(r, bytes, nbytes);
	if (good && topo->ncpus == 0)
		good = mrw_topo_add(topo, MRW_TOPO_CPU, "numa0", -1, "", 0, error) >= 0;
	for (uint32_t i = 0; i < topo->ncpus && good; i++) {
		memcpy(topo->cpus[i].arch, r->arch, sizeof r->arch);
		memcpy(topo->cpus[i].vendor, r->vendor, sizeof r->vendor);
	}
	r->first_pass = false;
	good = good && pass(r, bytes, nbytes);
	free(r);
	if (good)
		mrw_topo_collapse(topo);
	return good;
}
