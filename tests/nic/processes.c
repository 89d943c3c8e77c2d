/* processes.c - two processes on two hosts, several threads posting to one queue; and a peer that goes away. Arguments: devx, devx_ring or verbs;
 * "stay", "leave" (the second process ends without a word) or "vanish" (its NIC does, by the model's fault). */
#include "ends.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

enum { THREADS = 3, PUTS = 3000, FLAGS = END_BYTES - 4096, STRIDE = 64 };

/* What the two tell each other. */
struct card {
	struct mrw_link_address address;
	struct mrw_region region;
};

/* A socket between the two, made over MARROW_ROOT. */
static int meet(int rank)
{
	char host[64];
	int port, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, peer;
	const char *root = getenv("MARROW_ROOT");
	struct sockaddr_in address = {.sin_family = AF_INET};

	CHECK(root && sscanf(root, "%63[^:]:%d", host, &port) == 2 && fd >= 0);
	address.sin_addr.s_addr = inet_addr(host);
	address.sin_port = htons((uint16_t)port);
	if (rank) {
		for (int i = 0; connect(fd, (struct sockaddr *)&address, sizeof address); i++) {
			CHECK(i < 2000);
			close(fd);
			usleep(5000);
			fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		}
		return fd;
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	CHECK(!bind(fd, (struct sockaddr *)&address, sizeof address) && !listen(fd, 1));
	peer = accept(fd, NULL, NULL);
	CHECK(peer >= 0);
	close(fd);
	return peer;
}

static void swap(int fd, const void *mine, void *theirs, size_t bytes)
{
	CHECK(write(fd, mine, bytes) == (ssize_t)bytes);
	CHECK(recv(fd, theirs, bytes, MSG_WAITALL) == (ssize_t)bytes);
}

static struct end end;
static struct card theirs;

struct poster {
	uint32_t index;
	pthread_t thread;
};

/* Each thread has a word of data and a flag of its own; the flag of i is there after the data of i, and the peer looks. */
static void *post(void *arg)
{
	const struct poster *p = arg;
	uint64_t last = 0, mine = p->index * (uint64_t)STRIDE * 512;

	for (uint64_t i = 1; i <= PUTS; i++) {
		uint64_t from = mine + i % 512 * STRIDE;

		*(uint64_t *)(void *)(end.memory + from) = i;
		CHECK(put(&end, &theirs.region, from, END_BYTES / 2 + p->index * 64, 8, FLAGS + p->index * 64, i,
			  &last));
		/* The word is written again only when all 512 places were. */
		if (i % 256 == 0)
			CHECK(wait_done(&end, last));
	}
	CHECK(wait_done(&end, last));
	return NULL;
}

static void *look(void *arg)
{
	const struct poster *p = arg;
	const uint64_t *flag = (const uint64_t *)(const void *)(end.memory + FLAGS + p->index * 64);
	const uint64_t *data = (const uint64_t *)(const void *)(end.memory + END_BYTES / 2 + p->index * 64);
	uint64_t until = mrw_clock_ns() + 60000000000ull, seen = 0;

	while (seen < PUTS) {
		uint64_t now = mrw_load_relaxed(flag);

		CHECK(now >= seen && now <= PUTS && mrw_clock_ns() < until);
		if (now == seen) {
			sched_yield();
			continue;
		}
		mrw_observed(flag);
		CHECK(mrw_load_relaxed(data) >= now);
		seen = now;
	}
	return NULL;
}

static void all_threads(void *(*body)(void *), struct poster posters[THREADS])
{
	for (uint32_t i = 0; i < THREADS; i++) {
		posters[i].index = i;
		CHECK(!pthread_create(&posters[i].thread, NULL, body, &posters[i]));
	}
}

static void join_all(struct poster posters[THREADS])
{
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(posters[i].thread, NULL);
}

static void write_until_failure(void)
{
	uint64_t last, until = mrw_clock_ns() + 30000000000ull;
	uint32_t syndrome;

	for (uint64_t i = 1; put(&end, &theirs.region, 0, 0, 64, FLAGS, i, &last) && wait_done(&end, last); i++)
		CHECK(mrw_clock_ns() < until);
	syndrome = mrw_fault_syndrome(end.queue.failed);
	printf("syndrome 0x%x: %s\n", syndrome, mrw_syndrome_text(syndrome));
	/* A flush may hide the cause where there is one entry only. */
	CHECK(syndrome == 0x15 || (end.queue.cq_slots == 1 && syndrome == 0x05));
	CHECK(strstr(mrw_syndrome_text(0x15), "gone"));
}

int main(int argc, char **argv)
{
	struct mrw_nic_config config = config_of(argc > 1 ? argv[1] : "auto", 64);
	const char *how = argc > 2 ? argv[2] : "stay", *rank_text = getenv("MARROW_RANK");
	struct poster posters[THREADS], lookers[THREADS];
	struct card mine;
	int rank = rank_text ? atoi(rank_text) : 0, fd;
	char byte = 0;

	need_nics(1);
	fd = meet(rank);
	end_open(&end, 0, &config);
	CHECK_OK(mrw_link_new(end.nic, 1 - (uint32_t)rank, &end.queue, &end.link));
	mrw_link_get_address(end.link, &mine.address);
	mine.region = end.region;
	swap(fd, &mine, &theirs, sizeof mine);
	CHECK_OK(mrw_link_connect(end.link, &theirs.address));
	swap(fd, &byte, &byte, 1);
	if (strcmp(how, "stay")) {
		if (rank == 0) {
			write_until_failure();
		} else if (!strcmp(how, "leave")) {
			usleep(100000);
			_exit(0);
		} else {
			uint64_t until = mrw_clock_ns() + 20000000000ull, first;

			/* The fault is counted in requests of this end. */
			while (!mrw_nic_trouble(end.nic) && mrw_clock_ns() < until) {
				if (mrw_post_reserve(&end.queue, 1, &first)) {
					mrw_wqe_nop(mrw_post_slot(&end.queue, first), first, end.queue.qpn, true);
					mrw_post_ready(&end.queue, first, 1);
				}
				usleep(1000);
			}
			CHECK(strstr(mrw_nic_trouble(end.nic), "the device has failed"));
		}
	} else {
		all_threads(look, lookers);
		all_threads(post, posters);
		join_all(posters);
		join_all(lookers);
		CHECK(end.queue.completed == end.queue.reserved);
		swap(fd, &byte, &byte, 1);
	}
	end_close(&end);
	close(fd);
	return 0;
}
