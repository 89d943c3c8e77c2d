/* test_topo_forms.c - machines survive being written and read; malformed ones are refused with the line and the reason; random
 * damage never does more than that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/machines.h"

static void must_parse(struct mrw_topo *topo, const char *text, size_t nbytes)
{
	struct mrw_topo_error error;

	if (!mrw_topo_parse(topo, text, nbytes, &error))
		fail_msg("line %u: %s\n%.*s", error.line, error.text, (int)nbytes, text);
}

/* Lines say where nodes were read: not part of what they are. */
static void forget_lines(struct mrw_topo *topo)
{
	for (uint32_t i = 0; i < topo->nnodes; i++)
		topo->nodes[i].line = 0;
}

static void text_is_read_back_equal(void **state)
{
	(void)state;
	for (uint32_t m = 0; m < machines_count; m++) {
		struct mrw_topo *first = machine_load(machines[m].name), *again = malloc(sizeof *again);
		char *text = NULL;
		size_t nbytes;
		if (first->ngpus > 1)
			first->p2p[0][1] = MRW_NO;
		FILE *file = open_memstream(&text, &nbytes);
		assert_true(mrw_topo_write_text(first, file));
		fclose(file);
		must_parse(again, text, nbytes);
		forget_lines(first);
		forget_lines(again);
		assert_memory_equal(first, again, sizeof *first);
		free(text);
		free(first);
		free(again);
	}
}

/* NCCL's form has its own names and leaves something out, but every path stays what it was. */
static void nccl_keeps_every_path(void **state)
{
	(void)state;
	for (uint32_t m = 0; m < machines_count; m++) {
		struct mrw_topo *first = machine_load(machines[m].name), *again = malloc(sizeof *again);
		char *text = NULL;
		size_t nbytes;
		if (strcmp(machines[m].name, "acs") == 0 || strcmp(machines[m].name, "mig") == 0) {
			free(first);
			free(again);
			continue; /* there is no place for either */
		}
		FILE *file = open_memstream(&text, &nbytes);
		assert_true(mrw_topo_write_nccl(first, file));
		fclose(file);
		must_parse(again, text, nbytes);
		assert_int_equal(again->ngpus, first->ngpus);
		assert_int_equal(again->nnics, first->nnics);
		assert_int_equal(again->nlinks, first->nlinks);
		again->between_cpus_mb_s = first->between_cpus_mb_s; /* no place either */
		for (uint32_t g = 0; g < first->ngpus; g++) {
			char name[32];
			snprintf(name, sizeof name, "gpu%u", g);
			int32_t same = mrw_topo_find(again, name);
			assert_true(same >= 0);
			for (uint32_t n = 0; n < first->nnics; n++) {
				const char *nic = first->nodes[first->nics[n].node].name;
				int32_t same_nic = mrw_topo_find(again, nic);
				assert_true(same_nic >= 0);
				struct mrw_topo_path p = mrw_topo_path(first, first->gpus[g].node, first->nics[n].node);
				struct mrw_topo_path q = mrw_topo_path(again, (uint32_t)same, (uint32_t)same_nic);
				if (p.class != q.class || p.hops != q.hops || p.mb_s != q.mb_s)
					fail_msg("%s: gpu%u to %s was %s %u, is %s %u", machines[m].name, g, nic,
						 mrw_path_name(p.class), p.mb_s, mrw_path_name(q.class), q.mb_s);
			}
		}
		free(text);
		free(first);
		free(again);
	}
}

