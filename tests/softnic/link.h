/* link.h - a wire between two processes, one direction: a ring of packets with one writer and one reader.
 *
 * The writer fills slot[tail & mask] and releases tail; the reader acquires tail, takes the packet, and releases head. Each word has
 * one writer, so a process that dies in the middle leaves a ring that is whole. Only the reader touches its own memory: it is
 * the target of a message that checks keys and moves the bytes. */
#ifndef SN_LINK_H
#define SN_LINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { SN_MTU = 4096, SN_LINK_SLOTS = 16 };

enum sn_packet_kind {
	SN_WRITE = 1,    /* payload; the last of a WRITE_IMM carries the immediate value */
	SN_READ,         /* asks for total bytes */
	SN_ATOMIC,       /* operands */
	SN_ACK,          /* the packet of this psn has been executed */
	SN_READ_DATA,    /* payload at offset; the last one acknowledges */
	SN_ATOMIC_DATA,  /* operand[0] = old value; acknowledges */
	SN_NAK,          /* refused: syndrome */
	SN_RNR,          /* no receive WQE: from psn on again after wait_ns */
	SN_LOST,         /* fell on the floor; a real NIC would hear nothing. The sender waits its timeout and sends from psn on again */
};

/* psn counts packets of a queue pair (24 bits); round counts how often its sender began again, so that answers to packets of an
 * earlier round can be told apart. */
struct sn_packet_head {
	uint8_t kind, opcode, opmod, last;
	uint8_t syndrome, operand_bytes, relaxed, pad;
	uint32_t source_card, source_qpn, card, qpn;
	uint32_t psn, round;
	uint32_t bytes;            /* payload of this packet */
	uint32_t rkey, imm_be;
	uint64_t address;          /* remote address of the whole message */
	uint64_t offset, total;    /* of this packet; of the message */
	uint64_t wait_ns;
	uint64_t operand[4];       /* compare/add, swap/boundary, compare mask, swap mask */
};

struct sn_packet {
	struct sn_packet_head head;
	uint8_t payload[SN_MTU];
};

struct sn_link {
	_Alignas(64) _Atomic uint32_t tail;  /* writer: packets sent */
	_Alignas(64) _Atomic uint32_t head;  /* reader: packets taken */
	_Alignas(64) struct sn_packet slot[SN_LINK_SLOTS];
};

/* Where the next packet goes, or NULL if the ring is full. */
static inline struct sn_packet *sn_link_reserve(struct sn_link *link)
{
	uint32_t tail = __atomic_load_n((uint32_t *)&link->tail, __ATOMIC_RELAXED);

	/* Acquire pairs with sn_link_take's release: the reader is done with the slot. */
	if (tail - __atomic_load_n((uint32_t *)&link->head, __ATOMIC_ACQUIRE) == SN_LINK_SLOTS)
		return NULL;
	return &link->slot[tail % SN_LINK_SLOTS];
}

/* Sends what was written to the reserved place. */
static inline void sn_link_send(struct sn_link *link)
{
	__atomic_store_n((uint32_t *)&link->tail, __atomic_load_n((uint32_t *)&link->tail, __ATOMIC_RELAXED) + 1, __ATOMIC_RELEASE);
}

/* The oldest packet, or NULL. */
static inline struct sn_packet *sn_link_peek(struct sn_link *link)
{
	uint32_t head = __atomic_load_n((uint32_t *)&link->head, __ATOMIC_RELAXED);

	if (head == __atomic_load_n((uint32_t *)&link->tail, __ATOMIC_ACQUIRE))
		return NULL;
	return &link->slot[head % SN_LINK_SLOTS];
}

/* Gives the slot of the peeked packet back. */
static inline void sn_link_take(struct sn_link *link)
{
	__atomic_store_n((uint32_t *)&link->head, __atomic_load_n((uint32_t *)&link->head, __ATOMIC_RELAXED) + 1, __ATOMIC_RELEASE);
}

#endif
