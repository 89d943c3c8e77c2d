/* boot_id.h - what a unique id holds, and the listening sockets that wait in this process for a root. */
#ifndef MRW_BOOT_ID_H
#define MRW_BOOT_ID_H

#include "boot_socket.h"

enum {
	MRW_BOOT_WIRE_VERSION = 5,
	MRW_BOOT_KEY_BYTES = 16,
	MRW_BOOT_ID_ADDRS = 3
};

/* Wire format of struct marrow_unique_id. Everything up to and including naddrs_le keeps its place in all versions. */
struct mrw_boot_id {
	uint8_t magic[8];
	uint32_t version_le;
	uint32_t flags_le;
	uint8_t key[MRW_BOOT_KEY_BYTES];
	uint32_t naddrs_le;
	struct mrw_addr addrs[MRW_BOOT_ID_ADDRS]; /* of the root, to be tried in order */
	uint8_t reserved[24];
	uint32_t checksum_le[2]; /* low, high word of FNV-1a over what precedes */
};
_Static_assert(sizeof(struct mrw_boot_id) == 128, "struct mrw_boot_id is a wire format");

/* The root may not listen yet: a refused connection is no verdict. */
enum { MRW_BOOT_ID_ENV = 1 };

/* MARROW_INVALID_ARGUMENT unless it is one of ours and whole. The version is left to the root, which tells everybody. */
enum marrow_status mrw_boot_id_decode(struct mrw_boot_id *id, const struct marrow_unique_id *bytes);
/* Writes an id of naddrs addresses. */
void mrw_boot_id_encode(struct marrow_unique_id *bytes, struct mrw_boot_id *id, uint32_t flags, uint32_t naddrs);
/* The key under which the ranks of a communicator meet again, from the key under which they met. */
void mrw_boot_id_derive(uint8_t key[MRW_BOOT_KEY_BYTES], const uint8_t from[MRW_BOOT_KEY_BYTES]);
/* Puts a listening socket behind the key. Takes fd over, also on failure. */
enum marrow_status mrw_boot_id_offer(const uint8_t key[MRW_BOOT_KEY_BYTES], int fd, const struct mrw_addr *bound);
/* Takes the listening socket behind the key if it waits in this process. True: the caller is the root and closes *fd. */
bool mrw_boot_id_claim(const uint8_t key[MRW_BOOT_KEY_BYTES], int *fd, struct mrw_addr *bound);
/* The address to listen on: of the interface ifname names, else of the first non-loopback one that is up, else loopback.
 * The port is 0. */
enum marrow_status mrw_boot_id_choose(struct mrw_addr *addr, const char *ifname);
enum marrow_status mrw_boot_id_random(void *bytes, size_t count);

/* The version this thread's ranks speak, normally MRW_BOOT_WIRE_VERSION; tests set another. */
uint32_t mrw_boot_wire_version(void);
void mrw_boot_set_wire_version_for_test(uint32_t version);

#endif
