/* test_wqe.c - work requests byte for byte beside those of rdma-core's own setters and structs, and completion entries. */
#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/mlx5dv.h>

#include <cmocka.h>

#include "proxyless/cqe.h"
#include "proxyless/wqe.h"

enum { STALE = 0xa5 };
static const uint64_t remote = 0x0123456789abcdefu, local = 0xfedcba9876543210u;
static const uint32_t rkey = 0x00abcd12u, lkey = 0x00345678u, qpn = 0x00fedcbau;
static const uint64_t indices[] = {0, 1, 0xfffe, 0xffff, 0x10000, 0xffffffffu, 0x100000003u, 0x123456789abcu};

struct slots {
	_Alignas(64) uint8_t bytes[2 * MRW_WQEBB_BYTES];
};

static struct slots stale(void)
{
	struct slots s;
	memset(&s, STALE, sizeof s);
	return s;
}

/* The reference grows segment by segment. */
struct reference {
	struct slots slots;
	uint32_t at;
};

static void add(struct reference *r, const void *segment, uint32_t bytes)
{
	memcpy(r->slots.bytes + r->at, segment, bytes);
	r->at += bytes;
}

static struct reference begin(uint64_t index, bool signal, uint8_t opcode, uint8_t modifier, uint8_t segments)
{
	struct reference r = {stale(), 0};
	struct mlx5_wqe_ctrl_seg control;
	memset(&control, 0, sizeof control);
	mlx5dv_set_ctrl_seg(&control, (uint16_t)index, opcode, modifier, qpn, signal ? MLX5_WQE_CTRL_CQ_UPDATE : 0, segments, 0, 0);
	add(&r, &control, sizeof control);
	return r;
}

static void add_remote(struct reference *r)
{
	struct mlx5_wqe_raddr_seg seg = {htobe64(remote), htobe32(rkey), 0};
	add(r, &seg, sizeof seg);
}

static void add_data(struct reference *r, uint32_t bytes)
{
	struct mlx5_wqe_data_seg seg;
	mlx5dv_set_data_seg(&seg, bytes, lkey, local);
	add(r, &seg, sizeof seg);
}

static void add_64(struct reference *r, uint64_t first, uint64_t second)
{
	uint64_t seg[2] = {htobe64(first), htobe64(second)};
	add(r, seg, sizeof seg);
}

/* The used segments are equal and nothing beyond them was touched. */
static void same(const struct slots *mine, const struct reference *r, uint32_t segments)
{
	assert_int_equal(r->at, 16 * segments);
	assert_memory_equal(mine->bytes, r->slots.bytes, sizeof mine->bytes);
}

static void write_read_nop_dump(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < sizeof indices / sizeof *indices; i++)
		for (int signal = 0; signal < 2; signal++) {
			uint64_t n = indices[i];
			struct slots s = stale();
			struct reference r = begin(n, signal, MLX5_OPCODE_RDMA_WRITE, 0, 3);
			add_remote(&r);
			add_data(&r, 0x7ffffff1);
			assert_int_equal(mrw_wqe_write(s.bytes, n, qpn, signal, remote, rkey, local, lkey, 0x7ffffff1), 1);
			same(&s, &r, 3);

			s = stale();
			r = begin(n, signal, MLX5_OPCODE_RDMA_READ, 0, 3);
			add_remote(&r);
			add_data(&r, 4097);
			assert_int_equal(mrw_wqe_read(s.bytes, n, qpn, signal, remote, rkey, local, lkey, 4097), 1);
			same(&s, &r, 3);

			s = stale();
			r = begin(n, signal, MLX5_OPCODE_NOP, 0, 1);
			assert_int_equal(mrw_wqe_nop(s.bytes, n, qpn, signal), 1);
			same(&s, &r, 1);

			s = stale();
			r = begin(n, signal, 0x23, 0, 2);
			add_data(&r, 8);
			assert_int_equal(mrw_wqe_dump(s.bytes, n, qpn, signal, local, lkey, 8), 1);
			same(&s, &r, 2);
		}
}

