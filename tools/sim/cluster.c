/* cluster.c - reading descriptions: a word and a value a line, # begins a comment. */
#include "cluster.h"

#include "device/wire.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct word {
	const char *name;
	size_t offset;
	double least, most;
	bool whole, needed;
};

#define AT(field) offsetof(struct sim_cluster, field)
static const struct word words[] = {
	{"hosts", AT(hosts), 1, SIM_MAX_RANKS, true, true},
	{"gpus", AT(gpus), 1, 64, true, true},
	{"nics", AT(nics), 0, 64, true, false},
	{"cores", AT(cores), 0, 4096, true, false},
	{"nvlink_gb_s", AT(nvlink_gb_s), 0, 1e5, false, false},
	{"nvlink_us", AT(nvlink_us), 0, 1e4, false, false},
	{"pcie_gb_s", AT(pcie_gb_s), 0, 1e5, false, false},
	{"nic_gb_s", AT(nic_gb_s), 0, 1e5, false, false},
	{"nic_us", AT(nic_us), 0, 1e6, false, false},
	{"request_us", AT(request_us), 0, 1e4, false, false},
	{"post_us", AT(post_us), 0, 1e4, false, false},
	{"memory_gb_s", AT(memory_gb_s), 1e-3, 1e6, false, true},
	{"round_us", AT(round_us), 0, 1e6, false, true},
	{"packet_us", AT(packet_us), 0, 1e6, false, false},
	{"call_us", AT(call_us), 0, 1e6, false, false},
	{"channels", AT(channels), 1, 64, true, false},
	{"rails", AT(rails), 0, 1, true, false},
	{"socket_us", AT(socket_us), 0, 1e7, false, false},
	{"socket_gb_s", AT(socket_gb_s), 0, 1e5, false, false},
	{"join_us", AT(join_us), 0, 1e7, false, false},
};
enum { WORDS = sizeof words / sizeof words[0] };

