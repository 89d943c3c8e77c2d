/* Our text form: one node, link or fact a line, "kind name key=value ...", in an order in which every name is known before it is
 * used. # begins a comment. Values with spaces stand in double quotes.
 *
 *	marrow-topo 1
 *	machine between_cpus=22000 links=yes virtual=no
 *	cpu numa0 numa=0 host=0 arch=x86_64 vendor=GenuineIntel cores=0-47
 *	bridge sw0 in=numa0 bus=0000:10:00.0 mb_s=63015 acs=no
 *	gpu gpu0 in=sw0 bus=0000:17:00.0 mb_s=63015 cuda=0 sm=90 mig=1 iommu=4 bar1=137438953472 uuid=GPU-1 model="H100"
 *	nic mlx5_0 in=sw0 bus=0000:18:00.0 mb_s=63015 port=1 rate=50000 layer=infiniband up=yes iommu=5 gid=fe80::1
 *	nvswitch nvs0
 *	nvlink gpu0 nvs0 lanes=18 lane_mb_s=25000
 *	c2c gpu0 numa0 lanes=10 lane_mb_s=45000
 *	p2p gpu0 gpu1 access=yes atomics=no
 *	note "what people should know"
 */
#include "topo/build.h"

#include <string.h>

enum { MAX_WORDS = 24, LINE_BYTES = 4096 };

struct line {
	char text[LINE_BYTES];
	uint32_t nwords;
	char *words[MAX_WORDS]; /* keyword, names and key=value, quotes taken off */
	bool used[MAX_WORDS];
};

/* A line into words. */
static bool split(struct line *line, struct mrw_topo_error *error)
{
	char *at = line->text;

	line->nwords = 0;
	memset(line->used, 0, sizeof line->used);
	for (;;) {
		while (*at == ' ' || *at == '\t' || *at == '\r')
			at++;
		if (*at == '\0' || *at == '#')
			return true;
		if (line->nwords == MAX_WORDS)
			return mrw_topo_refuse(error, "more than %d words", MAX_WORDS);
		char *to = at;
		bool quoted = false;
		line->words[line->nwords++] = at;
		for (; *at != '\0' && (quoted || strchr(" \t\r", *at) == NULL); at++) {
			if (*at == '"')
				quoted = !quoted;
			else
				*to++ = *at;
		}
		if (quoted)
			return mrw_topo_refuse(error, "a quote is not closed");
		if (*at != '\0')
			at++;
		*to = '\0';
	}
}

static const char *value_of(struct line *line, const char *key)
{
	size_t length = strlen(key);

	for (uint32_t i = 1; i < line->nwords; i++)
		if (!line->used[i] && strncmp(line->words[i], key, length) == 0 && line->words[i][length] == '=') {
			line->used[i] = true;
			return line->words[i] + length + 1;
		}
	return NULL;
}

/* Leaves *value alone if the key is not there. */
static bool take_number(struct line *line, const char *key, uint64_t max, uint64_t *value, struct mrw_topo_error *error)
{
	const char *text = value_of(line, key);

	return text == NULL || mrw_topo_number(text, max, value) ||
	       mrw_topo_refuse(error, "%s=%.40s: a number up to %llu belongs there", key, text,
			       (unsigned long long)max);
}

static bool take_int(struct line *line, const char *key, int32_t *value, struct mrw_topo_error *error)
{
	uint64_t number = UINT64_MAX;

	if (!take_number(line, key, INT32_MAX, &number, error))
		return false;
	if (number != UINT64_MAX)
		*value = (int32_t)number;
	return true;
}

static bool take_text(struct line *line, const char *key, char *value, size_t bytes, struct mrw_topo_error *error)
{
	const char *text = value_of(line, key);

	if (text == NULL)
		return true;
	if (strlen(text) >= bytes)
		return mrw_topo_refuse(error, "%s: longer than %zu bytes", key, bytes - 1);
	for (const char *c = text; *c != '\0'; c++)
		if ((unsigned char)*c < ' ' || *c == 127)
			return mrw_topo_refuse(error, "%s: a control character", key);
	memcpy(value, text, strlen(text) + 1);
	return true;
}

