/* mpi_all_reduce_perf.c - MPI_Allreduce of float sums, timed as all_reduce_perf times ours: out of place, the slowest rank's mean of -n calls, the
 * median of --rounds such loops. As there, calls walk through areas of -e bytes, each at the next place, so that both find memory equally cold.
 *
 * mpirun -n N mpi_all_reduce_perf [-b BYTES] [-e BYTES] [-i BYTES] [-f FACTOR] [-n ITERS] [-w WARMUP_ITERS] [--rounds N] [--json FILE] */
#include <mpi.h>

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { AHEAD = 4096, PERIOD = 1021, MOST_ROUNDS = 1000 }; /* AHEAD: where the first place begins, as after the driver's guard */

static size_t min_bytes = 32 << 20, max_bytes = 32 << 20, step_bytes = 1 << 20, step_factor = 1, iterations = 20, warmup = 1, rounds = 1;
static const char *json_path;
static int rank, nranks;
static unsigned char *sent, *received;

static bool parse_number(const char *text, size_t min, size_t max, size_t *number)
{
	char *end;
	double value = strtod(text, &end);

	switch (*end) {
	case 'G': value *= 1024; /* fall through */
	case 'M': value *= 1024; /* fall through */
	case 'K': value *= 1024; end++; break;
	default: break;
	}
	if (end == text || *end != '\0' || !(value >= (double)min && value <= (double)max))
		return false;
	*number = (size_t)value;
	return true;
}

static bool parse(int argc, char **argv)
{
	static const struct option names[] = {{"rounds", required_argument, NULL, 'R'}, {"json", required_argument, NULL, 'J'}, {NULL, 0, NULL, 0}};
	const size_t most_bytes = (size_t)1 << 32, many = 1 << 30;
	bool good = true;
	int flag;

	opterr = rank == 0;
	while (good && (flag = getopt_long(argc, argv, "b:e:i:f:n:w:", names, NULL)) != -1) {
		switch (flag) {
		case 'b': good = parse_number(optarg, 4, most_bytes, &min_bytes); break;
		case 'e': good = parse_number(optarg, 4, most_bytes, &max_bytes); break;
		case 'i': good = parse_number(optarg, 0, most_bytes, &step_bytes); break;
		case 'f': good = parse_number(optarg, 1, many, &step_factor); break;
		case 'n': good = parse_number(optarg, 1, many, &iterations); break;
		case 'w': good = parse_number(optarg, 0, many, &warmup); break;
		case 'R': good = parse_number(optarg, 1, MOST_ROUNDS, &rounds); break;
		case 'J': json_path = optarg; break;
		default: return false;
		}
		if (!good && rank == 0)
			fprintf(stderr, "%s: -%c: invalid value '%s'\n", argv[0], flag, optarg);
	}
	if (good && (optind < argc || min_bytes > max_bytes)) {
		if (rank == 0)
			fprintf(stderr, optind < argc ? "%s: unexpected argument '%s'\n" : "%s: -b is above -e\n", argv[0], argv[optind]);
		return false;
	}
	return good;
}

static double now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static float *place(unsigned char *area, size_t bytes, size_t iteration)
{
	return (float *)(void *)(area + AHEAD + bytes * (iteration % (max_bytes / bytes)));
}

static void call(size_t bytes, size_t iteration)
{
	MPI_Allreduce(place(sent, bytes, iteration), place(received, bytes, iteration), (int)(bytes / sizeof(float)), MPI_FLOAT, MPI_SUM,
		      MPI_COMM_WORLD);
}

