/* paths.c - paths within the host that are granted and do not work: init finds them, and says between whom; and lines that arrive torn, which
 * are then not used. The host target, with peers' memory mapped wrongly and the trial of lines answered for it.
 *
 * paths [CASE]: ranks as threads. */
#include "crew.h"
#include "verdict.h"

#include "comm.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX = 4, TIMEOUT_MS = 2000, LEARN_MS = 1000, LATE_US = 20000, TURNS = 12, LOG_BYTES = 8192, COUNT = 1 << 18 };

/* A mapping of rank from's that is not what it should be. */
struct wrong {
	uint32_t from, to;
	uint32_t instead;         /* whose memory it is; MAX: nobody's */
	bool hole;                /* only a page in the middle of what is proved is nobody's */
};

static struct {
	uint32_t nranks, team_size;
	struct wrong wrong[2];
	uint32_t wrongs;
	uint32_t late;            /* rank that begins its proof late; MAX: nobody */
	uint32_t torn;            /* rank that sees torn lines; MAX: nobody */
	/* what the ranks have, by rank */
	struct mrw_arena arena[MAX];
	int memory[MAX];          /* descriptors of the arenas */
	uint32_t lines;           /* launches by lines; atomic */
} t;

static _Thread_local uint32_t me;
static struct mrw_runtime stand_in;

static enum marrow_status open_device(struct mrw_device *d, int32_t ordinal, int32_t local_rank)
{
	MRW_TRY(mrw_host_runtime.open(d, ordinal, local_rank));
	d->runtime = &stand_in;
	d->team_size = t.team_size;
	return MARROW_SUCCESS;
}

static enum marrow_status arena_new(struct mrw_device *d, uint64_t bytes, struct mrw_arena *arena)
{
	MRW_TRY(mrw_host_runtime.arena_new(d, bytes, arena));
	t.arena[me] = *arena;
	t.memory[me] = dup(arena->fd);
	return t.memory[me] >= 0 ? MARROW_SUCCESS : mrw_fail_errno(MARROW_SYSTEM_ERROR, "dup");
}

static const struct wrong *wrong_of(const uint8_t *base)
{
	for (uint32_t i = 0; i < t.wrongs; i++)
		if (t.wrong[i].from == me && t.arena[t.wrong[i].to].base == base)
			return &t.wrong[i];
	return NULL;
}

static enum marrow_status arena_map(struct mrw_device *d, const struct mrw_arena *theirs, bool same_process, struct mrw_arena *mine)
{
	const struct wrong *w = wrong_of(theirs->base);
	if (!w)
		return mrw_host_runtime.arena_map(d, theirs, same_process, mine);
	uint32_t whose = w->hole ? w->to : w->instead;
	*mine = *theirs;
	mine->fd = -1;
	mine->handle = 0; /* ours */
	mine->base = mmap(NULL, mine->mapped, PROT_READ | PROT_WRITE, MAP_SHARED | (whose == MAX ? MAP_ANONYMOUS : 0),
			  whose == MAX ? -1 : t.memory[whose], 0);
	if (mine->base == MAP_FAILED)
		abort();
	return MARROW_SUCCESS;
}

static void arena_free(struct mrw_device *d, struct mrw_arena *arena)
{
	if (!arena->base || arena->handle != 0) {
		mrw_host_runtime.arena_free(d, arena);
		return;
	}
	munmap(arena->base, arena->mapped);
	arena->base = NULL;
}

