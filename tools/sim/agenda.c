#include "agenda.h"

#include <stdlib.h>
#include <string.h>

static bool before(const struct sim_event *x, const struct sim_event *y)
{
	return x->at < y->at || (x->at <= y->at && x->order < y->order);
}

bool sim_agenda_put(struct sim_agenda *a, double at, uint32_t kind, uint32_t number)
{
	if (a->count == a->room) {
		uint32_t room = a->room ? 2 * a->room : 1024;
		struct sim_event *heap = realloc(a->heap, room * sizeof *heap);
		if (!heap)
			return false;
		a->heap = heap;
		a->room = room;
	}
	struct sim_event e = {at, a->orders++, kind, number};
	uint32_t i = a->count++;
	for (; i > 0 && before(&e, &a->heap[(i - 1) / 2]); i = (i - 1) / 2)
		a->heap[i] = a->heap[(i - 1) / 2];
	a->heap[i] = e;
	return true;
}

bool sim_agenda_take(struct sim_agenda *a, struct sim_event *e)
{
	if (a->count == 0)
		return false;
	*e = a->heap[0];
	struct sim_event last = a->heap[--a->count];
	uint32_t i = 0;
	for (uint32_t child; (child = 2 * i + 1) < a->count; i = child) {
		if (child + 1 < a->count && before(&a->heap[child + 1], &a->heap[child]))
			child++;
		if (!before(&a->heap[child], &last))
			break;
		a->heap[i] = a->heap[child];
	}
	a->heap[i] = last;
	return true;
}

void sim_agenda_close(struct sim_agenda *a)
{
	free(a->heap);
	memset(a, 0, sizeof *a);
}
