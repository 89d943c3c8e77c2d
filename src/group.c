/* group.c - calls between group start and end: kept per thread, issued at the outermost end. */
#include "comm.h"

#include <stdio.h>
#include <stdlib.h>

static _Thread_local struct {
	uint32_t depth;
	enum marrow_status status;   /* first failure of a call in the group, and its words */
	char text[MRW_ERROR_TEXT_BYTES];
	struct mrw_task *tasks;
	size_t count, room;
	struct marrow_comm **inits;
	size_t init_count, init_room;
} group;

bool mrw_group_active(void)
{
	return group.depth > 0;
}

void mrw_group_failed(enum marrow_status status)
{
	if (group.depth == 0 || group.status != MARROW_SUCCESS)
		return;
	group.status = status;
	snprintf(group.text, sizeof group.text, "%s", mrw_error_text());
}

bool mrw_group_holds(const struct marrow_comm *comm)
{
	for (size_t i = 0; i < group.count; i++)
		if (group.tasks[i].comm == comm)
			return true;
	for (size_t i = 0; i < group.init_count; i++)
		if (group.inits[i]->init.parent == comm)
			return true;
	return false;
}

static enum marrow_status grow(void **items, size_t *room, size_t count, size_t bytes)
{
	if (count < *room)
		return MARROW_SUCCESS;
	size_t want = *room ? 2 * *room : 8;
	void *p = realloc(*items, want * bytes);
	if (!p)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "out of memory for %zu calls in a group", want);
	*items = p;
	*room = want;
	return MARROW_SUCCESS;
}

enum marrow_status mrw_group_add(const struct mrw_task *task)
{
	MRW_TRY(grow((void **)&group.tasks, &group.room, group.count, sizeof *task));
	group.tasks[group.count++] = *task;
	return MARROW_SUCCESS;
}

enum marrow_status mrw_group_add_init(struct marrow_comm *comm)
{
	MRW_TRY(grow((void **)&group.inits, &group.init_room, group.init_count, sizeof(struct marrow_comm *)));
	group.inits[group.init_count++] = comm;
	return MARROW_SUCCESS;
}

/* Workers begin when all have started, or not at all: one whose ranks' partner never came would wait for it until its deadline. */
struct gate {
	pthread_mutex_t lock; /* held until then */
	bool closed;
};

/* One thread of a group end: a communicator to build, the splits of one parent in order, or the host-target calls of one communicator in
 * order. */
struct worker {
	struct gate *gate;
	pthread_t thread;
	bool started;
	struct marrow_comm *build;
	struct marrow_comm *parent, **inits;
	struct marrow_comm *comm;
	struct mrw_task *tasks;
	size_t count;
	enum marrow_status status;
	char text[MRW_ERROR_TEXT_BYTES];
};

static bool is_pairwise(const struct mrw_task *task)
{
	return mrw_is_pairwise(task->args.call.func);
}

/* A communicator's collectives in call order, then all its sends and recvs at once: an order that does not depend on how each rank wrote its
 * group. stream: of all, where set. */
static enum marrow_status issue_tasks(const struct marrow_comm *comm, struct mrw_task *tasks, size_t count, void *const *stream)
{
	struct mrw_task **pairs = calloc(count + 1, sizeof *pairs);
	size_t n = 0;
	enum marrow_status status = MARROW_SUCCESS;
	if (!pairs)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "out of memory for a group of %zu calls", count);
	for (size_t i = 0; i < count && status == MARROW_SUCCESS; i++) {
		if (tasks[i].comm != comm)
			continue;
		if (stream)
			tasks[i].stream = *stream;
		if (is_pairwise(&tasks[i]))
			pairs[n++] = &tasks[i];
		else
			status = mrw_issue(&tasks[i]);
	}
	if (n > 0 && status == MARROW_SUCCESS)
		status = mrw_issue_exchange(pairs, n);
	free(pairs);
	return status;
}

static enum marrow_status issue_host(struct worker *w)
{
	enum marrow_status status = mrw_comm_enter(w->comm, "group end");
	if (status != MARROW_SUCCESS)
		return status;
	return mrw_comm_leave(w->comm, issue_tasks(w->comm, w->tasks, w->count, NULL));
}

/* All of them, whatever becomes of one: other ranks take part in each. */
static enum marrow_status split_all(struct worker *w)
{
	enum marrow_status first = MARROW_SUCCESS;
	char text[MRW_ERROR_TEXT_BYTES] = "";
	for (size_t i = 0; i < w->count; i++) {
		enum marrow_status status = w->inits[i]->init.parent == w->parent ? mrw_split_build(w->inits[i]) : MARROW_SUCCESS;
		if (first == MARROW_SUCCESS && status != MARROW_SUCCESS) {
			first = status;
			snprintf(text, sizeof text, "%s", mrw_error_text());
		}
	}
	if (first != MARROW_SUCCESS)
		mrw_error_set_text(text);
	return first;
}