/* Elements of all ranks that are not the sum. Whole numbers: exact in any order. */
static unsigned long long count_wrong(size_t bytes)
{
	size_t count = bytes / sizeof(float);
	float *in = place(sent, bytes, 0), *out = place(received, bytes, 0);
	unsigned long long wrong = 0, all = 0;

	for (size_t i = 0; i < count; i++) {
		in[i] = (float)(i % PERIOD + (size_t)rank);
		out[i] = -1;
	}
	call(bytes, 0);
	for (size_t i = 0; i < count; i++)
		wrong += out[i] != (float)(i % PERIOD * (size_t)nranks + (size_t)(nranks * (nranks - 1) / 2));
	MPI_Allreduce(&wrong, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
	return all;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Median of the rounds. */
static double measure(size_t bytes)
{
	static double us[MOST_ROUNDS];

	for (size_t i = 0; i < warmup; i++)
		call(bytes, i);
	for (size_t r = 0; r < rounds; r++) {
		MPI_Barrier(MPI_COMM_WORLD);
		double begin = now_us();
		for (size_t i = 0; i < iterations; i++)
			call(bytes, i);
		us[r] = (now_us() - begin) / (double)iterations;
		MPI_Allreduce(MPI_IN_PLACE, &us[r], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	}
	qsort(us, rounds, sizeof *us, by_value);
	return (us[(rounds - 1) / 2] + us[rounds / 2]) / 2;
}

/* "Open MPI v4.1.4" of a longer text. */
static void library_name(char name[64])
{
	char text[MPI_MAX_LIBRARY_VERSION_STRING];
	int length;

	MPI_Get_library_version(text, &length);
	text[strcspn(text, ",\n\"\\")] = '\0';
	snprintf(name, 64, "%.63s", text);
}

/* All sizes; whether every element was right. */
static bool walk(FILE *json)
{
	unsigned long long wrong, all_wrong = 0;
	char name[64];

	library_name(name);
	if (rank == 0)
		printf("# %s, MPI_Allreduce over %d ranks\n# %10s  %12s  %8s  %6s  %6s  %10s  %6s  %6s  %6s\n"
		       "# %10s  %12s  %8s  %6s  %6s  %10s  %6s  %6s\n", name, nranks, "size", "count", "type", "redop", "root", "time", "algbw",
		       "busbw", "#wrong", "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)");
	for (size_t size = min_bytes, next; size <= max_bytes; size = next) {
		size_t bytes = size / sizeof(float) * sizeof(float);
		double us = measure(bytes), algbw = us > 0 ? (double)bytes / us * 1e-3 : 0, busbw = algbw * 2 * (nranks - 1) / nranks;

		all_wrong += wrong = count_wrong(bytes);
		if (rank == 0)
			printf("%12zu  %12zu  %8s  %6s  %6d  %10.2f  %6.2f  %6.2f  %6llu\n", bytes, bytes / sizeof(float), "float", "sum", -1, us,
			       algbw, busbw, wrong);
		if (json)
			fprintf(json, "{\"bytes\": %zu, \"count\": %zu, \"type\": \"float\", \"op\": \"sum\", \"root\": -1, \"in_place\": false, "
				"\"lib\": \"%s\", \"time_us\": %.4f, \"algbw\": %.4f, \"busbw\": %.4f, \"wrong\": %llu, "
				"\"collective\": \"AllReduce\", \"target\": \"host\", \"ranks\": %d}\n", bytes, bytes / sizeof(float), name, us,
				algbw, busbw, wrong, nranks);
		next = step_factor > 1 ? size * step_factor : size + step_bytes;
		if (next <= size)
			break;
	}
	if (rank == 0)
		printf("# Out of bounds values : %llu %s\n", all_wrong, all_wrong ? "FAILED" : "OK");
	return all_wrong == 0;
}

int main(int argc, char **argv)
{
	FILE *json = NULL;
	bool right;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &nranks);
	if (!parse(argc, argv)) {
		MPI_Finalize();
		return 2;
	}
	if (posix_memalign((void **)&sent, AHEAD, max_bytes + AHEAD) || posix_memalign((void **)&received, AHEAD, max_bytes + AHEAD) ||
	    (rank == 0 && json_path && !(json = fopen(json_path, "a")))) {
		perror(json_path ? json_path : "memory");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	memset(sent, 0, max_bytes + AHEAD); /* pages are there before they are timed */
	memset(received, 0, max_bytes + AHEAD);
	right = walk(json);
	if (json && fclose(json) != 0)
		right = false;
	free(sent);
	free(received);
	MPI_Finalize();
	return right ? 0 : 1;
}
