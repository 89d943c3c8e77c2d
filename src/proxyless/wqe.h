/* wqe.h - work requests as a ConnectX reads them: 16-byte segments in slots (WQEBBs) of 64 bytes, big endian.
 *
 * Each writer fills the slot of WQEBB number index and returns how many WQEBBs it took. Every byte of the segments that the NIC reads is
 * written; what a shorter request leaves of its slot is not. Plain stores: mrw_post_ready() makes them visible.
 *
 *   control  opcode modifier << 24 | (index & 0xffff) << 8 | opcode; queue pair << 8 | segments; completion flags; 0
 *   remote   address (8), key, 0
 *   data     bytes, key, address (8); atomics return the old value, host endian, there
 *   inline   bytes | 1 << 31, then the bytes themselves, as they lie in memory
 *   atomic   operands, big endian (the word in memory is host endian)
 *
 * Bytes of one request: 1 to 2^31 - 1; no more than the ports' largest message (1 GiB) is sure to pass. */
#ifndef MRW_WQE_H
#define MRW_WQE_H

#include "big_endian.h"

#include "device/copy.h"

#define MRW_WQEBB_BYTES 64u
#define MRW_INLINE_BYTES 24u /* most that mrw_wqe_write_inline() takes; the segment could hold 28 */

enum mrw_opcode {
	MRW_OPCODE_NOP = 0x00,
	MRW_OPCODE_WRITE = 0x08,
	MRW_OPCODE_READ = 0x10,
	MRW_OPCODE_COMPARE_SWAP = 0x11,
	MRW_OPCODE_FETCH_ADD = 0x12,
	MRW_OPCODE_MASKED_COMPARE_SWAP = 0x14,
	MRW_OPCODE_MASKED_FETCH_ADD = 0x15,
	MRW_OPCODE_DUMP = 0x23
};

/* Opcode modifiers of the masked atomics: the size of the operands. */
#define MRW_MASKED_32 8u
#define MRW_MASKED_64 9u

#define MRW_SIGNAL 0x08u          /* completion queue entry also on success */
#define MRW_INLINE (1u << 31)

/* Segment number i of a slot. */
MRW_DEV void mrw_wqe_segment(uint8_t *slot, uint32_t i, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	struct mrw_vec v;
	v.w[0] = a;
	v.w[1] = b;
	v.w[2] = c;
	v.w[3] = d;
	mrw_store_vec(slot + 16 * i, v, MRW_VEC_BYTES);
}

MRW_DEV void mrw_wqe_control(uint8_t *slot, uint64_t index, uint32_t qpn, bool signal, enum mrw_opcode opcode, uint32_t modifier,
			     uint32_t segments)
{
	mrw_wqe_segment(slot, 0, mrw_be32(modifier << 24 | (uint32_t)(index & 0xffff) << 8 | (uint32_t)opcode), mrw_be32(qpn << 8 | segments),
			mrw_be32(signal ? MRW_SIGNAL : 0), 0);
}

MRW_DEV void mrw_wqe_remote(uint8_t *slot, uint64_t raddr, uint32_t rkey)
{
	mrw_wqe_segment(slot, 1, mrw_be32((uint32_t)(raddr >> 32)), mrw_be32((uint32_t)raddr), mrw_be32(rkey), 0);
}

MRW_DEV void mrw_wqe_data(uint8_t *slot, uint32_t i, uint64_t laddr, uint32_t lkey, uint32_t bytes)
{
	mrw_wqe_segment(slot, i, mrw_be32(bytes), mrw_be32(lkey), mrw_be32((uint32_t)(laddr >> 32)), mrw_be32((uint32_t)laddr));
}

MRW_DEV void mrw_wqe_atomic_64(uint8_t *slot, uint32_t i, uint64_t first, uint64_t second)
{
	mrw_wqe_segment(slot, i, mrw_be32((uint32_t)(first >> 32)), mrw_be32((uint32_t)first), mrw_be32((uint32_t)(second >> 32)),
			mrw_be32((uint32_t)second));
}

