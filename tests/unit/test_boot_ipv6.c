/* test_boot_ipv6.c - ranks meet over IPv6: at an address that they are told, and by an id made on an interface that has no other one. Skipped where
 * the machine has no IPv6. */
#include "boot_parts.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <marrow/marrow.h>

#include "boot_socket.h"

/* The interfaces that the bootstrap finds, in the place of this machine's: lo has both addresses, v6only IPv6 ones, and first one that is link-local
 * and of no use. */
static struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr = {.s_addr = 0x0100007f}};
static struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
static struct sockaddr_in6 link_local = {.sin6_family = AF_INET6, .sin6_addr = {{{0xfe, 0x80, [15] = 1}}}};
static char lo[] = "lo", v6only[] = "v6only";
static struct ifaddrs made[] = {
	{&made[1], v6only, IFF_UP | IFF_RUNNING, (struct sockaddr *)&link_local, NULL, {NULL}, NULL},
	{&made[2], v6only, IFF_UP | IFF_RUNNING, (struct sockaddr *)&v6, NULL, {NULL}, NULL},
	{&made[3], lo, IFF_UP | IFF_RUNNING | IFF_LOOPBACK, (struct sockaddr *)&v6, NULL, {NULL}, NULL},
	{NULL, lo, IFF_UP | IFF_RUNNING | IFF_LOOPBACK, (struct sockaddr *)&v4, NULL, {NULL}, NULL},
};

int getifaddrs(struct ifaddrs **list)
{
	*list = made;
	return 0;
}

void freeifaddrs(struct ifaddrs *list)
{
	(void)list;
}

static void assert_address(const struct marrow_unique_id *id, uint8_t family)
{
	struct mrw_boot_id fields;

	assert_int_equal(mrw_boot_id_decode(&fields, id), MARROW_SUCCESS);
	assert_int_equal(fields.addrs[0].family, family);
	assert_int_not_equal(mrw_addr_port(&fields.addrs[0]), 0);
	if (family == 6)
		assert_memory_equal(fields.addrs[0].bytes, &v6.sin6_addr, sizeof v6.sin6_addr);
}

static enum marrow_status act_named(struct part *part, struct mrw_boot *boot)
{
	MRW_TRY(act_exchange(part, boot));
	for (uint32_t r = 0; r < part->nranks; r++)
		if (!strstr(mrw_boot_name(boot, r), ", ::1)"))
			return mrw_fail(MARROW_INTERNAL_ERROR, "rank %u met over another address: %s", r, mrw_boot_name(boot, r));
	return MARROW_SUCCESS;
}

/* By name, or because there is no other: IPv4 goes first where both are. */
static void makes_an_id_on_ipv6(void **state)
{
	struct marrow_unique_id id;

	(void)state;
	assert_int_equal(mrw_boot_make_id(&id, "lo"), MARROW_SUCCESS);
	assert_address(&id, 4);
	mrw_boot_drop_id(&id);
	assert_int_equal(mrw_boot_make_id(&id, "v6only"), MARROW_SUCCESS);
	assert_address(&id, 6);
	mrw_boot_drop_id(&id);
}

/* Ranks that are told the interface listen there; the others where their way to the root begins. */
static void meets_by_such_an_id(void **state)
{
	struct marrow_unique_id id;

	(void)state;
	for (int told = 0; told < 2; told++) {
		prepare(5, 5, NULL);
		abandon_id();
		assert_int_equal(mrw_boot_make_id(&id, "=v6only"), MARROW_SUCCESS);
		for (int i = 0; i < 5; i++) {
			parts[i].id = id;
			parts[i].act = told ? act_named : act_again;
			parts[i].ifname = told ? "=v6only" : "";
		}
		if (told)
			play_processes(5, 0);
		else
			play_threads(5);
		assert_all(5, MARROW_SUCCESS);
	}
}

static void meets_over_ipv6(void **state)
{
	char root[64];

	(void)state;
	snprintf(root, sizeof root, "[::1]:%u", free_port());
	play_env_at(root, 5);
}

/* As programs do it, with MARROW_SOCKET_IFNAME from main(). */
static void communicators_meet_over_ipv6(void **state)
{
	struct marrow_config config = MARROW_CONFIG_INIT;
	struct marrow_comm *comms[2];
	struct marrow_unique_id id;
	float one[2] = {1, 1}, sum[2] = {0};

	(void)state;
	config.target = MARROW_TARGET_HOST;
	assert_int_equal(marrow_get_unique_id(&id), MARROW_SUCCESS);
	assert_address(&id, 6);
	assert_int_equal(marrow_group_start(), MARROW_SUCCESS);
	for (uint32_t r = 0; r < 2; r++)
		assert_int_equal(marrow_comm_init(&comms[r], 2, &id, r, &config), MARROW_SUCCESS);
	assert_int_equal(marrow_group_end(), MARROW_SUCCESS);
	assert_int_equal(marrow_group_start(), MARROW_SUCCESS);
	for (uint32_t r = 0; r < 2; r++)
		assert_int_equal(marrow_all_reduce(&one[r], &sum[r], 1, MARROW_FLOAT32, MARROW_SUM, comms[r], NULL), MARROW_SUCCESS);
	assert_int_equal(marrow_group_end(), MARROW_SUCCESS);
	for (uint32_t r = 0; r < 2; r++) {
		assert_true(sum[r] == 2);
		assert_int_equal(marrow_comm_destroy(comms[r]), MARROW_SUCCESS);
	}
}

/* errno's text, NULL: it has. */
static const char *lacks_ipv6(void)
{
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const char *why = fd < 0 || bind(fd, (struct sockaddr *)&v6, sizeof v6) ? strerror(errno) : NULL;

	if (fd >= 0)
		close(fd);
	return why;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(makes_an_id_on_ipv6),
		cmocka_unit_test(meets_by_such_an_id),
		cmocka_unit_test(meets_over_ipv6),
		cmocka_unit_test(communicators_meet_over_ipv6),
	};
	const char *why = lacks_ipv6();

	if (why) {
		printf("skipped: this machine has no IPv6 on loopback: %s\n", why);
		return 77;
	}
	setenv("MARROW_SOCKET_IFNAME", "=v6only", 1);
	return set_stage() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
