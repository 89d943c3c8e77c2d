/* A machine as hwloc's XML, version 2: see hwloc_xml.c. hwloc's own reader takes it too, and wants what ours does without: each CPU a package with
 * its cores as objects, sets of cores and of NUMA nodes on every object around devices. */
#include "topo/build.h"

#include <string.h>

enum { WORDS = MRW_TOPO_CORES / 32 };

struct writer {
	const struct mrw_topo *topo;
	FILE *file;
	uint32_t objects; /* written so far: hwloc numbers them */
	uint32_t ncpus; /* the first host's: they stand first */
	bool numbered; /* each CPU has a NUMA number of its own; where not they are counted */
	uint32_t cores[MRW_TOPO_CPUS][WORDS]; /* of each CPU; one made up where none is known: hwloc has no place for a CPU without */
};

static void indent(struct writer *w, uint32_t depth)
{
	fprintf(w->file, "%*s", (int)(2 * depth), "");
}

static void number_cores(struct writer *w)
{
	uint32_t spare = 0;
	for (uint32_t i = 0; i < w->ncpus; i++)
		for (uint32_t core = 0; core < MRW_TOPO_CORES; core++)
			if (w->topo->cpus[i].cores[core / 64] >> core % 64 & 1) {
				w->cores[i][core / 32] |= 1u << core % 32;
				spare = core + 1 > spare ? core + 1 : spare;
			}
	for (uint32_t i = 0; i < w->ncpus; i++) {
		uint32_t any = 0;
		for (uint32_t word = 0; word < WORDS; word++)
			any |= w->cores[i][word];
		if (!any && spare < MRW_TOPO_CORES) {
			w->cores[i][spare / 32] |= 1u << spare % 32;
			spare++;
		}
	}
}

/* name="0x...,0x...": the last word first. */
static void set(struct writer *w, const char *name, const uint32_t *words, uint32_t count)
{
	while (count > 1 && words[count - 1] == 0)
		count--;
	fprintf(w->file, " %s=\"", name);
	for (uint32_t word = count; word-- > 0;)
		fprintf(w->file, "0x%08x%s", words[word], word > 0 ? "," : "\"");
}

static void sets(struct writer *w, const uint32_t *cores, const uint32_t *numas)
{
	set(w, "cpuset", cores, WORDS);
	set(w, "complete_cpuset", cores, WORDS);
	set(w, "nodeset", numas, WORDS);
	set(w, "complete_nodeset", numas, WORDS);
}

/* Names have letters that XML takes as they are (build.h); architecture and vendor may have others, which UTF-8 need not take. */
static void info(struct writer *w, uint32_t depth, const char *name, const char *value)
{
	if (value[0] == '\0')
		return;
	indent(w, depth);
	fprintf(w->file, "<info name=\"%s\" value=\"", name);
	for (; *value != '\0'; value++)
		if (*value == '&' || *value == '<' || *value == '"')
			fputs(*value == '&' ? "&amp;" : *value == '<' ? "&lt;" : "&quot;", w->file);
		else
			fputc(*value >= ' ' && *value < 0x7f ? *value : '?', w->file);
	fputs("\"/>\n", w->file);
}

static uint32_t numa_of(const struct writer *w, uint32_t cpu)
{
	return w->numbered ? (uint32_t)w->topo->cpus[cpu].numa : cpu;
}

/* Opens a bridge or a device; those without an address get one that no machine has. */
static void open_pci(struct writer *w, uint32_t depth, uint32_t n, const char *type, const char *class)
{
	const struct mrw_topo_node *node = &w->topo->nodes[n];
	char bus[MRW_TOPO_NAME_BYTES];

	snprintf(bus, sizeof bus, "fffe:%02x:%02x.0", n / 32 & 0xff, n % 32);
	indent(w, depth);
	fprintf(w->file, "<object type=\"%s\" gp_index=\"%u\" pci_busid=\"%s\" pci_type=\"%s [0000:0000] 00\" pci_link_speed=\"%u.%03u\"", type, ++w->objects,
		node->bus[0] ? node->bus : bus, class, node->up_mb_s / 1000, node->up_mb_s % 1000);
}

