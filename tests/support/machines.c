#include "support/machines.h"

#include <stdlib.h>
#include <string.h>

enum { GEN3 = 15753, GEN4 = 31507, GEN5 = 63015 }; /* x16, MB/s */

static void head(FILE *f, uint32_t cpus, const char *vendor, const char *rest)
{
	fprintf(f, "marrow-topo 1\nmachine %s\n", rest);
	for (uint32_t c = 0; c < cpus; c++)
		fprintf(f, "cpu numa%u numa=%u arch=x86_64 vendor=%s cores=%u-%u\n", c, c, vendor, 24 * c, 24 * c + 23);
}

static void bridge(FILE *f, uint32_t number, const char *in, uint32_t mb_s)
{
	fprintf(f, "bridge sw%u in=%s bus=0000:%02x:00.0 mb_s=%u\n", number, in, 0x10 + 8 * number, mb_s);
}

/* GPU and NIC numbers make their addresses. */
static void gpu(FILE *f, uint32_t number, const char *in, uint32_t mb_s, uint32_t sm)
{
	fprintf(f, "gpu gpu%u in=%s bus=0001:%02x:00.0 mb_s=%u cuda=%u sm=%u\n", number, in, number, mb_s, number, sm);
}

static void nic(FILE *f, uint32_t number, const char *in, uint32_t mb_s, uint32_t rate)
{
	fprintf(f, "nic mlx5_%u in=%s bus=0002:%02x:00.0 mb_s=%u rate=%u layer=infiniband up=yes\n", number, in, number,
		mb_s, rate);
}

static void sw(char name[16], uint32_t number)
{
	snprintf(name, 16, "sw%u", number);
}

static void numa(char name[16], uint32_t number)
{
	snprintf(name, 16, "numa%u", number);
}

/* NVSwitches first to first + count - 1, joined to GPUs from to from + gpus - 1. */
static void fabric(FILE *f, uint32_t first, uint32_t count, uint32_t from, uint32_t gpus, uint32_t lanes, uint32_t lane_mb_s)
{
	for (uint32_t s = first; s < first + count; s++)
		fprintf(f, "nvswitch nvs%u\n", s);
	for (uint32_t g = from; g < from + gpus; g++)
		for (uint32_t s = 0; s < count; s++)
			fprintf(f, "nvlink gpu%u nvs%u lanes=%u lane_mb_s=%u\n", g, first + s,
				lanes / count + (s < lanes % count), lane_mb_s);
}

static void nvswitches(FILE *f, uint32_t count, uint32_t gpus, uint32_t lanes, uint32_t lane_mb_s)
{
	fabric(f, 0, count, 0, gpus, lanes, lane_mb_s);
}

/* Eight V100: two quads, fully connected inside, a cube's edges across; some of them double. Four
 * switches of two GPUs and a NIC. */
static void dgx1_v100(FILE *f)
{
	static const uint8_t lanes[][3] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1},
					   {1, 5, 2}, {2, 3, 2}, {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1},
					   {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
	char name[16];

	head(f, 2, "GenuineIntel", "links=yes");
	for (uint32_t s = 0; s < 4; s++) {
		numa(name, s / 2);
		bridge(f, s, name, GEN3);
		sw(name, s);
		gpu(f, 2 * s, name, GEN3, 70);
		gpu(f, 2 * s + 1, name, GEN3, 70);
		nic(f, s, name, GEN3, 12500);
	}
	for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++)
		fprintf(f, "nvlink gpu%u gpu%u lanes=%u lane_mb_s=25000\n", lanes[i][0], lanes[i][1], lanes[i][2]);
}

/* Eight A100, eight NICs: a switch for each two of both, four NUMA nodes of two, as with one socket's halves. */
static void dgx_a100(FILE *f)
{
	char name[16];

	head(f, 4, "AuthenticAMD", "links=yes");
	for (uint32_t s = 0; s < 4; s++) {
		numa(name, s);
		bridge(f, s, name, GEN4);
		sw(name, s);
		for (uint32_t i = 2 * s; i < 2 * s + 2; i++) {
			gpu(f, i, name, GEN4, 80);
			nic(f, i, name, GEN4, 25000);
		}
	}
	nvswitches(f, 6, 8, 12, 25000);
}