/* hwloc's form has PCI devices and CPUs only: their places stay. */
static void hwloc_keeps_every_place(void **state)
{
	(void)state;
	for (uint32_t m = 0; m < machines_count; m++) {
		struct mrw_topo *first = machine_load(machines[m].name), *again = malloc(sizeof *again);
		char *text = NULL;
		size_t nbytes;
		FILE *file = open_memstream(&text, &nbytes);
		assert_true(mrw_topo_write_hwloc(first, file));
		fclose(file);
		must_parse(again, text, nbytes);
		for (uint32_t i = 0; i < again->ncpus; i++)
			assert_string_equal(again->cpus[i].vendor, first->cpus[0].vendor);
		assert_true(again->ncpus == first->ncpus || first->cpus[again->ncpus].host != 0);
		first->nlinks = 0;
		again->between_cpus_mb_s = first->between_cpus_mb_s;
		for (uint32_t i = 0; i < first->nbridges; i++)
			first->bridges[i].acs = MRW_UNKNOWN;
		for (uint32_t i = 0; i < first->ngpus + first->nnics; i++)
			for (uint32_t j = 0; j < i; j++) {
				uint32_t a = i < first->ngpus ? first->gpus[i].node : first->nics[i - first->ngpus].node;
				uint32_t b = j < first->ngpus ? first->gpus[j].node : first->nics[j - first->ngpus].node;
				int32_t c = mrw_topo_find(again, first->nodes[a].bus), d = mrw_topo_find(again, first->nodes[b].bus);
				int32_t above = mrw_topo_cpu_of(first, a), other = mrw_topo_cpu_of(first, b);
				if ((above >= 0 && first->cpus[first->nodes[above].index].host != 0) || (other >= 0 && first->cpus[first->nodes[other].index].host != 0) ||
				    strcmp(first->nodes[a].bus, first->nodes[b].bus) == 0) /* another host's; slices of one GPU: one device */
					continue;
				assert_true(c >= 0 && d >= 0);
				struct mrw_topo_path p = mrw_topo_path(first, a, b), q = mrw_topo_path(again, (uint32_t)c, (uint32_t)d);
				if (p.class != q.class || p.hops != q.hops || p.mb_s != q.mb_s)
					fail_msg("%s: %s to %s was %s %u, is %s %u", machines[m].name, first->nodes[a].name, first->nodes[b].name,
						 mrw_path_name(p.class), p.mb_s, mrw_path_name(q.class), q.mb_s);
			}
		free(text);
		free(first);
		free(again);
	}
}

#define TEXT "marrow-topo 1\ncpu numa0 numa=0\n"
#define XML "<system version=\"1\">\n<cpu numaid=\"0\" affinity=\"ff\">\n"
#define PCI(bus, class) "<pci busid=\"" bus "\" class=\"" class "\" link_speed=\"16 GT/s\" link_width=\"16\">"
#define END "</cpu>\n</system>\n"

