/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refuse ERRNO SYSCALL[,SYSCALL...] COMMAND [ARGUMENT...]
 *
 * Executes a command under a seccomp filter that answers these system calls with ERRNO (EPERM, ENOSYS, ...),
 * as the filters of container runtimes do. Exit status 77: this kernel allows no filter.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SKIPPED   77
#define CALLS_MAX 16

static const struct {
	const char *name;
	int number;
} calls[] = {
	{"memfd_create", SYS_memfd_create},
	{"renameat2", SYS_renameat2},
	{"linkat", SYS_linkat},
	{"fallocate", SYS_fallocate},
	{"clone3", SYS_clone3},
	{"openat2", SYS_openat2},
	{"statx", SYS_statx},
	{"prctl", SYS_prctl},
	{"membarrier", SYS_membarrier},
	{"sched_setscheduler", SYS_sched_setscheduler},
};

static const struct {
	const char *name;
	unsigned int number;
} errors[] = {{"EPERM", EPERM}, {"ENOSYS", ENOSYS}, {"EACCES", EACCES}, {"EINVAL", EINVAL}};

static int
number_of_call(const char *name)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strcmp(calls[i].name, name) == 0)
			return calls[i].number;
	fprintf(stderr, "refuse: no system call %s\n", name);
	exit(2);
}

static unsigned int
number_of_error(const char *name)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (strcmp(errors[i].name, name) == 0)
			return errors[i].number;
	fprintf(stderr, "refuse: no error %s\n", name);
	exit(2);
}

static void
install(char *names, unsigned int error)
{
	struct sock_filter filter[2 + 2 * CALLS_MAX];
	struct sock_fprog program = {.filter = filter};
	unsigned short used = 0, count = 0;
	char *rest = NULL;

	filter[used++] =
		(struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (char *name = strtok_r(names, ",", &rest); name && count < CALLS_MAX;
		name = strtok_r(NULL, ",", &rest), count++) {
		filter[used++] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)number_of_call(name), 0, 1);
		filter[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error);
	}
	filter[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = used;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		exit(SKIPPED);
}

int
main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	install(argv[2], number_of_error(argv[1]));
	execvp(argv[3], argv + 3);
	perror(argv[3]);
	return 2;
}
