/* stand_in.c - what a target with memory of its own asks of the network, on a machine without a GPU: the host target with the CUDA target's
 * steps put in. Queues lie in a second memory and are read back, their rings in a third, pages are mapped, memory is exported; each of these can fail.
 *
 * stand_in [--cuda LIBRARY] [CASE]: two ranks as threads, a host each; below marrow-softnic run --hosts 2. With MARROW_TEST_NICS=2 (and
 * --nics 2) the case that is about two NICs. LIBRARY: softnic/test/fake_cuda.h's, for the cases whose memory is nowhere. Doorbells are looked at late:
 * what a rank leaves behind is still on its way when it goes. */
#include "support/hosts.h"

#include "comm.h"
#include "network_view.h"
#include "device/far.h"
#include "device/order.h"
#include "proxyless/nic.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RANKS = 2, COUNT = 30000, MAPS_A_RANK = 5, PARTINGS = 3, CALLS = 16, TIMEOUT_MS = 10000, ASTRAY = 65536, ARENA = 1, RINGS = 2 };
#define FAR_AWAY 0x800000000000ull /* pages are moved there for kernels in the case that looks at addresses: no host address is */

/* softnic/test/fake_cuda.h's: memory that no CPU can touch. */
typedef uint64_t fake_cuda_alloc(size_t bytes, int device);

static struct {
	/* what goes wrong */
	int no_dmabuf, nowhere, far_away;
	int astray;                     /* rank 0's writes end elsewhere in the other arena */
	int rings_nowhere, no_rings, deaf_rings; /* no CPU can touch them, there are none, records do not get there */
	int large_rings;         /* they take more than there is for them */
	void (*leave)(struct marrow_comm *comm, uint32_t rank); /* what ranks do before they destroy */
	uint64_t took_ms[2];            /* to finalize, by rank */
	uint32_t fail_map;              /* number of the map that fails, from 1 */
	/* what happened; atomic */
	uint32_t spans, exports, maps, unmaps, images, arenas, rings, ring_copies;
	uint32_t wrong;
	uint32_t root;
	fake_cuda_alloc *alloc;
} t;

static uint32_t add(uint32_t *counter, uint32_t n)
{
	return __atomic_add_fetch(counter, n, __ATOMIC_SEQ_CST);
}

static void fail(const char *text)
{
	fprintf(stderr, "rank 0 of %d: %s\n", RANKS, text);
	add(&t.wrong, 1);
}

#define EXPECT(condition) \
	do { \
		if (!(condition)) \
			fail("not so: " #condition); \
	} while (0)

static struct mrw_runtime stand_in;
static _Thread_local uint32_t made;                     /* arenas of this rank: its own, that of the rings, that of the counters */
static _Thread_local uint32_t copies;                   /* of this rank's rings and counters */
static _Thread_local bool blind;                        /* this rank's kernels have seen no completion, and its host sees none */
static _Thread_local const uint8_t *rings_begin, *rings_end;

static enum marrow_status open_device(struct mrw_device *d, int32_t ordinal, int32_t local_rank)
{
	MRW_TRY(mrw_host_runtime.open(d, ordinal, local_rank));
	d->runtime = &stand_in;
	return MARROW_SUCCESS;
}

static enum marrow_status span(struct mrw_device *d)
{
	EXPECT(!d->spans);
	d->spans = true;
	d->info.blocks = 2 + add(&t.spans, 1);
	return MARROW_SUCCESS;
}

static enum marrow_status arena_new(struct mrw_device *d, uint64_t bytes, struct mrw_arena *arena)
{
	bool rings = ++made == RINGS && strcmp(getenv("MARROW_RINGS"), "host") != 0;
	EXPECT(d->spans);
	if (rings && t.no_rings)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "this stand-in has no memory for rings");
	add(&t.arenas, 1);
	if (!(made == ARENA && t.nowhere) && !(rings && t.rings_nowhere)) {
		MRW_TRY(mrw_host_runtime.arena_new(d, bytes, arena));
		if (rings) {
			rings_begin = arena->base;
			rings_end = arena->base + bytes;
			arena->bytes += t.large_rings ? MRW_DEVICE_MOST : 0;
		}
		add(&t.rings, rings);
		return MARROW_SUCCESS;
	}
	memset(arena, 0, sizeof *arena);
	arena->bytes = arena->mapped = bytes;
	arena->base = (uint8_t *)(uintptr_t)t.alloc(bytes, 0);
	arena->fd = -1;
	return MARROW_SUCCESS;
}

