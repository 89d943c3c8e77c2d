/* test_tuning.c - calibration tables: what is written is read back, what is wrong is refused with line and reason, and no byte string does harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collectives/tuning.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define MACHINE "host, Some CPU (R) 9000, 2 CPUs"

static char head[256];
static struct mrw_tuning tuning, again;
static struct mrw_tuning_error error;

static int make_head(void **state)
{
	(void)state;
	snprintf(head, sizeof head, "marrow-tuning 1\nlibrary %d.%d.%d wire %u\nmachine " MACHINE "\n", MARROW_VERSION_MAJOR, MARROW_VERSION_MINOR,
		 MARROW_VERSION_PATCH, MRW_WIRE_VERSION);
	return 0;
}

static bool parse(const char *text)
{
	return mrw_tuning_parse(&tuning, text, strlen(text), MACHINE, &error);
}

#define SHAPE "shape ranks 4 hosts 2 fullest 2 peers rails\n"
#define TREES "shape ranks 4 hosts 2 fullest 3 peers tree\n"
#define ONE_HOST "shape ranks 2 hosts 1 fullest 2 peers all\n"

static void a_table_is_read(void **state)
{
	(void)state;
	char text[1024];
	uint32_t count;
	snprintf(text, sizeof text, "# by hand\n\n%s" SHAPE "all_reduce railshot 8192 # small\n  all_reduce\trail max\r\n" ONE_HOST
		 "barrier oneshot max\nbroadcast bulk 1\nbroadcast oneshot max\n", head);
	if (!parse(text))
		fail_msg("%u: %s", error.line, error.text);
	assert_string_equal(tuning.machine, MACHINE);
	const struct mrw_tuning_shape rails = {4, 2, 2, MRW_PEERS_RAILS}, near = {2, 1, 2, MRW_PEERS_ALL};
	struct mrw_tuning_shape wrong = rails;
	const struct mrw_tuning_row *rows = mrw_tuning_rows(&tuning, &rails, MRW_FUNC_ALL_REDUCE, &count);
	assert_int_equal(count, 2);
	assert_int_equal(rows[0].algo, MRW_ALGO_RAILSHOT);
	assert_int_equal(rows[0].most, 8192);
	assert_int_equal(rows[1].algo, MRW_ALGO_RAIL);
	assert_true(rows[1].most == UINT64_MAX);
	rows = mrw_tuning_rows(&tuning, &near, MRW_FUNC_BROADCAST, &count);
	assert_int_equal(count, 2);
	assert_int_equal(rows[0].algo, MRW_ALGO_BULK);
	assert_null(mrw_tuning_rows(&tuning, &near, MRW_FUNC_REDUCE, &count));
	assert_int_equal(count, 0);
	wrong.peers = MRW_PEERS_ALL;
	assert_null(mrw_tuning_rows(&tuning, &wrong, MRW_FUNC_ALL_REDUCE, &count));
	wrong = rails;
	wrong.fullest = 3;
	assert_null(mrw_tuning_rows(&tuning, &wrong, MRW_FUNC_ALL_REDUCE, &count));
}

/* head: whether the first lines stand before the text. */
static void what_is_wrong_is_refused(void **state)
{
	(void)state;
	static const struct {
		bool head;
		const char *text;
		uint32_t line;
		const char *words;
	} cases[] = {
		{false, "", 0, "cut off"},
		{false, "<?xml?>\n", 1, "expected \"marrow-tuning 1\""},
		{false, "marrow-tuning 2\n", 1, "form 2"},
		{false, "marrow-tuning 1\n", 1, "cut off"},
		{false, "marrow-tuning 1\nmachine x\n", 2, "library VERSION"},
		{false, "marrow-tuning 1\nlibrary 9.9.9 wire 1\n", 2, "library 9.9.9 wire 1"},
		{true, "shape ranks 2 hosts 1 fullest 2 peers all", 4, "cut off"},
		{true, ONE_HOST "all_reduce bulk 100\n", 5, "cut off: the last function has no row up to max"},
		{true, "all_reduce bulk max\n", 4, "before the first shape"},
		{true, "machine other\n", 4, "\"machine\" is no function"},
		{true, "shape ranks 2 hosts 1\n", 4, "expected \"shape"},
		{true, "shape ranks 1 hosts 1 fullest 1 peers all\n", 4, "1 ranks"},
		{true, "shape ranks 65 hosts 1 fullest 65 peers all\n", 4, "65 ranks"},
		{true, "shape ranks 99999999999999999999 hosts 1 fullest 65 peers all\n", 4, "ranks: 2 to"},
		{true, "shape ranks -2 hosts 1 fullest 2 peers all\n", 4, "-2 ranks"},
		{true, "shape ranks 2 hosts 3 fullest 1 peers all\n", 4, "3 hosts of 2"},
		{true, "shape ranks 4 hosts 0 fullest 1 peers all\n", 4, "0 hosts"},
		{true, "shape ranks 4 hosts 2 fullest 1 peers all\n", 4, "1 ranks on the fullest"},
		{true, "shape ranks 4 hosts 2 fullest 4 peers all\n", 4, "4 ranks on the fullest"},
		{true, "shape ranks 4 hosts 1 fullest 4 peers rails\n", 4, "peers rails"},
		{true, "shape ranks 4 hosts 2 fullest 3 peers rails\n", 4, "peers rails"},
		{true, "shape ranks 4 hosts 2 fullest 2 peers star\n", 4, "peers star"},
		{true, ONE_HOST ONE_HOST, 5, "there already"},
		{true, ONE_HOST "send bulk max\n", 5, "\"send\" is no function"},
		{true, ONE_HOST "all_reduce tree9 max\n", 5, "\"tree9\" is no algorithm"},
		{true, ONE_HOST "all_reduce local max\n", 5, "\"local\" is no algorithm"},
		{true, ONE_HOST "all_reduce rail max\n", 5, "rail of all_reduce: ranks with such peers"},
		{true, ONE_HOST "all_reduce ring max\n", 5, "ring of all_reduce: ranks with such peers"},
		{true, ONE_HOST "all_reduce twoshot max\n", 5, "more than two ranks"},
		{true, ONE_HOST "all_gather lines max\n", 5, "lines of all_gather"},
		{true, ONE_HOST "barrier bulk max\n", 5, "a barrier"},
		{true, TREES "all_reduce rail max\n", 5, "rail of all_reduce: ranks with such peers"},
		{true, TREES "barrier tree max\n", 5, "a barrier has no bytes"},
		{true, TREES "all_gather tree max\n", 5, "tree of all_gather: ranks with such peers"},
		{true, SHAPE "all_reduce bulk max\n", 5, "bulk of all_reduce: ranks with such peers"},
		{true, ONE_HOST "all_reduce bulk\n", 5, "expected \"all_reduce ALGORITHM BYTES\""},
		{true, ONE_HOST "all_reduce bulk 1 2\n", 5, "expected \"all_reduce ALGORITHM BYTES\""},
		{true, ONE_HOST "all_reduce bulk 1K\n", 5, "\"1K\" is no number of bytes"},
		{true, ONE_HOST "all_reduce bulk -1\n", 5, "\"-1\" is no number of bytes"},
		{true, ONE_HOST "all_reduce bulk 9223372036854775808\n", 5, "no number of bytes"},
		{true, ONE_HOST "all_reduce oneshot 8\nall_reduce bulk 8\n", 6, "not above"},
		{true, ONE_HOST "all_reduce oneshot max\nall_reduce bulk max\n", 6, "not above"},
		{true, ONE_HOST "all_reduce oneshot 8\nbroadcast bulk max\n", 6, "no row up to max"},
		{true, ONE_HOST "all_reduce oneshot 8\n" SHAPE, 6, "no row up to max"},
		{true, ONE_HOST "all_reduce bulk max\nbroadcast bulk max\nall_reduce oneshot 8\n", 7, "stand together"},
		{true, ONE_HOST "\x01\n", 5, "byte 0x01"},
		{true, ONE_HOST "# na\xc3\xafve\n", 5, "byte 0xc3"},
		{true, ONE_HOST "a b c d e f g h i j k l m n\n", 5, "words"},
	};
	char text[1024];
	for (size_t i = 0; i < COUNT(cases); i++) {
		snprintf(text, sizeof text, "%s%s", cases[i].head ? head : "", cases[i].text);
		if (parse(text))
			fail_msg("taken: %s", text);
		if (error.line != cases[i].line || !strstr(error.text, cases[i].words))
			fail_msg("\"%s\" is refused with %u: %s", cases[i].text, error.line, error.text);
	}
	/* Another machine; for the tool, which reads it to tell, any is good. */
	snprintf(text, sizeof text, "%s", head);
	assert_false(mrw_tuning_parse(&tuning, text, strlen(text), "host, Another", &error));
	assert_int_equal(error.line, 3);
	assert_non_null(strstr(error.text, "host, Another"));
	assert_non_null(strstr(error.text, MACHINE));
	assert_true(mrw_tuning_parse(&tuning, text, strlen(text), NULL, &error));
}

