#include "introduction.h"

#include "base/env.h"
#include "base/log.h"
#include "choice.h"
#include "mrw_build.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MRW_CONCURRENT_COMMS = 4 }; /* communicators whose kernels fit on a device at once */
#define MRW_HOST_CHANNELS 4u

static pthread_once_t nonce_once = PTHREAD_ONCE_INIT;
static uint64_t nonce;

static void nonce_make(void)
{
	if (getrandom(&nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce)
		nonce = (uint64_t)(uintptr_t)&nonce ^ (uint64_t)getpid() << 32;
}

static void hash_text(const char *text, uint64_t out[2])
{
	out[0] = 0xcbf29ce484222325u;
	out[1] = 0x9ae16a3b2f90404fu;
	for (const char *p = text; *p; p++) {
		out[0] = (out[0] ^ (uint8_t)*p) * 0x100000001b3u;
		out[1] = (out[1] + (uint8_t)*p) * 0xd6e8feb86659fd93u;
	}
}

/* Boot id and network namespace: arenas travel as descriptors over abstract sockets, which reach exactly that far. */
static void default_host_id(char *text, size_t bytes)
{
	char boot[64] = "unknown";
	struct stat ns;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		ssize_t n = read(fd, boot, sizeof boot - 1);
		boot[n > 0 ? n : 0] = 0;
		boot[strcspn(boot, "\n")] = 0;
		close(fd);
	}
	unsigned long long instance = stat("/proc/self/ns/net", &ns) == 0 ? (unsigned long long)ns.st_ino : 0;
	snprintf(text, bytes, "%s/%llu", boot, instance);
}

static void own_cpus(cpu_set_t *cpus)
{
	if (sched_getaffinity(0, sizeof *cpus, cpus) == 0)
		return;
	/* More CPUs than the set has places: as many as there are. */
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	CPU_ZERO(cpus);
	for (size_t i = 0; i < CPU_SETSIZE && (i == 0 || (long)i < n); i++)
		CPU_SET(i, cpus);
}

void mrw_introduce(struct marrow_comm *comm, struct mrw_introduction *mine)
{
	memset(mine, 0, sizeof *mine);
	pthread_once(&nonce_once, nonce_make);
	mine->terms.value[MRW_TERM_VERSION] = MARROW_VERSION;
	mine->terms.value[MRW_TERM_WIRE] = MRW_WIRE_VERSION;
	mine->terms.value[MRW_TERM_TARGET] = comm->device.runtime->target;
	mine->terms.value[MRW_TERM_ALGO] = (uint64_t)(int64_t)comm->asked_algo;
	if (comm->init.tuning[0]) {
		comm->tuning = mrw_choice_read(&comm->device, comm->init.tuning, &mine->terms.value[MRW_TERM_TUNING]);
		mine->refused = comm->tuning == NULL;
	}
	mine->process[0] = (uint64_t)getpid();
	mine->process[1] = nonce;
	if (comm->init.host_id[0])
		snprintf(mine->host_name, sizeof mine->host_name, "%s", comm->init.host_id);
	else
		default_host_id(mine->host_name, sizeof mine->host_name);
	hash_text(mine->host_name, mine->host);
	mine->max_ctas = comm->max_ctas;
	own_cpus(&mine->cpus);
	mine->device = comm->device.info;
	const char *blocking = mrw_env_foreign("CUDA_LAUNCH_BLOCKING");
	mine->device.shared = comm->device.runtime->target == MARROW_TARGET_CUDA && blocking && strcmp(blocking, "1") == 0;
}

bool mrw_same_process(const struct mrw_introduction *a, const struct mrw_introduction *b)
{
	return a->process[0] == b->process[0] && a->process[1] == b->process[1];
}

bool mrw_same_host(const struct mrw_introduction *a, const struct mrw_introduction *b)
{
	return memcmp(a->host, b->host, sizeof a->host) == 0;
}

bool mrw_same_device(const struct mrw_introduction *a, const struct mrw_introduction *b)
{
	return memcmp(a->device.uuid, b->device.uuid, sizeof a->device.uuid) == 0;
}

enum marrow_status mrw_compare_terms(const struct marrow_comm *comm, const struct mrw_terms *all)
{
	uint32_t rank;
	enum mrw_term term;
	char text[MRW_ERROR_TEXT_BYTES];
	if (!mrw_terms_differ(all, comm->nranks, &rank, &term))
		return MARROW_SUCCESS;
	mrw_terms_text(&all[rank], &all[0], term, mrw_boot_name(comm->boot, rank), mrw_boot_name(comm->boot, 0), text, sizeof text);
	return mrw_fail(MARROW_MISMATCH, "%s", text);
}