static void arena_free(struct mrw_device *d, struct mrw_arena *arena)
{
	if (arena->base)
		add(&t.arenas, ~0u);
	if (arena->base && arena->base == rings_begin)
		rings_begin = rings_end = NULL;
	if (arena->handle)
		mrw_host_runtime.arena_free(d, arena);
	arena->base = NULL;
}

static enum marrow_status arena_dmabuf(struct mrw_device *d, const struct mrw_arena *arena, int *fd)
{
	(void)d;
	(void)arena;
	*fd = -1;
	if (t.no_dmabuf)
		return mrw_fail(MARROW_UNSUPPORTED, "this stand-in has no dma-bufs");
	*fd = memfd_create("dma-buf", MFD_CLOEXEC);
	add(&t.exports, 1);
	return *fd >= 0 ? MARROW_SUCCESS : mrw_fail_errno(MARROW_SYSTEM_ERROR, "memfd_create");
}

static enum marrow_status pages_map(struct mrw_device *d, void *pages, uint64_t bytes, bool registers, void **device)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint32_t number = add(&t.maps, 1);
	(void)d;
	EXPECT((uint64_t)(uintptr_t)pages % page == 0 && bytes % page == 0 && bytes > 0);
	/* The last one of a rank is the doorbell. */
	EXPECT(!registers || bytes == page);
	if (number == t.fail_map) {
		add(&t.maps, ~0u);
		return mrw_fail(MARROW_CUDA_ERROR, "this stand-in does not map page range %u", number);
	}
	*device = (uint8_t *)pages + (t.far_away ? FAR_AWAY : 0);
	return MARROW_SUCCESS;
}

static void pages_unmap(struct mrw_device *d, void *pages)
{
	(void)d;
	(void)pages;
	add(&t.unmaps, 1);
}

static bool in_rings(const void *p)
{
	return (const uint8_t *)p >= rings_begin && (const uint8_t *)p < rings_end;
}

/* The image of far and queues, as kernels would find it. */
static void check_image(const uint8_t *image, const void *base)
{
	const struct mrw_far *far = (const struct mrw_far *)(const void *)image;
	const struct mrw_queue *queues = (const struct mrw_queue *)(const void *)(image + (sizeof *far + 63) / 64 * 64);
	uint32_t peers = 0;
	uint32_t seen = 0;
	for (uint32_t r = 0; r < RANKS; r++) {
		if (!far->peer[r].queue[0])
			continue;
		const struct mrw_queue *q = (const struct mrw_queue *)(const void *)(image + ((const uint8_t *)far->peer[r].queue[0] - (const uint8_t *)base));
		uint64_t number = (uint64_t)(q - queues);
		EXPECT(number < RANKS - 1 && &queues[number] == q && !(seen >> number & 1));
		if (number >= RANKS - 1)
			return;
		peers++;
		seen |= 1u << number;
		EXPECT(!far->peer[r].queue[1] && far->nics == 1 && far->peer[r].path == MRW_PATH_FAR);
		if (rings_begin)
			EXPECT(in_rings(q->sq) && in_rings(q->record) && in_rings(q->cq) && in_rings(q->cq_record));
		else
			EXPECT((uint64_t)(uintptr_t)q->sq > FAR_AWAY && (uint64_t)(uintptr_t)q->record > FAR_AWAY &&
			       (uint64_t)(uintptr_t)q->cq > FAR_AWAY && (uint64_t)(uintptr_t)q->cq_record > FAR_AWAY);
		EXPECT((uint64_t)(uintptr_t)q->sq % 4096 == 0 && (uint64_t)(uintptr_t)q->record % 8 == 4);
		EXPECT((uint64_t)(uintptr_t)q->doorbell > FAR_AWAY && (uint64_t)(uintptr_t)q->doorbell % 4096 >= 0x800);
		EXPECT(q->slots >= 16 && q->cq_slots >= q->slots && q->peer == r && q->reserved == 0);
		EXPECT(far->lkey[0] != 0 && far->peer[r].rkey[0] != 0 && far->peer[r].arena != 0 && far->arena != 0);
	}
	EXPECT(peers == RANKS - 1);
	add(&t.images, 1);
}

