/* clock.h - what happens next: one pending event of each number, taken in the order of time. A ring of buckets of equal width; within a
 * bucket (an eighth of the shortest latency) events leave in the order in which they came. */
#ifndef SIM_CLOCK_H
#define SIM_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

enum { SIM_BUCKETS = 1 << 15 };

struct sim_clock {
	double width;
	uint64_t now;                 /* bucket number, free running */
	uint64_t near, far;           /* events in the ring, and beyond it */
	uint32_t head[SIM_BUCKETS], tail[SIM_BUCKETS]; /* number + 1 */
	uint32_t *next;               /* [number] number + 1 */
	double *at;                   /* [number] */
	uint32_t *later;              /* numbers beyond the ring */
};

bool sim_clock_open(struct sim_clock *c, uint32_t numbers, double width_ns);
void sim_clock_close(struct sim_clock *c);
/* Not before what was taken last. */
void sim_clock_put(struct sim_clock *c, uint32_t number, double at_ns);
/* False: nothing is left. */
bool sim_clock_take(struct sim_clock *c, uint32_t *number, double *at_ns);

#endif
