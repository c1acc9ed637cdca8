/* SPDX-License-Identifier: Apache-2.0 */
/* Loading and listing. Start-up only: allocates. */
#include "catalog_rule.h"
#include "text_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* src/catalog/catalog.tbl, compiled in (cmake/CsEmbed.cmake). */
extern const unsigned char cs_catalog_table[];
extern const size_t cs_catalog_table_bytes;

static int
load_user_file(struct cs_catalog *catalog, const char *path, char *complaint, size_t complaint_bytes)
{
	char *text;
	size_t length = 0;
	int rc = cs_text_file_read(path, &text, &length);

	if (rc != 0) {
		(void)snprintf(complaint, complaint_bytes, "%s: cannot read the file: %s", path,
			cs_text_file_error(rc));
		return rc;
	}
	rc = cs_catalog_parse(catalog, text, length, path, complaint, complaint_bytes);
	free(text);
	return rc;
}

int
cs_catalog_load(const char *user_file, struct cs_catalog **catalog, char *complaint, size_t complaint_bytes)
{
	struct cs_catalog *loaded = calloc(1, sizeof(*loaded));
	int user_rc = 0;
	int rc;

	*catalog = NULL;
	if (complaint_bytes > 0)
		complaint[0] = '\0';
	if (loaded == NULL)
		return -ENOMEM;
	if (user_file != NULL && user_file[0] != '\0')
		user_rc = load_user_file(loaded, user_file, complaint, complaint_bytes);
	if (user_rc == -ENOMEM) {
		cs_catalog_destroy(loaded);
		return -ENOMEM;
	}
	rc = cs_catalog_parse(loaded, (const char *)cs_catalog_table, cs_catalog_table_bytes, "built-in",
		user_rc == 0 ? complaint : NULL, user_rc == 0 ? complaint_bytes : 0);
	if (rc != 0) {
		cs_catalog_destroy(loaded);
		return rc;
	}
	for (size_t i = 0; i < loaded->rule_count; i++) {
		loaded->rules[i].rule_id = (uint32_t)i + 1;
		loaded->rules[i].layouts = loaded->layouts + loaded->rules[i].first_layout;
	}
	*catalog = loaded;
	return user_rc;
}

void
cs_catalog_destroy(struct cs_catalog *catalog)
{
	struct cs_text_block *block;

	if (catalog == NULL)
		return;
	while ((block = catalog->texts) != NULL) {
		catalog->texts = block->next;
		free(block);
	}
	free(catalog->layouts);
	free(catalog->rules);
	free(catalog);
}

size_t
cs_catalog_rule_count(const struct cs_catalog *catalog)
{
	return catalog->rule_count;
}

int
cs_catalog_rule_describe(const struct cs_catalog *catalog, size_t index, struct cs_catalog_rule_text *text)
{
	const struct cs_catalog_rule *rule;

	if (index >= catalog->rule_count)
		return -EINVAL;
	rule = &catalog->rules[index];
	*text = (struct cs_catalog_rule_text){
		.id = rule->id,
		.pattern = rule->pattern,
		.size = rule->size,
		.origin = rule->origin,
		.line = rule->line,
		.match = rule->base,
	};
	text->match.rule = rule->ignore ? NULL : rule;
	text->match.rule_id = rule->ignore ? 0 : rule->rule_id;
	if (rule->ignore)
		text->match.kind = CS_CATALOG_NONE;
	if (rule->fused)
		text->match.label_flags |= CS_LABEL_FUSED;
	return 0;
}