/* Word by word, as the NIC's own accesses are, which may come meanwhile. */
static void copy_words(uint64_t *to, const uint64_t *from, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes / 8; i++)
		__atomic_store_n(&to[i], __atomic_load_n(&from[i], __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
}

static enum marrow_status poke(struct mrw_device *d, void *dst, const void *src, uint64_t bytes)
{
	if (t.far_away && bytes == mrw_view_bytes(RANKS - 1)) {
		check_image(src, dst);
		return mrw_fail(MARROW_CUDA_ERROR, "this stand-in keeps kernels from pages that are nowhere");
	}
	if (in_rings(dst) || in_rings(src)) {
		EXPECT(bytes % 8 == 0);
		add(&t.ring_copies, 1);
		copies++;
		bool counters = bytes == sizeof(struct mrw_queue) && in_rings(src);
		/* Eight bytes are a record. */
		if ((!t.deaf_rings || bytes != 8) && (!blind || counters))
			copy_words(dst, src, bytes);
		if (blind && counters)
			((struct mrw_queue *)dst)->completed = ((struct mrw_queue *)dst)->consumed = 0;
		return MARROW_SUCCESS;
	}
	return mrw_host_runtime.poke(d, dst, src, bytes);
}

static enum marrow_status launch(struct mrw_device *d, enum mrw_kernel kernel, enum marrow_type type, const struct mrw_args *args,
				 uint32_t threads, void *stream)
{
	struct mrw_args wrong = *args;
	struct mrw_far far = *args->far;
	if (!t.astray || args->rank != 0)
		return mrw_host_runtime.launch(d, kernel, type, args, threads, stream);
	far.peer[1].arena += ASTRAY;
	wrong.far = &far;
	return mrw_host_runtime.launch(d, kernel, type, &wrong, threads, stream);
}

/* ---- ranks */

static struct marrow_unique_id id;
static pthread_barrier_t parting;

struct rank {
	uint32_t rank;
	enum marrow_status status;      /* of init */
	char text[MRW_ERROR_TEXT_BYTES];
	pthread_t thread;
};

/* The root goes as soon as its own part is done: what it sent must still arrive. */
static void work(struct marrow_comm *comm, uint32_t rank)
{
	float *memory = calloc(COUNT, sizeof *memory);
	if (!memory)
		abort();
	for (uint32_t i = 0; i < CALLS; i++) {
		size_t count = i % 4 == 3 ? COUNT : i + 1;
		for (size_t j = 0; j < count; j++)
			memory[j] = (float)(rank + 1);
		EXPECT(marrow_all_reduce(memory, memory, count, MARROW_FLOAT32, MARROW_SUM, comm, NULL) == MARROW_SUCCESS);
		EXPECT(memory[0] == 3 && memory[count - 1] == 3);
	}
	memory[5] = rank == t.root ? 42 : 0;
	EXPECT(marrow_broadcast(memory, memory, 10, MARROW_FLOAT32, t.root, comm, NULL) == MARROW_SUCCESS);
	EXPECT(memory[5] == 42);
	free(memory);
}

static uint64_t ms_since(uint64_t begin)
{
	return (mrw_clock_ns() - begin) / 1000000;
}

static void finalize(struct marrow_comm *comm, uint32_t rank)
{
	uint64_t begin = mrw_clock_ns();
	EXPECT(marrow_comm_finalize(comm) == MARROW_SUCCESS);
	t.took_ms[rank] = ms_since(begin);
	blind = false;
}

/* What rank 0 has sent stays under way, as far as it sees. */
static void finalize_in_vain(struct marrow_comm *comm, uint32_t rank)
{
	blind = rank == 0;
	finalize(comm, rank);
}

/* The same of both, the one that aborted and the one that learns of it, who goes when the other one is done. */
static void abort_and_finalize(struct marrow_comm *comm, uint32_t rank)
{
	enum marrow_status error = MARROW_SUCCESS;
	uint64_t begin = mrw_clock_ns();
	if (rank == 0)
		EXPECT(marrow_comm_abort(comm) == MARROW_SUCCESS);
	while (rank == 1 && error == MARROW_SUCCESS && ms_since(begin) < TIMEOUT_MS)
		EXPECT(marrow_comm_async_error(comm, &error) == MARROW_SUCCESS);
	EXPECT(rank == 0 || error == MARROW_REMOTE_ERROR);
	if (rank == 1)
		pthread_barrier_wait(&parting);
	blind = true;
	finalize(comm, rank);
	if (rank == 0)
		pthread_barrier_wait(&parting);
}

static void *be_rank(void *p)
{
	made = 0;
	rings_begin = rings_end = NULL;
	struct rank *self = p;
	struct marrow_config config = MARROW_CONFIG_INIT;
	struct marrow_comm *comm = NULL;
	struct hosts_place place;
	config.target = MARROW_TARGET_HOST;
	config.timeout_ms = t.astray ? TIMEOUT_MS / 5 : TIMEOUT_MS;
	hosts_place(&place, self->rank, RANKS, &config);
	self->status = marrow_comm_init(&comm, RANKS, &id, self->rank, &config);
	snprintf(self->text, sizeof self->text, "%s", self->status == MARROW_SUCCESS ? "" : marrow_last_error(NULL));
	if (self->status != MARROW_SUCCESS)
		return NULL;
	work(comm, self->rank);
	if (t.leave)
		t.leave(comm, self->rank);
	/* Who does not know what its kernels posted waits for that in vain. */
	uint64_t begin = mrw_clock_ns();
	uint32_t before = copies;
	EXPECT(marrow_comm_destroy(comm) == MARROW_SUCCESS);
	EXPECT(t.leave != finalize || copies == before + 1); /* the counters: all has been sent by then */
	EXPECT(mrw_clock_ns() - begin < 3000000000ull);
	return NULL;
}

static void run(struct rank ranks[RANKS])
{
	EXPECT(marrow_get_unique_id(&id) == MARROW_SUCCESS);
	memset(ranks, 0, sizeof *ranks * RANKS);
	for (uint32_t r = 0; r < RANKS; r++) {
		ranks[r].rank = r;
		if (pthread_create(&ranks[r].thread, NULL, be_rank, &ranks[r]) != 0)
			abort();
	}
	for (uint32_t r = 0; r < RANKS; r++)
		pthread_join(ranks[r].thread, NULL);
	/* Everything that was made is gone again. */
	EXPECT(t.maps == t.unmaps);
	EXPECT(t.arenas == 0);
}

/* What was logged meanwhile. */
static void run_and_listen(struct rank *ranks, char *text, size_t bytes)
{
	int heard = memfd_create("stderr", MFD_CLOEXEC), before = dup(STDERR_FILENO);
	if (heard < 0 || before < 0 || dup2(heard, STDERR_FILENO) < 0)
		abort();
	run(ranks);
	dup2(before, STDERR_FILENO);
	close(before);
	ssize_t n = pread(heard, text, bytes - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	close(heard);
	fputs(text, stderr);
}

/* All ranks fail, one of them in these words. */
static void expect_failure(const struct rank ranks[RANKS], const char *words)
{
	bool said = false;
	for (uint32_t r = 0; r < RANKS; r++) {
		EXPECT(ranks[r].status != MARROW_SUCCESS);
		said = said || strstr(ranks[r].text, words);
	}
	if (!said) {
		fprintf(stderr, "rank 0: %s\nrank 1: %s\n", ranks[0].text, ranks[1].text);
		fail(words);
	}
}

static void expect_success(const struct rank ranks[RANKS])
{
	for (uint32_t r = 0; r < RANKS; r++)
		if (ranks[r].status != MARROW_SUCCESS)
			fail(ranks[r].text);
}

static void by_dmabuf(struct rank *ranks)
{
	setenv("MARROW_RINGS", "gpu", 1);
	for (uint32_t i = 0; i < PARTINGS; i++) {
		t.root = i % RANKS;
		t.leave = i == PARTINGS - 1 ? finalize : NULL;
		run(ranks);
		expect_success(ranks);
	}
	/* The arena and the rings, with the image behind them, are exported; only doorbells are mapped. */
	EXPECT(t.exports == 2 * PARTINGS * RANKS && t.spans == PARTINGS * RANKS && t.maps == PARTINGS * RANKS && t.rings == PARTINGS * RANKS);
	EXPECT(t.ring_copies > 0);
}

/* Nobody asks for it, and nobody waits long for a NIC that does not answer: at least once in five, on a busy machine. */
static void rings_by_themselves(struct rank *ranks)
{
	for (int i = 0; i < 5 && t.maps != RANKS; i++) {
		t.maps = t.unmaps = 0;
		run(ranks);
		expect_success(ranks);
	}
	EXPECT(t.maps == RANKS && t.ring_copies > 0);
}

/* Each in its part of the rings. */
static void two_nics(struct rank *ranks)
{
	setenv("MARROW_RINGS", "gpu", 1);
	run(ranks);
	expect_success(ranks);
	EXPECT(t.exports == 4 * RANKS && t.maps == 2 * RANKS && t.rings == RANKS);
}

/* Who is well waits for what peers may still need, says so when it does not go, and leaves all the same. */
static void left_behind(struct rank *ranks)
{
	char text[8192];
	setenv("MARROW_RINGS", "gpu", 1);
	t.leave = finalize_in_vain;
	run_and_listen(ranks, text, sizeof text);
	expect_success(ranks);
	EXPECT(t.took_ms[0] >= 5000 && strstr(text, " warn: rank 0's NIC mlx5_0 has not sent all to rank 1 in time ("));
	EXPECT(t.took_ms[1] < 5000);
}

/* After a failure that is a short time, and none for who knows already: at least once in five, on a busy machine. */
static void farewell(struct rank *ranks)
{
	uint64_t least[RANKS] = {UINT64_MAX, UINT64_MAX};
	setenv("MARROW_RINGS", "gpu", 1);
	t.leave = abort_and_finalize;
	for (int i = 0; i < 5 && (least[0] >= 500 || least[1] >= 200); i++) {
		run(ranks);
		expect_success(ranks);
		EXPECT(t.took_ms[0] >= 300);
		for (uint32_t r = 0; r < RANKS; r++)
			least[r] = t.took_ms[r] < least[r] ? t.took_ms[r] : least[r];
	}
	EXPECT(least[0] < 500 && least[1] < 200);
}

static void in_host_memory(struct rank *ranks)
{
	run(ranks);
	expect_success(ranks);
	EXPECT(t.maps == RANKS * MAPS_A_RANK && t.ring_copies == 0);
}

static void rings_of_the_host(struct rank *ranks)
{
	setenv("MARROW_RINGS", "host", 1);
	in_host_memory(ranks);
	EXPECT(t.rings == 0 && t.exports == RANKS);
}

/* As auto all goes well in the host's memory, as gpu nothing does, and words say why. */
static void auto_and_gpu(struct rank *ranks, const char *words)
{
	run(ranks);
	expect_success(ranks);
	EXPECT(t.maps == RANKS * MAPS_A_RANK);
	setenv("MARROW_RINGS", "gpu", 1);
	run(ranks);
	expect_failure(ranks, words);
}

static void no_rings(struct rank *ranks)
{
	t.no_rings = 1;
	auto_and_gpu(ranks, "this stand-in has no memory for rings");
	EXPECT(t.ring_copies == 0);
}

/* The model takes no umem by dma-buf. */
static void rings_refused(struct rank *ranks)
{
	t.rings_nowhere = 1;
	setenv("MARROW_SOFTNIC_REFUSE", "peermem", 1);
	auto_and_gpu(ranks, "NIC mlx5_");
	EXPECT(t.ring_copies == 0);
	for (uint32_t r = 0; r < RANKS; r++)
		if (strstr(ranks[r].text, "MARROW_RINGS=gpu, but rank"))
			EXPECT(strstr(ranks[r].text, "by dma-buf failed") && strstr(ranks[r].text, "; by address: ") &&
			       strstr(ranks[r].text, "by address failed") && strstr(ranks[r].text, "MARROW_RINGS=auto"));
}

/* Registered, but what is written there does not reach the NIC. Done without, that takes about a second and is nothing to warn of. */
static void rings_deaf(struct rank *ranks)
{
	char text[8192];
	uint64_t begin = mrw_clock_ns();
	t.deaf_rings = 1;
	run_and_listen(ranks, text, sizeof text);
	expect_success(ranks);
	EXPECT(mrw_clock_ns() - begin < 4000000000ull && !strstr(text, " warn: ") && !strstr(text, " error: "));
	EXPECT(t.maps == RANKS * MAPS_A_RANK && t.ring_copies > 0);
	setenv("MARROW_RINGS", "gpu", 1);
	run_and_listen(ranks, text, sizeof text);
	expect_failure(ranks, "the self test with rings in GPU memory saw neither data nor completion within 5000 ms");
	EXPECT(!strstr(text, " warn: "));
}

/* A communicator takes no more memory than all do, unless it is asked for. */
static void rings_too_large(struct rank *ranks)
{
	t.large_rings = 1;
	run(ranks);
	expect_success(ranks);
	EXPECT(t.maps == RANKS * MAPS_A_RANK);
	t.maps = t.unmaps = 0;
	setenv("MARROW_RINGS", "gpu", 1);
	run(ranks);
	expect_success(ranks);
	EXPECT(t.maps == RANKS);
}

static void no_dmabuf(struct rank *ranks)
{
	t.no_dmabuf = 1;
	run(ranks);
	expect_success(ranks);
	EXPECT(t.exports == 0);
}

static void nic_refuses_dmabuf(struct rank *ranks)
{
	setenv("MARROW_SOFTNIC_REFUSE", "dmabuf", 1);
	run(ranks);
	expect_success(ranks);
	EXPECT(t.exports == 2 * RANKS && t.rings == RANKS);
}

static void neither(struct rank *ranks)
{
	t.nowhere = 1;
	setenv("MARROW_SOFTNIC_REFUSE", "dmabuf,peermem", 1);
	run(ranks);
	expect_failure(ranks, "no dma-buf and no peermem. Load nvidia-peermem (modprobe nvidia-peermem), or use the open kernel module");
	EXPECT(ranks[0].status == MARROW_UNSUPPORTED && strstr(ranks[0].text, "by dma-buf failed") && strstr(ranks[0].text, "; peermem: "));
}

static void maps_fail(struct rank *ranks)
{
	for (uint32_t n = 1; n <= RANKS * (MAPS_A_RANK + 1); n++) {
		setenv("MARROW_RINGS", n <= RANKS ? "gpu" : "host", 1);
		t.maps = t.unmaps = 0;
		t.fail_map = n <= RANKS ? n : n - RANKS;
		run(ranks);
		expect_failure(ranks, "this stand-in does not map page range");
	}
}

static void addresses(struct rank *ranks)
{
	t.far_away = 1;
	for (int host = 0; host < 2; host++) {
		t.rings = t.images = 0;
		setenv("MARROW_RINGS", host ? "host" : "gpu", 1);
		run(ranks);
		expect_failure(ranks, "pages that are nowhere");
		EXPECT(t.images == RANKS && t.rings == (host ? 0 : RANKS));
	}
}

/* The proof of paths goes by NICs, too. */
static void astray(struct rank *ranks)
{
	t.astray = 1;
	run(ranks);
	EXPECT(ranks[1].status == MARROW_TIMEOUT && ranks[0].status == MARROW_REMOTE_ERROR);
	for (uint32_t r = 0; r < RANKS; r++)
		if (!strstr(ranks[r].text, "rank 1 waited") || !strstr(ranks[r].text, "for the path proof of rank 0") ||
		    !strstr(ranks[r].text, "look at their NICs"))
			fail(ranks[r].text);
}

static const struct {
	const char *name;
	void (*run)(struct rank *ranks);
} cases[] = {
	{"by_dmabuf", by_dmabuf}, {"rings_by_themselves", rings_by_themselves}, {"no_dmabuf", no_dmabuf},
	{"nic_refuses_dmabuf", nic_refuses_dmabuf}, {"neither", neither},
	{"rings_of_the_host", rings_of_the_host}, {"no_rings", no_rings}, {"rings_refused", rings_refused}, {"rings_deaf", rings_deaf},
	{"rings_too_large", rings_too_large}, {"two_nics", two_nics}, {"maps_fail", maps_fail},
	{"addresses", addresses}, {"left_behind", left_behind}, {"farewell", farewell}, {"astray", astray},
};

static bool load(const char *path)
{
	void *library = dlopen(path, RTLD_NOW), *alloc = library ? dlsym(library, "fake_alloc") : NULL;
	memcpy(&t.alloc, &alloc, sizeof alloc);
	return alloc != NULL;
}

static void set_up(void)
{
	stand_in = mrw_host_runtime;
	stand_in.open = open_device;
	stand_in.span = span;
	stand_in.arena_new = arena_new;
	stand_in.arena_free = arena_free;
	stand_in.arena_dmabuf = arena_dmabuf;
	stand_in.pages_map = pages_map;
	stand_in.pages_unmap = pages_unmap;
	stand_in.poke = poke;
	stand_in.launch = launch;
	mrw_comm_runtime = &stand_in;
	setenv("MARROW_SOFTNIC_FAULTS", "late=500", 0); /* read when the first NIC is opened */
}

int main(int argc, char **argv)
{
	const char *library = NULL, *only = NULL, *nics = getenv("MARROW_TEST_NICS");
	struct rank ranks[RANKS];
	uint32_t wrong = 0;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--cuda") == 0 && i + 1 < argc)
			library = argv[++i];
		else
			only = argv[i];
	}
	if (hosts_count(RANKS) != RANKS) {
		printf("skipped: wants MARROW_TEST_HOSTS=2 under marrow-softnic\n");
		return 77;
	}
	pthread_barrier_init(&parting, NULL, RANKS);
	set_up();
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		if ((only && strcmp(only, cases[i].name) != 0) || ((cases[i].run == neither || cases[i].run == rings_refused) && !library))
			continue;
		if ((cases[i].run == two_nics) != (nics && strcmp(nics, "2") == 0))
			continue;
		memset(&t, 0, sizeof t);
		unsetenv("MARROW_SOFTNIC_REFUSE");
		setenv("MARROW_RINGS", "auto", 1);
		if (library && !load(library)) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		cases[i].run(ranks);
		printf("%s: %s\n", cases[i].name, t.wrong ? "FAILED" : "ok");
		fflush(stdout);
		wrong += t.wrong;
	}
	return wrong ? 1 : 0;
}
