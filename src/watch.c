/* watch.c - what went wrong: the kernels' fault record and the peers' sockets, in words. */
#include "comm.h"

#include <stdio.h>
#include <time.h>

#define MRW_SOCKETS_NS 100000000ull /* between two looks at the sockets */
#define MRW_REPORT_NS 20000000ull  /* a report waits so long for what this rank's own kernels say: both may be of one mismatch */
#define MRW_LEFT_NS 1000000000ull  /* a peer says BYE when its operations are done: what it sent is here by then */

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static const char *name_of(const struct marrow_comm *comm, uint32_t rank)
{
	return comm->boot && rank < comm->nranks ? mrw_boot_name(comm->boot, rank) : "a rank";
}

static const char *wait_text(uint32_t wait_for)
{
	switch (wait_for) {
	case MRW_WAIT_PACKET:
		return "a packet";
	case MRW_WAIT_ROUND:
		return "a round of chunks";
	case MRW_WAIT_LINE:
		return "the other end";
	case MRW_WAIT_CHUNK:
		return "a chunk, or room for one,";
	case MRW_WAIT_PROOF:
		return "the path proof";
	case MRW_WAIT_SEND:
		return "its NIC to take or acknowledge what was sent,";
	default:
		return "its first sign of life";
	}
}

/* What f->mine.seq counts. */
static const char *turn(const struct mrw_call *call)
{
	return mrw_is_pairwise(call->func) ? "transfer" : "operation";
}

/* The queue pair to a peer, or (peer is its owner) the NIC itself. */
static void describe_nic(const struct marrow_comm *comm, const struct mrw_record *f, uint32_t origin, char *text, size_t bytes)
{
	char mine[160], when[240], why[200];
	const char *trouble = comm->network ? mrw_network_trouble(comm->network) : NULL;
	mrw_call_text(&f->mine, mine, sizeof mine);
	if (f->mine.hash == 0)
		snprintf(when, sizeof when, "at the first contact, in init");
	else
		snprintf(when, sizeof when, "while rank %u was in %s, %s %u", comm->rank, mine, turn(&f->mine), f->mine.seq);
	if (origin != comm->rank)
		snprintf(text, bytes, "rank %u's NIC %s, %s; see the message of rank %u", origin,
			 f->peer == origin ? "failed" : "gave up on a queue pair", when, origin);
	else if (f->peer == comm->rank || trouble)
		snprintf(text, bytes, "rank %u's NIC failed: %s; %s", comm->rank, trouble ? trouble : "unknown trouble", when);
	else {
		mrw_network_describe(f->seen, why, sizeof why);
		snprintf(text, bytes, "rank %u's NIC %s gave up on %s: %s; %s", comm->rank,
			 comm->network ? mrw_network_nic_name(comm->network) : "?", name_of(comm, f->peer), why, when);
	}
}

/* Where to look when what peer writes does not arrive at reader, or not whole. */
static const char *path_advice(const struct marrow_comm *comm, uint32_t peer, uint32_t reader)
{
	if (peer < comm->nranks && reader < comm->nranks && comm->reach.host[peer] != comm->reach.host[reader])
		return "look at their NICs, at the GIDs and at the network between the hosts (try ibv_rc_pingpong)";
	return "peer access is granted but does not work; look for PCIe ACS, IOMMU or virtualisation";
}

