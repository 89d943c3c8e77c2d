/* runtime.h - what a target must offer: memory that peers can map, launches, streams. Two implementations: host.c and cuda.c.
 *
 * All calls may be made from any thread; those on one device object by one thread at a time. CUDA: the device of open is
 * remembered, and every call sets it and restores the caller's (open with a local rank excepted). */
#ifndef MRW_RUNTIME_H
#define MRW_RUNTIME_H

#include "args.h"
#include "kernels.h"
#include "page.h"

#include <marrow/types.h>

/* Memory shared with the ranks of this host, or a peer's as mapped here. */
struct mrw_arena {
	uint8_t *base;       /* NULL: none */
	uint64_t bytes;      /* as asked for */
	uint64_t mapped;     /* as mapped, whole pages of the target */
	uint64_t handle;     /* target's own */
	int fd;              /* passes the memory to other processes; -1: closed */
};

/* What a device is, as ranks tell each other. */
struct mrw_device_info {
	uint8_t uuid[16];    /* equal for ranks that share the device; all zero on the host target */
	int32_t ordinal;     /* -1 on the host target */
	char bus[16];        /* PCI address "0000:03:00.0"; "" on the host target, or unknown */
	uint32_t blocks;     /* blocks of any of our kernels resident at once (see span); host: MRW_MAX_CHANNELS */
	uint32_t shared;     /* 1 if launches of this process block (CUDA_LAUNCH_BLOCKING) */
};

/* One device as one communicator uses it. */
struct mrw_device {
	const struct mrw_runtime *runtime;
	struct mrw_device_info info;
	char name[96];             /* cuda: the GPU and its size, for calibration tables */
	/* host target */
	uint32_t team_size;        /* threads a team; 1 but in tests */
	bool parallel_channels;    /* run channels at once; only in tests */
	/* cuda: streams of this communicator, in call order */
	void *setup_stream;        /* ours: for init, where the user's streams may be busy; NULL on the host target */
	uint64_t last_stream;      /* number of the stream of the last eager launch; it may be gone */
	bool launched;
	bool early_launch;         /* kernels wait for their predecessor themselves */
	bool spans;                /* kernels and memory are those of a communicator that spans hosts */
	void *event;               /* that launch is done */
	void *joint;               /* between the streams of a group */
	uint64_t capture_id;       /* 0 none */
	void *capture_node;        /* the last captured launch of capture_id */
	void *capture_stream;
	uint64_t checked[32];      /* buffers found good, by hash */
};

struct mrw_runtime {
	const char *name;
	enum marrow_target target;
	/* True if the machine has such a device. */
	bool (*present)(void);
	/* Ordinal of the device current in this thread; -1: none, or the host target. */
	int32_t (*current)(void);
	/* Makes a device current and fills *d. ordinal >= 0: that one; else local_rank >= 0: that one modulo their number; else the
	 * current one. */
	enum marrow_status (*open)(struct mrw_device *d, int32_t ordinal, int32_t local_rank);
	void (*close)(struct mrw_device *d);
	/* The communicator spans hosts: before its arena is made. Loads the kernels that this takes; from now on launches take them,
	 * info.blocks counts them, and arenas are such as a NIC can reach. NULL: nothing of that is needed (host target). */
	enum marrow_status (*span)(struct mrw_device *d);
	/* Zeroed page(s) both sides can touch; *device is its address in kernels. fd keeps it findable under /proc/<pid>/fd. */
	enum marrow_status (*page_new)(struct mrw_device *d, struct mrw_page **page, struct mrw_page **device, int *fd);
	void (*page_free)(struct mrw_device *d, struct mrw_page *page, int fd);
	/* Zeroed; fd is open until arena_seal(). */
	enum marrow_status (*arena_new)(struct mrw_device *d, uint64_t bytes, struct mrw_arena *arena);
	/* Maps a peer's arena: theirs in this process (same_process; the object's copy is enough), or by a received fd, which
	 * stays the caller's. */
	enum marrow_status (*arena_map)(struct mrw_device *d, const struct mrw_arena *theirs, bool same_process, struct mrw_arena *mine);
	/* No more mapping by others: closes the fd. */
	void (*arena_seal)(struct mrw_device *d, struct mrw_arena *arena);
	/* Own or mapped; memory lives until the last one lets go. Half-made and zeroed arenas are fine. */
	void (*arena_free)(struct mrw_device *d, struct mrw_arena *arena);
	/* A dma-buf of own memory for a NIC, from base on; *fd is the caller's. MARROW_UNSUPPORTED says why there is none: the NIC's driver
	 * may know the addresses all the same (nvidia-peermem). Host target: NULL, its memory is the host's. */
	enum marrow_status (*arena_dmabuf)(struct mrw_device *d, const struct mrw_arena *arena, int *fd);
	/* Whole pages of the host's memory, or (registers) of a device's registers that are mapped there, as kernels reach them: *device is
	 * their address. The same pages may be mapped by several communicators, each with an unmap of its own, before the pages go.
	 * Host target: NULL, addresses are the same. */
	enum marrow_status (*pages_map)(struct mrw_device *d, void *pages, uint64_t bytes, bool registers, void **device);
	void (*pages_unmap)(struct mrw_device *d, void *pages);
	/* Memory for users, of the device current in this thread (*device), not zeroed; mapped may be more than bytes. Freed on any thread, when nothing
	 * uses it. */
	enum marrow_status (*buffer_new)(uint64_t bytes, struct mrw_arena *buffer, int32_t *device);
	void (*buffer_free)(struct mrw_arena *buffer, int32_t device);
	/* What others arena_map() such a buffer by, until it is arena_seal()ed; its base is the buffer's. */
	enum marrow_status (*buffer_offer)(struct mrw_device *d, const struct mrw_arena *buffer, struct mrw_arena *offer);
	/* NULL if this rank's target can use the buffer, else why not. */
	const char *(*buffer_fault)(struct mrw_device *d, const void *buffer);
	/* Runs kernel over args->call.channels channels after the communicator's previous launch. threads: of a block (cuda). */
	enum marrow_status (*launch)(struct mrw_device *d, enum mrw_kernel kernel, enum marrow_type type, const struct mrw_args *args,
				     uint32_t threads, void *stream);
	/* first waits for all that was put on others[] so far / others[] wait for the communicator's last launch (groups). */
	enum marrow_status (*join)(struct mrw_device *d, void *first, void *const *others, uint32_t count, bool fan_out);
	/* Waits until the last launch is done, calling poll(arg) about every millisecond; gives up when poll says false
	 * (MARROW_TIMEOUT, no text). */
	enum marrow_status (*finish)(struct mrw_device *d, bool (*poll)(void *arg), void *arg);
	/* After a finish that gave up: whether what it waited for is done by now. Does not wait, and needs no stream of the user's. */
	bool (*left)(struct mrw_device *d);
	/* Copies n bytes on the stream (one-rank communicators). */
	enum marrow_status (*copy)(struct mrw_device *d, void *dst, const void *src, uint64_t bytes, void *stream);
	/* Copies words from or to an own arena behind the kernels' back (init, the end and tests; nothing in flight). */
	enum marrow_status (*poke)(struct mrw_device *d, void *dst, const void *src, uint64_t bytes);
};

extern const struct mrw_runtime mrw_host_runtime;
extern const struct mrw_runtime mrw_cuda_runtime;

#endif
