/* test_topo_path.c - what joins two devices of made-up machines, and how wide and far that is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/machines.h"

static const struct {
	const char *machine, *a, *b;
	enum mrw_path_class class;
	uint32_t hops, mb_s;
	const char *reason;
} expected[] = {
	{"dgx1-v100", "gpu0", "gpu3", MRW_PATH_NVLINK, 1, 50000, "two NVLinks of 25"},
	{"dgx1-v100", "gpu0", "gpu5", MRW_PATH_CPUS, 5, 15753, "no NVLink on the cube's diagonal: PCIe, CPU to CPU"},
	{"dgx1-v100", "gpu0", "mlx5_0", MRW_PATH_SWITCH, 2, 15753, "below one switch"},
	{"dgx1-v100", "gpu0", "mlx5_1", MRW_PATH_HOST, 4, 15753, "the other switch of that CPU"},
	{"dgx-a100", "gpu0", "gpu7", MRW_PATH_NVSWITCH, 2, 300000, "12 NVLinks of 25 over six NVSwitches"},
	{"dgx-a100", "gpu5", "mlx5_5", MRW_PATH_SWITCH, 2, 31507, "Gen4 x16"},
	{"dgx-a100", "gpu5", "mlx5_0", MRW_PATH_CPUS, 5, 31507, "another NUMA node; 32 GB/s between AMD's is assumed"},
	{"dgx-h100", "gpu0", "gpu1", MRW_PATH_NVSWITCH, 2, 450000, "18 NVLinks of 25"},
	{"dgx-h100", "gpu0", "mlx5_8", MRW_PATH_HOST, 3, 15753, "the management NIC has no switch"},
	{"hgx4-a100", "gpu1", "gpu2", MRW_PATH_NVLINK, 1, 100000, "four NVLinks of 25"},
	{"hgx4-a100", "gpu1", "mlx5_1", MRW_PATH_CPUS, 3, 31507, "the other CPU's NIC"},
	{"pcie8", "gpu0", "gpu3", MRW_PATH_SWITCH, 2, 31507, "one switch"},
	{"pcie8", "gpu0", "gpu4", MRW_PATH_CPUS, 5, 20000, "20 GB/s between the CPUs"},
	{"cloud-vm", "gpu0", "mlx5_7", MRW_PATH_HOST, 2, 0, "flat, no width known"},
	{"gb200-rack", "gpu0", "gpu71", MRW_PATH_NVSWITCH, 2, 900000, "NVLink reaches across trays"},
	{"gb200-rack", "gpu0", "c0", MRW_PATH_C2C, 1, 450000, "10 C2C of 45"},
	{"gb200-rack", "gpu0", "t0_1", MRW_PATH_HOST, 2, 3938, "by PCIe alone; the CPU's C2C is no path of a NIC"},
	{"gb200-rack", "gpu0", "t1_0", MRW_PATH_NONE, 0, 0, "a NIC of another tray's operating system"},
	{"two-islands", "gpu3", "gpu4", MRW_PATH_CPUS, 3, 31507, "no NVLink between islands"},
	{"mig", "gpu0", "gpu1", MRW_PATH_HOST, 2, 31507, "slices of one GPU meet in host memory only"},
	{"asymmetric", "gpu0", "gpu2", MRW_PATH_HOST, 3, 7876, "no NVLink; the narrow slot bounds it"},
	{"cloud-a100", "gpu0", "mlx5_0", MRW_PATH_SWITCH, 2, 31507, "GPU and NIC of one number share a switch, in NUMA node 1"},
	{"cloud-a100", "gpu0", "mlx5_2", MRW_PATH_CPUS, 5, 31507, "which is in NUMA node 0"},
	{"cloud-a100", "gpu0", "gpu7", MRW_PATH_NVSWITCH, 2, 300000, "12 NVLinks of 25 to NVSwitches that are not shown"},
	{"cloud-h100", "gpu3", "mlx5_3", MRW_PATH_SWITCH, 2, 63015, "Gen5 x16"},
	{"cloud-h100", "gpu3", "mlx5_4", MRW_PATH_CPUS, 5, 22000, "the other socket's; 22 GB/s between Intel's is assumed"},
	{"two-boards", "gpu0", "gpu7", MRW_PATH_NVSWITCH, 2, 150000, "six NVLinks of 25 within a board"},
	{"two-boards", "gpu7", "gpu8", MRW_PATH_CPUS, 5, 15753, "no NVLink between boards"},
	{"acs", "gpu0", "gpu1", MRW_PATH_HOST, 4, 31507, "ACS sends it up to the CPU and back"},
	{"acs", "gpu0", "mlx5_0", MRW_PATH_HOST, 4, 31507, "NICs too"},
};

static void paths_are_as_drawn(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
		struct mrw_topo *topo = machine_load(expected[i].machine);
		int32_t a = mrw_topo_find(topo, expected[i].a), b = mrw_topo_find(topo, expected[i].b);
		assert_true(a >= 0 && b >= 0);
		struct mrw_topo_path p = mrw_topo_path(topo, (uint32_t)a, (uint32_t)b);
		if (p.class != expected[i].class || p.hops != expected[i].hops || p.mb_s != expected[i].mb_s)
			fail_msg("%s, %s to %s: %s, %u hops, %u MB/s; it should be %s, %u, %u: %s", expected[i].machine,
				 expected[i].a, expected[i].b, mrw_path_name(p.class), p.hops, p.mb_s,
				 mrw_path_name(expected[i].class), expected[i].hops, expected[i].mb_s,
				 expected[i].reason);
		free(topo);
	}
}

static void paths_are_symmetric(void **state)
{
	(void)state;
	for (uint32_t m = 0; m < machines_count; m++) {
		struct mrw_topo *topo = machine_load(machines[m].name);
		assert_int_equal(topo->ngpus, machines[m].gpus);
		assert_int_equal(topo->nnics, machines[m].nics);
		for (uint32_t a = 0; a<topo->nnodes; a += topo->nnodes> 100 ? 7 : 1)
			for (uint32_t b = 0; b < topo->nnodes; b++) {
				struct mrw_topo_path p = mrw_topo_path(topo, a, b), q = mrw_topo_path(topo, b, a);
				assert_int_equal(p.class, q.class);
				assert_int_equal(p.hops, q.hops);
				assert_int_equal(p.mb_s, q.mb_s);
				assert_int_equal(p.class == MRW_PATH_SELF, a == b);
			}
		free(topo);
	}
}

static void what_is_unknown_is_noted(void **state)
{
	(void)state;
	static const struct {
		const char *machine, *note;
	} notes[] = {{"cloud-vm", "no PCIe switch is visible"},
		     {"cloud-vm", "the PCIe width of 16 devices is unknown"},
		     {"laptop", "no GPU"},
		     {"laptop", "no RDMA NIC"},
		     {"acs", "ACS is on at sw0"},
		     {"asymmetric", "mlx5_3 is down"},
		     {"dgx-a100", "32000 MB/s between CPUs is assumed"}};
	for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
		struct mrw_topo *topo = machine_load(notes[i].machine);
		bool found = false;
		for (uint32_t n = 0; n < topo->nnotes; n++)
			found = found || strstr(topo->notes[n], notes[i].note) != NULL;
		if (!found)
			fail_msg("%s: no note \"%s\"", notes[i].machine, notes[i].note);
		free(topo);
	}
	/* Nothing to say of a machine where all is known. */
	struct mrw_topo *topo = machine_load("single-switch");
	assert_int_equal(topo->nnotes, 0);
	free(topo);
}

