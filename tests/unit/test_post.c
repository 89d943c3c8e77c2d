/* test_post.c - posting and polling against a NIC that forgives nothing, played by a thread: it looks at the queue only after a
 * doorbell, checks every word it reads, poisons what it has read and looks whether the poison is still there before it completes. */
#include <endian.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxyless/post.h"

enum { QPN = 0x123456, SLOTS = 16, MAX_PRODUCERS = 4, POISON = 0xdb, PATIENCE_S = 20 };
#define REMOTE 0x700000000000u

struct nic {
	struct mrw_queue *q;
	uint32_t cq_slots;
	uint32_t held;          /* completions are handed over in batches of up to so many */
	uint64_t fail_at;       /* WQEBB of the request that fails; ~0: none */
	uint64_t taken, done;   /* WQEBBs read, WQEBBs completed */
	uint64_t entries;       /* CQEs written */
	uint64_t doorbells;
	uint64_t words;         /* sum of the inline words that were written */
	uint32_t last_record;
	uint32_t x;
	bool error;
	uint64_t stop, wrong;   /* atomic */
	uint8_t size[SLOTS];    /* of a request that begins in this slot */
	uint8_t signal[SLOTS];
	pthread_t thread;
};

static void objection(struct nic *nic, const char *what, uint64_t seen, uint64_t expected)
{
	if (__atomic_fetch_add(&nic->wrong, 1, __ATOMIC_RELAXED) == 0)
		fprintf(stderr, "NIC: %s: %#llx instead of %#llx at WQEBB %#llx\n", what, (unsigned long long)seen,
			(unsigned long long)expected, (unsigned long long)nic->taken);
}

static uint32_t dice(struct nic *nic, uint32_t sides)
{
	nic->x = nic->x * 1664525u + 1013904223u;
	return (nic->x >> 16) % sides;
}

static uint8_t *slot_at(const struct nic *nic, uint64_t index)
{
	return nic->q->sq + index % nic->q->slots * 64;
}

/* Reads the request at nic->taken with plain loads: a race with its writer is the sanitizer's to find. */
static void take(struct nic *nic)
{
	uint32_t w[16];
	uint64_t at = nic->taken;
	memcpy(w, slot_at(nic, at), 64);
	uint32_t op = be32toh(w[0]), segments = be32toh(w[1]) & 0x3f;
	if ((op >> 8 & 0xffff) != (at & 0xffff))
		objection(nic, "index", op >> 8 & 0xffff, at & 0xffff);
	if (be32toh(w[1]) >> 8 != QPN)
		objection(nic, "queue pair", be32toh(w[1]) >> 8, QPN);
	switch (op & 0xff) {
	case MRW_OPCODE_NOP:
		if (segments != 1)
			objection(nic, "segments of a nop", segments, 1);
		break;
	case MRW_OPCODE_WRITE: {
		uint64_t word = (uint64_t)w[10] << 32 | w[9];
		if (segments != 3 || be32toh(w[8]) != (8 | 0x80000000u))
			objection(nic, "inline", be32toh(w[8]), 8 | 0x80000000u);
		if (word != (at ^ REMOTE))
			objection(nic, "data", word, at ^ REMOTE);
		nic->words++;
		break;
	}
	case MRW_OPCODE_MASKED_COMPARE_SWAP:
		if (segments != 5)
			objection(nic, "segments of a wide request", segments, 5);
		memcpy(w, slot_at(nic, at + 1), 64);
		if (be32toh(w[0]) != 8)
			objection(nic, "second half", be32toh(w[0]), 8);
		break;
	default: objection(nic, "opcode", op & 0xff, MRW_OPCODE_WRITE);
	}
	nic->size[at % SLOTS] = (uint8_t)(segments > 4 ? 2 : 1);
	nic->signal[at % SLOTS] = be32toh(w[2]) == MRW_SIGNAL || segments > 4;
	for (uint32_t i = 0; i < nic->size[at % SLOTS]; i++)
		memset(slot_at(nic, at + i), POISON, 64);
	nic->taken += nic->size[at % SLOTS];
}