/* A table that one rank refuses, because its machine is another one perhaps, is used by none. */
static void drop_refused(struct marrow_comm *comm, struct mrw_introduction *all)
{
	uint32_t first = 0;
	while (first < comm->nranks && !all[first].refused)
		first++;
	if (first == comm->nranks)
		return;
	if (comm->tuning)
		mrw_log(MRW_LOG_WARN, "MARROW_TUNING: %s refused its table (see its warning): no rank of this communicator uses one", mrw_boot_name(comm->boot, first));
	free(comm->tuning);
	comm->tuning = NULL;
	for (uint32_t r = 0; r < comm->nranks; r++)
		all[r].terms.value[MRW_TERM_TUNING] = 0;
}

enum marrow_status mrw_introductions_compare(struct marrow_comm *comm, struct mrw_introduction *all)
{
	struct mrw_terms terms[MRW_MAX_RANKS];
	if (comm->nranks > MRW_MAX_RANKS)
		return mrw_fail(MARROW_UNSUPPORTED, "%u ranks: at most %u", comm->nranks, MRW_MAX_RANKS);
	drop_refused(comm, all);
	for (uint32_t r = 0; r < comm->nranks; r++)
		terms[r] = all[r].terms;
	MRW_TRY(mrw_compare_terms(comm, terms));
	for (uint32_t r = 0; r < comm->nranks; r++)
		for (uint32_t q = 0; q < r; q++)
			if (all[r].device.shared && mrw_same_process(&all[q], &all[r]))
				return mrw_fail(MARROW_INVALID_USAGE, "CUDA_LAUNCH_BLOCKING=1 is set and %s shares its process with rank %u: the first "
						"launch would wait for the second for ever; unset it, or start a process for each rank",
						mrw_boot_name(comm->boot, q), r);
	return MARROW_SUCCESS;
}

/* Streams that share a hardware queue wait for each other: a rank's kernel then stands behind one that waits for it. */
void mrw_warn_of_queues(const struct marrow_comm *comm, const struct mrw_introduction *all)
{
	const char *queues = mrw_env_foreign("CUDA_DEVICE_MAX_CONNECTIONS");
	if (comm->device.runtime->target != MARROW_TARGET_CUDA || (queues && atoi(queues) > 8))
		return;
	for (uint32_t r = 0; r < comm->rank; r++)
		if (mrw_same_process(&all[r], &all[comm->rank]) && mrw_same_device(&all[r], &all[comm->rank])) {
			mrw_log(MRW_LOG_WARN, "ranks %u and %u share a process and a device: set CUDA_DEVICE_MAX_CONNECTIONS=32 before CUDA starts, or "
				"keep to few streams; 8 hardware queues for all streams can make a rank wait for itself", r, comm->rank);
			return;
		}
}

uint32_t mrw_agree_channels(const struct marrow_comm *comm, const struct mrw_introduction *all)
{
	bool host = comm->device.runtime->target == MARROW_TARGET_HOST;
	uint32_t cap = host ? MRW_HOST_CHANNELS : MRW_MAX_CHANNELS;
	for (uint32_t r = 0; r < comm->nranks; r++) {
		uint32_t sharing = 0;
		for (uint32_t q = 0; q < comm->nranks; q++)
			sharing += mrw_same_device(&all[r], &all[q]);
		uint32_t fit = all[r].device.blocks / (sharing * MRW_CONCURRENT_COMMS);
		if (!host && fit < cap)
			cap = fit;
	}
	/* A cap is hard; on the host target it may also raise the default. */
	bool asked = false;
	for (uint32_t r = 0; r < comm->nranks; r++) {
		if (all[r].max_ctas && (all[r].max_ctas < cap || (host && !asked)))
			cap = all[r].max_ctas;
		asked = asked || all[r].max_ctas;
	}
	return cap ? cap : 1;
}

uint32_t mrw_least_cores(const struct marrow_comm *comm, const struct mrw_introduction *all)
{
	int least = CPU_SETSIZE;
	for (uint32_t r = 0; r < comm->nranks; r++) {
		cpu_set_t cpus = all[r].cpus;
		for (uint32_t q = 0; q < comm->nranks; q++)
			if (mrw_same_host(&all[q], &all[r]))
				CPU_OR(&cpus, &cpus, &all[q].cpus);
		least = CPU_COUNT(&cpus) < least ? CPU_COUNT(&cpus) : least;
	}
	return least > 0 ? (uint32_t)least : 1;
}
