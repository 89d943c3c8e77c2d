/* transfers.c - the body that makes transfers, on the host target. */
#define MRW_TRANSFERS 1
#define MRW_COPY_LARGE 8u /* as on GPUs, where there are registers for it */

#include "device/kernels.h"
#include "move_transfers.h"

static void transfers(const struct mrw_team *team, uint32_t channel, const struct mrw_args *args)
{
	mrw_move_transfers(team, channel, args);
}

const mrw_host_body mrw_host_transfers = transfers;
