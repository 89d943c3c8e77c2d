/* config.h - struct marrow_config as the caller's header had it. What it and the environment come to: mrw_comm_configure() (comm.h). */
#ifndef MRW_CONFIG_H
#define MRW_CONFIG_H

#include <marrow/marrow.h>

/* *config comes initialised; of an older header only what it has is taken. user may be NULL. */
enum marrow_status mrw_config_copy(struct marrow_config *config, const struct marrow_config *user);

#endif
