/* marrow.h - everything but the MPI helper, which is <marrow/mpi.h>. */
#ifndef MARROW_MARROW_H
#define MARROW_MARROW_H
#include "types.h"
#include "comm.h"
#include "collectives.h"
#include "window.h"
#endif