/* Hands the entry over as hardware does: the last word last. */
static void complete(struct nic *nic, uint32_t opcode, uint32_t syndrome)
{
	struct mrw_queue *q = nic->q;
	uint8_t *cqe = q->cq + (q->cq_record ? nic->entries % nic->cq_slots * 64 : 0);
	uint32_t owner = q->cq_record ? nic->entries / nic->cq_slots & 1 : 0;
	uint32_t bytes = htobe32(0x5500 << 16 | 0x44u << 8 | syndrome), tail = htobe32((uint32_t)(nic->done & 0xffff) << 16 | opcode << 4 | owner);
	if (q->cq_record) {
		uint32_t taken = be32toh(__atomic_load_n(q->cq_record, __ATOMIC_ACQUIRE));
		if (((nic->entries - taken) & 0xffffff) >= nic->cq_slots)
			objection(nic, "completion queue overrun", nic->entries, taken);
	}
	__atomic_store_n((uint32_t *)(void *)(cqe + 0x34), bytes, __ATOMIC_RELAXED);
	__atomic_store_n((uint32_t *)(void *)(cqe + 0x3c), tail, __ATOMIC_RELEASE);
	nic->entries++;
}

/* Completes the oldest request that was taken. */
static void finish(struct nic *nic)
{
	uint32_t size = nic->size[nic->done % SLOTS];
	for (uint32_t i = 0; i < size; i++)
		for (uint32_t b = 0; b < 64; b++)
			if (slot_at(nic, nic->done + i)[b] != POISON) {
				objection(nic, "slot rewritten before completion", nic->done + i, b);
				break;
			}
	if (nic->done >= nic->fail_at)
		nic->error = true;
	if (nic->error)
		complete(nic, MRW_CQE_REQUEST_ERROR, nic->done == nic->fail_at ? 0x13 : 0x05);
	else if (nic->signal[nic->done % SLOTS])
		complete(nic, MRW_CQE_REQUEST, 0);
	nic->done += size;
}

static void hear_doorbell(struct nic *nic, uint64_t bell)
{
	struct mrw_queue *q = nic->q;
	uint32_t record = be32toh(__atomic_load_n(q->record, __ATOMIC_ACQUIRE));
	uint32_t rung = be32toh((uint32_t)bell) >> 8;
	nic->doorbells++;
	if (be32toh((uint32_t)(bell >> 32)) != QPN << 8)
		objection(nic, "doorbell's queue pair", be32toh((uint32_t)(bell >> 32)), QPN << 8);
	if (record > 0xffff)
		objection(nic, "record", record, record & 0xffff);
	if (((record - nic->last_record) & 0xffff) > q->slots)
		objection(nic, "record runs backwards", record, nic->last_record);
	if (((record - rung) & 0xffff) > q->slots)
		objection(nic, "record older than the doorbell", record, rung);
	nic->last_record = record;
	if (((record - (uint32_t)nic->done) & 0xffff) > q->slots) {
		objection(nic, "more than the ring holds", record, nic->done);
		return;
	}
	while ((((uint32_t)record - (uint32_t)nic->taken) & 0xffff) != 0 && __atomic_load_n(&nic->wrong, __ATOMIC_RELAXED) == 0)
		take(nic);
}

static void *nic_main(void *arg)
{
	struct nic *nic = arg;
	while (!__atomic_load_n(&nic->stop, __ATOMIC_ACQUIRE)) {
		uint64_t bell = __atomic_load_n(nic->q->doorbell, __ATOMIC_RELAXED) ? __atomic_exchange_n(nic->q->doorbell, 0, __ATOMIC_ACQUIRE) : 0;
		if (bell)
			hear_doorbell(nic, bell);
		/* Some completions wait for the next round. */
		uint64_t keep = nic->held && bell ? dice(nic, nic->held) : 0;
		while (nic->taken - nic->done > keep)
			finish(nic);
		if (!bell)
			sched_yield();
	}
	return NULL;
}

struct bench {
	struct mrw_queue q;
	struct nic nic;
	uint32_t record, cq_record;
	uint64_t doorbell;
	_Alignas(64) uint8_t sq[SLOTS * 64];
	_Alignas(64) uint8_t cq[SLOTS * 64];
};

