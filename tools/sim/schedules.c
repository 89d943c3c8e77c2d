#include "schedules.h"

#include <stdio.h>
#include <string.h>

const struct sim_schedule *const sim_schedules[] = {&sim_oneshot,  &sim_twoshot, &sim_direct, &sim_railshot, &sim_rail,
							&sim_ring,     &sim_treering, &sim_treeshot, &sim_tree, &sim_lines, &sim_transfers};
const uint32_t sim_schedule_count = sizeof sim_schedules / sizeof sim_schedules[0];

const struct sim_schedule *sim_schedule_find(const char *name)
{
	for (uint32_t i = 0; i < sim_schedule_count; i++)
		if (strcmp(sim_schedules[i]->name, name) == 0)
			return sim_schedules[i];
	return NULL;
}

static const struct {
	uint32_t func;
	const char *name;
} funcs[] = {
	{MRW_FUNC_ALL_REDUCE, "all_reduce"}, {MRW_FUNC_ALL_GATHER, "all_gather"}, {MRW_FUNC_REDUCE_SCATTER, "reduce_scatter"},
	{MRW_FUNC_REDUCE_SCATTER_V, "reduce_scatter_v"}, {MRW_FUNC_BROADCAST, "broadcast"}, {MRW_FUNC_REDUCE, "reduce"},
	{MRW_FUNC_BARRIER, "barrier"}, {MRW_FUNC_ALL_TO_ALL, "all_to_all"}, {MRW_FUNC_ALL_TO_ALL_V, "all_to_all_v"},
	{MRW_FUNC_ALL_GATHER_V, "all_gather_v"}, {MRW_FUNC_GATHER, "gather"}, {MRW_FUNC_SCATTER, "scatter"},
	{MRW_FUNC_TRANSFERS, "send_recv"},
};
enum { FUNCS = sizeof funcs / sizeof funcs[0] };

const char *sim_func_name(uint32_t func)
{
	for (uint32_t i = 0; i < FUNCS; i++)
		if (funcs[i].func == func)
			return funcs[i].name;
	return "?";
}

uint32_t sim_func_find(const char *name)
{
	for (uint32_t i = 0; i < FUNCS; i++)
		if (strcmp(funcs[i].name, name) == 0)
			return funcs[i].func;
	return MRW_FUNC_END;
}

bool sim_func_has_counts(uint32_t func)
{
	return func == MRW_FUNC_REDUCE_SCATTER_V || func == MRW_FUNC_ALL_TO_ALL_V || func == MRW_FUNC_ALL_GATHER_V;
}

void sim_schedule_funcs(const struct sim_schedule *s, char *text, size_t room)
{
	size_t at = 0;
	text[0] = '\0';
	for (uint32_t i = 0; i < FUNCS; i++)
		if (s->has(funcs[i].func) && at < room)
			at += (size_t)snprintf(text + at, room - at, "%s%s", at ? ", " : "", funcs[i].name);
}
