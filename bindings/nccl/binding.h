/* binding.h - inside libnccl.so.2: NCCL's functions over the public C API of Marrow.
 *
 * handle.c    communicator handles, who may use one when          make.c     creation of communicators
 * comm.c      their end and state
 * result.c    statuses and texts                                  job.c      creation in the background (blocking = 0)
 * config.c    ncclConfig_t of every version                       group.c    what waits for a group's end
 * env.c       NCCL_* variables, log lines                         data.c     collectives and point to point
 * memory.c    allocation, registration                            later.c    names after 2.28 */
#ifndef MARROW_NCCL_BINDING_H
#define MARROW_NCCL_BINDING_H

#define MARROW_NCCL_WITHOUT_CUDA
#include "nccl.h"

#include <marrow/marrow.h>
#include <pthread.h>
#include <stdbool.h>

/* Defines ncclX with its twin; both may be taken over by a profiler, so no function in here calls either. */
#define EXPORT_AS(type, name, arguments) \
	MARROW_API type nccl##name arguments; \
	MARROW_API type pnccl##name arguments __attribute__((alias("nccl" #name))); \
	type nccl##name arguments
#define EXPORT(name, arguments) EXPORT_AS(ncclResult_t, name, arguments)

enum { ANSWERED_VERSION = 22809, TEXT_BYTES = 1024, NAME_BYTES = 64 };

