#include "schedules.h"

#include <string.h>

const struct sim_schedule *const sim_schedules[] = {&sim_oneshot,  &sim_twoshot, &sim_direct, &sim_railshot, &sim_rail,
							&sim_ring,     &sim_treeshot, &sim_tree,  &sim_lines,  &sim_transfers};
const uint32_t sim_schedule_count = sizeof sim_schedules / sizeof sim_schedules[0];

const struct sim_schedule *sim_schedule_find(const char *name)
{
	for (uint32_t i = 0; i < sim_schedule_count; i++)
		if (strcmp(sim_schedules[i]->name, name) == 0)
			return sim_schedules[i];
	return NULL;
}
