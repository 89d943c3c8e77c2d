/* memory.h - what a NIC knows of memory: protection domains, memory regions, and the umems that hold queues. All calls hold
 * the engine's lock. */
#ifndef SN_MEMORY_H
#define SN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sn_context;

/* Access rights have the values of the verbs (IBV_ACCESS_...). */
struct sn_mr {
	struct sn_context *context;
	uint32_t key, pd, access;
	uint64_t iova, start, bytes;
	bool valid;
};

struct sn_umem {
	struct sn_context *context;
	uint64_t start, bytes;
	bool valid;
};

/* Protection domain number; also its handle. 0: none left. */
uint32_t sn_pd_alloc(struct sn_context *context);
int sn_pd_free(uint32_t pd);

/* Does MARROW_SOFTNIC_REFUSE name this: "dmabuf", "peermem" (GPU memory by its address)? As a machine without the driver for it. */
bool sn_memory_refuses(const char *what);
/* NULL if none is left. The handle is the number in the table: key >> 8. */
struct sn_mr *sn_mr_register(struct sn_context *context, uint32_t pd, uint64_t start, uint64_t iova, uint64_t bytes, uint32_t access);
int sn_mr_deregister(uint32_t handle);
/* The region of a key, whether or not it permits anything; NULL if there is none. */
struct sn_mr *sn_mr_find(uint32_t key);

/* Why an access is refused, or NULL and the program's address in *at. */
const char *sn_mr_check(const struct sn_context *context, uint32_t pd, uint32_t key, uint64_t address, uint64_t bytes, uint32_t access,
			uint64_t *at);

/* Number of a new umem; 0: none left. */
uint32_t sn_umem_register(struct sn_context *context, uint64_t start, uint64_t bytes);
int sn_umem_deregister(uint32_t umem);
/* bytes at offset of a umem as an address; NULL if that is not within it or belongs to another context. */
void *sn_umem_at(const struct sn_context *context, uint32_t umem, uint64_t offset, uint64_t bytes);

/* Frees everything that belongs to a context. */
void sn_memory_release(const struct sn_context *context);

#endif