/* cq_slots 1: collapsed. */
static struct bench *bench_new(uint64_t start, uint32_t cq_slots)
{
	struct bench *b = aligned_alloc(64, (sizeof *b + 63) / 64 * 64);
	assert_non_null(b);
	memset(b, 0, sizeof *b);
	memset(b->sq, POISON, sizeof b->sq);
	memset(b->cq, 0xff, sizeof b->cq);
	struct mrw_queue *q = &b->q;
	q->sq = b->sq;
	q->record = &b->record;
	q->doorbell = &b->doorbell;
	q->cq = b->cq;
	q->cq_record = cq_slots > 1 ? &b->cq_record : NULL;
	q->qpn = QPN;
	q->slots = SLOTS;
	q->cq_slots = cq_slots;
	q->reserved = q->ready = q->rung = q->completed = start;
	b->record = htobe32((uint32_t)(start & 0xffff));
	b->nic.q = q;
	b->nic.cq_slots = cq_slots;
	b->nic.fail_at = ~0ull;
	b->nic.taken = b->nic.done = start;
	b->nic.last_record = (uint32_t)(start & 0xffff);
	b->nic.x = (uint32_t)start + cq_slots;
	return b;
}

static void nic_start(struct bench *b)
{
	assert_int_equal(pthread_create(&b->nic.thread, NULL, nic_main, &b->nic), 0);
}

static void nic_stop(struct bench *b)
{
	__atomic_store_n(&b->nic.stop, 1, __ATOMIC_RELEASE);
	pthread_join(b->nic.thread, NULL);
	assert_int_equal(b->nic.wrong, 0);
}

static uint64_t deadline(void)
{
	return mrw_clock_ns() + PATIENCE_S * 1000000000ull;
}

/* One range of n WQEBBs, the last signalled; wide: ends in a request of two. False: the queue has failed. */
static bool post(struct bench *b, uint32_t n, bool wide, uint64_t *last)
{
	struct mrw_queue *q = &b->q;
	uint64_t first, until = deadline();
	while (!mrw_post_reserve(q, n, &first)) {
		if (mrw_load_relaxed(&q->failed))
			return false;
		if (mrw_clock_ns() > until || __atomic_load_n(&b->nic.wrong, __ATOMIC_RELAXED)) {
			objection(&b->nic, "the ring stays full", q->completed, q->reserved);
			return false;
		}
		sched_yield();
	}
	for (uint32_t i = 0; i < n;) {
		uint64_t at = first + i;
		uint8_t *slot = mrw_post_slot(q, at);
		if (wide && i + 2 == n)
			i += mrw_wqe_masked_compare_swap(slot, mrw_post_slot(q, at + 1), at, QPN, true, REMOTE, 1, 0, 2, 3, 4, 5, 6);
		else if (i + 1 < n && at % 5 == 0)
			i += mrw_wqe_nop(slot, at, QPN, false);
		else
			i += mrw_wqe_write_word(slot, at, QPN, i + 1 == n, REMOTE, 1, at ^ REMOTE);
	}
	mrw_post_ready(q, first, n);
	*last = first + n - (wide ? 2 : 1);
	return true;
}

static bool wait_done(struct bench *b, uint64_t index)
{
	uint64_t until = deadline();
	while (!mrw_poll_done(&b->q, index)) {
		if (mrw_load_relaxed(&b->q.failed))
			return false;
		if (mrw_clock_ns() > until || __atomic_load_n(&b->nic.wrong, __ATOMIC_RELAXED)) {
			objection(&b->nic, "never completed", b->q.completed, index);
			return false;
		}
		sched_yield();
	}
	return true;
}

struct producer {
	struct bench *bench;
	uint32_t index, ranges;
	bool wide;
	uint64_t posted;
	pthread_t thread;
};

static void *produce(void *arg)
{
	struct producer *p = arg;
	uint32_t x = p->index * 77 + 1;
	for (uint32_t i = 0; i < p->ranges; i++) {
		uint64_t last;
		x = x * 1664525u + 1013904223u;
		bool wide = p->wide && (x >> 28) == 3;
		uint32_t n = 1 + (x >> 20) % 3 + wide;
		if (!post(p->bench, n, wide, &last))
			return NULL;
		p->posted += n;
		/* Often all wait at once: a doorbell lost then stays lost. */
		if ((x >> 12 & 3) != 0 && !wait_done(p->bench, last))
			return NULL;
	}
	return NULL;
}

