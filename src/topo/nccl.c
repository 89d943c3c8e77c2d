/* NCCL's topology XML (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE): system > cpu > pci > pci, gpu > nvlink c2c, nic > net. Read here, written
 * in nccl_write.c. Recorded files may lack gpu and nic elements: the PCI class tells then. NVLinks name their far end by its PCI
 * address, from both ends, before or after that device: they are put together at the end. */
#include "topo/build.h"

#include <stdlib.h>
#include <string.h>

#include "topo/xml.h"

enum { MAX_WISHES = 2 * MRW_TOPO_LINKS };

/* One end's view of an NVLink. */
struct wish {
	uint32_t line, lanes;
	uint16_t gpu; /* node */
	bool to_nvswitch;
	char bus[MRW_TOPO_NAME_BYTES];
};

struct reader {
	struct mrw_topo *topo;
	struct mrw_topo_error *error;
	struct mrw_xml xml;
	uint32_t nwishes, nhosts;
	struct wish wishes[MAX_WISHES];
	char hosts[MRW_TOPO_CPUS][MRW_TOPO_TEXT_BYTES]; /* host_hash by number */
	int32_t device[MRW_TOPO_GPUS];                  /* gpu dev attribute, -1 none */
	bool named[MRW_TOPO_NICS];                      /* by a net element */
	/* Of each open element: the node it stands for or stands in, -1 none; whether it is a device of a kind we do not keep. */
	int32_t nodes[MRW_XML_DEPTH + 1];
	bool ignored[MRW_XML_DEPTH + 1];
	uint32_t ports[MRW_XML_DEPTH + 1]; /* net elements seen in it */
};

static bool attribute_number(struct reader *r, const char *name, uint64_t max, uint64_t fallback, uint64_t *value)
{
	const char *text = mrw_xml_attribute(&r->xml, name);

	*value = fallback;
	if (text == NULL || text[0] == '\0' || strcmp(text, "-1") == 0)
		return true;
	return mrw_topo_number(text, max, value) ||
	       mrw_topo_refuse(r->error, "%s=\"%.40s\": a number up to %llu belongs there", name, text,
			       (unsigned long long)max);
}

/* "16.0 GT/s PCIe", "Unknown", "" and width into MB/s; 0 unknown. */
static bool attribute_pcie(struct reader *r, uint32_t *mb_s)
{
	const char *text = mrw_xml_attribute(&r->xml, "link_speed");
	uint64_t width;
	char *end;

	*mb_s = 0;
	if (!attribute_number(r, "link_width", 255, 0, &width))
		return false;
	if (text == NULL || text[0] < '0' || text[0] > '9' || width == 0 || width == 255)
		return true;
	double speed = strtod(text, &end);
	if (strncmp(end, " GT/s", 5) != 0)
		return mrw_topo_refuse(r->error, "link_speed=\"%.40s\": GT/s belong there", text);
	*mb_s = mrw_topo_pcie_mb_s(speed, width);
	return *mb_s != 0 || mrw_topo_refuse(r->error, "no PCIe link has %.20s and %u lanes", text, (unsigned)width);
}

/* "0000ffff,ffffffff": 32 cores a word, the last word first. */
static bool attribute_affinity(struct reader *r, uint64_t *cores)
{
	const char *text = mrw_xml_attribute(&r->xml, "affinity");
	uint32_t core = 0, words = 1, digits = 0;

	if (text == NULL)
		return true;
	for (const char *c = text; *c != '\0'; c++)
		words += *c == ',';
	if (words > MRW_TOPO_CORES / 32)
		return mrw_topo_refuse(r->error, "affinity: more than %d cores", MRW_TOPO_CORES);
	for (const char *c = text + strlen(text); c-- > text;) {
		static const char hex[] = "0123456789abcdef0123456789ABCDEF";
		const char *digit = strchr(hex, *c);
		if (*c == ',') {
			core = (core + 31) / 32 * 32;
			digits = 0;
			continue;
		}
		if (digit == NULL || ++digits > 8)
			return mrw_topo_refuse(r->error,
					       "affinity=\"%.40s\": words of 8 hexadecimal digits belong there", text);
		cores[core / 64] |= (uint64_t)((digit - hex) % 16) << core % 64;
		core += 4;
	}
	return true;
}

