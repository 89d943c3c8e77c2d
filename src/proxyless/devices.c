/* devices.c - which RDMA devices there are and which are meant. */
#include "devices.h"

#include "nic.h"

#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

/* As many at once as libibverbs, a provider and the kernel's answers to them may hold while a device is opened. */
enum { DESCRIPTORS = 8 };

/* Without descriptors libibverbs finds fewer devices, ports or addresses than there are, and says nothing. */
static enum marrow_status need_descriptors(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* one rank of a process at a time takes them all */
	int fd[DESCRIPTORS], n = 0, error = 0;
	struct rlimit limit;

	pthread_mutex_lock(&lock);
	while (n < DESCRIPTORS && (fd[n] = eventfd(0, EFD_CLOEXEC)) >= 0)
		n++;
	if (n < DESCRIPTORS)
		error = errno;
	for (int i = 0; i < n; i++)
		close(fd[i]);
	pthread_mutex_unlock(&lock);
	if (error == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
		return mrw_fail(MARROW_SYSTEM_ERROR,
				"RDMA devices take %d file descriptors to look at; %d are left of the %llu that this process may have: "
				"raise the limit (ulimit -n; nofile in /etc/security/limits.conf, LimitNOFILE= of the service)",
				DESCRIPTORS, n, (unsigned long long)limit.rlim_cur);
	if (error == ENFILE)
		return mrw_fail(MARROW_SYSTEM_ERROR,
				"RDMA devices take %d file descriptors to look at; this machine has %d left: raise fs.file-max (sysctl)",
				DESCRIPTORS, n);
	return MARROW_SUCCESS;
}

enum marrow_status mrw_devices_open(struct mrw_devices *c)
{
	int count = 0;

	memset(c, 0, sizeof *c);
	MRW_TRY(mrw_verbs_load(&c->verbs));
	MRW_TRY(need_descriptors());
	c->devices = c->verbs->get_device_list(&count);
	/* Without the kernel's modules there is no list: no devices. */
	if (!c->devices && errno != ENOSYS)
		return mrw_fail_errno(MARROW_SYSTEM_ERROR, "listing RDMA devices failed");
	c->count = c->devices ? (uint32_t)count : 0;
	return MARROW_SUCCESS;
}

void mrw_devices_close(struct mrw_devices *c)
{
	if (c->devices)
		c->verbs->free_device_list(c->devices);
}

const char *mrw_devices_name(const struct mrw_devices *c, uint32_t i)
{
	return c->verbs->get_device_name(c->devices[i]);
}

const char *mrw_devices_names(const struct mrw_devices *c, char text[MRW_NAMES_BYTES])
{
	size_t at = 0;

	snprintf(text, MRW_NAMES_BYTES, "none");
	for (uint32_t i = 0; i < c->count && at < MRW_NAMES_BYTES; i++)
		at += (size_t)snprintf(text + at, MRW_NAMES_BYTES - at, "%s%s", i ? ", " : "", mrw_devices_name(c, i));
	return text;
}

static bool port_is_active(const struct mrw_verbs *v, struct ibv_context *context, uint32_t port)
{
	struct ibv_port_attr attr;

	memset(&attr, 0, sizeof attr);
	return v->query_port(context, (uint8_t)port, (struct _compat_ibv_port_attr *)(void *)&attr) == 0 &&
	       attr.state == IBV_PORT_ACTIVE;
}

uint32_t mrw_active_port(const struct mrw_verbs *v, struct ibv_context *context)
{
	struct ibv_device_attr attr;

	if (v->query_device(context, &attr))
		return 0;
	for (uint32_t port = 1; port <= attr.phys_port_cnt; port++)
		if (port_is_active(v, context, port))
			return port;
	return 0;
}

static bool has_nodes(void)
{
	DIR *nodes = opendir("/dev/infiniband");
	bool found = false;

	for (const struct dirent *e; nodes && !found && (e = readdir(nodes));)
		found = !strncmp(e->d_name, "uverbs", 6);
	if (nodes)
		closedir(nodes);
	return found;
}

const char *mrw_open_advice(int error)
{
	/* What may not be opened libibverbs looks for in /dev/char too, which containers lack. */
	if (error == ENOENT && has_nodes())
		error = EACCES;
	switch (error) {
	case EACCES:
	case EPERM:
		return "; this user may not open /dev/infiniband/uverbs*: its mode should be 0666 (udev rules of rdma-core), and a container "
		       "needs its device cgroup opened too";
	case ENOENT:
	case ENXIO:
	case ENODEV:
		return "; /dev/infiniband/uverbs* is missing here: load ib_uverbs, and give containers --device=/dev/infiniband";
	case ENOMEM:
		return "; the limit of locked memory (ulimit -l) may be too low";
	default:
		return "";
	}
}

/* Without names a device counts if it is an mlx5 one with an active port. */
static bool is_usable(const struct mrw_devices *c, uint32_t i)
{
	struct mlx5dv_context_attr attr = {.flags = 0};
	struct ibv_context *context;
	bool active;

	if (!c->verbs->is_supported(c->devices[i]))
		return false;
	context = c->verbs->open_device(c->devices[i], &attr);
	if (!context) {
		mrw_log(MRW_LOG_WARN, "%s is left out: opening it failed: %s%s", mrw_devices_name(c, i),
			strerror(errno), mrw_open_advice(errno));
		return false;
	}
	active = mrw_active_port(c->verbs, context) != 0;
	c->verbs->close_device(context);
	if (!active)
		mrw_log(MRW_LOG_INFO, "%s is left out: no port of it is active", mrw_devices_name(c, i));
	return active;
}

static enum marrow_status find_by_name(const struct mrw_devices *c, const char *name, size_t bytes, uint32_t *found)
{
	char all[MRW_NAMES_BYTES];

	for (uint32_t i = 0; i < c->count; i++)
		if (strlen(mrw_devices_name(c, i)) == bytes && !memcmp(mrw_devices_name(c, i), name, bytes)) {
			if (!c->verbs->is_supported(c->devices[i]))
				return mrw_fail(
					MARROW_UNSUPPORTED,
					"%s is no mlx5 device: kernels can drive only those (ConnectX-4 and later)",
					mrw_devices_name(c, i));
			*found = i;
			return MARROW_SUCCESS;
		}
	return mrw_fail(MARROW_INVALID_ARGUMENT, "there is no RDMA device named \"%.*s\"; there are: %s", (int)bytes,
			name, mrw_devices_names(c, all));
}

enum marrow_status mrw_devices_select(const struct mrw_devices *c, const char *names, uint32_t index, uint32_t *count,
				      uint32_t *device)
{
	*count = 0;
	if (!names || !names[0]) {
		for (uint32_t i = 0; i < c->count; i++)
			if (is_usable(c, i) && (*count)++ == index)
				*device = i;
		return MARROW_SUCCESS;
	}
	for (const char *name = names; name;) {
		const char *comma = strchr(name, ',');
		size_t bytes = comma ? (size_t)(comma - name) : strlen(name);
		uint32_t found;

		if (bytes) {
			MRW_TRY(find_by_name(c, name, bytes, &found));
			if ((*count)++ == index)
				*device = found;
		}
		name = comma ? comma + 1 : NULL;
	}
	return MARROW_SUCCESS;
}

enum marrow_status mrw_nic_count(const char *names, uint32_t *count)
{
	struct mrw_devices c;
	uint32_t device;
	enum marrow_status status;

	*count = 0;
	MRW_TRY(mrw_devices_open(&c));
	status = mrw_devices_select(&c, names, UINT32_MAX, count, &device);
	mrw_devices_close(&c);
	return status;
}

enum marrow_status mrw_nic_list(char *list, size_t bytes)
{
	struct mrw_devices c;
	size_t used = 0;

	list[0] = '\0';
	MRW_TRY(mrw_devices_open(&c));
	for (uint32_t i = 0; i < c.count; i++) {
		const char *name = mrw_devices_name(&c, i);
		if (is_usable(&c, i) && used + strlen(name) + 2 < bytes)
			used += (size_t)snprintf(list + used, bytes - used, "%s%s", used ? "," : "", name);
	}
	mrw_devices_close(&c);
	return MARROW_SUCCESS;
}
