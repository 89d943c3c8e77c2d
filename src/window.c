/* window.c - registered receive buffers: who maps whose, and what a call says of its own. */
#include "comm.h"

#include "collectives/schedule.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { REASON_BYTES = 320 };
enum kind { REGISTER = 1, DEREGISTER };

/* What a rank brings to a registration, or why it cannot take part; and, later, how far it got. */
struct offer {
	uint32_t status;
	uint32_t kind;           /* enum kind: of the call */
	uint64_t id;             /* of the window; 0: none */
	uint64_t offset;         /* of the window in its buffer */
	struct mrw_arena arena;  /* the buffer */
	char reason[REASON_BYTES];
};

static const char *rank_name(const struct marrow_comm *comm, uint32_t rank)
{
	return comm->boot ? mrw_boot_name(comm->boot, rank) : "rank 0";
}

/* Ranks map each other's windows. */
static bool has_effect(const struct marrow_comm *comm)
{
	return comm->nranks > 1 && comm->hosts == 1;
}

/* All ranks hand in an offer, with what became of their part; all fail if one did, a rank that did in its own words, others in the first one's. Whatever
 * comes of it, ranks number their next registration alike. */
static enum marrow_status agree(struct marrow_comm *comm, const char *call, enum marrow_status status, struct offer *mine, struct offer *all)
{
	mine->status = status;
	if (status != MARROW_SUCCESS)
		snprintf(mine->reason, sizeof mine->reason, "%.*s", REASON_BYTES - 1, mrw_error_text());
	enum marrow_status heard = mrw_comm_exchange(comm, mine, all, sizeof *mine);
	if (status != MARROW_SUCCESS)
		mrw_error_set_text(mine->reason);
	if (heard != MARROW_SUCCESS)
		return status != MARROW_SUCCESS ? status : heard;
	for (uint32_t r = 0; r < comm->nranks; r++)
		comm->window_ids = all[r].id > comm->window_ids ? all[r].id : comm->window_ids;
	for (uint32_t r = 0; status == MARROW_SUCCESS && r < comm->nranks; r++)
		if (all[r].kind != mine->kind)
			status = mrw_fail(MARROW_MISMATCH, "%s: rank %u calls it, %s the other one of marrow_window_register() and _deregister()", call,
					  comm->rank, rank_name(comm, r));
		else if (all[r].status != MARROW_SUCCESS)
			status = mrw_fail(MARROW_REMOTE_ERROR, "%s failed (%s): %s", rank_name(comm, r), marrow_status_string((enum marrow_status)all[r].status),
					  all[r].reason);
	return status;
}

static enum marrow_status check(const struct marrow_comm *comm, const char *call, const void *buffer, size_t bytes, struct marrow_window **out,
				uint32_t *slot)
{
	uint32_t used = 0;
	if (!out)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s: window is NULL", call);
	if (!buffer || bytes == 0)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s: %s", call, buffer ? "0 bytes" : "buffer is NULL");
	for (const struct marrow_window *w = comm->windows; w; w = w->next)
		used |= 1u << w->slot;
	if (used == UINT32_MAX)
		return mrw_fail(MARROW_UNSUPPORTED, "%s: the communicator has %u windows, as many as there can be: deregister one first", call, MRW_MAX_WINDOWS);
	*slot = mrw_lowest_bit(~(uint64_t)used);
	return MARROW_SUCCESS;
}
_Static_assert(MRW_MAX_WINDOWS == 32, "a word has a bit for each");

/* The window, with its buffer held; *offer is to be sealed. */
static enum marrow_status make(struct marrow_comm *comm, const char *call, void *buffer, size_t bytes, struct marrow_window **out,
			       struct marrow_window **made, struct mrw_arena *offer)
{
	uint32_t slot = 0;
	MRW_TRY(check(comm, call, buffer, bytes, out, &slot));
	struct marrow_window *w = calloc(1, sizeof *w);
	if (!w)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "%s: out of memory", call);
	enum marrow_status status = mrw_buffer_hold(&comm->device, call, buffer, bytes, offer);
	if (status != MARROW_SUCCESS) {
		free(w);
		return status;
	}
	w->id = comm->window_ids + 1;
	w->slot = slot;
	w->memory = buffer;
	w->bytes = bytes;
	w->buffer = offer->base;
	*made = w;
	return MARROW_SUCCESS;
}

