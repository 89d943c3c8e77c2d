/* fault.h - misfortune to order: MARROW_SOFTNIC_FAULTS, and the dice that all of it is thrown with.
 *
 * A list of "name", "name=value" or "name=value@n", each with filters "/rank=R", "/host=ID", "/nic=K" behind it; README.md has
 * the table. Dice are hashes of the seed and of *what* is decided (queue pair, WQE, packet), never of when: the same program with
 * the same seed meets the same faults, however its threads are scheduled. */
#ifndef SN_FAULT_H
#define SN_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/* X(id, "name", value if none is given, what happens). */
#define SN_FAULT_LIST(X) \
	X(REORDER, "reorder", 50, \
	  "with this percentage: chunks of a message, and lines of a chunk, land out of order; so do whole messages if one " \
	  "of two goes to relaxed-ordering memory; never past atomics") \
	X(INTERLEAVE, "interleave", 50, "with this percentage a queue pair that could go on is passed over") \
	X(LATE, "late", 200, "a doorbell is looked at up to this many microseconds later") \
	X(EAGER, "eager", 1, "WQEs are executed as soon as the record names them, before any doorbell") \
	X(DELAY, "delay", 200, "completions are written up to this many microseconds late") \
	X(COALESCE, "coalesce", 4, \
	  "completions are held until there are this many (or 1 ms has passed); a collapsed queue shows the last one only") \
	X(TORN, "torn", 20, "a completion is written in pieces, this many microseconds in all, op_own last") \
	X(DROP_DOORBELL, "drop_doorbell", 10, "this percentage of doorbells is lost") \
	X(MERGE, "merge", 100, "the registers are looked at every so many microseconds only: doorbells merge") \
	X(ERROR, "error", 0x02, "the @n-th WQE of a queue pair completes with this syndrome") \
	X(DIE, "die", 9, "the process kills itself with this signal when it comes to its @n-th WQE") \
	X(VANISH, "vanish", 1, "the NIC vanishes at its @n-th WQE: it answers nobody, IBV_EVENT_DEVICE_FATAL is raised") \
	X(MR_GONE, "mr_gone", 1, "the memory region that the @n-th arriving message names is invalid from then on") \
	X(RATE, "rate", 100, "the NIC sends at most this many megabytes a second") \
	X(POISON, "poison", 0xdb, "consumed WQEs are overwritten with this byte just before their completion is shown")

enum sn_fault {
#define SN_X(id, name, fallback, meaning) SN_FAULT_##id,
	SN_FAULT_LIST(SN_X)
#undef SN_X
	SN_FAULT_COUNT
};

const char *sn_fault_name(enum sn_fault fault);
const char *sn_fault_meaning(enum sn_fault fault);
/* Reads the list for a process of that rank (-1: none). 0, or -1 with a message printed. NULL or "": no faults. */
int sn_fault_setup(const char *list, int rank);
/* Value of a fault on a NIC: 0 = not asked for. host: its id; nic: number within the host. */
uint64_t sn_fault_value(enum sn_fault fault, const char *host, uint32_t nic);
/* Its "@n", 0 if there is none. */
uint64_t sn_fault_nth(enum sn_fault fault, const char *host, uint32_t nic);
/* Any fault at all, of this kind, on any NIC? */
bool sn_fault_any(enum sn_fault fault);
/* Mixes a and b. */
uint64_t sn_fault_hash(uint64_t a, uint64_t b);
/* A number for this fault and this event, drawn from the seed. Never 0. */
uint64_t sn_fault_dice(enum sn_fault fault, uint64_t who, uint64_t what);

#endif