static void there_are_limits(void **state)
{
	(void)state;
	size_t room = 2 * MRW_TUNING_FILE_BYTES, used;
	char *text = malloc(room);
	assert_non_null(text);
	used = (size_t)snprintf(text, room, "%s" ONE_HOST, head);
	for (int i = 1; i <= MRW_TUNING_ROWS_A_CALL + 1; i++)
		used += (size_t)snprintf(text + used, room - used, "all_reduce bulk %d\n", i);
	assert_false(parse(text));
	assert_non_null(strstr(error.text, "too many rows"));
	assert_int_equal(error.line, 4 + MRW_TUNING_ROWS_A_CALL + 1);
	used = (size_t)snprintf(text, room, "%s", head);
	for (int n = 2; n <= 64; n++) /* 63 shapes, and two more */
		used += (size_t)snprintf(text + used, room - used, "shape ranks %d hosts 1 fullest %d peers all\n", n, n);
	used += (size_t)snprintf(text + used, room - used, SHAPE);
	assert_true(parse(text));
	snprintf(text + used, room - used, "shape ranks 4 hosts 2 fullest 2 peers all\n");
	assert_false(parse(text));
	assert_non_null(strstr(error.text, "more than 64 shapes"));
	memset(text, '#', 400);
	strcpy(text + 400, "\n");
	assert_false(parse(text));
	assert_non_null(strstr(error.text, "longer than"));
	memset(text, '\n', room);
	assert_false(mrw_tuning_parse(&tuning, text, room, MACHINE, &error));
	assert_non_null(strstr(error.text, "bytes"));
	assert_int_equal(error.line, 0);
	free(text);
}

