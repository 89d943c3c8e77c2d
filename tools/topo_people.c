#include <string.h>

#include "topo_cost.h"
#include "collectives/select.h"

enum { MOST_COLUMNS = 40, MOST_PARENTS = 64 };

static const char *name_of(const struct mrw_topo *topo, uint32_t node)
{
	return topo->nodes[node].name;
}

static const char *gpu_name(const struct mrw_topo *topo, uint32_t gpu)
{
	return name_of(topo, topo->gpus[gpu].node);
}

static const char *nic_name(const struct mrw_topo *topo, uint32_t nic)
{
	return name_of(topo, topo->nics[nic].node);
}

static void print_width(FILE *file, uint32_t mb_s)
{
	if (mb_s == 0)
		fprintf(file, "width unknown");
	else
		fprintf(file, "%.1f GB/s", mb_s / 1000.);
}

static void print_cores(const uint64_t *cores, FILE *file)
{
	const char *before = ", cores ";

	for (uint32_t first = 0; first < MRW_TOPO_CORES; first++) {
		uint32_t last = first;
		if (!(cores[first / 64] >> first % 64 & 1))
			continue;
		while (last + 1 < MRW_TOPO_CORES && (cores[(last + 1) / 64] >> (last + 1) % 64 & 1))
			last++;
		fprintf(file, last > first ? "%s%u-%u" : "%s%u", before, first, last);
		before = ",";
		first = last;
	}
}

static void print_node(const struct mrw_topo *topo, const struct mrw_topo_node *node, FILE *file)
{
	fprintf(file, "%s %s", mrw_topo_kind_name(node->kind), node->name);
	if (node->bus[0] != '\0' && strcmp(node->bus, node->name) != 0)
		fprintf(file, " %s", node->bus);
	if (node->kind == MRW_TOPO_CPU) {
		const struct mrw_topo_cpu *cpu = &topo->cpus[node->index];
		if (cpu->host != 0)
			fprintf(file, ", host %u", cpu->host);
		if (cpu->vendor[0] != '\0')
			fprintf(file, ", %s", cpu->vendor);
		print_cores(cpu->cores, file);
	} else if (node->kind != MRW_TOPO_NVSWITCH) {
		fprintf(file, ", ");
		print_width(file, node->up_mb_s);
	}
	if (node->kind == MRW_TOPO_BRIDGE && topo->bridges[node->index].acs == MRW_YES)
		fprintf(file, ", ACS ON");
	if (node->kind == MRW_TOPO_GPU) {
		const struct mrw_topo_gpu *gpu = &topo->gpus[node->index];
		if (gpu->model[0] != '\0')
			fprintf(file, ", %s", gpu->model);
		if (gpu->sm != 0)
			fprintf(file, ", sm %u", gpu->sm);
		if (gpu->cuda >= 0)
			fprintf(file, ", CUDA device %d", gpu->cuda);
		if (gpu->mig >= 0)
			fprintf(file, ", MIG slice %d", gpu->mig);
	}
	if (node->kind == MRW_TOPO_NIC) {
		const struct mrw_topo_nic *nic = &topo->nics[node->index];
		fprintf(file, ", port %u", nic->port);
		if (nic->rate_mb_s != 0)
			fprintf(file, " of %u Gb/s", nic->rate_mb_s / 125);
		if (nic->layer != MRW_LAYER_UNKNOWN)
			fprintf(file, ", %s", nic->layer == MRW_LAYER_INFINIBAND ? "InfiniBand" : "Ethernet");
		if (nic->up == MRW_NO)
			fprintf(file, ", DOWN");
	}
	fputc('\n', file);
}

static void print_below(const struct mrw_topo *topo, int32_t parent, uint32_t depth, FILE *file)
{
	for (uint32_t i = 0; i < topo->nnodes; i++) {
		if (topo->nodes[i].parent != parent)
			continue;
		fprintf(file, "%*s", (int)(2 * depth), "");
		print_node(topo, &topo->nodes[i], file);
		print_below(topo, (int32_t)i, depth + 1, file);
	}
}

