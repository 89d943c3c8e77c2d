/* network_smoke.c - the way of a kernel to another host, piece by piece: what breaks is named by the first line that says FAIL.
 *
 * Run under `marrow-softnic run --hosts 2`; one GPU is enough, and seconds. Times are those of an emulated NIC. */
#include "cuda_helpers.h"
#include "network_kernel.h"
#include "support/device_memory.h"
#include "support/world.h"

#include "base/error.h"
#include "network_view.h"

#include <cuda_runtime_api.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { ARENA_BYTES = 1 << 20, FROM = 0, TO = 256 << 10, FLAG = 512 << 10, PEER = 1, PAGE = 4096 };
#define WAIT_NS 2000000000ull

static uint32_t failures;

static uint64_t now_us(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static bool verdict(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* One line: OK or FAIL, since the line before, what. */
static bool verdict(bool good, const char *format, ...)
{
	static uint64_t last;
	uint64_t now = now_us();
	va_list args;
	printf("%-4s %8.1f ms  ", good ? "OK" : "FAIL", last ? (double)(now - last) / 1000 : 0);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
	last = now;
	failures += !good;
	return good;
}

static bool is_good(enum marrow_status status, const char *what)
{
	return verdict(status == MARROW_SUCCESS, "%s%s%s", what, status == MARROW_SUCCESS ? "" : ": ", status == MARROW_SUCCESS ? "" : mrw_error_text());
}

static struct {
	struct mrw_device device;
	struct mrw_nic *nic;
	struct mrw_link *link[MRW_MAX_RANKS];
	struct mrw_queue queue[MRW_MAX_RANKS];
	struct mrw_far far;
	struct mrw_view view;
	struct mrw_arena arena;
	struct mrw_region region;
	bool dmabuf;
	struct mrw_arena rings;  /* no base: they are in the host's pages */
} s;

static int attribute(enum cudaDeviceAttr which)
{
	int value = -1;
	if (cudaDeviceGetAttribute(&value, which, 0) != cudaSuccess)
		(void)cudaGetLastError();
	return value;
}

static bool look_at_machine(void)
{
	char text[256];
	uint32_t nics = 0;
	int devices = device_count();
	for (int i = 0; i < devices; i++)
		if (device_describe(i, text, sizeof text) == 0)
			printf("     GPU %d: %s\n", i, text);
	printf("     GPUDirect RDMA %d, order of a NIC's writes %d (100 or more is needed with a real one)\n", attribute(cudaDevAttrGPUDirectRDMASupported),
	       attribute(cudaDevAttrGPUDirectRDMAWritesOrdering));
	if (!is_good(mrw_nic_count("", &nics), "libibverbs and libmlx5 are there"))
		return false;
	return verdict(nics >= 2, "%u mlx5 NICs (two are needed: marrow-softnic run --hosts 2 -- ...)", nics);
}

static bool open_all(void)
{
	struct mrw_nic_config config;
	mrw_nic_defaults(&config);
	config.collapsed = 0;
	if (!is_good(mrw_cuda_runtime.open(&s.device, 0, -1), "device 0, its kernels for one host, their stack"))
		return false;
	uint32_t blocks = s.device.info.blocks;
	if (!is_good(mrw_cuda_runtime.span(&s.device), "its kernels for several hosts, their stack"))
		return false;
	verdict(s.device.info.blocks > 0, "blocks at once: %u for one host, %u for several", blocks, s.device.info.blocks);
	if (!is_good(mrw_nic_open(&s.nic, "", 0, &config), "NIC 0 opened"))
		return false;
	return is_good(mrw_nic_self_test(s.nic), "its self test by the host");
}

/* A kernel's store to a page of the host. */
static bool try_page(void)
{
	uint32_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *device = NULL;
	if (page == MAP_FAILED)
		return verdict(false, "mmap");
	if (!is_good(mrw_cuda_runtime.pages_map(&s.device, page, PAGE, false, &device), "a page of the host mapped for kernels"))
		return false;
	bool good = gpu_mark(s.device.setup_stream, (uint32_t *)device + 5, 77) == 0 && gpu_stream_wait(s.device.setup_stream, 2000) == 0;
	verdict(good && __atomic_load_n(&page[5], __ATOMIC_ACQUIRE) == 77, "a kernel's store arrives there (%s)", good ? "it ran" : gpu_error());
	mrw_cuda_runtime.pages_unmap(&s.device, page);
	munmap(page, PAGE);
	return true;
}

static bool try_map(const char *what, void *base, uint64_t bytes, bool registers)
{
	char text[100];
	void *device;
	if (bytes == 0) {
		printf("     %s: nothing to map\n", what);
		return true;
	}
	enum marrow_status status = mrw_cuda_runtime.pages_map(&s.device, base, bytes, registers, &device);
	snprintf(text, sizeof text, "%s (%llu bytes at %p) mapped for kernels", what, (unsigned long long)bytes, base);
	if (status == MARROW_SUCCESS)
		mrw_cuda_runtime.pages_unmap(&s.device, base);
	return is_good(status, text);
}

static bool make_link(void)
{
	struct mrw_link_address self;
	struct mrw_link_memory m;
	struct mrw_nic_info info;
	if (!is_good(mrw_link_new(s.nic, PEER, &s.queue[PEER], &s.link[PEER]), "a queue pair"))
		return false;
	mrw_nic_get_info(s.nic, &info);
	verdict(mrw_link_is_placed(s.link[PEER]) == (s.rings.base != NULL), "it was made by %s, its rings are in %s memory",
		info.devx ? "device commands (DEVX)" : "verbs", mrw_link_is_placed(s.link[PEER]) ? "GPU" : "host");
	mrw_link_get_address(s.link[PEER], &self);
	if (!is_good(mrw_link_connect(s.link[PEER], &self), "connected to itself"))
		return false;
	mrw_link_get_memory(s.link[PEER], &m);
	bool good = try_map("send ring", m.sq.base, m.sq.bytes, false);
	good &= try_map("doorbell record", m.record.base, m.record.bytes, false);
	good &= try_map("completion ring", m.cq.base, m.cq.bytes, false);
	good &= try_map("consumer record", m.cq_record.base, m.cq_record.bytes, false);
	good &= try_map("doorbell page", m.doorbell.base, m.doorbell.bytes, true);
	return good;
}

/* Both ways; either is enough. */
static bool register_memory(void)
{
	int fd = -1;
	struct mrw_region by_address;
	if (!is_good(mrw_cuda_runtime.arena_new(&s.device, ARENA_BYTES, &s.arena), "an arena in GPU memory"))
		return false;
	enum marrow_status status = mrw_cuda_runtime.arena_dmabuf(&s.device, &s.arena, &fd);
	printf("     dma-buf of it: %s\n", status == MARROW_SUCCESS ? "exported" : mrw_error_text());
	if (status == MARROW_SUCCESS) {
		status = mrw_region_new(s.nic, s.arena.base, ARENA_BYTES, fd, &s.region);
		close(fd);
		s.dmabuf = is_good(status, "registered by dma-buf");
	}
	status = mrw_region_new(s.nic, s.arena.base, ARENA_BYTES, -1, &by_address);
	is_good(status, "registered by address (as with nvidia-peermem)");
	if (status == MARROW_SUCCESS) {
		if (s.dmabuf)
			mrw_region_free(s.nic, &by_address);
		else
			s.region = by_address;
	}
	return s.dmabuf || status == MARROW_SUCCESS;
}

static bool wait_done(struct mrw_queue *q, uint64_t index)
{
	uint64_t until = now_us() + WAIT_NS / 1000;
	while (mrw_link_pull(s.link[PEER]) == MARROW_SUCCESS && !mrw_poll_done(q, index))
		if (mrw_load_relaxed(&q->failed) != 0 || now_us() > until)
			return false;
	return mrw_poll_reached(q, index);
}

static void show_queue(const struct mrw_queue *q, const char *whose)
{
	const uint8_t *cqe = s.queue[PEER].cq;
	struct mrw_queue kernels;
	uint32_t record = 0;
	mrw_link_get_queue(s.link[PEER], &kernels);
	if (mrw_link_pull(s.link[PEER]) != MARROW_SUCCESS ||
	    mrw_cuda_runtime.poke(&s.device, &record, kernels.record, sizeof record) != MARROW_SUCCESS)
		printf("     not to be read: %s\n", mrw_error_text());
	printf("     %s queue: reserved %llu ready %llu rung %llu completed %llu consumed %llu failed 0x%llx; record %u; entry 0: op_own 0x%02x counter "
	       "%u syndrome 0x%02x\n", whose, (unsigned long long)q->reserved, (unsigned long long)q->ready, (unsigned long long)q->rung,
	       (unsigned long long)q->completed, (unsigned long long)q->consumed, (unsigned long long)q->failed,
	       mrw_be32(record), cqe[63], (uint32_t)cqe[60] << 8 | cqe[61], cqe[55]);
}

/* The host posts, the NIC reads and writes GPU memory. */
static bool host_posts(void)
{
	static uint64_t out[8192], in[8192];
	static const uint32_t sizes[] = {8, 64, 4096, 5000, 65536};
	struct mrw_queue *q = &s.queue[PEER];
	for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		uint64_t first, flag = 0, round = i + 1;
		for (uint32_t w = 0; w < 8192; w++)
			out[w] = round << 40 | w;
		if (mrw_cuda_runtime.poke(&s.device, s.arena.base + FROM, out, sizeof out) != MARROW_SUCCESS)
			return is_good(MARROW_CUDA_ERROR, "copying to the arena");
		if (!mrw_post_reserve(q, 2, &first))
			return verdict(false, "no room in the queue");
		mrw_wqe_write(mrw_post_slot(q, first), first, q->qpn, false, s.region.address + TO, s.region.rkey, s.region.address + FROM,
			      s.region.lkey, sizes[i]);
		mrw_wqe_write_word(mrw_post_slot(q, first + 1), first + 1, q->qpn, true, s.region.address + FLAG, s.region.rkey, round);
		mrw_post_ready(q, first, 2);
		if (mrw_link_push(s.link[PEER]) != MARROW_SUCCESS)
			return is_good(MARROW_CUDA_ERROR, "handing requests on");
		bool done = wait_done(q, first + 1);
		if (mrw_cuda_runtime.poke(&s.device, in, s.arena.base + TO, sizes[i]) != MARROW_SUCCESS ||
		    mrw_cuda_runtime.poke(&s.device, &flag, s.arena.base + FLAG, 8) != MARROW_SUCCESS)
			return is_good(MARROW_CUDA_ERROR, "copying from the arena");
		bool right = memcmp(in, out, sizes[i]) == 0;
		if (!verdict(done && right && flag == round, "the NIC copies %u bytes within GPU memory: completion %s, data %s, flag %llu (%llu)", sizes[i],
			     done ? "seen" : "missing", right ? "right" : "wrong", (unsigned long long)flag, (unsigned long long)round)) {
			show_queue(q, "host's");
			return false;
		}
	}
	return true;
}

static const char *const steps[] = {"did not run", "ran, and posted nothing", "posted; the flag did not come", "saw the flag before its data",
				    "saw flag and data, but no completion", "did all"};

static bool kernel_posts(const char *what, uint32_t bytes, uint32_t rounds)
{
	static struct network_report *report;
	struct mrw_queue seen;
	if (!report && device_alloc_pinned((void **)&report, PAGE) != 0)
		return verdict(false, "pinned memory: %s", device_error());
	memset(report, 0, sizeof *report);
	struct network_job job = {s.view.far, (uint64_t *)(void *)s.arena.base, PEER, bytes, rounds, FROM, TO, FLAG, WAIT_NS, report};
	bool ran = mrw_cuda_runtime.poke(&s.device, s.arena.base + FLAG, "\0\0\0\0\0\0\0", 8) == MARROW_SUCCESS &&
		   network_kernel(s.device.setup_stream, &job) == 0 && gpu_stream_wait(s.device.setup_stream, 15000) == 0;
	bool good = ran && report->rounds == rounds;
	verdict(good, "%s: kernel %s; %llu of %u rounds of %u bytes, %.1f us each (emulated)%s%s", what, steps[report->step <= NETWORK_COMPLETE ? report->step : 0],
		(unsigned long long)report->rounds, rounds, bytes, report->rounds ? (double)report->ns / 1000 / (double)report->rounds : 0,
		ran ? "" : "; ", ran ? "" : gpu_error());
	if (!good) {
		printf("     wrong word %llu, failed 0x%llx (%s)\n", (unsigned long long)report->wrong, (unsigned long long)report->failed,
		       report->failed ? mrw_syndrome_text(mrw_fault_syndrome(report->failed)) : "no error completion");
		seen = s.queue[PEER];
		if (mrw_view_fetch(&s.view, PEER, &seen) == MARROW_SUCCESS)
			show_queue(&seen, "kernel's");
	}
	return good;
}

static bool try_kernels(void)
{
	s.far.arena = s.region.address;
	s.far.lkey[0] = s.region.lkey;
	s.far.nics = 1;
	s.far.peer[PEER] = (struct mrw_far_peer){.queue = {&s.queue[PEER]}, .arena = s.region.address, .rkey = {s.region.rkey}, .path = MRW_PATH_FAR};
	if (!is_good(mrw_view_new(&s.view, &s.device, &s.far, s.queue, s.link, PEER + 1, NULL), "far and queues in GPU memory, pages mapped"))
		return false;
	if (!kernel_posts("a kernel posts", 64, 1) || !kernel_posts("a kernel posts", 4096, 20))
		return false;
	/* Past the ring's end. */
	return kernel_posts("a kernel posts", 8, 2000);
}

static enum marrow_status copy_rings(void *device, void *to, const void *from, uint64_t bytes)
{
	return mrw_cuda_runtime.poke(device, to, from, bytes);
}

/* Either way is enough, and with neither rings stay in the host's memory. */
static bool move_rings(void)
{
	struct mrw_queue_memory m = {.bytes = mrw_nic_queue_bytes(s.nic), .dmabuf_fd = -1, .copy = copy_rings, .arg = &s.device};
	is_good(mrw_view_fetch(&s.view, PEER, &s.queue[PEER]), "the kernel's counters read back");
	mrw_view_free(&s.view);
	mrw_link_free(s.link[PEER]);
	s.link[PEER] = NULL;
	printf("     --- the same with rings in GPU memory\n");
	if (!is_good(mrw_cuda_runtime.arena_new(&s.device, m.bytes, &s.rings), "memory for rings"))
		return false;
	m.base = s.rings.base;
	enum marrow_status status = mrw_cuda_runtime.arena_dmabuf(&s.device, &s.rings, &m.dmabuf_fd);
	mrw_error_quiet(true);
	if (status == MARROW_SUCCESS) {
		status = mrw_nic_place_queues(s.nic, &m);
		close(m.dmabuf_fd);
		m.dmabuf_fd = -1;
	}
	mrw_error_quiet(false);
	printf("     rings by dma-buf: %s\n", status == MARROW_SUCCESS ? "registered" : mrw_error_text());
	if (status != MARROW_SUCCESS && !is_good(mrw_nic_place_queues(s.nic, &m), "rings registered by address (as with nvidia-peermem)"))
		return false;
	return is_good(mrw_nic_self_test(s.nic), "its self test by the host, by copies to and from there");
}

static void close_all(void)
{
	if (s.view.device)
		is_good(mrw_view_fetch(&s.view, PEER, &s.queue[PEER]), "the kernel's counters read back");
	mrw_view_free(&s.view);
	mrw_link_free(s.link[PEER]);
	if (s.nic)
		mrw_region_free(s.nic, &s.region);
	mrw_nic_close(s.nic);
	if (s.device.runtime) {
		mrw_cuda_runtime.arena_free(&s.device, &s.arena);
		mrw_cuda_runtime.arena_free(&s.device, &s.rings);
		mrw_cuda_runtime.close(&s.device);
	}
	verdict(true, "all is closed");
}

/* ---- communicators: ranks as threads, the whole library */

static void collectives(struct world_rank *self)
{
	static const size_t counts[] = {1, 2, 1000, 20000, 300000};
	float *send = NULL, *recv = NULL, *host = calloc(300000, sizeof *host);
	if (!host || device_alloc((void **)&send, 300000 * sizeof *send) != 0 || device_alloc((void **)&recv, 300000 * sizeof *recv) != 0) {
		world_fail(self, "memory: %s", device_error());
		goto done;
	}
	for (uint32_t i = 0; i < sizeof counts / sizeof counts[0] && !self->failed; i++) {
		for (size_t j = 0; j < counts[i]; j++)
			host[j] = (float)(self->rank + 1) * (float)(j % 1000);
		if (device_copy(send, host, counts[i] * sizeof *host) != 0 ||
		    marrow_all_reduce(send, recv, counts[i], MARROW_FLOAT32, MARROW_SUM, self->comms[0], self->streams[0]) != MARROW_SUCCESS)
			world_fail(self, "all_reduce of %zu: %s%s", counts[i], marrow_last_error(NULL), device_error());
		else if (gpu_stream_wait(self->streams[0], 20000) != 0)
			world_fail(self, "all_reduce of %zu does not end: %s; the communicator says: %s", counts[i], gpu_error(), marrow_last_error(self->comms[0]));
		else if (device_copy(host, recv, counts[i] * sizeof *host) != 0)
			world_fail(self, "copy: %s", device_error());
		float ranks = (float)(self->nranks * (self->nranks + 1) / 2);
		for (size_t j = 0; j < counts[i] && !self->failed; j++)
			if (host[j] != ranks * (float)(j % 1000))
				world_fail(self, "all_reduce of %zu: element %zu is %g, not %g", counts[i], j, (double)host[j], (double)ranks * (double)(j % 1000));
		enum marrow_status status = MARROW_SUCCESS;
		(void)marrow_comm_async_error(self->comms[0], &status);
		if (status != MARROW_SUCCESS)
			world_fail(self, "the communicator has failed: %s", marrow_last_error(self->comms[0]));
		else if (!self->failed && self->rank == 0)
			verdict(true, "all_reduce of %zu floats over %u ranks on two hosts, bits compared", counts[i], self->nranks);
	}
done:
	if (send)
		device_free(send);
	if (recv)
		device_free(recv);
	free(host);
}

int main(void)
{
	if (device_count() == 0) {
		printf("skipped: no CUDA device\n");
		return 77;
	}
	if (device_set(0) != 0 || gpu_load_kernels() != 0) {
		printf("FAIL the test's own kernels: %s%s\n", device_error(), gpu_error());
		return 1;
	}
	if (!look_at_machine())
		return 1;
	bool way = open_all() && try_page() && make_link() && register_memory() && host_posts() && try_kernels();
	way = way && move_rings() && make_link() && host_posts() && try_kernels();
	close_all();
	if (way) {
		struct world w = {.target = MARROW_TARGET_CUDA, .nranks = 2, .ncomms = 1, .timeout_ms = 8000};
		setenv("MARROW_TEST_HOSTS", "2", 1);
		for (int i = 0; i < 2; i++) {
			setenv("MARROW_RINGS", i ? "gpu" : "host", 1);
			verdict(world_run(&w, collectives) == 0, "two ranks as threads, a host each, rings in %s memory", i ? "GPU" : "host");
		}
		setenv("MARROW_RINGS", "host", 1);
		w.nranks = 4;
		verdict(world_run(&w, collectives) == 0, "four ranks as threads on two hosts");
	}
	printf("%s: %u failed\n", failures ? "FAIL" : "OK", failures);
	return failures ? 1 : 0;
}
