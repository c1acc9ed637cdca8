/* SPDX-License-Identifier: Apache-2.0 */
#include "instance_double.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char directory[] = "/tmp/collscope-test-XXXXXX";
static struct cs_segment_writer *writer;
static bool hide;
static struct cs_settings settings;

int
instance_double_open(void)
{
	struct cs_segment_options options = {.directory = directory, .ring_slots = 1024, .version = "test"};

	memcpy(directory + sizeof(directory) - 7, "XXXXXX", 6);
	if (mkdtemp(directory) == NULL)
		return -errno;
	hide = false;
	cs_settings_load(&settings, (char *[]){NULL}, NULL, NULL);
	return cs_segment_writer_create(&options, &writer);
}

void
instance_double_close(void)
{
	cs_segment_writer_destroy(writer, true);
	writer = NULL;
	rmdir(directory);
}

void
instance_double_hide(bool hidden)
{
	hide = hidden;
}

struct cs_segment_writer *
cs_injector_borrow_writer(void)
{
	return hide ? NULL : writer;
}

const struct cs_settings *
cs_injector_borrow_settings(void)
{
	return &settings;
}

const char *
cs_injector_library_path(void)
{
	return "/usr/lib/libcollscope.so";
}
