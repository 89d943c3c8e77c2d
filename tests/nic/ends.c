#include "ends.h"

#include <sched.h>
#include <sys/mman.h>

#define PATIENCE_NS 20000000000ull

void need_nics(uint32_t count)
{
	uint32_t there;

	if (mrw_nic_count("", &there) != MARROW_SUCCESS || there < count) {
		printf("%u NICs are needed, %u are here: run this below marrow-softnic\n", count, there);
		exit(EXIT_SKIPPED);
	}
}

void end_open(struct end *end, uint32_t index, const struct mrw_nic_config *config)
{
	memset(end, 0, sizeof *end);
	CHECK_OK(mrw_nic_open(&end->nic, "", index, config));
	end->memory = mmap(NULL, END_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(end->memory != MAP_FAILED);
	CHECK_OK(mrw_region_new(end->nic, end->memory, END_BYTES, -1, &end->region));
}

void end_close(struct end *end)
{
	mrw_link_free(end->link);
	mrw_region_free(end->nic, &end->region);
	mrw_nic_close(end->nic);
	munmap(end->memory, END_BYTES);
	memset(end, 0, sizeof *end);
}

void ends_connect(struct end *a, struct end *b)
{
	struct mrw_link_address address_a, address_b;

	CHECK_OK(mrw_link_new(a->nic, 1, &a->queue, &a->link));
	CHECK_OK(mrw_link_new(b->nic, 0, &b->queue, &b->link));
	mrw_link_get_address(a->link, &address_a);
	mrw_link_get_address(b->link, &address_b);
	CHECK_OK(mrw_link_connect(a->link, &address_b));
	CHECK_OK(mrw_link_connect(b->link, &address_a));
}

uint64_t at(const struct end *end, uint64_t offset)
{
	return end->region.address + offset;
}

static bool reserve(struct end *end, uint32_t n, uint64_t *first)
{
	uint64_t until = mrw_clock_ns() + PATIENCE_NS;

	while (!mrw_post_reserve(&end->queue, n, first)) {
		if (mrw_load_relaxed(&end->queue.failed))
			return false;
		CHECK(mrw_clock_ns() < until);
		sched_yield();
	}
	return true;
}

bool put(struct end *end, const struct mrw_region *peer, uint64_t from, uint64_t to, uint32_t bytes, uint64_t flag,
	 uint64_t value, uint64_t *last)
{
	struct mrw_queue *q = &end->queue;
	uint64_t first;

	if (!reserve(end, 2, &first))
		return false;
	mrw_wqe_write(mrw_post_slot(q, first), first, q->qpn, false, peer->address + to, peer->rkey, at(end, from),
		      end->region.lkey, bytes);
	mrw_wqe_write_word(mrw_post_slot(q, first + 1), first + 1, q->qpn, true, peer->address + flag, peer->rkey,
			   value);
	mrw_post_ready(q, first, 2);
	*last = first + 1;
	return true;
}

bool wait_done(struct end *end, uint64_t last)
{
	uint64_t until = mrw_clock_ns() + PATIENCE_NS;

	while (!mrw_poll_done(&end->queue, last)) {
		if (mrw_load_relaxed(&end->queue.failed))
			return false;
		CHECK(mrw_clock_ns() < until);
		sched_yield();
	}
	return true;
}

bool wait_word(const struct end *end, uint64_t offset, uint64_t value)
{
	const uint64_t *word = (const uint64_t *)(const void *)(end->memory + offset);
	uint64_t until = mrw_clock_ns() + PATIENCE_NS;

	while (mrw_load_relaxed(word) != value) {
		if (mrw_clock_ns() > until)
			return false;
		sched_yield();
	}
	mrw_observed(word);
	return true;
}

struct mrw_nic_config config_of(const char *queues, uint32_t slots)
{
	struct mrw_nic_config config;

	mrw_nic_defaults(&config);
	if (slots)
		config.slots = slots;
	config.queues = !strncmp(queues, "devx", 4) ? MRW_QUEUES_DEVX
			: !strcmp(queues, "verbs")  ? MRW_QUEUES_VERBS
						    : MRW_QUEUES_AUTO;
	config.collapsed = strcmp(queues, "devx_ring") != 0;
	/* A resend after 2 ms, and seldom: tests wait for the end of it. */
	config.timeout = 9;
	config.retries = 3;
	return config;
}