static bool take_known(struct line *line, const char *key, enum mrw_topo_known *value, struct mrw_topo_error *error)
{
	const char *text = value_of(line, key);

	if (text == NULL)
		return true;
	if (strcmp(text, "yes") != 0 && strcmp(text, "no") != 0)
		return mrw_topo_refuse(error, "%s=%.40s: yes or no belongs there", key, text);
	*value = text[0] == 'y' ? MRW_YES : MRW_NO;
	return true;
}

/* "0-23,48" */
static bool take_cores(struct line *line, uint64_t *cores, struct mrw_topo_error *error)
{
	const char *text = value_of(line, "cores");

	for (const char *at = text; at != NULL && *at != '\0';) {
		uint32_t range[2], n = 0;
		do {
			uint32_t digits = 0;
			range[n] = 0;
			for (; *at >= '0' && *at <= '9' && digits < 6; at++, digits++)
				range[n] = range[n] * 10 + (uint32_t)(*at - '0');
			if (digits == 0 || digits == 6)
				return mrw_topo_refuse(error, "cores=%.40s: numbers and ranges belong there", text);
			n++;
		} while (n < 2 && *at == '-' && at++);
		if (n == 1)
			range[1] = range[0];
		if (range[0] > range[1] || range[1] >= MRW_TOPO_CORES)
			return mrw_topo_refuse(error, "cores=%.40s: a range is backwards or beyond %d", text,
					       MRW_TOPO_CORES - 1);
		for (uint32_t c = range[0]; c <= range[1]; c++)
			cores[c / 64] |= (uint64_t)1 << c % 64;
		if (*at != '\0' && *at++ != ',')
			return mrw_topo_refuse(error, "cores=%.40s: numbers and ranges belong there", text);
	}
	return true;
}

static int32_t take_name(const struct mrw_topo *topo, struct line *line, uint32_t word, struct mrw_topo_error *error)
{
	int32_t node;

	if (word >= line->nwords)
		return mrw_topo_refuse(error, "%s wants two names", line->words[0]) - 1;
	line->used[word] = true;
	node = mrw_topo_find(topo, line->words[word]);
	return node >= 0 ? node : mrw_topo_refuse(error, "%.40s is not named above", line->words[word]) - 1;
}

static bool read_details(struct mrw_topo *topo, struct line *line, const struct mrw_topo_node *node,
			 struct mrw_topo_error *error)
{
	uint64_t number = 0, other = 1;

	if (node->kind == MRW_TOPO_CPU) {
		struct mrw_topo_cpu *cpu = &topo->cpus[node->index];
		if (!take_int(line, "numa", &cpu->numa, error) ||
		    !take_number(line, "host", MRW_TOPO_CPUS, &number, error) ||
		    !take_text(line, "arch", cpu->arch, sizeof cpu->arch, error) ||
		    !take_text(line, "vendor", cpu->vendor, sizeof cpu->vendor, error) ||
		    !take_cores(line, cpu->cores, error))
			return false;
		cpu->host = (uint32_t)number;
	} else if (node->kind == MRW_TOPO_BRIDGE) {
		return take_known(line, "acs", &topo->bridges[node->index].acs, error);
	} else if (node->kind == MRW_TOPO_GPU) {
		struct mrw_topo_gpu *gpu = &topo->gpus[node->index];
		if (!take_int(line, "cuda", &gpu->cuda, error) || !take_number(line, "sm", 999, &number, error) ||
		    !take_int(line, "mig", &gpu->mig, error) || !take_int(line, "iommu", &gpu->iommu_group, error) ||
		    !take_number(line, "bar1", UINT64_MAX, &gpu->bar1_bytes, error) ||
		    !take_text(line, "uuid", gpu->uuid, sizeof gpu->uuid, error) ||
		    !take_text(line, "model", gpu->model, sizeof gpu->model, error))
			return false;
		gpu->sm = (uint32_t)number;
	} else if (node->kind == MRW_TOPO_NIC) {
		struct mrw_topo_nic *nic = &topo->nics[node->index];
		const char *layer = value_of(line, "layer");
		if (!take_number(line, "rate", MRW_TOPO_MAX_MB_S, &number, error) ||
		    !take_number(line, "port", 255, &other, error) || !take_known(line, "up", &nic->up, error) ||
		    !take_int(line, "iommu", &nic->iommu_group, error) ||
		    !take_text(line, "gid", nic->gid, sizeof nic->gid, error))
			return false;
		nic->rate_mb_s = (uint32_t)number;
		nic->port = (uint16_t)other;
		if (layer != NULL && strcmp(layer, "infiniband") != 0 && strcmp(layer, "ethernet") != 0)
			return mrw_topo_refuse(error, "layer=%.40s: infiniband or ethernet belongs there", layer);
		if (layer != NULL)
			nic->layer = layer[0] == 'i' ? MRW_LAYER_INFINIBAND : MRW_LAYER_ETHERNET;
	}
	return true;
}