/* RDMA write of local memory. */
MRW_DEV uint32_t mrw_wqe_write(uint8_t *slot, uint64_t index, uint32_t qpn, bool signal, uint64_t raddr, uint32_t rkey, uint64_t laddr,
			       uint32_t lkey, uint32_t bytes)
{
	mrw_wqe_control(slot, index, qpn, signal, MRW_OPCODE_WRITE, 0, 3);
	mrw_wqe_remote(slot, raddr, rkey);
	mrw_wqe_data(slot, 2, laddr, lkey, bytes);
	return 1;
}

/* RDMA write of bytes (1 to MRW_INLINE_BYTES) that travel in the request: as many words of data as hold them. */
MRW_DEV uint32_t mrw_wqe_write_inline(uint8_t *slot, uint64_t index, uint32_t qpn, bool signal, uint64_t raddr, uint32_t rkey,
				      const uint64_t *data, uint32_t bytes)
{
	uint64_t second = bytes > 8 ? data[1] : 0, third = bytes > 16 ? data[2] : 0;
	mrw_wqe_control(slot, index, qpn, signal, MRW_OPCODE_WRITE, 0, bytes <= 12 ? 3 : 4);
	mrw_wqe_remote(slot, raddr, rkey);
	mrw_wqe_segment(slot, 2, mrw_be32(bytes | MRW_INLINE), (uint32_t)data[0], (uint32_t)(data[0] >> 32), (uint32_t)second);
	if (bytes > 12)
		mrw_wqe_segment(slot, 3, (uint32_t)(second >> 32), (uint32_t)third, (uint32_t)(third >> 32), 0);
	return 1;
}

/* RDMA write of one word: a flag. */
MRW_DEV uint32_t mrw_wqe_write_word(uint8_t *slot, uint64_t index, uint32_t qpn, bool signal, uint64_t raddr, uint32_t rkey,
				    uint64_t value)
{
	return mrw_wqe_write_inline(slot, index, qpn, signal, raddr, rkey, &value, 8);
}

/* RDMA read into local memory. Its bytes may be invisible to a GPU at its completion; they are not after that of a later dump. */
MRW_DEV uint32_t mrw_wqe_read(uint8_t *slot, uint64_t index, uint32_t qpn, bool signal, uint64_t raddr, uint32_t rkey, uint64_t laddr,
			      uint32_t lkey, uint32_t bytes)
{
	mrw_wqe_control(slot, index, qpn, signal, MRW_OPCODE_READ, 0, 3);
	mrw_wqe_remote(slot, raddr, rkey);
	mrw_wqe_data(slot, 2, laddr, lkey, bytes);
	return 1;
}

/* Atomics on aligned words; the old value goes to laddr. */
MRW_DEV uint32_t mrw_wqe_fetch_add(uint8_t *slot, uint64_t index, uint32_t qpn, bool signal, uint64_t raddr, uint32_t rkey, uint64_t laddr,
				   uint32_t lkey, uint64_t add)
{
	mrw_wqe_control(slot, index, qpn, signal, MRW_OPCODE_FETCH_ADD, 0, 4);
	mrw_wqe_remote(slot, raddr, rkey);
	mrw_wqe_atomic_64(slot, 2, add, 0);
	mrw_wqe_data(slot, 3, laddr, lkey, 8);
	return 1;
}

MRW_DEV uint32_t mrw_wqe_compare_swap(uint8_t *slot, uint64_t index, uint32_t qpn, bool signal, uint64_t raddr, uint32_t rkey,
				      uint64_t laddr, uint32_t lkey, uint64_t compare, uint64_t swap)
{
	mrw_wqe_control(slot, index, qpn, signal, MRW_OPCODE_COMPARE_SWAP, 0, 4);
	mrw_wqe_remote(slot, raddr, rkey);
	mrw_wqe_atomic_64(slot, 2, swap, compare);
	mrw_wqe_data(slot, 3, laddr, lkey, 8);
	return 1;
}

