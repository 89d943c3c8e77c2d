/* kernel_posts.c - our way: the kernel writes the work requests, the doorbell record and the doorbell, and looks at completions. */
#include "transport.h"

static void *start(struct end *end, bool count)
{
	(void)count;
	return end;
}

static const char *trouble(void *self)
{
	const struct end *end = self;

	for (uint32_t p = 0; p < end->nranks; p++)
		if (end->peer[p].queue && mrw_load_relaxed(&end->peer[p].queue->failed))
			return mrw_syndrome_text(mrw_fault_syndrome(end->peer[p].queue->failed));
	return NULL;
}

static uint64_t send(void *self, const struct message *m)
{
	struct end *end = self;
	const struct end_peer *peer = &end->peer[m->peer];
	struct mrw_queue *q = peer->queue;
	uint64_t first;
	uint32_t looks = 0;

	while (!mrw_post_reserve(q, 2, &first)) {
		if (mrw_load_relaxed(&q->failed))
			end_die("%s", trouble(self));
		look_again(&looks, &kernel_yields);
	}
	mrw_wqe_write(mrw_post_slot(q, first), first, q->qpn, false, peer->address + m->to, peer->rkey, end->region.address + m->from,
		      end->region.lkey, m->bytes);
	mrw_wqe_write_word(mrw_post_slot(q, first + 1), first + 1, q->qpn, true, peer->address + m->flag, peer->rkey, m->value);
	mrw_post_ready(q, first, 2);
	return first + 1;
}

static bool sent(void *self, uint32_t peer, uint64_t number)
{
	const struct end *end = self;

	return mrw_poll_done(end->peer[peer].queue, number);
}

static void helper_usage(void *self, struct usage *usage)
{
	(void)self;
	*usage = (struct usage){0};
}

static void stop(void *self)
{
	(void)self;
}

const struct transport transport_kernel = {"kernel posts", MRW_QUEUES_AUTO, start, send, sent, trouble, helper_usage, stop};
