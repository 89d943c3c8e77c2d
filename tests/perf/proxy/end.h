/* end.h - one rank's end of the comparison: its NIC, the memory that peers write, a queue pair to each peer. Made by the library's control
 * plane for both transports alike. What goes wrong ends the program with words: nothing here goes on after a failure. */
#ifndef PROXY_END_H
#define PROXY_END_H

#include "proxyless/nic.h"

enum { END_RANKS = 8, END_WORDS = 64 };

struct end_peer {
	struct mrw_link *link; /* NULL: this rank itself */
	struct mrw_queue *queue;
	uint64_t address;      /* of its memory */
	uint32_t rkey;
};

struct end {
	uint32_t rank, nranks;
	struct mrw_nic *nic;
	uint8_t *memory; /* see end_source() and so on */
	uint64_t room;   /* bytes of a message at most */
	struct mrw_region region;
	struct mrw_queue *queues;
	struct end_peer peer[END_RANKS];
};

/* Below a launcher (MARROW_RANK, MARROW_NRANKS, MARROW_ROOT): meets the others. Once a process. */
void ends_meet(uint32_t *rank, uint32_t *nranks);
/* Outside of what is measured. */
void ends_barrier(void);
void ends_gather(const void *mine, void *all, size_t bytes);
void ends_part(void);

/* Together with the other ranks. */
void end_open(struct end *end, uint64_t room, enum mrw_queues queues);
void end_close(struct end *end);

/* Places in everybody's memory, as offsets: two sources (by parity of the message), two slots for each sender, its flag, and words that a transport may
 * send its flags from. */
uint64_t end_source(const struct end *end, uint64_t seq);
uint64_t end_slot(const struct end *end, uint32_t sender, uint64_t seq);
uint64_t end_flag(const struct end *end, uint32_t sender);
uint64_t end_word(const struct end *end, uint32_t peer, uint64_t number);

void end_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
