/* line_host.h - line.h for the host target: one thread a line, the flag released behind the payload. The payload is relaxed too: a slot is rewritten on
 * the evidence of opening lines, which are. Only line.h includes this. */
#ifndef MRW_LINE_HOST_H
#define MRW_LINE_HOST_H

#define MRW_LINE_UNROLL /* code for the compiler's sake only */
#define MRW_LINE_LANES 1u
#define MRW_LINE_PART MRW_LINE_UNITS

/* Partner: mrw_line_load(). */
MRW_DEV void mrw_line_store(uint8_t *line, uint32_t lane, uint32_t seq, uint32_t payload[MRW_LINE_PART][2])
{
	uint64_t *words = (uint64_t *)(void *)line;
	(void)lane;
	for (uint32_t u = 0; u < MRW_LINE_PART; u++)
		mrw_store_relaxed(&words[u], payload[u][0] | (uint64_t)payload[u][1] << 32);
	mrw_publish(&words[MRW_LINE_UNITS], mrw_line_flag(seq));
}

MRW_DEV bool mrw_line_load(const uint8_t *line, uint32_t lane, uint32_t seq, uint32_t payload[MRW_LINE_PART][2])
{
	const uint64_t *words = (const uint64_t *)(const void *)line;
	(void)lane;
	if (mrw_load_relaxed(&words[MRW_LINE_UNITS]) != mrw_line_flag(seq))
		return false;
	mrw_observed(&words[MRW_LINE_UNITS]);
	for (uint32_t u = 0; u < MRW_LINE_PART; u++) {
		uint64_t word = mrw_load_relaxed(&words[u]);
		payload[u][0] = (uint32_t)word;
		payload[u][1] = (uint32_t)(word >> 32);
	}
	return true;
}

MRW_DEV uint32_t mrw_line_first(const struct mrw_team *team)
{
	return team->index;
}

MRW_DEV bool mrw_line_all(bool mine)
{
	return mine;
}

#endif
