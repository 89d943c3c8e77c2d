/* fake_nvml.c - a libnvidia-ml of a made-up machine: four GPUs of compute capability 9.0 at 0000:03:00.0, 0000:04:00.0, 0000:13:00.0
 * and (in no PCI tree) 0000:99:00.0. The first three have 18 NVLinks to an NVSwitch that has no address; GPU 3 is in two slices. */
#include <stdio.h>
#include <string.h>

struct pci_info {
	char bus_legacy[16];
	unsigned domain, bus, device, ids, subsystem;
	char bus_id[32];
};

static const char *const buses[] = {"00000000:03:00.0", "00000000:04:00.0", "00000000:13:00.0", "00000000:99:00.0"};
static int handles[4], slices[2];

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

	snprintf(uuid, bytes, "%s-%ld", slice ? "MIG" : "GPU", slice ? (long)((int *)device - slices) : number(device));
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
	*active = number(device) < 3;
	return link < 18 ? 0 : 2;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, struct pci_info *pci)
{
	(void)device;
	(void)link;
	memset(pci, 0, sizeof *pci);
	strcpy(pci->bus_id, "FFFFFFFF:FFFF:FF.0");
	return 0;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, int *type)
{
	(void)device;
	(void)link;
	*type = 2;
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
