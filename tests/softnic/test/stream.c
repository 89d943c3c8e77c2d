/* A stream of messages, each a WRITE of data and a WRITE of its flag behind it, over several queue pairs of two NICs, with a
 * receiver that believes the flag: what the library's NIC path does, in small. faults.py runs it below every fault.
 *
 * usage: stream [--messages N] [--queues N] [--relaxed] [--atomic] [--ordinary] [--patience SECONDS]
 * exit: 0 all arrived; 3 a completion never came; 4 data was wrong though the flag said it was there; 100 + s: an error completion
 * of syndrome s; and what the model's launcher makes of checks. */
#include "rig.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	QUEUES_MAX = 8, BLOCKS = 64, DEPTH = 4, SLOT_BYTES = 16384, SLOT_WORDS = SLOT_BYTES / 8,
	EXIT_LOST = 3, EXIT_WRONG = 4, EXIT_SYNDROME = 100
};

/* One direction of a queue pair. Slots are reused when the receiver has said that it is done with them. */
struct stream {
	struct rig_queue queue, back;
	uint64_t *source, *target;    /* DEPTH slots */
	uint64_t *flags;              /* DEPTH words: message number + 1 */
	uint64_t *result;             /* of atomics */
	uint64_t done;                /* messages that the receiver has seen */
	struct ibv_mr *source_mr, *target_mr, *flags_mr, *result_mr;
	pthread_t receiver;
	uint32_t number;
};

static uint32_t messages = 400, queues = 2;
static bool relaxed, atomic;
static double patience = 20;
static int stop, verdict;

static uint32_t bytes_of(uint64_t message)
{
	return (uint32_t)((message * 2654435761u >> 7) % (SLOT_BYTES / 8 - 1) + 1) * 8;
}

static uint64_t word_of(const struct stream *s, uint64_t message, uint32_t i)
{
	return (message + 1) << 32 ^ (uint64_t)s->number << 24 ^ i;
}

