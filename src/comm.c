/* comm.c - building a communicator and taking it apart. */
#include "comm.h"

#include "base/env.h"
#include "base/log.h"
#include "choice.h"
#include "mrw_build.h"
#include "terms.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MRW_CONCURRENT_COMMS = 4 }; /* communicators whose kernels fit on a device at once */
#define MRW_DEFAULT_INIT_MS (5ull * 60 * 1000)
#define MRW_DEFAULT_WAIT_MS (30ull * 60 * 1000)
#define MRW_PROOF_MS 30000ull
#define MRW_NOTE_NS 10000000000ull
#define MRW_HOST_CHANNELS 4u

/* Handles of destroyed communicators, oldest first: a stale handle stays recognisable for as long as possible. */
static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static struct marrow_comm *free_first, *free_last;
static uint64_t generations;

/* Without a system call a process knows by this that it is another one. */
static uint32_t forks;

static void note_fork(void)
{
	forks++;
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, note_fork);
}

uint32_t mrw_comm_forks(void)
{
	return forks;
}

struct marrow_comm *mrw_comm_take(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&handles_lock);
	struct marrow_comm *comm = free_first;
	uint64_t generation = ++generations;
	if (comm)
		free_first = comm->next_free;
	if (!free_first)
		free_last = NULL;
	pthread_mutex_unlock(&handles_lock);
	if (!comm)
		comm = malloc(sizeof *comm);
	if (!comm)
		return NULL;
	memset(comm, 0, sizeof *comm);
	comm->generation = generation;
	comm->forks = forks;
	comm->page_fd = -1;
	comm->arena.fd = -1;
	for (uint32_t r = 0; r < MRW_MAX_RANKS; r++)
		comm->peers[r].fd = -1;
	pthread_mutex_init(&comm->lock, NULL);
	return comm;
}

void mrw_comm_give_back(struct marrow_comm *comm)
{
	pthread_mutex_destroy(&comm->lock);
	__atomic_store_n(&comm->life, MRW_LIFE_FREE, __ATOMIC_RELEASE);
	pthread_mutex_lock(&handles_lock);
	comm->next_free = NULL;
	if (free_last)
		free_last->next_free = comm;
	else
		free_first = comm;
	free_last = comm;
	pthread_mutex_unlock(&handles_lock);
}

/* Destroyed, but not yet to be freed. */
static struct marrow_comm *deferred;

void mrw_comm_defer(struct marrow_comm *comm)
{
	mrw_boot_close(comm->boot);
	comm->boot = NULL;
	pthread_mutex_lock(&handles_lock);
	comm->next_free = deferred;
	deferred = comm;
	pthread_mutex_unlock(&handles_lock);
}

void mrw_comm_sweep(int32_t device)
{
	struct marrow_comm *waiting, *next, *stay = NULL, **end = &stay;
	pthread_mutex_lock(&handles_lock);
	waiting = deferred;
	deferred = NULL;
	pthread_mutex_unlock(&handles_lock);
	if (!waiting)
		return;
	for (struct marrow_comm *comm = waiting; comm; comm = next) {
		next = comm->next_free;
		comm->next_free = NULL;
		if (comm->device.info.ordinal == device && comm->device.runtime->left(&comm->device)) {
			mrw_log(MRW_LOG_INFO, "the operations of a destroyed communicator have left: its memory is free now");
			mrw_comm_dismantle(comm);
			mrw_comm_give_back(comm);
		} else {
			*end = comm;
			end = &comm->next_free;
		}
	}
	pthread_mutex_lock(&handles_lock);
	*end = deferred;
	deferred = stay;
	pthread_mutex_unlock(&handles_lock);
}

/* What a rank says of itself before memory is made. */
struct introduction {
	struct mrw_terms terms;  /* as given */
	uint64_t process[2];     /* pid and a random number: equal for ranks of one process */
	uint64_t host[2];        /* hash of the host identity */
	uint32_t max_ctas;
	uint32_t refused;        /* 1: its calibration table */
	cpu_set_t cpus;          /* that it may run on */
	struct mrw_device_info device;
	char host_name[128];     /* the identity, for messages */
};

