/* NVML, loaded at run time. Prototypes and numbers as in nvml.h, whose ABI does not change under one name. */
#include "topo/discover.h"

#include <dlfcn.h>
#include <string.h>

enum { NVLINKS = 36, REMOTE_GPU = 0, REMOTE_SWITCH = 2, P2P_READ = 0, P2P_ATOMICS = 3 };

struct pci_info {
	char bus_legacy[16];
	unsigned domain, bus, device, ids, subsystem;
	char bus_id[32];
};

typedef void *device;

struct nvml {
	int (*init)(void), (*shutdown)(void);
	int (*count)(unsigned *);
	int (*handle)(unsigned, device *);
	int (*pci)(device, struct pci_info *);
	int (*uuid)(device, char *, unsigned);
	int (*name)(device, char *, unsigned);
	int (*capability)(device, int *, int *);
	int (*link_state)(device, unsigned, int *);
	int (*link_remote)(device, unsigned, struct pci_info *);
	int (*link_remote_type)(device, unsigned, int *);
	int (*p2p)(device, device, int, int *);
	int (*mig_mode)(device, unsigned *, unsigned *);
	int (*mig_count)(device, unsigned *);
	int (*mig_handle)(device, unsigned, device *);
};

/* Those without which nothing works; false: one is missing. The others may be NULL. */
static bool load(struct nvml *n, void *library)
{
	struct {
		const char *name;
		void *to;
		bool needed;
	} symbols[] = {
		{"nvmlInit_v2", &n->init, true},
		{"nvmlShutdown", &n->shutdown, true},
		{"nvmlDeviceGetCount_v2", &n->count, true},
		{"nvmlDeviceGetHandleByIndex_v2", &n->handle, true},
		{"nvmlDeviceGetPciInfo_v3", &n->pci, true},
		{"nvmlDeviceGetUUID", &n->uuid, false},
		{"nvmlDeviceGetName", &n->name, false},
		{"nvmlDeviceGetCudaComputeCapability", &n->capability, false},
		{"nvmlDeviceGetNvLinkState", &n->link_state, false},
		{"nvmlDeviceGetNvLinkRemotePciInfo_v2", &n->link_remote, false},
		{"nvmlDeviceGetNvLinkRemoteDeviceType", &n->link_remote_type, false},
		{"nvmlDeviceGetP2PStatus", &n->p2p, false},
		{"nvmlDeviceGetMigMode", &n->mig_mode, false},
		{"nvmlDeviceGetMaxMigDeviceCount", &n->mig_count, false},
		{"nvmlDeviceGetMigDeviceHandleByIndex", &n->mig_handle, false},
	};

	for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
		void *symbol = dlsym(library, symbols[i].name);
		if (symbol == NULL && symbols[i].needed)
			return false;
		memcpy(symbols[i].to, &symbol, sizeof symbol);
	}
	return true;
}

/* The GPU at that address, added where no tree showed it. -1: refused; -2: no address. */
static int32_t gpu_at(struct mrw_topo *topo, const struct pci_info *pci, struct mrw_topo_error *error)
{
	char bus[MRW_TOPO_NAME_BYTES], text[sizeof pci->bus_id + 1] = "", name[MRW_TOPO_NAME_BYTES];

	memcpy(text, pci->bus_id, sizeof pci->bus_id);
	if (!mrw_topo_normal_bus(text, bus))
		return -2;
	for (uint32_t i = 0; i < topo->ngpus; i++)
		if (strcmp(topo->nodes[topo->gpus[i].node].bus, bus) == 0)
			return topo->gpus[i].node;
	snprintf(name, sizeof name, "gpu%u", topo->ngpus);
	return mrw_topo_add(topo, MRW_TOPO_GPU, name, topo->ncpus == 1 ? topo->cpus[0].node : -1, bus, 0, error);
}

struct far {
	bool nvswitch;
	uint32_t lanes;
	char bus[MRW_TOPO_NAME_BYTES];
};

