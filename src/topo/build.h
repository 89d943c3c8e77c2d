/* build.h - a machine while it is put together: every loader adds nodes and links through here, so all are held to the same
 * rules. Each function returns a node number or true, or says what is wrong in error->text (the line there is the caller's) and
 * returns -1 or false. */
#ifndef MRW_TOPO_BUILD_H
#define MRW_TOPO_BUILD_H

#include "topo/topo.h"

/* An empty machine. */
void mrw_topo_begin(struct mrw_topo *topo, struct mrw_topo_error *error);

/* A node below parent (-1: none). bus: a PCI address in any spelling, or "". Refuses a name in use, a parent of a wrong kind, too
 * great a depth, a bandwidth beyond reason, and the one too many. error->line is remembered as the node's. */
int32_t mrw_topo_add(struct mrw_topo *topo, enum mrw_topo_kind kind, const char *name, int32_t parent, const char *bus,
		     uint64_t up_mb_s, struct mrw_topo_error *error);
/* Refuses ends of wrong kinds, a link to itself, a second one of the same pair, and absurd widths. */
bool mrw_topo_add_link(struct mrw_topo *topo, enum mrw_topo_link_kind kind, int32_t a, int32_t b, uint64_t lanes,
		       uint64_t lane_mb_s, struct mrw_topo_error *error);
/* Tells the entry of a node's kind the node's number. */
void mrw_topo_set_node(struct mrw_topo *topo, uint32_t node);
/* For people; further ones than there is room for are dropped. */
void mrw_topo_note(struct mrw_topo *topo, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Drops bridges with a single node below, which moves up and takes over the narrower link: root ports and a switch's downstream
 * ports say nothing about who is near whom. */
void mrw_topo_collapse(struct mrw_topo *topo);
/* Looks at the whole: addresses given twice, MIG slices, what CPUs have between them. Adds the notes about what is unknown. */
bool mrw_topo_finish(struct mrw_topo *topo, struct mrw_topo_error *error);

/* Sets the text; returns false, for return statements. */
bool mrw_topo_refuse(struct mrw_topo_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes dddd:bb:dd.f (domain of four to eight digits) to bus; false: not a PCI address. A missing domain is 0000. */
bool mrw_topo_normal_bus(const char *text, char bus[MRW_TOPO_NAME_BYTES]);
/* 1 to MRW_TOPO_NAME_BYTES - 1 letters, digits or _ . : - */
bool mrw_topo_good_name(const char *name);
/* A decimal number up to max and nothing else. */
bool mrw_topo_number(const char *text, uint64_t max, uint64_t *value);
/* What a PCIe link carries, in MB/s after encoding; 0 for a speed or width that does not exist. */
uint32_t mrw_topo_pcie_mb_s(double giga_transfers, uint64_t width);
/* One NVLink of a GPU of that compute capability, one direction; 0 unknown. */
uint32_t mrw_topo_lane_mb_s(uint32_t sm);

/* The forms, each to a machine begun and not finished. */
bool mrw_topo_read_text(struct mrw_topo *topo, const char *bytes, size_t nbytes, struct mrw_topo_error *error);
bool mrw_topo_read_nccl(struct mrw_topo *topo, const char *bytes, size_t nbytes, struct mrw_topo_error *error);
bool mrw_topo_read_hwloc(struct mrw_topo *topo, const char *bytes, size_t nbytes, struct mrw_topo_error *error);

#endif
