/* links.c - one process, two NICs, links between them made in each way: data and flags both ways, every kind of request, more requests
 * than 16 bits count through a small ring, a wrong key, and everything taken apart again. Arguments: devx,
 * devx_ring, verbs or auto; infiniband, or a library with device memory for the rings (end_place()). */
#include "ends.h"

#include <sched.h>

enum {
	FLAG = END_BYTES - 4096,
	RESULT = END_BYTES - 2048,
	WORD = END_BYTES - 1024,
	DATA = END_BYTES / 2,
	SLOTS = 64,
	MANY = 70000
};

static const char *queues;

static uint64_t *word(const struct end *end, uint64_t offset)
{
	return (uint64_t *)(void *)(end->memory + offset);
}

static void info_says_what_is_there(const struct end *end, bool infiniband)
{
	struct mrw_nic_info info;

	mrw_nic_get_info(end->nic, &info);
	CHECK(!strncmp(info.name, "mlx5_", 5));
	CHECK(info.port == 1 && info.mtu == 4096 && info.speed_gbit == 200 && info.max_queues > 0);
	CHECK(info.infiniband == infiniband && (info.lid != 0) == infiniband);
	CHECK(info.devx == (strcmp(queues, "verbs") != 0));
	if (!infiniband) /* IPv4-mapped */
		CHECK(info.gid[10] == 0xff && info.gid[11] == 0xff);
	bool collapsed = info.devx && strcmp(queues, "devx_ring");

	CHECK((end->queue.cq_slots == 1) == collapsed && end->queue.slots >= SLOTS);
	CHECK((end->queue.cq_record == NULL) == collapsed);
	CHECK(mrw_nic_trouble(end->nic) == NULL);
}

static void memory_is_in_whole_pages(const struct end *end)
{
	struct mrw_link_memory m;

	mrw_link_get_memory(end->link, &m);
	if (end->rings) {
		struct mrw_queue q;

		mrw_link_get_queue(end->link, &q);
		CHECK(mrw_link_is_placed(end->link) && m.sq.bytes + m.record.bytes + m.cq.bytes + m.cq_record.bytes == 0 && m.doorbell.bytes == 4096);
		CHECK((uintptr_t)q.sq == end->rings && (uintptr_t)q.record == end->rings + 4096 + 4 && (uintptr_t)q.cq == end->rings + 8192);
		CHECK(q.cq_record == (end->queue.cq_record ? (uint32_t *)(uintptr_t)(end->rings + 12288) : NULL));
		CHECK((uint8_t *)q.doorbell - (uint8_t *)m.doorbell.base < 4096 && q.qpn == end->queue.qpn);
		return;
	}
	CHECK(((uintptr_t)m.sq.base | (uintptr_t)m.record.base | (uintptr_t)m.cq.base | (uintptr_t)m.doorbell.base) %
		      4096 ==
	      0);
	CHECK((m.cq_record.bytes != 0) == (end->queue.cq_record != NULL));
	CHECK(m.sq.bytes >= (uint64_t)end->queue.slots * 64 && m.record.bytes % 4096 == 0 && m.doorbell.bytes == 4096);
	CHECK((uint8_t *)end->queue.doorbell >= (uint8_t *)m.doorbell.base &&
	      (uint8_t *)end->queue.doorbell < (uint8_t *)m.doorbell.base + 4096);
	CHECK((uint8_t *)end->queue.record >= (uint8_t *)m.record.base &&
	      (uint8_t *)end->queue.record < (uint8_t *)m.record.base + m.record.bytes);
}

/* Data is there when its flag is, in both directions at once. */
static void data_before_flag(struct end *a, struct end *b)
{
	static const uint32_t sizes[] = {1, 8, 4095, 4096, 4097, 100000, DATA - 8192};

	for (uint32_t round = 1; round <= 21; round++) {
		uint32_t bytes = sizes[round % 7];
		uint64_t last_a, last_b;

		for (uint32_t i = 0; i < bytes; i++) {
			a->memory[i] = (uint8_t)(i * 7 + round);
			b->memory[i] = (uint8_t)(i * 5 + round);
		}
		CHECK(put(a, &b->region, 0, DATA, bytes, FLAG, round, &last_a));
		CHECK(put(b, &a->region, 0, DATA, bytes, FLAG, round, &last_b));
		CHECK(wait_word(a, FLAG, round) && wait_word(b, FLAG, round));
		CHECK(!memcmp(a->memory + DATA, b->memory, bytes) && !memcmp(b->memory + DATA, a->memory, bytes));
		CHECK(wait_done(a, last_a) && wait_done(b, last_b));
	}
}

