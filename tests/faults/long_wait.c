/* long_wait.c - a wait that takes long leaves a note in a page that other processes of the user can read, and goes on.
 *
 * long_wait [--target host|cuda]. The reader is the parent of the ranks: it finds the page under /proc/<pid>/fd. */
#include "crew.h"

#include "comm.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANKS = 2, LATE = 1, NOTE_MS = 100, COME_MS = 20000, BYTES = 4 << 20 };

/* Words of the board, counted up. */
enum { READY, GO, COME, PASSED };

static const struct act quick = {MRW_FUNC_ALL_REDUCE, 16, MARROW_FLOAT32, MARROW_SUM, 0};
static const struct act acts[] = {
	{MRW_FUNC_ALL_REDUCE, 16, MARROW_FLOAT32, MARROW_SUM, 0},
	{MRW_FUNC_ALL_GATHER, 200000, MARROW_FLOAT32, MARROW_SUM, 0},
};
enum { ACTS = sizeof acts / sizeof acts[0] };

static uint64_t word(struct crew_board *board, int which)
{
	return __atomic_load_n(&board->words[which], __ATOMIC_ACQUIRE);
}

static void count(struct crew_board *board, int which)
{
	__atomic_fetch_add(&board->words[which], 1, __ATOMIC_ACQ_REL);
}

static void wait_long(struct crew_member *self)
{
	crew_init(self, BYTES, 60000);
	mrw_comm_set_note_ns(self->comm, (uint64_t)NOTE_MS * 1000000);
	ground_fill(&self->ground, 3, 16);
	for (int i = 0; i < 50; i++)
		if (act_done(&quick, &self->ground, self->comm) != MARROW_SUCCESS)
			crew_fail(self, "before the wait: %s", marrow_last_error(self->comm));
	count(self->board, READY);
	for (int i = 0; i < ACTS; i++) {
		if (!await_word(&self->board->words[GO], (uint64_t)i + 1, COME_MS))
			crew_fail(self, "the reader did not say go");
		if (self->rank == LATE && !await_word(&self->board->words[COME], (uint64_t)i + 1, COME_MS))
			crew_fail(self, "the reader did not say come");
		if (act_done(&acts[i], &self->ground, self->comm) != MARROW_SUCCESS)
			crew_fail(self, "the long wait did not end well: %s", marrow_last_error(self->comm));
		if (acts[i].func == MRW_FUNC_ALL_REDUCE && ground_result(&self->ground, 15) != 3 * RANKS)
			crew_fail(self, "result %g after the long wait", (double)ground_result(&self->ground, 15));
		count(self->board, PASSED);
	}
	crew_finish(self);
}

/* The descriptor of the page, opened by way of /proc; -1: none. */
static int find_page(pid_t pid, mode_t *mode)
{
	char path[64], target[PATH_MAX], link[512];
	struct stat st;
	int found = -1;
	snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
	DIR *dir = opendir(path);
	if (!dir)
		return -1;
	for (struct dirent *e; found < 0 && (e = readdir(dir));) {
		snprintf(link, sizeof link, "%s/%s", path, e->d_name);
		ssize_t n = readlink(link, target, sizeof target - 1);
		target[n > 0 ? n : 0] = 0;
		if (strncmp(target, "/memfd:marrow-page", 18) != 0 || stat(link, &st) != 0)
			continue;
		*mode = st.st_mode & 0777;
		found = open(link, O_RDONLY | O_CLOEXEC);
	}
	closedir(dir);
	return found;
}

static int wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int wrong(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return 1;
}

static struct mrw_page read_page(int fd)
{
	struct mrw_page page;
	if (pread(fd, &page, sizeof page, 0) != (ssize_t)sizeof page)
		memset(&page, 0, sizeof page);
	return page;
}

/* The note of operation seq, once it is there. */
static struct mrw_page await_note(int fd, uint32_t seq)
{
	uint64_t until = now_ms() + COME_MS / 2;
	struct mrw_page page;
	while ((page = read_page(fd)).note.state != 1 || page.note.mine.seq != seq)
		if (now_ms() < until)
			sleep_ms(5);
		else
			break;
	return page;
}

static int check_note(const struct mrw_page *page, const struct act *act, uint32_t seq)
{
	const struct mrw_record *note = &page->note;
	int failed = 0;
	char call[160];
	mrw_call_text(&note->mine, call, sizeof call);
	printf("note of rank %u: waits for rank %u since %.1f s in %s, operation %u\n", page->rank, note->peer, (double)note->waited_ns / 1e9,
	       call, note->mine.seq);
	if (note->state != 1 || note->kind != MRW_FAULT_NONE || note->peer != LATE)
		failed += wrong("the note has state %llu, kind %u, peer %u", (unsigned long long)note->state, note->kind, note->peer);
	if (note->mine.func != act->func || note->mine.count != act->count || note->mine.type != act->type || note->mine.seq != seq)
		failed += wrong("the note is about %s, operation %u, not %u", call, note->mine.seq, seq);
	if (note->waited_ns < (uint64_t)NOTE_MS * 1000000 || note->waited_ns > (uint64_t)COME_MS * 1000000)
		failed += wrong("the note says %llu ns", (unsigned long long)note->waited_ns);
	if (page->fault.state != 0 || page->abort != 0)
		failed += wrong("a long wait is no fault");
	return failed;
}

int main(int argc, char **argv)
{
	struct crew crew = {.doing = "waits long", .target = target_option(argc, argv), .size = RANKS, .seconds = 60};
	int failed = 0, fd;
	mode_t mode = 0;
	watchdog(90, "reader");
	crew_start(&crew, wait_long);
	if (!await_word(&crew.board->words[READY], RANKS, COME_MS))
		return wrong("the ranks did not get ready");
	fd = find_page(crew.pids[0], &mode);
	if (fd < 0)
		return wrong("rank 0 (pid %d) shows no page under /proc", (int)crew.pids[0]);
	if (mode != 0600)
		failed += wrong("the page has mode %o", (unsigned)mode);
	struct mrw_page page = read_page(fd);
	if (page.magic != MRW_PAGE_MAGIC || page.pid != (uint32_t)crew.pids[0] || page.rank != 0 || page.nranks != RANKS ||
	    page.wire_version != MRW_WIRE_VERSION)
		failed += wrong("the page says magic %llx, pid %u, rank %u of %u", (unsigned long long)page.magic, page.pid, page.rank, page.nranks);
	/* A slow machine may have made a short wait long: seq tells the notes apart. */
	uint32_t seq = page.note.state ? page.note.mine.seq : 0;
	if (seq != 0 && page.note.waited_ns < (uint64_t)NOTE_MS * 1000000)
		failed += wrong("a short wait left a note");
	for (int i = 0; i < ACTS; i++) {
		uint32_t want = 51 + (uint32_t)i;
		count(crew.board, GO);
		sleep_ms(NOTE_MS / 2);
		page = await_note(fd, want);
		if (word(crew.board, PASSED) != RANKS * (uint64_t)i)
			failed += wrong("somebody did not wait");
		failed += check_note(&page, &acts[i], want);
		count(crew.board, COME);
		if (!await_word(&crew.board->words[PASSED], RANKS * (uint64_t)(i + 1), COME_MS))
			failed += wrong("the operation did not go on");
	}
	close(fd);
	failed += crew_end(&crew, 0);
	printf("long waits: %s\n", failed ? "FAILED" : "ok");
	return failed ? 1 : 0;
}
