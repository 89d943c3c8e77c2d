/* test_topo_rings.c - rings pass every GPU once, together stay within every link, and reach what the machine can. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/machines.h"

static void check_orders(const struct mrw_topo *topo, const struct mrw_topo_rings *rings)
{
	uint32_t total = 0;
	for (uint32_t r = 0; r < rings->nrings; r++) {
		bool seen[MRW_TOPO_GPUS] = {false};
		for (uint32_t i = 0; i < rings->ngpus; i++) {
			assert_true(rings->rings[r].order[i] < topo->ngpus);
			assert_false(seen[rings->rings[r].order[i]]);
			seen[rings->rings[r].order[i]] = true;
		}
		total += rings->rings[r].mb_s;
	}
	assert_int_equal(total, rings->mb_s);
}

static uint64_t to_switches(const struct mrw_topo *topo, uint32_t gpu)
{
	uint64_t mb_s = 0;
	for (uint32_t l = 0; l < topo->nlinks; l++) {
		const struct mrw_topo_link *link = &topo->links[l];
		uint32_t node = topo->gpus[gpu].node, other = link->a == node ? link->b : link->a;
		if ((link->a == node || link->b == node) && topo->nodes[other].kind == MRW_TOPO_NVSWITCH)
			mb_s += (uint64_t)link->lanes * link->lane_mb_s;
	}
	return mb_s;
}

/* Load of every NVLink and every PCIe link, each direction, written without the library's own search: no link beyond its width. */
static void check_loads(const char *name, const struct mrw_topo *topo, const struct mrw_topo_rings *rings)
{
	static uint64_t direct[MRW_TOPO_GPUS][MRW_TOPO_GPUS], out[MRW_TOPO_GPUS], in[MRW_TOPO_GPUS], up[MRW_TOPO_NODES],
		down[MRW_TOPO_NODES];
	memset(direct, 0, sizeof direct);
	memset(out, 0, sizeof out);
	memset(in, 0, sizeof in);
	memset(up, 0, sizeof up);
	memset(down, 0, sizeof down);
	for (uint32_t r = 0; r < rings->nrings; r++)
		for (uint32_t i = 0; i < rings->ngpus; i++) {
			uint32_t a = rings->rings[r].order[i], b = rings->rings[r].order[(i + 1) % rings->ngpus];
			struct mrw_topo_path p = mrw_topo_path(topo, topo->gpus[a].node, topo->gpus[b].node);
			assert_true(p.class <= rings->rings[r].worst);
			if (p.class == MRW_PATH_NVLINK) {
				direct[a][b] += rings->rings[r].mb_s;
				if (direct[a][b] > p.mb_s)
					fail_msg("%s: NVLink %u to %u overloaded: %llu", name, a, b,
						 (unsigned long long)direct[a][b]);
				continue;
			}
			if (p.class == MRW_PATH_NVSWITCH) {
				out[a] += rings->rings[r].mb_s;
				in[b] += rings->rings[r].mb_s;
				assert_true(out[a] <= to_switches(topo, a) && in[b] <= to_switches(topo, b));
				continue;
			}
			/* Every node above one but not above both, or all up to the CPU where it is sent there. */
			for (int32_t n = topo->gpus[a].node; n >= 0; n = topo->nodes[n].parent) {
				bool common = false;
				for (int32_t k = topo->gpus[b].node; k >= 0; k = topo->nodes[k].parent)
					common = common || k == n;
				if (!common || (p.redirected && topo->nodes[n].kind != MRW_TOPO_CPU))
					up[n] += rings->rings[r].mb_s;
			}
			for (int32_t n = topo->gpus[b].node; n >= 0; n = topo->nodes[n].parent) {
				bool common = false;
				for (int32_t k = topo->gpus[a].node; k >= 0; k = topo->nodes[k].parent)
					common = common || k == n;
				if (!common || (p.redirected && topo->nodes[n].kind != MRW_TOPO_CPU))
					down[n] += rings->rings[r].mb_s;
			}
		}
	for (uint32_t n = 0; n < topo->nnodes; n++) {
		uint64_t sum_up = 0, sum_down = 0, width = topo->nodes[n].up_mb_s;
		if (topo->nodes[n].kind == MRW_TOPO_CPU)
			width = topo->between_cpus_mb_s;
		/* Slices of a GPU have one link. */
		for (uint32_t k = 0; k < topo->nnodes; k++)
			if (k == n ||
			    (topo->nodes[n].bus[0] != '\0' && strcmp(topo->nodes[k].bus, topo->nodes[n].bus) == 0)) {
				sum_up += up[k];
				sum_down += down[k];
			}
		if (width != 0 && (sum_up > width || sum_down > width))
			fail_msg("%s: the link of %s overloaded: %llu up, %llu down", name, topo->nodes[n].name,
				 (unsigned long long)sum_up, (unsigned long long)sum_down);
	}
}