/* Room for n WQEBBs. */
static uint64_t room(struct end *end, uint32_t n)
{
	uint64_t first, until = mrw_clock_ns() + 10000000000ull;

	while (!mrw_post_reserve(&end->queue, n, &first)) {
		CHECK(!end->queue.failed && mrw_clock_ns() < until);
		sched_yield();
		CHECK_OK(mrw_link_pull(end->link));
	}
	return first;
}

#define SLOT(i) mrw_post_slot(q, i), i, q->qpn, true
#define THERE b->region.address + WORD, b->region.rkey, at(a, RESULT), a->region.lkey

static void finish(struct end *a, uint64_t first, uint32_t n, uint64_t old, const struct end *b, uint64_t now)
{
	posted(a, first, n);
	CHECK(wait_done(a, first));
	CHECK(*word(a, RESULT) == old && *word(b, WORD) == now);
}

static void every_request(struct end *a, struct end *b)
{
	struct mrw_queue *q = &a->queue;
	uint64_t i = room(a, 1);

	*word(b, WORD) = 40;
	mrw_wqe_fetch_add(SLOT(i), THERE, 2);
	finish(a, i, 1, 40, b, 42);
	i = room(a, 1);
	mrw_wqe_compare_swap(SLOT(i), THERE, 42, 7);
	finish(a, i, 1, 42, b, 7);
	i = room(a, 1);
	mrw_wqe_compare_swap(SLOT(i), THERE, 42, 8);
	finish(a, i, 1, 7, b, 7);
	i = room(a, 1);
	*word(b, WORD) = 0xff00;
	mrw_wqe_masked_fetch_add(SLOT(i), THERE, 0x0ff0, ~0ull);
	finish(a, i, 1, 0xff00, b, 0xff00 ^ 0x0ff0);
	i = room(a, 1);
	*word(b, WORD) = 0x5555555500000001u;
	*word(a, RESULT) = 0;
	mrw_wqe_masked_fetch_add_32(SLOT(i), THERE, 3, 0);
	finish(a, i, 1, 1, b, 0x5555555500000004u);
	i = room(a, 1);
	mrw_wqe_masked_compare_swap_32(SLOT(i), THERE, 4, 0x99, 0xff, 0xff);
	finish(a, i, 1, 4, b, 0x5555555500000099u);
	/* Two WQEBBs, at each place of the ring, its end included. */
	for (uint32_t k = 0; k < q->slots + 3; k++) {
		i = room(a, 3);
		*word(b, WORD) = k;
		mrw_wqe_nop(mrw_post_slot(q, i), i, q->qpn, false);
		mrw_wqe_masked_compare_swap(mrw_post_slot(q, i + 1), mrw_post_slot(q, i + 2), i + 1, q->qpn, true,
					    THERE, 0, k + 100ull, 0, ~0ull);
		posted(a, i, 3);
		CHECK(wait_done(a, i + 1) && *word(a, RESULT) == k && *word(b, WORD) == k + 100);
	}
	for (uint32_t k = 0; k < 1000; k++)
		b->memory[k] = (uint8_t)(k * 3);
	i = room(a, 2);
	mrw_wqe_read(mrw_post_slot(q, i), i, q->qpn, false, b->region.address, b->region.rkey, at(a, DATA),
		     a->region.lkey, 1000);
	mrw_wqe_dump(SLOT(i + 1), at(a, DATA), a->region.lkey, 8);
	posted(a, i, 2);
	CHECK(wait_done(a, i + 1) && !memcmp(a->memory + DATA, b->memory, 1000));
}