static bool add_nvlink(struct mrw_topo *topo, int32_t gpu, const struct far *far, struct mrw_topo_error *error)
{
	int32_t end = -1;

	for (uint32_t i = 0; i < topo->nnodes; i++)
		if (topo->nodes[i].kind == (far->nvswitch ? MRW_TOPO_NVSWITCH : MRW_TOPO_GPU) &&
		    strcmp(topo->nodes[i].bus, far->bus) == 0)
			end = (int32_t)i;
	if (end < 0 && far->nvswitch) {
		char name[MRW_TOPO_NAME_BYTES];
		snprintf(name, sizeof name, "nvswitch%u", topo->nnvswitches);
		end = mrw_topo_add(topo, MRW_TOPO_NVSWITCH, name, -1, far->bus, 0, error);
		if (end < 0)
			return false;
	}
	/* The other end hidden from this container, or the link seen from there already. */
	if (end < 0)
		return true;
	for (uint32_t i = 0; i < topo->nlinks; i++)
		if ((topo->links[i].a == gpu && topo->links[i].b == end) ||
		    (topo->links[i].a == end && topo->links[i].b == gpu))
			return true;
	return mrw_topo_add_link(topo, MRW_LINK_NVLINK, gpu, end, far->lanes,
				 mrw_topo_lane_mb_s(topo->gpus[topo->nodes[gpu].index].sm), error);
}

static bool find_nvlinks(struct mrw_topo *topo, const struct nvml *n, device d, int32_t gpu,
			 struct mrw_topo_error *error)
{
	struct far fars[NVLINKS];
	uint32_t nfars = 0;

	if (n->link_state == NULL || n->link_remote == NULL)
		return true;
	for (unsigned l = 0; l < NVLINKS; l++) {
		char bus[MRW_TOPO_NAME_BYTES] = "", text[33] = "";
		struct pci_info pci = {.bus_id = ""};
		int active = 0, type = REMOTE_GPU;
		if (n->link_state(d, l, &active) != 0 || !active)
			continue;
		bool typed = n->link_remote_type != NULL && n->link_remote_type(d, l, &type) == 0;
		if (n->link_remote(d, l, &pci) == 0)
			memcpy(text, pci.bus_id, sizeof pci.bus_id);
		mrw_topo_normal_bus(text, bus);
		/* NVSwitches that a virtual machine hides have no address that is one. */
		bool nvswitch = typed ? type == REMOTE_SWITCH : bus[0] == '\0';
		if (!nvswitch && (bus[0] == '\0' || type != REMOTE_GPU))
			continue;
		uint32_t f = 0;
		while (f < nfars && (fars[f].nvswitch != nvswitch || strcmp(fars[f].bus, bus) != 0))
			f++;
		if (f == nfars) {
			fars[nfars] = (struct far){.nvswitch = nvswitch};
			memcpy(fars[nfars].bus, bus, sizeof bus);
			nfars++;
		}
		fars[f].lanes++;
	}
	for (uint32_t f = 0; f < nfars; f++)
		if (!add_nvlink(topo, gpu, &fars[f], error))
			return false;
	return true;
}

/* A GPU split by MIG becomes its slices. */
static bool find_slices(struct mrw_topo *topo, const struct nvml *n, device d, int32_t gpu,
			struct mrw_topo_error *error)
{
	const struct mrw_topo_node whole = topo->nodes[gpu];
	const struct mrw_topo_gpu like = topo->gpus[whole.index];
	unsigned now = 0, pending = 0, most = 0;
	int32_t slices = 0;

	if (n->mig_mode == NULL || n->mig_count == NULL || n->mig_handle == NULL ||
	    n->mig_mode(d, &now, &pending) != 0 || now != 1 || n->mig_count(d, &most) != 0)
		return true;
	for (unsigned i = 0; i < most && i < 16; i++) {
		device slice;
		int32_t node = gpu;
		char name[MRW_TOPO_NAME_BYTES];
		if (n->mig_handle(d, i, &slice) != 0)
			continue;
		if (slices > 0) {
			snprintf(name, sizeof name, "%.20s.mig%u", whole.name, (unsigned)slices & 0xff);
			node = mrw_topo_add(topo, MRW_TOPO_GPU, name, whole.parent, whole.bus, whole.up_mb_s, error);
			if (node < 0)
				return false;
		}
		struct mrw_topo_gpu *entry = &topo->gpus[topo->nodes[node].index];
		*entry = like;
		entry->node = (uint16_t)node;
		entry->mig = slices++;
		if (n->uuid != NULL && n->uuid(slice, entry->uuid, sizeof entry->uuid) != 0)
			entry->uuid[0] = '\0';
	}
	if (slices == 0)
		mrw_topo_note(topo, "%s is in MIG mode and has no slice: nothing can run there", whole.name);
	return true;
}

