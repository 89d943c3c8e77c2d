/* line_cuda.h - line.h for the GPU: eight lanes of 16 bytes; the last lane's second half is the flag. Only line.h includes this. */
#ifndef MRW_LINE_CUDA_H
#define MRW_LINE_CUDA_H

#define MRW_LINE_UNROLL MRW_UNROLL
#define MRW_LINE_LANES 8u
#define MRW_LINE_PART 2u /* units a lane; the last lane's second one is not there */

/* The lanes of a line, and of no other: one instruction of all of them is what keeps the line whole. */
MRW_DEV void mrw_line_meet(void)
{
	__syncwarp(0xffu << (threadIdx.x & 24));
}

/* Partner: mrw_line_load(). */
MRW_DEV void mrw_line_store(uint8_t *line, uint32_t lane, uint32_t seq, uint32_t payload[MRW_LINE_PART][2])
{
	struct mrw_packet v;
	v.unit[0] = payload[0][0] | (uint64_t)payload[0][1] << 32;
	v.unit[1] = lane == MRW_LINE_LANES - 1 ? mrw_line_flag(seq) : payload[1][0] | (uint64_t)payload[1][1] << 32;
	mrw_line_meet();
	mrw_store_packet((struct mrw_packet *)(void *)line + lane, v);
}

/* This lane's part, and whether as far as it can see the line is there. */
MRW_DEV bool mrw_line_load(const uint8_t *line, uint32_t lane, uint32_t seq, uint32_t payload[MRW_LINE_PART][2])
{
	mrw_line_meet();
	struct mrw_packet v = mrw_load_packet((const struct mrw_packet *)(const void *)line + lane);
	payload[0][0] = (uint32_t)v.unit[0];
	payload[0][1] = (uint32_t)(v.unit[0] >> 32);
	payload[1][0] = (uint32_t)v.unit[1];
	payload[1][1] = (uint32_t)(v.unit[1] >> 32);
	return lane != MRW_LINE_LANES - 1 || v.unit[1] == mrw_line_flag(seq);
}

/* The first line, in a pass over lines, of the threads that go through it together: a warp. */
MRW_DEV uint32_t mrw_line_first(const struct mrw_team *team)
{
	return team->index / 32 * (32 / MRW_LINE_LANES);
}

/* True if mine is true in all threads that go together. */
MRW_DEV bool mrw_line_all(bool mine)
{
	return __all_sync(0xffffffffu, mine);
}

/* One line of the trial at init: every word carries count. */
MRW_DEV void mrw_line_try_store(uint8_t *line, uint32_t lane, uint32_t count)
{
	struct mrw_packet v;
	v.unit[0] = v.unit[1] = count | (uint64_t)~count << 32;
	mrw_line_meet();
	mrw_store_packet((struct mrw_packet *)(void *)line + lane, v);
}

/* The flag's count, 0 before the first; *torn is set if another word carries another one. */
MRW_DEV uint32_t mrw_line_try_load(const uint8_t *line, uint32_t lane, bool *torn)
{
	mrw_line_meet();
	struct mrw_packet v = mrw_load_packet((const struct mrw_packet *)(const void *)line + lane);
	uint32_t flag = __shfl_sync(0xffffffffu, (uint32_t)v.unit[1], MRW_LINE_LANES - 1, MRW_LINE_LANES);
	uint64_t want = flag | (uint64_t)~flag << 32;
	if (flag != 0 && (v.unit[0] != want || v.unit[1] != want))
		*torn = true;
	return flag;
}

#endif