static bool copy_text(struct reader *r, const char *name, char *to, size_t bytes)
{
	const char *text = mrw_xml_attribute(&r->xml, name);

	if (text == NULL)
		return true;
	if (strlen(text) >= bytes)
		return mrw_topo_refuse(r->error, "%s: longer than %zu bytes", name, bytes - 1);
	memcpy(to, text, strlen(text) + 1);
	return true;
}

/* A name that several hosts may have: the first to come keeps it, others put their host before it. */
static const char *name_of_host(const struct mrw_topo *topo, int32_t near, const char *name,
				char room[MRW_TOPO_NAME_BYTES])
{
	int32_t cpu = near < 0 ? -1 : mrw_topo_cpu_of(topo, (uint32_t)near);
	uint32_t host = cpu < 0 ? 0 : topo->cpus[topo->nodes[cpu].index].host;

	if (host == 0 || mrw_topo_find(topo, name) < 0)
		return name;
	snprintf(room, MRW_TOPO_NAME_BYTES, "h%u.%.26s", host & 0xff, name);
	return room;
}

static bool open_cpu(struct reader *r)
{
	char name[MRW_TOPO_NAME_BYTES], hash[MRW_TOPO_TEXT_BYTES] = "";
	uint64_t numa;
	uint32_t host = 0;
	int32_t node;

	if (!attribute_number(r, "numaid", 65535, UINT64_MAX, &numa) || !copy_text(r, "host_hash", hash, sizeof hash))
		return false;
	while (host < r->nhosts && strcmp(r->hosts[host], hash) != 0)
		host++;
	if (host == MRW_TOPO_CPUS)
		return mrw_topo_refuse(r->error, "more than %d hosts", MRW_TOPO_CPUS);
	if (host == r->nhosts)
		memcpy(r->hosts[r->nhosts++], hash, sizeof hash);
	if (numa == UINT64_MAX)
		snprintf(name, sizeof name, "cpu%u", r->topo->ncpus);
	else if (host == 0)
		snprintf(name, sizeof name, "numa%u", (unsigned)numa);
	else
		snprintf(name, sizeof name, "h%u.numa%u", host, (unsigned)numa);
	node = mrw_topo_add(r->topo, MRW_TOPO_CPU, name, -1, "", 0, r->error);
	if (node < 0)
		return false;
	struct mrw_topo_cpu *cpu = &r->topo->cpus[r->topo->nodes[node].index];
	cpu->numa = numa == UINT64_MAX ? -1 : (int32_t)numa;
	cpu->host = host;
	r->nodes[r->xml.depth] = node;
	return copy_text(r, "arch", cpu->arch, sizeof cpu->arch) &&
	       copy_text(r, "vendor", cpu->vendor, sizeof cpu->vendor) && attribute_affinity(r, cpu->cores);
}

/* Devices have their address for a name until the end. */
static bool open_pci(struct reader *r, int32_t parent)
{
	const char *bus = mrw_xml_attribute(&r->xml, "busid"), *text = mrw_xml_attribute(&r->xml, "class");
	char normal[MRW_TOPO_NAME_BYTES], name[MRW_TOPO_NAME_BYTES];
	enum mrw_topo_kind kind;
	uint32_t mb_s;
	char *end;
	int32_t node;

	if (bus == NULL || !mrw_topo_normal_bus(bus, normal))
		return mrw_topo_refuse(r->error, "busid=\"%.40s\" is no PCI address", bus == NULL ? "" : bus);
	if (text == NULL)
		return mrw_topo_refuse(r->error, "%s has no class", normal);
	unsigned long class = strtoul(text, &end, 16);
	if (*end != '\0' || end == text || class > 0xffffff)
		return mrw_topo_refuse(r->error, "class=\"%.40s\" is no PCI class", text);
	if (!attribute_pcie(r, &mb_s))
		return false;
	switch (class >> 8) {
	case 0x0604:
		kind = MRW_TOPO_BRIDGE;
		break;
	case 0x0300:
	case 0x0302:
		kind = MRW_TOPO_GPU;
		break;
	case 0x0200:
	case 0x0207:
	case 0x0280:
		kind = MRW_TOPO_NIC;
		break;
	default:
		r->ignored[r->xml.depth] = true;
		return true;
	}
	node = mrw_topo_add(r->topo, kind, name_of_host(r->topo, parent, normal, name), parent, normal, mb_s, r->error);
	if (node < 0)
		return false;
	r->nodes[r->xml.depth] = node;
	if (kind == MRW_TOPO_GPU)
		r->device[r->topo->nodes[node].index] = -1;
	return true;
}

