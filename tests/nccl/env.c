/* env.c - what the binding makes of NCCL's variables. Each case is a process of its own: most are read once. */
#include "ranks.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char said[8192];

/* Runs a case; its lines on stderr are in `said`. */
static void in_child(const char *name, const char *value, const char *other, const char *other_value, void (*body)(void))
{
	int ends[2], status = -1;
	size_t used = 0;
	if (pipe(ends) != 0)
		abort();
	pid_t child = fork();
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		ranks_environment();
		setenv(name, value, 1);
		if (other)
			setenv(other, other_value, 1);
		body();
		_exit(ranks_verdict());
	}
	close(ends[1]);
	for (ssize_t got = 1; got > 0 && used < sizeof said - 1; used += got > 0 ? (size_t)got : 0)
		got = read(ends[0], said + used, sizeof said - 1 - used);
	said[used] = '\0';
	close(ends[0]);
	waitpid(child, &status, 0);
	CHECK(status == 0, "%s=%s: status %x\n%s", name, value, (unsigned int)status, said);
}

#define SAID(word) CHECK(strstr(said, word) != NULL, "\"%s\" is not in: %s", word, said)
#define SAID_NOT(word) CHECK(strstr(said, word) == NULL, "\"%s\" is in: %s", word, said)

static ncclComm_t make(ncclResult_t wanted)
{
	ncclUniqueId id;
	ncclComm_t comm = NULL;
	OK(ncclGetUniqueId(&id));
	EXPECT(wanted, ncclCommInitRank(&comm, 1, id, 0));
	return comm;
}

static void plain(void)
{
	OK(ncclCommDestroy(make(ncclSuccess)));
	OK(ncclCommDestroy(make(ncclSuccess)));
}

static void nonblocking(void)
{
	ncclComm_t comm = make(ncclInProgress);
	CHECK(ranks_wait(comm) == ncclSuccess, "%s", ncclGetLastError(comm));
	OK(ncclCommDestroy(comm));
}

static void no_interface(void)
{
	ncclUniqueId id;
	EXPECT(ncclInvalidArgument, ncclGetUniqueId(&id));
	SAYS("nowhere0");
}

static void failing(void)
{
	EXPECT(ncclInvalidArgument, ncclGetUniqueId(NULL));
	plain();
}

static void two_ranks(void)
{
	ncclComm_t comms[2];
	float x[2] = {1, 2};
	OK(ncclCommInitAll(comms, 2, NULL));
	OK(ncclGroupStart());
	for (int r = 0; r < 2; r++)
		OK(ncclAllReduce(&x[r], &x[r], 1, ncclFloat32, ncclSum, comms[r], NULL));
	OK(ncclGroupEnd());
	for (int r = 0; r < 2; r++)
		OK(ncclCommDestroy(comms[r]));
}

int main(void)
{
	char path[] = "/tmp/marrow-nccl-env-XXXXXX", pattern[64], text[4096] = "";
	in_child("HOME", "/", NULL, NULL, plain);
	CHECK(said[0] == '\0', "without any variable: %s", said);
	in_child("NCCL_DEBUG", "VERSION", NULL, NULL, plain);
	SAID("NCCL 2.28.9 served by Marrow");
	SAID("libnccl.so");
	CHECK(strstr(strstr(said, "served by") + 1, "served by") == NULL, "told twice: %s", said);
	in_child("NCCL_DEBUG", "info", NULL, NULL, two_ranks);
	SAID("rank 1 of 2");
	in_child("NCCL_DEBUG", "WARN", NULL, NULL, failing);
	SAID("ncclGetUniqueId: uniqueId is NULL");
	SAID_NOT("served by");
	in_child("NCCL_ALGO", "Ring", "NCCL_NO_SUCH_THING", "1", plain);
	SAID("ignored: ");
	SAID("NCCL_ALGO");
	SAID("NCCL_NO_SUCH_THING");
	in_child("NCCL_CHECK_POINTERS", "1", NULL, NULL, plain);
	SAID_NOT("ignored");
	in_child("NCCL_COMM_BLOCKING", "0", NULL, NULL, nonblocking);
	in_child("NCCL_MAX_CTAS", "2", NULL, NULL, two_ranks);
	in_child("NCCL_SOCKET_IFNAME", "=lo", NULL, NULL, two_ranks);
	in_child("NCCL_SOCKET_IFNAME", "nowhere0", NULL, NULL, no_interface);
	in_child("NCCL_SOCKET_IFNAME", "nowhere0", "MARROW_SOCKET_IFNAME", "lo", two_ranks);
	in_child("NCCL_SOCKET_IFNAME", "^docker,lo", NULL, NULL, plain);
	SAID("use MARROW_SOCKET_IFNAME");
	in_child("NCCL_IB_HCA", "mlx5", NULL, NULL, plain);
	SAID("use MARROW_NICS");
	in_child("NCCL_IB_HCA", "=mlx5_0:1,mlx5_1", NULL, NULL, plain);
	SAID_NOT("ignored");
	int fd = mkstemp(path);
	snprintf(pattern, sizeof pattern, "%s", path);
	in_child("NCCL_DEBUG", "VERSION", "NCCL_DEBUG_FILE", pattern, plain);
	CHECK(said[0] == '\0', "beside the file: %s", said);
	if (fd >= 0 && read(fd, text, sizeof text - 1) > 0)
		CHECK(strstr(text, "served by") != NULL, "in the file: %s", text);
	CHECK(text[0] != '\0', "nothing in %s", path);
	unlink(path);
	return ranks_verdict();
}
