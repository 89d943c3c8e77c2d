/* The life of a bootstrap and its exchanges. Joining: boot_setup.c; notices: boot_watch.c; descriptors: boot_swap.c. */
#include "bootstrap.h"

#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "boot.h"

enum {
	OPEN_TIMEOUT_MS = 5 * 60 * 1000,
	SETTLE_MS = 2000 /* a close waits so long at most for peers that are slow to read what they were sent */
};

struct mrw_boot_link *mrw_boot_link_to(struct mrw_boot *boot, uint32_t rank)
{
	for (uint32_t i = 0; i < boot->nlinks; i++)
		if (boot->links[i].rank == rank)
			return &boot->links[i];
	return NULL;
}

uint32_t mrw_boot_neighbours(uint32_t rank, uint32_t nranks, uint32_t neighbours[MRW_BOOT_LINKS_MAX])
{
	uint32_t count = 0;

	for (uint64_t distance = 1; distance < nranks; distance *= 2)
		for (int down = 0; down < 2; down++) {
			uint32_t at = (uint32_t)((rank + (down ? nranks - distance : distance)) % nranks), i = 0;

			while (i < count && neighbours[i] != at)
				i++;
			if (i == count && at != rank)
				neighbours[count++] = at;
		}
	return count;
}

static enum marrow_status make_links(struct mrw_boot *boot)
{
	uint32_t neighbours[MRW_BOOT_LINKS_MAX];

	boot->nlinks = mrw_boot_neighbours(boot->rank, boot->nranks, neighbours);
	boot->links = calloc(boot->nlinks, sizeof *boot->links);
	if (!boot->links) {
		boot->nlinks = 0;
		return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for the bootstrap");
	}
	for (uint32_t i = 0; i < boot->nlinks; i++) {
		boot->links[i].rank = neighbours[i];
		mrw_conn_start(&boot->links[i].conn, -1, NULL, 0);
	}
	return MARROW_SUCCESS;
}

enum marrow_status mrw_boot_set_members(struct mrw_boot *boot, const struct mrw_boot_member *table)
{
	char text[MRW_ADDR_TEXT_BYTES];

	memcpy(boot->members, table, boot->nranks * sizeof *table);
	for (uint32_t i = 0; i < boot->nranks; i++) {
		struct mrw_boot_member *member = &boot->members[i];

		for (int a = 0; a < MRW_BOOT_OWN_ADDRS; a++)
			if (member->addrs[a].family != 4 && member->addrs[a].family != 6)
				memset(&member->addrs[a], 0, sizeof member->addrs[a]);
		if (!table[i].pid_le && !table[i].host[0])
			continue; /* "rank 3" */
		mrw_conn_copy_text(member->host, sizeof member->host, table[i].host, sizeof table[i].host - 1);
		snprintf(boot->names[i], sizeof boot->names[i], "rank %u (%s, pid %u, %s)", i, member->host,
			 le32toh(member->pid_le), mrw_addr_text(&member->addrs[0], false, text));
	}
	return MARROW_SUCCESS;
}

const char *mrw_boot_name(const struct mrw_boot *boot, uint32_t rank)
{
	return rank < boot->nranks ? boot->names[rank] : "a rank out of range";
}

/* Alone: no socket; one that waits behind the id closes. */
static void open_alone(struct mrw_boot *boot)
{
	struct mrw_boot_member self = {.pid_le = htole32((uint32_t)boot->pid)};
	struct mrw_addr bound;
	int fd;

	if (mrw_boot_id_claim(boot->key, &fd, &bound))
		close(fd);
	gethostname(self.host, sizeof self.host - 1);
	mrw_boot_set_members(boot, &self);
	snprintf(boot->names[0], sizeof boot->names[0], "rank 0 (%s, pid %d)", boot->members[0].host, (int)boot->pid);
}

