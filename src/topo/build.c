#include "topo/build.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

static const uint32_t limits[] = {MRW_TOPO_CPUS, MRW_TOPO_BRIDGES, MRW_TOPO_GPUS, MRW_TOPO_NICS, MRW_TOPO_NVSWITCHES};

bool mrw_topo_refuse(struct mrw_topo_error *error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error->text, sizeof error->text, format, args);
	va_end(args);
	return false;
}

void mrw_topo_note(struct mrw_topo *topo, const char *format, ...)
{
	char note[MRW_TOPO_NOTE_BYTES] = "";
	va_list args;

	va_start(args, format);
	vsnprintf(note, sizeof note, format, args);
	va_end(args);
	for (uint32_t i = 0; i < topo->nnotes; i++)
		if (strcmp(topo->notes[i], note) == 0)
			return;
	if (topo->nnotes < MRW_TOPO_NOTES)
		memcpy(topo->notes[topo->nnotes++], note, sizeof note);
}

bool mrw_topo_number(const char *text, uint64_t max, uint64_t *value)
{
	uint64_t v = 0;

	if (*text == '\0')
		return false;
	for (; *text != '\0'; text++) {
		if (*text < '0' || *text > '9')
			return false;
		uint64_t digit = (uint64_t)(*text - '0');
		if (v > (max - digit) / 10 || digit > max)
			return false;
		v = v * 10 + digit;
	}
	*value = v;
	return true;
}

