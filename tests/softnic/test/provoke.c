/* Makes the mistake that the named check is for, and no other. provoke.py looks at what the model says. */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 64, BIG_BYTES = 1 << 20 };

static struct rig_port a, b;
static struct rig_queue q, p;
static struct ibv_mr *here, *there;
static uint8_t *source, *target;
static uint64_t *result;

/* The next WQE, whole and right: to be spoilt. */
static uint8_t *good_write(bool signalled)
{
	uint8_t *at = rig_block(&q, q.next);

	rig_write(&q, target, there->rkey, source, here->lkey, 64, signalled);
	return at;
}

static void expect(int syndrome)
{
	int got;

	rig_ring(&q);
	got = rig_wait(&q, 5);
	if (got != syndrome) {
		fprintf(stderr, "syndrome %d instead of %d\n", got, syndrome);
		exit(1);
	}
}

/* Two rounds of the engine: what was rung before has been seen and executed. */
static void settle(void)
{
	for (int i = 0; i < 2; i++) {
		rig_control(&p, 0x00, 0, 1, true);
		rig_ring(&p);
		RIG_CHECK(rig_wait(&p, 10) == 0);
	}
}

static void wqe_index(void)
{
	good_write(true)[2]++;
	expect(0x02);
}

static void wqe_qpn(void)
{
	good_write(true)[6] ^= 1;
	expect(0x02);
}

static void wqe_size(void)
{
	good_write(true)[7] = 4;
	rig_put32(rig_block(&q, q.next - 1) + 48, 0x80000000u | 100);
	expect(0x02);
}

static void wqe_reserved(void)
{
	good_write(true)[9] = 1;
	expect(0x02);
}

static void wqe_opcode(void)
{
	good_write(true)[3] = 0x0a;
	expect(0x02);
}

static void record_range(void)
{
	good_write(true);
	rig_record(&q, (uint32_t)q.next | 0x10000);
	rig_bell(&q, q.next);
	RIG_CHECK(rig_wait(&q, 5) == 0);
}

static void record_backwards(void)
{
	good_write(false);
	good_write(true);
	expect(0);
	rig_record(&q, (uint32_t)q.next - 1);
	rig_bell(&q, q.next - 1);
	settle();
}

static void ring_overrun(void)
{
	for (int half = 0; half < 2; half++) {
		for (int i = 0; i < BLOCKS * 3 / 4; i++)
			rig_control(&q, 0x00, 0, 1, false);
		rig_ring(&q);
		settle();
	}
}

static void doorbell_qp(void)
{
	q.qpn += 1000;
	rig_bell(&q, 0);
	settle();
}

static void doorbell_state(void)
{
	struct rig_queue unready;

	rig_make(&unready, &a, RIG_DEVX, BLOCKS);
	rig_control(&unready, 0x00, 0, 1, true);
	rig_ring(&unready);
	settle();
}

static void local_access(void)
{
	rig_write(&q, target, there->rkey, source, here->lkey ^ 0x100, 64, true);
	expect(0x04);
}

static void remote_access(void)
{
	rig_write(&q, target + BIG_BYTES - 32, there->rkey, source, here->lkey, 64, true);
	expect(0x13);
}

static void atomic_alignment(void)
{
	rig_fetch_add(&q, (uint64_t *)(void *)(target + 4), there->rkey, result, here->lkey, 1, true);
	expect(0x12);
}

static void cq_overrun(void)
{
	struct rig_queue full, other;

	rig_make(&full, &a, RIG_DEVX_ORDINARY, 2 * BLOCKS);
	rig_make(&other, &b, RIG_DEVX_ORDINARY, 2 * BLOCKS);
	rig_connect_pair(&full, &other);
	for (uint32_t i = 0; i < full.entries + 1; i++)
		rig_control(&full, 0x00, 0, 1, true);
	rig_ring(&full);
	settle();
}

static void slot_rewritten(void)
{
	uint8_t *at = good_write(false);

	rig_ring(&q);
	settle();
	at[15] = 1;
	good_write(true);
	expect(0);
}

/* provoke.py slows the NIC down for this one. */
static void source_changed(void)
{
	source[0] = 1;
	rig_write(&q, target, there->rkey, source, here->lkey, BIG_BYTES, true);
	rig_ring(&q);
	/* Under way, and far from its end. */
	while (__atomic_load_n(&target[0], __ATOMIC_ACQUIRE) != 1)
		usleep(10);
	__atomic_store_n(&source[10], 1, __ATOMIC_RELAXED);
	RIG_CHECK(rig_wait(&q, 5) == 0);
}

static void address(void)
{
	struct rig_queue lost;
	union ibv_gid nobody = b.gid;

	nobody.raw[15] ^= 0x55;
	rig_make(&lost, &a, RIG_VERBS, BLOCKS);
	rig_connect(&lost, p.qpn, &nobody);
	rig_write(&lost, target, there->rkey, source, here->lkey, 64, true);
	rig_ring(&lost);
	RIG_CHECK(rig_wait(&lost, 5) == 0x15);
}

static const struct {
	const char *name;
	void (*provoke)(void);
} table[] = {
#define ROW(name) {#name, name}
	ROW(wqe_index), ROW(wqe_qpn), ROW(wqe_size), ROW(wqe_reserved), ROW(wqe_opcode), ROW(record_range), ROW(record_backwards),
	ROW(ring_overrun), ROW(doorbell_qp), ROW(doorbell_state), ROW(local_access), ROW(remote_access), ROW(atomic_alignment),
	ROW(cq_overrun), ROW(slot_rewritten), ROW(source_changed), ROW(address),
#undef ROW
};

int main(int argc, char **argv)
{
	rig_open(&a, 0);
	rig_open(&b, 1);
	source = calloc(1, BIG_BYTES);
	target = calloc(1, BIG_BYTES);
	result = calloc(1, sizeof(*result));
	RIG_CHECK(source && target && result);
	here = rig_register(&a, source, BIG_BYTES, 0);
	there = rig_register(&b, target, BIG_BYTES, 0);
	rig_make(&q, &a, RIG_DEVX, BLOCKS);
	rig_make(&p, &b, RIG_DEVX, BLOCKS);
	rig_connect_pair(&q, &p);
	for (size_t i = 0; argc > 1 && i < sizeof(table) / sizeof(table[0]); i++) {
		if (!strcmp(table[i].name, argv[1])) {
			if (!strcmp(argv[1], "atomic_alignment"))
				here = rig_register(&a, result, sizeof(*result), 0);
			table[i].provoke();
			/* Without tidying up: sanitizers' leak checks are not for this program. */
			_exit(0);
		}
	}
	fprintf(stderr, "usage: provoke CHECK\n");
	return 2;
}
