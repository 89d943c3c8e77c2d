/* test_nearest.c - which NICs ranks take on machines made up as sysfs trees: the one behind the GPU's own switch, each its own where there are enough,
 * shared where not, never one that may not be taken or is down; and what is said where the tree does not tell. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "nearest.h"

#include <stdio.h>

static char root[64];

static void make_dirs(const char *path)
{
	char name[512];
	for (size_t n = 1; n <= strlen(path); n++)
		if (path[n] == '/' || path[n] == '\0') {
			snprintf(name, sizeof name, "%s/%.*s", root, (int)n, path);
			assert_true(mkdir(name, 0755) == 0 || errno == EEXIST);
		}
}

static void put(const char *dir, const char *file, const char *text)
{
	char name[600];
	make_dirs(dir);
	snprintf(name, sizeof name, "%s/%s/%s", root, dir, file);
	FILE *f = fopen(name, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* A PCI device at a path below devices/. */
static void device(const char *path, const char *class, const char *vendor)
{
	char dir[400], from[512], to[512];
	snprintf(dir, sizeof dir, "devices/%s", path);
	put(dir, "class", class);
	put(dir, "vendor", vendor);
	put(dir, "max_link_speed", "32.0 GT/s PCIe\n");
	put(dir, "current_link_width", "16\n");
	put(dir, "numa_node", path[8] < '8' ? "0\n" : "1\n"); /* by the root's number */
	make_dirs("bus/pci/devices");
	snprintf(from, sizeof from, "%s/bus/pci/devices/%s", root, strrchr(path, '/') + 1);
	snprintf(to, sizeof to, "%s/%s", root, dir);
	assert_int_equal(symlink(to, from), 0);
}

static void port(const char *name, int number, const char *state)
{
	char dir[200];
	snprintf(dir, sizeof dir, "class/infiniband/%s/ports/%d", name, number);
	put(dir, "rate", "400 Gb/sec (4X NDR)\n");
	put(dir, "state", state);
	put(dir, "link_layer", "Ethernet\n");
}

static void nic(const char *path, const char *name)
{
	char dir[400];
	device(path, "0x020700\n", "0x15b3\n");
	snprintf(dir, sizeof dir, "devices/%s/infiniband/%s", path, name);
	make_dirs(dir);
	port(name, 1, "4: ACTIVE\n");
}

/* Two CPUs, two switches below each, at each switch a GPU and a NIC. The NICs' names run against the GPUs' order. */
static int make_tree(void **state)
{
	char at[100], path[200], name[16];
	(void)state;
	snprintf(root, sizeof root, "/tmp/marrow-nearest-XXXXXX");
	assert_non_null(mkdtemp(root));
	put("devices/system/node/node0", "cpulist", "0-3\n");
	put("devices/system/node/node1", "cpulist", "4-7\n");
	for (int s = 0; s < 4; s++) {
		int bus = s / 2 * 0x80 + s % 2 * 0x20;
		snprintf(at, sizeof at, "pci0000:%02x/0000:%02x:01.0", bus, bus);
		device(at, "0x060400\n", "0x8086\n");
		snprintf(at + strlen(at), sizeof at - strlen(at), "/0000:%02x:00.0", bus + 1);
		device(at, "0x060400\n", "0x1000\n");
		for (int p = 0; p < 2; p++) {
			snprintf(path, sizeof path, "%s/0000:%02x:%02x.0", at, bus + 2, p);
			device(path, "0x060400\n", "0x1000\n");
			snprintf(path + strlen(path), sizeof path - strlen(path), "/0000:%02x:00.0", bus + 3 + p);
			snprintf(name, sizeof name, "mlx5_%d", 3 - s);
			if (p == 0)
				device(path, "0x030200\n", "0x10de\n");
			else
				nic(path, name);
		}
	}
	return 0;
}

static int remove_tree(void **state)
{
	char command[100];
	(void)state;
	snprintf(command, sizeof command, "rm -rf %s", root);
	return system(command);
}

static const char *const gpus[] = {"0000:03:00.0", "0000:23:00.0", "0000:83:00.0", "0000:A3:00.0"}; /* CUDA may write capitals */
#define ALL_NICS "mlx5_0,mlx5_1,mlx5_2,mlx5_3"

static struct mrw_nearest find(const char *const *of, uint32_t ranks, uint32_t local, const char *usable)
{
	struct mrw_nearest nearest;
	mrw_nearest_find(&nearest, root, of, ranks, local, usable);
	return nearest;
}

static void takes(const struct mrw_nearest *nearest, const char *name, const char *words)
{
	assert_in_range(nearest->count, 1, MRW_MAX_NICS);
	assert_string_equal(nearest->name[0], name);
	if (!strstr(nearest->reason, words))
		fail_msg("\"%s\" is not in: %s", words, nearest->reason);
}

static void the_nic_at_the_same_switch(void **state)
{
	static const char *const names[] = {"mlx5_3", "mlx5_2", "mlx5_1", "mlx5_0"};
	(void)state;
	for (uint32_t r = 0; r < 4; r++) {
		struct mrw_nearest nearest = find(gpus, 4, r, ALL_NICS);
		takes(&nearest, names[r], "nearest, over one PCIe switch, its own");
		assert_int_equal(nearest.count, 1);
	}
}

