/* calls.h - counts the system calls of a thread but sched_yield(): each is turned into a signal, and not made. For loops that should make
 * none; for the rest of the thread's life. */
#ifndef PROXY_CALLS_H
#define PROXY_CALLS_H

#include <stdbool.h>
#include <stdint.h>

/* Before any thread. False: this kernel, or a sanitizer, does not let them be counted. */
bool calls_prepare(void);
/* Of the calling thread, in *counter from now on. Output (write), and what ends the thread, is not counted. */
void calls_count(uint64_t *counter);

#endif
