//go:build ignore

// memstress holds memory, for Chaos Mesh's daemon: each of its workers fills so much with a pattern and sleeps until it is
// killed. --size is a number with the unit B, KB, MB, GB (powers of 1024; bytes without one) or %, of the machine's memory.
//
//	memStress --workers N --size SIZE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t bytes_of(const char *text) {
	char *unit;
	double n = strtod(text, &unit);
	if (!strcmp(unit, "%")) return n / 100 * sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
	const char *units[] = {"B", "KB", "MB", "GB"};
	for (int i = 0; i < 4; i++, n *= 1024)
		if (!*unit || !strcasecmp(unit, units[i])) return n;
	return 0;
}

int main(int argc, char **argv) {
	int workers = 1;
	size_t size = 0;
	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--workers")) workers = atoi(argv[i + 1]);
		if (!strcmp(argv[i], "--size")) size = bytes_of(argv[i + 1]);
	}
	if (workers < 1 || !size) {
		fprintf(stderr, "memStress: --workers must be at least 1, and --size like 100MB or 10%%\n");
		return 125;
	}
	for (int i = 0; i < workers; i++) {
		pid_t child = fork();
		if (child < 0) return 1;
		if (child > 0) continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		void *held = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (held == MAP_FAILED) _exit(1);
		memset(held, 0xa5, size);
		for (;;) pause();
	}
	int failed = 0, status;
	while (wait(&status) > 0) failed |= status;
	return failed != 0;
}