static void rings_reach_the_optimum(void **state)
{
	(void)state;
	struct mrw_topo_rings *rings = malloc(sizeof *rings);
	for (uint32_t m = 0; m < machines_count; m++) {
		struct mrw_topo *topo = machine_load(machines[m].name);
		mrw_topo_find_rings(topo, rings);
		check_orders(topo, rings);
		check_loads(machines[m].name, topo, rings);
		/* Widths are whole MB/s: a ring may lose a part of one. */
		if (rings->mb_s > machines[m].ring_mb_s || rings->mb_s + rings->nrings < machines[m].ring_mb_s)
			fail_msg("%s: %u rings of %u MB/s in all; it should be %u: %s", machines[m].name, rings->nrings,
				 rings->mb_s, machines[m].ring_mb_s, machines[m].ring_reason);
		if (rings->nrings > 0 && !rings->best)
			fail_msg("%s: not known to be the best", machines[m].name);
		free(topo);
	}
	free(rings);
}

static void the_cube_has_three_cycles(void **state)
{
	(void)state;
	struct mrw_topo *topo = machine_load("dgx1-v100");
	struct mrw_topo_rings *rings = malloc(sizeof *rings);
	mrw_topo_find_rings(topo, rings);
	assert_int_equal(rings->nrings, 6); /* both ways round */
	for (uint32_t r = 0; r < 6; r++) {
		assert_int_equal(rings->rings[r].mb_s, 25000);
		assert_int_equal(rings->rings[r].worst, MRW_PATH_NVLINK);
	}
	free(rings);
	free(topo);
}

/* The clouds' machines, as their recorded files show them too, where NVLinks are not on record, and with those stated beside. */
static void rings_of_clouds_go_by_place(void **state)
{
	(void)state;
	static const struct {
		const char *machine;
		uint32_t nrings, mb_s, pcie_mb_s;
		const char *reason, *pcie_reason;
	} clouds[] = {
		{"cloud-a100", 2, 150000, 31507, "both ways round, half of twelve NVLinks each", "PCIe 4.0 x16 is less than 32 GB/s between AMD's NUMA nodes"},
		{"cloud-h100", 2, 225000, 22000, "both ways round, half of eighteen NVLinks each", "22 GB/s between Intel's sockets are assumed"},
	};
	struct mrw_topo_rings *rings = malloc(sizeof *rings);
	for (size_t i = 0; i < sizeof clouds / sizeof *clouds; i++) {
		struct mrw_topo *topo = machine_load(clouds[i].machine);
		mrw_topo_find_rings(topo, rings);
		if (rings->nrings != clouds[i].nrings || rings->rings[0].mb_s != clouds[i].mb_s)
			fail_msg("%s: %u rings, the first of %u MB/s; it should be %u of %u: %s", clouds[i].machine, rings->nrings,
				 rings->rings[0].mb_s, clouds[i].nrings, clouds[i].mb_s, clouds[i].reason);
		/* In the order of the tree: neighbours share a NUMA node as long as there are any. */
		for (uint8_t g = 0; g < 8; g++) {
			assert_int_equal(rings->rings[0].order[g], g);
			assert_int_equal(rings->rings[1].order[g], (8 - g) % 8);
		}
		topo->nlinks = 0;
		mrw_topo_find_rings(topo, rings);
		check_orders(topo, rings);
		check_loads(clouds[i].machine, topo, rings);
		if (rings->nrings != 1 || rings->mb_s != clouds[i].pcie_mb_s || !rings->best)
			fail_msg("%s without NVLinks: %u rings of %u MB/s; it should be one of %u: %s", clouds[i].machine, rings->nrings,
				 rings->mb_s, clouds[i].pcie_mb_s, clouds[i].pcie_reason);
		for (uint8_t g = 0; g < 8; g++)
			assert_int_equal(rings->rings[0].order[g], g);
		free(topo);
	}
	free(rings);
}