enum marrow_status mrw_boot_open(struct mrw_boot **boot_out, const struct marrow_unique_id *bytes, uint32_t rank,
				 uint32_t nranks, const struct mrw_boot_options *options)
{
	struct mrw_boot *boot;
	struct mrw_boot_id id;
	enum marrow_status status;

	*boot_out = NULL;
	if (!nranks || nranks > 1u << 24 || rank >= nranks)
		return mrw_fail(MARROW_INVALID_ARGUMENT,
				"rank %u of %u: there must be 1 to 2^24 ranks, numbered from 0", rank, nranks);
	MRW_TRY(mrw_boot_id_decode(&id, bytes));
	boot = calloc(1, sizeof *boot);
	if (!boot)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for the bootstrap");
	pthread_mutex_init(&boot->lock, NULL);
	boot->rank = rank;
	boot->nranks = nranks;
	boot->timeout_ms = options && options->timeout_ms ? options->timeout_ms : OPEN_TIMEOUT_MS;
	boot->pid = getpid();
	boot->swap_fd = boot->again_fd = -1;
	if (options) {
		boot->without = options->without;
		boot->parent = options->parent;
		boot->parent_members = options->members;
	}
	memcpy(boot->key, id.key, sizeof boot->key);
	boot->members = calloc(nranks, sizeof *boot->members);
	boot->names = calloc(nranks, sizeof *boot->names);
	boot->heard = calloc(nranks, sizeof *boot->heard);
	boot->swaps = calloc(nranks, sizeof *boot->swaps);
	if (!boot->members || !boot->names || !boot->heard || !boot->swaps) {
		status = mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for a bootstrap of %u ranks", nranks);
		goto fail;
	}
	if (nranks == 1) {
		open_alone(boot);
	} else {
		for (uint32_t i = 0; i < nranks; i++)
			snprintf(boot->names[i], sizeof boot->names[i], "rank %u", i);
		MRW_TRY_GOTO(make_links(boot));
		MRW_TRY_GOTO(mrw_boot_meet(boot, &id, options && options->ifname ? options->ifname : ""));
	}
	boot->parent = NULL;
	*boot_out = boot;
	return MARROW_SUCCESS;
fail:
	mrw_boot_close(boot);
	return status;
}

void mrw_boot_close(struct mrw_boot *boot)
{
	uint64_t until_ms = mrw_boot_now_ms() + SETTLE_MS;

	if (!boot)
		return;
	for (uint32_t i = 0; i < boot->nlinks && boot->pid == getpid(); i++)
		mrw_conn_settle(&boot->links[i].conn, until_ms);
	for (uint32_t i = 0; i < boot->nlinks; i++) {
		struct mrw_boot_link *link = &boot->links[i];

		/* A forked child must not speak for its parent. */
		if (boot->pid == getpid())
			mrw_conn_close(&link->conn);
		else
			mrw_conn_drop(&link->conn);
		for (struct mrw_frame *next; link->arrived; link->arrived = next) {
			next = link->arrived->next;
			free(link->arrived);
		}
	}
	for (struct mrw_boot_news *next; boot->news; boot->news = next) {
		next = boot->news->next;
		free(boot->news);
	}
	mrw_boot_swap_close(boot);
	if (boot->again_fd >= 0)
		close(boot->again_fd);
	pthread_mutex_destroy(&boot->lock);
	free(boot->links);
	free(boot->set.fds);
	free(boot->heard);
	free(boot->swaps);
	free(boot->members);
	free(boot->names);
	free(boot);
}

enum marrow_status mrw_boot_begin_exchange(struct mrw_boot *boot)
{
	if (boot->exchanging)
		return mrw_fail(MARROW_INVALID_USAGE, "two threads exchange over one bootstrap at once");
	boot->exchanging = true;
	return MARROW_SUCCESS;
}

void mrw_boot_end_exchange(struct mrw_boot *boot)
{
	boot->exchanging = false;
}

