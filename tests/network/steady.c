/* steady.c - collectives across hosts with no thread of the library and no system call but the yield of a waiting host-target team.
 *
 * Two ranks on two emulated hosts, as threads. After a warm-up each installs a filter that turns every system call but those
 * of the yield and of the test's end into a signal, and makes 10000 calls. Run under marrow-softnic; 77 without seccomp. */
#include "support/hosts.h"
#include "support/world.h"

#include "device/flag.h"

#include <dirent.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

enum { RANKS = 2, CALLS = 10000, ALLOWED = CALLS / 200, SMALL = 16, LARGE = 20000, NUMBERS = 512 };

static struct {
	uint32_t warm, done, unfiltered, wrong; /* ranks */
	uint32_t calls[NUMBERS];         /* system calls caught, by number */
	uint32_t late; /* what calls that waited long may make: a look at the peer's socket, two reads, and another every 100 ms (watch.c) */
} shared;

/* The call was not made: it says "try again". */
static void answer(void *context)
{
#if defined(__x86_64__)
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = -EAGAIN;
#elif defined(__aarch64__)
	((ucontext_t *)context)->uc_mcontext.regs[0] = (uint64_t)-EAGAIN;
#endif
}

static void caught(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	answer(context);
	if (info->si_syscall >= 0 && info->si_syscall < NUMBERS)
		__atomic_fetch_add(&shared.calls[info->si_syscall], 1, __ATOMIC_RELAXED);
}

/* For the calling thread: sched_yield and what ends a thread pass, all else traps. */
static int forbid_calls(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_sched_yield, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_rt_sigreturn, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_exit_group, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof code / sizeof code[0], code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Threads of this process that are not the model's. */
static int own_threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	int n = 0;
	for (struct dirent *d; dir && (d = readdir(dir)) != NULL;) {
		char path[300], name[32] = "";
		snprintf(path, sizeof path, "/proc/self/task/%s/comm", d->d_name);
		FILE *f = d->d_name[0] == '.' ? NULL : fopen(path, "r");
		if (!f)
			continue;
		if (!fgets(name, sizeof name, f) || strncmp(name, "softnic", 7) != 0)
			n++;
		fclose(f);
	}
	if (dir)
		closedir(dir);
	return n;
}

static void arrive(uint32_t *word)
{
	__atomic_add_fetch(word, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < RANKS)
		sched_yield();
}

static void call(struct world_rank *self, float *send, float *recv, size_t count)
{
	for (size_t i = 0; i < count; i++)
		send[i] = (float)(self->rank + 1);
	recv[0] = recv[count - 1] = 0;
	uint64_t begin = mrw_clock_ns();
	if (marrow_all_reduce(send, recv, count, MARROW_FLOAT32, MARROW_SUM, self->comms[0], NULL) != MARROW_SUCCESS)
		self->failed = 1;
	uint64_t took = mrw_clock_ns() - begin; /* on a busy machine a rank goes without a core for that long */
	if (took > MRW_WATCH_NS)
		__atomic_fetch_add(&shared.late, (uint32_t)(2 + 2 * took / 100000000), __ATOMIC_RELAXED);
	for (size_t i = 0; i < count; i++)
		if (recv[i] != 3)
			self->failed = 1;
}

static void run(struct world_rank *self)
{
	float *send = calloc(LARGE, sizeof *send), *recv = calloc(LARGE, sizeof *recv);
	if (!send || !recv)
		abort();
	for (int i = 0; i < 10; i++)
		call(self, send, recv, i % 2 ? SMALL : LARGE);
	int threads = own_threads();
	if (threads > RANKS + 1)
		world_fail(self, "%d threads besides the model's, the test has %d", threads, RANKS + 1);
	arrive(&shared.warm);
	/* The filter stays: the rank's communicator cannot be destroyed by this thread any more, and the process ends by exit_group. */
	if (forbid_calls() != 0)
		__atomic_add_fetch(&shared.unfiltered, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < CALLS && !self->failed; i++)
		call(self, send, recv, i % 10 ? SMALL : LARGE);
	if (self->failed)
		__atomic_store_n(&shared.wrong, 1, __ATOMIC_RELAXED);
	arrive(&shared.done);
	if (self->rank != 0)
		for (;;)
			sched_yield();
	uint32_t all = 0, most = 0;
	for (uint32_t i = 0; i < NUMBERS; i++) {
		all += shared.calls[i];
		most = shared.calls[i] > shared.calls[most] ? i : most;
	}
	if (shared.unfiltered > 0)
		_exit(77);
	_exit(shared.wrong ? 1 : all <= ALLOWED + shared.late ? 0 : most > 70 ? 80 : 2 + (int)most);
}

int main(void)
{
	struct world w = {.target = MARROW_TARGET_HOST, .nranks = RANKS, .ncomms = 1};
	struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
	if (hosts_count(RANKS) != RANKS) {
		printf("skipped: wants MARROW_TEST_HOSTS=2 under marrow-softnic\n");
		return 77;
	}
	sigaction(SIGSYS, &action, NULL);
	if (SANITIZED) {
		printf("skipped: a sanitizer makes system calls of its own\n");
		return 77;
	}
	printf("%d all-reduces; exit status 1: wrong; 2 + N: system call N (80: one above 70) was made more often than %d times and in long waits\n", CALLS, ALLOWED);
	fflush(stdout);
	return world_run(&w, run) ? 1 : 0;
}