static void inline_of_each_length(void **state)
{
	(void)state;
	const uint64_t words[3] = {0x0807060504030201u, 0x100f0e0d0c0b0a09u, 0x1817161514131211u};
	for (uint32_t bytes = 1; bytes <= MRW_INLINE_BYTES; bytes++) {
		uint32_t segments = bytes <= 12 ? 3 : 4;
		struct slots s = stale();
		struct reference r = begin(7, true, MLX5_OPCODE_RDMA_WRITE, 0, (uint8_t)segments);
		struct mlx5_wqe_inl_data_seg header = {htobe32(bytes | MLX5_INLINE_SEG)};
		add_remote(&r);
		add(&r, &header, sizeof header);
		add(&r, words, bytes);
		/* Only as many words as hold the bytes are read. */
		uint64_t *data = malloc((bytes + 7) / 8 * 8);
		assert_non_null(data);
		memcpy(data, words, (bytes + 7) / 8 * 8);
		assert_int_equal(mrw_wqe_write_inline(s.bytes, 7, qpn, true, remote, rkey, data, bytes), 1);
		free(data);
		assert_memory_equal(s.bytes, r.slots.bytes, r.at);
		for (uint32_t i = r.at; i < 16 * segments; i++) /* no stale bytes in what the NIC fetches */
			assert_true(s.bytes[i] == 0 || s.bytes[i] == i - 36 + 1);
		for (uint32_t i = 16 * segments; i < sizeof s.bytes; i++)
			assert_int_equal(s.bytes[i], STALE);
	}
	struct slots a = stale(), b = stale();
	assert_int_equal(mrw_wqe_write_word(a.bytes, 9, qpn, false, remote, rkey, words[0]), 1);
	assert_int_equal(mrw_wqe_write_inline(b.bytes, 9, qpn, false, remote, rkey, words, 8), 1);
	assert_memory_equal(a.bytes, b.bytes, sizeof a.bytes);
	assert_memory_equal(a.bytes + 36, words, 8);
}

static void atomics(void **state)
{
	(void)state;
	const uint64_t x = 0x1122334455667788u, y = 0x99aabbccddeeff00u, u = 0x0102030405060708u, v = 0xf0e0d0c0b0a09080u;
	struct slots s = stale();
	struct reference r = begin(3, true, MLX5_OPCODE_ATOMIC_FA, 0, 4);
	struct mlx5_wqe_atomic_seg seg = {htobe64(x), 0};
	add_remote(&r);
	add(&r, &seg, sizeof seg);
	add_data(&r, 8);
	assert_int_equal(mrw_wqe_fetch_add(s.bytes, 3, qpn, true, remote, rkey, local, lkey, x), 1);
	same(&s, &r, 4);

	s = stale();
	r = begin(3, true, MLX5_OPCODE_ATOMIC_CS, 0, 4);
	seg = (struct mlx5_wqe_atomic_seg){htobe64(y), htobe64(x)};
	add_remote(&r);
	add(&r, &seg, sizeof seg);
	add_data(&r, 8);
	assert_int_equal(mrw_wqe_compare_swap(s.bytes, 3, qpn, true, remote, rkey, local, lkey, x, y), 1);
	same(&s, &r, 4);

	s = stale();
	r = begin(3, false, MLX5_OPCODE_ATOMIC_MASKED_FA, 9, 4);
	add_remote(&r);
	add_64(&r, x, y);
	add_data(&r, 8);
	assert_int_equal(mrw_wqe_masked_fetch_add(s.bytes, 3, qpn, false, remote, rkey, local, lkey, x, y), 1);
	same(&s, &r, 4);

	s = stale();
	r = begin(3, false, MLX5_OPCODE_ATOMIC_MASKED_FA, 8, 4);
	uint32_t fa[4] = {htobe32(0x55667788), htobe32(0xddeeff00), 0, 0};
	add_remote(&r);
	add(&r, fa, sizeof fa);
	add_data(&r, 4);
	assert_int_equal(mrw_wqe_masked_fetch_add_32(s.bytes, 3, qpn, false, remote, rkey, local, lkey, 0x55667788, 0xddeeff00), 1);
	same(&s, &r, 4);

	s = stale();
	r = begin(3, true, MLX5_OPCODE_ATOMIC_MASKED_CS, 8, 4);
	uint32_t cs[4] = {htobe32(0x11), htobe32(0x22), htobe32(0x33), htobe32(0x44)};
	add_remote(&r);
	add(&r, cs, sizeof cs);
	add_data(&r, 4);
	assert_int_equal(mrw_wqe_masked_compare_swap_32(s.bytes, 3, qpn, true, remote, rkey, local, lkey, 0x22, 0x11, 0x44, 0x33), 1);
	same(&s, &r, 4);

	s = stale();
	r = begin(0xffff, true, MLX5_OPCODE_ATOMIC_MASKED_CS, 9, 5);
	add_remote(&r);
	add_64(&r, y, x);
	add_64(&r, v, u);
	add_data(&r, 8);
	assert_int_equal(mrw_wqe_masked_compare_swap(s.bytes, s.bytes + 64, 0xffff, qpn, true, remote, rkey, local, lkey, x, y, u, v), 2);
	same(&s, &r, 5);

	/* At the ring's end the second half lies elsewhere. */
	struct slots end = stale();
	mrw_wqe_masked_compare_swap(end.bytes + 64, end.bytes, 0xffff, qpn, true, remote, rkey, local, lkey, x, y, u, v);
	assert_memory_equal(end.bytes + 64, s.bytes, 64);
	assert_memory_equal(end.bytes, s.bytes + 64, 64);
}

