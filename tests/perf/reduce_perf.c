#include "run.h"

static struct perf_layout layout(size_t elements, size_t element_bytes, uint32_t nranks)
{
	(void)element_bytes;
	(void)nranks;
	return (struct perf_layout){ .count = elements, .send = elements, .recv = elements };
}

static double bus_factor(uint32_t nranks)
{
	(void)nranks;
	return 1;
}

int main(int argc, char **argv)
{
	static const struct perf_collective reduce = { "Reduce", PERF_REDUCE, true, true, false, layout, bus_factor };
	return perf_main(argc, argv, &reduce);
}
