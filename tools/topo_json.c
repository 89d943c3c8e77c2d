#include "topo_cost.h"
#include "collectives/select.h"

/* Text is bytes of unknown encoding: what is not ASCII is written as Latin-1. */
static void string(FILE *file, const char *text)
{
	fputc('"', file);
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;
		if (c == '"' || c == '\\')
			fprintf(file, "\\%c", c);
		else if (c < ' ' || c > '~')
			fprintf(file, "\\u%04x", c);
		else
			fputc(c, file);
	}
	fputc('"', file);
}

static void text_field(FILE *file, const char *key, const char *text)
{
	fprintf(file, ", \"%s\": ", key);
	if (text[0] == '\0')
		fputs("null", file);
	else
		string(file, text);
}

static void number_field(FILE *file, const char *key, int64_t value, int64_t unknown)
{
	if (value == unknown)
		fprintf(file, ", \"%s\": null", key);
	else
		fprintf(file, ", \"%s\": %lld", key, (long long)value);
}

static const char *known(enum mrw_topo_known value)
{
	return value == MRW_UNKNOWN ? "null" : value == MRW_YES ? "true" : "false";
}

static void begin_list(FILE *file, const char *name)
{
	fprintf(file, ",\n\"%s\": [", name);
}

/* Between entries of a list. */
static void next(FILE *file, uint32_t i)
{
	fputs(i == 0 ? "\n  " : ",\n  ", file);
}

static const char *name_of(const struct mrw_topo *topo, int32_t node)
{
	return node < 0 ? "" : topo->nodes[node].name;
}

static void node_fields(FILE *file, const struct mrw_topo *topo, uint32_t number)
{
	const struct mrw_topo_node *node = &topo->nodes[number];

	fputs("{\"name\": ", file);
	string(file, node->name);
	text_field(file, "bus", node->bus);
	text_field(file, "in", name_of(topo, node->parent));
	number_field(file, "mb_s", node->up_mb_s, 0);
}

static void print_nodes(const struct mrw_topo *topo, FILE *file)
{
	begin_list(file, "cpus");
	for (uint32_t i = 0; i < topo->ncpus; i++) {
		const struct mrw_topo_cpu *cpu = &topo->cpus[i];
		next(file, i);
		fputs("{\"name\": ", file);
		string(file, name_of(topo, cpu->node));
		number_field(file, "numa", cpu->numa, -1);
		number_field(file, "host", cpu->host, -1);
		text_field(file, "vendor", cpu->vendor);
		text_field(file, "arch", cpu->arch);
		fputs("}", file);
	}
	fputs("]", file);
	begin_list(file, "bridges");
	for (uint32_t i = 0; i < topo->nbridges; i++) {
		next(file, i);
		node_fields(file, topo, topo->bridges[i].node);
		fprintf(file, ", \"acs\": %s}", known(topo->bridges[i].acs));
	}
	fputs("]", file);
	begin_list(file, "gpus");
	for (uint32_t i = 0; i < topo->ngpus; i++) {
		const struct mrw_topo_gpu *gpu = &topo->gpus[i];
		next(file, i);
		node_fields(file, topo, gpu->node);
		number_field(file, "cuda", gpu->cuda, -1);
		number_field(file, "sm", gpu->sm, 0);
		number_field(file, "mig", gpu->mig, -1);
		number_field(file, "iommu_group", gpu->iommu_group, -1);
		if (gpu->bar1_bytes == 0)
			fputs(", \"bar1_bytes\": null", file);
		else
			fprintf(file, ", \"bar1_bytes\": %llu", (unsigned long long)gpu->bar1_bytes);
		text_field(file, "uuid", gpu->uuid);
		text_field(file, "model", gpu->model);
		fputs("}", file);
	}
	fputs("]", file);
	begin_list(file, "nics");
	for (uint32_t i = 0; i < topo->nnics; i++) {
		const struct mrw_topo_nic *nic = &topo->nics[i];
		next(file, i);
		node_fields(file, topo, nic->node);
		number_field(file, "port", nic->port, 0);
		number_field(file, "rate_mb_s", nic->rate_mb_s, 0);
		text_field(file, "layer",
			   nic->layer == MRW_LAYER_UNKNOWN      ? ""
			   : nic->layer == MRW_LAYER_INFINIBAND ? "infiniband"
								: "ethernet");
		fprintf(file, ", \"up\": %s", known(nic->up));
		number_field(file, "iommu_group", nic->iommu_group, -1);
		text_field(file, "gid", nic->gid);
		fputs("}", file);
	}
	fputs("]", file);
	begin_list(file, "nvswitches");
	for (uint32_t i = 0; i < topo->nnvswitches; i++) {
		next(file, i);
		string(file, name_of(topo, topo->nvswitches[i].node));
	}
	fputs("]", file);
	begin_list(file, "links");
	for (uint32_t i = 0; i < topo->nlinks; i++) {
		const struct mrw_topo_link *link = &topo->links[i];
		next(file, i);
		fprintf(file, "{\"kind\": \"%s\"", link->kind == MRW_LINK_C2C ? "c2c" : "nvlink");
		text_field(file, "a", name_of(topo, link->a));
		text_field(file, "b", name_of(topo, link->b));
		number_field(file, "lanes", link->lanes, 0);
		number_field(file, "lane_mb_s", link->lane_mb_s, 0);
		fputs("}", file);
	}
	fputs("]", file);
}