static struct mrw_frame *take_frame(struct mrw_boot_link *link, uint64_t tag)
{
	for (struct mrw_frame **at = &link->arrived; *at; at = &(*at)->next)
		if ((*at)->tag == tag) {
			struct mrw_frame *frame = *at;

			*at = frame->next;
			return frame;
		}
	return NULL;
}

/* Waits with the lock for the frame of one round. */
static enum marrow_status await_frame(struct mrw_boot *boot, struct mrw_boot_link *from, uint64_t tag, size_t bytes,
				      uint8_t *to, uint64_t deadline_ms)
{
	struct mrw_frame *frame;

	while (!(frame = take_frame(from, tag))) {
		MRW_TRY(mrw_boot_check_trouble(boot, "exchange"));
		if (from->down || from->said_bye)
			return mrw_fail(MARROW_REMOTE_ERROR, "exchange: %s has left", mrw_boot_name(boot, from->rank));
		if (mrw_boot_now_ms() >= deadline_ms)
			return mrw_fail(
				MARROW_TIMEOUT,
				"exchange: nothing from %s within %llu ms, which may itself wait for another rank",
				mrw_boot_name(boot, from->rank), (unsigned long long)boot->timeout_ms);
		mrw_boot_pump(boot, -1, deadline_ms);
	}
	if (frame->bytes != bytes) {
		size_t got = frame->bytes;

		free(frame);
		return mrw_fail(MARROW_MISMATCH,
				"exchange: %s sent %zu bytes where %zu were expected: ranks make different calls",
				mrw_boot_name(boot, from->rank), got, bytes);
	}
	if (bytes)
		memcpy(to, frame->data, bytes);
	free(frame);
	return MARROW_SUCCESS;
}

/* Nothing runs between calls: what is queued must leave before this one returns. */
static enum marrow_status await_sent(struct mrw_boot *boot, uint64_t deadline_ms)
{
	for (;;) {
		const struct mrw_boot_link *slow = NULL;

		for (uint32_t i = 0; i < boot->nlinks && !slow; i++)
			if (!boot->links[i].down && mrw_conn_unsent(&boot->links[i].conn))
				slow = &boot->links[i];
		if (!slow)
			return MARROW_SUCCESS;
		if (mrw_boot_now_ms() >= deadline_ms)
			return mrw_fail(MARROW_TIMEOUT, "exchange: %s took nothing for %llu ms",
					mrw_boot_name(boot, slow->rank), (unsigned long long)boot->timeout_ms);
		mrw_boot_pump(boot, -1, deadline_ms);
	}
}

/* Bruck: blocks[i] is rank + i's, blocks[0] filled in. In round k the first 2^k blocks go down to rank - 2^k, and those of
 * rank + 2^k arrive behind ours; the last round sends what is left. */
static enum marrow_status gather(struct mrw_boot *boot, uint8_t *blocks, size_t bytes)
{
	uint64_t deadline_ms = mrw_boot_now_ms() + boot->timeout_ms;
	uint64_t tag = boot->exchanges++ << 8;

	for (uint64_t distance = 1; distance < boot->nranks; distance *= 2, tag++) {
		size_t count = (size_t)(distance < boot->nranks - distance ? distance : boot->nranks - distance);
		struct mrw_boot_link *to =
			mrw_boot_link_to(boot, (uint32_t)((boot->rank + boot->nranks - distance) % boot->nranks));
		struct mrw_boot_link *from = mrw_boot_link_to(boot, (uint32_t)((boot->rank + distance) % boot->nranks));

		if (!to->down && !mrw_conn_push(&to->conn, MRW_FRAME_EXCHANGE, tag, blocks, count * bytes))
			return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory to exchange %zu bytes", count * bytes);
		MRW_TRY(await_frame(boot, from, tag, count * bytes, blocks + distance * bytes, deadline_ms));
	}
	return await_sent(boot, deadline_ms);
}

