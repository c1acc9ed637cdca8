/* SPDX-License-Identifier: Apache-2.0 */
#include "library_check.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the driver looks for in the file that CUDA_INJECTION64_PATH names. */
#define ENTRY_POINT "InitializeInjection"

#ifdef __aarch64__
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_X86_64
#endif

/* Far above what such a library has: its symbols take some KiB. */
#define TABLE_BYTES_MAX (64U << 20)

static bool
read_all(int fd, void *bytes, size_t count, uint64_t offset)
{
	return offset <= INT64_MAX && pread(fd, bytes, count, (off_t)offset) == (ssize_t)count;
}

/* A table of the file with a zero behind it; NULL: it has none there, or it is too large to be one. */
static void *
read_table(int fd, uint64_t offset, uint64_t size)
{
	char *table = size && size <= TABLE_BYTES_MAX ? malloc(size + 1) : NULL;

	if (table && !read_all(fd, table, size, offset)) {
		free(table);
		return NULL;
	}
	if (table)
		table[size] = 0;
	return table;
}

static bool
names_entry(const Elf64_Sym *symbol, const char *names, uint64_t names_size)
{
	return symbol->st_shndx != SHN_UNDEF && symbol->st_name < names_size &&
	       strcmp(names + symbol->st_name, ENTRY_POINT) == 0;
}

static bool
table_has_entry(int fd, const Elf64_Shdr *symbols, const Elf64_Shdr *strings)
{
	Elf64_Sym *table = read_table(fd, symbols->sh_offset, symbols->sh_size);
	char *names = read_table(fd, strings->sh_offset, strings->sh_size);
	bool found = false;

	for (size_t i = 0; table && names && i < symbols->sh_size / sizeof(*table) && !found; i++)
		found = names_entry(&table[i], names, strings->sh_size);
	free(names);
	free(table);
	return found;
}

/* In its dynamic symbols, which no stripping takes. */
static bool
has_entry(int fd, const Elf64_Ehdr *header)
{
	uint64_t size = (uint64_t)header->e_shnum * sizeof(Elf64_Shdr);
	Elf64_Shdr *sections =
		header->e_shentsize == sizeof(Elf64_Shdr) ? read_table(fd, header->e_shoff, size) : NULL;
	bool found = false;

	for (size_t i = 0; sections && i < header->e_shnum && !found; i++) {
		if (sections[i].sh_type == SHT_DYNSYM && sections[i].sh_link < header->e_shnum)
			found = table_has_entry(fd, &sections[i], &sections[sections[i].sh_link]);
	}
	free(sections);
	return found;
}

static int
check_file(int fd, const char **complaint)
{
	Elf64_Ehdr header;
	struct stat info;

	if (fstat(fd, &info))
		return -errno;
	if (S_ISDIR(info.st_mode))
		return -EISDIR;
	*complaint = "it is no shared object (ELF)";
	if (!S_ISREG(info.st_mode) || !read_all(fd, &header, sizeof(header), 0) ||
		memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_type != ET_DYN)
		return -ENOEXEC;
	*complaint = "it is for another machine";
	if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
		header.e_machine != MACHINE)
		return -ENOEXEC;
	*complaint = "it is no libcollscope.so, as it has no " ENTRY_POINT;
	if (!has_entry(fd, &header))
		return -ENOEXEC;
	*complaint = NULL;
	return 0;
}

int
cs_library_check(const char *path, const char **complaint)
{
	/* A pipe would wait for its writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int result;

	*complaint = NULL;
	if (fd < 0)
		return -errno;
	result = check_file(fd, complaint);
	close(fd);
	return result;
}