static bool read_node(struct mrw_topo *topo, struct line *line, enum mrw_topo_kind kind, struct mrw_topo_error *error)
{
	char bus[MRW_TOPO_NAME_BYTES] = "";
	int32_t parent = -1, node;
	uint64_t mb_s = 0;

	if (line->nwords < 2)
		return mrw_topo_refuse(error, "%s wants a name", line->words[0]);
	line->used[1] = true;
	const char *in = value_of(line, "in");
	if (in != NULL && (parent = mrw_topo_find(topo, in)) < 0)
		return mrw_topo_refuse(error, "in=%.40s is not named above", in);
	if (!take_text(line, "bus", bus, sizeof bus, error) || !take_number(line, "mb_s", UINT32_MAX, &mb_s, error))
		return false;
	node = mrw_topo_add(topo, kind, line->words[1], parent, bus, mb_s, error);
	return node >= 0 && read_details(topo, line, &topo->nodes[node], error);
}

static bool read_p2p(struct mrw_topo *topo, struct line *line, struct mrw_topo_error *error)
{
	enum mrw_topo_known access = MRW_UNKNOWN, atomics = MRW_UNKNOWN;
	int32_t a = take_name(topo, line, 1, error), b = a < 0 ? -1 : take_name(topo, line, 2, error);

	if (b < 0 || !take_known(line, "access", &access, error) || !take_known(line, "atomics", &atomics, error))
		return false;
	if (topo->nodes[a].kind != MRW_TOPO_GPU || topo->nodes[b].kind != MRW_TOPO_GPU || a == b)
		return mrw_topo_refuse(error, "p2p is between two GPUs");
	uint16_t i = topo->nodes[a].index, j = topo->nodes[b].index;
	if (topo->p2p[i][j] != MRW_UNKNOWN || topo->p2p_atomics[i][j] != MRW_UNKNOWN)
		return mrw_topo_refuse(error, "p2p of %s and %s twice", topo->nodes[a].name, topo->nodes[b].name);
	topo->p2p[i][j] = (uint8_t)access;
	topo->p2p_atomics[i][j] = (uint8_t)atomics;
	return true;
}

static bool read_link(struct mrw_topo *topo, struct line *line, enum mrw_topo_link_kind kind,
		      struct mrw_topo_error *error)
{
	int32_t a = take_name(topo, line, 1, error), b = a < 0 ? -1 : take_name(topo, line, 2, error);
	uint64_t lanes = 1, lane_mb_s = 0;

	if (b < 0 || !take_number(line, "lanes", UINT32_MAX, &lanes, error) ||
	    !take_number(line, "lane_mb_s", UINT32_MAX, &lane_mb_s, error))
		return false;
	return mrw_topo_add_link(topo, kind, a, b, lanes, lane_mb_s, error);
}

static bool read_machine(struct mrw_topo *topo, struct line *line, struct mrw_topo_error *error)
{
	uint64_t mb_s = 0;

	if (topo->nnodes > 0)
		return mrw_topo_refuse(error, "machine comes before all nodes");
	if (!take_number(line, "between_cpus", MRW_TOPO_MAX_MB_S, &mb_s, error) ||
	    !take_known(line, "links", &topo->links_known, error) ||
	    !take_known(line, "virtual", &topo->virtual_machine, error))
		return false;
	topo->between_cpus_mb_s = (uint32_t)mb_s;
	return true;
}

