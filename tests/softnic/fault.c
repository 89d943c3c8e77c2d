#include "fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLAUSES_MAX = 64, ANY_NIC = -1 };

struct clause {
	enum sn_fault fault;
	uint64_t value, nth;
	int nic;
	char host[64];             /* "": any */
};

static const struct {
	const char *name, *meaning;
	uint64_t fallback;
} table[] = {
#define SN_X(id, name, fallback, meaning) {name, meaning, fallback},
	SN_FAULT_LIST(SN_X)
#undef SN_X
};

static struct clause clauses[CLAUSES_MAX];
static uint32_t clause_count;
static bool any[SN_FAULT_COUNT];
static uint64_t seed = 1;

const char *sn_fault_name(enum sn_fault fault)
{
	return table[fault].name;
}

const char *sn_fault_meaning(enum sn_fault fault)
{
	return table[fault].meaning;
}

/* Number at *text, which moves behind it. */
static bool number(char **text, uint64_t *value)
{
	char *end;

	*value = strtoull(*text, &end, 0);
	if (end == *text)
		return false;
	*text = end;
	return true;
}

/* One clause. *mine: its filters let it through. */
static bool parse(char *text, int rank, struct clause *clause, bool *mine)
{
	size_t name = strcspn(text, "=@/");
	uint64_t value;
	char *at = text + name;
	bool known = false;

	*clause = (struct clause){.nic = ANY_NIC};
	*mine = true;
	for (uint32_t i = 0; i < SN_FAULT_COUNT && !known; i++) {
		if (strlen(table[i].name) == name && !strncmp(table[i].name, text, name)) {
			clause->fault = (enum sn_fault)i;
			clause->value = table[i].fallback;
			known = true;
		}
	}
	if (!known)
		return false;
	if (*at == '=' && (at++, !number(&at, &clause->value)))
		return false;
	if (*at == '@' && (at++, !number(&at, &clause->nth)))
		return false;
	while (*at == '/') {
		at++;
		if (!strncmp(at, "rank=", 5)) {
			at += 5;
			if (!number(&at, &value))
				return false;
			*mine &= rank >= 0 && (uint64_t)rank == value;
		} else if (!strncmp(at, "nic=", 4)) {
			at += 4;
			if (!number(&at, &value))
				return false;
			clause->nic = (int)value;
		} else if (!strncmp(at, "host=", 5)) {
			size_t bytes = strcspn(at + 5, "/");

			if (bytes >= sizeof(clause->host))
				return false;
			memcpy(clause->host, at + 5, bytes);
			at += 5 + bytes;
		} else {
			return false;
		}
	}
	return *at == 0;
}

int sn_fault_setup(const char *list, int rank)
{
	char *copy = list ? strdup(list) : NULL, *rest = copy;

	for (char *text; rest && (text = strsep(&rest, ","));) {
		struct clause clause;
		bool mine;

		if (!*text)
			continue;
		if (!strncmp(text, "seed=", 5)) {
			seed = strtoull(text + 5, NULL, 0);
			continue;
		}
		if (clause_count == CLAUSES_MAX || !parse(text, rank, &clause, &mine)) {
			fprintf(stderr, "softnic: MARROW_SOFTNIC_FAULTS: cannot read the clause that begins with \"%s\"\n", text);
			free(copy);
			return -1;
		}
		if (mine) {
			clauses[clause_count++] = clause;
			any[clause.fault] = true;
		}
	}
	free(copy);
	return 0;
}

bool sn_fault_any(enum sn_fault fault)
{
	return any[fault];
}

static const struct clause *find(enum sn_fault fault, const char *host, uint32_t nic)
{
	for (uint32_t i = 0; any[fault] && i < clause_count; i++) {
		const struct clause *clause = &clauses[i];

		if (clause->fault == fault && (clause->nic == ANY_NIC || (uint32_t)clause->nic == nic) &&
		    (!clause->host[0] || !strcmp(clause->host, host)))
			return clause;
	}
	return NULL;
}

uint64_t sn_fault_value(enum sn_fault fault, const char *host, uint32_t nic)
{
	const struct clause *clause = find(fault, host, nic);

	return clause ? clause->value : 0;
}

uint64_t sn_fault_nth(enum sn_fault fault, const char *host, uint32_t nic)
{
	const struct clause *clause = find(fault, host, nic);

	return clause ? clause->nth : 0;
}

uint64_t sn_fault_hash(uint64_t a, uint64_t b)
{
	uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

uint64_t sn_fault_dice(enum sn_fault fault, uint64_t who, uint64_t what)
{
	return sn_fault_hash(sn_fault_hash(seed, (uint64_t)fault + 1), sn_fault_hash(who, what)) | 1ull << 63;
}
