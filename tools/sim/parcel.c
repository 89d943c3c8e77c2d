#include "parcel.h"

#include <stdlib.h>
#include <string.h>

static bool make_room(struct sim_parcel *p)
{
	uint32_t room = p->puts_room ? 2 * p->puts_room : 4;
	if (p->puts < p->puts_room)
		return true;
	struct sim_put *put = realloc(p->put, room * sizeof *put);
	if (!put)
		return false;
	p->put = put;
	p->puts_room = room;
	return true;
}

bool sim_parcel_fetch(struct sim_parcel *p, uint8_t *at, const uint8_t *source, uint32_t bytes)
{
	if (!make_room(p))
		return false;
	p->put[p->puts++] = (struct sim_put){at, source, bytes, 0};
	return true;
}

bool sim_parcel_add(struct sim_parcel *p, uint8_t *at, const void *data, uint32_t bytes)
{
	if (!make_room(p))
		return false;
	if (p->data_room - p->used < bytes) {
		uint32_t room = 2 * (p->used + bytes);
		uint8_t *more = realloc(p->data, room);
		if (!more)
			return false;
		p->data = more;
		p->data_room = room;
	}
	memcpy(p->data + p->used, data, bytes);
	p->put[p->puts++] = (struct sim_put){at, NULL, bytes, p->used};
	p->used += bytes;
	return true;
}

void sim_parcel_deliver(const struct sim_parcel *p)
{
	for (uint32_t i = 0; i < p->puts; i++)
		memcpy(p->put[i].at, p->put[i].source ? p->put[i].source : p->data + p->put[i].from, p->put[i].bytes);
}

void sim_parcel_clear(struct sim_parcel *p)
{
	struct sim_parcel kept = *p;
	memset(p, 0, sizeof *p);
	p->put = kept.put;
	p->puts_room = kept.puts_room;
	p->data = kept.data;
	p->data_room = kept.data_room;
}