static void hopper(FILE *f, uint32_t sm)
{
	char name[16];

	head(f, 2, "GenuineIntel", "links=yes");
	for (uint32_t i = 0; i < 8; i++) {
		numa(name, i / 4);
		bridge(f, i, name, GEN5);
		sw(name, i);
		gpu(f, i, name, GEN5, sm);
		nic(f, i, name, GEN5, 50000);
	}
	/* For storage and management: slower, below a CPU. */
	nic(f, 8, "numa0", GEN3, 12500);
	nvswitches(f, 4, 8, 18, 25000);
}

static void dgx_h100(FILE *f)
{
	hopper(f, 90);
}

/* The same board with one CPU's GPUs before the other's in reversed order: numbers say nothing about places. */
static void dgx_h200(FILE *f)
{
	char name[16];

	head(f, 2, "GenuineIntel", "links=yes");
	for (uint32_t i = 0; i < 8; i++) {
		numa(name, i / 4);
		bridge(f, i, name, GEN5);
		sw(name, i);
		gpu(f, 7 - i, name, GEN5, 90);
		nic(f, i, name, GEN5, 50000);
	}
	nvswitches(f, 4, 8, 18, 25000);
}

/* Four A100 all joined by four NVLinks a pair; two NICs. */
static void hgx4_a100(FILE *f)
{
	char name[16];

	head(f, 2, "AuthenticAMD", "links=yes");
	for (uint32_t i = 0; i < 4; i++) {
		numa(name, i / 2);
		gpu(f, i, name, GEN4, 80);
	}
	nic(f, 0, "numa0", GEN4, 25000);
	nic(f, 1, "numa1", GEN4, 25000);
	for (uint32_t i = 0; i < 4; i++)
		for (uint32_t j = i + 1; j < 4; j++)
			fprintf(f, "nvlink gpu%u gpu%u lanes=4 lane_mb_s=25000\n", i, j);
}

/* Eight GPUs without NVLink, two switches of four, a NIC at each: four GPUs share one. */
static void pcie8(FILE *f)
{
	char name[16];

	head(f, 2, "GenuineIntel", "between_cpus=20000 links=yes");
	for (uint32_t s = 0; s < 2; s++) {
		numa(name, s);
		bridge(f, s, name, GEN4);
		sw(name, s);
		for (uint32_t i = 4 * s; i < 4 * s + 4; i++)
			gpu(f, i, name, GEN4, 89);
		nic(f, s, name, GEN4, 25000);
	}
}

/* Four GPUs and a NIC below one switch. */
static void single_switch(FILE *f)
{
	head(f, 1, "AuthenticAMD", "links=yes");
	bridge(f, 0, "numa0", GEN4);
	for (uint32_t i = 0; i < 4; i++)
		gpu(f, i, "sw0", GEN4, 80);
	nic(f, 0, "sw0", GEN4, 25000);
}

/* A virtual machine that puts everything below one bus and knows no widths. */
static void cloud_vm(FILE *f)
{
	head(f, 1, "GenuineIntel", "links=yes virtual=yes");
	for (uint32_t i = 0; i < 8; i++)
		fprintf(f, "gpu gpu%u in=numa0 bus=0000:00:%02x.0 cuda=%u sm=90\n", i, 0x08 + i, i);
	for (uint32_t i = 0; i < 8; i++)
		fprintf(f, "nic mlx5_%u in=numa0 bus=0000:00:%02x.0 rate=50000 layer=ethernet up=yes\n", i, 0x10 + i);
	nvswitches(f, 1, 8, 18, 25000);
}

