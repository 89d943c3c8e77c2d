/* reduce_body.c - compiled once per type with -DMRW_TYPE_<type>: vectors as the bodies load, combine and store them. */
#include "reduce_body.h"

#include "device/reduce.h"

#define ELEMS (MRW_VEC_BYTES / MRW_ELEM_BYTES)

reduce_body MRW_TYPED(reduce_body);

static struct mrw_vec load(const uint8_t *from, uint32_t bytes)
{
	return bytes == MRW_VEC_BYTES ? mrw_load_vec(from, mrw_alignment(from)) : mrw_load_part(from, bytes);
}

static struct mrw_vec reduce_vec(const struct mrw_args *a, const uint8_t *const *inputs, uint64_t at, uint32_t bytes,
				 const uint8_t *scalars)
{
	mrw_acc acc[ELEMS] = {0};
	for (uint32_t r = 0; r < a->nranks; r++) {
		struct mrw_vec v = load(inputs[r] + at, bytes);
		if (a->scaled) {
			struct mrw_args mine = *a;
			memcpy(&mine.scalar, scalars + r * MRW_ELEM_BYTES, MRW_ELEM_BYTES);
			mine.scalar_memory = scalars + r * MRW_ELEM_BYTES;
			mrw_scale(v.w, 4, mrw_scalar(&mine));
		}
		for (uint32_t e = 0; e < ELEMS; e++)
			acc[e] = r == 0 ? mrw_widen(v.w, e) : mrw_combine(a->reduction, acc[e], mrw_widen(v.w, e));
	}
	struct mrw_vec v = {{0, 0, 0, 0}};
	for (uint32_t e = 0; e < ELEMS; e++)
		mrw_narrow(v.w, e, a->average ? mrw_divide(acc[e], a->nranks) : acc[e]);
	return v;
}

void MRW_TYPED(reduce_body)(const struct mrw_args *a, uint8_t *out, const uint8_t *const *inputs, uint64_t bytes,
			    const uint8_t *scalars)
{
	for (uint64_t at = 0; at < bytes; at += MRW_VEC_BYTES) {
		uint32_t part = bytes - at < MRW_VEC_BYTES ? (uint32_t)(bytes - at) : MRW_VEC_BYTES;
		struct mrw_vec v = reduce_vec(a, inputs, at, part, scalars);
		if (part == MRW_VEC_BYTES)
			mrw_store_vec(out + at, v, mrw_alignment(out));
		else
			mrw_store_part(out + at, v, part);
	}
}

#if defined(MRW_TYPE_f8e4m3) || defined(MRW_TYPE_f8e5m2)
uint8_t MRW_TYPED(narrow)(float x)
{
	uint32_t w[1] = {0};
	mrw_narrow(w, 0, x);
	return (uint8_t)w[0];
}
#endif
