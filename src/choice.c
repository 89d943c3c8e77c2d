/* choice.c - how a communicator's calls are carried: its calibration table, what follows from that at init, and the words for it. */
#include "choice.h"

#include "base/log.h"
#include "terms.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The kind of CPU, "" if the kernel does not say. */
static void cpu_name(char *text, size_t bytes)
{
	char line[256];
	FILE *f = fopen("/proc/cpuinfo", "re");
	text[0] = 0;
	while (f && !text[0] && fgets(line, sizeof line, f)) {
		char *value = strchr(line, ':');
		if (value && value[1] == ' ' && strncmp(line, "model name", 10) == 0)
			snprintf(text, bytes, "%.*s", (int)strcspn(value + 2, "\n"), value + 2); /* ": NAME" */
	}
	if (f)
		fclose(f);
	for (size_t end = strlen(text); end > 0 && text[end - 1] == ' ';)
		text[--end] = 0;
}

void mrw_machine_name(const struct mrw_device *d, char *text, size_t bytes)
{
	char kind[MRW_MACHINE_BYTES];
	struct utsname system;
	int used;
	if (d->runtime->target == MARROW_TARGET_CUDA) {
		used = snprintf(text, bytes, "cuda, %s", d->name);
	} else {
		cpu_name(kind, sizeof kind);
		if (!kind[0])
			snprintf(kind, sizeof kind, "%.32s", uname(&system) == 0 ? system.machine : "unknown");
		used = snprintf(text, bytes, "host, %.80s, %ld CPUs", kind, sysconf(_SC_NPROCESSORS_ONLN));
	}
	/* As a table holds it: printable, single spaces, no comment. */
	size_t to = 0, length = used < 0 ? 0 : (size_t)used < bytes ? (size_t)used : bytes - 1;
	for (size_t i = 0; i < length; i++) {
		char c = text[i] > ' ' && text[i] <= '~' && text[i] != '#' ? text[i] : ' ';
		if (c != ' ' || (to > 0 && text[to - 1] != ' '))
			text[to++] = c;
	}
	text[to > 0 && text[to - 1] == ' ' ? to - 1 : to] = 0;
}

static bool read_file(const char *path, char *bytes, size_t *count, struct mrw_tuning_error *error)
{
	struct stat status;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* who opened a pipe would wait for its writer, and all ranks for this one */
	bool regular = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
	FILE *f = regular ? fdopen(fd, "r") : NULL;
	error->line = 0;
	if (!f) {
		snprintf(error->text, sizeof error->text, "cannot be opened: %s", fd >= 0 && !regular ? "it is no file" : strerror(errno));
		if (fd >= 0)
			close(fd);
		return false;
	}
	*count = fread(bytes, 1, MRW_TUNING_FILE_BYTES + 1, f);
	bool good = !ferror(f);
	if (!good)
		snprintf(error->text, sizeof error->text, "cannot be read: %s", strerror(errno));
	fclose(f);
	return good;
}

struct mrw_tuning *mrw_choice_read(const struct mrw_device *d, const char *path, uint64_t *digest)
{
	struct mrw_tuning *tuning = malloc(sizeof *tuning);
	char *bytes = malloc(MRW_TUNING_FILE_BYTES + 1), machine[MRW_MACHINE_BYTES];
	struct mrw_tuning_error error = {0, "out of memory"};
	size_t count = 0;
	mrw_machine_name(d, machine, sizeof machine);
	if (tuning && bytes && read_file(path, bytes, &count, &error) && mrw_tuning_parse(tuning, bytes, count, machine, &error)) {
		*digest = mrw_terms_digest(0, bytes, count);
		free(bytes);
		return tuning;
	}
	if (error.line)
		mrw_log(MRW_LOG_WARN, "MARROW_TUNING: %s:%u: %s; no rank of this communicator uses a table, the cost model chooses", path, error.line, error.text);
	else
		mrw_log(MRW_LOG_WARN, "MARROW_TUNING: %s: %s; no rank of this communicator uses a table, the cost model chooses", path, error.text);
	free(bytes);
	free(tuning);
	return NULL;
}

static struct mrw_cost_shape shape_of(const struct marrow_comm *comm)
{
	uint32_t counts[MRW_MAX_RANKS] = {0}, most = 0;
	for (uint32_t r = 0; r < comm->nranks; r++)
		if (++counts[comm->reach.host[r]] > most)
			most = counts[comm->reach.host[r]];
	struct mrw_cost_shape shape = {.target = comm->device.runtime->target, .nranks = comm->nranks, .hosts = comm->hosts, .per_host = most,
				       .nics = comm->network ? mrw_network_nics(comm->network) : 0, .channels = comm->channel_cap,
				       .cores = comm->device.runtime->target == MARROW_TARGET_HOST ? comm->cores : 0,
				       .lines = comm->lines, .rails = comm->reach.rails, .ring = comm->reach.ring,
				       .chunk_bytes = mrw_chunk_room(&comm->args.layout, comm->device.runtime->target)};
	if (comm->reach.tree)
		mrw_cost_plant(&shape);
	return shape;
}