/* Boards whose GPUs NVSwitches join, and only PCIe among them: rings leave a board by as many switches as it takes, and come back by others.
 * GPUs two and two at a switch of 15753 MB/s. */
static void boards_are_left_at_several_places(void **state)
{
	(void)state;
	static const struct {
		uint32_t boards, gpus, cpus, between_mb_s, most_rings, mb_s;
		const char *reason;
	} sets[] = {
		{2, 8, 1, 22000, 2, 22000, "two rings of half the link between the CPUs: one has the width of a PCIe link"},
		{2, 8, 2, 22000, 4, 44000, "each board has two CPUs with such a link: two rings for each"},
		{2, 16, 2, 22000, 8, 44000, "the same with 32 GPUs"},
		{4, 8, 1, 44000, 4, 44000, "32 GPUs on four boards: a ring leaves each, and four fit"},
		{2, 8, 1, 200000, 4, 63012, "four switches a board"},
	};
	struct mrw_topo *topo = malloc(sizeof *topo);
	struct mrw_topo_rings *rings = malloc(sizeof *rings);
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		struct mrw_topo_error error;
		uint32_t n = sets[i].boards * sets[i].gpus, cpus = sets[i].boards * sets[i].cpus;
		char *text = NULL;
		size_t nbytes;
		FILE *file = open_memstream(&text, &nbytes);
		fprintf(file, "marrow-topo 1\nmachine between_cpus=%u links=yes\n", sets[i].between_mb_s);
		for (uint32_t c = 0; c < cpus; c++)
			fprintf(file, "cpu c%u numa=%u\n", c, c);
		for (uint32_t b = 0; b < sets[i].boards; b++)
			fprintf(file, "nvswitch b%u\n", b);
		for (uint32_t g = 0; g < n; g++) {
			if (g % 2 == 0)
				fprintf(file, "bridge s%u in=c%u mb_s=15753\n", g / 2, g / (n / cpus));
			fprintf(file, "gpu g%u in=s%u mb_s=15753\nnvlink g%u b%u lanes=6 lane_mb_s=25000\n", g, g / 2, g, g / sets[i].gpus);
		}
		fclose(file);
		if (!mrw_topo_parse(topo, text, nbytes, &error))
			fail_msg("line %u: %s", error.line, error.text);
		mrw_topo_find_rings(topo, rings);
		check_orders(topo, rings);
		check_loads("boards", topo, rings);
		if (rings->nrings > sets[i].most_rings || rings->mb_s != sets[i].mb_s || !rings->best)
			fail_msg("%u boards of %u GPUs and %u CPUs: %u rings of %u MB/s in all; it should be at most %u, of %u: %s", sets[i].boards,
				 sets[i].gpus, sets[i].cpus, rings->nrings, rings->mb_s, sets[i].most_rings, sets[i].mb_s, sets[i].reason);
		free(text);
	}
	free(rings);
	free(topo);
}

/* A machine nobody would build, where rings that each begin elsewhere come to 23.6 GB/s. All that begin at GPU 0 reach what its GPU
 * without NVLinks can: 31507 MB/s of PCIe, in four rings of a width that its switch has. */
