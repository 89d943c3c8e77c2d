/* cuda_helpers.h - what the gpu tests need of CUDA beyond support/device_memory.h: small kernels to hold, mark, fill and verify
 * with; memory of every kind; graphs looked into.
 *
 * Functions return 0, or -1 with the reason in gpu_error(). Streams, events and graphs are opaque pointers. No kernel here and no
 * wait here lasts for ever: each has a limit. */
#ifndef TEST_CUDA_HELPERS_H
#define TEST_CUDA_HELPERS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Why this thread's last call failed. */
const char *gpu_error(void);
/* For kernels.cu: 0 if code is cudaSuccess, else -1 with the reason kept. */
int gpu_check(int code, const char *call);

/* Loads all kernels here into the current device: a lazy load later could wait for running kernels. */
int gpu_load_kernels(void);
/* Kernels of one small grid each. word: memory the device can touch. */
/* Holds the stream until *word is value or limit_ns has passed. */
int gpu_gate(void *stream, const uint32_t *word, uint32_t value, uint64_t limit_ns);
int gpu_delay(void *stream, uint64_t ns);
/* Stores value where the host, or another process, sees it. */
int gpu_mark(void *stream, uint32_t *word, uint32_t value);

/* What a collective of count uint32_t must make of inputs that are gpu_fill()ed with the same seed on all ranks. */
enum gpu_result { GPU_SUM, GPU_COPY_OF_ROOT, GPU_GATHER, GPU_SCATTERED_SUM };
struct gpu_expect {
	enum gpu_result result;
	uint32_t count, seed, rank, nranks, root;
};
/* Zeroed device memory; wrong counts elements, the others are those of the first one found. */
struct gpu_wrong {
	uint32_t wrong, seed, index, have, want;
};
int gpu_fill(void *stream, uint32_t *buffer, uint32_t count, uint32_t seed, uint32_t rank);
int gpu_verify(void *stream, const uint32_t *buffer, const struct gpu_expect *expect, struct gpu_wrong *wrong);

/* Page-aligned host memory as the current device sees it. */
int gpu_register(void *memory, size_t bytes, void **device);
void gpu_unregister(void *memory);
/* *to waits for all that was put on from so far; inside a capture it joins it. */
int gpu_order(void *from, void *to);
int gpu_copy_async(void *to, const void *from, size_t bytes, void *stream);
/* 0 done, 1 not within the limit, -1 failed. */
int gpu_stream_wait(void *stream, uint32_t limit_ms);
int gpu_current_device(int *device);

/* Memory of every kind that a buffer may come from. */
enum gpu_memory_kind {
	GPU_MALLOC,
	GPU_MALLOC_ASYNC,
	GPU_VMM,          /* one physical block */
	GPU_VMM_SEGMENTS, /* several next to each other, as expandable segments are */
	GPU_HOST_PINNED,
	GPU_HOST_REGISTERED,
	GPU_MANAGED,
	GPU_MEMORY_KINDS
};
enum { GPU_MEMORY_SEGMENTS = 8 };
struct gpu_memory {
	enum gpu_memory_kind kind;
	void *base;
	size_t bytes;     /* as mapped */
	uint64_t handles[GPU_MEMORY_SEGMENTS];
	uint32_t handle_count;
};
const char *gpu_memory_name(enum gpu_memory_kind kind);
/* On the current device. 1: this machine has no such memory. */
int gpu_memory_make(struct gpu_memory *memory, enum gpu_memory_kind kind, size_t bytes);
void gpu_memory_free(struct gpu_memory *memory);

/* Ends a capture; both are to be destroyed. */
int gpu_capture_end(void *stream, void **graph, void **exec);
void gpu_graph_destroy(void *graph, void *exec);
struct gpu_graph_shape {
	size_t nodes, kernels;
	int total_order; /* every two nodes are ordered by a path */
};
int gpu_graph_look(void *graph, struct gpu_graph_shape *shape);
/* A graph that runs what capture() puts on the stream if *word is not 0 when it is launched. 1: no such graphs here. capture
 * returns 0 or -1; body_shape is of the conditional part. */
int gpu_conditional_graph(void *stream, const uint32_t *word, int (*capture)(void *arg), void *arg, void **graph, void **exec,
			  struct gpu_graph_shape *body_shape);
/* In kernels.cu: adds the kernel that sets the condition, as a node. handle: cudaGraphConditionalHandle. */
int gpu_add_condition_kernel(void *graph, uint64_t handle, const uint32_t *word, void **node);

#ifdef __cplusplus
}
#endif
#endif
