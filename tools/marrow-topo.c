/* marrow-topo - shows a machine's devices, how they are joined, and what Marrow makes of it: NICs, rails, rings, trees, times. */
#include <stdlib.h>
#include <string.h>

#include "topo_cost.h"

enum form { PEOPLE, JSON, TEXT, NCCL, HWLOC, SVG };

static const char usage[] =
	"usage: marrow-topo [--json | --svg | --text | --nccl | --hwloc] [--gpus N,N,...] [--hosts N] [FILE]\n"
	"Shows this machine, or the one recorded in FILE (- for standard input): marrow-topo's own text, NCCL's topology XML or\n"
	"hwloc's XML.\n"
	"  --json      all of it for programs\n"
	"  --svg       a picture: the machine, its rings, with --hosts rails and trees\n"
	"  --text      the machine in the text form that FILE may have\n"
	"  --nccl      the machine as NCCL's XML (NCCL_TOPO_FILE)\n"
	"  --hwloc     the machine as hwloc's XML (HWLOC_XMLFILE), which has no links and one host\n"
	"  --gpus      only these GPUs, in this order, by the numbers in their names or by name\n"
	"  --hosts     rails, trees and times over so many hosts of this kind (1 to 65536)\n";

struct options {
	enum form form;
	char *gpus;
	const char *file;
	uint32_t hosts;
};

static bool read_options(struct options *o, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		char *end;
		if (strcmp(argv[i], "--json") == 0)
			o->form = JSON;
		else if (strcmp(argv[i], "--svg") == 0)
			o->form = SVG;
		else if (strcmp(argv[i], "--text") == 0)
			o->form = TEXT;
		else if (strcmp(argv[i], "--nccl") == 0)
			o->form = NCCL;
		else if (strcmp(argv[i], "--hwloc") == 0)
			o->form = HWLOC;
		else if (strcmp(argv[i], "--gpus") == 0 && i + 1 < argc)
			o->gpus = argv[++i];
		else if (strcmp(argv[i], "--hosts") == 0 && i + 1 < argc) {
			unsigned long hosts = strtoul(argv[++i], &end, 10);
			if (*end != '\0' || hosts < 1 || hosts > 65536)
				return false;
			o->hosts = (uint32_t)hosts;
		} else if ((argv[i][0] != '-' || strcmp(argv[i], "-") == 0) && o->file == NULL)
			o->file = argv[i];
		else
			return false;
	}
	return true;
}

static bool keep_gpus(struct mrw_topo *topo, char *list)
{
	uint32_t gpus[MRW_TOPO_GPUS], count = 0;

	for (char *word = strtok(list, ","); word != NULL; word = strtok(NULL, ",")) {
		char name[MRW_TOPO_NAME_BYTES];
		bool number = word[0] >= '0' && word[0] <= '9' && strchr(word, ':') == NULL;
		snprintf(name, sizeof name, number ? "gpu%.20s" : "%.31s", word);
		int32_t node = mrw_topo_find(topo, name);
		if (node < 0 || topo->nodes[node].kind != MRW_TOPO_GPU) {
			fprintf(stderr, "marrow-topo: there is no GPU %s\n", name);
			return false;
		}
		if (count < MRW_TOPO_GPUS)
			gpus[count++] = topo->nodes[node].index;
	}
	if (count > 0 && mrw_topo_keep_gpus(topo, gpus, count))
		return true;
	fprintf(stderr, "marrow-topo: --gpus names none, or one twice\n");
	return false;
}

static bool get_machine(struct mrw_topo *topo, const char *file)
{
	struct mrw_topo_error error;

	if (file == NULL) {
		if (mrw_topo_discover(topo, NULL, &error))
			return true;
		fprintf(stderr, "marrow-topo: this machine contradicts itself: %s\n", error.text);
		return false;
	}
	if (mrw_topo_load(topo, strcmp(file, "-") == 0 ? "/dev/stdin" : file, &error))
		return true;
	if (error.line > 0)
		fprintf(stderr, "%s:%u: %s\n", file, error.line, error.text);
	else
		fprintf(stderr, "%s: %s\n", file, error.text);
	return false;
}

int main(int argc, char **argv)
{
	struct options options = {.hosts = 1};
	struct mrw_topo *topo = calloc(1, sizeof *topo);
	struct topo_answers *answers = calloc(1, sizeof *answers);
	static struct topo_costs costs;
	int status = 1;

	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		fputs(usage, stdout);
		status = 0;
		goto done;
	}
	if (!read_options(&options, argc, argv)) {
		fputs(usage, stderr);
		status = 2;
		goto done;
	}
	if (topo == NULL || answers == NULL) {
		fputs("marrow-topo: no memory\n", stderr);
		goto done;
	}
	if (!get_machine(topo, options.file) || (options.gpus != NULL && !keep_gpus(topo, options.gpus)))
		goto done;
	answers->topo = topo;
	answers->hosts = options.hosts;
	mrw_topo_pair_nics(topo, &answers->pairing);
	mrw_topo_rails(topo, &answers->pairing, &answers->rails);
	mrw_topo_find_rings(topo, &answers->rings);
	topo_make_costs(answers, &costs);
	answers->costs = &costs;
	switch (options.form) {
	case PEOPLE:
		topo_print_people(answers, stdout);
		break;
	case JSON:
		topo_print_json(answers, stdout);
		break;
	case SVG:
		if (!topo_print_svg(answers, stdout)) {
			fputs("marrow-topo: no memory, or the picture could not be written\n", stderr);
			goto done;
		}
		break;
	case TEXT:
		mrw_topo_write_text(topo, stdout);
		break;
	case NCCL:
		mrw_topo_write_nccl(topo, stdout);
		break;
	case HWLOC:
		mrw_topo_write_hwloc(topo, stdout);
		break;
	}
	status = fflush(stdout) != 0 || ferror(stdout);
done:
	free(topo);
	free(answers);
	return status;
}
