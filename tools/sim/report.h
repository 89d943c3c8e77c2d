/* report.h - what was asked and what came out, for people and programs. */
#ifndef SIM_REPORT_H
#define SIM_REPORT_H

#include "engine.h"

struct sim_row {
	struct sim_call call;
	struct sim_answer answer;
	uint32_t ranks;
	double seconds; /* of this machine */
};

struct sim_report {
	const struct sim_cluster *cluster;
	const char *counts; /* how blocks of ranks differ where they may, as asked for; NULL: they do not */
	bool checked;
	struct sim_row *rows;
	uint32_t count, room;
};

/* False: no memory. */
bool sim_report_add(struct sim_report *r, const struct sim_row *row);
void sim_report_table(const struct sim_report *r, FILE *file);
void sim_report_csv(const struct sim_report *r, FILE *file);
void sim_report_json(const struct sim_report *r, FILE *file);
/* Time over size, a picture for each number of ranks, with the sizes at which another schedule wins. */
void sim_report_svg(const struct sim_report *r, FILE *file);
/* Bus bandwidth in GB/s, as the perf programs count it. */
double sim_bus_gb_s(const struct sim_row *row);

#endif
