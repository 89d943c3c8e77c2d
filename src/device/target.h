/* target.h - the only file that asks which compiler is reading it.
 *
 * Everything below src/device and src/collectives/ *.h that is marked MRW_DEV is compiled twice: by nvcc for the GPU and by a C11
 * compiler for the host target. MRW_DEV_CALL functions stay calls: a slow path, or an inner loop that should have the registers to
 * itself. MRW_DEV_WIDE functions are host loops, compiled for any x86-64 and again for one with AVX2 (which has no contraction: the same
 * bits), between which the loader chooses; MRW_CLONES says that compiler and C library can. */
#ifndef MRW_TARGET_H
#define MRW_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define MRW_ON_CUDA 1
#define MRW_DEV static __device__ __forceinline__
#define MRW_DEV_CALL static __device__ __noinline__
#define MRW_PURE static __host__ __device__ __forceinline__
#define MRW_UNROLL _Pragma("unroll")
#define MRW_STATIC_ASSERT(condition, message) static_assert(condition, message)
#elif defined(MRW_SANITIZED) /* each copy of what is inlined would have its checks: minutes of compiling */
#define MRW_ON_CUDA 0
#define MRW_DEV static inline __attribute__((unused))
#define MRW_DEV_CALL static __attribute__((noinline, unused))
#define MRW_PURE static inline __attribute__((unused))
#define MRW_UNROLL
#define MRW_STATIC_ASSERT(condition, message) _Static_assert(condition, message)
#elif defined(__clang__)
#define MRW_ON_CUDA 0
#define MRW_DEV static inline __attribute__((always_inline, unused))
#define MRW_DEV_CALL static __attribute__((noinline, unused))
#define MRW_PURE static inline __attribute__((unused))
#define MRW_UNROLL _Pragma("unroll")
#define MRW_STATIC_ASSERT(condition, message) _Static_assert(condition, message)
#else
#define MRW_ON_CUDA 0
#define MRW_DEV static inline __attribute__((always_inline, unused))
#define MRW_DEV_CALL static __attribute__((noinline, unused))
#define MRW_PURE static inline __attribute__((unused))
#define MRW_UNROLL _Pragma("GCC unroll 16")
#define MRW_STATIC_ASSERT(condition, message) _Static_assert(condition, message)
#endif

/* CUDA kernels of calls that have windows are compiled by themselves (-DMRW_WINDOWS=1): in one with the others these would be up to 8 % slower. */
#ifndef MRW_WINDOWS
#define MRW_WINDOWS !MRW_ON_CUDA
#endif

#if defined(MRW_CLONES)
#define MRW_DEV_WIDE static __attribute__((target_clones("avx2", "default")))
#else
#define MRW_DEV_WIDE MRW_DEV_CALL
#endif

/* Number of the lowest bit that is set; word is not 0. */
MRW_DEV uint32_t mrw_lowest_bit(uint64_t word)
{
#if MRW_ON_CUDA
	return (uint32_t)__ffsll((long long)word) - 1;
#else
	return (uint32_t)__builtin_ctzll(word);
#endif
}

/* What a CPU's store to a device register needs beside the language's release: it may not overtake earlier stores to memory, on ARM nor
 * where the page is write-combining, and such a page would keep the store for itself. */
#if defined(__x86_64__) && !MRW_ON_CUDA
#define MRW_CPU_RELAX() __builtin_ia32_pause()
#define MRW_BEFORE_DOORBELL() __builtin_ia32_sfence()
#define MRW_AFTER_DOORBELL() __builtin_ia32_sfence()
#elif defined(__aarch64__) && !MRW_ON_CUDA
#define MRW_CPU_RELAX() ((void)0)
#define MRW_BEFORE_DOORBELL() __asm__ volatile("dmb oshst" ::: "memory")
#define MRW_AFTER_DOORBELL() __asm__ volatile("dmb oshst" ::: "memory")
#else
#define MRW_CPU_RELAX() ((void)0)
#define MRW_BEFORE_DOORBELL() ((void)0)
#define MRW_AFTER_DOORBELL() ((void)0)
#endif

#endif
