#include "hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t number(const char *name, uint32_t fallback)
{
	const char *text = getenv(name);
	unsigned long n = text ? strtoul(text, NULL, 10) : 0;
	return n > 0 && n <= 64 ? (uint32_t)n : fallback;
}

uint32_t hosts_count(uint32_t nranks)
{
	uint32_t hosts = number("MARROW_TEST_HOSTS", 1);
	return hosts < nranks ? hosts : nranks;
}

uint32_t hosts_of(uint32_t rank, uint32_t nranks)
{
	const char *order = getenv("MARROW_TEST_ORDER");
	uint32_t hosts = hosts_count(nranks);
	return order && strcmp(order, "cyclic") == 0 ? rank % hosts : rank * hosts / nranks;
}

void hosts_place(struct hosts_place *place, uint32_t rank, uint32_t nranks, struct marrow_config *config)
{
	uint32_t host = hosts_of(rank, nranks), nics = number("MARROW_TEST_NICS", 1);
	if (hosts_count(nranks) == 1)
		return;
	snprintf(place->host_id, sizeof place->host_id, "host%u", host);
	place->nics[0] = 0;
	for (uint32_t i = 0; i < nics; i++) {
		size_t used = strlen(place->nics);
		snprintf(place->nics + used, sizeof place->nics - used, "%smlx5_%u", i ? "," : "", host * nics + i);
	}
	config->host_id = place->host_id;
	config->nics = place->nics;
}