static void os_device(struct writer *w, uint32_t depth, const char *name, const char *kind, uint32_t type)
{
	indent(w, depth);
	fprintf(w->file, "<object type=\"OSDev\" gp_index=\"%u\" name=\"%s\" subtype=\"%s\" osdev_type=\"%u\">\n", ++w->objects, name, kind, type);
}

static void close_object(struct writer *w, uint32_t depth)
{
	indent(w, depth);
	fputs("</object>\n", w->file);
}

static void write_device(struct writer *w, uint32_t depth, uint32_t n)
{
	const struct mrw_topo_node *node = &w->topo->nodes[n];

	if (node->kind == MRW_TOPO_GPU) {
		char name[MRW_TOPO_NAME_BYTES];
		open_pci(w, depth, n, "PCIDev", "0302 [10de:0000]");
		fputs(">\n", w->file);
		snprintf(name, sizeof name, "cuda%d", w->topo->gpus[node->index].cuda);
		if (w->topo->gpus[node->index].cuda >= 0) {
			os_device(w, depth + 1, name, "CUDA", 5);
			close_object(w, depth + 1);
		}
	} else {
		enum mrw_topo_known up = w->topo->nics[node->index].up;
		open_pci(w, depth, n, "PCIDev", "0207 [15b3:0000]");
		fputs(">\n", w->file);
		os_device(w, depth + 1, node->name, "OpenFabrics", 3);
		if (up != MRW_UNKNOWN)
			info(w, depth + 2, "Port1State", up == MRW_YES ? "4" : "1");
		close_object(w, depth + 1);
	}
	close_object(w, depth);
}

/* Ports of one NIC, slices of one GPU: the first of them stands for all. */
static bool is_first(const struct mrw_topo *topo, uint32_t n)
{
	for (uint32_t i = 0; i < n && topo->nodes[n].bus[0]; i++)
		if (topo->nodes[i].parent == topo->nodes[n].parent && strcmp(topo->nodes[i].bus, topo->nodes[n].bus) == 0)
			return false;
	return true;
}

/* Below a CPU (or below none, parent -1) each child has a host bridge of its own. */
static void write_below(struct writer *w, uint32_t depth, int32_t parent, uint32_t level)
{
	const struct mrw_topo *topo = w->topo;
	for (uint32_t i = 0; i < topo->nnodes; i++) {
		const struct mrw_topo_node *node = &topo->nodes[i];
		uint32_t inner = depth + (level == 0);
		if (node->parent != parent || node->kind == MRW_TOPO_CPU || node->kind == MRW_TOPO_NVSWITCH || !is_first(topo, i))
			continue;
		if (level == 0) {
			w->objects++;
			indent(w, depth);
			fprintf(w->file, "<object type=\"Bridge\" gp_index=\"%u\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"%04x:[00-ff]\">\n",
				w->objects, w->objects);
		}
		if (node->kind == MRW_TOPO_BRIDGE) {
			open_pci(w, inner, i, "Bridge", "0604 [0000:0000]");
			fprintf(w->file, " bridge_type=\"1-1\" depth=\"%u\" bridge_pci=\"%04x:[01-ff]\">\n", level + 1, w->objects);
			write_below(w, inner + 1, (int32_t)i, level + 1);
			close_object(w, inner);
		} else {
			write_device(w, inner, i);
		}
		if (level == 0)
			close_object(w, depth);
	}
}

