/* bootstrap_perf - what it costs ranks to meet, as processes of one machine: time, messages, bytes and sockets.
 *
 *   bootstrap_perf [-n RANKS[,RANKS...]] [-b BYTES] [-i EXCHANGES] [--check]
 *
 * -n: up to 4096 (default 256)   -b: of a rank's block in the timed exchanges (64)   -i: how many (20)
 * --check: nothing timed is looked at; fails where a rank sent or opened more than is promised (bootstrap.h).
 *
 * open: from the first rank's call of mrw_boot_open() until the last one knows all ranks. Messages are frames sent until then. */
#include <marrow/types.h>

#include "base/error.h"
#include "boot_socket.h"
#include "bootstrap.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MAX = 4096, LISTS_MAX = 16, TIMEOUT_MS = 120000, CHILDREN = 8, DOOR = 64 /* on their way from the root to their parents: 32; some more have not yet said hello */, DESCRIPTORS = 96 };

struct options {
	uint32_t ranks[LISTS_MAX], nlists;
	uint32_t bytes, exchanges;
	bool check;
};

/* Of one rank, in memory that all share. */
struct result {
	struct mrw_boot_cost cost;
	uint64_t begin_ns, opened_ns, exchange_ns;
	uint32_t good;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Byte i of what rank r says in exchange e. */
static uint8_t byte_of(uint32_t r, uint32_t e, uint32_t i)
{
	return (uint8_t)(r * 31 + e * 7 + i);
}

static bool exchange(struct mrw_boot *boot, const struct options *o, uint32_t rank, uint32_t nranks, uint32_t e, uint8_t *all)
{
	uint8_t *mine = all + (size_t)rank * o->bytes;

	for (uint32_t i = 0; i < o->bytes; i++)
		mine[i] = byte_of(rank, e, i);
	if (mrw_boot_allgather(boot, mine, all, o->bytes) != MARROW_SUCCESS)
		return false;
	for (uint32_t r = 0; r < nranks; r++)
		for (uint32_t i = 0; i < o->bytes; i++)
			if (all[(size_t)r * o->bytes + i] != byte_of(r, e, i))
				return false;
	return true;
}

static bool play(const struct options *o, const struct marrow_unique_id *id, uint32_t rank, uint32_t nranks, struct result *result)
{
	struct mrw_boot_options options = {.timeout_ms = TIMEOUT_MS};
	struct mrw_boot *boot;
	uint8_t *all = malloc((size_t)nranks * o->bytes + 1);
	uint64_t begin;
	bool good = all != NULL;

	result->begin_ns = now_ns();
	if (!good || mrw_boot_open(&boot, id, rank, nranks, &options) != MARROW_SUCCESS) {
		fprintf(stderr, "bootstrap_perf: rank %u: %s\n", rank, all ? mrw_error_text() : "no memory");
		free(all);
		return false;
	}
	result->opened_ns = now_ns();
	mrw_boot_get_cost(boot, &result->cost);
	begin = now_ns();
	for (uint32_t e = 0; good && e < o->exchanges; e++)
		good = exchange(boot, o, rank, nranks, e, all);
	result->exchange_ns = (now_ns() - begin) / (o->exchanges ? o->exchanges : 1);
	if (!good)
		fprintf(stderr, "bootstrap_perf: rank %u: an exchange failed or brought wrong bytes: %s\n", rank, mrw_error_text());
	mrw_boot_barrier(boot);
	mrw_boot_tell(boot, MRW_NOTICE_BYE, "");
	mrw_boot_close(boot);
	free(all);
	return good;
}

/* Rank 0 is the root: it is the process that made the id. */
static bool report(const struct options *o, const struct result *results, uint32_t n)
{
	uint64_t first = UINT64_MAX, last = 0, slowest = 0, messages = 0, bytes = 0, most = 0;
	uint32_t links = 0, rounds = results[0].cost.rounds, sockets = 0;
	bool good = true;

	for (uint32_t r = 0; r < n; r++) {
		const struct result *at = &results[r];

		good = good && at->good;
		first = at->begin_ns < first ? at->begin_ns : first;
		last = at->opened_ns > last ? at->opened_ns : last;
		slowest = at->exchange_ns > slowest ? at->exchange_ns : slowest;
		messages += at->cost.messages;
		bytes += at->cost.bytes;
		links = at->cost.links > links ? at->cost.links : links;
		sockets = at->cost.sockets_meeting > sockets ? at->cost.sockets_meeting : sockets;
		most = r > 0 && at->cost.messages > most ? at->cost.messages : most;
	}
	printf("%6u %9.3f %12.1f %9llu %8llu %8llu %12.1f %10.1f %6u %8u\n", n, (double)(last - first) / 1e9, (double)slowest / 1e3,
	       (unsigned long long)messages, (unsigned long long)most, (unsigned long long)results[0].cost.messages, (double)bytes / 1024,
	       (double)results[0].cost.bytes / 1024, links, sockets);
	fflush(stdout);
	/* Two hellos, seated twice, heard and ready; an answer, the table and go to each child; a hello or an answer for each link, and one try more
	 * for half of them. */
	for (uint32_t r = 0; o->check && r < n; r++) {
		const struct mrw_boot_cost *cost = &results[r].cost;
		uint64_t allowed = 6 + 3 * (uint64_t)CHILDREN + 3 * (uint64_t)rounds + (r == 0 ? n : 0);
		uint32_t most_sockets = 2 + CHILDREN + DOOR + 2 * rounds;

		if (cost->messages <= allowed && cost->links <= 2 * rounds && cost->sockets_meeting <= most_sockets)
			continue;
		fprintf(stderr, "bootstrap_perf: rank %u of %u sent %llu messages (at most %llu), keeps %u sockets (%u) and had %u (%u)\n", r, n,
			(unsigned long long)cost->messages, (unsigned long long)allowed, cost->links, 2 * rounds, cost->sockets_meeting, most_sockets);
		good = false;
	}
	return good;
}

static bool run(const struct options *o, uint32_t n)
{
	struct result *results = mmap(NULL, n * sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct marrow_unique_id id;
	uint32_t started = 1;
	bool good;

	if (results == MAP_FAILED || mrw_boot_make_id(&id, "=lo") != MARROW_SUCCESS) {
		fprintf(stderr, "bootstrap_perf: %s\n", results == MAP_FAILED ? "no memory" : mrw_error_text());
		return false;
	}
	fflush(stdout);
	for (uint32_t r = 1; r < n; r++, started++) {
		pid_t pid = fork();

		if (pid == 0) {
			results[r].good = play(o, &id, r, n, &results[r]);
			_exit(0);
		}
		if (pid < 0) {
			perror("bootstrap_perf: fork");
			break;
		}
	}
	if (started == n)
		results[0].good = play(o, &id, 0, n, &results[0]);
	mrw_boot_drop_id(&id);
	while (started-- > 1)
		wait(NULL);
	good = report(o, results, n);
	munmap(results, n * sizeof *results);
	return good;
}

static bool number(const char *text, uint32_t low, uint32_t high, uint32_t *value, const char **end)
{
	char *rest;
	unsigned long v = strtoul(text, &rest, 10);

	if (rest == text || *text == '-' || v < low || v > high)
		return false;
	*value = (uint32_t)v;
	*end = rest;
	return true;
}

static int usage(const char *what)
{
	fprintf(stderr, "bootstrap_perf: %s\nusage: bootstrap_perf [-n RANKS[,RANKS...]] [-b BYTES] [-i EXCHANGES] [--check]\n", what);
	return 2;
}

static int parse(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {{"check", no_argument, NULL, 'c'}, {NULL, 0, NULL, 0}};
	const char *end;
	int c;

	while ((c = getopt_long(argc, argv, "n:b:i:", longs, NULL)) >= 0)
		switch (c) {
		case 'n':
			for (end = optarg, o->nlists = 0; o->nlists < LISTS_MAX; end++) {
				if (!number(end, 2, RANKS_MAX, &o->ranks[o->nlists++], &end) || (*end && *end != ','))
					return usage("-n takes numbers from 2 to 4096 with commas between them");
				if (!*end)
					break;
			}
			if (*end)
				return usage("-n takes 16 numbers at most");
			break;
		case 'b':
			if (!number(optarg, 0, 1 << 20, &o->bytes, &end) || *end)
				return usage("-b takes 0 to 1048576");
			break;
		case 'i':
			if (!number(optarg, 0, 100000, &o->exchanges, &end) || *end)
				return usage("-i takes 0 to 100000");
			break;
		case 'c':
			o->check = true;
			break;
		default:
			return usage("an option it does not know");
		}
	return optind < argc ? usage("it takes no arguments but options") : 0;
}

int main(int argc, char **argv)
{
	struct options o = {.ranks = {256}, .nlists = 1, .bytes = 64, .exchanges = 20};
	struct rlimit files;
	bool good = true;
	int status = parse(argc, argv, &o);

	if (status)
		return status;
	/* What every rank may have at a time is fixed, but for its neighbours. */
	if (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_cur > DESCRIPTORS) {
		files.rlim_cur = DESCRIPTORS;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	printf("# messages and KiB sent until all have met; most: of any rank but the root. sockets: kept by a rank, and the most any had while they met\n");
	printf("%6s %9s %12s %9s %8s %8s %12s %10s %6s %8s\n", "ranks", "open s", "exchange us", "messages", "most", "root", "KiB", "root KiB", "kept",
	       "most");
	for (uint32_t i = 0; i < o.nlists; i++)
		good = run(&o, o.ranks[i]) && good;
	return good ? 0 : 1;
}
