#include "device_memory.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "mrw_build.h"

#if MRW_HAVE_CUDA
#include <cuda_runtime_api.h>

static _Thread_local char error_text[256];

const char *device_error(void)
{
	return error_text;
}

static int check(cudaError_t error, const char *call)
{
	if (error == cudaSuccess)
		return 0;
	snprintf(error_text, sizeof error_text, "%s: %s", call, cudaGetErrorString(error));
	(void)cudaGetLastError();
	return -1;
}
#define CHECK(call) check(call, #call)

/* Streams of a device that share a hardware queue wait for each other. Where ranks share device and process a kernel would then wait for
 * one queued behind it, so there must be as many queues as the driver allows. Read when CUDA starts. */
__attribute__((constructor)) static void ask_for_queues(void)
{
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

int device_count(void)
{
	int count = 0;
	return CHECK(cudaGetDeviceCount(&count)) == 0 ? count : 0;
}

int device_set(int device)
{
	return CHECK(cudaSetDevice(device));
}

int device_synchronize(void)
{
	return CHECK(cudaDeviceSynchronize());
}

int device_free_bytes(size_t *bytes)
{
	size_t total;
	return CHECK(cudaMemGetInfo(bytes, &total));
}

int device_describe(int device, char *text, size_t size)
{
	struct cudaDeviceProp properties;
	if (CHECK(cudaGetDeviceProperties(&properties, device)) != 0)
		return -1;
	snprintf(text, size, "[%04x:%02x:%02x] %s", (unsigned)properties.pciDomainID, (unsigned)properties.pciBusID,
		 (unsigned)properties.pciDeviceID, properties.name);
	return 0;
}

int device_lacks_peer_access(int a, int b)
{
	int can = 0;
	if (a == b)
		return 0;
	return CHECK(cudaDeviceCanAccessPeer(&can, a, b)) != 0 ? -1 : !can;
}

int device_alloc(void **memory, size_t bytes)
{
	return CHECK(cudaMalloc(memory, bytes));
}

void device_free(void *memory)
{
	(void)CHECK(cudaFree(memory));
}

int device_alloc_pinned(void **memory, size_t bytes)
{
	return CHECK(cudaMallocHost(memory, bytes));
}

void device_free_pinned(void *memory)
{
	(void)CHECK(cudaFreeHost(memory));
}

/* Copies within a device and fills return before they are done: the default stream of the current device carried them. */
int device_copy(void *to, const void *from, size_t bytes)
{
	if (CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDefault)) != 0)
		return -1;
	return CHECK(cudaStreamSynchronize(NULL));
}

/* The memory's device need not be the current one: a thread may drive several. */
int device_fill_bytes(void *memory, int byte, size_t bytes)
{
	struct cudaPointerAttributes attributes;
	int current, failed;
	if (CHECK(cudaGetDevice(&current)) != 0 || CHECK(cudaPointerGetAttributes(&attributes, memory)) != 0)
		return -1;
	if (attributes.type == cudaMemoryTypeDevice && CHECK(cudaSetDevice(attributes.device)) != 0)
		return -1;
	failed = CHECK(cudaMemset(memory, byte, bytes)) != 0 || CHECK(cudaStreamSynchronize(NULL)) != 0;
	return CHECK(cudaSetDevice(current)) != 0 || failed ? -1 : 0;
}

/* Of each device, for as long as the process: to free it would wait for kernels. */
static void *scratch_of_current(void)
{
	enum { DEVICES = 64 };
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static void *scratch[DEVICES];
	int device = 0;
	void *mine = NULL;
	if (CHECK(cudaGetDevice(&device)) != 0 || device >= DEVICES)
		return NULL;
	pthread_mutex_lock(&lock);
	if (scratch[device] || CHECK(cudaMalloc(&scratch[device], 256)) == 0)
		mine = scratch[device];
	pthread_mutex_unlock(&lock);
	return mine;
}

/* A stream gets its hardware queue with its first work. Ranks of one process and device that start on new streams all at once may get the
 * same one, although there are enough: so each is used here, before it carries a collective. */
