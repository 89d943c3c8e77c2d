#include "dma.h"
#include "fault.h"
#include "gpu.h"

#include <stdbool.h>
#include <string.h>

enum { WORD = 8, LINE = 64 };

#if defined(__SANITIZE_THREAD__)
#define RACES_CHECKED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RACES_CHECKED 1
#endif
#endif
#ifdef RACES_CHECKED
void __tsan_release(void *at);
#else
#define __tsan_release(at) ((void)(at))
#endif

/* ThreadSanitizer pairs a release with an acquire of the very same address only. A program may well poll the upper half of a word
 * that is written whole. */
void sn_dma_announce(void *at)
{
	for (int i = 0; i < WORD; i++)
		__tsan_release((uint8_t *)at + i);
}

static void write_range(uint64_t to, const uint8_t *from, size_t bytes, enum sn_dma_order order)
{
	size_t i = 0;

	if (sn_gpu_holds(to)) {
		sn_gpu_write(to, from, bytes);
		return;
	}
	/* A literal order on each call: compilers take a variable one as the strongest. */
	for (; i < bytes && (to + i) % WORD; i++) {
		if (order == SN_DMA_ORDERED)
			__atomic_store_n((uint8_t *)(uintptr_t)(to + i), from[i], __ATOMIC_RELEASE);
		else
			__atomic_store_n((uint8_t *)(uintptr_t)(to + i), from[i], __ATOMIC_RELAXED);
	}
	for (; bytes - i >= WORD; i += WORD) {
		uint64_t word;

		memcpy(&word, from + i, WORD);
		if (order == SN_DMA_ORDERED) {
			__tsan_release((uint8_t *)(uintptr_t)(to + i + WORD / 2));
			__atomic_store_n((uint64_t *)(uintptr_t)(to + i), word, __ATOMIC_RELEASE);
		} else {
			__atomic_store_n((uint64_t *)(uintptr_t)(to + i), word, __ATOMIC_RELAXED);
		}
	}
	for (; i < bytes; i++) {
		if (order == SN_DMA_ORDERED)
			__atomic_store_n((uint8_t *)(uintptr_t)(to + i), from[i], __ATOMIC_RELEASE);
		else
			__atomic_store_n((uint8_t *)(uintptr_t)(to + i), from[i], __ATOMIC_RELAXED);
	}
}

void sn_dma_read(void *to, uint64_t from, size_t bytes)
{
	uint8_t *out = to;
	size_t i = 0;

	if (sn_gpu_holds(from)) {
		sn_gpu_read(to, from, bytes);
		return;
	}
	for (; i < bytes && (from + i) % WORD; i++)
		out[i] = __atomic_load_n((const uint8_t *)(uintptr_t)(from + i), __ATOMIC_ACQUIRE);
	for (; bytes - i >= WORD; i += WORD) {
		uint64_t word = __atomic_load_n((const uint64_t *)(uintptr_t)(from + i), __ATOMIC_ACQUIRE);

		memcpy(out + i, &word, WORD);
	}
	for (; i < bytes; i++)
		out[i] = __atomic_load_n((const uint8_t *)(uintptr_t)(from + i), __ATOMIC_ACQUIRE);
}

void sn_dma_write(uint64_t to, const void *from, size_t bytes, enum sn_dma_order order, uint64_t shuffle)
{
	const uint8_t *bytes_from = from;
	uint64_t first = to & ~(uint64_t)(LINE - 1);
	size_t lines = bytes ? (size_t)((to + bytes - 1 - first) / LINE + 1) : 0;
	size_t step, at;

	if (!shuffle || lines < 2) {
		write_range(to, bytes_from, bytes, order);
		return;
	}
	/* A walk by a stride without common factor with the number of lines visits each once. */
	step = sn_fault_hash(shuffle, 1) % (lines - 1) + 1;
	for (bool again = true; again; step += again) {
		size_t a = step, b = lines;

		while (b) {
			size_t rest = a % b;

			a = b;
			b = rest;
		}
		again = a != 1;
	}
	at = sn_fault_hash(shuffle, 2) % lines;
	for (size_t n = 0; n < lines; n++, at = (at + step) % lines) {
		uint64_t begin = first + at * LINE, end = begin + LINE;

		if (begin < to)
			begin = to;
		if (end > to + bytes)
			end = to + bytes;
		write_range(begin, bytes_from + (begin - to), (size_t)(end - begin), order);
	}
}

