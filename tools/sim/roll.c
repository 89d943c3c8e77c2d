#include "roll.h"

#include <stdlib.h>
#include <string.h>

bool sim_roll_open(struct sim_roll *l, uint32_t nranks, bool on)
{
	bool ok = true;
	memset(l, 0, sizeof *l);
	l->on = on;
	l->nranks = nranks;
	l->words = (nranks + 63) / 64;
	for (uint32_t i = 0; on && i < SIM_ROLL_ROUNDS; i++)
		ok = ok && (l->known[i] = calloc(nranks * l->words, sizeof *l->known[i])) != NULL;
	if (on)
		ok = ok && (l->met = calloc(nranks * l->words, sizeof *l->met)) != NULL;
	return ok;
}

void sim_roll_close(struct sim_roll *l)
{
	for (uint32_t i = 0; i < SIM_ROLL_ROUNDS; i++)
		free(l->known[i]);
	free(l->met);
	memset(l, 0, sizeof *l);
}

static uint64_t *of(const struct sim_roll *l, uint32_t rank, uint64_t round)
{
	return &l->known[round % SIM_ROLL_ROUNDS][rank * l->words];
}

void sim_roll_enter(struct sim_roll *l, uint32_t rank, uint64_t round)
{
	uint64_t *known = of(l, rank, round);
	if (round > 0)
		memcpy(known, of(l, rank, round - 1), l->words * sizeof *known);
	known[rank / 64] |= 1ull << rank % 64;
}

void sim_roll_hear(struct sim_roll *l, uint32_t rank, uint64_t round, uint32_t peer, uint64_t of_round)
{
	uint64_t *known = of(l, rank, round);
	const uint64_t *told = of(l, peer, of_round);
	for (uint64_t i = 0; i < l->words; i++)
		known[i] |= told[i];
}

void sim_roll_meet(struct sim_roll *l, uint32_t rank, uint32_t peer)
{
	l->met[rank * l->words + peer / 64] |= 1ull << peer % 64;
}

uint32_t sim_roll_missing(const struct sim_roll *l, uint32_t rank, uint64_t rounds)
{
	for (uint32_t p = 0; p < l->nranks; p++) {
		uint64_t bit = 1ull << p % 64, word = l->met[rank * l->words + p / 64];
		if (rounds > 0)
			word |= of(l, rank, rounds - 1)[p / 64];
		if (p != rank && !(word & bit))
			return p;
	}
	return l->nranks;
}