static void one_order_finds_what_the_other_misses(void **state)
{
	(void)state;
	static const char text[] =
		"marrow-topo 1\nmachine between_cpus=5000 links=yes\ncpu c0 numa=0\ncpu c1 numa=1\n"
		"bridge b0 in=c1 mb_s=31507 acs=yes\nbridge b1 in=b0 mb_s=7876\nbridge b2 in=b0 mb_s=7876\n"
		"gpu g0 in=b2 mb_s=31507\ngpu g1 in=b1 mb_s=31507\ngpu g2 in=b2 mb_s=15753\ngpu g3 in=b1 mb_s=31507\n"
		"gpu g4 in=b2 mb_s=7876\ngpu g5 in=b1 mb_s=31507\ngpu g6 in=b1 mb_s=7876\ngpu g7 in=b0 mb_s=15753\n"
		"gpu g8 in=b0 mb_s=7876\ngpu g9 in=b2 mb_s=31507\nnvswitch n0\nnvswitch n1\n"
		"nvlink g0 n1 lanes=4 lane_mb_s=25000\nnvlink g1 n0 lanes=5 lane_mb_s=25000\n"
		"nvlink g4 n0 lanes=2 lane_mb_s=25000\nnvlink g5 n0 lanes=5 lane_mb_s=25000\n"
		"nvlink g6 n1 lanes=6 lane_mb_s=25000\nnvlink g7 n1 lanes=1 lane_mb_s=25000\n"
		"nvlink g8 n1 lanes=4 lane_mb_s=25000\nnvlink g9 n0 lanes=5 lane_mb_s=25000\n"
		"nvlink g9 g2 lanes=1 lane_mb_s=25000\nnvlink g9 g7 lanes=1 lane_mb_s=25000\n";
	struct mrw_topo *topo = malloc(sizeof *topo);
	struct mrw_topo_rings *rings = malloc(sizeof *rings);
	struct mrw_topo_error error;
	if (!mrw_topo_parse(topo, text, sizeof text - 1, &error))
		fail_msg("line %u: %s", error.line, error.text);
	mrw_topo_find_rings(topo, rings);
	check_orders(topo, rings);
	check_loads("switches in a row", topo, rings);
	assert_int_equal(rings->mb_s, 4 * 7876);
	assert_true(rings->best);
	free(rings);
	free(topo);
}

/* A complete mesh of any size is used whole. */
static void complete_meshes_are_used_whole(void **state)
{
	(void)state;
	struct mrw_topo *topo = malloc(sizeof *topo);
	struct mrw_topo_rings *rings = malloc(sizeof *rings);
	for (uint32_t n = 2; n <= 16; n++)
		for (uint32_t lanes = 1; lanes <= 3; lanes++) {
			struct mrw_topo_error error;
			char *text = NULL;
			size_t nbytes;
			FILE *file = open_memstream(&text, &nbytes);
			fprintf(file, "marrow-topo 1\n");
			for (uint32_t i = 0; i < n; i++)
				fprintf(file, "gpu g%u\n", i);
			for (uint32_t i = 0; i < n; i++)
				for (uint32_t j = 0; j < i; j++)
					fprintf(file, "nvlink g%u g%u lanes=%u lane_mb_s=20000\n", i, j, lanes);
			fclose(file);
			assert_true(mrw_topo_parse(topo, text, nbytes, &error));
			mrw_topo_find_rings(topo, rings);
			check_orders(topo, rings);
			check_loads("mesh", topo, rings);
			assert_int_equal(rings->mb_s, lanes * (n - 1) * 20000);
			free(text);
		}
	free(rings);
	free(topo);
}