static size_t write_out(const struct mrw_tuning *t, char *text, size_t room)
{
	FILE *f = fmemopen(text, room, "w");
	assert_non_null(f);
	assert_true(mrw_tuning_write(t, f));
	long end = ftell(f);
	fclose(f);
	return (size_t)end;
}

static void what_is_put_is_read_back(void **state)
{
	(void)state;
	static char text[64 << 10];
	const struct mrw_tuning_shape shapes[] = {{2, 1, 2, MRW_PEERS_ALL}, {4, 2, 2, MRW_PEERS_RAILS}, {4, 2, 2, MRW_PEERS_RING}, {5, 2, 3, MRW_PEERS_TREE}};
	const struct mrw_tuning_row near[] = {{.algo = MRW_ALGO_ONESHOT, .most = 64}, {.algo = MRW_ALGO_BULK, .most = UINT64_MAX}};
	const struct mrw_tuning_row far[] = {{.algo = MRW_ALGO_RAIL, .most = UINT64_MAX}}, ring[] = {{.algo = MRW_ALGO_RING, .most = UINT64_MAX}};
	const struct mrw_tuning_row trees[] = {{.algo = MRW_ALGO_TREESHOT, .most = 4096}, {.algo = MRW_ALGO_TREE, .most = UINT64_MAX}};
	uint32_t count;
	memset(&tuning, 0, sizeof tuning);
	strcpy(tuning.machine, MACHINE);
	assert_true(mrw_tuning_put(&tuning, &shapes[0], MRW_FUNC_ALL_REDUCE, near, 2));
	assert_true(mrw_tuning_put(&tuning, &shapes[1], MRW_FUNC_ALL_REDUCE, far, 1));
	assert_true(mrw_tuning_put(&tuning, &shapes[2], MRW_FUNC_BROADCAST, ring, 1));
	assert_true(mrw_tuning_put(&tuning, &shapes[0], MRW_FUNC_BROADCAST, near + 1, 1)); /* in the midst */
	assert_true(mrw_tuning_put(&tuning, &shapes[0], MRW_FUNC_ALL_REDUCE, near + 1, 1)); /* instead */
	assert_true(mrw_tuning_put(&tuning, &shapes[0], MRW_FUNC_ALL_REDUCE, near, 2));
	assert_false(mrw_tuning_put(&tuning, &shapes[0], MRW_FUNC_ALL_REDUCE, near, 1)); /* not to the end */
	assert_false(mrw_tuning_put(&tuning, &shapes[0], MRW_FUNC_ALL_REDUCE, far, 1));
	assert_true(mrw_tuning_put(&tuning, &shapes[3], MRW_FUNC_REDUCE, trees, 2));
	assert_int_equal(tuning.nshapes, 4);
	assert_int_equal(tuning.nrows, 7);
	size_t bytes = write_out(&tuning, text, sizeof text);
	if (!mrw_tuning_parse(&again, text, bytes, MACHINE, &error))
		fail_msg("%u: %s\n%s", error.line, error.text, text);
	assert_memory_equal(&again.shapes, &tuning.shapes, sizeof tuning.shapes);
	for (size_t s = 0; s < COUNT(shapes); s++)
		for (uint32_t f = 0; f < MRW_FUNC_COUNT; f++) {
			uint32_t other;
			const struct mrw_tuning_row *a = mrw_tuning_rows(&tuning, &shapes[s], (enum mrw_func)f, &count);
			const struct mrw_tuning_row *b = mrw_tuning_rows(&again, &shapes[s], (enum mrw_func)f, &other);
			assert_int_equal(count, other);
			for (uint32_t i = 0; i < count; i++)
				assert_true(a[i].algo == b[i].algo && a[i].most == b[i].most && a[i].func == f);
		}
	/* Cut off anywhere, it is refused or says less; it never says something else. */
	for (size_t cut = 0; cut < bytes; cut++)
		if (mrw_tuning_parse(&again, text, cut, MACHINE, &error)) {
			assert_int_equal(text[cut - 1], '\n');
			assert_true(again.nrows < tuning.nrows && again.nshapes <= tuning.nshapes);
			for (uint32_t i = 0; i < again.nrows; i++)
				assert_true(again.rows[i].algo == tuning.rows[i].algo && again.rows[i].most == tuning.rows[i].most &&
					    again.rows[i].func == tuning.rows[i].func);
		} else
			assert_true(error.text[0] != 0);
}