static uint64_t produce_all(struct bench *b, uint32_t producers, uint32_t ranges, bool wide)
{
	struct producer p[MAX_PRODUCERS];
	uint64_t posted = 0;
	for (uint32_t i = 0; i < producers; i++) {
		p[i] = (struct producer){.bench = b, .index = i, .ranges = ranges, .wide = wide};
		assert_int_equal(pthread_create(&p[i].thread, NULL, produce, &p[i]), 0);
	}
	for (uint32_t i = 0; i < producers; i++) {
		pthread_join(p[i].thread, NULL);
		posted += p[i].posted;
	}
	return posted;
}

static void producers_share_a_queue(void **state)
{
	(void)state;
	const uint64_t starts[] = {0, 0xfff0, 0xfffffff0u, 0x1fffffff8u};
	for (uint32_t s = 0; s < sizeof starts / sizeof *starts; s++)
		for (uint32_t producers = 1; producers <= MAX_PRODUCERS; producers += producers == 1 ? 1 : 2)
			for (uint32_t cq_slots = 1; cq_slots <= SLOTS; cq_slots += SLOTS - 1) {
				struct bench *b = bench_new(starts[s], cq_slots);
				b->nic.held = producers * 2;
				nic_start(b);
				uint64_t posted = produce_all(b, producers, 1000, producers == 4), last;
				if (b->nic.wrong == 0 && post(b, 1, false, &last))
					wait_done(b, last);
				nic_stop(b);
				assert_int_equal(b->q.reserved, starts[s] + posted + 1);
				assert_int_equal(b->q.rung, b->q.reserved);
				assert_int_equal(b->q.completed, b->q.reserved);
				assert_int_equal(b->nic.done, b->q.reserved);
				assert_int_equal(b->q.ringing, 0);
				assert_int_equal(b->q.failed, 0);
				free(b);
			}
}

static void past_sixteen_bits(void **state)
{
	(void)state;
	for (uint32_t cq_slots = 1; cq_slots <= SLOTS; cq_slots += SLOTS - 1) {
		struct bench *b = bench_new(0, cq_slots);
		uint64_t last = 0;
		nic_start(b);
		for (uint32_t i = 0; i < 10000 && b->nic.wrong == 0; i++)
			assert_true(post(b, 7, false, &last));
		assert_true(wait_done(b, last));
		nic_stop(b);
		assert_int_equal(b->q.completed, 70000);
		assert_true(b->nic.doorbells <= 10000);
		free(b);
	}
}

/* Plays the NIC by hand: takes what was rung. */
static void listen(struct bench *b)
{
	uint64_t bell = b->doorbell;
	b->doorbell = 0;
	if (bell)
		hear_doorbell(&b->nic, bell);
}

static void full_ring(void **state)
{
	(void)state;
	for (uint32_t cq_slots = 1; cq_slots <= SLOTS; cq_slots += SLOTS - 1) {
		struct bench *b = bench_new(0xfffc, cq_slots);
		uint64_t first, last;
		for (int i = 0; i < SLOTS / 2; i++)
			assert_true(post(b, 2, false, &last));
		assert_false(mrw_post_reserve(&b->q, 1, &first));
		listen(b);
		assert_false(mrw_post_reserve(&b->q, 1, &first)); /* taken is not completed */
		for (int i = 0; i < 4; i++)
			finish(&b->nic);
		assert_false(mrw_post_reserve(&b->q, 5, &first));
		assert_true(post(b, 4, false, &last));
		assert_false(mrw_post_reserve(&b->q, 1, &first));
		listen(b);
		while (b->nic.done < b->nic.taken)
			finish(&b->nic);
		assert_true(mrw_poll_done(&b->q, last));
		assert_false(mrw_poll_done(&b->q, last + 1));
		assert_int_equal(b->q.completed, b->q.reserved);
		assert_int_equal(b->nic.wrong, 0);
		free(b);
	}
}