static void path_fields(FILE *file, struct mrw_topo_path path)
{
	text_field(file, "path", mrw_path_name(path.class));
	number_field(file, "hops", path.hops, -1);
	number_field(file, "mb_s", path.mb_s, 0);
	fprintf(file, ", \"guessed\": %s, \"redirected\": %s", path.guessed ? "true" : "false",
		path.redirected ? "true" : "false");
}

/* Between GPUs, each pair once. */
static void print_paths(const struct mrw_topo *topo, FILE *file)
{
	uint32_t count = 0;

	begin_list(file, "paths");
	for (uint32_t i = 0; i < topo->ngpus; i++)
		for (uint32_t j = i + 1; j < topo->ngpus; j++) {
			next(file, count++);
			fputs("{\"a\": ", file);
			string(file, name_of(topo, topo->gpus[i].node));
			text_field(file, "b", name_of(topo, topo->gpus[j].node));
			path_fields(file, mrw_topo_path(topo, topo->gpus[i].node, topo->gpus[j].node));
			fprintf(file, ", \"p2p\": %s, \"p2p_atomics\": %s}",
				known((enum mrw_topo_known)topo->p2p[i][j]),
				known((enum mrw_topo_known)topo->p2p_atomics[i][j]));
		}
	fputs("]", file);
}

static void print_choices(const struct topo_answers *a, FILE *file)
{
	const struct mrw_topo *topo = a->topo;

	begin_list(file, "pairs");
	for (uint32_t i = 0; i < a->pairing.npairs; i++) {
		const struct mrw_topo_pair *pair = &a->pairing.pairs[i];
		next(file, i);
		fputs("{\"gpu\": ", file);
		string(file, name_of(topo, topo->gpus[pair->gpu].node));
		text_field(file, "nic", name_of(topo, topo->nics[pair->nic].node));
		path_fields(file, pair->path);
		number_field(file, "sharers", pair->sharers, -1);
		text_field(file, "reason", pair->reason);
		fputs("}", file);
	}
	fputs("]", file);
	begin_list(file, "rails");
	for (uint32_t r = 0; r < a->rails.nrails; r++) {
		next(file, r);
		fprintf(file, "{\"rail\": %u", r);
		text_field(file, "nic", name_of(topo, topo->nics[a->rails.nic[r]].node));
		text_field(file, "gpu", name_of(topo, topo->gpus[a->rails.gpu[r]].node));
		fputs(", \"hosts\": [", file);
		for (uint32_t p = 0; p < a->hosts; p++)
			fprintf(file, "%s%u", p == 0 ? "" : ", ", mrw_topo_rail_host(a->hosts, a->rails.nrails, r, p));
		fputs("]}", file);
	}
	fputs("]", file);
	begin_list(file, "rings");
	for (uint32_t r = 0; r < a->rings.nrings; r++) {
		const struct mrw_topo_ring *ring = &a->rings.rings[r];
		next(file, r);
		fprintf(file, "{\"mb_s\": %u", ring->mb_s);
		text_field(file, "worst", mrw_path_name(ring->worst));
		fputs(", \"order\": [", file);
		for (uint32_t i = 0; i < a->rings.ngpus; i++) {
			fputs(i == 0 ? "" : ", ", file);
			string(file, name_of(topo, topo->gpus[ring->order[i]].node));
		}
		fputs("]}", file);
	}
	fprintf(file, "],\n\"rings_mb_s\": %u,\n\"rings_best\": %s", a->rings.mb_s, a->rings.best ? "true" : "false");
}