/* Status and words of a fault record. */
static enum marrow_status describe(const struct marrow_comm *comm, const struct mrw_record *f, char *text, size_t bytes)
{
	char mine[160], theirs[160] = "an unknown call";
	uint32_t origin = f->cause ? mrw_cause_origin(f->cause) : comm->rank;
	mrw_call_text(&f->mine, mine, sizeof mine);
	bool transfer = mrw_is_transfers(f->theirs.func) && f->theirs.op != 0; /* made up by the kernel, out of a line */
	if (f->theirs.hash && (transfer || mrw_call_hash(&f->theirs) == f->theirs.hash)) /* else it was still being written */
		mrw_call_text(&f->theirs, theirs, sizeof theirs);
	switch (f->kind) {
	case MRW_FAULT_MISMATCH:
		if (origin == comm->rank && transfer) {
			snprintf(text, bytes, "the two ends of transfer %u differ: rank %u called %s, %s called %s; both must have the same number of bytes",
				 f->theirs.seq, comm->rank, mine, name_of(comm, f->peer), theirs);
			return MARROW_MISMATCH;
		}
		if (origin == comm->rank) {
			snprintf(text, bytes, "ranks disagree at operation %u: rank %u called %s, %s called %s; make the same calls in the same order",
				 f->mine.seq, comm->rank, mine, name_of(comm, f->peer), theirs);
			return MARROW_MISMATCH;
		}
		snprintf(text, bytes, "rank %u found that rank %u made another call than itself at %s %u, while rank %u was in %s; see the "
			 "message of rank %u", origin, f->peer, turn(&f->mine), f->mine.seq, comm->rank, mine, origin);
		return MARROW_MISMATCH;
	case MRW_FAULT_TIMEOUT:
		if (f->wait_for == MRW_WAIT_PROOF && origin == comm->rank)
			snprintf(text, bytes, "rank %u waited %.1f s in init for the path proof of %s: either that rank is stuck, or what it writes "
				 "does not arrive: %s", origin, (double)f->waited_ns / 1e9, name_of(comm, f->peer), path_advice(comm, f->peer, origin));
		else if (f->wait_for == MRW_WAIT_PROOF)
			snprintf(text, bytes, "rank %u waited in vain in init for the path proof of %s; see the message of rank %u", origin,
				 name_of(comm, f->peer), origin);
		else if (origin == comm->rank)
			snprintf(text, bytes, "rank %u waited %.1f s in %s, %s %u, channel %u, for %s of %s and gave up (expected %llu, saw %llu): "
				 "is that rank late, stuck or gone? MARROW_TIMEOUT_MS sets the deadline", comm->rank, (double)f->waited_ns / 1e9,
				 mine, turn(&f->mine), f->mine.seq, f->channel, wait_text(f->wait_for), name_of(comm, f->peer),
				 (unsigned long long)f->expected, (unsigned long long)f->seen);
		else
			snprintf(text, bytes, "rank %u gave up waiting for rank %u, while rank %u was in %s, %s %u", origin, f->peer, comm->rank,
				 mine, turn(&f->mine), f->mine.seq);
		return MARROW_TIMEOUT;
	case MRW_FAULT_ABORT:
		snprintf(text, bytes, "%s aborted the communicator, while rank %u was in %s, %s %u", name_of(comm, origin), comm->rank, mine,
			 turn(&f->mine), f->mine.seq);
		return origin == comm->rank ? MARROW_ABORTED : MARROW_REMOTE_ERROR;
	case MRW_FAULT_PEER_LOST:
		snprintf(text, bytes, "%s %s, as rank %u noticed, while rank %u was in %s, %s %u", name_of(comm, f->peer),
			 f->peer < comm->nranks && __atomic_load_n(&comm->gone[f->peer], __ATOMIC_RELAXED)
				 ? "has left the communicator (finalized or destroyed it)" : "is gone (killed, crashed, or it left early)", origin, comm->rank, mine, turn(&f->mine), f->mine.seq);
		return MARROW_REMOTE_ERROR;
	case MRW_FAULT_CONCURRENT:
		snprintf(text, bytes, "two operations of the communicator ran at once on rank %u%s%s: order graph replays and eager calls "
			 "against each other", origin, origin == comm->rank ? ", one of them " : "", origin == comm->rank ? mine : "");
		return MARROW_INVALID_USAGE;
	case MRW_FAULT_PROOF:
		if (origin != comm->rank) { /* who had read nothing wrong itself */
			snprintf(text, bytes, "the path from %s to rank %u loses data: %s", name_of(comm, f->peer), origin,
				 path_advice(comm, f->peer, origin));
			return MARROW_REMOTE_ERROR;
		}
		snprintf(text, bytes, "the path from %s to rank %u loses data (expected %016llx, read %016llx): %s", name_of(comm, f->peer), origin,
			 (unsigned long long)f->expected, (unsigned long long)f->seen, path_advice(comm, f->peer, origin));
		return MARROW_SYSTEM_ERROR;
	case MRW_FAULT_NIC:
		describe_nic(comm, f, origin, text, bytes);
		return origin == comm->rank && f->peer == comm->rank ? MARROW_SYSTEM_ERROR : MARROW_REMOTE_ERROR;
	case MRW_FAULT_REPORTED:
		snprintf(text, bytes, "%s reported a fault, as rank %u heard, while rank %u was in %s, %s %u; see its message",
			 name_of(comm, f->peer), origin, comm->rank, mine, turn(&f->mine), f->mine.seq);
		return MARROW_REMOTE_ERROR;
	default:
		snprintf(text, bytes, "unknown fault %u of %s", f->kind, mine);
		return MARROW_INTERNAL_ERROR;
	}
}

