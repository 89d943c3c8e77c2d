#include "cuda_helpers.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static _Thread_local char error_text[256];

const char *gpu_error(void)
{
	return error_text;
}

int gpu_check(int code, const char *call)
{
	if (code == cudaSuccess)
		return 0;
	snprintf(error_text, sizeof error_text, "%s: %s", call, cudaGetErrorString((cudaError_t)code));
	(void)cudaGetLastError();
	return -1;
}
#define CHECK(call) gpu_check((int)(call), #call)

int gpu_register(void *memory, size_t bytes, void **device)
{
	if (CHECK(cudaHostRegister(memory, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable)) != 0)
		return -1;
	return CHECK(cudaHostGetDevicePointer(device, memory, 0));
}

void gpu_unregister(void *memory)
{
	(void)CHECK(cudaHostUnregister(memory));
}

int gpu_order(void *from, void *to)
{
	cudaEvent_t event;
	if (CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming)) != 0)
		return -1;
	int result = CHECK(cudaEventRecord(event, (cudaStream_t)from));
	if (result == 0)
		result = CHECK(cudaStreamWaitEvent((cudaStream_t)to, event, 0));
	(void)CHECK(cudaEventDestroy(event)); /* lives on until it has been waited for */
	return result;
}

int gpu_copy_async(void *to, const void *from, size_t bytes, void *stream)
{
	return CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, (cudaStream_t)stream));
}

static uint64_t now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

int gpu_stream_wait(void *stream, uint32_t limit_ms)
{
	const struct timespec nap = {0, 50000};
	uint64_t until = now_ms() + limit_ms;
	for (;;) {
		cudaError_t error = cudaStreamQuery((cudaStream_t)stream);
		if (error != cudaErrorNotReady)
			return gpu_check((int)error, "cudaStreamQuery");
		if (now_ms() > until) {
			snprintf(error_text, sizeof error_text, "the stream was not done within %u ms", limit_ms);
			return 1;
		}
		nanosleep(&nap, NULL);
	}
}

int gpu_current_device(int *device)
{
	return CHECK(cudaGetDevice(device));
}

/* The driver's part of virtual memory management, found through the runtime. */
static struct {
	CUresult (*MemCreate)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long);
	CUresult (*MemRelease)(CUmemGenericAllocationHandle);
	CUresult (*MemGetAllocationGranularity)(size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags);
	CUresult (*MemAddressReserve)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
	CUresult (*MemAddressFree)(CUdeviceptr, size_t);
	CUresult (*MemMap)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
	CUresult (*MemUnmap)(CUdeviceptr, size_t);
	CUresult (*MemSetAccess)(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
} driver;

static int driver_find(const char *symbol, void **function)
{
	enum cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
	cudaError_t error = cudaGetDriverEntryPointByVersion(symbol, function, 12000, cudaEnableDefault, &result);
#else
	cudaError_t error = cudaGetDriverEntryPoint(symbol, function, cudaEnableDefault, &result);
#endif
	if (error == cudaSuccess && result == cudaDriverEntryPointSuccess)
		return 0;
	snprintf(error_text, sizeof error_text, "the driver has no %s", symbol);
	(void)cudaGetLastError();
	return -1;
}

static int driver_check(CUresult error, const char *call)
{
	if (error == CUDA_SUCCESS)
		return 0;
	snprintf(error_text, sizeof error_text, "cu%s: error %d", call, (int)error);
	return -1;
}
#define DRIVER(call) driver_check(driver.call, #call)

static int driver_load(void)
{
	if (driver.MemSetAccess)
		return 0;
	return driver_find("cuMemCreate", (void **)&driver.MemCreate) ||
		driver_find("cuMemRelease", (void **)&driver.MemRelease) ||
		driver_find("cuMemGetAllocationGranularity", (void **)&driver.MemGetAllocationGranularity) ||
		driver_find("cuMemAddressReserve", (void **)&driver.MemAddressReserve) ||
		driver_find("cuMemAddressFree", (void **)&driver.MemAddressFree) ||
		driver_find("cuMemMap", (void **)&driver.MemMap) ||
		driver_find("cuMemUnmap", (void **)&driver.MemUnmap) ||
		driver_find("cuMemSetAccess", (void **)&driver.MemSetAccess) ? -1 : 0;
}

