/* terms.c - terms compared and put into words. */
#include "terms.h"

#include "collectives/select.h"

#include <stdio.h>

static const char *const names[MRW_TERM_COUNT] = {
#define MRW_X(id, name, remedy) name,
	MRW_TERM_LIST(MRW_X)
#undef MRW_X
};
static const char *const remedies[MRW_TERM_COUNT] = {
#define MRW_X(id, name, remedy) remedy,
	MRW_TERM_LIST(MRW_X)
#undef MRW_X
};

bool mrw_terms_differ(const struct mrw_terms *all, uint32_t nranks, uint32_t *rank, enum mrw_term *term)
{
	for (*rank = 1; *rank < nranks; (*rank)++)
		for (uint32_t t = 0; t < MRW_TERM_COUNT; t++)
			if (all[*rank].value[t] != all[0].value[t]) {
				*term = (enum mrw_term)t;
				return true;
			}
	return false;
}

/* "MARROW_ALGO=ring", "no MARROW_ALGO", "target cuda". */
static void value_text(enum mrw_term term, uint64_t value, char *text, size_t bytes)
{
	switch (term) {
	case MRW_TERM_TARGET:
		snprintf(text, bytes, "%s %s", names[term], value == MARROW_TARGET_CUDA ? "cuda" : "host");
		break;
	case MRW_TERM_ALGO:
		if ((int64_t)value < 0)
			snprintf(text, bytes, "no %s", names[term]);
		else
			snprintf(text, bytes, "%s=%s", names[term], mrw_algo_name((enum mrw_algo)value));
		break;
	case MRW_TERM_TUNING:
		if (value == 0)
			snprintf(text, bytes, "no %s", names[term]);
		else
			snprintf(text, bytes, "%s table %016llx", names[term], (unsigned long long)value);
		break;
	case MRW_TERM_LAYOUT:
	case MRW_TERM_CHOICES:
		snprintf(text, bytes, "%s %016llx", names[term], (unsigned long long)value);
		break;
	default:
		snprintf(text, bytes, "%s %llu", names[term], (unsigned long long)value);
	}
}

void mrw_terms_text(const struct mrw_terms *mine, const struct mrw_terms *of_zero, enum mrw_term term, const char *name, const char *zero,
		    char *text, size_t bytes)
{
	char here[96], there[96];
	value_text(term, mine->value[term], here, sizeof here);
	value_text(term, of_zero->value[term], there, sizeof there);
	snprintf(text, bytes, "%s has %s, %s has %s: %s", name, here, zero, there, remedies[term]);
}

uint64_t mrw_terms_digest(uint64_t digest, const void *bytes, size_t count)
{
	const uint8_t *p = bytes;
	uint64_t h = digest ? digest : 0xcbf29ce484222325u;
	for (size_t i = 0; i < count; i++)
		h = (h ^ p[i]) * 0x100000001b3u;
	h ^= h >> 32;
	return h ? h : 1;
}
