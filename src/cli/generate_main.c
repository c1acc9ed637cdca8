/* SPDX-License-Identifier: Apache-2.0 */
/* collscope-generate WHAT: for the build and scripts/generate-docs; not installed. */
#include "cmd.h"
#include "log.h"
#include "output.h"

int
main(int argc, char **argv)
{
	if (argc != 2 || cs_generate_print(argv[1])) {
		cs_log_error("Usage: collscope-generate bash|commands.scd|environment.scd");
		return cs_output_finish(CS_EXIT_ERROR);
	}
	return cs_output_finish(CS_EXIT_OK);
}
