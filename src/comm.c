/* comm.c - building a communicator and taking it apart. */
#include "comm.h"

#include "base/env.h"
#include "base/log.h"
#include "choice.h"
#include "introduction.h"
#include "mrw_build.h"
#include "terms.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MRW_DEFAULT_INIT_MS (5ull * 60 * 1000)
#define MRW_DEFAULT_WAIT_MS (30ull * 60 * 1000)
#define MRW_PROOF_MS 30000ull
#define MRW_NOTE_NS 10000000000ull

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
_Static_assert(sizeof(struct offer) == 144, "tools/sim/bootstrap.c counts with as many bytes");

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
		return mrw_fail(MARROW_UNSUPPORTED, "the cuda target was asked for, but this %s, or use the host target",
				MRW_HAVE_CUDA ? "machine shows no CUDA device: look at its driver" : "build has no CUDA: configure it with -Dcuda=enabled");
	return MARROW_SUCCESS;
}

/* All ranks come to this failure by the same exchange. Slower ones are still in it: this one's hanging up is no news to them. */
static enum marrow_status fail_together(struct marrow_comm *comm, enum marrow_status status)
{
	mrw_boot_tell(comm->boot, MRW_NOTICE_BYE, "");
	return status;
}

/* What a rank told of its fault: where it did, that was before it handed in its status, and came by the same way. */
static const char *told_by(struct marrow_comm *comm, uint32_t rank, struct mrw_boot_event *event)
{
	while (mrw_boot_watch(comm->boot, event))
		if (event->rank == rank && event->notice == MRW_NOTICE_FAULT)
			return event->text;
	return NULL;
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
		if (statuses[r] != MARROW_SUCCESS) {
			struct mrw_boot_event event;
			const char *words = told_by(comm, r, &event);
			return fail_together(comm, mrw_fail(MARROW_REMOTE_ERROR, "%s could not %s (%s): %s", mrw_boot_name(comm->boot, r), step,
							    marrow_status_string((enum marrow_status)statuses[r]),
							    words ? words : "see its message"));
		}
	return MARROW_SUCCESS;
}

enum marrow_status mrw_comm_exchange(struct marrow_comm *comm, const void *mine, void *all, size_t bytes)
{
	if (!comm->boot) {
		memcpy(all, mine, bytes);
		return MARROW_SUCCESS;
	}
	enum marrow_status status = mrw_boot_allgather(comm->boot, mine, all, bytes);
	if (status != MARROW_SUCCESS)
		mrw_comm_fail(comm, status, mrw_error_text());
	return status;
}

/* Kernels that reach other hosts are others, and fewer of them may fit. */
static enum marrow_status load_spanning(struct marrow_comm *comm, struct mrw_introduction *all)
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
static enum marrow_status swap_fds(struct marrow_comm *comm, const struct mrw_introduction *all, int *fds)
{
	uint32_t others[MRW_MAX_RANKS], count = 0;
	int received[MRW_MAX_RANKS];
	for (uint32_t r = 0; r < comm->nranks; r++)
		if (mrw_same_host(&all[r], &all[comm->rank]) && !mrw_same_process(&all[r], &all[comm->rank]))
			others[count++] = r;
	if (count == 0)
		return MARROW_SUCCESS;
	MRW_TRY(mrw_boot_swap_fds(comm->boot, others, count, comm->arena.fd, received));
	for (uint32_t i = 0; i < count; i++)
		fds[others[i]] = received[i];
	return MARROW_SUCCESS;
}

/* Which GPU a rank has, after its name; "" on the host target. */
static const char *name_device(const struct mrw_device_info *info, char *text, size_t bytes)
{
	text[0] = 0;
	if (info->ordinal >= 0)
		snprintf(text, bytes, " (device %d%s%s)", info->ordinal, info->bus[0] ? ", " : "", info->bus);
	return text;
}

