#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool sim_report_add(struct sim_report *r, const struct sim_row *row)
{
	if (r->count == r->room) {
		uint32_t room = r->room ? 2 * r->room : 64;
		struct sim_row *rows = realloc(r->rows, room * sizeof *rows);
		if (!rows)
			return false;
		r->rows = rows;
		r->room = room;
	}
	r->rows[r->count++] = *row;
	return true;
}

double sim_bus_gb_s(const struct sim_row *row)
{
	double n = row->ranks, factor = (n - 1) / n;
	if (row->call.func == MRW_FUNC_ALL_REDUCE)
		factor *= 2;
	else if (row->call.func == MRW_FUNC_BROADCAST || row->call.func == MRW_FUNC_REDUCE || row->call.func == MRW_FUNC_TRANSFERS)
		factor = 1;
	return row->answer.us > 0 ? factor * (double)row->call.bytes / row->answer.us / 1000 : 0;
}

static void size_text(uint64_t bytes, char text[16])
{
	static const char units[] = " KMGT";
	uint32_t u = 0;
	while (bytes >= 1024 && bytes % 1024 == 0 && u < 4) {
		bytes /= 1024;
		u++;
	}
	snprintf(text, 16, u ? "%llu%c" : "%llu", (unsigned long long)bytes, units[u]);
}

/* Rows of one schedule on one number of ranks, which share what does not depend on the size. */
static void head(const struct sim_report *r, const struct sim_row *row, FILE *file)
{
	const struct sim_plan *p = &row->answer.plan;
	const struct sim_bootstrap *b = &p->bootstrap;
	bool differ = r->counts && sim_func_has_counts(row->call.func);
	fprintf(file, "\n%s%s%s, %u ranks, %s: %u peers a rank, %u queue pairs%s%s\n", sim_func_name(row->call.func),
		differ ? " with blocks as " : "", differ ? r->counts : "", row->ranks,
		row->call.schedule->name, p->peers, p->queue_pairs, p->paper ? "; on paper only: " : "", p->paper ? p->why : "");
	fprintf(file, "bootstrap: %.1f ms (joining %.1f, connecting %.1f, %u exchanges of %u rounds %.1f); a rank sends up to %llu messages, %.3g MB and has %u sockets; the root "
		      "up to %u more, and sends %.3g MB\n", b->us / 1000, b->join_us / 1000, b->links_us / 1000, b->exchanges, b->rounds, b->exchanges_us / 1000,
		(unsigned long long)b->rank_messages, (double)b->rank_bytes / 1e6, b->sockets, b->root_sockets, (double)b->root_bytes / 1e6);
	fprintf(file, "%8s %12s %9s %9s %7s %8s %8s %10s %12s", "bytes", "us", "first us", "bus GB/s", "rounds", "channels", "chunk", "arena MiB",
		"NIC messages");
	for (uint32_t i = 0; i < SIM_UP + r->cluster->nlevels; i++)
		fprintf(file, " %10.10s %4s", i < SIM_UP ? (const char *[]){"nvlink MB", "pcie MB", "nic MB"}[i] : r->cluster->level[i - SIM_UP].name, "%");
	fprintf(file, " result\n");
}

/* The last row with the same calls: ranks and collective. */
static uint32_t group_end(const struct sim_report *r, uint32_t first)
{
	uint32_t end = first + 1;
	while (end < r->count && r->rows[end].ranks == r->rows[first].ranks && r->rows[end].call.func == r->rows[first].call.func)
		end++;
	return end;
}