/* First failure wins. Caller holds the lock. */
static void keep_first(struct marrow_comm *comm, enum marrow_status status, const char *text)
{
	if (comm->async_status != MARROW_SUCCESS)
		return;
	snprintf(comm->error, sizeof comm->error, "%s", text);
	__atomic_store_n(&comm->async_status, status, __ATOMIC_RELEASE);
}

/* A failure of this rank's own, whether or not it has heard of another before. */
static void fail(struct marrow_comm *comm, enum marrow_status status, const char *text)
{
	__atomic_store_n(&comm->hurt, true, __ATOMIC_RELEASE);
	keep_first(comm, status, text);
}

/* The failure is others' and known by their word: if none of this rank's operations waits for them, it is not hurt. Across hosts that cannot be
 * told: what this rank has sent may not have come. */
static void hear(struct marrow_comm *comm, const char *text)
{
	if (comm->network)
		__atomic_store_n(&comm->hurt, true, __ATOMIC_RELEASE);
	keep_first(comm, MARROW_REMOTE_ERROR, text);
}

static void look_at_record(struct marrow_comm *comm)
{
	char text[MRW_ERROR_TEXT_BYTES];
	if (!comm->page || comm->fault_told || __atomic_load_n(&comm->page->fault.state, __ATOMIC_ACQUIRE) == 0)
		return;
	const struct mrw_record *f = &comm->page->fault;
	fail(comm, describe(comm, f, text, sizeof text), text);
	if (f->cause == 0 && comm->boot)
		mrw_boot_tell(comm->boot, MRW_NOTICE_FAULT, text);
	comm->fault_told = true;
}

/* Makes our kernels leave. */
static void poison_page(struct marrow_comm *comm, enum mrw_fault_kind kind, uint32_t culprit, uint32_t origin)
{
	if (comm->page && __atomic_load_n(&comm->page->abort, __ATOMIC_RELAXED) == 0)
		__atomic_store_n(&comm->page->abort, mrw_cause(kind, culprit, origin, 0), __ATOMIC_RELEASE);
}

/* Has the NIC said that it is not well? */
static void look_at_nic(struct marrow_comm *comm)
{
	char text[MRW_ERROR_TEXT_BYTES];
	const char *trouble = comm->network ? mrw_network_trouble(comm->network) : NULL;
	if (!trouble)
		return;
	snprintf(text, sizeof text, "rank %u's NIC failed: %s", comm->rank, trouble);
	poison_page(comm, MRW_FAULT_NIC, comm->rank, comm->rank);
	if (comm->async_status == MARROW_SUCCESS)
		mrw_boot_tell(comm->boot, MRW_NOTICE_FAULT, text);
	fail(comm, MARROW_SYSTEM_ERROR, text);
}

