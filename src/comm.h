/* comm.h - inside of a communicator. */
#ifndef MRW_COMM_H
#define MRW_COMM_H

#include "base/error.h"
#include "bootstrap.h"
#include "collectives/select.h"
#include "collectives/weigh.h"
#include "device/runtime.h"
#include "device/transfer.h"
#include "network.h"

#include <marrow/marrow.h>
#include <pthread.h>

enum { MRW_MAX_DYNAMIC_OPS = 64 };

enum mrw_life {
	MRW_LIFE_FREE,       /* no communicator: never was, or destroyed */
	MRW_LIFE_PENDING,    /* init is queued in a group */
	MRW_LIFE_LIVE,
	MRW_LIFE_FINALIZED
};

/* A premulsum operation. */
struct mrw_dynamic_op {
	bool used;
	enum marrow_type type;
	enum marrow_scalar_residence residence;
	uint64_t scalar;
	const void *memory;
};

/* What init needs; kept until it ran. */
struct mrw_init {
	struct marrow_comm **user;   /* where the caller keeps the handle */
	struct marrow_unique_id id;
	int32_t local_rank;          /* >= 0: choose the device by it */
	int32_t device;              /* CUDA device current at the call, -1 unknown */
	char host_id[128];
	char ifname[64];
	char nics[256];
	char tuning[512];            /* MARROW_TUNING: a path, "" none */
	enum marrow_target target;
	struct marrow_comm *parent;  /* split, shrink: NULL else; it may be gone by the end of a group: see parent_generation */
	uint64_t parent_generation;
	int32_t color, key;
	uint64_t members;            /* bit r: rank r of the parent takes part */
	uint64_t without;            /* shrink: bit r: rank r of the parent is left out */
};

/* Handles are never returned to the allocator but reused: a stale one is recognised by its life. */
struct marrow_comm {
	uint32_t life;               /* enum mrw_life, atomic */
	uint32_t busy;               /* 1 while a thread is inside, atomic */
	uint32_t forks;              /* mrw_comm_forks() of the process that made it */
	uint32_t aborting;           /* threads inside marrow_comm_abort(), atomic: an operation may leave, and its rank destroy, before them */
	uint64_t generation;         /* of this handle's use: a call queued in a group belongs to one */
	struct marrow_comm *next_free;
	uint32_t rank, nranks;
	struct mrw_init init;
	struct mrw_device device;
	bool device_open;
	struct mrw_boot *boot;
	struct mrw_page *page;       /* host address */
	int page_fd;
	struct mrw_arena arena;      /* own */
	struct mrw_arena peers[MRW_MAX_RANKS];
	uint64_t siblings;           /* bit r: rank r is in this process */
	struct marrow_window *windows;
	uint32_t windowed;           /* windows, as far as they have an effect: equal on all ranks */
	uint64_t window_ids;         /* given so far */
	struct mrw_network *network; /* NULL: all ranks are on this host */
	uint32_t near_count;         /* ranks of this host, this one included */
	uint32_t hosts;
	struct mrw_reach reach;      /* more than one rank: who is a peer */
	struct mrw_weights weights;  /* what the cost model says of that */
	struct mrw_args args;        /* the constant part of every launch */
	bool lines;                   /* lines (device/line.h) arrive whole between all ranks */
	struct mrw_tuning *tuning;   /* while init runs */
	struct mrw_choices choices;  /* more than one rank */
	bool tells;                  /* the topic select is on */
	uint64_t told[MRW_FUNC_COUNT][MRW_ALGO_COUNT]; /* what was told of it: bit c - 1: over c channels */
	uint32_t cores;              /* that ranks of a host may run on, of the host that has the fewest */
	uint32_t channel_cap;
	uint32_t max_ctas;
	int32_t asked_algo;        /* at init: decides who is whose peer; enum mrw_algo, -1: none */
	int32_t forced_algo;       /* of calls */
	uint32_t forced_channels;    /* tests */
	uint32_t forced_listed;      /* tests: transfers of a launch at most, 0: as the target can */
	bool forced_places;          /* tests: calls of any size have windows */
	uint64_t timeout_ms;         /* 0: defaults */
	struct mrw_dynamic_op ops[MRW_MAX_DYNAMIC_OPS];
	/* failure: written under lock, sticky */
	pthread_mutex_t lock;
	enum marrow_status async_status;
	bool hurt;                   /* async_status or a later failure is this rank's own, not only others' as it heard; atomic */
	bool fault_told;
	bool aborted;
	uint64_t last_watch_ns;
	uint64_t report_ns;          /* when a peer's report of a fault was read, 0: none */
	uint32_t reporter;
	char report[MRW_ERROR_TEXT_BYTES];
	char error[MRW_ERROR_TEXT_BYTES];
	uint64_t gone[MRW_MAX_RANKS]; /* when its BYE was read (ns), 0: not yet; atomic */
};

