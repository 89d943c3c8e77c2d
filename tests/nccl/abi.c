/* abi.c - the layouts and values that programs compiled against NCCL's own header rely on. */
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type "." #field)
#define IS(name, value) _Static_assert((name) == (value), #name)

AT(ncclConfig_t, size, 0);
AT(ncclConfig_t, magic, 8);
AT(ncclConfig_t, version, 12);
AT(ncclConfig_t, blocking, 16);
AT(ncclConfig_t, cgaClusterSize, 20);
AT(ncclConfig_t, minCTAs, 24);
AT(ncclConfig_t, maxCTAs, 28);
AT(ncclConfig_t, netName, 32);
AT(ncclConfig_t, splitShare, 40);
AT(ncclConfig_t, trafficClass, 44);
AT(ncclConfig_t, commName, 48);
AT(ncclConfig_t, collnetEnable, 56);
AT(ncclConfig_t, CTAPolicy, 60);
AT(ncclConfig_t, shrinkShare, 64);
AT(ncclConfig_t, nvlsCTAs, 68);
IS(sizeof(ncclConfig_t), 72);
AT(ncclSimInfo_t, magic, 8);
AT(ncclSimInfo_t, version, 12);
AT(ncclSimInfo_t, estimatedTime, 16);
IS(sizeof(ncclSimInfo_t), 24);
IS(sizeof(ncclUniqueId), 128);
IS(_Alignof(ncclUniqueId), 1);
IS(sizeof(ncclResult_t), 4);
IS(sizeof(ncclDataType_t), 4);
IS(sizeof(ncclRedOp_t), 4);
IS(sizeof(ncclScalarResidence_t), 4);
IS(ncclSuccess, 0);
IS(ncclUnhandledCudaError, 1);
IS(ncclSystemError, 2);
IS(ncclInternalError, 3);
IS(ncclInvalidArgument, 4);
IS(ncclInvalidUsage, 5);
IS(ncclRemoteError, 6);
IS(ncclInProgress, 7);
IS(ncclInt8, 0);
IS(ncclChar, 0);
IS(ncclUint8, 1);
IS(ncclInt32, 2);
IS(ncclInt, 2);
IS(ncclUint32, 3);
IS(ncclInt64, 4);
IS(ncclUint64, 5);
IS(ncclFloat16, 6);
IS(ncclHalf, 6);
IS(ncclFloat32, 7);
IS(ncclFloat, 7);
IS(ncclFloat64, 8);
IS(ncclDouble, 8);
IS(ncclBfloat16, 9);
IS(ncclFloat8e4m3, 10);
IS(ncclFloat8e5m2, 11);
IS(ncclNumTypes, 12);
IS(ncclSum, 0);
IS(ncclProd, 1);
IS(ncclMax, 2);
IS(ncclMin, 3);
IS(ncclAvg, 4);
IS(ncclNumOps, 5);
IS(ncclMaxRedOp, 0x7fffffff);
IS(ncclScalarDevice, 0);
IS(ncclScalarHostImmediate, 1);
IS(NCCL_UNIQUE_ID_BYTES, 128);
IS(NCCL_SPLIT_NOCOLOR, -1);
IS(NCCL_CONFIG_UNDEF_INT, INT_MIN);
IS(NCCL_WIN_DEFAULT, 0);
IS(NCCL_WIN_COLL_SYMMETRIC, 1);
IS(NCCL_WIN_REQUIRED_ALIGNMENT, 4096);
IS(NCCL_SHRINK_ABORT, 1);
IS(NCCL_VERSION_CODE, 22707);
IS(NCCL_VERSION(2, 27, 7), 22707);
IS(NCCL_VERSION(2, 8, 4), 2804);

int main(void)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclSimInfo_t sim = NCCL_SIM_INFO_INITIALIZER;
	int version = 0, wrong = 0;
	wrong += config.size != 72 || config.magic != 0xcafebeef || config.version != 22707 || config.nvlsCTAs != INT_MIN || config.netName;
	wrong += sim.size != 24 || sim.magic != 0x74685283 || sim.estimatedTime != NCCL_UNDEF_FLOAT;
	wrong += ncclGetVersion(&version) != ncclSuccess || version != 22809;
	wrong += pncclGetVersion(&version) != ncclSuccess || version != 22809;
	wrong += ncclGetVersion(NULL) != ncclInvalidArgument;
	for (int result = ncclSuccess; result <= ncclNumResults; result++)
		wrong += ncclGetErrorString((ncclResult_t)result)[0] == '\0';
	printf("%d wrong\n", wrong);
	return wrong != 0;
}
