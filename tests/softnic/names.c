/* Names of checks and opcodes: for the model, and for the launcher, which has nothing else of it. */
#include "check.h"
#include "wqe.h"

static const struct {
	const char *name, *meaning;
} table[] = {
#define SN_X(id, name, meaning) {name, meaning},
	SN_CHECK_LIST(SN_X)
#undef SN_X
};

const char *sn_check_name(enum sn_check check)
{
	return table[check].name;
}

const char *sn_check_meaning(enum sn_check check)
{
	return table[check].meaning;
}

const char *sn_opcode_name(uint8_t opcode)
{
	switch (opcode) {
	case SN_OP_NOP: return "NOP";
	case SN_OP_WRITE: return "WRITE";
	case SN_OP_WRITE_IMM: return "WRITE_IMM";
	case SN_OP_READ: return "READ";
	case SN_OP_CS: return "CS";
	case SN_OP_FA: return "FA";
	case SN_OP_MASKED_CS: return "MASKED_CS";
	case SN_OP_MASKED_FA: return "MASKED_FA";
	case SN_OP_DUMP: return "DUMP";
	default: return "?";
	}
}