static bool open_gpu(struct reader *r, int32_t node)
{
	uint64_t dev, sm;

	if (node < 0 || r->topo->nodes[node].kind != MRW_TOPO_GPU)
		return mrw_topo_refuse(r->error, "a gpu in something that is none by its PCI class");
	if (!attribute_number(r, "dev", 9999, UINT64_MAX, &dev) || !attribute_number(r, "sm", 999, 0, &sm))
		return false;
	r->topo->gpus[r->topo->nodes[node].index].sm = (uint32_t)sm;
	r->device[r->topo->nodes[node].index] = dev == UINT64_MAX ? -1 : (int32_t)dev;
	/* A file with gpu elements has their NVLinks too. */
	r->topo->links_known = MRW_YES;
	return true;
}

static bool open_nvlink(struct reader *r, int32_t node)
{
	const char *target = mrw_xml_attribute(&r->xml, "target"), *class = mrw_xml_attribute(&r->xml, "tclass");
	struct wish *wish = &r->wishes[r->nwishes];
	uint64_t lanes;

	if (node < 0 || r->topo->nodes[node].kind != MRW_TOPO_GPU)
		return mrw_topo_refuse(r->error, "an nvlink outside a gpu");
	if (r->nwishes == MAX_WISHES)
		return mrw_topo_refuse(r->error, "more than %d nvlinks", MAX_WISHES);
	if (!attribute_number(r, "count", MRW_TOPO_LANES, 0, &lanes))
		return false;
	if (lanes == 0)
		return mrw_topo_refuse(r->error, "an nvlink without a count");
	if (target == NULL || class == NULL)
		return mrw_topo_refuse(r->error, "an nvlink without target or tclass");
	*wish = (struct wish){.line = r->error->line, .lanes = (uint32_t)lanes, .gpu = (uint16_t)node};
	wish->to_nvswitch = strncmp(class, "0x0680", 6) == 0;
	if (!wish->to_nvswitch && strncmp(class, "0x0302", 6) != 0 && strncmp(class, "0x0300", 6) != 0)
		return true; /* a CPU's or an unknown one's */
	/* NVSwitches that a virtual machine does not show have the address fffffff:ffff:ff. */
	if (!mrw_topo_normal_bus(target, wish->bus) && !wish->to_nvswitch)
		return mrw_topo_refuse(r->error, "target=\"%.40s\" is no PCI address", target);
	r->nwishes++;
	return true;
}

static bool open_c2c(struct reader *r, int32_t node)
{
	uint64_t mb_s, lanes;
	int32_t cpu = node < 0 ? -1 : mrw_topo_cpu_of(r->topo, (uint32_t)node);

	if (cpu < 0 || r->topo->nodes[node].kind != MRW_TOPO_GPU)
		return mrw_topo_refuse(r->error, "a c2c outside a gpu with a cpu");
	return attribute_number(r, "bw", MRW_TOPO_MAX_MB_S, 0, &mb_s) &&
	       attribute_number(r, "count", MRW_TOPO_LANES, 1, &lanes) &&
	       mrw_topo_add_link(r->topo, MRW_LINK_C2C, node, cpu, lanes, mb_s, r->error);
}

