/* devices.h - the RDMA devices of this machine, and choosing among them by name. */
#ifndef MRW_DEVICES_H
#define MRW_DEVICES_H

#include "verbs.h"

enum { MRW_NAMES_BYTES = 256 };

struct mrw_devices {
	const struct mrw_verbs *verbs;
	struct ibv_device **devices;
	uint32_t count;
};

/* Loads the libraries and lists. No devices is no error. */
enum marrow_status mrw_devices_open(struct mrw_devices *c);
void mrw_devices_close(struct mrw_devices *c);
const char *mrw_devices_name(const struct mrw_devices *c, uint32_t i);
/* "mlx5_0, mlx5_1", "none". */
const char *mrw_devices_names(const struct mrw_devices *c, char text[MRW_NAMES_BYTES]);
/* Counts the devices that names admits; the one of that index, if there is one, goes to *device. */
enum marrow_status mrw_devices_select(const struct mrw_devices *c, const char *names, uint32_t index, uint32_t *count,
				      uint32_t *device);
/* First active port; 0: none. */
uint32_t mrw_active_port(const struct mrw_verbs *v, struct ibv_context *context);
/* What to do about a device that could not be opened: "" or "; ...". */
const char *mrw_open_advice(int error);

#endif
