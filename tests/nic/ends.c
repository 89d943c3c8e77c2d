#include "ends.h"

#include "../softnic/test/fake_cuda.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/mman.h>

#define PATIENCE_NS 20000000000ull
enum { LINKS = 2 };

static struct {
	fake_cuda_alloc *alloc;
	int (*host_to_device)(uint64_t to, const void *from, size_t bytes, void *stream);
	int (*device_to_host)(void *to, uint64_t from, size_t bytes, void *stream);
	int (*synchronize)(void *stream);
} cuda;

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

static void find(void *library, const char *name, void *to)
{
	void *found = dlsym(library, name);

	CHECK(found);
	memcpy(to, &found, sizeof found);
}

static enum marrow_status copy(void *arg, void *to, const void *from, uint64_t bytes)
{
	struct end *end = arg;
	uint64_t size = LINKS * mrw_nic_queue_bytes(end->nic), a = (uintptr_t)to, b = (uintptr_t)from;

	if (a - end->rings < size)
		CHECK(!cuda.host_to_device(a, from, bytes, end));
	else
		CHECK(b - end->rings < size && !cuda.device_to_host(to, b, bytes, end));
	CHECK(!cuda.synchronize(end));
	return MARROW_SUCCESS;
}

void end_place(struct end *end, const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	struct mrw_queue_memory m = {.dmabuf_fd = -1, .copy = copy, .arg = end};

	CHECK(library);
	find(library, "fake_alloc", &cuda.alloc);
	find(library, "cuMemcpyHtoDAsync_v2", &cuda.host_to_device);
	find(library, "cuMemcpyDtoHAsync_v2", &cuda.device_to_host);
	find(library, "cuStreamSynchronize", &cuda.synchronize);
	m.bytes = LINKS * mrw_nic_queue_bytes(end->nic);
	end->rings = cuda.alloc(m.bytes, 0);
	m.base = (uint8_t *)(uintptr_t)end->rings;
	setenv("MARROW_SOFTNIC_REFUSE", "peermem", 1);
	CHECK(mrw_nic_place_queues(end->nic, &m) == MARROW_SYSTEM_ERROR && strstr(mrw_error_text(), "nvidia-peermem"));
	unsetenv("MARROW_SOFTNIC_REFUSE");
	m.dmabuf_fd = 0;
	CHECK(mrw_nic_place_queues(end->nic, &m) == MARROW_SYSTEM_ERROR && strstr(mrw_error_text(), "by dma-buf failed"));
	m.dmabuf_fd = -1;
	CHECK_OK(mrw_nic_place_queues(end->nic, &m));
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

void posted(struct end *end, uint64_t first, uint32_t n)
{
	mrw_post_ready(&end->queue, first, n);
	CHECK_OK(mrw_link_push(end->link));
}

static bool reserve(struct end *end, uint32_t n, uint64_t *first)
{
	uint64_t until = mrw_clock_ns() + PATIENCE_NS;

	while (!mrw_post_reserve(&end->queue, n, first)) {
		if (mrw_load_relaxed(&end->queue.failed))
			return false;
		CHECK(mrw_clock_ns() < until);
		sched_yield();
		CHECK_OK(mrw_link_pull(end->link));
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
	posted(end, first, 2);
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
		CHECK_OK(mrw_link_pull(end->link));
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