/* Adds field by field: a one in boundary is the top bit of a field, no carry leaves it. boundary 0: one field; all ones: exclusive or. */
MRW_DEV uint32_t mrw_wqe_masked_fetch_add(uint8_t *slot, uint64_t index, uint32_t qpn, bool signal, uint64_t raddr, uint32_t rkey,
					  uint64_t laddr, uint32_t lkey, uint64_t add, uint64_t boundary)
{
	mrw_wqe_control(slot, index, qpn, signal, MRW_OPCODE_MASKED_FETCH_ADD, MRW_MASKED_64, 4);
	mrw_wqe_remote(slot, raddr, rkey);
	mrw_wqe_atomic_64(slot, 2, add, boundary);
	mrw_wqe_data(slot, 3, laddr, lkey, 8);
	return 1;
}

MRW_DEV uint32_t mrw_wqe_masked_fetch_add_32(uint8_t *slot, uint64_t index, uint32_t qpn, bool signal, uint64_t raddr, uint32_t rkey,
					     uint64_t laddr, uint32_t lkey, uint32_t add, uint32_t boundary)
{
	mrw_wqe_control(slot, index, qpn, signal, MRW_OPCODE_MASKED_FETCH_ADD, MRW_MASKED_32, 4);
	mrw_wqe_remote(slot, raddr, rkey);
	mrw_wqe_segment(slot, 2, mrw_be32(add), mrw_be32(boundary), 0, 0);
	mrw_wqe_data(slot, 3, laddr, lkey, 4);
	return 1;
}

/* Where the bits of compare_mask equal compare, those of swap_mask become swap's. */
MRW_DEV uint32_t mrw_wqe_masked_compare_swap_32(uint8_t *slot, uint64_t index, uint32_t qpn, bool signal, uint64_t raddr, uint32_t rkey,
						uint64_t laddr, uint32_t lkey, uint32_t compare, uint32_t swap, uint32_t compare_mask,
						uint32_t swap_mask)
{
	mrw_wqe_control(slot, index, qpn, signal, MRW_OPCODE_MASKED_COMPARE_SWAP, MRW_MASKED_32, 4);
	mrw_wqe_remote(slot, raddr, rkey);
	mrw_wqe_segment(slot, 2, mrw_be32(swap), mrw_be32(compare), mrw_be32(swap_mask), mrw_be32(compare_mask));
	mrw_wqe_data(slot, 3, laddr, lkey, 4);
	return 1;
}

/* The same for 8 bytes takes two WQEBBs; next is the slot of index + 1, which may be the ring's first. */
MRW_DEV uint32_t mrw_wqe_masked_compare_swap(uint8_t *slot, uint8_t *next, uint64_t index, uint32_t qpn, bool signal, uint64_t raddr,
					     uint32_t rkey, uint64_t laddr, uint32_t lkey, uint64_t compare, uint64_t swap,
					     uint64_t compare_mask, uint64_t swap_mask)
{
	mrw_wqe_control(slot, index, qpn, signal, MRW_OPCODE_MASKED_COMPARE_SWAP, MRW_MASKED_64, 5);
	mrw_wqe_remote(slot, raddr, rkey);
	mrw_wqe_atomic_64(slot, 2, swap, compare);
	mrw_wqe_atomic_64(slot, 3, swap_mask, compare_mask);
	mrw_wqe_data(next, 0, laddr, lkey, 8);
	return 2;
}

/* Does nothing, in its turn. */
MRW_DEV uint32_t mrw_wqe_nop(uint8_t *slot, uint64_t index, uint32_t qpn, bool signal)
{
	mrw_wqe_control(slot, index, qpn, signal, MRW_OPCODE_NOP, 0, 1);
	return 1;
}

/* Reads local memory and throws it away: what the NIC wrote there before has arrived once this is complete. */
MRW_DEV uint32_t mrw_wqe_dump(uint8_t *slot, uint64_t index, uint32_t qpn, bool signal, uint64_t laddr, uint32_t lkey, uint32_t bytes)
{
	mrw_wqe_control(slot, index, qpn, signal, MRW_OPCODE_DUMP, 0, 2);
	mrw_wqe_data(slot, 1, laddr, lkey, bytes);
	return 1;
}

#endif
