/* The whole machine looked at: what no single node or link shows. */
#include "topo/build.h"

#include <string.h>

/* Two nodes at one address: ports of a NIC, or slices of a GPU. */
static bool may_share(const struct mrw_topo *topo, const struct mrw_topo_node *a, const struct mrw_topo_node *b)
{
	if (a->kind != b->kind || a->parent != b->parent)
		return false;
	if (a->kind == MRW_TOPO_NIC)
		return topo->nics[a->index].port != topo->nics[b->index].port;
	return a->kind == MRW_TOPO_GPU && topo->gpus[a->index].mig >= 0 && topo->gpus[b->index].mig >= 0 &&
	       topo->gpus[a->index].mig != topo->gpus[b->index].mig;
}

static bool check_addresses(const struct mrw_topo *topo, struct mrw_topo_error *error)
{
	for (uint32_t j = 1; j < topo->nnodes; j++) {
		const struct mrw_topo_node *b = &topo->nodes[j];
		if (b->bus[0] == '\0')
			continue;
		/* Different hosts have address spaces of their own. */
		int32_t cpu = mrw_topo_cpu_of(topo, j);
		for (uint32_t i = 0; i < j; i++) {
			const struct mrw_topo_node *a = &topo->nodes[i];
			if (strcmp(a->bus, b->bus) != 0 || may_share(topo, a, b))
				continue;
			int32_t other = mrw_topo_cpu_of(topo, i);
			if (cpu >= 0 && other >= 0 &&
			    topo->cpus[topo->nodes[cpu].index].host != topo->cpus[topo->nodes[other].index].host)
				continue;
			error->line = b->line;
			return mrw_topo_refuse(error, "%s and %s (line %u) are both at %s", b->name, a->name, a->line,
					       b->bus);
		}
	}
	return true;
}

static bool check_links(const struct mrw_topo *topo, struct mrw_topo_error *error)
{
	uint32_t lanes[MRW_TOPO_NODES] = {0};

	for (uint32_t i = 0; i < topo->nlinks; i++) {
		const struct mrw_topo_link *link = &topo->links[i];
		if (link->kind != MRW_LINK_NVLINK)
			continue;
		for (uint32_t end = 0; end < 2; end++) {
			uint32_t n = end ? link->b : link->a;
			const struct mrw_topo_node *node = &topo->nodes[n];
			if (node->kind != MRW_TOPO_GPU)
				continue;
			error->line = node->line;
			if (topo->gpus[node->index].mig >= 0)
				return mrw_topo_refuse(error, "%s is a MIG slice: those have no NVLink", node->name);
			lanes[n] += link->lanes;
			if (lanes[n] > MRW_TOPO_LANES)
				return mrw_topo_refuse(error, "%s has more than %d lanes", node->name, MRW_TOPO_LANES);
		}
	}
	return true;
}

/* What CPUs of these makers carry between sockets, one direction, net. Rough: enough to rank paths. */
static void assume_between_cpus(struct mrw_topo *topo)
{
	const struct mrw_topo_cpu *cpu = &topo->cpus[0];
	bool several = false;

	for (uint32_t i = 1; i < topo->ncpus; i++)
		several = several || topo->cpus[i].host == cpu->host;
	if (!several || topo->between_cpus_mb_s != 0)
		return;
	if (strcmp(cpu->vendor, "GenuineIntel") == 0)
		topo->between_cpus_mb_s = 22000;
	else if (strcmp(cpu->vendor, "AuthenticAMD") == 0)
		topo->between_cpus_mb_s = 32000;
	else if (strncmp(cpu->arch, "arm64", 5) == 0 || strncmp(cpu->arch, "aarch64", 7) == 0)
		topo->between_cpus_mb_s = 100000;
	else
		topo->between_cpus_mb_s = 16000;
	mrw_topo_note(topo, "%u MB/s between CPUs is assumed", topo->between_cpus_mb_s);
}

static void note_unknown(struct mrw_topo *topo)
{
	uint32_t below_cpu = 0, placed = 0, unplaced = 0, unknown_links = 0;

	for (uint32_t i = 0; i < topo->nnodes; i++) {
		const struct mrw_topo_node *node = &topo->nodes[i];
		if (node->kind != MRW_TOPO_GPU && node->kind != MRW_TOPO_NIC)
			continue;
		unplaced += node->parent < 0;
		placed += node->parent >= 0;
		below_cpu += node->parent >= 0 && topo->nodes[node->parent].kind == MRW_TOPO_CPU;
		unknown_links += node->parent >= 0 && node->up_mb_s == 0;
	}
	if (unplaced > 0)
		mrw_topo_note(topo,
			      "the place of %u devices is unknown: they are taken to be equally far from all others",
			      unplaced);
	if (unknown_links > 0)
		mrw_topo_note(topo, "the PCIe width of %u devices is unknown", unknown_links);
	if (topo->ngpus > 1 && topo->nnics > 0 && topo->nbridges == 0 && placed > 0 && below_cpu == placed)
		mrw_topo_note(
			topo,
			"no PCIe switch is visible: a virtual machine may hide it. Equally near NICs are dealt out in order");
	if (topo->ngpus > 1 && topo->links_known == MRW_UNKNOWN)
		mrw_topo_note(topo, "whether the GPUs have NVLinks is unknown: paths are by PCIe");
	if (topo->ngpus == 0)
		mrw_topo_note(topo, "no GPU");
	if (topo->nnics == 0)
		mrw_topo_note(topo, "no RDMA NIC");
	for (uint32_t i = 0; i < topo->nbridges; i++)
		if (topo->bridges[i].acs == MRW_YES)
			mrw_topo_note(
				topo,
				"ACS is on at %s: transfers between its devices go through the CPU. Turn it off in the firmware",
				topo->nodes[topo->bridges[i].node].name);
	for (uint32_t i = 0; i < topo->nnics; i++)
		if (topo->nics[i].up == MRW_NO)
			mrw_topo_note(topo, "%s is down and not used", topo->nodes[topo->nics[i].node].name);
}

bool mrw_topo_finish(struct mrw_topo *topo, struct mrw_topo_error *error)
{
	error->line = 0;
	for (uint32_t i = 0; i < topo->ncpus; i++)
		for (uint32_t j = 0; j < i; j++)
			if (topo->cpus[i].numa >= 0 && topo->cpus[i].numa == topo->cpus[j].numa &&
			    topo->cpus[i].host == topo->cpus[j].host) {
				error->line = topo->nodes[topo->cpus[i].node].line;
				return mrw_topo_refuse(error, "NUMA node %d of host %u is there twice",
						       topo->cpus[i].numa, topo->cpus[i].host);
			}
	if (!check_addresses(topo, error) || !check_links(topo, error))
		return false;
	assume_between_cpus(topo);
	note_unknown(topo);
	error->line = 0;
	return true;
}