/* The quickest row of a size among [first, end), NULL: none. */
static const struct sim_row *winner(const struct sim_report *r, uint32_t first, uint32_t end, uint64_t bytes)
{
	const struct sim_row *best = NULL;
	for (uint32_t i = first; i < end; i++)
		if (r->rows[i].call.bytes == bytes && !r->rows[i].answer.fault[0] && (!best || r->rows[i].answer.us < best->answer.us))
			best = &r->rows[i];
	return best;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* Sizes of a group, each once, ascending; to be freed. */
static uint64_t *sizes_of(const struct sim_report *r, uint32_t first, uint32_t end, uint32_t *count)
{
	uint64_t *sizes = calloc(end - first, sizeof *sizes);
	*count = 0;
	if (!sizes)
		return NULL;
	for (uint32_t i = first; i < end; i++)
		sizes[i - first] = r->rows[i].call.bytes;
	qsort(sizes, end - first, sizeof *sizes, by_size);
	for (uint32_t i = 0; i < end - first; i++)
		if (*count == 0 || sizes[*count - 1] != sizes[i])
			sizes[(*count)++] = sizes[i];
	return sizes;
}

static void crossovers(const struct sim_report *r, uint32_t first, uint32_t end, FILE *file)
{
	uint32_t count, at = 0;
	uint64_t *sizes = sizes_of(r, first, end, &count);
	const struct sim_schedule *last = NULL;
	fprintf(file, "\nquickest, %s over %u ranks:", sim_func_name(r->rows[first].call.func), r->rows[first].ranks);
	for (uint32_t i = 0; sizes && i < count; i++) {
		const struct sim_row *best = winner(r, first, end, sizes[i]);
		char text[16];
		if (!best || best->call.schedule == last)
			continue;
		size_text(sizes[i], text);
		fprintf(file, "%s %s from %s", at++ ? "," : "", best->call.schedule->name, text);
		last = best->call.schedule;
	}
	fprintf(file, "%s\n", at ? "" : " none");
	free(sizes);
}

void sim_report_table(const struct sim_report *r, FILE *file)
{
	fprintf(file, "cluster %s: %s target, %g GPUs and %g NICs a host%s", r->cluster->name[0] ? r->cluster->name : "without a name",
		r->cluster->cuda ? "cuda" : "host", r->cluster->gpus, r->cluster->nics, r->cluster->rails != 0 ? ", rails" : "");
	for (uint32_t i = 0; i < r->cluster->nothers; i++) {
		const struct sim_other *o = &r->cluster->other[i];
		uint32_t first = (uint32_t)o->first, last = (uint32_t)o->last;
		fprintf(file, ", %u and %u on host%s %u", sim_cluster_gpus(r->cluster, first), sim_cluster_nics(r->cluster, first), first < last ? "s" : "", first);
		if (first < last)
			fprintf(file, " to %u", last);
	}
	fprintf(file, "; %s\n", r->checked ? "complete: every rank was seen to end with every contribution once"
					    : "whether results are complete was not looked at");
	for (uint32_t i = 0, end; i < r->count; i = end) {
		end = group_end(r, i);
		for (uint32_t k = i; k < end; k++) {
			const struct sim_row *row = &r->rows[k];
			const struct sim_answer *a = &row->answer;
			char text[16];
			if (k == i || row->call.schedule != r->rows[k - 1].call.schedule)
				head(r, row, file);
			size_text(row->call.bytes, text);
			fprintf(file, "%8s %12.2f %9.2f %9.2f %7llu %8u %8u %10.1f %12llu", text, a->us, a->first_us, sim_bus_gb_s(row), (unsigned long long)a->rounds,
				a->channels, a->chunk_bytes, (double)a->plan.arena_bytes / (1 << 20), (unsigned long long)a->messages[SIM_NIC]);
			for (uint32_t l = 0; l < SIM_UP + r->cluster->nlevels; l++)
				fprintf(file, " %10.3g %4.0f", (double)a->bytes[l] / 1e6, a->load[l] * 100);
			fprintf(file, " %s\n", a->fault[0] ? a->fault : r->checked ? "complete" : "ended");
		}
		crossovers(r, i, end, file);
	}
}

void sim_report_csv(const struct sim_report *r, FILE *file)
{
	fprintf(file, "cluster,collective,ranks,schedule,bytes,us,first_us,bus_gb_s,rounds,channels,chunk_bytes,arena_bytes,peers,queue_pairs,"
		      "bootstrap_rounds,bootstrap_us,nic_messages,nvlink_bytes,pcie_bytes,nic_bytes");
	for (uint32_t l = 0; l < r->cluster->nlevels; l++)
		fprintf(file, ",%s_bytes", r->cluster->level[l].name);
	fprintf(file, ",paper,checked,fault\n");
	for (uint32_t i = 0; i < r->count; i++) {
		const struct sim_row *row = &r->rows[i];
		const struct sim_answer *a = &row->answer;
		fprintf(file, "%s,%s,%u,%s,%llu,%.3f,%.3f,%.3f,%llu,%u,%u,%llu,%u,%u,%u,%.1f,%llu", r->cluster->name, sim_func_name(row->call.func), row->ranks,
			row->call.schedule->name, (unsigned long long)row->call.bytes, a->us, a->first_us, sim_bus_gb_s(row), (unsigned long long)a->rounds,
			a->channels, a->chunk_bytes, (unsigned long long)a->plan.arena_bytes, a->plan.peers, a->plan.queue_pairs, a->plan.bootstrap.rounds,
			a->plan.bootstrap.us, (unsigned long long)a->messages[SIM_NIC]);
		for (uint32_t l = 0; l < SIM_UP + r->cluster->nlevels; l++)
			fprintf(file, ",%llu", (unsigned long long)a->bytes[l]);
		fprintf(file, ",%d,%d,\"%s\"\n", a->plan.paper, r->checked, a->fault);
	}
}

void sim_report_json(const struct sim_report *r, FILE *file)
{
	fprintf(file, "{\"cluster\": \"%s\", \"gpus_of_host\": %g, \"nics_of_host\": %g, \"other_hosts\": [", r->cluster->name,
		r->cluster->gpus, r->cluster->nics);
	for (uint32_t i = 0; i < r->cluster->nothers; i++) {
		const struct sim_other *o = &r->cluster->other[i];
		fprintf(file, "%s{\"first\": %g, \"last\": %g, \"gpus\": %u, \"nics\": %u}", i ? ", " : "", o->first, o->last,
			sim_cluster_gpus(r->cluster, (uint32_t)o->first), sim_cluster_nics(r->cluster, (uint32_t)o->first));
	}
	fprintf(file, "], \"counts\": [%s], \"checked\": %s, \"rows\": [", r->counts ? r->counts : "", r->checked ? "true" : "false");
	for (uint32_t i = 0; i < r->count; i++) {
		const struct sim_row *row = &r->rows[i];
		const struct sim_answer *a = &row->answer;
		const struct sim_bootstrap *b = &a->plan.bootstrap;
		fprintf(file, "%s\n{\"collective\": \"%s\", \"ranks\": %u, \"schedule\": \"%s\", \"bytes\": %llu, \"us\": %.3f, \"first_us\": %.3f, "
			      "\"bus_gb_s\": %.3f, \"rounds\": %llu, \"steps\": %llu, \"channels\": %u, \"chunk_bytes\": %u, \"arena_bytes\": %llu, "
			      "\"peers\": %u, \"queue_pairs\": %u, \"bootstrap\": {\"rounds\": %u, \"exchanges\": %u, \"sockets\": %u, "
			      "\"root_sockets\": %u, \"messages\": %llu, \"rank_messages\": %llu, \"root_bytes\": %llu, \"rank_bytes\": %llu, \"us\": %.1f}, "
			      "\"links\": {",
			i ? "," : "", sim_func_name(row->call.func), row->ranks, row->call.schedule->name, (unsigned long long)row->call.bytes, a->us,
			a->first_us, sim_bus_gb_s(row), (unsigned long long)a->rounds, (unsigned long long)a->steps, a->channels, a->chunk_bytes,
			(unsigned long long)a->plan.arena_bytes, a->plan.peers, a->plan.queue_pairs, b->rounds, b->exchanges, b->sockets,
			b->root_sockets, (unsigned long long)b->messages, (unsigned long long)b->rank_messages, (unsigned long long)b->root_bytes,
			(unsigned long long)b->rank_bytes, b->us);
		for (uint32_t l = 0; l < SIM_UP + r->cluster->nlevels; l++)
			fprintf(file, "%s\"%s\": {\"bytes\": %llu, \"messages\": %llu, \"load\": %.4f}", l ? ", " : "",
				l < SIM_UP ? (const char *[]){"nvlink", "pcie", "nic"}[l] : r->cluster->level[l - SIM_UP].name, (unsigned long long)a->bytes[l],
				(unsigned long long)a->messages[l], a->load[l]);
		fprintf(file, "}, \"paper\": %s, \"why\": \"%s\", \"fault\": \"%s\", \"seconds\": %.3f}", a->plan.paper ? "true" : "false",
			a->plan.why ? a->plan.why : "", a->fault, row->seconds);
	}
	fprintf(file, "\n]}\n");
}

enum { WIDTH = 640, HEIGHT = 400, LEFT = 70, RIGHT = 20, TOP = 40, BOTTOM = 50 };

struct scale {
	double low, high; /* logarithms */
	double from, to;
};

static double at(const struct scale *s, double log_value)
{
	double span = s->high > s->low ? s->high - s->low : 1;
	return s->from + (log_value - s->low) / span * (s->to - s->from);
}

static void draw_axes(const struct scale *x, const struct scale *y, const struct sim_row *row, FILE *file)
{
	fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#888\"/>\n", LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
	fprintf(file, "<text x=\"%d\" y=\"%d\" font-size=\"14\">%s over %u ranks</text>\n", LEFT, TOP - 14, sim_func_name(row->call.func), row->ranks);
	for (int k = (int)x->low; k <= (int)(x->high + 0.999); k += x->high - x->low > 16 ? 4 : 2) {
		char text[16];
		if (k < 0 || at(x, k) > x->to + 1)
			continue;
		size_text(1ull << k, text);
		fprintf(file, "<path d=\"M%.1f %d V%d\" stroke=\"#ddd\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", at(x, k), TOP, HEIGHT - BOTTOM,
			at(x, k), HEIGHT - BOTTOM + 16, text);
	}
	for (double us = 1e-3; us < 1e10; us *= 10) {
		double level = at(y, log2(us));
		if (level < TOP - 1 || level > HEIGHT - BOTTOM + 1)
			continue;
		fprintf(file, "<path d=\"M%d %.1f H%d\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g %s</text>\n", LEFT, level, WIDTH - RIGHT,
			LEFT - 6, level + 4, us >= 1e6 ? us / 1e6 : us >= 1000 ? us / 1000 : us, us >= 1e6 ? "s" : us >= 1000 ? "ms" : "us");
	}
	fprintf(file, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">bytes</text>\n", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14);
}

static void draw_group(const struct sim_report *r, uint32_t first, uint32_t end, int top, FILE *file)
{
	static const char *const colours[] = {"#c0392b", "#27742d", "#2a5db0", "#c9781d", "#7d3c98", "#117a7a", "#6b4a1f", "#d0399a", "#555555", "#8a8a00",
					      "#4a90d9"};
	enum { COLOURS = sizeof colours / sizeof colours[0] };
	struct scale x = {1e9, -1e9, LEFT, WIDTH - RIGHT}, y = {1e9, -1e9, HEIGHT - BOTTOM, TOP};
	uint32_t count, line = 0;
	for (uint32_t i = first; i < end; i++) {
		if (r->rows[i].answer.fault[0] || r->rows[i].answer.us <= 0 || r->rows[i].call.bytes == 0)
			continue;
		double size = log2((double)r->rows[i].call.bytes), us = log2(r->rows[i].answer.us);
		x.low = size < x.low ? size : x.low;
		x.high = size > x.high ? size : x.high;
		y.low = us < y.low ? us : y.low;
		y.high = us > y.high ? us : y.high;
	}
	fprintf(file, "<g transform=\"translate(0,%d)\">\n", top);
	if (x.high >= x.low)
		draw_axes(&x, &y, &r->rows[first], file);
	for (uint32_t s = 0; s < sim_schedule_count && x.high >= x.low; s++) {
		bool begun = false;
		for (uint32_t i = first; i < end; i++) {
			const struct sim_row *row = &r->rows[i];
			if (row->call.schedule != sim_schedules[s] || row->answer.fault[0])
				continue;
			fprintf(file, "%s%.1f %.1f", begun ? " L" : "<path fill=\"none\" stroke-width=\"2\" d=\"M", at(&x, log2((double)row->call.bytes)),
				at(&y, log2(row->answer.us)));
			begun = true;
		}
		if (!begun)
			continue;
		fprintf(file, "\" stroke=\"%s\"/>\n<text x=\"%d\" y=\"%u\" fill=\"%s\">%s</text>\n", colours[s % COLOURS], LEFT + 12, TOP + 18 + 16 * line,
			colours[s % COLOURS], sim_schedules[s]->name);
		line++;
	}
	uint64_t *sizes = sizes_of(r, first, end, &count);
	const struct sim_schedule *last = NULL;
	for (uint32_t i = 0; sizes && i < count; i++) {
		const struct sim_row *best = winner(r, first, end, sizes[i]);
		char text[16];
		if (!best || best->call.schedule == last)
			continue;
		if (last) {
			size_text(sizes[i], text);
			fprintf(file, "<path d=\"M%.1f %d V%d\" stroke=\"#555\" stroke-dasharray=\"4 3\"/><text x=\"%.1f\" y=\"%d\" font-size=\"10\">%s from %s</text>\n",
				at(&x, log2((double)sizes[i])), TOP, HEIGHT - BOTTOM, at(&x, log2((double)sizes[i])) + 3, HEIGHT - BOTTOM - 6,
				best->call.schedule->name, text);
		}
		last = best->call.schedule;
	}
	free(sizes);
	fprintf(file, "</g>\n");
}

void sim_report_svg(const struct sim_report *r, FILE *file)
{
	uint32_t groups = 0, k = 0;
	for (uint32_t i = 0; i < r->count; i = group_end(r, i))
		groups++;
	fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" font-family=\"sans-serif\" font-size=\"11\">\n"
		      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n", WIDTH, HEIGHT * (groups ? groups : 1));
	for (uint32_t i = 0; i < r->count; i = group_end(r, i))
		draw_group(r, i, group_end(r, i), (int)(k++ * HEIGHT), file);
	fprintf(file, "</svg>\n");
}
