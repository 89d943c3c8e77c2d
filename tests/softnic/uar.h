/* uar.h - doorbell pages. A page is plain memory of the program; the model polls its registers and takes what it finds.
 *
 * Registers: 0x600 (queue pairs without a record), 0x800 and 0xa00 (each with a second half 0x100 further on, which BlueFlame
 * writers alternate with), 0x020 (completion queues: arming). A store that comes before the model has looked replaces the one
 * before it, which no real register does; so a doorbell makes the model look at all queue pairs of the page. The page must be polled
 * at the address where the program writes it: a race checker knows addresses, not pages. */
#ifndef SN_UAR_H
#define SN_UAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SN_UAR_BYTES = 4096, SN_UAR_RECORDLESS = 0x600, SN_UAR_ARM = 0x020 };

struct sn_context;

struct sn_uar {
	struct sn_context *context;
	uint8_t *page;             /* NULL until the program has mapped it */
	bool watched;
};

/* Number of a new page (also its handle); 0: none left. */
uint32_t sn_uar_alloc(struct sn_context *context);
int sn_uar_free(uint32_t number);
bool sn_uar_exists(const struct sn_context *context, uint32_t number);
/* The program's mmap of a page: MAP_FAILED with errno if there is no such page or it is mapped already. */
void *sn_uar_map(const struct sn_context *context, uint32_t number);
/* A queue uses the page: polled from now on. Not earlier: below a sanitizer mmap() is not over when the hook returns. 0: a queue
 * that does not say which; then all pages of its context. */
void sn_uar_watch(const struct sn_context *context, uint32_t number);
/* Might there be a page in this range? Cheap, without lock: asked at each munmap() of the program. */
bool sn_uar_within(const void *start, size_t bytes);
/* The program unmaps this range: pages within are polled no more. */
void sn_uar_unmap(const void *start, size_t bytes);
void sn_uar_release(const struct sn_context *context);

/* Takes every doorbell that is there. Returns how many. */
typedef void sn_uar_rung(void *arg, uint32_t number, uint32_t offset, uint32_t first, uint32_t second);
uint32_t sn_uar_poll(sn_uar_rung *rung, void *arg);

#endif