static const struct {
	const char *text;
	uint32_t line;
	const char *reason;
} bad[] = {
	{"", 1, "no element in it"},
	{"marrow-topo 2\n", 1, "\"marrow-topo 1\" belongs first"},
	{"# only talk\n", 1, "nothing in it"},
	{TEXT "gpu gpu0 in=numa0", 3, "cut off"},
	{TEXT "gpu gpu0 in=gpu0\n", 3, "not named above"},
	{TEXT "bridge a in=b\nbridge b in=a\n", 3, "not named above"}, /* how a cycle would be written */
	{TEXT "gpu gpu0 in=numa0\ngpu gpu1 in=gpu0\n", 4, "only a cpu or a bridge"},
	{TEXT "gpu gpu0\ngpu gpu0\n", 4, "named twice, first in line 3"},
	{TEXT "gpu a bus=0000:01:00.0\nnic b bus=00000000:01:00.0\n", 4, "both at"},
	{TEXT "gpu a bus=01:00.0 mig=0\ngpu b bus=01:00.0 mig=0\n", 4, "both at"},
	{TEXT "cpu c numa=0\n", 3, "there twice"},
	{TEXT "cpu c in=numa0\n", 3, "stands in nothing"},
	{TEXT "gpu gpu0 mb_s=8000001\n", 3, "beyond reason"},
	{TEXT "gpu gpu0 mb_s=99999999999999999999\n", 3, "a number up to"},
	{TEXT "gpu gpu0 mb_s=-1\n", 3, "a number up to"},
	{TEXT "gpu gpu0 bus=1:2:3\n", 3, "no PCI address"},
	{TEXT "gpu gpu0 colour=red\n", 3, "colour=red does not belong"},
	{TEXT "gpu gpu0 mb_s=1 mb_s=2\n", 3, "there twice"},
	{TEXT "gpu g!pu\n", 3, "no name"},
	{TEXT "gpu gpu0 model=\"open\n", 3, "quote"},
	{TEXT "cpu c cores=3-1\n", 3, "backwards"},
	{TEXT "cpu c cores=0-99999\n", 3, "beyond"},
	{TEXT "gpu a\ngpu b\nnvlink a a\n", 5, "itself"},
	{TEXT "gpu a\ngpu b\nnvlink a b lanes=0\n", 5, "0 lanes"},
	{TEXT "gpu a\ngpu b\nnvlink a b lanes=65\n", 5, "65 lanes"},
	{TEXT "gpu a\ngpu b\nnvlink a b lanes=64 lane_mb_s=4000000\n", 5, "beyond reason"},
	{TEXT "gpu a\ngpu b\nnvlink a b\nnvlink b a\n", 6, "a second link"},
	{TEXT "gpu a\nnvlink a numa0\n", 4, "joins GPUs and NVSwitches"},
	{TEXT "gpu a mig=0\ngpu b\nnvlink a b\n", 3, "MIG slice"},
	{TEXT "c2c numa0 numa0\n", 3, "itself"},
	{TEXT "gpu a\np2p a a access=yes\n", 4, "two GPUs"},
	{TEXT "teapot t\n", 3, "no kind of line"},
	{"<system version=\"1\">\n", 2, "cut off: element system is open"},
	{"<system version=\"1\"", 1, "cut off"},
	{"<system version=\"9\"></system>", 1, "version 9"},
	{"<topology>\n<object type=\"PCIDev\" pci_busid=\"01:00.0\" pci_type=\"0302 [10de:1]\"/></topology>", 2,
	 "outside a bridge"},
	{"<topology>\n<object type=\"Bridge\" bridge_type=\"0-1\"><object type=\"PCIDev\" pci_busid=\"x\"/></object></topology>",
	 2, "no PCI address"},
	{"<topology>\n<object type=\"Bridge\" bridge_type=\"0-1\"><object type=\"PCIDev\" pci_busid=\"01:00.0\" pci_type=\"0302 [10de:1]\""
	 " pci_link_speed=\"nan\"/></object></topology>",
	 2, "beyond reason"},
	{"<topology>\n<object type=\"NUMANode\"/></topology>", 2, "NUMA node with os_index"},
	{"<!DOCTYPE topology [<!ENTITY a \"b\">]>\n<topology/>", 1, "document type with declarations"},
	{"<sistem/>", 1, "root element is sistem"},
	{"<system></cpu>", 1, "</cpu> closes system"},
	{"<system/><system/>", 1, "second root"},
	{"<system>\nhello</system>", 2, "text between"},
	{"<!DOCTYPE lolz [<!ENTITY lol \"lol\">]>\n<system/>", 1, "document type"},
	{"<system version=\"&lol;\"/>", 1, "entity"},
	{"<system a=\"1\" a=\"2\"/>", 1, "twice"},
	{"<system a=1/>", 1, "quotes"},
	{XML PCI("0000:01:00.0", "0x030200") "</pci>\n" PCI("0000:01:00.0", "0x030200") "</pci>\n" END, 4,
	 "named twice, first in line 3"},
	{XML PCI("0000:01:00.0", "0x030200") "\n" PCI("0000:02:00.0", "0x030200") "</pci></pci>\n" END, 4,
	 "only a cpu or a bridge"},
	{XML PCI("0000:01:00.0", "teapot") "</pci>" END, 3, "no PCI class"},
	{XML PCI("01:00", "0x030200") "</pci>" END, 3, "no PCI address"},
	{XML "<pci busid=\"01:00.0\" class=\"0x030200\" link_speed=\"9000 GT/s\" link_width=\"16\"/>" END, 3,
	 "no PCIe link"},
	{XML PCI("01:00.0",
		 "0x030200") "<gpu dev=\"0\"><nvlink target=\"01:00.0\" count=\"4\" tclass=\"0x030200\"/></gpu></pci>\n" END,
	 3, "itself"},
	{XML PCI("01:00.0",
		 "0x030200") "<gpu dev=\"0\"><nvlink target=\"02:00.0\" count=\"999\" tclass=\"0x030200\"/></gpu></pci>\n" END,
	 3, "a number up to"},
	{XML PCI("01:00.0", "0x030200") "<gpu dev=\"3\"/></pci>\n" PCI("02:00.0",
								       "0x030200") "<gpu dev=\"3\"/></pci>\n" END,
	 4, "there twice, first in line 3"},
	{XML "</cpu>\n<cpu numaid=\"0\"/>\n</system>", 4, "named twice"},
	{XML "<cpu/>" END, 3, "a cpu inside cpu"},
	{XML "<net name=\"a\" speed=\"99999999999\"/>" END, 3, "a number up to"},
};