static void peer_access_denied_goes_through_the_host(void **state)
{
	(void)state;
	struct mrw_topo *topo = machine_load("single-switch");
	topo->p2p[0][1] = topo->p2p[1][0] = MRW_NO;
	struct mrw_topo_path p = mrw_topo_path(topo, topo->gpus[0].node, topo->gpus[1].node);
	assert_int_equal(p.class, MRW_PATH_HOST);
	assert_true(p.redirected);
	free(topo);
}

static void kept_gpus_keep_what_is_theirs(void **state)
{
	(void)state;
	static const uint32_t some[] = {6, 2, 3}, twice[] = {1, 1}, far[] = {8};
	struct mrw_topo *topo = machine_load("dgx1-v100");
	topo->p2p[6][2] = MRW_YES;
	assert_false(mrw_topo_keep_gpus(topo, twice, 2));
	assert_false(mrw_topo_keep_gpus(topo, far, 1));
	assert_true(mrw_topo_keep_gpus(topo, some, 3));
	assert_int_equal(topo->ngpus, 3);
	assert_string_equal(topo->nodes[topo->gpus[0].node].name, "gpu6");
	assert_int_equal(topo->p2p[0][1], MRW_YES);
	assert_int_equal(topo->nlinks, 2); /* 2-3 and 2-6 */
	assert_int_equal(mrw_topo_path(topo, topo->gpus[1].node, topo->gpus[2].node).mb_s, 50000);
	assert_int_equal(mrw_topo_path(topo, topo->gpus[0].node, topo->gpus[1].node).mb_s, 25000);
	for (uint32_t i = 0; i < topo->nnodes; i++)
		assert_true(topo->nodes[i].parent < (int32_t)i);
	free(topo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_are_as_drawn),
		cmocka_unit_test(paths_are_symmetric),
		cmocka_unit_test(what_is_unknown_is_noted),
		cmocka_unit_test(peer_access_denied_goes_through_the_host),
		cmocka_unit_test(kept_gpus_keep_what_is_theirs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