/* Bytes altered at random: whatever is still taken is whole and in order. */
static void no_bytes_do_harm(void **state)
{
	(void)state;
	char text[1024], mixed[1024];
	uint64_t seed = 1;
	uint32_t taken = 0;
	snprintf(text, sizeof text, "%s" ONE_HOST "all_reduce oneshot 512\nall_reduce lines 4096\nall_reduce bulk max\nbroadcast bulk max\n" SHAPE
		 "all_gather railshot 10\nall_gather rail max\n", head);
	size_t bytes = strlen(text);
	for (int round = 0; round < 20000; round++) {
		memcpy(mixed, text, bytes);
		for (int k = 0; k < 1 + round % 3; k++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			mixed[(seed >> 33) % bytes] = round & 1 ? (char)(seed >> 20) : text[(seed >> 13) % bytes];
		}
		if (!mrw_tuning_parse(&tuning, mixed, bytes, NULL, &error)) {
			assert_true(error.text[0] != 0);
			continue;
		}
		taken++;
		for (uint32_t i = 0; i < tuning.nrows; i++) {
			const struct mrw_tuning_row *row = &tuning.rows[i], *next = row + 1;
			assert_true(row->shape < tuning.nshapes && (uint32_t)row->func < MRW_FUNC_COUNT && row->algo > MRW_ALGO_LOCAL && row->algo < MRW_ALGO_COUNT);
			bool last = i + 1 == tuning.nrows || next->func != row->func || next->shape != row->shape;
			assert_true(last ? row->most == UINT64_MAX : next->most > row->most);
		}
	}
	assert_true(taken > 0); /* numbers that changed, for instance */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_table_is_read),
		cmocka_unit_test(what_is_wrong_is_refused),
		cmocka_unit_test(there_are_limits),
		cmocka_unit_test(what_is_put_is_read_back),
		cmocka_unit_test(no_bytes_do_harm),
	};
	return cmocka_run_group_tests(tests, make_head, NULL);
}