/* Nobody of this rank uses it any more; peers may have it mapped. */
static void drop(struct marrow_comm *comm, struct marrow_window *w)
{
	for (uint32_t r = 0; r < MRW_MAX_NEAR; r++)
		comm->device.runtime->arena_free(&comm->device, &w->peers[r]);
	mrw_buffer_let_go(w->buffer);
	free(w);
}

/* Ranks whose buffers come as descriptors: those in other processes. */
static uint32_t strangers(const struct marrow_comm *comm, uint32_t *others)
{
	uint32_t count = 0;
	for (uint32_t r = 0; has_effect(comm) && r < comm->nranks; r++)
		if (r != comm->rank && !(comm->siblings >> r & 1))
			others[count++] = r;
	return count;
}

/* Whether as many descriptors as will come can be had: who lacks one while they come is the end of the communicator. */
static enum marrow_status try_room(const struct marrow_comm *comm, const char *call, int fd)
{
	uint32_t others[MRW_MAX_RANKS], count = strangers(comm, others), had = 0;
	int copies[MRW_MAX_RANKS];
	while (had < count && (copies[had] = fcntl(fd, F_DUPFD_CLOEXEC, 3)) >= 0)
		had++;
	enum marrow_status status = had == count ? MARROW_SUCCESS : mrw_fail_errno(MARROW_SYSTEM_ERROR, "%s: no descriptors for the buffers of %u "
		"ranks; raise the file limit with ulimit -n", call, count);
	while (had > 0)
		close(copies[--had]);
	return status;
}

/* fds[r]: a descriptor of rank r's buffer; stays as it is where none is needed. */
static enum marrow_status swap_fds(struct marrow_comm *comm, int mine, int *fds)
{
	uint32_t others[MRW_MAX_RANKS], count = strangers(comm, others);
	int received[MRW_MAX_RANKS];
	if (count == 0)
		return MARROW_SUCCESS;
	MRW_TRY(mrw_boot_swap_fds(comm->boot, others, count, mine, received));
	for (uint32_t i = 0; i < count; i++)
		fds[others[i]] = received[i];
	return MARROW_SUCCESS;
}

/* Peers' buffers, and the entry in which kernels find them. */
static enum marrow_status map_peers(struct marrow_comm *comm, const char *call, struct marrow_window *w, struct offer *offers, const int *fds)
{
	struct mrw_device *d = &comm->device;
	struct mrw_window entry;
	memset(&entry, 0, sizeof entry);
	entry.id = w->id;
	for (uint32_t r = 0; r < comm->nranks; r++) {
		if (r == comm->rank) {
			entry.base[r] = w->memory;
			continue;
		}
		offers[r].arena.fd = fds[r];
		enum marrow_status status = d->runtime->arena_map(d, &offers[r].arena, comm->siblings >> r & 1, &w->peers[r]);
		if (status != MARROW_SUCCESS) {
			char why[MRW_ERROR_TEXT_BYTES];
			snprintf(why, sizeof why, "%s", mrw_error_text());
			return mrw_fail(status, "%s: rank %u cannot map the buffer of %s: %s", call, comm->rank, rank_name(comm, r), why);
		}
		entry.base[r] = w->peers[r].base + offers[r].offset;
	}
	return d->runtime->poke(d, mrw_window_at(&comm->args.layout, comm->arena.base, w->slot), &entry, sizeof entry);
}

/* Kernels find it no more. */
static enum marrow_status hide(struct marrow_comm *comm, const struct marrow_window *w)
{
	struct mrw_window none;
	memset(&none, 0, sizeof none);
	return comm->device.runtime->poke(&comm->device, mrw_window_at(&comm->args.layout, comm->arena.base, w->slot), &none, sizeof none);
}