static void bad_input_is_refused(void **state)
{
	(void)state;
	struct mrw_topo *topo = malloc(sizeof *topo);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct mrw_topo_error error;
		if (mrw_topo_parse(topo, bad[i].text, strlen(bad[i].text), &error))
			fail_msg("taken: %s", bad[i].text);
		if (error.line != bad[i].line || strstr(error.text, bad[i].reason) == NULL)
			fail_msg("%s\nline %u: %s; it should be line %u: %s", bad[i].text, error.line, error.text,
				 bad[i].line, bad[i].reason);
	}
	free(topo);
}

static void too_many_and_too_deep_are_refused(void **state)
{
	(void)state;
	struct mrw_topo *topo = malloc(sizeof *topo);
	struct mrw_topo_error error;
	char *text = NULL;
	size_t nbytes;

	FILE *file = open_memstream(&text, &nbytes);
	fprintf(file, "marrow-topo 1\n");
	for (int i = 0; i <= MRW_TOPO_GPUS; i++)
		fprintf(file, "gpu g%d\n", i);
	fclose(file);
	assert_false(mrw_topo_parse(topo, text, nbytes, &error));
	assert_int_equal(error.line, MRW_TOPO_GPUS + 2);
	free(text);

	file = open_memstream(&text, &nbytes);
	fprintf(file, XML);
	for (int i = 0; i < 1000; i++)
		fprintf(file, PCI("%04x:01:00.0", "0x060400") "\n", i);
	fclose(file);
	assert_false(mrw_topo_parse(topo, text, nbytes, &error));
	assert_int_equal(error.line, 3 + MRW_TOPO_DEPTH - 1);
	free(text);

	text = calloc(1, MRW_TOPO_FILE_BYTES + 1);
	memset(text, '#', MRW_TOPO_FILE_BYTES + 1);
	assert_false(mrw_topo_parse(topo, text, MRW_TOPO_FILE_BYTES + 1, &error));
	free(text);
	free(topo);
}

