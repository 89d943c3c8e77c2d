/* The CUDA driver, loaded at run time: what this process may use. No context is made. */
#include "topo/discover.h"

#include <dlfcn.h>
#include <string.h>

enum { ATTRIBUTE_MAJOR = 75, ATTRIBUTE_MINOR = 76, P2P_ACCESS = 2, P2P_NATIVE_ATOMICS = 3 };

struct cuda {
	int (*init)(unsigned);
	int (*count)(int *);
	int (*get)(int *, int);
	int (*bus)(char *, int, int);
	int (*uuid)(unsigned char *, int);
	int (*attribute)(int *, int, int);
	int (*p2p)(int *, int, int, int);
};

static bool load(struct cuda *c, void *library)
{
	struct {
		const char *name;
		void *to;
	} symbols[] = {
		{"cuInit", &c->init},
		{"cuDeviceGetCount", &c->count},
		{"cuDeviceGet", &c->get},
		{"cuDeviceGetPCIBusId", &c->bus},
		{"cuDeviceGetUuid_v2", &c->uuid},
		{"cuDeviceGetAttribute", &c->attribute},
		{"cuDeviceGetP2PAttribute", &c->p2p},
	};

	for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
		void *symbol = dlsym(library, symbols[i].name);
		if (symbol == NULL)
			return false;
		memcpy(symbols[i].to, &symbol, sizeof symbol);
	}
	return true;
}

/* "GPU-" or "MIG-" and 16 bytes in groups of 4-2-2-2-6. */
static bool same_uuid(const char *text, const unsigned char *uuid)
{
	char hex[40];
	size_t used = 0;

	for (int i = 0; i < 16; i++)
		used += (size_t)snprintf(hex + used, sizeof hex - used,
					 i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
	return strlen(text) > 4 && strcmp(text + 4, hex) == 0;
}

/* The GPU of a CUDA device: by UUID (slices share an address), else by address, else a new one. */
static int32_t gpu_of(struct mrw_topo *topo, const struct cuda *c, int device, struct mrw_topo_error *error)
{
	char text[MRW_TOPO_NAME_BYTES] = "", bus[MRW_TOPO_NAME_BYTES], name[MRW_TOPO_NAME_BYTES];
	unsigned char uuid[16];

	if (c->uuid(uuid, device) == 0)
		for (uint32_t i = 0; i < topo->ngpus; i++)
			if (same_uuid(topo->gpus[i].uuid, uuid))
				return topo->gpus[i].node;
	if (c->bus(text, sizeof text - 1, device) != 0 || !mrw_topo_normal_bus(text, bus))
		return -2;
	for (uint32_t i = 0; i < topo->ngpus; i++)
		if (strcmp(topo->nodes[topo->gpus[i].node].bus, bus) == 0)
			return topo->gpus[i].node;
	snprintf(name, sizeof name, "gpu%u", topo->ngpus);
	return mrw_topo_add(topo, MRW_TOPO_GPU, name, topo->ncpus == 1 ? topo->cpus[0].node : -1, bus, 0, error);
}

static bool find_all(struct mrw_topo *topo, const struct cuda *c, struct mrw_topo_error *error)
{
	int devices[MRW_TOPO_GPUS], count = 0;
	int32_t nodes[MRW_TOPO_GPUS];
	uint32_t known = 0;

	if (c->count(&count) != 0)
		return true;
	for (int i = 0; i < count && known < MRW_TOPO_GPUS; i++) {
		int major = 0, minor = 0;
		if (c->get(&devices[known], i) != 0)
			continue;
		nodes[known] = gpu_of(topo, c, devices[known], error);
		if (nodes[known] == -1)
			return false;
		if (nodes[known] < 0)
			continue;
		struct mrw_topo_gpu *gpu = &topo->gpus[topo->nodes[nodes[known]].index];
		gpu->cuda = i;
		if (c->attribute(&major, ATTRIBUTE_MAJOR, devices[known]) == 0 &&
		    c->attribute(&minor, ATTRIBUTE_MINOR, devices[known]) == 0 && major > 0 && major < 100)
			gpu->sm = (uint32_t)(major * 10 + minor);
		known++;
	}
	for (uint32_t i = 0; i < known; i++)
		for (uint32_t j = 0; j < known; j++) {
			uint32_t a = topo->nodes[nodes[i]].index, b = topo->nodes[nodes[j]].index;
			int yes;
			if (a == b)
				continue;
			/* CUDA's word outweighs NVML's: it knows of this process. */
			if (c->p2p(&yes, P2P_ACCESS, devices[i], devices[j]) == 0)
				topo->p2p[a][b] = yes ? MRW_YES : MRW_NO;
			if (c->p2p(&yes, P2P_NATIVE_ATOMICS, devices[i], devices[j]) == 0)
				topo->p2p_atomics[a][b] = yes ? MRW_YES : MRW_NO;
		}
	if (known < topo->ngpus)
		mrw_topo_note(
			topo,
			"CUDA shows this process %u of %u GPUs: CUDA_VISIBLE_DEVICES, a container or MIG hides the others",
			known, topo->ngpus);
	return true;
}

bool mrw_topo_find_cuda(struct mrw_topo *topo, const char *path, struct mrw_topo_error *error)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	struct cuda c;

	if (library == NULL || !load(&c, library) || c.init(0) != 0) {
		if (topo->ngpus > 0)
			mrw_topo_note(topo, "%.60s %s: CUDA's numbers and peer access are unknown", path,
				      library == NULL ? "is not there" : "does not start");
		/* Once it has been started a driver is not unloaded: it has threads. */
		return true;
	}
	return find_all(topo, &c, error);
}
