/* sysfs.h - the files below /sys/class that libibverbs and libmlx5 read (found through SYSFS_PATH).
 *
 * <directory>/sysfs/<host id> shows the NICs of one host, <directory>/sysfs/+all those of all hosts, for a process that
 * emulates several. Devices are mlx5_0, mlx5_1, ... in each; uverbsN has the card's number in the fabric. node_desc says whose a NIC
 * is: "softnic host=<host id> nic=<number within the host>". */
#ifndef SN_SYSFS_H
#define SN_SYSFS_H

#define SN_SYSFS_ALL "+all"

struct sn_fabric;

/* Writes all trees. 0, or -1 with a message printed. */
int sn_sysfs_make(const struct sn_fabric *fabric, const char *directory);
/* Removes a directory with all that is in it; no complaint if there is none. */
void sn_sysfs_remove(const char *directory);

#endif