/* result.c */
/* Keeps the text for ncclGetLastError(), prints it at NCCL_DEBUG=WARN and above, returns result. In a group also: the group fails. */
ncclResult_t nccl_fail(ncclResult_t result, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Keeps the text, no more. */
void nccl_remember(const char *text);
ncclResult_t nccl_result(enum marrow_status status);
/* Maps a status of a call just made in this thread; a failure's text is marrow_last_error(NULL) behind the function's name. */
ncclResult_t nccl_from(const char *function, enum marrow_status status);
ncclResult_t nccl_unsupported(const char *function, const char *instead);

/* env.c */
enum nccl_debug { DEBUG_NONE, DEBUG_VERSION, DEBUG_WARN, DEBUG_INFO };
void nccl_env_start(void); /* once a process: reads NCCL_DEBUG, names what is ignored */
void nccl_env_reset_debug(void);
enum nccl_debug nccl_debug_level(void);
void nccl_log(enum nccl_debug level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Environment over caller, as in NCCL; fallback if unset or not a number. */
int nccl_env_int(const char *name, int fallback);
int nccl_env_max_ctas(int fallback);
/* What the variables say of fields of marrow_config that MARROW_* variables leave open. */
void nccl_env_config(struct marrow_config *config);

/* config.c: what a creation was asked for. */
struct nccl_config {
	bool blocking;
	int max_ctas;             /* 0: default */
	char name[NAME_BYTES];    /* "" none */
};
/* user NULL: *parsed is as inherited (NULL: defaults). */
ncclResult_t nccl_config_parse(struct nccl_config *parsed, const ncclConfig_t *user, const struct nccl_config *inherited,
			       const char *function);
struct marrow_config nccl_config_native(const struct nccl_config *config, int device);

/* handle.c */
enum life {
	LIFE_FREE,     /* no communicator: never was, or gone */
	LIFE_QUEUED,   /* made at its group's end */
	LIFE_WORKING,  /* a job is on it: ncclInProgress */
	LIFE_LIVE,
	LIFE_FAILED,   /* a job could not make it: abort and destroy remain */
	LIFE_LEAVING   /* a thread is freeing it */
};

struct registration {
	struct registration *next;
	void *memory;
	size_t bytes;
	bool window;
};

struct job;
struct ncclComm {
	uint32_t life;               /* enum life, atomic */
	uint32_t users;              /* threads inside, atomic; keeps counting over uses of the handle */
	struct ncclComm *next_free;
	struct marrow_comm *native;
	struct job *job;             /* under job.c's lock */
	ncclResult_t job_result;     /* atomic. FAILED: why; LIVE: of the last job that had it as parent, or finalized it */
	char job_text[TEXT_BYTES];
	int rank, nranks, device;
	bool revoked;                /* atomic */
	bool told;                   /* its failure's words are remembered; atomic */
	struct nccl_config config;
	pthread_mutex_t lock;        /* of registrations */
	struct registration *registrations;
};

/* A handle in life QUEUED; NULL: out of memory. Handles are not given back to the allocator but reused, oldest first. */
struct ncclComm *nccl_handle_take(void);
void nccl_handle_give_back(struct ncclComm *comm);
/* What a caller passed as a communicator is one of these, whatever its life. */
bool nccl_handle_known(const struct ncclComm *comm);
/* Claims comm for a call on a live communicator; the error says why not. Pair with nccl_handle_leave(). */
ncclResult_t nccl_handle_enter(struct ncclComm *comm, const char *function);
/* The same for calls that any state but none allows. */
ncclResult_t nccl_handle_enter_any(struct ncclComm *comm, const char *function);
void nccl_handle_leave(struct ncclComm *comm);
/* For the one thread that frees: life goes from LIVE or FAILED to LEAVING; false: another thread was first. The caller has entered. */
bool nccl_handle_close(struct ncclComm *comm);
/* Waits until the caller is the only thread inside, 10 s at most. */
bool nccl_handle_alone(struct ncclComm *comm);

/* make.c */
/* After a creation: remembers rank, size and device, prints what NCCL_DEBUG asks for, LIVE. */
void nccl_comm_made(struct ncclComm *comm);
/* comm.c */
/* What the public functions of these names do outside a group, and a group's end for them. */
ncclResult_t nccl_comm_finalize_now(struct ncclComm *comm);
ncclResult_t nccl_comm_destroy_now(struct ncclComm *comm);
ncclResult_t nccl_comm_abort_now(struct ncclComm *comm);

/* job.c: what one call or group with blocking = 0 asked for. The thread ends with the work; whoever sees that it is over joins it. */
enum job_kind { JOB_INIT, JOB_SPLIT, JOB_SHRINK, JOB_FINALIZE };
struct job_item {
	enum job_kind kind;
	struct ncclComm *comm;       /* what is made, or finalized */
	struct ncclComm *parent;     /* split, shrink */
	bool abandoned;              /* aborted meanwhile: the thread frees it */
	int nranks, rank, color, key, device;
	ncclUniqueId id;
	struct nccl_config config;
	uint32_t *exclude, nexclude, flags; /* exclude: malloc'ed, the job's */
};
/* Takes the items over (malloc'ed); handles in them are WORKING until it ends. Returns ncclInProgress, or why no thread started:
 * then the items are done away with and the communicators given back. */
ncclResult_t nccl_job_start(struct job_item *items, size_t count);
/* Ends a job that is over: joins, and LIVE or FAILED for its handles. Cheap if comm has none. */
void nccl_job_settle(struct ncclComm *comm);
/* For abort: true if a job will free comm. */
bool nccl_job_abandon(struct ncclComm *comm);
/* One item in this thread: native calls only. */
enum marrow_status nccl_job_do(struct job_item *item);

/* group.c */
bool nccl_group_active(void);
void nccl_group_failed(ncclResult_t result);
/* For the group's end. place: the caller's pointer to a handle, which is NULL again if the group fails. */
ncclResult_t nccl_group_add_made(struct ncclComm *comm, ncclComm_t *place);
ncclResult_t nccl_group_add_job(const struct job_item *item, ncclComm_t *place);
enum group_end { GROUP_FINALIZE, GROUP_DESTROY, GROUP_ABORT };
ncclResult_t nccl_group_add_end(struct ncclComm *comm, enum group_end what);
/* Blocking and other communicators do not go together in a group. */
ncclResult_t nccl_group_blocking(bool blocking, const char *function);
ncclResult_t nccl_group_start(void);
ncclResult_t nccl_group_end(void);

/* memory.c */
void nccl_registrations_free(struct ncclComm *comm);

#endif
