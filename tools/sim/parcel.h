/* parcel.h - what one step of a lane puts into a peer's arena, on its way there. */
#ifndef SIM_PARCEL_H
#define SIM_PARCEL_H

#include <stdbool.h>
#include <stdint.h>

struct mrw_queue;

struct sim_put {
	uint8_t *at;
	const uint8_t *source; /* what lies there when it arrives: a NIC may read so late; NULL: what the parcel has */
	uint32_t bytes, from;  /* from: in the parcel's data */
};

struct sim_parcel {
	uint32_t src, dst, lane, way, requests, team; /* way: of the lane that took the step; team: whose */
	uint64_t bytes;
	struct mrw_queue *queue; /* by which it goes to another host, up to request number behind; NULL: within the host */
	uint64_t behind;
	struct sim_put *put;
	uint8_t *data;
	uint32_t puts, puts_room, used, data_room;
};

/* bytes more, to be stored at. False: no memory. */
bool sim_parcel_add(struct sim_parcel *p, uint8_t *at, const void *data, uint32_t bytes);
/* The same of what a NIC fetches. */
bool sim_parcel_fetch(struct sim_parcel *p, uint8_t *at, const uint8_t *source, uint32_t bytes);
/* Stores all of it, in order. */
void sim_parcel_deliver(const struct sim_parcel *p);
/* Empty again, its memory kept. */
void sim_parcel_clear(struct sim_parcel *p);

#endif