static bool open_net(struct reader *r, int32_t parent)
{
	const char *name = mrw_xml_attribute(&r->xml, "name");
	char own[MRW_TOPO_NAME_BYTES] = "", room[MRW_TOPO_NAME_BYTES], unique[MRW_TOPO_NAME_BYTES] = "";
	uint64_t speed, port;
	struct mrw_topo_nic *nic;
	int32_t node = parent;

	if (parent < 0)
		return mrw_topo_refuse(r->error, "a net outside a cpu and a NIC");
	if (name == NULL || strlen(name) > sizeof own - 10)
		return mrw_topo_refuse(r->error, "a net without a name of up to %zu bytes", sizeof own - 10);
	if (!attribute_number(r, "speed", (uint64_t)MRW_TOPO_MAX_MB_S * 8, 0, &speed) ||
	    !attribute_number(r, "port", 255, 1, &port))
		return false;
	snprintf(own, sizeof own, port > 1 ? "%.22s:%u" : "%.22s", name, (unsigned)port);
	snprintf(unique, sizeof unique, "%s", name_of_host(r->topo, parent, own, room));
	if (!mrw_topo_good_name(unique))
		return mrw_topo_refuse(r->error, "\"%s\" is no name", unique);
	if (r->topo->nodes[parent].kind == MRW_TOPO_NIC && r->ports[r->xml.depth - 1]++ == 0) {
		int32_t same = mrw_topo_find(r->topo, unique);
		if (same >= 0 && same != parent)
			return mrw_topo_refuse(r->error, "%s is named twice, first in line %u", unique,
					       r->topo->nodes[same].line);
		struct mrw_topo_node *first = &r->topo->nodes[parent];
		memcpy(first->name, unique, sizeof unique);
	} else {
		/* A further port of a NIC, or one with no PCI device (below the CPU). */
		const struct mrw_topo_node *first = &r->topo->nodes[parent];
		bool nic_port = first->kind == MRW_TOPO_NIC;
		if (first->kind == MRW_TOPO_GPU)
			return mrw_topo_refuse(r->error, "a net in a gpu");
		node = mrw_topo_add(r->topo, MRW_TOPO_NIC, unique, nic_port ? first->parent : parent,
				    nic_port ? first->bus : "", nic_port ? first->up_mb_s : 0, r->error);
		if (node < 0)
			return false;
	}
	nic = &r->topo->nics[r->topo->nodes[node].index];
	nic->port = (uint16_t)port;
	nic->rate_mb_s = (uint32_t)(speed / 8);
	r->named[r->topo->nodes[node].index] = true;
	return true;
}

static bool open_element(struct reader *r)
{
	const char *name = r->xml.name;
	uint32_t depth = r->xml.depth; /* of this element, from 1 */
	int32_t parent = r->nodes[depth - 1];

	r->nodes[depth] = parent;
	r->ignored[depth] = r->ignored[depth - 1];
	r->ports[depth] = 0;
	if (depth == 1) {
		uint64_t version;
		if (strcmp(name, "system") != 0)
			return mrw_topo_refuse(r->error, "the root element is %s: NCCL's is system, hwloc's topology",
					       name);
		if (!attribute_number(r, "version", 99, 1, &version))
			return false;
		return version <= 2 || mrw_topo_refuse(r->error, "version %u: 1 and 2 are known", (unsigned)version);
	}
	if (r->ignored[depth])
		return true;
	if (strcmp(name, "cpu") == 0)
		return depth == 2 ? open_cpu(r) : mrw_topo_refuse(r->error, "a cpu inside %s", r->xml.open[depth - 2]);
	if (strcmp(name, "pci") == 0)
		return parent >= 0 ? open_pci(r, parent) : mrw_topo_refuse(r->error, "a pci outside a cpu");
	if (strcmp(name, "gpu") == 0)
		return open_gpu(r, parent);
	if (strcmp(name, "nvlink") == 0)
		return open_nvlink(r, parent);
	if (strcmp(name, "c2c") == 0)
		return open_c2c(r, parent);
	if (strcmp(name, "net") == 0)
		return open_net(r, parent);
	if (strcmp(name, "nic") == 0) {
		if (parent >= 0 && r->topo->nodes[parent].kind == MRW_TOPO_GPU)
			return mrw_topo_refuse(r->error, "a nic in a gpu");
		return true;
	}
	/* Of newer versions, or PCIe links between bridges (pcilink): no word about what is kept. */
	r->ignored[depth] = true;
	return true;
}

/* Final names: gpuN by the dev attribute, or in order with the free numbers; nicN for NICs without a net element. */
static bool name_devices(struct reader *r)
{
	struct mrw_topo *topo = r->topo;
	char own[MRW_TOPO_NAME_BYTES], room[MRW_TOPO_NAME_BYTES];
	int32_t next = 0;

	for (uint32_t i = 0; i < topo->ngpus; i++) {
		struct mrw_topo_node *node = &topo->nodes[topo->gpus[i].node];
		int32_t number = r->device[i];
		while (number < 0) {
			bool free = true;
			for (uint32_t j = 0; j < topo->ngpus; j++)
				free = free && r->device[j] != next;
			if (free)
				number = next;
			next++;
		}
		r->error->line = node->line;
		snprintf(own, sizeof own, "gpu%d", number);
		const char *name = name_of_host(topo, topo->gpus[i].node, own, room);
		int32_t same = mrw_topo_find(topo, name);
		if (same >= 0)
			return mrw_topo_refuse(r->error, "%s is there twice, first in line %u", name,
					       topo->nodes[same].line);
		snprintf(node->name, sizeof node->name, "%s", name);
	}
	for (uint32_t i = 0, number = 0; i < topo->nnics; i++) {
		if (r->named[i])
			continue;
		do
			snprintf(own, sizeof own, "nic%u", number++);
		while (mrw_topo_find(topo, own) >= 0);
		memcpy(topo->nodes[topo->nics[i].node].name, own, sizeof own);
	}
	return true;
}

