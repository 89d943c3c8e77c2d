#include "topo/build.h"

#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {
#define MRW_X(id, name) name,
	MRW_TOPO_KIND_LIST(MRW_X)
#undef MRW_X
};

const char *mrw_topo_kind_name(enum mrw_topo_kind kind)
{
	return kind_names[kind];
}

int32_t mrw_topo_find(const struct mrw_topo *topo, const char *name)
{
	for (uint32_t i = 0; i < topo->nnodes; i++)
		if (strcmp(topo->nodes[i].name, name) == 0)
			return (int32_t)i;
	for (uint32_t i = 0; i < topo->nnodes; i++)
		if (topo->nodes[i].bus[0] != '\0' && strcmp(topo->nodes[i].bus, name) == 0)
			return (int32_t)i;
	return -1;
}

int32_t mrw_topo_cpu_of(const struct mrw_topo *topo, uint32_t node)
{
	int32_t n = (int32_t)node;
	while (n >= 0 && topo->nodes[n].kind != MRW_TOPO_CPU)
		n = topo->nodes[n].parent;
	return n;
}

/* Links whose ends stay, with the ends' new numbers. */
static void keep_links(struct mrw_topo *topo, const int32_t *moved)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < topo->nlinks; i++) {
		struct mrw_topo_link link = topo->links[i];
		int32_t a = moved[link.a], b = moved[link.b];
		if (a < 0 || b < 0)
			continue;
		link.a = (uint16_t)(a < b ? a : b);
		link.b = (uint16_t)(a < b ? b : a);
		topo->links[kept++] = link;
	}
	topo->nlinks = kept;
}

/* Rows and columns of the GPUs that stay, in the order given. */
static void permute(uint8_t matrix[MRW_TOPO_GPUS][MRW_TOPO_GPUS], const uint32_t *gpus, uint32_t count)
{
	uint8_t old[MRW_TOPO_GPUS][MRW_TOPO_GPUS];

	memcpy(old, matrix, sizeof old);
	memset(matrix, 0, sizeof old);
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t j = 0; j < count; j++)
			matrix[i][j] = old[gpus[i]][gpus[j]];
}

bool mrw_topo_keep_gpus(struct mrw_topo *topo, const uint32_t *gpus, uint32_t count)
{
	struct mrw_topo_gpu kept[MRW_TOPO_GPUS];
	bool stays[MRW_TOPO_GPUS] = {false};
	int32_t moved[MRW_TOPO_NODES];
	uint32_t nnodes = 0;

	if (count > topo->ngpus)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		if (gpus[i] >= topo->ngpus || stays[gpus[i]])
			return false;
		stays[gpus[i]] = true;
		kept[i] = topo->gpus[gpus[i]];
	}
	for (uint32_t i = 0; i < topo->nnodes; i++) {
		struct mrw_topo_node node = topo->nodes[i];
		moved[i] = -1;
		if (node.kind == MRW_TOPO_GPU && !stays[node.index])
			continue;
		if (node.parent >= 0)
			node.parent = (int16_t)moved[node.parent];
		moved[i] = (int32_t)nnodes;
		topo->nodes[nnodes++] = node;
	}
	topo->nnodes = nnodes;
	for (uint32_t i = 0; i < count; i++) {
		topo->gpus[i] = kept[i];
		topo->nodes[moved[kept[i].node]].index = (uint16_t)i;
	}
	topo->ngpus = count;
	for (uint32_t i = 0; i < nnodes; i++)
		mrw_topo_set_node(topo, i);
	keep_links(topo, moved);
	permute(topo->p2p, gpus, count);
	permute(topo->p2p_atomics, gpus, count);
	return true;
}
