/* A NIC vanishes (fault vanish@5): nothing completes any more, and the asynchronous event comes. */
#include "rig.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	struct rig_port a, b;
	struct rig_queue q, p;
	struct ibv_async_event event;
	struct pollfd wait = {.events = POLLIN};
	int done = 0;

	rig_open(&a, 0);
	rig_open(&b, 1);
	rig_make(&q, &a, RIG_DEVX, 64);
	rig_make(&p, &b, RIG_DEVX, 64);
	rig_connect_pair(&q, &p);
	while (done < 10) {
		rig_control(&q, 0x00, 0, 1, true);
		rig_ring(&q);
		if (rig_wait(&q, 0.5))
			break;
		done++;
	}
	RIG_CHECK(done == 4);
	wait.fd = a.context->async_fd;
	RIG_CHECK(poll(&wait, 1, 5000) == 1);
	RIG_CHECK(!ibv_get_async_event(a.context, &event) && event.event_type == IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(&event);
	rig_destroy(&q);
	rig_destroy(&p);
	rig_close(&a);
	rig_close(&b);
	return 0;
}
