#include "run.h"

/* The size is that of all a rank sends; blocks are multiples of 16 bytes. */
static struct perf_layout layout(size_t elements, size_t element_bytes, uint32_t nranks)
{
	size_t block = elements / nranks & ~(16 / element_bytes - 1);
	return (struct perf_layout){ .count = block, .send = block * nranks, .recv = block * nranks };
}

static double bus_factor(uint32_t nranks)
{
	return (double)(nranks - 1) / nranks;
}

int main(int argc, char **argv)
{
	static const struct perf_collective alltoall = { "AlltoAll", PERF_ALL_TO_ALL, false, false, true, layout, bus_factor };
	return perf_main(argc, argv, &alltoall);
}
