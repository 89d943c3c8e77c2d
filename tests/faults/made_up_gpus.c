/* made_up_gpus.c - what only users of GPUs can get wrong, on a machine without one: GPUs that do not reach each other's memory, launches that block.
 *
 * made_up_gpus. The host target's kernels work in memory that src/device/cuda_memory.c makes and maps by a CUDA that is made up here: an
 * allocation is a memfd named after its device, a mapping can be touched once access is set, and whether a device has access to
 * another one's memory is the test's to say. Ranks are threads, or processes, of a device each. */
#include "crew.h"
#include "verdict.h"

#include "comm.h"
#include "device/cuda_support.h"

#include <cuda.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_RANKS = 3, MAX_HANDLES = 64, MAX_RANGES = 64, PAGE = 4096, COUNT = 5000 };

/* ---- the driver */

static struct {
	pthread_mutex_t lock;
	struct {
		int fd, device;             /* fd 0: free */
	} handles[MAX_HANDLES];             /* a handle is its index + 1 */
	struct {
		uint8_t *base;
		size_t bytes;
		int device;                 /* whose memory is mapped there; -1: none */
		int fd;                     /* that memory */
		uint32_t open;              /* to which devices, bits */
	} ranges[MAX_RANGES];
	uint32_t made, registered;
	bool refused[MAX_RANKS][MAX_RANKS]; /* the first has no access to the second's memory */
	CUresult fail_access;               /* for whatever other reason */
} gpus = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int current_device;

static CUresult add_handle(CUmemGenericAllocationHandle *handle, int fd, int device)
{
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&gpus.lock);
	for (uint32_t i = 0; i < MAX_HANDLES && result != CUDA_SUCCESS; i++)
		if (gpus.handles[i].fd == 0) {
			gpus.handles[i].fd = fd;
			gpus.handles[i].device = device;
			*handle = i + 1;
			gpus.made++;
			result = CUDA_SUCCESS;
		}
	pthread_mutex_unlock(&gpus.lock);
	return result;
}

static int above_zero(int fd)
{
	int higher = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	close(fd);
	return higher;
}

static CUresult mem_create(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags)
{
	char name[32];
	(void)flags;
	snprintf(name, sizeof name, "marrow-gpu-%d", prop->location.id);
	int fd = above_zero(memfd_create(name, MFD_CLOEXEC));
	if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return add_handle(handle, fd, prop->location.id);
}

