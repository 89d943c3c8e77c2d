#include "uar.h"

#include <endian.h>
#include <errno.h>
#include <sys/mman.h>

enum { UARS_MAX = 4096 };

static struct sn_uar uars[UARS_MAX];
static uint32_t uars_used = 1;
/* All pages lie from lowest to below highest. */
static _Atomic uintptr_t lowest = UINTPTR_MAX, highest;

uint32_t sn_uar_alloc(struct sn_context *context)
{
	for (uint32_t i = 1; i < UARS_MAX; i++) {
		if (!uars[i].context && !uars[i].page) {
			uars[i].context = context;
			uars[i].watched = false;
			if (uars_used <= i)
				uars_used = i + 1;
			return i;
		}
	}
	return 0;
}

int sn_uar_free(uint32_t number)
{
	if (number == 0 || number >= UARS_MAX || !uars[number].context)
		return EINVAL;
	uars[number].context = NULL;
	return 0;
}

bool sn_uar_exists(const struct sn_context *context, uint32_t number)
{
	return number != 0 && number < UARS_MAX && uars[number].context == context;
}

void *sn_uar_map(const struct sn_context *context, uint32_t number)
{
	void *page;

	if (!sn_uar_exists(context, number) || uars[number].page) {
		errno = EINVAL;
		return MAP_FAILED;
	}
	page = mmap(NULL, SN_UAR_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return page;
	uars[number].page = page;
	if ((uintptr_t)page < lowest)
		lowest = (uintptr_t)page;
	if ((uintptr_t)page + SN_UAR_BYTES > highest)
		highest = (uintptr_t)page + SN_UAR_BYTES;
	return page;
}

void sn_uar_watch(const struct sn_context *context, uint32_t number)
{
	for (uint32_t i = 1; i < uars_used; i++)
		if (uars[i].context == context && (number == 0 || number == i))
			uars[i].watched = true;
}

bool sn_uar_within(const void *start, size_t bytes)
{
	return (uintptr_t)start < highest && (uintptr_t)start + bytes > lowest;
}

void sn_uar_unmap(const void *start, size_t bytes)
{
	const uint8_t *begin = start;

	for (uint32_t i = 1; i < uars_used; i++)
		if (uars[i].page && uars[i].page >= begin && uars[i].page < begin + bytes)
			uars[i].page = NULL;
}

void sn_uar_release(const struct sn_context *context)
{
	for (uint32_t i = 1; i < uars_used; i++)
		if (uars[i].context == context)
			uars[i].context = NULL;
}

uint32_t sn_uar_poll(sn_uar_rung *rung, void *arg)
{
	static const uint16_t offsets[] = {SN_UAR_ARM, SN_UAR_RECORDLESS, 0x800, 0x900, 0xa00, 0xb00};
	uint32_t found = 0;

	for (uint32_t i = 1; i < uars_used; i++) {
		if (!uars[i].page || !uars[i].watched)
			continue;
		for (size_t k = 0; k < sizeof(offsets) / sizeof(offsets[0]); k++) {
			uint64_t *bell = (uint64_t *)(void *)(uars[i].page + offsets[k]), value;
			uint32_t half[2];

			if (!__atomic_load_n(bell, __ATOMIC_RELAXED))
				continue;
			/* Acquire pairs with the program's release of the doorbell. */
			value = __atomic_exchange_n(bell, 0, __ATOMIC_ACQ_REL);
			__builtin_memcpy(half, &value, sizeof(half));
			rung(arg, i, offsets[k], be32toh(half[0]), be32toh(half[1]));
			found++;
		}
	}
	return found;
}
