/* prm.h - fields of the device commands that devx.c sends: first bit and width, counted from the command's or context's start. Words are
 * big endian, bit 0 is the top bit of the first. The places are facts of the device's interface, as the kernel's mlx5_ifc.h has them. */
#ifndef MRW_PRM_H
#define MRW_PRM_H

#include "big_endian.h"

struct mrw_prm {
	uint16_t bit, bits;
};

/* X(name, first bit, bits) */
#define MRW_PRM_LIST(X) \
	/* any command; the answer of one */ \
	X(OPCODE, 0x000, 16) \
	X(STATUS, 0x000, 8) \
	X(SYNDROME, 0x020, 32) \
	X(NUMBER, 0x048, 24) /* of a queue: asked for by later commands, answered by the one that makes it */ \
	/* CREATE_CQ */ \
	X(CQ_UMEM_OFFSET, 0x280, 64) \
	X(CQ_UMEM, 0x2c0, 32) \
	X(CQ_UMEM_VALID, 0x2e0, 1) \
	/* CREATE_QP */ \
	X(QP_UMEM_OFFSET, 0x800, 64) \
	X(QP_UMEM, 0x840, 32) \
	X(QP_UMEM_VALID, 0x860, 1) \
	/* completion queue context */ \
	X(CQC_RECORD_UMEM_VALID, 0x006, 1) \
	X(CQC_ENTRY_SIZE, 0x008, 3) \
	X(CQC_COLLAPSED, 0x00b, 1) \
	X(CQC_IGNORE_OVERRUN, 0x00e, 1) \
	X(CQC_RECORD_UMEM, 0x020, 32) \
	X(CQC_LOG_SIZE, 0x063, 5) \
	X(CQC_UAR, 0x068, 24) \
	X(CQC_EQN, 0x0b8, 8) \
	X(CQC_LOG_PAGE_SIZE, 0x0c3, 5) /* in pages of 4 KiB */ \
	X(CQC_RECORD_OFFSET, 0x1c0, 64) \
	/* queue pair context */ \
	X(QPC_SERVICE, 0x008, 8) /* 0: reliable connection */ \
	X(QPC_MIGRATION, 0x013, 2) /* 3: migrated, the normal state */ \
	X(QPC_PD, 0x028, 24) \
	X(QPC_MTU, 0x040, 3) \
	X(QPC_LOG_MESSAGE_MAX, 0x043, 5) \
	X(QPC_LOG_SQ_SIZE, 0x051, 4) \
	X(QPC_UAR, 0x068, 24) \
	X(QPC_USER_INDEX, 0x088, 24) \
	X(QPC_LOG_PAGE_SIZE, 0x0a3, 5) \
	X(QPC_REMOTE_QPN, 0x0a8, 24) \
	X(QPC_LOG_ATOMICS_OUT, 0x388, 3) /* reads and atomics under way */ \
	X(QPC_RETRIES, 0x38d, 3) \
	X(QPC_RNR_RETRIES, 0x390, 3) \
	X(QPC_NEXT_SEND_PSN, 0x3c8, 24) \
	X(QPC_SEND_CQ, 0x3e8, 24) \
	X(QPC_LOG_ATOMICS_IN, 0x488, 3) \
	X(QPC_ATOMIC_MODE, 0x48c, 4) /* 3: up to 8 bytes */ \
	X(QPC_REMOTE_READ, 0x490, 1) \
	X(QPC_REMOTE_WRITE, 0x491, 1) \
	X(QPC_REMOTE_ATOMIC, 0x492, 1) \
	X(QPC_MIN_RNR_TIMER, 0x4a3, 5) \
	X(QPC_NEXT_RECEIVE_PSN, 0x4a8, 24) \
	X(QPC_RECEIVE_CQ, 0x4e8, 24) \
	X(QPC_RECORD_OFFSET, 0x500, 64) \
	X(QPC_RQ_TYPE, 0x565, 3) /* 3: none */ \
	X(QPC_RECORD_UMEM_VALID, 0x683, 1) \
	X(QPC_RECORD_UMEM, 0x720, 32) \
	/* address path */ \
	X(PATH_PKEY_INDEX, 0x010, 16) \
	X(PATH_GRH, 0x028, 1) \
	X(PATH_LID, 0x030, 16) \
	X(PATH_TIMEOUT, 0x040, 5) \
	X(PATH_SOURCE_GID, 0x048, 8) \
	X(PATH_HOP_LIMIT, 0x058, 8) \
	X(PATH_TRAFFIC_CLASS, 0x064, 8) \
	X(PATH_DSCP, 0x10a, 6) \
	X(PATH_UDP_PORT, 0x110, 16) \
	X(PATH_ETHERNET_PRIORITY, 0x121, 3) \
	X(PATH_SERVICE_LEVEL, 0x124, 4) \
	X(PATH_PORT, 0x128, 8) \
	X(PATH_MAC_HIGH, 0x130, 16) \
	X(PATH_MAC_LOW, 0x140, 32)

enum mrw_prm_field {
#define MRW_X(name, bit, bits) MRW_PRM_##name,
	MRW_PRM_LIST(MRW_X)
#undef MRW_X
	MRW_PRM_FIELDS
};

enum mrw_prm_command {
	MRW_PRM_CREATE_CQ = 0x400,
	MRW_PRM_CREATE_QP = 0x500,
	MRW_PRM_RST2INIT_QP = 0x502,
	MRW_PRM_INIT2RTR_QP = 0x503,
	MRW_PRM_RTR2RTS_QP = 0x504,
	MRW_PRM_2ERR_QP = 0x507
};

/* Bytes of commands and answers, and where contexts begin in them. */
enum {
	MRW_PRM_COMMAND_BYTES = 272,
	MRW_PRM_SHORT_BYTES = 16,
	MRW_PRM_CQC_AT = 16,   /* in CREATE_CQ */
	MRW_PRM_QPC_AT = 24,   /* in CREATE_QP and the transitions */
	MRW_PRM_PATH_AT = 24,  /* in the queue pair context */
	MRW_PRM_PATH_GID_AT = 16
};

/* Where the field lies. */
static inline struct mrw_prm mrw_prm_place(enum mrw_prm_field field)
{
	static const struct mrw_prm places[MRW_PRM_FIELDS] = {
#define MRW_X(name, bit, bits) {bit, bits},
		MRW_PRM_LIST(MRW_X)
#undef MRW_X
	};
	return places[field];
}

static inline uint32_t mrw_prm_get(const uint8_t *at, enum mrw_prm_field field)
{
	struct mrw_prm f = mrw_prm_place(field);
	uint32_t word;

	memcpy(&word, at + f.bit / 32 * 4, sizeof word);
	word = mrw_be32(word) >> (32 - f.bits - f.bit % 32);
	return f.bits == 32 ? word : word & ((1u << f.bits) - 1);
}

/* Value must fit; fields of 64 bits begin at a word. */
static inline void mrw_prm_set(uint8_t *at, enum mrw_prm_field field, uint64_t value)
{
	struct mrw_prm f = mrw_prm_place(field);
	uint32_t word, shift = 32u - f.bits - f.bit % 32u, mask;

	at += f.bit / 32 * 4;
	if (f.bits == 64) {
		value = mrw_be64(value);
		memcpy(at, &value, sizeof value);
		return;
	}
	mask = (f.bits == 32 ? ~0u : (1u << f.bits) - 1) << shift;
	memcpy(&word, at, sizeof word);
	word = mrw_be32((mrw_be32(word) & ~mask) | ((uint32_t)value << shift & mask));
	memcpy(at, &word, sizeof word);
}

#endif