static const char *const kind_names[GPU_MEMORY_KINDS] = {"cudaMalloc", "cudaMallocAsync", "VMM", "VMM in segments", "cudaHostAlloc",
							  "cudaHostRegister", "cudaMallocManaged"};

const char *gpu_memory_name(enum gpu_memory_kind kind)
{
	return kind_names[kind];
}

static void vmm_free(struct gpu_memory *m)
{
	CUdeviceptr at = (CUdeviceptr)(uintptr_t)m->base;
	size_t piece = m->handle_count ? m->bytes / m->handle_count : 0;
	for (uint32_t i = 0; i < m->handle_count; i++) {
		(void)DRIVER(MemUnmap(at + i * piece, piece));
		(void)DRIVER(MemRelease(m->handles[i]));
	}
	if (at)
		(void)DRIVER(MemAddressFree(at, m->bytes));
}

static int vmm_make(struct gpu_memory *m, size_t bytes, uint32_t pieces)
{
	CUmemAllocationProp prop;
	CUmemAccessDesc access;
	CUdeviceptr at = 0;
	size_t grain = 0;
	int device = 0;
	if (driver_load() != 0 || CHECK(cudaGetDevice(&device)) != 0)
		return -1;
	memset(&prop, 0, sizeof prop);
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = device;
	memset(&access, 0, sizeof access);
	access.location = prop.location;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	if (DRIVER(MemGetAllocationGranularity(&grain, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM)) != 0)
		return -1;
	size_t piece = (bytes / pieces + grain) / grain * grain;
	m->bytes = piece * pieces;
	if (DRIVER(MemAddressReserve(&at, m->bytes, 0, 0, 0)) != 0)
		return -1;
	m->base = (void *)(uintptr_t)at;
	for (uint32_t i = 0; i < pieces; i++) {
		CUmemGenericAllocationHandle handle;
		if (DRIVER(MemCreate(&handle, piece, &prop, 0)) != 0)
			return -1;
		if (DRIVER(MemMap(at + i * piece, piece, 0, handle, 0)) != 0) {
			(void)DRIVER(MemRelease(handle));
			return -1;
		}
		m->handles[m->handle_count++] = handle;
	}
	return DRIVER(MemSetAccess(at, m->bytes, &access, 1));
}

static int pool_supported(void)
{
	int device = 0, supported = 0;
	if (CHECK(cudaGetDevice(&device)) != 0 ||
	    CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, device)) != 0)
		return 0;
	return supported;
}

static int memory_make(struct gpu_memory *m, size_t bytes)
{
	switch (m->kind) {
	case GPU_MALLOC:
		return CHECK(cudaMalloc(&m->base, bytes));
	case GPU_MALLOC_ASYNC:
		if (!pool_supported())
			return 1;
		if (CHECK(cudaMallocAsync(&m->base, bytes, NULL)) != 0)
			return -1;
		return CHECK(cudaStreamSynchronize(NULL));
	case GPU_VMM:
		return vmm_make(m, bytes, 1);
	case GPU_VMM_SEGMENTS:
		return vmm_make(m, bytes, GPU_MEMORY_SEGMENTS);
	case GPU_HOST_PINNED:
		return CHECK(cudaHostAlloc(&m->base, bytes, cudaHostAllocDefault));
	case GPU_HOST_REGISTERED:
		m->bytes = (bytes + 4095) / 4096 * 4096;
		m->base = aligned_alloc(4096, m->bytes);
		if (!m->base)
			return -1;
		if (CHECK(cudaHostRegister(m->base, m->bytes, cudaHostRegisterDefault)) == 0)
			return 0;
		free(m->base);
		m->base = NULL;
		return -1;
	case GPU_MANAGED:
		return CHECK(cudaMallocManaged(&m->base, bytes, cudaMemAttachGlobal));
	default:
		return -1;
	}
}

