#include "outbox.h"
#include "engine.h"

#include <stdlib.h>

struct letter {
	struct letter *next;
	struct sn_packet_head head;
	uint8_t payload[];
};

static struct {
	struct letter *first, **last;
} boxes[SN_PROCESSES_MAX];

static bool try(uint32_t process, const struct sn_packet_head *head, const void *payload)
{
	struct sn_link *link = &sn_fabric.fabric->link[process][sn_self];
	struct sn_packet *packet = sn_link_reserve(link);

	if (!packet)
		return false;
	packet->head = *head;
	if (head->bytes)
		memcpy(packet->payload, payload, head->bytes);
	sn_link_send(link);
	return true;
}

void sn_outbox_send(uint32_t process, const struct sn_packet_head *head, const void *payload)
{
	struct letter *letter;

	if (!boxes[process].first && try(process, head, payload))
		return;
	letter = malloc(sizeof(*letter) + head->bytes);
	if (!letter)
		abort();
	letter->next = NULL;
	letter->head = *head;
	if (head->bytes)
		memcpy(letter->payload, payload, head->bytes);
	if (!boxes[process].first)
		boxes[process].last = &boxes[process].first;
	*boxes[process].last = letter;
	boxes[process].last = &letter->next;
}

bool sn_outbox_has_room(uint32_t process)
{
	return !boxes[process].first && sn_link_reserve(&sn_fabric.fabric->link[process][sn_self]);
}

bool sn_outbox_run(void)
{
	bool any = false;

	for (uint32_t i = 0; i < SN_PROCESSES_MAX; i++) {
		bool alive = !boxes[i].first || sn_fabric_alive(&sn_fabric, i, sn_self);

		while (boxes[i].first && (!alive || try(i, &boxes[i].first->head, boxes[i].first->payload))) {
			struct letter *letter = boxes[i].first;

			boxes[i].first = letter->next;
			free(letter);
			any = true;
		}
	}
	return any;
}
