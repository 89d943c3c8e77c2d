/* cqe.h - completion queue entries as a ConnectX writes them: 64 bytes, big endian; the last word lands last.
 *
 * In GPU memory entries arrive as flags in the arena do: as writes over PCIe into L2, behind all that the NIC wrote there before. Loads of system
 * scope see them.
 *
 * Two forms. Collapsed: one entry, overwritten by each completion; its counter says how far the queue is. With ownership: a ring; bit 0
 * of an entry's last byte changes with each pass (0 in the first), and entries never written hold the invalid opcode. */
#ifndef MRW_CQE_H
#define MRW_CQE_H

#include "big_endian.h"

#include "device/order.h"

#define MRW_CQE_BYTES 64u
#define MRW_CQE_ERROR_AT 0x34u /* ..., vendor syndrome, syndrome */
#define MRW_CQE_TAIL_AT 0x3cu  /* WQEBB counter (16 bits), signature, opcode << 4 | owner */

enum mrw_cqe_opcode {
	MRW_CQE_REQUEST = 0x0,
	MRW_CQE_REQUEST_ERROR = 0xd,
	MRW_CQE_RESPONSE_ERROR = 0xe,
	MRW_CQE_INVALID = 0xf
};

MRW_DEV const uint32_t *mrw_cqe_word(const uint8_t *cqe, uint32_t at)
{
	return (const uint32_t *)(const void *)(cqe + at);
}

/* The last word, without any order: for polling. */
MRW_DEV uint32_t mrw_cqe_peek(const uint8_t *cqe)
{
	return mrw_be32(mrw_load_relaxed_32(mrw_cqe_word(cqe, MRW_CQE_TAIL_AT)));
}

/* The last word, and behind it the rest of the entry and what the NIC did before. Partner: the NIC's write of it. */
MRW_DEV uint32_t mrw_cqe_tail(const uint8_t *cqe)
{
	return mrw_be32(mrw_observe_32(mrw_cqe_word(cqe, MRW_CQE_TAIL_AT)));
}

MRW_DEV uint32_t mrw_cqe_opcode(uint32_t tail)
{
	return tail >> 4 & 0xf;
}

/* First WQEBB of the completed request, & 0xffff. */
MRW_DEV uint32_t mrw_cqe_counter(uint32_t tail)
{
	return tail >> 16;
}

MRW_DEV bool mrw_cqe_is_error(uint32_t tail)
{
	return mrw_cqe_opcode(tail) == MRW_CQE_REQUEST_ERROR || mrw_cqe_opcode(tail) == MRW_CQE_RESPONSE_ERROR;
}

/* With ownership: entry number at (running freely) of a ring of slots entries is there. */
MRW_DEV bool mrw_cqe_arrived(uint32_t tail, uint64_t at, uint32_t slots)
{
	return mrw_cqe_opcode(tail) != MRW_CQE_INVALID && (tail & 1) == ((at & slots) != 0);
}

/* Of an error: syndrome | vendor syndrome << 8. Call mrw_cqe_tail() first. */
MRW_DEV uint32_t mrw_cqe_syndromes(const uint8_t *cqe)
{
	return mrw_be32(mrw_load_relaxed_32(mrw_cqe_word(cqe, MRW_CQE_ERROR_AT))) & 0xffff;
}

#endif