/* An NVSwitch of any host, a GPU of the same. */
static int32_t far_end(struct reader *r, const struct wish *wish)
{
	struct mrw_topo *topo = r->topo;
	char name[MRW_TOPO_NAME_BYTES];
	uint32_t host = topo->cpus[topo->nodes[mrw_topo_cpu_of(topo, wish->gpu)].index].host;

	for (uint32_t i = 0; i < topo->nnodes; i++) {
		const struct mrw_topo_node *node = &topo->nodes[i];
		if (node->kind == MRW_TOPO_GPU && topo->cpus[topo->nodes[mrw_topo_cpu_of(topo, i)].index].host != host)
			continue;
		if (node->kind == (wish->to_nvswitch ? MRW_TOPO_NVSWITCH : MRW_TOPO_GPU) &&
		    strcmp(node->bus, wish->bus) == 0)
			return (int32_t)i;
	}
	if (!wish->to_nvswitch)
		return -1;
	snprintf(name, sizeof name, "nvswitch%u", topo->nnvswitches);
	return mrw_topo_add(topo, MRW_TOPO_NVSWITCH, name, -1, wish->bus, 0, r->error);
}

static bool grant_wishes(struct reader *r)
{
	struct mrw_topo *topo = r->topo;

	for (uint32_t i = 0; i < r->nwishes; i++) {
		const struct wish *wish = &r->wishes[i];
		const struct mrw_topo_node *gpu = &topo->nodes[wish->gpu];
		struct mrw_topo_link *back = NULL;
		r->error->line = wish->line;
		r->error->text[0] = '\0';
		int32_t end = far_end(r, wish);
		if (end < 0 && r->error->text[0] != '\0')
			return false;
		if (end < 0) {
			mrw_topo_note(topo, "%s has NVLinks to %s, which is not there", gpu->name, wish->bus);
			continue;
		}
		for (uint32_t j = 0; j < topo->nlinks && topo->nodes[end].kind == MRW_TOPO_GPU; j++) {
			struct mrw_topo_link *link = &topo->links[j];
			if ((link->a == end && link->b == wish->gpu) || (link->b == end && link->a == wish->gpu))
				back = link;
		}
		bool seen = false;
		for (uint32_t j = 0; j < i; j++)
			seen = seen || (r->wishes[j].gpu == wish->gpu && strcmp(r->wishes[j].bus, wish->bus) == 0);
		if (seen)
			return mrw_topo_refuse(r->error, "a second nvlink from %s to %s", gpu->name,
					       topo->nodes[end].name);
		if (back != NULL) {
			if (back->lanes != wish->lanes)
				mrw_topo_note(
					topo,
					"%s and %s see %u and %u NVLinks between them: the smaller number is taken",
					topo->nodes[end].name, gpu->name, back->lanes, wish->lanes);
			if (wish->lanes < back->lanes)
				back->lanes = (uint16_t)wish->lanes;
			continue;
		}
		uint32_t sm = topo->gpus[gpu->index].sm;
		if (!mrw_topo_add_link(topo, MRW_LINK_NVLINK, wish->gpu, end, wish->lanes, mrw_topo_lane_mb_s(sm),
				       r->error))
			return false;
	}
	return true;
}

bool mrw_topo_read_nccl(struct mrw_topo *topo, const char *bytes, size_t nbytes, struct mrw_topo_error *error)
{
	struct reader *r = calloc(1, sizeof *r);
	enum mrw_xml_event event;
	bool good = false;

	if (r == NULL)
		return mrw_topo_refuse(error, "no memory");
	r->topo = topo;
	r->error = error;
	r->nodes[0] = -1;
	mrw_xml_begin(&r->xml, bytes, nbytes, error);
	while ((event = mrw_xml_next(&r->xml)) == MRW_XML_OPEN || event == MRW_XML_CLOSE)
		if (event == MRW_XML_OPEN && !open_element(r))
			goto done;
	good = event == MRW_XML_END && name_devices(r) && grant_wishes(r);
done:
	free(r);
	return good;
}
