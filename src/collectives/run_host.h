/* run_host.h - sums of a team of one: its vectors adjoin, so it adds blocks of elements in loops that a compiler turns into vector
 * code. Only add.h includes this. */
#ifndef MRW_RUN_HOST_H
#define MRW_RUN_HOST_H

#define MRW_RUN_BYTES 512u
#define MRW_RUN_ELEMS (MRW_RUN_BYTES / MRW_ELEM_BYTES)

/* memcpy() of a whole block would become a string instruction. */
MRW_DEV void mrw_run_move(uint8_t *dst, const uint8_t *src)
{
	for (uint32_t i = 0; i < MRW_RUN_BYTES; i += MRW_VEC_BYTES)
		memcpy(dst + i, src + i, MRW_VEC_BYTES);
}

MRW_DEV void mrw_run_block(const uint32_t reduction, const struct mrw_args *a, const struct mrw_sum s, uint32_t at)
{
	uint32_t w[MRW_RUN_BYTES / 4];
	mrw_acc acc[MRW_RUN_ELEMS];
	mrw_run_move((uint8_t *)w, mrw_sum_piece(s, 0) + at);
	for (uint32_t e = 0; e < MRW_RUN_ELEMS; e++)
		acc[e] = mrw_widen(w, e);
	for (uint32_t r = 1; r < s.nranks; r++) {
		mrw_run_move((uint8_t *)w, mrw_sum_piece(s, r) + at);
		for (uint32_t e = 0; e < MRW_RUN_ELEMS; e++)
			acc[e] = mrw_combine(reduction, acc[e], mrw_widen(w, e));
	}
	if (s.average)
		for (uint32_t e = 0; e < MRW_RUN_ELEMS; e++)
			acc[e] = mrw_divide(acc[e], s.divisor);
	if (MRW_ELEM_BYTES < 4)
		memset(w, 0, sizeof w);
	for (uint32_t e = 0; e < MRW_RUN_ELEMS; e++)
		mrw_narrow(w, e, acc[e]);
	mrw_run_move(s.out + at, (const uint8_t *)w);
	for (uint32_t q = 1; s.forward && q < s.nranks; q++)
		mrw_run_move(mrw_sum_slot(a, s, q) + at, (const uint8_t *)w);
}

/* Returns the byte where it stopped, less than MRW_RUN_BYTES before the end. */
MRW_DEV uint32_t mrw_sum_run(const uint32_t reduction, const struct mrw_args *a, const struct mrw_sum s, uint32_t at, uint32_t step)
{
	for (; step == MRW_VEC_BYTES && at + MRW_RUN_BYTES <= s.bytes; at += MRW_RUN_BYTES)
		mrw_run_block(reduction, a, s, at);
	return at;
}

#endif