static void many_through_a_small_ring(struct end *a, struct end *b)
{
	uint64_t last = 0;
	uint64_t begin = a->queue.reserved;

	for (uint64_t i = 1; i <= MANY / 2; i++) {
		*word(a, i % 512 * 8) = i; /* the place before was sent long ago: the ring is shorter */
		CHECK(put(a, &b->region, i % 512 * 8, DATA + i % 1000 * 8, 8, FLAG, i, &last));
		if (i % 5000 == 0) {
			CHECK(wait_word(b, FLAG, i) && *word(b, DATA + i % 1000 * 8) == i);
		}
	}
	CHECK(wait_done(a, last) && last + 1 == begin + MANY);
	CHECK(*word(b, FLAG) == MANY / 2);
}

/* Two have room. One that went makes room for another, which does not see what it left. */
static void places(struct end *a)
{
	struct mrw_queue queue[2];
	struct mrw_link *link[2];

	CHECK_OK(mrw_link_new(a->nic, 1, &queue[0], &link[0]));
	CHECK(mrw_link_new(a->nic, 1, &queue[1], &link[1]) == MARROW_SYSTEM_ERROR && strstr(mrw_error_text(), "holds 2 queue pairs") && !link[1]);
	mrw_link_free(link[0]);
	CHECK_OK(mrw_link_new(a->nic, 1, &queue[1], &link[1]));
	mrw_link_free(link[1]);
}

/* Who goes with requests under way sees them flushed, and waits no longer: at least once in five, on a busy machine. */
static void goes_at_once(struct end *a, struct end *b)
{
	bool quick = false;

	for (int i = 0; i < 5 && !quick; i++) {
		uint64_t last, begin;

		for (int k = 0; k < 10; k++)
			CHECK(put(a, &b->region, 0, DATA, 8192, FLAG, 1, &last));
		begin = mrw_clock_ns();
		mrw_link_free(a->link);
		quick = mrw_clock_ns() - begin < 900000000u;
		mrw_link_free(b->link);
		ends_connect(a, b);
	}
	CHECK(quick);
}

static void a_wrong_key(struct end *a, struct end *b)
{
	struct mrw_region wrong = b->region;
	uint64_t last, first;

	wrong.rkey ^= 0x5500;
	CHECK(put(a, &wrong, 0, 0, 64, FLAG, 1, &last));
	CHECK(!wait_done(a, last));
	/* A flush may hide the cause where there is one entry only. */
	uint32_t syndrome = mrw_fault_syndrome(a->queue.failed);
	CHECK(syndrome == 0x13 || (a->queue.cq_slots == 1 && syndrome == 0x05));
	CHECK(strstr(mrw_syndrome_text(0x13), "remote access") && strstr(mrw_syndrome_text(0x05), "flushed"));
	CHECK(!mrw_post_reserve(&a->queue, 1, &first));
}

int main(int argc, char **argv)
{
	bool infiniband = argc > 2 && !strcmp(argv[2], "infiniband");
	const char *cuda = argc > 2 && !infiniband ? argv[2] : NULL;
	struct mrw_nic_config config;
	struct end a, b;

	queues = argc > 1 ? argv[1] : "auto";
	config = config_of(queues, SLOTS);
	need_nics(2);
	end_open(&a, 0, &config);
	end_open(&b, 1, &config);
	if (cuda) { /* the other end has its rings in the host's memory */
		CHECK_OK(mrw_nic_self_test(a.nic));
		end_place(&a, cuda);
	}
	CHECK_OK(mrw_nic_self_test(a.nic));
	CHECK_OK(mrw_nic_self_test(b.nic));
	ends_connect(&a, &b);
	info_says_what_is_there(&a, infiniband);
	memory_is_in_whole_pages(&a);
	data_before_flag(&a, &b);
	every_request(&a, &b);
	many_through_a_small_ring(&a, &b);
	a_wrong_key(&a, &b);
	/* Another link over the same NICs is not touched by that. */
	mrw_link_free(a.link);
	mrw_link_free(b.link);
	ends_connect(&a, &b);
	data_before_flag(&a, &b);
	goes_at_once(&a, &b);
	if (cuda)
		places(&a);
	end_close(&a);
	end_close(&b);
	printf("%s: all well\n", queues);
	return 0;
}
