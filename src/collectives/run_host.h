/* run_host.h - sums of a team of one: its vectors adjoin, so it adds blocks of elements in loops that a compiler turns into vector
 * code. Only add.h includes this. */
#ifndef MRW_RUN_HOST_H
#define MRW_RUN_HOST_H

#define MRW_RUN_BYTES 512u
#define MRW_RUN_ELEMS (MRW_RUN_BYTES / MRW_ELEM_BYTES)
#define MRW_RUN_AHEAD 8192u /* summed before it is forwarded from the nearest caches */

/* Word by word, which gcc turns into vectors as wide as those of the sums that follow: narrower stores are not forwarded to wider loads. It would
 * make a string instruction of a whole block's memcpy(); clang calls memcpy() for the loop. */
MRW_DEV void mrw_run_move(uint8_t *dst, const uint8_t *src)
{
	for (uint32_t i = 0; i < MRW_RUN_BYTES; i += 4)
		memcpy(dst + i, src + i, 4);
}

/* Elements of less than a word each for itself: several put into a word together are no vector code. */
#if MRW_ELEM_BYTES == 1
typedef uint8_t mrw_run_word;
#elif MRW_ELEM_BYTES == 2
typedef uint16_t mrw_run_word;
#else
typedef uint32_t mrw_run_word;
#endif
#define MRW_RUN_WORDS (MRW_RUN_BYTES / sizeof(mrw_run_word))

MRW_DEV mrw_acc mrw_run_widen(const mrw_run_word *w, uint32_t e)
{
#if MRW_ELEM_BYTES < 4
	uint32_t lone = w[e];
	return mrw_widen(&lone, 0);
#else
	return mrw_widen(w, e);
#endif
}

MRW_DEV void mrw_run_narrow(const struct mrw_sum s, mrw_run_word *w, mrw_acc *acc)
{
	if (s.average)
		for (uint32_t e = 0; e < MRW_RUN_ELEMS; e++)
			acc[e] = mrw_divide(acc[e], s.divisor);
	for (uint32_t e = 0; e < MRW_RUN_ELEMS; e++) {
#if MRW_ELEM_BYTES < 4
		uint32_t lone = 0;
		mrw_narrow(&lone, 0, acc[e]);
		w[e] = (mrw_run_word)lone;
#else
		mrw_narrow(w, e, acc[e]);
#endif
	}
}

/* In few passes: a core fetches the next block ahead only as far as it gets through this one's instructions. */
MRW_DEV void mrw_run_block(const uint32_t reduction, const struct mrw_sum s, uint32_t at)
{
	mrw_run_word w[MRW_RUN_WORDS], v[MRW_RUN_WORDS];
	mrw_acc acc[MRW_RUN_ELEMS];
	mrw_run_move((uint8_t *)w, mrw_sum_piece(s, 0) + at);
	mrw_run_move((uint8_t *)v, mrw_sum_piece(s, 1) + at);
	for (uint32_t e = 0; e < MRW_RUN_ELEMS; e++)
		acc[e] = mrw_combine(reduction, mrw_run_widen(w, e), mrw_run_widen(v, e));
	for (uint32_t r = 2; r < s.nranks; r++) {
		mrw_run_move((uint8_t *)w, mrw_sum_piece(s, r) + at);
		for (uint32_t e = 0; e < MRW_RUN_ELEMS; e++)
			acc[e] = mrw_combine(reduction, acc[e], mrw_run_widen(w, e));
	}
	mrw_run_narrow(s, w, acc);
	mrw_run_move(s.out + at, (const uint8_t *)w);
}

/* Forwards by memcpy(): stores of vectors would read a peer's lines first. */
MRW_DEV uint32_t mrw_run_blocks(const uint32_t reduction, const struct mrw_args *a, const struct mrw_sum s, uint32_t at)
{
	while (at + MRW_RUN_BYTES <= s.bytes) {
		uint32_t begin = at;
		for (; at - begin < MRW_RUN_AHEAD && at + MRW_RUN_BYTES <= s.bytes; at += MRW_RUN_BYTES)
			mrw_run_block(reduction, s, at);
		for (uint32_t q = 1; s.forward && q < s.nranks; q++)
			memcpy(mrw_sum_slot(a, s, q) + begin, s.out + begin, at - begin);
	}
	return at;
}

MRW_DEV_WIDE uint32_t mrw_run_any(uint32_t reduction, const struct mrw_args *a, const struct mrw_sum *s, uint32_t at)
{
	switch (reduction) {
	case MRW_RED_SUM:
		return mrw_run_blocks(MRW_RED_SUM, a, *s, at);
	case MRW_RED_PROD:
		return mrw_run_blocks(MRW_RED_PROD, a, *s, at);
	case MRW_RED_MAX:
		return mrw_run_blocks(MRW_RED_MAX, a, *s, at);
	default:
		return mrw_run_blocks(MRW_RED_MIN, a, *s, at);
	}
}

/* Of two ranks or more. Returns the byte where it stopped, less than MRW_RUN_BYTES before the end. */
MRW_DEV uint32_t mrw_sum_run(const uint32_t reduction, const struct mrw_args *a, const struct mrw_sum s, uint32_t at, uint32_t step)
{
	return step == MRW_VEC_BYTES && s.nranks > 1 ? mrw_run_any(reduction, a, &s, at) : at;
}

#endif
