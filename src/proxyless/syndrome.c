/* syndrome.c - completion errors in words. */
#include "nic.h"

const char *mrw_syndrome_text(uint32_t syndrome)
{
	switch (syndrome) {
	case 0x01:
		return "local length error: the request is longer than the device or the peer allows";
	case 0x02:
		return "local queue pair error: the request is malformed, or was overwritten before it was read";
	case 0x04:
		return "local protection error: the local key does not cover the memory, or the memory was deregistered";
	case 0x05:
		return "flushed: an earlier request of this queue failed, or the queue pair was moved to the error state";
	case 0x06:
		return "memory window error";
	case 0x10:
		return "bad response: the peer answered with what was not asked for";
	case 0x11:
		return "local access error";
	case 0x12:
		return "remote invalid request: the peer's NIC refuses the kind of request or its length or alignment";
	case 0x13:
		return "remote access error: the remote key does not cover the memory, or the peer deregistered it";
	case 0x14:
		return "remote operation error: the peer's NIC could not carry the request out";
	case 0x15:
		return "transport retries exhausted: the peer's process, NIC or path is gone";
	case 0x16:
		return "receiver-not-ready retries exhausted: the peer has posted no receive";
	case 0x22:
		return "remote aborted: the peer gave the request up";
	default:
		return "a completion error that is not known here";
	}
}