/* A registered buffer, window.c. */
struct marrow_window {
	struct marrow_window *next;
	uint64_t id;                 /* of the communicator's registrations: equal on all ranks */
	uint32_t slot;               /* mrw_window_at() */
	uint8_t *memory;
	uint64_t bytes;
	const uint8_t *buffer;       /* of marrow_mem_alloc(), held */
	struct mrw_arena peers[MRW_MAX_NEAR];
};

/* One collective call, checked and planned. */
struct mrw_task {
	struct marrow_comm *comm;
	uint64_t generation;
	void *stream;
	enum mrw_kernel kernel;
	enum marrow_type type;
	uint32_t threads;
	bool copy;                   /* one rank: no kernel but a copy */
	struct mrw_args args;
	/* mrw_is_transfers(args.call.func): what is to move; the task's own memory, NULL: the one */
	struct mrw_transfer *list, one;
	uint32_t listed;
};

/* comm.c */
/* Forks between this process and the first one that used the library. */
uint32_t mrw_comm_forks(void);
/* Index in ops[] of a premulsum operation of comm, -1: it is none. Its value says which use of a handle it belongs to. */
int32_t mrw_op_index(const struct marrow_comm *comm, enum marrow_op op);
struct marrow_comm *mrw_comm_take(void);
void mrw_comm_give_back(struct marrow_comm *comm);
/* AUTO: cuda where build and machine have it. */
enum marrow_status mrw_choose_runtime(enum marrow_target target, const struct mrw_runtime **runtime);
/* Chooses and opens the device, the first step of mrw_comm_build(); what it leaves is dismantled. */
enum marrow_status mrw_comm_open(struct marrow_comm *comm);
/* Does what comm->init says: the blocking part of marrow_comm_init(). On failure everything is undone but the handle. */
enum marrow_status mrw_comm_build(struct marrow_comm *comm);
void mrw_comm_dismantle(struct marrow_comm *comm);
/* A destroyed communicator whose operations have not left: hangs up, and keeps its memory until they have. Then a later sweep frees it: every
 * creation and destruction of a communicator sweeps those of its device: to free may mean to wait for the device. */
void mrw_comm_defer(struct marrow_comm *comm);
void mrw_comm_sweep(int32_t device);
/* An exchange between the ranks of a communicator that has been made. A rank that is not there, or makes another call, is its end: ranks no longer agree on
 * what comes next. */
enum marrow_status mrw_comm_exchange(struct marrow_comm *comm, const void *mine, void *all, size_t bytes);
/* Claims the communicator for this thread in a public call; the error says why not. */
enum marrow_status mrw_comm_enter(struct marrow_comm *comm, const char *call);
enum marrow_status mrw_comm_leave(struct marrow_comm *comm, enum marrow_status status);
/* What both init functions end in; local_rank >= 0 chooses the CUDA device. Arguments have been checked, id but for one rank. */
enum marrow_status mrw_comm_create(struct marrow_comm **out, uint32_t nranks, const struct marrow_unique_id *id, uint32_t rank,
				   int32_t local_rank, const struct marrow_config *config);
/* What MARROW_TARGET says, or AUTO. */
enum marrow_status mrw_target_from_env(enum marrow_target *target);
/* Config over environment over default. */
enum marrow_status mrw_comm_configure(struct marrow_comm *comm, const struct marrow_config *config);
/* Reads the fault record and the sockets; fills async_status and error. */
enum marrow_status mrw_comm_look(struct marrow_comm *comm, bool sockets);
/* The same from within a wait of the host target for peer. If that one left a second ago it will not come any more: the wait is told. */
void mrw_comm_look_waiting(struct marrow_comm *comm, uint32_t peer);
/* The communicator has failed, in these words, unless it had before. */
void mrw_comm_fail(struct marrow_comm *comm, enum marrow_status status, const char *text);

/* api.c: waits until this rank's operations are done; once the communicator has failed 5 s at most: MARROW_TIMEOUT, no text. */
enum marrow_status mrw_comm_drain(struct marrow_comm *comm);

/* split.c */
/* A handle for a communicator made from parent, on its device. config NULL: as parent. The handle comes back even where config is wrong:
 * then *status is not MARROW_SUCCESS. NULL without memory. */
struct marrow_comm *mrw_comm_child(const struct marrow_comm *parent, const struct marrow_config *config, enum marrow_status *status);
/* The blocking part of marrow_comm_split(): takes part in the parent's exchange, even if split was refused here (async_status, error),
 * and builds. MARROW_NO_COLOR: child->nranks is 0 and nothing was built. On failure all is undone but the handle. */
enum marrow_status mrw_split_build(struct marrow_comm *child);

