/* marrow-softnic: starts processes on an emulated network. See README.md, or `marrow-softnic help`. */
#include "check.h"
#include "fabric.h"
#include "fault.h"
#include "stats.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	RANKS_MAX = 256,
	EXIT_SKIPPED = 77,         /* Meson's word for a test that could not run */
	EXIT_CHECK = 99,
	EXIT_LAUNCHER = 125,
	EXIT_NOT_FOUND = 127,
	KILL_AFTER_SECONDS = 2,
};

struct options {
	uint32_t ranks, hosts, nics, seconds;
	char *host_ids, *faults, *checks, *stats, *trace;
	enum sn_link_layer layer;
	char **command;
};

static volatile sig_atomic_t ending;
static pid_t pids[RANKS_MAX];
static uint32_t started;

static const char usage[] =
	"usage: marrow-softnic run [-n RANKS] [--hosts H] [--nics K] [options] -- COMMAND...\n"
	"       marrow-softnic stats DIRECTORY     counters of a running fabric (/dev/shm/marrow-softnic.PID)\n"
	"       marrow-softnic checks | faults     what the model checks; which faults it can make\n"
	"\n"
	"  -n, --ranks N       processes; each gets MARROW_RANK, MARROW_NRANKS, MARROW_ROOT, MARROW_HOST_ID (default 1)\n"
	"      --hosts H       emulated hosts; ranks fill them in blocks; a single rank has them all (default 1)\n"
	"      --nics K        NICs of each host (default 1)\n"
	"      --host-ids A,B  names of the hosts (default host0,host1,...)\n"
	"      --link LAYER    ethernet (default) or infiniband\n"
	"      --faults LIST   MARROW_SOFTNIC_FAULTS\n"
	"      --checks LIST   MARROW_SOFTNIC_CHECKS: abort, -name\n"
	"      --stats FILE    a line of JSON for each queue pair\n"
	"      --trace FILE    a line for each event; sort -n makes it a timeline\n"
	"      --timeout S     kills everything after S seconds\n"
	"\n"
	"exit status: the worst of the processes' (77 counts as better than any other failure, a signal as 128 + its number);\n"
	"99 if all went well but a check failed; 125 if the launcher itself failed.\n";

static void on_signal(int number)
{
	ending = number;
}

/* A port that is free now, as those behind it should be. Rank 0 binds it. Not one of those that the system gives connections: what remains
 * of them would be in the way for a minute. */
static int free_port(void)
{
	enum { FIRST = 20000, PORTS = 10000, TRIES = 100 };
	unsigned seed = (unsigned)getpid() * 2654435761u ^ (unsigned)time(NULL);

	for (int i = 0; i < TRIES; i++) {
		int port = FIRST + rand_r(&seed) % PORTS, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
		bool is_free = fd >= 0 && !bind(fd, (struct sockaddr *)&address, sizeof(address));

		if (fd >= 0)
			close(fd);
		if (is_free)
			return port;
	}
	return -1;
}

/* The shim lies beside this program, or where it was installed. */
static int find_shim(char path[512])
{
	char self[256];
	ssize_t bytes = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (bytes > 0) {
		char *slash;

		self[bytes] = 0;
		slash = strrchr(self, '/');
		*slash = 0;
		snprintf(path, 512, "%s/libmarrow-softnic.so", self);
		if (!access(path, R_OK))
			return 0;
		snprintf(path, 512, "%s/" SN_LIBRARY_FROM_TOOL "/libmarrow-softnic.so", self);
		if (!access(path, R_OK))
			return 0;
	}
	fprintf(stderr, "marrow-softnic: libmarrow-softnic.so is neither beside this program nor in " SN_LIBRARY_FROM_TOOL "\n");
	return -1;
}

static void set_preload(const char *shim)
{
	const char *before = getenv("LD_PRELOAD");
	char list[2048];

	/* A sanitizer's runtime comes first. */
	snprintf(list, sizeof(list), "%s%s%s%s%s", SN_SANITIZER_RUNTIME, SN_SANITIZER_RUNTIME[0] ? " " : "", shim, before && *before ? " " : "",
		 before ? before : "");
	setenv("LD_PRELOAD", list, 1);
}

static void set_if(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
}

