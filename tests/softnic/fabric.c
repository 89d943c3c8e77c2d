#include "fabric.h"
#include "sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { VERSION = 1, MAKER_BYTE = SN_PROCESSES_MAX };
#define PLACE "/dev/shm"
#define PREFIX "marrow-softnic."
#define ALIVE_LOOK_NS 3000000u

uint64_t sn_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool lock_byte(int fd, int byte)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

	return fcntl(fd, F_SETLK, &lock) == 0;
}

/* Does another process hold one of these bytes? */
static bool is_locked(int fd, int byte, int count)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = count};

	return fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* Removes fabrics whose maker is dead and that no process has open. */
static void sweep(void)
{
	DIR *dir = opendir(PLACE);
	char path[300];

	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		int pid, fd;

		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)))
			continue;
		pid = atoi(entry->d_name + strlen(PREFIX));
		if (pid <= 0 || kill(pid, 0) == 0 || errno != ESRCH)
			continue;
		snprintf(path, sizeof(path), PLACE "/%.200s/fabric", entry->d_name);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && is_locked(fd, 0, MAKER_BYTE + 1)) {
			close(fd);
			continue;
		}
		if (fd >= 0)
			close(fd);
		snprintf(path, sizeof(path), PLACE "/%.200s", entry->d_name);
		sn_sysfs_remove(path);
	}
	if (dir)
		closedir(dir);
}

