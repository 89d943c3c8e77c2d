#include "boot_id.h"

#include <endian.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "bootstrap.h"

static const uint8_t id_magic[8] = {'M', 'A', 'R', 'R', 'O', 'W', 'I', 'D'};
static _Thread_local uint32_t wire_version = MRW_BOOT_WIRE_VERSION;

uint32_t mrw_boot_wire_version(void)
{
	return wire_version;
}

void mrw_boot_set_wire_version_for_test(uint32_t version)
{
	wire_version = version;
}

/* FNV-1a, 64 bits; see http://www.isthe.com/chongo/tech/comp/fnv/ for the constants. */
static uint64_t fnv(uint64_t hash, const void *data, size_t bytes)
{
	const uint8_t *byte = data;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ byte[i]) * 0x100000001b3u;
	return hash;
}

static const uint64_t fnv_start = 0xcbf29ce484222325u;

/* One step of SplitMix64. */
static uint64_t splitmix(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

enum marrow_status mrw_boot_id_random(void *bytes, size_t count)
{
	uint8_t *next = bytes;

	while (count) {
		ssize_t got = getrandom(next, count, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return mrw_fail_errno(MARROW_SYSTEM_ERROR, "getrandom");
		next += got;
		count -= (size_t)got;
	}
	return MARROW_SUCCESS;
}

static void checksum(const struct mrw_boot_id *id, uint32_t sum_le[2])
{
	uint64_t hash = fnv(fnv_start, id, offsetof(struct mrw_boot_id, checksum_le));

	sum_le[0] = htole32((uint32_t)hash);
	sum_le[1] = htole32((uint32_t)(hash >> 32));
}

void mrw_boot_id_encode(struct marrow_unique_id *bytes, struct mrw_boot_id *id, uint32_t flags, uint32_t naddrs)
{
	memcpy(id->magic, id_magic, sizeof id_magic);
	id->version_le = htole32(wire_version);
	id->flags_le = htole32(flags);
	id->naddrs_le = htole32(naddrs);
	checksum(id, id->checksum_le);
	memcpy(bytes->bytes, id, sizeof *id);
}

enum marrow_status mrw_boot_id_decode(struct mrw_boot_id *id, const struct marrow_unique_id *bytes)
{
	uint32_t sum_le[2];

	memcpy(id, bytes->bytes, sizeof *id);
	if (memcmp(id->magic, id_magic, sizeof id_magic))
		return mrw_fail(
			MARROW_INVALID_ARGUMENT,
			"the unique id is not one of marrow_get_unique_id(): it was not received, or another library made it");
	checksum(id, sum_le);
	if (memcmp(sum_le, id->checksum_le, sizeof sum_le) || le32toh(id->naddrs_le) > MRW_BOOT_ID_ADDRS)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "the unique id is truncated or altered: pass all %zu bytes",
				sizeof *id);
	return MARROW_SUCCESS;
}

/* Listening sockets of this process that no rank has claimed. A forked child inherits copies, which are not its own. */
struct waiting {
	struct waiting *next;
	uint8_t key[MRW_BOOT_KEY_BYTES];
	struct mrw_addr bound;
	int fd;
	pid_t pid;
	dev_t device;
	ino_t inode;
};

static pthread_mutex_t waiting_lock = PTHREAD_MUTEX_INITIALIZER;
static struct waiting *waiting_list;

/* Closes inherited sockets, else the root's port would stay open in the child. The child may have closed the descriptor
 * itself and the number may name something else by now. Called with the lock. */
static void forget_inherited(void)
{
	for (struct waiting **at = &waiting_list; *at;) {
		struct waiting *entry = *at;
		struct stat now;

		if (entry->pid == getpid()) {
			at = &entry->next;
			continue;
		}
		if (!fstat(entry->fd, &now) && now.st_dev == entry->device && now.st_ino == entry->inode)
			close(entry->fd);
		*at = entry->next;
		free(entry);
	}
}

enum marrow_status mrw_boot_id_offer(const uint8_t key[MRW_BOOT_KEY_BYTES], int fd, const struct mrw_addr *bound)
{
	struct waiting *entry = calloc(1, sizeof *entry);
	struct stat now;

	if (!entry || fstat(fd, &now)) {
		free(entry);
		close(fd);
		return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for a unique id");
	}
	memcpy(entry->key, key, sizeof entry->key);
	entry->bound = *bound;
	entry->fd = fd;
	entry->pid = getpid();
	entry->device = now.st_dev;
	entry->inode = now.st_ino;
	pthread_mutex_lock(&waiting_lock);
	forget_inherited();
	entry->next = waiting_list;
	waiting_list = entry;
	pthread_mutex_unlock(&waiting_lock);
	return MARROW_SUCCESS;
}

void mrw_boot_id_derive(uint8_t key[MRW_BOOT_KEY_BYTES], const uint8_t from[MRW_BOOT_KEY_BYTES])
{
	uint64_t state = fnv(fnv(fnv_start, "again", 5), from, MRW_BOOT_KEY_BYTES), word_le;

	for (size_t i = 0; i < MRW_BOOT_KEY_BYTES; i += sizeof word_le) {
		word_le = htole64(splitmix(&state));
		memcpy(key + i, &word_le, sizeof word_le);
	}
}

bool mrw_boot_id_claim(const uint8_t key[MRW_BOOT_KEY_BYTES], int *fd, struct mrw_addr *bound)
{
	struct waiting **at, *entry;

	pthread_mutex_lock(&waiting_lock);
	forget_inherited();
	for (at = &waiting_list; *at && memcmp((*at)->key, key, MRW_BOOT_KEY_BYTES); at = &(*at)->next)
		;
	entry = *at;
	if (entry)
		*at = entry->next;
	pthread_mutex_unlock(&waiting_lock);
	if (!entry)
		return false;
	*fd = entry->fd;
	*bound = entry->bound;
	free(entry);
	return true;
}

void mrw_boot_drop_id(const struct marrow_unique_id *bytes)
{
	struct mrw_boot_id id;
	struct mrw_addr bound;
	int fd;

	memcpy(&id, bytes->bytes, sizeof id);
	if (mrw_boot_id_claim(id.key, &fd, &bound))
		close(fd);
}

static bool name_fits(const char *name, const char *wanted)
{
	if (wanted[0] == '=')
		return !strcmp(name, wanted + 1);
	return !strncmp(name, wanted, strlen(wanted));
}

/* Lower is better; -1: never. Link-local IPv6 needs a scope that means nothing on another machine. Bridges of containers and
 * virtual machines lead nowhere. */
static int grade(const struct ifaddrs *entry, const char *ifname, struct mrw_addr *addr)
{
	static const char *const bridges[] = {"docker", "virbr", "br-", "veth", "cni", "podman", "lxc"};
	int result = 0;

	if (!entry->ifa_addr || !(entry->ifa_flags & IFF_UP) || !mrw_addr_from_sockaddr(addr, entry->ifa_addr))
		return -1;
	mrw_addr_set_port(addr, 0);
	if (addr->family == 6 && addr->bytes[0] == 0xfe && (addr->bytes[1] & 0xc0) == 0x80)
		return -1;
	if (ifname[0] && !name_fits(entry->ifa_name, ifname))
		return -1;
	if (entry->ifa_flags & IFF_LOOPBACK)
		result += 8;
	if (!(entry->ifa_flags & IFF_RUNNING))
		result += 4;
	for (size_t i = 0; i < sizeof bridges / sizeof *bridges; i++)
		if (!strncmp(entry->ifa_name, bridges[i], strlen(bridges[i])))
			result += 2;
	return result + (addr->family == 6);
}

enum marrow_status mrw_boot_id_choose(struct mrw_addr *addr, const char *ifname)
{
	struct ifaddrs *list;
	struct mrw_addr candidate;
	char names[256] = "";
	int best = -1;

	ifname = ifname ? ifname : "";
	if (getifaddrs(&list))
		return mrw_sock_fail("listing the network interfaces");
	for (struct ifaddrs *entry = list; entry; entry = entry->ifa_next) {
		int found = grade(entry, ifname, &candidate);

		if (found >= 0 && (best < 0 || found < best)) {
			best = found;
			*addr = candidate;
		}
		if (grade(entry, "", &candidate) >= 0 && !strstr(names, entry->ifa_name)) {
			size_t used = strlen(names);

			snprintf(names + used, sizeof names - used, " %s", entry->ifa_name);
		}
	}
	freeifaddrs(list);
	if (best < 0 && ifname[0])
		return mrw_fail(
			MARROW_INVALID_ARGUMENT,
			"no network interface that is up and has an address fits MARROW_SOCKET_IFNAME=%s; there are:%s",
			ifname, names);
	if (best < 0)
		return mrw_fail(MARROW_SYSTEM_ERROR,
				"no network interface is up, not even loopback: ip link set lo up");
	return MARROW_SUCCESS;
}

enum marrow_status mrw_boot_make_id(struct marrow_unique_id *bytes, const char *ifname)
{
	struct mrw_boot_id id = {.naddrs_le = 0};
	struct mrw_addr chosen, bound;
	int fd;

	MRW_TRY(mrw_boot_id_choose(&chosen, ifname));
	MRW_TRY(mrw_boot_id_random(id.key, sizeof id.key));
	MRW_TRY(mrw_sock_listen(&fd, &chosen, 0, &bound));
	MRW_TRY(mrw_boot_id_offer(id.key, fd, &bound));
	id.addrs[0] = bound;
	mrw_boot_id_encode(bytes, &id, 0, 1);
	return MARROW_SUCCESS;
}

/* Splits "host:port" or "[v6]:port". */
static bool split_host_port(const char *host_port, char host[256], uint16_t *port)
{
	const char *colon = strrchr(host_port, ':'), *begin = host_port, *end = colon;
	char *rest;
	long number;

	if (!colon)
		return false;
	if (*begin == '[') {
		begin++;
		end--;
		if (end < begin || *end != ']')
			return false;
	} else if (memchr(begin, ':', (size_t)(end - begin))) {
		return false;
	}
	if (end <= begin || end - begin > 255 || colon[1] < '0' || colon[1] > '9')
		return false;
	memcpy(host, begin, (size_t)(end - begin));
	host[end - begin] = '\0';
	number = strtol(colon + 1, &rest, 10);
	if (*rest || number < 1 || number > 65535)
		return false;
	*port = (uint16_t)number;
	return true;
}

/* A name server may be late in a young cluster: three tries. */
static enum marrow_status resolve(const char *host, uint16_t port, struct mrw_boot_id *id, uint32_t *naddrs)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC}, *list;
	struct timespec pause = {.tv_nsec = 300000000};
	int error = getaddrinfo(host, NULL, &hints, &list);

	for (int tries = 1; error == EAI_AGAIN && tries < 3; tries++) {
		nanosleep(&pause, NULL);
		error = getaddrinfo(host, NULL, &hints, &list);
	}
	if (error)
		return mrw_fail(MARROW_SYSTEM_ERROR, "cannot find the address of the root \"%s\": %s", host,
				gai_strerror(error));
	*naddrs = 0;
	for (struct addrinfo *entry = list; entry && *naddrs < MRW_BOOT_ID_ADDRS; entry = entry->ai_next)
		if (mrw_addr_from_sockaddr(&id->addrs[*naddrs], entry->ai_addr))
			mrw_addr_set_port(&id->addrs[(*naddrs)++], port);
	freeaddrinfo(list);
	return MARROW_SUCCESS;
}

