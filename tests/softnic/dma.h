/* dma.h - the one door between the NIC and memory that programs see: payload, rings, records, completions.
 *
 * Every access is atomic by 8-byte word (by byte at unaligned edges), as a NIC's is to a program that polls, and as a race checker
 * needs it. Memory of GPUs is told apart here and nowhere else (gpu.h): the addresses are those of the program, unified
 * with the GPU's. */
#ifndef SN_DMA_H
#define SN_DMA_H

#include <stddef.h>
#include <stdint.h>

enum sn_dma_order {
	SN_DMA_ORDERED,   /* what was written before is visible to whoever sees this */
	SN_DMA_RELAXED,   /* nothing is promised */
};

/* Copies from program memory into the model's own. Acquires: what the program published before its last word is seen. */
void sn_dma_read(void *to, uint64_t from, size_t bytes);
/* Copies from the model's own memory. shuffle != 0: the 64-byte lines land in an order drawn from it. */
void sn_dma_write(uint64_t to, const void *from, size_t bytes, enum sn_dma_order order, uint64_t shuffle);
uint32_t sn_dma_load32(const void *from);
/* Releases. */
void sn_dma_store32(void *to, uint32_t value);
void sn_dma_store16(void *to, uint16_t value);
void sn_dma_store8(void *to, uint8_t value);
/* The aligned 8 bytes at `at` are about to be published by a smaller store: a race checker, which knows sizes, is told. */
void sn_dma_announce(void *at);

/* Operands of a (masked) atomic, host endian. compare_and_swap: operand = swap, compare, swap mask, compare mask; otherwise
 * operand = add, boundary: a set bit stops the carry out of that bit, so all ones are a bitwise exclusive or. */
struct sn_dma_atomic {
	uint64_t operand[4];
	uint32_t bytes;           /* 4 or 8 */
	uint32_t compare_and_swap;
};

/* Acts on naturally aligned memory; returns the value before. */
uint64_t sn_dma_atomic(uint64_t at, const struct sn_dma_atomic *atomic);
#endif
