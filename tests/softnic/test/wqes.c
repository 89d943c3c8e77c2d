/* Hand-written WQEs of every kind through queues made in every way, within one process: two NICs of one host, or of two. */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 4096, MANY = 70000, BURST = 16 };

struct place {
	struct rig_port port;
	struct ibv_mr *mr;
	uint64_t *words;
};

static void open_place(struct place *p, uint32_t device)
{
	rig_open(&p->port, device);
	p->words = calloc(WORDS, sizeof(*p->words));
	RIG_CHECK(p->words);
	p->mr = rig_register(&p->port, p->words, WORDS * sizeof(*p->words), 0);
}

/* What the NIC wrote, and may still write. */
static uint64_t seen(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void set(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static void writes(struct rig_queue *q, struct place *a, struct place *b)
{
	uint64_t flag = 0x1122334455667788;

	for (int i = 0; i < 1024; i++)
		a->words[i] = (uint64_t)i + 1;
	rig_write(q, b->words, b->mr->rkey, a->words, a->mr->lkey, 8192, false);
	rig_write_inline(q, &b->words[2000], b->mr->rkey, &flag, 8, true);
	rig_ring(q);
	RIG_CHECK(rig_wait(q, 5) == 0);
	RIG_CHECK(seen(&b->words[2000]) == flag && !memcmp(a->words, b->words, 8192));
	/* 28 bytes fit three segments more; odd addresses and lengths; nothing at all. */
	rig_write_inline(q, (uint8_t *)&b->words[2010] + 1, b->mr->rkey, a->words, 28, false);
	rig_write(q, (uint8_t *)&b->words[2020] + 3, b->mr->rkey, (uint8_t *)a->words + 5, a->mr->lkey, 4097, false);
	rig_write(q, b->words, b->mr->rkey, a->words, a->mr->lkey, 0, true);
	/* A data segment of count 0 is 2 GiB. */
	rig_block(q, q->next - 1)[7] = 2;
	rig_ring_last(q);
	RIG_CHECK(rig_wait(q, 5) == 0);
	RIG_CHECK(!memcmp((uint8_t *)&b->words[2010] + 1, a->words, 28) && !memcmp((uint8_t *)&b->words[2020] + 3, (uint8_t *)a->words + 5, 4097));
}

static void reads(struct rig_queue *q, struct place *a, struct place *b)
{
	for (int i = 0; i < 1000; i++)
		b->words[i] = 7 * (uint64_t)i;
	rig_read(q, &a->words[1500], a->mr->lkey, b->words, b->mr->rkey, 8000, true);
	rig_ring(q);
	RIG_CHECK(rig_wait(q, 5) == 0);
	RIG_CHECK(!memcmp(&a->words[1500], b->words, 8000));
}

/* A masked atomic with up to four operands. */
static void masked(struct rig_queue *q, struct place *a, struct place *b, uint8_t opcode, uint8_t opmod, uint32_t word, const uint64_t *operand)
{
	bool swap = opcode == 0x14, wide = opmod == 9;
	uint32_t size = swap && wide ? 5 : 4;
	uint64_t index = q->next;
	uint8_t *at = rig_control(q, opcode, opmod, size, true), *last = size == 5 ? rig_block(q, index + 1) : at + 48;

	rig_put64(at + 16, (uintptr_t)&b->words[word]);
	rig_put32(at + 24, b->mr->rkey);
	for (uint32_t i = 0; i < (swap ? 4 : 2); i++) {
		if (wide)
			rig_put64(at + 32 + i * 8, operand[i]);
		else
			rig_put32(at + 32 + i * 4, (uint32_t)operand[i]);
	}
	rig_put32(last, wide ? 8 : 4);
	rig_put32(last + 4, a->mr->lkey);
	rig_put64(last + 8, (uintptr_t)&a->words[3000]);
	rig_ring(q);
	RIG_CHECK(rig_wait(q, 5) == 0);
}

static void atomics(struct rig_queue *q, struct place *a, struct place *b)
{
	uint64_t *at = &b->words[3001];

	set(at, 10);
	rig_fetch_add(q, at, b->mr->rkey, &a->words[3000], a->mr->lkey, 5, true);
	rig_ring(q);
	RIG_CHECK(rig_wait(q, 5) == 0 && seen(at) == 15 && seen(&a->words[3000]) == 10);
	masked(q, a, b, 0x15, 9, 3001, (uint64_t[]){7, 0});
	RIG_CHECK(seen(at) == 22 && seen(&a->words[3000]) == 15);
	/* All boundaries: exclusive or. */
	masked(q, a, b, 0x15, 9, 3001, (uint64_t[]){0xff, ~0ull});
	RIG_CHECK(seen(at) == (22 ^ 0xff));
	/* Four bytes wrap in four bytes. */
	set(at, 0x77fffffffeu);
	masked(q, a, b, 0x15, 8, 3001, (uint64_t[]){3, 0});
	RIG_CHECK(seen(at) == 0x7700000001u);
	/* Swap always; swap of a part if another part compares. */
	masked(q, a, b, 0x14, 9, 3001, (uint64_t[]){0xabcdef, 0, ~0ull, 0});
	RIG_CHECK(seen(at) == 0xabcdef && seen(&a->words[3000]) == 0x7700000001u);
	masked(q, a, b, 0x14, 9, 3001, (uint64_t[]){0x55, 0xab0000, 0xff, 0xff0000});
	RIG_CHECK(seen(at) == 0xabcd55);
	masked(q, a, b, 0x14, 8, 3001, (uint64_t[]){1, 2, ~0u, ~0u});
	RIG_CHECK(seen(at) == 0xabcd55);
	masked(q, a, b, 0x14, 8, 3001, (uint64_t[]){1, 0xabcd55, ~0u, ~0u});
	RIG_CHECK(seen(at) == 1);
}

static void others(struct rig_queue *q, struct place *a)
{
	uint8_t *at;

	rig_control(q, 0x00, 0, 1, false);
	at = rig_control(q, 0x23, 0, 2, true);
	rig_put32(at + 16, 8);
	rig_put32(at + 20, a->mr->lkey);
	rig_put64(at + 24, (uintptr_t)a->words);
	rig_ring(q);
	RIG_CHECK(rig_wait(q, 5) == 0);
}

/* The ring and the 16-bit index wrap; one WQE in BURST is signalled. */
static void wrap(struct rig_queue *q, struct place *b, uint32_t count)
{
	for (uint32_t n = 0; n < count;) {
		for (uint32_t i = 0; i < BURST; i++, n++) {
			uint64_t value = n;

			rig_write_inline(q, &b->words[3500 + n % 64], b->mr->rkey, &value, 8, i + 1 == BURST);
		}
		if (n / BURST % 2)
			rig_ring(q);
		else
			rig_ring_last(q);
		RIG_CHECK(rig_wait(q, 10) == 0);
		RIG_CHECK(seen(&b->words[3500 + (n - 1) % 64]) == n - 1);
	}
}

int main(int argc, char **argv)
{
	static const char *const kinds[] = {"devx", "devx ordinary", "devx recordless", "verbs"};
	uint32_t many = argc > 1 ? (uint32_t)atoi(argv[1]) : MANY;
	struct place a, b;

	open_place(&a, 0);
	open_place(&b, 1);
	printf("%s nic %u -> %s nic %u\n", a.port.host, a.port.nic, b.port.host, b.port.nic);
	for (enum rig_kind kind = RIG_DEVX; kind <= RIG_VERBS; kind++) {
		struct rig_queue q, p;

		rig_make(&q, &a.port, kind, 64);
		rig_make(&p, &b.port, kind, 64);
		rig_connect_pair(&q, &p);
		writes(&q, &a, &b);
		reads(&q, &a, &b);
		atomics(&q, &a, &b);
		others(&q, &a);
		wrap(&q, &b, kind == RIG_DEVX || kind == RIG_VERBS ? many : many / 20);
		reads(&p, &b, &a);
		rig_destroy(&q);
		rig_destroy(&p);
		printf("%s: ok\n", kinds[kind]);
	}
	ibv_dereg_mr(a.mr);
	ibv_dereg_mr(b.mr);
	rig_close(&a.port);
	rig_close(&b.port);
	free(a.words);
	free(b.words);
	return 0;
}
