//go:build ignore

// pause waits for SIGCONT and then becomes the program that its arguments name: Chaos Mesh's daemon puts a stressor into its
// control group before it begins.
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t go;

static void begin(int signal) {
	(void)signal;
	go = 1;
}

int main(int argc, char **argv) {
	if (argc < 2) return 125;
	signal(SIGCONT, begin);
	while (!go) pause();
	execvp(argv[1], argv + 1);
	return 127;
}
