/* prm.h - where the fields of mlx5 device commands lie: first bit, width. Commands are big-endian 32-bit words, bit 0 is the
 * highest of the first. Offsets are facts of the device's programming interface, as rdma-core and the kernel's mlx5_ifc.h have them;
 * only what the model reads or answers is here. Use: prm_get(in, PRM_CREATE_QP_UMEM). */
#ifndef SN_PRM_H
#define SN_PRM_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

/* Every command begins with opcode and op_mod, every answer with status and syndrome. */
#define PRM_OPCODE 0x000, 16
#define PRM_OP_MOD 0x030, 16
#define PRM_STATUS 0x000, 8
#define PRM_SYNDROME 0x020, 32
/* Queue pair commands name theirs here, CREATE_* answer the new number here. */
#define PRM_NUMBER 0x048, 24

enum prm_opcode {
	PRM_OP_QUERY_HCA_CAP = 0x100,
	PRM_OP_CREATE_CQ = 0x400,
	PRM_OP_DESTROY_CQ = 0x401,
	PRM_OP_QUERY_CQ = 0x402,
	PRM_OP_CREATE_QP = 0x500,
	PRM_OP_DESTROY_QP = 0x501,
	PRM_OP_RST2INIT_QP = 0x502,
	PRM_OP_INIT2RTR_QP = 0x503,
	PRM_OP_RTR2RTS_QP = 0x504,
	PRM_OP_RTS2RTS_QP = 0x505,
	PRM_OP_2ERR_QP = 0x507,
	PRM_OP_2RST_QP = 0x50a,
	PRM_OP_QUERY_QP = 0x50b,
	PRM_OP_QUERY_ROCE_ADDRESS = 0x760,
};

enum prm_status {
	PRM_STATUS_OK = 0,
	PRM_STATUS_BAD_OP = 0x2,
	PRM_STATUS_BAD_PARAM = 0x3,
	PRM_STATUS_BAD_RESOURCE = 0x5,
	PRM_STATUS_NO_RESOURCES = 0xf,
	PRM_STATUS_BAD_QP_STATE = 0x10,
	PRM_STATUS_BAD_LENGTH = 0x50,
};

/* Bytes of the commands; all QP transitions are as long as CREATE_QP, all answers without context 16. */
enum { PRM_CREATE_CQ_BYTES = 272, PRM_CREATE_QP_BYTES = 272, PRM_SHORT_BYTES = 16, PRM_QUERY_QP_ANSWER_BYTES = 272 };

/* Byte offsets of contexts within commands and answers. */
enum { PRM_CREATE_CQ_CONTEXT = 0x80 / 8, PRM_QP_CONTEXT = 0xc0 / 8, PRM_CAPABILITY = 0x80 / 8 };

#define PRM_CREATE_CQ_UMEM_OFFSET 0x280
#define PRM_CREATE_CQ_UMEM 0x2c0, 32
#define PRM_CREATE_CQ_UMEM_VALID 0x2e0, 1

#define PRM_CREATE_QP_UMEM_OFFSET 0x800
#define PRM_CREATE_QP_UMEM 0x840, 32
#define PRM_CREATE_QP_UMEM_VALID 0x860, 1

/* Completion queue context. */
#define PRM_CQ_RECORD_UMEM_VALID 0x006, 1
#define PRM_CQ_ENTRY_SIZE 0x008, 3
#define PRM_CQ_COLLAPSED 0x00b, 1
#define PRM_CQ_IGNORE_OVERRUN 0x00e, 1
#define PRM_CQ_RECORD_UMEM 0x020, 32
#define PRM_CQ_LOG_SIZE 0x063, 5
#define PRM_CQ_UAR 0x068, 24
#define PRM_CQ_EQN 0x0b8, 8
#define PRM_CQ_RECORD_OFFSET 0x1c0

