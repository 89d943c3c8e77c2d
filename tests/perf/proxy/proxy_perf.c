/* proxy_perf.c - the same messages posted by the kernel itself and by a CPU proxy: latency, its jitter, CPU time and system calls of both, on
 * one instrument. Run by marrow-softnic run -n N --hosts N: every figure is emulated, and "the kernel" is a thread of the host target.
 *
 * pingpong: ranks 0 and 1 send each other a message in turn; half of the time there and back. allreduce: every rank sends its floats
 * to all others, and adds what came in rank order.
 * Each result is checked. Both ways run in turn, so that what else the machine does meets both. */
#include "calls.h"
#include "transport.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { LOOKS_A_YIELD = 64, MOST_LOAD = 64, COUNTED = 200, WARMUP = 20 };
#define PATIENCE_NS 60000000000ull

static struct options {
	uint64_t least, most, factor;
	uint32_t iterations, rounds, load;
	const char *json;
} options = {.least = 8, .most = 1 << 20, .factor = 8, .iterations = 1000, .rounds = 3};

uint64_t kernel_yields;

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void look_again(uint32_t *looks, uint64_t *yields)
{
	if (++*looks % LOOKS_A_YIELD)
		return;
	__atomic_store_n(yields, __atomic_load_n(yields, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
	sched_yield();
}

/* One pass: a pattern of messages of one size by one transport. */
struct pass {
	const struct transport *transport;
	struct end end;
	void *self;              /* the transport's */
	uint64_t bytes, seq;     /* seq: messages sent so far to each peer */
	uint64_t number[2][END_RANKS]; /* of the last two, by parity */
	uint32_t iterations;
	bool ping_pong, count;
	uint64_t *samples;       /* ns; NULL: none are taken */
	/* results */
	uint64_t wrong;
	struct usage kernel, helper;
};

static void send_to(struct pass *p, uint32_t peer, uint64_t to)
{
	struct message m = {.peer = peer, .bytes = (uint32_t)p->bytes, .from = end_source(&p->end, p->seq), .to = to,
			    .flag = end_flag(&p->end, p->end.rank), .value = p->seq};

	p->number[p->seq & 1][peer] = p->transport->send(p->self, &m);
}

static void wait_flag(struct pass *p, uint32_t sender)
{
	const uint64_t *flag = (const uint64_t *)(const void *)(p->end.memory + end_flag(&p->end, sender));
	uint64_t until = 0;
	uint32_t looks = 0;

	while (mrw_load_relaxed(flag) < p->seq) {
		look_again(&looks, &kernel_yields);
		if (looks % 4096)
			continue;
		until = until ? until : mrw_clock_ns() + PATIENCE_NS;
		if (p->transport->trouble(p->self) || mrw_clock_ns() > until)
			end_die("%s, %llu bytes: message %llu of rank %u: %s", p->transport->name, (unsigned long long)p->bytes,
				(unsigned long long)p->seq, sender, p->transport->trouble(p->self) ? p->transport->trouble(p->self) : "it never came");
	}
	mrw_observed(flag);
}

/* The source of this parity was read by the NIC. */
static void wait_source(struct pass *p, uint32_t peer)
{
	uint32_t looks = 0;

	if (p->seq <= 2 || peer == p->end.rank)
		return;
	while (!p->transport->sent(p->self, peer, p->number[p->seq & 1][peer])) {
		look_again(&looks, &kernel_yields);
		if (p->transport->trouble(p->self))
			end_die("%s: %s", p->transport->name, p->transport->trouble(p->self));
	}
}

/* Small whole numbers: sums are exact. */
static float value(uint64_t seq, uint32_t rank, uint64_t i)
{
	return (float)((seq * 7 + rank * 13 + i) % 1009);
}

static float *floats(const struct pass *p, uint64_t offset)
{
	return (float *)(void *)(p->end.memory + offset);
}

static void fill(struct pass *p)
{
	float *source = floats(p, end_source(&p->end, p->seq));

	for (uint64_t i = 0; i < p->bytes / sizeof *source; i++)
		source[i] = value(p->seq, p->end.rank, i);
}

static void check_message(struct pass *p, uint32_t sender)
{
	const float *slot = floats(p, end_slot(&p->end, sender, p->seq));

	for (uint64_t i = 0; i < p->bytes / sizeof *slot; i++)
		p->wrong += slot[i] != value(p->seq, sender, i);
}

/* Half of the time there and back; the data is made and checked outside of it. */
static uint64_t ping_pong(struct pass *p)
{
	uint32_t peer = 1 - p->end.rank;
	uint64_t begin, took;

	wait_source(p, peer);
	fill(p);
	begin = now_ns(CLOCK_MONOTONIC);
	if (p->end.rank == 0)
		send_to(p, peer, end_slot(&p->end, 0, p->seq));
	wait_flag(p, peer);
	if (p->end.rank == 1)
		send_to(p, peer, end_slot(&p->end, 1, p->seq));
	took = (now_ns(CLOCK_MONOTONIC) - begin) / 2;
	check_message(p, peer);
	return took;
}

static uint64_t all_reduce(struct pass *p, float *result)
{
	struct end *end = &p->end;
	uint64_t begin, n = p->bytes / sizeof *result, took;

	for (uint32_t q = 0; q < end->nranks; q++)
		wait_source(p, q);
	fill(p);
	begin = now_ns(CLOCK_MONOTONIC);
	for (uint32_t q = 0; q < end->nranks; q++)
		if (q != end->rank)
			send_to(p, q, end_slot(end, end->rank, p->seq));
	for (uint32_t q = 0; q < end->nranks; q++) {
		const float *from = floats(p, q == end->rank ? end_source(end, p->seq) : end_slot(end, q, p->seq));

		if (q != end->rank)
			wait_flag(p, q);
		for (uint64_t i = 0; i < n; i++)
			result[i] = q ? result[i] + from[i] : from[i];
	}
	took = now_ns(CLOCK_MONOTONIC) - begin;
	for (uint64_t i = 0; i < n; i++) {
		float sum = 0;

		for (uint32_t q = 0; q < end->nranks; q++)
			sum += value(p->seq, q, i);
		p->wrong += result[i] != sum;
	}
	return took;
}

/* The kernel's thread. A slot of this parity is free: whoever sends message s has seen ours of s - 1, and so has read s - 2. */
static void *kernel(void *arg)
{
	struct pass *p = arg;
	float *result = malloc(p->bytes);
	uint64_t calls = 0, cpu = 0;
	struct usage before = {0}, after;

	if (!result)
		end_die("no memory");
	for (uint32_t i = 0; i < WARMUP + p->iterations; i++) {
		uint64_t took;

		if (i == WARMUP) {
			kernel_yields = 0;
			p->transport->helper_usage(p->self, &before);
			cpu = now_ns(CLOCK_THREAD_CPUTIME_ID);
			if (p->count)
				calls_count(&calls);
		}
		p->seq++;
		took = p->ping_pong ? ping_pong(p) : all_reduce(p, result);
		if (i >= WARMUP && p->samples)
			p->samples[i - WARMUP] = took;
	}
	p->kernel.calls = calls;
	p->kernel.yields = kernel_yields;
	if (!p->count) { /* clocks are asked by calls */
		p->kernel.cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
		p->transport->helper_usage(p->self, &after);
		p->helper.cpu_ns = after.cpu_ns - before.cpu_ns;
		p->helper.yields = after.yields - before.yields;
	}
	/* The last message has left before the proxy may. */
	p->seq += 2;
	for (uint32_t q = 0; q < (p->ping_pong ? 2 : p->end.nranks); q++)
		wait_source(p, q);
	free(result);
	return NULL;
}

static void run_pass(struct pass *p)
{
	struct usage usage;
	pthread_t thread;

	end_open(&p->end, p->bytes, p->transport->queues);
	p->self = p->transport->start(&p->end, p->count);
	ends_barrier();
	if (!p->ping_pong || p->end.rank < 2) {
		if (pthread_create(&thread, NULL, kernel, p))
			end_die("no thread");
		pthread_join(thread, NULL);
	}
	p->transport->helper_usage(p->self, &usage);
	p->helper.calls = usage.calls;
	if (p->count)
		p->helper.yields = usage.yields;
	p->transport->stop(p->self);
	end_close(&p->end);
}

struct line {
	uint64_t wrong;
	struct usage kernel, helper;         /* timed passes */
	struct usage kernel_counted, helper_counted;
};

static void add(struct usage *to, const struct usage *from)
{
	to->cpu_ns += from->cpu_ns;
	to->yields += from->yields;
	to->calls += from->calls;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* All ranks' lines together. */
static void gather_line(struct line *line, uint32_t nranks)
{
	struct line all[END_RANKS];

	ends_gather(line, all, sizeof *line);
	for (uint32_t r = 0; r < nranks; r++) {
		if (r == 0) {
			*line = all[0];
			continue;
		}
		line->wrong += all[r].wrong;
		add(&line->kernel, &all[r].kernel);
		add(&line->helper, &all[r].helper);
		add(&line->kernel_counted, &all[r].kernel_counted);
		add(&line->helper_counted, &all[r].helper_counted);
	}
}

static void print_line(const char *test, uint64_t bytes, const char *path, const struct line *l, const uint64_t *samples, uint64_t n,
		       uint64_t messages, uint64_t counted, bool can_count, FILE *json)
{
	double m = (double)messages;
	double us[] = {(double)samples[n / 2] / 1e3, (double)samples[n * 99 / 100] / 1e3, (double)samples[n - 1] / 1e3};
	double calls = (double)(l->kernel_counted.calls + l->helper_counted.calls) / (double)counted;
	char other[16] = "-";

	if (can_count)
		snprintf(other, sizeof other, "%.2f", calls);
	printf("%-10s %9llu  %-12s %9.1f %9.1f %9.1f  %10.2f %9.2f  %8.2f %8.2f %8s  %6llu\n", test, (unsigned long long)bytes, path, us[0], us[1],
	       us[2], (double)l->kernel.cpu_ns / m / 1e3, (double)l->helper.cpu_ns / m / 1e3, (double)l->kernel.yields / m,
	       (double)l->helper.yields / m, other, (unsigned long long)l->wrong);
	fflush(stdout);
	if (!json)
		return;
	fprintf(json,
		"{\"emulated\": true, \"test\": \"%s\", \"bytes\": %llu, \"path\": \"%s\", \"p50_us\": %.3f, \"p99_us\": %.3f, \"max_us\": %.3f, "
		"\"kernel_cpu_us\": %.3f, \"proxy_cpu_us\": %.3f, \"kernel_yields\": %.3f, \"proxy_yields\": %.3f, ",
		test, (unsigned long long)bytes, path, us[0], us[1], us[2], (double)l->kernel.cpu_ns / m / 1e3,
		(double)l->helper.cpu_ns / m / 1e3, (double)l->kernel.yields / m, (double)l->helper.yields / m);
	if (can_count)
		fprintf(json, "\"other_calls\": %.4f, ", calls);
	fprintf(json, "\"load\": %u, \"wrong\": %llu}\n", options.load, (unsigned long long)l->wrong);
}

/* Both ways, in turn. Returns the number of wrong elements of all ranks. */
static uint64_t compare(bool pings, uint64_t bytes, uint32_t rank, uint32_t nranks, bool can_count, FILE *json)
{
	static const struct transport *const transports[2] = {&transport_kernel, &transport_proxy};
	uint64_t n = (uint64_t)options.iterations * options.rounds, wrong = 0, senders = pings ? 2 : (uint64_t)nranks * (nranks - 1);
	uint32_t counted = options.iterations < COUNTED ? options.iterations : COUNTED;
	uint64_t *samples[2];
	struct line line[2];

	memset(line, 0, sizeof line);
	for (uint32_t t = 0; t < 2; t++) {
		samples[t] = calloc(n, sizeof *samples[t]);
		if (!samples[t])
			end_die("no memory for %llu samples", (unsigned long long)n);
	}
	for (uint32_t round = 0; round < options.rounds + (can_count ? 1 : 0); round++)
		for (uint32_t t = 0; t < 2; t++) {
			bool count = round == options.rounds;
			struct pass p = {.transport = transports[t], .bytes = bytes, .ping_pong = pings, .count = count,
					 .iterations = count ? counted : options.iterations,
					 .samples = count ? NULL : samples[t] + (uint64_t)round * options.iterations};

			run_pass(&p);
			line[t].wrong += p.wrong;
			add(count ? &line[t].kernel_counted : &line[t].kernel, &p.kernel);
			add(count ? &line[t].helper_counted : &line[t].helper, &p.helper);
		}
	for (uint32_t t = 0; t < 2; t++) {
		gather_line(&line[t], nranks);
		qsort(samples[t], n, sizeof *samples[t], by_size);
		if (rank == 0)
			print_line(pings ? "pingpong" : "allreduce", bytes, transports[t]->name, &line[t], samples[t], n, n * senders,
				   counted * senders, can_count, json);
		wrong += line[t].wrong;
		free(samples[t]);
	}
	return wrong;
}

/* Processes that do nothing but use cores; they end with this one. */
static void make_load(void)
{
	for (uint32_t i = 0; i < options.load; i++)
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (volatile uint64_t k = 0;; k = k + 1)
				;
		}
}

static uint64_t size_of(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 10);

	n <<= *end == 'K' || *end == 'k' ? 10 : *end == 'M' || *end == 'm' ? 20 : 0;
	return n / sizeof(float) * sizeof(float);
}

static void usage(FILE *file)
{
	fputs("usage: marrow-softnic run -n N --hosts N -- proxy_perf [-b bytes] [-e bytes] [-f factor] [-n iterations] [-r rounds] [-l N] [--json FILE]\n"
	      "The same messages, posted by the kernel itself and by a CPU proxy. -l: N processes beside it use cores. Emulated: on a model of a NIC.\n",
	      file);
}

static void parse(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *flag = argv[i], *text = i + 1 < argc ? argv[i + 1] : "";

		if (!strcmp(flag, "-h") || !strcmp(flag, "--help")) {
			usage(stdout);
			exit(0);
		}
		i++;
		if (!strcmp(flag, "-b"))
			options.least = size_of(text);
		else if (!strcmp(flag, "-e"))
			options.most = size_of(text);
		else if (!strcmp(flag, "-f"))
			options.factor = strtoull(text, NULL, 10);
		else if (!strcmp(flag, "-n"))
			options.iterations = (uint32_t)strtoul(text, NULL, 10);
		else if (!strcmp(flag, "-r"))
			options.rounds = (uint32_t)strtoul(text, NULL, 10);
		else if (!strcmp(flag, "-l"))
			options.load = (uint32_t)strtoul(text, NULL, 10);
		else if (!strcmp(flag, "--json"))
			options.json = text;
		else
			i = argc + 1; /* unheard of */
		if (i >= argc) {
			usage(stderr);
			exit(2);
		}
	}
	if (options.least < sizeof(float) || options.most < options.least || options.most > 64 << 20 || options.factor < 2 ||
	    !options.iterations || !options.rounds || options.load > MOST_LOAD) {
		fputs("-b is 4 or more, -e between it and 64M, -f 2 or more, -n and -r 1 or more, -l up to 64\n", stderr);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	uint32_t rank, nranks;
	uint64_t wrong = 0;
	FILE *json = NULL;
	bool can_count;

	parse(argc, argv);
	ends_meet(&rank, &nranks);
	can_count = calls_prepare();
	if (rank == 0) {
		make_load();
		json = options.json ? fopen(options.json, "w") : NULL;
		if (options.json && !json)
			end_die("%s cannot be written", options.json);
		printf("# emulated: a model of a NIC on one machine with %ld cores, %u ranks on as many hosts, %u processes of load. A \"kernel\" is a thread here.\n"
		       "# kernel, proxy: CPU time of those threads, and how often they gave their core away; other: system calls but that. All a message.\n"
		       "#%9s %9s  %-12s %9s %9s %9s  %10s %9s  %8s %8s %8s  %6s\n#%9s %9s  %-12s %9s %9s %9s  %10s %9s  %8s %8s %8s\n",
		       sysconf(_SC_NPROCESSORS_ONLN), nranks, options.load, "test", "bytes", "path", "p50", "p99", "max", "kernel", "proxy", "yields", "yields",
		       "other", "wrong", "", "", "", "(us)", "(us)", "(us)", "(us)", "(us)", "kernel", "proxy", "calls");
	}
	for (int pings = 1; pings >= 0; pings--)
		for (uint64_t bytes = options.least; bytes <= options.most; bytes *= options.factor)
			wrong += compare(pings, bytes, rank, nranks, can_count, json);
	if (json && fclose(json))
		end_die("%s: write error", options.json);
	ends_part();
	return wrong ? 1 : 0;
}
