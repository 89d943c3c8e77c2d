/* test_topo_discover.c - discovery on made-up sysfs trees and a made-up NVML, on nothing at all, and on whatever this machine is.
 * Arguments:
 * the fake NVML, the fake CUDA. */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "topo/discover.h"

static char root[64];
static const char *fake_nvml, *fake_cuda;

static void make_dirs(const char *path)
{
	char name[512];
	snprintf(name, sizeof name, "%s/%s", root, path);
	for (char *at = name + strlen(root) + 1;; at++) {
		if (*at != '/' && *at != '\0')
			continue;
		char was = *at;
		*at = '\0';
		assert_true(mkdir(name, 0755) == 0 || errno == EEXIST);
		*at = was;
		if (was == '\0')
			break;
	}
}

static void put_bytes(const char *dir, const char *file, const void *bytes, size_t nbytes)
{
	char name[512];
	make_dirs(dir);
	snprintf(name, sizeof name, "%s/%s/%s", root, dir, file);
	FILE *f = fopen(name, "wb");
	assert_non_null(f);
	fwrite(bytes, 1, nbytes, f);
	fclose(f);
}

static void put(const char *dir, const char *file, const char *text)
{
	put_bytes(dir, file, text, strlen(text));
}

static void link_to(const char *from_dir, const char *name, const char *target)
{
	char from[512], to[512];
	make_dirs(from_dir);
	snprintf(from, sizeof from, "%s/%s/%s", root, from_dir, name);
	snprintf(to, sizeof to, "%s/%s", root, target);
	assert_int_equal(symlink(to, from), 0);
}

/* A device at a path below devices/, with its link in bus/pci/devices. acs: 0 not readable, 1 off, 2 on. */
static void device(const char *path, const char *class, const char *vendor, const char *speed, const char *width,
		   int acs)
{
	char dir[400];
	snprintf(dir, sizeof dir, "devices/%s", path);
	put(dir, "class", class);
	put(dir, "vendor", vendor);
	put(dir, "max_link_speed", speed);
	put(dir, "current_link_width", width);
	put(dir, "max_link_width", "16\n");
	put(dir, "numa_node", "1\n");
	if (acs > 0) {
		unsigned char config[4096] = {0};
		/* An advanced error reporting capability, then ACS. */
		config[0x100] = 0x01;
		config[0x102] = 0x01;
		config[0x103] = 0x20;
		config[0x200] = 0x0d;
		config[0x202] = 0x01;
		config[0x206] = acs == 2 ? 0x1d : 0x00;
		put_bytes(dir, "config", config, sizeof config);
	}
	link_to("bus/pci/devices", strrchr(path, '/') + 1, dir);
}

static void nic(const char *bus, const char *name, int ports)
{
	char dir[400];
	snprintf(dir, sizeof dir, "bus/pci/devices/%s/infiniband/%s", bus, name);
	make_dirs(dir);
	for (int p = 1; p <= ports; p++) {
		snprintf(dir, sizeof dir, "class/infiniband/%s/ports/%d", name, p);
		put(dir, "rate", "400 Gb/sec (4X NDR)\n");
		put(dir, "state", p == 1 ? "4: ACTIVE\n" : "1: DOWN\n");
		put(dir, "link_layer", "InfiniBand\n");
		snprintf(dir, sizeof dir, "class/infiniband/%s/ports/%d/gids", name, p);
		put(dir, "0", "fe80:0000:0000:0000:0000:0000:0000:0001\n");
	}
}

#define RP "pci0000:00/0000:00:01.0"
#define UP RP "/0000:01:00.0"

/* Two NUMA nodes; on the second a root port with a switch: GPU, GPU, NIC of two ports each at a port of it; a GPU at a port of its
 * own. */