/* Queue pair context. */
#define PRM_QP_STATE 0x000, 4
#define PRM_QP_SERVICE 0x008, 8
#define PRM_QP_MIGRATION 0x013, 2
#define PRM_QP_PD 0x028, 24
#define PRM_QP_MTU 0x040, 3
#define PRM_QP_LOG_MESSAGE_MAX 0x043, 5
#define PRM_QP_LOG_RQ_SIZE 0x049, 4
#define PRM_QP_LOG_RQ_STRIDE 0x04d, 3
#define PRM_QP_NO_SQ 0x050, 1
#define PRM_QP_LOG_SQ_SIZE 0x051, 4
#define PRM_QP_UAR 0x068, 24
#define PRM_QP_RECORDLESS 0x080, 2
#define PRM_QP_USER_INDEX 0x088, 24
#define PRM_QP_REMOTE_QPN 0x0a8, 24
#define PRM_QP_LOG_READS_OUT 0x388, 3
#define PRM_QP_RETRIES 0x38d, 3
#define PRM_QP_RNR_RETRIES 0x390, 3
#define PRM_QP_NEXT_SEND_PSN 0x3c8, 24
#define PRM_QP_SEND_CQ 0x3e8, 24
#define PRM_QP_LOG_READS_IN 0x488, 3
#define PRM_QP_ATOMIC_MODE 0x48c, 4
#define PRM_QP_REMOTE_READ 0x490, 1
#define PRM_QP_REMOTE_WRITE 0x491, 1
#define PRM_QP_REMOTE_ATOMIC 0x492, 1
#define PRM_QP_MIN_RNR_TIMER 0x4a3, 5
#define PRM_QP_NEXT_RECEIVE_PSN 0x4a8, 24
#define PRM_QP_RECEIVE_CQ 0x4e8, 24
#define PRM_QP_RECORD_OFFSET 0x500
#define PRM_QP_RQ_TYPE 0x565, 3
#define PRM_QP_RECORD_UMEM_VALID 0x683, 1
#define PRM_QP_RECORD_UMEM 0x720, 32

/* Address path: at PRM_QP_PATH bytes of the queue pair context. */
enum { PRM_QP_PATH = 0xc0 / 8, PRM_PATH_GID = 0x80 / 8, PRM_RQ_NONE = 3 };
#define PRM_PATH_LID 0x030, 16
#define PRM_PATH_SOURCE_GID 0x048, 8
#define PRM_PATH_TIMEOUT 0x040, 5
#define PRM_PATH_HOP_LIMIT 0x058, 8
#define PRM_PATH_MAC_HIGH 0x130, 16
#define PRM_PATH_MAC_LOW 0x140, 32
#define PRM_PATH_PORT 0x128, 8

/* General capabilities. */
#define PRM_CAP_CQE_VERSION 0x1fc, 4
#define PRM_CAP_LOG_BLUEFLAME 0x26b, 5

/* QUERY_ROCE_ADDRESS: index asked for; the answer's layout. */
#define PRM_ROCE_INDEX 0x040, 16
enum { PRM_ROCE_GID = 0x80 / 8 };
#define PRM_ROCE_MAC_HIGH 0x110, 16
#define PRM_ROCE_MAC_LOW 0x120, 32
#define PRM_ROCE_VERSION 0x158, 8

static inline uint32_t prm_get(const void *command, unsigned bit, unsigned width)
{
	uint32_t word;

	memcpy(&word, (const uint8_t *)command + bit / 32 * 4, sizeof(word));
	word = be32toh(word) >> (32 - width - bit % 32);
	return width == 32 ? word : word & ((1u << width) - 1);
}

static inline void prm_set(void *command, unsigned bit, unsigned width, uint32_t value)
{
	uint32_t word, shift = 32 - width - bit % 32, mask = (width == 32 ? ~0u : (1u << width) - 1) << shift;
	uint8_t *at = (uint8_t *)command + bit / 32 * 4;

	memcpy(&word, at, sizeof(word));
	word = htobe32((be32toh(word) & ~mask) | (value << shift & mask));
	memcpy(at, &word, sizeof(word));
}

static inline uint64_t prm_get64(const void *command, unsigned bit)
{
	uint64_t word;

	memcpy(&word, (const uint8_t *)command + bit / 8, sizeof(word));
	return be64toh(word);
}

static inline void prm_set64(void *command, unsigned bit, uint64_t value)
{
	value = htobe64(value);
	memcpy((uint8_t *)command + bit / 8, &value, sizeof(value));
}

#endif