/* What it says when all its paths are proved. */
struct conclusion {
	struct mrw_terms terms;  /* as they came out, now with NICs and choices */
	uint32_t whole;          /* lines arrive whole */
	uint32_t reserved;
};

/* What it says of its arena. */
struct offer {
	uint32_t status;         /* enum marrow_status so far */
	uint32_t reserved;
	struct mrw_terms terms;  /* as they came out: how the arena is laid out */
	struct mrw_arena arena;
};

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

enum marrow_status mrw_choose_runtime(enum marrow_target target, const struct mrw_runtime **runtime)
{
	*runtime = mrw_comm_runtime ? mrw_comm_runtime : &mrw_host_runtime;
	if (mrw_comm_runtime)
		return MARROW_SUCCESS;
#if MRW_HAVE_CUDA
	if (target != MARROW_TARGET_HOST && mrw_cuda_runtime.present())
		*runtime = &mrw_cuda_runtime;
#endif
	if (target == MARROW_TARGET_CUDA && (*runtime)->target != MARROW_TARGET_CUDA)
		return mrw_fail(MARROW_UNSUPPORTED, "the cuda target was asked for, but this %s; use the host target or fix the driver",
				MRW_HAVE_CUDA ? "machine shows no CUDA device" : "build has no CUDA");
	return MARROW_SUCCESS;
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

static void introduce(struct marrow_comm *comm, struct introduction *mine)
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

static bool same_process(const struct introduction *a, const struct introduction *b)
{
	return a->process[0] == b->process[0] && a->process[1] == b->process[1];
}

static bool same_host(const struct introduction *a, const struct introduction *b)
{
	return memcmp(a->host, b->host, sizeof a->host) == 0;
}

static bool same_device(const struct introduction *a, const struct introduction *b)
{
	return memcmp(a->device.uuid, b->device.uuid, sizeof a->device.uuid) == 0;
}

static enum marrow_status compare_terms(const struct marrow_comm *comm, const struct mrw_terms *all)
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
static void drop_refused(struct marrow_comm *comm, struct introduction *all)
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

/* Everything in which ranks must agree; every rank reaches the same verdict. */
static enum marrow_status compare(struct marrow_comm *comm, struct introduction *all)
{
	struct mrw_terms terms[MRW_MAX_RANKS];
	if (comm->nranks > MRW_MAX_RANKS)
		return mrw_fail(MARROW_UNSUPPORTED, "%u ranks: at most %u", comm->nranks, MRW_MAX_RANKS);
	drop_refused(comm, all);
	for (uint32_t r = 0; r < comm->nranks; r++)
		terms[r] = all[r].terms;
	MRW_TRY(compare_terms(comm, terms));
	for (uint32_t r = 0; r < comm->nranks; r++)
		for (uint32_t q = 0; q < r; q++)
			if (all[r].device.shared && same_process(&all[q], &all[r]))
				return mrw_fail(MARROW_INVALID_USAGE, "CUDA_LAUNCH_BLOCKING is set and ranks %u and %u share a process: the first launch "
						"would wait for the second for ever; unset it", q, r);
	return MARROW_SUCCESS;
}

/* Streams that share a hardware queue wait for each other: a rank's kernel then stands behind one that waits for it. */
static void warn_of_queues(const struct marrow_comm *comm, const struct introduction *all)
{
	const char *queues = mrw_env_foreign("CUDA_DEVICE_MAX_CONNECTIONS");
	if (comm->device.runtime->target != MARROW_TARGET_CUDA || (queues && atoi(queues) > 8))
		return;
	for (uint32_t r = 0; r < comm->rank; r++)
		if (same_process(&all[r], &all[comm->rank]) && same_device(&all[r], &all[comm->rank])) {
			mrw_log(MRW_LOG_WARN, "ranks %u and %u share a process and a device: set CUDA_DEVICE_MAX_CONNECTIONS=32 before CUDA starts, or "
				"keep to few streams; 8 hardware queues for all streams can make a rank wait for itself", r, comm->rank);
			return;
		}
}

/* The channel cap under which all ranks of every device and a few communicators are resident at once. */
static uint32_t agree_channels(const struct marrow_comm *comm, const struct introduction *all)
{
	bool host = comm->device.runtime->target == MARROW_TARGET_HOST;
	uint32_t cap = host ? MRW_HOST_CHANNELS : MRW_MAX_CHANNELS;
	for (uint32_t r = 0; r < comm->nranks; r++) {
		uint32_t sharing = 0;
		for (uint32_t q = 0; q < comm->nranks; q++)
			sharing += same_device(&all[r], &all[q]);
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

/* CPUs that ranks of a host may run on, all together; of the host that has the fewest. */
static uint32_t least_cores(const struct marrow_comm *comm, const struct introduction *all)
{
	int least = CPU_SETSIZE;
	for (uint32_t r = 0; r < comm->nranks; r++) {
		cpu_set_t cpus = all[r].cpus;
		for (uint32_t q = 0; q < comm->nranks; q++)
			if (same_host(&all[q], &all[r]))
				CPU_OR(&cpus, &cpus, &all[q].cpus);
		least = CPU_COUNT(&cpus) < least ? CPU_COUNT(&cpus) : least;
	}
	return least > 0 ? (uint32_t)least : 1;
}

/* All ranks come to this failure by the same exchange. Slower ones are still in it: this one's hanging up is no news to them. */
static enum marrow_status fail_together(struct marrow_comm *comm, enum marrow_status status)
{
	mrw_boot_tell(comm->boot, MRW_NOTICE_BYE, "");
	return status;
}

/* All ranks hand in a status; all fail if one did. A rank's own failure, and its words, go before what it hears of others. */
static enum marrow_status agree(struct marrow_comm *comm, enum marrow_status mine, const char *step)
{
	uint32_t statuses[MRW_MAX_RANKS], status = mine;
	char text[MRW_ERROR_TEXT_BYTES];
	snprintf(text, sizeof text, "%s", mrw_error_text());
	enum marrow_status heard = mrw_boot_allgather(comm->boot, &status, statuses, sizeof status);
	if (mine != MARROW_SUCCESS)
		mrw_error_set_text(text);
	if (heard != MARROW_SUCCESS)
		return mine != MARROW_SUCCESS ? mine : heard;
	if (mine != MARROW_SUCCESS)
		return fail_together(comm, mine);
	for (uint32_t r = 0; r < comm->nranks; r++)
		if (statuses[r] != MARROW_SUCCESS)
			return fail_together(comm, mrw_fail(MARROW_REMOTE_ERROR, "%s could not %s (%s): see its message",
							    mrw_boot_name(comm->boot, r), step,
							    marrow_status_string((enum marrow_status)statuses[r])));
	return MARROW_SUCCESS;
}

/* Kernels that reach other hosts are others, and fewer of them may fit. */
static enum marrow_status load_spanning(struct marrow_comm *comm, struct introduction *all)
{
	struct mrw_device *d = &comm->device;
	uint32_t blocks[MRW_MAX_RANKS];
	if (!d->runtime->span)
		return MARROW_SUCCESS;
	MRW_TRY(agree(comm, d->runtime->span(d), "load its kernels for several hosts"));
	MRW_TRY(mrw_boot_allgather(comm->boot, &d->info.blocks, blocks, sizeof blocks[0]));
	for (uint32_t r = 0; r < comm->nranks; r++)
		all[r].device.blocks = blocks[r];
	return MARROW_SUCCESS;
}

/* Descriptors of other processes' arenas; fds[r] stays as it is where there is none. */
static enum marrow_status swap_fds(struct marrow_comm *comm, const struct introduction *all, int *fds)
{
	uint32_t others[MRW_MAX_RANKS], count = 0;
	int received[MRW_MAX_RANKS];
	for (uint32_t r = 0; r < comm->nranks; r++)
		if (same_host(&all[r], &all[comm->rank]) && !same_process(&all[r], &all[comm->rank]))
			others[count++] = r;
	if (count == 0)
		return MARROW_SUCCESS;
	MRW_TRY(mrw_boot_swap_fds(comm->boot, others, count, comm->arena.fd, received));
	for (uint32_t i = 0; i < count; i++)
		fds[others[i]] = received[i];
	return MARROW_SUCCESS;
}

static enum marrow_status map_peers(struct marrow_comm *comm, const struct introduction *all, struct offer *offers, const int *fds)
{
	struct mrw_device *d = &comm->device;
	for (uint32_t r = 0; r < comm->nranks; r++) {
		bool near = same_process(&all[r], &all[comm->rank]);
		if (r == comm->rank) {
			comm->args.arena[r] = comm->arena.base;
			continue;
		}
		if (!same_host(&all[r], &all[comm->rank]))
			continue;
		offers[r].arena.fd = fds[r];
		enum marrow_status status = d->runtime->arena_map(d, &offers[r].arena, near, &comm->peers[r]);
		if (status != MARROW_SUCCESS) {
			char why[MRW_ERROR_TEXT_BYTES];
			snprintf(why, sizeof why, "%s", mrw_error_text());
			return mrw_fail(status, "rank %u (device %d) cannot map the memory of %s (device %d): %s", comm->rank, d->info.ordinal,
					mrw_boot_name(comm->boot, r), all[r].device.ordinal, why);
		}
		comm->args.arena[r] = comm->peers[r].base;
	}
	return MARROW_SUCCESS;
}

/* What this rank made of what all said. */
static struct mrw_terms outcome(const struct marrow_comm *comm)
{
	const struct mrw_layout *l = &comm->args.layout;
	const uint64_t parts[] = {l->bytes, l->slots, l->near_slots, l->cells, l->units, l->chunk_bytes, l->lines, l->lanes, l->lane_units,
				  l->lane_chunk_bytes, l->outbox}; /* what decides all the rest */
	struct mrw_terms t;
	memset(&t, 0, sizeof t);
	t.value[MRW_TERM_CHANNELS] = comm->channel_cap;
	t.value[MRW_TERM_HOSTS] = comm->hosts;
	t.value[MRW_TERM_RANKS_A_HOST] = comm->reach.per_host;
	t.value[MRW_TERM_WAYS] = comm->reach.rails ? 1 : comm->reach.ring ? 2 : 0;
	t.value[MRW_TERM_NICS] = comm->network ? mrw_network_nics(comm->network) : 0;
	t.value[MRW_TERM_LAYOUT] = mrw_terms_digest(0, parts, sizeof parts);
	return t;
}

static enum marrow_status share_memory(struct marrow_comm *comm, const struct introduction *all)
{
	struct offer mine, offers[MRW_MAX_RANKS];
	struct mrw_terms terms[MRW_MAX_RANKS];
	int fds[MRW_MAX_RANKS];
	struct mrw_device *d = &comm->device;
	for (uint32_t r = 0; r < comm->nranks; r++)
		fds[r] = -1;
	memset(&mine, 0, sizeof mine);
	mine.status = d->runtime->arena_new(d, comm->args.layout.bytes, &comm->arena);
	mine.arena = comm->arena;
	mine.terms = outcome(comm);
	MRW_TRY(mrw_boot_allgather(comm->boot, &mine, offers, sizeof mine));
	for (uint32_t r = 0; r < comm->nranks; r++)
		terms[r] = offers[r].terms;
	enum marrow_status status = compare_terms(comm, terms);
	if (status != MARROW_SUCCESS)
		return fail_together(comm, status);
	if (mine.status != MARROW_SUCCESS)
		return fail_together(comm, (enum marrow_status)mine.status);
	for (uint32_t r = 0; r < comm->nranks; r++)
		if (offers[r].status != MARROW_SUCCESS)
			return fail_together(comm, mrw_fail(MARROW_REMOTE_ERROR, "%s could not allocate its %llu bytes of shared memory: see its "
							    "message", mrw_boot_name(comm->boot, r),
							    (unsigned long long)comm->args.layout.bytes));
	/* Ranks of one process map each other's memory in place: nobody may leave, and free it, before all are past this. */
	status = agree(comm, swap_fds(comm, all, fds), "pass its memory to its peers");
	if (status == MARROW_SUCCESS)
		status = agree(comm, map_peers(comm, all, offers, fds), "map its peers' memory");
	for (uint32_t r = 0; r < comm->nranks; r++)
		if (fds[r] >= 0)
			close(fds[r]);
	d->runtime->arena_seal(d, &comm->arena);
	return status;
}

/* Ranks on other hosts: NICs, and a queue pair on each to each far peer. */
static enum marrow_status reach_hosts(struct marrow_comm *comm, const struct introduction *all)
{
	struct mrw_network_place place = {.rank = comm->rank, .reach = &comm->reach, .local = comm->reach.local[comm->rank],
					  .near_count = comm->near_count, .nics = comm->init.nics, .first_host = all[0].host_name};
	uint32_t counts[MRW_MAX_RANKS], count = 1;
	for (uint32_t r = 0; r < comm->nranks; r++)
		if (comm->reach.host[r] == comm->reach.host[comm->rank])
			place.gpus[comm->reach.local[r]] = all[r].device.bus;
	for (uint32_t r = 0; r < comm->nranks && !place.other_rank; r++)
		if (!same_host(&all[r], &all[0])) {
			place.other_host = all[r].host_name;
			place.other_rank = r;
		}
	MRW_TRY(agree(comm, mrw_network_count(&place, &count), "open its NIC"));
	MRW_TRY(mrw_boot_allgather(comm->boot, &count, counts, sizeof count));
	for (uint32_t r = 0; r < comm->nranks; r++)
		count = counts[r] < count ? counts[r] : count;
	count = count < comm->channel_cap ? count : comm->channel_cap; /* a channel stays with its NIC */
	MRW_TRY(agree(comm, mrw_network_open(&comm->network, &place, count, &comm->device, &comm->arena), "open its NIC"));
	MRW_TRY(agree(comm, mrw_network_connect(comm->network, comm->boot), "connect to the ranks on other hosts"));
	comm->args.far = mrw_network_far(comm->network);
	mrw_log(MRW_LOG_INFO, "%u hosts: %s (%s); NIC %s, %u queue pairs, %u of them for transfers only", comm->hosts, comm->reach.rails ? "along rails" : comm->reach.ring ? "in a ring" : comm->reach.tree ? "in trees" :
		"every rank with every other one", comm->reach.reason, mrw_network_nic_name(comm->network), mrw_network_queues(comm->network),
		mrw_network_lane_queues(comm->network));
	return MARROW_SUCCESS;
}

/* Who is where, and who is whose peer. */
static enum marrow_status place_ranks(struct marrow_comm *comm, const struct introduction *all)
{
	uint32_t host[MRW_MAX_RANKS];
	for (uint32_t r = 0; r < comm->nranks; r++) {
		host[r] = 0;
		while (!same_host(&all[host[r]], &all[r]))
			host[r]++;
	}
	comm->reach = mrw_reach_of(comm->nranks, host, comm->asked_algo);
	if (comm->reach.tree && comm->asked_algo == MRW_ALGO_TREE) /* packets or chunks: by size */
		comm->forced_algo = -1;
	comm->hosts = comm->reach.hosts;
	comm->near_count = 0;
	for (uint32_t h = 0; h < comm->hosts; h++) {
		uint32_t count = 0;
		for (uint32_t r = 0; r < comm->nranks; r++)
			count += comm->reach.host[r] == h;
		if (count > MRW_MAX_NEAR)
			return mrw_fail(MARROW_UNSUPPORTED, "%u ranks on one host: at most %u", count, MRW_MAX_NEAR);
		if (h == comm->reach.host[comm->rank])
			comm->near_count = count;
	}
	if (comm->hosts > 1 && comm->nranks > MRW_MAX_WHOLE && comm->asked_algo < 0 && comm->device.runtime->target == MARROW_TARGET_CUDA)
		return mrw_fail(MARROW_UNSUPPORTED, "%u ranks on %u hosts: on GPUs at most %u by themselves; MARROW_ALGO=rail (as many ranks on every host), "
				"ring or tree lets more of them try what no GPU has run yet", comm->nranks, comm->hosts, MRW_MAX_WHOLE);
	return MARROW_SUCCESS;
}

static bool keep_waiting(void *p)
{
	(void)p;
	return true;
}

/* The last exchange of init: proof that all ranks will choose alike. */
static enum marrow_status conclude(struct marrow_comm *comm)
{
	struct conclusion mine, all[MRW_MAX_RANKS];
	struct mrw_terms terms[MRW_MAX_RANKS];
	memset(&mine, 0, sizeof mine);
	mine.terms = outcome(comm);
	for (int lines = 0; lines < 2; lines++) { /* what is chosen in either case */
		comm->lines = lines;
		uint64_t digest = mrw_choice_prepare(comm, comm->tuning);
		mine.terms.value[MRW_TERM_CHOICES] = mrw_terms_digest(mine.terms.value[MRW_TERM_CHOICES], &digest, sizeof digest);
	}
	mine.whole = comm->args.layout.lines > 0 && comm->page->torn == 0;
	MRW_TRY(mrw_boot_allgather(comm->boot, &mine, all, sizeof mine));
	comm->lines = true;
	for (uint32_t r = 0; r < comm->nranks; r++) {
		comm->lines = comm->lines && all[r].whole;
		terms[r] = all[r].terms;
	}
	if (!comm->lines && comm->args.layout.lines > 0 && comm->rank == 0)
		mrw_log(MRW_LOG_WARN, "lines of %u bytes do not arrive whole, or not in time, between these ranks: middle-sized messages take other ways",
			MRW_LINE_BYTES);
	mrw_choice_prepare(comm, comm->tuning);
	mrw_choice_tell_all(comm);
	enum marrow_status status = compare_terms(comm, terms);
	return status == MARROW_SUCCESS ? status : fail_together(comm, status);
}

/* Every peer path, with data. */
static enum marrow_status prove(struct marrow_comm *comm)
{
	struct mrw_device *d = &comm->device;
	struct mrw_args args = comm->args;
	uint64_t limit_ns = MRW_PROOF_MS * 1000000;
	args.call.channels = comm->network ? mrw_network_nics(comm->network) : 1;
	if (args.deadline_ns > limit_ns)
		args.deadline_ns = limit_ns;
	enum marrow_status status = d->runtime->launch(d, MRW_KERNEL_PROVE, MARROW_UINT8, &args, MRW_BLOCK_THREADS, d->setup_stream);
	if (status == MARROW_SUCCESS)
		status = d->runtime->finish(d, keep_waiting, NULL);
	d->launched = false;
	if (status == MARROW_SUCCESS)
		status = mrw_comm_look(comm, false);
	MRW_TRY(agree(comm, status, "prove its paths to its peers"));
	return conclude(comm);
}

/* Polls before a waiting thread of the host target yields: none when ranks outnumber cores, and some two microseconds else, since two
 * ranks may share a core all the same. */
static uint32_t spin_limit(const struct marrow_comm *comm)
{
	return comm->cores >= comm->nranks ? 64 : 0;
}

static void host_watch(void *p, uint32_t peer)
{
	mrw_comm_look_waiting(p, peer);
}

static enum marrow_status join(struct marrow_comm *comm)
{
	struct mrw_device *d = &comm->device;
	struct mrw_boot_options options = {comm->timeout_ms ? comm->timeout_ms : MRW_DEFAULT_INIT_MS, comm->init.ifname,
					   comm->init.without, comm->init.parent ? comm->init.parent->boot : NULL,
					   comm->init.members};
	struct introduction mine, *all = NULL;
	struct mrw_page *page = NULL;
	enum marrow_status status;
	bool host = d->runtime->target == MARROW_TARGET_HOST;
	MRW_TRY_GOTO(mrw_boot_open(&comm->boot, &comm->init.id, comm->rank, comm->nranks, &options));
	MRW_TRY_GOTO(mrw_boot_introduce(comm->boot));
	all = calloc(comm->nranks, sizeof *all);
	if (!all) {
		status = mrw_fail(MARROW_OUT_OF_MEMORY, "out of memory for %u ranks", comm->nranks);
		goto fail;
	}
	introduce(comm, &mine);
	MRW_TRY_GOTO(mrw_boot_allgather(comm->boot, &mine, all, sizeof mine));
	status = compare(comm, all);
	if (status == MARROW_SUCCESS)
		status = place_ranks(comm, all);
	if (status != MARROW_SUCCESS) {
		(void)fail_together(comm, status);
		goto fail;
	}
	warn_of_queues(comm, all);
	if (comm->hosts > 1)
		MRW_TRY_GOTO(load_spanning(comm, all));
	comm->channel_cap = agree_channels(comm, all);
	comm->cores = least_cores(comm, all);
	comm->args.layout = mrw_reach_fit(&comm->reach, &comm->channel_cap, host ? MRW_HOST_STAGING_BUDGET : MRW_STAGING_BUDGET);
	comm->args.spin_limit = spin_limit(comm);
	if (host) {
		comm->args.watch = host_watch;
		comm->args.watch_arg = comm;
	}
	status = d->runtime->page_new(d, &comm->page, &page, &comm->page_fd);
	comm->args.page = page;
	if (comm->page) {
		comm->page->magic = MRW_PAGE_MAGIC;
		comm->page->pid = (uint32_t)getpid();
		comm->page->rank = comm->rank;
		comm->page->nranks = comm->nranks;
		comm->page->wire_version = MRW_WIRE_VERSION;
	}
	MRW_TRY_GOTO(agree(comm, status, "make its status page"));
	MRW_TRY_GOTO(share_memory(comm, all));
	if (comm->hosts > 1)
		MRW_TRY_GOTO(reach_hosts(comm, all));
	MRW_TRY_GOTO(prove(comm));
fail:
	free(all);
	free(comm->tuning);
	comm->tuning = NULL;
	return status;
}

enum marrow_status mrw_comm_open(struct marrow_comm *comm)
{
	const struct mrw_runtime *runtime;
	if (comm->device_open)
		return MARROW_SUCCESS;
	MRW_TRY(mrw_choose_runtime(comm->init.target, &runtime));
	comm->device_open = true;
	MRW_TRY(runtime->open(&comm->device, comm->init.device, comm->init.local_rank));
	mrw_comm_sweep(comm->device.info.ordinal);
	return MARROW_SUCCESS;
}

enum marrow_status mrw_comm_build(struct marrow_comm *comm)
{
	enum marrow_status status;
	mrw_log_set_rank((int32_t)comm->rank);
	MRW_TRY_GOTO(mrw_comm_open(comm));
	comm->args.rank = comm->rank;
	comm->args.nranks = comm->nranks;
	comm->args.deadline_ns = (comm->timeout_ms ? comm->timeout_ms : MRW_DEFAULT_WAIT_MS) * 1000000;
	comm->args.note_ns = MRW_NOTE_NS;
	comm->tells = mrw_log_topic_enabled(MRW_TOPIC_SELECT);
	comm->channel_cap = comm->max_ctas ? comm->max_ctas : MRW_MAX_CHANNELS; /* of one rank; join() agrees on another */
	if (comm->nranks > 1)
		MRW_TRY_GOTO(join(comm));
	else
		mrw_boot_drop_id(&comm->init.id);
	__atomic_store_n(&comm->life, MRW_LIFE_LIVE, __ATOMIC_RELEASE);
	return MARROW_SUCCESS;
fail:
	if (!comm->boot) /* nobody will answer at its socket; a claimed one is the bootstrap's own */
		mrw_boot_drop_id(&comm->init.id);
	mrw_comm_dismantle(comm);
	return status;
}

void mrw_comm_dismantle(struct marrow_comm *comm)
{
	struct mrw_device *d = &comm->device;
	mrw_network_close(comm->network);
	comm->network = NULL;
	if (comm->device_open && d->runtime) {
		for (uint32_t r = 0; r < MRW_MAX_RANKS; r++)
			d->runtime->arena_free(d, &comm->peers[r]);
		d->runtime->arena_free(d, &comm->arena);
		d->runtime->page_free(d, comm->page, comm->page_fd);
		d->runtime->close(d);
	}
	comm->page = NULL;
	comm->page_fd = -1;
	comm->device_open = false;
	mrw_boot_close(comm->boot);
	comm->boot = NULL;
}