static int make_tree(void **state, int acs)
{
	(void)state;
	snprintf(root, sizeof root, "/tmp/marrow-topo-XXXXXX");
	assert_non_null(mkdtemp(root));
	put("devices/system/node/node0", "cpulist", "0-3,8-11\n");
	put("devices/system/node/node1", "cpulist", "4-7\n");
	device(RP, "0x060400\n", "0x8086\n", "32.0 GT/s PCIe\n", "16\n", 1);
	device(UP, "0x060400\n", "0x1000\n", "32.0 GT/s PCIe\n", "16\n", 1);
	device(UP "/0000:02:00.0", "0x060400\n", "0x1000\n", "32.0 GT/s PCIe\n", "16\n", acs);
	device(UP "/0000:02:01.0", "0x060400\n", "0x1000\n", "32.0 GT/s PCIe\n", "16\n", acs);
	device(UP "/0000:02:02.0", "0x060400\n", "0x1000\n", "32.0 GT/s PCIe\n", "16\n", acs);
	device(UP "/0000:02:00.0/0000:03:00.0", "0x030200\n", "0x10de\n", "32.0 GT/s PCIe\n", "16\n", 0);
	device(UP "/0000:02:01.0/0000:04:00.0", "0x030200\n", "0x10de\n", "32.0 GT/s PCIe\n", "8\n", 0);
	device(UP "/0000:02:02.0/0000:05:00.0", "0x020700\n", "0x15b3\n", "32.0 GT/s PCIe\n", "16\n", 0);
	device(RP "/0000:06:00.0", "0x010802\n", "0x144d\n", "16.0 GT/s PCIe\n", "4\n", 0);
	device("pci0000:10/0000:10:01.0", "0x060400\n", "0x8086\n", "16.0 GT/s PCIe\n", "16\n", 1);
	device("pci0000:10/0000:10:01.0/0000:13:00.0", "0x030200\n", "0x10de\n", "32.0 GT/s PCIe\n", "16\n", 0);
	nic("0000:05:00.0", "mlx5_0", 2);
	put("bus/pci/devices/0000:03:00.0", "resource",
	    "0x0000000090000000 0x0000000090ffffff 0x0000000000040200\n0x0000004000000000 0x0000005fffffffff 0x000000000014220c\n");
	make_dirs("kernel/iommu_groups/17");
	link_to("bus/pci/devices/0000:03:00.0", "iommu_group", "kernel/iommu_groups/17");
	return 0;
}

static int make_plain(void **state)
{
	return make_tree(state, 1);
}

static int make_acs(void **state)
{
	return make_tree(state, 2);
}

static int make_unreadable(void **state)
{
	return make_tree(state, 0);
}

static int remove_tree(void **state)
{
	char command[100];
	(void)state;
	snprintf(command, sizeof command, "rm -rf %s", root);
	return system(command);
}

static struct mrw_topo *discover(void)
{
	struct mrw_topo *topo = malloc(sizeof *topo);
	struct mrw_topo_error error;
	if (!mrw_topo_discover(topo, root, &error))
		fail_msg("%s", error.text);
	return topo;
}

static struct mrw_topo_path path(const struct mrw_topo *topo, const char *a, const char *b)
{
	int32_t one = mrw_topo_find(topo, a), two = mrw_topo_find(topo, b);
	assert_true(one >= 0 && two >= 0);
	return mrw_topo_path(topo, (uint32_t)one, (uint32_t)two);
}

static bool noted(const struct mrw_topo *topo, const char *text)
{
	for (uint32_t i = 0; i < topo->nnotes; i++)
		if (strstr(topo->notes[i], text) != NULL)
			return true;
	return false;
}

static void sysfs_is_understood(void **state)
{
	(void)state;
	struct mrw_topo *topo = discover();
	assert_int_equal(topo->ncpus, 2);
	assert_int_equal(topo->cpus[0].cores[0], 0xf0f);
	assert_int_equal(topo->ngpus, 3);
	/* The switch alone is left: its ports and the root ports say nothing. */
	assert_int_equal(topo->nbridges, 1);
	assert_string_equal(topo->nodes[topo->bridges[0].node].bus, "0000:01:00.0");
	assert_int_equal(topo->bridges[0].acs, MRW_NO);
	struct mrw_topo_path p = path(topo, "0000:03:00.0", "mlx5_0");
	assert_int_equal(p.class, MRW_PATH_SWITCH);
	assert_int_equal(p.mb_s, 63015);
	assert_int_equal(path(topo, "0000:04:00.0", "mlx5_0").mb_s, 31507); /* x8 */
	p = path(topo, "0000:13:00.0", "mlx5_0");
	assert_int_equal(p.class, MRW_PATH_HOST);
	assert_int_equal(p.mb_s, 31507); /* the root port is Gen4 */
	assert_int_equal(topo->nnics, 2);
	assert_string_equal(topo->nodes[topo->nics[1].node].name, "mlx5_0:2");
	assert_int_equal(topo->nics[0].rate_mb_s, 50000);
	assert_int_equal(topo->nics[0].up, MRW_YES);
	assert_int_equal(topo->nics[1].up, MRW_NO);
	assert_int_equal(topo->nics[0].layer, MRW_LAYER_INFINIBAND);
	assert_string_equal(topo->nics[0].gid, "fe80:0000:0000:0000:0000:0000:0000:0001");
	assert_int_equal(topo->gpus[0].bar1_bytes, 1ull << 37);
	assert_int_equal(topo->gpus[0].iommu_group, 17);
	assert_int_equal(topo->gpus[1].iommu_group, -1);
	free(topo);
}