/* What nvlinks say from both ends, and what a virtual machine hides. */
static void nvlinks_meet(void **state)
{
	(void)state;
	static const char text[] = XML PCI(
		"01:00.0",
		"0x030200") "<gpu dev=\"1\" sm=\"90\"><nvlink target=\"02:00.0\" count=\"6\" tclass=\"0x030200\"/>"
			    "<nvlink target=\"fffffff:ffff:ff\" count=\"4\" tclass=\"0x068000\"/></gpu></pci>\n" PCI("02:00.0", "0x030200") "<gpu dev=\"0\" sm=\"90\"><nvlink target=\"01:00.0\" count=\"5\" tclass=\"0x030200\"/></gpu></pci>\n" PCI(
				    "03:00.0",
				    "0x020700") "<nic><net name=\"mlx5_0\" port=\"1\" speed=\"400000\"/>"
						"<net name=\"mlx5_0\" port=\"2\" speed=\"400000\"/></nic></pci>\n" END;
	struct mrw_topo *topo = malloc(sizeof *topo);
	must_parse(topo, text, sizeof text - 1);
	assert_int_equal(topo->ngpus, 2);
	assert_int_equal(topo->nnics, 2);
	assert_int_equal(topo->nnvswitches, 1);
	assert_int_equal(topo->nics[1].rate_mb_s, 50000);
	assert_string_equal(topo->nodes[topo->nics[1].node].name, "mlx5_0:2");
	int32_t a = mrw_topo_find(topo, "gpu0"), b = mrw_topo_find(topo, "gpu1");
	assert_string_equal(topo->nodes[b].bus, "0000:01:00.0");
	assert_int_equal(mrw_topo_path(topo, (uint32_t)a, (uint32_t)b).mb_s, 5 * 25000); /* the smaller count */
	assert_non_null(strstr(topo->notes[0], "see 6 and 5"));
	free(topo);
}

#define SETS(cpus, node) \
	"cpuset=\"" cpus "\" complete_cpuset=\"" cpus "\" nodeset=\"" node "\" complete_nodeset=\"" node "\""

/* Two packages; below the first a switch with a GPU and a NIC, each at a port, below the second a NIC at the root. */
static const char hwloc_xml[] =
	"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n"
	"<object type=\"Machine\" os_index=\"0\" " SETS(
		"0x3",
		"0x3") " allowed_cpuset=\"0x3\" allowed_nodeset=\"0x3\" gp_index=\"1\">\n"
		       "<info name=\"Architecture\" value=\"x86_64\"/>\n"
		       "<object type=\"Package\" os_index=\"0\" " SETS(
			       "0x1",
			       "0x1") " gp_index=\"2\">\n"
				      "<object type=\"NUMANode\" os_index=\"0\" " SETS(
					      "0x1",
					      "0x1") " local_memory=\"1\" gp_index=\"3\"/>\n"
						     "<object type=\"PU\" os_index=\"0\" " SETS(
							     "0x1",
							     "0x1") " gp_index=\"4\"/>\n"
								    "<object type=\"Bridge\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[00-0f]\" gp_index=\"5\">\n"
								    "<object type=\"Bridge\" bridge_type=\"1-1\" depth=\"1\" bridge_pci=\"0000:[01-04]\" pci_busid=\"0000:00:01.0\""
								    " pci_type=\"0604 [8086:0000] [0000:0000] 00\" pci_link_speed=\"31.507692\" gp_index=\"6\">\n"
								    "<object type=\"Bridge\" bridge_type=\"1-1\" depth=\"2\" bridge_pci=\"0000:[02-04]\" pci_busid=\"0000:01:00.0\""
								    " pci_type=\"0604 [1000:0000] [0000:0000] 00\" pci_link_speed=\"31.507692\" gp_index=\"7\">\n"
								    "<object type=\"PCIDev\" pci_busid=\"0000:03:00.0\" pci_type=\"0302 [10de:2330] [0000:0000] 00\" pci_link_speed=\"63.015385\""
								    " gp_index=\"8\"><object type=\"OSDev\" name=\"cuda1\" subtype=\"CUDA\" osdev_type=\"5\" gp_index=\"9\"/></object>\n"
								    "<object type=\"PCIDev\" pci_busid=\"0000:04:00.0\" pci_type=\"0207 [15b3:1021] [0000:0000] 00\" pci_link_speed=\"31.507692\""
								    " gp_index=\"10\"><object type=\"OSDev\" name=\"mlx5_0\" osdev_type=\"3\" gp_index=\"11\">"
								    "<info name=\"Port1State\" value=\"4\"/></object></object>\n"
								    "</object>\n</object>\n</object>\n</object>\n"
								    "<object type=\"Package\" os_index=\"1\" " SETS(
									    "0x2",
									    "0x2") " gp_index=\"12\">\n"
										   "<object type=\"NUMANode\" os_index=\"1\" " SETS(
											   "0x2",
											   "0x2") " local_memory=\"1\" gp_index=\"13\"/>\n"
												  "<object type=\"PU\" os_index=\"1\" " SETS(
													  "0x2",
													  "0x2") " gp_index=\"14\"/>\n"
														 "<object type=\"Bridge\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0001:[00-0f]\" gp_index=\"15\">\n"
														 "<object type=\"PCIDev\" pci_busid=\"0001:01:00.0\" pci_type=\"0207 [15b3:1021] [0000:0000] 00\" pci_link_speed=\"15.753846\""
														 " gp_index=\"16\"><object type=\"OSDev\" name=\"mlx5_1\" osdev_type=\"3\" gp_index=\"17\">"
														 "<info name=\"Port1State\" value=\"1\"/></object></object>\n"
														 "</object>\n</object>\n</object>\n</topology>\n";