static void make_card(struct sn_fabric *fabric, uint32_t number)
{
	struct sn_card *card = &fabric->card[number];
	uint8_t host, index;

	card->host = number / fabric->cards_per_host;
	card->index = number % fabric->cards_per_host;
	card->lid = number + 1;
	host = (uint8_t)card->host;
	index = (uint8_t)card->index;
	memcpy(card->mac, (uint8_t[6]){0x02, 0x5e, 0, host, 0, index}, 6);
	memcpy(card->guid, (uint8_t[8]){0x02, 0x5e, 0, 0xff, 0xfe, host, 0, index}, 8);
	for (uint32_t i = 0; i < SN_GIDS; i++) {
		uint8_t *gid = card->gid[i];

		if (i < 2 || fabric->link_layer == SN_INFINIBAND) {
			/* Modified EUI-64, as the kernel makes it from the MAC. */
			memcpy(gid, (uint8_t[8]){0xfe, 0x80}, 8);
			memcpy(gid + 8, (uint8_t[8]){0x00, 0x5e, 0, 0xff, 0xfe, host, 0, index}, 8);
		} else {
			memcpy(gid, (uint8_t[16]){[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 77, [14] = host, [15] = (uint8_t)(index + 1)}, 16);
		}
	}
}

static int map(struct sn_fabric_mapping *mapping)
{
	void *at = mmap(NULL, sizeof(struct sn_fabric), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, mapping->fd, 0);

	if (at == MAP_FAILED) {
		fprintf(stderr, "softnic: cannot map %s/fabric: %s\n", mapping->directory, strerror(errno));
		return -1;
	}
	mapping->fabric = at;
	return 0;
}

int sn_fabric_make(struct sn_fabric_mapping *mapping, const char *const *host_ids, uint32_t hosts, uint32_t cards_per_host,
		   enum sn_link_layer layer)
{
	struct sn_fabric *fabric;
	char path[300];

	memset(mapping, 0, sizeof(*mapping));
	mapping->fd = -1;
	if (hosts == 0 || hosts > SN_HOSTS_MAX || cards_per_host == 0 || hosts * cards_per_host > SN_CARDS_MAX) {
		fprintf(stderr, "softnic: at most %d hosts, and %d NICs in all\n", SN_HOSTS_MAX, SN_CARDS_MAX);
		return -1;
	}
	for (uint32_t i = 0; i < hosts; i++) {
		const char *id = host_ids[i];

		if (!*id || strlen(id) >= SN_HOST_ID_BYTES || strchr(id, '/') || id[0] == '.' || !strcmp(id, SN_SYSFS_ALL)) {
			fprintf(stderr, "softnic: \"%s\" cannot be the id of an emulated host\n", id);
			return -1;
		}
		for (uint32_t other = 0; other < i; other++)
			if (!strcmp(host_ids[other], id)) {
				fprintf(stderr, "softnic: emulated hosts %u and %u are both called \"%s\": name each host once, ranks fill them in "
						"blocks (--host-ids a,b for a,a,b,b)\n", other, i, id);
				return -1;
			}
	}
	sweep();
	snprintf(mapping->directory, sizeof(mapping->directory), PLACE "/" PREFIX "%d", (int)getpid());
	sn_sysfs_remove(mapping->directory);
	if (mkdir(mapping->directory, 0700)) {
		fprintf(stderr, "softnic: cannot make %s: %s\n", mapping->directory, strerror(errno));
		return -1;
	}
	mapping->mine = true;
	snprintf(path, sizeof(path), "%s/fabric", mapping->directory);
	mapping->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (mapping->fd < 0 || !lock_byte(mapping->fd, MAKER_BYTE) || ftruncate(mapping->fd, sizeof(struct sn_fabric))) {
		fprintf(stderr, "softnic: cannot make %s: %s\n", path, strerror(errno));
		goto fail;
	}
	if (map(mapping))
		goto fail;
	fabric = mapping->fabric;
	fabric->version = VERSION;
	fabric->hosts = hosts;
	fabric->cards_per_host = cards_per_host;
	fabric->cards = hosts * cards_per_host;
	fabric->link_layer = (uint32_t)layer;
	fabric->maker = getpid();
	fabric->start_ns = sn_now_ns();
	for (uint32_t i = 0; i < hosts; i++)
		snprintf(fabric->host_id[i], SN_HOST_ID_BYTES, "%s", host_ids[i]);
	for (uint32_t i = 0; i < fabric->cards; i++)
		make_card(fabric, i);
	if (sn_sysfs_make(fabric, mapping->directory))
		goto fail;
	return 0;
fail:
	sn_fabric_close(mapping);
	return -1;
}

int sn_fabric_open(struct sn_fabric_mapping *mapping, const char *directory)
{
	char path[300];
	struct stat status;

	memset(mapping, 0, sizeof(*mapping));
	snprintf(mapping->directory, sizeof(mapping->directory), "%s", directory);
	snprintf(path, sizeof(path), "%s/fabric", directory);
	mapping->fd = open(path, O_RDWR | O_CLOEXEC);
	if (mapping->fd < 0) {
		fprintf(stderr, "softnic: cannot open the fabric %s: %s\n", path, strerror(errno));
		return -1;
	}
	if (fstat(mapping->fd, &status) || status.st_size != (off_t)sizeof(struct sn_fabric)) {
		fprintf(stderr, "softnic: %s is not a fabric of this version\n", path);
		goto fail;
	}
	if (map(mapping))
		goto fail;
	if (mapping->fabric->version != VERSION) {
		fprintf(stderr, "softnic: %s is not a fabric of this version\n", path);
		goto fail;
	}
	return 0;
fail:
	sn_fabric_close(mapping);
	return -1;
}

void sn_fabric_close(struct sn_fabric_mapping *mapping)
{
	if (mapping->fabric) {
		munmap(mapping->fabric, sizeof(struct sn_fabric));
		close(mapping->fd);
	} else if (mapping->fd > 0) {
		close(mapping->fd);
	}
	if (mapping->mine)
		sn_sysfs_remove(mapping->directory);
	memset(mapping, 0, sizeof(*mapping));
}

int sn_fabric_join(struct sn_fabric_mapping *mapping, uint32_t wish)
{
	struct sn_fabric *fabric = mapping->fabric;

	for (uint32_t i = 0; i <= SN_PROCESSES_MAX; i++) {
		uint32_t number = i == 0 ? wish : i - 1, absent = SN_ABSENT, seen;

		if (number >= SN_PROCESSES_MAX ||
		    !__atomic_compare_exchange_n((uint32_t *)&fabric->process[number].presence, &absent, SN_PRESENT, 0,
						 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			continue;
		if (!lock_byte(mapping->fd, (int)number))
			return -1;
		fabric->process[number].pid = getpid();
		seen = __atomic_load_n((uint32_t *)&fabric->processes, __ATOMIC_ACQUIRE);
		while (seen <= number && !__atomic_compare_exchange_n((uint32_t *)&fabric->processes, &seen, number + 1, 0,
								      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		}
		return (int)number;
	}
	return -1;
}

bool sn_fabric_alive(struct sn_fabric_mapping *mapping, uint32_t process, uint32_t self)
{
	static struct {
		uint64_t looked_ns;
		bool alive;
	} memory[SN_PROCESSES_MAX];
	uint64_t now;

	if (process >= SN_PROCESSES_MAX)
		return false;
	if (__atomic_load_n((uint32_t *)&mapping->fabric->process[process].presence, __ATOMIC_ACQUIRE) != SN_PRESENT)
		return false;
	if (process == self)
		return true;
	now = sn_now_ns();
	if (memory[process].looked_ns == 0 || now - memory[process].looked_ns > ALIVE_LOOK_NS) {
		memory[process].looked_ns = now;
		memory[process].alive = is_locked(mapping->fd, (int)process, 1);
	}
	return memory[process].alive;
}

int sn_fabric_card_of_gid(const struct sn_fabric *fabric, const uint8_t gid[16])
{
	for (uint32_t card = 0; card < fabric->cards; card++)
		for (uint32_t i = 0; i < SN_GIDS; i++)
			if (!memcmp(fabric->card[card].gid[i], gid, 16))
				return (int)card;
	return -1;
}

int sn_fabric_card_of_lid(const struct sn_fabric *fabric, uint32_t lid)
{
	return lid >= 1 && lid <= fabric->cards ? (int)lid - 1 : -1;
}

int sn_fabric_host(const struct sn_fabric *fabric, const char *host_id)
{
	for (uint32_t i = 0; i < fabric->hosts; i++)
		if (!strcmp(fabric->host_id[i], host_id))
			return (int)i;
	return -1;
}
