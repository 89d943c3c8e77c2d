/* env.c - the only place of the binding that reads the environment; its lines on stderr. */
#include "binding.h"
#include "env.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { LINE_BYTES = 1400, LIST_BYTES = 512 };

enum effect { USED, MOOT };
static const struct row {
	const char *name;
	enum effect effect;
} rows[] = {
#define X(name, effect, meaning) {name, effect},
	NCCL_ENV_LIST(X)
#undef X
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int debug_level = -1; /* atomic; -1: not read yet */
static int debug_fd = STDERR_FILENO;

static const char *value_of(const char *name)
{
	const char *value = getenv(name);
	return value && value[0] ? value : NULL;
}

static enum nccl_debug read_level(void)
{
	static const struct {
		const char *word;
		enum nccl_debug level;
	} words[] = {{"VERSION", DEBUG_VERSION}, {"WARN", DEBUG_WARN}, {"INFO", DEBUG_INFO}, {"TRACE", DEBUG_INFO}, {"ABORT", DEBUG_INFO}};
	const char *text = value_of("NCCL_DEBUG");
	for (size_t i = 0; text && i < sizeof words / sizeof words[0]; i++)
		if (strcasecmp(text, words[i].word) == 0)
			return words[i].level;
	return DEBUG_NONE;
}

/* Where NCCL_DEBUG_FILE leads, with %h and %p filled in. */
static void open_file(void)
{
	const char *pattern = value_of("NCCL_DEBUG_FILE");
	char path[PATH_MAX], host[65] = "host";
	size_t used = 0;
	if (!pattern || debug_fd != STDERR_FILENO)
		return;
	(void)gethostname(host, sizeof host - 1);
	for (const char *p = pattern; *p && used < sizeof path - 80; p++) {
		if (p[0] == '%' && p[1] == 'h')
			used += (size_t)snprintf(path + used, sizeof path - used, "%s", host);
		else if (p[0] == '%' && p[1] == 'p')
			used += (size_t)snprintf(path + used, sizeof path - used, "%d", (int)getpid());
		else
			path[used++] = *p;
		p += p[0] == '%' && (p[1] == 'h' || p[1] == 'p');
	}
	path[used] = '\0';
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd >= 0)
		debug_fd = fd;
}

static void emit(const char *format, va_list args)
{
	char line[LINE_BYTES], host[65] = "?";
	(void)gethostname(host, sizeof host - 1);
	int used = snprintf(line, sizeof line, "marrow-nccl %s:%d: ", host, (int)getpid());
	int more = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
	size_t bytes = strnlen(line, sizeof line - 1);
	(void)more;
	for (size_t i = 0; i < bytes; i++)
		if ((unsigned char)line[i] < ' ')
			line[i] = ' ';
	line[bytes++] = '\n';
	int saved = errno;
	ssize_t wrote = write(debug_fd, line, bytes);
	(void)wrote;
	errno = saved;
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	emit(format, args);
	va_end(args);
}

enum nccl_debug nccl_debug_level(void)
{
	int level = __atomic_load_n(&debug_level, __ATOMIC_RELAXED);
	if (level < 0) {
		level = (int)read_level();
		__atomic_store_n(&debug_level, level, __ATOMIC_RELAXED);
	}
	return (enum nccl_debug)level;
}

/* A level prints its own lines; VERSION is NCCL's smallest and has no errors. */
void nccl_log(enum nccl_debug level, const char *format, ...)
{
	va_list args;
	if (nccl_debug_level() < level)
		return;
	va_start(args, format);
	emit(format, args);
	va_end(args);
}

void nccl_env_reset_debug(void)
{
	__atomic_store_n(&debug_level, (int)read_level(), __ATOMIC_RELAXED);
}

static bool is_in_table(const char *name, size_t bytes)
{
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (strlen(rows[i].name) == bytes && strncmp(rows[i].name, name, bytes) == 0)
			return true;
	return false;
}

/* Appends ", item". */
static void append(char list[LIST_BYTES], const char *item, size_t bytes)
{
	size_t used = strlen(list);
	snprintf(list + used, LIST_BYTES - used, "%s%.*s", used ? ", " : "", (int)bytes, item);
}

/* A variable of one word that marrow_config takes as it is. */
static const char *plain_ifname(void)
{
	const char *text = value_of("NCCL_SOCKET_IFNAME");
	return text && text[0] != '^' && !strchr(text, ',') && strlen(text) < 64 ? text : NULL;
}

