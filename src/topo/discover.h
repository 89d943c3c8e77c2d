/* discover.h - the parts that discovery is made of. Each adds what it can find to a machine begun and not finished, notes what it
 * could not, and returns false only for contradictions. */
#ifndef MRW_TOPO_DISCOVER_H
#define MRW_TOPO_DISCOVER_H

#include "topo/build.h"

/* CPUs and the PCI tree with its GPUs and NICs, as the running system's hwloc sees it. *found: false in builds without hwloc, and
 * where hwloc itself fails. Uncollapsed. */
bool mrw_topo_find_hwloc(struct mrw_topo *topo, bool *found, struct mrw_topo_error *error);
/* The same from a sysfs tree. Uncollapsed. */
bool mrw_topo_find_sysfs(struct mrw_topo *topo, const char *sysfs, struct mrw_topo_error *error);
/* What sysfs knows of devices already there: ports of NICs (adding further ports), ACS, IOMMU groups, BAR sizes, whether this is a
 * virtual machine. */
bool mrw_topo_find_ports(struct mrw_topo *topo, const char *sysfs, struct mrw_topo_error *error);
void mrw_topo_find_details(struct mrw_topo *topo, const char *sysfs);
/* GPUs' models, UUIDs, NVLinks, MIG slices from the library at path (libnvidia-ml.so.1). GPUs that are in no tree are added. */
bool mrw_topo_find_nvml(struct mrw_topo *topo, const char *path, struct mrw_topo_error *error);
/* CUDA's numbers, peer access and atomics from the library at path (libcuda.so.1). */
bool mrw_topo_find_cuda(struct mrw_topo *topo, const char *path, struct mrw_topo_error *error);

/* All that sysfs alone has to say: the machine is begun and finished here. */
bool mrw_topo_discover_pci(struct mrw_topo *topo, const char *sysfs, struct mrw_topo_error *error);

/* The first line of a file below root, without its end; false: there is none, or it is longer. */
bool mrw_topo_file_line(const char *root, const char *file, char *line, size_t bytes);
/* A PCI device's own link by its files: the lower of its and its port's greatest speeds, its present width. 0 unknown. */
uint32_t mrw_topo_sysfs_mb_s(const char *sysfs, const char *bus, const char *port);
/* "0-3,8" into bits; what does not fit is left out. */
void mrw_topo_core_list(const char *text, uint64_t *cores);

#endif
