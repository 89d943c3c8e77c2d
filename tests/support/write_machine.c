/* write_machine.c - a made-up machine by name, on standard output. Without a name: all names. */
#include <string.h>

#include "support/machines.h"

int main(int argc, char **argv)
{
	for (uint32_t i = 0; i < machines_count; i++) {
		if (argc < 2) {
			puts(machines[i].name);
		} else if (strcmp(machines[i].name, argv[1]) == 0) {
			machines[i].write(stdout);
			return 0;
		}
	}
	return argc >= 2;
}
