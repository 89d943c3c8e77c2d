/* engine.h - the thread that is the NICs of this process, and the lock that it shares with the kernel interface. */
#ifndef SN_ENGINE_H
#define SN_ENGINE_H

#include "fabric.h"

/* Joins the fabric and starts the thread "softnic-engine"; nothing if it runs. 0, or -1 with a message printed. Lock held. */
int sn_engine_start(void);
/* Stops and joins it (at exit, or before the fabric goes). */
void sn_engine_stop(void);
/* Takes the doorbells that were rung until now: before a queue pair goes, its are no mistake yet. Lock held. */
void sn_engine_take_doorbells(void);
/* In a child after fork: the engine did not come along. */
void sn_engine_forked(void);
/* The kernel interface's side of the lock: the engine steps back. */
void sn_engine_lock(void);
void sn_engine_unlock(void);

/* The fabric of this process (made or opened by shim.c before anything else), and this process's number in it. */
extern struct sn_fabric_mapping sn_fabric;
extern uint32_t sn_self;

#endif
