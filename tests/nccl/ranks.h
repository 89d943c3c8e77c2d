/* ranks.h - ranks of a program written for NCCL: threads on the host target, each with a communicator. */
#ifndef TEST_NCCL_RANKS_H
#define TEST_NCCL_RANKS_H

#include <nccl.h>
#include <stdbool.h>

enum { RANKS_MOST = 8 };

struct rank {
	int rank, nranks;
	ncclComm_t comm;      /* body may set it to NULL when it has freed it */
	void *arg;
};

/* Runs body in nranks threads on a communicator, then destroys it. */
void ranks_run(int nranks, void (*body)(struct rank *self), void *arg);
/* The same without communicators: comm is NULL, body gets the id. */
void ranks_run_bare(int nranks, void (*body)(struct rank *self, ncclUniqueId id), void *arg);

/* Counts and prints; true if it held. */
bool ranks_check(bool held, const char *file, int line, const char *format, ...) __attribute__((format(printf, 4, 5)));
#define CHECK(condition, ...) ranks_check(condition, __FILE__, __LINE__, __VA_ARGS__)
bool ranks_expect(ncclResult_t wanted, ncclResult_t got, const char *file, int line, const char *call);
#define EXPECT(result, call) ranks_expect(result, call, __FILE__, __LINE__, #call)
#define OK(call) EXPECT(ncclSuccess, call)
/* The last error of this thread holds the word. */
bool ranks_says(const char *word, const char *file, int line);
#define SAYS(word) ranks_says(word, __FILE__, __LINE__)
/* Prints the verdict; the exit status. */
int ranks_verdict(void);
/* Sets NCCL's or Marrow's environment before any library call. */
void ranks_environment(void);
/* Polls until the communicator is not ncclInProgress, 20 s at most. */
ncclResult_t ranks_wait(ncclComm_t comm);

#endif
