/* agenda.h - events of any number, taken in the order of time, those of one moment in the order in which they came: a heap. clock.h is for many
 * that are alike. */
#ifndef SIM_AGENDA_H
#define SIM_AGENDA_H

#include <stdbool.h>
#include <stdint.h>

struct sim_event {
	double at;
	uint64_t order;
	uint32_t kind, number;
};

struct sim_agenda {
	struct sim_event *heap;
	uint32_t count, room;
	uint64_t orders;
};

/* False: no memory. */
bool sim_agenda_put(struct sim_agenda *a, double at, uint32_t kind, uint32_t number);
/* False: nothing is left. */
bool sim_agenda_take(struct sim_agenda *a, struct sim_event *e);
void sim_agenda_close(struct sim_agenda *a);

#endif