static bool read_line(struct mrw_topo *topo, struct line *line, struct mrw_topo_error *error)
{
	const char *word = line->words[0];

	if (strcmp(word, "machine") == 0)
		return read_machine(topo, line, error);
	if (strcmp(word, "nvlink") == 0)
		return read_link(topo, line, MRW_LINK_NVLINK, error);
	if (strcmp(word, "c2c") == 0)
		return read_link(topo, line, MRW_LINK_C2C, error);
	if (strcmp(word, "p2p") == 0)
		return read_p2p(topo, line, error);
	if (strcmp(word, "note") == 0) {
		if (line->nwords < 2 || strlen(line->words[1]) >= MRW_TOPO_NOTE_BYTES)
			return mrw_topo_refuse(error, "note wants a text of up to %d bytes", MRW_TOPO_NOTE_BYTES - 1);
		line->used[1] = true;
		mrw_topo_note(topo, "%s", line->words[1]);
		return true;
	}
	for (enum mrw_topo_kind kind = MRW_TOPO_CPU; kind <= MRW_TOPO_NVSWITCH; kind++)
		if (strcmp(word, mrw_topo_kind_name(kind)) == 0)
			return read_node(topo, line, kind, error);
	return mrw_topo_refuse(error, "%.40s is no kind of line", word);
}

bool mrw_topo_read_text(struct mrw_topo *topo, const char *bytes, size_t nbytes, struct mrw_topo_error *error)
{
	const char *end = bytes + nbytes;
	struct line line;
	bool begun = false;

	error->line = 0;
	while (bytes < end) {
		const char *stop = memchr(bytes, '\n', (size_t)(end - bytes));
		size_t length = (size_t)((stop != NULL ? stop : end) - bytes);
		error->line++;
		if (stop == NULL)
			return mrw_topo_refuse(error, "cut off: the last line has no end");
		if (length >= sizeof line.text)
			return mrw_topo_refuse(error, "longer than %d bytes", LINE_BYTES - 1);
		if (memchr(bytes, '\0', length) != NULL)
			return mrw_topo_refuse(error, "a zero byte");
		memcpy(line.text, bytes, length);
		line.text[length] = '\0';
		bytes = stop + 1;
		if (!split(&line, error))
			return false;
		if (line.nwords == 0)
			continue;
		if (!begun) {
			if (line.nwords != 2 || strcmp(line.words[0], "marrow-topo") != 0 ||
			    strcmp(line.words[1], "1") != 0)
				return mrw_topo_refuse(error, "\"marrow-topo 1\" belongs first");
			begun = true;
			continue;
		}
		line.used[0] = true;
		if (!read_line(topo, &line, error))
			return false;
		for (uint32_t i = 1; i < line.nwords; i++)
			if (!line.used[i])
				return mrw_topo_refuse(error, "%.40s does not belong to a %s line, or is there twice",
						       line.words[i], line.words[0]);
	}
	return begun || mrw_topo_refuse(error, "nothing in it");
}

static void write_cores(const uint64_t *cores, FILE *file)
{
	const char *before = " cores=";

	for (uint32_t first = 0; first < MRW_TOPO_CORES; first++) {
		uint32_t last = first;
		if (!(cores[first / 64] >> first % 64 & 1))
			continue;
		while (last + 1 < MRW_TOPO_CORES && (cores[(last + 1) / 64] >> (last + 1) % 64 & 1))
			last++;
		fprintf(file, last > first ? "%s%u-%u" : "%s%u", before, first, last);
		before = ",";
		first = last;
	}
}

static void write_text(FILE *file, const char *key, const char *value)
{
	/* A quote cannot be written: it becomes an apostrophe. */
	if (value[0] == '\0')
		return;
	fprintf(file, " %s=\"", key);
	for (; *value != '\0'; value++)
		fputc(*value == '"' ? '\'' : *value, file);
	fputc('"', file);
}

static void write_int(FILE *file, const char *key, int64_t value, int64_t unknown)
{
	if (value != unknown)
		fprintf(file, " %s=%lld", key, (long long)value);
}

static void write_known(FILE *file, const char *key, enum mrw_topo_known value)
{
	if (value != MRW_UNKNOWN)
		fprintf(file, " %s=%s", key, value == MRW_YES ? "yes" : "no");
}