static void whoever_rings_rings_for_all(void **state)
{
	(void)state;
	struct bench *b = bench_new(5, 1);
	uint64_t last;
	b->q.ringing = 1; /* somebody rings */
	assert_true(post(b, 2, false, &last));
	assert_int_equal(b->doorbell, 0);
	assert_int_equal(b->q.ringing, 2);
	b->q.ringing = 0;
	assert_true(post(b, 1, false, &last));
	listen(b);
	assert_int_equal(b->nic.taken, 8);
	assert_int_equal(b->nic.wrong, 0);
	/* Nothing new is no reason to ring. */
	mrw_post_ring(&b->q);
	assert_int_equal(b->doorbell, 0);
	free(b);
}

static void errors_stay(void **state)
{
	(void)state;
	for (uint32_t cq_slots = 1; cq_slots <= SLOTS; cq_slots += SLOTS - 1) {
		struct bench *b = bench_new(0x1fffffffeu, cq_slots);
		uint64_t first, last;
		b->nic.fail_at = 0x200000003u;
		assert_true(post(b, 3, false, &last));
		assert_true(post(b, 3, false, &first));
		listen(b);
		while (b->nic.done <= b->nic.fail_at)
			finish(&b->nic);
		if (cq_slots > 1)
			while (b->nic.done < b->nic.taken)
				finish(&b->nic);
		assert_false(mrw_poll(&b->q));
		assert_true(b->q.failed == mrw_queue_fault(0x4413, 3));
		assert_int_equal(mrw_fault_syndrome(b->q.failed), 0x13);
		assert_int_equal(mrw_fault_vendor(b->q.failed), 0x44);
		assert_int_equal(mrw_fault_index(b->q.failed), 3);
		while (b->nic.done < b->nic.taken) /* flushed */
			finish(&b->nic);
		assert_false(mrw_poll(&b->q));
		assert_false(mrw_post_reserve(&b->q, 1, &first));
		assert_int_equal(mrw_fault_syndrome(b->q.failed), 0x13);
		if (cq_slots > 1)
			assert_true(mrw_poll_done(&b->q, last)); /* what came before is done */
		assert_false(mrw_poll_done(&b->q, 0x200000003u));
		free(b);
	}
}

static void error_among_producers(void **state)
{
	(void)state;
	for (uint32_t cq_slots = 1; cq_slots <= SLOTS; cq_slots += SLOTS - 1) {
		struct bench *b = bench_new(0xffa0, cq_slots);
		b->nic.fail_at = 0xffa0 + 500;
		nic_start(b);
		produce_all(b, 3, 1000, false);
		nic_stop(b);
		assert_true(b->q.failed != 0);
		uint32_t syndrome = mrw_fault_syndrome(b->q.failed);
		assert_true(syndrome == 0x13 || (cq_slots == 1 && syndrome == 0x05)); /* collapsed: a flush may hide the cause */
		assert_true(b->q.completed <= b->nic.fail_at);
		free(b);
	}
}

/* A request of two WQEBBs completes with its first; the ring has room for others all the same. */
static void wide_requests(void **state)
{
	(void)state;
	struct bench *b = bench_new(SLOTS - 1, 1);
	uint64_t last, first;
	assert_true(post(b, 2, true, &last)); /* its halves lie at both ends of the ring */
	listen(b);
	finish(&b->nic);
	assert_true(mrw_poll_done(&b->q, last));
	assert_int_equal(b->q.completed, SLOTS);
	assert_false(mrw_post_reserve(&b->q, SLOTS, &first));
	assert_true(post(b, SLOTS - 1, false, &last));
	listen(b);
	while (b->nic.done < b->nic.taken)
		finish(&b->nic);
	assert_true(mrw_poll_done(&b->q, last));
	assert_int_equal(b->q.completed, b->q.reserved);
	assert_int_equal(b->nic.wrong, 0);
	free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(full_ring),
		cmocka_unit_test(whoever_rings_rings_for_all),
		cmocka_unit_test(errors_stay),
		cmocka_unit_test(wide_requests),
		cmocka_unit_test(producers_share_a_queue),
		cmocka_unit_test(past_sixteen_bits),
		cmocka_unit_test(error_among_producers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
