/* bootstrap.c - joining, connecting, exchanging: each rank goes on when the last of what it waits for is there. */
#include "bootstrap.h"

#include "boot_tree.h"
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

/* A place in the tree: who is there, when it called, when it can serve the next one, and when it had its parent's answer. */
struct arrival {
	uint32_t rank;
	double at, free, seated;
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

static uint32_t children(uint64_t place, uint64_t n)
{
	uint64_t first = place * MRW_BOOT_FANOUT + 1;
	return (uint32_t)(first >= n ? 0 : n - first < MRW_BOOT_FANOUT ? n - first : MRW_BOOT_FANOUT);
}

static uint32_t parent(uint32_t place)
{
	return (place - 1) / MRW_BOOT_FANOUT;
}

static int compare(const void *a, const void *b)
{
	const struct arrival *x = a, *y = b;
	return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : (x->rank > y->rank) - (x->rank < y->rank);
}

/* The root answers one after the other, as they come; who is sent on is a guest until its parent has answered. With the last one the table of all
 * goes down the tree. */
static void join(const struct sim_cluster *c, struct member *m, struct arrival *order, uint32_t n, struct sim_bootstrap *b)
{
	double served = m[0].at, hop = c->socket_us * 1000, table = sizeof(struct mrw_boot_table) + (double)n * sizeof(struct mrw_boot_member);
	for (uint32_t r = 0; r < n; r++)
		order[r] = (struct arrival){.rank = r, .at = m[r].at};
	qsort(order + 1, n - 1, sizeof *order, compare);
	order[0].free = m[0].at;
	for (uint32_t p = 1; p < n; p++) {
		double there = order[p].at + 2 * hop;
		struct arrival *up = &order[parent(p)];
		/* No more guests until one of those before it has its place. */
		if (p > MRW_BOOT_FANOUT + MRW_BOOT_GUESTS && there < order[p - MRW_BOOT_GUESTS].seated)
			there = order[p - MRW_BOOT_GUESTS].seated;
		served = (there > served ? there : served) + c->join_us * 1000;
		order[p].seated = served;
		order[p].free = served + hop;
		if (parent(p) > 0) {
			double asked = order[p].free + 2 * hop;
			up->free = (asked > up->free ? asked : up->free) + c->join_us * 1000;
			order[p].seated = up->free + 2 * hop;
		}
	}
	for (uint32_t p = 1; p < n; p++)
		served = order[p].seated > served ? order[p].seated : served;
	m[0].at = served;
	for (uint32_t p = 0; p < n; p++) {
		struct member *from = &m[order[p].rank];
		for (uint32_t k = 0; k < children(p, n); k++) {
			from->at += wire_ns(c, table);
			m[order[p * MRW_BOOT_FANOUT + 1 + k].rank].at = from->at + hop;
		}
	}
	b->messages += 5 * (uint64_t)(n - 1); /* hello, welcome, seated, table, heard */
	if (n - 1 > MRW_BOOT_FANOUT)          /* hello to the parent and its answer, seated to the root */
		b->messages += 3 * (uint64_t)(n - 1 - MRW_BOOT_FANOUT);
	b->root_sockets = n - 1 < MRW_BOOT_FANOUT + MRW_BOOT_GUESTS ? n - 1 : MRW_BOOT_FANOUT + MRW_BOOT_GUESTS;
	b->root_bytes = (uint64_t)((double)children(0, n) * table);
}

/* Each connects to those of its neighbours that have larger numbers, side by side; that it has goes up the tree, and that all may go comes down. */
static void link_up(const struct sim_cluster *c, struct member *m, const struct arrival *order, uint32_t n, struct sim_bootstrap *b)
{
	uint32_t count = neighbours(n);
	uint64_t most = 0;
	double hop = c->socket_us * 1000, links = count;
	b->sockets = count;
	for (uint32_t r = 0; r < n; r++)
		m[r].at += 2 * hop + links * c->join_us * 1000;
	for (uint32_t p = n - 1; p > 0; p--) {
		struct member *up = &m[order[parent(p)].rank];
		double heard = m[order[p].rank].at + hop;
		up->at = (heard > up->at ? heard : up->at) + c->join_us * 1000;
	}
	for (uint32_t p = 1; p < n; p++)
		m[order[p].rank].at = m[order[parent(p)].rank].at + hop;
	/* Hello, seated, heard, ready; twice the first two where the parent is not the root; answer, table and go to a child. */
	for (uint32_t p = 1; p < n; p++) {
		uint64_t sent = 4u + (parent(p) > 0 ? 2u : 0u) + 3u * (uint64_t)children(p, n);
		most = sent > most ? sent : most;
	}
	b->messages += (uint64_t)n * count + 2 * (uint64_t)(n - 1);
	b->rank_messages += count + most;
}

void sim_bootstrap_run(const struct sim_cluster *c, uint32_t links, struct sim_bootstrap *b)
{
	uint32_t n = sim_cluster_ranks(c);
	struct member *m = calloc(n, sizeof *m);
	struct arrival *order = calloc(n, sizeof *order);
	bool spanning = c->hosts > 1;
	memset(b, 0, sizeof *b);
	for (uint64_t distance = 1; distance < n; distance *= 2)
		b->rounds++;
	b->exchanges = spanning ? SIM_EXCHANGES_SPANNING + (c->cuda ? SIM_EXCHANGES_CUDA : 0) : SIM_EXCHANGES_NEAR;
	if (!m || !order) {
		snprintf(b->fault, sizeof b->fault, "no memory for %u ranks", n);
		free(order);
		free(m);
		return;
	}
	for (uint32_t i = 0; i < c->nlates; i++)
		m[(uint32_t)c->late[i].rank].at += c->late[i].us * 1000;
	join(c, m, order, n, b);
	b->join_us = latest(m, n) / 1000;
	link_up(c, m, order, n, b);
	b->links_us = latest(m, n) / 1000 - b->join_us;
	exchange(c, m, n, INTRODUCTION_BYTES, b);
	exchange(c, m, n, OFFER_BYTES, b);
	if (spanning)
		exchange(c, m, n, CONTACT_BYTES + (double)links * sizeof(struct mrw_link_address), b);
	for (uint32_t i = spanning ? 3 : 2; i < b->exchanges; i++)
		exchange(c, m, n, STATUS_BYTES, b);
	b->us = latest(m, n) / 1000;
	b->exchanges_us = b->us - b->join_us - b->links_us;
	free(order);
	free(m);
}