static bool hex_field(const char **text, uint32_t least, uint32_t most, uint32_t *value)
{
	uint32_t digits = 0;

	*value = 0;
	for (; isxdigit((unsigned char)**text); (*text)++) {
		if (++digits > most)
			return false;
		int c = tolower((unsigned char)**text);
		*value = *value << 4 | (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return digits >= least;
}

bool mrw_topo_normal_bus(const char *text, char bus[MRW_TOPO_NAME_BYTES])
{
	uint32_t domain = 0, number, device, function;
	const char *at = text, *first = strchr(text, ':');

	if (first != NULL && strchr(first + 1, ':') != NULL) {
		if (!hex_field(&at, 4, 8, &domain) || *at++ != ':')
			return false;
	}
	if (!hex_field(&at, 2, 2, &number) || *at++ != ':' || !hex_field(&at, 2, 2, &device) || *at++ != '.' ||
	    !hex_field(&at, 1, 1, &function) || *at != '\0')
		return false;
	snprintf(bus, MRW_TOPO_NAME_BYTES, "%04x:%02x:%02x.%x", domain, number, device, function);
	return true;
}

uint32_t mrw_topo_pcie_mb_s(double giga_transfers, uint64_t width)
{
	/* 8b/10b up to 5 GT/s, 128b/130b up to 32, then flits of 242 in 256 bytes. */
	static const struct {
		double giga_transfers, payload;
	} generations[] = {{2.5, 0.8},       {5, 0.8},         {8, 128. / 130},  {16, 128. / 130},
			   {32, 128. / 130}, {64, 242. / 256}, {128, 242. / 256}};

	if (width < 1 || width > 32)
		return 0;
	for (size_t i = 0; i < sizeof generations / sizeof *generations; i++)
		if (giga_transfers > generations[i].giga_transfers * 0.99 &&
		    giga_transfers < generations[i].giga_transfers * 1.01)
			return (uint32_t)(generations[i].giga_transfers * (double)width * generations[i].payload * 125);
	return 0;
}

uint32_t mrw_topo_lane_mb_s(uint32_t sm)
{
	if (sm >= 100 && sm < 120)
		return 50000;
	if (sm == 86 || sm == 89)
		return 14062;
	if (sm >= 70)
		return 25000;
	return sm >= 60 ? 20000 : 0;
}

void mrw_topo_begin(struct mrw_topo *topo, struct mrw_topo_error *error)
{
	memset(topo, 0, sizeof *topo);
	memset(error, 0, sizeof *error);
}

bool mrw_topo_good_name(const char *name)
{
	size_t length = strlen(name);

	if (length == 0 || length >= MRW_TOPO_NAME_BYTES)
		return false;
	for (; *name != '\0'; name++)
		if (!isalnum((unsigned char)*name) && strchr("_.:-", *name) == NULL)
			return false;
	return true;
}

static bool good_parent(const struct mrw_topo *topo, enum mrw_topo_kind kind, int32_t parent,
			struct mrw_topo_error *error)
{
	uint32_t depth = 1;

	if (kind == MRW_TOPO_CPU || kind == MRW_TOPO_NVSWITCH)
		return parent < 0 || mrw_topo_refuse(error, "a %s stands in nothing", mrw_topo_kind_name(kind));
	if (parent < 0)
		return true;
	if (topo->nodes[parent].kind != MRW_TOPO_CPU && topo->nodes[parent].kind != MRW_TOPO_BRIDGE)
		return mrw_topo_refuse(error, "%s is a %s: only a cpu or a bridge holds devices",
				       topo->nodes[parent].name, mrw_topo_kind_name(topo->nodes[parent].kind));
	for (int32_t n = parent; n >= 0; n = topo->nodes[n].parent)
		depth++;
	return depth <= MRW_TOPO_DEPTH ||
	       mrw_topo_refuse(error, "more than %d bridges below each other", MRW_TOPO_DEPTH - 2);
}

void mrw_topo_set_node(struct mrw_topo *topo, uint32_t node)
{
	uint32_t index = topo->nodes[node].index;
	uint16_t at = (uint16_t)node;
	switch (topo->nodes[node].kind) {
	case MRW_TOPO_CPU:
		topo->cpus[index].node = at;
		break;
	case MRW_TOPO_BRIDGE:
		topo->bridges[index].node = at;
		break;
	case MRW_TOPO_GPU:
		topo->gpus[index].node = at;
		break;
	case MRW_TOPO_NIC:
		topo->nics[index].node = at;
		break;
	case MRW_TOPO_NVSWITCH:
		topo->nvswitches[index].node = at;
		break;
	}
}

int32_t mrw_topo_add(struct mrw_topo *topo, enum mrw_topo_kind kind, const char *name, int32_t parent, const char *bus,
		     uint64_t up_mb_s, struct mrw_topo_error *error)
{
	uint32_t *const counts[] = {&topo->ncpus, &topo->nbridges, &topo->ngpus, &topo->nnics, &topo->nnvswitches};
	char normal[MRW_TOPO_NAME_BYTES] = "";
	uint32_t index = *counts[kind], node = topo->nnodes;

	if (!mrw_topo_good_name(name))
		return mrw_topo_refuse(error, "\"%.40s\" is no name: 1 to %d letters, digits or _ . : -", name,
				       MRW_TOPO_NAME_BYTES - 1) -
		       1;
	if (bus[0] != '\0' && !mrw_topo_normal_bus(bus, normal))
		return mrw_topo_refuse(error, "\"%.40s\" is no PCI address", bus) - 1;
	for (uint32_t i = 0; i < topo->nnodes; i++)
		if (strcmp(topo->nodes[i].name, name) == 0)
			return mrw_topo_refuse(error, "%s is named twice, first in line %u", name,
					       topo->nodes[i].line) -
			       1;
	if (index == limits[kind])
		return mrw_topo_refuse(error, "more than %u of kind %s", limits[kind], mrw_topo_kind_name(kind)) - 1;
	if (up_mb_s > MRW_TOPO_MAX_MB_S)
		return mrw_topo_refuse(error, "%s: %llu MB/s is beyond reason", name, (unsigned long long)up_mb_s) - 1;
	if (!good_parent(topo, kind, parent, error))
		return -1;

	topo->nodes[node] = (struct mrw_topo_node){.kind = kind,
						   .index = (uint16_t)index,
						   .parent = (int16_t)parent,
						   .up_mb_s = (uint32_t)up_mb_s,
						   .line = error->line};
	memcpy(topo->nodes[node].name, name, strlen(name));
	memcpy(topo->nodes[node].bus, normal, sizeof normal);
	uint16_t at = (uint16_t)node;
	switch (kind) {
	case MRW_TOPO_CPU:
		topo->cpus[index] = (struct mrw_topo_cpu){.node = at, .numa = -1};
		break;
	case MRW_TOPO_BRIDGE:
		topo->bridges[index] = (struct mrw_topo_bridge){.node = at};
		break;
	case MRW_TOPO_GPU:
		topo->gpus[index] = (struct mrw_topo_gpu){.node = at, .cuda = -1, .mig = -1, .iommu_group = -1};
		break;
	case MRW_TOPO_NIC:
		topo->nics[index] = (struct mrw_topo_nic){.node = at, .port = 1, .iommu_group = -1};
		break;
	case MRW_TOPO_NVSWITCH:
		topo->nvswitches[index] = (struct mrw_topo_nvswitch){.node = at};
		break;
	}
	++*counts[kind];
	topo->nnodes++;
	return (int32_t)node;
}

bool mrw_topo_add_link(struct mrw_topo *topo, enum mrw_topo_link_kind kind, int32_t a, int32_t b, uint64_t lanes,
		       uint64_t lane_mb_s, struct mrw_topo_error *error)
{
	if (a > b) {
		int32_t swap = a;
		a = b;
		b = swap;
	}
	const char *one = topo->nodes[a].name, *other = topo->nodes[b].name;
	enum mrw_topo_kind ka = topo->nodes[a].kind, kb = topo->nodes[b].kind;
	uint32_t gpus = (uint32_t)(ka == MRW_TOPO_GPU) + (kb == MRW_TOPO_GPU);
	enum mrw_topo_kind far_end = ka == MRW_TOPO_GPU ? kb : ka;

	if (a == b)
		return mrw_topo_refuse(error, "a link from %s to itself", one);
	if (kind == MRW_LINK_NVLINK && (gpus == 0 || (gpus == 1 && far_end != MRW_TOPO_NVSWITCH)))
		return mrw_topo_refuse(error, "NVLink joins GPUs and NVSwitches, not %s and %s", one, other);
	if (kind == MRW_LINK_C2C && (gpus != 1 || far_end != MRW_TOPO_CPU))
		return mrw_topo_refuse(error, "C2C joins a GPU and a CPU, not %s and %s", one, other);
	if (lanes < 1 || lanes > MRW_TOPO_LANES)
		return mrw_topo_refuse(error, "%llu lanes between %s and %s: 1 to %d can be", (unsigned long long)lanes,
				       one, other, MRW_TOPO_LANES);
	if (lane_mb_s > MRW_TOPO_MAX_MB_S / lanes)
		return mrw_topo_refuse(error, "%llu MB/s a lane between %s and %s is beyond reason",
				       (unsigned long long)lane_mb_s, one, other);
	for (uint32_t i = 0; i < topo->nlinks; i++)
		if (topo->links[i].a == a && topo->links[i].b == b)
			return mrw_topo_refuse(error, "a second link between %s and %s", one, other);
	if (topo->nlinks == MRW_TOPO_LINKS)
		return mrw_topo_refuse(error, "more than %d links", MRW_TOPO_LINKS);
	topo->links[topo->nlinks++] =
		(struct mrw_topo_link){kind, (uint16_t)a, (uint16_t)b, (uint16_t)lanes, (uint32_t)lane_mb_s};
	topo->links_known = MRW_YES;
	return true;
}

static uint32_t narrower(uint32_t a, uint32_t b)
{
	if (a == 0 || b == 0)
		return a + b;
	return a < b ? a : b;
}

/* Functions of one PCI device, one after the other. */
static bool same_device(const struct mrw_topo_node *a, const struct mrw_topo_node *b)
{
	size_t length = strlen(a->bus);
	return length > 1 && a->kind == b->kind && a->parent == b->parent && strlen(b->bus) == length &&
	       strncmp(a->bus, b->bus, length - 1) == 0;
}

/* ACS of a switch's ports is the switch's: on in one of them, on. */
static void pass_acs(struct mrw_topo *topo, const struct mrw_topo_node *port)
{
	enum mrw_topo_known acs = topo->bridges[port->index].acs;
	if (port->parent < 0 || topo->nodes[port->parent].kind != MRW_TOPO_BRIDGE)
		return;
	struct mrw_topo_bridge *above = &topo->bridges[topo->nodes[port->parent].index];
	if (above->acs != MRW_YES && acs != MRW_UNKNOWN)
		above->acs = acs;
}

void mrw_topo_collapse(struct mrw_topo *topo)
{
	uint16_t below[MRW_TOPO_NODES] = {0};
	int32_t moved[MRW_TOPO_NODES];
	uint32_t nnodes = 0, nbridges = 0;

	/* A bridge without a device below is nothing, and its parent has one less: children first. */
	for (uint32_t i = topo->nnodes; i-- > 0;) {
		const struct mrw_topo_node *node = &topo->nodes[i];
		bool same = i + 1 < topo->nnodes && same_device(node, &topo->nodes[i + 1]);
		if (node->parent >= 0 && !same && (node->kind != MRW_TOPO_BRIDGE || below[i] > 0))
			below[node->parent]++;
	}
	for (uint32_t i = 0; i < topo->nnodes; i++) {
		struct mrw_topo_node node = topo->nodes[i];
		bool dropped = node.kind == MRW_TOPO_BRIDGE && below[i] < 2;
		/* Dropped bridges pass on where they were: as -2 - (their own number, still in place as far as parents go). */
		while (node.parent >= 0 && moved[node.parent] < 0) {
			node.up_mb_s = narrower(node.up_mb_s, topo->nodes[-2 - moved[node.parent]].up_mb_s);
			node.parent = topo->nodes[-2 - moved[node.parent]].parent;
		}
		if (dropped) {
			pass_acs(topo, &node);
			topo->nodes[i].parent = node.parent;
			topo->nodes[i].up_mb_s = node.up_mb_s;
			moved[i] = -2 - (int32_t)i;
			continue;
		}
		moved[i] = (int32_t)nnodes;
		if (node.kind == MRW_TOPO_BRIDGE) {
			topo->bridges[nbridges] = topo->bridges[node.index];
			node.index = (uint16_t)nbridges++;
		}
		/* Parents keep their old numbers until the loop below; nodes stay in place until then. */
		topo->nodes[i] = node;
		nnodes++;
	}
	topo->nbridges = nbridges;
	for (uint32_t i = 0; i < topo->nnodes; i++) {
		if (moved[i] < 0)
			continue;
		struct mrw_topo_node node = topo->nodes[i];
		uint16_t at = (uint16_t)moved[i];
		node.parent = node.parent < 0 ? -1 : (int16_t)moved[node.parent];
		topo->nodes[at] = node;
		mrw_topo_set_node(topo, at);
	}
	for (uint32_t i = 0; i < topo->nlinks; i++) {
		topo->links[i].a = (uint16_t)moved[topo->links[i].a];
		topo->links[i].b = (uint16_t)moved[topo->links[i].b];
	}
	topo->nnodes = nnodes;
}