static void acs_is_found(void **state)
{
	(void)state;
	struct mrw_topo *topo = discover();
	struct mrw_topo_path p = path(topo, "0000:03:00.0", "mlx5_0");
	assert_int_equal(p.class, MRW_PATH_HOST);
	assert_true(p.redirected);
	assert_true(noted(topo, "ACS is on at 0000:01:00.0"));
	free(topo);
}

static void unreadable_acs_is_unknown(void **state)
{
	(void)state;
	/* The upstream port's is readable here, and says no; its ports' are not. */
	struct mrw_topo *topo = discover();
	assert_true(noted(topo, "ACS"));
	free(topo);
}

static void nvml_adds_what_it_knows(void **state)
{
	(void)state;
	struct mrw_topo *topo = discover();
	struct mrw_topo_error error;
	if (!mrw_topo_find_nvml(topo, fake_nvml, &error) || !mrw_topo_finish(topo, &error))
		fail_msg("%s", error.text);
	assert_int_equal(topo->ngpus, 5); /* three in the tree, one elsewhere in two slices */
	assert_string_equal(topo->gpus[0].uuid, "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
	assert_int_equal(topo->gpus[0].sm, 90);
	assert_int_equal(topo->nnvswitches, 1);
	struct mrw_topo_path p = path(topo, "0000:03:00.0", "0000:13:00.0");
	assert_int_equal(p.class, MRW_PATH_NVSWITCH);
	assert_int_equal(p.mb_s, 450000);
	assert_int_equal(topo->p2p[0][1], MRW_YES);
	assert_int_equal(topo->p2p_atomics[0][1], MRW_NO);
	assert_int_equal(topo->gpus[3].mig, 0);
	assert_int_equal(topo->gpus[4].mig, 1);
	assert_string_equal(topo->gpus[3].uuid, "MIG-80818283-8485-8687-8889-8a8b8c8d8e8f");
	assert_string_equal(topo->gpus[4].uuid, "MIG-90919293-9495-9697-9899-9a9b9c9d9e9f");
	p = path(topo, "gpu3", "gpu3.mig1");
	assert_true(p.redirected);
	free(topo);
}

/* Sets an int of a library that is opened again by the same path: it is the same one as long as this is not closed. */
static void *set_fake(const char *library, const char *name, int value)
{
	void *opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(opened);
	int *variable = dlsym(opened, name);
	assert_non_null(variable);
	*variable = value;
	return opened;
}

static void unset_fake(void *opened, const char *name)
{
	int *variable = dlsym(opened, name);
	assert_non_null(variable);
	*variable = 0;
	dlclose(opened);
}

static struct mrw_topo *discover_with_nvml(int made_up)
{
	struct mrw_topo *topo = discover();
	struct mrw_topo_error error;
	void *opened = set_fake(fake_nvml, "fake_nvml_machine", made_up);
	bool good = mrw_topo_find_nvml(topo, fake_nvml, &error) && mrw_topo_finish(topo, &error);
	unset_fake(opened, "fake_nvml_machine");
	if (!good)
		fail_msg("%s", error.text);
	return topo;
}

static void nvswitches_with_an_address_are_told_apart(void **state)
{
	(void)state;
	struct mrw_topo *topo = discover_with_nvml(1);
	assert_int_equal(topo->nnvswitches, 2);
	assert_int_equal(topo->nlinks, 6);
	assert_int_equal(topo->links_known, MRW_YES);
	int32_t first = mrw_topo_find(topo, "0000:b1:00.0"), second = mrw_topo_find(topo, "0000:b2:00.0");
	assert_true(first >= 0 && second >= 0);
	assert_int_equal(topo->nodes[first].kind, MRW_TOPO_NVSWITCH);
	assert_int_equal(topo->nodes[second].kind, MRW_TOPO_NVSWITCH);
	for (uint32_t l = 0; l < topo->nlinks; l++) {
		const struct mrw_topo_link *link = &topo->links[l];
		uint32_t nvswitch = topo->nodes[link->a].kind == MRW_TOPO_NVSWITCH ? link->a : link->b, gpu = link->a + link->b - nvswitch;
		/* Two of GPU 2's eight to the second are down. */
		assert_int_equal(link->lanes, nvswitch == (uint32_t)first ? 10 : topo->nodes[gpu].index == 2 ? 6 : 8);
		assert_int_equal(link->lane_mb_s, 25000);
	}
	struct mrw_topo_path p = path(topo, "0000:03:00.0", "0000:04:00.0");
	assert_int_equal(p.class, MRW_PATH_NVSWITCH);
	assert_int_equal(p.mb_s, 18 * 25000);
	assert_int_equal(path(topo, "0000:03:00.0", "0000:13:00.0").mb_s, 16 * 25000);
	free(topo);
}

static void nvlinks_between_gpus_are_counted_once(void **state)
{
	(void)state;
	struct mrw_topo *topo = discover_with_nvml(2);
	static const struct {
		const char *a, *b;
		uint32_t lanes;
	} pairs[] = {{"0000:03:00.0", "0000:04:00.0", 4}, {"0000:03:00.0", "0000:13:00.0", 2}, {"0000:04:00.0", "0000:13:00.0", 3}};
	assert_int_equal(topo->nnvswitches, 0);
	/* Neither the GPU that is not shown, nor what is no GPU, nor the one in slices, which cannot use its link. */
	assert_int_equal(topo->nlinks, 3);
	assert_int_equal(topo->ngpus, 5);
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		struct mrw_topo_path p = path(topo, pairs[i].a, pairs[i].b);
		assert_int_equal(p.class, MRW_PATH_NVLINK);
		assert_int_equal(p.mb_s, pairs[i].lanes * 25000);
	}
	free(topo);
}

