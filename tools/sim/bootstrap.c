/* bootstrap.c - joining, connecting, exchanging: each rank goes on when the last of what it waits for is there. */
#include "bootstrap.h"

#include "boot_door.h"
#include "proxyless/nic.h"

#include <stdlib.h>

/* Of the exchanges other than that of addresses: an introduction (introduction.h holds it to this), offers of memory (comm.c), statuses. */
enum { INTRODUCTION_BYTES = 440, OFFER_BYTES = 144, STATUS_BYTES = 4, CONTACT_BYTES = 24 };

struct member {
	double at;     /* when it goes on */
	double came;   /* when the message of this round is there */
	uint64_t have; /* blocks, from its own on */
	uint64_t comes;
};

static double wire_ns(const struct sim_cluster *c, double bytes)
{
	return c->socket_gb_s > 0 ? bytes / c->socket_gb_s : 0;
}

/* One exchange of blocks of so many bytes. Ranks of a host share its port. */
static void exchange(const struct sim_cluster *c, struct member *m, uint32_t n, double bytes, struct sim_bootstrap *b)
{
	double sharers = sim_cluster_most_gpus(c);
	for (uint32_t r = 0; r < n; r++)
		m[r].have = 1;
	for (uint64_t distance = 1; distance < n; distance *= 2) {
		uint64_t count = distance < n - distance ? distance : n - distance;
		double ns = c->socket_us * 1000 + wire_ns(c, (double)count * bytes * sharers);
		for (uint32_t r = 0; r < n; r++) {
			uint32_t to = (uint32_t)((r + n - distance) % n);
			m[to].came = m[r].at + ns;
			m[to].comes = m[r].have < count ? m[r].have : count; /* its first blocks, which are behind mine */
		}
		for (uint32_t r = 0; r < n; r++) {
			if (m[r].have != distance)
				snprintf(b->fault, sizeof b->fault, "rank %u has %llu blocks where %llu are expected", r, (unsigned long long)m[r].have,
					 (unsigned long long)distance);
			m[r].have += m[r].comes;
			m[r].at = m[r].came > m[r].at ? m[r].came : m[r].at;
		}
		b->messages += n;
		b->rank_messages++;
		b->rank_bytes += (uint64_t)((double)count * bytes);
	}
	for (uint32_t r = 0; r < n; r++)
		if (m[r].have != n)
			snprintf(b->fault, sizeof b->fault, "rank %u ends an exchange with %llu blocks of %u", r, (unsigned long long)m[r].have, n);
}

static double latest(const struct member *m, uint32_t n)
{
	double last = 0;
	for (uint32_t r = 0; r < n; r++)
		last = m[r].at > last ? m[r].at : last;
	return last;
}

/* Ranks at distance 1, 2, 4, ... both ways round: as many for every rank. */
static uint32_t neighbours(uint32_t n)
{
	uint32_t taken[64], count = 0;
	for (uint64_t distance = 1; distance < n; distance *= 2)
		for (uint32_t way = 0; way < 2; way++) {
			uint32_t p = (uint32_t)(way ? (n - distance) % n : distance % n), k = 0;
			while (k < count && taken[k] != p)
				k++;
			if (k == count && p != 0)
				taken[count++] = p;
		}
	return count;
}

/* The root serves one after the other: hellos as they come, then to each where its neighbours are. */
static void join(const struct sim_cluster *c, struct member *m, uint32_t n, struct sim_bootstrap *b)
{
	double served = m[0].at, table = sizeof(struct mrw_boot_table) + (1.0 + neighbours(n)) * sizeof(struct mrw_boot_member);
	for (uint32_t r = 1; r < n; r++) {
		double there = m[r].at + 2 * c->socket_us * 1000;
		served = (there > served ? there : served) + c->join_us * 1000;
	}
	for (uint32_t r = 1; r < n; r++) {
		served += wire_ns(c, table);
		m[r].at = served + c->socket_us * 1000;
	}
	m[0].at = served;
	b->messages += 3 * (uint64_t)(n - 1); /* hello, welcome, table */
	b->rank_messages++;
	b->root_sockets = n - 1;
	b->root_bytes = (uint64_t)(n - 1) * (uint64_t)table;
}

/* Each connects to those of its neighbours that have larger numbers, side by side; all tell the root, and it tells all to go. */
static void link_up(const struct sim_cluster *c, struct member *m, uint32_t n, struct sim_bootstrap *b)
{
	uint32_t count = neighbours(n);
	double last, links = count;
	b->sockets = count;
	for (uint32_t r = 0; r < n; r++)
		m[r].at += 2 * c->socket_us * 1000 + links * c->join_us * 1000;
	last = latest(m, n) + c->socket_us * 1000 + (n - 1) * c->join_us * 1000;
	for (uint32_t r = 0; r < n; r++)
		m[r].at = last + (r > 0 ? c->socket_us * 1000 : 0);
	b->messages += (uint64_t)n * count + 2 * (uint64_t)(n - 1);
	b->rank_messages += count + 1;
}

void sim_bootstrap_run(const struct sim_cluster *c, uint32_t links, struct sim_bootstrap *b)
{
	uint32_t n = sim_cluster_ranks(c);
	struct member *m = calloc(n, sizeof *m);
	bool spanning = c->hosts > 1;
	memset(b, 0, sizeof *b);
	for (uint64_t distance = 1; distance < n; distance *= 2)
		b->rounds++;
	b->exchanges = spanning ? SIM_EXCHANGES_SPANNING + (c->cuda ? SIM_EXCHANGES_CUDA : 0) : SIM_EXCHANGES_NEAR;
	if (!m) {
		snprintf(b->fault, sizeof b->fault, "no memory for %u ranks", n);
		return;
	}
	for (uint32_t i = 0; i < c->nlates; i++)
		m[(uint32_t)c->late[i].rank].at += c->late[i].us * 1000;
	join(c, m, n, b);
	b->join_us = latest(m, n) / 1000;
	link_up(c, m, n, b);
	b->links_us = latest(m, n) / 1000 - b->join_us;
	exchange(c, m, n, sizeof(struct mrw_boot_member), b); /* who all are */
	exchange(c, m, n, INTRODUCTION_BYTES, b);
	exchange(c, m, n, OFFER_BYTES, b);
	if (spanning)
		exchange(c, m, n, CONTACT_BYTES + (double)links * sizeof(struct mrw_link_address), b);
	for (uint32_t i = spanning ? 4 : 3; i < b->exchanges; i++)
		exchange(c, m, n, STATUS_BYTES, b);
	b->us = latest(m, n) / 1000;
	b->exchanges_us = b->us - b->join_us - b->links_us;
	free(m);
}