static void print_links(const struct mrw_topo *topo, FILE *file)
{
	for (uint32_t g = 0; g < topo->ngpus; g++) {
		uint32_t node = topo->gpus[g].node;
		const char *before = ": ";
		for (uint32_t l = 0; l < topo->nlinks; l++) {
			const struct mrw_topo_link *link = &topo->links[l];
			uint32_t other = link->a == node ? link->b : link->a;
			if (link->a != node && link->b != node)
				continue;
			if (before[0] == ':')
				fprintf(file, "  %s", gpu_name(topo, g));
			fprintf(file, "%s%u %s to %s", before, link->lanes,
				link->kind == MRW_LINK_C2C ? "C2C" : "NVLinks", name_of(topo, other));
			before = ", ";
		}
		if (before[0] != ':')
			fputc('\n', file);
	}
}

static void print_matrix(const struct mrw_topo *topo, FILE *file)
{
	uint32_t columns = topo->ngpus + topo->nnics;
	int width = 5;

	if (columns > MOST_COLUMNS) {
		fprintf(file, "  (%u devices: see --json)\n", columns);
		return;
	}
	for (uint32_t c = 0; c < columns; c++) {
		int length = (int)strlen(c < topo->ngpus ? gpu_name(topo, c) : nic_name(topo, c - topo->ngpus));
		width = length + 1 > width ? length + 1 : width;
	}
	for (int32_t r = -1; r < (int32_t)topo->ngpus; r++) {
		fprintf(file, "  %-*s", width, r < 0 ? "" : gpu_name(topo, (uint32_t)r));
		for (uint32_t c = 0; c < columns; c++) {
			uint32_t to = c < topo->ngpus ? topo->gpus[c].node : topo->nics[c - topo->ngpus].node;
			if (r < 0)
				fprintf(file, "%-*s", width, name_of(topo, to));
			else
				fprintf(file, "%-*s", width,
					mrw_path_name(mrw_topo_path(topo, topo->gpus[r].node, to).class));
		}
		fputc('\n', file);
	}
	fprintf(file, " ");
	for (enum mrw_path_class class = MRW_PATH_SELF; class <= MRW_PATH_NONE; class ++)
		fprintf(file, " %s: %s%s", mrw_path_name(class), mrw_path_text(class),
			class < MRW_PATH_NONE ? "," : "\n");
}

static void print_choices(const struct topo_answers *a, FILE *file)
{
	const struct mrw_topo *topo = a->topo;

	fprintf(file, "\nNICs:\n");
	for (uint32_t i = 0; i < a->pairing.npairs; i++) {
		const struct mrw_topo_pair *pair = &a->pairing.pairs[i];
		fprintf(file, "  %s: %s (%s)\n", gpu_name(topo, pair->gpu), nic_name(topo, pair->nic), pair->reason);
	}
	fprintf(file, "\nrails:\n");
	for (uint32_t r = 0; r < a->rails.nrails; r++) {
		fprintf(file, "  %u: %s, GPU %s", r, nic_name(topo, a->rails.nic[r]), gpu_name(topo, a->rails.gpu[r]));
		for (uint32_t p = 0; p < a->hosts && a->hosts > 1; p++)
			fprintf(file, "%s%u", p == 0 ? ", hosts " : " -> ",
				mrw_topo_rail_host(a->hosts, a->rails.nrails, r, p));
		fputc('\n', file);
	}
	fprintf(file, "\nrings: %u, together %.1f GB/s%s\n", a->rings.nrings, a->rings.mb_s / 1000.,
		a->rings.best ? " (no rings can do better)" : "");
	for (uint32_t r = 0; r < a->rings.nrings; r++) {
		fprintf(file, "  %.1f GB/s, at worst %s:", a->rings.rings[r].mb_s / 1000.,
			mrw_path_name(a->rings.rings[r].worst));
		for (uint32_t i = 0; i < a->rings.ngpus; i++)
			fprintf(file, " %s", gpu_name(topo, a->rings.rings[r].order[i]));
		fputc('\n', file);
	}
}