/* launch.c */
enum marrow_status mrw_plan_call(struct marrow_comm *comm, enum mrw_func func, const void *send, void *recv, size_t count,
				 enum marrow_type type, enum marrow_op op, uint32_t root, void *stream, struct mrw_task *task);
/* reduce_scatter_v: counts of all ranks. */
enum marrow_status mrw_plan_call_v(struct marrow_comm *comm, const void *send, void *recv, const size_t *counts, enum marrow_type type,
				   enum marrow_op op, void *stream, struct mrw_task *task);
enum marrow_status mrw_issue(struct mrw_task *task);
/* Whether buffer (role: "send", "recv") of bytes can be used; func for the text. */
enum marrow_status mrw_check_buffer(struct marrow_comm *comm, uint32_t func, const char *role, const void *buffer, uint64_t bytes);
/* MARROW_SUCCESS while the communicator is well; peers: bits of the ranks that the call needs. */
enum marrow_status mrw_check_peers(struct marrow_comm *comm, uint32_t func, uint64_t peers);
const char *mrw_func_name(uint32_t func);
const char *mrw_type_name(uint32_t type);
uint32_t mrw_type_bytes(uint32_t type);
/* 64 bits over everything but seq and hash; never 0. */
uint64_t mrw_call_hash(const struct mrw_call *call);
/* "all_reduce(count 3, float32, sum)": for messages. */
void mrw_call_text(const struct mrw_call *call, char *text, size_t bytes);

/* memory.c */
/* The buffer of marrow_mem_alloc() that has [memory, memory + bytes) in it is kept from marrow_mem_free() until mrw_buffer_let_go(offer.base). offer: for
 * peers to map; the caller seals it. call: for messages. */
enum marrow_status mrw_buffer_hold(struct mrw_device *d, const char *call, const void *memory, uint64_t bytes, struct mrw_arena *offer);
void mrw_buffer_let_go(const uint8_t *base);

/* window.c */
/* Of a planned call, before it is hashed: whether its ranks say places, and this one's. recv_bytes: of a->out. */
void mrw_window_place(const struct marrow_comm *comm, struct mrw_args *a, uint64_t recv_bytes);
/* Forgets and unmaps all windows; nothing uses them any more. */
void mrw_windows_drop(struct marrow_comm *comm);

/* exchange.c: calls that are made of transfers. Buffers and counts as in the public call; NULL where it has none. */
struct mrw_exchange {
	enum mrw_func func;
	const void *send;
	void *recv;
	size_t count;
	const size_t *send_counts, *send_displs, *recv_counts, *recv_displs;
	enum marrow_type type;
	uint32_t root;               /* send, recv: the peer */
	void *stream;
};
enum marrow_status mrw_plan_exchange(struct marrow_comm *comm, const struct mrw_exchange *x, struct mrw_task *task);
/* The tasks, of one communicator and stream, as one launch (CUDA: or more, if they are many): a collective alone, or sends and recvs. */
enum marrow_status mrw_issue_exchange(struct mrw_task *const *tasks, size_t count);
/* Sends and recvs of ranks with themselves must come in pairs: of all tasks. */
enum marrow_status mrw_check_selves(const struct mrw_task *tasks, size_t count);
void mrw_task_drop(struct mrw_task *task);

/* group.c */
bool mrw_group_active(void);
enum marrow_status mrw_group_add(const struct mrw_task *task);
enum marrow_status mrw_group_add_init(struct marrow_comm *comm);
/* True if this thread's group holds calls of the communicator, or splits. */
bool mrw_group_holds(const struct marrow_comm *comm);
/* Remembers that a call of the group failed. */
void mrw_group_failed(enum marrow_status status);

/* Tests: threads a team and side-by-side channels of the host target; next seq of all channels (all ranks alike, nothing in
 * flight); channels of every call, 0: chosen. */
void mrw_comm_set_host_team(struct marrow_comm *comm, uint32_t team_size, bool parallel_channels);
enum marrow_status mrw_comm_set_seq(struct marrow_comm *comm, uint32_t next, uint64_t round);
void mrw_comm_set_channels(struct marrow_comm *comm, uint32_t channels);
/* At most so many transfers a launch, as on CUDA; 0: all at once. */
void mrw_comm_set_listed(struct marrow_comm *comm, uint32_t listed);
void mrw_comm_set_algo(struct marrow_comm *comm, int32_t algo);
/* Windows are used by calls of any size. */
void mrw_comm_set_places(struct marrow_comm *comm);
/* Not NULL: the target of communicators that are made from now on, whatever they ask for. */
extern const struct mrw_runtime *mrw_comm_runtime;
/* A wait of the next calls that is longer leaves a note in the page. */
void mrw_comm_set_note_ns(struct marrow_comm *comm, uint64_t note_ns);

#endif
