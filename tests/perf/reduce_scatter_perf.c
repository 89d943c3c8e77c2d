#include "run.h"

/* The size is that of the whole before it is scattered; blocks are multiples of 16 bytes. */
static struct perf_layout layout(size_t elements, size_t element_bytes, uint32_t nranks)
{
	size_t block = elements / nranks & ~(16 / element_bytes - 1);
	return (struct perf_layout){ .count = block, .send = block * nranks, .recv = block, .recv_in_place = block };
}

static double bus_factor(uint32_t nranks)
{
	return (double)(nranks - 1) / nranks;
}

int main(int argc, char **argv)
{
	static const struct perf_collective reduce_scatter = { "ReduceScatter", PERF_REDUCE_SCATTER, true, false, false, layout,
							       bus_factor };
	return perf_main(argc, argv, &reduce_scatter);
}
