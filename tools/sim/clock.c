#include "clock.h"

#include <stdlib.h>
#include <string.h>

bool sim_clock_open(struct sim_clock *c, uint32_t numbers, double width_ns)
{
	memset(c, 0, sizeof *c);
	c->width = width_ns;
	c->next = calloc(numbers, sizeof *c->next);
	c->at = calloc(numbers, sizeof *c->at);
	c->later = calloc(numbers, sizeof *c->later);
	return c->next && c->at && c->later;
}

void sim_clock_close(struct sim_clock *c)
{
	free(c->next);
	free(c->at);
	free(c->later);
	memset(c, 0, sizeof *c);
}

static void append(struct sim_clock *c, uint32_t number, uint64_t bucket)
{
	uint32_t b = bucket % SIM_BUCKETS;
	c->next[number] = 0;
	if (c->head[b])
		c->next[c->tail[b] - 1] = number + 1;
	else
		c->head[b] = number + 1;
	c->tail[b] = number + 1;
	c->near++;
}

void sim_clock_put(struct sim_clock *c, uint32_t number, double at_ns)
{
	uint64_t bucket = (uint64_t)(at_ns / c->width);
	c->at[number] = at_ns;
	if (bucket < c->now)
		bucket = c->now;
	if (bucket - c->now >= SIM_BUCKETS)
		c->later[c->far++] = number;
	else
		append(c, number, bucket);
}

/* The ring is empty: goes on to the first of those beyond it. */
static void jump(struct sim_clock *c)
{
	uint64_t count = c->far;
	double first = c->at[c->later[0]];
	for (uint64_t i = 1; i < count; i++)
		first = c->at[c->later[i]] < first ? c->at[c->later[i]] : first;
	c->now = (uint64_t)(first / c->width);
	c->far = 0;
	for (uint64_t i = 0; i < count; i++)
		sim_clock_put(c, c->later[i], c->at[c->later[i]]);
}

/* Those beyond the ring that it reaches by now; looked at once a turn of the ring, before their time comes. */
static void pull(struct sim_clock *c)
{
	uint64_t count = c->far;
	c->far = 0;
	for (uint64_t i = 0; i < count; i++)
		sim_clock_put(c, c->later[i], c->at[c->later[i]]);
}

bool sim_clock_take(struct sim_clock *c, uint32_t *number, double *at_ns)
{
	if (c->near == 0) {
		if (c->far == 0)
			return false;
		jump(c);
	}
	while (!c->head[c->now % SIM_BUCKETS]) {
		c->now++;
		if (c->far && c->now % (SIM_BUCKETS / 2) == 0)
			pull(c);
	}
	uint32_t b = c->now % SIM_BUCKETS, r = c->head[b] - 1;
	c->head[b] = c->next[r];
	c->near--;
	*number = r;
	*at_ns = c->at[r];
	return true;
}