static void hwloc_files_are_read(void **state)
{
	(void)state;
	struct mrw_topo *topo = malloc(sizeof *topo);
	struct mrw_topo_error error;
	must_parse(topo, hwloc_xml, sizeof hwloc_xml - 1);
	assert_int_equal(topo->ncpus, 2);
	assert_int_equal(topo->cpus[1].cores[0], 2);
	assert_string_equal(topo->cpus[0].arch, "x86_64");
	assert_int_equal(topo->ngpus, 1);
	assert_int_equal(topo->gpus[0].cuda, 1);
	assert_int_equal(topo->nbridges, 1); /* the root port is folded away */
	assert_int_equal(topo->nnics, 2);
	assert_int_equal(topo->nics[0].up, MRW_YES);
	assert_int_equal(topo->nics[1].up, MRW_NO);
	int32_t nic = mrw_topo_find(topo, "mlx5_0"), far = mrw_topo_find(topo, "mlx5_1");
	struct mrw_topo_path p = mrw_topo_path(topo, topo->gpus[0].node, (uint32_t)nic);
	assert_int_equal(p.class, MRW_PATH_SWITCH);
	assert_int_equal(p.mb_s, 31507);
	p = mrw_topo_path(topo, topo->gpus[0].node, (uint32_t)far);
	assert_int_equal(p.class, MRW_PATH_CPUS);
	assert_int_equal(p.mb_s, 15753);
	for (size_t cut = 60; cut < sizeof hwloc_xml - 1; cut += 97)
		assert_false(mrw_topo_parse(topo, hwloc_xml, cut, &error));
	free(topo);
}

static uint32_t random_step(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return (uint32_t)(*seed >> 16);
}

/* Cuts, repeats, swaps, odd bytes and other digits. */
static size_t damage(char *text, size_t nbytes, size_t room, uint64_t *seed)
{
	static const char odd[] = "<>/\"'&= \n\t!?-#0189afxX:.\0\x7f\xff";
	uint32_t times = 1 + random_step(seed) % 3;

	while (times-- > 0 && nbytes > 1) {
		size_t at = random_step(seed) % nbytes, length = 1 + random_step(seed) % 40,
		       to = random_step(seed) % nbytes;
		if (length > nbytes - at)
			length = nbytes - at;
		switch (random_step(seed) % 9) {
		case 0:
			text[at] = odd[random_step(seed) % (sizeof odd - 1)];
			break;
		case 1:
			text[at] ^= (char)(1 << random_step(seed) % 8);
			break;
		case 2:
			memmove(text + at, text + at + length, nbytes - at - length);
			nbytes -= length;
			break;
		case 3:
			if (nbytes + length <= room) {
				char piece[40];
				memcpy(piece, text + at, length);
				memmove(text + to + length, text + to, nbytes - to);
				memcpy(text + to, piece, length);
				nbytes += length;
			}
			break;
		case 4:
			if (length > nbytes - to)
				length = nbytes - to;
			memmove(text + at, text + to, length < nbytes - at ? length : nbytes - at);
			break;
		case 5:
			if (random_step(seed) % 8 == 0)
				nbytes = at;
			break;
		default:
			/* Other numbers: what is well formed and wrong. */
			while (at < nbytes && (text[at] < '0' || text[at] > '9'))
				at++;
			if (at < nbytes)
				text[at] = (char)('0' + random_step(seed) % 10);
		}
	}
	return nbytes;
}

