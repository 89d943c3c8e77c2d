/* ends.h - two ends of links, for the tests of the control plane below marrow-softnic. A check that fails ends the program. */
#ifndef ENDS_H
#define ENDS_H

#include "proxyless/nic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_SKIPPED = 77, END_BYTES = 1 << 20 };

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #condition, mrw_error_text()); \
			exit(1); \
		} \
	} while (0)
#define CHECK_OK(call) CHECK((call) == MARROW_SUCCESS)

/* A NIC, memory registered with it, and a link to some other end. */
struct end {
	struct mrw_nic *nic;
	struct mrw_queue queue;
	struct mrw_link *link;
	struct mrw_region region;
	uint8_t *memory;
	uint64_t rings;        /* memory that no CPU can touch: where the queue's rings are; 0: in the host's */
};

/* Exits with 77 if there are fewer NICs. */
void need_nics(uint32_t count);
/* Opens NIC number index (among all) and registers END_BYTES. The queue is not made yet. */
void end_open(struct end *end, uint32_t index, const struct mrw_nic_config *config);
void end_close(struct end *end);
/* Links made from now on have their rings in device memory of a CUDA driver that is none (softnic/test/fake_cuda.h; path is its library's): whatever
 * touches them but by copies dies of it. */
void end_place(struct end *end, const char *path);
/* Makes a link at each end and connects them. */
void ends_connect(struct end *a, struct end *b);

/* n requests from first on are written. */
void posted(struct end *end, uint64_t first, uint32_t n);

/* What the other end must know of a word or byte of ours. */
uint64_t at(const struct end *end, uint64_t offset);

/* Posts a write of bytes from offset `from` to offset `to` of the peer's memory, and behind it value to the word at flag. Waits up to
 * 10 s for room; false: the queue has failed. *last: WQEBB of the flag. */
bool put(struct end *end, const struct mrw_region *peer, uint64_t from, uint64_t to, uint32_t bytes, uint64_t flag, uint64_t value, uint64_t *last);
/* Waits up to 10 s. */
bool wait_done(struct end *end, uint64_t last);
bool wait_word(const struct end *end, uint64_t offset, uint64_t value);

/* Configuration from "devx", "devx_ring" (a ring of completions), "verbs" or "auto". slots 0: the default. */
struct mrw_nic_config config_of(const char *queues, uint32_t slots);

#endif