static void *receive(void *arg)
{
	struct stream *s = arg;

	for (uint64_t m = 0; m < messages; m++) {
		uint64_t *flag = &s->flags[m % DEPTH], *data = s->target + m % DEPTH * SLOT_WORDS;

		/* Acquire pairs with the NIC's release of the flag: the data is there. */
		while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != m + 1) {
			if (__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
				return NULL;
			usleep(10);
		}
		for (uint32_t i = 0; i < bytes_of(m) / 8; i++) {
			/* Relaxed, not plain: below the fault the race is what we look for, not the checker. */
			uint64_t word = relaxed ? __atomic_load_n(&data[i], __ATOMIC_RELAXED) : data[i];

			if (word != word_of(s, m, i)) {
				printf("queue %u message %llu: word %u of %u is wrong though the flag is there\n", s->number, (unsigned long long)m, i,
				       bytes_of(m) / 8);
				__atomic_store_n(&verdict, EXIT_WRONG, __ATOMIC_RELEASE);
				__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
				return NULL;
			}
		}
		__atomic_store_n(&s->done, m + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* Messages of a queue in bursts of DEPTH: sent, completed, seen. */
static int send_burst(struct stream *s, uint64_t first)
{
	double end = rig_now() + patience;
	int syndrome;

	for (uint64_t m = first; m < first + DEPTH; m++) {
		uint64_t *data = s->source + m % DEPTH * SLOT_WORDS, flag = m + 1;

		for (uint32_t i = 0; i < bytes_of(m) / 8; i++)
			data[i] = word_of(s, m, i);
		rig_write(&s->queue, s->target + m % DEPTH * SLOT_WORDS, s->target_mr->rkey, data, s->source_mr->lkey, bytes_of(m), false);
		if (atomic)
			rig_fetch_add(&s->queue, &s->flags[m % DEPTH], s->flags_mr->rkey, s->result, s->result_mr->lkey,
				      m < DEPTH ? m + 1 : DEPTH, m + 1 == first + DEPTH);
		else
			rig_write_inline(&s->queue, &s->flags[m % DEPTH], s->flags_mr->rkey, &flag, 8, m + 1 == first + DEPTH);
		if (m % 2)
			rig_ring(&s->queue);
		else
			rig_ring_last(&s->queue);
	}
	syndrome = rig_wait(&s->queue, patience);
	if (syndrome)
		return syndrome < 0 ? EXIT_LOST : EXIT_SYNDROME + syndrome;
	while (__atomic_load_n(&s->done, __ATOMIC_ACQUIRE) < first + DEPTH) {
		if (__atomic_load_n(&stop, __ATOMIC_ACQUIRE) || rig_now() > end)
			return EXIT_LOST;
		usleep(10);
	}
	return 0;
}

static void *pages(size_t bytes)
{
	void *memory = NULL;

	RIG_CHECK(!posix_memalign(&memory, 4096, bytes));
	memset(memory, 0, bytes);
	return memory;
}

static void make(struct stream *s, struct rig_port *a, struct rig_port *b, enum rig_kind kind, uint32_t number)
{
	unsigned order = relaxed ? IBV_ACCESS_RELAXED_ORDERING : 0;

	s->number = number;
	s->source = pages(DEPTH * SLOT_BYTES);
	s->target = pages(DEPTH * SLOT_BYTES);
	s->flags = pages(4096);
	s->result = pages(4096);
	s->source_mr = rig_register(a, s->source, DEPTH * SLOT_BYTES, 0);
	s->target_mr = rig_register(b, s->target, DEPTH * SLOT_BYTES, order);
	s->flags_mr = rig_register(b, s->flags, 4096, order);
	s->result_mr = rig_register(a, s->result, 4096, 0);
	rig_make(&s->queue, a, kind, BLOCKS);
	rig_make(&s->back, b, kind, BLOCKS);
	rig_connect_pair(&s->queue, &s->back);
}

static void destroy(struct stream *s)
{
	rig_destroy(&s->queue);
	rig_destroy(&s->back);
	ibv_dereg_mr(s->source_mr);
	ibv_dereg_mr(s->target_mr);
	ibv_dereg_mr(s->flags_mr);
	ibv_dereg_mr(s->result_mr);
	free(s->source);
	free(s->target);
	free(s->flags);
	free(s->result);
}

int main(int argc, char **argv)
{
	static struct stream streams[QUEUES_MAX];
	struct rig_port a, b;
	enum rig_kind kind = RIG_DEVX;
	int status = 0;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--relaxed"))
			relaxed = true;
		else if (!strcmp(argv[i], "--atomic"))
			atomic = true;
		else if (!strcmp(argv[i], "--ordinary"))
			kind = RIG_DEVX_ORDINARY;
		else if (!strcmp(argv[i], "--messages") && i + 1 < argc)
			messages = (uint32_t)atoi(argv[++i]) / DEPTH * DEPTH;
		else if (!strcmp(argv[i], "--queues") && i + 1 < argc)
			queues = (uint32_t)atoi(argv[++i]);
		else if (!strcmp(argv[i], "--patience") && i + 1 < argc)
			patience = atof(argv[++i]);
	}
	rig_open(&a, 0);
	rig_open(&b, 1);
	for (uint32_t i = 0; i < queues; i++) {
		make(&streams[i], &a, &b, kind, i);
		RIG_CHECK(!pthread_create(&streams[i].receiver, NULL, receive, &streams[i]));
	}
	for (uint64_t m = 0; m < messages && !status; m += DEPTH)
		for (uint32_t i = 0; i < queues && !status; i++)
			status = send_burst(&streams[i], m);
	if (status)
		__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < queues; i++)
		pthread_join(streams[i].receiver, NULL);
	if (verdict)
		status = verdict;
	for (uint32_t i = 0; i < queues; i++)
		destroy(&streams[i]);
	rig_close(&a);
	rig_close(&b);
	printf("stream: %u messages on %u queue pairs: %d\n", messages, queues, status);
	return status;
}