/* Every rank has a window: they map each other's. */
static enum marrow_status share(struct marrow_comm *comm, const char *call, struct marrow_window *w, struct offer *mine, const struct offer *offers)
{
	struct offer theirs[MRW_MAX_NEAR], all[MRW_MAX_NEAR];
	int fds[MRW_MAX_NEAR];
	memcpy(theirs, offers, comm->nranks * sizeof *offers);
	for (uint32_t r = 0; r < comm->nranks; r++)
		fds[r] = -1;
	/* Ranks of one process map each other's memory in place: nobody may leave, and let go of it, before all are past this. */
	enum marrow_status status = agree(comm, call, swap_fds(comm, mine->arena.fd, fds), mine, all);
	if (status == MARROW_SUCCESS)
		status = agree(comm, call, map_peers(comm, call, w, theirs, fds), mine, all);
	for (uint32_t r = 0; r < comm->nranks; r++)
		if (fds[r] >= 0)
			close(fds[r]);
	return status;
}

/* What is wrong with a rank's call the others hear of. */
static enum marrow_status enroll(struct marrow_comm *comm, const char *call, void *buffer, size_t bytes, struct marrow_window **out)
{
	struct marrow_window *w = NULL;
	struct offer mine, offers[MRW_MAX_RANKS];
	MRW_TRY(mrw_comm_look(comm, true));
	memset(&mine, 0, sizeof mine);
	mine.arena.fd = -1;
	enum marrow_status status = make(comm, call, buffer, bytes, out, &w, &mine.arena);
	if (status == MARROW_SUCCESS)
		status = try_room(comm, call, mine.arena.fd);
	mine.kind = REGISTER;
	mine.id = comm->window_ids + 1;
	mine.offset = w ? (uint64_t)(w->memory - mine.arena.base) : 0;
	status = agree(comm, call, status, &mine, offers);
	for (uint32_t r = 0; status == MARROW_SUCCESS && r < comm->nranks; r++)
		if (offers[r].id != mine.id)
			status = mrw_fail(MARROW_MISMATCH, "%s: it is the registration number %llu of rank %u, %llu of %s: all ranks make the same ones", call,
					  (unsigned long long)mine.id, comm->rank, (unsigned long long)offers[r].id, rank_name(comm, r));
	if (status == MARROW_SUCCESS && has_effect(comm))
		status = share(comm, call, w, &mine, offers);
	if (w)
		comm->device.runtime->arena_seal(&comm->device, &mine.arena);
	if (status == MARROW_SUCCESS) {
		w->next = comm->windows;
		comm->windows = w;
		comm->windowed += has_effect(comm);
		*out = w;
	} else if (w) {
		if (has_effect(comm))
			(void)hide(comm, w);
		drop(comm, w);
	}
	return status;
}

/* Calls of a group would wait for this one, and it for other ranks of this thread. */
static enum marrow_status check_no_group(const char *call)
{
	return mrw_group_active() ? mrw_fail(MARROW_INVALID_USAGE, "%s: not within a group; end it first, and give each rank a thread", call) : MARROW_SUCCESS;
}

enum marrow_status marrow_window_register(struct marrow_comm *comm, void *buffer, size_t bytes, struct marrow_window **window)
{
	static const char call[] = "marrow_window_register";
	if (window)
		*window = NULL;
	MRW_TRY(check_no_group(call));
	MRW_TRY(mrw_comm_enter(comm, call));
	return mrw_comm_leave(comm, enroll(comm, call, buffer, bytes, window));
}

/* Handles are compared, not read, before they are known. */
static struct marrow_window **find(struct marrow_comm *comm, const struct marrow_window *window)
{
	struct marrow_window **at = &comm->windows;
	while (*at && *at != window)
		at = &(*at)->next;
	return at;
}

