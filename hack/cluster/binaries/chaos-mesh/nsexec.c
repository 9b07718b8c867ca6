//go:build ignore

// nsexec enters the namespaces of another process and runs a program there, for Chaos Mesh's daemon:
//
//	nsexec [-m PATH] [-n PATH] [-i PATH] [-p PATH] [-l] -- PROGRAM ARGS...
//
// With -l the program comes from this side of the mount namespace, which is then not entered. A process that enters a PID
// namespace is itself still outside of it, so the program runs in a child, which ends when its parent does.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child;

static void forward(int signal) {
	if (child > 0) kill(child, signal);
}

static int open_namespace(const char *path) {
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		fprintf(stderr, "nsexec: %s: %s\n", path, strerror(errno));
		exit(125);
	}
	return fd;
}

int main(int argc, char **argv) {
	// All are opened before any is entered: afterwards the paths mean something else.
	int mount = -1, network = -1, ipc = -1, pid = -1, local = 0, option;
	while ((option = getopt(argc, argv, "+m:n:i:p:l")) != -1) {
		switch (option) {
		case 'm': mount = open_namespace(optarg); break;
		case 'n': network = open_namespace(optarg); break;
		case 'i': ipc = open_namespace(optarg); break;
		case 'p': pid = open_namespace(optarg); break;
		case 'l': local = 1; break;
		default: return 125;
		}
	}
	if (optind >= argc) {
		fprintf(stderr, "nsexec: no program is given\n");
		return 125;
	}
	struct { int fd, kind; } all[] = {{ipc, CLONE_NEWIPC}, {network, CLONE_NEWNET}, {pid, CLONE_NEWPID}, {local ? -1 : mount, CLONE_NEWNS}};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (all[i].fd >= 0 && setns(all[i].fd, all[i].kind) != 0) {
			fprintf(stderr, "nsexec: setns: %s\n", strerror(errno));
			return 125;
		}
	}
	child = fork();
	if (child < 0) {
		fprintf(stderr, "nsexec: fork: %s\n", strerror(errno));
		return 125;
	}
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execvp(argv[optind], argv + optind);
		fprintf(stderr, "nsexec: %s: %s\n", argv[optind], strerror(errno));
		_exit(127);
	}
	signal(SIGTERM, forward);
	signal(SIGINT, forward);
	int status;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR) return 125;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
