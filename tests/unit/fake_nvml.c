/* fake_nvml.c - a libnvidia-ml of a made-up machine: four GPUs of compute capability 9.0 at 0000:03:00.0, 0000:04:00.0, 0000:13:00.0
 * and (in no PCI tree) 0000:99:00.0. GPU 3 is in two slices. Byte k of GPU i's UUID is 16 i + k, of slice i's 16 (8 + i) + k.
 * fake_nvml_machine, for whoever has opened this library: 0: the first three GPUs have 18 NVLinks to an NVSwitch that has no address;
 * 1: to two that have one; 2: to each other, to a GPU that this container does not show, to something that is no GPU, and to the one in slices. */
#include <stdio.h>
#include <string.h>

struct pci_info {
	char bus_legacy[16];
	unsigned domain, bus, device, ids, subsystem;
	char bus_id[32];
};

static const char *const buses[] = {"00000000:03:00.0", "00000000:04:00.0", "00000000:13:00.0", "00000000:99:00.0"};
static int handles[4], slices[2];

enum { LINKS = 18, REMOTE_GPU = 0, REMOTE_NPU = 1, REMOTE_SWITCH = 2, DOWN = 9, NOT_SUPPORTED = 3 };

/* What NVLinks of a GPU lead to, in the order of their numbers; those that are left over are down. */
struct end {
	const char *bus;
	int type;
	unsigned links;
};

#define HIDDEN "FFFFFFFF:FFFF:FF.0"
static const struct end ends[][4][5] = {
	{{{HIDDEN, REMOTE_SWITCH, 18}}, {{HIDDEN, REMOTE_SWITCH, 18}}, {{HIDDEN, REMOTE_SWITCH, 18}}},
	{{{"00000000:B1:00.0", REMOTE_SWITCH, 10}, {"00000000:B2:00.0", REMOTE_SWITCH, 8}},
	 {{"00000000:B2:00.0", REMOTE_SWITCH, 8}, {"00000000:B1:00.0", REMOTE_SWITCH, 10}},
	 {{"00000000:B1:00.0", REMOTE_SWITCH, 10}, {"", DOWN, 2}, {"00000000:B2:00.0", REMOTE_SWITCH, 6}}},
	{{{"00000000:04:00.0", REMOTE_GPU, 3}, {"", DOWN, 1}, {"00000000:13:00.0", REMOTE_GPU, 2}, {"00000000:04:00.0", REMOTE_GPU, 1},
	  {"00000000:77:00.0", REMOTE_GPU, 3}},
	 {{"00000000:03:00.0", REMOTE_GPU, 4}, {"00000004:04:00.0", REMOTE_NPU, 2}, {"00000000:13:00.0", REMOTE_GPU, 3},
	  {"00000000:99:00.0", REMOTE_GPU, 1}},
	 {{"00000000:03:00.0", REMOTE_GPU, 2}, {"00000000:04:00.0", REMOTE_GPU, 3}},
	 {{"00000000:04:00.0", REMOTE_GPU, 1}}},
};
extern int fake_nvml_machine;
int fake_nvml_machine;

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetPciInfo_v3(void *device, struct pci_info *pci);
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned bytes);
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor);
int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *active);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, struct pci_info *pci);
int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, int *type);
int nvmlDeviceGetP2PStatus(void *one, void *two, int index, int *status);
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *pending);
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count);
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **slice);

static long number(void *device)
{
	return (int *)device - handles;
}

/* NULL: the link is down. */
static const struct end *far_end(void *device, unsigned link)
{
	const struct end *at = ends[fake_nvml_machine][number(device)], *last = at + 5;

	for (; at < last && link >= at->links; at++)
		link -= at->links;
	return at < last && at->type != DOWN ? at : NULL;
}

int nvmlInit_v2(void)
{
	return 0;
}

int nvmlShutdown(void)
{
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = 4;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	*device = &handles[index];
	return 0;
}

int nvmlDeviceGetPciInfo_v3(void *device, struct pci_info *pci)
{
	memset(pci, 0, sizeof *pci);
	strcpy(pci->bus_id, buses[number(device)]);
	return 0;
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned bytes)
{
	int slice = device == &slices[0] || device == &slices[1];
	unsigned first = 16 * (unsigned)(slice ? 8 + ((int *)device - slices) : number(device));
	int used = snprintf(uuid, bytes, "%s-", slice ? "MIG" : "GPU");

	for (unsigned k = 0; k < 16; k++)
		used += snprintf(uuid + used, bytes - (unsigned)used, k == 4 || k == 6 || k == 8 || k == 10 ? "-%02x" : "%02x", first + k);
	return 0;
}

int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor)
{
	(void)device;
	*major = 9;
	*minor = 0;
	return 0;
}

int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *active)
{
	if (link >= LINKS)
		return 2;
	*active = far_end(device, link) != NULL;
	return 0;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, struct pci_info *pci)
{
	const struct end *far = far_end(device, link);

	memset(pci, 0, sizeof *pci);
	if (far == NULL)
		return NOT_SUPPORTED;
	strcpy(pci->bus_id, far->bus);
	return 0;
}

/* GPU 0's says nothing where GPUs are joined directly: the address has to do. */
int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, int *type)
{
	const struct end *far = far_end(device, link);

	if (far == NULL || (far->type == REMOTE_GPU && number(device) == 0))
		return NOT_SUPPORTED;
	*type = far->type;
	return 0;
}

int nvmlDeviceGetP2PStatus(void *one, void *two, int index, int *status)
{
	*status = number(one) == 3 || number(two) == 3 ? 5 : index == 3 ? 1 : 0;
	return 0;
}

int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *pending)
{
	*now = *pending = number(device) == 3;
	return 0;
}

int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count)
{
	(void)device;
	*count = 7;
	return 0;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **slice)
{
	(void)device;
	*slice = index < 2 ? &slices[index] : NULL;
	return index < 2 ? 0 : 6;
}
