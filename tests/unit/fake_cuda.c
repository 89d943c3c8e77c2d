/* fake_cuda.c - a libcuda of the machine of fake_nvml.c under CUDA_VISIBLE_DEVICES=2,0: devices 0 and 1 are the GPUs at
 * 0000:13:00.0 and 0000:03:00.0. They reach each other, without atomics. fake_cuda_slice, for whoever has opened this library: device 0
 * is the second slice of GPU 3 instead, whose address is that of the first. */
#include <stdio.h>
#include <string.h>

int cuInit(unsigned flags);
int cuDeviceGetCount(int *count);
int cuDeviceGet(int *device, int ordinal);
int cuDeviceGetPCIBusId(char *bus, int bytes, int device);
int cuDeviceGetUuid_v2(unsigned char *uuid, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetP2PAttribute(int *value, int attribute, int from, int to);

extern int fake_cuda_slice;
int fake_cuda_slice;

int cuInit(unsigned flags)
{
	(void)flags;
	return 0;
}

int cuDeviceGetCount(int *count)
{
	*count = 2;
	return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
	*device = 100 + ordinal;
	return 0;
}

int cuDeviceGetPCIBusId(char *bus, int bytes, int device)
{
	snprintf(bus, (size_t)bytes, "%s", device == 101 ? "0000:03:00.0" : fake_cuda_slice ? "0000:99:00.0" : "0000:13:00.0");
	return 0;
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int device)
{
	for (int k = 0; k < 16; k++)
		uuid[k] = (unsigned char)(16 * (device == 101 ? 0 : fake_cuda_slice ? 9 : 2) + k);
	return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	(void)device;
	*value = attribute == 75 ? 9 : 0;
	return attribute == 75 || attribute == 76 ? 0 : 1;
}

int cuDeviceGetP2PAttribute(int *value, int attribute, int from, int to)
{
	*value = attribute == 2;
	return from != to ? 0 : 101;
}
