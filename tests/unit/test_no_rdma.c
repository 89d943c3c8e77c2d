/* test_no_rdma.c - what nic.h answers in a build without RDMA. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxyless/nic.h"

static void unsupported(enum marrow_status status)
{
	assert_int_equal(status, MARROW_UNSUPPORTED);
	assert_non_null(strstr(mrw_error_text(), "this build has no RDMA"));
	mrw_error_set_text("");
}

static void all_is_refused_politely(void **state)
{
	struct mrw_nic_config config;
	struct mrw_region region;
	struct mrw_link *link;
	struct mrw_queue queue;
	struct mrw_nic *nic;
	uint32_t count = 1;
	char list[8] = "x";

	(void)state;
	mrw_nic_defaults(&config);
	unsupported(mrw_nic_count("", &count));
	unsupported(mrw_nic_list(list, sizeof list));
	assert_string_equal(list, "");
	assert_int_equal(count, 0);
	unsupported(mrw_nic_open(&nic, "", 0, &config));
	assert_null(nic);
	unsupported(mrw_nic_self_test(nic));
	unsupported(mrw_nic_trial(nic, 1));
	unsupported(mrw_region_new(nic, &queue, sizeof queue, -1, &region));
	mrw_region_free(nic, &region);
	assert_int_equal(mrw_nic_queue_bytes(nic), 0);
	unsupported(mrw_nic_place_queues(nic, NULL));
	unsupported(mrw_link_new(nic, 0, &queue, &link));
	assert_null(link);
	unsupported(mrw_link_push(link));
	unsupported(mrw_link_pull(link));
	assert_false(mrw_link_is_placed(link));
	mrw_link_free(link);
	mrw_nic_close(nic);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(all_is_refused_politely)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
