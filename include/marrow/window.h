/* window.h - receive buffers that the other ranks of the host write directly.
 *
 * A large all_reduce, all_gather, broadcast or reduce within one host goes through memory of the communicator, and each rank copies its results out of
 * there. Into a registered buffer the others write them themselves: the copy falls away, and with it a part of the time and of the SMs' work. That is so
 * from 8 MiB on (a broadcast between two ranks: 64 MiB); of less the copy costs no more than to hear where the buffer is.
 * Registration is never a condition and changes no bit of a result. Whether a call's receive buffer lies in a window is each rank's own affair: it may
 * on some ranks and not on others. It has an effect where the whole of it lies in one window, at an address (all_gather: and with blocks) of a multiple
 * of 16 bytes; elsewhere, in small calls and over several hosts calls work as they do without.
 *
 * Both functions are collective: all ranks of the communicator call them, in the same order among its other calls, outside of groups, and wait for
 * each other on the host. Enqueue nothing on the communicator from other threads meanwhile. Calls that were captured while there were windows, and those
 * that were captured while there were none, are different calls (MARROW_MISMATCH): replay either on all ranks, not beside calls made afresh. */
#ifndef MARROW_WINDOW_H
#define MARROW_WINDOW_H

#include "comm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A buffer of this rank in one communicator. */
struct marrow_window;

/* buffer: bytes > 0 of memory from marrow_mem_alloc() (a part of it, if you like), of the communicator's device; each rank's own size. While it is
 * registered marrow_mem_free() refuses it. A communicator has at most 32 windows at once; the same memory may be in several of them, and in several
 * communicators. The memory counts as the user's; mapping it takes addresses of each rank, no memory.
 * If any rank cannot take part, all ranks fail alike and by name, nothing is registered and the communicator goes on; *window is NULL then. Of what a
 * rank is refused before it looks for the others (in a group, on a dead or busy communicator) they learn at the deadline only.
 * After a failure or an abort of the communicator a peer may still write to the buffer until it notices: its contents are undefined until all
 * ranks have destroyed the communicator. */
MARROW_API enum marrow_status marrow_window_register(struct marrow_comm *comm, void *buffer, size_t bytes, struct marrow_window **window);
/* Waits until this rank's operations are done (replays of graphs must be over, on all ranks, before), then for all ranks, and undoes it; all ranks name
 * windows that they registered together. Captured calls may be replayed afterwards: they go the usual way again. Of a communicator that has failed
 * the window goes without waiting for the others; MARROW_TIMEOUT: its operations have not left, and the window goes when they have and the
 * communicator is destroyed. Windows that are left at marrow_comm_destroy() go with it. NULL is allowed if all ranks pass it. */
MARROW_API enum marrow_status marrow_window_deregister(struct marrow_comm *comm, struct marrow_window *window);

#ifdef __cplusplus
}
#endif
#endif