static void entries(void **state)
{
	(void)state;
	_Alignas(64) union {
		struct mlx5_cqe64 good;
		struct mlx5_err_cqe bad;
		uint8_t bytes[MRW_CQE_BYTES];
	} e;
	assert_int_equal(sizeof e.good, MRW_CQE_BYTES);
	memset(&e, STALE, sizeof e);
	e.good.wqe_counter = htobe16(0xfedc);
	e.good.op_own = MLX5_CQE_REQ << 4 | 1;
	uint32_t tail = mrw_cqe_tail(e.bytes);
	assert_int_equal(mrw_cqe_peek(e.bytes), tail);
	assert_int_equal(mrw_cqe_opcode(tail), MRW_CQE_REQUEST);
	assert_int_equal(mrw_cqe_counter(tail), 0xfedc);
	assert_false(mrw_cqe_is_error(tail));

	memset(&e, STALE, sizeof e);
	e.bad.wqe_counter = htobe16(0x0102);
	e.bad.syndrome = MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR;
	e.bad.vendor_err_synd = 0x88;
	e.bad.op_own = MLX5_CQE_REQ_ERR << 4;
	tail = mrw_cqe_tail(e.bytes);
	assert_true(mrw_cqe_is_error(tail));
	assert_int_equal(mrw_cqe_counter(tail), 0x0102);
	assert_int_equal(mrw_cqe_syndromes(e.bytes), 0x8813);
	e.bad.op_own = MLX5_CQE_RESP_ERR << 4;
	assert_true(mrw_cqe_is_error(mrw_cqe_tail(e.bytes)));

	/* The owner bit turns with each pass; the invalid opcode is never there. */
	for (uint64_t at = 0; at < 24; at++)
		for (uint8_t owner = 0; owner < 2; owner++) {
			e.good.op_own = (uint8_t)(MLX5_CQE_REQ << 4 | owner);
			assert_int_equal(mrw_cqe_arrived(mrw_cqe_tail(e.bytes), at, 8), owner == (at / 8 & 1));
			e.good.op_own = (uint8_t)(MLX5_CQE_INVALID << 4 | owner);
			assert_false(mrw_cqe_arrived(mrw_cqe_tail(e.bytes), at, 8));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_read_nop_dump),
		cmocka_unit_test(inline_of_each_length),
		cmocka_unit_test(atomics),
		cmocka_unit_test(entries),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