/* 18 trays of two Grace CPUs, four GPUs, four NICs; one NVLink domain over all. */
static void gb200_rack(FILE *f)
{
	char name[16];

	fprintf(f, "marrow-topo 1\nmachine links=yes\n");
	for (uint32_t c = 0; c < 36; c++)
		fprintf(f, "cpu c%u numa=%u host=%u arch=aarch64 vendor=ARM\n", c, c % 2, c / 2);
	for (uint32_t i = 0; i < 72; i++) {
		snprintf(name, sizeof name, "c%u", i / 2);
		fprintf(f, "gpu gpu%u in=%s bus=%04x:01:00.0 mb_s=%u sm=100\n", i, name, 8 + i % 4, GEN5 / 16);
		fprintf(f, "nic t%u_%u in=%s bus=%04x:03:00.0 mb_s=%u rate=50000 layer=infiniband up=yes\n", i / 4,
			i % 4, name, i % 4, GEN5);
		fprintf(f, "c2c gpu%u %s lanes=10 lane_mb_s=45000\n", i, name);
	}
	nvswitches(f, 18, 72, 18, 50000);
}

static void laptop(FILE *f)
{
	head(f, 1, "GenuineIntel", "links=no");
}

/* Two NVLinked quads, a CPU each, and nothing but the CPUs' link between; each GPU at a root port of its own. */
static void two_islands(FILE *f)
{
	char name[16];

	head(f, 2, "GenuineIntel", "between_cpus=40000 links=yes");
	for (uint32_t i = 0; i < 8; i++) {
		numa(name, i / 4);
		gpu(f, i, name, GEN4, 80);
	}
	nic(f, 0, "numa0", GEN5, 50000);
	nic(f, 1, "numa1", GEN5, 50000);
	for (uint32_t i = 0; i < 8; i++)
		for (uint32_t j = i + 1; j < 8; j++)
			if (i / 4 == j / 4)
				fprintf(f, "nvlink gpu%u gpu%u lanes=4 lane_mb_s=25000\n", i, j);
}

/* Four cards, bridged two and two. */
static void bridged_pairs(FILE *f)
{
	head(f, 1, "AuthenticAMD", "links=yes");
	for (uint32_t i = 0; i < 4; i++)
		gpu(f, i, "numa0", GEN4, 86);
	fprintf(f, "nvlink gpu0 gpu1 lanes=4 lane_mb_s=14062\nnvlink gpu2 gpu3 lanes=4 lane_mb_s=14062\n");
	nic(f, 0, "numa0", GEN4, 12500);
}

/* Two GPUs in MIG slices, one NIC. */
static void mig(FILE *f)
{
	head(f, 1, "AuthenticAMD", "links=yes");
	for (uint32_t i = 0; i < 6; i++)
		fprintf(f, "gpu gpu%u in=numa0 bus=0001:%02x:00.0 mb_s=%u sm=80 mig=%u uuid=MIG-%u\n", i, i / 3, GEN4,
			i % 3, i);
	nic(f, 0, "numa0", GEN4, 25000);
}

/* Three GPUs on one CPU, one on the other, with the wide NIC; one GPU in a narrow slot; NVLinks 2-1-1. A port that is down. */
static void asymmetric(FILE *f)
{
	head(f, 2, "AuthenticAMD", "between_cpus=30000 links=yes");
	bridge(f, 0, "numa0", GEN4);
	gpu(f, 0, "sw0", GEN4, 80);
	gpu(f, 1, "sw0", GEN4, 80);
	nic(f, 0, "sw0", GEN4, 25000);
	gpu(f, 2, "numa0", GEN4 / 4, 80);
	nic(f, 1, "numa0", GEN4, 12500);
	gpu(f, 3, "numa1", GEN4, 80);
	nic(f, 2, "numa1", GEN4, 25000);
	fprintf(f, "nic mlx5_3 in=numa1 bus=0002:10:00.0 mb_s=%u rate=25000 up=no\n", GEN4);
	fprintf(f, "nvlink gpu0 gpu1 lanes=2 lane_mb_s=25000\nnvlink gpu1 gpu2 lanes=1 lane_mb_s=25000\n"
		   "nvlink gpu2 gpu3 lanes=1 lane_mb_s=25000\nnvlink gpu0 gpu3 lanes=1 lane_mb_s=25000\n");
}

