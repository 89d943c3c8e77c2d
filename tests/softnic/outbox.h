/* outbox.h - answers on their way to other processes. An answer never waits for a link with the packet that it answers: two
 * processes whose links are full of requests would wait for each other. Lock held. */
#ifndef SN_OUTBOX_H
#define SN_OUTBOX_H

#include "link.h"

/* Sends head and head->bytes of payload, now or as soon as the link has room. */
void sn_outbox_send(uint32_t process, const struct sn_packet_head *head, const void *payload);
/* Nothing waits for that process, and its link has room? */
bool sn_outbox_has_room(uint32_t process);
/* Sends what waits. Returns whether anything went. */
bool sn_outbox_run(void);

#endif