static struct mrw_select_input input(const struct marrow_comm *comm)
{
	struct mrw_select_input in = {.target = comm->device.runtime->target, .nranks = comm->nranks, .layout = comm->args.layout,
				      .nics = comm->network ? mrw_network_nics(comm->network) : 0, .channel_cap = comm->channel_cap,
				      .lines = comm->lines, .forced_algo = comm->forced_algo, .forced_channels = comm->forced_channels,
				      .choices = &comm->choices};
	return in;
}

uint64_t mrw_choice_prepare(struct marrow_comm *comm, const struct mrw_tuning *tuning)
{
	struct mrw_select_input in = input(comm);
	struct mrw_cost_shape shape = shape_of(comm);
	uint64_t digest = 0;
	mrw_select_prepare(&comm->choices, &in, &shape, tuning);
	for (uint32_t f = 0; f < MRW_FUNC_COUNT; f++)
		for (uint32_t i = 0; i < comm->choices.count[f]; i++) {
			const struct mrw_choice *row = &comm->choices.rows[f][i];
			uint64_t words[] = {f, row->most, row->algo};
			digest = mrw_terms_digest(digest, words, sizeof words);
		}
	return digest;
}

struct mrw_plan mrw_comm_choose(const struct marrow_comm *comm, enum mrw_func func, uint64_t bytes)
{
	struct mrw_select_input in = input(comm);
	in.func = func;
	in.bytes = bytes;
	return mrw_select(&in);
}

uint64_t mrw_choice_predict(const struct marrow_comm *comm, enum mrw_func func, uint64_t bytes, enum mrw_algo algo)
{
	if (comm->nranks == 1)
		return 0;
	struct mrw_cost_shape shape = shape_of(comm);
	double ns = mrw_cost_ns(mrw_cost_figures_of(shape.target), &shape, func, bytes, algo);
	return ns < 1e18 ? (uint64_t)ns : 0;
}

void mrw_choice_tell(struct marrow_comm *comm, enum mrw_func func, uint64_t bytes, const struct mrw_plan *plan)
{
	uint64_t bit = 1ull << (plan->channels - 1) % 64;
	uint64_t *told = &comm->told[func][plan->algo];
	char predicted[48] = "";
	if (*told & bit)
		return;
	*told |= bit;
	uint64_t ns = mrw_choice_predict(comm, func, bytes, plan->algo);
	if (ns > 0)
		snprintf(predicted, sizeof predicted, ", %.1f us predicted", (double)ns / 1e3);
	mrw_log_note(MRW_TOPIC_SELECT, "select: %s %llu bytes: %s, %u channel%s, chunk %u, lag %u (%s%s)", mrw_func_name(func), (unsigned long long)bytes,
		     mrw_algo_name(plan->algo), plan->channels, plan->channels == 1 ? "" : "s", plan->chunk_bytes, plan->lag, plan->reason, predicted);
}

/* The algorithm that was asked for can carry some call here. */
static bool can_force(const struct marrow_comm *comm)
{
	struct mrw_select_input in = input(comm);
	bool can = false;
	for (uint32_t f = 0; f < MRW_FUNC_COUNT && !can; f++) {
		in.func = (enum mrw_func)f;
		in.bytes = f == MRW_FUNC_BARRIER ? 0 : 1;
		can = mrw_select_can(&in, (enum mrw_algo)comm->forced_algo);
	}
	return can;
}

/* "oneshot to 512, bulk" */
void mrw_choice_tell_all(const struct marrow_comm *comm)
{
	if (comm->rank != 0)
		return;
	/* A child of a split has its parent's wish, which was heard there. */
	if (comm->forced_algo >= 0 && !comm->init.parent && !can_force(comm))
		mrw_log(MRW_LOG_WARN, "MARROW_ALGO=%s or config.algo has no effect: %u ranks on %u hosts%s have no such algorithm",
			mrw_algo_name((enum mrw_algo)comm->forced_algo), comm->nranks, comm->hosts,
			comm->forced_algo == MRW_ALGO_LINES && comm->hosts == 1 ? ", whose lines do not arrive whole," : "");
	if (!comm->tells)
		return;
	if (comm->weights.weighed) {
		char times[256];
		mrw_weigh_text(&comm->weights, times, sizeof times);
		mrw_log_note(MRW_TOPIC_SELECT, "select: peers: %s (%s); predicted, all_reduce of 8, 64 K, 1 M and 64 M bytes: %s",
			     mrw_peers_name(comm->weights.taken), comm->reach.reason, times);
	}
	for (uint32_t f = 0; f < MRW_FUNC_COUNT; f++) {
		char text[512] = "";
		const struct mrw_choice *rows = comm->choices.rows[f];
		for (uint32_t i = 0, used = 0; i < comm->choices.count[f] && used < sizeof text - 64; i++) {
			int n = snprintf(text + used, sizeof text - used, rows[i].most == UINT64_MAX ? "%s%s" : "%s%s to %llu", i ? ", " : "",
					 mrw_algo_name(rows[i].algo), (unsigned long long)rows[i].most);
			used += n > 0 ? (uint32_t)n : 0;
		}
		if (text[0])
			mrw_log_note(MRW_TOPIC_SELECT, "select: %s by bytes: %s (%s)", mrw_func_name(f), text,
				     rows[0].measured ? "measured: MARROW_TUNING" : "cost model");
	}
}
