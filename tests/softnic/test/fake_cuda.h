/* fake_cuda.h - a libcuda.so.1 of the few functions that the model uses, for machines without a GPU. Its device memory cannot be touched at
 * the address it has: only copies reach it, and they happen when their stream is synchronised, in their order. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

struct fake_cuda_counts {
	uint32_t copies, copied_unsynchronised; /* copies that were posted while another one was under way on the stream */
	uint32_t live_contexts;                 /* pushed and not popped */
};

/* Found by dlsym(). Device memory of device 0 (or of device 1), zeroed. */
typedef uint64_t fake_cuda_alloc(size_t bytes, int device);
/* Where its bytes really are. */
typedef void *fake_cuda_at(uint64_t pointer);
typedef struct fake_cuda_counts fake_cuda_count(void);
#endif
