/* line.h - messages of the middle: 120 bytes of payload and their flag in a line of 128 bytes, half as much to send as in packets.
 *
 * A line is sent by MRW_LINE_LANES neighbouring threads of a team together, each with its part of it. Contract on both targets: who sees the
 * flag of seq sees all payload that was sent with it. On the GPU that takes lines which go over the link, and are read, in one piece; no
 * memory model promises that, so init tries it (collectives/prove.h), and where a line was ever seen torn the algorithm is not there. */
#ifndef MRW_LINE_H
#define MRW_LINE_H

#include "packet.h"

/* Both halves are seq: never what the trial at init leaves in a line, whose halves differ. */
MRW_PURE uint64_t mrw_line_flag(uint32_t seq)
{
	return seq | (uint64_t)seq << 32;
}

#if MRW_ON_CUDA
#include "line_cuda.h"
#else
#include "line_host.h"
#endif

/* This thread's lane of a line. */
MRW_DEV uint32_t mrw_line_lane(const struct mrw_team *team)
{
	return team->index % MRW_LINE_LANES;
}

/* Units of a line that this thread holds. */
MRW_DEV uint32_t mrw_line_unit(uint32_t lane, uint32_t u)
{
	return lane * MRW_LINE_PART + u;
}

#endif