enum marrow_status mrw_boot_make_env_id(struct marrow_unique_id *bytes, const char *host_port, const char *job,
					bool listen)
{
	struct mrw_boot_id id = {.naddrs_le = 0};
	struct mrw_addr bound;
	uint64_t state = fnv(fnv_start, host_port, strlen(host_port)), word_le;
	uint32_t naddrs = 0;
	uint16_t port;
	char host[256];
	int fd;

	if (job[0] != '\0')
		state = fnv(fnv(state, "\n", 1), job, strlen(job));
	if (!split_host_port(host_port, host, &port))
		return mrw_fail(MARROW_INVALID_ARGUMENT,
				"root address \"%.128s\": write host:port, or [v6 address]:port", host_port);
	for (size_t i = 0; i < sizeof id.key; i += sizeof word_le) {
		word_le = htole64(splitmix(&state));
		memcpy(id.key + i, &word_le, sizeof word_le);
	}
	MRW_TRY(resolve(host, port, &id, &naddrs));
	if (listen) {
		MRW_TRY(mrw_sock_listen(&fd, NULL, port, &bound));
		MRW_TRY(mrw_boot_id_offer(id.key, fd, &bound));
	}
	mrw_boot_id_encode(bytes, &id, MRW_BOOT_ID_ENV, naddrs);
	return MARROW_SUCCESS;
}