static void *work(void *p)
{
	struct worker *w = p;
	pthread_mutex_lock(&w->gate->lock);
	bool closed = w->gate->closed;
	pthread_mutex_unlock(&w->gate->lock);
	if (closed)
		return NULL;
	if (w->parent)
		w->status = split_all(w);
	else if (w->build)
		w->status = mrw_comm_build(w->build);
	else
		w->status = issue_host(w);
	if (w->status != MARROW_SUCCESS)
		memcpy(w->text, mrw_error_text(), strnlen(mrw_error_text(), sizeof w->text - 1));
	return NULL;
}

/* Runs all workers, the last one in this thread. Returns the first failure and its text. */
static enum marrow_status run_workers(struct worker *workers, size_t count)
{
	struct gate gate = {PTHREAD_MUTEX_INITIALIZER, false};
	enum marrow_status status = MARROW_SUCCESS;
	pthread_mutex_lock(&gate.lock);
	for (size_t i = 0; i < count; i++) {
		workers[i].gate = &gate;
		workers[i].started = i + 1 < count && !gate.closed && pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0;
		gate.closed = gate.closed || (i + 1 < count && !workers[i].started);
	}
	pthread_mutex_unlock(&gate.lock);
	if (count > 0)
		work(&workers[count - 1]);
	for (size_t i = 0; i < count; i++)
		if (workers[i].started)
			pthread_join(workers[i].thread, NULL);
	pthread_mutex_destroy(&gate.lock);
	if (gate.closed)
		return mrw_fail(MARROW_SYSTEM_ERROR, "cannot start a thread for each rank of the group, so none was issued; raise ulimit -u");
	for (size_t i = 0; i < count; i++) {
		if (status == MARROW_SUCCESS && workers[i].status != MARROW_SUCCESS) {
			status = workers[i].status;
			if (workers[i].text[0])
				mrw_error_set_text(workers[i].text);
		}
	}
	return status;
}

/* Inits, and splits, side by side; only the splits if only_splits. */
static enum marrow_status build_all(bool only_splits)
{
	struct worker *workers = calloc(group.init_count + 1, sizeof *workers);
	size_t count = 0;
	if (!workers)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "out of memory for a group of %zu inits", group.init_count);
	for (size_t i = 0; i < group.init_count; i++) {
		struct marrow_comm *parent = group.inits[i]->init.parent;
		size_t k = 0;
		while (parent && k < count && workers[k].parent != parent)
			k++;
		if ((parent && k < count) || (!parent && only_splits))
			continue;
		struct worker *w = &workers[count++];
		w->build = group.inits[i];
		w->parent = parent;
		w->inits = group.inits;
		w->count = group.init_count;
	}
	enum marrow_status status = run_workers(workers, count);
	free(workers);
	return status;
}

/* A call of the group failed: nothing is built, but the ranks that wait in splits hear of it at once. */
static void refuse_splits(void)
{
	char text[MRW_ERROR_TEXT_BYTES];
	snprintf(text, sizeof text, "%s", mrw_error_text());
	for (size_t i = 0; i < group.init_count; i++)
		if (group.inits[i]->init.parent)
			mrw_comm_fail(group.inits[i], MARROW_INVALID_USAGE, "another call of its group failed");
	(void)build_all(true);
	mrw_error_set_text(text);
}

/* What was made, or not, of the group's inits and splits. */
static void settle_inits(bool built)
{
	for (size_t i = 0; i < group.init_count; i++) {
		struct marrow_comm *comm = group.inits[i];
		if (built && comm->nranks > 0)
			continue;
		if (!built) { /* a communicator whose init failed, or never ran, is gone; so is one whose sister failed */
			if (comm->init.user)
				*comm->init.user = NULL;
			if (comm->init.local_rank >= 0) /* the environment's id; one of the user's may be tried again */
				mrw_boot_drop_id(&comm->init.id);
			if (comm->boot)
				mrw_boot_tell(comm->boot, MRW_NOTICE_FAULT, "gave the communicator up: another call of its group failed");
			mrw_comm_dismantle(comm);
		}
		mrw_comm_give_back(comm);
	}
}

/* Communicators of the group's tasks, each once, in order of first call. */
static size_t distinct_comms(struct marrow_comm **comms)
{
	size_t n = 0;
	for (size_t i = 0; i < group.count; i++) {
		size_t k = 0;
		while (k < n && comms[k] != group.tasks[i].comm)
			k++;
		if (k == n)
			comms[n++] = group.tasks[i].comm;
	}
	return n;
}