/* The CPU whose first core is the lowest of those that stand in left: hwloc wants packages in that order. Takes it out. */
static uint32_t next_cpu(const struct writer *w, bool *left)
{
	for (uint32_t core = 0; core < MRW_TOPO_CORES; core++)
		for (uint32_t i = 0; i < w->ncpus; i++)
			if (left[i] && w->cores[i][core / 32] >> core % 32 & 1) {
				left[i] = false;
				return i;
			}
	uint32_t first = 0;
	while (!left[first])
		first++;
	left[first] = false;
	return first;
}

static void write_cpu(struct writer *w, uint32_t cpu)
{
	const uint32_t *cores = w->cores[cpu];
	uint32_t numas[WORDS] = {0}, numa = numa_of(w, cpu);

	numas[numa / 32] = 1u << numa % 32;
	fprintf(w->file, "    <object type=\"Package\" os_index=\"%u\" gp_index=\"%u\"", cpu, ++w->objects);
	sets(w, cores, numas);
	fputs(">\n", w->file);
	if (w->topo->ncpus > 0)
		info(w, 3, "CPUVendor", w->topo->cpus[cpu].vendor);
	fprintf(w->file, "      <object type=\"NUMANode\" os_index=\"%u\" gp_index=\"%u\" local_memory=\"0\"", numa, ++w->objects);
	sets(w, cores, numas);
	fputs("/>\n", w->file);
	for (uint32_t core = 0; core < MRW_TOPO_CORES; core++) {
		uint32_t one[WORDS] = {0};
		if (!(cores[core / 32] >> core % 32 & 1))
			continue;
		one[core / 32] = 1u << core % 32;
		fprintf(w->file, "      <object type=\"PU\" os_index=\"%u\" gp_index=\"%u\"", core, ++w->objects);
		sets(w, one, numas);
		fputs("/>\n", w->file);
	}
	if (w->topo->ncpus > 0)
		write_below(w, 3, (int32_t)w->topo->cpus[cpu].node, 0);
	close_object(w, 2);
}

bool mrw_topo_write_hwloc(const struct mrw_topo *topo, FILE *file)
{
	static const char *const head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n";
	uint32_t cores[WORDS] = {0}, numas[WORDS] = {0};
	struct writer w = {.topo = topo, .file = file};
	bool left[MRW_TOPO_CPUS];

	while (w.ncpus < topo->ncpus && topo->cpus[w.ncpus].host == topo->cpus[0].host)
		w.ncpus++;
	if (w.ncpus == 0) { /* hwloc has no machine without: one is made up, with a core */
		w.ncpus = 1;
		w.cores[0][0] = 1;
	}
	memset(left, 1, sizeof left);
	w.numbered = topo->ncpus > 0;
	for (uint32_t i = 0; i < w.ncpus && w.numbered; i++)
		for (uint32_t j = 0; j <= i; j++)
			if (topo->cpus[i].numa < 0 || topo->cpus[i].numa >= MRW_TOPO_CORES || (j < i && topo->cpus[j].numa == topo->cpus[i].numa))
				w.numbered = false;
	number_cores(&w);
	for (uint32_t i = 0; i < w.ncpus; i++) {
		for (uint32_t word = 0; word < WORDS; word++)
			cores[word] |= w.cores[i][word];
		numas[numa_of(&w, i) / 32] |= 1u << numa_of(&w, i) % 32;
	}
	fputs(head, file);
	fprintf(file, "  <object type=\"Machine\" os_index=\"0\" gp_index=\"%u\"", ++w.objects);
	sets(&w, cores, numas);
	set(&w, "allowed_cpuset", cores, WORDS);
	set(&w, "allowed_nodeset", numas, WORDS);
	fputs(">\n", file);
	if (topo->ncpus > 0)
		info(&w, 2, "Architecture", topo->cpus[0].arch);
	for (uint32_t i = 0; i < w.ncpus; i++)
		write_cpu(&w, next_cpu(&w, left));
	write_below(&w, 2, -1, 0);
	fputs("  </object>\n</topology>\n", file);
	return fflush(file) == 0 && !ferror(file);
}