static bool wrong(struct sim_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool wrong(struct sim_error *error, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(error->text, sizeof error->text, format, args);
	va_end(args);
	return false;
}

static bool number(const char *name, const char *text, double least, double most, bool whole, double *value, struct sim_error *error)
{
	char *end;
	if (!text)
		return wrong(error, "%s: its number is missing", name);
	*value = strtod(text, &end);
	if (end == text || *end != '\0' || !isfinite(*value))
		return wrong(error, "%s: %.40s is no number", name, text);
	if (*value < least || *value > most)
		return wrong(error, "%s %.40s: from %g to %g is possible", name, text, least, most);
	if (whole && *value != floor(*value))
		return wrong(error, "%s %.40s: only whole numbers", name, text);
	return true;
}

static bool name_fits(const char *what, const char *text, char *name, struct sim_error *error)
{
	if (!text || strlen(text) >= SIM_NAME_BYTES)
		return wrong(error, "%s: a name of at most %d characters must follow", what, SIM_NAME_BYTES - 1);
	for (const char *c = text; *c; c++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", *c))
			return wrong(error, "%s %.40s: letters, digits, - _ . only", what, text);
	strcpy(name, text);
	return true;
}

/* Pairs of a word and a number until the line ends. */
static bool read_level(struct sim_cluster *c, char **rest, struct sim_error *error)
{
	struct sim_level l = {.taper = 1};
	const char *word;
	if (c->nlevels == SIM_LEVELS)
		return wrong(error, "level: more than %d", SIM_LEVELS);
	if (!name_fits("level", strtok_r(NULL, " \t", rest), l.name, error))
		return false;
	while ((word = strtok_r(NULL, " \t", rest))) {
		const char *value = strtok_r(NULL, " \t", rest);
		if (strcmp(word, "hosts") == 0) {
			if (!number("level: hosts", value, 1, SIM_MAX_RANKS, true, &l.hosts, error))
				return false;
		} else if (strcmp(word, "taper") == 0) {
			if (!number("level: taper", value, 0.01, 1000, false, &l.taper, error))
				return false;
		} else if (strcmp(word, "us") == 0) {
			if (!number("level: us", value, 0, 1e6, false, &l.us, error))
				return false;
		} else
			return wrong(error, "level: unknown word %.40s (hosts, taper, us)", word);
	}
	if (l.hosts == 0)
		return wrong(error, "level %s: says not how many hosts it joins", l.name);
	if (c->nlevels > 0 && (l.hosts <= c->level[c->nlevels - 1].hosts || fmod(l.hosts, c->level[c->nlevels - 1].hosts) != 0))
		return wrong(error, "level %s: its hosts must be a multiple of those of level %s, which is inside it", l.name, c->level[c->nlevels - 1].name);
	c->level[c->nlevels++] = l;
	return true;
}

static bool read_late(struct sim_cluster *c, char **rest, struct sim_error *error)
{
	struct sim_late l = {.times = 1};
	const char *word;
	if (c->nlates == SIM_LATES)
		return wrong(error, "straggler: more than %d", SIM_LATES);
	if (!number("straggler", strtok_r(NULL, " \t", rest), 0, SIM_MAX_RANKS - 1, true, &l.rank, error))
		return false;
	while ((word = strtok_r(NULL, " \t", rest))) {
		const char *value = strtok_r(NULL, " \t", rest);
		if (strcmp(word, "times") == 0) {
			if (!number("straggler: times", value, 1, 1e6, false, &l.times, error))
				return false;
		} else if (strcmp(word, "late_us") == 0) {
			if (!number("straggler: late_us", value, 0, 1e9, false, &l.us, error))
				return false;
		} else
			return wrong(error, "straggler: unknown word %.40s (times, late_us)", word);
	}
	c->late[c->nlates++] = l;
	return true;
}

/* A number or a range, then what these hosts have. */
static bool read_other(struct sim_cluster *c, char **rest, struct sim_error *error)
{
	struct sim_other o = {.gpus = -1, .nics = -1};
	char *which = strtok_r(NULL, " \t", rest), *dash = which ? strchr(which, '-') : NULL;
	const char *word;
	if (c->nothers == SIM_OTHERS)
		return wrong(error, "host: more than %d lines", SIM_OTHERS);
	if (dash > which)
		*dash = '\0';
	if (!number("host", which, 0, SIM_MAX_RANKS - 1, true, &o.first, error))
		return false;
	o.last = o.first;
	if (dash > which && !number("host", dash + 1, o.first, SIM_MAX_RANKS - 1, true, &o.last, error))
		return false;
	while ((word = strtok_r(NULL, " \t", rest))) {
		const char *value = strtok_r(NULL, " \t", rest);
		if (strcmp(word, "gpus") == 0) {
			if (!number("host: gpus", value, 1, 64, true, &o.gpus, error))
				return false;
		} else if (strcmp(word, "nics") == 0) {
			if (!number("host: nics", value, 1, 64, true, &o.nics, error))
				return false;
		} else
			return wrong(error, "host: unknown word %.40s (gpus, nics)", word);
	}
	if (o.gpus < 0 && o.nics < 0)
		return wrong(error, "host %g: says not what is other there: gpus, nics", o.first);
	for (uint32_t i = 0; i < c->nothers; i++)
		if (o.first <= c->other[i].last && o.last >= c->other[i].first)
			return wrong(error, "host %g: another line describes it", o.first > c->other[i].first ? o.first : c->other[i].first);
	c->other[c->nothers++] = o;
	return true;
}

bool sim_cluster_line(struct sim_cluster *c, const char *line, struct sim_error *error)
{
	char copy[256], *rest = NULL;
	size_t length = strcspn(line, "#\r\n");
	if (length >= sizeof copy)
		return wrong(error, "a line of %zu characters: at most %zu", length, sizeof copy - 1);
	memcpy(copy, line, length);
	copy[length] = '\0';
	const char *word = strtok_r(copy, " \t", &rest);
	if (!word)
		return true;
	if (strcmp(word, "name") == 0)
		return name_fits(word, strtok_r(NULL, " \t", &rest), c->name, error);
	if (strcmp(word, "level") == 0)
		return read_level(c, &rest, error);
	if (strcmp(word, "straggler") == 0)
		return read_late(c, &rest, error);
	if (strcmp(word, "host") == 0)
		return read_other(c, &rest, error);
	const char *value = strtok_r(NULL, " \t", &rest), *more = strtok_r(NULL, " \t", &rest);
	if (more)
		return wrong(error, "%.40s: one value, and then %.40s?", word, more);
	if (strcmp(word, "target") == 0) {
		if (!value || (strcmp(value, "cuda") != 0 && strcmp(value, "host") != 0))
			return wrong(error, "target: cuda or host");
		c->cuda = strcmp(value, "cuda") == 0;
		return true;
	}
	for (uint32_t i = 0; i < WORDS; i++)
		if (strcmp(word, words[i].name) == 0)
			return number(word, value, words[i].least, words[i].most, words[i].whole, (double *)(void *)((char *)c + words[i].offset), error);
	return wrong(error, "unknown word %.40s", word);
}

bool sim_cluster_read(struct sim_cluster *c, FILE *file, struct sim_error *error)
{
	char line[1024];
	memset(c, 0, sizeof *c);
	memset(error, 0, sizeof *error);
	c->cuda = true;
	c->channels = 64;
	for (uint32_t n = 1; fgets(line, sizeof line, file); n++) {
		error->line = n;
		if (n == 1 && (strncmp(line, "marrow-cluster 1", 16) != 0 || line[16 + strspn(line + 16, " \t\r\n")] != 0))
			return wrong(error, "a description begins with the line \"marrow-cluster 1\"");
		if (strlen(line) == sizeof line - 1)
			return wrong(error, "a line of more than %zu characters", sizeof line - 2);
		if (n > 1 && !sim_cluster_line(c, line, error))
			return false;
	}
	if (error->line == 0)
		return wrong(error, "is empty");
	error->line = 0;
	return true;
}

static double ranks(const struct sim_cluster *c)
{
	double sum = c->hosts * c->gpus;
	for (uint32_t i = 0; i < c->nothers; i++)
		sum += c->other[i].gpus >= 0 ? (c->other[i].last - c->other[i].first + 1) * (c->other[i].gpus - c->gpus) : 0;
	return sum;
}

/* NULL: the host is like the rest. */
static const struct sim_other *other_of(const struct sim_cluster *c, uint32_t host)
{
	for (uint32_t i = 0; i < c->nothers; i++)
		if (host >= c->other[i].first && host <= c->other[i].last)
			return &c->other[i];
	return NULL;
}

static bool check_other(const struct sim_cluster *c, const struct sim_other *o, struct sim_error *error)
{
	if (o->last >= c->hosts)
		return wrong(error, "host %g: there are hosts 0 to %g", o->last, c->hosts - 1);
	if (c->rails != 0 && o->nics > c->nics)
		return wrong(error, "host %g: %g NICs on %g rails: a host has at most one for each", o->first, o->nics, c->nics);
	return true;
}

bool sim_cluster_check(const struct sim_cluster *c, struct sim_error *error)
{
	error->line = 0;
	for (uint32_t i = 0; i < WORDS; i++) {
		double value;
		memcpy(&value, (const char *)c + words[i].offset, sizeof value);
		if (words[i].needed && value == 0 && words[i].least > 0)
			return wrong(error, "%s is missing", words[i].name);
	}
	for (uint32_t i = 0; i < c->nothers; i++)
		if (!check_other(c, &c->other[i], error))
			return false;
	if (ranks(c) > SIM_MAX_RANKS || ranks(c) < 2)
		return wrong(error, "%g hosts of %g GPUs%s: from 2 to %d ranks", c->hosts, c->gpus, c->nothers ? ", but for some," : "", SIM_MAX_RANKS);
	if (c->hosts > 1 && (c->nics == 0 || c->nic_gb_s == 0))
		return wrong(error, "several hosts need nics and nic_gb_s");
	if (c->hosts > 1 && c->nics > 4 * c->gpus)
		return wrong(error, "%g NICs for %g GPUs: a rank uses at most 4", c->nics, c->gpus);
	if (c->cuda && sim_cluster_most_gpus(c) > 1 && c->nvlink_gb_s == 0)
		return wrong(error, "several GPUs a host need nvlink_gb_s (or what PCIe gives between peers)");
	for (uint32_t i = 0; i < c->nlates; i++)
		if (c->late[i].rank >= ranks(c))
			return wrong(error, "straggler %g: there are ranks 0 to %g", c->late[i].rank, ranks(c) - 1);
	return true;
}

uint32_t sim_cluster_ranks(const struct sim_cluster *c)
{
	return (uint32_t)ranks(c);
}

uint32_t sim_cluster_gpus(const struct sim_cluster *c, uint32_t host)
{
	const struct sim_other *o = other_of(c, host);
	return (uint32_t)(o && o->gpus >= 0 ? o->gpus : c->gpus);
}

uint32_t sim_cluster_nics(const struct sim_cluster *c, uint32_t host)
{
	const struct sim_other *o = other_of(c, host);
	return (uint32_t)(o && o->nics >= 0 ? o->nics : c->nics);
}

uint32_t sim_cluster_fewest_gpus(const struct sim_cluster *c)
{
	uint32_t fewest = UINT32_MAX;
	for (uint32_t h = 0; h < (uint32_t)c->hosts; h++)
		fewest = sim_cluster_gpus(c, h) < fewest ? sim_cluster_gpus(c, h) : fewest;
	return fewest;
}

uint32_t sim_cluster_most_gpus(const struct sim_cluster *c)
{
	uint32_t most = 0;
	for (uint32_t h = 0; h < (uint32_t)c->hosts; h++)
		most = sim_cluster_gpus(c, h) > most ? sim_cluster_gpus(c, h) : most;
	return most;
}

uint32_t sim_cluster_nics_of_rank(const struct sim_cluster *c)
{
	uint32_t nics = MRW_MAX_NICS;
	for (uint32_t h = 0; h < (uint32_t)c->hosts; h++) {
		uint32_t own = sim_cluster_nics(c, h) / sim_cluster_gpus(c, h);
		nics = own < nics ? own : nics;
	}
	return nics > 1 ? nics : 1;
}