static void write_details(const struct mrw_topo *topo, const struct mrw_topo_node *node, FILE *file)
{
	if (node->kind == MRW_TOPO_CPU) {
		const struct mrw_topo_cpu *cpu = &topo->cpus[node->index];
		write_int(file, "numa", cpu->numa, -1);
		write_int(file, "host", cpu->host, 0);
		write_text(file, "arch", cpu->arch);
		write_text(file, "vendor", cpu->vendor);
		write_cores(cpu->cores, file);
	} else if (node->kind == MRW_TOPO_BRIDGE) {
		write_known(file, "acs", topo->bridges[node->index].acs);
	} else if (node->kind == MRW_TOPO_GPU) {
		const struct mrw_topo_gpu *gpu = &topo->gpus[node->index];
		write_int(file, "cuda", gpu->cuda, -1);
		write_int(file, "sm", gpu->sm, 0);
		write_int(file, "mig", gpu->mig, -1);
		write_int(file, "iommu", gpu->iommu_group, -1);
		if (gpu->bar1_bytes != 0)
			fprintf(file, " bar1=%llu", (unsigned long long)gpu->bar1_bytes);
		write_text(file, "uuid", gpu->uuid);
		write_text(file, "model", gpu->model);
	} else if (node->kind == MRW_TOPO_NIC) {
		const struct mrw_topo_nic *nic = &topo->nics[node->index];
		write_int(file, "port", nic->port, 1);
		write_int(file, "rate", nic->rate_mb_s, 0);
		if (nic->layer != MRW_LAYER_UNKNOWN)
			fprintf(file, " layer=%s", nic->layer == MRW_LAYER_INFINIBAND ? "infiniband" : "ethernet");
		write_known(file, "up", nic->up);
		write_int(file, "iommu", nic->iommu_group, -1);
		write_text(file, "gid", nic->gid);
	}
}

bool mrw_topo_write_text(const struct mrw_topo *topo, FILE *file)
{
	fprintf(file, "marrow-topo 1\nmachine");
	write_int(file, "between_cpus", topo->between_cpus_mb_s, 0);
	write_known(file, "links", topo->links_known);
	write_known(file, "virtual", topo->virtual_machine);
	fputc('\n', file);
	for (uint32_t i = 0; i < topo->nnodes; i++) {
		const struct mrw_topo_node *node = &topo->nodes[i];
		fprintf(file, "%s %s", mrw_topo_kind_name(node->kind), node->name);
		if (node->parent >= 0)
			fprintf(file, " in=%s", topo->nodes[node->parent].name);
		if (node->bus[0] != '\0')
			fprintf(file, " bus=%s", node->bus);
		write_int(file, "mb_s", node->up_mb_s, 0);
		write_details(topo, node, file);
		fputc('\n', file);
	}
	for (uint32_t i = 0; i < topo->nlinks; i++) {
		const struct mrw_topo_link *link = &topo->links[i];
		fprintf(file, "%s %s %s lanes=%u", link->kind == MRW_LINK_C2C ? "c2c" : "nvlink",
			topo->nodes[link->a].name, topo->nodes[link->b].name, link->lanes);
		write_int(file, "lane_mb_s", link->lane_mb_s, 0);
		fputc('\n', file);
	}
	for (uint32_t i = 0; i < topo->ngpus; i++)
		for (uint32_t j = 0; j < topo->ngpus; j++) {
			if (topo->p2p[i][j] == MRW_UNKNOWN && topo->p2p_atomics[i][j] == MRW_UNKNOWN)
				continue;
			fprintf(file, "p2p %s %s", topo->nodes[topo->gpus[i].node].name,
				topo->nodes[topo->gpus[j].node].name);
			write_known(file, "access", (enum mrw_topo_known)topo->p2p[i][j]);
			write_known(file, "atomics", (enum mrw_topo_known)topo->p2p_atomics[i][j]);
			fputc('\n', file);
		}
	for (uint32_t i = 0; i < topo->nnotes; i++)
		fprintf(file, "note \"%s\"\n", topo->notes[i]);
	return fflush(file) == 0 && !ferror(file);
}