/* Eight GPUs behind ACS bridges with a NIC for two each. */
static void acs(FILE *f)
{
	head(f, 1, "AuthenticAMD", "links=yes");
	for (uint32_t s = 0; s < 4; s++) {
		char name[16];
		fprintf(f, "bridge sw%u in=numa0 bus=0000:%02x:00.0 mb_s=%u acs=yes\n", s, 0x10 + 8 * s, GEN4);
		sw(name, s);
		gpu(f, 2 * s, name, GEN4, 80);
		gpu(f, 2 * s + 1, name, GEN4, 80);
		nic(f, s, name, GEN4, 25000);
	}
}

/* More NICs than GPUs: two for each. */
static void four_by_eight(FILE *f)
{
	char name[16];

	head(f, 2, "GenuineIntel", "links=yes");
	for (uint32_t i = 0; i < 4; i++) {
		numa(name, i / 2);
		bridge(f, i, name, GEN5);
		sw(name, i);
		gpu(f, i, name, GEN5, 90);
		nic(f, 2 * i, name, GEN5, 25000);
		nic(f, 2 * i + 1, name, GEN5, 25000);
	}
	nvswitches(f, 1, 4, 18, 25000);
}

/* A cloud's machine with eight A100: four NUMA nodes that the hypervisor numbers otherwise than the devices, a switch in each with
 * GPU, NIC, GPU, NIC. The NVSwitches belong to the hypervisor: the links to them are seen, they are not. */
static void cloud_a100(FILE *f)
{
	static const uint8_t first[] = {2, 0, 6, 4};
	char name[16];

	head(f, 4, "AuthenticAMD", "links=yes virtual=yes");
	for (uint32_t s = 0; s < 4; s++) {
		numa(name, s);
		bridge(f, s, name, GEN4);
		sw(name, s);
		for (uint32_t i = first[s]; i < first[s] + 2u; i++) {
			gpu(f, i, name, GEN4, 80);
			nic(f, i, name, GEN4, 25000);
		}
	}
	nvswitches(f, 1, 8, 12, 25000);
}

/* Its successor with eight H100: two NUMA nodes, a switch with a GPU and a NIC eight times. */
static void cloud_h100(FILE *f)
{
	char name[16];

	head(f, 2, "GenuineIntel", "links=yes virtual=yes");
	for (uint32_t i = 0; i < 8; i++) {
		numa(name, i / 4);
		bridge(f, i, name, GEN5);
		sw(name, i);
		gpu(f, i, name, GEN5, 90);
		nic(f, i, name, GEN5, 50000);
	}
	nvswitches(f, 1, 8, 18, 25000);
}

/* Two boards of eight GPUs, a CPU each, NVSwitches in each and none between; two GPUs and a NIC at a switch. */
static void two_boards(FILE *f)
{
	char name[16];

	head(f, 2, "GenuineIntel", "between_cpus=22000 links=yes");
	for (uint32_t s = 0; s < 8; s++) {
		numa(name, s / 4);
		bridge(f, s, name, GEN3);
		sw(name, s);
		gpu(f, 2 * s, name, GEN3, 70);
		gpu(f, 2 * s + 1, name, GEN3, 70);
		nic(f, s, name, GEN3, 12500);
	}
	fabric(f, 0, 6, 0, 8, 6, 25000);
	fabric(f, 6, 6, 8, 8, 6, 25000);
}