/* Slices of one GPU have one address: only their UUIDs tell which of them CUDA shows. */
static void cuda_is_matched_by_uuid(void **state)
{
	(void)state;
	struct mrw_topo *topo = discover();
	struct mrw_topo_error error;
	void *opened = set_fake(fake_cuda, "fake_cuda_slice", 1);
	bool good = mrw_topo_find_nvml(topo, fake_nvml, &error) && mrw_topo_find_cuda(topo, fake_cuda, &error) && mrw_topo_finish(topo, &error);
	unset_fake(opened, "fake_cuda_slice");
	if (!good)
		fail_msg("%s", error.text);
	assert_int_equal(topo->ngpus, 5);
	assert_int_equal(topo->gpus[0].cuda, 1);
	assert_int_equal(topo->gpus[3].cuda, -1);
	assert_int_equal(topo->gpus[4].cuda, 0);
	assert_int_equal(topo->gpus[4].mig, 1);
	assert_true(noted(topo, "CUDA shows this process 2 of 5 GPUs"));
	free(topo);
}

static void cuda_says_what_is_visible(void **state)
{
	(void)state;
	struct mrw_topo *topo = discover();
	struct mrw_topo_error error;
	if (!mrw_topo_find_cuda(topo, fake_cuda, &error) || !mrw_topo_finish(topo, &error))
		fail_msg("%s", error.text);
	assert_int_equal(topo->ngpus, 3);
	assert_int_equal(topo->gpus[0].cuda, 1);
	assert_int_equal(topo->gpus[1].cuda, -1);
	assert_int_equal(topo->gpus[2].cuda, 0);
	assert_int_equal(topo->gpus[2].sm, 90);
	assert_int_equal(topo->p2p[0][2], MRW_YES);
	assert_int_equal(topo->p2p_atomics[0][2], MRW_NO);
	assert_int_equal(topo->p2p[0][1], MRW_UNKNOWN);
	assert_true(noted(topo, "CUDA shows this process 2 of 3 GPUs"));
	free(topo);
}