/* NVLinks of a GPU in slices may be up, but slices cannot use them. */
static void drop_slices_links(struct mrw_topo *topo)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < topo->nlinks; i++) {
		const struct mrw_topo_node *a = &topo->nodes[topo->links[i].a], *b = &topo->nodes[topo->links[i].b];
		bool sliced = (a->kind == MRW_TOPO_GPU && topo->gpus[a->index].mig >= 0) ||
			      (b->kind == MRW_TOPO_GPU && topo->gpus[b->index].mig >= 0);
		if (!sliced)
			topo->links[kept++] = topo->links[i];
	}
	topo->nlinks = kept;
}

static bool find_all(struct mrw_topo *topo, const struct nvml *n, struct mrw_topo_error *error)
{
	device devices[MRW_TOPO_GPUS];
	int32_t nodes[MRW_TOPO_GPUS];
	unsigned count = 0, known = 0;

	if (n->count(&count) != 0)
		return true;
	for (unsigned i = 0; i < count && known < MRW_TOPO_GPUS; i++) {
		struct pci_info pci = {.bus_id = ""};
		int major = 0, minor = 0;
		if (n->handle(i, &devices[known]) != 0 || n->pci(devices[known], &pci) != 0)
			continue;
		nodes[known] = gpu_at(topo, &pci, error);
		if (nodes[known] == -1)
			return false;
		if (nodes[known] < 0)
			continue;
		struct mrw_topo_gpu *gpu = &topo->gpus[topo->nodes[nodes[known]].index];
		if (n->uuid != NULL && n->uuid(devices[known], gpu->uuid, sizeof gpu->uuid) != 0)
			gpu->uuid[0] = '\0';
		if (n->name != NULL && n->name(devices[known], gpu->model, sizeof gpu->model) != 0)
			gpu->model[0] = '\0';
		if (n->capability != NULL && n->capability(devices[known], &major, &minor) == 0 && major > 0 &&
		    major < 100)
			gpu->sm = (uint32_t)(major * 10 + minor);
		known++;
	}
	if (n->link_state != NULL && n->link_remote != NULL)
		topo->links_known = MRW_YES;
	for (unsigned i = 0; i < known; i++)
		if (!find_nvlinks(topo, n, devices[i], nodes[i], error))
			return false;
	for (unsigned i = 0; i < known && n->p2p != NULL; i++)
		for (unsigned j = 0; j < known; j++) {
			int status;
			uint32_t a = topo->nodes[nodes[i]].index, b = topo->nodes[nodes[j]].index;
			if (a == b)
				continue;
			if (n->p2p(devices[i], devices[j], P2P_READ, &status) == 0)
				topo->p2p[a][b] = status == 0 ? MRW_YES : MRW_NO;
			if (n->p2p(devices[i], devices[j], P2P_ATOMICS, &status) == 0)
				topo->p2p_atomics[a][b] = status == 0 ? MRW_YES : MRW_NO;
		}
	for (unsigned i = 0; i < known; i++)
		if (!find_slices(topo, n, devices[i], nodes[i], error))
			return false;
	drop_slices_links(topo);
	if (known < topo->ngpus && known < count)
		mrw_topo_note(topo, "NVML does not answer for all of its %u GPUs", count);
	return true;
}

bool mrw_topo_find_nvml(struct mrw_topo *topo, const char *path, struct mrw_topo_error *error)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	struct nvml n;
	bool good = true;

	if (library == NULL || !load(&n, library) || n.init() != 0) {
		if (topo->ngpus > 0)
			mrw_topo_note(topo, "%.60s %s: NVLinks, models and MIG are unknown", path,
				      library == NULL ? "is not there" : "does not start");
		if (library != NULL)
			dlclose(library);
		return true;
	}
	good = find_all(topo, &n, error);
	n.shutdown();
	dlclose(library);
	return good;
}