/* The same with so much between the CPUs that the boards' own PCIe links are the narrowest: four switches each. */
static void two_boards_wide(FILE *f)
{
	char name[16];

	head(f, 2, "AuthenticAMD", "between_cpus=200000 links=yes");
	for (uint32_t s = 0; s < 8; s++) {
		numa(name, s / 4);
		bridge(f, s, name, GEN4);
		sw(name, s);
		gpu(f, 2 * s, name, GEN4, 80);
		gpu(f, 2 * s + 1, name, GEN4, 80);
		nic(f, s, name, GEN4, 25000);
	}
	fabric(f, 0, 2, 0, 8, 12, 25000);
	fabric(f, 2, 2, 8, 8, 12, 25000);
}

const struct machine machines[] = {
	{"dgx1-v100", dgx1_v100, 8, 4, 150000, "six NVLinks of 25 GB/s leave each GPU"},
	{"dgx-a100", dgx_a100, 8, 8, 300000, "twelve NVLinks of 25 GB/s leave each GPU"},
	{"dgx-h100", dgx_h100, 8, 9, 450000, "eighteen NVLinks of 25 GB/s leave each GPU"},
	{"dgx-h200", dgx_h200, 8, 8, 450000, "eighteen NVLinks of 25 GB/s leave each GPU"},
	{"hgx4-a100", hgx4_a100, 4, 2, 300000, "twelve NVLinks of 25 GB/s leave each GPU"},
	{"pcie8", pcie8, 8, 2, 20000, "every ring crosses from CPU to CPU: 20 GB/s"},
	{"single-switch", single_switch, 4, 1, GEN4, "every ring leaves each GPU by its one PCIe link"},
	{"cloud-vm", cloud_vm, 8, 8, 450000, "NVLinks are seen where PCIe is not"},
	{"gb200-rack", gb200_rack, 72, 72, 900000, "eighteen NVLinks of 50 GB/s leave each GPU"},
	{"laptop", laptop, 0, 0, 0, "no GPU"},
	{"two-islands", two_islands, 8, 2, 40000, "every ring crosses from CPU to CPU: 40 GB/s"},
	{"bridged-pairs", bridged_pairs, 4, 1, 2 * GEN4, "each pair is left by two PCIe links"},
	{"mig", mig, 6, 1, GEN4 / 3, "three slices send through one PCIe link"},
	{"asymmetric", asymmetric, 4, 4, 50000, "two NVLinks leave GPU 2; PCIe is left to the NICs"},
	{"acs", acs, 8, 4, GEN4 / 2, "both GPUs of a switch send through its one link"},
	{"four-by-eight", four_by_eight, 4, 8, 450000, "eighteen NVLinks of 25 GB/s leave each GPU"},
	{"cloud-a100", cloud_a100, 8, 8, 300000, "twelve NVLinks of 25 GB/s leave each GPU"},
	{"cloud-h100", cloud_h100, 8, 8, 450000, "eighteen NVLinks of 25 GB/s leave each GPU"},
	{"two-boards", two_boards, 16, 8, 22000, "every ring crosses from CPU to CPU: 22 GB/s, more than one GPU's PCIe link"},
	{"two-boards-wide", two_boards_wide, 16, 8, 4 * GEN4, "a board is left by four PCIe switches' links"},
};
const uint32_t machines_count = sizeof machines / sizeof *machines;

char *machine_text(const struct machine *machine, size_t *nbytes)
{
	char *text = NULL;
	FILE *file = open_memstream(&text, nbytes);

	machine->write(file);
	fclose(file);
	return text;
}

struct mrw_topo *machine_load(const char *name)
{
	struct mrw_topo *topo = malloc(sizeof *topo);
	struct mrw_topo_error error;

	for (uint32_t i = 0; i < machines_count; i++) {
		size_t nbytes;
		if (strcmp(machines[i].name, name) != 0)
			continue;
		char *text = machine_text(&machines[i], &nbytes);
		bool good = mrw_topo_parse(topo, text, nbytes, &error);
		free(text);
		if (!good) {
			fprintf(stderr, "%s: line %u: %s\n", name, error.line, error.text);
			abort();
		}
		return topo;
	}
	abort();
}