/* Numbers are the ranks', not the GPUs'. */
static void ranks_may_have_any_gpus(void **state)
{
	static const char *const turned[] = {"0000:a3:00.0", "0000:03:00.0"};
	(void)state;
	struct mrw_nearest first = find(turned, 2, 0, ALL_NICS), second = find(turned, 2, 1, ALL_NICS);
	takes(&first, "mlx5_0", "one PCIe switch");
	takes(&second, "mlx5_3", "one PCIe switch");
}

static void two_ranks_of_one_gpu_share(void **state)
{
	static const char *const shared[] = {"0000:03:00.0", "0000:03:00.0", "0000:23:00.0"};
	(void)state;
	for (uint32_t r = 0; r < 3; r++) {
		struct mrw_nearest nearest = find(shared, 3, r, ALL_NICS);
		takes(&nearest, r < 2 ? "mlx5_3" : "mlx5_2", "one PCIe switch");
	}
}

static void what_may_not_be_taken_is_not(void **state)
{
	(void)state;
	/* mlx5_3 is no mlx5 device with an active port, as libibverbs sees it: the CPU's other one. */
	struct mrw_nearest nearest = find(gpus, 1, 0, "mlx5_0,mlx5_1,mlx5_2");
	takes(&nearest, "mlx5_2", "over ");
	/* A name is a whole name. */
	nearest = find(gpus, 1, 0, "mlx5_30,mlx5_,xmlx5_3,mlx5_1");
	takes(&nearest, "mlx5_1", "no NIC at its CPU");
	/* One for all. */
	for (uint32_t r = 0; r < 4; r++) {
		nearest = find(gpus, 4, r, "mlx5_2");
		takes(&nearest, "mlx5_2", "shared by 4 GPUs");
	}
	nearest = find(gpus, 4, 0, "");
	assert_int_equal(nearest.count, 0);
	assert_non_null(strstr(nearest.reason, "none of the NICs that may be taken"));
}

static void the_first_port_that_is_up_speaks_for_a_device(void **state)
{
	(void)state;
	port("mlx5_3", 1, "1: DOWN\n");
	port("mlx5_3", 2, "4: ACTIVE\n");
	port("mlx5_2", 2, "4: ACTIVE\n");
	struct mrw_nearest nearest = find(gpus, 2, 0, ALL_NICS);
	takes(&nearest, "mlx5_3", "one PCIe switch"); /* not mlx5_3:2 */
	assert_int_equal(nearest.count, 1);
	nearest = find(gpus, 2, 1, ALL_NICS);
	takes(&nearest, "mlx5_2", "its own");
	assert_int_equal(nearest.count, 1); /* not twice */
	port("mlx5_3", 2, "1: DOWN\n");
	nearest = find(gpus, 1, 0, ALL_NICS);
	takes(&nearest, "mlx5_2", "");
}

static void spare_nics_at_the_same_switch_are_taken_too(void **state)
{
	(void)state;
	device("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:02.0", "0x060400\n", "0x1000\n");
	nic("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:02.0/0000:05:00.0", "mlx5_9");
	struct mrw_nearest nearest = find(gpus, 1, 0, ALL_NICS ",mlx5_9");
	bool first = strcmp(nearest.name[0], "mlx5_3") == 0; /* they are equally near */
	takes(&nearest, first ? "mlx5_3" : "mlx5_9", "one PCIe switch");
	assert_int_equal(nearest.count, 2);
	assert_string_equal(nearest.name[1], first ? "mlx5_9" : "mlx5_3");
}

static void what_the_tree_does_not_tell_is_said(void **state)
{
	static const char *const strange[] = {"0000:03:00.0", "0000:44:00.0"}, *const none[] = {""};
	struct mrw_nearest nearest = find(strange, 2, 0, ALL_NICS);
	(void)state;
	assert_int_equal(nearest.count, 0); /* for every rank of the host: they must agree */
	assert_non_null(strstr(nearest.reason, "no GPU at PCI address \"0000:44:00.0\""));
	nearest = find(none, 1, 0, ALL_NICS);
	assert_int_equal(nearest.count, 0);
	mrw_nearest_find(&nearest, "/nowhere", gpus, 4, 0, ALL_NICS);
	assert_int_equal(nearest.count, 0);
	assert_true(nearest.reason[0]);
}

int main(void)
{
	/* One tree for all; the last two change it. */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_nic_at_the_same_switch),
		cmocka_unit_test(ranks_may_have_any_gpus),
		cmocka_unit_test(two_ranks_of_one_gpu_share),
		cmocka_unit_test(what_may_not_be_taken_is_not),
		cmocka_unit_test(what_the_tree_does_not_tell_is_said),
		cmocka_unit_test(spare_nics_at_the_same_switch_are_taken_too),
		cmocka_unit_test(the_first_port_that_is_up_speaks_for_a_device),
	};
	return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
