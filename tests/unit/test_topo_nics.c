/* test_topo_nics.c - which GPU uses which NIC on made-up machines, and why; rails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/machines.h"

/* For each GPU by its CUDA number the NIC's number, "-": none; a second row for second NICs. */
static const struct {
	const char *machine, *first, *second;
	uint32_t rails;
	const char *reason;
} expected[] = {
	{"dgx1-v100", "00112233", "", 4, "two GPUs at a switch share its NIC"},
	{"dgx-a100", "01234567", "", 8, "two and two at a switch: each its own, in order"},
	{"dgx-h100", "01234567", "", 8, "each its own; the slow NIC has no part"},
	{"dgx-h200", "76543210", "", 8, "by place, not by number: GPU 0 sits at the last switch"},
	{"hgx4-a100", "0011", "", 2, "a NIC a CPU, for two GPUs each"},
	{"pcie8", "00001111", "", 2, "four GPUs share their switch's NIC"},
	{"single-switch", "0000", "", 1, "one NIC for all"},
	{"cloud-vm", "01234567", "", 8, "all look equally near: dealt out in order"},
	{"two-islands", "00001111", "", 2, "4 + 4 with one NIC each"},
	{"bridged-pairs", "0000", "", 1, "one NIC for all"},
	{"mig", "000000", "", 1, "slices use the NIC as whole GPUs do"},
	{"asymmetric", "0012", "", 3,
	 "GPU 2 has 7.9 GB/s: the slow NIC serves it as well; the port that is down has no part"},
	{"acs", "00112233", "", 4, "four hops to each NIC of one's own switch, four to others: in order"},
	{"four-by-eight", "0246", "1357", 8, "two NICs for each GPU"},
	{"cloud-a100", "23016745", "", 8, "each its own, that of its number: the third in the tree is GPU 0's, since NUMA node 1 has GPUs 0 and 1"},
	{"cloud-h100", "01234567", "", 8, "a NIC at each GPU's own switch"},
	{"two-boards", "0011223344556677", "", 8, "two GPUs at a switch share its NIC"},
	{"two-boards-wide", "0011223344556677", "", 8, "two GPUs at a switch share its NIC"},
	{"laptop", "", "", 0, "nobody"},
};

static void pairs_are_as_expected(void **state)
{
	(void)state;
	struct mrw_topo_pairing *p = malloc(sizeof *p);
	for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
		struct mrw_topo *topo = machine_load(expected[i].machine);
		struct mrw_topo_rails rails;
		char first[MRW_TOPO_GPUS + 1] = "", second[MRW_TOPO_GPUS + 1] = "";
		mrw_topo_pair_nics(topo, p);
		for (uint32_t k = 0; k < p->npairs; k++) {
			bool again = k > 0 && p->pairs[k - 1].gpu == p->pairs[k].gpu;
			int32_t number = topo->gpus[p->pairs[k].gpu].cuda;
			if (number < 0)
				number = p->pairs[k].gpu;
			(again ? second : first)[number] = (char)('0' + p->pairs[k].nic);
			assert_true(strlen(p->pairs[k].reason) > 10);
		}
		if (strcmp(first, expected[i].first) != 0 || strcmp(second, expected[i].second) != 0)
			fail_msg("%s: %s %s; it should be %s %s: %s", expected[i].machine, first, second,
				 expected[i].first, expected[i].second, expected[i].reason);
		mrw_topo_rails(topo, p, &rails);
		assert_int_equal(rails.nrails, expected[i].rails);
		for (uint32_t g = 0; g < topo->ngpus; g++)
			assert_true(rails.rail_of_gpu[g] < rails.nrails);
		free(topo);
	}
	free(p);
}