/* CUDA: all streams of the communicator wait for each other around its calls. Streams other than the first, each once. */
static size_t other_streams(const struct marrow_comm *comm, void **first, void **others)
{
	size_t n = 0;
	bool any = false;
	for (size_t i = 0; i < group.count; i++) {
		if (group.tasks[i].comm != comm)
			continue;
		void *s = group.tasks[i].stream;
		if (!any)
			*first = s;
		any = true;
		size_t k = 0;
		while (k < n && others[k] != s)
			k++;
		if (s != *first && k == n)
			others[n++] = s;
	}
	return n;
}

static enum marrow_status issue_cuda(struct marrow_comm *comm)
{
	enum marrow_status status = MARROW_SUCCESS;
	void **others = calloc(group.count, sizeof *others), *first = NULL;
	if (!others)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "out of memory for a group of %zu calls", group.count);
	uint32_t n = (uint32_t)other_streams(comm, &first, others);
	if (n > 0)
		MRW_TRY_GOTO(comm->device.runtime->join(&comm->device, first, others, n, false));
	MRW_TRY_GOTO(issue_tasks(comm, group.tasks, group.count, &first));
	if (n > 0)
		status = comm->device.runtime->join(&comm->device, first, others, n, true);
fail:
	free(others);
	return status;
}

static enum marrow_status issue_all(void)
{
	enum marrow_status status = MARROW_SUCCESS;
	struct marrow_comm **comms = calloc(group.count + 1, sizeof(struct marrow_comm *));
	struct worker *workers = calloc(group.count + 1, sizeof *workers);
	size_t host = 0;
	if (!comms || !workers) {
		status = mrw_fail(MARROW_OUT_OF_MEMORY, "out of memory for a group of %zu calls", group.count);
		goto fail;
	}
	for (size_t i = 0; i < group.count; i++) { /* another thread may have destroyed one */
		struct marrow_comm *comm = group.tasks[i].comm;
		if (__atomic_load_n(&comm->life, __ATOMIC_ACQUIRE) != MRW_LIFE_LIVE || comm->generation != group.tasks[i].generation) {
			status = mrw_fail(MARROW_INVALID_USAGE, "marrow_group_end: a communicator of the group was destroyed before its end");
			goto fail;
		}
	}
	MRW_TRY_GOTO(mrw_check_selves(group.tasks, group.count));
	size_t n = distinct_comms(comms);
	for (size_t i = 0; i < n; i++) {
		if (comms[i]->device.runtime->target == MARROW_TARGET_CUDA) {
			MRW_TRY_GOTO(mrw_comm_enter(comms[i], "group end"));
			MRW_TRY_GOTO(mrw_comm_leave(comms[i], issue_cuda(comms[i])));
			continue;
		}
		workers[host].comm = comms[i];
		workers[host].tasks = group.tasks;
		workers[host].count = group.count;
		host++;
	}
	status = run_workers(workers, host);
fail:
	free(workers);
	free(comms);
	return status;
}

enum marrow_status marrow_group_start(void)
{
	if (group.depth == 0)
		group.status = MARROW_SUCCESS;
	group.depth++;
	return MARROW_SUCCESS;
}

enum marrow_status marrow_group_fail(enum marrow_status status)
{
	if (group.depth == 0)
		return mrw_fail(MARROW_INVALID_USAGE, "marrow_group_fail: this thread is in no group");
	if (status <= MARROW_SUCCESS || status > MARROW_INTERNAL_ERROR)
		return mrw_fail(MARROW_INVALID_USAGE, "marrow_group_fail: %d is no failure", (int)status);
	mrw_group_failed(status);
	return MARROW_SUCCESS;
}

enum marrow_status marrow_group_end(void)
{
	if (group.depth == 0)
		return mrw_fail(MARROW_INVALID_USAGE, "marrow_group_end() without marrow_group_start() in this thread");
	if (--group.depth > 0)
		return MARROW_SUCCESS;
	enum marrow_status status = group.status;
	if (status != MARROW_SUCCESS)
		mrw_error_set_text(group.text);
	if (status == MARROW_SUCCESS && group.init_count > 0)
		status = build_all(false);
	else if (group.init_count > 0)
		refuse_splits();
	bool built = status == MARROW_SUCCESS;
	if (built && group.count > 0)
		status = issue_all();
	settle_inits(built);
	for (size_t i = 0; i < group.count; i++)
		mrw_task_drop(&group.tasks[i]);
	free(group.tasks);
	free(group.inits);
	group.tasks = NULL;
	group.inits = NULL;
	group.count = group.room = group.init_count = group.init_room = 0;
	return status;
}
