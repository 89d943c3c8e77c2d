/* file.h - descriptors and files of our own. */
#ifndef MRW_FILE_H
#define MRW_FILE_H

#include <stdint.h>

/* Where a program has closed stdin, stdout or stderr, the system gives their numbers to what is opened next, and what is printed goes there. A
 * descriptor as it was opened, -1 with errno included; returns one above these, or -1 with errno and fd closed. Close-on-exec stays. */
int mrw_file_above_stdio(int fd);

/* Reserves bytes for fd. 0 or an errno; never SIGXFSZ, which a file above RLIMIT_FSIZE raises. */
int mrw_file_reserve(int fd, uint64_t bytes);
/* The same, but pages come when they are touched. */
int mrw_file_extend(int fd, uint64_t bytes);

#endif