/* A rank that fails alone says so, else the others would wait for it until their deadline. */
static enum marrow_status exchange(struct mrw_boot *boot, uint8_t *blocks, size_t bytes)
{
	enum marrow_status status;
	bool alone;

	pthread_mutex_lock(&boot->lock);
	status = mrw_boot_begin_exchange(boot);
	if (status != MARROW_SUCCESS) {
		pthread_mutex_unlock(&boot->lock);
		return status;
	}
	status = gather(boot, blocks, bytes);
	alone = !boot->troubled;
	mrw_boot_end_exchange(boot);
	pthread_mutex_unlock(&boot->lock);
	if (status != MARROW_SUCCESS && alone)
		mrw_boot_tell(boot, MRW_NOTICE_FAULT, mrw_error_text());
	return status;
}

enum marrow_status mrw_boot_allgather(struct mrw_boot *boot, const void *mine, void *all, size_t bytes)
{
	size_t n = boot->nranks;
	uint8_t *blocks;
	enum marrow_status status;

	if (n == 1) {
		if (bytes)
			memmove(all, mine, bytes);
		return MARROW_SUCCESS;
	}
	if (bytes > SIZE_MAX / 4 / n)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "exchange of %zu blocks of %zu bytes", n, bytes);
	blocks = malloc(n * bytes + !bytes);
	if (!blocks) {
		mrw_boot_tell(boot, MRW_NOTICE_FAULT, "has no memory for an exchange");
		return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory to exchange %zu blocks of %zu bytes", n, bytes);
	}
	if (bytes)
		memcpy(blocks, mine, bytes);
	status = exchange(boot, blocks, bytes);
	if (status == MARROW_SUCCESS && bytes) {
		size_t until_wrap = n - boot->rank;

		memcpy((uint8_t *)all + boot->rank * bytes, blocks, until_wrap * bytes);
		memcpy(all, blocks + until_wrap * bytes, boot->rank * bytes);
	}
	free(blocks);
	return status;
}

void mrw_boot_get_cost(const struct mrw_boot *boot, struct mrw_boot_cost *cost)
{
	*cost = boot->met;
	cost->links = boot->nlinks;
	while (1ull << cost->rounds < boot->nranks)
		cost->rounds++;
	for (uint32_t i = 0; i < boot->nlinks; i++) {
		cost->messages += boot->links[i].conn.frames;
		cost->bytes += boot->links[i].conn.bytes;
	}
}

enum marrow_status mrw_boot_barrier(struct mrw_boot *boot)
{
	return mrw_boot_allgather(boot, NULL, NULL, 0);
}

enum marrow_status mrw_boot_make_again_id(struct mrw_boot *boot, uint64_t without, struct marrow_unique_id *bytes)
{
	struct mrw_boot_id id = {.naddrs_le = 0};
	const struct mrw_boot_member *first;
	uint32_t rank = 0, naddrs = 0;
	int fd;

	while (without >> rank & 1)
		rank++;
	first = &boot->members[rank];
	mrw_boot_id_derive(id.key, boot->key);
	if (rank == boot->root_rank && rank != boot->rank)
		id.addrs[naddrs++] = boot->root_addr;
	for (int i = 0; i < MRW_BOOT_OWN_ADDRS; i++)
		if (first->addrs[i].family)
			id.addrs[naddrs++] = first->addrs[i];
	for (uint32_t i = 0; i < naddrs; i++)
		memcpy(id.addrs[i].port_be, first->again_port_be, sizeof id.addrs[i].port_be);
	if (rank == boot->rank) {
		/* A copy: should they not meet, they may try again. */
		fd = fcntl(boot->again_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		if (fd < 0)
			return mrw_sock_fail("listening for the ranks that are left");
		MRW_TRY(mrw_boot_id_offer(id.key, fd, &boot->again_bound));
	}
	mrw_boot_id_encode(bytes, &id, 0, naddrs);
	return MARROW_SUCCESS;
}