int gpu_memory_make(struct gpu_memory *memory, enum gpu_memory_kind kind, size_t bytes)
{
	char why[sizeof error_text];
	memset(memory, 0, sizeof *memory);
	memory->kind = kind;
	memory->bytes = bytes;
	int result = memory_make(memory, bytes);
	if (result < 0) {
		memcpy(why, error_text, sizeof why);
		gpu_memory_free(memory);
		memcpy(error_text, why, sizeof why);
	}
	return result;
}

void gpu_memory_free(struct gpu_memory *m)
{
	if (!m->base)
		return;
	switch (m->kind) {
	case GPU_MALLOC_ASYNC:
		(void)CHECK(cudaFreeAsync(m->base, NULL));
		(void)CHECK(cudaStreamSynchronize(NULL));
		break;
	case GPU_VMM:
	case GPU_VMM_SEGMENTS:
		vmm_free(m);
		break;
	case GPU_HOST_PINNED:
		(void)CHECK(cudaFreeHost(m->base));
		break;
	case GPU_HOST_REGISTERED:
		(void)CHECK(cudaHostUnregister(m->base));
		free(m->base);
		break;
	default:
		(void)CHECK(cudaFree(m->base));
	}
	m->base = NULL;
}

int gpu_capture_end(void *stream, void **graph, void **exec)
{
	*graph = *exec = NULL;
	if (CHECK(cudaStreamEndCapture((cudaStream_t)stream, (cudaGraph_t *)graph)) != 0)
		return -1;
	return CHECK(cudaGraphInstantiateWithFlags((cudaGraphExec_t *)exec, (cudaGraph_t)*graph, 0));
}

void gpu_graph_destroy(void *graph, void *exec)
{
	if (exec)
		(void)CHECK(cudaGraphExecDestroy((cudaGraphExec_t)exec));
	if (graph)
		(void)CHECK(cudaGraphDestroy((cudaGraph_t)graph));
}

/* Edges may be programmatic (a kernel launched early), which a query without their data refuses to hide. */
static int edges_of(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count)
{
#if CUDART_VERSION >= 12030
	cudaGraphEdgeData *data = from ? calloc(*count + 1, sizeof *data) : NULL;
#if CUDART_VERSION >= 13000
	int result = CHECK(cudaGraphGetEdges(graph, from, to, data, count));
#else
	int result = CHECK(cudaGraphGetEdges_v2(graph, from, to, data, count));
#endif
	free(data);
	return result;
#else
	return CHECK(cudaGraphGetEdges(graph, from, to, count));
#endif
}

static size_t index_of(const cudaGraphNode_t *nodes, size_t count, cudaGraphNode_t node)
{
	size_t i = 0;
	while (i < count && nodes[i] != node)
		i++;
	return i;
}

/* Transitive closure by Warshall; graphs here are small. */
static int is_total_order(const cudaGraphNode_t *nodes, size_t n, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t edges)
{
	char *path = calloc(n + 1, n + 1);
	int total = path != NULL;
	for (size_t e = 0; path && e < edges; e++)
		path[index_of(nodes, n, from[e]) * n + index_of(nodes, n, to[e])] = 1;
	for (size_t k = 0; path && k < n; k++)
		for (size_t i = 0; i < n; i++)
			for (size_t j = 0; path[i * n + k] && j < n; j++)
				path[i * n + j] |= path[k * n + j];
	for (size_t i = 0; path && i < n; i++)
		for (size_t j = 0; j < i; j++)
			total &= path[i * n + j] || path[j * n + i];
	free(path);
	return total;
}