/* The parent of each, in two lines. */
static void print_trees(const char *what, uint32_t n, FILE *file)
{
	if (n == 0)
		return;
	fprintf(file, "\ntrees over %u %s (each one's parent, - the root):\n", n, what);
	for (uint32_t which = 0; which < 2; which++) {
		fprintf(file, " ");
		for (uint32_t r = 0; r < n && r < MOST_PARENTS; r++) {
			int32_t parent = mrw_topo_double_tree(n, which, r).parent;
			if (parent < 0)
				fprintf(file, " -");
			else
				fprintf(file, " %d", parent);
		}
		fprintf(file, "%s\n", n > MOST_PARENTS ? " ..." : "");
	}
}

static void print_size(uint64_t bytes, FILE *file)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
	uint32_t u = 0;
	for (; bytes >= 1024; u++)
		bytes /= 1024;
	fprintf(file, "  %5u %-4s", (uint32_t)bytes, units[u]);
}

/* A line a size, by the larger buffer. */
static void print_costs(const struct topo_costs *c, FILE *file)
{
	if (c->shape.nranks == 0)
		return;
	fprintf(file, "\npredicted, microseconds: %u ranks", c->shape.nranks);
	if (c->shape.hosts > 1)
		fprintf(file, " on %u hosts", c->shape.hosts);
	if (c->link_mb_s > 0)
		fprintf(file, ", %.1f GB/s from each to all others of its host", c->link_mb_s / 1000.);
	if (c->nic_mb_s > 0)
		fprintf(file, ", %.1f GB/s from each into the network", c->nic_mb_s / 1000.);
	fprintf(file, "\n  %10s", "");
	for (uint32_t f = 0; f < TOPO_COST_FUNCS; f++)
		fprintf(file, "  %-18s", mrw_tuning_func_name(c->funcs[f]));
	fputc('\n', file);
	for (uint32_t b = 0; b < TOPO_COST_SIZES; b++) {
		print_size(c->bytes[b], file);
		for (uint32_t f = 0; f < TOPO_COST_FUNCS; f++)
			fprintf(file, "  %9.*f %-8s", c->times[f][b].us < 100 ? 1 : 0, c->times[f][b].us, mrw_algo_name(c->times[f][b].algo));
		fputc('\n', file);
	}
	if (c->weights.weighed) {
		char text[256];
		mrw_weigh_text(&c->weights, text, sizeof text);
		fprintf(file, "  peers: %s, of the ways that there are; all_reduce of 8, 64 K, 1 M and 64 M: %s\n",
			mrw_peers_name(c->weights.taken), text);
	}
	fprintf(file, "  figures: %s\n", c->figures.source);
	for (uint32_t i = 0; i < c->nnotes; i++)
		fprintf(file, "  %s\n", c->notes[i]);
}

void topo_print_people(const struct topo_answers *a, FILE *file)
{
	const struct mrw_topo *topo = a->topo;

	fprintf(file, "%u CPUs, %u GPUs, %u NIC ports, %u PCIe switches, %u NVSwitches\n\n", topo->ncpus, topo->ngpus,
		topo->nnics, topo->nbridges, topo->nnvswitches);
	print_below(topo, -1, 1, file);
	if (topo->nlinks > 0)
		fprintf(file, "\nlinks:\n");
	print_links(topo, file);
	if (topo->ngpus > 0) {
		fprintf(file, "\npaths:\n");
		print_matrix(topo, file);
		print_choices(a, file);
		print_trees("GPUs", topo->ngpus, file);
	}
	if (a->hosts > 1)
		print_trees("hosts", a->hosts, file);
	print_costs(a->costs, file);
	if (topo->nnotes > 0)
		fprintf(file, "\nnotes:\n");
	for (uint32_t i = 0; i < topo->nnotes; i++)
		fprintf(file, "  %s\n", topo->notes[i]);
}
