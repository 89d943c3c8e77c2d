/* kernels.cu - the kernels behind cuda_helpers.h. */
#include "cuda_helpers.h"

#include <cuda_runtime.h>

#define CHECK(call) gpu_check((int)(call), #call)

static __device__ uint64_t clock_ns(void)
{
	uint64_t t;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
	return t;
}

static __device__ uint32_t value_of(uint32_t seed, uint32_t rank, uint32_t index)
{
	uint32_t x = seed * 0x9e3779b9u + rank * 0x85ebca6bu + index;
	x = (x ^ x >> 16) * 0x7feb352du;
	x = (x ^ x >> 15) * 0x846ca68bu;
	return x ^ x >> 16;
}

static __global__ void gate(const volatile uint32_t *word, uint32_t value, uint64_t limit_ns)
{
	uint64_t until = clock_ns() + limit_ns;
	while (*word != value && clock_ns() < until)
		__nanosleep(500);
}

static __global__ void delay(uint64_t ns)
{
	uint64_t until = clock_ns() + ns;
	while (clock_ns() < until)
		__nanosleep(200);
}

static __global__ void mark(volatile uint32_t *word, uint32_t value)
{
	__threadfence_system();
	*word = value;
	__threadfence_system();
}

static __global__ void fill(uint32_t *buffer, uint32_t count, uint32_t seed, uint32_t rank)
{
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
		buffer[i] = value_of(seed, rank, i);
}

static __device__ uint32_t wanted(const struct gpu_expect *e, uint32_t i)
{
	if (e->result == GPU_COPY_OF_ROOT)
		return value_of(e->seed, e->root, i);
	if (e->result == GPU_GATHER)
		return value_of(e->seed, i / e->count, i % e->count);
	uint32_t sum = 0, index = e->result == GPU_SCATTERED_SUM ? e->rank * e->count + i : i;
	for (uint32_t r = 0; r < e->nranks; r++)
		sum += value_of(e->seed, r, index);
	return sum;
}

static __global__ void verify(const uint32_t *buffer, struct gpu_expect e, struct gpu_wrong *wrong)
{
	uint32_t count = e.result == GPU_GATHER ? e.count * e.nranks : e.count;
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
		uint32_t have = buffer[i], want = wanted(&e, i);
		if (have == want || atomicAdd(&wrong->wrong, 1) != 0)
			continue;
		wrong->seed = e.seed;
		wrong->index = i;
		wrong->have = have;
		wrong->want = want;
	}
}

#if CUDART_VERSION >= 12040
static __global__ void set_condition(cudaGraphConditionalHandle handle, const uint32_t *word)
{
	cudaGraphSetConditional(handle, *word != 0);
}
#endif

extern "C" int gpu_load_kernels(void)
{
	const void *const kernels[] = {
		(const void *)gate, (const void *)delay, (const void *)mark, (const void *)fill, (const void *)verify,
#if CUDART_VERSION >= 12040
		(const void *)set_condition,
#endif
	};
	struct cudaFuncAttributes attributes;
	for (const void *kernel : kernels)
		if (CHECK(cudaFuncGetAttributes(&attributes, kernel)) != 0)
			return -1;
	return 0;
}

static uint32_t blocks_for(uint32_t count)
{
	uint32_t blocks = count / 1024 + 1;
	return blocks < 64 ? blocks : 64;
}

/* The launch before this macro's check left its error with the runtime. */
#define LAUNCHED(name) gpu_check((int)cudaGetLastError(), "launch of " name)

extern "C" int gpu_gate(void *stream, const uint32_t *word, uint32_t value, uint64_t limit_ns)
{
	gate<<<1, 1, 0, (cudaStream_t)stream>>>(word, value, limit_ns);
	return LAUNCHED("gate");
}

extern "C" int gpu_delay(void *stream, uint64_t ns)
{
	delay<<<1, 1, 0, (cudaStream_t)stream>>>(ns);
	return LAUNCHED("delay");
}

extern "C" int gpu_mark(void *stream, uint32_t *word, uint32_t value)
{
	mark<<<1, 1, 0, (cudaStream_t)stream>>>(word, value);
	return LAUNCHED("mark");
}

extern "C" int gpu_fill(void *stream, uint32_t *buffer, uint32_t count, uint32_t seed, uint32_t rank)
{
	fill<<<blocks_for(count), 256, 0, (cudaStream_t)stream>>>(buffer, count, seed, rank);
	return LAUNCHED("fill");
}

extern "C" int gpu_verify(void *stream, const uint32_t *buffer, const struct gpu_expect *expect, struct gpu_wrong *wrong)
{
	verify<<<blocks_for(expect->count), 256, 0, (cudaStream_t)stream>>>(buffer, *expect, wrong);
	return LAUNCHED("verify");
}

#if CUDART_VERSION >= 12040
extern "C" int gpu_add_condition_kernel(void *graph, uint64_t handle, const uint32_t *word, void **node)
{
	cudaGraphConditionalHandle h = (cudaGraphConditionalHandle)handle;
	void *arguments[] = {&h, (void *)&word};
	struct cudaKernelNodeParams params = {};
	params.func = (void *)set_condition;
	params.gridDim = dim3(1, 1, 1);
	params.blockDim = dim3(1, 1, 1);
	params.kernelParams = arguments;
	return CHECK(cudaGraphAddKernelNode((cudaGraphNode_t *)node, (cudaGraph_t)graph, NULL, 0, &params));
}
#endif
