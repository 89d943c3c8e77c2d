/* Memory of a GPU under the model, with a CUDA driver that is none (fake_cuda.h; its path is the argument): regions by address and by
 * dma-buf, writes between device and host memory either way, reads, atomics, edges; rings in device memory. Data come before flags. */
#include "fake_cuda.h"
#include "rig.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 1 << 20, FLAG = BYTES - 64 };

struct place {
	struct rig_port port;
	struct ibv_mr *mr;
	uint64_t address;      /* for WQEs */
	uint8_t *at;           /* where this program sees it */
};

static fake_cuda_alloc *alloc;
static fake_cuda_at *at;
static fake_cuda_count *count;

static void load(const char *path)
{
	void *library = dlopen(path, RTLD_NOW), *found[3];
	static const char *const names[] = {"fake_alloc", "fake_at", "fake_count"};

	RIG_CHECK(library);
	for (int i = 0; i < 3; i++) {
		found[i] = dlsym(library, names[i]);
		RIG_CHECK(found[i]);
	}
	memcpy(&alloc, &found[0], sizeof(alloc));
	memcpy(&at, &found[1], sizeof(at));
	memcpy(&count, &found[2], sizeof(count));
}

static void *pointer(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

static void open_place(struct place *p, uint32_t device, int gpu, int dmabuf)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	rig_open(&p->port, device);
	if (gpu >= 0) {
		p->address = alloc(BYTES, gpu);
		p->at = at(p->address);
	} else {
		p->at = calloc(1, BYTES);
		p->address = (uintptr_t)p->at;
	}
	RIG_CHECK(p->at);
	p->mr = dmabuf >= 0 ? ibv_reg_dmabuf_mr(p->port.pd, 0, BYTES, p->address, dmabuf, access) :
			      ibv_reg_mr(p->port.pd, pointer(p->address), BYTES, (unsigned)access);
	RIG_CHECK(p->mr);
}

static void close_place(struct place *p, bool gpu)
{
	ibv_dereg_mr(p->mr);
	if (!gpu)
		free(p->at);
	rig_close(&p->port);
}

static uint64_t seen(const uint8_t *word)
{
	return __atomic_load_n((const uint64_t *)(const void *)word, __ATOMIC_ACQUIRE);
}

static void traffic(struct rig_queue *q, struct place *a, struct place *b)
{
	static const uint32_t sizes[] = {1, 7, 8, 64, 4095, 4096, 4097, 70000, 300001};
	uint64_t old = 0;

	for (uint64_t round = 1; round <= sizeof(sizes) / sizeof(sizes[0]); round++) {
		uint32_t bytes = sizes[round - 1], from = (uint32_t)round * 3, to = (uint32_t)round * 5;

		for (uint32_t i = 0; i < bytes; i++)
			a->at[from + i] = (uint8_t)(i * 7 + round);
		b->at[to - 1] = b->at[to + bytes] = 0xee;
		rig_write(q, pointer(b->address + to), b->mr->rkey, pointer(a->address + from), a->mr->lkey, bytes, false);
		rig_write_inline(q, pointer(b->address + FLAG), b->mr->rkey, &round, 8, true);
		rig_ring(q);
		for (double until = rig_now() + 5; seen(b->at + FLAG) != round;)
			RIG_CHECK(rig_now() < until);
		RIG_CHECK(!memcmp(b->at + to, a->at + from, bytes) && b->at[to - 1] == 0xee && b->at[to + bytes] == 0xee);
		RIG_CHECK(rig_wait(q, 5) == 0);
	}
	memset(a->at, 0, 5000);
	rig_read(q, pointer(a->address + 8), a->mr->lkey, pointer(b->address), b->mr->rkey, 4990, true);
	rig_ring(q);
	RIG_CHECK(rig_wait(q, 5) == 0 && !memcmp(a->at + 8, b->at, 4990) && a->at[0] == 0);
	memset(b->at, 0, 16);
	rig_fetch_add(q, pointer(b->address), b->mr->rkey, pointer(a->address), a->mr->lkey, 5, true);
	rig_ring(q);
	RIG_CHECK(rig_wait(q, 5) == 0);
	rig_fetch_add(q, pointer(b->address), b->mr->rkey, pointer(a->address), a->mr->lkey, 6, true);
	rig_ring(q);
	RIG_CHECK(rig_wait(q, 5) == 0);
	memcpy(&old, a->at, sizeof(old));
	RIG_CHECK(old == 5 && seen(b->at) == 11);
}