uint32_t sn_dma_load32(const void *from)
{
	uint32_t value = 0;

	if (sn_gpu_holds((uintptr_t)from)) {
		sn_gpu_read(&value, (uintptr_t)from, sizeof(value));
		return value;
	}
	return __atomic_load_n((const uint32_t *)from, __ATOMIC_ACQUIRE);
}

void sn_dma_store32(void *to, uint32_t value)
{
	if (sn_gpu_holds((uintptr_t)to))
		sn_gpu_write((uintptr_t)to, &value, sizeof(value));
	else
		__atomic_store_n((uint32_t *)to, value, __ATOMIC_RELEASE);
}

void sn_dma_store16(void *to, uint16_t value)
{
	if (sn_gpu_holds((uintptr_t)to))
		sn_gpu_write((uintptr_t)to, &value, sizeof(value));
	else
		__atomic_store_n((uint16_t *)to, value, __ATOMIC_RELEASE);
}

void sn_dma_store8(void *to, uint8_t value)
{
	if (sn_gpu_holds((uintptr_t)to))
		sn_gpu_write((uintptr_t)to, &value, sizeof(value));
	else
		__atomic_store_n((uint8_t *)to, value, __ATOMIC_RELEASE);
}

static uint64_t bounded_add(uint64_t a, uint64_t b, uint64_t boundary, uint32_t bits)
{
	uint64_t sum = 0, carry = 0;

	for (uint32_t i = 0; i < bits; i++) {
		uint64_t digit = (a >> i & 1) + (b >> i & 1) + carry;

		sum |= (digit & 1) << i;
		carry = boundary >> i & 1 ? 0 : digit >> 1;
	}
	return sum;
}

static uint64_t result_of(const struct sn_dma_atomic *atomic, uint64_t old)
{
	const uint64_t *operand = atomic->operand;

	if (!atomic->compare_and_swap)
		return bounded_add(old, operand[0], operand[1], atomic->bytes * 8);
	if ((old ^ operand[1]) & operand[3])
		return old;
	return (old & ~operand[2]) | (operand[0] & operand[2]);
}

/* Atomic among the NIC's own, as verbs promise it (IBV_ATOMIC_HCA), and no more. */
static uint64_t gpu_atomic(uint64_t at, const struct sn_dma_atomic *atomic)
{
	uint64_t old = 0, result;

	sn_gpu_read(&old, at, atomic->bytes);
	result = result_of(atomic, old);
	sn_gpu_write(at, &result, atomic->bytes);
	return old;
}

uint64_t sn_dma_atomic(uint64_t at, const struct sn_dma_atomic *atomic)
{
	if (sn_gpu_holds(at))
		return gpu_atomic(at, atomic);
	if (atomic->bytes == 8) {
		uint64_t *word = (uint64_t *)(uintptr_t)at, old = __atomic_load_n(word, __ATOMIC_ACQUIRE);

		while (!__atomic_compare_exchange_n(word, &old, result_of(atomic, old), 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		}
		return old;
	} else {
		uint32_t *word = (uint32_t *)(uintptr_t)at, old = __atomic_load_n(word, __ATOMIC_ACQUIRE);

		while (!__atomic_compare_exchange_n(word, &old, (uint32_t)result_of(atomic, old), 0, __ATOMIC_ACQ_REL,
						    __ATOMIC_ACQUIRE)) {
		}
		return old;
	}
}
