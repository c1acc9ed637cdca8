/* SPDX-License-Identifier: Apache-2.0 */
#include "identity.h"

#include "log.h"
#include "nvml.h"
#include "proc_file.h"
#include "public_environment.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longer names are looked at by their beginning, and left out. */
#define NAME_BYTES 256

static void
append_word(char *text, size_t text_bytes, const char *word)
{
	size_t used = strlen(text);

	snprintf(text + used, text_bytes - used, "%s%s", used ? " " : "", word);
}

/* A program that sets its title has the title for its first word, maybe with all its arguments in it. What
 * follows a space stays as long as it is neither an option, nor an assignment, nor looks like a secret. */
static void
cut_title(char *title)
{
	for (char *space = strchr(title, ' '); space; space = strchr(space + 1, ' ')) {
		char part[256];

		snprintf(part, sizeof(part), "%.*s", (int)strcspn(space + 1, " "), space + 1);
		if (part[0] == '-' || strchr(part, '=') || cs_public_value_looks_secret(part)) {
			*space = '\0';
			return;
		}
	}
}

void
cs_identity_command_line(const char *words, size_t words_bytes, char *text, size_t text_bytes)
{
	size_t length = strnlen(words, words_bytes);
	const char *slash;
	char word[256];

	text[0] = '\0';
	if (length == 0)
		return;
	snprintf(word, sizeof(word), "%.*s", (int)length, words);
	cut_title(word);
	slash = strrchr(word, '/');
	append_word(text, text_bytes, slash ? slash + 1 : word);
	/* The word after the program is the script; an interpreter's flags that take no value may come
	 * between, and "-m NAME" names a module. After any other option everything may be its value. */
	for (size_t at = length + 1; at < words_bytes; at += length + 1) {
		length = strnlen(words + at, words_bytes - at);
		snprintf(word, sizeof(word), "%.*s", (int)length, words + at);
		if (strcmp(word, "-m") == 0) {
			append_word(text, text_bytes, word);
			continue;
		}
		if (word[0] == '-' && word[1] && strspn(word + 1, "uOBEsSIvdbq") == strlen(word + 1))
			continue;
		if (word[0] != '-' && !strchr(word, '=') && !cs_public_value_looks_secret(word))
			append_word(text, text_bytes, word);
		return;
	}
}

/* -- filling --------------------------------------------------------------------------------------------- */

static void
fill_names(struct cs_segment_writer *writer)
{
	char text[256], words[1024];
	int length;

	length = cs_proc_file_read("/proc/self/comm", text, sizeof(text));
	if (length > 0 && text[length - 1] == '\n')
		text[length - 1] = '\0';
	cs_segment_writer_text(writer, CS_TEXT_COMM, text);
	length = cs_proc_file_read("/proc/self/cmdline", words, sizeof(words));
	cs_identity_command_line(words, length > 0 ? (size_t)length : 0, text, sizeof(text));
	cs_segment_writer_text(writer, CS_TEXT_COMMAND_LINE, text);
}

static void
fill_versions(const struct cs_instance *instance, struct cs_segment_writer *writer)
{
	struct cs_nvml *nvml = cs_nvml_open();
	char text[64];
	int version = 0;

	if (instance->cupti.driver_get_version(&version) == CUDA_SUCCESS) {
		snprintf(text, sizeof(text), "%d.%d", version / 1000, version % 1000 / 10);
		cs_segment_writer_text(writer, CS_TEXT_CUDA_DRIVER, text);
	}
	snprintf(text, sizeof(text), "%u", instance->cupti.version);
	cs_segment_writer_text(writer, CS_TEXT_CUPTI, text);
	cs_segment_writer_text(writer, CS_TEXT_CUPTI_PATH, instance->cupti.path);
	cs_nvml_driver_version(nvml, text, sizeof(text));
	cs_segment_writer_text(writer, CS_TEXT_DRIVER, text);
	cs_nvml_close(nvml);
}

/* What is published, copied at start-up: later the host may be changing its environment, and /proc's copy of
 * it is overwritten by programs that set their title (vLLM's workers do). */
static struct {
	struct cs_environment entries[CS_ENVIRONMENT_MAX];
	uint32_t count;
	uint32_t left_out; /* allowed, but of a name too long for an entry, or after the last entry */
	char pod_namespace[64], pod_name[64];
} kept;

