/* nearest.c - the machine reduced to the GPUs of this host's ranks and the NICs that may be taken, then paired. */
#include "nearest.h"

#include "topo/build.h"
#include "topo/discover.h"

#include <stdlib.h>
#include <string.h>

/* Of a port's name: "mlx5_0:2" is a port of mlx5_0. */
static size_t device_bytes(const char *name)
{
	return strcspn(name, ":");
}

static bool is_listed(const char *list, const char *name, size_t bytes)
{
	for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
		if (strcspn(at, ",") == bytes && memcmp(at, name, bytes) == 0)
			return true;
	return false;
}

/* Leaves one port of each device that may be taken: the first that is up, as nic.h does. */
static void keep_usable(struct mrw_topo *topo, const char *usable)
{
	for (uint32_t n = 0; n < topo->nnics; n++) {
		const char *name = topo->nodes[topo->nics[n].node].name;
		size_t bytes = device_bytes(name);
		bool taken = !is_listed(usable, name, bytes);
		for (uint32_t m = 0; m < n && !taken; m++) {
			const char *other = topo->nodes[topo->nics[m].node].name;
			taken = topo->nics[m].up != MRW_NO && device_bytes(other) == bytes && memcmp(other, name, bytes) == 0;
		}
		if (taken)
			topo->nics[n].up = MRW_NO;
	}
}

/* Number of the GPU at a PCI address; -1: there is none. */
static int32_t gpu_at(const struct mrw_topo *topo, const char *address)
{
	char bus[MRW_TOPO_NAME_BYTES];
	if (!mrw_topo_normal_bus(address, bus))
		return -1;
	for (uint32_t u = 0; u < topo->ngpus; u++)
		if (strcmp(topo->nodes[topo->gpus[u].node].bus, bus) == 0)
			return (int32_t)u;
	return -1;
}

/* Reduces the machine to the ranks' GPUs; *mine: the asking rank's. False: nearest says which one is not there. */
static bool keep_ranks(struct mrw_topo *topo, const char *const *gpus, uint32_t ranks, uint32_t local, uint32_t *mine, struct mrw_nearest *nearest)
{
	uint32_t kept[MRW_MAX_NEAR], count = 0;
	for (uint32_t r = 0; r < ranks && r < MRW_MAX_NEAR; r++) {
		int32_t gpu = gpu_at(topo, gpus[r]);
		uint32_t i = 0;
		if (gpu < 0) {
			snprintf(nearest->reason, sizeof nearest->reason, "no GPU at PCI address \"%.16s\" in the tree", gpus[r]);
			return false;
		}
		while (i < count && kept[i] != (uint32_t)gpu)
			i++;
		if (i == count)
			kept[count++] = (uint32_t)gpu;
		if (r == local)
			*mine = i;
	}
	return mrw_topo_keep_gpus(topo, kept, count);
}

static void take_pairs(const struct mrw_topo *topo, const struct mrw_topo_pairing *pairing, uint32_t mine, struct mrw_nearest *nearest)
{
	for (uint32_t i = 0; i < pairing->npairs && nearest->count < MRW_MAX_NICS; i++) {
		const struct mrw_topo_pair *pair = &pairing->pairs[i];
		const char *name = topo->nodes[topo->nics[pair->nic].node].name;
		if (pair->gpu != mine)
			continue;
		if (nearest->count == 0)
			snprintf(nearest->reason, sizeof nearest->reason, "%s", pair->reason);
		snprintf(nearest->name[nearest->count++], MRW_NEAREST_NAME_BYTES, "%.*s", (int)device_bytes(name), name);
	}
	if (nearest->count == 0)
		snprintf(nearest->reason, sizeof nearest->reason, "none of the NICs that may be taken is in the PCI tree with a port that is up");
}

void mrw_nearest_find(struct mrw_nearest *nearest, const char *sysfs, const char *const *gpus, uint32_t ranks, uint32_t local,
		      const char *usable)
{
	struct mrw_topo *topo = malloc(sizeof *topo);
	struct mrw_topo_pairing *pairing = malloc(sizeof *pairing);
	struct mrw_topo_error error = {0, ""};
	uint32_t mine = 0;
	memset(nearest, 0, sizeof *nearest);
	if (!topo || !pairing) {
		snprintf(nearest->reason, sizeof nearest->reason, "out of memory for the machine");
	} else if (!mrw_topo_discover_pci(topo, sysfs, &error)) {
		snprintf(nearest->reason, sizeof nearest->reason, "%.20s is not understood: %.140s", sysfs, error.text);
	} else if (keep_ranks(topo, gpus, ranks, local, &mine, nearest)) {
		keep_usable(topo, usable);
		mrw_topo_pair_nics(topo, pairing);
		take_pairs(topo, pairing, mine, nearest);
	}
	free(pairing);
	free(topo);
}