static CUresult mem_release(CUmemGenericAllocationHandle handle)
{
	pthread_mutex_lock(&gpus.lock);
	bool there = handle > 0 && handle <= MAX_HANDLES && gpus.handles[handle - 1].fd > 0;
	if (there) {
		close(gpus.handles[handle - 1].fd);
		gpus.handles[handle - 1].fd = 0;
	}
	pthread_mutex_unlock(&gpus.lock);
	expect_true("a handle is released once", there);
	return there ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult mem_export(void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags)
{
	(void)type;
	(void)flags;
	int fd = fcntl(gpus.handles[handle - 1].fd, F_DUPFD_CLOEXEC, 3);
	memcpy(out, &fd, sizeof fd);
	return fd >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult mem_import(CUmemGenericAllocationHandle *handle, void *shared, CUmemAllocationHandleType type)
{
	char path[64], name[64] = "";
	int device = -1, fd = fcntl((int)(intptr_t)shared, F_DUPFD_CLOEXEC, 3);
	(void)type;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (readlink(path, name, sizeof name - 1) < 0 || sscanf(name, "/memfd:marrow-gpu-%d", &device) != 1) {
		if (fd >= 0)
			close(fd);
		return CUDA_ERROR_INVALID_VALUE;
	}
	return add_handle(handle, fd, device);
}

static CUresult mem_granularity(size_t *grain, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags flags)
{
	(void)prop;
	(void)flags;
	*grain = 2 << 20;
	return CUDA_SUCCESS;
}

/* Index of the range at base; NULL: a free one. */
static uint32_t range_at(const void *base)
{
	uint32_t i = 0;
	while (i < MAX_RANGES && gpus.ranges[i].base != base)
		i++;
	if (i == MAX_RANGES)
		abort();
	return i;
}

static CUresult address_reserve(CUdeviceptr *at, size_t bytes, size_t alignment, CUdeviceptr wish, unsigned long long flags)
{
	(void)alignment;
	(void)wish;
	(void)flags;
	void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&gpus.lock);
	uint32_t i = range_at(NULL);
	gpus.ranges[i].base = p;
	gpus.ranges[i].bytes = bytes;
	gpus.ranges[i].device = -1;
	gpus.ranges[i].open = 0;
	pthread_mutex_unlock(&gpus.lock);
	*at = (CUdeviceptr)(uintptr_t)p;
	return CUDA_SUCCESS;
}

static CUresult address_free(CUdeviceptr at, size_t bytes)
{
	pthread_mutex_lock(&gpus.lock);
	uint32_t i = range_at((void *)(uintptr_t)at);
	bool unmapped = gpus.ranges[i].bytes == bytes && gpus.ranges[i].device < 0;
	munmap(gpus.ranges[i].base, bytes);
	gpus.ranges[i].base = NULL;
	pthread_mutex_unlock(&gpus.lock);
	expect_true("addresses are freed whole, with nothing mapped there", unmapped);
	return CUDA_SUCCESS;
}

static CUresult mem_map(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	void *p = (void *)(uintptr_t)at;
	(void)offset;
	(void)flags;
	pthread_mutex_lock(&gpus.lock);
	uint32_t i = range_at(p);
	gpus.ranges[i].device = gpus.handles[handle - 1].device;
	gpus.ranges[i].fd = fcntl(gpus.handles[handle - 1].fd, F_DUPFD_CLOEXEC, 3);
	void *got = mmap(p, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, gpus.handles[handle - 1].fd, 0);
	pthread_mutex_unlock(&gpus.lock);
	return got == p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult mem_unmap(CUdeviceptr at, size_t bytes)
{
	void *p = (void *)(uintptr_t)at;
	pthread_mutex_lock(&gpus.lock);
	uint32_t i = range_at(p);
	gpus.ranges[i].device = -1;
	close(gpus.ranges[i].fd);
	void *got = mmap(p, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	pthread_mutex_unlock(&gpus.lock);
	return got == p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult mem_retain(CUmemGenericAllocationHandle *handle, void *p)
{
	pthread_mutex_lock(&gpus.lock);
	uint32_t i = range_at(p);
	int fd = fcntl(gpus.ranges[i].fd, F_DUPFD_CLOEXEC, 3), device = gpus.ranges[i].device;
	pthread_mutex_unlock(&gpus.lock);
	return add_handle(handle, fd, device);
}

static CUresult mem_set_access(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
	void *p = (void *)(uintptr_t)at;
	pthread_mutex_lock(&gpus.lock);
	int owner = gpus.ranges[range_at(p)].device, from = access->location.id;
	pthread_mutex_unlock(&gpus.lock);
	expect_true("access is asked for a device to memory of one", count == 1 && owner >= 0 && owner < MAX_RANKS && from >= 0 && from < MAX_RANKS);
	if (gpus.fail_access != CUDA_SUCCESS)
		return gpus.fail_access;
	if (gpus.refused[from][owner])
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&gpus.lock);
	gpus.ranges[range_at(p)].open |= 1u << from;
	pthread_mutex_unlock(&gpus.lock);
	return mprotect(p, bytes, PROT_READ | PROT_WRITE) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult error_string(CUresult error, const char **text)
{
	*text = error == CUDA_ERROR_INVALID_DEVICE ? "invalid device ordinal" : error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "invalid value";
	return CUDA_SUCCESS;
}

static CUresult device_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	(void)attribute;
	(void)device;
	*value = 0;
	return CUDA_SUCCESS;
}

/* ---- the runtime */

#define ENTRY(symbol, function) {symbol, (void (*)(void))(function)}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version, unsigned long long flags,
					     enum cudaDriverEntryPointQueryResult *result)
{
	static const struct {
		const char *symbol;
		void (*function)(void);
	} entries[] = {
		ENTRY("cuMemCreate", mem_create), ENTRY("cuMemRelease", mem_release), ENTRY("cuMemExportToShareableHandle", mem_export),
		ENTRY("cuMemImportFromShareableHandle", mem_import), ENTRY("cuMemGetAllocationGranularity", mem_granularity),
		ENTRY("cuMemAddressReserve", address_reserve), ENTRY("cuMemAddressFree", address_free), ENTRY("cuMemMap", mem_map),
		ENTRY("cuMemUnmap", mem_unmap), ENTRY("cuMemSetAccess", mem_set_access), ENTRY("cuGetErrorString", error_string),
		ENTRY("cuDeviceGetAttribute", device_attribute), ENTRY("cuMemRetainAllocationHandle", mem_retain),
	};
	(void)version;
	(void)flags;
	*result = cudaDriverEntryPointSymbolNotFound;
	for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
		if (strcmp(symbol, entries[i].symbol) == 0) {
			memcpy(function, &entries[i].function, sizeof *function);
			*result = cudaDriverEntryPointSuccess;
		}
	return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
	return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
	return error == cudaSuccess ? "no error" : "made-up error";
}

cudaError_t cudaGetDevice(int *device)
{
	*device = current_device;
	return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
	current_device = device;
	return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
	*count = MAX_RANKS;
	return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	*can = !gpus.refused[device][peer];
	return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	(void)mode;
	return cudaSuccess;
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
	(void)p;
	(void)bytes;
	(void)flags;
	__atomic_fetch_add(&gpus.registered, 1, __ATOMIC_RELAXED);
	return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void **device, void *p, unsigned flags)
{
	(void)flags;
	*device = p;
	return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p)
{
	(void)p;
	__atomic_fetch_sub(&gpus.registered, 1, __ATOMIC_RELAXED);
	return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
	(void)p;
	return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *p)
{
	(void)p;
	attributes->type = cudaMemoryTypeHost;
	return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
	(void)stream;
	memset(p, value, bytes);
	return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	(void)kind;
	(void)stream;
	memcpy(dst, src, bytes);
	return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	(void)stream;
	return cudaSuccess;
}

/* ---- the target */

static struct mrw_runtime target;

static enum marrow_status open_device(struct mrw_device *d, int32_t ordinal, int32_t local_rank)
{
	MRW_TRY(mrw_host_runtime.open(d, ordinal, local_rank));
	d->runtime = &target;
	d->info.ordinal = ordinal;
	memset(d->info.uuid, 0x40 + ordinal, sizeof d->info.uuid);
	snprintf(d->info.bus, sizeof d->info.bus, "0000:0%u:00.0", (unsigned)(ordinal + 1) % 10);
	return mrw_cuda_driver() ? MARROW_SUCCESS : mrw_fail(MARROW_UNSUPPORTED, "the driver is incomplete");
}

static void set_up(void)
{
	target = mrw_host_runtime;
	target.open = open_device;
	target.page_new = mrw_cuda_page_new;
	target.page_free = mrw_cuda_page_free;
	target.arena_new = mrw_cuda_arena_new;
	target.arena_map = mrw_cuda_arena_map;
	target.arena_seal = mrw_cuda_arena_seal;
	target.arena_free = mrw_cuda_arena_free;
	target.buffer_new = mrw_cuda_buffer_new;
	target.buffer_free = mrw_cuda_buffer_free;
	target.buffer_offer = mrw_cuda_buffer_offer;
	target.buffer_fault = mrw_cuda_buffer_fault;
	target.poke = mrw_cuda_poke;
	mrw_comm_runtime = &target;
}

/* ---- ranks */

struct rank {
	uint32_t rank, size;
	const struct marrow_unique_id *id;
	enum marrow_status status;      /* of init */
	char text[MRW_ERROR_TEXT_BYTES];
	pthread_t thread;
};

static void expect_no_gpu_memory(const char *what)
{
	uint32_t handles = 0, ranges = 0;
	for (uint32_t i = 0; i < MAX_HANDLES; i++)
		handles += gpus.handles[i].fd != 0;
	for (uint32_t i = 0; i < MAX_RANGES; i++)
		ranges += gpus.ranges[i].base != NULL;
	if (handles + ranges + gpus.registered > 0)
		fprintf(stderr, "%s: %u handles, %u ranges of addresses, %u registered pages are left\n", what, handles, ranges, gpus.registered);
	expect_true(what, handles + ranges + gpus.registered == 0);
}

/* The same into memory of the device that the others write. */
static void use_window(struct rank *self, struct marrow_comm *comm, const float *in)
{
	struct marrow_window *window = NULL;
	void *memory = NULL;
	int device = current_device;
	current_device = (int)self->rank;
	expect_status("memory", marrow_mem_alloc(&memory, COUNT * sizeof *in, MARROW_TARGET_AUTO), MARROW_SUCCESS, NULL, "");
	current_device = device;
	float *out = memory;
	mrw_comm_set_algo(comm, MRW_ALGO_BULK);
	mrw_comm_set_places(comm);
	expect_status("register", marrow_window_register(comm, memory, COUNT * sizeof *in, &window), MARROW_SUCCESS, NULL, "");
	expect_status("all-reduce", marrow_all_reduce(in, out, COUNT, MARROW_FLOAT32, MARROW_SUM, comm, NULL), MARROW_SUCCESS, NULL, "");
	expect_true("sums in a window", out[0] == (float)(self->size * (self->size + 1) / 2) && out[COUNT - 1] == out[0]);
	expect_status("deregister", marrow_window_deregister(comm, window), MARROW_SUCCESS, NULL, "");
	expect_status("free", marrow_mem_free(memory), MARROW_SUCCESS, NULL, "");
}

static void *be_rank(void *p)
{
	struct rank *self = p;
	struct marrow_config config = MARROW_CONFIG_INIT;
	struct marrow_comm *comm = NULL;
	float in[COUNT], out[COUNT];
	int device = -1;
	current_device = MAX_RANKS + (int)self->rank; /* the user's, none of ours */
	config.timeout_ms = 10000;
	config.device = self->rank + 1;
	self->status = marrow_comm_init(&comm, self->size, self->id, self->rank, &config);
	snprintf(self->text, sizeof self->text, "%s", self->status == MARROW_SUCCESS ? "" : marrow_last_error(NULL));
	(void)cudaGetDevice(&device);
	expect_true("the user's device stays current", device == MAX_RANKS + (int)self->rank);
	if (self->status != MARROW_SUCCESS)
		return NULL;
	for (uint32_t i = 0; i < COUNT; i++)
		in[i] = (float)(self->rank + 1);
	expect_status("all-reduce", marrow_all_reduce(in, out, COUNT, MARROW_FLOAT32, MARROW_SUM, comm, NULL), MARROW_SUCCESS, NULL, "");
	expect_true("sums", out[0] == (float)(self->size * (self->size + 1) / 2) && out[COUNT - 1] == out[0]);
	if (self->size > 1)
		use_window(self, comm, in);
	expect_status("destroy", marrow_comm_destroy(comm), MARROW_SUCCESS, NULL, "");
	return NULL;
}

/* What each rank must have of its init. */
struct expected {
	enum marrow_status status;
	const char *words;
};

static void as_threads(const char *what, uint32_t size, const struct expected *want)
{
	struct census before = census_take();
	struct marrow_unique_id id;
	struct rank ranks[MAX_RANKS];
	watchdog(30, what);
	expect_status(what, marrow_get_unique_id(&id), MARROW_SUCCESS, NULL, "");
	for (uint32_t r = 0; r < size; r++) {
		ranks[r] = (struct rank){.rank = r, .size = size, .id = &id};
		if (pthread_create(&ranks[r].thread, NULL, be_rank, &ranks[r]) != 0)
			abort();
	}
	for (uint32_t r = 0; r < size; r++)
		pthread_join(ranks[r].thread, NULL);
	for (uint32_t r = 0; r < size; r++)
		expect_status(what, ranks[r].status, want[r].status, ranks[r].text, want[r].words);
	expect_no_gpu_memory(what);
	expect_nothing_left(what, &before);
}

static void be_process(struct crew_member *self)
{
	const struct expected *want = self->arg;
	struct census before = census_take();
	struct rank rank = {.rank = self->rank, .size = self->size, .id = &self->board->id};
	int already = failures();
	if (self->rank == 0)
		expect_status("unique id", marrow_get_unique_id(&self->board->id), MARROW_SUCCESS, NULL, "");
	meet(&self->board->meeting, self->size);
	be_rank(&rank);
	expect_status(self->doing, rank.status, want[self->rank].status, rank.text, want[self->rank].words);
	expect_no_gpu_memory(self->doing);
	expect_nothing_left(self->doing, &before);
	if (failures() > already)
		crew_fail(self, "%d complaints", failures() - already);
}

static void as_processes(const char *what, uint32_t size, const struct expected *want)
{
	struct crew crew = {.doing = what, .target = MARROW_TARGET_HOST, .size = size, .arg = (void *)(uintptr_t)want, .seconds = 30};
	crew_start(&crew, be_process);
	expect_true(what, crew_end(&crew, 0) == 0);
}

/* As processes first: they are forked from one without threads. */
static void in_both_ways(const char *what, uint32_t size, const struct expected *want)
{
	as_processes(what, size, want);
	as_threads(what, size, want);
}

static const struct expected all_well[MAX_RANKS];

static void reach_each_other(void)
{
	in_both_ways("all reach each other", MAX_RANKS, all_well);
	expect_true("memory was the made-up driver's", gpus.made >= MAX_RANKS);
}

#define REMEDY " (have the two GPUs peer access?|nvidia-smi topo -p2p w|CUDA_VISIBLE_DEVICES|invalid device ordinal"

static void no_peer_access(void)
{
	static const struct expected both[] = {
		{MARROW_CUDA_ERROR, "rank 0 (device 0, 0000:01:00.0) cannot map the memory of rank 1 |(device 1, 0000:02:00.0): cuMemSetAccess" REMEDY},
		{MARROW_CUDA_ERROR, "rank 1 (device 1, 0000:02:00.0) cannot map the memory of rank 0 |(device 0, 0000:01:00.0): cuMemSetAccess" REMEDY},
	};
	static const struct expected one[] = {
		{MARROW_REMOTE_ERROR, "rank 1 |could not map its peers' memory|CUDA|see its message"},
		{MARROW_CUDA_ERROR, "rank 1 (device 1, 0000:02:00.0) cannot map the memory of rank 2 |(device 2, 0000:03:00.0): cuMemSetAccess" REMEDY},
		{MARROW_REMOTE_ERROR, "rank 1 |could not map its peers' memory|CUDA|see its message"},
	};
	gpus.refused[0][1] = gpus.refused[1][0] = true;
	in_both_ways("two without access", 2, both);
	gpus.refused[0][1] = gpus.refused[1][0] = false;
	gpus.refused[1][2] = true;
	in_both_ways("one without access to another", 3, one);
	gpus.refused[1][2] = false;
}

/* Another failure of the same call is not laid to peer access; nor is one on the device's own memory. */
static void other_failures(void)
{
	static const char out[] = "cuMemSetAccess: out of memory", invalid[] = "cuMemSetAccess: invalid value";
	static const struct expected full[] = {{MARROW_OUT_OF_MEMORY, out}, {MARROW_OUT_OF_MEMORY, out}};
	static const struct expected own[] = {{MARROW_CUDA_ERROR, invalid}, {MARROW_CUDA_ERROR, invalid}};
	gpus.fail_access = CUDA_ERROR_OUT_OF_MEMORY;
	in_both_ways("no memory for a mapping", 2, full);
	gpus.fail_access = CUDA_ERROR_INVALID_VALUE;
	in_both_ways("own memory cannot be mapped", 2, own);
	gpus.fail_access = CUDA_SUCCESS;
}

/* Users' memory is open to the devices that reach it, and made all the same where none does. */
static void users_memory(void)
{
	for (uint32_t apart = 0; apart < 2; apart++) {
		struct mrw_arena buffer;
		int32_t device = -1;
		gpus.refused[2][1] = true;
		gpus.refused[0][1] = apart;
		current_device = 1;
		expect_status("a buffer", mrw_cuda_buffer_new(1000, &buffer, &device), MARROW_SUCCESS, NULL, "");
		expect_true("it is of the device that is current", device == 1 && current_device == 1);
		expect_true("it is open to its device and those that reach it", gpus.ranges[range_at(buffer.base)].open == (apart ? 2u : 3u));
		mrw_cuda_buffer_free(&buffer, device);
		expect_no_gpu_memory("a buffer");
	}
	gpus.refused[2][1] = gpus.refused[0][1] = false;
}

/* A process that has only one rank may have its launches block. */
static void blocking_launches(void)
{
	static const char words[] = "CUDA_LAUNCH_BLOCKING=1|rank 0 (|shares its process with rank 1:|unset it|a process for each rank";
	static const struct expected refused[] = {{MARROW_INVALID_USAGE, words}, {MARROW_INVALID_USAGE, words}, {MARROW_INVALID_USAGE, words}};
	target.target = MARROW_TARGET_CUDA; /* others do not care */
	setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
	as_processes("blocking launches, a rank a process", 2, all_well);
	uint32_t made = gpus.made;
	as_threads("blocking launches, two ranks a process", 2, refused);
	as_threads("blocking launches, three ranks a process", 3, refused);
	expect_true("ranks were refused before memory was made", gpus.made == made);
	setenv("CUDA_LAUNCH_BLOCKING", "0", 1);
	as_threads("launches do not block", 2, all_well);
	unsetenv("CUDA_LAUNCH_BLOCKING");
	target.target = MARROW_TARGET_HOST;
	setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
	as_threads("no launches that could block", 2, all_well);
	unsetenv("CUDA_LAUNCH_BLOCKING");
}

int main(void)
{
	static const struct {
		const char *name;
		void (*test)(void);
	} tests[] = {
		{"reach each other", reach_each_other}, {"no peer access", no_peer_access}, {"other failures", other_failures},
		{"blocking launches", blocking_launches}, {"users' memory", users_memory},
	};
	set_up();
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
		int already = failures();
		tests[i].test();
		printf("%s: %s\n", tests[i].name, failures() > already ? "FAILED" : "ok");
		fflush(stdout);
	}
	return failures() ? 1 : 0;
}
