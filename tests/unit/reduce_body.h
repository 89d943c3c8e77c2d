/* reduce_body.h - the arithmetic of device/reduce.h for each type, as one plain function a type (reduce_body.c). */
#ifndef TEST_REDUCE_BODY_H
#define TEST_REDUCE_BODY_H

#include "device/kernels.h"

/* out = reduction over inputs[0 ... a->nranks - 1] in rank order; a says reduction, average and scaled. Rank r's premulsum scalar is
 * element r of scalars. Any alignment. */
typedef void reduce_body(const struct mrw_args *a, uint8_t *out, const uint8_t *const *inputs, uint64_t bytes, const uint8_t *scalars);

#define MRW_X(suffix, name) extern reduce_body reduce_body_##suffix;
MRW_TYPES(MRW_X)
#undef MRW_X

/* One float, rounded to the type. */
uint8_t narrow_f8e4m3(float x);
uint8_t narrow_f8e5m2(float x);

#endif