/* What our own kernels saw goes first; they are poisoned by then, unless the other's NIC is what is dead. over: no longer. */
static void look_at_report(struct marrow_comm *comm, bool over)
{
	if (comm->report_ns == 0 || (!over && now_ns() - comm->report_ns < MRW_REPORT_NS))
		return;
	look_at_record(comm);
	poison_page(comm, MRW_FAULT_REPORTED, comm->reporter, comm->rank);
	hear(comm, comm->report);
}

static void look_at_sockets(struct marrow_comm *comm)
{
	struct mrw_boot_event event;
	char text[MRW_ERROR_TEXT_BYTES];
	while (mrw_boot_watch(comm->boot, &event)) {
		if (event.rank >= comm->nranks)
			continue;
		if (event.notice != MRW_NOTICE_BYE)
			look_at_report(comm, true); /* what comes later is its consequence */
		switch (event.notice) {
		case MRW_NOTICE_BYE:
			__atomic_store_n(&comm->gone[event.rank], now_ns(), __ATOMIC_RELAXED);
			break;
		case MRW_NOTICE_DEAD:
			mrw_text(text, sizeof text, "%s is gone: %s", name_of(comm, event.rank), event.text);
			poison_page(comm, MRW_FAULT_PEER_LOST, event.rank, comm->rank);
			hear(comm, text);
			break;
		case MRW_NOTICE_ABORT:
			snprintf(text, sizeof text, "%s aborted the communicator", name_of(comm, event.rank));
			poison_page(comm, MRW_FAULT_ABORT, event.rank, event.rank);
			hear(comm, text);
			break;
		case MRW_NOTICE_FAULT:
			if (comm->report_ns == 0) {
				mrw_text(comm->report, sizeof comm->report, "%s reported: %s", name_of(comm, event.rank), event.text);
				comm->reporter = event.rank;
				__atomic_store_n(&comm->report_ns, now_ns(), __ATOMIC_RELAXED);
			}
			break;
		case MRW_NOTICE_NONE:
			break;
		}
	}
}

enum marrow_status mrw_comm_look(struct marrow_comm *comm, bool sockets)
{
	if (__atomic_load_n(&comm->async_status, __ATOMIC_ACQUIRE) == MARROW_SUCCESS) {
		bool record = comm->page && __atomic_load_n(&comm->page->fault.state, __ATOMIC_ACQUIRE) != 0;
		bool reported = __atomic_load_n(&comm->report_ns, __ATOMIC_RELAXED) != 0;
		bool due = sockets && comm->boot && now_ns() - __atomic_load_n(&comm->last_watch_ns, __ATOMIC_RELAXED) > MRW_SOCKETS_NS;
		if (!record && !due && !reported)
			return MARROW_SUCCESS;
		pthread_mutex_lock(&comm->lock);
		look_at_record(comm);
		if (due) {
			__atomic_store_n(&comm->last_watch_ns, now_ns(), __ATOMIC_RELAXED);
			look_at_sockets(comm);
			look_at_nic(comm);
		}
		look_at_report(comm, false);
		pthread_mutex_unlock(&comm->lock);
	}
	enum marrow_status status = __atomic_load_n(&comm->async_status, __ATOMIC_ACQUIRE);
	if (status != MARROW_SUCCESS)
		mrw_error_set_text(comm->error);
	return status;
}

void mrw_comm_look_waiting(struct marrow_comm *comm, uint32_t peer)
{
	(void)mrw_comm_look(comm, true);
	uint64_t since = peer < comm->nranks ? __atomic_load_n(&comm->gone[peer], __ATOMIC_RELAXED) : 0;
	if (since != 0 && now_ns() - since > MRW_LEFT_NS)
		poison_page(comm, MRW_FAULT_PEER_LOST, peer, comm->rank);
}

void mrw_comm_fail(struct marrow_comm *comm, enum marrow_status status, const char *text)
{
	pthread_mutex_lock(&comm->lock);
	fail(comm, status, text);
	pthread_mutex_unlock(&comm->lock);
}
