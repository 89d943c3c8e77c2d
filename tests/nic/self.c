/* self.c - what the self test says. Arguments: devx, devx_ring or verbs; words that its error must have, or nothing if it must pass. */
#include "ends.h"

int main(int argc, char **argv)
{
	struct mrw_nic_config config = config_of(argc > 1 ? argv[1] : "auto", 64);
	enum marrow_status status;
	struct mrw_nic *nic;

	need_nics(1);
	CHECK_OK(mrw_nic_open(&nic, "", 0, &config));
	status = mrw_nic_self_test(nic);
	CHECK((status == MARROW_SUCCESS) == (argc < 3));
	for (int i = 2; i < argc; i++)
		CHECK(strstr(mrw_error_text(), argv[i]));
	mrw_nic_close(nic);
	return 0;
}