/* All ranks are past their operations, and give up the same window. */
static enum marrow_status part(struct marrow_comm *comm, const char *call, const struct marrow_window *w, bool known)
{
	struct offer mine, all[MRW_MAX_RANKS];
	memset(&mine, 0, sizeof mine);
	mine.kind = DEREGISTER;
	mine.id = w ? w->id : 0;
	enum marrow_status status = known ? MARROW_SUCCESS : mrw_fail(MARROW_INVALID_ARGUMENT, "%s: no window of this communicator (deregistered twice?)", call);
	MRW_TRY(agree(comm, call, status, &mine, all));
	for (uint32_t r = 0; r < comm->nranks; r++)
		if (all[r].id != mine.id)
			return mrw_fail(MARROW_MISMATCH, "%s: rank %u gives up its registration number %llu, %s its number %llu (0: NULL)", call, comm->rank,
					(unsigned long long)mine.id, rank_name(comm, r), (unsigned long long)all[r].id);
	return MARROW_SUCCESS;
}

static enum marrow_status resign(struct marrow_comm *comm, const char *call, const struct marrow_window *window)
{
	struct marrow_window **at = find(comm, window), *w = *at;
	MRW_TRY(mrw_comm_drain(comm));
	enum marrow_status status = mrw_comm_look(comm, true);
	bool alone = status != MARROW_SUCCESS;
	if (!alone)
		status = part(comm, call, w, w || !window);
	alone = alone || mrw_comm_look(comm, false) != MARROW_SUCCESS;
	if (!w || (status != MARROW_SUCCESS && !alone))
		return status;
	if (has_effect(comm)) {
		enum marrow_status hidden = hide(comm, w);
		status = status != MARROW_SUCCESS ? status : hidden;
	}
	*at = w->next;
	comm->windowed -= has_effect(comm);
	drop(comm, w);
	return status;
}

enum marrow_status marrow_window_deregister(struct marrow_comm *comm, struct marrow_window *window)
{
	static const char call[] = "marrow_window_deregister";
	MRW_TRY(check_no_group(call));
	MRW_TRY(mrw_comm_enter(comm, call));
	return mrw_comm_leave(comm, resign(comm, call, window));
}

void mrw_windows_drop(struct marrow_comm *comm)
{
	while (comm->windows) {
		struct marrow_window *w = comm->windows;
		comm->windows = w->next;
		drop(comm, w);
	}
	comm->windowed = 0;
}

/* Smaller calls lose more by hearing of places than the copies cost. One H200, two and four ranks on it as threads, registered to unregistered: all_reduce
 * of 4 MiB 1.09 and 0.97, of 16 MiB 0.94 and 0.82; all_gather 1.07 and 0.95, 0.93 and 0.77; broadcast of 16 MiB 1.04 and 0.94, of 64 MiB 1.00 and 0.93. */
static uint64_t least(const struct marrow_comm *comm, uint32_t func)
{
	return comm->forced_places ? 0 : func == MRW_FUNC_BROADCAST && comm->nranks == 2 ? 64ull << 20 : 8ull << 20;
}

void mrw_window_place(const struct marrow_comm *comm, struct mrw_args *a, uint64_t recv_bytes)
{
	bool gather = a->call.func == MRW_FUNC_ALL_GATHER;
	uint64_t align = (uint64_t)(uintptr_t)a->out | (gather ? a->bytes : 0);
	a->place = 0;
	a->call.windows = comm->windowed > 0 && mrw_has_places(a->call.func, a->call.algo, a->nranks) &&
			  a->bytes >= least(comm, a->call.func) / (gather ? a->nranks : 1);
	if (!a->call.windows || align % MRW_QUANTUM_BYTES != 0 || (mrw_has_root(a->call.func) && (a->call.func == MRW_FUNC_REDUCE) != (a->rank == a->call.root)))
		return; /* also who receives nothing of others */
	for (const struct marrow_window *w = comm->windows; w; w = w->next) {
		uint64_t offset = (uint64_t)(uintptr_t)a->out - (uint64_t)(uintptr_t)w->memory;
		if (offset < w->bytes && recv_bytes <= w->bytes - offset) {
			a->place = mrw_place(w->slot, offset);
			a->window_id = w->id;
			return;
		}
	}
}