/* The page in the middle of where this rank's pattern lies at the other one. */
static void make_hole(const struct mrw_args *args, const struct wrong *w)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uint8_t *pattern = args->arena[w->to] + mrw_staging_offset(&args->layout, 0, 0, mrw_writer_slot(w->to, me), 0);
	uintptr_t middle = (uintptr_t)pattern + args->layout.chunk_bytes / 2;
	if (mmap((void *)(middle & ~(page - 1)), page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		abort();
}

static enum marrow_status launch(struct mrw_device *d, enum mrw_kernel kernel, enum marrow_type type, const struct mrw_args *args,
				 uint32_t threads, void *stream)
{
	for (uint32_t i = 0; kernel == MRW_KERNEL_PROVE && i < t.wrongs; i++)
		if (t.wrong[i].from == me && t.wrong[i].hole)
			make_hole(args, &t.wrong[i]);
	if (kernel == MRW_KERNEL_PROVE && t.late == me)
		usleep(LATE_US);
	if (args->call.algo == MRW_ALGO_LINES && kernel != MRW_KERNEL_PROVE)
		__atomic_add_fetch(&t.lines, 1, __ATOMIC_RELAXED);
	MRW_TRY(mrw_host_runtime.launch(d, kernel, type, args, threads, stream));
	if (kernel == MRW_KERNEL_PROVE && t.torn == me)
		args->page->torn = 1;
	return MARROW_SUCCESS;
}

/* ---- ranks */

static struct marrow_unique_id id;

struct rank {
	uint32_t rank;
	const char *algo;
	void (*work)(struct marrow_comm *comm, uint32_t rank); /* after init; NULL: nothing */
	enum marrow_status status;       /* of init */
	char text[MRW_ERROR_TEXT_BYTES];
	uint64_t took_ms;
	pthread_t thread;
};

static void *be_rank(void *p)
{
	struct rank *self = p;
	struct marrow_config config = MARROW_CONFIG_INIT;
	struct marrow_comm *comm = NULL;
	uint64_t begin = now_ms();
	me = self->rank;
	config.target = MARROW_TARGET_HOST;
	config.timeout_ms = sanitized ? 2 * TIMEOUT_MS : patient() ? TIMEOUT_MS * 3 / 2 : TIMEOUT_MS;
	config.algo = self->algo;
	self->status = marrow_comm_init(&comm, t.nranks, &id, self->rank, &config);
	self->took_ms = now_ms() - begin;
	snprintf(self->text, sizeof self->text, "%s", self->status == MARROW_SUCCESS ? "" : marrow_last_error(NULL));
	if (self->status != MARROW_SUCCESS)
		return NULL;
	if (self->work)
		self->work(comm, self->rank);
	expect_status("destroy", marrow_comm_destroy(comm), MARROW_SUCCESS, NULL, "");
	return NULL;
}

static void run(struct rank ranks[MAX], const char *what, const char *algo, void (*work)(struct marrow_comm *comm, uint32_t rank))
{
	struct census before = census_take();
	watchdog(30, what);
	expect_status("unique id", marrow_get_unique_id(&id), MARROW_SUCCESS, NULL, "");
	memset(ranks, 0, MAX * sizeof *ranks);
	for (uint32_t r = 0; r < t.nranks; r++) {
		t.memory[r] = -1;
		ranks[r].rank = r;
		ranks[r].algo = algo;
		ranks[r].work = work;
		if (pthread_create(&ranks[r].thread, NULL, be_rank, &ranks[r]) != 0)
			abort();
	}
	for (uint32_t r = 0; r < t.nranks; r++)
		pthread_join(ranks[r].thread, NULL);
	for (uint32_t r = 0; r < t.nranks; r++)
		if (t.memory[r] >= 0)
			close(t.memory[r]);
	expect_nothing_left(what, &before);
	watchdog(0, "");
}

static void reset(uint32_t nranks)
{
	memset(&t, 0, sizeof t);
	t.nranks = nranks;
	t.team_size = 1;
	t.late = t.torn = MAX;
}

static void expect_works(const struct rank ranks[MAX], const char *what)
{
	for (uint32_t r = 0; r < t.nranks; r++)
		expect_status(what, ranks[r].status, MARROW_SUCCESS, ranks[r].text, "");
}

/* reader: the rank that misses data, or one of them; status: its. Whoever learns of it is told of reader and writer. */
static void expect_fault(const struct rank ranks[MAX], const char *what, uint32_t writer, uint32_t reader, enum marrow_status status,
			 const char *words)
{
	char name[128], both[256];
	snprintf(both, sizeof both, "rank %u|rank %u|%s|ACS|IOMMU", writer, reader, words);
	for (uint32_t r = 0; r < t.nranks; r++) {
		snprintf(name, sizeof name, "%s, rank %u of %u", what, r, t.nranks);
		expect_status(name, ranks[r].status, r == reader ? status : MARROW_REMOTE_ERROR, ranks[r].text, both);
		if (ranks[r].took_ms > TIMEOUT_MS + LEARN_MS && !patient()) {
			fprintf(stderr, "%s: after %llu ms\n", name, (unsigned long long)ranks[r].took_ms);
			expect_true("it learns in time", false);
		}
	}
}

/* ---- cases */

static void lost(void)
{
	struct rank ranks[MAX];
	for (uint32_t n = 2; n <= MAX; n++) {
		reset(n);
		t.team_size = n - 1;
		t.wrong[t.wrongs++] = (struct wrong){.from = n - 1, .to = n / 2 - 1, .instead = MAX};
		run(ranks, "all stores are lost", NULL, NULL);
		expect_fault(ranks, "all stores are lost", n - 1, n / 2 - 1, MARROW_TIMEOUT, "path");
	}
}

static void hole(void)
{
	struct rank ranks[MAX];
	for (uint32_t n = 2; n <= MAX; n++) {
		reset(n);
		t.team_size = n - 1;
		t.wrong[t.wrongs++] = (struct wrong){.from = 0, .to = n - 1, .hole = true};
		run(ranks, "a page is lost", NULL, NULL);
		expect_fault(ranks, "a page is lost", 0, n - 1, MARROW_SYSTEM_ERROR, "loses data");
	}
}

/* Two ranks see what is meant for the other one: each of them may be first to say so. */
static void crossed(void)
{
	struct rank ranks[MAX];
	reset(3);
	t.wrong[t.wrongs++] = (struct wrong){.from = 0, .to = 1, .instead = 2};
	t.wrong[t.wrongs++] = (struct wrong){.from = 0, .to = 2, .instead = 1};
	run(ranks, "two arenas are exchanged", NULL, NULL);
	uint32_t origins = 0;
	for (uint32_t r = 0; r < t.nranks; r++) {
		expect_true("init fails", ranks[r].status == MARROW_SYSTEM_ERROR || ranks[r].status == MARROW_REMOTE_ERROR);
		expect_true("rank 0 is named", strstr(ranks[r].text, "rank 0") != NULL);
		expect_true("the other rank is named", strstr(ranks[r].text, "rank 1") || strstr(ranks[r].text, "rank 2"));
		expect_true("what is wrong", strstr(ranks[r].text, "path") != NULL);
		origins += r > 0 && ranks[r].status == MARROW_SYSTEM_ERROR;
	}
	expect_true("a reader says so itself", origins > 0);
}

/* Nothing is wrong, whatever the threads of a team and the ranks wait for. */
static void sound(void)
{
	struct rank ranks[MAX];
	for (uint32_t i = 0; i < TURNS; i++) {
		reset(2 + i % (MAX - 1));
		t.team_size = 1 + i / (MAX - 1) % 3;
		t.late = i % MAX;
		run(ranks, "nothing is wrong", NULL, NULL);
		expect_works(ranks, "nothing is wrong");
	}
}

/* All-reduces of all sizes that lines could carry. */
static void add_up(struct marrow_comm *comm, uint32_t rank)
{
	float *memory = calloc(COUNT, sizeof *memory);
	if (!memory)
		abort();
	for (size_t count = 1; count <= COUNT; count *= 2) {
		for (size_t i = 0; i < count; i++)
			memory[i] = (float)(i % 1000 + rank);
		expect_status("all_reduce", marrow_all_reduce(memory, memory, count, MARROW_FLOAT32, MARROW_SUM, comm, NULL), MARROW_SUCCESS,
			      NULL, "");
		size_t wrong = 0;
		for (size_t i = 0; i < count; i++)
			wrong += memory[i] != (float)(t.nranks * (i % 1000) + t.nranks * (t.nranks - 1) / 2);
		expect_true("the sums are right", wrong == 0);
	}
	free(memory);
}

/* What the ranks log while they run. */
static void run_logged(struct rank ranks[MAX], const char *what, const char *algo, char log[LOG_BYTES])
{
	FILE *file = tmpfile();
	int before = dup(STDERR_FILENO);
	if (!file || before < 0)
		abort();
	dup2(fileno(file), STDERR_FILENO);
	run(ranks, what, algo, add_up);
	dup2(before, STDERR_FILENO);
	close(before);
	rewind(file);
	log[fread(log, 1, LOG_BYTES - 1, file)] = 0;
	fclose(file);
	fputs(log, stderr);
}

static void torn(void)
{
	struct rank ranks[MAX];
	char log[LOG_BYTES];
	for (uint32_t n = 2; n <= MAX; n++)
		for (uint32_t who = 0; who <= n; who++) {
			reset(n);
			t.torn = who < n ? who : MAX;
			run_logged(ranks, "torn lines", who % 2 || who == n ? "lines" : NULL, log);
			expect_works(ranks, "torn lines");
			expect_true("lines are used iff they are whole", who < n ? t.lines == 0 : t.lines > 0);
			expect_true("the log says so", !!strstr(log, "do not arrive whole, or not in time") == (who < n));
			expect_true("and that the wish for them has no effect",
				    !!strstr(log, "lines do not arrive whole, have no such") == (who < n && who % 2));
		}
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {{"sound", sound}, {"torn", torn}, {"lost", lost}, {"hole", hole}, {"crossed", crossed}};

int main(int argc, char **argv)
{
	int before = 0;
	stand_in = mrw_host_runtime;
	stand_in.open = open_device;
	stand_in.arena_new = arena_new;
	stand_in.arena_map = arena_map;
	stand_in.arena_free = arena_free;
	stand_in.launch = launch;
	mrw_comm_runtime = &stand_in;
	setenv("MARROW_LOG", "warn", 1);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		if (argc > 1 && strcmp(argv[1], cases[i].name) != 0)
			continue;
		cases[i].run();
		printf("%s: %s\n", cases[i].name, failures() > before ? "FAILED" : "ok");
		fflush(stdout);
		before = failures();
	}
	return failures() ? 1 : 0;
}
