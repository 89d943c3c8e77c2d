/* A machine as NCCL's topology XML: see nccl.c. */
#include "topo/build.h"

#include <string.h>

struct pcie {
	const char *speed;
	uint32_t width;
};

/* The speed and width behind a bandwidth; the nearest below where it is of another origin. */
static struct pcie pcie_of(uint32_t mb_s)
{
	static const struct {
		const char *name;
		double giga_transfers;
	} speeds[] = {{"2.5 GT/s PCIe", 2.5}, {"5.0 GT/s PCIe", 5},   {"8.0 GT/s PCIe", 8},    {"16.0 GT/s PCIe", 16},
		      {"32.0 GT/s PCIe", 32}, {"64.0 GT/s PCIe", 64}, {"128.0 GT/s PCIe", 128}};
	struct pcie best = {"Unknown", 0};
	uint32_t most = 0;

	for (uint32_t width = 16; width > 0; width /= 2)
		for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++) {
			uint32_t carries = mrw_topo_pcie_mb_s(speeds[i].giga_transfers, width);
			if (carries <= mb_s && carries > most) {
				most = carries;
				best = (struct pcie){speeds[i].name, width};
			}
		}
	return best;
}

static void indent(FILE *file, uint32_t depth)
{
	fprintf(file, "%*s", (int)(2 * depth), "");
}

static void write_attribute(FILE *file, const char *name, const char *value)
{
	fprintf(file, " %s=\"", name);
	for (; *value != '\0'; value++) {
		const char *entity = *value == '&' ? "&amp;" : *value == '<' ? "&lt;" : *value == '"' ? "&quot;" : NULL;
		if (entity != NULL)
			fputs(entity, file);
		else
			fputc(*value, file);
	}
	fputc('"', file);
}

/* Devices without an address get one that no machine has. */
static const char *bus_of(const struct mrw_topo *topo, uint32_t node, char *room)
{
	if (topo->nodes[node].bus[0] != '\0')
		return topo->nodes[node].bus;
	snprintf(room, MRW_TOPO_NAME_BYTES, "fffe:%02x:%02x.0", node / 256 & 0xff, node % 256);
	return room;
}

static void write_links(const struct mrw_topo *topo, uint32_t node, uint32_t depth, FILE *file)
{
	char room[MRW_TOPO_NAME_BYTES];

	for (uint32_t i = 0; i < topo->nlinks; i++) {
		const struct mrw_topo_link *link = &topo->links[i];
		uint32_t other = link->a == node ? link->b : link->a;
		if (link->a != node && link->b != node)
			continue;
		indent(file, depth);
		if (link->kind == MRW_LINK_C2C)
			fprintf(file, "<c2c bw=\"%u\" count=\"%u\"/>\n", link->lane_mb_s, link->lanes);
		else
			fprintf(file, "<nvlink target=\"%s\" count=\"%u\" tclass=\"%s\"/>\n", bus_of(topo, other, room),
				link->lanes, topo->nodes[other].kind == MRW_TOPO_NVSWITCH ? "0x068000" : "0x030200");
	}
}

static void write_net(const struct mrw_topo *topo, const struct mrw_topo_nic *nic, uint32_t depth, FILE *file)
{
	char name[MRW_TOPO_NAME_BYTES], suffix[8];

	/* The port is part of our name only. */
	memcpy(name, topo->nodes[nic->node].name, sizeof name);
	snprintf(suffix, sizeof suffix, ":%u", nic->port);
	size_t length = strlen(name), tail = strlen(suffix);
	if (nic->port > 1 && length > tail && strcmp(name + length - tail, suffix) == 0)
		name[length - tail] = '\0';
	indent(file, depth);
	fputs("<net", file);
	write_attribute(file, "name", name);
	fprintf(file, " port=\"%u\" speed=\"%u\"/>\n", nic->port, nic->rate_mb_s * 8);
}

static void write_below(const struct mrw_topo *topo, uint32_t parent, uint32_t depth, FILE *file)
{
	char room[MRW_TOPO_NAME_BYTES];

	for (uint32_t i = parent + 1; i < topo->nnodes; i++) {
		const struct mrw_topo_node *node = &topo->nodes[i];
		struct pcie pcie = pcie_of(node->up_mb_s);
		bool written = false;
		if (node->parent != (int32_t)parent)
			continue;
		if (node->kind == MRW_TOPO_NIC && node->bus[0] == '\0') {
			indent(file, depth);
			fputs("<nic>\n", file);
			write_net(topo, &topo->nics[node->index], depth + 1, file);
			indent(file, depth);
			fputs("</nic>\n", file);
			continue;
		}
		/* Ports of one NIC, slices of one GPU: with the first of them. */
		for (uint32_t j = parent + 1; j < i; j++)
			written = written || (node->bus[0] != '\0' && topo->nodes[j].parent == (int32_t)parent &&
					      strcmp(topo->nodes[j].bus, node->bus) == 0);
		if (written)
			continue;
		indent(file, depth);
		fprintf(file, "<pci busid=\"%s\" class=\"%s\" link_speed=\"%s\" link_width=\"%u\">\n",
			bus_of(topo, i, room),
			node->kind == MRW_TOPO_GPU   ? "0x030200"
			: node->kind == MRW_TOPO_NIC ? "0x020700"
						     : "0x060400",
			pcie.speed, pcie.width);
		if (node->kind == MRW_TOPO_BRIDGE) {
			write_below(topo, i, depth + 1, file);
		} else if (node->kind == MRW_TOPO_GPU) {
			indent(file, depth + 1);
			fprintf(file, "<gpu dev=\"%u\" sm=\"%u\">\n", node->index, topo->gpus[node->index].sm);
			write_links(topo, i, depth + 2, file);
			indent(file, depth + 1);
			fputs("</gpu>\n", file);
		} else {
			indent(file, depth + 1);
			fputs("<nic>\n", file);
			for (uint32_t j = i; j < topo->nnodes; j++)
				if (j == i || (topo->nodes[j].parent == (int32_t)parent &&
					       strcmp(topo->nodes[j].bus, node->bus) == 0))
					write_net(topo, &topo->nics[topo->nodes[j].index], depth + 2, file);
			indent(file, depth + 1);
			fputs("</nic>\n", file);
		}
		indent(file, depth);
		fputs("</pci>\n", file);
	}
}

bool mrw_topo_write_nccl(const struct mrw_topo *topo, FILE *file)
{
	fputs("<system version=\"1\">\n", file);
	for (uint32_t i = 0; i < topo->ncpus; i++) {
		const struct mrw_topo_cpu *cpu = &topo->cpus[i];
		uint32_t words = MRW_TOPO_CORES / 32;
		while (words > 1 && (cpu->cores[(words - 1) / 2] >> (words - 1) % 2 * 32 & UINT32_MAX) == 0)
			words--;
		indent(file, 1);
		fprintf(file, "<cpu host_hash=\"0x%x\" numaid=\"%d\" affinity=\"", cpu->host + 1, cpu->numa);
		for (uint32_t w = words; w-- > 0;)
			fprintf(file, "%08x%s", (unsigned)(cpu->cores[w / 2] >> w % 2 * 32 & UINT32_MAX),
				w > 0 ? "," : "\"");
		write_attribute(file, "arch", cpu->arch);
		write_attribute(file, "vendor", cpu->vendor);
		fputs(">\n", file);
		write_below(topo, cpu->node, 2, file);
		indent(file, 1);
		fputs("</cpu>\n", file);
	}
	fputs("</system>\n", file);
	return fflush(file) == 0 && !ferror(file);
}