int device_stream_create(void **stream)
{
	void *scratch = scratch_of_current();
	if (!scratch || CHECK(cudaStreamCreateWithFlags((cudaStream_t *)stream, cudaStreamNonBlocking)) != 0)
		return -1;
	if (CHECK(cudaMemsetAsync(scratch, 0, 256, (cudaStream_t)*stream)) == 0 && CHECK(cudaStreamSynchronize((cudaStream_t)*stream)) == 0)
		return 0;
	(void)cudaStreamDestroy((cudaStream_t)*stream);
	*stream = NULL;
	return -1;
}

void device_stream_destroy(void *stream)
{
	(void)CHECK(cudaStreamDestroy(stream));
}

int device_stream_synchronize(void *stream)
{
	return CHECK(cudaStreamSynchronize(stream));
}

int device_capture_begin(void *stream, enum device_capture mode)
{
	static const enum cudaStreamCaptureMode modes[] = { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
							    cudaStreamCaptureModeRelaxed };
	return CHECK(cudaStreamBeginCapture(stream, modes[mode]));
}

int device_capture_end(void *stream, void **graph)
{
	cudaGraph_t captured = NULL;
	int result;

	*graph = NULL;
	if (CHECK(cudaStreamEndCapture(stream, &captured)) != 0)
		return -1;
	result = CHECK(cudaGraphInstantiateWithFlags((cudaGraphExec_t *)graph, captured, 0));
	(void)CHECK(cudaGraphDestroy(captured));
	return result;
}

int device_graph_launch(void *graph, void *stream)
{
	return CHECK(cudaGraphLaunch(graph, stream));
}

void device_graph_destroy(void *graph)
{
	if (graph)
		(void)CHECK(cudaGraphExecDestroy(graph));
}

int device_event_create(void **event)
{
	return CHECK(cudaEventCreate((cudaEvent_t *)event));
}

void device_event_destroy(void *event)
{
	if (event)
		(void)CHECK(cudaEventDestroy(event));
}

int device_event_record(void *event, void *stream)
{
	return CHECK(cudaEventRecord(event, stream));
}

int device_event_elapsed_us(void *start, void *stop, double *us)
{
	float ms = 0;
	int result = CHECK(cudaEventElapsedTime(&ms, start, stop));
	*us = (double)ms * 1e3;
	return result;
}

#else /* no CUDA in this build */

const char *device_error(void)
{
	return "this build has no CUDA";
}

int device_count(void) { return 0; }
int device_set(int device) { (void)device; return -1; }
int device_synchronize(void) { return -1; }
int device_free_bytes(size_t *bytes) { *bytes = 0; return -1; }
int device_lacks_peer_access(int a, int b) { (void)a; (void)b; return -1; }
int device_alloc(void **memory, size_t bytes) { (void)bytes; *memory = NULL; return -1; }
void device_free(void *memory) { (void)memory; }
int device_alloc_pinned(void **memory, size_t bytes) { (void)bytes; *memory = NULL; return -1; }
void device_free_pinned(void *memory) { (void)memory; }
int device_copy(void *to, const void *from, size_t bytes) { (void)to; (void)from; (void)bytes; return -1; }
int device_fill_bytes(void *memory, int byte, size_t bytes) { (void)memory; (void)byte; (void)bytes; return -1; }
int device_stream_create(void **stream) { *stream = NULL; return -1; }
void device_stream_destroy(void *stream) { (void)stream; }
int device_stream_synchronize(void *stream) { (void)stream; return -1; }
int device_capture_begin(void *stream, enum device_capture mode) { (void)stream; (void)mode; return -1; }
int device_capture_end(void *stream, void **graph) { (void)stream; *graph = NULL; return -1; }
int device_graph_launch(void *graph, void *stream) { (void)graph; (void)stream; return -1; }
void device_graph_destroy(void *graph) { (void)graph; }
int device_event_create(void **event) { *event = NULL; return -1; }
void device_event_destroy(void *event) { (void)event; }
int device_event_record(void *event, void *stream) { (void)event; (void)stream; return -1; }

int device_describe(int device, char *text, size_t size)
{
	(void)device;
	snprintf(text, size, "none");
	return -1;
}

int device_event_elapsed_us(void *start, void *stop, double *us)
{
	(void)start;
	(void)stop;
	*us = 0;
	return -1;
}
#endif
