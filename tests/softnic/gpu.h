/* gpu.h - memory of GPUs as a NIC reaches it: through the CUDA driver that the program has loaded, if it has one.
 *
 * Nothing here links or loads CUDA. A range of memory is looked up when it is registered; a NIC knows GPU memory by its unified address,
 * which is what the program registers (a dma-buf carries no address: the program's iova must be it). Copies go by a stream of the
 * model's own, through pinned memory, and are complete when a call returns: what is written after them is later for every observer. They
 * wait for no kernel. All calls hold the engine's lock. */
#ifndef SN_GPU_H
#define SN_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A range is registered; each wants its forgetting. false: part of it is GPU memory that cannot be reached; why is on stderr. */
bool sn_gpu_register(uint64_t start, uint64_t bytes);
void sn_gpu_forget(uint64_t start, uint64_t bytes);
/* Is the byte at this address GPU memory that is registered? */
bool sn_gpu_holds(uint64_t address);
void sn_gpu_read(void *to, uint64_t from, size_t bytes);
void sn_gpu_write(uint64_t to, const void *from, size_t bytes);
#endif
