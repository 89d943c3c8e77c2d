#include "topo/build.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Does the first kilobyte speak of this element? */
static bool begins_with(const char *bytes, size_t nbytes, const char *tag)
{
	size_t length = strlen(tag);

	for (size_t i = 0; i + length <= nbytes && i < 1024; i++)
		if (memcmp(bytes + i, tag, length) == 0)
			return true;
	return false;
}

bool mrw_topo_parse(struct mrw_topo *topo, const char *bytes, size_t nbytes, struct mrw_topo_error *error)
{
	bool read;

	mrw_topo_begin(topo, error);
	if (nbytes > MRW_TOPO_FILE_BYTES)
		return mrw_topo_refuse(error, "larger than %d bytes", MRW_TOPO_FILE_BYTES);
	if (nbytes > 0 && bytes[0] != '<')
		read = mrw_topo_read_text(topo, bytes, nbytes, error);
	else if (begins_with(bytes, nbytes, "<topology"))
		read = mrw_topo_read_hwloc(topo, bytes, nbytes, error);
	else
		read = mrw_topo_read_nccl(topo, bytes, nbytes, error);
	return read && mrw_topo_finish(topo, error);
}

bool mrw_topo_load(struct mrw_topo *topo, const char *path, struct mrw_topo_error *error)
{
	FILE *file = fopen(path, "rb");
	char *bytes = NULL;
	size_t nbytes = 0, room = 1 << 16;
	bool good = false;

	memset(error, 0, sizeof *error);
	if (file == NULL)
		return mrw_topo_refuse(error, "cannot be opened: %s", strerror(errno));
	/* No size is trusted: pipes and /proc have none. */
	for (;;) {
		char *more = realloc(bytes, room);
		if (more == NULL) {
			mrw_topo_refuse(error, "no memory for %zu bytes", room);
			goto done;
		}
		bytes = more;
		nbytes += fread(bytes + nbytes, 1, room - nbytes, file);
		if (nbytes < room || nbytes > MRW_TOPO_FILE_BYTES)
			break;
		room *= 2;
	}
	if (ferror(file))
		mrw_topo_refuse(error, "cannot be read: %s", strerror(errno));
	else
		good = mrw_topo_parse(topo, bytes, nbytes, error);
done:
	free(bytes);
	fclose(file);
	return good;
}