static void start_rank(const struct options *o, const struct sn_fabric_mapping *fabric, uint32_t rank, int port, const char *shim,
		       const sigset_t *mask)
{
	pid_t parent = getpid(), pid = fork();
	char text[64];

	if (pid < 0) {
		fprintf(stderr, "marrow-softnic: fork: %s\n", strerror(errno));
		return;
	}
	if (pid) {
		pids[started++] = pid;
		return;
	}
	/* A launcher that is killed leaves nobody behind. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_LAUNCHER);
	sigprocmask(SIG_SETMASK, mask, NULL);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	signal(SIGALRM, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	snprintf(text, sizeof(text), "%u", rank);
	setenv("MARROW_RANK", text, 1);
	snprintf(text, sizeof(text), "%u", o->ranks);
	setenv("MARROW_NRANKS", text, 1);
	snprintf(text, sizeof(text), "127.0.0.1:%d", port);
	setenv("MARROW_ROOT", text, 1);
	/* One process on several hosts emulates them all, and sees all their NICs. */
	if (o->hosts <= o->ranks)
		setenv("MARROW_HOST_ID", fabric->fabric->host_id[(uint64_t)rank * o->hosts / o->ranks], 1);
	else
		unsetenv("MARROW_HOST_ID");
	setenv("MARROW_SOFTNIC_FABRIC", fabric->directory, 1);
	set_if("MARROW_SOFTNIC_FAULTS", o->faults);
	set_if("MARROW_SOFTNIC_CHECKS", o->checks);
	set_if("MARROW_SOFTNIC_STATS", o->stats);
	set_if("MARROW_SOFTNIC_TRACE", o->trace);
	set_preload(shim);
	execvp(o->command[0], o->command);
	fprintf(stderr, "marrow-softnic: %s: %s\n", o->command[0], strerror(errno));
	_exit(EXIT_NOT_FOUND);
}

static int status_of(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int worse(int a, int b)
{
	int rank_a = a == EXIT_SKIPPED ? 1 : a ? a + 1 : 0, rank_b = b == EXIT_SKIPPED ? 1 : b ? b + 1 : 0;

	return rank_a >= rank_b ? a : b;
}

static void kill_all(int number)
{
	for (uint32_t i = 0; i < started; i++)
		if (pids[i] > 0)
			kill(pids[i], number);
}

static int wait_for_all(void)
{
	uint32_t left = started;
	int worst = 0, status, was_ending = 0;

	while (left) {
		pid_t pid = waitpid(-1, &status, 0);

		if (pid < 0 && errno == EINTR) {
			if (ending) {
				was_ending = ending;
				ending = 0;
				kill_all(was_ending == SIGALRM ? SIGKILL : was_ending);
				if (was_ending == SIGALRM)
					fprintf(stderr, "marrow-softnic: time is up: killed what was left\n");
				else
					alarm(KILL_AFTER_SECONDS);
			}
			continue;
		}
		if (pid < 0)
			break;
		for (uint32_t i = 0; i < started; i++) {
			if (pids[i] != pid)
				continue;
			pids[i] = 0;
			left--;
			if (WIFSIGNALED(status))
				fprintf(stderr, "marrow-softnic: rank %u: killed by signal %d (%s)\n", i, WTERMSIG(status), strsignal(WTERMSIG(status)));
			worst = worse(worst, status_of(status));
		}
	}
	return was_ending && was_ending != SIGALRM ? worse(worst, 128 + was_ending) : worst;
}

static uint32_t report_checks(const struct sn_fabric *fabric)
{
	uint32_t failed = 0;

	for (uint32_t check = 0; check < SN_CHECK_COUNT; check++) {
		uint32_t sum = 0;

		for (uint32_t i = 0; i < SN_PROCESSES_MAX; i++)
			sum += fabric->process[i].failed[check];
		if (sum)
			fprintf(stderr, "marrow-softnic: check %s failed %u times: %s\n", sn_check_name((enum sn_check)check), sum,
				sn_check_meaning((enum sn_check)check));
		failed += sum;
	}
	return failed;
}

static int run(const struct options *o)
{
	struct sn_fabric_mapping fabric;
	const char *ids[SN_HOSTS_MAX];
	char names[SN_HOSTS_MAX][16], shim[512], *rest = o->host_ids;
	struct sigaction action = {.sa_handler = on_signal};
	sigset_t mask;
	int worst, port = free_port();

	if (o->hosts > SN_HOSTS_MAX || (o->hosts > o->ranks && o->ranks > 1) || o->ranks > RANKS_MAX) {
		fprintf(stderr, "marrow-softnic: %u ranks on %u hosts: at most %d ranks, %d hosts, and a rank on each\n", o->ranks, o->hosts, RANKS_MAX,
			SN_HOSTS_MAX);
		return EXIT_LAUNCHER;
	}
	for (uint32_t i = 0; i < o->hosts; i++) {
		snprintf(names[i], sizeof(names[i]), "host%u", i);
		ids[i] = rest ? strsep(&rest, ",") : names[i];
	}
	if (find_shim(shim) || port < 0 || sn_fault_setup(o->faults, 0))
		return EXIT_LAUNCHER;
	if (sn_fabric_make(&fabric, ids, o->hosts, o->nics, o->layer))
		return EXIT_LAUNCHER;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	sigaction(SIGALRM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	sigprocmask(SIG_SETMASK, NULL, &mask);
	for (uint32_t rank = 0; rank < o->ranks; rank++)
		start_rank(o, &fabric, rank, port, shim, &mask);
	alarm(o->seconds);
	worst = started == o->ranks ? wait_for_all() : EXIT_LAUNCHER;
	kill_all(SIGKILL);
	/* Those who were killed could not write theirs. */
	if (o->stats)
		sn_stats_write(fabric.fabric, SN_PROCESSES_MAX, o->stats);
	if (report_checks(fabric.fabric) && (worst == 0 || worst == EXIT_SKIPPED))
		worst = EXIT_CHECK;
	sn_fabric_close(&fabric);
	return worst;
}

static int show_stats(const char *directory)
{
	struct sn_fabric_mapping fabric;
	char line[2048];

	if (sn_fabric_open(&fabric, directory))
		return EXIT_LAUNCHER;
	for (uint32_t i = 0; i < SN_QP_STATS_MAX; i++)
		if (fabric.fabric->stats[i].used && sn_stats_line(fabric.fabric, &fabric.fabric->stats[i], line, sizeof(line)) > 0)
			fputs(line, stdout);
	sn_fabric_close(&fabric);
	return 0;
}

/* A number from 1, or the end of the program. */
static uint32_t count(const char *text, const char *option)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*end || end == text || value == 0 || value > 1000000) {
		fprintf(stderr, "marrow-softnic: %s takes a number from 1, not \"%s\"\n", option, text);
		exit(EXIT_LAUNCHER);
	}
	return (uint32_t)value;
}

