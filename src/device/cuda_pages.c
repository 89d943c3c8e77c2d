/* cuda_pages.c - pages of the host, and registers mapped there, as kernels reach them.
 *
 * The driver registers a page once a process; queue pairs of a NIC share pages, and so do ranks that are threads: a registration is
 * counted. */
#include "cuda_support.h"

#include "base/log.h"

#include <pthread.h>
#include <stdlib.h>

struct registration {
	struct registration *next;
	uint8_t *pages;
	uint64_t bytes;
	uint32_t users;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct registration *registrations;

/* The link to whose range holds bytes at pages, or to the end. */
static struct registration **find(const uint8_t *pages, uint64_t bytes)
{
	struct registration **at = &registrations;
	while (*at && (pages < (*at)->pages || (uint64_t)(pages - (*at)->pages) + bytes > (*at)->bytes))
		at = &(*at)->next;
	return at;
}

static enum marrow_status registers_failed(const struct mrw_device *d, cudaError_t error)
{
	return mrw_fail(MARROW_CUDA_ERROR, "device %d cannot reach the NIC's doorbell page: cudaHostRegister(IoMemory) says \"%s\"; kernels ring the NIC "
			"themselves, and the GPU's driver must allow that: load it with NVreg_RegistryDwords=\"PeerMappingOverride=1\" (options "
			"nvidia ... in /etc/modprobe.d, then reload the module), or run as root", d->info.ordinal, cudaGetErrorString(error));
}

static enum marrow_status pages_register(const struct mrw_device *d, void *pages, uint64_t bytes, bool registers)
{
	unsigned int flags = cudaHostRegisterPortable | cudaHostRegisterMapped;
	if (registers) {
		cudaError_t error = cudaHostRegister(pages, bytes, flags | cudaHostRegisterIoMemory);
		if (error == cudaSuccess)
			return MARROW_SUCCESS;
		(void)cudaGetLastError();
		/* Where the page turns out to be memory, nothing lies between the device and what polls it. */
		if (cudaHostRegister(pages, bytes, flags) != cudaSuccess) {
			(void)cudaGetLastError();
			return registers_failed(d, error);
		}
		mrw_log(MRW_LOG_INFO, "device %d: the NIC's doorbell page is memory, not registers (%s): an emulated NIC", d->info.ordinal,
			cudaGetErrorString(error));
		return MARROW_SUCCESS;
	}
	cudaError_t error = cudaHostRegister(pages, bytes, flags);
	if (error != cudaSuccess)
		return mrw_fail_cuda(error, "cudaHostRegister of a queue's pages (is the locked-memory limit high enough? ulimit -l)");
	return MARROW_SUCCESS;
}

static enum marrow_status map(const struct mrw_device *d, uint8_t *pages, uint64_t bytes, bool registers, void **device)
{
	struct registration **at = find(pages, bytes), *r = *at;
	if (!r) {
		r = calloc(1, sizeof *r);
		if (!r)
			return mrw_fail(MARROW_OUT_OF_MEMORY, "out of memory for a registration of pages");
		enum marrow_status status = pages_register(d, pages, bytes, registers);
		if (status != MARROW_SUCCESS) {
			free(r);
			return status;
		}
		r->pages = pages;
		r->bytes = bytes;
		*at = r;
	}
	r->users++;
	cudaError_t error = cudaHostGetDevicePointer(device, pages, 0);
	return error == cudaSuccess ? MARROW_SUCCESS : mrw_fail_cuda(error, "cudaHostGetDevicePointer of a queue's pages");
}

static void unmap(const uint8_t *pages)
{
	struct registration **at = find(pages, 1), *r = *at;
	if (!r || --r->users > 0)
		return;
	if (cudaHostUnregister(r->pages) != cudaSuccess)
		(void)cudaGetLastError();
	*at = r->next;
	free(r);
}

enum marrow_status mrw_cuda_pages_map(struct mrw_device *d, void *pages, uint64_t bytes, bool registers, void **device)
{
	struct mrw_caller caller = mrw_cuda_enter(d);
	*device = NULL;
	pthread_mutex_lock(&lock);
	enum marrow_status status = map(d, pages, bytes, registers, device);
	if (status != MARROW_SUCCESS && *find(pages, bytes)) /* registered, but has no address */
		unmap(pages);
	pthread_mutex_unlock(&lock);
	mrw_cuda_leave(caller);
	return status;
}

void mrw_cuda_pages_unmap(struct mrw_device *d, void *pages)
{
	struct mrw_caller caller = mrw_cuda_enter(d);
	pthread_mutex_lock(&lock);
	unmap(pages);
	pthread_mutex_unlock(&lock);
	mrw_cuda_leave(caller);
}