/* Any choice of the cube's GPUs, as with CUDA_VISIBLE_DEVICES: within the cuts (lanes out of every set of GPUs), and the best. */
static void parts_of_the_cube_are_used_whole(void **state)
{
	(void)state;
	struct mrw_topo_rings *rings = malloc(sizeof *rings);
	uint32_t parts = 0, sum = 0;
	for (uint32_t mask = 1; mask < 256; mask++) {
		struct mrw_topo *topo = machine_load("dgx1-v100");
		uint32_t gpus[8], n = 0, lanes[8][8] = {{0}}, cut = UINT32_MAX;
		for (uint32_t g = 0; g < 8; g++)
			if (mask >> g & 1)
				gpus[n++] = g;
		assert_true(mrw_topo_keep_gpus(topo, gpus, n));
		mrw_topo_find_rings(topo, rings);
		check_orders(topo, rings);
		check_loads("part of a cube", topo, rings);
		for (uint32_t l = 0; l < topo->nlinks; l++) {
			uint32_t a = topo->nodes[topo->links[l].a].index, b = topo->nodes[topo->links[l].b].index;
			lanes[a][b] = lanes[b][a] = topo->links[l].lanes;
		}
		for (uint32_t set = 1; set + 1 < 1u << n; set++) {
			uint32_t out = 0;
			for (uint32_t a = 0; a < n; a++)
				for (uint32_t b = 0; b < n; b++)
					if ((set >> a & 1) && !(set >> b & 1))
						out += lanes[a][b];
			cut = out < cut ? out : cut;
		}
		bool nvlinks = n > 1 && rings->rings[0].worst == MRW_PATH_NVLINK;
		if (nvlinks) {
			assert_true(rings->mb_s <= cut * 25000);
			parts++;
			sum += rings->mb_s;
		}
		assert_true(n < 2 || rings->nrings > 0);
		free(topo);
	}
	/* By linear programming over all Hamiltonian cycles of each part (done once, apart): no part can have more. */
	assert_int_equal(parts, 93);
	assert_int_equal(sum, 5250000);
	free(rings);
}

/* A GPU of a rack without NVLinks: only those of its tray reach it, so it stands between two of them. */
static void a_gpu_that_few_reach_is_passed_too(void **state)
{
	(void)state;
	struct mrw_topo *topo = machine_load("gb200-rack");
	struct mrw_topo_rings *rings = malloc(sizeof *rings);
	uint32_t kept = 0;
	for (uint32_t l = 0; l < topo->nlinks; l++)
		if (topo->links[l].a != topo->gpus[7].node && topo->links[l].b != topo->gpus[7].node)
			topo->links[kept++] = topo->links[l];
	topo->nlinks = kept;
	mrw_topo_find_rings(topo, rings);
	assert_true(rings->nrings > 0);
	check_orders(topo, rings);
	check_loads("rack", topo, rings);
	assert_int_equal(rings->mb_s, 3938); /* its PCIe link */
	free(rings);
	free(topo);
}

static void rails_start_at_different_hosts(void **state)
{
	(void)state;
	for (uint32_t hosts = 1; hosts <= 20; hosts++)
		for (uint32_t rail = 0; rail < 8; rail++) {
			bool seen[20] = {false};
			for (uint32_t p = 0; p < hosts; p++) {
				uint32_t h = mrw_topo_rail_host(hosts, 8, rail, p);
				assert_true(h < hosts && !seen[h]);
				seen[h] = true;
			}
			for (uint32_t other = 0; other < rail && hosts >= 8; other++)
				assert_int_not_equal(mrw_topo_rail_host(hosts, 8, rail, 0),
						     mrw_topo_rail_host(hosts, 8, other, 0));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rings_reach_the_optimum),
		cmocka_unit_test(the_cube_has_three_cycles),
		cmocka_unit_test(rings_of_clouds_go_by_place),
		cmocka_unit_test(boards_are_left_at_several_places),
		cmocka_unit_test(one_order_finds_what_the_other_misses),
		cmocka_unit_test(complete_meshes_are_used_whole),
		cmocka_unit_test(parts_of_the_cube_are_used_whole),
		cmocka_unit_test(a_gpu_that_few_reach_is_passed_too),
		cmocka_unit_test(rails_start_at_different_hosts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