static void every_gpu_of_a_rack_has_its_own(void **state)
{
	(void)state;
	struct mrw_topo *topo = machine_load("gb200-rack");
	struct mrw_topo_pairing *p = malloc(sizeof *p);
	struct mrw_topo_rails rails;
	mrw_topo_pair_nics(topo, p);
	assert_int_equal(p->npairs, 72);
	for (uint32_t k = 0; k < 72; k++) {
		assert_int_equal(p->pairs[k].gpu, k);
		assert_int_equal(p->pairs[k].nic, k);
		assert_int_equal(p->pairs[k].sharers, 1);
		assert_int_equal(p->pairs[k].path.class, MRW_PATH_HOST);
	}
	mrw_topo_rails(topo, p, &rails);
	assert_int_equal(rails.nrails, 72);
	free(p);
	free(topo);
}

static void parse(struct mrw_topo *topo, const char *text)
{
	struct mrw_topo_error error;
	if (!mrw_topo_parse(topo, text, strlen(text), &error))
		fail_msg("line %u: %s", error.line, error.text);
}

static void an_idle_nic_beats_a_near_one(void **state)
{
	(void)state;
	struct mrw_topo *topo = malloc(sizeof *topo);
	struct mrw_topo_pairing *p = malloc(sizeof *p);
	static const char text[] =
		"marrow-topo 1\nmachine links=no\ncpu c numa=0\nbridge a in=c mb_s=31507\nbridge b in=c mb_s=31507\n"
		"gpu g0 in=a bus=01:00.0 mb_s=31507\ngpu g1 in=a bus=02:00.0 mb_s=31507\n"
		"nic n0 in=a mb_s=31507 rate=25000\nnic n1 in=b mb_s=31507 rate=25000\n";
	parse(topo, text);
	mrw_topo_pair_nics(topo, p);
	assert_int_equal(p->npairs, 2);
	assert_int_equal(p->pairs[0].nic, 0);
	assert_int_equal(p->pairs[1].nic, 1);
	assert_non_null(strstr(p->pairs[1].reason, "n0 is nearer but would give less"));
	free(p);
	free(topo);
}

static void gpus_without_a_near_nic_share_fairly(void **state)
{
	(void)state;
	static const char text[] =
		"marrow-topo 1\nmachine between_cpus=20000 links=no\ncpu a numa=0\ncpu b numa=1\n"
		"gpu g0 in=b mb_s=31507\ngpu g1 in=b mb_s=31507\ngpu g2 in=b mb_s=31507\ngpu g3 in=b mb_s=31507\n"
		"nic n0 in=a mb_s=31507 rate=25000\nnic n1 in=a mb_s=31507 rate=25000\n";
	struct mrw_topo *topo = malloc(sizeof *topo);
	struct mrw_topo_pairing *p = malloc(sizeof *p);
	parse(topo, text);
	mrw_topo_pair_nics(topo, p);
	assert_int_equal(p->npairs, 4);
	for (uint32_t k = 0; k < 4; k++) {
		assert_int_equal(p->pairs[k].nic, k / 2);
		assert_int_equal(p->pairs[k].sharers, 2);
		assert_int_equal(p->pairs[k].path.class, MRW_PATH_CPUS);
		assert_non_null(strstr(p->pairs[k].reason, "no NIC at its CPU"));
	}
	free(p);
	free(topo);
}

static void hosts_with_fewer_rails_use_each_more(void **state)
{
	(void)state;
	static const uint32_t hosts[] = {8, 2, 4};
	uint32_t used[3][8] = {{0}}, rails = mrw_topo_common_rails(hosts, 3);
	assert_int_equal(rails, 8);
	for (uint32_t r = 0; r < rails; r++)
		for (uint32_t h = 0; h < 3; h++)
			used[h][mrw_topo_local_rail(hosts[h], r)]++;
	for (uint32_t h = 0; h < 3; h++)
		for (uint32_t r = 0; r < hosts[h]; r++)
			assert_int_equal(used[h][r], 8 / hosts[h]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pairs_are_as_expected),
		cmocka_unit_test(every_gpu_of_a_rack_has_its_own),
		cmocka_unit_test(an_idle_nic_beats_a_near_one),
		cmocka_unit_test(gpus_without_a_near_nic_share_fairly),
		cmocka_unit_test(hosts_with_fewer_rails_use_each_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