int gpu_graph_look(void *graph, struct gpu_graph_shape *shape)
{
	size_t count = 0, edges = 0;
	cudaGraphNode_t *nodes = NULL, *from = NULL, *to = NULL;
	int result = -1;
	memset(shape, 0, sizeof *shape);
	if (CHECK(cudaGraphGetNodes((cudaGraph_t)graph, NULL, &count)) != 0 || edges_of((cudaGraph_t)graph, NULL, NULL, &edges) != 0)
		return -1;
	nodes = calloc(count + 1, sizeof(cudaGraphNode_t));
	from = calloc(edges + 1, sizeof(cudaGraphNode_t));
	to = calloc(edges + 1, sizeof(cudaGraphNode_t));
	if (!nodes || !from || !to)
		goto done;
	if (CHECK(cudaGraphGetNodes((cudaGraph_t)graph, nodes, &count)) != 0)
		goto done;
	if (edges > 0 && edges_of((cudaGraph_t)graph, from, to, &edges) != 0)
		goto done;
	for (size_t i = 0; i < count; i++) {
		enum cudaGraphNodeType type;
		if (CHECK(cudaGraphNodeGetType(nodes[i], &type)) != 0)
			goto done;
		shape->kernels += type == cudaGraphNodeTypeKernel;
	}
	shape->nodes = count;
	shape->total_order = is_total_order(nodes, count, from, to, edges);
	result = 0;
done:
	free(nodes);
	free(from);
	free(to);
	return result;
}

#if CUDART_VERSION >= 12040
static int add_node(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, struct cudaGraphNodeParams *params)
{
#if CUDART_VERSION >= 13000
	return CHECK(cudaGraphAddNode(node, graph, after, NULL, 1, params));
#else
	return CHECK(cudaGraphAddNode(node, graph, after, 1, params));
#endif
}

int gpu_conditional_graph(void *stream, const uint32_t *word, int (*capture)(void *arg), void *arg, void **graph, void **exec,
			  struct gpu_graph_shape *body_shape)
{
	cudaGraph_t whole = NULL, body, captured = NULL;
	cudaGraphConditionalHandle handle;
	cudaGraphNode_t setter, node;
	struct cudaGraphNodeParams params;
	int driver_version = 0;
	*graph = *exec = NULL;
	if (CHECK(cudaDriverGetVersion(&driver_version)) != 0)
		return -1;
	if (driver_version < 12040)
		return 1;
	if (CHECK(cudaGraphCreate(&whole, 0)) != 0)
		return -1;
	*graph = whole;
	if (CHECK(cudaGraphConditionalHandleCreate(&handle, whole, 0, cudaGraphCondAssignDefault)) != 0 ||
	    gpu_add_condition_kernel(whole, (uint64_t)handle, word, (void **)&setter) != 0)
		return -1;
	memset(&params, 0, sizeof params);
	params.type = cudaGraphNodeTypeConditional;
	params.conditional.handle = handle;
	params.conditional.type = cudaGraphCondTypeIf;
	params.conditional.size = 1;
	if (add_node(&node, whole, &setter, &params) != 0)
		return -1;
	body = params.conditional.phGraph_out[0];
	if (CHECK(cudaStreamBeginCaptureToGraph((cudaStream_t)stream, body, NULL, NULL, 0, cudaStreamCaptureModeThreadLocal)) != 0)
		return -1;
	int result = capture(arg);
	if (CHECK(cudaStreamEndCapture((cudaStream_t)stream, &captured)) != 0 || result != 0)
		return -1;
	if (gpu_graph_look(body, body_shape) != 0)
		return -1;
	return CHECK(cudaGraphInstantiateWithFlags((cudaGraphExec_t *)exec, whole, 0));
}
#else
int gpu_conditional_graph(void *stream, const uint32_t *word, int (*capture)(void *arg), void *arg, void **graph, void **exec,
			  struct gpu_graph_shape *body_shape)
{
	(void)stream;
	(void)word;
	(void)capture;
	(void)arg;
	(void)body_shape;
	*graph = *exec = NULL;
	return 1;
}
#endif