static void print_trees(const struct topo_answers *a, FILE *file)
{
	const struct {
		const char *over;
		uint32_t n;
	} sets[] = {{"gpus", a->topo->ngpus}, {"hosts", a->hosts}};
	uint32_t count = 0;

	begin_list(file, "trees");
	for (size_t s = 0; s < sizeof sets / sizeof *sets; s++)
		for (uint32_t which = 0; which < 2 && sets[s].n > 0; which++) {
			next(file, count++);
			fprintf(file, "{\"over\": \"%s\", \"parents\": [", sets[s].over);
			for (uint32_t r = 0; r < sets[s].n; r++) {
				int32_t parent = mrw_topo_double_tree(sets[s].n, which, r).parent;
				fputs(r == 0 ? "" : ", ", file);
				if (parent < 0)
					fputs("null", file);
				else
					fprintf(file, "%d", parent);
			}
			fputs("]}", file);
		}
	fputs("]", file);
}

/* Whom ranks could exchange with, and what all-reduces would take. */
static void print_ways(const struct mrw_weights *w, FILE *file)
{
	uint32_t count = 0;
	text_field(file, "peers", mrw_peers_name(w->taken));
	begin_list(file, "ways");
	for (uint32_t k = 0; k < MRW_PEERS_COUNT; k++)
		for (uint32_t i = 0; w->has[k] && i < MRW_WEIGH_SIZES; i++) {
			next(file, count++);
			fprintf(file, "{\"peers\": \"%s\", \"bytes\": %llu, \"us\": %.3f}", mrw_peers_name((enum mrw_peers)k),
				(unsigned long long)mrw_weigh_bytes[i], w->ns[k][i] / 1e3);
		}
	fputs("]", file);
}

/* Null where there is but one rank. */
static void print_costs(const struct topo_costs *c, FILE *file)
{
	fputs(",\n\"predicted\": ", file);
	if (c->shape.nranks == 0) {
		fputs("null", file);
		return;
	}
	fprintf(file, "{\"ranks\": %u, \"hosts\": %u, \"target\": \"%s\"", c->shape.nranks, c->shape.hosts,
		c->shape.target == MARROW_TARGET_CUDA ? "cuda" : "host");
	number_field(file, "link_mb_s", (int64_t)c->link_mb_s, 0);
	number_field(file, "nic_mb_s", (int64_t)c->nic_mb_s, 0);
	text_field(file, "figures", c->figures.source);
	begin_list(file, "times");
	for (uint32_t f = 0; f < TOPO_COST_FUNCS; f++)
		for (uint32_t b = 0; b < TOPO_COST_SIZES; b++) {
			next(file, f + b);
			fprintf(file, "{\"function\": \"%s\", \"bytes\": %llu, \"algo\": \"%s\", \"us\": %.3f}", mrw_tuning_func_name(c->funcs[f]),
				(unsigned long long)c->bytes[b], mrw_algo_name(c->times[f][b].algo), c->times[f][b].us);
		}
	fputs("]", file);
	if (c->weights.weighed)
		print_ways(&c->weights, file);
	begin_list(file, "notes");
	for (uint32_t i = 0; i < c->nnotes; i++) {
		next(file, i);
		string(file, c->notes[i]);
	}
	fputs("]}", file);
}

void topo_print_json(const struct topo_answers *a, FILE *file)
{
	fprintf(file, "{\"host_count\": %u", a->hosts);
	number_field(file, "between_cpus_mb_s", a->topo->between_cpus_mb_s, 0);
	fprintf(file, ", \"virtual_machine\": %s, \"links_known\": %s", known(a->topo->virtual_machine),
		known(a->topo->links_known));
	print_nodes(a->topo, file);
	print_paths(a->topo, file);
	print_choices(a, file);
	print_trees(a, file);
	print_costs(a->costs, file);
	begin_list(file, "notes");
	for (uint32_t i = 0; i < a->topo->nnotes; i++) {
		next(file, i);
		string(file, a->topo->notes[i]);
	}
	fputs("]}\n", file);
}
