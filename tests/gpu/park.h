/* park.h - holding all threads of another process but the engine of the model of a NIC. By ptrace: no thread can block it, as a signal. */
#ifndef TEST_PARK_H
#define TEST_PARK_H

#include <stdbool.h>
#include <sys/types.h>

#define PARK_ENGINE "softnic-engine"

/* A child of the caller. Every thread of it but the engine is held from now on. -1: why is on stderr; 1: this machine forbids it. */
int park(pid_t pid);
/* They go on. */
void unpark(pid_t pid);
/* Stopped or held: every thread, but the engine where there is one. threads, engines: how many there are. */
bool park_is_still(pid_t pid, unsigned *threads, unsigned *engines);

#endif