/* A device's name, and no prefix: it ends with its number, and is not a driver's. */
static bool is_device_name(const char *name, size_t bytes)
{
	bool driver = bytes == 4 && (strncmp(name, "mlx4", 4) == 0 || strncmp(name, "mlx5", 4) == 0);
	return bytes > 0 && name[bytes - 1] >= '0' && name[bytes - 1] <= '9' && !driver;
}

/* "=mlx5_0:1,mlx5_3" to "mlx5_0,mlx5_3"; false for prefixes and exclusions. */
static bool plain_nics(char nics[256])
{
	const char *text = value_of("NCCL_IB_HCA");
	size_t used = 0;
	if (!text || text[0] == '^' || strlen(text) > 200)
		return false;
	for (text += text[0] == '='; *text;) {
		size_t item = strcspn(text, ","), name = strcspn(text, ":,");
		if (!is_device_name(text, name))
			return false;
		used += (size_t)snprintf(nics + used, 256 - used, "%s%.*s", used ? "," : "", (int)name, text);
		text += item + (text[item] == ',');
	}
	return used > 0;
}

static void start(void)
{
	char ignored[LIST_BYTES] = "", nics[256];
	Dl_info where;
	(void)nccl_debug_level();
	open_file();
	for (char **entry = environ; entry && *entry; entry++) {
		size_t bytes = strcspn(*entry, "=");
		if (strncmp(*entry, "NCCL_", 5) == 0 && (*entry)[bytes] && (*entry)[bytes + 1] && !is_in_table(*entry, bytes))
			append(ignored, *entry, bytes);
	}
	if (value_of("NCCL_SOCKET_IFNAME") && !plain_ifname())
		append(ignored, "NCCL_SOCKET_IFNAME (a list or an exclusion: use MARROW_SOCKET_IFNAME)", 69);
	if (value_of("NCCL_IB_HCA") && !plain_nics(nics))
		append(ignored, "NCCL_IB_HCA (a prefix or an exclusion: use MARROW_NICS)", 55);
	if (ignored[0])
		say("set in the environment and ignored: %s", ignored);
	if (nccl_debug_level() == DEBUG_VERSION || nccl_debug_level() == DEBUG_INFO)
		say("NCCL %d.%d.%d served by Marrow %d.%d.%d, %s", ANSWERED_VERSION / 10000, ANSWERED_VERSION / 100 % 100, ANSWERED_VERSION % 100,
		    marrow_get_version() / 10000, marrow_get_version() / 100 % 100, marrow_get_version() % 100,
		    dladdr(&once, &where) && where.dli_fname ? where.dli_fname : "from an unknown file");
}

void nccl_env_start(void)
{
	pthread_once(&once, start);
}

int nccl_env_int(const char *name, int fallback)
{
	const char *text = value_of(name);
	char *end;
	if (!text)
		return fallback;
	errno = 0;
	long number = strtol(text, &end, 10);
	return *end || errno || number < INT_MIN || number > INT_MAX ? fallback : (int)number;
}

int nccl_env_max_ctas(int fallback)
{
	return value_of("MARROW_MAX_CTAS") ? fallback : nccl_env_int("NCCL_MAX_CTAS", nccl_env_int("NCCL_MAX_NCHANNELS", fallback));
}

void nccl_env_config(struct marrow_config *config)
{
	static _Thread_local char ifname[64], host_id[128], nics[256];
	if (!value_of("MARROW_SOCKET_IFNAME") && plain_ifname()) {
		snprintf(ifname, sizeof ifname, "%s", plain_ifname());
		config->socket_ifname = ifname;
	}
	if (!value_of("MARROW_HOST_ID") && value_of("NCCL_HOSTID")) {
		snprintf(host_id, sizeof host_id, "%s", value_of("NCCL_HOSTID"));
		config->host_id = host_id;
	}
	if (!value_of("MARROW_NICS") && plain_nics(nics))
		config->nics = nics;
}

EXPORT_AS(void, ResetDebugInit, (void))
{
	nccl_env_reset_debug();
}

EXPORT(GetVersion, (int *version))
{
	if (!version)
		return nccl_fail(ncclInvalidArgument, "ncclGetVersion: version is NULL");
	*version = ANSWERED_VERSION;
	return ncclSuccess;
}