static int parse_run(int argc, char **argv)
{
	enum { HOSTS = 256, NICS, HOST_IDS, LINK, FAULTS, CHECKS, STATS, TRACE, TIMEOUT };
	static const struct option table[] = {
		{"ranks", required_argument, NULL, 'n'}, {"hosts", required_argument, NULL, HOSTS}, {"nics", required_argument, NULL, NICS},
		{"host-ids", required_argument, NULL, HOST_IDS}, {"link", required_argument, NULL, LINK}, {"faults", required_argument, NULL, FAULTS},
		{"checks", required_argument, NULL, CHECKS}, {"stats", required_argument, NULL, STATS}, {"trace", required_argument, NULL, TRACE},
		{"timeout", required_argument, NULL, TIMEOUT}, {NULL, 0, NULL, 0}};
	struct options o = {.ranks = 1, .hosts = 1, .nics = 1};

	for (int c; (c = getopt_long(argc, argv, "+n:", table, NULL)) != -1;) {
		switch (c) {
		case 'n': o.ranks = count(optarg, "-n"); break;
		case HOSTS: o.hosts = count(optarg, "--hosts"); break;
		case NICS: o.nics = count(optarg, "--nics"); break;
		case HOST_IDS:
			o.host_ids = optarg;
			o.hosts = 1;
			for (const char *comma = strchr(optarg, ','); comma; comma = strchr(comma + 1, ','))
				o.hosts++;
			break;
		case LINK: o.layer = strcmp(optarg, "infiniband") ? SN_ETHERNET : SN_INFINIBAND; break;
		case FAULTS: o.faults = optarg; break;
		case CHECKS: o.checks = optarg; break;
		case STATS: o.stats = optarg; break;
		case TRACE: o.trace = optarg; break;
		case TIMEOUT: o.seconds = count(optarg, "--timeout"); break;
		default: fputs(usage, stderr); return EXIT_LAUNCHER;
		}
	}
	if (optind == argc) {
		fputs(usage, stderr);
		return EXIT_LAUNCHER;
	}
	o.command = argv + optind;
	return run(&o);
}

int main(int argc, char **argv)
{
	if (argc >= 2 && !strcmp(argv[1], "run"))
		return parse_run(argc - 1, argv + 1);
	if (argc == 3 && !strcmp(argv[1], "stats"))
		return show_stats(argv[2]);
	if (argc == 2 && !strcmp(argv[1], "checks")) {
		for (uint32_t i = 0; i < SN_CHECK_COUNT; i++)
			printf("%-18s %s\n", sn_check_name((enum sn_check)i), sn_check_meaning((enum sn_check)i));
		return 0;
	}
	if (argc == 2 && !strcmp(argv[1], "faults")) {
		for (uint32_t i = 0; i < SN_FAULT_COUNT; i++)
			printf("%-18s %s\n", sn_fault_name((enum sn_fault)i), sn_fault_meaning((enum sn_fault)i));
		return 0;
	}
	bool asked = argc == 2 && (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));
	fputs(usage, asked ? stdout : stderr);
	return asked ? 0 : EXIT_LAUNCHER;
}
