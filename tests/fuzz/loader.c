/* loader.c - a loader of recorded machines on hostile bytes. Refused: with a reason, in a
 * line that is there. Taken: a machine that keeps the rules of topo.h, that every question can be asked of, and that is the same once it was
 * written and read again.
 * With FUZZ_READ (mrw_topo_read_text, _nccl or _hwloc) it is libFuzzer's target for that one; else a program that shows the files named to all. */
#include "topo/build.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

/* Rings are searched in steps that grow with the machine: more would spend the time there. */
enum { RING_GPUS = 8, PATH_NODES = 48 };

#define MUST(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			abort(); \
		} \
	} while (0)

typedef bool reader(struct mrw_topo *topo, const char *bytes, size_t nbytes, struct mrw_topo_error *error);
#if defined(FUZZ_READ)
static reader *const read_machine = FUZZ_READ;
#else
static reader *read_machine;
#endif
static struct mrw_topo topo, again;
static struct mrw_topo_pairing pairing;
static struct mrw_topo_rings rings;

static void rules_hold(void)
{
	MUST(topo.nnodes == topo.ncpus + topo.nbridges + topo.ngpus + topo.nnics + topo.nnvswitches);
	for (uint32_t i = 0; i < topo.nnodes; i++) {
		const struct mrw_topo_node *node = &topo.nodes[i];

		MUST(node->parent >= -1 && node->parent < (int32_t)i);
		MUST(node->up_mb_s <= MRW_TOPO_MAX_MB_S);
		MUST(mrw_topo_find(&topo, node->name) == (int32_t)i);
		MUST(mrw_topo_cpu_of(&topo, i) < (int32_t)topo.nnodes);
	}
	for (uint32_t i = 0; i < topo.nlinks; i++)
		MUST(topo.links[i].a < topo.links[i].b && topo.links[i].b < topo.nnodes && topo.links[i].lanes > 0);
}

static void questions_are_answered(void)
{
	struct mrw_topo_rails rails;
	uint32_t n = topo.nnodes < PATH_NODES ? topo.nnodes : PATH_NODES;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j <= i; j++) {
			struct mrw_topo_path to = mrw_topo_path(&topo, i, j), back = mrw_topo_path(&topo, j, i);

			MUST(to.class == back.class && to.hops == back.hops && to.mb_s == back.mb_s);
		}
	mrw_topo_pair_nics(&topo, &pairing);
	for (uint32_t i = 0; i < pairing.npairs; i++)
		MUST(pairing.pairs[i].gpu < topo.ngpus && pairing.pairs[i].nic < topo.nnics);
	mrw_topo_rails(&topo, &pairing, &rails);
	MUST(rails.nrails <= topo.nnics);
	if (topo.ngpus > RING_GPUS)
		return;
	mrw_topo_find_rings(&topo, &rings);
	for (uint32_t r = 0; r < rings.nrings; r++) {
		uint32_t seen = 0;

		for (uint32_t i = 0; i < topo.ngpus; i++) {
			MUST(rings.rings[r].order[i] < topo.ngpus);
			seen |= 1u << rings.rings[r].order[i];
		}
		MUST(seen == (1u << topo.ngpus) - 1);
	}
}

static char *text_of(const struct mrw_topo *machine, size_t *nbytes)
{
	char *text = NULL;
	FILE *file = open_memstream(&text, nbytes);

	MUST(file && mrw_topo_write_text(machine, file) && !fclose(file));
	return text;
}

static void written_is_read_back(void)
{
	struct mrw_topo_error error;
	size_t first_bytes, second_bytes;
	char *first = text_of(&topo, &first_bytes), *second;
	FILE *file;

	if (!mrw_topo_parse(&again, first, first_bytes, &error)) {
		fprintf(stderr, "written, and refused in line %u: %s\n%s", error.line, error.text, first);
		abort();
	}
	second = text_of(&again, &second_bytes);
	if (first_bytes != second_bytes || memcmp(first, second, first_bytes)) {
		fprintf(stderr, "written\n%sand read back as\n%s", first, second);
		abort();
	}
	free(first);
	free(second);
	/* NCCL's form and hwloc's have no place for everything: they need not be taken back, but they must be looked at safely. */
	for (uint32_t i = 0; i < 2; i++) {
		file = open_memstream(&first, &first_bytes);
		MUST(file && (i ? mrw_topo_write_hwloc : mrw_topo_write_nccl)(&topo, file) && !fclose(file));
		if (!mrw_topo_parse(&again, first, first_bytes, &error))
			MUST(error.text[0]);
		free(first);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
	struct mrw_topo_error error;
	uint32_t lines = 1;

	for (size_t i = 0; i < nbytes; i++)
		lines += bytes[i] == '\n';
	mrw_topo_begin(&topo, &error);
	if (!read_machine(&topo, (const char *)bytes, nbytes, &error) || !mrw_topo_finish(&topo, &error)) {
		MUST(error.text[0] && memchr(error.text, 0, sizeof error.text) && error.line <= lines);
		return 0;
	}
	rules_hold();
	questions_are_answered();
	written_is_read_back();
	return 0;
}

#if !defined(FUZZ_READ)
int main(int argc, char **argv)
{
	static reader *const readers[] = {mrw_topo_read_text, mrw_topo_read_nccl, mrw_topo_read_hwloc};

	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "rb");
		uint8_t *bytes = malloc(MRW_TOPO_FILE_BYTES);
		size_t nbytes;

		MUST(file && bytes);
		nbytes = fread(bytes, 1, MRW_TOPO_FILE_BYTES, file);
		/* Exactly as large, so that a sanitizer sees a step too far. */
		bytes = realloc(bytes, nbytes ? nbytes : 1);
		MUST(bytes);
		for (size_t r = 0; r < sizeof readers / sizeof *readers; r++) {
			read_machine = readers[r];
			LLVMFuzzerTestOneInput(bytes, nbytes);
		}
		free(bytes);
		fclose(file);
	}
	printf("%d files\n", argc - 1);
	return 0;
}
#endif
