/* cuda_runtime_api.h - the same of the CUDA runtime's API. Its functions have names of their own: a build with CUDA has the real ones too. */
#ifndef MADE_UP_CUDA_RUNTIME_API_H
#define MADE_UP_CUDA_RUNTIME_API_H

#include <stddef.h>
#include <stdint.h>

#define CUDART_VERSION 13000
#define cudaEnableDefault 0
#define cudaHostRegisterPortable 1
#define cudaHostRegisterMapped 2

typedef enum { cudaSuccess, cudaErrorMemoryAllocation, cudaErrorInvalidValue } cudaError_t;
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess, cudaDriverEntryPointSymbolNotFound };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed };
enum cudaMemoryType { cudaMemoryTypeUnregistered, cudaMemoryTypeHost, cudaMemoryTypeDevice };
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
typedef struct made_up_stream *cudaStream_t;

struct cudaPointerAttributes {
	enum cudaMemoryType type;
	int device;
};

#define cudaGetDriverEntryPointByVersion made_up_entry_point
#define cudaGetLastError made_up_last_error
#define cudaGetErrorString made_up_error_string
#define cudaGetDevice made_up_device
#define cudaSetDevice made_up_set_device
#define cudaGetDeviceCount made_up_device_count
#define cudaDeviceCanAccessPeer made_up_can_access
#define cudaThreadExchangeStreamCaptureMode made_up_exchange_mode
#define cudaHostRegister made_up_register
#define cudaHostGetDevicePointer made_up_device_pointer
#define cudaHostUnregister made_up_unregister
#define cudaFree made_up_free
#define cudaPointerGetAttributes made_up_attributes
#define cudaMemsetAsync made_up_memset
#define cudaMemcpyAsync made_up_memcpy
#define cudaStreamSynchronize made_up_synchronize

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version, unsigned long long flags,
					     enum cudaDriverEntryPointQueryResult *result);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode);
cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags);
cudaError_t cudaHostGetDevicePointer(void **device, void *p, unsigned flags);
cudaError_t cudaHostUnregister(void *p);
cudaError_t cudaFree(void *p);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *p);
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);

#endif