/* What firmware says of itself, by the maker's or the cloud's own words. */
static void virtual_machines_are_known_by_their_firmware(void **state)
{
	(void)state;
	static const struct {
		const char *vendor, *product, *hypervisor; /* NULL: no such file */
		bool is_virtual;
	} machine[] = {
		{NULL, NULL, NULL, false},
		{"QEMU\n", "Standard PC (Q35 + ICH9, 2009)\n", NULL, true},
		{"Red Hat\n", "KVM\n", NULL, true},
		{"Microsoft Corporation\n", "Virtual Machine\n", NULL, true},
		{"Microsoft Corporation\n", "C2030\n", NULL, false},
		{"Amazon EC2\n", "p5.48xlarge\n", NULL, true},
		{"Amazon EC2\n", "g4dn.metal\n", NULL, false}, /* no hypervisor, the same vendor */
		{"Google\n", "Google Compute Engine\n", NULL, true},
		{NULL, "VMware Virtual Platform\n", NULL, true},
		{"innotek GmbH\n", "VirtualBox\n", NULL, true},
		{"OpenStack Foundation\n", "OpenStack Nova\n", NULL, true},
		{"Supermicro\n", "SYS-821GE-TNHR\n", NULL, false},
		{"Supermicro\n", "SYS-821GE-TNHR\n", "xen\n", true},
		{NULL, NULL, "xen\n", true},
	};
	for (size_t i = 0; i < sizeof machine / sizeof *machine; i++) {
		make_plain(NULL);
		if (machine[i].vendor != NULL)
			put("class/dmi/id", "sys_vendor", machine[i].vendor);
		if (machine[i].product != NULL)
			put("class/dmi/id", "product_name", machine[i].product);
		if (machine[i].hypervisor != NULL)
			put("hypervisor", "type", machine[i].hypervisor);
		struct mrw_topo *topo = discover();
		/* What a bare machine's firmware does not say is no proof of a bare machine. */
		if (topo->virtual_machine != (machine[i].is_virtual ? MRW_YES : MRW_UNKNOWN) ||
		    noted(topo, "this is a virtual machine") != machine[i].is_virtual)
			fail_msg("vendor %s, product %s, hypervisor %s: virtual_machine is %d", machine[i].vendor, machine[i].product,
				 machine[i].hypervisor, topo->virtual_machine);
		free(topo);
		assert_int_equal(remove_tree(NULL), 0);
	}
}

static void nothing_is_a_machine_too(void **state)
{
	(void)state;
	struct mrw_topo *topo = malloc(sizeof *topo);
	struct mrw_topo_error error;
	assert_true(mrw_topo_discover(topo, "/nowhere", &error));
	assert_int_equal(topo->ngpus, 0);
	assert_int_equal(topo->ncpus, 1);
	assert_true(noted(topo, "the PCI tree is unknown"));
	/* No library, no harm. */
	assert_true(mrw_topo_find_nvml(topo, "/nowhere/libnvidia-ml.so.1", &error));
	assert_true(mrw_topo_find_cuda(topo, "/nowhere/libcuda.so.1", &error));
	free(topo);
}

static void this_machine_is_some_machine(void **state)
{
	(void)state;
	struct mrw_topo *topo = malloc(sizeof *topo), *again = malloc(sizeof *again);
	struct mrw_topo_error error;
	char *text = NULL;
	size_t nbytes;
	if (!mrw_topo_discover(topo, NULL, &error))
		fail_msg("%s", error.text);
	assert_true(topo->ncpus > 0);
	FILE *file = open_memstream(&text, &nbytes);
	assert_true(mrw_topo_write_text(topo, file));
	fclose(file);
	if (!mrw_topo_parse(again, text, nbytes, &error))
		fail_msg("line %u: %s\n%s", error.line, error.text, text);
	assert_int_equal(again->nnodes, topo->nnodes);
	free(text);
	free(topo);
	free(again);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(sysfs_is_understood, make_plain, remove_tree),
		cmocka_unit_test_setup_teardown(acs_is_found, make_acs, remove_tree),
		cmocka_unit_test_setup_teardown(unreadable_acs_is_unknown, make_unreadable, remove_tree),
		cmocka_unit_test_setup_teardown(nvml_adds_what_it_knows, make_plain, remove_tree),
		cmocka_unit_test_setup_teardown(nvswitches_with_an_address_are_told_apart, make_plain, remove_tree),
		cmocka_unit_test_setup_teardown(nvlinks_between_gpus_are_counted_once, make_plain, remove_tree),
		cmocka_unit_test_setup_teardown(cuda_is_matched_by_uuid, make_plain, remove_tree),
		cmocka_unit_test_setup_teardown(cuda_says_what_is_visible, make_plain, remove_tree),
		cmocka_unit_test(virtual_machines_are_known_by_their_firmware),
		cmocka_unit_test(nothing_is_a_machine_too),
		cmocka_unit_test(this_machine_is_some_machine),
	};
	if (argc != 3)
		return 1;
	fake_nvml = argv[1];
	fake_cuda = argv[2];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
