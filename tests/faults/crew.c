#include "crew.h"

#include "support/hosts.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

void crew_fail(struct crew_member *self, const char *format, ...)
{
	char text[2048];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	fprintf(stderr, "%s: rank %u of %u: %s\n", self->doing, self->rank, self->size, text);
	self->failed = 1;
}

void crew_start(struct crew *crew, void (*body)(struct crew_member *self))
{
	void *board = mmap(NULL, sizeof *crew->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED)
		abort();
	crew->board = board;
	fflush(NULL);
	for (uint32_t r = 0; r < crew->size; r++) {
		pid_t parent = getpid();
		crew->pids[r] = fork();
		if (crew->pids[r] < 0)
			abort();
		if (crew->pids[r] > 0)
			continue;
		struct crew_member self = {crew->doing, crew->target, r, crew->size, crew->board, crew->arg, {0}, NULL, 0};
		/* A member must not outlive a parent that was stopped by force. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		watchdog(crew->seconds, crew->doing);
		body(&self);
		munmap(board, sizeof *crew->board);
		exit(self.failed);
	}
}

int crew_end(struct crew *crew, uint32_t killed)
{
	int wrong = 0;
	for (uint32_t r = 0; r < crew->size; r++) {
		int status = 0;
		bool as_wanted;
		while (waitpid(crew->pids[r], &status, 0) < 0 && errno == EINTR)
			;
		if (killed >> r & 1)
			as_wanted = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
		else
			as_wanted = WIFEXITED(status) && WEXITSTATUS(status) == 0;
		if (!as_wanted) {
			fprintf(stderr, "%s: the process of rank %u of %u ended with %s %d\n", crew->doing, r, crew->size,
				WIFSIGNALED(status) ? "signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
			wrong++;
		}
	}
	munmap(crew->board, sizeof *crew->board);
	crew->board = NULL;
	return wrong;
}

void crew_init(struct crew_member *self, size_t bytes, uint64_t timeout_ms)
{
	struct marrow_config config = MARROW_CONFIG_INIT;
	config.target = self->target;
	config.timeout_ms = timeout_ms;
	struct hosts_place place;
	hosts_place(&place, self->rank, self->size, &config);
	if (ground_make(&self->ground, self->target, self->rank, bytes) != 0)
		exit(1);
	if (self->rank == 0 && marrow_get_unique_id(&self->board->id) != MARROW_SUCCESS)
		crew_fail(self, "unique id: %s", marrow_last_error(NULL));
	meet(&self->board->id_meeting, self->size);
	if (marrow_comm_init(&self->comm, self->size, &self->board->id, self->rank, &config) != MARROW_SUCCESS) {
		crew_fail(self, "init: %s", marrow_last_error(NULL));
		exit(1);
	}
}

void crew_finish(struct crew_member *self)
{
	uint64_t start = now_ms();
	if (marrow_comm_destroy(self->comm) != MARROW_SUCCESS)
		crew_fail(self, "destroy: %s", marrow_last_error(NULL));
	if (now_ms() - start > limit_ms(2000))
		crew_fail(self, "destroy took %llu ms", (unsigned long long)(now_ms() - start));
	self->comm = NULL;
	ground_free(&self->ground);
}
