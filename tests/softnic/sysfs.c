#include "sysfs.h"
#include "fabric.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A tree under construction; the first failure stays. */
struct tree {
	char root[256];
	int failed;
};

static void make_parents(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(path, 0755);
		*slash = '/';
	}
}

/* Writes one line to root/name. */
static __attribute__((format(printf, 3, 4))) void put(struct tree *tree, const char *name, const char *format, ...)
{
	char path[600], text[256];
	va_list args;
	int fd, bytes;

	va_start(args, format);
	vsnprintf(text, sizeof(text) - 1, format, args);
	va_end(args);
	bytes = (int)strlen(text);
	text[bytes++] = '\n';
	snprintf(path, sizeof(path), "%s/%s", tree->root, name);
	make_parents(path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, text, (size_t)bytes) != bytes) {
		if (!tree->failed++)
			fprintf(stderr, "softnic: cannot write %s: %s\n", path, strerror(errno));
	}
	if (fd >= 0)
		close(fd);
}

static void put_gid(struct tree *tree, const char *name, const uint8_t *gid)
{
	char text[48];
	int at = 0;

	for (int i = 0; i < 16; i += 2)
		at += snprintf(text + at, sizeof(text) - (size_t)at, "%s%02x%02x", i ? ":" : "", gid[i], gid[i + 1]);
	put(tree, name, "%s", text);
}

static void put_card(struct tree *tree, const struct sn_fabric *fabric, uint32_t number, uint32_t device)
{
	const struct sn_card *card = &fabric->card[number];
	bool ethernet = fabric->link_layer == SN_ETHERNET;
	const uint8_t *g = card->guid;
	char base[128], name[256], guid[24];

#define PUT(file, ...) (snprintf(name, sizeof(name), "%s/%s", base, file), put(tree, name, __VA_ARGS__))
	snprintf(base, sizeof(base), "class/infiniband_verbs/uverbs%u", number);
	PUT("ibdev", "mlx5_%u", device);
	/* The character device that open() is led to: it must exist and have these numbers. */
	PUT("dev", "1:3");
	PUT("abi_version", "1");

	snprintf(base, sizeof(base), "class/infiniband/mlx5_%u", device);
	snprintf(guid, sizeof(guid), "%02x%02x:%02x%02x:%02x%02x:%02x%02x", g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7]);
	PUT("node_type", "1: CA");
	PUT("node_guid", "%s", guid);
	PUT("sys_image_guid", "%s", guid);
	PUT("node_desc", "softnic host=%s nic=%u", fabric->host_id[card->host], card->index);
	PUT("fw_ver", "28.39.1002");
	PUT("hca_type", "MT4129");
	PUT("board_id", "MRW_SOFTNIC");
	PUT("device/modalias", "pci:v000015B3d00001021sv000015B3sd00000023bc02sc07i00");
	PUT("device/vendor", "0x15b3");
	PUT("device/device", "0x1021");
	PUT("device/numa_node", "0");
	PUT("ports/1/state", "4: ACTIVE");
	PUT("ports/1/phys_state", "5: LinkUp");
	PUT("ports/1/rate", "400 Gb/sec (4X NDR)");
	PUT("ports/1/lid", "0x%x", ethernet ? 0 : card->lid);
	PUT("ports/1/sm_lid", "0x%x", ethernet ? 0 : 1);
	PUT("ports/1/link_layer", "%s", ethernet ? "Ethernet" : "InfiniBand");
	PUT("ports/1/pkeys/0", "0xffff");
	for (uint32_t i = 0; i < (ethernet ? SN_GIDS : 1); i++) {
		snprintf(name, sizeof(name), "%s/ports/1/gids/%u", base, i);
		put_gid(tree, name, card->gid[i]);
		snprintf(name, sizeof(name), "%s/ports/1/gid_attrs/types/%u", base, i);
		put(tree, name, "%s", ethernet && i % 2 ? "RoCE v2" : "IB/RoCE v1");
		if (ethernet) {
			snprintf(name, sizeof(name), "%s/ports/1/gid_attrs/ndevs/%u", base, i);
			put(tree, name, "lo");
		}
	}
#undef PUT
}

int sn_sysfs_make(const struct sn_fabric *fabric, const char *directory)
{
	struct tree tree = {.failed = 0};

	for (uint32_t host = 0; host <= fabric->hosts; host++) {
		bool all = host == fabric->hosts;
		uint32_t device = 0;

		snprintf(tree.root, sizeof(tree.root), "%.180s/sysfs/%s", directory, all ? SN_SYSFS_ALL : fabric->host_id[host]);
		put(&tree, "class/infiniband_verbs/abi_version", "6");
		for (uint32_t card = 0; card < fabric->cards; card++)
			if (all || fabric->card[card].host == host)
				put_card(&tree, fabric, card, device++);
	}
	return tree.failed ? -1 : 0;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	(void)status;
	(void)type;
	(void)walk;
	remove(path);
	return 0;
}

void sn_sysfs_remove(const char *directory)
{
	nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