/* Everything that is asked of a machine. */
static void use(const struct mrw_topo *topo)
{
	struct mrw_topo_pairing *pairing = malloc(sizeof *pairing);
	struct mrw_topo_rings *rings = malloc(sizeof *rings);
	struct mrw_topo *again = malloc(sizeof *again);
	struct mrw_topo_rails rails;
	char *text = NULL;
	size_t nbytes;

	mrw_topo_pair_nics(topo, pairing);
	mrw_topo_rails(topo, pairing, &rails);
	mrw_topo_find_rings(topo, rings);
	FILE *file = open_memstream(&text, &nbytes);
	assert_true(mrw_topo_write_text(topo, file));
	fclose(file);
	must_parse(again, text, nbytes);
	assert_int_equal(again->nnodes, topo->nnodes);
	free(text);
	free(again);
	free(rings);
	free(pairing);
}

static void damage_is_survived(void **state)
{
	(void)state;
	/* Set for a long run by hand. */
	const char *asked = getenv("TOPO_FUZZ_ROUNDS");
	struct mrw_topo *topo = malloc(sizeof *topo);
	uint64_t seed = 88172645463325252u, rounds = asked != NULL ? strtoull(asked, NULL, 10) : 20, taken = 0,
		 refused = 0;

	for (uint32_t m = 0; m < machines_count; m++) {
		size_t nbytes[3], room;
		char *forms[3];
		forms[0] = machine_text(&machines[m], &nbytes[0]);
		struct mrw_topo_error error;
		must_parse(topo, forms[0], nbytes[0]);
		FILE *file = open_memstream(&forms[1], &nbytes[1]);
		mrw_topo_write_nccl(topo, file);
		fclose(file);
		/* The third does not change from machine to machine, the damage does. */
		forms[2] = strdup(hwloc_xml);
		nbytes[2] = sizeof hwloc_xml - 1;
		for (uint32_t f = 0; f < 3; f++) {
			room = nbytes[f] + 1024;
			for (uint64_t i = 0; i < rounds; i++) {
				/* Exactly as large as what is read, so that a sanitizer sees a step too far. */
				char *copy = malloc(room);
				memcpy(copy, forms[f], nbytes[f]);
				size_t length = damage(copy, nbytes[f], room, &seed);
				char *exact = malloc(length + (length == 0));
				memcpy(exact, copy, length);
				memset(&error, 0, sizeof error);
				if (mrw_topo_parse(topo, exact, length, &error)) {
					taken++;
					for (uint32_t n = 0; n < topo->nnodes; n++)
						assert_true(topo->nodes[n].parent < (int32_t)n);
					use(topo);
				} else {
					refused++;
					assert_true(error.text[0] != '\0');
				}
				free(exact);
				free(copy);
			}
			free(forms[f]);
		}
	}
	print_message("%llu damaged files: %llu taken, %llu refused\n", (unsigned long long)(taken + refused),
		      (unsigned long long)taken, (unsigned long long)refused);
	assert_true(refused > taken / 8);
	free(topo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_read_back_equal),
		cmocka_unit_test(nccl_keeps_every_path),
		cmocka_unit_test(hwloc_keeps_every_place),
		cmocka_unit_test(bad_input_is_refused),
		cmocka_unit_test(too_many_and_too_deep_are_refused),
		cmocka_unit_test(nvlinks_meet),
		cmocka_unit_test(hwloc_files_are_read),
		cmocka_unit_test(damage_is_survived),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