/* gpu_a, gpu_b: -1 host memory, else the device. rings: those of both ends are a device's too. */
static void pair(int gpu_a, int gpu_b, bool dmabuf, bool rings)
{
	const struct rig_memory memory = {alloc, at};
	int fd = dmabuf ? memfd_create("dma-buf", MFD_CLOEXEC) : -1;
	struct place a, b;
	struct rig_queue q, p;

	open_place(&a, 0, gpu_a, gpu_a < 0 ? -1 : fd);
	open_place(&b, 1, gpu_b, gpu_b < 0 ? -1 : fd);
	if (fd >= 0)
		close(fd); /* a region outlives it */
	rig_make_in(&q, &a.port, RIG_DEVX, 64, rings ? &memory : NULL);
	rig_make_in(&p, &b.port, RIG_DEVX_ORDINARY, 64, rings ? &memory : NULL);
	rig_connect_pair(&q, &p);
	traffic(&q, &a, &b);
	traffic(&p, &b, &a);
	rig_destroy(&q);
	rig_destroy(&p);
	close_place(&a, gpu_a >= 0);
	close_place(&b, gpu_b >= 0);
	printf("%s -> %s%s%s: ok\n", gpu_a < 0 ? "host" : "device", gpu_b < 0 ? "host" : "device", dmabuf ? " by dma-buf" : "",
	       rings ? ", rings of a device" : "");
}

/* A region that is device memory at one end only; a descriptor that is none. */
static void refusals(void)
{
	struct rig_port port;
	struct mlx5dv_devx_umem *umem;
	uint64_t device = alloc(4096, 0);

	rig_open(&port, 0);
	RIG_CHECK(!ibv_reg_mr(port.pd, pointer(device), 8192 + BYTES, IBV_ACCESS_LOCAL_WRITE));
	RIG_CHECK(!ibv_reg_dmabuf_mr(port.pd, 0, 4096, device, 9999, IBV_ACCESS_LOCAL_WRITE) && errno == EBADF);
	setenv("MARROW_SOFTNIC_REFUSE", "dmabuf,peermem", 1);
	RIG_CHECK(!ibv_reg_dmabuf_mr(port.pd, 0, 4096, device, 0, IBV_ACCESS_LOCAL_WRITE) && errno == EOPNOTSUPP);
	RIG_CHECK(!ibv_reg_mr(port.pd, pointer(device), 4096, IBV_ACCESS_LOCAL_WRITE) && errno == EFAULT);
	RIG_CHECK(!mlx5dv_devx_umem_reg(port.context, pointer(device), 4096, IBV_ACCESS_LOCAL_WRITE) && errno == EFAULT);
	unsetenv("MARROW_SOFTNIC_REFUSE");
	umem = mlx5dv_devx_umem_reg(port.context, pointer(device), 4096, IBV_ACCESS_LOCAL_WRITE);
	RIG_CHECK(umem && !mlx5dv_devx_umem_dereg(umem));
	rig_close(&port);
}

int main(int argc, char **argv)
{
	struct fake_cuda_counts counts;

	RIG_CHECK(argc == 2);
	load(argv[1]);
	pair(0, 1, false, false);
	pair(0, 0, true, false);
	pair(-1, 0, false, false);
	pair(1, -1, true, false);
	pair(0, 1, false, true);
	pair(-1, -1, false, true);
	refusals();
	counts = count();
	RIG_CHECK(counts.copies > 100 && counts.copied_unsynchronised <= 2 && counts.live_contexts == 0);
	return 0;
}
