#include "run.h"

/* The size is that of the gathered whole; blocks are multiples of 16 bytes. */
static struct perf_layout layout(size_t elements, size_t element_bytes, uint32_t nranks)
{
	size_t block = elements / nranks & ~(16 / element_bytes - 1);
	return (struct perf_layout){ .count = block, .send = block, .recv = block * nranks, .send_in_place = block };
}

static double bus_factor(uint32_t nranks)
{
	return (double)(nranks - 1) / nranks;
}

int main(int argc, char **argv)
{
	static const struct perf_collective all_gather = { "AllGather", PERF_ALL_GATHER, false, false, false, layout, bus_factor };
	return perf_main(argc, argv, &all_gather);
}