static void
keep_variable(const char *name, const char *value)
{
	struct cs_environment *entry = &kept.entries[kept.count];

	if (!cs_public_environment_allowed(name, value))
		return;
	/* A name that is cut would be another variable's. */
	if (kept.count == CS_ENVIRONMENT_MAX || strlen(name) >= sizeof(entry->name)) {
		kept.left_out++;
		return;
	}
	snprintf(entry->name, sizeof(entry->name), "%.63s", name);
	snprintf(entry->value, sizeof(entry->value), "%.127s", value);
	kept.count++;
}

void
cs_identity_keep_environment(char *const *envp)
{
	for (; envp && *envp; envp++) {
		const char *equals = strchr(*envp, '=');
		char name[NAME_BYTES];

		if (!equals)
			continue;
		snprintf(name, sizeof(name), "%.*s",
			equals - *envp < NAME_BYTES ? (int)(equals - *envp) : NAME_BYTES - 1, *envp);
		if (strcmp(name, "POD_NAMESPACE") == 0)
			snprintf(kept.pod_namespace, sizeof(kept.pod_namespace), "%.63s", equals + 1);
		else if (strcmp(name, "POD_NAME") == 0)
			snprintf(kept.pod_name, sizeof(kept.pod_name), "%.63s", equals + 1);
		else
			keep_variable(name, equals + 1);
	}
}

static void
fill_environment(struct cs_segment_writer *writer)
{
	if (kept.left_out > 0)
		cs_log_info("Variables are not published: names of %zu bytes and more, or more than %u "
			    "variables count=%" PRIu32,
			sizeof(kept.entries[0].name), CS_ENVIRONMENT_MAX, kept.left_out);
	for (uint32_t i = 0; i < kept.count; i++)
		cs_segment_writer_environment(writer, kept.entries[i].name, kept.entries[i].value);
}

static void
fill_pod(struct cs_segment_writer *writer)
{
	char pod[sizeof(kept.pod_namespace) + sizeof(kept.pod_name) + 1];

	if (!kept.pod_name[0])
		return;
	snprintf(pod, sizeof(pod), "%s%s%s", kept.pod_namespace, kept.pod_namespace[0] ? "/" : "",
		kept.pod_name);
	cs_segment_writer_text(writer, CS_TEXT_POD, pod);
}

void
cs_identity_fill_names(struct cs_segment_writer *writer)
{
	fill_names(writer);
	fill_pod(writer);
}

void
cs_identity_fill_process(struct cs_instance *instance, struct cs_segment_writer *writer)
{
	cs_identity_fill_names(writer);
	fill_versions(instance, writer);
	fill_environment(writer);
}

static void
fill_from_driver(const struct cs_cupti_api *cupti, CUdevice device, struct cs_gpu *gpu)
{
	CUuuid uuid;
	size_t bytes = 0;
	int major = 0, minor = 0, count = 0;

	if (cupti->device_get_uuid && cupti->device_get_uuid(&uuid, device) == CUDA_SUCCESS)
		memcpy(gpu->uuid, uuid.bytes, sizeof(gpu->uuid));
	if (cupti->device_get_name(gpu->name, sizeof(gpu->name), device) != CUDA_SUCCESS)
		gpu->name[0] = '\0';
	gpu->name[sizeof(gpu->name) - 1] = '\0';
	if (cupti->device_total_memory(&bytes, device) == CUDA_SUCCESS)
		gpu->memory_bytes = bytes;
	if (cupti->device_get_attribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) ==
		CUDA_SUCCESS)
		gpu->multiprocessors = (uint32_t)count;
	if (cupti->device_get_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) ==
			CUDA_SUCCESS &&
		cupti->device_get_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) ==
			CUDA_SUCCESS)
		gpu->compute_capability = (uint32_t)(major * 10 + minor);
}

int
cs_identity_register_gpu(
	struct cs_instance *instance, struct cs_segment_writer *writer, uint32_t device, uint32_t context_id)
{
	struct cs_gpu gpu = {.nvml_index = -1, .cuda_ordinal = (int32_t)device, .context_id = context_id};
	struct cs_nvml *nvml;
	char pci_bus_id[32] = "";

	/* A CUdevice is its ordinal. */
	fill_from_driver(&instance->cupti, (CUdevice)device, &gpu);
	if (instance->cupti.device_get_pci_bus_id(pci_bus_id, sizeof(pci_bus_id), (CUdevice)device) ==
		CUDA_SUCCESS) {
		sscanf(pci_bus_id, "%x:%x:%x", &gpu.pci_domain, &gpu.pci_bus, &gpu.pci_device);
		nvml = cs_nvml_open();
		cs_nvml_fill(nvml, pci_bus_id, &gpu);
		cs_nvml_close(nvml);
	}
	return cs_segment_writer_gpu(writer, &gpu);
}
