#include "run.h"

static struct perf_layout layout(size_t elements, size_t element_bytes, uint32_t nranks)
{
	(void)element_bytes;
	(void)nranks;
	return (struct perf_layout){ .count = elements, .send = elements, .recv = elements };
}

static double bus_factor(uint32_t nranks)
{
	return 2.0 * (nranks - 1) / nranks;
}

int main(int argc, char **argv)
{
	static const struct perf_collective all_reduce = { "AllReduce", PERF_ALL_REDUCE, true, false, false, layout, bus_factor };
	return perf_main(argc, argv, &all_reduce);
}