static enum marrow_status map_peers(struct marrow_comm *comm, const struct mrw_introduction *all, struct offer *offers, const int *fds)
{
	struct mrw_device *d = &comm->device;
	for (uint32_t r = 0; r < comm->nranks; r++) {
		bool near = mrw_same_process(&all[r], &all[comm->rank]);
		comm->siblings |= (uint64_t)near << r;
		if (r == comm->rank) {
			comm->args.arena[r] = comm->arena.base;
			continue;
		}
		if (!mrw_same_host(&all[r], &all[comm->rank]))
			continue;
		offers[r].arena.fd = fds[r];
		enum marrow_status status = d->runtime->arena_map(d, &offers[r].arena, near, &comm->peers[r]);
		if (status != MARROW_SUCCESS) {
			char why[MRW_ERROR_TEXT_BYTES], mine[48], theirs[48];
			snprintf(why, sizeof why, "%s", mrw_error_text());
			return mrw_fail(status, "rank %u%s cannot map the memory of %s%s: %s", comm->rank, name_device(&d->info, mine, sizeof mine),
					mrw_boot_name(comm->boot, r), name_device(&all[r].device, theirs, sizeof theirs), why);
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
				  l->lane_chunk_bytes, l->lane_slots, l->packet_formats, l->ring, l->tree, l->outbox}; /* what decides all the rest */
	struct mrw_terms t;
	memset(&t, 0, sizeof t);
	t.value[MRW_TERM_CHANNELS] = comm->channel_cap;
	t.value[MRW_TERM_HOSTS] = comm->hosts;
	t.value[MRW_TERM_RANKS_A_HOST] = comm->reach.per_host;
	t.value[MRW_TERM_WAYS] = comm->reach.rails ? 1 : comm->reach.ring ? 2 : comm->reach.tree ? 3 : 0;
	t.value[MRW_TERM_NICS] = comm->network ? mrw_network_nics(comm->network) : 0;
	t.value[MRW_TERM_LAYOUT] = mrw_terms_digest(0, parts, sizeof parts);
	return t;
}

static enum marrow_status share_memory(struct marrow_comm *comm, const struct mrw_introduction *all)
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
	enum marrow_status status = mrw_compare_terms(comm, terms);
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
static enum marrow_status reach_hosts(struct marrow_comm *comm, const struct mrw_introduction *all)
{
	struct mrw_network_place place = {.rank = comm->rank, .reach = &comm->reach, .local = comm->reach.local[comm->rank],
					  .near_count = comm->near_count, .nics = comm->init.nics, .first_host = all[0].host_name};
	uint32_t counts[MRW_MAX_RANKS], count = 1;
	for (uint32_t r = 0; r < comm->nranks; r++)
		if (comm->reach.host[r] == comm->reach.host[comm->rank])
			place.gpus[comm->reach.local[r]] = all[r].device.bus;
	for (uint32_t r = 0; r < comm->nranks && !place.other_rank; r++)
		if (!mrw_same_host(&all[r], &all[0])) {
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
static enum marrow_status place_ranks(struct marrow_comm *comm, const struct mrw_introduction *all)
{
	uint32_t host[MRW_MAX_RANKS];
	for (uint32_t r = 0; r < comm->nranks; r++) {
		host[r] = 0;
		while (!mrw_same_host(&all[host[r]], &all[r]))
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
	return MARROW_SUCCESS;
}

/* Who is whose peer, now that it is known what a rank has. */
static void weigh_ways(struct marrow_comm *comm)
{
	bool host = comm->device.runtime->target == MARROW_TARGET_HOST;
	struct mrw_weigh_machine m = {.figures = mrw_cost_figures_of(comm->device.runtime->target), .target = comm->device.runtime->target,
				      .channels = comm->channel_cap, .cores = host ? comm->cores : 0};
	uint32_t hosts[MRW_MAX_RANKS];
	memcpy(hosts, comm->reach.host, sizeof hosts);
	comm->reach = mrw_weigh(comm->nranks, hosts, comm->asked_algo, &m, &comm->weights);
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
	enum marrow_status status = mrw_compare_terms(comm, terms);
	return status == MARROW_SUCCESS ? status : fail_together(comm, status);
}

/* Every peer path, with data. */
static enum marrow_status prove(struct marrow_comm *comm)
{
	struct mrw_device *d = &comm->device;
	struct mrw_args args = comm->args;
	/* Shorter than an exchange: ranks that miss nothing wait there already, for the words of the one that does. */
	uint64_t limit_ms = comm->timeout_ms ? comm->timeout_ms * 3 / 4 : MRW_PROOF_MS;
	args.call.channels = comm->network ? mrw_network_nics(comm->network) : 1;
	args.deadline_ns = (limit_ms < MRW_PROOF_MS ? limit_ms : MRW_PROOF_MS) * 1000000;
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
	struct mrw_introduction mine, *all = NULL;
	struct mrw_page *page = NULL;
	enum marrow_status status;
	bool host = d->runtime->target == MARROW_TARGET_HOST;
	MRW_TRY_GOTO(mrw_boot_open(&comm->boot, &comm->init.id, comm->rank, comm->nranks, &options));
	all = calloc(comm->nranks, sizeof *all);
	if (!all) {
		status = mrw_fail(MARROW_OUT_OF_MEMORY, "out of memory for %u ranks", comm->nranks);
		goto fail;
	}
	mrw_introduce(comm, &mine);
	MRW_TRY_GOTO(mrw_boot_allgather(comm->boot, &mine, all, sizeof mine));
	status = mrw_introductions_compare(comm, all);
	if (status == MARROW_SUCCESS)
		status = place_ranks(comm, all);
	if (status != MARROW_SUCCESS) {
		(void)fail_together(comm, status);
		goto fail;
	}
	mrw_warn_of_queues(comm, all);
	if (comm->hosts > 1)
		MRW_TRY_GOTO(load_spanning(comm, all));
	comm->channel_cap = mrw_agree_channels(comm, all);
	comm->cores = mrw_least_cores(comm, all);
	weigh_ways(comm);
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

static void announce(const struct marrow_comm *comm)
{
	const struct mrw_device *d = &comm->device;
	uint32_t hosts = comm->hosts ? comm->hosts : 1;
	mrw_log(MRW_LOG_INFO, "marrow %d.%d.%d: rank %u of %u on %u host%s, %s target%s%s, %.1f MiB of memory for this communicator", MARROW_VERSION_MAJOR,
		MARROW_VERSION_MINOR, MARROW_VERSION_PATCH, comm->rank, comm->nranks, hosts, hosts == 1 ? "" : "s", d->runtime->name,
		d->name[0] ? ", " : "", d->name, (double)comm->arena.mapped / (1 << 20));
}

enum marrow_status mrw_comm_build(struct marrow_comm *comm)
{
	enum marrow_status status;
	mrw_log_set_rank((int32_t)comm->rank);
	if (comm->forks != mrw_comm_forks()) {
		status = mrw_fail(MARROW_INVALID_USAGE, "init of rank %u: this process was forked from the one that began it", comm->rank);
		goto fail;
	}
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
	announce(comm);
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
		mrw_windows_drop(comm);
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
