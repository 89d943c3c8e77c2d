/* verbs.c - finding libibverbs and libmlx5. They stay loaded: providers do not survive being unloaded. */
#include "verbs.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct mrw_verbs table;
static char trouble[512]; /* "": all is there */

#define ADVICE "; install rdma-core (Debian, Ubuntu: libibverbs1 and ibverbs-providers; RHEL: libibverbs)"

static void *load(const char *name)
{
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		snprintf(trouble, sizeof trouble, "no RDMA: %s cannot be loaded (%s)" ADVICE, name, dlerror());
	return library;
}

/* to: the address of a function pointer of the table. */
static bool find(void *library, const char *symbol, void *to)
{
	void *found = dlsym(library, symbol);

	memcpy(to, &found, sizeof found);
	return found != NULL;
}

static void need(void *library, const char *name, const char *symbol, void *to)
{
	if (!find(library, symbol, to) && !trouble[0])
		snprintf(trouble, sizeof trouble, "no RDMA: %s has no %s: rdma-core 32 or later is needed" ADVICE, name,
			 symbol);
}

static void fill(void)
{
	static const char ibverbs[] = "libibverbs.so.1", mlx5[] = "libmlx5.so.1";
	void *library = load(ibverbs), *provider = library ? load(mlx5) : NULL;

	if (!provider)
		return;
#define MRW_X(field, symbol) need(library, ibverbs, #symbol, &table.field);
	MRW_VERBS_LIST(MRW_X)
#undef MRW_X
#define MRW_X(field, symbol) need(provider, mlx5, #symbol, &table.field);
	MRW_MLX5_LIST(MRW_X)
#undef MRW_X
	table.has_devx = true;
#define MRW_X(field, symbol) table.has_devx &= find(provider, #symbol, &table.field);
	MRW_DEVX_LIST(MRW_X)
#undef MRW_X
#define MRW_X(field, symbol) find(library, #symbol, &table.field);
	MRW_DMABUF_LIST(MRW_X)
#undef MRW_X
	find(provider, "mlx5dv_devx_umem_reg_ex", &table.umem_reg_in);
}

enum marrow_status mrw_verbs_load(const struct mrw_verbs **verbs)
{
	pthread_once(&once, fill);
	if (trouble[0])
		return mrw_fail(MARROW_UNSUPPORTED, "%s", trouble);
	*verbs = &table;
	return MARROW_SUCCESS;
}
